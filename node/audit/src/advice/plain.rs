//! Files of lines: sysctl.d, tuned, limits, command lines, tmpfiles.d.

use super::grub::{grub, is_grub};
use super::keys::{command_line, of_sysctl, of_sysfs};
use super::lines::Advice;
use super::setting::{FileForm, Setting};
use super::tuned::{Entry, entries};
use crate::evidence::dotted;
use crate::text::quoted;
use crate::value::key_meant;
use std::collections::BTreeMap;

/// For so many bad lines of a file it is looked for what they were meant to be:
/// each is compared with every rule's name.
const MOST_MEANT: usize = 100;

/// `key = value`, one a line; `-` before a key ignores its errors, or, without
/// a value, leaves it out of what `*` means (man 5 sysctl.d).
pub(super) fn sysctl(file: &str, text: &str) -> Advice {
    let mut advice = Advice::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            if !line.starts_with('-') || line.contains(char::is_whitespace) {
                let meant = (advice.faults.len() < MOST_MEANT).then(|| without_equals(line)).flatten();
                advice.fault(file, at + 1, line, "is no setting: key = value", meant);
            }
            continue;
        };
        let key = dotted(key.trim_ascii().trim_start_matches('-').trim_ascii());
        let near = advice.faults.len() < MOST_MEANT;
        let meant = || near.then(|| key_meant(&key)).flatten().map(|key| format!("{key} = {}", value.trim_ascii()));
        if key.is_empty() {
            advice.fault(file, at + 1, line, "has no key before =", None);
        } else if key.contains(char::is_whitespace) {
            advice.fault(file, at + 1, line, "has a blank within its key, and no key of the kernel has one", meant());
        } else if !key.is_ascii() {
            advice.fault(file, at + 1, line, "has a character in its key that no key of the kernel has", meant());
        } else {
            advice.settings.push(of_sysctl(file, at + 1, key, value, FileForm::Sysctl));
        }
    }
    advice
}

/// What a line without `=` may have been: `key: value`, `key value`, or a
/// command that writes into the key's file.
fn without_equals(line: &str) -> Option<String> {
    if let Some(one) = super::script::command("", 0, line).into_iter().find(|one| one.key.contains('.')) {
        return Some(format!("{} = {}", one.key, one.value));
    }
    let (key, value) = line.split_once([':', ' ', '\t'])?;
    let key = key_meant(key.trim_end_matches(':'))?;
    Some(format!("{key} = {}", value.trim_matches([':', ' ', '\t'])))
}

/// What a profile of tuned sets: sysctls, sysfs files by their rule's name,
/// arguments of the command line.
pub(super) fn tuned(file: &str, text: &str) -> Advice {
    let mut advice = Advice::default();
    let mut variables = Variables::default();
    for mut entry in entries(file, text, &mut advice) {
        entry.value = variables.expand(&entry.value);
        if entry.section == "variables" && !entry.continues {
            variables.known.insert(entry.key.clone(), entry.value.clone());
        }
        of_profile(file, &entry, &mut advice);
    }
    advice
}

/// A profile's own variables, which stand as `${NAME}` in what follows.
#[derive(Default)]
struct Variables {
    known: BTreeMap<String, String>,
    /// Bytes that came in their places: ten lines of them can stand for gigabytes.
    put: usize,
}

/// Beyond so many bytes, variables stay as they are.
const MOST_PUT: usize = 256 << 10;

impl Variables {
    /// The text with the variables that are known; what another profile or a function of tuned has for one stays as
    /// it is written, and is not judged.
    fn expand(&mut self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let known = after.split_once('}').and_then(|(name, after)| Some((self.known.get(name)?, after)));
            match known.filter(|(value, _)| self.put + value.len() <= MOST_PUT) {
                Some((value, after)) => {
                    self.put += value.len();
                    out.push_str(value);
                    rest = after;
                }
                None => {
                    out.push_str("${");
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        out
    }
}

/// What one option of a profile sets.
fn of_profile(file: &str, entry: &Entry, advice: &mut Advice) {
    let Entry { line, section, key, value, continues } = entry;
    if *continues && section != "bootloader" {
        let why = format!("is indented: tuned takes it for more of the value of {key}");
        let meant = value.contains('=').then(|| value.clone());
        return advice.fault(file, *line, value, &why, meant);
    }
    // tuned takes the quotes around a whole value off.
    let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let (line, value) = (*line, bare);
    let setting = |name: &str, value: &str| Setting {
        key: name.to_owned(),
        value: value.to_owned(),
        subject: String::new(),
        file: file.to_owned(),
        line,
        form: FileForm::Tuned,
        within: Vec::new(),
    };
    match (section.as_str(), key.as_str()) {
        ("bootloader", key) if key.starts_with("cmdline") && value.contains("${") => {
            let words = value.trim_start_matches('+').split_ascii_whitespace();
            let (open, known): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains("${"));
            advice.extend(command_line(file, line, &known.join(" ")));
            advice.settings.push(setting(&format!("tuned [bootloader] {key}"), &open.join(" ")));
        }
        (section, key) if section != "main" && value.contains("${") => {
            advice.settings.push(setting(&format!("tuned [{section}] {key}"), value));
        }
        ("sysctl", key) => {
            advice.settings.push(of_sysctl(
                file,
                line,
                dotted(key),
                value.trim_start_matches(['>', '<']),
                FileForm::Tuned,
            ));
        }
        ("vm", "transparent_hugepages" | "transparent_hugepage") => {
            advice.settings.push(setting("transparent_hugepage/enabled", value));
        }
        ("vm", "transparent_hugepage.defrag") => advice.settings.push(setting("transparent_hugepage/defrag", value)),
        ("cpu", "governor") => {
            // Alternatives with | between them: the first that there is.
            advice.settings.push(setting("frequency governor", value.split('|').next().unwrap_or(value)));
        }
        ("cpu", "energy_perf_bias") => {
            let number = if value.starts_with("performance") { "0" } else { value.split('|').next().unwrap_or(value) };
            advice.settings.push(setting("energy bias", number));
        }
        ("bootloader", key) if key.starts_with("cmdline") => {
            if key == "cmdline_crash" {
                advice.settings.push(setting("tuned cmdline_crash", value));
            }
            advice.extend(command_line(file, line, value.trim_start_matches('+')));
        }
        ("sysfs", path) => advice.settings.push(setting(&of_sysfs(path), value)),
        ("service", unit) => {
            let unit = unit.trim_start_matches("service.").trim_end_matches(".service");
            advice.settings.push(setting(&format!("service {unit}"), value));
        }
        ("main", "include") => advice.settings.push(setting("tuned include", value)),
        // What only describes the profile, and the plugin of a section.
        ("main", "summary" | "description" | "version") | (_, "type" | "devices" | "enabled" | "replace") => {}
        // A unit of systemd is read elsewhere.
        ("Unit" | "Service" | "Install" | "Slice" | "Socket" | "Timer" | "Mount" | "Manager", _) => {}
        // What no rule knows is told, too.
        (section, key) => advice.settings.push(setting(&format!("tuned [{section}] {key}"), value)),
    }
}

/// A command line as it is, or those within grub's defaults.
pub(super) fn command_lines(file: &str, text: &str) -> Advice {
    match text.lines().any(is_grub) {
        true => grub(file, text),
        false => command_line(file, 1, text),
    }
}

/// `w PATH - - - - VALUE` (man 5 tmpfiles.d).
pub(super) fn tmpfiles(file: &str, text: &str) -> Advice {
    let mut advice = Advice::default();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with('w')) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, path, _, _, _, _, value @ ..] = words.as_slice() else {
            advice.fault(file, at + 1, line, "has no value: type, path, four fields (- for none), value", None);
            continue;
        };
        let value = value.join(" ");
        match path.strip_prefix("/proc/sys/") {
            Some(key) => {
                let key = dotted(key);
                advice.settings.push(of_sysctl(file, at + 1, key, &value, FileForm::Tmpfiles));
            }
            None => advice.settings.push(Setting {
                key: of_sysfs(path),
                value,
                subject: String::new(),
                file: file.to_owned(),
                line: at + 1,
                form: FileForm::Tmpfiles,
                within: Vec::new(),
            }),
        }
    }
    advice
}

/// What a limit may be of (man 5 limits.conf).
pub(super) const ITEMS: [&str; 18] = [
    "core",
    "data",
    "fsize",
    "memlock",
    "nofile",
    "rss",
    "stack",
    "cpu",
    "nproc",
    "as",
    "maxlogins",
    "maxsyslogins",
    "nonewprivs",
    "priority",
    "locks",
    "sigpending",
    "msgqueue",
    "nice",
];

/// `domain type item value`, one a line (man 5 limits.conf). What is soft and
/// what is hard are two limits.
pub(super) fn limits(file: &str, text: &str) -> Advice {
    let mut advice = Advice::default();
    for (at, whole) in text.lines().enumerate() {
        let line = whole.split('#').next().unwrap_or_default().trim_ascii();
        if line.is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let mut wrong = |why: &str, meant: Option<String>| advice.fault(file, at + 1, whole.trim(), why, meant);
        let [domain, kind, item, value] = fields.as_slice() else {
            let meant = match fields.as_slice() {
                [domain, item, value] if ITEMS.contains(item) => Some(format!("{domain} - {item} {value}")),
                _ => None,
            };
            wrong("is not domain, type, item and value", meant);
            continue;
        };
        if !matches!(*kind, "soft" | "hard" | "-") {
            wrong(&format!("{} is no type: soft, hard, or - for both", quoted(kind)), None);
        } else if !ITEMS.contains(item) && *item != "rtprio" {
            wrong(&format!("{} is nothing that a limit may be of", quoted(item)), None);
        } else if value.parse::<i64>().is_err() && !matches!(*value, "unlimited" | "infinity") {
            let meant = crate::value::number_meant(value).map(|value| format!("{domain} {kind} {item} {value}"));
            wrong(&format!("{} is no number, nor unlimited", quoted(value)), meant);
        } else {
            advice.settings.push(Setting {
                key: if *item == "nofile" { "limits.conf".to_owned() } else { format!("limits.conf {item}") },
                value: (*value).to_owned(),
                subject: format!("{domain} {kind}"),
                file: file.to_owned(),
                line: at + 1,
                form: FileForm::Limits,
                within: Vec::new(),
            });
        }
    }
    advice
}
