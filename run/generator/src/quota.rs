//! How much the kernel keeps this process's group from running by a quota of processor time: `cpu.stat` of its
//! control group (cgroups(7)), of either version.

use messages::Throttling;
use std::fs;
use std::path::PathBuf;

/// Where control groups are.
const ROOT: &str = "/sys/fs/cgroup";

/// The account of a group, and where it stood.
#[derive(Debug)]
pub struct QuotaAccount {
    file: PathBuf,
    before: Throttling,
}

impl QuotaAccount {
    /// That of this process, from now on; none where the kernel keeps none.
    pub fn of_this_process() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        // In a container the group's path may be one that only its host sees: there its own group is the root.
        let files = places(&groups);
        files.into_iter().find_map(|file| Some(Self { before: read(&fs::read_to_string(&file).ok()?)?, file }))
    }

    /// What it kept the group from since.
    pub fn since(&self) -> Option<Throttling> {
        let after = read(&fs::read_to_string(&self.file).ok()?)?;
        Some(Throttling {
            periods: after.periods.saturating_sub(self.before.periods),
            throttled_us: after.throttled_us.saturating_sub(self.before.throttled_us),
        })
    }
}

/// Where a process of these groups may find its account, the likeliest first.
fn places(groups: &str) -> Vec<PathBuf> {
    let mut places = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        // No group leads out of the folder of groups.
        if path.split('/').any(|name| name == "..") {
            continue;
        }
        let folder = match controllers {
            "" => ROOT.to_owned(),
            names if names.split(',').any(|name| name == "cpu") => format!("{ROOT}/{names}"),
            _ => continue,
        };
        places.extend([format!("{folder}/{path}/cpu.stat"), format!("{folder}/cpu.stat")].map(PathBuf::from));
    }
    places
}

/// Reads an account; none where it has no quota's.
fn read(stat: &str) -> Option<Throttling> {
    let value = |key: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line?.trim().parse::<u64>().ok()
    };
    let throttled_us = value("throttled_usec").or_else(|| value("throttled_time").map(|nanos| nanos / 1_000))?;
    Some(Throttling { periods: value("nr_throttled")?, throttled_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_both_versions_are_found_and_read() {
        let paths =
            |groups: &str| -> Vec<String> { places(groups).iter().map(|path| path.display().to_string()).collect() };
        let second = paths("0::/kubepods/pod1/a\n");
        assert_eq!(second, ["/sys/fs/cgroup/kubepods/pod1/a/cpu.stat", "/sys/fs/cgroup/cpu.stat"]);
        let first = paths("12:memory:/x\n4:cpu,cpuacct:/y\n1:name=systemd:/z\n");
        assert_eq!(first, ["/sys/fs/cgroup/cpu,cpuacct/y/cpu.stat", "/sys/fs/cgroup/cpu,cpuacct/cpu.stat"]);
        assert!(paths("0::/../../etc\nnonsense\n\n").is_empty());
        let read = |text: &str| read(text).map(|one| (one.periods, one.throttled_us));
        assert_eq!(read("usage_usec 9\nnr_periods 8\nnr_throttled 3\nthrottled_usec 1500\n"), Some((3, 1_500)));
        assert_eq!(read("nr_periods 8\nnr_throttled 2\nthrottled_time 2500000\n"), Some((2, 2_500)));
        assert_eq!((read("usage_usec 9\n"), read("nr_throttled x\nthrottled_usec 1\n")), (None, None));
    }
}
