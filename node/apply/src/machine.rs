//! The only way by which this crate touches a machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// No setting is longer, and none of the files that are written.
const LONGEST: u64 = 1 << 20;

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

    /// Puts a file in the place of whatever is there; either is whole at any
    /// time, and on disk when this returns.
    ///
    /// # Errors
    /// As the file system says.
    fn replace(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As the file system says.
    fn remove(&mut self, path: &str) -> io::Result<()>;

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
/// same ones.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
    state: PathBuf,
}

/// Where journals lie below the root: apart from what a serving process, which
/// is not root, may own.
pub const STATE: &str = "var/lib/nearside-node";

impl Tree {
    /// The machine below `root`, its journals in their usual folder.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), state: root.join(STATE) }
    }

    /// The same, with journals in a folder of one's own.
    #[must_use]
    pub fn with_state(self, state: &Path) -> Self {
        Self { state: state.to_owned(), ..self }
    }

    /// Whether drivers can be asked: those of a folder's machine are elsewhere.
    fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The folder of journals, made if it is missing: what is written back
    /// comes from it, so nobody else may write there.
    fn state(&self) -> io::Result<&Path> {
        use std::os::unix::fs::DirBuilderExt as _;
        if fs::symlink_metadata(&self.state).is_err_and(|why| why.kind() == io::ErrorKind::NotFound) {
            let parent = self.state.parent().unwrap_or(&self.state);
            fs::create_dir_all(parent)?;
            fs::DirBuilder::new().mode(0o700).create(&self.state)?;
            on_disk(parent)?;
        }
        self.own()?;
        Ok(&self.state)
    }

    /// Refuses a folder that another user could have put something into.
    fn own(&self) -> io::Result<()> {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let folder = fs::symlink_metadata(&self.state)?;
        // The owner of a process's folder is its effective user.
        let user = fs::metadata("/proc/self")?.uid();
        let ours = folder.is_dir() && folder.uid() == user && folder.permissions().mode() & 0o022 == 0;
        if ours {
            return Ok(());
        }
        let why = format!("{} is no folder of this user's that no other may write to", self.state.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

/// Sees to it that a folder's entries are on disk.
fn on_disk(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
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
        text(&self.root.join(path))
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    fn network(&self) -> String {
        let link = fs::read_link(self.root.join("proc/self/ns/net"));
        link.map_or_else(|_| String::new(), |link| link.display().to_string())
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
        OpenOptions::new().write(true).open(self.root.join(path)).map(|_| ())
    }

    fn set(&mut self, path: &str, value: &str) -> io::Result<()> {
        if let Some((interface, setting)) = of_driver(path).filter(|_| self.is_this_machine()) {
            return ethtool::set(interface, setting, value);
        }
        if let Some(unit) = of_service(path).filter(|_| self.is_this_machine()) {
            let mut manager = manager()?;
            return if value == "active" { manager.start(unit) } else { manager.stop(unit) };
        }
        let mut file = OpenOptions::new().write(true).truncate(true).open(self.root.join(path))?;
        file.write_all(format!("{value}\n").as_bytes())
    }

    fn replace(&mut self, path: &str, text: &str) -> io::Result<()> {
        let path = self.root.join(path);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".nearside-new");
        let new = folder.join(name);
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        if let Err(why) = written.and_then(|()| fs::rename(&new, &path)) {
            // What is half there must not lie about; that it cannot be removed
            // either changes nothing of the error.
            let _ = fs::remove_file(&new);
            return Err(why);
        }
        on_disk(folder)
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        let path = self.root.join(path);
        fs::remove_file(&path)?;
        on_disk(path.parent().unwrap_or(&self.root))
    }

    fn journals(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.state) {
            Ok(entries) => entries,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(why),
        };
        self.own()?;
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name.ends_with(".journal"));
        names.sort_unstable();
        Ok(names)
    }

    fn journal(&self, name: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(self.state.join(name))?.take(LONGEST).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn record(&mut self, name: &str, line: &str) -> io::Result<()> {
        let folder = self.state()?;
        let path = folder.join(name);
        let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
        let new = file.metadata()?.len() == 0;
        // The line feed comes first: a line that a full disk cut off ends
        // there, and harms no other.
        file.write_all(format!("\n{line}\n").as_bytes())?;
        file.sync_all()?;
        if new { on_disk(folder) } else { Ok(()) }
    }

    fn forget(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.state.join(name))?;
        on_disk(&self.state)
    }

    fn lock(&mut self) -> io::Result<Option<Lock>> {
        let path = self.state()?.join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(why)) => Err(why),
        }
    }
}
