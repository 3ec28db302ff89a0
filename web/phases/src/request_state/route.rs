//! Where a request is: its path, the place that it found, and how far it is in that.

use configuration::program::{BlockId, ServerId};
use core::ops::Range;

/// Redirects within the server, and rewrites that look for a location anew, at
/// most (`NGX_HTTP_MAX_URI_CHANGES` of nginx).
const CHANGES_MAX: u8 = 10;

/// Where a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    /// Whose client it is (`realip`).
    #[default]
    Start,
    /// In its server's script.
    Server,
    /// Which location is its.
    Find,
    /// In its location's script.
    Rewrite,
    /// May it be so soon, and with so many?
    Limit,
    /// May it see this?
    Access,
    /// `try_files`.
    Try,
    /// What answers it.
    Content,
}

/// Whether a target is another than was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rewritten {
    /// It is.
    pub ever: bool,
    /// The location's prefix is no part of it.
    pub here: bool,
}

/// Where a request is, and what its target has become.
#[derive(Debug, Default)]
pub(crate) struct Route {
    pub listener: u16,
    pub server: ServerId,
    /// The location that was found, and whose settings count: its own, or those
    /// of an `if` in it.
    pub place: BlockId,
    pub block: BlockId,
    pub phase: Phase,
    /// Where in a script, a list of index files or of what is tried.
    pub at: u32,
    /// The path: decoded, with its slash.
    pub uri: Vec<u8>,
    pub args: Vec<u8>,
    /// Redirects so far.
    pub(super) changes: u8,
    pub internal: bool,
    /// A rewrite changed the path, and a location is to be looked for.
    pub uri_changed: bool,
    /// `try_files` found a whole path for an `alias` with an expression.
    pub whole_path: bool,
    /// The target is another than was sent.
    pub rewritten: Rewritten,
    pub captures: Captures,
    /// The last place whose root was looked for ([`RealRoots`](crate::roots::RealRoots)).
    pub real_root: Option<BlockId>,
}

impl Route {
    /// Forgets all but the memory.
    pub(super) fn forget(&mut self) {
        let Self {
            listener,
            server,
            place,
            block,
            phase,
            at,
            uri,
            args,
            changes,
            internal,
            uri_changed,
            whole_path,
            rewritten,
            captures,
            real_root,
        } = self;
        (*listener, *server, *place, *block) = (0, ServerId::default(), BlockId::default(), BlockId::default());
        (*phase, *at, *changes, *internal) = (Phase::default(), 0, 0, false);
        (*uri_changed, *whole_path, *rewritten, *real_root) = (false, false, Rewritten::default(), None);
        uri.clear();
        args.clear();
        captures.clear();
    }

    /// What all requests with the same ready answer have in common.
    pub(super) fn note(&mut self, of: &Self) {
        (self.listener, self.server, self.place, self.block) = (of.listener, of.server, of.place, of.block);
        self.uri.clone_from(&of.uri);
    }

    /// Enters a phase.
    pub const fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.at = 0;
    }

    /// Is in this place, with its settings.
    pub const fn settle(&mut self, place: BlockId) {
        (self.place, self.block) = (place, place);
    }

    /// One redirect more; whether there may be.
    pub fn may_change(&mut self) -> bool {
        self.changes = self.changes.saturating_add(1);
        self.changes <= CHANGES_MAX
    }

    /// Whether it has an error page still: not after one redirect too many.
    pub const fn has_error_pages(&self) -> bool {
        self.changes <= CHANGES_MAX
    }

    /// Goes on at another path of this server, from its script on.
    pub fn redirect(&mut self, uri: &[u8], args: &[u8]) {
        (self.uri, self.args) = (uri.to_vec(), args.to_vec());
        self.rewritten = Rewritten { ever: true, here: false };
        self.enter_internally();
        self.enter(Phase::Server);
    }

    /// What follows was not asked for by the client: another path, or a location by its name.
    pub const fn enter_internally(&mut self) {
        (self.internal, self.uri_changed, self.whole_path) = (true, false, false);
    }

    /// Is a subrequest's, of one that is there: from its server's script on.
    pub fn begin_within(&mut self, parent: &Self) {
        (self.listener, self.server) = (parent.listener, parent.server);
        (self.internal, self.rewritten.ever) = (true, true);
        self.phase = Phase::Server;
    }

    /// Goes on as another request's does that is answered by now: at its place, with its
    /// content phase.
    pub fn go_on_as(&mut self, other: &Self) {
        (self.place, self.block) = (other.place, other.block);
        (self.rewritten, self.whole_path) = (other.rewritten, other.whole_path);
        self.captures.clone_from(&other.captures);
        self.enter(Phase::Content);
    }
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
