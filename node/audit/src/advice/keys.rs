//! The names that settings of all forms have in common: sysctls, files of
//! sysfs, arguments of the kernel.

use super::lines::Advice;
use super::setting::{FileForm, Setting};
use crate::evidence::{arguments, dotted};

/// A sysctl, with the interface that it is about apart from its key.
pub(super) fn of_sysctl(file: &str, line: usize, key: String, value: &str, form: FileForm) -> Setting {
    let subject = interface(&key).unwrap_or_default().to_owned();
    let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    Setting { key, value, subject, file: file.to_owned(), line, form, within: Vec::new() }
}

/// The interface that a sysctl is about: `all` and `default` are some, too.
pub(crate) fn interface(key: &str) -> Option<&str> {
    let mut parts = key.split('.');
    let of_interfaces = parts.next() == Some("net") && matches!(parts.next(), Some("ipv4" | "ipv6"));
    let interface = parts.nth(1).filter(|_| of_interfaces && key.contains(".conf."))?;
    parts.next().map(|_| interface)
}

/// The rule on a file of sysfs, or the path itself.
pub(super) fn of_sysfs(path: &str) -> String {
    let path = path.trim_start_matches('/');
    let rule = crate::rules().find(|rule| matches!(rule.probe, crate::Probe::File(file) if file == path));
    rule.map_or_else(|| format!("/{path}"), |rule| rule.key.to_owned())
}

/// Arguments of the kernel. A command line has no comments: the kernel takes
/// what stands behind a `#` as it takes everything else.
pub(super) fn command_line(file: &str, line: usize, text: &str) -> Advice {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut advice = Advice::default();
    for (name, value) in arguments(&words) {
        if name.starts_with('#') {
            let why = "a command line has no comments: what follows acts as if the # were not there";
            advice.fault(file, line, name, why, None);
            continue;
        }
        // A sysctl on the command line is a sysctl.
        let key = name.strip_prefix("sysctl.").map_or_else(|| format!("cmdline {name}"), dotted);
        advice.settings.push(Setting {
            key,
            value: value.to_owned(),
            subject: String::new(),
            file: file.to_owned(),
            line,
            form: FileForm::CommandLine,
            within: Vec::new(),
        });
    }
    advice
}
