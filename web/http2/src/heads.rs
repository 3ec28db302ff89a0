//! Heads of answers, as blocks of fields.

use connections::{CarriedHead, QueuedHead};
use exchange::Ready;
use h2::{BlockWriter, frame};

/// The product token of the `server` field (RFC 9110 section 10.2.4).
const PRODUCT: &[u8] = b"nearside";

/// Writes a head as it is sent: a block of fields, which is the same on all connections.
pub(crate) fn written(head: &CarriedHead<'_>) -> QueuedHead {
    let mut block = Vec::with_capacity(ROOM + head.fields.len());
    let mut writer = BlockWriter::answer(&mut block, head.status.code());
    if !head.status.is_interim() {
        // What an upstream says of the date and of itself, where that is passed on, comes first.
        let mut first = head.fields.split_inclusive(|byte| *byte == b'\n').take(2);
        let mut line = first.next().unwrap_or_default();
        let has_date = line.starts_with(b"Date: ");
        if has_date {
            line = first.next().unwrap_or_default();
        }
        let has_server = line.starts_with(b"Server: ");
        common(&mut writer, (!has_date).then_some(head.date), head.server && !has_server);
        if let Some(length) = head.length {
            content_length(&mut writer, length);
        }
    }
    writer.lines(head.fields);
    let bytes = (frame::HEAD + block.len()) as u32;
    QueuedHead { status: head.status, written: block, bytes, priority: priority(head.fields).map(Box::from) }
}

/// Bytes of a block beside its fields' lines.
const ROOM: usize = 64;

/// Blocks of heads that were ready, each written once for all connections of a thread: beside the head
/// as HTTP/1.1 has it, of which it says the same.
#[derive(Default, Debug)]
pub(crate) struct KnownBlocks {
    all: Vec<(Vec<u8>, Vec<u8>)>,
}

impl KnownBlocks {
    /// So many are kept.
    const MAX: usize = 256;

    /// Writes the block of what is ready; how long that is.
    pub fn write(&mut self, block: &mut Vec<u8>, ready: &Ready, server: bool) -> usize {
        block.clear();
        self.all.resize_with(Self::MAX, Default::default);
        let head = ready.head();
        // Those that are sent again lie where they lay.
        let place = (head.as_ptr().addr() >> 6) % Self::MAX;
        let Some((known, written)) = self.all.get_mut(place) else { return 0 };
        if known != head {
            written.clear();
            let (content, start) = ready.content();
            let mut writer = BlockWriter::answer(written, 200);
            common(&mut writer, Some(ready.date()), server);
            content_length(&mut writer, (content.len() - start).into());
            writer.lines(&ready.field_lines());
            known.clear();
            known.extend_from_slice(head);
        }
        block.extend_from_slice(written);
        block.len()
    }
}

fn common(writer: &mut BlockWriter<'_>, date: Option<&[u8]>, server: bool) {
    if server {
        writer.field(b"server", PRODUCT);
    }
    if let Some(date) = date {
        writer.field(b"date", date);
    }
}

fn content_length(writer: &mut BlockWriter<'_>, length: u64) {
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), length);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    writer.field(b"content-length", &digits[at..]);
}

/// What the fields of an answer say of its priority, if they do.
fn priority(fields: &[u8]) -> Option<&[u8]> {
    let mut lines = fields.split_inclusive(|byte| *byte == b'\n');
    lines.find_map(|line| {
        let (name, value) = line.split_at_checked(b"priority:".len())?;
        name.eq_ignore_ascii_case(b"priority:").then(|| value.trim_ascii())
    })
}
