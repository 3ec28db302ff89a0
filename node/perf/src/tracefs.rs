//! The kernel's list of tracepoints.

use crate::{Format, Why};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, mkdirat, openat, statat, unlinkat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

/// Where it usually is; the second until Linux 4.1.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Most files of it fit into this, bytes.
const ROOM: usize = 64 << 10;

/// Longer files are none of it.
const LONGEST: u64 = 1 << 20;

/// The file system tracefs.
#[derive(Debug)]
pub struct Tracefs(OwnedFd);

impl Tracefs {
    /// Where it is mounted; where it is nowhere, an instance that only this
    /// process sees.
    ///
    /// # Errors
    /// Why there is none.
    pub fn open() -> Result<Self, Why> {
        for place in PLACES {
            let opened = openat(CWD, place, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            let Ok(folder) = opened else { continue };
            if statat(&folder, "events", AtFlags::empty()).is_ok() {
                return Ok(Self(folder));
            }
        }
        let mounted = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|context| {
            fsconfig_create(&context)?;
            fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NOEXEC)
        });
        let folder = mounted.map_err(|why| format!("no tracefs at {}, and none can be mounted: {why}", PLACES[0]))?;
        Ok(Self(folder))
    }

    /// A tracepoint, as in `sched/sched_switch`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn format(&self, name: &str) -> Result<Format, Why> {
        let text = self.read(&format!("events/{name}/format"))?;
        Format::parse(&text)
    }

    /// A file of it.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(&self, path: &str) -> Result<String, Why> {
        let file = openat(&self.0, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let file = file.map_err(|why| match why {
            rustix::io::Errno::NOENT => "this kernel has none".to_owned(),
            rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => "not permitted: needs root".to_owned(),
            other => other.to_string(),
        })?;
        // Some of its files refuse to be read in pieces.
        let mut text = String::with_capacity(ROOM);
        File::from(file).take(LONGEST).read_to_string(&mut text).map_err(|why| why.to_string())?;
        Ok(text)
    }

    /// Writes a setting of it.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn write(&self, path: &str, text: &str) -> Result<(), Why> {
        let file = openat(&self.0, path, OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC, Mode::empty());
        let written = file.map_err(io::Error::from).and_then(|file| File::from(file).write_all(text.as_bytes()));
        written.map_err(|why| format!("{path}: {why}"))
    }

    /// Makes an instance.
    pub(crate) fn make(&self, path: &str) -> io::Result<()> {
        Ok(mkdirat(&self.0, path, Mode::RWXU)?)
    }

    /// Removes one.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, path, AtFlags::REMOVEDIR)?)
    }

    /// Names in a folder of it; none where there is no such folder.
    pub(crate) fn list(&self, path: &str) -> Vec<String> {
        let folder = openat(&self.0, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let Ok(entries) = folder.and_then(|folder| Dir::read_from(&folder)) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| Some(entry.file_name().to_str().ok()?.to_owned()));
        names.filter(|name| !name.starts_with('.')).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_tracepoints_or_a_reason() {
        match Tracefs::open() {
            Ok(tracefs) => {
                match tracefs.format("sched/sched_switch") {
                    Ok(format) => assert!(format.field("next_pid").is_some()),
                    Err(why) => assert!(!why.is_empty()),
                }
                assert!(tracefs.format("no/such").is_err());
            }
            Err(why) => assert!(why.contains("tracefs"), "{why}"),
        }
    }
}
