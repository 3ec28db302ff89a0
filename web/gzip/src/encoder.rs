//! Bodies that come by the piece.

use crate::Coding;
use flate2::{Compress, Compression, FlushCompress, Status};
use std::io::Write;
use zstd_safe::zstd_sys::ZSTD_EndDirective as End;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

/// Output is made room for by so much.
const ROOM: usize = 4 << 10;

/// The window of Brotli: 2^19 bytes, as of nginx's module.
const BROTLI_WINDOW: u32 = 19;

/// Brotli's own buffer.
const BROTLI_BUFFER: usize = 4 << 10;

/// The largest level of Zstandard whose window a client surely has (RFC 8878
/// section 3.1.1.1.2: 8 MB).
const ZSTD_LEVEL_MAX: u8 = 19;

/// One body under way.
pub struct Encoder {
    coding: Coding,
    level: u8,
    state: State,
    /// A body is under way.
    begun: bool,
}

enum State {
    Gzip(Compress),
    Brotli(Box<dyn Brotli>),
    Zstd(CCtx<'static>),
}

/// A Brotli encoder that writes into memory of its own. Behind a table, for it is generic to
/// the last: each crate that may drop one would be compiled with all of it again.
trait Brotli: Write {
    /// Appends what is written to `out`.
    fn take(&mut self, out: &mut Vec<u8>);

    /// Ends the body, appends what is left to `out`, and begins another.
    fn restart(&mut self, level: u8, out: &mut Vec<u8>);
}

impl Brotli for brotli::CompressorWriter<Vec<u8>> {
    fn take(&mut self, out: &mut Vec<u8>) {
        out.append(self.get_mut());
    }

    fn restart(&mut self, level: u8, out: &mut Vec<u8>) {
        out.append(&mut core::mem::replace(self, brotli(level)).into_inner());
    }
}

impl core::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Encoder").field("coding", &self.coding).field("level", &self.level).finish_non_exhaustive()
    }
}

impl Encoder {
    /// One at a level of its coding; another level is the nearest. `None`: there
    /// is no memory for it.
    #[must_use]
    pub fn new(coding: Coding, level: u8) -> Option<Self> {
        let (levels, _) = coding.levels();
        let level = level.clamp(*levels.start(), *levels.end());
        let state = match coding {
            // Level 1 of zlib-rs makes texts a fifth longer than zlib's does, level 2
            // shorter.
            Coding::Gzip => State::Gzip(Compress::new_gzip(Compression::new(level.max(2).into()), 15)),
            Coding::Brotli => State::Brotli(Box::new(brotli(level))),
            Coding::Zstd => {
                let mut context = CCtx::try_create()?;
                let level = level.min(ZSTD_LEVEL_MAX);
                context.set_parameter(CParameter::CompressionLevel(level.into())).ok()?;
                State::Zstd(context)
            }
        };
        Some(Self { coding, level, state, begun: false })
    }

    /// Takes the next bytes of the body, and appends to `out` what can be told of
    /// them by now.
    pub fn write(&mut self, input: &[u8], out: &mut Vec<u8>) {
        self.begun = true;
        match &mut self.state {
            State::Gzip(state) => deflate(state, input, FlushCompress::None, out),
            State::Brotli(writer) => {
                // Memory takes all.
                let _ = writer.write_all(input);
                writer.take(out);
            }
            State::Zstd(context) => zstd(context, input, End::ZSTD_e_continue, out),
        }
    }

    /// Appends to `out` what a client needs to read all that was taken.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        self.begun = true;
        match &mut self.state {
            State::Gzip(state) => deflate(state, b"", FlushCompress::Sync, out),
            State::Brotli(writer) => {
                let _ = writer.flush();
                writer.take(out);
            }
            State::Zstd(context) => zstd(context, b"", End::ZSTD_e_flush, out),
        }
    }

    /// The end of the body: appends what is left to `out`. It may begin another.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.begun = false;
        match &mut self.state {
            State::Gzip(state) => {
                deflate(state, b"", FlushCompress::Finish, out);
                state.reset();
            }
            State::Brotli(writer) => writer.restart(self.level, out),
            State::Zstd(context) => {
                zstd(context, b"", End::ZSTD_e_end, out);
                // It fails where a body is under way.
                let _ = context.reset(ResetDirective::SessionOnly);
            }
        }
    }
}

fn brotli(level: u8) -> brotli::CompressorWriter<Vec<u8>> {
    brotli::CompressorWriter::new(Vec::new(), BROTLI_BUFFER, level.into(), BROTLI_WINDOW)
}

/// Takes all of the input. The end of a flush is room that was not needed.
fn deflate(state: &mut Compress, input: &[u8], flush: FlushCompress, out: &mut Vec<u8>) {
    let start = state.total_in();
    loop {
        out.reserve(ROOM);
        let taken = (state.total_in() - start) as usize;
        let status = state.compress_vec(&input[taken..], out, flush);
        let done = (state.total_in() - start) as usize == input.len() && out.len() < out.capacity();
        match status {
            Ok(Status::StreamEnd) => return,
            Ok(Status::Ok | Status::BufError) if done && flush != FlushCompress::Finish => return,
            Ok(_) => {}
            // There is no error where there is room.
            Err(_) => return,
        }
    }
}

fn zstd(context: &mut CCtx<'_>, input: &[u8], end: End, out: &mut Vec<u8>) {
    let mut input = InBuffer::around(input);
    loop {
        out.reserve(ROOM);
        let at = out.len();
        let mut room = OutBuffer::around_pos(out, at);
        let left = context.compress_stream2(&mut room, &mut input, end);
        let more = input.pos() < input.src.len();
        match left {
            Ok(0) if !more => return,
            // What is kept is told later.
            Ok(_) if !more && end == End::ZSTD_e_continue => return,
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Encoders that wait for another body: what one needs is some hundred kilobytes,
/// which are not taken anew for each.
#[derive(Debug, Default)]
pub struct Encoders {
    idle: Vec<Encoder>,
}

impl Encoders {
    /// How many wait, at most, of all kinds.
    const IDLE_MAX: usize = 16;

    /// How many wait to be used again.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    /// One for a body; `None`: there is no memory for it.
    pub fn take(&mut self, coding: Coding, level: u8) -> Option<Encoder> {
        match self.idle.iter().rposition(|idle| (idle.coding, idle.level) == (coding, level)) {
            Some(at) => Some(self.idle.swap_remove(at)),
            None => Encoder::new(coding, level),
        }
    }

    /// Gives one back. What has not come to its body's end goes: zlib-rs 0.6 does
    /// not forget all of a body that it gave up.
    pub fn give_back(&mut self, encoder: Encoder) {
        if encoder.begun {
            return;
        }
        if self.idle.len() >= Self::IDLE_MAX {
            self.idle.remove(0);
        }
        self.idle.push(encoder);
    }
}
