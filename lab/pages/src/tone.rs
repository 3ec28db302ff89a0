//! How good or bad something is.

/// How good or bad something is, the worst last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tone {
    /// Neither.
    Plain,
    /// As it should be.
    Good,
    /// To be minded.
    Mind,
    /// Not to be used, or to be changed.
    Bad,
}

/// What verdicts begin with, whichever command gives them.
const GOOD: [&str; 9] = ["complete", "met", "kept", "counts", "as expected", "faster", "better", "ok", "an answer"];
const FINE: [&str; 3] = ["not applicable", "no effect", "unnecessary here"];
const MIND: [&str; 6] = ["partial", "not judged", "not measured", "improvable", "cannot be read", "not known"];
const BAD: [&str; 6] = ["invalid", "not alike", "does not count", "missed", "not met", "not as expected"];
const CHANGE: [&str; 6] = ["slower", "worse", "dangerous", "conflicts", "refused", "removed"];

impl Tone {
    /// That of a verdict, by the words that it begins with; of others, neither.
    #[must_use]
    pub fn of(verdict: &str) -> Self {
        let verdict = verdict.to_lowercase();
        let known: [(Self, &[&str]); 5] =
            [(Self::Good, &GOOD), (Self::Good, &FINE), (Self::Mind, &MIND), (Self::Bad, &BAD), (Self::Bad, &CHANGE)];
        let found = known.into_iter().find(|(_, words)| words.iter().any(|word| verdict.starts_with(word)));
        found.map_or(Self::Plain, |(tone, _)| tone)
    }

    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "good",
            Self::Mind => "mind",
            Self::Bad => "bad",
        }
    }
}
