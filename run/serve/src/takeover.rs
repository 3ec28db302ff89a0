//! The new process's side of a restart: it asks the running one for its
//! listening sockets, or its queues, and says when it serves.

use super::control::{Channel, ChannelError, Message, Offered, SOCKETS_MAX, VERSION, is_listened_on};
use super::systemd::{Found, listens_on};
use super::ward;
use crate::plan::{Control, RestartPlan, TakeOver};
use driver::{Offer, QUEUE_DESCRIPTORS};
use say::Failure;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// Names the control socket to a process that its predecessor started, before
/// any `--take-over` of its arguments, which are the predecessor's.
pub const VARIABLE: &str = "NEARSIDE_TAKE_OVER";

/// The name by which this process was called, for others that it starts: by the
/// name `nginx` the program reads other arguments.
pub fn own_name() -> OsString {
    std::env::args_os().next().unwrap_or_else(|| "nearside".into())
}

/// What control sockets in the usual folder end in.
const EXTENSION: &str = "control";

/// How long the running process may take for each answer: it has nothing else
/// to do on the thread that gives it.
const ANSWER: Duration = Duration::from_secs(10);

/// The process that is followed.
#[derive(Debug)]
pub struct Predecessor {
    channel: Channel,
    /// Its listening sockets, until they are taken.
    pub sockets: Vec<Found>,
    /// What it tells metrics by, likewise.
    metrics: Option<OwnedFd>,
}

impl Predecessor {
    /// Asks the process that is to be followed, if any, for its sockets.
    ///
    /// # Errors
    /// If there is none, or it does not give them. It serves on.
    pub fn ask(wanted: Option<&TakeOver>) -> Result<Option<Self>, Failure> {
        let Some((path, channel)) = find(wanted)? else { return Ok(None) };
        let asked = Self::ask_by(channel);
        asked.map(Some).map_err(|why| format!("cannot take over by {}: {why}", path.display()).into())
    }

    /// Asks the process that is to be followed, if any, for its queues, of each
    /// port at most `queues_max`, and for the sockets that it has beside them.
    ///
    /// # Errors
    /// As [`Predecessor::ask`].
    pub fn ask_for_queues(wanted: Option<&TakeOver>, queues_max: u16) -> Result<Option<(Self, Vec<Offer>)>, Failure> {
        let Some((path, channel)) = find(wanted)? else { return Ok(None) };
        let asked = Self::ask_for_queues_by(channel, queues_max);
        asked.map(Some).map_err(|why| format!("cannot take over by {}: {why}", path.display()).into())
    }

    fn ask_for_queues_by(channel: Channel, queues_max: u16) -> Result<(Self, Vec<Offer>), ChannelError> {
        channel.send(&hello(), &[])?;
        let mut ports: Vec<Offer> = Vec::new();
        let (mut sockets, mut metrics) = (Vec::new(), None);
        let mut first = true;
        loop {
            let mut received = channel.wait(ANSWER)?;
            match received.message {
                Message::Main { at } if first => ward::greet(&at),
                Message::Metrics if ports.is_empty() && sockets.is_empty() => metrics = received.descriptors.pop(),
                Message::Port { terms } if ports.len() < PORTS_MAX => {
                    let attachment = received.descriptors.pop().filter(|_| received.descriptors.is_empty());
                    let attachment = attachment.ok_or(ChannelError::Nonsense)?;
                    ports.push(Offer { terms, attachment, queues: Vec::new() });
                }
                Message::Queues { count, more } => {
                    let port = ports.last_mut().ok_or(ChannelError::Nonsense)?;
                    let given = received.descriptors.len();
                    let fits = given == count.saturating_mul(QUEUE_DESCRIPTORS)
                        && port.queues.len() + count <= queues_max.into();
                    // Without an end it would be waited for without one.
                    if !fits || more && count == 0 {
                        return Err(ChannelError::Nonsense);
                    }
                    let mut given = received.descriptors.into_iter();
                    while let Some(queue) = next(&mut given) {
                        port.queues.push(queue);
                    }
                    if !more {
                        return Ok((Self { channel, sockets, metrics }, ports));
                    }
                }
                // Those for clients on its host; queues follow.
                Message::Sockets { offered, more: true } if ports.is_empty() && !offered.is_empty() => {
                    take_sockets(&mut sockets, offered, received.descriptors)?;
                }
                Message::Sockets { .. } => {
                    let why = "it serves over kernel sockets: leave out --link, or end it first";
                    return Err(refuse(&channel, why, "a successor over links cannot have kernel sockets"));
                }
                _ => return Err(ChannelError::Nonsense),
            }
            first = false;
        }
    }

    /// What it tells metrics by, once, where there is one.
    pub fn take_metrics(followed: Option<&mut Self>) -> Option<OwnedFd> {
        followed?.metrics.take()
    }

    /// Which process it is.
    pub fn pid(&self) -> u32 {
        self.channel.peer().unwrap_or(0)
    }

    /// Says that this process cannot follow, and why.
    pub fn refuse(&self, why: &str) {
        // Whether it hears that is its own affair.
        let _ = self.channel.send(&Message::Refused { why: why.to_owned() }, &[]);
    }

    /// Has the other stop receiving.
    ///
    /// # Errors
    /// If it does not agree. It serves on.
    pub fn stop_receiving(&self) -> Result<(), ChannelError> {
        self.channel.send(&Message::Ready, &[])?;
        match self.channel.wait(ANSWER)?.message {
            Message::Frozen => Ok(()),
            _ => Err(ChannelError::Nonsense),
        }
    }

    /// The queues are this process's own when this returns.
    ///
    /// # Errors
    /// If the other has changed its mind, and receives again.
    pub fn take(&self) -> Result<(), ChannelError> {
        self.channel.send(&Message::Taken, &[])
    }

    /// Waits until the places of files are free.
    ///
    /// # Errors
    /// If the other does not say so.
    pub fn wait_for_places(&self) -> Result<(), ChannelError> {
        match self.channel.wait(ANSWER)?.message {
            Message::Yours => Ok(()),
            _ => Err(ChannelError::Nonsense),
        }
    }

    /// Says that this process tells metrics from now on, by what the other gave.
    pub fn answers(&self) {
        // Whether it hears that is its own affair: one of before does not.
        let _ = self.channel.send(&Message::Answers, &[]);
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.channel.receive().is_err()
    }

    fn ask_by(channel: Channel) -> Result<Self, ChannelError> {
        channel.send(&hello(), &[])?;
        let (mut sockets, mut metrics) = (Vec::new(), None);
        let mut first = true;
        loop {
            let mut received = channel.wait(ANSWER)?;
            let is_first = core::mem::take(&mut first);
            let (offered, more) = match received.message {
                Message::Main { at } if is_first => {
                    ward::greet(&at);
                    continue;
                }
                Message::Metrics if sockets.is_empty() => {
                    metrics = received.descriptors.pop();
                    continue;
                }
                // Without an end it would be waited for without one.
                Message::Sockets { offered, more } if !(more && offered.is_empty()) => (offered, more),
                Message::Port { .. } => {
                    let why = "it serves over AF_XDP: give the same --link, or end it first";
                    return Err(refuse(&channel, why, "a successor over kernel sockets cannot have queues"));
                }
                _ => return Err(ChannelError::Nonsense),
            };
            take_sockets(&mut sockets, offered, received.descriptors)?;
            if !more {
                return Ok(Self { channel, sockets, metrics });
            }
        }
    }

    /// This process serves: the other accepts no more when this returns.
    ///
    /// # Errors
    /// If it does not agree. It serves on, and this process is to end, in a
    /// way that finishes what it has accepted.
    pub fn succeed(&self) -> Result<(), ChannelError> {
        self.channel.send(&Message::Ready, &[])?;
        match self.channel.wait(ANSWER)?.message {
            Message::Yours => Ok(()),
            _ => Err(ChannelError::Nonsense),
        }
    }
}

impl AsFd for Predecessor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// What a process says that wants to take over.
fn hello() -> Message {
    Message::Hello { version: VERSION, pid: ward::main_process(), greets: true, metrics: true }
}

/// Takes listening sockets that were offered.
fn take_sockets(
    sockets: &mut Vec<Found>,
    offered: Vec<Offered>,
    descriptors: Vec<OwnedFd>,
) -> Result<(), ChannelError> {
    if offered.len() != descriptors.len() || sockets.len() + offered.len() > SOCKETS_MAX {
        return Err(ChannelError::Nonsense);
    }
    for (offer, socket) in offered.into_iter().zip(descriptors) {
        let Offered { endpoint, managed, name } = offer;
        // What it is counts, not what it is said to be.
        let is = listens_on(&socket).map_err(|_| ChannelError::Nonsense)?;
        if is.to_string() != endpoint {
            return Err(ChannelError::Nonsense);
        }
        sockets.push(Found { endpoint: is, name, managed, socket });
    }
    Ok(())
}

/// Ports of one process, at most.
const PORTS_MAX: usize = 64;

/// The descriptors of the next queue.
fn next(given: &mut impl Iterator<Item = OwnedFd>) -> Option<[OwnedFd; QUEUE_DESCRIPTORS]> {
    Some([given.next()?, given.next()?, given.next()?, given.next()?, given.next()?])
}

/// Tells the other side why not, and gives the reason for this one.
fn refuse(channel: &Channel, ours: &str, theirs: &str) -> ChannelError {
    // Whether it hears that is its own affair.
    let _ = channel.send(&Message::Refused { why: theirs.to_owned() }, &[]);
    ChannelError::Refused(ours.to_owned())
}

/// Reaches the process that is to be followed, if any.
fn find(wanted: Option<&TakeOver>) -> Result<Option<(PathBuf, Channel)>, Failure> {
    let Some(path) = place(wanted)? else { return Ok(None) };
    let channel = Channel::connect(&path);
    let channel = channel.map_err(|why| format!("cannot take over by {}: {why}", path.display()))?;
    // Its sockets and memory would be ours, and what it writes there is served.
    match channel.is_trusted() {
        Ok(true) => Ok(Some((path, channel))),
        Ok(false) => {
            let who = "the process there is another user's, neither root's nor this one's";
            Err(format!("cannot take over by {}: {who}", path.display()).into())
        }
        Err(why) => Err(format!("cannot take over by {}: {why}", path.display()).into()),
    }
}

/// Where the control socket of the process that is to be followed lies.
fn place(wanted: Option<&TakeOver>) -> Result<Option<PathBuf>, Failure> {
    let path = match (std::env::var_os(VARIABLE), wanted) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(TakeOver::At(path))) => path.clone(),
        (None, Some(TakeOver::Only)) => the_only_one(&::page::usual_folders()?)?,
        (None, None) => return Ok(None),
    };
    Ok(Some(path))
}

/// Where a successor may ask, if anywhere.
///
/// # Errors
/// If there is no folder for it.
pub fn control_path(plan: &RestartPlan) -> std::io::Result<Option<PathBuf>> {
    Ok(match &plan.control {
        Control::Off => None,
        Control::At(path) => Some(path.clone()),
        Control::Usual => Some(usual_control(std::process::id())?),
    })
}

/// Where the control socket of a process with this number lies, usually.
///
/// # Errors
/// If there is no folder for it.
pub fn usual_control(pid: u32) -> std::io::Result<PathBuf> {
    Ok(::page::usual_folder()?.join(format!("{pid}.{EXTENSION}")))
}

/// The only control socket in `folders` that somebody listens on.
fn the_only_one(folders: &[PathBuf]) -> Result<PathBuf, String> {
    let look = |folder: &PathBuf| {
        std::fs::read_dir(folder).map_err(|why| format!("cannot look into {}: {why}", folder.display()))
    };
    let entries = folders.iter().map(look).collect::<Result<Vec<_>, _>>()?;
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut living: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION))
        // To ask is to connect; whoever is asked hears no more of it.
        .filter(|path| is_listened_on(path))
        .collect();
    living.sort();
    match (living.pop(), living.len()) {
        (Some(path), 0) => Ok(path),
        (None, _) => Err("no process of this user can be taken over from: it needs a control socket".to_owned()),
        (Some(last), more) => {
            let all: Vec<String> = living.iter().chain([&last]).map(|path| path.display().to_string()).collect();
            Err(format!("there are {} processes to take over from, name one of {}", more + 1, all.join(" ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Listener;
    use std::os::fd::AsFd;

    #[test]
    fn the_only_control_socket_is_found_and_several_are_named() {
        let folder = std::env::temp_dir().join(format!("nearside-takeover-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("1.page"), "").unwrap();
        // Of a process that was killed.
        drop(std::os::unix::net::UnixListener::bind(folder.join("2.control")).unwrap());
        assert!(the_only_one(core::slice::from_ref(&folder)).unwrap_err().contains("no process"));
        let first = Listener::bind(&folder.join("3.control"), false).unwrap();
        assert_eq!(the_only_one(core::slice::from_ref(&folder)).unwrap(), first.path());
        let _second = Listener::bind(&folder.join("4.control"), false).unwrap();
        let told = the_only_one(core::slice::from_ref(&folder)).unwrap_err();
        assert!(told.contains("2 processes") && told.contains("3.control") && told.contains("4.control"), "{told}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// What it hands over would be served in this process's name.
    #[test]
    fn another_users_process_is_not_followed() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("nearside-follow-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let ours = Listener::bind(&folder.join("ours.control"), false).unwrap();
        assert!(matches!(find(Some(&TakeOver::At(ours.path().to_owned()))), Ok(Some(_))));
        let path = folder.join("theirs.control");
        let place = path.clone();
        let listen = move || {
            // SAFETY: takes numbers only; the system call, unlike the function of that name, is for this thread.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, -1_i64, 4_321_i64, -1_i64) } == 0;
            changed.then(|| Listener::bind(&place, false).unwrap())
        };
        // Only root can be two users.
        if let Some(theirs) = std::thread::spawn(listen).join().unwrap() {
            let why = find(Some(&TakeOver::At(path))).map(drop).unwrap_err().to_string();
            assert!(why.contains("another user's"), "{why}");
            drop(theirs);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A running process that lies, or is of another make, is not believed.
    #[test]
    fn what_is_offered_is_looked_at() {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let name = tcp.local_addr().unwrap().to_string();
        let offer = |endpoint: &str| Offered { endpoint: endpoint.to_owned(), managed: false, name: None };
        for (offered, socket, right) in [
            (vec![offer(&name)], Some(tcp.as_fd()), true),
            (vec![offer("127.0.0.1:1")], Some(tcp.as_fd()), false),
            (vec![offer(&name)], Some(file.as_fd()), false),
            (vec![offer(&name)], None, false),
            (vec![offer(&name), offer(&name)], Some(tcp.as_fd()), false),
        ] {
            let (ours, theirs) = Channel::pair().unwrap();
            let sockets: Vec<_> = socket.into_iter().collect();
            theirs.send(&Message::Sockets { offered, more: false }, &sockets).unwrap();
            assert_eq!(Predecessor::ask_by(ours).is_ok(), right);
        }
        let (ours, theirs) = Channel::pair().unwrap();
        theirs.send(&Message::Yours, &[]).unwrap();
        assert!(matches!(Predecessor::ask_by(ours), Err(ChannelError::Nonsense)));
    }

    /// As one that is no longer ours would go on for ever, and its successor has rights.
    #[test]
    fn what_has_no_end_is_not_waited_for() {
        let empty = Message::Sockets { offered: Vec::new(), more: true };
        let main = Message::Main { at: "/nonexistent".to_owned() };
        for endless in [empty.clone(), main.clone(), Message::Queues { count: 0, more: true }] {
            for queues in [false, true] {
                let (ours, theirs) = Channel::pair().unwrap();
                for message in [&main, &endless, &endless, &endless] {
                    theirs.send(message, &[]).unwrap();
                }
                let refused = if queues {
                    Predecessor::ask_for_queues_by(ours, 4).map(drop)
                } else {
                    Predecessor::ask_by(ours).map(drop)
                };
                assert!(matches!(refused, Err(ChannelError::Nonsense | ChannelError::Refused(_))), "{refused:?}");
            }
        }
    }
}
