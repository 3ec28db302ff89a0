//! The one-line form of a link's settings: `NAME:PLACE[,key=value]…`.

use core::fmt::{self, Display};
use core::ops::RangeInclusive;
use core::str::FromStr;

/// What is wrong with a link's text; the message is for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadConfig(pub String);

impl Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for BadConfig {}

/// A number within `range`.
///
/// # Errors
/// If it is none, or outside.
pub fn number<T: FromStr + PartialOrd + Display>(
    key: &str,
    value: &str,
    range: RangeInclusive<T>,
) -> Result<T, BadConfig> {
    let number = value.parse().ok().filter(|n| range.contains(n));
    number.ok_or_else(|| BadConfig(format!("{key} '{value}': expected {} to {}", range.start(), range.end())))
}

/// One of several words.
///
/// # Errors
/// If it is none of them.
pub fn choice<T: Copy>(key: &str, value: &str, choices: &[(&str, T)]) -> Result<T, BadConfig> {
    choices.iter().find(|(name, _)| *name == value).map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        BadConfig(format!("{key} '{value}': expected {}", names.join(" or ")))
    })
}

/// `on` or `off`.
///
/// # Errors
/// If it is neither.
pub fn switch(key: &str, value: &str) -> Result<bool, BadConfig> {
    choice(key, value, &[("on", true), ("off", false)])
}
