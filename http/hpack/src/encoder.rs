//! Header blocks out.

use std::collections::VecDeque;

use crate::statics::{self, Place};
use crate::table::Table;
use crate::{ENTRY_OVERHEAD, HeaderField, TABLE_DEFAULT, huffman, integer};

/// What becomes of a field that is not in a table as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Indexing {
    /// It is added to the dynamic table (section 6.2.1), if it fits in there.
    Incremental,
    /// It is not (section 6.2.2): for values that do not come again.
    Without,
    /// Nor by anybody who passes it on (section 6.2.3): for secrets. Such a field is not looked
    /// up as a whole either. What [`HeaderField::sensitive`] says.
    Never,
}

/// Entries of one bucket are found one after the other.
const BUCKETS: usize = 64;

/// The sending half of a connection's header compression.
///
/// For each block [`Encoder::begin`], then [`Encoder::encode`] for each field, or what was
/// prepared by [`put_static`].
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    /// The largest table that is kept, whatever the peer allows.
    most: u32,
    /// The smallest limit since the last block, if that has not been told.
    untold: Option<u32>,
    /// What is known of each entry, the oldest first.
    links: VecDeque<Link>,
    /// The number of the newest entry. Entries are counted modulo 2^16.
    newest: u16,
    /// The newest entry of each bucket of names, if it is still there.
    buckets: Option<Box<[u16; BUCKETS]>>,
    changes: u64,
}

/// An entry as it is looked for.
#[derive(Clone, Copy, Debug)]
struct Link {
    name: u32,
    value: u32,
    /// The number of the next older entry in the same bucket, if it is still there.
    older: u16,
}

/// Where a field stands in the dynamic table: so many entries before the newest.
enum Stands {
    Whole(u32),
    Name(u32),
    Nowhere,
}

impl Default for Encoder {
    /// With a table of [`TABLE_DEFAULT`].
    fn default() -> Self {
        Self::new(TABLE_DEFAULT)
    }
}

impl Encoder {
    /// A connection's, whose table is to have at most `most` bytes, and never more than
    /// [`crate::TABLE_MOST`]; 0 for none.
    #[must_use]
    pub const fn new(most: u32) -> Self {
        let limit = if most < TABLE_DEFAULT { most } else { TABLE_DEFAULT };
        Self {
            table: Table::new(limit),
            most: if most < crate::TABLE_MOST { most } else { crate::TABLE_MOST },
            // A table that nothing is ever added to need not be told of.
            untold: if limit < TABLE_DEFAULT && limit > 0 { Some(limit) } else { None },
            links: VecDeque::new(),
            newest: 0,
            buckets: None,
            changes: 0,
        }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE, between two blocks. The next one begins with what
    /// changes by it (section 4.2).
    pub fn set_limit(&mut self, peer: u32) {
        let limit = peer.min(self.most);
        if limit == self.table.limit() {
            return;
        }
        self.untold = Some(self.untold.map_or(limit, |least| least.min(limit)));
        self.table.set_limit(limit);
        self.forget_evicted();
        self.changes += 1;
    }

    /// Begins a block: tells of changes of the table's size (section 6.3).
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(least) = self.untold.take() {
            let limit = self.table.limit();
            if least < limit {
                integer::put(out, 0x20, 5, least);
            }
            integer::put(out, 0x20, 5, limit);
        }
    }

    /// Changes of the table so far: what was encoded since the last of them is encoded by the
    /// same bytes again, as long as this number is the same.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Bytes of memory that the table has taken, and what finds its entries.
    #[must_use]
    pub fn memory(&self) -> usize {
        let buckets = self.buckets.as_ref().map_or(0, |buckets| size_of_val(&**buckets));
        self.table.memory() + self.links.capacity() * size_of::<Link>() + buckets
    }

    /// Appends a field.
    pub fn encode(&mut self, field: HeaderField<'_>, indexing: Indexing, out: &mut Vec<u8>) {
        if field.sensitive || indexing == Indexing::Never {
            return put_static(HeaderField { sensitive: true, ..field }, out);
        }
        let name = match statics::find(field.name, field.value) {
            Place::Whole(index) => return integer::put(out, 0x80, 7, u32::from(index)),
            Place::Name(index) => u32::from(index),
            Place::None => 0,
        };
        if self.table.limit() == 0 {
            return put_literal(0, 4, name, field, out);
        }
        let link = Link {
            // A name of the static table is known by its index.
            name: if name > 0 { name.wrapping_mul(0x9e37_79b9) } else { hash(field.name) },
            value: hash(field.value),
            older: 0,
        };
        let name = match self.find(field, link, name == 0) {
            Stands::Whole(back) => return integer::put(out, 0x80, 7, statics::COUNT + 1 + back),
            Stands::Name(back) => statics::COUNT + 1 + back,
            Stands::Nowhere => name,
        };
        let size = field.name.len() + field.value.len() + ENTRY_OVERHEAD as usize;
        if indexing == Indexing::Incremental && size <= self.table.limit() as usize {
            put_literal(0x40, 6, name, field, out);
            self.insert(field, link);
        } else {
            put_literal(0, 4, name, field, out);
        }
    }

    /// Looks in the dynamic table, from the newest of its bucket on.
    fn find(&self, field: HeaderField<'_>, link: Link, with_name: bool) -> Stands {
        let Some(buckets) = &self.buckets else { return Stands::Nowhere };
        let mut stands = Stands::Nowhere;
        let mut number = buckets[bucket(link.name)];
        // Each is older than the one before, or gone and its number given again.
        let mut least = 0;
        loop {
            let back = usize::from(self.newest.wrapping_sub(number));
            if back < least {
                return stands;
            }
            let at = self.links.len().checked_sub(back + 1);
            let Some(entry) = at.and_then(|at| self.links.get(at)) else { return stands };
            if entry.name == link.name
                && let Some((name, value)) = self.table.get(back)
                && name == field.name
            {
                if entry.value == link.value && value == field.value {
                    return Stands::Whole(back as u32);
                }
                if with_name && matches!(stands, Stands::Nowhere) {
                    stands = Stands::Name(back as u32);
                }
            }
            number = entry.older;
            least = back + 1;
        }
    }

    fn insert(&mut self, field: HeaderField<'_>, link: Link) {
        self.table.insert(field.name, field.value);
        self.newest = self.newest.wrapping_add(1);
        let newest = &mut self.buckets.get_or_insert_with(|| Box::new([0; BUCKETS]))[bucket(link.name)];
        self.links.push_back(Link { older: *newest, ..link });
        *newest = self.newest;
        self.forget_evicted();
        self.changes += 1;
    }

    fn forget_evicted(&mut self) {
        while self.links.len() > self.table.len() {
            self.links.pop_front();
        }
    }
}

/// Appends a field by the static table alone: neither does it need what a connection's table
/// has, nor does it change that. So a prepared block is the same for all connections.
pub fn put_static(field: HeaderField<'_>, out: &mut Vec<u8>) {
    let pattern = if field.sensitive { 0x10 } else { 0 };
    match statics::find(field.name, field.value) {
        Place::Whole(index) if !field.sensitive => integer::put(out, 0x80, 7, u32::from(index)),
        Place::Whole(_) => {
            let index = statics::index_of(field.name).unwrap_or(0) as u32;
            put_literal(pattern, 4, index, field, out);
        }
        Place::Name(index) => put_literal(pattern, 4, u32::from(index), field, out),
        Place::None => put_literal(pattern, 4, 0, field, out),
    }
}

/// Appends `:status`, of three digits, likewise.
pub fn put_status(status: u16, out: &mut Vec<u8>) {
    let digit = |unit: u16| b'0' + (status / unit % 10) as u8;
    put_static(HeaderField::new(b":status", &[digit(100), digit(10), digit(1)]), out);
}

/// Appends a literal (section 6.2), with the index of its name or 0.
#[inline]
fn put_literal(pattern: u8, bits: u32, name: u32, field: HeaderField<'_>, out: &mut Vec<u8>) {
    integer::put(out, pattern, bits, name);
    if name == 0 {
        put_text(field.name, out);
    }
    put_text(field.value, out);
}

/// Appends a string (section 5.2), by the Huffman code where that is shorter.
fn put_text(text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::coded_length(text);
    if coded < text.len() {
        integer::put(out, 0x80, 7, coded as u32);
        huffman::encode(text, coded, out);
    } else {
        integer::put(out, 0, 7, text.len() as u32);
        out.extend_from_slice(text);
    }
}

const fn bucket(name: u32) -> usize {
    (name >> 26) as usize
}
const _: () = assert!(BUCKETS == 1 << (32 - 26));

/// Eight bytes at a time. Who knows it can have all entries in one bucket, where each costs a
/// comparison of two words.
fn hash(text: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let mut hash = (text.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = text.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    let last = match (text.last_chunk::<8>(), text.first_chunk::<4>(), text.last_chunk::<4>()) {
        (Some(last), _, _) => u64::from_le_bytes(*last),
        (None, Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        _ => rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    (mix(hash, last).wrapping_mul(FACTOR) >> 32) as u32
}
