//! `http2`: whether HTTP/2 is spoken, and how much of it at a time.

use crate::row::{DirectiveRow, Refusal, Words};
use crate::rule::{Context, ValueForm};
use crate::units::size;
use crate::{Feature, FeatureSettings};

/// See the module.
pub(crate) const FEATURE: Feature = Feature {
    directives: &[
        DirectiveRow::new("v2", "http2", ValueForm::Flag, |settings, words| words.flag(&mut settings.http2.on))
            .within(IN_SERVERS)
            .shown("- what a connection speaks is said before its first request"),
        DirectiveRow::new(
            "v2",
            "http2_max_concurrent_streams",
            ValueForm::Number(None),
            |settings: &mut FeatureSettings, words: &mut Words<'_>| {
                settings.http2.streams = u32::try_from(words.number()).unwrap_or(u32::MAX);
                Ok(())
            },
        )
        .within(IN_SERVERS)
        .shown("- it holds for a connection, whatever its requests ask for"),
        DirectiveRow::new("v2", "http2_body_preread_size", ValueForm::Size, |settings, words| {
            // What is more than a window may have is refused (RFC 9113 section 6.5.2).
            settings.http2.window = bytes(words, "http2_body_preread_size", WINDOW_MAX)?;
            Ok(())
        })
        .within(IN_SERVERS)
        .shown("- it holds for a connection, whatever its requests ask for"),
        DirectiveRow::new("v2", "http2_chunk_size", ValueForm::Size, |settings, words| {
            match bytes(words, "http2_chunk_size", u32::MAX)? {
                0 => return Err(Refusal::Text("the http2 chunk size cannot be zero".to_owned())),
                chunk => settings.http2.chunk = chunk.min(CHUNK_MAX),
            }
            Ok(())
        })
        .shown("- what a body was cut into is not seen behind it"),
        DirectiveRow::idle("v2", "http2_recv_buffer_size", ValueForm::Size, "frames are read where they lie")
            .within(Context::HTTP),
        DirectiveRow::idle("v2", "http2_pool_size", ValueForm::Size, MEMORY).within(IN_SERVERS),
        DirectiveRow::idle("v2", "http2_streams_index_size", ValueForm::Number(None), MEMORY).within(IN_SERVERS),
        obsolete("http2_max_requests", Some("keepalive_requests")),
        obsolete("http2_recv_timeout", Some("client_header_timeout")),
        obsolete("http2_idle_timeout", Some("keepalive_timeout")),
        obsolete("http2_max_field_size", Some("large_client_header_buffers")),
        obsolete("http2_max_header_size", Some("large_client_header_buffers")),
        obsolete("http2_max_concurrent_pushes", None),
        obsolete("http2_push_preload", None).within(Context::PLACES),
        obsolete("http2_push", None).within(Context::PLACES),
    ],
    built_with: &["v2"],
    ..Feature::NONE
};

const IN_SERVERS: Context = Context::HTTP.and(Context::SERVER);

const MEMORY: &str = "memory is laid out otherwise here";

const fn obsolete(name: &'static str, instead: Option<&'static str>) -> DirectiveRow {
    DirectiveRow::obsolete("v2", name, instead).within(IN_SERVERS)
}

/// The largest window (RFC 9113 section 6.5.2).
const WINDOW_MAX: u32 = (1 << 31) - 1;

/// Bytes of a frame that clients take who say nothing of it.
const CHUNK_MAX: u32 = 1 << 24;

/// What is said of HTTP/2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http2Settings {
    /// `http2`: it is spoken.
    pub on: bool,
    /// `http2_max_concurrent_streams`: streams that may be open at a time. Default 128.
    pub streams: u32,
    /// `http2_body_preread_size`: bytes of a body that may come before any of it is read. Default 64
    /// KiB.
    pub window: u32,
    /// `http2_chunk_size`: bytes of a body that one frame has, at most. Default 16 KiB, which is twice
    /// nginx's: what is behind a frame of it waits as long for more urgent streams.
    pub chunk: u32,
}

impl Default for Http2Settings {
    fn default() -> Self {
        Self { on: false, streams: 128, window: 1 << 16, chunk: 1 << 14 }
    }
}

/// A size of at most so many bytes.
fn bytes(words: &Words<'_>, name: &str, most: u32) -> Result<u32, Refusal> {
    let told = size(words.word(0)).unwrap_or(u64::MAX);
    match u32::try_from(told) {
        Ok(bytes) if bytes <= most => Ok(bytes),
        _ => Err(Refusal::Text(format!("\"{name}\" directive invalid value"))),
    }
}
