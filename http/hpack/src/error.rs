//! What is wrong with a block.

/// Why a block cannot be decoded. The peer is to blame, and the connection ends with
/// COMPRESSION_ERROR: its table is not known any more (RFC 9113 section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The block ends within a field.
    Truncated,
    /// An integer of more than four further bytes (RFC 7541 section 5.1).
    IntegerOverflow,
    /// An index of 0 (section 6.1).
    IndexZero,
    /// An index beyond both tables (section 2.3.3).
    IndexBeyondTable,
    /// A Huffman code's padding is a byte or longer, or not of ones (section 5.2).
    HuffmanPadding,
    /// A Huffman code contains EOS (section 5.2).
    HuffmanEos,
    /// A table is to be larger than the limit (section 6.3).
    UpdateTooLarge,
    /// A table's size changes after a field, or for the third time (section 4.2).
    UpdateMisplaced,
    /// The limit is below the table's size, and the block does not begin with a change of it
    /// (section 4.2).
    UpdateMissing,
}
