//! Messages of generic netlink, as bytes (netlink(7); attributes are aligned
//! to four bytes, numbers in the machine's order).

/// How an attribute has its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// 32 bits.
    Number,
    /// One byte, 0 or 1.
    Switch,
}

/// `struct nlmsghdr` and `struct genlmsghdr`.
pub(crate) const HEADER: usize = 16;
pub(crate) const GENERIC: usize = 4;
const ALIGN: usize = 4;
/// Flags in an attribute's type.
const NESTED: u16 = 0x8000;
const TYPE: u16 = 0x3fff;

/// The first attribute of every request: about which interface.
const ABOUT: u16 = 1;
const NAME: u16 = 2;
/// `ETHTOOL_A_HEADER_FLAGS`, and `ETHTOOL_FLAG_STATS` of it.
const FLAGS: u16 = 3;
const WITH_COUNTS: u32 = 1 << 2;
/// A set of bits with names (`ETHTOOL_A_BITSET_*`).
const WANTED: u16 = 3;
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// A request's command and attributes; the socket puts the headers before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Builder {
    pub command: u8,
    pub attributes: Vec<u8>,
}

impl Builder {
    pub(crate) const fn new(command: u8) -> Self {
        Self { command, attributes: Vec::new() }
    }

    /// A request about an interface.
    pub(crate) fn request(command: u8, interface: &str) -> Self {
        let mut request = Self::new(command);
        let mut about = Self::new(0);
        about.text(NAME, interface);
        request.put(ABOUT | NESTED, &about.attributes);
        request
    }

    /// A request about an interface that wants counts in its answer, too.
    pub(crate) fn counting(command: u8, interface: &str) -> Self {
        let mut request = Self::new(command);
        let mut about = Self::new(0);
        about.text(NAME, interface);
        about.number(FLAGS, WITH_COUNTS);
        request.put(ABOUT | NESTED, &about.attributes);
        request
    }

    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) {
        // No value here is longer than an interface's or a feature's name.
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.attributes.extend(length.to_ne_bytes());
        self.attributes.extend(kind.to_ne_bytes());
        self.attributes.extend(value);
        self.attributes.resize(self.attributes.len().next_multiple_of(ALIGN), 0);
    }

    pub(crate) fn text(&mut self, kind: u16, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.put(kind, &bytes);
    }

    pub(crate) fn number(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_ne_bytes());
    }

    pub(crate) fn switch(&mut self, kind: u16, on: bool) {
        self.put(kind, &[u8::from(on)]);
    }

    /// Asks for one feature: of a list of bits, those that are not there stay
    /// as they are.
    pub(crate) fn feature(&mut self, name: &str, on: bool) {
        let (mut bit, mut bits, mut set) = (Self::new(0), Self::new(0), Self::new(0));
        bit.text(BIT_NAME, name);
        if on {
            bit.put(BIT_VALUE, &[]);
        }
        bits.put(BIT | NESTED, &bit.attributes);
        set.put(BITS | NESTED, &bits.attributes);
        self.put(WANTED | NESTED, &set.attributes);
    }
}

/// Attributes of a message, which lie within its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Those behind the headers of a whole message.
    pub(crate) fn of_reply(message: &'a [u8]) -> Option<Self> {
        message.get(HEADER + GENERIC..).map(Self)
    }

    /// Type and value of each, as far as lengths are true.
    pub(crate) fn each(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
            let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
            let value = rest.get(4..length)?;
            rest = rest.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
            Some((kind & TYPE, value))
        })
    }

    pub(crate) fn find(self, kind: u16) -> Option<&'a [u8]> {
        self.each().find(|(other, _)| *other == kind).map(|(_, value)| value)
    }

    /// The attributes within one.
    pub(crate) fn nested(self, kind: u16) -> Option<Self> {
        self.find(kind).map(Self)
    }

    /// A count of 64 bits.
    pub(crate) fn count(self, kind: u16) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.find(kind)?.first_chunk()?))
    }

    /// A setting's value, as it is written.
    pub(crate) fn value(self, kind: u16, how: Kind) -> Option<String> {
        let value = self.find(kind)?;
        match how {
            Kind::Number => Some(u32::from_ne_bytes(*value.first_chunk()?).to_string()),
            Kind::Switch => Some((if *value.first()? == 0 { "off" } else { "on" }).to_owned()),
        }
    }

    /// Names of the bits that are set in a set of bits without a mask, or in
    /// one with a mask.
    pub(crate) fn bits(self, kind: u16) -> Vec<String> {
        let Some(set) = self.find(kind).map(Attributes) else { return Vec::new() };
        const NO_MASK: u16 = 1;
        let all_set = set.find(NO_MASK).is_some();
        let Some(bits) = set.find(BITS).map(Attributes) else { return Vec::new() };
        let one = |bytes: &'a [u8]| {
            let bit = Attributes(bytes);
            let name = bit.find(BIT_NAME)?;
            let name = name.split(|byte| *byte == 0).next()?;
            (all_set || bit.find(BIT_VALUE).is_some()).then(|| String::from_utf8_lossy(name).into_owned())
        };
        bits.each().filter_map(|(_, bytes)| one(bytes)).collect()
    }
}
