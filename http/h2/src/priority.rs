//! How urgent streams are (RFC 9218), and in which order what is ready is sent.

/// How urgent a stream is (RFC 9218 section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPriority {
    /// From 0, the most urgent, to 7. Default 3.
    pub urgency: u8,
    /// Parts of it are of use: those that are as urgent take turns. Default no.
    pub incremental: bool,
}

impl Default for StreamPriority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl StreamPriority {
    /// What a `priority` field, or PRIORITY_UPDATE, says: a dictionary of structured fields (RFC 8941
    /// section 3.2). What it does not say, or says in a way that has no meaning, is as by default.
    #[must_use]
    pub fn of_field(value: &[u8]) -> Self {
        Self::default().changed_by(value)
    }

    /// The same, where what it does not say stays as it was (RFC 9218 section 8).
    #[must_use]
    pub fn changed_by(self, value: &[u8]) -> Self {
        let mut priority = self;
        for member in value.split(|byte| *byte == b',') {
            // Parameters of a member have no meaning here.
            let member = member.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }

    /// What a weight of RFC 7540 says, less 1, where there is no `priority` field. Its default, 16,
    /// is the default of urgency; browsers that have weights gave documents, styles and scripts
    /// 147 and more, images less than 16.
    #[must_use]
    pub const fn of_weight(weight: u8) -> Self {
        let urgency = match weight {
            0..=14 => 5,
            15..=99 => 3,
            100..=199 => 2,
            200..=255 => 1,
        };
        Self { urgency, incremental: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9218 sections 4 and 5.
    #[test]
    fn a_field_says_how_urgent_a_stream_is() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i,u=5", 5, true),
            ("i=?1", 3, true),
            ("i, i=?0", 3, false),
            ("u=1;x=y , i;a", 1, true),
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=10", 3, false),
            ("u=\"2\"", 3, false),
            ("i=1", 3, false),
            ("U=2", 3, false),
            ("other, u=2", 2, false),
        ] {
            let found = StreamPriority::of_field(value.as_bytes());
            assert_eq!((found.urgency, found.incremental), (urgency, incremental), "{value:?}");
        }
        assert_eq!(StreamPriority::of_weight(15), StreamPriority::default());
        assert!((0..=254).all(|weight| {
            StreamPriority::of_weight(weight).urgency >= StreamPriority::of_weight(weight + 1).urgency
        }));
    }
}
