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
const WORDS: [(Tone, &str); 5] = [
    (Tone::Good, "complete|met|kept|counts|as expected|faster|better|ok|an answer"),
    (Tone::Good, "not applicable|no effect|unnecessary here"),
    (Tone::Mind, "partial|not judged|not measured|improvable|cannot be read|not known"),
    (Tone::Bad, "invalid|not alike|does not count|missed|not met|not as expected"),
    (Tone::Bad, "slower|worse|dangerous|conflicts|refused|removed"),
];

impl Tone {
    /// That of a verdict, by the words that it begins with; of others, neither.
    #[must_use]
    pub fn of(verdict: &str) -> Self {
        let verdict = verdict.to_lowercase();
        let begins = |words: &str| words.split('|').any(|word| verdict.starts_with(word));
        let found = WORDS.into_iter().find(|(_, words)| begins(words));
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
