//! The only way by which this crate touches a machine.

use std::fs::File;
use std::fs::TryLockError;
use std::io::{self, Write as _};
use std::path::Path;
use sysroot::{FileAttributes, PlainFile, Sysroot};

/// No setting is longer.
const LONGEST: u64 = 1 << 20;

/// Longer files are not replaced: what they said stands in the journal.
const LONGEST_FILE: u64 = 1 << 20;

/// A journal is no longer: the files of a plan, before and after it.
const LONGEST_JOURNAL: u64 = 32 << 20;

/// A machine whose settings are changed, and the folder where its journals lie.
///
/// Paths of settings and files are relative to the machine's root, names of
/// journals to the folder.
pub trait Machine {
    /// What a setting or file says.
    ///
    /// # Errors
    /// As the kernel says.
    fn read(&self, path: &str) -> io::Result<String>;

    /// The names in a folder, ascending; none if there is no such folder.
    fn names(&self, folder: &str) -> Vec<String>;

    /// Which network namespace settings of the network are read and written
    /// in; empty where that cannot be told.
    fn network(&self) -> String;

    /// Whether a setting may be written; nothing is.
    ///
    /// # Errors
    /// As the kernel says of opening it.
    fn may_set(&self, path: &str) -> io::Result<()>;

    /// Writes a setting that is there, by one call of write(2).
    ///
    /// # Errors
    /// As the kernel says.
    fn set(&mut self, path: &str, value: &str) -> io::Result<()>;

    /// A file to the byte, at the end of links; `None` only where it is not
    /// there.
    ///
    /// # Errors
    /// As the file system says; what is no plain file, has several names or is
    /// longer than a journal keeps is refused.
    fn file(&self, path: &str) -> io::Result<Option<PlainFile>>;

    /// The folders that are missing on the way to a file, the outermost first.
    ///
    /// # Errors
    /// As the file system says.
    fn missing_folders(&self, path: &str) -> io::Result<Vec<String>>;

    /// Makes a folder.
    ///
    /// # Errors
    /// As the file system says.
    fn make_folder(&mut self, path: &str) -> io::Result<()>;

    /// Puts a file in the place of what is at the end of links, with these
    /// attributes or those of a new file; one or the other is whole at any time,
    /// and on disk when this returns.
    ///
    /// # Errors
    /// As the file system says, or what could not be kept.
    fn replace(&mut self, path: &str, bytes: &[u8], attributes: Option<&FileAttributes>) -> io::Result<()>;

    /// Removes a file, or a folder that is empty.
    ///
    /// # Errors
    /// As the file system says.
    fn remove(&mut self, path: &str) -> io::Result<()>;

    /// Removes what [`Machine::replace`] left where it was interrupted.
    ///
    /// # Errors
    /// As the file system says.
    fn sweep(&mut self, path: &str) -> io::Result<()>;

    /// The names of journals, ascending.
    ///
    /// # Errors
    /// As the file system says; a folder that is missing has none.
    fn journals(&self) -> io::Result<Vec<String>>;

    /// A journal's text.
    ///
    /// # Errors
    /// As the file system says.
    fn journal(&self, name: &str) -> io::Result<String>;

    /// Adds a line to a journal, which comes into being by its first; both
    /// file and folder are on disk when this returns.
    ///
    /// # Errors
    /// As the file system says. A part of the line may be there then.
    fn record(&mut self, name: &str, line: &str) -> io::Result<()>;

    /// Removes a journal.
    ///
    /// # Errors
    /// As the file system says.
    fn forget(&mut self, name: &str) -> io::Result<()>;

    /// Takes the lock that only one process has; it is held until the value
    /// is dropped or its process ends. `None`: another has it.
    ///
    /// # Errors
    /// If the lock's file cannot be made.
    fn lock(&mut self) -> io::Result<Option<Lock>>;
}

/// The lock of a machine's settings.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held, not read")] File);

/// A machine by its files: the one that this runs on, or a folder with the
/// same ones, which no path leaves.
#[derive(Clone, Debug)]
pub struct Tree {
    root: Sysroot,
    /// Below which root, and where.
    state: (Sysroot, String),
}

/// Where journals lie below the root: apart from what a serving process, which
/// is not root, may own.
pub const STATE: &str = "var/lib/nearside-node";

impl Tree {
    /// The machine below `root`, its journals in their usual folder.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        let root = Sysroot::at(root);
        Self { state: (root.clone(), STATE.to_owned()), root }
    }

    /// The same, with journals in a folder of one's own, of this machine.
    #[must_use]
    #[cfg(test)]
    pub fn with_state(self, state: &Path) -> Self {
        Self { state: (Sysroot::of_this_machine(), state.to_string_lossy().into_owned()), ..self }
    }

    /// Whether drivers can be asked: those of a folder's machine are elsewhere.
    fn is_this_machine(&self) -> bool {
        self.root.is_this_machine()
    }

    /// The folder of journals: what is written back comes from it, so that it is
    /// this user's and nobody else may write there. `None`: there is none.
    fn state(&self) -> io::Result<Option<Sysroot>> {
        let (root, path) = &self.state;
        match root.private(path, user()) {
            Ok(folder) => Ok(Some(folder)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// The same, made if it is missing.
    fn made_state(&self) -> io::Result<Sysroot> {
        if let Some(folder) = self.state()? {
            return Ok(folder);
        }
        let (root, path) = &self.state;
        for folder in root.missing_folders(path)? {
            root.make_folder(&folder, 0o755)?;
        }
        root.make_folder(path, 0o700)?;
        root.private(path, user())
    }

    fn known_state(&self) -> io::Result<Sysroot> {
        self.state()?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Whose files are this process's own.
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A service by its path, as `systemd/irqbalance`.
fn of_service(path: &str) -> Option<&str> {
    path.strip_prefix("systemd/")
}

/// Systemd, or that there is none to ask.
fn manager() -> io::Result<systemd::Manager> {
    systemd::Manager::open().map_err(|why| io::Error::new(why.kind(), format!("systemd cannot be asked here: {why}")))
}

/// What a service's state counts as: one that failed does not run.
fn state(unit: &str) -> io::Result<String> {
    let state = manager()?.state(unit)?;
    Ok(if state == "failed" { "inactive".to_owned() } else { state })
}

/// A driver's setting by its path, as `ethtool/eth0/rings/rx`.
fn of_driver(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("ethtool/")?.split_once('/')
}

impl Machine for Tree {
    fn read(&self, path: &str) -> io::Result<String> {
        if let Some((interface, setting)) = of_driver(path).filter(|_| self.is_this_machine()) {
            return ethtool::get(interface, setting);
        }
        if let Some(unit) = of_service(path).filter(|_| self.is_this_machine()) {
            return state(unit);
        }
        Ok(self.root.text(path, LONGEST)?.trim_end().to_owned())
    }

    fn names(&self, folder: &str) -> Vec<String> {
        self.root.names(folder).unwrap_or_default()
    }

    fn network(&self) -> String {
        self.root.link("proc/self/ns/net").unwrap_or_default()
    }

    fn may_set(&self, path: &str) -> io::Result<()> {
        if let Some((interface, setting)) = of_driver(path).filter(|_| self.is_this_machine()) {
            // Writing what is there is what tells whether it may be written;
            // drivers leave a value alone that is the same.
            return ethtool::set(interface, setting, &ethtool::get(interface, setting)?);
        }
        if let Some(unit) = of_service(path).filter(|_| self.is_this_machine()) {
            // Only systemd knows who may, and says so when it is asked to.
            return state(unit).map(|_| ());
        }
        self.root.may_set(path)
    }

    fn set(&mut self, path: &str, value: &str) -> io::Result<()> {
        if let Some((interface, setting)) = of_driver(path).filter(|_| self.is_this_machine()) {
            return ethtool::set(interface, setting, value);
        }
        if let Some(unit) = of_service(path).filter(|_| self.is_this_machine()) {
            let mut manager = manager()?;
            return if value == "active" { manager.start(unit) } else { manager.stop(unit) };
        }
        self.root.open_to_set(path)?.write_all(format!("{value}\n").as_bytes())
    }

    fn file(&self, path: &str) -> io::Result<Option<PlainFile>> {
        match self.root.named(path) {
            Ok(named) => named.read(LONGEST_FILE),
            // Its folder is missing.
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    fn missing_folders(&self, path: &str) -> io::Result<Vec<String>> {
        self.root.missing_folders(path)
    }

    fn make_folder(&mut self, path: &str) -> io::Result<()> {
        self.root.make_folder(path, 0o755)
    }

    fn replace(&mut self, path: &str, bytes: &[u8], attributes: Option<&FileAttributes>) -> io::Result<()> {
        self.root.named(path)?.replace(bytes, attributes)
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        self.root.named(path)?.remove()
    }

    fn sweep(&mut self, path: &str) -> io::Result<()> {
        match self.root.named(path) {
            Ok(named) => named.sweep(),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(why) => Err(why),
        }
    }

    fn journals(&self) -> io::Result<Vec<String>> {
        let Some(folder) = self.state()? else { return Ok(Vec::new()) };
        let mut names = folder.names("")?;
        names.retain(|name| name.ends_with(".journal"));
        Ok(names)
    }

    fn journal(&self, name: &str) -> io::Result<String> {
        let file = self.known_state()?.named(name)?.read(LONGEST_JOURNAL)?;
        let file = file.ok_or(io::ErrorKind::NotFound)?;
        if file.attributes.owner != user() || file.attributes.mode & 0o022 != 0 {
            let why = format!("{name} is another user's, or others may write to it");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(String::from_utf8_lossy(&file.bytes).into_owned())
    }

    fn record(&mut self, name: &str, line: &str) -> io::Result<()> {
        let named = self.made_state()?.named(name)?;
        let mut file = named.append(user())?;
        let length = file.metadata()?.len();
        if length + line.len() as u64 + 2 > LONGEST_JOURNAL {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // The line feed comes first: a line that a full disk cut off ends
        // there, and harms no other.
        file.write_all(format!("\n{line}\n").as_bytes())?;
        file.sync_all()?;
        if length == 0 { named.on_disk() } else { Ok(()) }
    }

    fn forget(&mut self, name: &str) -> io::Result<()> {
        self.known_state()?.named(name)?.remove()
    }

    fn lock(&mut self) -> io::Result<Option<Lock>> {
        let file = self.made_state()?.named("lock")?.append(user())?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(why)) => Err(why),
        }
    }
}
