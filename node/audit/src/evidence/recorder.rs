//! What is read of a machine, file by file.

use super::patterns::{OF_A_PROCESS, OURS, PATTERNS, PROCESSES, SERVERS, SERVICES, UNITS};
use super::{EvidenceError, FILES_LIMIT, TEXT_LIMIT};
use std::collections::BTreeMap;
use std::io;
use sysroot::Sysroot;

/// No file is read further; `/proc/interrupts` of 256 cores and 2,000
/// interrupts has some 6 MB, so that one alone may be longer.
const FILE_LIMIT: u64 = 256 << 10;
/// For `/proc/interrupts`.
const LONG_FILE_LIMIT: u64 = 16 << 20;
/// The most processes whose limits are looked at.
const PROCESSES_LIMIT: usize = 4_096;
/// The most threads of a process of ours whose cores are looked at.
const THREADS_LIMIT: usize = 1_024;
/// Bytes of a device's configuration, in which its capabilities lie.
const CONFIGURATION: usize = 256;

/// Files as they are found below a root.
pub(super) struct Recorder<'a> {
    root: &'a Sysroot,
    files: BTreeMap<String, Result<String, String>>,
    /// Bytes of their texts.
    length: usize,
}

impl<'a> Recorder<'a> {
    pub const fn new(root: &'a Sysroot) -> Self {
        Self { root, files: BTreeMap::new(), length: 0 }
    }

    /// Everything that any rule looks at.
    pub fn record(mut self) -> Result<BTreeMap<String, Result<String, String>>, EvidenceError> {
        for pattern in PATTERNS {
            self.matching(pattern)?;
        }
        for (folder, server) in UNITS.iter().flat_map(|folder| SERVERS.iter().map(move |server| (folder, server))) {
            self.matching(&format!("{folder}/{server}*.service"))?;
            self.matching(&format!("{folder}/{server}*.service.d/*.conf"))?;
        }
        self.processes()?;
        self.groups()?;
        Ok(self.files)
    }

    /// Records every file that a pattern means.
    fn matching(&mut self, pattern: &str) -> Result<(), EvidenceError> {
        let mut paths = vec![String::new()];
        for part in pattern.split('/') {
            let mut next = Vec::new();
            for path in &paths {
                let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
                if part.contains('*') {
                    next.extend(self.entries(path).iter().filter(|name| fits(name, part)).map(|name| join(name)));
                } else {
                    next.push(join(part));
                }
                if next.len() > FILES_LIMIT {
                    return Err(EvidenceError::TooManyFiles);
                }
            }
            paths = next;
        }
        // Only that a queue, an interrupt, a timer or a job is there is recorded
        // of it.
        let bare = ["msi_irqs/*", "queues/*", "timers.target.wants/*"].iter().any(|end| pattern.ends_with(end))
            || pattern.starts_with("etc/cron.");
        for path in paths {
            if bare { self.keep(path, Ok(String::new()))? } else { self.file(path)? }
        }
        Ok(())
    }

    fn processes(&mut self) -> Result<(), EvidenceError> {
        let mut looked_at = 0;
        for name in self.entries("proc") {
            if !name.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            let comm = self.root.text(&format!("proc/{name}/comm"), FILE_LIMIT);
            let Ok(comm) = comm else { continue };
            let beside = SERVICES.iter().any(|(known, _)| *known == comm.trim());
            if !PROCESSES.contains(&comm.trim()) && !beside {
                continue;
            }
            looked_at += 1;
            if looked_at > PROCESSES_LIMIT {
                break;
            }
            for file in OF_A_PROCESS {
                self.file(format!("proc/{name}/{file}"))?;
            }
            // Which cores the threads of ours are bound to.
            if OURS.contains(&comm.trim()) {
                for task in self.entries(&format!("proc/{name}/task")).into_iter().take(THREADS_LIMIT) {
                    self.file(format!("proc/{name}/task/{task}/status"))?;
                }
            }
        }
        Ok(())
    }

    /// Records what limits the processes that were looked at, and this one.
    fn groups(&mut self) -> Result<(), EvidenceError> {
        self.file("proc/self/cgroup".to_owned())?;
        let of_process = |(path, text): (&String, &Result<String, String>)| {
            (path.starts_with("proc/") && path.ends_with("/cgroup")).then(|| text.clone().ok()).flatten()
        };
        let mut files: Vec<String> =
            self.files.iter().filter_map(of_process).flat_map(|text| super::groups::files(&text)).collect();
        files.sort_unstable();
        files.dedup();
        files.into_iter().try_for_each(|file| self.file(file))
    }

    /// Records a file, if it is there and is one.
    fn file(&mut self, path: String) -> Result<(), EvidenceError> {
        let limit = if path == "proc/interrupts" { LONG_FILE_LIMIT } else { FILE_LIMIT };
        // Folders are what some patterns meet on their way; what is no plain file
        // (a pipe, a device) is not opened.
        match self.root.read(&path, limit) {
            // A device's configuration is no text.
            Ok(bytes) if path.ends_with("/device/config") || path.ends_with("/device/../config") => {
                let digits = bytes.iter().take(CONFIGURATION).map(|byte| format!("{byte:02x}")).collect();
                self.keep(path, Ok(digits))
            }
            Ok(bytes) => self.keep(path, Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())),
            Err(why) if missing(&why) => Ok(()),
            // What is for writing only is no evidence.
            Err(_) if self.root.mode(&path).is_ok_and(|mode| mode & 0o444 == 0) => Ok(()),
            Err(why) => self.keep(path, Err(why.to_string())),
        }
    }

    fn keep(&mut self, path: String, text: Result<String, String>) -> Result<(), EvidenceError> {
        if self.files.len() >= FILES_LIMIT {
            return Err(EvidenceError::TooManyFiles);
        }
        self.length += text.as_ref().map_or(0, String::len);
        if self.length > TEXT_LIMIT {
            return Err(EvidenceError::TooLong);
        }
        // The device above a virtio interface's own has what this one lacks.
        let path = path.replace("/device/../", "/device/");
        self.files.entry(path).or_insert(text);
        Ok(())
    }

    /// The names in a folder, ascending; none if it cannot be read.
    fn entries(&self, folder: &str) -> Vec<String> {
        self.root.names(folder).unwrap_or_default()
    }
}

fn missing(why: &io::Error) -> bool {
    /// "No such device" and "Operation not supported", the same numbers on
    /// every architecture that we know of.
    const GONE: [i32; 2] = [19, 95];
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput)
        || why.raw_os_error().is_some_and(|number| GONE.contains(&number))
}

/// Whether a name is what a pattern with at most one `*` means.
fn fits(name: &str, pattern: &str) -> bool {
    let (start, end) = pattern.split_once('*').unwrap_or((pattern, ""));
    name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
}
