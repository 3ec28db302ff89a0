//! Grub's defaults: a shell script of which two variables are arguments of the
//! kernel.

use super::keys::command_line;
use super::lines::Advice;
use super::shell::assignment;

/// How the names of those variables begin.
pub(super) const GRUB: &str = "GRUB_CMDLINE_LINUX";

/// Whether a line gives one of the variables a value.
pub(super) fn is_grub(line: &str) -> bool {
    assignment(line).is_some_and(|found| found.name.starts_with(GRUB))
}

/// The arguments that are in force at the end of the script.
pub(super) fn grub(file: &str, text: &str) -> Advice {
    let mut advice = Advice::default();
    let lines = joined(text);
    let assignments: Vec<_> = lines
        .iter()
        .filter_map(|(line, text)| Some((*line, text, assignment(text).filter(|one| one.name.starts_with(GRUB))?)))
        .collect();
    for (at, (line, text, one)) in assignments.iter().enumerate() {
        let mut wrong = |why: &str, meant: Option<String>| advice.fault(file, *line, text.trim(), why, meant);
        if one.open {
            wrong("has a quote without an end: the shell takes the lines behind it for more of the value", None);
            continue;
        }
        if let Some(command) = &one.command {
            let why = format!("the value ends at the first blank: \"{command}\" is run as a command, with it");
            wrong(&why, Some(format!("{}=\"{} {command}\"", one.name, one.value)));
            continue;
        }
        let anew = |later: &&(usize, &String, super::shell::Assignment)| {
            later.2.name == one.name && later.2.command.is_none() && !later.2.from.contains(&one.name)
        };
        if let Some((later, ..)) = assignments.iter().skip(at + 1).find(anew) {
            wrong(&format!("has no effect: line {later} gives the variable a value anew"), None);
            continue;
        }
        advice.extend(command_line(file, *line, &one.value));
    }
    advice
}

/// Lines with their numbers; a backslash at the end joins the next one.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (at, line) in text.lines().enumerate() {
        let (part, more) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, last)) => last.push_str(part),
            None => lines.push((at + 1, part.to_owned())),
        }
        goes_on = more;
    }
    lines
}
