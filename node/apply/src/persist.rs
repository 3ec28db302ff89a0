//! The same settings as files, for every boot.

use crate::plan::{Argument, Left, Step, TuningPlan};
use audit::Evidence;
use core::fmt::Write as _;
use serde::Serialize;

/// Which files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PersistTo {
    /// Sysctls only, in `/etc/sysctl.d`.
    SysctlD,
    /// The same; what is in sysfs in `/etc/tmpfiles.d`, whose `w` lines
    /// systemd-tmpfiles writes at boot; and what is the driver's in
    /// `/etc/udev/rules.d`.
    Systemd,
    /// A profile of tuned, on top of the one in force.
    Tuned,
    /// Arguments of the kernel's command line, as a second entry of grub's
    /// menu that is booted once.
    Grub,
}

/// A file, as it would be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PersistedFile {
    /// Relative to the machine's root.
    pub path: String,
    /// All of it.
    #[serde(serialize_with = "as_text")]
    pub bytes: Vec<u8>,
    /// What it was made of: it is written only where that is there still. `None`:
    /// whatever is there, for it is ours alone.
    #[serde(skip)]
    pub(crate) base: Option<Option<Vec<u8>>>,
}

impl PersistedFile {
    /// One that is written whatever is there.
    fn new(path: &str, text: String) -> Self {
        Self { path: path.to_owned(), bytes: text.into_bytes(), base: None }
    }

    /// All of it, as text.
    #[must_use]
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// What of it is new, to be shown: what others wrote there, passwords among
    /// it, may be for root alone to read.
    #[must_use]
    pub fn added(&self) -> String {
        let base = self.base.as_ref().and_then(Option::as_deref).unwrap_or_default();
        let base = String::from_utf8_lossy(base);
        let known: std::collections::BTreeSet<&str> = base.lines().collect();
        let text = self.text();
        let padding = |line: &str| line.len() > 3 && line.bytes().all(|byte| byte == b'#');
        let new = text.lines().filter(|line| !known.contains(line) && !padding(line));
        new.flat_map(|line| [line, "\n"]).collect()
    }
}

fn as_text<S: serde::Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&String::from_utf8_lossy(bytes))
}

/// A plan as files, and what of it no such file can say. For
/// [`PersistTo::Grub`] only the latter: [`crate::boot_once`] has its files.
///
/// Names begin with 90: behind a distribution's own, before the operator's
/// 99-.
#[must_use]
pub fn files(evidence: &Evidence, plan: &TuningPlan, to: PersistTo) -> (Vec<PersistedFile>, Vec<Left>) {
    let (mut sysctls, mut writes, mut rules, mut left) = (String::new(), String::new(), String::new(), Vec::new());
    let mut nets: Vec<(String, DriverWords<'_>)> = Vec::new();
    let mut leave = |key: &str, want: &str, why: &str| {
        left.push(Left { key: key.to_owned(), want: want.to_owned(), why: why.to_owned() });
    };
    if to != PersistTo::Grub {
        for argument in &plan.arguments {
            leave(
                &format!("cmdline {}", argument.name),
                argument.value.as_deref().unwrap_or("nothing"),
                "is an argument of the kernel's command line: --persist grub writes it",
            );
        }
    }
    for step in &plan.steps {
        let why = step.why.replace(['\n', '\r'], " ");
        let plain = !step.path.contains(char::is_whitespace);
        match (step.path.strip_prefix("proc/sys/"), to) {
            (_, PersistTo::Grub) => {
                leave(&step.key, &step.wanted, "is no argument: --persist sysctl.d, systemd or tuned writes it")
            }
            _ if step.path.starts_with("ethtool/") => match (to, DriverWords::of(step)) {
                (PersistTo::Systemd, Some(words)) => match words.rule(evidence) {
                    Some(rule) => _ = writeln!(rules, "# {why}\n{rule}"),
                    None => leave(&step.key, &step.wanted, "is of an interface without a device: who makes it sets it"),
                },
                (PersistTo::Tuned, Some(words)) => nets.push((why, words)),
                _ => leave(&step.key, &step.wanted, "is the driver's: --persist systemd or tuned writes it"),
            },
            _ if step.path.starts_with("systemd/") => {
                leave(&step.key, &step.wanted, "is a service's: systemctl enable or disable keeps it");
            }
            _ if step.path.ends_with("/smp_affinity_list") => {
                leave(&step.key, &step.wanted, "is of an interrupt, whose number is another one after a boot");
            }
            // Slashes first: a dot is then part of an interface's name.
            (Some(key), _) => _ = writeln!(sysctls, "# {why}\n{key} = {}", step.wanted),
            (None, PersistTo::Systemd) if plain => {
                // A percent sign begins a specifier (tmpfiles.d(5)).
                let (path, value) = (step.path.replace('%', "%%"), step.wanted.replace('%', "%%"));
                _ = writeln!(writes, "# {why}\nw /{path} - - - - {value}");
            }
            // An equals sign would end the path there.
            (None, PersistTo::Tuned) if plain && !step.path.contains('=') => {
                _ = writeln!(writes, "# {why}\n/{} = {}", step.path, step.wanted);
            }
            (None, _) => leave(&step.key, &step.wanted, "is no sysctl: --persist systemd writes it"),
        }
    }
    let head = format!("# Written by nearside node apply {} for the role {}.\n", plan.id, plan.role.name());
    let files = match to {
        PersistTo::Tuned => vec![PersistedFile::new(
            "etc/tuned/nearside/tuned.conf",
            tuned(evidence, &head, &sysctls, &(writes.clone(), of_net(&nets))),
        )],
        _ => [
            ("etc/sysctl.d/90-nearside.conf", &sysctls),
            ("etc/tmpfiles.d/90-nearside.conf", &writes),
            ("etc/udev/rules.d/90-nearside.rules", &rules),
        ]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(path, text)| PersistedFile::new(path, format!("{head}{text}")))
        .collect(),
    };
    let nothing = sysctls.is_empty() && writes.is_empty() && rules.is_empty() && nets.is_empty();
    (if nothing { Vec::new() } else { files }, left)
}

/// A step of a driver as ethtool(8) takes it.
struct DriverWords<'a> {
    interface: &'a str,
    flag: &'static str,
    /// The same group, as tuned's plugin of networks calls it.
    option: &'static str,
    name: &'a str,
    value: &'a str,
}

impl<'a> DriverWords<'a> {
    fn of(step: &'a Step) -> Option<Self> {
        let mut parts = step.path.strip_prefix("ethtool/")?.split('/');
        let (interface, group, name) = (parts.next()?, parts.next()?, parts.next()?);
        let (flag, option) = match group {
            "rings" => ("-G", "ring"),
            "channels" => ("-L", "channels"),
            "coalescing" => ("-C", "coalesce"),
            "pause" => ("-A", "pause"),
            "offloads" => ("-K", "features"),
            _ => return None,
        };
        let plain = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let fits = plain(interface) && plain(name) && plain(&step.wanted);
        fits.then_some(Self { interface, flag, option, name, value: &step.wanted })
    }

    /// A rule of udev, which acts whenever the interface appears. Its device is
    /// known by its address: names are given by other rules.
    fn rule(&self, evidence: &Evidence) -> Option<String> {
        let address = evidence.get(&format!("sys/class/net/{}/address", self.interface))?;
        let real = address.len() == 17 && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
        let Self { flag, name, value, .. } = self;
        (real && address != "00:00:00:00:00:00").then(|| {
            format!(
                "ACTION==\"add\", SUBSYSTEM==\"net\", DRIVERS==\"?*\", ATTR{{address}}==\"{address}\", \
                 RUN+=\"/usr/sbin/ethtool {flag} $name {name} {value}\""
            )
        })
    }
}

/// Sections of tuned's plugin of networks, one for each interface: of several
/// settings of a group one line.
fn of_net(nets: &[(String, DriverWords<'_>)]) -> String {
    let mut text = String::new();
    let mut interfaces: Vec<&str> = nets.iter().map(|(_, words)| words.interface).collect();
    interfaces.dedup();
    for (number, interface) in interfaces.into_iter().enumerate() {
        _ = writeln!(text, "\n[net_nearside_{number}]\ntype=net\ndevices={interface}");
        let own: Vec<_> = nets.iter().filter(|(_, words)| words.interface == interface).collect();
        let mut options: Vec<&str> = own.iter().map(|(_, words)| words.option).collect();
        options.sort_unstable();
        options.dedup();
        for option in options {
            let mut pairs = String::new();
            for (why, words) in own.iter().filter(|(_, words)| words.option == option) {
                _ = writeln!(text, "# {why}");
                _ = write!(pairs, " {} {}", words.name, words.value);
            }
            _ = writeln!(text, "{option}={}", pairs.trim_start());
        }
    }
    text
}

/// What a node's manager takes in the place of changes by hand: a manifest for
/// the operators of OpenShift, a profile for tuned.
#[must_use]
pub fn for_manager(evidence: &Evidence, plan: &TuningPlan, by: &str) -> (Vec<PersistedFile>, Vec<Left>) {
    let (mut files, mut left) = files(evidence, plan, PersistTo::Tuned);
    if !by.contains("OpenShift") {
        return (files, left);
    }
    let words: Vec<String> = plan.arguments.iter().filter_map(Argument::word).collect();
    left.retain(|one| !one.key.starts_with("cmdline ") || one.want == "nothing");
    for file in &mut files {
        let mut data = String::new();
        for line in file.text().lines().filter(|line| !line.starts_with("# tuned-adm")) {
            _ = writeln!(data, "{}", if line.is_empty() { String::new() } else { format!("      {line}") });
        }
        if !words.is_empty() {
            _ = write!(data, "\n      [bootloader]\n      cmdline_nearside=+{}\n", words.join(" "));
        }
        file.path = "nearside-tuned.yaml".to_owned();
        file.bytes = format!(
            "apiVersion: tuned.openshift.io/v1\nkind: Tuned\nmetadata:\n  name: nearside\n  namespace: \
             openshift-cluster-node-tuning-operator\nspec:\n  profile:\n  - name: nearside\n    data: |\n{data}  \
             recommend:\n  # The pool of the nodes that get it.\n  - machineConfigLabels:\n      \
             machineconfiguration.openshift.io/role: worker\n    # Before what the active profile comes by: the lower \
             number wins.\n    priority: 15\n    profile: nearside\n"
        )
        .into_bytes();
    }
    (files, left)
}

/// A profile that keeps what the active one sets, where it does not say
/// otherwise.
fn tuned(evidence: &Evidence, head: &str, sysctls: &str, (writes, nets): &(String, String)) -> String {
    let active = evidence.get("etc/tuned/active_profile").unwrap_or_default();
    let name = |name: &&str| {
        *name != "nearside" && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let kept: Vec<&str> = active.split_whitespace().filter(name).collect();
    let include = if kept.is_empty() { String::new() } else { format!("include={}\n", kept.join(",")) };
    // tuned has dots in the names of sysctls, and slashes in those of
    // interfaces, as sysctl.d has it the other way round.
    let dotted: String = sysctls
        .lines()
        .map(|line| match line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            Some((key, value)) => {
                let key: String = key
                    .chars()
                    .map(|char| match char {
                        '/' => '.',
                        '.' => '/',
                        char => char,
                    })
                    .collect();
                format!("{key} = {value}\n")
            }
            None => format!("{line}\n"),
        })
        .collect();
    let mut text = format!(
        "{head}# tuned-adm profile nearside puts it in force.\n[main]\nsummary=What nearside node plan \
            proposed\n{include}"
    );
    for (section, lines) in [("sysctl", dotted.as_str()), ("sysfs", writes.as_str())] {
        if !lines.is_empty() {
            text.push_str(&format!("\n[{section}]\n{lines}"));
        }
    }
    text.push_str(nets);
    text
}
