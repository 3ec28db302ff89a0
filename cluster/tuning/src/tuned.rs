//! A profile of tuned, and the kernel's command line in it.

use crate::catalogue::{ARGUMENTS, OTHER_ARGUMENT, OTHER_SYSCTL, TUNED, find};
use crate::leaves::kib;
use crate::line::{Line, Sign, Visible, Where};
use audit::cpu_list;

const EXPANDED: &str = "${not_isolated_cores_expanded}";
const MASK: &str = "${not_isolated_cpumask}";

/// Each line of a profile that is no comment; `is_block` says that its lines stand in the file as they are.
pub(crate) fn profile(place: Where<'_>, is_block: bool, text: &str) -> Vec<Line> {
    let isolated = text.lines().find_map(|line| line.trim().strip_prefix("isolated_cores=")).unwrap_or_default().trim();
    let (mut section, mut option) = (String::new(), String::new());
    let mut lines = Vec::new();
    for (at, whole) in text.lines().enumerate() {
        let line = whole.trim();
        let place = Where { line: if is_block { place.line + at } else { place.line }, ..place };
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('[') && line.ends_with(']') {
            line.clone_into(&mut section);
            option.clear();
            continue;
        }
        // A line that is indented is more of the option above it.
        let (key, value) = match line.split_once('=') {
            Some((key, value)) if option.is_empty() || !whole.starts_with([' ', '\t']) => (key.trim(), value.trim()),
            _ if !option.is_empty() => (option.as_str(), line),
            _ => (line, ""),
        };
        let key = key.to_owned();
        let name = format!("{section} {key}");
        if section == "[bootloader]" && key.starts_with("cmdline") && !value.is_empty() {
            lines.append(&mut arguments(place, &name, value, isolated));
        } else {
            lines.push(one(place, (&section, &key, &name), value, isolated));
        }
        option = key;
    }
    lines
}

fn one(place: Where<'_>, (section, key, name): (&str, &str, &str), value: &str, isolated: &str) -> Line {
    let known = find(TUNED, name);
    let mut line = place.line(name, value, known);
    if known.is_none() && section == "[sysctl]" && audit::find(key).is_some() {
        line.what = Some(OTHER_SYSCTL.what);
        line.shown = Visible::By(Sign::Row { key: key.to_owned(), wanted: value.to_owned() });
    }
    resolve(&mut line, isolated);
    line
}

/// Each argument that an option of the section `[bootloader]` adds.
fn arguments(place: Where<'_>, name: &str, value: &str, isolated: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut size = None;
    for word in value.trim_start_matches('+').split_whitespace() {
        let mut line = argument(place, name, word);
        match word.split_once('=') {
            Some(("hugepagesz", one)) => size = kib(one),
            Some(("hugepages", count)) => {
                if let (Some(kib), Ok(count)) = (size, count.parse()) {
                    line.shown = Visible::By(Sign::Pages { kib, count, domain: None });
                }
            }
            _ => {}
        }
        resolve(&mut line, isolated);
        lines.push(line);
    }
    lines
}

/// One argument of the kernel's command line.
pub(crate) fn argument(place: Where<'_>, name: &str, word: &str) -> Line {
    let (key, value) = word.split_once('=').unwrap_or((word, word));
    let known = find(ARGUMENTS, key);
    let rule = format!("cmdline {key}");
    let mut line = place.line(name, word, known);
    if let Visible::By(Sign::Row { wanted, .. }) = &mut line.shown {
        value.clone_into(wanted);
    }
    if known.is_none() && audit::find(&rule).is_some() {
        (line.what, line.input) = (Some(OTHER_ARGUMENT.what), OTHER_ARGUMENT.input);
        line.shown = Visible::By(Sign::Row { key: rule, wanted: value.to_owned() });
    }
    line
}

/// Puts the profile's own names for cores in their place.
fn resolve(line: &mut Line, isolated: &str) {
    let Visible::By(Sign::Row { key, wanted }) = &mut line.shown else { return };
    if (wanted == EXPANDED || wanted == MASK)
        && let Some(isolated) = cpu_list(isolated)
    {
        let key = core::mem::take(key);
        line.shown = Visible::By(Sign::Rest { key, isolated });
        return;
    }
    if !isolated.is_empty() {
        *wanted = wanted.replace("${isolated_cores}", isolated);
    }
}
