//! For which requests a variable stands for the same: whether others may have an
//! answer that was made of it.
//!
//! The engine asks this when it writes a variable, and so keeps an answer for
//! others, or does not; who explains a configuration asks it of each variable
//! that is named there.

use crate::program::Program;
use crate::variables::{Core, Variable};
use features::Reach;

impl Program {
    /// Whether what one path is answered with is for all who ask for it by a plain head, as
    /// far as the answer has not looked at more than the path: one server answers, nothing is
    /// logged, and all connections are kept alike. Where answers may be in codings, or
    /// connections be secured, it is so for clients of one class.
    #[must_use]
    pub fn answers_by_path(&self) -> bool {
        let [listener] = self.listeners.as_slice() else { return false };
        listener.servers.len() == 1 && self.terms.exchanges.len() <= 1 && !self.summary().logs
    }
}

impl Program {
    /// Whether its requests wait for the reader of files alone, and for nothing that goes on
    /// where none of them is left: no upstream, no resolver, no password, no count for others.
    #[must_use]
    pub fn waits_for_files_alone(&self) -> bool {
        let summary = self.summary();
        let connects = summary.connects || summary.resolves || summary.reads || summary.tells || summary.codes;
        !connects && self.blocks.iter().all(|block| block.access.is_empty())
    }
}

impl Core {
    /// For which requests it stands for the same.
    #[must_use]
    pub const fn reach(self) -> Reach {
        match self {
            Self::Hostname
            | Self::NginxVersion
            | Self::Pid
            | Self::ServerName
            | Self::DocumentRoot
            | Self::Scheme
            | Self::Https => Reach::Always,
            // Links lead elsewhere at any time.
            Self::DateGmt | Self::DateLocal | Self::TimeIso8601 | Self::TimeLocal | Self::RealpathRoot => Reach::Second,
            Self::Uri | Self::DocumentUri | Self::RequestFilename | Self::RequestMethod => Reach::Path,
            Self::Args | Self::QueryString | Self::IsArgs | Self::RequestUri => Reach::Query,
            Self::ServerProtocol
            | Self::Http2
            | Self::RemoteAddr
            | Self::BinaryRemoteAddr
            | Self::RemotePort
            | Self::RealipRemoteAddr
            | Self::RealipRemotePort
            | Self::ServerAddr
            | Self::ServerPort
            | Self::ProxyProtocolAddr
            | Self::ProxyProtocolPort
            | Self::ProxyProtocolServerAddr
            | Self::ProxyProtocolServerPort
            | Self::Connection => Reach::Connection,
            Self::Host
            | Self::RequestPort
            | Self::IsRequestPort
            | Self::ContentType
            | Self::ContentLength
            | Self::RemoteUser
            | Self::InvalidReferer => Reach::Field,
            _ => Reach::Request,
        }
    }
}

impl Variable {
    /// For which requests it stands for the same, but for what it is made of: that
    /// is asked by itself.
    #[inline]
    #[must_use]
    pub fn reach(&self) -> Reach {
        match self {
            Self::Core(core) => core.reach(),
            Self::Feature(row) => row.reach,
            Self::Header(_) | Self::Cookie(_) => Reach::Field,
            Self::Argument(_) => Reach::Query,
            // The other fields are those of the answer itself.
            Self::SentHeader(name) if **name == *b"connection" => Reach::Connection,
            Self::SentHeader(_) => Reach::Path,
            Self::Upstream(_) => Reach::Request,
            Self::Geo(_) | Self::Tls(_) | Self::Tlv(_) => Reach::Connection,
            Self::Set(_, other) => other.reach_unset(),
            // What a script gives it was asked when it did.
            Self::Slot(_) | Self::Map(_) | Self::Split(_) | Self::SentTrailer(_) | Self::Absent => Reach::Always,
        }
    }

    /// The same, for what a name that may be set stands for until then.
    #[cold]
    #[inline(never)]
    fn reach_unset(&self) -> Reach {
        self.reach()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_a_client_says_is_not_given_to_others() {
        let reach = |name: &[u8]| {
            let mut table = crate::variables::VariableTable::default();
            let number = table.number(name).expect("a variable");
            table.get(number).expect("it was numbered").reach()
        };
        for shared in ["uri", "document_root", "time_local", "sent_http_content_type", "ssl_sigalg"] {
            assert!(reach(shared.as_bytes()).is_shared(), "{shared}");
        }
        for query in ["args", "arg_a", "request_uri"] {
            let reach = reach(query.as_bytes());
            assert!(!reach.is_shared() && reach.may_be_ready(), "{query}");
        }
        for own in [
            "host",
            "http_a",
            "cookie_a",
            "remote_addr",
            "ssl_cipher",
            "ssl_early_data",
            "request_id",
            "status",
            "msec",
            "sent_http_connection",
        ] {
            assert!(!reach(own.as_bytes()).may_be_ready(), "{own}");
        }
    }
}
