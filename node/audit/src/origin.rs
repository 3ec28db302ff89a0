//! Who set a value, as far as files and their order imply.
//!
//! The order in which a sysctl is set at boot, each overruling those before:
//! the kernel's default; `sysctl.NAME=` on its command line (Linux 5.8);
//! systemd-sysctl, which reads `*.conf` of four folders in the order of their
//! names, a name in an earlier folder hiding the same in a later one; tuned's
//! profile; and systemd-sysctl's files once more, where tuned is told to
//! (`reapply_sysctl`, its default). Units whose commands write it come before
//! tuned, which waits for them. Last, whoever writes it at run time.

mod files;
mod units;

pub(crate) use files::of_rule;
pub(crate) use units::of_limit;

use crate::Evidence;
use crate::evidence::{dotted, sysctl_path};
use crate::value::{Taken, shape, take};
use serde::Serialize;

/// One place that sets a value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Setter {
    /// The file and its line, or another place.
    pub place: String,
    /// What it sets.
    pub value: String,
}

/// Who set the value in force, and who was overruled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Origin {
    /// The place, or what is implied where none explains the value.
    pub by: String,
    /// Places that set another value, the last first.
    pub overruled: Vec<Setter>,
}

/// Folders of sysctl's files, the one that hides others first (man 5
/// sysctl.d).
const FOLDERS: [&str; 4] = ["etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d"];

/// What is said of a value that no place explains.
pub(crate) const RUN_TIME: &str = "written at run time";

/// The most profiles of tuned that are followed; a chain has four or five.
const MOST_PROFILES: usize = 64;

/// Who set the sysctl `key`, which is `value` now.
#[must_use]
pub fn of_sysctl(evidence: &Evidence, key: &str, value: &str) -> Origin {
    let mut setters = command_line(evidence, key);
    let files = files(evidence, key);
    setters.extend(files.iter().cloned());
    setters.extend(files::of_units(evidence, key));
    let tuned = tuned(evidence, key);
    setters.extend(tuned.iter().cloned());
    if !tuned.is_empty() && reapplies(evidence) {
        // Set once more, the last word.
        setters.extend(files);
    }
    taken(evidence, key, &mut setters);
    if setters.is_empty() {
        return Origin { by: "the kernel, or written at run time".to_owned(), overruled: Vec::new() };
    }
    last_word(setters, value, same)
}

/// What the kernel took of each text: behind a number it takes no notice of a
/// comment, and what it refused set nothing.
fn taken(evidence: &Evidence, key: &str, setters: &mut Vec<Setter>) {
    let Some(shape) = shape(key, evidence) else { return };
    setters.retain_mut(|setter| match take(shape, setter.value.trim_ascii()) {
        Taken::As(value) => {
            setter.value = value;
            true
        }
        Taken::Refused(_) => false,
    });
}

/// Of places in the order in which they act: whose value is in force, and who
/// was overruled.
fn last_word(mut setters: Vec<Setter>, value: &str, same: impl Fn(&str, &str) -> bool) -> Origin {
    let Some(last) = setters.pop() else { return Origin { by: String::new(), overruled: Vec::new() } };
    setters.reverse();
    let mut overruled: Vec<Setter> = setters.into_iter().filter(|setter| !same(&setter.value, &last.value)).collect();
    overruled.dedup();
    if same(value, &last.value) {
        return Origin { by: last.place, overruled };
    }
    overruled.insert(0, last);
    Origin { by: RUN_TIME.to_owned(), overruled }
}

/// Whether two values are one: white space between numbers does not count.
fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

fn command_line(evidence: &Evidence, key: &str) -> Vec<Setter> {
    let value = evidence.argument(&format!("sysctl.{key}"));
    let setter = |value: &str| Setter { place: "kernel command line".to_owned(), value: value.to_owned() };
    value.map(setter).into_iter().collect()
}

/// `KEY = VALUE` lines of a file: key with dots, value, and line number. What
/// is no such line is left out here; [`crate::advice`] tells of it.
pub(crate) fn assignments(text: &str) -> impl Iterator<Item = (usize, String, &str)> {
    text.lines().enumerate().filter_map(|(at, line)| {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            return None;
        }
        let (key, value) = line.split_once('=')?;
        Some((at + 1, dotted(key.trim().trim_start_matches('-').trim()), value.trim()))
    })
}

/// Files of folders of which the first hides others' files of its names, in
/// the order in which systemd reads them.
fn in_order(evidence: &Evidence, folders: &[&str], end: &str) -> Vec<String> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for folder in folders {
        for name in evidence.names(folder).into_iter().filter(|name| name.ends_with(end)) {
            if names.iter().all(|(known, _)| *known != name) {
                names.push((name, folder));
            }
        }
    }
    names.sort_unstable();
    names.into_iter().map(|(name, folder)| format!("{folder}/{name}")).collect()
}

/// Every line of sysctl's files that sets the key, in the order in which they
/// act.
fn files(evidence: &Evidence, key: &str) -> Vec<Setter> {
    let mut paths = in_order(evidence, &FOLDERS, ".conf");
    // Debian links it as 99-sysctl.conf; elsewhere only sysctl --system reads
    // it, at the end.
    if !paths.iter().any(|path| path.ends_with("/99-sysctl.conf")) {
        paths.push("etc/sysctl.conf".to_owned());
    }
    let of_file = |path: &String| {
        let text = evidence.get(path).unwrap_or_default();
        let lines = assignments(text).filter(|(_, name, _)| covers(name, key));
        lines
            .map(|(line, _, value)| Setter { place: format!("/{path}:{line}"), value: value.to_owned() })
            .collect::<Vec<_>>()
    };
    paths.iter().flat_map(of_file).collect()
}

/// Whether a key of a file, which may have `*` for one part, means `key`.
fn covers(pattern: &str, key: &str) -> bool {
    if pattern == key {
        return true;
    }
    let (mut pattern, mut key) = (pattern.split('.'), key.split('.'));
    loop {
        match (pattern.next(), key.next()) {
            (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
    }
}

/// What the active profile of tuned sets, and the profiles that it includes.
fn tuned(evidence: &Evidence, key: &str) -> Vec<Setter> {
    let mut setters = Vec::new();
    for path in tuned_profiles(evidence) {
        let mut section = "";
        for (at, line) in evidence.get(&path).unwrap_or_default().lines().enumerate() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name;
                continue;
            }
            let Some((name, value)) = line.split_once('=') else { continue };
            if section == "sysctl" && !line.starts_with('#') && covers(&dotted(name.trim()), key) {
                let value = value.trim().trim_start_matches(['>', '<']);
                setters.push(Setter { place: by_tuned(&path, at + 1), value: value.to_owned() });
            }
        }
    }
    setters
}

/// Files of the active profile of tuned and of those that it includes, these
/// first. A profile that is chosen while nothing runs sets nothing.
fn tuned_profiles(evidence: &Evidence) -> Vec<String> {
    let (mut paths, mut begun) = (Vec::new(), Vec::new());
    if evidence.runs("tuned") || evidence.runs("openshift-tuned") {
        // Several profiles are merged in their order.
        for profile in evidence.get("etc/tuned/active_profile").unwrap_or_default().split_whitespace() {
            with_included(evidence, profile, &mut begun, &mut paths);
        }
    }
    paths
}

/// Each profile once, so that those which include each other end.
fn with_included(evidence: &Evidence, profile: &str, begun: &mut Vec<String>, paths: &mut Vec<String>) {
    const PLACES: [&str; 4] = ["etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"];
    let path =
        PLACES.iter().map(|place| format!("{place}/{profile}/tuned.conf")).find(|path| evidence.get(path).is_some());
    let Some(path) = path.filter(|_| begun.len() < MOST_PROFILES && !begun.iter().any(|one| one == profile)) else {
        return;
    };
    begun.push(profile.to_owned());
    let text = evidence.get(&path).unwrap_or_default();
    let included = text.lines().filter_map(|line| line.trim().strip_prefix("include")?.trim().strip_prefix('='));
    for name in included.flat_map(|names| names.split(',')) {
        with_included(evidence, name.trim(), begun, paths);
    }
    paths.push(path);
}

/// A line of a profile, and whose it is: those of OpenShift are made by its
/// operator.
fn by_tuned(path: &str, line: usize) -> String {
    let whose = if path.contains("/openshift-") { "operator" } else { "tuned" };
    format!("{whose}: /{path}:{line}")
}

/// Whether tuned sets sysctl's files again after its own (man 5
/// tuned-main.conf): by default it does.
fn reapplies(evidence: &Evidence) -> bool {
    let text = evidence.get("etc/tuned/tuned-main.conf").unwrap_or_default();
    let set = assignments(text).filter(|(_, key, _)| key == "reapply_sysctl").last();
    set.is_none_or(|(_, _, value)| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"))
}

/// Whether the key is a sysctl of this machine.
#[must_use]
pub(crate) fn exists(evidence: &Evidence, key: &str) -> bool {
    // Of a kernel that is not at hand nobody knows what it lacks.
    evidence.other_kernel() || evidence.read(&sysctl_path(key)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "vm.swappiness";

    /// A comment behind a number changes nothing, and what the kernel refused
    /// nobody set.
    #[test]
    fn who_set_a_value_is_found_by_what_the_kernel_took() {
        let file = |text: &str| {
            let evidence = Evidence::of(&[("proc/sys/vm/swappiness", "8"), ("etc/sysctl.d/50-a.conf", text)]);
            of_sysctl(&evidence, KEY, "8").by
        };
        assert_eq!(file("vm.swappiness = 010 #little\n"), "/etc/sysctl.d/50-a.conf:1");
        assert_eq!(file("vm.swappiness = 8 # little\nvm.swappiness = 9#no\n"), "/etc/sysctl.d/50-a.conf:1");
    }

    fn machine() -> Evidence {
        Evidence::of(&[
            ("proc/cmdline", "quiet sysctl.vm.swappiness=5"),
            ("etc/sysctl.d/50-own.conf", "# no\nvm.swappiness = 10\n"),
            ("usr/lib/sysctl.d/50-own.conf", "vm.swappiness = 20\n"),
            ("usr/lib/sysctl.d/60-vendor.conf", "vm/swappiness=30\n"),
        ])
    }

    #[test]
    fn a_file_in_etc_hides_one_of_its_name_and_names_give_the_order() {
        let origin = of_sysctl(&machine(), KEY, "30");
        assert_eq!(origin.by, "/usr/lib/sysctl.d/60-vendor.conf:1");
        let places: Vec<&str> = origin.overruled.iter().map(|setter| setter.place.as_str()).collect();
        assert_eq!(places, ["/etc/sysctl.d/50-own.conf:2", "kernel command line"]);
    }

    #[test]
    fn what_no_file_explains_was_written_at_run_time() {
        let origin = of_sysctl(&machine(), KEY, "77");
        assert_eq!(origin.by, "written at run time");
        assert_eq!(origin.overruled[0].value, "30");
        let nobody = of_sysctl(&Evidence::default(), KEY, "60");
        assert_eq!(nobody.by, "the kernel, or written at run time");
    }

    #[test]
    fn sysctls_files_have_the_last_word_over_tuned_unless_told_otherwise() {
        let tuned = machine()
            .with("proc/77/comm", "tuned")
            .with("etc/tuned/active_profile", "mine\n")
            .with("etc/tuned/mine/tuned.conf", "[main]\ninclude=base\n[sysctl]\nvm.swappiness=40\n")
            .with("usr/lib/tuned/base/tuned.conf", "[sysctl]\nvm.swappiness=50\n");
        let origin = of_sysctl(&tuned, KEY, "30");
        assert_eq!(origin.by, "/usr/lib/sysctl.d/60-vendor.conf:1");
        assert_eq!(origin.overruled[1].place, "tuned: /etc/tuned/mine/tuned.conf:4");
        let alone = tuned.with("etc/tuned/tuned-main.conf", "reapply_sysctl = 0\n");
        let origin = of_sysctl(&alone, KEY, "40");
        assert_eq!(origin.by, "tuned: /etc/tuned/mine/tuned.conf:4");
        assert_eq!(origin.overruled[0].value, "50");
    }

    #[test]
    fn profiles_that_include_each_other_end() {
        let evidence = Evidence::of(&[
            ("proc/77/comm", "tuned"),
            ("etc/tuned/active_profile", "a"),
            ("etc/tuned/a/tuned.conf", "[main]\ninclude=a\n[sysctl]\nvm.swappiness=1\n"),
        ]);
        assert_eq!(of_sysctl(&evidence, KEY, "1").overruled, []);
    }

    #[test]
    fn stars_stand_for_one_part() {
        assert!(covers("net.ipv4.conf.*.rp_filter", "net.ipv4.conf.eth0.rp_filter"));
        assert!(!covers("net.ipv4.*.rp_filter", "net.ipv4.conf.eth0.rp_filter"));
        assert_eq!(dotted("net/ipv4/conf/eth0.100/rp_filter"), "net.ipv4.conf.eth0/100.rp_filter");
    }
}
