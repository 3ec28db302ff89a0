//! Which connections' bytes go to another without the application, and the pipes that
//! they go through: splice(2) moves what the kernel has of one socket to the other, and
//! nothing is copied to this process.

use app::ConnId;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Connections of a worker whose bytes are passed on so at a time: each has a pipe, two
/// descriptors. Others are passed on by the application.
const MOST: usize = 64;

/// Pipes that are kept for the next.
const KEPT: usize = 8;

/// What a pipe holds: one of the usual size takes four times as many calls, and a third
/// more CPU time for each byte. It is what any user may have (pipe-max-size in pipe(7)),
/// up to `pipe-user-pages-soft` for all pipes of one.
const HOLDS: usize = 1 << 20;

/// One that may hold no more than this is none: the kernel gives such to a user with too
/// many.
const HOLDS_LEAST: usize = 64 << 10;

/// A pipe, and what is in it.
#[derive(Debug)]
pub(crate) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    size: usize,
    inside: usize,
}

impl Pipe {
    fn new() -> Option<Self> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        let size = fcntl_setpipe_size(&into, HOLDS).or_else(|_| fcntl_setpipe_size(&into, HOLDS_LEAST)).ok()?;
        (size >= HOLDS_LEAST).then_some(Self { out, into, size, inside: 0 })
    }

    /// Bytes that left one socket and did not arrive at the other.
    pub(crate) const fn inside(&self) -> usize {
        self.inside
    }

    /// Takes what a socket has, at most `most` bytes; 0 at its end.
    pub(crate) fn fill(&mut self, from: BorrowedFd<'_>, most: u64) -> Result<usize, Errno> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.size);
        let taken = splice(from, None, &self.into, None, most, SpliceFlags::MOVE | SpliceFlags::NONBLOCK)?;
        self.inside += taken;
        Ok(taken)
    }

    /// Gives a socket what is inside, as far as it has room.
    pub(crate) fn empty(&mut self, to: BorrowedFd<'_>) -> Result<usize, Errno> {
        let given = splice(&self.out, None, to, None, self.inside, SpliceFlags::MOVE | SpliceFlags::NONBLOCK)?;
        self.inside -= given;
        Ok(given)
    }
}

/// One connection's bytes for another.
#[derive(Debug)]
pub(crate) struct Pass {
    pub from: ConnId,
    pub to: ConnId,
    /// Bytes that were not yet taken from the first.
    pub left: u64,
    pub pipe: Pipe,
}

/// All of a worker.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    /// Whether its engine can.
    pub can: bool,
    all: Vec<Pass>,
    kept: Vec<Pipe>,
}

impl Passes {
    /// Begins one; whether there was a pipe for it.
    pub(crate) fn begin(&mut self, from: ConnId, to: ConnId, left: u64) -> bool {
        if self.all.len() >= MOST {
            return false;
        }
        let Some(pipe) = self.kept.pop().or_else(Pipe::new) else { return false };
        self.all.push(Pass { from, to, left, pipe });
        true
    }

    /// That of these bytes.
    pub(crate) fn of(&mut self, from: ConnId) -> Option<&mut Pass> {
        self.all.iter_mut().find(|pass| pass.from == from)
    }

    /// Whose bytes a connection is given, and how many are on their way.
    pub(crate) fn to(&self, to: ConnId) -> Option<(ConnId, usize)> {
        let pass = self.all.iter().find(|pass| pass.to == to)?;
        Some((pass.from, pass.pipe.inside()))
    }

    /// Ends one. What is still inside its pipe goes with it.
    pub(crate) fn end(&mut self, from: ConnId) -> Option<ConnId> {
        let at = self.all.iter().position(|pass| pass.from == from)?;
        let Pass { to, pipe, .. } = self.all.swap_remove(at);
        if pipe.inside() == 0 && self.kept.len() < KEPT {
            self.kept.push(pipe);
        }
        Some(to)
    }
}
