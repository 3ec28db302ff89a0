//! Services of systemd: whether they run, and that they start or stop, over
//! D-Bus, as systemctl(1) does it.
//!
//! ```text
//!   Manager ─► /run/systemd/private        systemd itself; root's
//!          └─► /run/dbus/system_bus_socket the bus; who may ask there, policies say
//! ```
//!
//! Source: the D-Bus specification; man 5 org.freedesktop.systemd1.

#![forbid(unsafe_code)]

mod message;
#[cfg(test)]
mod tests;

use message::{Call, Reply};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Systemd's own socket, and that of the bus.
const OWN: &str = "/run/systemd/private";
const BUS: &str = "/run/dbus/system_bus_socket";

const DESTINATION: &str = "org.freedesktop.systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const ROOT: &str = "/org/freedesktop/systemd1";

/// No answer takes longer: systemd answers before a job is done.
const PATIENCE: Duration = Duration::from_secs(25);
/// How often a unit's state is looked at while it changes, and for how long:
/// units may take 90 s to stop, by default.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: usize = 2_400;
/// Signals and other answers that may come before the one that is waited for.
const MOST_BETWEEN: usize = 1_000;

/// A connection to the manager of services.
#[derive(Debug)]
pub struct Manager {
    stream: UnixStream,
    serial: u32,
}

impl Manager {
    /// The machine's manager, directly, or by the bus.
    ///
    /// # Errors
    /// If systemd does not run, or does not let this user in.
    pub fn open() -> io::Result<Self> {
        Self::at(Path::new(OWN)).or_else(|_| Self::of_bus(Path::new(BUS)))
    }

    /// The manager whose own socket lies there.
    ///
    /// # Errors
    /// As the kernel says, or if it does not let this user in.
    pub fn at(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut manager = Self { stream, serial: 0 };
        manager.authenticate()?;
        Ok(manager)
    }

    fn of_bus(socket: &Path) -> io::Result<Self> {
        let mut manager = Self::at(socket)?;
        manager.ask(&Call {
            destination: "org.freedesktop.DBus",
            path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus",
            member: "Hello",
            arguments: &[],
        })?;
        Ok(manager)
    }

    /// Says who we are, which the kernel vouches for.
    fn authenticate(&mut self) -> io::Result<()> {
        // The owner of a process's folder is its effective user.
        let user = std::fs::metadata("/proc/self")?.uid().to_string();
        let digits: String = user.bytes().map(|byte| format!("{byte:02x}")).collect();
        // In one: systemd looks at what comes behind BEGIN only when something
        // else comes, too.
        self.stream.write_all(format!("\0AUTH EXTERNAL {digits}\r\nBEGIN\r\n").as_bytes())?;
        let answer = self.line()?;
        if !answer.starts_with("OK ") {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("D-Bus answers {answer}")));
        }
        Ok(())
    }

    fn line(&mut self) -> io::Result<String> {
        const LONGEST: usize = 200;
        let mut line = Vec::new();
        // What follows is not text: no byte of it may be taken.
        while line.len() < LONGEST && !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&line).trim().chars().filter(|char| !char.is_control()).collect())
    }

    fn ask(&mut self, call: &Call<'_>) -> io::Result<Reply> {
        self.serial += 1;
        self.stream.write_all(&call.bytes(self.serial))?;
        for _ in 0..MOST_BETWEEN {
            let reply = Reply::read(&mut self.stream)?;
            if reply.of == Some(self.serial) {
                return reply.good();
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "no answer among many of other things"))
    }

    /// Whether a unit is `active`, `inactive`, `failed` or on the way between
    /// (`activating`, `deactivating`).
    ///
    /// # Errors
    /// `NotFound` for a unit that is not installed; else as systemd says.
    pub fn state(&mut self, unit: &str) -> io::Result<String> {
        const UNIT: &str = "org.freedesktop.systemd1.Unit";
        let unit = name(unit)?;
        let object = self.ask(&Call::of_manager("LoadUnit", &[&unit]))?.text()?;
        let loaded = self.property(&object, UNIT, "LoadState")?;
        if loaded != "loaded" && loaded != "masked" {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{unit} is {loaded}")));
        }
        self.property(&object, UNIT, "ActiveState")
    }

    fn property(&mut self, object: &str, interface: &str, property: &str) -> io::Result<String> {
        let call = Call {
            destination: DESTINATION,
            path: object,
            interface: "org.freedesktop.DBus.Properties",
            member: "Get",
            arguments: &[interface, property],
        };
        self.ask(&call)?.variant()
    }

    /// Starts a unit, and waits until it is up, or is not.
    ///
    /// # Errors
    /// As systemd says; that it failed, only [`Manager::state`] tells.
    pub fn start(&mut self, unit: &str) -> io::Result<()> {
        self.change("StartUnit", unit)
    }

    /// Stops a unit, and waits until it is down.
    ///
    /// # Errors
    /// As systemd says.
    pub fn stop(&mut self, unit: &str) -> io::Result<()> {
        self.change("StopUnit", unit)
    }

    fn change(&mut self, member: &str, unit: &str) -> io::Result<()> {
        let unit = name(unit)?;
        // A job that contradicts another one in the queue replaces it.
        let job = self.ask(&Call::of_manager(member, &[&unit, "replace"]))?.text()?;
        for _ in 0..LOOKS {
            match self.property(&job, "org.freedesktop.systemd1.Job", "State") {
                Ok(_) => sleep(LOOK),
                // It is gone when it is done.
                Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("{unit}: its job does not end")))
    }
}

/// A unit's name, a service's where nothing else is said.
fn name(unit: &str) -> io::Result<String> {
    const KINDS: [&str; 8] = ["service", "timer", "socket", "target", "path", "mount", "slice", "scope"];
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
    if unit.is_empty() || unit.len() > 200 || unit.starts_with('.') || !unit.bytes().all(fits) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is no name of a unit"));
    }
    let kind = unit.rsplit_once('.').is_some_and(|(_, kind)| KINDS.contains(&kind));
    Ok(if kind { unit.to_owned() } else { format!("{unit}.service") })
}
