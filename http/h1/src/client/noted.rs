//! Where the lines of fields end: noted by the pass that reads a head, for who goes through its fields
//! afterwards.

use super::{ResponseEvent, ResponseLimits, ResponseReader, State};
use semantics::{Field, Method};

/// Lines that are noted, at most.
const MAX: usize = 24;

/// Where the lines of a head's fields end, counted from the first one's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotedLines {
    ends: [u16; MAX],
    /// How many there are: perhaps more than are noted.
    count: u8,
}

impl NotedLines {
    /// Of a head of which nothing is noted.
    pub const NONE: Self = Self { ends: [0; MAX], count: u8::MAX };

    #[inline(always)]
    fn note(&mut self, end: usize) {
        if let Some(place) = self.ends.get_mut(usize::from(self.count)) {
            *place = end as u16;
        }
        self.count = self.count.saturating_add(1);
    }

    /// The fields that `lines` begin with: those of the head that was read. `None` where that had more
    /// than are noted, and of [`NotedLines::NONE`].
    #[inline]
    #[must_use]
    pub fn fields<'a>(&'a self, lines: &'a [u8]) -> Option<impl Iterator<Item = Field<'a>>> {
        let mut start = 0;
        let field = move |end: &u16| {
            let line = lines.get(start..usize::from(*end))?;
            start = usize::from(*end);
            Field::of_line(line)
        };
        Some(self.ends.get(..usize::from(self.count))?.iter().map_while(field))
    }
}

impl ResponseReader {
    /// As [`ResponseReader::on_bytes`]; of a head it is `noted` where its lines end.
    #[inline]
    pub fn on_bytes_noting<'a>(
        &mut self,
        data: &'a [u8],
        asked: Method,
        limits: &ResponseLimits,
        noted: &mut NotedLines,
    ) -> ResponseEvent<'a> {
        if self.state != State::Head {
            return self.on_bytes(data, asked, limits);
        }
        noted.count = 0;
        self.on_head(data, asked, limits, |end| noted.note(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as there are, and one more than are noted.
    #[test]
    fn fields_are_those_that_are_walked() {
        let mut noted = NotedLines::NONE;
        assert!(noted.fields(b"A: b\r\n").is_none());
        for count in 0..MAX + 2 {
            let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
            for at in 0..count {
                let value = [" v", "", "\t w x:y \t", " a\"z"][at % 4];
                head.extend_from_slice(
                    format!("{}:{value}\r\n", &"Name-of-a-field-that-is-long"[..=at % 28]).as_bytes(),
                );
            }
            head.extend_from_slice(b"\r\nbody");
            let mut reader = ResponseReader::new();
            let event = reader.on_bytes_noting(&head, Method::Get, &ResponseLimits::default(), &mut noted);
            let ResponseEvent::Response { response, .. } = event else { panic!("{event:?}") };
            let walked: Vec<Field<'_>> = response.fields().collect();
            assert_eq!(walked.len(), count);
            let lines = &head[response.fields_start()..];
            match noted.fields(lines) {
                Some(fields) => assert_eq!(fields.collect::<Vec<_>>(), walked),
                None => assert_eq!(count, MAX + 1),
            }
        }
    }
}
