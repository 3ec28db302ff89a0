//! The new process's side of a restart: it asks the running one for its
//! listening sockets, and says when it serves.

use super::control::{Channel, ChannelError, Message, Offered, SOCKETS_MAX, VERSION};
use super::systemd::{Found, listens_on};
use crate::args::TakeOver;
use crate::host::Failure;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names the control socket to a process that its predecessor started, before
/// any `--take-over` of its arguments, which are the predecessor's.
pub const VARIABLE: &str = "NEARSIDE_TAKE_OVER";

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
}

impl Predecessor {
    /// Asks the process that is to be followed, if any, for its sockets.
    ///
    /// # Errors
    /// If there is none, or it does not give them. It serves on.
    pub fn ask(wanted: Option<&TakeOver>) -> Result<Option<Self>, Failure> {
        let path = match (std::env::var_os(VARIABLE), wanted) {
            (Some(path), _) => PathBuf::from(path),
            (None, Some(TakeOver::At(path))) => path.clone(),
            (None, Some(TakeOver::Only)) => the_only_one(&silo::page::usual_folder()?)?,
            (None, None) => return Ok(None),
        };
        let at = |why: &dyn std::fmt::Display| format!("cannot take over by {}: {why}", path.display());
        let channel = Channel::connect(&path).map_err(|why| at(&why))?;
        Ok(Some(Self::ask_by(channel).map_err(|why| at(&why))?))
    }

    fn ask_by(channel: Channel) -> Result<Self, ChannelError> {
        channel.send(&Message::Hello { version: VERSION, pid: std::process::id() }, &[])?;
        let mut sockets = Vec::new();
        loop {
            let received = channel.wait(ANSWER)?;
            let Message::Sockets { offered, more } = received.message else { return Err(ChannelError::Nonsense) };
            if offered.len() != received.descriptors.len() || sockets.len() + offered.len() > SOCKETS_MAX {
                return Err(ChannelError::Nonsense);
            }
            for (offer, socket) in offered.into_iter().zip(received.descriptors) {
                let Offered { endpoint, managed, name } = offer;
                // What it is counts, not what it is said to be.
                let is = listens_on(&socket).map_err(|_| ChannelError::Nonsense)?;
                if is.to_string() != endpoint {
                    return Err(ChannelError::Nonsense);
                }
                sockets.push(Found { endpoint: is, name, managed, socket });
            }
            if !more {
                return Ok(Self { channel, sockets });
            }
        }
    }

    /// This process serves: the other accepts no more when this returns.
    ///
    /// # Errors
    /// If it does not agree. It serves on, and this process is to end, in a
    /// way that finishes what it has accepted.
    pub fn succeed(self) -> Result<(), ChannelError> {
        self.channel.send(&Message::Ready, &[])?;
        match self.channel.wait(ANSWER)?.message {
            Message::Yours => Ok(()),
            _ => Err(ChannelError::Nonsense),
        }
    }
}

/// Where the control socket of a process with this number lies, usually.
///
/// # Errors
/// If there is no folder for it.
pub fn usual_control(pid: u32) -> std::io::Result<PathBuf> {
    Ok(silo::page::usual_folder()?.join(format!("{pid}.{EXTENSION}")))
}

/// The only control socket in `folder` that somebody listens on.
fn the_only_one(folder: &Path) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(folder).map_err(|why| format!("cannot look into {}: {why}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut living: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION))
        // To ask is to connect; whoever is asked hears no more of it.
        .filter(|path| Channel::connect(path).is_ok())
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
    use crate::serve::control::Listener;
    use std::os::fd::AsFd;

    #[test]
    fn the_only_control_socket_is_found_and_several_are_named() {
        let folder = std::env::temp_dir().join(format!("nearside-takeover-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("1.page"), "").unwrap();
        // Of a process that was killed.
        drop(std::os::unix::net::UnixListener::bind(folder.join("2.control")).unwrap());
        assert!(the_only_one(&folder).unwrap_err().contains("no process"));
        let first = Listener::bind(&folder.join("3.control"), false).unwrap();
        assert_eq!(the_only_one(&folder).unwrap(), first.path());
        let _second = Listener::bind(&folder.join("4.control"), false).unwrap();
        let told = the_only_one(&folder).unwrap_err();
        assert!(told.contains("2 processes") && told.contains("3.control") && told.contains("4.control"), "{told}");
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
}
