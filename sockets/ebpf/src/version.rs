//! Kernel versions.

use core::fmt;
use core::str::FromStr;

/// A kernel's version, as far as features depend on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl Version {
    /// `major.minor`.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The running kernel's; zero if it names itself in no known way. What a
    /// distribution has taken back into an older kernel does not show, so this
    /// explains a refusal, and never is one.
    #[must_use]
    pub fn running() -> Self {
        let name = rustix::system::uname();
        name.release().to_str().ok().and_then(|release| release.parse().ok()).unwrap_or(Self::new(0, 0))
    }
}

impl FromStr for Version {
    type Err = VersionError;

    /// Takes `6.1`, and `6.1.0-13-amd64`.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self { major, minor }),
            _ => Err(VersionError),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Not a [`Version`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionError;

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write a kernel version as 6.1")
    }
}

impl core::error::Error for VersionError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        assert_eq!("6.1.0-13-amd64".parse(), Ok(Version::new(6, 1)));
        assert_eq!("5.15".parse::<Version>().unwrap().to_string(), "5.15");
        assert!(Version::new(5, 4) < Version::new(5, 15));
        for text in ["", "6", "x.y", "6.x"] {
            assert_eq!(text.parse::<Version>(), Err(VersionError), "{text}");
        }
        assert!(Version::running() > Version::new(3, 0));
    }
}
