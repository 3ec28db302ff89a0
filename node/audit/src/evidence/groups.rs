//! Control groups of a process: where the files lie that limit it.

/// Deeper groups are no container's.
const DEEPEST: usize = 32;
/// What is read of a group, of either version of cgroups.
const FILES: [&str; 5] = ["cpu.max", "cpu.stat", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpuset.cpus.partition"];

/// The files of the groups that a process is in, and of those above them: from
/// its `/proc/PID/cgroup` (cgroups(7)). A group of another namespace, `/..`,
/// is not to be seen.
pub(super) fn files(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let of_cpu = controllers.split(',').any(|name| name == "cpu");
        // Where hierarchies of version 1 are mounted, and version 2 beside them.
        let mounts: Vec<String> = match (controllers, of_cpu) {
            ("", _) => vec!["sys/fs/cgroup".to_owned(), "sys/fs/cgroup/unified".to_owned()],
            (_, true) => vec![format!("sys/fs/cgroup/{controllers}"), "sys/fs/cgroup/cpu".to_owned()],
            _ => continue,
        };
        let parts: Vec<&str> = group.split('/').filter(|part| !part.is_empty()).collect();
        if parts.iter().any(|part| matches!(*part, "." | "..")) || parts.len() > DEEPEST {
            continue;
        }
        for mount in mounts {
            for depth in 0..=parts.len() {
                let folder = parts.iter().take(depth).fold(mount.clone(), |path, part| format!("{path}/{part}"));
                all.extend(FILES.iter().map(|file| format!("{folder}/{file}")));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_and_those_above_are_looked_at() {
        let all = files("5:memory:/m\n4:cpu,cpuacct:/a/b\n0::/c\n");
        for path in [
            "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us",
            "sys/fs/cgroup/cpu,cpuacct/a/cpu.stat",
            "sys/fs/cgroup/cpu/a/b/cpu.stat",
            "sys/fs/cgroup/c/cpu.max",
            "sys/fs/cgroup/cpu.max",
        ] {
            assert!(all.iter().any(|one| one == path), "{path}");
        }
        assert!(all.iter().all(|one| !one.contains("/m/")));
        for odd in ["", "x", "0::/../x", "::", &format!("0::{}", "/a".repeat(99))] {
            assert!(files(odd).len() <= 10, "{odd}");
        }
    }
}
