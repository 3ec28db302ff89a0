//! Handshake messages after the handshake: split over records and joined in them, within
//! limits.

use crate::alert::Alert;
use crate::suite::TlsVersion;

/// Bytes of a message's header: type and length (RFC 8446 section 4).
const HEADER_LEN: usize = 4;

/// The longest message that is read: a ticket with a certificate in it has some
/// kilobytes.
pub(crate) const MESSAGE_MAX: usize = 16 * 1024;

/// The longest message that is passed over: a ClientHello that asks to renegotiate.
const PASSED_MAX: usize = 64 * 1024;

const HELLO_REQUEST: u8 = 0;
const CLIENT_HELLO: u8 = 1;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

/// Which side of the connection is ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsSide {
    /// It was connected to.
    Server,
    /// It connected.
    Client,
}

/// What a message, now whole, asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Message<'a> {
    /// The peer's next records are under its next keys; whether it wants ours to be.
    KeyUpdate { answer: bool },
    /// What a session is resumed by: the message's body.
    Ticket(&'a [u8]),
    /// To begin a handshake anew.
    Renegotiate,
}

/// Messages, as their bytes arrive.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// What arrived of a message that is not whole; its length is bounded by its header.
    begun: Vec<u8>,
    /// Bytes still to be passed over.
    passes: usize,
}

impl Messages {
    /// Whether a message has begun and is not whole: then nothing else may come (RFC 8446
    /// section 5.1).
    pub(crate) fn is_amid(&self) -> bool {
        !self.begun.is_empty() || self.passes > 0
    }

    /// Takes a record's bytes, and gives `each` the messages that are whole by it.
    /// `rest`: whether bytes of the same record follow.
    pub(crate) fn take(
        &mut self,
        (version, side): (TlsVersion, TlsSide),
        record: &[u8],
        mut each: impl FnMut(Message<'_>, bool) -> Result<(), Alert>,
    ) -> Result<(), Alert> {
        // RFC 8446 section 5.1: a fragment of a message is never empty.
        if record.is_empty() {
            return Err(Alert::UnexpectedMessage);
        }
        let mut rest = record;
        while !rest.is_empty() {
            if self.passes > 0 {
                let passed = self.passes.min(rest.len());
                self.passes -= passed;
                rest = &rest[passed..];
                if self.passes == 0 {
                    each(Message::Renegotiate, !rest.is_empty())?;
                }
                continue;
            }
            let Some(header) = self.fill(HEADER_LEN, &mut rest) else { break };
            let (kind, len) =
                (header[0], usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3]));
            match judge(kind, len, version, side)? {
                Way::Read => {
                    let Some(message) = self.fill(HEADER_LEN + len, &mut rest) else { break };
                    let message = read(kind, &message[HEADER_LEN..])?;
                    each(message, !rest.is_empty())?;
                    self.begun = Vec::new();
                }
                Way::PassOver => {
                    self.begun = Vec::new();
                    self.passes = len;
                    if len == 0 {
                        each(Message::Renegotiate, !rest.is_empty())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The first `len` bytes of the message, once they are there.
    fn fill(&mut self, len: usize, rest: &mut &[u8]) -> Option<&[u8]> {
        let wanted = len.saturating_sub(self.begun.len()).min(rest.len());
        let (here, behind) = rest.split_at(wanted);
        self.begun.extend_from_slice(here);
        *rest = behind;
        self.begun.get(..len)
    }
}

enum Way {
    Read,
    PassOver,
}

/// Whether a message may come at all: what may not is refused by its header, before
/// anything of it is kept.
fn judge(kind: u8, len: usize, version: TlsVersion, side: TlsSide) -> Result<Way, Alert> {
    let most = match (version, side, kind) {
        (TlsVersion::V13, _, KEY_UPDATE) => return if len == 1 { Ok(Way::Read) } else { Err(Alert::DecodeError) },
        (TlsVersion::V13, TlsSide::Client, NEW_SESSION_TICKET) => MESSAGE_MAX,
        (TlsVersion::V12, TlsSide::Client, HELLO_REQUEST) => 0,
        (TlsVersion::V12, TlsSide::Server, CLIENT_HELLO) => PASSED_MAX,
        // Certificates are asked for during the handshake, or not at all: we do not offer
        // to be asked later (RFC 8446 section 4.6.2).
        _ => return Err(Alert::UnexpectedMessage),
    };
    if len > most {
        return Err(Alert::DecodeError);
    }
    Ok(if version == TlsVersion::V13 { Way::Read } else { Way::PassOver })
}

fn read(kind: u8, body: &[u8]) -> Result<Message<'_>, Alert> {
    match (kind, body) {
        (KEY_UPDATE, [0]) => Ok(Message::KeyUpdate { answer: false }),
        (KEY_UPDATE, [1]) => Ok(Message::KeyUpdate { answer: true }),
        (KEY_UPDATE, _) => Err(Alert::IllegalParameter),
        _ => Ok(Message::Ticket(body)),
    }
}
