//! For which requests a variable stands for the same: whether others may have an
//! answer that was made of it.
//!
//! The engine asks this when it writes a variable, and so keeps an answer for
//! others, or does not; who explains a configuration asks it of each variable
//! that is named there.

use core::fmt;

/// For which requests a variable stands for the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reach {
    /// For all of a server.
    Always,
    /// For those of one second.
    Second,
    /// For those of a path, asked for by GET over HTTP/1.1, and what is answered
    /// to them.
    Path,
    /// For those of a path and a query.
    Query,
    /// For those of a connection.
    Connection,
    /// For those with the same field.
    Field,
    /// For none but the request itself.
    Request,
}

impl Reach {
    /// Whether what it stands for is the same in all requests of one second that
    /// may have one ready answer.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::Always | Self::Second | Self::Path)
    }

    /// Whether an answer that was made of it may be ready for others: of the
    /// query at least for those that have none.
    #[must_use]
    pub const fn may_be_ready(self) -> bool {
        self.is_shared() || matches!(self, Self::Query)
    }

    /// One word for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Second => "second",
            Self::Path => "path",
            Self::Query => "query",
            Self::Connection => "connection",
            Self::Field => "field",
            Self::Request => "request",
        }
    }
}

/// For people, behind "is".
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "always the same",
            Self::Second => "of the second",
            Self::Path => "of the path",
            Self::Query => "of the query",
            Self::Connection => "of the connection",
            Self::Field => "of a field of the request",
            Self::Request => "of the request alone",
        })
    }
}
