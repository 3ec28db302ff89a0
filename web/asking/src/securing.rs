//! Connections are secured before anything is asked.

use crate::ask::{Ask, AskStep, AskTurn};
use crate::link::AskLink;
use crate::tries::NoteLevel;
use handshake::{Failure as HandshakeFailure, ServerVerdict, Sought};
use proxy::next::Failure;

impl Ask {
    /// The connection is there, and is to be secured: the time that it has to begin goes on.
    pub(crate) fn seek(&mut self, turn: &mut AskTurn<'_>) {
        let (Some(AskLink::Own(link)), Some(sought)) = (self.link, self.sought_now()) else { return };
        self.shakes = true;
        turn.io.secure_upstream(link, sought);
    }

    /// What is sought of the server that was chosen.
    pub(crate) fn sought_now(&self) -> Option<Sought> {
        let peer = self.tries.last().and_then(|last| last.peer.clone()).unwrap_or_default();
        let seeks = self.seeks.as_deref()?;
        let mut sought = seeks.clone();
        let told = sought.told.as_deref().unwrap_or_default().as_bytes();
        // Who was known by one certificate is not by another.
        let shown = sought.shows.as_ref().map(|shows| [&*shows.files.certificate, b"\0", &shows.files.key].concat());
        let shown = shown.unwrap_or_default();
        sought.peer = [&peer, &b"\0"[..], told, b"\0", &sought.name, b"\0", &shown].concat().into();
        Some(sought)
    }

    /// The connection is secured: the question goes to whom it was meant for, and to nobody
    /// else.
    pub(crate) fn on_secured(&mut self, turn: &mut AskTurn<'_>, verdict: ServerVerdict) -> AskStep {
        let told = match verdict {
            ServerVerdict::NotAsked | ServerVerdict::Trusted => {
                self.shakes = false;
                return self.send_head(turn);
            }
            ServerVerdict::Refused(why) => {
                format!("upstream SSL certificate verify error: ({}:{why})", why.number())
            }
            ServerVerdict::Misnamed => {
                let seeks = self.seeks.as_deref();
                let name = seeks.map_or_else(String::new, |seeks| String::from_utf8_lossy(&seeks.name).into_owned());
                format!("upstream SSL certificate does not match \"{name}\"")
            }
        };
        self.note_fault(told);
        self.failed(turn, Failure::Error)
    }

    /// It cannot be.
    pub(crate) fn on_unsecured(&mut self, turn: &mut AskTurn<'_>, why: &HandshakeFailure) -> AskStep {
        let told = match why {
            HandshakeFailure::Certificates(why) => {
                // As nginx tells it, which looks before it begins.
                self.note(NoteLevel::Error, why.to_string(), "connecting to upstream");
                self.let_link_go(turn);
                return AskStep::NoCertificate;
            }
            HandshakeFailure::Closed => why.to_string(),
            _ => format!("SSL_do_handshake() failed (SSL: {why})"),
        };
        self.note_fault(told);
        self.let_link_go(turn);
        self.failed(turn, Failure::Error)
    }

    /// What is queued there goes out still.
    fn let_link_go(&mut self, turn: &mut AskTurn<'_>) {
        if let Some(link) = self.link.take() {
            turn.let_go(link);
        }
    }
}
