//! Commands that articles tell people to type, as the settings that they make.

use super::keys::command_line;
use super::setting::{FileForm, Setting};
use super::shell::uncommented;
use crate::evidence::dotted;

/// Words that begin a command which is looked into.
const KNOWN: &[&str] =
    &["sysctl", "ethtool", "chrt", "echo", "systemctl", "grubby", "tuned-adm", "ulimit", "cat", "numactl"];

/// Whether each line is a command that is known here, or a comment.
pub(super) fn looks_like_one(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    if text.starts_with("#!") {
        return true;
    }
    lines.peek().is_some()
        && lines.all(|line| words_of(line).first().is_some_and(|word| KNOWN.contains(&word.as_str())))
}

/// The settings of a script, line by line.
pub(super) fn script(file: &str, text: &str) -> Vec<Setting> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#'));
    lines.flat_map(|(at, line)| command(file, at + 1, line)).collect()
}

/// A command's words, without what gives it rights.
fn words_of(line: &str) -> Vec<String> {
    let words = line.split_whitespace().map(|word| word.trim_matches(['"', '\'', '$']).to_owned());
    words.skip_while(|word| matches!(word.as_str(), "sudo" | "-n" | "nohup" | "exec" | "then" | "do")).collect()
}

/// The settings of one line.
pub(super) fn command(file: &str, line: usize, text: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    for one in uncommented(text).split([';', '|']).flat_map(|part| part.split("&&")) {
        let words = words_of(one);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let setting = |key: &str, subject: &str, value: &str| Setting {
            key: key.to_owned(),
            value: value.trim_matches(['"', '\'']).to_owned(),
            subject: subject.to_owned(),
            file: file.to_owned(),
            line,
            form: FileForm::Script,
            within: Vec::new(),
        };
        // What runs under a shell or another command counts, too.
        let Some(at) = words.iter().position(|word| KNOWN.contains(&word.rsplit('/').next().unwrap_or(word))) else {
            continue;
        };
        let (name, rest) = (words[at].rsplit('/').next().unwrap_or_default(), &words[at + 1..]);
        match name {
            "sysctl" => {
                for (key, value) in assignments(rest) {
                    settings.push(setting(&dotted(key), "", &value));
                }
            }
            "ethtool" => settings.extend(ethtool(rest).map(|(key, device, value)| setting(key, device, &value))),
            "chrt" => settings.extend(fifo(rest).map(|value| setting("chrt", "", &value))),
            "ulimit" => settings.extend(
                rest.iter()
                    .position(|word| *word == "-n")
                    .and_then(|at| rest.get(at + 1))
                    .map(|value| setting("limits.conf", "ulimit", value)),
            ),
            "tuned-adm" if rest.first() == Some(&"profile") => {
                settings.push(setting("tuned profile", "", &rest[1..].join(" ")));
            }
            "grubby" => {
                if let Some((_, arguments)) = one.split_once("--args=") {
                    let arguments = arguments.trim().trim_matches(['"', '\'']);
                    settings.extend(command_line(file, line, arguments).settings);
                }
            }
            "systemctl" => {
                let act = rest.iter().find(|word| matches!(**word, "stop" | "disable" | "mask" | "start" | "enable"));
                if let (Some(act), Some(unit)) = (act, rest.last()) {
                    settings.push(setting(&format!("service {}", unit.trim_end_matches(".service")), "", act));
                }
            }
            "echo" => settings.extend(echo(one).map(|(key, value)| setting(&key, "", &value))),
            "cat" => {
                let old = rest.iter().find(|word| word.contains("cpu.cfs_quota_us") || word.contains("cpu,cpuacct"));
                settings.extend(old.map(|path| setting("throttling, where it is read", "", path)));
            }
            _ => {}
        }
    }
    settings
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

/// `echo VALUE > /proc/sys/…` or `/sys/…`.
fn echo(text: &str) -> Option<(String, String)> {
    let (value, path) = text.split_once('>')?;
    let value = value.trim().trim_start_matches("sudo ").strip_prefix("echo")?.trim().trim_start_matches("-n ");
    let path = path.trim_start_matches('>').trim().trim_matches(['"', '\'']);
    let key = match path.strip_prefix("/proc/sys/") {
        Some(key) => key.replace('/', "."),
        None if path.starts_with("/sys/") => super::keys::of_sysfs(path),
        None => return None,
    };
    Some((key, value.trim_matches(['"', '\'']).to_owned()))
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
        assert_eq!(found("taskset -c 2 chrt --fifo 50 ./worker"), one("chrt", "fifo:50"));
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
