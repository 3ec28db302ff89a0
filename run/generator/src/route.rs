//! The way from a worker to its controller: where that is, and connections to it, made anew when one breaks.

use crate::plan::ControllerPlan;
use channel::{Channel, Keys};
use core::time::Duration;
use cpu::Clock;
use messages::{CONTROLLER_FILE, TOKEN_FILE, TOKEN_VARIABLE, Token};
use rustix::net::sockopt::set_tcp_user_timeout;
use say::Failure;
use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::thread;

/// One try to connect.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// A controller that takes nothing for so long is gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// What was sent and is not acknowledged for so long, in milliseconds, was sent on a way that is broken: before the
/// controller takes a silent worker for lost.
const UNACKNOWLEDGED_MS: u32 = 1_500;

/// A controller of this machine is looked for this long.
const NEAR_PATIENCE: Duration = Duration::from_secs(2);

/// One elsewhere: it may be started again, in another place.
const FAR_PATIENCE: Duration = Duration::from_secs(30);

/// Between one try and the next: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The longest name of a place, or token, in a file.
const FILE_LIMIT: u64 = 1_024;

/// The way to a controller.
pub struct Route {
    place: Place,
    keys: Keys,
    patience: Duration,
}

enum Place {
    Address(SocketAddr),
    /// A name or an address, and a port.
    Named(String),
}

impl Route {
    /// Finds out where the controller is, and the token of its test.
    ///
    /// # Errors
    /// What of it is missing.
    pub fn find(plan: &ControllerPlan) -> Result<(Self, Token), Failure> {
        let (place, text, patience, whence) = match plan {
            ControllerPlan::Address(address) => {
                let text = std::env::var(TOKEN_VARIABLE).unwrap_or_default();
                (Place::Address(*address), text, NEAR_PATIENCE, TOKEN_VARIABLE.to_owned())
            }
            ControllerPlan::Folder(folder) => {
                let token = folder.join(TOKEN_FILE);
                let place = Place::Named(read(&folder.join(CONTROLLER_FILE))?);
                (place, read(&token)?, FAR_PATIENCE, token.display().to_string())
            }
        };
        let token = Token::read(&text).ok_or_else(|| format!("--worker: {whence} holds no token of a test"))?;
        Ok((Self { place, keys: Keys::of(&token)?, patience }, token))
    }

    /// Connects to the controller, and tries again for as long as one may be away.
    ///
    /// # Errors
    /// If nobody who knows the token is there by then.
    pub fn connect(&self) -> Result<Channel, Failure> {
        let (until, mut pause) = (Clock.now() + self.patience, PAUSES.0);
        loop {
            match self.try_once() {
                Ok(channel) => return Ok(channel),
                Err(why) if Clock.now() + pause >= until => {
                    return Err(format!("the controller at {}: {why}", self.place.text()).into());
                }
                Err(_) => thread::sleep(pause),
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn try_once(&self) -> io::Result<Channel> {
        // A name may have another address each time.
        let addresses: Vec<SocketAddr> = match &self.place {
            Place::Address(address) => vec![*address],
            Place::Named(name) => name.to_socket_addrs()?.collect(),
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        for address in addresses {
            match self.open(address) {
                Ok(channel) => return Ok(channel),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    fn open(&self, address: SocketAddr) -> io::Result<Channel> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_PATIENCE))?;
        set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MS)?;
        Channel::connect(stream, &self.keys)
    }
}

impl Place {
    fn text(&self) -> String {
        match self {
            Self::Address(address) => address.to_string(),
            Self::Named(name) => name.clone(),
        }
    }
}

/// The one line of a small file.
fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_LIMIT).read_to_string(&mut text));
    read.map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(text.trim().to_owned())
}
