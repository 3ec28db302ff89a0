//! Somebody's settings, judged for a machine before they are in force.

use crate::advice::{Advice, Fault, FileForm, Setting, interface};
use crate::value::{Taken, meant, no_value, shape, take};
use crate::{Area, Case, Evidence, Finding, Report, Role, Row, Verdict};
use crate::{catalogue, find, origin};

/// Judges settings, in the order in which they act, for the machine.
#[must_use]
pub fn judge(evidence: &Evidence, role: Role, settings: &[Setting]) -> Report {
    let read: Vec<Result<Setting, Box<Row>>> = settings.iter().map(|setting| read(evidence, setting)).collect();
    // What is refused contradicts nothing, and has no last word.
    let acting: Vec<Setting> = read.iter().filter_map(|one| one.as_ref().ok().cloned()).collect();
    let mut meeting = Meeting { within: None, settings: Vec::new() };
    let mut at = 0;
    let rows = read.into_iter().map(|one| {
        let setting = match one {
            Ok(setting) => setting,
            Err(row) => return *row,
        };
        let met = meeting.of(&acting, &setting);
        let row = repeated(met, &setting, of_one(evidence, role, &setting, met));
        at += 1;
        twice(&acting, at - 1, row)
    });
    let rows = rows.collect();
    Report {
        role,
        kernel: evidence.kernel().map(|kernel| kernel.to_string()),
        virtual_machine: evidence.virtual_machine(),
        rows,
    }
}

/// Settings as they act on a machine: with the values that the kernel makes of
/// their texts, and without those that it refuses.
#[must_use]
pub fn acting(evidence: &Evidence, settings: &[Setting]) -> Vec<Setting> {
    settings.iter().filter_map(|setting| read(evidence, setting).ok()).collect()
}

/// The settings that may be in force where one of a pool or profile is: those
/// of the last that was asked for, as neighbours are mostly of the same.
struct Meeting {
    within: Option<Vec<String>>,
    settings: Vec<Setting>,
}

impl Meeting {
    fn of<'a>(&'a mut self, all: &'a [Setting], setting: &Setting) -> &'a [Setting] {
        if setting.within.is_empty() {
            return all;
        }
        if self.within.as_ref() != Some(&setting.within) {
            self.settings = all.iter().filter(|other| other.meets(setting)).cloned().collect();
            self.within = Some(setting.within.clone());
        }
        &self.settings
    }
}

/// The same, with a row for each line that is no setting, in its place.
#[must_use]
pub fn judge_lines(evidence: &Evidence, role: Role, advice: &Advice) -> Report {
    let mut report = judge(evidence, role, &advice.settings);
    // From the last to the first, so that places stay right.
    for (before, fault) in advice.faults.iter().rev() {
        report.rows.insert((*before).min(report.rows.len()), of_fault(fault));
    }
    report
}

fn of_fault(fault: &Fault) -> Row {
    Row { want: fault.meant.clone(), set_by: fault.place(), ..refusal(&fault.text, "", fault.why.clone()) }
}

/// A row on what has no effect, as nobody takes it.
fn refusal(key: &str, value: &str, why: String) -> Row {
    Row {
        key: crate::text::shown(key),
        area: Area::Kernel,
        subject: String::new(),
        value: crate::text::shown(value),
        verdict: Verdict::Refused,
        why,
        want: None,
        set_by: String::new(),
        overruled: Vec::new(),
        counters: Vec::new(),
        gain: "what was meant".to_owned(),
        risk: "none".to_owned(),
        undo: "leave it out".to_owned(),
        source: "the form of the file, and Linux kernel/sysctl.c".to_owned(),
    }
}

/// A setting with the value that the kernel makes of its text, or why it makes
/// none of it.
fn read(evidence: &Evidence, setting: &Setting) -> Result<Setting, Box<Row>> {
    let rule = find(&setting.key);
    let is_gone = rule.is_some_and(|rule| rule.outside_kernel(evidence).is_some());
    if let Some(meant) = with_slash(&setting.key) {
        let why = "there is no such file: a dot in an interface's name is written as a slash".to_owned();
        return Err(Box::new(refused(setting, rule, why, Some(meant))));
    }
    // Variables are filled in by whoever applies the file.
    let shape = match is_sysctl(&setting.key) && !setting.value.contains('$') {
        true => shape(&setting.key, evidence),
        false => None,
    };
    let Some(shape) = shape else {
        let why = no_value(&setting.key, &setting.value).filter(|_| !setting.value.contains(['$', '{']));
        return match why {
            Some(why) => Err(Box::new(refused(setting, rule, why, None))),
            None => Ok(setting.clone()),
        };
    };
    match take(shape, &setting.value) {
        Taken::As(value) => {
            // An interface is what it is about, however the file is written.
            let subject = match setting.subject.as_str() {
                "" => interface(&setting.key).unwrap_or_default().to_owned(),
                subject => subject.to_owned(),
            };
            Ok(Setting { value, subject, ..setting.clone() })
        }
        // That it is gone is the point, and not what it would have taken.
        Taken::Refused(_) if is_gone => Ok(setting.clone()),
        Taken::Refused(why) => {
            let why = format!("the kernel refuses it: {why}");
            Err(Box::new(refused(setting, rule, why, meant(shape, &setting.value))))
        }
    }
}

/// `net.ipv4.conf.eth0.100.rp_filter` as it is to be written, with `eth0/100` in the interface's place
/// (man 5 sysctl.d): as it stands it names a file below a folder of eth0's, and there is none. Of the settings of
/// interfaces none has a dot in its own name.
fn with_slash(key: &str) -> Option<String> {
    let parts: Vec<&str> = key.split('.').collect();
    match parts.as_slice() {
        ["net", family, group @ ("conf" | "neigh"), interface @ .., name] if interface.len() > 1 => {
            Some(format!("net.{family}.{group}.{}.{name}", interface.join("/")))
        }
        _ => None,
    }
}

fn refused(setting: &Setting, rule: Option<&crate::Rule>, why: String, want: Option<String>) -> Row {
    let row = refusal(&setting.key, &setting.value, why);
    let (area, source) = rule.map_or((row.area, row.source.clone()), |rule| (rule.area, rule.source.to_owned()));
    Row { subject: setting.subject.clone(), want, set_by: setting.place(), area, source, ..row }
}

/// Whether a key is a sysctl's name.
fn is_sysctl(key: &str) -> bool {
    const FOLDERS: [&str; 8] = ["net.", "kernel.", "vm.", "fs.", "dev.", "user.", "abi.", "debug."];
    FOLDERS.iter().any(|folder| key.starts_with(folder)) && !key.contains(' ')
}

fn of_one(evidence: &Evidence, role: Role, setting: &Setting, others: &[Setting]) -> Row {
    let place = setting.place();
    let of_fstack = setting.key.starts_with("nginx ")
        && others.iter().any(|other| other.key == "nginx fstack_conf" && other.file == setting.file);
    if let Some(finding) = of_fstack.then(|| catalogue::with_fstack(&setting.key, &setting.value)).flatten() {
        let row = refusal(&setting.key, &setting.value, finding.why);
        let (subject, want) = (setting.subject.clone(), finding.want);
        let source = "F-Stack, app/nginx".to_owned();
        return Row { subject, verdict: finding.verdict, want, set_by: place, area: Area::Services, source, ..row };
    }
    let Some(rule) = find(&setting.key) else { return Row { set_by: place, ..without_rule(evidence, setting) } };
    let case = Case { value: &setting.value, subject: &setting.subject, advised: true, role, evidence, others };
    let mut finding = rule.judge(&case);
    if !rule.roles.has(role) && finding.verdict < Verdict::Improvable && finding.verdict != Verdict::Unknown {
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
            Verdict::Unknown,
            "not known to the catalogue: the kernel has it, and what it does for a server is not judged",
        ),
        true => {
            (Verdict::Removed, "this kernel has no such setting: misspelt, gone, or of a module that is not loaded")
        }
        false if setting.form == FileForm::Script && setting.value.is_empty() => {
            (Verdict::Unknown, "not understood: what this command changes is not judged")
        }
        false => (Verdict::Unknown, "not known to the catalogue: nothing is said for or against it"),
    };
    let why = why.to_owned();
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
        gain: "not known".to_owned(),
        risk: "not known".to_owned(),
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

/// Whether two settings of one key are about the same thing: a limit that is
/// soft and hard at once (`-`) is either.
fn of_the_same(one: &Setting, other: &Setting) -> bool {
    let limit = |setting: &Setting| {
        let (domain, kind) = setting.subject.rsplit_once(' ')?;
        (setting.form == FileForm::Limits).then(|| (domain.to_owned(), kind.to_owned()))
    };
    match (limit(one), limit(other)) {
        (Some((domain, kind)), Some((others, other_kind))) => {
            domain == others && (kind == other_kind || other_kind == "-")
        }
        _ => one.subject == other.subject,
    }
}

/// Settings of which a set may well have several, all of them in force.
const SEVERAL: &[&str] = &[
    "cmdline hugepages",
    "cmdline hugepagesz",
    "cmdline console",
    "cmdline earlycon",
    // Of one process each, and what is read, not set.
    "chrt",
    "throttling, where it is read",
];

/// Whether the later one of two settings of the same thing takes back what the
/// other does.
fn takes_back(own: &Setting, later: &Setting) -> bool {
    if own.key.starts_with("ethtool ") {
        let pairs = |setting: &Setting| -> Vec<(String, String)> {
            let words: Vec<&str> = setting.value.split_whitespace().collect();
            words.chunks_exact(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
        };
        let (own, later) = (pairs(own), pairs(later));
        return own.iter().any(|(name, value)| later.iter().any(|(other, new)| name == other && value != new));
    }
    if own.key.starts_with("service ") {
        let off = |setting: &Setting| ["stop", "disable", "mask"].iter().any(|act| setting.value.starts_with(act));
        return off(own) != off(later);
    }
    own.value != later.value
}

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
    // A profile is on top of what it includes: that is no contradiction.
    let same = |other: &&Setting| {
        other.key == own.key && of_the_same(own, other) && (own.within == other.within || own.within.is_empty())
    };
    let later = settings.iter().skip(at + 1).rfind(same);
    match later {
        Some(other) if takes_back(own, other) => Row {
            verdict: row.verdict.max(Verdict::Conflicts),
            why: format!("{} says {} and has the last word; {}", other.place(), other.value, row.why),
            ..row
        },
        Some(other) if other.value == own.value && row.verdict < Verdict::Improvable => {
            Row { verdict: Verdict::Unnecessary, why: format!("{} says the same", other.place()), ..row }
        }
        _ => row,
    }
}
