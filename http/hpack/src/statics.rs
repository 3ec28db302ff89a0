//! The static table (Appendix A).

/// Its entries; the first has index 1.
#[rustfmt::skip]
pub(crate) static ENTRIES: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// The number of entries: dynamic indices begin above it (section 2.3.3).
pub(crate) const COUNT: u32 = ENTRIES.len() as u32;

/// Where a field stands in the static table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Name and value.
    Whole(u8),
    /// The name, first at this index.
    Name(u8),
    /// Not even the name.
    None,
}

/// Looks a field up.
#[inline]
pub(crate) fn find(name: &[u8], value: &[u8]) -> Place {
    let Some(first) = index_of(name) else { return Place::None };
    // Few names have values; no other value has less than one byte.
    if value.is_empty() || !HAS_VALUES[first] {
        return Place::Name(first as u8);
    }
    let with_name = ENTRIES[first - 1..].iter().take_while(|entry| entry.0 == name);
    match with_name.zip(first..).find(|(entry, _)| entry.1 == value) {
        Some((_, index)) => Place::Whole(index as u8),
        None => Place::Name(first as u8),
    }
}

/// The first index of a name.
#[inline]
pub(crate) fn index_of(name: &[u8]) -> Option<usize> {
    let index = usize::from(SLOTS[slot(name)?]);
    (index > 0 && ENTRIES[index - 1].0 == name).then_some(index)
}

const SLOT_BITS: u32 = 7;

/// For each slot the first index of the name that is there, or 0.
static SLOTS: [u8; 1 << SLOT_BITS] = slots();
/// Of each index, whether its entry has a value.
static HAS_VALUES: [bool; ENTRIES.len() + 1] = has_values();

/// Where a name is: no two of the table's share a slot.
#[inline]
const fn slot(name: &[u8]) -> Option<usize> {
    // Found by trying.
    const FACTOR: u32 = 0x435a_03d7;
    let length = name.len();
    if length == 0 {
        return None;
    }
    let told = [length as u8, name[length / 2], name[length - 1], name[0]];
    Some((u32::from_le_bytes(told).wrapping_mul(FACTOR) >> (32 - SLOT_BITS)) as usize)
}

const fn slots() -> [u8; 1 << SLOT_BITS] {
    let mut slots = [0; 1 << SLOT_BITS];
    let mut index = 1;
    while index <= ENTRIES.len() {
        let name = ENTRIES[index - 1].0;
        let repeated = index > 1 && same(name, ENTRIES[index - 2].0);
        if !repeated && let Some(at) = slot(name) {
            assert!(slots[at] == 0, "two names in one slot");
            slots[at] = index as u8;
        }
        index += 1;
    }
    slots
}

const fn has_values() -> [bool; ENTRIES.len() + 1] {
    let mut has = [false; ENTRIES.len() + 1];
    let mut index = 1;
    while index <= ENTRIES.len() {
        has[index] = !ENTRIES[index - 1].1.is_empty();
        index += 1;
    }
    has
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}
