//! What an upstream that speaks HTTP/2 does for a request, step by step.

use crate::proxied::frames::{LONGEST, Lines};
use crate::proxied::plan::{Ends, Fault, Plan};
use core::time::Duration;
use h2::ErrorCode;
use h2::frame::{self, Kind};

/// What is to be done for a request, in order.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// HEADERS of these fields, and whether the stream ends.
    Fields(Lines, bool),
    /// Content, and whether the stream ends.
    Data(Vec<u8>, bool),
    /// Content of this stamp without end, from a place in it on.
    Endless(u32, usize),
    Pause(Duration),
    /// RST_STREAM.
    Reset(ErrorCode),
    /// Bytes that are no frame of a stream's, or none at all.
    Raw(Vec<u8>),
    /// The connection is closed, or reset.
    Close,
    Abort,
    /// Nothing more happens.
    Hang,
}

/// What goes wrong with a request here. Where only single requests go wrong, what would end a
/// connection becomes what ends a stream.
pub(super) fn fault_of(is_second: bool, is_calm: bool, plan: &Plan) -> Fault {
    if is_second && plan.second_is_well {
        return Fault::None;
    }
    match plan.fault {
        Fault::ClosesAt(at) if is_calm => Fault::ResetsAt(at),
        // A client may have all that its head says before more comes, and then its connection ends.
        Fault::Garbage | Fault::BadChunk | Fault::TooLong if is_calm => Fault::TwoLengths,
        Fault::Twice | Fault::Unasked if is_calm => Fault::None,
        Fault::Interim(count) if is_calm => Fault::Interim(count.min(8)),
        fault => fault,
    }
}

fn field(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The head of an answer, with more fields.
fn head(plan: &Plan, more: &[(&str, &str)]) -> Lines {
    let mut fields = vec![field(":status", "200"), field("x-number", &plan.number.to_string())];
    fields.extend(more.iter().map(|(name, value)| field(name, value)));
    fields
}

/// The head of an answer that nothing is wrong with.
fn whole_head(plan: &Plan) -> Lines {
    match plan.ends {
        Ends::Length => head(plan, &[("content-length", &plan.length.to_string())]),
        Ends::Chunks | Ends::Close => head(plan, &[]),
    }
}

/// The end of an answer: with its content, by trailers, by a frame of nothing.
fn ended(plan: &Plan, mut steps: Vec<Step>) -> Vec<Step> {
    match (plan.ends, steps.last_mut()) {
        (Ends::Length, Some(Step::Data(_, ends))) => *ends = true,
        (Ends::Chunks, _) => steps.push(Step::Fields(vec![field("x-trailer", "1")], true)),
        _ => steps.push(Step::Data(Vec::new(), true)),
    }
    steps
}

fn answer(plan: &Plan) -> Vec<Step> {
    ended(plan, vec![Step::Fields(whole_head(plan), false), Step::Data(plan.body(), false)])
}

/// The answer up to a byte, counted as that of HTTP/1.1 is.
fn up_to(plan: &Plan, at: usize) -> Vec<Step> {
    let before = plan.answer().len() - plan.length;
    let Some(at) = at.checked_sub(before) else { return Vec::new() };
    let body = plan.body();
    let some = body[..at.min(body.len() - 1)].to_vec();
    vec![Step::Fields(whole_head(plan), false), Step::Data(some, false)]
}

/// All of the content behind this head.
fn under(plan: &Plan, fields: Lines) -> Vec<Step> {
    vec![Step::Fields(fields, false), Step::Data(plan.body(), true)]
}

/// The content in pieces, with pauses before them.
fn slowly(plan: &Plan, piece: usize, pause: Duration) -> Vec<Step> {
    let body = plan.body();
    let pieces = body.chunks(piece.max(1)).flat_map(|piece| [Step::Pause(pause), Step::Data(piece.to_vec(), false)]);
    ended(plan, core::iter::once(Step::Fields(whole_head(plan), false)).chain(pieces).collect())
}

fn raw(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Step {
    let mut out = Vec::new();
    frame::write(&mut out, kind, flags, stream, payload);
    Step::Raw(out)
}

/// What is done for a request that this is wrong with.
pub(super) fn steps(plan: &Plan, fault: Fault, is_calm: bool) -> Vec<Step> {
    let number = plan.number;
    let length = plan.length.to_string();
    let then = |mut steps: Vec<Step>, more: Vec<Step>| {
        steps.extend(more);
        steps
    };
    match fault {
        Fault::None => answer(plan),
        Fault::Hangs => vec![Step::Hang],
        Fault::HangsAt(at) => then(up_to(plan, at), vec![Step::Hang]),
        Fault::ClosesAt(at) => then(up_to(plan, at), vec![Step::Close]),
        Fault::ResetsAt(at) => {
            let codes = [ErrorCode::INTERNAL_ERROR, ErrorCode::CANCEL, ErrorCode::ENHANCE_YOUR_CALM];
            let pause = Duration::from_millis(u64::from(number % 3) * 20);
            let reset = Step::Reset(codes[number as usize % 3]);
            let reset = if is_calm || number.is_multiple_of(2) { reset } else { Step::Abort };
            then(up_to(plan, at), vec![Step::Pause(pause), reset])
        }
        Fault::Garbage => vec![Step::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()), Step::Close],
        Fault::Late(span) => then(vec![Step::Pause(span)], answer(plan)),
        Fault::Slow(piece, pause) => slowly(plan, piece, pause),
        Fault::Endless => {
            let fields = match plan.ends {
                Ends::Length => head(plan, &[("content-length", "4000000000")]),
                Ends::Chunks | Ends::Close => head(plan, &[]),
            };
            vec![Step::Fields(fields, false), Step::Endless(number, 0)]
        }
        Fault::TooShort => under(plan, head(plan, &[("content-length", &(plan.length + 7).to_string())])),
        Fault::TooLong => under(plan, head(plan, &[("content-length", &(plan.length / 2).to_string())])),
        Fault::TwoLengths => {
            let other = (plan.length + 3).to_string();
            under(plan, head(plan, &[("content-length", &length), ("content-length", &other)]))
        }
        Fault::LengthAndChunks => {
            under(plan, head(plan, &[("content-length", &length), ("transfer-encoding", "chunked")]))
        }
        // DATA that is all padding and more.
        Fault::BadChunk => {
            let padding = raw(Kind::Data, frame::PADDED, 1, &[200, 0]);
            vec![Step::Fields(whole_head(plan), false), padding, Step::Close]
        }
        Fault::LongHead => under(plan, head(plan, &[("x-long", &"a".repeat(LONGEST + 4_000))])),
        Fault::Interim(count) => {
            let early = vec![field(":status", "103"), field("link", "</a>")];
            let interim = (0..count).map(|_| Step::Fields(early.clone(), false)).collect();
            then(interim, answer(plan))
        }
        // What is still to come of the body is not wanted (RFC 9113 section 8.1).
        Fault::Early => then(answer(plan), vec![Step::Reset(ErrorCode::NO_ERROR)]),
        // Both are of a stream that nobody opened.
        Fault::Twice => then(vec![raw(Kind::Headers, 0, 2, &[0x88]), Step::Close], answer(plan)),
        Fault::Unasked => then(vec![raw(Kind::Data, 0, 4_001, b"unasked"), Step::Close], answer(plan)),
    }
}
