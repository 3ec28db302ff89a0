//! `gzip`, `brotli`, `zstd`, `gunzip`, and what belongs to them.

/// How responses of a place are compressed.
#[derive(Clone, Debug, Default)]
pub struct CompressionRules {
    /// `gzip`.
    pub gzip: bool,
}
