//! Which links a path may lead over, for a handler with rules of its own: the rule is part
//! of what content is known by, so that what one rule lets through no other does.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// Which symbolic links in a path are followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkRule {
    /// All.
    #[default]
    Followed,
    /// None but those in so many bytes at its beginning.
    Refused(u32),
    /// Beyond those, such as belong to whom what they lead to belongs to.
    OfOwner(u32),
}

/// What a marked path begins with: no path has a NUL.
const MARK: u8 = 0;

impl LinkRule {
    /// A path by this rule, as content is known by it.
    #[must_use]
    pub fn mark(self, path: &[u8]) -> Vec<u8> {
        let (kind, trusted) = match self {
            Self::Followed => return path.to_vec(),
            Self::Refused(trusted) => (b'r', trusted),
            Self::OfOwner(trusted) => (b'o', trusted),
        };
        [&[MARK, kind], &trusted.to_le_bytes()[..], path].concat()
    }

    /// The rule for a path without so many bytes at its beginning.
    #[must_use]
    pub const fn below(self, bytes: usize) -> Self {
        let bytes = bytes as u32;
        match self {
            Self::Followed => self,
            Self::Refused(trusted) => Self::Refused(trusted.saturating_sub(bytes)),
            Self::OfOwner(trusted) => Self::OfOwner(trusted.saturating_sub(bytes)),
        }
    }

    /// The rule and the path of one that is marked.
    pub(crate) fn read(marked: &[u8]) -> Option<(Self, &[u8])> {
        let [MARK, kind, rest @ ..] = marked else { return None };
        let (trusted, path) = rest.split_first_chunk::<4>()?;
        let trusted = u32::from_le_bytes(*trusted);
        Some((if *kind == b'r' { Self::Refused(trusted) } else { Self::OfOwner(trusted) }, path))
    }

    /// Opens a path below `root`, each of its segments by this rule. Where a link stands
    /// for a folder that is refused there is no folder, as with nginx.
    pub(crate) fn open(self, root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let (trusted, follows) = match self {
            Self::Followed => (path.len(), true),
            Self::Refused(trusted) => (trusted as usize, false),
            Self::OfOwner(trusted) => (trusted as usize, true),
        };
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let (before, path) = path.split_at(trusted.min(path.len()));
        let mut at = match before {
            [] => None,
            before => Some(rustix::fs::openat(root, before, folder, Mode::empty())?),
        };
        let mut segments = path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()).peekable();
        if segments.peek().is_none() {
            let from = at.as_ref().unwrap_or(root);
            return rustix::fs::openat(from, ".", flags, Mode::empty());
        }
        while let Some(segment) = segments.next() {
            let from = at.as_ref().unwrap_or(root).as_fd();
            let step = if segments.peek().is_none() { flags } else { folder };
            let step = if follows { step } else { step | OFlags::NOFOLLOW };
            let next = rustix::fs::openat(from, segment, step, Mode::empty())?;
            if follows && !is_owners(from, segment, &next)? {
                return Err(Errno::LOOP);
            }
            at = Some(next);
        }
        at.ok_or(Errno::NOENT)
    }
}

/// Whether what was opened belongs to whom the name belongs to: whether that is a link by
/// now is not asked, for it may have been another when it was opened.
fn is_owners(folder: BorrowedFd<'_>, name: &[u8], opened: &OwnedFd) -> Result<bool, Errno> {
    let named = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(named.st_uid == rustix::fs::fstat(opened)?.st_uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_by_their_rule() {
        let folder = std::env::temp_dir().join(format!("nearside-links-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("a/sub")).expect("folders");
        std::fs::write(folder.join("a/sub/file"), b"x").expect("a file");
        symlink("a", folder.join("link")).expect("a link");
        symlink("file", folder.join("a/sub/same")).expect("a link");
        symlink("/proc/self/cmdline", folder.join("a/sub/other")).expect("a link");
        let root = rustix::fs::open(&folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).expect("a folder");
        let open = |rule: LinkRule, path: &str| {
            let marked = rule.mark(path.as_bytes());
            let (read, rest) = LinkRule::read(&marked).expect("it is marked");
            assert_eq!((read, rest), (rule, path.as_bytes()));
            read.open(&root, rest, OFlags::RDONLY | OFlags::CLOEXEC).map(drop)
        };
        use LinkRule::{OfOwner, Refused};
        for (rule, path, expected) in [
            (Refused(0), "a/sub/file", Ok(())),
            (Refused(0), "a//sub/", Ok(())),
            (Refused(0), "", Ok(())),
            (Refused(0), "link/sub/file", Err(Errno::NOTDIR)),
            (Refused(0), "a/sub/same", Err(Errno::LOOP)),
            (Refused(4), "link/sub/file", Ok(())),
            (Refused(4), "link/sub/same", Err(Errno::LOOP)),
            (Refused(400), "link", Ok(())),
            (OfOwner(0), "link/sub/same", Ok(())),
            (OfOwner(0), "a/sub/none", Err(Errno::NOENT)),
        ] {
            assert_eq!(open(rule, path), expected, "{rule:?} {path}");
        }
        assert_eq!(LinkRule::Followed.mark(b"a"), b"a");
        assert_eq!(LinkRule::read(b"a/b"), None);
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
