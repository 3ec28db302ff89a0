//! What a head's fields mean together: is there a body, how does it end, and
//! does the connection go on. Where senders and recipients disagree on this,
//! requests are smuggled, so everything doubtful is refused (RFC 9112
//! section 11.2).

use super::{RequestLimits, Transfer};
use crate::{Framing, Version};
use semantics::{Known, Request, Status, number};

/// The fields that say something about framing or the connection.
const FRAMING: u32 =
    Known::ContentLength.bit() | Known::TransferEncoding.bit() | Known::Connection.bit() | Known::Expect.bit();

/// The fields of which a head has one line at most. `Transfer-Encoding` has a rule of its own
/// ([`chunked`]).
const UNIQUE: u32 = Known::UNIQUE | Known::Host.bit() | Known::Expect.bit();

/// Finds out the request's framing and persistence, and whether it says for
/// whom it is.
///
/// # Errors
/// The status to reject the request with.
#[inline(always)]
pub(super) fn judge(request: &Request<'_>, transfer: &mut Transfer, limits: &RequestLimits) -> Result<(), Status> {
    // RFC 9112 section 3.2: an HTTP/1.1 request has exactly one Host, valid;
    // an HTTP/1.0 request may lack it.
    let at = request.at();
    if at.repeats_any(UNIQUE) || transfer.bad_host {
        return Err(Status::BAD_REQUEST);
    }
    if !at.has(Known::Host) && transfer.version == Version::Http11 {
        return Err(Status::BAD_REQUEST);
    }
    transfer.keep_alive = transfer.version == Version::Http11;
    if at.has_any(FRAMING) { judge_framing(request, transfer, limits) } else { Ok(()) }
}

#[inline(never)]
fn judge_framing(request: &Request<'_>, transfer: &mut Transfer, limits: &RequestLimits) -> Result<(), Status> {
    let at = request.at();
    if at.has(Known::Connection) {
        transfer.keep_alive = keep_alive(request, transfer.version);
    }
    if at.has(Known::TransferEncoding) {
        transfer.chunked = chunked(request, transfer.version)?;
    } else if let Some(length) = request.known(Known::ContentLength) {
        // RFC 9112 section 6.3, rule 5: an invalid length is unrecoverable.
        let length = number::parse(length).ok_or(Status::BAD_REQUEST)?;
        if length > limits.body {
            return Err(Status::CONTENT_TOO_LARGE);
        }
        transfer.length = length;
    }
    if at.has(Known::Expect) {
        transfer.expect_continue = expect(request, transfer)?;
    }
    Ok(())
}

/// RFC 9112 section 9.3: `close` ends the connection; without it HTTP/1.1
/// goes on, and HTTP/1.0 if `keep-alive` is there.
fn keep_alive(request: &Request<'_>, version: Version) -> bool {
    let Some(values) = request.values(Known::Connection, "connection") else { return false };
    let mut options = values.members();
    if version == Version::Http11 {
        !options.any(|option| option.eq_ignore_ascii_case(b"close"))
    } else {
        let mut keep_alive = false;
        options.all(|option| {
            keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            !option.eq_ignore_ascii_case(b"close")
        }) && keep_alive
    }
}

/// RFC 9112 section 6.3, rules 3 and 4.
fn chunked(request: &Request<'_>, version: Version) -> Result<bool, Status> {
    // Section 6.1: with Content-Length, or in HTTP/1.0, where it is not
    // defined, an attempt at smuggling.
    if request.at().has(Known::ContentLength) || version == Version::Http10 {
        return Err(Status::BAD_REQUEST);
    }
    let Some(values) = request.values(Known::TransferEncoding, "transfer-encoding") else { return Ok(false) };
    let mut codings = values.members();
    let mut unknown = false;
    let mut chunked = false;
    if !codings.all(|coding| {
        // Nothing may follow chunked, itself included (section 7.1).
        let misplaced = chunked;
        chunked = coding.eq_ignore_ascii_case(b"chunked");
        unknown |= !chunked;
        !misplaced && !coding.is_empty()
    }) || !chunked
    {
        return Err(Status::BAD_REQUEST);
    }
    // Section 6.1: a coding that is not understood is answered with 501.
    if unknown { Err(Status::NOT_IMPLEMENTED) } else { Ok(true) }
}

/// RFC 9110 section 10.1.1: an expectation other than 100-continue cannot be
/// met. One without a body to wait for, or from an HTTP/1.0 client, is
/// ignored.
fn expect(request: &Request<'_>, transfer: &Transfer) -> Result<bool, Status> {
    let Some(mut values) = request.values(Known::Expect, "expect") else { return Ok(false) };
    let met = values.all(|value| value.eq_ignore_ascii_case(b"100-continue"));
    if transfer.version == Version::Http10 {
        return Ok(false);
    }
    if met { Ok(transfer.framing() != Framing::None) } else { Err(Status::EXPECTATION_FAILED) }
}
