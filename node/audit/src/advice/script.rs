//! Commands that articles tell people to type, as the settings that they make.

use super::commands::{Command, commands};
use super::keys::{command_line, of_sysfs, written_to};
use super::lines::Advice;
use super::loops::unrolled;
use super::setting::{FileForm, Setting};
use crate::evidence::dotted;

/// Words that begin a command which is looked into.
const KNOWN: &[&str] = &[
    "sysctl",
    "ethtool",
    "chrt",
    "echo",
    "printf",
    "tee",
    "systemctl",
    "service",
    "grubby",
    "tuned-adm",
    "ulimit",
    "cat",
    "numactl",
    "taskset",
    "cpupower",
    "dpdk-devbind",
    "dpdk-devbind.py",
];

/// Commands that set nothing: what they print, or when something else runs.
const NOTHING: &[&str] = &[
    "echo", "printf", "cat", "true", "false", ":", "exit", "return", "cd", "set", "shopt", "sleep", "wait", "[", "[[",
    "test", "done", "fi", "esac", "}", ")", "then", "else", "do", "case", "shift", "break", "continue", "local",
    "readonly", "unset", "trap",
];

/// Shells within shells are read so deep.
const DEEPEST: usize = 4;

/// Whether each line is a command that is known here, or a comment.
pub(super) fn looks_like_one(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    if text.starts_with("#!") {
        return true;
    }
    lines.peek().is_some()
        && lines.all(|line| words_of(line).first().is_some_and(|word| KNOWN.contains(&word.as_str())))
}

/// A command's words, without what gives it rights.
fn words_of(line: &str) -> Vec<String> {
    let words = line.split_whitespace().map(|word| word.trim_matches(['"', '\'', '$']).to_owned());
    words.skip_while(|word| matches!(word.as_str(), "sudo" | "-n" | "nohup" | "exec" | "then" | "do")).collect()
}

/// What a script sets, command by command; a command that is not understood is
/// a setting of its own, without a rule.
pub(super) fn script(file: &str, text: &str, files: Files) -> Vec<Setting> {
    read(Shell { file, line: 1, files }, text, true, 0)
}

/// What a text sets that a script writes to a path; lines are the text's own.
pub(super) type Files = fn(path: &str, file: &str, text: &str) -> Advice;

/// The settings of one line, as far as they are understood.
pub(super) fn command(file: &str, line: usize, text: &str) -> Vec<Setting> {
    read(Shell { file, line, files: |_, _, _| Advice::default() }, text, false, 0)
}

fn read(start: Shell<'_>, text: &str, all: bool, depth: usize) -> Vec<Setting> {
    let all_commands = unrolled(commands(text));
    let mut found = Vec::new();
    for (at, one) in all_commands.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| all_commands.get(at)).filter(|_| one.piped);
        let shell = Shell { line: start.line + one.line - 1, ..start };
        let settings = if one.vague { Vec::new() } else { shell.settings(one, before, depth) };
        // What another command takes is understood with that.
        let printed = all_commands.get(at + 1).is_some_and(|next| next.piped) && printed(one).is_some();
        let silent = one.output.as_deref().is_none_or(|path| path.starts_with("/dev/") || path.starts_with('&'));
        let nothing = one.words.first().is_none_or(|word| NOTHING.contains(&word.as_str())) && silent;
        let nothing = nothing && !(one.vague && one.output.is_some());
        if settings.is_empty() && all && !printed && !nothing {
            found.push(shell.setting(&crate::text::shown(&one.text), "", ""));
        }
        found.extend(settings);
    }
    found
}

/// Where a command stands.
#[derive(Clone, Copy)]
struct Shell<'a> {
    file: &'a str,
    line: usize,
    files: Files,
}

impl Shell<'_> {
    fn setting(self, key: &str, subject: &str, value: &str) -> Setting {
        Setting {
            key: key.to_owned(),
            value: value.trim_matches(['"', '\'']).to_owned(),
            subject: subject.to_owned(),
            file: self.file.to_owned(),
            line: self.line,
            form: FileForm::Script,
            within: Vec::new(),
        }
    }

    fn settings(self, one: &Command, before: Option<&Command>, depth: usize) -> Vec<Setting> {
        let words: Vec<&str> = one.words.iter().map(String::as_str).collect();
        let base = |word: &&str| word.rsplit('/').next().unwrap_or_default().to_owned();
        if let [shell, flags, inner, ..] = words.as_slice()
            && ["sh", "bash", "dash", "ksh"].contains(&base(shell).as_str())
            && flags.starts_with('-')
            && flags.ends_with('c')
            && depth < DEEPEST
        {
            return read(self, inner, false, depth + 1);
        }
        // What is written, and where to.
        let text = printed(one).or_else(|| before.and_then(printed).filter(|_| base(&words[0]) == "tee"));
        if let Some((line, text)) = text {
            let tee = words.iter().filter(|_| words.first().is_some_and(|word| base(word) == "tee")).skip(1);
            let paths = tee.filter(|word| !word.starts_with('-')).copied().chain(one.output.as_deref());
            let line = line.map_or(self.line, |line| self.line + line - one.line);
            let written: Vec<Setting> =
                paths.flat_map(braces).flat_map(|path| self.written(&path, &text, line)).collect();
            if !written.is_empty() || one.output.is_some() {
                return written;
            }
        }
        // `sysctl -p -` reads what is here.
        if let (Some((line, text)), Some(_)) = (&one.input, words.iter().find(|word| base(word) == "sysctl"))
            && words.iter().any(|word| matches!(*word, "-" | "/dev/stdin" | "--load=-" | "-p-" | "--load=/dev/stdin"))
        {
            return self.written("/etc/sysctl.conf", text, self.line + line - one.line);
        }
        // What runs under a shell or another command counts, too.
        let mut found = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let name = base(word);
            if KNOWN.contains(&name.as_str()) {
                found.extend(self.of_command(&name, &words[at + 1..]));
                if !["numactl", "taskset", "chrt"].contains(&name.as_str()) {
                    break;
                }
            }
        }
        found
    }

    /// What a text sets that is written to a file.
    fn written(self, path: &str, text: &str, line: usize) -> Vec<Setting> {
        let path = path.trim_matches(['"', '\'']);
        if let Some(key) = path.strip_prefix("/proc/sys/") {
            return vec![self.setting(&dotted(key), "", text.trim())];
        }
        if path.starts_with("/sys/") || path.starts_with("/proc/irq/") {
            let (key, subject, value) = match written_to(path, text.trim()) {
                Some(known) => known,
                None => (of_sysfs(path), String::new(), text.trim().to_owned()),
            };
            return vec![self.setting(&key, &subject, &value)];
        }
        let advice = (self.files)(path, self.file, text);
        let mut settings = advice.settings;
        for setting in &mut settings {
            setting.line += line - 1;
        }
        // A line that is no setting of that file is not understood here.
        let faults = advice.faults.into_iter().map(|(_, fault)| {
            let at = Self { line: fault.line + line - 1, ..self };
            at.setting(&crate::text::shown(&fault.text), path, "")
        });
        settings.extend(faults);
        settings
    }

    fn of_command(self, name: &str, rest: &[&str]) -> Vec<Setting> {
        let mut settings = Vec::new();
        match name {
            "sysctl" => {
                for (key, value) in assignments(rest) {
                    settings.push(self.setting(&dotted(key), "", &value));
                }
            }
            "ethtool" => settings.extend(ethtool(rest).map(|(key, device, value)| self.setting(key, device, &value))),
            "chrt" => settings.extend(fifo(rest).map(|value| self.setting("chrt", "", &value))),
            "ulimit" => settings.extend(ulimit(rest).map(|(key, value)| self.setting(key, "ulimit", value))),
            "tuned-adm" if rest.first() == Some(&"profile") => {
                settings.push(self.setting("tuned profile", "", &rest[1..].join(" ")));
            }
            "grubby" => {
                let arguments = rest.iter().find_map(|word| word.strip_prefix("--args="));
                if let Some(arguments) = arguments {
                    settings.extend(command_line(self.file, self.line, arguments.trim()).settings);
                }
            }
            "systemctl" => {
                const ACTS: [&str; 6] = ["stop", "disable", "mask", "start", "enable", "restart"];
                let mut words = rest.iter().filter(|word| !word.starts_with('-'));
                if let Some(act) = words.next().filter(|word| ACTS.contains(*word)) {
                    let of = |unit: &&str| format!("service {}", unit.trim_end_matches(".service"));
                    settings.extend(words.map(|unit| self.setting(&of(unit), "", act)));
                }
            }
            // As before systemd: the unit, and then what to do with it.
            "service" => {
                if let [unit, act @ ("stop" | "start" | "restart"), ..] = rest {
                    settings.push(self.setting(&format!("service {unit}"), "", act));
                }
            }
            "cpupower" => settings.extend(cpupower(rest).map(|(key, value)| self.setting(key, "", &value))),
            "numactl" | "taskset" if !rest.is_empty() => settings.push(self.setting(name, "", &rest.join(" "))),
            "dpdk-devbind" | "dpdk-devbind.py" if rest.len() > 1 => {
                settings.push(self.setting("dpdk-devbind", "", &rest.join(" ")));
            }
            "cat" => {
                let old = rest.iter().find(|word| word.contains("cpu.cfs_quota_us") || word.contains("cpu,cpuacct"));
                settings.extend(old.map(|path| self.setting("throttling, where it is read", "", path)));
            }
            _ => {}
        }
        settings
    }
}

/// `a{b,c}d` as `abd` and `acd`: the first braces of a path, which have most.
fn braces(path: &str) -> Vec<String> {
    let whole = || vec![path.to_owned()];
    let Some((before, rest)) = path.split_once('{').filter(|(before, _)| !before.ends_with('$')) else {
        return whole();
    };
    let Some((within, after)) = rest.split_once('}').filter(|(within, _)| within.contains(',')) else { return whole() };
    within.split(',').map(|one| format!("{before}{one}{after}")).collect()
}

/// What a command prints, and where that text begins if not with the command.
fn printed(one: &Command) -> Option<(Option<usize>, String)> {
    if let Some((line, text)) = &one.input {
        let reads = one.words.first().is_some_and(|word| ["cat", "tee"].contains(&word.as_str()));
        return reads.then(|| (Some(*line), text.clone()));
    }
    let [name, rest @ ..] = one.words.as_slice() else { return None };
    match name.as_str() {
        "echo" => {
            let rest: Vec<&str> = rest
                .iter()
                .map(String::as_str)
                .skip_while(|word| matches!(*word, "-n" | "-e" | "-ne" | "-en"))
                .collect();
            Some((None, rest.join(" ").replace("\\n", "\n")))
        }
        "printf" => {
            let (format, values) = rest.split_first()?;
            let mut values = values.iter();
            let mut text = String::new();
            for (at, part) in format.replace("\\n", "\n").split("%s").enumerate() {
                if at > 0 {
                    text.push_str(values.next().map_or("", String::as_str));
                }
                text.push_str(part);
            }
            Some((None, text))
        }
        _ => None,
    }
}

/// The limit that `ulimit` sets, and its value.
fn ulimit<'a>(words: &[&'a str]) -> Option<(&'static str, &'a str)> {
    const LIMITS: [(char, &str); 8] = [
        ('n', "limits.conf"),
        ('u', "limits.conf nproc"),
        ('l', "limits.conf memlock"),
        ('r', "limits.conf rtprio"),
        ('s', "limits.conf stack"),
        ('c', "limits.conf core"),
        ('i', "limits.conf sigpending"),
        ('v', "limits.conf as"),
    ];
    let (flags, value) = match words {
        [flags, value] => (*flags, *value),
        [one, flags, value] if one.starts_with('-') => (*flags, *value),
        _ => return None,
    };
    let (_, key) = LIMITS.into_iter().find(|(flag, _)| flags.starts_with('-') && flags.contains(*flag))?;
    Some((key, value))
}

/// `cpupower frequency-set -g NAME`, `cpupower idle-set -D N`.
fn cpupower(words: &[&str]) -> Option<(&'static str, String)> {
    let at = words.iter().position(|word| ["frequency-set", "idle-set", "set"].contains(word))?;
    let value = |flags: &[&str]| {
        let rest = words.get(at + 1..)?;
        let found = rest.iter().position(|word| flags.contains(word))?;
        rest.get(found + 1).map(|value| (*value).to_owned())
    };
    match *words.get(at)? {
        "frequency-set" => value(&["-g", "--governor"]).map(|value| ("frequency governor", value)),
        "set" => value(&["-b", "--perf-bias"]).map(|value| ("energy bias", value)),
        _ => Some(("cpupower idle-set", words.get(at + 1..)?.join(" "))),
    }
}

/// `key=value` after `-w`; values may have blanks within quotes.
fn assignments<'a>(words: &[&'a str]) -> Vec<(&'a str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for word in words.iter().filter(|word| !word.starts_with('-')) {
        match (word.split_once('='), found.last_mut()) {
            (Some((key, value)), _) if key.contains(['.', '/']) => {
                found.push((key, value.trim_matches(['"', '\'']).to_owned()));
            }
            // The rest of a value such as 4096 87380 4194304.
            (_, Some((_, value))) if word.starts_with(|char: char| char.is_ascii_digit()) => {
                value.push(' ');
                value.push_str(word);
            }
            _ => {}
        }
    }
    found
}

/// The kind of change, the interface and what it gets.
fn ethtool<'a>(words: &[&'a str]) -> Option<(&'static str, &'a str, String)> {
    let kinds = [
        ("-G", "--set-ring", "ethtool -G"),
        ("-C", "--coalesce", "ethtool -C"),
        ("-L", "--set-channels", "ethtool -L"),
        ("-K", "--offload", "ethtool -K"),
        ("-A", "--pause", "ethtool -A"),
    ];
    let [flag, device, rest @ ..] = words else { return None };
    let (.., key) = kinds.into_iter().find(|(short, long, _)| {
        [*short, *long].contains(flag) || long.trim_start_matches("--set-") == flag.trim_start_matches("--")
    })?;
    Some((key, device, rest.join(" ")))
}

/// `fifo:N` of `chrt -f N` and `chrt -f -p N PID`; round robin is no other.
fn fifo(words: &[&str]) -> Option<String> {
    let real_time = words.iter().any(|word| {
        ["--fifo", "--rr"].contains(word)
            || word.starts_with('-') && !word.starts_with("--") && word.contains(['f', 'r'])
    });
    let priority = words.iter().find_map(|word| word.parse::<u8>().ok())?;
    real_time.then(|| format!("fifo:{priority}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<(String, String)> {
        command("x", 1, line).into_iter().map(|one| (one.key, one.value)).collect()
    }

    #[test]
    fn commands_are_the_settings_that_they_make() {
        let one = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
        assert_eq!(found("sudo sysctl -w net.ipv4.tcp_tw_reuse=1"), one("net.ipv4.tcp_tw_reuse", "1"));
        assert_eq!(
            found("sysctl -w net.ipv4.tcp_rmem='4096 87380 4194304'"),
            one("net.ipv4.tcp_rmem", "4096 87380 4194304")
        );
        assert_eq!(found("ethtool -G eth0 rx 8192"), one("ethtool -G", "rx 8192"));
        assert_eq!(found("chrt -f -p 2 $PID"), one("chrt", "fifo:2"));
        assert_eq!(
            found("taskset -c 2 chrt --fifo 50 ./worker"),
            [("taskset", "-c 2 chrt --fifo 50 ./worker"), ("chrt", "fifo:50")].map(|(a, b)| (a.into(), b.into()))
        );
        assert_eq!(
            found("echo never > /sys/kernel/mm/transparent_hugepage/enabled"),
            one("transparent_hugepage/enabled", "never")
        );
        assert_eq!(found("echo 1 >/proc/sys/net/ipv4/tcp_tw_recycle"), one("net.ipv4.tcp_tw_recycle", "1"));
        assert_eq!(found("cat /sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us").len(), 1);
        assert_eq!(found("systemctl disable --now irqbalance.service"), one("service irqbalance", "disable"));
        assert_eq!(found("grubby --update-kernel=ALL --args=\"idle=poll\""), one("cmdline idle", "poll"));
        for odd in
            ["ethtool", "ethtool -G", "chrt", "echo >", "sysctl", "", ";;|", "chrt -f", "echo x > y", "systemctl"]
        {
            assert_eq!(found(odd), [], "{odd}");
        }
    }
}
