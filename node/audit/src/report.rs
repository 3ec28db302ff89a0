//! Rows, and what they come to.

use crate::text::shown;
use crate::{
    Area, Case, Counter, Evidence, Finding, Judge, Kernel, Origin, Probe, Reading, Role, Rule, Setter, Verdict,
};
use crate::{origin, rules};
use serde::Serialize;

/// A counter as it was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CounterValue {
    /// What it counts, by the kernel's name.
    pub name: String,
    /// What it is.
    pub value: String,
}

/// What one rule says of one thing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// The rule's name.
    pub key: String,
    /// What it is about.
    pub area: Area,
    /// Which thing, where there are several; else empty.
    pub subject: String,
    /// The value in force, or advised; empty where there is none.
    pub value: String,
    /// How good or bad it is.
    pub verdict: Verdict,
    /// Why.
    pub why: String,
    /// What would be better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub want: Option<String>,
    /// Who set it; for advice, where it stands.
    pub set_by: String,
    /// Who set it otherwise and was overruled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overruled: Vec<Setter>,
    /// What shows whether it matters here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CounterValue>,
    /// What a better value brings.
    pub gain: String,
    /// What a change may break.
    pub risk: String,
    /// How a change is undone.
    pub undo: String,
    /// Where all this is written.
    pub source: String,
}

/// What all rules say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// What the machine was judged for.
    pub role: Role,
    /// Its kernel, if it is known.
    pub kernel: Option<String>,
    /// Whether it is a virtual machine.
    pub virtual_machine: bool,
    /// What was found, in the order of areas.
    pub rows: Vec<Row>,
}

impl Report {
    /// The worst verdict of all rows.
    #[must_use]
    pub fn worst(&self) -> Verdict {
        self.rows.iter().map(|row| row.verdict).max().unwrap_or(Verdict::Ok)
    }

    /// How many rows have the verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    /// How many rules had something to look at.
    #[must_use]
    pub fn rules_with_evidence(&self) -> usize {
        let silent = [Verdict::NotApplicable, Verdict::Unreadable];
        let mut keys: Vec<&str> =
            self.rows.iter().filter(|row| !silent.contains(&row.verdict)).map(|row| row.key.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.len()
    }
}

/// Judges the settings in force on a machine.
#[must_use]
pub fn machine(evidence: &Evidence, role: Role) -> Report {
    let mut rows = Vec::new();
    for rule in rules() {
        if !rule.roles.has(role) || matches!(rule.probe, Probe::Advice) {
            continue;
        }
        let readings = rule.read(evidence);
        if readings.is_empty() {
            rows.push(rule.absent(evidence));
        }
        rows.extend(readings.iter().map(|reading| rule.row(evidence, role, reading)));
    }
    Report {
        role,
        kernel: evidence.kernel().map(|kernel| kernel.to_string()),
        virtual_machine: evidence.virtual_machine(),
        rows,
    }
}

impl Rule {
    /// The values in force that the rule is about.
    #[must_use]
    pub fn read(&self, evidence: &Evidence) -> Vec<Reading> {
        let file = |path: &str| {
            let value = evidence.read(path)?;
            let value = value.map(str::to_owned).map_err(str::to_owned);
            Some(Reading { subject: String::new(), value })
        };
        match self.probe {
            Probe::Sysctl => file(&crate::evidence::sysctl_path(self.key)).into_iter().collect(),
            Probe::File(path) => file(path).into_iter().collect(),
            Probe::Argument(name) => {
                let value = evidence.argument(name).unwrap_or_default().to_owned();
                let known = evidence.get("proc/cmdline").is_some();
                known.then(|| Reading { subject: String::new(), value: Ok(value) }).into_iter().collect()
            }
            Probe::Advice => Vec::new(),
            Probe::Each(probe) => probe(evidence),
        }
    }

    /// What the rule says of a value.
    #[must_use]
    pub fn judge(&self, case: &Case<'_>) -> Finding {
        if let Some(finding) = self.outside_kernel(case.evidence) {
            return finding;
        }
        if let Some(finding) = crate::value::below_zero(self.key, case.value) {
            return finding;
        }
        let number = || case.number().ok_or_else(|| case.no_number());
        match self.judge {
            Judge::By(judge) => judge(case),
            Judge::NoEffect(why) => Finding::new(Verdict::NoEffect, why),
            Judge::Only(value, ..) if case.value == value => {
                let rest = if case.advised {
                    format!("{value} is the default: nothing to set")
                } else {
                    "as it should be".to_owned()
                };
                let verdict = if case.advised { Verdict::Unnecessary } else { Verdict::Ok };
                Finding::new(verdict, rest)
            }
            Judge::Only(value, verdict, why) => Finding::new(verdict, why).want(value),
            Judge::AtLeast(least, verdict, why) => match number() {
                Ok(number) if number >= least => Finding::ok(format!("at least {least}")),
                Ok(_) => Finding::new(verdict, why).want(least.to_string()),
                Err(finding) => finding,
            },
        }
    }

    /// What there is to say where the machine's kernel has no such setting.
    pub(crate) fn outside_kernel(&self, evidence: &Evidence) -> Option<Finding> {
        let kernel = evidence.kernel()?;
        let (major, minor) = self.since;
        if kernel < Kernel(major, minor) {
            return Some(Finding::new(
                Verdict::Removed,
                format!("Linux {kernel} does not have it yet: it came with {major}.{minor}"),
            ));
        }
        let (major, minor) = self.until?;
        (kernel >= Kernel(major, minor)).then(|| {
            Finding::new(Verdict::Removed, format!("Linux {kernel} does not have it: it went with {major}.{minor}"))
        })
    }

    /// The row of a rule with nothing to look at.
    fn absent(&self, evidence: &Evidence) -> Row {
        let why = match (self.outside_kernel(evidence), self.probe) {
            (Some(finding), _) => finding.why,
            (None, Probe::Sysctl) => {
                "the kernel does not have it here: not built in, its module not loaded, or a namespace without it"
                    .to_owned()
            }
            (None, Probe::File(path)) => format!("there is no /{path}"),
            (None, Probe::Argument(_)) => "there is no /proc/cmdline".to_owned(),
            (None, Probe::Advice) => "stands in advice only".to_owned(),
            (None, Probe::Each(_)) => "there is nothing of this kind on this machine".to_owned(),
        };
        self.say(String::new(), String::new(), Finding::new(Verdict::NotApplicable, why))
    }

    fn row(&self, evidence: &Evidence, role: Role, reading: &Reading) -> Row {
        let value = match &reading.value {
            Ok(value) => value.as_str(),
            Err(why) => {
                let finding = Finding::new(Verdict::Unreadable, why.clone());
                return self.say(reading.subject.clone(), String::new(), finding);
            }
        };
        let case = Case { value, subject: &reading.subject, advised: false, role, evidence, others: &[] };
        let origin = self.origin(evidence, &reading.subject, value);
        let row = self.say(reading.subject.clone(), shown(value), self.judge(&case));
        Row { set_by: origin.by, overruled: origin.overruled, counters: self.count(evidence), ..row }
    }

    /// A row, with what the rule itself has to say.
    pub(crate) fn say(&self, subject: String, value: String, finding: Finding) -> Row {
        Row {
            key: self.key.to_owned(),
            area: self.area,
            subject,
            value,
            verdict: finding.verdict,
            why: finding.why,
            want: finding.want,
            set_by: String::new(),
            overruled: Vec::new(),
            counters: Vec::new(),
            gain: self.gain.to_owned(),
            risk: self.risk.to_owned(),
            undo: self.undo.to_owned(),
            source: self.source.to_owned(),
        }
    }

    fn origin(&self, evidence: &Evidence, subject: &str, value: &str) -> Origin {
        let by = |by: &str| Origin { by: by.to_owned(), overruled: Vec::new() };
        match self.probe {
            Probe::Sysctl => origin::of_sysctl(evidence, self.key, value),
            Probe::Each(_) if self.key.contains(".*.") => {
                origin::of_sysctl(evidence, &self.key.replacen('*', &subject.replace('.', "/"), 1), value)
            }
            Probe::Argument(_) if value.is_empty() => by("not given"),
            // Whose profile wrote it there, where that is to be seen.
            Probe::Argument(_) => match origin::of_rule(evidence, self.key, value) {
                Some(origin) if origin.by != origin::RUN_TIME => by(&format!("kernel command line, by {}", origin.by)),
                _ => by("kernel command line"),
            },
            Probe::File(_) | Probe::Each(_) => self.of_others(evidence, subject, value),
            Probe::Advice => by("found"),
        }
    }

    /// Who set what is no sysctl: a limit's unit, or files by the rule's name.
    fn of_others(&self, evidence: &Evidence, subject: &str, value: &str) -> Origin {
        let limit = match self.key {
            "open files of servers" => Some("LimitNOFILE"),
            "locked memory of servers" => Some("LimitMEMLOCK"),
            "real-time priority of servers" => Some("LimitRTPRIO"),
            _ => None,
        };
        let process = subject.split_whitespace().nth(1);
        if let Some((limit, process)) = limit.zip(process) {
            return origin::of_limit(evidence, process, limit, value);
        }
        let found = || Origin { by: "found".to_owned(), overruled: Vec::new() };
        origin::of_rule(evidence, self.key, value).unwrap_or_else(found)
    }

    /// The rule's counters, as far as they are there.
    pub(crate) fn count(&self, evidence: &Evidence) -> Vec<CounterValue> {
        let value = |counter: &Counter| {
            let (name, value) = match *counter {
                Counter::Net(protocol, name) => {
                    (format!("{protocol}.{name}"), evidence.net_counter(protocol, name)?.to_string())
                }
                Counter::Softnet(column, what) => {
                    (format!("softnet_stat column {} ({what})", column + 1), evidence.softnet(column)?.to_string())
                }
                Counter::Vm(name) => (format!("vmstat {name}"), evidence.vmstat(name)?.to_string()),
                Counter::Mem(name) => (format!("meminfo {name}"), format!("{} kB", evidence.meminfo(name)? / 1_024)),
                Counter::File(path) => (format!("/{path}"), shown(evidence.get(path)?)),
            };
            Some(CounterValue { name, value })
        };
        self.counters.iter().filter_map(value).collect()
    }
}
