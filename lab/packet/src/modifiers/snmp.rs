//! A query of SNMP and its answer (RFC 1157), in the few forms that they have
//! here (X.690: definite lengths).

/// Where a device is asked.
pub(super) const PORT: u16 = 161;

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const NULL: u8 = 0x05;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const TIME_TICKS: u8 = 0x43;
const GET: u8 = 0xa0;
const RESPONSE: u8 = 0xa2;

/// `sysUpTime.0` (RFC 3418): every agent has it, and its answer is one short
/// frame.
const UP_TIME: [u8; 8] = [0x2b, 6, 1, 2, 1, 1, 3, 0];

/// A request for `sysUpTime`. Of the same length for every `request`.
pub(super) fn query(community: &str, request: u32) -> Vec<u8> {
    let bind = element(SEQUENCE, &[element(OBJECT, &UP_TIME), element(NULL, &[])].concat());
    let request = element(INTEGER, &(request & 0x7fff_ffff).to_be_bytes());
    let zero = element(INTEGER, &[0]);
    let get = element(GET, &[request, zero.clone(), zero.clone(), element(SEQUENCE, &bind)].concat());
    element(SEQUENCE, &[zero, element(OCTETS, community.as_bytes()), get].concat())
}

/// All that is made here is shorter than 128 bytes.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag, content.len() as u8];
    bytes.extend_from_slice(content);
    bytes
}

/// What an answer says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// Which request it answers.
    pub request: u32,
    /// It has no error, and a time for `sysUpTime`.
    pub is_up_time: bool,
}

/// Reads an answer; `None` where it is none.
pub(super) fn read_answer(message: &[u8]) -> Option<Answer> {
    let (whole, _) = take(message, SEQUENCE)?;
    let (_, rest) = take(whole, INTEGER)?;
    let (_, rest) = take(rest, OCTETS)?;
    let (response, _) = take(rest, RESPONSE)?;
    let (request, rest) = take(response, INTEGER)?;
    let (error, rest) = take(rest, INTEGER)?;
    let (_, rest) = take(rest, INTEGER)?;
    let request = number(request)?;
    let is_up_time = error.iter().all(|byte| *byte == 0) && has_time(rest).is_some();
    Some(Answer { request, is_up_time })
}

/// The one variable that was asked for, with a time.
fn has_time(rest: &[u8]) -> Option<()> {
    let (binds, _) = take(rest, SEQUENCE)?;
    let (bind, more) = take(binds, SEQUENCE)?;
    let (name, value) = take(bind, OBJECT)?;
    let (ticks, _) = take(value, TIME_TICKS)?;
    (name == UP_TIME && more.is_empty() && (1..=5).contains(&ticks.len())).then_some(())
}

/// The content of the element that `bytes` begin with, if it has this tag, and
/// what follows it.
fn take(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, len], rest) = bytes.split_first_chunk::<2>()?;
    let (len, rest) = match len {
        0..=0x7f => (usize::from(len), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (usize::from(u16::from_be_bytes(*rest.first_chunk::<2>()?)), rest.get(2..)?),
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(len))?
}

/// A number of at most four bytes that is not negative.
fn number(bytes: &[u8]) -> Option<u32> {
    let is_number = (1..=4).contains(&bytes.len()) && bytes[0] < 0x80;
    is_number.then(|| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}
