//! How a setting's file says its value, and how it is written.

use serde::{Deserialize, Serialize};

/// What a file of procfs or sysfs looks like when it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Words or numbers; the white space between them does not count.
    Words,
    /// All choices, the one in force in brackets: `always [madvise] never`.
    Choice,
    /// A mask of cores: `ff` or `00000000,000000ff`.
    Mask,
    /// A list of cores: `0-3,8`.
    List,
}

impl Form {
    /// Whether two texts are one value.
    #[must_use]
    pub fn same(self, one: &str, other: &str) -> bool {
        match self {
            Self::Words => one.split_whitespace().eq(other.split_whitespace()),
            Self::Choice => chosen(one) == chosen(other),
            Self::Mask => equal(audit::cpu_mask(one), audit::cpu_mask(other), one, other),
            Self::List => equal(audit::cpu_list(one), audit::cpu_list(other), one, other),
        }
    }

    /// What is written so that the file reads as `text`.
    #[must_use]
    pub fn written(self, text: &str) -> &str {
        match self {
            Self::Choice => chosen(text),
            Self::Words | Self::Mask | Self::List => text.trim(),
        }
    }

    /// Why `value` cannot be written to a file that reads as `found`, if it
    /// cannot.
    #[must_use]
    pub fn objection(self, found: &str, value: &str) -> Option<&'static str> {
        if value.trim().is_empty() || value.chars().any(|char| char.is_control() && char != '\t') {
            return Some("is empty, or has characters that no setting has");
        }
        let numeric = |text: &str| text.split_whitespace().all(|word| word.parse::<i128>().is_ok());
        match self {
            Self::Words if found.trim().is_empty() => None,
            Self::Words if numeric(found) && !numeric(value) => Some("takes numbers"),
            Self::Words if numeric(found) && words(found) != words(value) => Some("takes another count of numbers"),
            Self::Words if words(found) == 1 && words(value) != 1 => Some("takes one word"),
            Self::Choice if !found.split_whitespace().any(|word| word.trim_matches(['[', ']']) == value.trim()) => {
                Some("is no choice of it")
            }
            Self::Mask if audit::cpu_mask(value).is_none() => Some("is no mask of cores"),
            Self::List if audit::cpu_list(value).is_none() => Some("is no list of cores"),
            _ => None,
        }
    }
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn equal(one: Option<Vec<u32>>, other: Option<Vec<u32>>, text: &str, other_text: &str) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other,
        _ => text.trim() == other_text.trim(),
    }
}

fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text.trim(), |(word, _)| word)
}

/// Cores as the kernel takes a mask of them: words of 32, the highest first.
#[must_use]
pub(crate) fn mask(cores: &[u32]) -> String {
    let words = cores.iter().max().map_or(1, |last| last / 32 + 1);
    let word = |at: u32| {
        let bits = cores.iter().filter(|core| *core / 32 == at).fold(0_u32, |bits, core| bits | 1 << (core % 32));
        if at + 1 == words { format!("{bits:x}") } else { format!("{bits:08x}") }
    };
    (0..words).rev().map(word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_as_the_kernel_means_them() {
        assert!(Form::Words.same("4096\t131072\t6291456\n", "4096 131072 6291456"));
        assert!(Form::Choice.same("always [madvise] never", "madvise"));
        assert!(!Form::Choice.same("[always] madvise never", "madvise"));
        assert!(Form::Mask.same("00000000,00000003", "3"));
        assert!(Form::List.same("0-1,2", "0-2"));
    }

    #[test]
    fn what_cannot_be_written_is_refused_before() {
        assert_eq!(Form::Words.objection("1 2 3", "1 2"), Some("takes another count of numbers"));
        assert_eq!(Form::Words.objection("1", "128 for each silo"), Some("takes numbers"));
        assert_eq!(Form::Words.objection("cubic", "a better one"), Some("takes one word"));
        assert_eq!(Form::Choice.objection("always [never]", "sometimes"), Some("is no choice of it"));
        assert!(Form::Mask.objection("3", "xyz").is_some());
        assert!(Form::Words.objection("1", "1\n2").is_some());
        assert_eq!(Form::Words.objection("-1", "950000"), None);
    }

    #[test]
    fn masks_have_words_of_32_cores() {
        assert_eq!(mask(&[0, 1]), "3");
        assert_eq!(mask(&[1, 33]), "2,00000002");
        assert_eq!(audit::cpu_mask(&mask(&[0, 31, 64])), Some(vec![0, 31, 64]));
    }
}
