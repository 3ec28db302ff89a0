//! The way from a worker to its controller: where that is, and connections to it, made anew when one breaks.

use crate::plan::ControllerPlan;
use channel::{Channel, ControllerKey};
use core::time::Duration;
use cpu::Clock;
use messages::{CONTROLLER_FILE, KEY_FILE, KEY_VARIABLE, TOKEN_FILE, TOKEN_VARIABLE, Token};
use rustix::net::sockopt::set_tcp_user_timeout;
use say::Failure;
use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::thread;
use wire::Time;

/// One try to connect.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// A controller that takes nothing for so long is gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// What was sent and is not acknowledged for so long, in milliseconds, was sent on a way that is broken: before the
/// controller takes a silent worker for lost.
const UNACKNOWLEDGED_MS: u32 = 1_500;

/// A controller of this machine is looked for this long: one that is there may be slow where cores are busy.
const NEAR_PATIENCE: Duration = Duration::from_secs(10);

/// One elsewhere: it may be started again, in another place, when its target's Lease is free again.
const FAR_PATIENCE: Duration = Duration::from_secs(60);

/// Between one try and the next: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The longest name of a place, token, or key, in a file.
const FILE_LIMIT: u64 = 1_024;

/// The way to a controller.
pub struct Route {
    place: Place,
    key: ControllerKey,
    patience: Duration,
}

enum Place {
    Address(SocketAddr),
    /// A name or an address, and a port.
    Named(String),
}

/// Connections that were tried since the controller was last heard. One that is made and closed again, as those of a
/// worker whose place is taken are, was tried in vain like one that was never made.
#[derive(Debug, Default)]
pub struct Tries {
    /// When the first of them was, and how long the next one waits.
    begun: Option<(Time, Duration)>,
}

impl Route {
    /// Finds out where the controller is and which key it has, and the worker's own token.
    ///
    /// # Errors
    /// What of it is missing.
    pub fn find(plan: &ControllerPlan) -> Result<(Self, Token), Failure> {
        let (place, patience, (token, token_at), (key, key_at)) = match plan {
            ControllerPlan::Address(address) => {
                let variable = |name: &str| (std::env::var(name).unwrap_or_default(), name.to_owned());
                (Place::Address(*address), NEAR_PATIENCE, variable(TOKEN_VARIABLE), variable(KEY_VARIABLE))
            }
            ControllerPlan::Folder(folder) => {
                let file = |name: &str| {
                    let path = folder.join(name);
                    read(&path).map(|text| (text, path.display().to_string()))
                };
                let (place, _) = file(CONTROLLER_FILE)?;
                (Place::Named(place), FAR_PATIENCE, file(TOKEN_FILE)?, file(KEY_FILE)?)
            }
        };
        let token = Token::read(&token).ok_or_else(|| format!("--worker: {token_at} holds no token of a worker"))?;
        let key = ControllerKey::read(&key).map_err(|_| format!("--worker: {key_at} holds no key of a controller"))?;
        Ok((Self { place, key, patience }, token))
    }

    /// Connects to the controller, and tries again for as long as one may be away. The first try is made at once.
    ///
    /// # Errors
    /// If nobody who has that key is there by then, or nobody says anything.
    pub fn connect(&self, tries: &mut Tries) -> Result<Channel, Failure> {
        let mut why = io::Error::new(io::ErrorKind::ConnectionAborted, "it closes each connection unheard");
        loop {
            let now = Clock.now();
            if let Some((begun, pause)) = &mut tries.begun {
                if now + *pause >= *begun + self.patience {
                    return Err(format!("the controller at {}: {why}", self.place.text()).into());
                }
                thread::sleep(*pause);
                *pause = (*pause * 2).min(PAUSES.1);
            }
            tries.begun.get_or_insert((now, PAUSES.0));
            match self.try_once() {
                Ok(channel) => return Ok(channel),
                Err(other) => why = other,
            }
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
        Channel::connect(stream, &self.key)
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

#[cfg(test)]
mod tests {
    use super::*;
    use channel::Keys;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_controller_that_closes_each_connection_unheard_is_given_up_after_a_few() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let place = Place::Address(listener.local_addr().expect("bound"));
        let keys = Keys::of(&Token::new(7)).expect("keys");
        let route = Route { place, key: keys.controller_key().clone(), patience: Duration::from_millis(400) };
        let serves = thread::spawn(move || {
            // As one does whose worker's place is taken: the handshake is made, and nothing said.
            for stream in listener.incoming().flatten() {
                let channel = Channel::accept(stream, &keys).expect("a connection");
                let (mut bytes, mut opened) = ([0; 4_096], Vec::new());
                while let Ok(read @ 1..) = channel.receive(&mut bytes) {
                    channel.open(&bytes[..read], &mut opened).expect("a worker's");
                    if opened == b"last\n" {
                        return;
                    }
                    if !opened.is_empty() {
                        break;
                    }
                }
                channel.shutdown();
            }
        });
        let (mut tries, mut made) = (Tries::default(), 0);
        let why = loop {
            match route.connect(&mut tries) {
                Ok(channel) => {
                    channel.write(b"hello\n").expect("it is taken");
                    assert_eq!(channel.receive(&mut [0]).unwrap_or(0), 0, "it says nothing");
                    made += 1;
                }
                Err(why) => break why,
            }
        };
        // Pauses of 20, 40, 80 and 160 ms stand between those of 400.
        assert!((1..=5).contains(&made), "{made}");
        assert!(why.to_string().contains("closes each connection unheard"), "{why}");
        let last = route.connect(&mut Tries::default()).expect("it is there");
        last.write(b"last\n").expect("it is taken");
        serves.join().expect("no panic");
    }
}
