//! The same settings as files, for every boot.

use crate::plan::{Left, TuningPlan};
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
}

/// A file, as it would be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PersistedFile {
    /// Relative to the machine's root.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// A plan as files, and what of it no such file can say.
///
/// Names begin with 90: behind a distribution's own, before the operator's
/// 99-.
#[must_use]
pub fn files(plan: &TuningPlan, to: PersistTo) -> (Vec<PersistedFile>, Vec<Left>) {
    let (mut sysctls, mut writes, mut left) = (String::new(), String::new(), Vec::new());
    for step in &plan.steps {
        let why = step.why.replace(['\n', '\r'], " ");
        match step.path.strip_prefix("proc/sys/") {
            // Slashes first: a dot is then part of an interface's name.
            Some(key) => _ = writeln!(sysctls, "# {why}\n{key} = {}", step.wanted),
            None if to == PersistTo::Systemd && !step.path.contains(char::is_whitespace) => {
                // A percent sign begins a specifier (tmpfiles.d(5)).
                let (path, value) = (step.path.replace('%', "%%"), step.wanted.replace('%', "%%"));
                _ = writeln!(writes, "# {why}\nw /{path} - - - - {value}");
            }
            None => left.push(Left {
                key: step.key.clone(),
                want: step.wanted.clone(),
                why: "is no sysctl: --persist systemd writes it".to_owned(),
            }),
        }
    }
    let head = format!("# Written by nearside node apply {} for the role {}.\n", plan.id, plan.role.name());
    let mut files = Vec::new();
    for (path, text) in [("etc/sysctl.d/90-nearside.conf", sysctls), ("etc/tmpfiles.d/90-nearside.conf", writes)] {
        if !text.is_empty() {
            files.push(PersistedFile { path: path.to_owned(), text: format!("{head}{text}") });
        }
    }
    (files, left)
}
