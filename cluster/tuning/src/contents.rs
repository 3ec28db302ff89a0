//! Files and units of a MachineConfig.

use crate::catalogue::{
    CRIO, FILES, Known, MACHINE_FILE, MACHINE_UNIT, PINNING, SCRIPTS, SYSTEMD, UNIT_WORDS, UNITS, find,
};
use crate::leaves::leaves;
use crate::line::{Line, Sign, Visible, Where};
use audit::yaml::{Node, documents};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What a command of a script does that changes something: a word or a sign in it.
const CHANGES: [&str; 9] = [">", "sed -i", "${SED} -i", "mkdir", "rm ", "mv ", "cp ", "sysctl ", "ethtool"];

/// One of `storage.files`: its fields, and each line of what it holds.
pub(crate) fn file(name: &str, object: &str, node: &Node, lines: &mut Vec<Line>) {
    let path = node.text_at("path").unwrap_or("a file without a path");
    for (key, field) in node.map() {
        for (place, line, value) in leaves(field, key) {
            let at = Where { file: name, line, object };
            if place != "contents.source" {
                lines.push(at.line(&format!("{path}: {place}"), &value, find(MACHINE_FILE, &place)));
                continue;
            }
            let known = find(FILES, path);
            lines.push(at.line(&format!("{path}: {place}"), "a file", known));
            match decoded(&value) {
                Some(text) => content(at, path, &text, lines),
                None => lines.push(at.line(&format!("{path}: what it holds"), "no text", None)),
            }
        }
    }
}

/// One of `systemd.units`: its fields, and each line of what it holds.
pub(crate) fn unit(name: &str, object: &str, node: &Node, lines: &mut Vec<Line>) {
    let of = node.text_at("name").unwrap_or("a unit without a name");
    for (key, field) in node.map() {
        for (place, line, value) in leaves(field, key) {
            let at = Where { file: name, line, object };
            let shown = format!("{of}: {place}");
            if place == "contents" || place == "dropins[].contents" {
                lines.push(at.line(&shown, "a unit", find(UNITS, of)));
                words(at, of, &value, lines);
            } else {
                lines.push(at.line(&shown, &value, find(MACHINE_UNIT, &place)));
            }
        }
    }
}

/// Each line of a file that is no comment, by the kind of file that its path says.
fn content(at: Where<'_>, path: &str, text: &str, lines: &mut Vec<Line>) {
    if path.ends_with("openshift-workload-pinning") {
        let documents = documents(text).unwrap_or_default();
        if documents.is_empty() {
            return lines.push(at.line(&format!("{path}: what it holds"), "no JSON", None));
        }
        for (place, _, value) in documents.iter().flat_map(|document| leaves(document, "")) {
            lines.push(at.line(&format!("{path}: {place}"), &value, find(PINNING, &place)));
        }
    } else if path.contains("/crio.conf.d/") {
        options(at, path, text, |section, key| find(CRIO, &format!("{section} {key}")), lines);
    } else if text.starts_with("#!") {
        script(at, path, text, lines);
    } else if path.starts_with("/etc/systemd/system/") {
        let of = path.rsplit('/').find(|part| !part.ends_with(".conf")).unwrap_or_default();
        words(at, of.trim_end_matches(".d"), text, lines);
    } else if path.starts_with("/etc/sysctl.d/") {
        options(at, path, text, |_, key| find(UNIT_WORDS, &format!("{path} {key}")), lines);
    } else {
        for (number, line) in plain_lines(text) {
            let known = find(UNIT_WORDS, &format!("{path} {line}"));
            lines.push(at.line(&format!("{path}: line {number}"), line, known));
        }
    }
}

fn plain_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(['#', ';']))
}

/// Lines of `key = value` in sections.
fn options(
    at: Where<'_>,
    path: &str,
    text: &str,
    known: impl Fn(&str, &str) -> Option<&'static Known>,
    lines: &mut Vec<Line>,
) {
    let mut section = "";
    for (_, line) in plain_lines(text) {
        if line.starts_with('[') && line.ends_with(']') {
            section = line;
            continue;
        }
        let (key, value) = line.split_once('=').map_or((line, ""), |(key, value)| (key.trim(), value.trim()));
        lines.push(at.line(&format!("{path}: {section} {key}"), value, known(section, key)));
    }
}

/// Lines of a unit: those that end in a backslash go on in the next.
fn words(at: Where<'_>, unit: &str, text: &str, lines: &mut Vec<Line>) {
    let (mut section, mut whole) = ("", String::new());
    let mut is_open = false;
    for (_, line) in plain_lines(text) {
        if line.starts_with('[') && line.ends_with(']') && !is_open {
            section = line;
            continue;
        }
        let part = line.strip_suffix('\\');
        whole.push_str(part.unwrap_or(line));
        is_open = part.is_some();
        if is_open {
            continue;
        }
        let line = core::mem::take(&mut whole);
        let (key, value) = line.split_once('=').unwrap_or((&line, ""));
        let own = find(UNIT_WORDS, &format!("{unit} {line}"));
        let known = own.or_else(|| find(SYSTEMD, &format!("{section} {key}")));
        let mut found = at.line(&format!("{unit}: {section} {key}"), value, known);
        if let Visible::By(Sign::Includes { .. }) | Visible::Unseen("it is no list of cores") = found.shown {
            // What stands behind the name of a variable.
            let cores = value.split_once('=').and_then(|(_, cores)| audit::cpu_list(cores));
            if let Some(cores) = cores {
                found.shown = Visible::By(Sign::Includes { key: "cores off line".to_owned(), cores });
            }
        }
        lines.push(found);
    }
    pages(unit, text, lines);
}

/// What a unit that sets huge pages of a domain aside comes to: shown at the line with their number.
fn pages(unit: &str, text: &str, lines: &mut [Line]) {
    let value = |name: &str| {
        let prefix = format!("Environment={name}=");
        text.lines().find_map(|line| line.trim().strip_prefix(prefix.as_str()))
    };
    let number = |name: &str| value(name).and_then(|text| text.parse::<u64>().ok());
    let (Some(count), Some(kib), Some(domain)) =
        (number("HUGEPAGES_COUNT"), number("HUGEPAGES_SIZE"), value("NUMA_NODE"))
    else {
        return;
    };
    let is_it = |line: &&mut Line| line.place.starts_with(unit) && line.value.starts_with("HUGEPAGES_COUNT=");
    if let Some(line) = lines.iter_mut().rev().find(is_it) {
        line.shown = Visible::By(Sign::Pages { kib, count, domain: Some(domain.to_owned()) });
    }
}

/// Commands of a script that change something.
fn script(at: Where<'_>, path: &str, text: &str, lines: &mut Vec<Line>) {
    for (number, line) in plain_lines(text) {
        let command = line.replace("2>&1", "").replace(">&2", "").replace("2>/dev/null", "").replace(">/dev/null", "");
        let is_told = line.contains(">&2") || line.starts_with("echo \"ERROR");
        if is_told || !CHANGES.iter().any(|word| command.contains(word)) {
            continue;
        }
        let known = find(SCRIPTS, &format!("{path} {line}"));
        lines.push(at.line(&format!("{path}: line {number}"), line, known));
    }
}

/// What a URL of data holds (RFC 2397), if that is text.
fn decoded(url: &str) -> Option<String> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let mut bytes = Vec::with_capacity(data.len());
    let mut rest = data.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    if head.ends_with(";base64") {
        bytes.retain(|byte| !byte.is_ascii_whitespace());
        bytes = STANDARD.decode(bytes).ok()?;
    }
    String::from_utf8(bytes).ok()
}
