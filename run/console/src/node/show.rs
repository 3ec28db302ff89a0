//! Tables and texts.

use audit::{Report, Row, Rule, Verdict, rules};
use core::fmt;
use serde_json::{Value, json};

/// A report for a person.
pub struct Table<'a> {
    /// What was found.
    pub report: &'a Report,
    /// Also what is as it should be.
    pub all: bool,
    /// Whether somebody's files were judged, and not the machine.
    pub advice: bool,
}

/// Columns at which texts wrap where there is no terminal; a wider one is not
/// easier to read beyond the most.
const WIDTH: usize = 100;
const NARROWEST: usize = 60;
const WIDEST: usize = 120;
/// Where the lines under a row begin.
const INDENT: usize = 4;

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        let kernel = report.kernel.as_deref().unwrap_or("of an unknown version");
        let machine = if report.virtual_machine { ", a virtual machine" } else { "" };
        let what = if self.advice { "settings of files" } else { "settings in force" };
        writeln!(f, "{what}, for the role {}, on Linux {kernel}{machine}", report.role.name())?;
        let quiet =
            |row: &&Row| self.all || !matches!(row.verdict, Verdict::Ok | Verdict::NotApplicable | Verdict::NoEffect);
        let mut rows: Vec<&Row> = report.rows.iter().filter(quiet).collect();
        if !self.advice {
            // Areas in their order; what is worst first in each.
            rows.sort_by_key(|row| (row.area, core::cmp::Reverse(row.verdict)));
        }
        let mut area = None;
        for row in rows {
            if !self.advice && area != Some(row.area) {
                writeln!(f, "\n{}", row.area.name())?;
                area = Some(row.area);
            }
            self.row(f, row)?;
        }
        writeln!(f)?;
        self.sum(f)
    }
}

impl Table<'_> {
    fn row(&self, f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
        let subject = if row.subject.is_empty() { String::new() } else { format!(" [{}]", row.subject) };
        let value = if row.value.is_empty() { String::new() } else { format!(" = {}", row.value) };
        let verdict = format!("  {:<18} ", row.verdict.name());
        hung(f, &verdict, verdict.len(), &format!("{}{subject}{value}", row.key))?;
        wrapped(f, &row.why)?;
        if let Some(want) = &row.want {
            wrapped(f, &format!("better: {want} ({}; risk: {})", gain(row), row.risk))?;
        }
        match (self.advice, row.set_by.as_str()) {
            (_, "" | "found" | "not given") => {}
            (true, place) => wrapped(f, place)?,
            (false, place) => {
                let overruled: Vec<String> =
                    row.overruled.iter().map(|other| format!("{} ({})", other.value, other.place)).collect();
                let overruled = if overruled.is_empty() {
                    String::new()
                } else {
                    format!(
                        ", overruling {}",
                        overruled.join(
                            ", \
                        "
                        )
                    )
                };
                // What nobody is known to have set was written.
                let by = if place.starts_with("written") { "" } else { "set by " };
                wrapped(f, &format!("{by}{place}{overruled}"))?;
            }
        }
        if row.verdict >= Verdict::Improvable && !row.counters.is_empty() {
            let counters: Vec<String> = row
                .counters
                .iter()
                .map(|one| {
                    format!(
                        "{} \
                {}",
                        one.name, one.value
                    )
                })
                .collect();
            wrapped(f, &format!("see: {}", counters.join(", ")))?;
        }
        if row.verdict >= Verdict::Improvable {
            wrapped(f, &format!("source: {}", row.source))?;
        }
        Ok(())
    }

    fn sum(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdicts = [
            Verdict::Dangerous,
            Verdict::WorseThanDefault,
            Verdict::Conflicts,
            Verdict::Refused,
            Verdict::Removed,
            Verdict::Improvable,
            Verdict::Unreadable,
            Verdict::Unknown,
            Verdict::Unnecessary,
            Verdict::NoEffect,
            Verdict::Ok,
            Verdict::NotApplicable,
        ];
        let count = |verdict: Verdict| match self.report.count(verdict) {
            0 => None,
            count => Some(format!("{count} {}", verdict.name())),
        };
        let counts: Vec<String> = verdicts.into_iter().filter_map(count).collect();
        writeln!(f, "{}", counts.join(", "))?;
        if !self.advice {
            writeln!(f, "{} rules had something to look at", self.report.rules_with_evidence())?;
            if !self.all {
                writeln!(f, "--all shows also what is as it should be; nearside node explain KEY says more")?;
            }
        }
        Ok(())
    }
}

fn gain(row: &Row) -> String {
    match row.gain.as_str() {
        "none" => "no gain in speed".to_owned(),
        gain => format!("gain: {gain}"),
    }
}

/// Columns of the terminal, or those that COLUMNS names.
fn width() -> usize {
    use std::io::IsTerminal as _;
    let terminal = || std::io::stdout().is_terminal().then(|| ratatui::crossterm::terminal::size().ok()).flatten();
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let columns = told.or_else(|| terminal().map(|(columns, _)| usize::from(columns)));
    columns.filter(|columns| *columns > 0).map_or(WIDTH, |columns| columns.clamp(NARROWEST, WIDEST))
}

/// A text, wrapped at words, below its row.
fn wrapped(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    if text.trim().is_empty() { Ok(()) } else { hung(f, "", INDENT, text) }
}

/// A text behind its name, wrapped at words; lines after the first begin below
/// it. Nothing of either is for a terminal to obey.
pub fn hung(f: &mut impl fmt::Write, name: &str, indent: usize, text: &str) -> fmt::Result {
    let width = width();
    write!(f, "{name:<indent$}")?;
    let mut column = indent.max(name.chars().count());
    let mut first = true;
    for word in text.split_whitespace() {
        let word: String = word.chars().filter(|char| !char.is_control()).collect();
        let length = word.chars().count();
        if !first && column + 1 + length > width {
            write!(f, "\n{:indent$}", "")?;
            column = indent;
        } else if !first {
            f.write_char(' ')?;
            column += 1;
        }
        f.write_str(&word)?;
        column += length;
        first = false;
    }
    writeln!(f)
}

/// One rule, for a person.
pub fn rule(rule: &Rule) -> String {
    let mut text = format!("{} ({})\n", rule.key, rule.area.name());
    let roles: Vec<&str> =
        audit::Role::ALL.into_iter().filter(|role| rule.roles.has(*role)).map(audit::Role::name).collect();
    let kernels = match (rule.since, rule.until) {
        ((0, 0), None) => "all".to_owned(),
        ((major, minor), None) => format!("from {major}.{minor} on"),
        ((0, 0), Some((major, minor))) => format!("before {major}.{minor}"),
        ((a, b), Some((c, d))) => format!("from {a}.{b} on, before {c}.{d}"),
    };
    let lines = [
        rule.explain.to_owned(),
        format!("Gain: {}.", rule.gain),
        format!("Risk: {}.", rule.risk),
        format!("Undo: {}.", rule.undo),
        format!("Roles: {}. Kernels: {kernels}.", roles.join(", ")),
        format!("Source: {}.", rule.source),
    ];
    for line in lines {
        // Writing to a string cannot fail.
        let _ = wrapped(&mut text, &line);
    }
    text
}

/// One rule, for a program.
pub fn rule_json(rule: &Rule) -> Value {
    let roles: Vec<&str> =
        audit::Role::ALL.into_iter().filter(|role| rule.roles.has(*role)).map(audit::Role::name).collect();
    let version = |(major, minor): (u16, u16)| format!("{major}.{minor}");
    json!({
        "key": rule.key, "area": rule.area, "roles": roles,
        "since": (rule.since != (0, 0)).then(|| version(rule.since)), "until": rule.until.map(version),
        "explain": rule.explain, "gain": rule.gain, "risk": rule.risk, "undo": rule.undo, "source": rule.source,
    })
}

/// Every rule's name, by area.
pub fn catalogue() -> String {
    let mut text = String::new();
    let mut area = None;
    for rule in rules() {
        if area != Some(rule.area) {
            text.push_str(if area.is_some() { "\n" } else { "" });
            text.push_str(rule.area.name());
            text.push('\n');
            area = Some(rule.area);
        }
        text.push_str("  ");
        text.push_str(rule.key);
        text.push('\n');
    }
    text
}

/// Every rule, for a program.
pub fn catalogue_json() -> String {
    let all: Vec<Value> = rules().map(rule_json).collect();
    format!("{}\n", Value::from(all))
}
