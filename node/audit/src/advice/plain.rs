//! Files of lines: sysctl.d, tuned, limits, command lines, tmpfiles.d.

use super::setting::{AdviceError, FileForm, Setting};
use crate::evidence::{arguments, dotted};

/// `key = value`, one a line; `-` before a key ignores its errors, or, without
/// a value, leaves it out of what `*` means (man 5 sysctl.d).
pub(super) fn sysctl(file: &str, text: &str) -> Result<Vec<Setting>, AdviceError> {
    let mut settings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let wrong = |why| AdviceError::Line { file: file.to_owned(), line: at + 1, why };
        let Some((key, value)) = line.split_once('=') else {
            if line.starts_with('-') && !line.contains(char::is_whitespace) {
                continue;
            }
            return Err(wrong("is no setting: key = value"));
        };
        let key = dotted(key.trim().trim_start_matches('-').trim());
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(wrong("has no key before ="));
        }
        settings.push(of_sysctl(file, at + 1, key, value.trim(), FileForm::Sysctl));
    }
    Ok(settings)
}

/// A sysctl, with the interface that it is about apart from its key.
fn of_sysctl(file: &str, line: usize, key: String, value: &str, form: FileForm) -> Setting {
    let parts: Vec<&str> = key.split('.').collect();
    let subject = match parts.as_slice() {
        ["net", "ipv4" | "ipv6", "conf", interface, _] => (*interface).to_owned(),
        _ => String::new(),
    };
    let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
    Setting { key, value, subject, file: file.to_owned(), line, form }
}

/// What a profile of tuned sets: sysctls, sysfs files by their rule's name,
/// arguments of the command line.
pub(super) fn tuned(file: &str, text: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut section = String::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.to_owned();
            continue;
        }
        if line.starts_with(['#', ';']) {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        let setting = |name: &str, value: &str| Setting {
            key: name.to_owned(),
            value: value.to_owned(),
            subject: String::new(),
            file: file.to_owned(),
            line: at + 1,
            form: FileForm::Tuned,
        };
        match (section.as_str(), key) {
            ("sysctl", key) => {
                settings.push(of_sysctl(
                    file,
                    at + 1,
                    dotted(key),
                    value.trim_start_matches(['>', '<']),
                    FileForm::Tuned,
                ));
            }
            ("vm", "transparent_hugepages" | "transparent_hugepage") => {
                settings.push(setting("transparent_hugepage/enabled", value));
            }
            ("vm", "transparent_hugepage.defrag") => settings.push(setting("transparent_hugepage/defrag", value)),
            ("cpu", "governor") => {
                // Alternatives with | between them: the first that there is.
                settings.push(setting("frequency governor", value.split('|').next().unwrap_or(value)));
            }
            ("cpu", "energy_perf_bias") => {
                let number =
                    if value.starts_with("performance") { "0" } else { value.split('|').next().unwrap_or(value) };
                settings.push(setting("energy bias", number));
            }
            ("bootloader", key) if key.starts_with("cmdline") => {
                if key == "cmdline_crash" {
                    settings.push(setting("tuned cmdline_crash", value));
                }
                settings.extend(command_line(file, at + 1, value.trim_start_matches('+')));
            }
            ("sysfs", path) => settings.push(setting(&of_sysfs(path), value)),
            ("service", unit) => {
                let unit = unit.trim_start_matches("service.").trim_end_matches(".service");
                settings.push(setting(&format!("service {unit}"), value));
            }
            ("main", "include") => settings.push(setting("tuned include", value)),
            _ => {}
        }
    }
    settings
}

/// The rule on a file of sysfs, or the path itself.
pub(super) fn of_sysfs(path: &str) -> String {
    let path = path.trim_start_matches('/');
    let rule = crate::rules().find(|rule| matches!(rule.probe, crate::Probe::File(file) if file == path));
    rule.map_or_else(|| format!("/{path}"), |rule| rule.key.to_owned())
}

/// How lines of grub's defaults begin that have arguments.
pub(super) const GRUB: &str = "GRUB_CMDLINE_LINUX";

/// A command line as it is, or those within grub's defaults.
pub(super) fn command_lines(file: &str, text: &str) -> Vec<Setting> {
    let of_grub = text.lines().enumerate().filter_map(|(at, line)| {
        let (_, value) = line.trim().strip_prefix(GRUB)?.split_once('=')?;
        let value = value.trim_matches('"').trim_start_matches("$GRUB_CMDLINE_LINUX");
        Some(command_line(file, at + 1, value))
    });
    let settings: Vec<Setting> = of_grub.flatten().collect();
    if settings.is_empty() { command_line(file, 1, text) } else { settings }
}

/// `w PATH - - - - VALUE` (man 5 tmpfiles.d).
pub(super) fn tmpfiles(file: &str, text: &str) -> Vec<Setting> {
    let lines = text.lines().enumerate().filter(|(_, line)| line.starts_with('w'));
    let setting = |(at, line): (usize, &str)| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, path, _, _, _, _, value @ ..] = words.as_slice() else { return None };
        let key = path.strip_prefix("/proc/sys/").map_or_else(|| of_sysfs(path), |key| key.replace('/', "."));
        Some(Setting {
            key,
            value: value.join(" "),
            subject: String::new(),
            file: file.to_owned(),
            line: at + 1,
            form: FileForm::Tmpfiles,
        })
    };
    lines.filter_map(setting).collect()
}

pub(super) fn command_line(file: &str, line: usize, text: &str) -> Vec<Setting> {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let setting = |(name, value): (&str, &str)| {
        // A sysctl on the command line is a sysctl.
        let key = name.strip_prefix("sysctl.").map_or_else(|| format!("cmdline {name}"), dotted);
        Setting {
            key,
            value: value.to_owned(),
            subject: String::new(),
            file: file.to_owned(),
            line,
            form: FileForm::CommandLine,
        }
    };
    arguments(&words).map(setting).collect()
}

/// `domain type item value`, one a line (man 5 limits.conf).
pub(super) fn limits(file: &str, text: &str) -> Result<Vec<Setting>, AdviceError> {
    let mut settings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [domain, _, item, value] = fields.as_slice() else {
            return Err(AdviceError::Line {
                file: file.to_owned(),
                line: at + 1,
                why: "is not domain, type, item and value",
            });
        };
        settings.push(Setting {
            key: if *item == "nofile" { "limits.conf".to_owned() } else { format!("limits.conf {item}") },
            value: (*value).to_owned(),
            subject: (*domain).to_owned(),
            file: file.to_owned(),
            line: at + 1,
            form: FileForm::Limits,
        });
    }
    Ok(settings)
}
