//! Somebody's settings, judged for a machine before they are in force.

use crate::advice::{FileForm, Setting};
use crate::{Area, Case, Evidence, Finding, Report, Role, Row, Verdict};
use crate::{catalogue, find, origin};

/// Judges settings, in the order in which they act, for the machine.
#[must_use]
pub fn judge(evidence: &Evidence, role: Role, settings: &[Setting]) -> Report {
    let rows = settings.iter().enumerate().map(|(at, setting)| {
        let row = repeated(settings, setting, of_one(evidence, role, setting, settings));
        twice(settings, at, row)
    });
    Report {
        role,
        kernel: evidence.kernel().map(|kernel| kernel.to_string()),
        virtual_machine: evidence.virtual_machine(),
        rows: rows.collect(),
    }
}

fn of_one(evidence: &Evidence, role: Role, setting: &Setting, others: &[Setting]) -> Row {
    let place = setting.place();
    let Some(rule) = find(&setting.key) else { return Row { set_by: place, ..without_rule(evidence, setting) } };
    let case = Case { value: &setting.value, subject: &setting.subject, advised: true, role, evidence, others };
    let mut finding = rule.judge(&case);
    if !rule.roles.has(role) && finding.verdict < Verdict::Improvable {
        finding =
            Finding::new(Verdict::NoEffect, format!("changes nothing for the role {}: {}", role.name(), finding.why));
    }
    let row = rule.say(setting.subject.clone(), setting.value.clone(), finding);
    Row { set_by: place, counters: rule.count(evidence), ..row }
}

/// A key that the catalogue does not have: whether the machine does is all
/// that can be said.
fn without_rule(evidence: &Evidence, setting: &Setting) -> Row {
    let of_file = matches!(setting.form, FileForm::Sysctl | FileForm::Tuned | FileForm::Script);
    let sysctl = of_file && setting.key.contains('.') && !setting.key.contains(' ');
    let (verdict, why) = match sysctl {
        true if origin::exists(evidence, &setting.key) => (
            Verdict::NoEffect,
            "the kernel has it, and nothing that a server like ours does depends on \
                it"
            .to_owned(),
        ),
        true => (
            Verdict::Removed,
            "this kernel has no such setting: misspelt, gone, or of a module that is not loaded".to_owned(),
        ),
        false => (
            Verdict::NoEffect,
            "nothing that a server like ours does depends on it, as far as the catalogue knows".to_owned(),
        ),
    };
    Row {
        key: setting.key.clone(),
        area: Area::Kernel,
        subject: setting.subject.clone(),
        value: setting.value.clone(),
        verdict,
        why,
        want: None,
        set_by: String::new(),
        overruled: Vec::new(),
        counters: Vec::new(),
        gain: "none".to_owned(),
        risk: "none".to_owned(),
        undo: "leave it out".to_owned(),
        source: "the machine itself".to_owned(),
    }
}

/// Marks a setting that an operator writes without being told.
fn repeated(settings: &[Setting], setting: &Setting, row: Row) -> Row {
    match catalogue::repeated(settings, setting) {
        Some(why) => Row {
            verdict: row.verdict.max(Verdict::Unnecessary),
            why: format!(
                "{}; \
            {why}",
                row.why
            ),
            ..row
        },
        None => row,
    }
}

/// Settings of which a set may well have several, all of them in force.
const SEVERAL: &[&str] = &["cmdline hugepages", "cmdline hugepagesz", "cmdline console", "cmdline earlycon"];

/// Marks a setting that another one of the same set overrules.
fn twice(settings: &[Setting], at: usize, row: Row) -> Row {
    let Some(own) = settings.get(at) else { return row };
    let last_counts = matches!(
        own.form,
        FileForm::Sysctl | FileForm::Tuned | FileForm::Limits | FileForm::CommandLine | FileForm::Script
    );
    if !last_counts || SEVERAL.contains(&own.key.as_str()) {
        return row;
    }
    let later = settings.iter().skip(at + 1).rfind(|other| other.key == own.key && other.subject == own.subject);
    match later {
        Some(other) if other.value != own.value => Row {
            verdict: row.verdict.max(Verdict::Conflicts),
            why: format!("{} says {} and has the last word; {}", other.place(), other.value, row.why),
            ..row
        },
        Some(other) if row.verdict < Verdict::Improvable => {
            Row { verdict: Verdict::Unnecessary, why: format!("{} says the same", other.place()), ..row }
        }
        _ => row,
    }
}
