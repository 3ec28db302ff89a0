//! What is known of a request that is passed on to upstreams.

use crate::relay::Relay;
use asking::AskTry;
use bodies::BodyContent;
use std::sync::Arc;

/// What stays of an upstream's answer, of its content, whatever answers.
#[derive(Debug, Default)]
pub(crate) struct KeptContent {
    /// Its media type, where it was given up for another (`X-Accel-Redirect`).
    pub media_type: Option<Vec<u8>>,
    /// The charset that it asks for (`X-Accel-Charset`).
    pub charset: Option<Vec<u8>>,
}

/// Of a request whose client has left: what is still read of its upstream's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftBehind {
    /// Bytes of the body, at most.
    pub room: usize,
}

/// To whom a request is passed on, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct PassedOn {
    /// It is, now.
    pub relay: Option<Box<Relay>>,
    pub body: Option<BodyContent>,
    /// Where to, while its body is awaited: what the value said before.
    pub address: Option<Vec<u8>>,
    /// Who was asked before, where nobody is any more.
    pub tries: Vec<AskTry>,
    /// Fields of the answer that came, and what whatever answers has of it.
    pub answered: Vec<u8>,
    pub kept: KeptContent,
    /// The server that was asked, where something else answers now: for people.
    pub url: Option<Vec<u8>>,
    /// What `$proxy_host` and `$proxy_port` stand for.
    pub host: Vec<u8>,
    pub port: Option<Arc<[u8]>>,
    /// Its client has left, and its upstream is listened to all the same.
    pub left_behind: Option<LeftBehind>,
}

impl PassedOn {
    /// Forgets all but the memory.
    pub(super) fn forget(&mut self) {
        let Self { relay, body, address, tries, answered, kept, url, host, port, left_behind } = self;
        (*relay, *body, *address, *kept) = (None, None, None, KeptContent::default());
        (*url, *port, *left_behind) = (None, None, None);
        tries.clear();
        answered.clear();
        host.clear();
    }

    /// Servers that were asked so far.
    pub fn tries(&self) -> &[AskTry] {
        self.relay.as_deref().map_or(&self.tries, |relay| relay.ask.tries())
    }

    /// What is asked for at the server that is asked now; without what stands between a
    /// path and it once the server `is_asked` no more, as nginx has it.
    pub fn url(&self, is_asked: bool) -> Option<Vec<u8>> {
        match &self.relay {
            Some(relay) => relay.ask.url(is_asked),
            None => self.url.clone(),
        }
    }

    /// What was found out for one place is found out again in another.
    pub fn forget_place(&mut self) {
        (self.address, self.port) = (None, None);
        self.host.clear();
    }
}
