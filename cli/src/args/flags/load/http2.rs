//! HTTP/2: the flags of it that `nearside load` has, by h2load's names.

use clap::Args;
use load::Http2;

/// How HTTP/2 is spoken.
#[derive(Args)]
#[command(next_help_heading = "HTTP/2")]
pub(super) struct Http2Args {
    /// Speak HTTP/2: by ALPN to https:// URLs, with prior knowledge to http:// ones
    #[arg(long, conflicts_with_all = ["alpn", "active", "pipeline"])]
    http2: bool,

    /// Have this many requests under way on each connection, or as many as the server takes
    #[arg(long, value_name = "N", default_value_t = 1, requires = "http2")]
    max_concurrent_streams: u16,

    /// Let servers send 2^N - 1 bytes ahead on each stream
    #[arg(long, value_name = "N", default_value_t = 30, requires = "http2",
          value_parser = clap::value_parser!(u8).range(1..=31))]
    window_bits: u8,

    /// Let them send 2^N - 1 bytes ahead on each connection
    #[arg(long, value_name = "N", default_value_t = 30, requires = "http2",
          value_parser = clap::value_parser!(u8).range(16..=31))]
    connection_window_bits: u8,

    /// Let servers keep this many bytes of their answers' headers in a table
    #[arg(long, value_name = "BYTES", default_value_t = 4_096, requires = "http2",
          value_parser = clap::value_parser!(u32).range(0..=65_536))]
    header_table_size: u32,

    /// Keep this many bytes of requests' headers in a table, if the server allows that
    #[arg(long, value_name = "BYTES", default_value_t = 4_096, requires = "http2",
          value_parser = clap::value_parser!(u32).range(0..=65_536))]
    encoder_header_table_size: u32,
}

impl Http2Args {
    /// What of it the plan has, and how many streams on each connection; nothing over HTTP/1.1.
    pub(super) fn plan(&self) -> Option<(Http2, u16)> {
        let window = |bits: u8| ((1u64 << bits) - 1) as u32;
        let http2 = Http2 {
            stream_window: window(self.window_bits),
            connection_window: window(self.connection_window_bits),
            decoder_table: self.header_table_size,
            encoder_table: self.encoder_header_table_size,
        };
        self.http2.then_some((http2, self.max_concurrent_streams))
    }
}
