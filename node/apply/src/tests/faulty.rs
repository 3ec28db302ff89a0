//! A machine on which something goes wrong.

use crate::machine::Lock;
use crate::{Machine, STATE, Tree};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use sysroot::{FileAttributes, PlainFile};

/// What goes wrong, and with which of the writes, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    None,
    /// Another process has the lock.
    Locked,
    /// The process ends after that many writes of any kind.
    Ends(usize),
    /// The same, by SIGKILL.
    Killed(usize),
    /// The disk is full from the so-manieth record on.
    Full(usize),
    /// The so-manieth setting takes another value than it was told.
    Differs(usize),
    /// The so-manieth setting is refused.
    Refused(usize),
    /// The disk is full at the so-manieth file.
    Unwritable(usize),
}

/// A folder that behaves as the kernel does, with faults.
pub struct Faulty {
    tree: Tree,
    root: PathBuf,
    pub fault: Fault,
    writes: usize,
    sets: usize,
    records: usize,
    replacements: usize,
}

impl Faulty {
    pub fn new(root: &Path) -> Self {
        Self {
            tree: Tree::at(root),
            root: root.to_owned(),
            fault: Fault::None,
            writes: 0,
            sets: 0,
            records: 0,
            replacements: 0,
        }
    }

    pub fn with(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    fn tell(&mut self, path: &str, value: &str) -> io::Result<()> {
        // As the kernel shows a choice, and as one of a pair turns the other off.
        let now = self.tree.read(path)?;
        if now.contains('[') {
            let words = now.split_whitespace().map(|word| word.trim_matches(['[', ']']));
            let words = words.map(|word| if word == value { format!("[{word}]") } else { word.to_owned() });
            self.tree.set(path, &words.collect::<Vec<_>>().join(" "))?;
        } else {
            self.tree.set(path, value)?;
        }
        match path {
            "proc/sys/vm/dirty_ratio" => self.tree.set("proc/sys/vm/dirty_bytes", "0")?,
            "proc/sys/vm/dirty_bytes" => self.tree.set("proc/sys/vm/dirty_ratio", "0")?,
            _ => {}
        }
        Ok(())
    }

    fn written(&mut self) {
        self.writes += 1;
        match self.fault {
            Fault::Ends(last) if self.writes == last => panic!("ended after write {last}"),
            Fault::Killed(last) if self.writes == last => {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).expect("a signal to oneself");
                loop {
                    std::thread::park();
                }
            }
            _ => {}
        }
    }
}

impl Machine for Faulty {
    fn read(&self, path: &str) -> io::Result<String> {
        self.tree.read(path)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        self.tree.names(folder)
    }

    fn network(&self) -> String {
        self.tree.network()
    }

    fn may_set(&self, path: &str) -> io::Result<()> {
        self.tree.may_set(path)
    }

    fn set(&mut self, path: &str, value: &str) -> io::Result<()> {
        self.sets += 1;
        match self.fault {
            Fault::Refused(at) if self.sets == at => return Err(io::ErrorKind::InvalidInput.into()),
            Fault::Differs(at) if self.sets == at => {
                let other = if self.tree.read(path)?.contains('[') { "never" } else { "7" };
                return self.tell(path, other);
            }
            _ => {}
        }
        self.tell(path, value)?;
        self.written();
        Ok(())
    }

    fn file(&self, path: &str) -> io::Result<Option<PlainFile>> {
        self.tree.file(path)
    }

    fn missing_folders(&self, path: &str) -> io::Result<Vec<String>> {
        self.tree.missing_folders(path)
    }

    fn make_folder(&mut self, path: &str) -> io::Result<()> {
        self.tree.make_folder(path)?;
        self.written();
        Ok(())
    }

    fn sweep(&mut self, path: &str) -> io::Result<()> {
        self.tree.sweep(path)
    }

    fn replace(&mut self, path: &str, bytes: &[u8], attributes: Option<&FileAttributes>) -> io::Result<()> {
        self.replacements += 1;
        if self.fault == Fault::Unwritable(self.replacements) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.tree.replace(path, bytes, attributes)?;
        self.written();
        Ok(())
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        self.tree.remove(path)?;
        self.written();
        Ok(())
    }

    fn journals(&self) -> io::Result<Vec<String>> {
        self.tree.journals()
    }

    fn journal(&self, name: &str) -> io::Result<String> {
        self.tree.journal(name)
    }

    fn record(&mut self, name: &str, line: &str) -> io::Result<()> {
        self.records += 1;
        match self.fault {
            Fault::Full(from) if self.records >= from => {
                // A full disk keeps what still has room.
                let path = self.root.join(STATE).join(name);
                fs::create_dir_all(self.root.join(STATE))?;
                let mut text = fs::read_to_string(&path).unwrap_or_default();
                text.push_str(&line[..line.len() / 2]);
                fs::write(path, text)?;
                return Err(io::ErrorKind::StorageFull.into());
            }
            _ => {}
        }
        self.tree.record(name, line)?;
        self.written();
        Ok(())
    }

    fn forget(&mut self, name: &str) -> io::Result<()> {
        self.tree.forget(name)?;
        self.written();
        Ok(())
    }

    /// Another test's child has every file of this process from its fork to
    /// its exec, and with it the lock: a free one may take a moment.
    fn lock(&mut self) -> io::Result<Option<Lock>> {
        for _ in 0..if self.fault == Fault::Locked { 1 } else { 3_000 } {
            if let Some(lock) = self.tree.lock()? {
                return Ok(Some(lock));
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(None)
    }
}
