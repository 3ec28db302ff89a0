//! What a figure depends on besides processor, kernel and memory: firmware,
//! quotas, what is switched off, and the interfaces.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// More interfaces than a machine has that measures; containers' hosts have
/// thousands of virtual ones, which have no device.
const MOST_INTERFACES: usize = 64;

/// By name, as far as the machine below `root` tells.
#[must_use]
pub(crate) fn environment(root: &Path) -> BTreeMap<String, String> {
    let text = |path: &str| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        let line = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        (!line.is_empty()).then_some(line)
    };
    let files = [
        ("firmware", "sys/devices/virtual/dmi/id/bios_version"),
        ("machine", "sys/devices/virtual/dmi/id/product_name"),
        ("threads of a core", "sys/devices/system/cpu/smt/control"),
        ("turbo off", "sys/devices/system/cpu/intel_pstate/no_turbo"),
        ("frequency boost", "sys/devices/system/cpu/cpufreq/boost"),
        ("frequency driver", "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"),
        ("isolated cores", "sys/devices/system/cpu/isolated"),
        ("cores without a tick", "sys/devices/system/cpu/nohz_full"),
    ];
    let mut found: BTreeMap<String, String> =
        files.into_iter().filter_map(|(name, path)| Some((name.to_owned(), text(path)?))).collect();
    let cpu = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let microcode = cpu.lines().find_map(|line| line.strip_prefix("microcode")?.split_once(':'));
    found.extend(microcode.map(|(_, version)| ("microcode".to_owned(), version.trim().to_owned())));
    found.extend(quota(root).map(|quota| ("processor quota".to_owned(), quota)));
    found.extend(interfaces(root));
    found
}

/// `cpu.max` of this process's control group, if it has a quota; those above
/// it may have another.
fn quota(root: &Path) -> Option<String> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let text = fs::read_to_string(root.join("sys/fs/cgroup").join(own).join("cpu.max")).ok()?;
    let text = text.trim();
    (!text.starts_with("max")).then(|| text.to_owned())
}

/// Interfaces that have a device: driver, speed, MTU and queues.
fn interfaces(root: &Path) -> BTreeMap<String, String> {
    let folder = root.join("sys/class/net");
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let one = |name: String| {
        let own = folder.join(&name);
        let driver = fs::read_link(own.join("device/driver")).ok()?;
        let driver = driver.file_name()?.to_string_lossy().into_owned();
        let number = |file: &str| {
            let text = fs::read_to_string(own.join(file)).ok()?;
            text.trim().parse::<i64>().ok().filter(|number| *number > 0)
        };
        let queues = fs::read_dir(own.join("queues")).into_iter().flatten().flatten();
        let receive = queues.filter(|queue| queue.file_name().to_string_lossy().starts_with("rx-")).count();
        let speed = number("speed").map_or_else(|| "of unknown speed".to_owned(), |speed| format!("{speed} Mbit/s"));
        let mtu = number("mtu").unwrap_or(0);
        Some((format!("interface {name}"), format!("{driver}, {speed}, MTU {mtu}, {receive} receive queues")))
    };
    names.take(MOST_INTERFACES).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_told_by_its_files() {
        let root = std::env::temp_dir().join(format!("nearside-environment-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        put("proc/cpuinfo", "processor : 0\nmicrocode\t: 0xb1\n");
        put("proc/self/cgroup", "0::/box\n");
        put("sys/fs/cgroup/box/cpu.max", "50000 100000\n");
        put("sys/class/net/eth0/mtu", "9000\n");
        put("sys/class/net/eth0/speed", "-1\n");
        put("sys/class/net/eth0/queues/rx-0/x", "");
        put("sys/class/net/eth0/device/x", "");
        put("sys/class/net/veth0/mtu", "1500\n");
        std::os::unix::fs::symlink("../../drivers/e1000e", root.join("sys/class/net/eth0/device/driver"))
            .expect("a link");
        let found = environment(&root);
        fs::remove_dir_all(&root).expect("removed");
        let expected = [
            ("interface eth0", "e1000e, of unknown speed, MTU 9000, 1 receive queues"),
            ("microcode", "0xb1"),
            ("processor quota", "50000 100000"),
        ];
        let expected = expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found, expected.collect());
    }
}
