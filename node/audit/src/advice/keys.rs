//! The names that settings of all forms have in common: sysctls, files of
//! sysfs, arguments of the kernel.

use super::lines::Advice;
use super::setting::{FileForm, Setting};
use crate::evidence::{arguments, cpu_mask, dotted};

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
    // A dot within its name is written as a slash.
    (parts.next().is_some() && parts.next().is_none()).then_some(interface)
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

/// What a file of procfs or sysfs that is one of many is called, which of them it
/// is, and the value in the form of its rule.
pub(super) fn written_to(path: &str, text: &str) -> Option<(String, String, String)> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let named = |key: &str, subject: String, value: &str| Some((key.to_owned(), subject, value.to_owned()));
    match parts.as_slice() {
        ["proc", "irq", number, "smp_affinity_list"] => named(AFFINITY, (*number).to_owned(), text),
        // A mask, where it is one; else what it is stands for itself.
        ["proc", "irq", number, "smp_affinity"] => {
            let cores = cpu_mask(text).map(|cores| Ranges(&cores).to_string());
            named(AFFINITY, (*number).to_owned(), cores.as_deref().unwrap_or(text))
        }
        ["sys", "devices", "system", "node", node, "hugepages", size, "nr_hugepages"] => {
            named(DOMAIN_PAGES, format!("{node} {}", size.trim_start_matches("hugepages-")), text)
        }
        ["sys", "devices", "system", "cpu", .., "scaling_governor"] => named("frequency governor", String::new(), text),
        ["sys", "class", "net", interface, "queues", queue, file] => {
            let key = match *file {
                "rps_cpus" => "RPS",
                "rps_flow_cnt" => "RFS",
                "xps_cpus" => "XPS",
                _ => return None,
            };
            named(key, format!("{interface} {queue}"), text)
        }
        _ => None,
    }
}

/// The rule on one interrupt's cores.
pub const AFFINITY: &str = "interrupt affinity";

/// The rule on one domain's huge pages of a size.
pub const DOMAIN_PAGES: &str = "huge pages of a domain";

/// Cores as a list, with dashes.
struct Ranges<'a>(&'a [u32]);

impl core::fmt::Display for Ranges<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut at = 0;
        while let Some(first) = self.0.get(at) {
            let mut last = at;
            while self.0.get(last + 1).is_some_and(|next| *next == self.0[last] + 1) {
                last += 1;
            }
            let comma = if at > 0 { "," } else { "" };
            match last - at {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{}", self.0[last])?,
            }
            at = last + 1;
        }
        Ok(())
    }
}
