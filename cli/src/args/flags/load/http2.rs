//! HTTP/2: the flags of it that `nearside load` has, by h2load's names.

use clap::{ArgGroup, Args};
use host::values;
use load::{CONCURRENT_LIMIT, Grpc, Http2};
use std::time::Duration;

/// Whichever of its arguments is there, HTTP/2 is spoken.
const SPOKEN: &str = "speaks-http2";

/// How HTTP/2 is spoken.
#[derive(Args)]
#[command(next_help_heading = "HTTP/2")]
#[command(group = ArgGroup::new(SPOKEN).args(["http2", "grpc"]).multiple(true))]
pub(super) struct Http2Args {
    /// Speak HTTP/2: by ALPN to https:// URLs, with prior knowledge to http:// ones
    ///
    /// Frames of answers have 16,384 bytes at most, as we announce no more; those of requests as many as
    /// the server takes. Blocks of fields have 64 KiB at most.
    #[arg(long, conflicts_with_all = ["alpn", "active", "pipeline"])]
    http2: bool,

    /// Make unary calls of gRPC: --body is the message, the URL's path the method, as in /package.Service/Method
    ///
    /// A message is that of a file by --body @FILE, in the form that the method takes: most often what protoc
    /// --encode writes. Answers are counted by grpc-status, which is in trailers, or in the head of an answer
    /// without content.
    #[arg(long, conflicts_with_all = ["alpn", "active", "pipeline", "method"])]
    grpc: bool,

    /// With --grpc: tell servers that a call has so long (grpc-timeout), and cancel it then [default: none]
    #[arg(long, value_name = "TIME", requires = "grpc", value_parser = values::nonzero_duration)]
    grpc_timeout: Option<Duration>,

    /// Have this many requests under way on each connection, 250 at most, or as many as the server takes
    #[arg(long, value_name = "N", default_value_t = 1, requires = SPOKEN,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(CONCURRENT_LIMIT)))]
    max_concurrent_streams: u16,

    /// Let servers send 2^N - 1 bytes ahead on each stream, N from 1 to 31
    #[arg(long, value_name = "N", default_value_t = 30, requires = SPOKEN,
          value_parser = clap::value_parser!(u8).range(1..=31))]
    window_bits: u8,

    /// Let them send 2^N - 1 bytes ahead on each connection, N from 16 to 31
    #[arg(long, value_name = "N", default_value_t = 30, requires = SPOKEN,
          value_parser = clap::value_parser!(u8).range(16..=31))]
    connection_window_bits: u8,

    /// Let servers keep this many bytes of their answers' headers in a table, 65,536 at most
    #[arg(long, value_name = "BYTES", default_value_t = 4_096, requires = SPOKEN,
          value_parser = clap::value_parser!(u32).range(0..=65_536))]
    header_table_size: u32,

    /// Keep this many bytes of requests' headers in a table, 65,536 at most, if the server allows that
    #[arg(long, value_name = "BYTES", default_value_t = 4_096, requires = SPOKEN,
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
            grpc: self.grpc.then_some(Grpc { deadline: self.grpc_timeout }),
        };
        (self.http2 || self.grpc).then_some((http2, self.max_concurrent_streams))
    }
}
