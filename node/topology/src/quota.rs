//! How much processor time a control group leaves its processes: less than the
//! cores that they may run on, as in a container with a limit.

use core::fmt;
use std::path::{Path, PathBuf};
use sysroot::Sysroot;

/// The tightest limit that applies to this process: `cpu.max` of cgroup v2
/// (cgroup-v2.rst of the kernel's documentation), or `cpu.cfs_quota_us` of v1
/// (sched-bwc.rst). A group has no more than each group above it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuQuota {
    /// Microseconds of processor time…
    pub quota: u64,
    /// …in each period of so many.
    pub period: u64,
    /// The file that says so.
    pub file: PathBuf,
}

/// None of these files is longer, but a list of many mounts, which is cut.
const FILE_LIMIT: u64 = 1 << 20;

impl CpuQuota {
    /// This process's, if there is any; `root` holds `proc` and what is mounted
    /// below it, and is `/` but for tests.
    #[must_use]
    pub fn of_this_process(root: &Path) -> Option<Self> {
        let root = Sysroot::at(root);
        let groups = read(&root, "proc/self/cgroup")?;
        let mounts = read(&root, "proc/self/mountinfo")?;
        let all = mounts.lines().filter_map(Mount::of).flat_map(|mount| {
            let below = groups.lines().filter_map(|line| mount.below(line)).next().unwrap_or_default();
            mount.limits(&root, &below)
        });
        // Of two as tight, the first: the nearest.
        all.reduce(|tightest, other| if other.is_below(&tightest) { other } else { tightest })
    }

    /// How many threads it keeps busy: rounded up, at least one.
    #[must_use]
    pub fn cores(&self) -> usize {
        usize::try_from(self.quota.div_ceil(self.period.max(1))).unwrap_or(usize::MAX).max(1)
    }

    /// Processor time per time.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.quota as f64 / self.period.max(1) as f64
    }

    fn is_below(&self, other: &Self) -> bool {
        u128::from(self.quota) * u128::from(other.period) < u128::from(other.quota) * u128::from(self.period)
    }

    /// What a group's files say; its folder is one of the root's.
    fn of_group(root: &Sysroot, folder: &Path, version: Version) -> Option<Self> {
        let text = |name: &str| read(root, folder.join(name).to_str()?);
        let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
        let (name, quota, period) = match version {
            // `150000 100000`, or `max 100000`.
            Version::Two => {
                let text = text("cpu.max")?;
                let (quota, period) = text.trim().split_once(' ')?;
                ("cpu.max", quota.parse().ok()?, period.parse().ok()?)
            }
            // -1, which is no number here, where there is none.
            Version::One => ("cpu.cfs_quota_us", number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?),
        };
        // As it is called on the machine.
        let file = Path::new("/").join(folder).join(name);
        (quota > 0 && period > 0).then_some(Self { quota, period, file })
    }
}

/// `1.5 cores by /sys/fs/cgroup/a/cpu.max`.
impl fmt::Display for CpuQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = format!("{:.2}", self.share());
        let share = share.trim_end_matches('0').trim_end_matches('.');
        let cores = if share == "1" { "core" } else { "cores" };
        write!(f, "{share} {cores} by {}", self.file.display())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

/// A hierarchy of groups, where it is mounted (proc(5), mountinfo).
struct Mount {
    version: Version,
    /// Which of its groups is mounted.
    group: String,
    point: PathBuf,
}

impl Mount {
    /// `36 35 98:0 /group /mnt rw,noatime master:1 - cgroup cgroup rw,cpu`
    fn of(line: &str) -> Option<Self> {
        let (mount, what) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (group, point) = (unescaped(fields.next()?), unescaped(fields.next()?));
        let mut what = what.split(' ');
        let version = match (what.next()?, what.nth(1)) {
            ("cgroup2", _) => Version::Two,
            ("cgroup", Some(options)) if options.split(',').any(|option| option == "cpu") => Version::One,
            _ => return None,
        };
        Some(Self { version, group, point: point.into() })
    }

    /// This process's group below the mounted one, by a line of
    /// `/proc/self/cgroup`: `4:cpu,cpuacct:/a/b`, or `0::/a/b` of version 2.
    fn below(&self, line: &str) -> Option<PathBuf> {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let ours = match self.version {
            Version::Two => controllers.is_empty(),
            Version::One => controllers.split(',').any(|controller| controller == "cpu"),
        };
        // One that is not below it is seen from another namespace: then what is
        // mounted is what there is to be seen.
        let group = Path::new(group);
        let below = group
            .strip_prefix(&self.group)
            .ok()
            .filter(|below| below.components().all(|part| matches!(part, std::path::Component::Normal(_))));
        ours.then(|| below.unwrap_or(Path::new("")).to_owned())
    }

    /// What the group and those above it say, the nearest first.
    fn limits(&self, root: &Sysroot, below: &Path) -> Vec<CpuQuota> {
        let top = self.point.strip_prefix("/").unwrap_or(&self.point);
        below.ancestors().filter_map(|group| CpuQuota::of_group(root, &top.join(group), self.version)).collect()
    }
}

/// What the kernel escapes in names, as in `\040` for a space.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => plain.extend([char::from(code)].into_iter().chain(part[3..].chars())),
            None => plain.extend(['\\'].into_iter().chain(part.chars())),
        }
    }
    plain
}

fn read(root: &Sysroot, path: &str) -> Option<String> {
    root.text(path, FILE_LIMIT).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Folder;

    /// A machine whose process is in these groups, with these mounts and files.
    fn quota(name: &str, groups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<CpuQuota> {
        let folder = Folder::new(&format!("quota-{name}"));
        let all = [("proc/self/cgroup", groups), ("proc/self/mountinfo", mounts)];
        for (path, text) in all.iter().chain(files) {
            let path = folder.0.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        CpuQuota::of_this_process(&folder.0)
    }

    const V2: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "35 24 0:30 / /sys/fs/cgroup/cpu\\054cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      36 24 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    #[test]
    fn the_tightest_of_a_group_and_those_above_it() {
        let all = |own: &'static str, above: &'static str| {
            let files = [
                ("sys/fs/cgroup/a/b/cpu.max", own),
                ("sys/fs/cgroup/a/cpu.max", above),
                ("sys/fs/cgroup/c/cpu.max", "1000 100000\n"),
            ];
            quota("v2", "0::/a/b\n", V2, &files)
        };
        let seen = |own, above| all(own, above).map(|quota| (quota.cores(), quota.to_string()));
        let own = |cores, text: &str| Some((cores, format!("{text} by /sys/fs/cgroup/a/b/cpu.max")));
        let above = |cores, text: &str| Some((cores, format!("{text} by /sys/fs/cgroup/a/cpu.max")));
        assert_eq!(seen("max 100000\n", "max 100000\n"), None);
        assert_eq!(seen("150000 100000\n", "max 100000\n"), own(2, "1.5 cores"));
        assert_eq!(seen("100000 100000\n", "100000 100000\n"), own(1, "1 core"));
        assert_eq!(seen("400000 100000\n", "50000 50000\n"), above(1, "1 core"));
        assert_eq!(seen("max 100000\n", "25000 100000\n"), above(1, "0.25 cores"));
        assert_eq!(seen("800000 100000\n", "max 100000\n"), own(8, "8 cores"));
        // Another kernel's format is no limit.
        for odd in ["", "max", "x 1", "1 x", "0 100000", "1000 0", "-1 100000"] {
            assert_eq!(seen(odd, "max 100000\n"), None, "{odd}");
        }
    }

    #[test]
    fn version_1_and_both_at_once() {
        let groups = "5:memory:/m\n4:cpu,cpuacct:/a\n0::/\n";
        let files = [
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ];
        let one = quota("v1", groups, V1, &files).expect("a limit");
        assert_eq!((one.cores(), one.share()), (3, 2.5));
        let both = format!("{V1}{}", V2.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"));
        assert_eq!(quota("both", groups, &both, &files), Some(one));
        assert_eq!(quota("none", groups, &both, &files[2..]), None);
    }

    /// A container sees its own group as the root, or the host's path with its
    /// own group mounted in its place.
    #[test]
    fn a_container_is_limited_whatever_it_sees_of_its_groups() {
        let files = [("sys/fs/cgroup/cpu.max", "200000 100000\n")];
        for (groups, mounts) in [
            ("0::/\n", V2.to_owned()),
            ("0::/docker/f00\n", V2.replace(" / ", " /docker/f00 ")),
            ("0::/../other\n", V2.to_owned()),
        ] {
            assert_eq!(quota("container", groups, &mounts, &files).map(|quota| quota.cores()), Some(2), "{groups}");
        }
        assert_eq!(quota("empty", "", "", &files), None);
        assert_eq!(unescaped("/a\\040b\\054c\\x"), "/a b,c\\x");
    }
}
