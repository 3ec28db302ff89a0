//! Header blocks in.

use std::ops::{ControlFlow, Range};

use crate::error::Error;
use crate::integer::Reader;
use crate::table::Table;
use crate::{HeaderField, TABLE_DEFAULT, huffman, statics};

/// What a block had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Decoded {
    /// Fields given to the sink, the one that it refused included.
    pub fields: u32,
    /// Bytes of their names and values. With [`crate::ENTRY_OVERHEAD`] for each field, what
    /// SETTINGS_MAX_HEADER_LIST_SIZE counts (RFC 9113 section 6.5.2).
    pub bytes: u64,
    /// The sink refused a field, and was given no more.
    pub refused: bool,
}

/// Memory for strings that are decoded: one for all decoders of a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Vec<u8>,
    used: usize,
    takes_long_padding: bool,
}

impl Scratch {
    /// Without memory yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), used: 0, takes_long_padding: false }
    }

    /// The same, which takes a whole byte of padding behind a string: RFC 7541 section 5.2 has that be an
    /// error, and there are servers that write it.
    #[must_use]
    pub const fn taking_long_padding() -> Self {
        Self { bytes: Vec::new(), used: 0, takes_long_padding: true }
    }

    fn get(&self, text: &Range<usize>) -> &[u8] {
        self.bytes.get(text.clone()).unwrap_or_default()
    }

    fn decode(&mut self, coded: &[u8]) -> Result<Range<usize>, Error> {
        let start = self.used;
        let most = start + huffman::room(coded.len());
        if self.bytes.len() < most {
            self.bytes.resize(most, 0);
        }
        let room = self.bytes.get_mut(start..most).unwrap_or_default();
        let length = match (huffman::decode(coded, room), coded) {
            (Err(Error::HuffmanPadding), [rest @ .., 0xff]) if self.takes_long_padding => huffman::decode(rest, room)?,
            (decoded, _) => decoded?,
        };
        self.used = start + length;
        Ok(start..self.used)
    }

    fn keep(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.used;
        self.bytes.truncate(start);
        self.bytes.extend_from_slice(text);
        self.used = self.bytes.len();
        start..self.used
    }
}

/// A string of a field.
enum Text<'b> {
    Block(&'b [u8]),
    Scratch(Range<usize>),
}

/// A name, or where it stands.
enum Name<'b> {
    Text(Text<'b>),
    Static(&'static [u8]),
    /// So many entries before the newest, where none is added.
    Dynamic(usize),
}

/// The receiving half of a connection's header compression.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// What the peer may have the table's size be.
    limit: u32,
    changes: u64,
}

impl Default for Decoder {
    /// With a table of [`TABLE_DEFAULT`].
    fn default() -> Self {
        Self::new(TABLE_DEFAULT)
    }
}

impl Decoder {
    /// A connection's, whose table may have `limit` bytes, at most [`crate::TABLE_MOST`]. What
    /// a peer keeps to before it has seen our SETTINGS is [`TABLE_DEFAULT`].
    #[must_use]
    pub const fn new(limit: u32) -> Self {
        let table = Table::new(limit);
        Self { limit: table.limit(), table, changes: 0 }
    }

    /// The peer acknowledged our SETTINGS_HEADER_TABLE_SIZE. If its table is larger than that,
    /// its next block begins with a change (RFC 7541 section 4.2); until then it may be.
    pub const fn set_limit(&mut self, limit: u32) {
        self.limit = if limit < crate::TABLE_MOST { limit } else { crate::TABLE_MOST };
        self.changes += 1;
    }

    /// Goes up with whatever may give a block another meaning: entries added, the table's size, what that may be.
    /// Where it stands as it did before a block and behind it, the same bytes mean the same again.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Bytes of memory that the table has taken.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.table.memory()
    }

    /// What the table has, as section 4.1 counts.
    #[cfg(test)]
    pub(crate) const fn table_size(&self) -> u32 {
        self.table.size()
    }

    /// Decodes a whole block, the fragments of its CONTINUATION frames joined. Each field goes
    /// to `sink`. When that breaks off, the rest of the block is read for the table's sake
    /// alone, and what it costs is bounded by the block's length.
    ///
    /// # Errors
    /// After one, the decoder is not to be used again.
    pub fn decode(
        &mut self,
        block: &[u8],
        scratch: &mut Scratch,
        mut sink: impl FnMut(HeaderField<'_>) -> ControlFlow<()>,
    ) -> Result<Decoded, Error> {
        let mut reader = Reader(block);
        let mut decoded = Decoded::default();
        self.updates(&mut reader)?;
        let mut give = |decoded: &mut Decoded, field: HeaderField<'_>| {
            if !decoded.refused {
                decoded.fields += 1;
                decoded.bytes += (field.name.len() + field.value.len()) as u64;
                decoded.refused = sink(field).is_break();
            }
        };
        while let Some(first) = reader.byte() {
            if first & 0x80 != 0 {
                let index = reader.integer(first, 7)?;
                let (name, value) = self.indexed(index)?;
                give(&mut decoded, HeaderField::new(name, value));
            } else if first & 0x20 != 0 && first & 0x40 == 0 {
                return Err(Error::UpdateMisplaced);
            } else {
                self.literal(first, &mut reader, scratch, |field| give(&mut decoded, field))?;
            }
        }
        Ok(decoded)
    }

    /// Changes of the table's size (section 6.3), which stand before the fields.
    #[inline]
    fn updates(&mut self, reader: &mut Reader<'_>) -> Result<(), Error> {
        let mut changes = 0;
        while let Some(first) = reader.0.first().copied()
            && first & 0xe0 == 0x20
        {
            reader.byte();
            let size = reader.integer(first, 5)?;
            changes += 1;
            if size > self.limit {
                return Err(Error::UpdateTooLarge);
            }
            if changes > 2 {
                return Err(Error::UpdateMisplaced);
            }
            self.table.set_limit(size);
            self.changes += 1;
        }
        if self.table.limit() > self.limit { Err(Error::UpdateMissing) } else { Ok(()) }
    }

    #[inline]
    fn indexed(&self, index: u32) -> Result<(&[u8], &[u8]), Error> {
        match index.checked_sub(1) {
            None => Err(Error::IndexZero),
            Some(at) if at < statics::COUNT => Ok(statics::ENTRIES[at as usize]),
            Some(at) => self.table.get((at - statics::COUNT) as usize).ok_or(Error::IndexBeyondTable),
        }
    }

    /// A literal (section 6.2).
    fn literal(
        &mut self,
        first: u8,
        reader: &mut Reader<'_>,
        scratch: &mut Scratch,
        give: impl FnOnce(HeaderField<'_>),
    ) -> Result<(), Error> {
        scratch.used = 0;
        let added = first & 0x40 != 0;
        let sensitive = !added && first & 0x10 != 0;
        let index = reader.integer(first, if added { 6 } else { 4 })?;
        let name = match index.checked_sub(1) {
            None => Name::Text(text(reader, scratch)?),
            Some(at) if at < statics::COUNT => Name::Static(statics::ENTRIES[at as usize].0),
            Some(at) => {
                let back = (at - statics::COUNT) as usize;
                let (name, _) = self.table.get(back).ok_or(Error::IndexBeyondTable)?;
                // The entry may be evicted by the one that it names (section 4.4).
                if added { Name::Text(Text::Scratch(scratch.keep(name))) } else { Name::Dynamic(back) }
            }
        };
        let value = text(reader, scratch)?;
        let scratch = &*scratch;
        let value = value.get(scratch);
        let name = match &name {
            Name::Text(text) => text.get(scratch),
            Name::Static(name) => name,
            Name::Dynamic(back) => {
                let (name, _) = self.table.get(*back).ok_or(Error::IndexBeyondTable)?;
                give(HeaderField { name, value, sensitive });
                return Ok(());
            }
        };
        give(HeaderField { name, value, sensitive });
        if added {
            // One that is too large is not added, and empties the table.
            self.table.insert(name, value);
            self.changes += 1;
        }
        Ok(())
    }
}

impl Text<'_> {
    #[inline]
    fn get<'s>(&'s self, scratch: &'s Scratch) -> &'s [u8] {
        match self {
            Self::Block(text) => text,
            Self::Scratch(text) => scratch.get(text),
        }
    }
}

/// A string (section 5.2).
#[inline]
fn text<'b>(reader: &mut Reader<'b>, scratch: &mut Scratch) -> Result<Text<'b>, Error> {
    let first = reader.byte().ok_or(Error::Truncated)?;
    let length = reader.integer(first, 7)?;
    let bytes = reader.take(length)?;
    if first & 0x80 == 0 { Ok(Text::Block(bytes)) } else { Ok(Text::Scratch(scratch.decode(bytes)?)) }
}
