//! Sends under way: what the kernel reads from must stay where it is until it
//! says that it is done, even if the connection is long gone.

use app::{Body, ConnId};

/// One send under way.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) id: ConnId,
    /// What the kernel reads from: one piece, mostly.
    _memory: Memory,
    /// Sent without a copy: the kernel tells when it has let go.
    pub(super) zero_copy: bool,
}

/// Held so that it stays where it is, and not read here.
#[derive(Debug)]
#[expect(dead_code, reason = "the kernel reads it")]
enum Memory {
    One(Body),
    /// Several, and the message that names them.
    Several(Vec<Body>, Box<Message>),
}

/// A message of several pieces.
#[derive(Debug)]
struct Message {
    header: libc::msghdr,
    pieces: Vec<libc::iovec>,
}

impl Sending {
    pub(super) fn one(id: ConnId, body: Body, zero_copy: bool) -> Self {
        Self { id, _memory: Memory::One(body), zero_copy }
    }

    /// Several pieces that lie in `bodies`; with the message's address, which
    /// holds until this is dropped.
    pub(super) fn several(
        id: ConnId,
        bodies: Vec<Body>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> (Self, *const libc::msghdr) {
        let pieces = pieces
            .iter()
            .map(|piece| libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() })
            .collect();
        // SAFETY: a message header of zeros is one without address, pieces or
        // control data.
        let header = unsafe { core::mem::zeroed::<libc::msghdr>() };
        let mut message = Box::new(Message { header, pieces });
        message.header.msg_iov = message.pieces.as_mut_ptr();
        message.header.msg_iovlen = message.pieces.len() as _;
        let address = &raw const message.header;
        (Self { id, _memory: Memory::Several(bodies, message), zero_copy: false }, address)
    }
}

/// All of them, by index.
#[derive(Debug, Default)]
pub(super) struct Sends {
    all: Vec<Option<Sending>>,
    free: Vec<u32>,
}

impl Sends {
    #[inline]
    pub(super) fn put(&mut self, sending: Sending) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.all[index as usize] = Some(sending);
                index
            }
            None => {
                self.all.push(Some(sending));
                self.all.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Sending> {
        self.all.get(index as usize)?.as_ref()
    }

    /// The kernel is done with it.
    #[inline]
    pub(super) fn release(&mut self, index: u32) {
        if self.all.get_mut(index as usize).and_then(Option::take).is_some() {
            self.free.push(index);
        }
    }
}
