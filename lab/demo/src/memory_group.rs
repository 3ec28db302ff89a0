//! A control group that limits the memory of a server, and with it what the kernel holds of the files
//! that it reads: pages count for the group whose process read them first.

use crate::child::{PREFIX, is_stale};
use crate::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// A group of its own, removed when dropped.
#[derive(Debug)]
pub struct MemoryGroup(PathBuf);

/// Where groups are, and which this process is in.
const MOUNTS: &str = "/proc/self/mountinfo";
const GROUPS: &str = "/proc/self/cgroup";

/// The limit's file, by the version of control groups.
const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];

impl MemoryGroup {
    /// Makes one that may have so many bytes.
    ///
    /// # Errors
    /// Why there is none.
    pub fn make(bytes: u64) -> Result<Self, Error> {
        let read = |path: &str| fs::read_to_string(path).map_err(Error::io(format!("cannot read {path}")));
        let (mounts, groups) = (read(MOUNTS)?, read(GROUPS)?);
        let mut why = Error::Machine("no control group here limits memory".to_owned());
        for parent in parents(&mounts, &groups).into_iter().filter(|parent| may_limit(parent)) {
            match Self::below(&parent, bytes) {
                Ok(made) => return Ok(made),
                Err(refused) => why = refused,
            }
        }
        Err(why)
    }

    fn below(parent: &Path, bytes: u64) -> Result<Self, Error> {
        // Those of processes that were killed.
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            if is_stale(&entry.file_name().to_string_lossy()) {
                let _ = fs::remove_dir(entry.path());
            }
        }
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(Error::io(format!("cannot make the control group {}", path.display())))?;
        let this = Self(path);
        let limit = LIMITS.iter().map(|name| this.0.join(name)).find(|file| file.exists());
        let limit = limit.ok_or_else(|| Error::Machine(format!("{} limits no memory", this.0.display())))?;
        let refused = Error::io(format!("cannot write {}", limit.display()));
        fs::write(&limit, bytes.to_string()).map_err(refused)?;
        Ok(this)
    }

    /// Moves a process there; those that it starts from then on are there as well.
    ///
    /// # Errors
    /// If it may not be moved.
    pub fn add(&self, pid: u32) -> Result<(), Error> {
        let file = self.0.join("cgroup.procs");
        fs::write(&file, pid.to_string()).map_err(Error::io(format!("cannot write {}", file.display())))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that has just ended leaves its group some time later.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// The groups below which one could be made: this process's own, and those above it, the nearest first.
/// Of version 2 its own has none below it, as long as it has processes.
fn parents(mounts: &str, groups: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((mount, what)) = line.split_once(" - ") else { continue };
        let mut fields = mount.split(' ').skip(3);
        let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
        let mut what = what.split(' ');
        let own = |is_ours: &dyn Fn(&str) -> bool| {
            let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
            lines.find(|(controllers, _)| is_ours(controllers)).map(|(_, group)| group)
        };
        let has_memory = |list: &str| list.split(',').any(|name| name == "memory");
        let group = match (what.next(), what.nth(1)) {
            (Some("cgroup2"), _) => own(&str::is_empty),
            (Some("cgroup"), Some(options)) if has_memory(options) => own(&has_memory),
            _ => None,
        };
        // What is mounted may be a part of all.
        let below = group.and_then(|group| Path::new(group).strip_prefix(root).ok());
        let Some(below) = below else { continue };
        found.extend(below.ancestors().map(|group| Path::new(point).join(group)));
    }
    found
}

/// Whether groups below it may limit memory: of version 2 it says so, and of version 1 all may.
fn may_limit(parent: &Path) -> bool {
    match fs::read_to_string(parent.join("cgroup.subtree_control")) {
        Ok(controllers) => controllers.split_ascii_whitespace().any(|name| name == "memory"),
        Err(_) => parent.join(LIMITS[1]).exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_looked_for_from_this_processes_own_upwards() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
                      36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let groups = "4:memory:/a/b\n1:cpu:/c\n0::/d\n";
        let paths = parents(mounts, groups);
        let paths: Vec<&str> = paths.iter().map(|path| path.to_str().expect("it is text")).collect();
        let v1 = ["/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory/"];
        assert_eq!(paths, [&v1[..], &["/sys/fs/cgroup/unified/d", "/sys/fs/cgroup/unified/"]].concat());
        // A container sees its own part.
        let part = "41 31 0:38 /pod/one /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(parents(part, "0::/pod/one\n"), [Path::new("/sys/fs/cgroup")]);
        assert!(parents(part, "0::/other\n").is_empty() && parents("", groups).is_empty());
    }

    #[test]
    fn a_group_limits_memory_or_says_why_not() {
        let folder = std::env::temp_dir().join(format!("nearside-groups-{}", std::process::id()));
        fs::create_dir(&folder).expect("room");
        // No file system of groups: a folder in it limits nothing.
        let refused = MemoryGroup::below(&folder, 1 << 20).map(drop).expect_err("it is a plain folder").to_string();
        let left = fs::read_dir(&folder).expect("it is there").count();
        let may = may_limit(&folder);
        fs::write(folder.join("cgroup.subtree_control"), "cpu memory\n").expect("room");
        let said = may_limit(&folder);
        fs::remove_dir_all(&folder).expect("ours");
        assert!(refused.ends_with("limits no memory"), "{refused}");
        assert_eq!((left, may, said), (0, false, true));
        match MemoryGroup::make(64 << 20) {
            Ok(group) => {
                let path = group.0.clone();
                let limit = LIMITS.iter().find_map(|name| fs::read_to_string(path.join(name)).ok());
                assert_eq!(limit.as_deref().map(str::trim), Some("67108864"));
                drop(group);
                assert!(!path.exists());
            }
            Err(why) => {
                assert!(why.to_string().contains("control group") || why.to_string().contains("cannot"), "{why}")
            }
        }
    }
}
