/// How a port spreads what it receives, as its driver tells: the queue of a
/// flow is `table[hash % table.len()]`, with Toeplitz's hash under the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rss {
    /// The key: mostly 40 bytes, or 52. Linux draws it at random where the
    /// driver lets it (`netdev_rss_key_fill`).
    pub key: Vec<u8>,
    /// The indirection table: the queue of each value of the hash's low bits.
    pub table: Vec<u16>,
    /// TCP over IPv4 is hashed by addresses and ports, and nothing else.
    pub ports_v4: bool,
    /// And TCP over IPv6.
    pub ports_v6: bool,
}
