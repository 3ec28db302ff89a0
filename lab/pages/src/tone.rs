//! How good or bad something is.

/// How good or bad something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tone {
    /// Neither.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// To be minded.
    Mind,
    /// Not to be used, or to be changed.
    Bad,
}

impl Tone {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "good",
            Self::Mind => "mind",
            Self::Bad => "bad",
        }
    }
}
