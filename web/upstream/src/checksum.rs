//! CRC-32 of IEEE 802.3, by which keys are spread.

/// What each byte does to the sum.
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

/// A sum that is not finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Crc32(u32);

impl Crc32 {
    pub(crate) const fn new() -> Self {
        Self(u32::MAX)
    }

    /// With these bytes behind those before.
    #[must_use]
    pub(crate) fn with(self, bytes: &[u8]) -> Self {
        let step = |sum: u32, byte: &u8| (sum >> 8) ^ TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize];
        Self(bytes.iter().fold(self.0, step))
    }

    pub(crate) const fn finish(self) -> u32 {
        !self.0
    }
}
