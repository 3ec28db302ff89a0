//! A value in its circumstances, and what is found of it.

use crate::advice::Setting;
use crate::{Evidence, Kernel, Role, Verdict};

/// A value to be judged, and all that the judgement may depend on.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The value: in force, or advised.
    pub value: &'a str,
    /// Which thing has it, where there are several.
    pub subject: &'a str,
    /// Whether somebody advises the value, rather than it being in force.
    pub advised: bool,
    /// What the machine is for.
    pub role: Role,
    /// The machine.
    pub evidence: &'a Evidence,
    /// The whole set of advice, in the order in which it acts, if this is
    /// advice.
    pub others: &'a [Setting],
}

/// What a rule says of a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How good or bad it is.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub why: String,
    /// What would be better, if anything would.
    pub want: Option<String>,
}

impl Finding {
    /// A finding without a proposal.
    pub(crate) fn new(verdict: Verdict, why: impl Into<String>) -> Self {
        Self { verdict, why: why.into(), want: None }
    }

    /// Nothing to say against it.
    pub(crate) fn ok(why: impl Into<String>) -> Self {
        Self::new(Verdict::Ok, why)
    }

    /// With the value that would be better.
    pub(crate) fn want(self, value: impl Into<String>) -> Self {
        Self { want: Some(value.into()), ..self }
    }
}

impl<'a> Case<'a> {
    /// The value as a number.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        number(self.value)
    }

    /// What is said of a value that [`Case::number`] has no number for: the
    /// kernel takes a number below zero for many a setting, and no rule here
    /// knows of a use of one.
    pub(crate) fn no_number(&self) -> Finding {
        let digits = self.value.trim().strip_prefix('-').unwrap_or_default();
        let below_zero = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let why = match below_zero {
            true => "is below zero: the kernel takes it, and what it does with it was not tried",
            false => "is no number",
        };
        Finding::new(Verdict::WorseThanDefault, why)
    }

    /// The value as numbers with white space between them.
    #[must_use]
    pub fn numbers(&self) -> Vec<u64> {
        self.value.split_whitespace().filter_map(number).collect()
    }

    /// What another setting is: by the same advice, else in force.
    #[must_use]
    pub fn other(&self, key: &str) -> Option<&'a str> {
        self.advised(key).or_else(|| self.evidence.sysctl(key))
    }

    /// What the same advice has for a key, the last if it is there several
    /// times.
    pub(crate) fn advised(&self, key: &str) -> Option<&'a str> {
        self.others.iter().rfind(|other| other.key == key).map(|other| other.value.as_str())
    }

    /// What the same advice says of the same thing for another key.
    pub(crate) fn of_same(&self, key: &str) -> Option<&'a str> {
        let same = |other: &&Setting| other.key == key && other.subject == self.subject;
        self.others.iter().rfind(same).map(|other| other.value.as_str())
    }

    /// The value of an argument of the command line: of the advice, else in
    /// force.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&'a str> {
        let advised = self.others.iter().rfind(|other| other.key.strip_prefix("cmdline ") == Some(name));
        advised.map(|other| other.value.as_str()).or_else(|| self.evidence.argument(name))
    }

    /// A core of the list that the node lacks, where the node was named: a
    /// profile is not for the machine that it is read on.
    pub(crate) fn lacks(&self, cores: &[u32]) -> Option<u32> {
        let there = self.evidence.named().then(|| self.evidence.present()).filter(|there| !there.is_empty())?;
        cores.iter().copied().find(|core| !there.contains(core))
    }

    /// Whether the kernel is at least this one; an unknown one is a current
    /// one.
    #[must_use]
    pub fn kernel_from(&self, major: u16, minor: u16) -> bool {
        self.evidence.kernel().is_none_or(|kernel| kernel >= Kernel(major, minor))
    }
}

/// A number as sysctl takes it: decimal, hexadecimal or octal, perhaps with a
/// sign.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
