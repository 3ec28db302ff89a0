//! From files to settings.

use super::{manifest, nginx, script};
use crate::evidence::arguments;
use crate::origin::dotted;
use crate::yaml::YamlError;
use core::fmt;

/// What kind of file it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileForm {
    /// `sysctl.conf`, or a file of sysctl.d: `key = value`.
    Sysctl,
    /// A profile of tuned: sections with `key=value`.
    Tuned,
    /// `limits.conf`: domain, type, item, value.
    Limits,
    /// A kernel command line.
    CommandLine,
    /// Kubernetes' or OpenShift's manifests.
    Manifest,
    /// Commands of a shell.
    Script,
    /// nginx's configuration.
    Nginx,
    /// Lines of tmpfiles.d that write into files.
    Tmpfiles,
}

/// One setting of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The name of its rule, if there is one.
    pub key: String,
    /// The value advised.
    pub value: String,
    /// What it is about, where there are several: an interface, a user.
    pub subject: String,
    /// Where it stands.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What kind of file that is.
    pub form: FileForm,
}

impl Setting {
    /// File and line.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// Why a file cannot be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdviceError {
    /// It is larger than any file of settings.
    TooLong(String),
    /// Nothing tells what kind of file it is.
    UnknownForm(String),
    /// A line is no setting.
    Line {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It is no YAML, or not any that is read.
    Yaml {
        /// The file.
        file: String,
        /// Where, and what is wrong.
        why: YamlError,
    },
}

impl fmt::Display for AdviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(file) => write!(
                f,
                "{file}: longer than {} KiB, which no file of settings \
                is",
                LONGEST >> 10
            ),
            Self::UnknownForm(file) => write!(
                f,
                "{file}: neither a sysctl.conf nor a tuned.conf, limits.conf, kernel command line, manifest, \
                    nginx.conf \
                    or list of commands, by its name and content"
            ),
            Self::Yaml { file, why } => write!(f, "{file}:{}: {}", why.line, why.why),
            Self::Line { file, line, why } => write!(f, "{file}:{line}: {why}"),
        }
    }
}

impl std::error::Error for AdviceError {}

/// Longer files are refused.
const LONGEST: usize = 1 << 20;

/// More settings of one file are refused: each is compared with all others.
const MOST: usize = 5_000;

/// Reads a file's settings; what kind it is, its name and content tell.
///
/// # Errors
/// [`AdviceError`], which names file and line.
pub fn parse(file: &str, text: &str) -> Result<Vec<Setting>, AdviceError> {
    if text.len() > LONGEST {
        return Err(AdviceError::TooLong(file.to_owned()));
    }
    let form = form(file, text).ok_or_else(|| AdviceError::UnknownForm(file.to_owned()))?;
    let settings = of_form(form, file, text)?;
    match settings.get(MOST) {
        Some(first) => Err(AdviceError::Line {
            file: file.to_owned(),
            line: first.line,
            why: "one setting more than is judged at once",
        }),
        None => Ok(settings),
    }
}

/// Reads a file of a kind that is known.
pub(super) fn of_form(form: FileForm, file: &str, text: &str) -> Result<Vec<Setting>, AdviceError> {
    match form {
        FileForm::Sysctl => sysctl(file, text),
        FileForm::Tuned => Ok(tuned(file, text)),
        FileForm::Limits => limits(file, text),
        FileForm::CommandLine => Ok(command_lines(file, text)),
        FileForm::Tmpfiles => Ok(tmpfiles(file, text)),
        FileForm::Manifest => manifest::manifest(file, text),
        FileForm::Script => Ok(script::script(file, text)),
        FileForm::Nginx => nginx::nginx(file, text),
    }
}

pub(super) fn form(file: &str, text: &str) -> Option<FileForm> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let section = |line: &str| line.starts_with('[') && line.ends_with(']');
    let items = |line: &str| line.split_whitespace().count() == 4 && !line.contains('=');
    match name {
        "cmdline" => return Some(FileForm::CommandLine),
        "limits.conf" => return Some(FileForm::Limits),
        "sysctl.conf" => return Some(FileForm::Sysctl),
        "nginx.conf" => return Some(FileForm::Nginx),
        _ if name.ends_with(".yaml") || name.ends_with(".yml") => return Some(FileForm::Manifest),
        _ if name.ends_with(".sh") => return Some(FileForm::Script),
        _ => {}
    }
    if lines().any(|line| line.starts_with(GRUB)) {
        return Some(FileForm::CommandLine);
    }
    if lines().all(|line| line.starts_with("w ") || line.starts_with("w+ ")) && lines().next().is_some() {
        return Some(FileForm::Tmpfiles);
    }
    if manifest::looks_like_one(text) {
        return Some(FileForm::Manifest);
    }
    if script::looks_like_one(text) {
        return Some(FileForm::Script);
    }
    if nginx::looks_like_one(text) {
        return Some(FileForm::Nginx);
    }
    let first = lines().next()?;
    if lines().any(section) {
        return Some(FileForm::Tuned);
    }
    if lines().all(items) {
        return Some(FileForm::Limits);
    }
    // One line of words, of which some are arguments that kernels know.
    let words = [
        "BOOT_IMAGE=",
        "root=",
        "isolcpus=",
        "nohz_full=",
        "rcu_nocbs=",
        "idle=",
        "intel_idle.",
        "mitigations=",
        "quiet",
    ];
    if lines().count() == 1 && first.split_whitespace().any(|word| words.iter().any(|start| word.starts_with(start))) {
        return Some(FileForm::CommandLine);
    }
    lines().all(|line| line.contains('=') || line.starts_with('-')).then_some(FileForm::Sysctl)
}

/// `key = value`, one a line; `-` before a key ignores its errors, or, without
/// a value, leaves it out of what `*` means (man 5 sysctl.d).
fn sysctl(file: &str, text: &str) -> Result<Vec<Setting>, AdviceError> {
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
const GRUB: &str = "GRUB_CMDLINE_LINUX";

/// A command line as it is, or those within grub's defaults.
fn command_lines(file: &str, text: &str) -> Vec<Setting> {
    let of_grub = text.lines().enumerate().filter_map(|(at, line)| {
        let (_, value) = line.trim().strip_prefix(GRUB)?.split_once('=')?;
        let value = value.trim_matches('"').trim_start_matches("$GRUB_CMDLINE_LINUX");
        Some(command_line(file, at + 1, value))
    });
    let settings: Vec<Setting> = of_grub.flatten().collect();
    if settings.is_empty() { command_line(file, 1, text) } else { settings }
}

/// `w PATH - - - - VALUE` (man 5 tmpfiles.d).
fn tmpfiles(file: &str, text: &str) -> Vec<Setting> {
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
fn limits(file: &str, text: &str) -> Result<Vec<Setting>, AdviceError> {
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
