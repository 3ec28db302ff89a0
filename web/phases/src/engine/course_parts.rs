//! Parts of what is known of a request.

use app::PathFigures;
use core::ops::Range;
use exchange::ClientSession;
use std::sync::Arc;

/// Whether a target is another than was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rewritten {
    /// It is.
    pub ever: bool,
    /// The location's prefix is no part of it.
    pub here: bool,
}

/// What of a file was another than when it was looked for, and is done once more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Again {
    /// It was another when it was to be sent.
    pub sent: bool,
    /// An answer of a file was refused: there is no room for it, or the file is never the same.
    pub refused: bool,
    /// It was another when its head was to be cut (`mp4`).
    pub sought: bool,
    /// It was gone after `try_files` had found it.
    pub tried: Tried,
}

/// What `try_files` has done for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Tried {
    /// Nothing yet.
    #[default]
    No,
    /// It has found a file.
    Found,
    /// That was gone when it was to be answered, and others have been tried.
    Again,
}

/// What a request's connection is like: how it is secured, and what follows from that.
#[derive(Debug, Default)]
pub(crate) struct SecuredCourse {
    /// How TCP has found its client, as far as somebody asks.
    pub path: Option<PathFigures>,
    /// What its handshake came to.
    pub session: Option<Arc<ClientSession>>,
    /// What the request is answered with because of that, though what it says is believed.
    pub fault: Option<u16>,
}

/// The groups of the expression that matched last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captures {
    subject: Vec<u8>,
    groups: Vec<Option<Range<usize>>>,
}

impl Captures {
    pub fn clear(&mut self) {
        self.groups.clear();
    }

    /// Begins with another subject.
    pub fn begin(&mut self, subject: &[u8]) {
        self.subject.clear();
        self.subject.extend_from_slice(subject);
        self.groups.clear();
    }

    pub fn set(&mut self, group: usize, range: Range<usize>) {
        if self.groups.len() <= group {
            self.groups.resize(group + 1, None);
        }
        self.groups[group] = Some(range);
    }

    pub fn get(&self, group: usize) -> Option<&[u8]> {
        self.subject.get(self.groups.get(group)?.clone()?)
    }
}

/// What stays of an upstream's answer, of its content, whatever answers.
#[derive(Debug, Default)]
pub(crate) struct KeptContent {
    /// Its media type, where it was given up for another (`X-Accel-Redirect`).
    pub media_type: Option<Vec<u8>>,
    /// The charset that it asks for (`X-Accel-Charset`).
    pub charset: Option<Vec<u8>>,
}

/// What a request that is kept is kept for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum CourseState {
    /// It runs.
    #[default]
    Runs,
    /// It waits for a look at a file, or at a password.
    Looks,
    /// Its answer is being sent.
    Sends,
    /// It is over.
    Over,
}

/// Of a request whose client has left: what is still read of its upstream's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftBehind {
    /// Bytes of the body, at most.
    pub room: usize,
}
