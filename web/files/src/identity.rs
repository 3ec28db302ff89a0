//! What tells one state of a file from another.

use rustix::fs::Stat;

/// A file modified this recently may be modified again without a change of
/// its times: it is read again at the next check. Seconds.
const RACY_SECONDS: u64 = 2;

/// What tells one state of a file from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub modified: (i64, u64),
    changed: (i64, u64),
    /// Links to it, mode, user and group.
    pub attributes: (u64, u32, u32, u32),
}

impl Identity {
    /// That of no file.
    pub const NONE: Self =
        Self { device: 0, inode: 0, size: 0, modified: (0, 0), changed: (0, 0), attributes: (0, 0, 0, 0) };

    pub fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
            attributes: (stat.st_nlink, stat.st_mode, stat.st_uid, stat.st_gid),
        }
    }

    /// Whether the file may yet change without a change of its times.
    pub fn is_racy(&self, now: u64) -> bool {
        u64::try_from(self.modified.0).unwrap_or(0).abs_diff(now) <= RACY_SECONDS
    }

    /// A strong entity tag by the file system's time of modification, in
    /// nanoseconds: reading a large file only to name it would cost more than
    /// it saves.
    pub fn etag(&self) -> String {
        let (seconds, nanos) = self.modified;
        format!("\"{:x}-{seconds:x}.{nanos:08x}\"", self.size)
    }
}
