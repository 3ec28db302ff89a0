//! The same settings as files, for every boot.

use crate::plan::{Left, TuningPlan};
use audit::Evidence;
use core::fmt::Write as _;
use serde::Serialize;

/// Which files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PersistTo {
    /// Sysctls only, in `/etc/sysctl.d`.
    SysctlD,
    /// The same, and what is in sysfs in `/etc/tmpfiles.d`, whose `w` lines
    /// systemd-tmpfiles writes at boot.
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
    pub text: String,
}

/// A plan as files, and what of it no such file can say. For
/// [`PersistTo::Grub`] only the latter: [`crate::boot_once`] has its files.
///
/// Names begin with 90: behind a distribution's own, before the operator's
/// 99-.
#[must_use]
pub fn files(evidence: &Evidence, plan: &TuningPlan, to: PersistTo) -> (Vec<PersistedFile>, Vec<Left>) {
    let (mut sysctls, mut writes, mut left) = (String::new(), String::new(), Vec::new());
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
            _ if step.path.starts_with("ethtool/") => {
                leave(
                    &step.key,
                    &step.wanted,
                    "is the driver's, and in no such file: a link unit of systemd (man 5 systemd.link) keeps it",
                );
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
    let file = |path: &str, text: String| PersistedFile { path: path.to_owned(), text };
    let files = match to {
        PersistTo::Tuned => vec![file("etc/tuned/nearside/tuned.conf", tuned(evidence, &head, &sysctls, &writes))],
        _ => [("etc/sysctl.d/90-nearside.conf", &sysctls), ("etc/tmpfiles.d/90-nearside.conf", &writes)]
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(path, text)| file(path, format!("{head}{text}")))
            .collect(),
    };
    let nothing = sysctls.is_empty() && writes.is_empty();
    (if nothing { Vec::new() } else { files }, left)
}

/// A profile that keeps what the active one sets, where it does not say
/// otherwise.
fn tuned(evidence: &Evidence, head: &str, sysctls: &str, writes: &str) -> String {
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
    for (section, lines) in [("sysctl", dotted.as_str()), ("sysfs", writes)] {
        if !lines.is_empty() {
            text.push_str(&format!("\n[{section}]\n{lines}"));
        }
    }
    text
}
