//! Connections to upstreams are secured before anything is asked.

use super::relay_run::Came;
use super::run::{Flow, Runner};
use super::waits::On;
use handshake::ServerVerdict;
use proxy::next::Failure;

impl Runner<'_> {
    /// The connection is there, and is to be secured: the time that it has to begin goes on.
    pub(super) fn seek(&mut self) {
        let peer = self.course.tries.last().and_then(|last| last.peer.clone()).unwrap_or_default();
        let Some(relay) = self.course.relay.as_deref_mut() else { return };
        let (Some(link), Some(seeks)) = (relay.link, relay.seeks.as_deref()) else { return };
        let mut sought = seeks.clone();
        let told = sought.told.as_deref().unwrap_or_default().as_bytes();
        // Who was known by one certificate is not by another.
        let shown = sought.shows.as_ref().map(|shows| [&*shows.files.certificate, b"\0", &shows.files.key].concat());
        let shown = shown.unwrap_or_default();
        sought.peer = [&peer, &b"\0"[..], told, b"\0", &sought.name, b"\0", &shown].concat().into();
        relay.shakes = true;
        self.replies.secure_upstream(link, sought);
    }

    /// The connection is secured: the request goes to whom it was meant for, and to nobody else.
    pub(super) fn on_secured(&mut self, verdict: ServerVerdict) -> Flow {
        let told = match verdict {
            ServerVerdict::NotAsked | ServerVerdict::Trusted => {
                if let Some(relay) = self.relay() {
                    relay.shakes = false;
                }
                self.send_request();
                return Flow::Waits(On::Source);
            }
            ServerVerdict::Refused(why) => {
                format!("upstream SSL certificate verify error: ({}:{why})", why.number())
            }
            ServerVerdict::Misnamed => {
                let seeks = self.course.relay.as_ref().and_then(|relay| relay.seeks.as_deref());
                let name = seeks.map_or_else(String::new, |seeks| String::from_utf8_lossy(&seeks.name).into_owned());
                format!("upstream SSL certificate does not match \"{name}\"")
            }
        };
        self.tell_of_upstream(&told, self.doing());
        self.failed(Failure::Error)
    }

    /// What the server is to be shown cannot be had: that is nobody's fault but ours, and no other is asked.
    #[cold]
    pub(super) fn without_certificate(&mut self, why: &str) -> Came {
        // As nginx tells it, which looks before it begins.
        self.tell_of_upstream(why, "connecting to upstream");
        self.let_link_go();
        self.give_up_relay();
        Came::nothing(Flow::Status(500))
    }

    /// What is queued there goes out still.
    pub(super) fn let_link_go(&mut self) {
        if let Some(link) = self.course.relay.as_deref_mut().and_then(|relay| relay.link.take()) {
            self.replies.let_go(link);
        }
    }
}
