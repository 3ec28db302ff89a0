//! The process that serves and has no rights, towards the parent that has: what
//! the two say to each other, and this side of it.
//!
//! They speak over a pair of sockets that the parent makes; the child finds its
//! end as standard input. Nobody else has either end, and none of it passes to
//! what a process starts. The child names what is to be opened again (a link of
//! the configuration, by its place there), and never a path; what the parent opens
//! is what the configuration says, read by the parent.

use super::confine::{self, Confined, Upstreams};
use super::control::{Channel, ChannelError};
use super::places;
use super::privileges::{self, Decision};
use crate::plan::{ServePath, ServePlan};
use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use cpu::Clock;
use link::{Reopened, Wanted};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use say::Failure;
use serde::{Deserialize, Serialize};
use server::{AccessLog, Content};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use wire::Time;

/// Names the parent's process id to a child.
pub const VARIABLE: &str = "NEARSIDE_PARENT";

/// Names to a child where those that follow it greet its parent.
pub const MAIN_VARIABLE: &str = "NEARSIDE_MAIN";

/// What a process says to the parent of the one that it follows: that it is the one to
/// be signalled from then on. Which process that is, the kernel tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Greeting {}

/// What the parent says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum FromParent {
    /// Stop: it was told to so often.
    Stop {
        /// Once to drain, twice to end.
        times: usize,
    },
    /// Read settings and content again. With it come, in this order, the file
    /// with settings, the root and the log, as far as they are told of.
    Reload {
        /// Whether the settings come.
        settings: bool,
        /// The root's path, in bytes.
        root: Option<Vec<u8>>,
        /// The log's path, in bytes.
        log: Option<Vec<u8>>,
        /// What could not be opened, or not understood.
        refused: Option<String>,
    },
    /// What comes is opened as this: a log of a configuration. A wish follows.
    Bring {
        /// Its path, in bytes.
        path: Vec<u8>,
    },
    /// Go on with the log that comes.
    Reopen {
        /// Its path, in bytes.
        log: Vec<u8>,
    },
    /// Part of a link that was opened again, with descriptors of it.
    Link {
        /// Its place in the configuration.
        index: usize,
        /// The queue that asked.
        queue: u16,
        /// What it was opened as, in the driver's words.
        text: String,
        /// Whether more of it comes.
        more: bool,
    },
}

/// What the child says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum FromChild {
    /// Serves; the first time: has given its rights up.
    Ready {
        /// A line for the service manager.
        status: String,
    },
    /// Does what the status says; `Ready` follows.
    Reloading {
        /// A line for the service manager.
        status: String,
    },
    /// Ends.
    Stopping,
    /// All workers are at work.
    Alive,
    /// Another process serves in its place.
    Followed {
        /// The one to be signalled from then on.
        pid: u32,
    },
    /// It is about to follow a process whose parent is to be greeted.
    Follows {
        /// Where that one listens.
        at: String,
    },
    /// A reload has come to its end.
    Reloaded {
        /// Whether what was asked for is in force.
        well: bool,
    },
    /// A queue's interface was deleted, and one of its name is there.
    Lost {
        /// The link's place in the configuration.
        index: usize,
        /// The queue.
        queue: u16,
        /// What it was.
        mtu: u16,
        /// The Ethernet address that it answered to.
        mac: [u8; 6],
    },
    /// The kernel is to ask for this neighbour of the first link's interface.
    Neighbour {
        /// Its address.
        ip: IpAddr,
    },
}

/// What the main thread is to do by the parent's word.
#[derive(Debug)]
pub enum ParentWish {
    /// Stop: it was told to so often.
    Stop(usize),
    /// Read settings and content again.
    Reload(Brought),
    /// Open the log again.
    Reopen,
    /// Have workers look up.
    Wake,
}

/// What a parent sends with the wish to reload.
#[derive(Debug, Default)]
pub struct Brought {
    /// The file with settings, if there is one.
    pub settings: Option<File>,
    /// What the parent could not open, or not understand: a sentence for the user.
    pub refused: Option<String>,
}

/// The child's end.
#[derive(Debug)]
pub struct Ward {
    channel: Channel,
    parent: u32,
    /// Nobody is there any more.
    gone: AtomicBool,
    /// Where those that follow greet the parent, if it listens.
    greeted_at: Option<String>,
    /// Neighbours that were asked for, in the second that began then.
    asked: Mutex<(Time, u32)>,
    /// Links that came back, by place and queue; whole ones are taken.
    links: Mutex<BTreeMap<(usize, u16), (Reopened, bool)>>,
    confined: OnceLock<Confined>,
}

static WARD: OnceLock<Ward> = OnceLock::new();

/// The parent of this process, if it has one.
pub fn here() -> Option<&'static Ward> {
    WARD.get()
}

/// The process that is to be signalled: this one, or its parent.
pub fn main_process() -> u32 {
    here().map_or_else(std::process::id, |ward| ward.parent)
}

/// Tells the parent, if there is one. Whether there is.
pub fn tell(what: &FromChild) -> bool {
    let Some(ward) = here() else { return false };
    ward.tell(what);
    true
}

/// Where whoever follows this process greets its parent, if it has one that listens.
pub fn greeted_at() -> Option<String> {
    here().and_then(|ward| ward.greeted_at.clone())
}

/// Has the process that is to be signalled in place of the one that is followed say so
/// to that one's parent: this process's own parent, or this process.
pub fn greet(at: &str) {
    if tell(&FromChild::Follows { at: at.to_owned() }) {
        return;
    }
    match greeting_to(Path::new(at)) {
        // Kept: that it is there shows that this process lives.
        Ok(channel) => _ = GREETING.set(channel),
        Err(why) => {
            say::warning(format_args!("{at}: {why}: the service manager goes on with the process that is followed"))
        }
    }
}

static GREETING: OnceLock<Channel> = OnceLock::new();

/// Greets the parent that listens at `path`.
///
/// # Errors
/// If none does, or another user's process.
pub fn greeting_to(path: &Path) -> Result<Channel, ChannelError> {
    let channel = Channel::connect(path).map_err(ChannelError::Io)?;
    if !channel.is_trusted()? {
        return Err(ChannelError::Withheld("another user's process listens there".to_owned()));
    }
    channel.send(&Greeting {}, &[])?;
    Ok(channel)
}

/// A reload has come to its end.
pub fn reloaded(well: bool) {
    tell(&FromChild::Reloaded { well });
}

/// Whether content below `root` can be reached from here.
pub fn reaches(root: &Path) -> bool {
    let _asking = helper::waits::on(root);
    let folders = here().and_then(|ward| ward.confined.get()).and_then(|confined| confined.folders.as_ref());
    // What was opened counts: this process may not be able to look.
    let real = match helper::opened::of(root) {
        Some(opened) => std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))
            // Without /proc by its name, as far as that can be followed from here.
            .or_else(|_| std::fs::canonicalize(root)),
        None => std::fs::canonicalize(root),
    };
    folders.is_none_or(|folders| real.is_ok_and(|real| confine::reaches(folders, &real)))
}

impl Ward {
    /// Takes up the conversation with the process that started this one, if it
    /// is such a one. Whether it is.
    ///
    /// # Errors
    /// If it says so and is not.
    pub fn adopt() -> Result<bool, Failure> {
        let Some(told) = std::env::var_os(VARIABLE) else { return Ok(false) };
        let no_parent = || Failure::from(format!("{VARIABLE} is set, and no such process started this one"));
        let parent = told.to_str().and_then(|text| text.parse().ok()).ok_or_else(no_parent)?;
        if parent != std::os::unix::process::parent_id() {
            return Err(no_parent());
        }
        let channel = Channel::from_fd(rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)?);
        // Who made the pair, as the kernel knows it.
        if channel.peer().map_err(|_| no_parent())? != parent {
            return Err(no_parent());
        }
        let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::stdio::dup2_stdin(&nothing)?;
        let greeted_at = std::env::var(MAIN_VARIABLE).ok();
        let (gone, links, confined) = (AtomicBool::new(false), Mutex::default(), OnceLock::new());
        let asked = Mutex::new((Time::ZERO, 0));
        Ok(WARD.set(Self { channel, parent, gone, greeted_at, asked, links, confined }).is_ok())
    }

    /// Opens, with the rights that there are now, what only those can open
    /// safely, or make: the logs, folders for bodies of requests.
    ///
    /// # Errors
    /// If it cannot be opened, or made.
    pub fn prepare(plan: &ServePlan) -> Result<(), Failure> {
        let Decision { confinement: Some(confinement), .. } = privileges::decide(plan, main_process())? else {
            return Ok(());
        };
        let identity = confinement.identity.as_ref();
        let bring = |path: &Path| {
            let opened = places::open_log(path, identity);
            let file = opened.map_err(|why| format!("cannot open the access log {}: {why}", path.display()))?;
            helper::opened::bring(path.to_owned(), file);
            Ok::<_, String>(())
        };
        if let AccessLog::File(path) = &plan.server.access_log {
            bring(path)?;
        }
        if let Content::Program(program, _) = &plan.server.content {
            program.log_files().try_for_each(bring)?;
            let owner = identity.map(|user| (user.uid, user.gid));
            for (path, opened) in program.open_temp_folders(owner)? {
                helper::opened::bring(path, opened);
            }
        }
        Ok(())
    }

    /// Gives up what rights this process needs no more, and says which.
    ///
    /// # Errors
    /// If it cannot: the process must end then.
    pub fn seal(&self, plan: &ServePlan) -> Result<(), Failure> {
        let Decision { confinement, said, .. } = privileges::decide(plan, main_process())?;
        said.iter().for_each(say::warning);
        let Some(confinement) = confinement else { return Ok(()) };
        let roots: Vec<PathBuf> = match &plan.server.content {
            Content::Directory(directory) => vec![directory.root.clone()],
            Content::Respond(_) => Vec::new(),
            // Roots may depend on requests.
            Content::Program(..) => vec!["/".into()],
        };
        let lists = matches!(plan.server.content, Content::Program(..));
        let written: Vec<PathBuf>;
        let mut upstreams = Upstreams::default();
        if let Content::Program(program, _) = &plan.server.content {
            written = program.temp_folders.iter().map(|rules| rules.path.clone()).collect();
            let summary = program.summary();
            upstreams =
                Upstreams { connects: summary.connects, abstract_sockets: summary.abstract_sockets, written: &written };
        }
        // A link may connect to its peer's.
        upstreams.abstract_sockets |= matches!(
            &plan.path,
            ServePath::Link { host, .. } if host.links.iter().any(|link| link.driver.connects())
        );
        let mut samples = Vec::new();
        // What of everything cannot be read tells nobody anything.
        for root in roots.iter().filter(|_| !lists) {
            samples.push(places::Sample::of(root)?);
        }
        let identity = confinement.identity.clone();
        let confined = confinement.seal(&roots, lists, &upstreams)?;
        for lacking in &confined.lacking {
            say::warning(format_args!("serves without it: {lacking}"));
        }
        match &identity {
            Some(user) => {
                say::info(format_args!("serves as {} (user {}), and can open nothing else", user.name, user.uid))
            }
            None => say::info("serves without capabilities, and can open nothing else"),
        }
        for sample in samples {
            sample.tell(identity.as_ref().map_or("this user", |user| user.name.as_str()));
        }
        let _ = self.confined.set(confined);
        Ok(())
    }

    /// What tells that the parent said something.
    pub fn poll_fd(&self) -> Option<PollFd<'_>> {
        (!self.gone.load(Ordering::Relaxed)).then(|| PollFd::new(&self.channel, PollFlags::IN))
    }

    /// The next wish of the parent. One that is gone has a last one: whoever is
    /// left stops.
    pub fn next_wish(&self) -> Option<ParentWish> {
        while !self.gone.load(Ordering::Relaxed) {
            match self.channel.hear::<FromParent>() {
                Ok(None) => return None,
                Ok(Some((said, descriptors))) => {
                    if let Some(wish) = self.on_said(said, descriptors) {
                        return Some(wish);
                    }
                }
                Err(why) => {
                    self.gone.store(true, Ordering::Relaxed);
                    if !matches!(why, ChannelError::Gone) {
                        say::error(format_args!("the parent cannot be understood: {why}"));
                    }
                    say::error("the process that opens for this one is gone");
                    return Some(ParentWish::Stop(1));
                }
            }
        }
        None
    }

    fn on_said(&self, said: FromParent, descriptors: Vec<OwnedFd>) -> Option<ParentWish> {
        let mut descriptors = descriptors.into_iter();
        match said {
            FromParent::Stop { times } => Some(ParentWish::Stop(times)),
            FromParent::Reload { settings, root, log, refused } => {
                let settings = descriptors.next_if(settings).map(File::from);
                for path in [root, log].into_iter().flatten() {
                    bring(path, descriptors.next());
                }
                Some(ParentWish::Reload(Brought { settings, refused }))
            }
            FromParent::Bring { path } => {
                bring(path, descriptors.next());
                None
            }
            FromParent::Reopen { log } => {
                bring(log, descriptors.next());
                Some(ParentWish::Reopen)
            }
            FromParent::Link { index, queue, text, more } => {
                let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
                let (link, whole) = links.entry((index, queue)).or_default();
                if *whole {
                    *link = Reopened::default();
                }
                link.text = text;
                link.descriptors.extend(descriptors);
                *whole = !more;
                (!more).then_some(ParentWish::Wake)
            }
        }
    }

    fn tell(&self, what: &FromChild) {
        // One that is gone is noticed when it is heard; one that does not listen
        // misses what is only of the moment.
        let _ = self.channel.send(what, &[]);
    }
}

/// One that comes where it was told of.
trait NextIf: Iterator {
    fn next_if(&mut self, told: bool) -> Option<Self::Item> {
        if told { self.next() } else { None }
    }
}

impl<I: Iterator> NextIf for I {}

fn bring(path: Vec<u8>, opened: Option<OwnedFd>) {
    if let Some(opened) = opened {
        helper::opened::bring(PathBuf::from(std::ffi::OsString::from_vec(path)), opened);
    }
}

/// Has the parent open one link of the configuration again.
#[derive(Debug)]
pub struct WardReopener {
    ward: &'static Ward,
    index: usize,
}

impl WardReopener {
    /// For the `index`th link, where there is a parent.
    pub fn of(index: usize) -> Option<Arc<dyn link::Reopener>> {
        Some(Arc::new(Self { ward: here()?, index }))
    }
}

impl link::Reopener for WardReopener {
    fn ask(&self, queue: u16, wanted: Wanted) {
        let Wanted { mtu, mac } = wanted;
        self.ward.tell(&FromChild::Lost { index: self.index, queue, mtu, mac });
    }

    fn take(&self, queue: u16) -> Option<Reopened> {
        let mut links = self.ward.links.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, whole) = links.get(&(self.index, queue))?;
        if *whole { links.remove(&(self.index, queue)).map(|(link, _)| link) } else { None }
    }
}

/// Has the kernel ask for a neighbour, where this process may not.
pub fn ask_neighbour(ip: IpAddr) {
    let Some(ward) = here() else { return };
    let mut asked = ward.asked.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Clock.now();
    if now.since(asked.0) >= Duration::from_secs(1) {
        *asked = (now, 0);
    }
    asked.1 += 1;
    // The parent would not listen to more, and what matters would not be heard either.
    if asked.1 <= NEIGHBOURS {
        ward.tell(&FromChild::Neighbour { ip });
    }
}

/// Neighbours that the parent asks for in a second, at most: what a child that is no
/// longer ours could have it do.
pub const NEIGHBOURS: u32 = 1_000;
