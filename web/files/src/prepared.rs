//! Responses that are kept with their content, and whose content that is.

use crate::shared_content::{Member, Shared};
use app::{Body, Reads};
use exchange::Ready;
use std::rc::Rc;

/// A 200 response, and whose its content is.
#[derive(Debug)]
pub struct PreparedFile {
    pub ready: Ready,
    /// Whether the content is the silos' in common, and so not counted here.
    common: bool,
    /// Whether it is in another domain.
    pub far: bool,
}

/// The other silos, as far as content goes.
#[derive(Debug)]
pub struct Others {
    pub member: Member,
    /// All domains, and what of their content is sent from here. The lock is
    /// not for this thread.
    pub domains: Vec<(u16, Rc<Reads>)>,
}

impl Others {
    pub fn new(member: Member) -> Self {
        let domains = member.shared_content.domains().into_iter().map(|domain| (domain, Rc::default()));
        Self { domains: domains.collect(), member }
    }

    /// Where reads from a domain are counted, if it is not the silo's own.
    pub fn far(&self, domain: u16) -> Option<Rc<Reads>> {
        let (_, reads) = self.domains.iter().find(|(other, _)| *other == domain)?;
        (domain != self.member.domain).then(|| Rc::clone(reads))
    }
}

impl PreparedFile {
    pub fn new(
        (message, head_len, date_at): (Vec<u8>, usize, u16),
        content: Option<Shared>,
        others: Option<&Others>,
    ) -> Self {
        let far = others.zip(content.as_ref()).and_then(|(others, shared)| others.far(shared.domain));
        let is_far = far.is_some();
        let body = |shared: Shared| match far {
            Some(reads) => Body::counted(shared.bytes, reads).keeping_sums(),
            None => Body::shared(shared.bytes).keeping_sums(),
        };
        let ready = Ready::new(message, head_len, date_at, content.map(body));
        Self { ready, common: others.is_some(), far: is_far }
    }

    /// The same content behind another head, whose date begins at its byte `date_at`; and
    /// what its message was, and was for connections that close.
    pub fn behind(self, mut head: Vec<u8>, date_at: u16) -> (Self, [Option<Body>; 2]) {
        let Ready { message, head_len, content, closing, .. } = self.ready;
        let length = head.len();
        head.extend_from_slice(message.as_slice().get(head_len as usize..).unwrap_or_default());
        head.shrink_to_fit();
        let ready = Ready::new(head, length, date_at, content);
        (Self { ready, ..self }, [Some(message), closing])
    }

    pub fn bytes(&self) -> usize {
        let content = self.ready.content.as_ref().filter(|_| !self.common);
        let others = [content, self.ready.closing.as_ref()].into_iter().flatten();
        self.ready.message_len as usize + others.map(|body| body.len() as usize).sum::<usize>()
    }
}

/// Takes a response out of the count; what of it connections still send stays
/// known, but for what the shared content counts.
pub fn retire(old: Option<PreparedFile>, bytes: &mut usize, retired: &mut Vec<Body>, retired_bytes: &mut usize) {
    let Some(old) = old else { return };
    *bytes -= old.bytes();
    let content = old.ready.content.filter(|_| !old.common);
    for body in [Some(old.ready.message), content, old.ready.closing].into_iter().flatten() {
        if !body.is_free() {
            *retired_bytes += body.len() as usize;
            retired.push(body);
        }
    }
}
