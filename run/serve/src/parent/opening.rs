//! What the parent opens, on a thread of its own: a disk, or a server of files, may
//! hang, and the parent must not.

use super::super::bell::Bell;
use super::super::confine::Identity;
use super::super::control::{BATCH, Channel};
use super::super::places;
use super::super::settings;
use super::super::waiting;
use super::super::ward::FromParent;
use crate::plan::ServePlan;
use core::time::Duration;
use host::HostPlan;
use link::{Reopened, Wanted};
use server::{AccessLog, Content};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use wire::Time;

/// How often one queue of a link is opened again, at most: what a child that is no
/// longer ours could have the parent do.
const AGAIN: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug)]
pub struct Openings {
    identity: Option<Identity>,
    bell: Arc<Bell>,
    busy: Arc<AtomicBool>,
    /// What is in force once the child has taken it up.
    plan: Arc<Mutex<Option<Box<ServePlan>>>>,
    /// It is for a successor.
    successor: Arc<AtomicBool>,
    /// When each queue was opened last.
    links: BTreeMap<(usize, u16), Time>,
    /// What each link was when it was asked for first: it stays that.
    wanted: BTreeMap<usize, Wanted>,
}

impl Openings {
    /// Nothing is being opened. Logs are to be written to by `identity`, and the
    /// bell rings when one thing is done.
    pub fn new(identity: Option<Identity>, bell: Arc<Bell>) -> Self {
        let (busy, plan, successor) = (Arc::default(), Arc::default(), Arc::default());
        Self { identity, bell, busy, plan, successor, links: BTreeMap::new(), wanted: BTreeMap::new() }
    }

    /// Whether something is being opened.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// The plan of the last reload, once.
    pub fn take_plan(&self) -> Option<Box<ServePlan>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether what was asked for takes a successor; once.
    pub fn wants_successor(&self) -> bool {
        self.successor.swap(false, Ordering::AcqRel)
    }

    /// What a reload takes, from what the configuration says now.
    pub fn reload(&mut self, channel: &Arc<Channel>, plan: &ServePlan) {
        let (plan, identity, asked) = (plan.clone(), self.identity.clone(), Arc::clone(&self.plan));
        let successor = Arc::clone(&self.successor);
        self.start(channel, move |channel| {
            let _watch = waiting::of("the reload");
            let mut opened = Opened::default();
            let next = opened.read(&plan);
            if next.as_ref().is_ok_and(|next| settings::takes_successor(&plan, next)) {
                *asked.lock().unwrap_or_else(PoisonError::into_inner) = next.ok().map(Box::new);
                successor.store(true, Ordering::Release);
                return Ok(());
            }
            match next.and_then(|next| opened.all(&plan, next, identity.as_ref())) {
                Ok(plan) => *asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(plan)),
                Err(why) => opened.refused = Some(why),
            }
            opened.send(channel)
        });
    }

    /// The logs, for their rotation.
    pub fn reopen(&mut self, channel: &Arc<Channel>, plan: &ServePlan) {
        let mut paths = logs(plan);
        let Some(last) = paths.pop() else { return };
        let (plan, identity) = (plan.clone(), self.identity.clone());
        self.start(channel, move |channel| {
            let _watch = waiting::of("the reopening of logs");
            places::reopen_error_log(&plan, identity.as_ref());
            for path in paths {
                send(channel, &FromParent::Bring { path: bytes(&path) }, &[open_log(&path, identity.as_ref())?])?;
            }
            send(channel, &FromParent::Reopen { log: bytes(&last) }, &[open_log(&last, identity.as_ref())?])
        });
    }

    /// Standard error goes on to where `plan` says now.
    pub fn reopen_error_log(&self, plan: &ServePlan) {
        let (plan, identity) = (plan.clone(), self.identity.clone());
        let open = move || {
            let _watch = waiting::of("the reload");
            places::reopen_error_log(&plan, identity.as_ref());
        };
        if let Err(why) = thread::Builder::new().name("opening".to_owned()).spawn(open) {
            say::error(format_args!("cannot start a thread to open files: {why}"));
        }
    }

    /// Of the link at `index`, with so many queues, the queue that asks, or all.
    pub fn link(
        &mut self,
        channel: &Arc<Channel>,
        host: &HostPlan,
        (index, queue, queues): (usize, u16, u16),
        wanted: Wanted,
        now: Time,
    ) {
        let first = *self.wanted.entry(index).or_insert(wanted);
        if !can_be(wanted) || first.mac != wanted.mac || first.mtu > wanted.mtu {
            return;
        }
        let last = self.links.get(&(index, queue));
        if self.is_busy() || last.is_some_and(|last| now.since(*last) < AGAIN) {
            // It asks again.
            return;
        }
        self.links.insert((index, queue), now);
        let host = host.clone();
        self.start(channel, move |channel| {
            // What is wrong may be that somebody is just setting it up.
            let Ok(opened) = host::open_for_another(&host, index, queues, wanted) else { return Ok(()) };
            let Reopened { text, descriptors } = opened;
            let mut batches = descriptors.chunks(BATCH).peekable();
            while let Some(batch) = batches.next() {
                let more = batches.peek().is_some();
                send(channel, &FromParent::Link { index, queue, text: text.clone(), more }, batch)?;
            }
            Ok(())
        });
    }

    fn start(&mut self, channel: &Arc<Channel>, open: impl FnOnce(&Channel) -> Result<(), String> + Send + 'static) {
        self.busy.store(true, Ordering::Release);
        let (channel, busy, bell) = (Arc::clone(channel), Arc::clone(&self.busy), Arc::clone(&self.bell));
        let started = thread::Builder::new().name("opening".to_owned()).spawn(move || {
            if let Err(why) = open(&channel) {
                say::error(why);
            }
            busy.store(false, Ordering::Release);
            bell.ring();
        });
        if let Err(why) = started {
            say::error(format_args!("cannot start a thread to open files: {why}"));
            self.busy.store(false, Ordering::Release);
        }
    }
}

/// Whether an interface can have this, that packets fit into and that answers to an
/// Ethernet address of one station: an interface of the host's is set to it.
fn can_be(wanted: Wanted) -> bool {
    let is_unicast = wanted.mac[0] & 1 == 0 && wanted.mac != [0; 6];
    // A TAP device tells of no address.
    wanted.mtu >= MTU_MIN && (is_unicast || wanted.mac == [0; 6])
}

/// What every link carries (RFC 791 section 3.2).
const MTU_MIN: u16 = 68;

/// What a reload takes.
#[derive(Debug, Default)]
struct Opened {
    settings: Option<File>,
    root: Option<(Vec<u8>, OwnedFd)>,
    log: Option<(Vec<u8>, OwnedFd)>,
    /// Logs of a configuration, files of its certificates and keys, and folders that it writes in.
    others: Vec<(Vec<u8>, OwnedFd)>,
    refused: Option<String>,
}

impl Opened {
    /// Opens the settings and reads them: what is asked for by now. This is done once, as
    /// a configuration of many hosts takes its time.
    fn read(&mut self, plan: &ServePlan) -> Result<ServePlan, String> {
        let Some(path) = &plan.settings.file else { return Ok(plan.clone()) };
        let told = |why| format!("cannot read the settings in {}: {why}", path.display());
        let mut file = places::open_settings(path).map_err(told)?;
        let asked = (plan.again)(Some(file.try_clone().map_err(told)?))?;
        // The child reads the same file, by the same description.
        file.seek(SeekFrom::Start(0)).map_err(told)?;
        self.settings = Some(file);
        Ok(asked)
    }

    /// Opens what `next` takes; returns what is to be in force.
    fn all(&mut self, plan: &ServePlan, next: ServePlan, identity: Option<&Identity>) -> Result<ServePlan, String> {
        // Links stay what they are: those of a successor may be others.
        let asked = ServePlan { server: next.server, error_log: next.error_log, ..plan.clone() };
        if let Content::Directory(directory) = &asked.server.content {
            let root = &directory.root;
            let opened = places::open_root(root);
            let opened = opened.map_err(|why| format!("cannot read {} again: {why}", root.display()))?;
            self.root = Some((bytes(root), opened));
        }
        if let AccessLog::File(path) = &asked.server.access_log {
            self.log = Some((bytes(path), open_log(path, identity)?));
        }
        if let Some(path) = asked.error_log.file.as_ref().filter(|path| plan.error_log.file.as_ref() != Some(path)) {
            self.others.push((bytes(path), open_log(path, identity)?));
        }
        if let Content::Program(program, _) = &asked.server.content {
            for path in program.log_files() {
                self.others.push((bytes(path), open_log(path, identity)?));
            }
            for path in &program.tls_files {
                // Keys are root's alone, and the child is not root.
                let _asking = helper::waits::on(path);
                let opened = File::open(path).map_err(|why| format!("cannot open {}: {why}", path.display()))?;
                self.others.push((bytes(path), opened.into()));
            }
            let folders = program.open_temp_folders(identity.map(|user| (user.uid, user.gid)))?;
            self.others.extend(folders.into_iter().map(|(path, opened)| (bytes(&path), opened)));
        }
        Ok(asked)
    }

    fn send(self, channel: &Channel) -> Result<(), String> {
        let Self { settings, root, log, others, refused } = self;
        for (path, opened) in others {
            send(channel, &FromParent::Bring { path }, &[opened])?;
        }
        let (root, root_fd) = root.unzip();
        let (log, log_fd) = log.unzip();
        let message = FromParent::Reload { settings: settings.is_some(), root, log, refused };
        let all: Vec<OwnedFd> = settings.map(OwnedFd::from).into_iter().chain(root_fd).chain(log_fd).collect();
        send(channel, &message, &all)
    }
}

fn send(channel: &Channel, message: &FromParent, descriptors: &[OwnedFd]) -> Result<(), String> {
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    channel.send(message, &descriptors).map_err(|why| format!("the process that serves cannot be told: {why}"))
}

/// Files that are logged to: that of standard error last, if it is one.
fn logs(plan: &ServePlan) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    if let AccessLog::File(path) = &plan.server.access_log {
        paths.push(path.clone());
    }
    if let Content::Program(program, _) = &plan.server.content {
        paths.extend(program.log_files().map(Path::to_owned));
    }
    paths.extend(plan.error_log.file.clone());
    paths
}

fn open_log(path: &Path, identity: Option<&Identity>) -> Result<OwnedFd, String> {
    let opened = places::open_log(path, identity);
    opened.map_err(|why| format!("cannot open the log {}: {why}", path.display()))
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_set_to_what_one_can_have() {
        for (mtu, mac, fits) in [
            (1_500, [2, 0, 0, 0, 0, 1], true),
            (1_500, [0; 6], true),
            (68, [0; 6], true),
            (67, [0; 6], false),
            (0, [2, 0, 0, 0, 0, 1], false),
            (1_500, [0xff; 6], false),
            (1_500, [1, 0, 0x5e, 0, 0, 1], false),
        ] {
            assert_eq!(can_be(Wanted { mtu, mac }), fits, "{mtu} {mac:?}");
        }
    }
}
