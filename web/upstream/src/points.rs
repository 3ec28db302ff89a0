//! The circle of consistent hashing: 160 points for each peer and unit of
//! weight, at numbers that its server's name gives (ketama).

use crate::checksum::Crc32;

/// Points of a unit of weight.
const POINTS_EACH: u32 = 160;

/// Where keys' numbers lead.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Points(Box<[(u32, u16)]>);

impl Points {
    /// Those of peers: numbers of their servers, names of these, weights.
    pub(crate) fn of<'n>(peers: impl Iterator<Item = (u16, &'n [u8], u32)>) -> Self {
        let mut points = Vec::new();
        for (server, name, weight) in peers {
            let (host, port) = host_and_port(name);
            let base = Crc32::new().with(host).with(b"\0").with(port);
            let mut previous = 0_u32;
            for _ in 0..weight.saturating_mul(POINTS_EACH) {
                previous = base.with(&previous.to_le_bytes()).finish();
                points.push((previous, server));
            }
        }
        points.sort_by_key(|(number, _)| *number);
        points.dedup_by_key(|(number, _)| *number);
        Self(points.into())
    }

    /// The place of the first point at a key's number or behind it: past the end,
    /// it is the first of all.
    pub(crate) fn find(&self, key: &[u8]) -> u32 {
        let number = Crc32::new().with(key).finish();
        self.0.partition_point(|(point, _)| *point < number) as u32
    }

    /// The server at a place, counted round and round.
    pub(crate) fn server(&self, place: u32) -> Option<u16> {
        let at = (place as usize).checked_rem(self.0.len())?;
        Some(self.0[at].1)
    }
}

/// What is hashed of a name: the host, and the port if one is written.
fn host_and_port(name: &[u8]) -> (&[u8], &[u8]) {
    if name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"unix:")) {
        return (&name[5..], b"");
    }
    match name.iter().rposition(|byte| !byte.is_ascii_digit()) {
        Some(at) if name[at] == b':' => (&name[..at], &name[at + 1..]),
        _ => (name, b""),
    }
}
