//! A tracepoint's record, as its `format` file describes it.

use core::ops::Range;

/// A tracepoint: its number, and where its fields lie in a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format {
    /// What perf_event_open(2) calls it, and each record begins with.
    pub id: u64,
    fields: Vec<(String, Field)>,
}

/// Where a field lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    range: Range<usize>,
    /// Whether the record holds the value's place and length there.
    dynamic: bool,
}

impl Format {
    /// Reads the file.
    ///
    /// # Errors
    /// If it has no number, or a field without a place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")).and_then(|id| id.trim().parse().ok());
        let id = id.ok_or("a tracepoint's format has no ID")?;
        let fields = text.lines().filter_map(|line| line.trim().strip_prefix("field:"));
        let fields = fields.map(|line| field(line).ok_or_else(|| format!("not a tracepoint's field: {line}")));
        Ok(Self { id, fields: fields.collect::<Result<_, _>>()? })
    }

    /// A field by its name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| field.clone())
    }
}

/// `unsigned int vec; offset:8; size:4; signed:0;`
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?;
    let name = declared.rsplit([' ', '*', '\t']).next()?;
    let name = name.split('[').next()?;
    let mut number = |wanted: &str| -> Option<usize> {
        let value = parts.find_map(|part| part.strip_prefix(wanted))?;
        value.parse().ok()
    };
    let (offset, size) = (number("offset:")?, number("size:")?);
    let range = offset..offset.checked_add(size)?;
    Some((name.to_owned(), Field { range, dynamic: declared.starts_with("__data_loc") }))
}

impl Field {
    /// The value of a number; `None` in a record that ends before it, and of
    /// what is no number.
    #[must_use]
    pub fn number(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.range.clone())?;
        Some(match bytes.len() {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// A text, up to its end.
    #[must_use]
    pub fn text<'a>(&self, record: &'a [u8]) -> Option<&'a str> {
        let range = if self.dynamic {
            // The place in the lower half, the length in the upper.
            let at = u32::try_from(self.number(record)?).ok()?;
            let start = (at & 0xffff) as usize;
            start..start + (at >> 16) as usize
        } else {
            self.range.clone()
        };
        let bytes = record.get(range)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        core::str::from_utf8(&bytes[..end]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:void * callsite;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:0;\n\nprint fmt: \"x\"\n";

    #[test]
    fn fields_are_read_where_the_format_says() {
        let format = Format::parse(SWITCH).expect("a format");
        assert_eq!(format.id, 372);
        let mut record = vec![0_u8; 52];
        record[8..12].copy_from_slice(b"near");
        record[24..28].copy_from_slice(&7_u32.to_ne_bytes());
        record[32..40].copy_from_slice(&9_u64.to_ne_bytes());
        record[40..44].copy_from_slice(&((8_u32 << 16) | 44).to_ne_bytes());
        record[44..48].copy_from_slice(b"eth0");
        let field = |name: &str| format.field(name).expect("it is there");
        assert_eq!(field("prev_comm").text(&record), Some("near"));
        assert_eq!(field("prev_pid").number(&record), Some(7));
        assert_eq!(field("callsite").number(&record), Some(9));
        assert_eq!(field("name").text(&record), Some("eth0"));
        // A record that is cut off, and a place beyond its end.
        assert_eq!(field("name").text(&record[..48]), None);
        assert_eq!(field("callsite").number(&record[..39]), None);
        assert_eq!(format.field("next_pid"), None);
    }

    #[test]
    fn what_is_no_format_is_refused() {
        assert!(Format::parse("").is_err());
        assert!(Format::parse("ID: x\n").is_err());
        assert!(Format::parse("ID: 3\n\tfield:int a;\tsize:4;\n").is_err());
    }
}
