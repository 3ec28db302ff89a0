//! Whose a file is, and what labels it has.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Gid, Mode, Stat, Uid, XattrFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;

/// The longest list of names, and the longest value, that Linux keeps
/// (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`).
const LABELS_MAX: usize = 64 << 10;

/// What of a file is kept when its text is replaced: rights, owner, and extended
/// attributes, which hold SELinux's label, access control lists and what programs
/// write there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileAttributes {
    /// The lower twelve bits of the mode.
    pub mode: u32,
    /// The user that it belongs to.
    pub owner: u32,
    /// The group.
    pub group: u32,
    /// Extended attributes by name.
    pub labels: BTreeMap<String, Vec<u8>>,
}

impl FileAttributes {
    pub(crate) fn of(file: &OwnedFd, stat: &Stat) -> io::Result<Self> {
        Ok(Self { mode: stat.st_mode & 0o7777, owner: stat.st_uid, group: stat.st_gid, labels: labels(file)? })
    }

    /// Gives them to a file that was just made.
    ///
    /// # Errors
    /// Which of them it cannot have.
    pub(crate) fn give(&self, file: &OwnedFd) -> io::Result<()> {
        let stat = rustix::fs::fstat(file)?;
        if (stat.st_uid, stat.st_gid) != (self.owner, self.group) {
            let (owner, group) = (Uid::from_raw(self.owner), Gid::from_raw(self.group));
            rustix::fs::fchown(file, Some(owner), Some(group))
                .map_err(|why| lost(why, &format!("its owner {}:{}", self.owner, self.group)))?;
        }
        let now = labels(file)?;
        for (name, value) in self.labels.iter().filter(|(name, value)| now.get(*name) != Some(value)) {
            if is_computed(name, value)? {
                continue;
            }
            rustix::fs::fsetxattr(file, name.as_str(), value, XattrFlags::empty())
                .map_err(|why| lost(why, &format!("its label {name}")))?;
        }
        // What the folder's defaults gave it, and the file had not.
        for name in now.keys().filter(|name| name.starts_with("system.") && !self.labels.contains_key(*name)) {
            rustix::fs::fremovexattr(file, name.as_str()).map_err(|why| lost(why, &format!("no {name}")))?;
        }
        // Last: a new owner takes set-user-ID away, and a list changes the group's rights.
        if rustix::fs::fstat(file)?.st_mode & 0o7777 != self.mode {
            rustix::fs::fchmod(file, Mode::from_raw_mode(self.mode))
                .map_err(|why| lost(why, &format!("its mode {:o}", self.mode)))?;
        }
        Ok(())
    }
}

fn lost(why: Errno, what: &str) -> io::Error {
    let why = io::Error::from(why);
    io::Error::new(why.kind(), format!("{what} could not be kept: {why}"))
}

/// Whether the kernel makes an attribute of the bytes itself: a hash of IMA and
/// EVM (security/integrity/integrity.h). What is signed cannot have another text.
fn is_computed(name: &str, value: &[u8]) -> io::Result<bool> {
    /// `IMA_XATTR_DIGEST`, `EVM_XATTR_HMAC`, `IMA_XATTR_DIGEST_NG`.
    const HASHES: [u8; 3] = [1, 2, 4];
    if !["security.ima", "security.evm"].contains(&name) {
        return Ok(false);
    }
    match value.first() {
        Some(kind) if HASHES.contains(kind) => Ok(true),
        _ => Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it is signed ({name})"))),
    }
}

fn labels(file: &OwnedFd) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut names = vec![0; LABELS_MAX];
    let length = match rustix::fs::flistxattr(file.as_fd(), names.as_mut_slice()) {
        // The file system has none.
        Err(Errno::OPNOTSUPP) => return Ok(BTreeMap::new()),
        other => other?,
    };
    let mut found = BTreeMap::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = String::from_utf8(name.to_vec())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "an extended attribute's name is no UTF-8"))?;
        let mut value = vec![0; LABELS_MAX];
        match rustix::fs::fgetxattr(file, name.as_str(), value.as_mut_slice()) {
            Ok(length) => value.truncate(length),
            // Gone meanwhile.
            Err(Errno::NODATA) => continue,
            Err(why) => return Err(why.into()),
        }
        found.insert(name, value);
    }
    Ok(found)
}
