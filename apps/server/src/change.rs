//! Settings that change while a server serves.
//!
//! Whatever can fail, or has to be waited for, is done when the change is made
//! ready, by a thread that may wait. The silo's thread takes it up in a turn of
//! its own: it moves values, and no request looks for any of them anew.

use crate::config::{Config, ConfigError, Content, Directory, Timeouts};
use crate::conn::{ENDED, FIRST, MARKED, State};
use crate::deadlines::DRAINED;
use crate::files::FileReader;
use crate::files::reader::{EntryId, Job};
use crate::files::store::Store;
use crate::head::Meta;
use crate::log::Log;
use crate::{Server, respond_content};
use app::{ConnId, Net};
use core::time::Duration;
use wire::Time;

/// New settings for one [`Server`], made ready.
#[derive(Debug)]
pub struct Change {
    timeouts: Timeouts,
    /// See [`crate::Limits::connections`].
    connections: usize,
    content: Option<NewContent>,
    /// The access log, if that is another; none is `Some(None)`.
    log: Option<Option<Log>>,
}

#[derive(Debug)]
enum NewContent {
    /// Type and bytes of the fixed response.
    Respond(&'static str, Vec<u8>),
    /// Who looks below the root, if that is another or looks otherwise, and
    /// the most content to hold.
    Directory(Option<Box<FileReader>>, usize),
}

/// What a server has no more use for. To let go of it may take long: the rest
/// of an access log is written.
#[derive(Debug)]
pub struct Replaced {
    _log: Option<Log>,
}

impl Change {
    /// What makes a server that is told `now` one that is told `next`: its
    /// time limits, its limit on connections if that grows, its root and what
    /// applies to it, its fixed response, its access log. All else stays as it
    /// is, and so does what is served where one has a directory and the other
    /// a fixed response.
    ///
    /// # Errors
    /// As [`Server::new`].
    pub fn prepare(now: &Config, next: &Config) -> Result<Self, ConfigError> {
        let (now, next) = (now.clone().checked()?, next.clone().checked()?);
        let content = match (&now.content, next.content) {
            (Content::Respond(respond), Content::Respond(next)) if *respond != next => {
                let (content_type, content) = respond_content(next);
                Some(NewContent::Respond(content_type, content))
            }
            (Content::Directory(directory), Content::Directory(next)) => {
                let worker = match is_read_alike(directory, &next) {
                    true => None,
                    false => Some(Box::new(FileReader::new(&next, now.server_header)?)),
                };
                Some(NewContent::Directory(worker, next.cache_bytes))
            }
            _ => None,
        };
        let log = match now.access_log == next.access_log {
            true => None,
            false => Some(Log::start(&next.access_log, now.limits.log_bytes, &now.helper_cpus)?),
        };
        Ok(Self { timeouts: next.timeouts, connections: next.limits.connections, content, log })
    }
}

/// Whether files are found and read by the same rules.
fn is_read_alike(one: &Directory, other: &Directory) -> bool {
    (&one.root, &one.index, one.symlinks, one.cache_file_bytes)
        == (&other.root, &other.index, other.symlinks, other.cache_file_bytes)
        // What is kept behind its head.
        && one.cache_bytes == other.cache_bytes
}

impl Server {
    /// Takes new settings up: they count for what begins from now on. Waits
    /// that are under way are as long as the new limits say once
    /// [`Server::settle`] was called until it is done. To be followed by
    /// [`Server::reload`].
    #[must_use]
    pub fn change(&mut self, change: Change) -> Replaced {
        let Change { timeouts, connections, content, log } = change;
        if is_shorter(&timeouts, &self.timeouts) {
            self.unsettled = Some(0);
        }
        self.timeouts = timeouts;
        // A lower one is the data path's to keep: the index of a connection
        // is not how many there are.
        if connections > self.limits.connections {
            self.limits.connections = connections;
            self.conns.reserve(connections.saturating_sub(self.conns.len()));
        }
        match content {
            Some(NewContent::Respond(content_type, content)) if self.fixed.is_some() => {
                let meta = Meta { size: content.len() as u64, content_type: content_type.into(), file: None };
                self.store = Store::fixed(meta, content, self.server_header);
                self.fixed = Some(EntryId { slot: 0, generation: 0 });
            }
            Some(NewContent::Directory(worker, cache_bytes)) => {
                self.store.set_limit(cache_bytes);
                if let (Some(worker), Some(reader)) = (worker, &mut self.reader) {
                    reader.submit(Job::Replace(worker));
                    self.store.forget_all();
                }
            }
            _ => {}
        }
        let old = log.map(|log| core::mem::replace(&mut self.log, log));
        // A new log learns the time, and a new response its date.
        self.next_second = Time::ZERO;
        Replaced { _log: old.flatten() }
    }

    /// After [`Server::change`]: sets the timers of some connections by limits
    /// that have become shorter. To be called again until it returns true.
    pub fn settle<N: Net>(&mut self, net: &mut N) -> bool {
        let Some(from) = self.unsettled else { return true };
        let end = (from + DRAINED).min(self.conns.len());
        for index in from.min(end)..end {
            self.settle_one(net, index);
        }
        self.unsettled = (end < self.conns.len()).then_some(end);
        self.unsettled.is_none()
    }

    fn settle_one<N: Net>(&mut self, net: &mut N, index: usize) {
        let now = net.now();
        let conn = &mut self.conns[index];
        let id = ConnId::new(index as u32, conn.generation);
        let span = match conn.state {
            State::Ready | State::Body if conn.flags & MARKED == 0 => {
                // The next request sets a timer that may be the sooner one.
                conn.flags |= FIRST;
                self.timeouts.http.after(conn.engine.waiting())
            }
            State::Waiting => Some(self.timeouts.http.header),
            // For our FIN's answer; that limit never changes.
            State::Vacant => None,
            State::Closing if conn.flags & (MARKED | ENDED) == 0 => None,
            // Some must be taken within the time, which is counted anew.
            State::Ready | State::Body | State::Streaming | State::Closing => {
                self.watch_progress(net, id);
                return;
            }
        };
        if let Some(span) = span {
            let left = conn.last.left(span, now).unwrap_or(Duration::ZERO);
            net.set_timer(id, Some(now + left));
        }
    }
}

/// Whether anybody is to wait for less long than before.
fn is_shorter(new: &Timeouts, old: &Timeouts) -> bool {
    let times = |times: &Timeouts| [times.http.header, times.http.body, times.http.keep_alive, times.http.send];
    times(new).iter().zip(times(old)).any(|(new, old)| *new < old)
}
