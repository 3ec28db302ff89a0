//! Which device a path lies on, as far as its text tells: nothing is asked of the file system, which may be
//! the one that does not answer. A link counts where it lies.

use std::collections::HashMap;
use std::path::Path;

/// What is mounted where, and the root that paths are below.
#[derive(Debug, Default)]
pub struct Mounts {
    /// Devices (`st_dev`, inode(7)) by where they are mounted; without the slash at the end.
    devices: HashMap<Box<[u8]>, u64>,
    root: Vec<u8>,
}

impl Mounts {
    /// What is mounted now, for paths below `root`; nothing where that cannot be told: all is one device then.
    pub fn read(root: &Path) -> Self {
        use std::os::unix::ffi::OsStrExt;
        let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
        let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        Self::parse(&text, root.as_os_str().as_bytes())
    }

    /// From the text of /proc/self/mountinfo (proc(5)).
    fn parse(text: &[u8], root: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n').filter_map(mounted);
        let root = root.strip_suffix(b"/").unwrap_or(root).to_vec();
        // Of those at one place the last hides the others.
        Self { devices: lines.collect(), root }
    }

    /// Whether anything is known of it.
    pub fn is_known(&self) -> bool {
        !self.devices.is_empty()
    }

    /// The device that a path below the root lies on; 0 where that is not known.
    pub fn device_of(&self, path: &[u8]) -> u64 {
        if !self.is_known() {
            return 0;
        }
        let whole = [&self.root, path.strip_suffix(b"/").unwrap_or(path)].join(&b"/"[..]);
        let mut at = whole.as_slice();
        loop {
            if let Some(device) = self.devices.get(at) {
                return *device;
            }
            let Some(slash) = at.iter().rposition(|byte| *byte == b'/') else { return 0 };
            at = &at[..slash];
        }
    }
}

/// Where something is mounted, and what, by a line: `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn mounted(line: &[u8]) -> Option<(Box<[u8]>, u64)> {
    let mut words = line.split(|byte| *byte == b' ').skip(2);
    let (device, path) = (core::str::from_utf8(words.next()?).ok()?, words.nth(1)?);
    let (major, minor) = device.split_once(':')?;
    let path = unescaped(path);
    let path = path.strip_suffix(b"/").unwrap_or(&path);
    Some((path.into(), rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?)))
}

/// Without the octal numbers that stand for spaces, tabs, ends of lines and backslashes.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let number = after.get(..3).filter(|_| *first == b'\\');
        let number = number.and_then(|digits| u8::from_str_radix(core::str::from_utf8(digits).ok()?, 8).ok());
        out.push(number.unwrap_or(*first));
        rest = &after[if number.is_some() { 3 } else { 0 }..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
        30 21 0:44 / /mnt/films rw,relatime - fuse.one one rw\n\
        31 30 0:45 /sub /mnt/films/new rw master:2 propagate_from:3 - nfs a:/b rw\n\
        32 21 0:46 / /mnt/with\\040space\\134 rw - fuse x rw\n\
        33 21 0:47 / /mnt/films rw - fuse.other other rw\n\
        nonsense\n34 21 x:y / /mnt/none rw - fuse x rw\n";

    #[test]
    fn a_path_lies_on_what_is_mounted_last_above_it() {
        let device = rustix::fs::makedev;
        for (root, path, expected) in [
            ("/", "srv/page", device(8, 1)),
            ("/", "", device(8, 1)),
            ("/", "mnt/films", device(0, 47)),
            ("/", "mnt/films/", device(0, 47)),
            ("/", "mnt/films/a/b/c", device(0, 47)),
            ("/", "mnt/films/new/b/", device(0, 45)),
            ("/", "mnt/filmsx/new", device(8, 1)),
            ("/", "mnt/with space\\/x", device(0, 46)),
            ("/", "mnt/none/x", device(8, 1)),
            ("/mnt/films", "a", device(0, 47)),
            ("/mnt/films", "new/a", device(0, 45)),
            ("/srv/", "mnt/films", device(8, 1)),
        ] {
            let mounts = Mounts::parse(TABLE.as_bytes(), root.as_bytes());
            assert_eq!(mounts.device_of(path.as_bytes()), expected, "{root} {path}");
        }
        assert_eq!(Mounts::default().device_of(b"a/b"), 0);
    }

    #[test]
    fn what_this_machine_has_mounted_is_told() {
        let folder = std::env::temp_dir();
        let stat = rustix::fs::stat(&folder).expect("it is there");
        let mounts = Mounts::read(&folder);
        // Subvolumes of Btrfs have numbers that the table does not tell.
        if !mounts.devices.is_empty() && mounts.devices.values().any(|device| *device == stat.st_dev) {
            assert_eq!(mounts.device_of(b"there is no such file"), stat.st_dev);
        }
    }
}
