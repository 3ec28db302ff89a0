//! The thread that finds out whether passwords are right.

use super::{Credentials, Done, Job, Shared, Source, Verdict, VerifierLimits};
use crate::file::find;
use crate::scheme::verify;
use core::hash::BuildHasher;
use core::sync::atomic::Ordering;
use rtrb::{Consumer, Producer};
use rustix::fd::OwnedFd;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::hash::RandomState;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use wire::Time;

/// The largest file of users.
const FILE_MAX: u64 = 16 << 20;

pub(super) struct Worker {
    limits: VerifierLimits,
    jobs: Consumer<Job>,
    done: Producer<Done>,
    shared: Arc<Shared>,
    event: Arc<OwnedFd>,
    /// What waits, by client: they take turns.
    lines: BTreeMap<Source, VecDeque<Job>>,
    /// Who had the last turn.
    last: Source,
    known: Known,
}

/// What was right a moment ago.
pub(super) struct Known {
    /// Nobody outside can choose what has the same number.
    pub keys: [RandomState; 2],
    /// Until when.
    pub until: HashMap<u128, Time>,
    /// In the order in which they end.
    pub order: VecDeque<(u128, Time)>,
}

/// Which file it is, as it was.
#[derive(Hash)]
struct Identity {
    place: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Worker {
    pub fn new(
        limits: VerifierLimits,
        jobs: Consumer<Job>,
        done: Producer<Done>,
        shared: Arc<Shared>,
        event: Arc<OwnedFd>,
    ) -> Self {
        let keys = [RandomState::new(), RandomState::new()];
        let known = Known { keys, until: HashMap::new(), order: VecDeque::new() };
        Self { limits, jobs, done, shared, event, lines: BTreeMap::new(), last: None, known }
    }

    /// Does all that there is to do, as far as it is not to stop.
    pub fn work(&mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            while let Ok(job) = self.jobs.pop() {
                self.lines.entry(job.source).or_default().push_back(job);
            }
            let Some(Job { ticket, source, credentials, now }) = self.next() else { return };
            let verdict = self.verdict(&credentials, now);
            // Never full: see `Verifier::start`.
            let _ = self.done.push(Done { ticket, source, verdict });
            self.shared.posted.fetch_add(1, Ordering::Release);
            // A counter that is full is read by whoever is woken by it.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// The next of the client after the one that had the last turn.
    fn next(&mut self) -> Option<Job> {
        use core::ops::Bound::{Excluded, Unbounded};
        let behind = self.lines.range((Excluded(self.last), Unbounded)).next().map(|(source, _)| *source);
        let source = match behind {
            Some(source) => source,
            None => *self.lines.first_key_value()?.0,
        };
        self.last = source;
        let line = self.lines.get_mut(&source)?;
        let job = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&source);
        }
        job
    }

    fn verdict(&mut self, credentials: &Credentials, now: Time) -> Verdict {
        // What is no file is not waited for.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let path = Path::new(OsStr::from_bytes(&credentials.file));
        let file = match File::options().read(true).custom_flags(nonblocking).open(path) {
            Ok(file) => file,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Verdict::NoFile,
            Err(_) => return Verdict::Unreadable,
        };
        let Ok(data) = file.metadata() else { return Verdict::Unreadable };
        if !data.is_file() || data.len() > FILE_MAX {
            return Verdict::Unreadable;
        }
        let changed = (data.ctime(), data.ctime_nsec());
        let identity = Identity { place: (data.dev(), data.ino()), size: data.len(), changed };
        let key = self.known.key(&identity, credentials);
        if self.known.has(key, now) {
            return Verdict::Right;
        }
        let mut bytes = Vec::new();
        match file.take(FILE_MAX + 1).read_to_end(&mut bytes) {
            Ok(length) if length as u64 <= FILE_MAX => {}
            _ => return Verdict::Unreadable,
        }
        let Some(hash) = find(&bytes, &credentials.user) else { return Verdict::NoUser };
        match verify(&credentials.password, hash) {
            Ok(true) => {
                self.known.add(key, now, &self.limits);
                Verdict::Right
            }
            Ok(false) => Verdict::Mismatch,
            Err(_) => Verdict::Unusable,
        }
    }
}

impl Known {
    fn key(&self, identity: &Identity, credentials: &Credentials) -> u128 {
        let Credentials { file, user, password } = credentials;
        let [high, low] = self.keys.each_ref().map(|key| key.hash_one((identity, file, user, password)));
        u128::from(high) << 64 | u128::from(low)
    }

    pub fn has(&self, key: u128, now: Time) -> bool {
        self.until.get(&key).is_some_and(|until| now < *until)
    }

    pub fn add(&mut self, key: u128, now: Time, limits: &VerifierLimits) {
        while let Some((oldest, until)) = self.order.front().copied()
            && (until <= now || self.order.len() >= limits.known_most)
        {
            self.order.pop_front();
            // It may have been added again since.
            if self.until.get(&oldest) == Some(&until) {
                self.until.remove(&oldest);
            }
        }
        if limits.known_most > 0 {
            let until = now + limits.known;
            self.until.insert(key, until);
            self.order.push_back((key, until));
        }
    }
}
