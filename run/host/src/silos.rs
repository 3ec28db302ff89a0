//! How many silos there are, and where.

use crate::cores::Cores;
use crate::values::BadValue;
use std::str::FromStr;

/// More silos than this help nobody: one statistics page has a column for
/// each.
pub const SILOS_MAX: u16 = 1_024;

const _: () = assert!(SILOS_MAX as usize <= ::page::SILOS_LIMIT);

/// How many silos there are, and where.
///
/// Reads a plain number as a count, and a list (with a dash or a comma) as
/// cores: `4` is four silos, `2-5` and `2,3,4,5` are those on cores 2 to 5,
/// and `3-3` is the one on core 3.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Silos {
    /// One, wherever the kernel has it run.
    #[default]
    One,
    /// So many, at least one, on cores that the planner chooses.
    Count(u16),
    /// One on each of these cores, in this order; at least one, none twice.
    Cores(Vec<u16>),
    /// One for each physical core of the domains that have ports.
    Auto,
}

impl FromStr for Silos {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || {
            BadValue::new(format!(
                "write auto, how many as in 4 (1 to {SILOS_MAX}), or a list of cores as in 2-5 or 0,2; \
                 3-3 is core 3 alone"
            ))
        };
        if text == "auto" {
            return Ok(Self::Auto);
        }
        if !text.contains(['-', ',']) {
            let count = text.parse().ok().filter(|count| (1..=SILOS_MAX).contains(count));
            return count.map(Self::Count).ok_or_else(bad);
        }
        match text.parse() {
            Ok(Cores::List(cores)) if cores.len() <= usize::from(SILOS_MAX) => Ok(Self::Cores(cores)),
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_count_and_a_list_is_cores() {
        for (text, silos) in [
            ("auto", Silos::Auto),
            ("1", Silos::Count(1)),
            ("16", Silos::Count(16)),
            ("2-5", Silos::Cores(vec![2, 3, 4, 5])),
            ("5,2", Silos::Cores(vec![5, 2])),
            ("3-3", Silos::Cores(vec![3])),
            ("0-1,1,4", Silos::Cores(vec![0, 1, 4])),
        ] {
            assert_eq!(text.parse(), Ok(silos), "{text}");
        }
        for bad in ["", "0", "1025", "-1", "x4", "none", "5-2", "1,,2", "2-", "0-4000", "4 "] {
            let why = bad.parse::<Silos>().expect_err(bad).to_string();
            assert!(why.contains("3-3 is core 3 alone"), "{bad}: {why}");
        }
    }
}
