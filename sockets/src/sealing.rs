//! From a secured connection's queue to the kernel, as records.

use crate::counters::Counters;
use crate::kernel_tls;
use crate::net::Sockets;
use crate::option;
use crate::secured::{Due, Records, Secured};
use crate::send::Sent;
use crate::table::{Flags, Socket};
use app::{ConnId, SendFileError};
use core::time::Duration;
use rope::{GATHER, Gathered};
use rustix::io::{Errno, pread};
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use seal::message::{CLOSE_NOTIFY, KEY_UPDATE, NO_RENEGOTIATION, fatal};
use seal::{ContentType, MAX_PLAINTEXT, SealError};
use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use wire::Time;

/// A connection that sent nothing for so long begins anew with records of a segment.
const REST: Duration = Duration::from_secs(1);

/// Records of one segment at first: a client can read each as it arrives, while few arrive
/// at once. Then of a few, then the longest, whose sealing costs least.
const SMALL_FOR: usize = 16;
const MIDDLE: usize = 4;
const MIDDLE_FOR: usize = 64;

/// Hands over what a secured connection has queued, as records, and its end.
#[inline]
pub(crate) fn send_queue(net: &mut Sockets, id: ConnId) -> Sent {
    let Sockets { table, records, counters, now, send_budget, stream, kernel_tls, .. } = net;
    let Some((conn, secured)) = table.secured_mut(id) else { return Sent::All };
    let long = *kernel_tls && secured.kernel.is_none() && kernel_tls::is_worth(conn, secured);
    if long && let Some(stop) = hand_over(conn, secured, counters) {
        return stop;
    }
    if secured.kernel.is_some() {
        return kernel_tls::send_queue(conn, secured, (*send_budget, stream.no_push), counters);
    }
    let mut left = *send_budget;
    loop {
        records.filled = 0;
        take_clear(conn, secured, records);
        if (secured.kept() > 0 || secured.clear > 0)
            && let Some(stop) = send_sealed(conn, secured, counters)
        {
            return stop;
        }
        if left == 0 && records.filled == 0 {
            return Sent::Spent;
        }
        match fill(conn, secured, records, (*now, left)) {
            Ok(plain) => left = left.saturating_sub(plain),
            Err(sent) => return sent,
        }
        if records.filled == 0 {
            return Sent::All;
        }
        counters.sends += 1;
        let out = &records.out[..records.filled];
        let Some(fd) = conn.fd() else { return Sent::All };
        let (taken, failed) = match send(fd, out, last_word(conn, secured)) {
            Ok(taken) => (taken, None),
            Err(Errno::AGAIN | Errno::INTR) => (0, None),
            Err(e) => (0, Some(e)),
        };
        counters.sent_bytes += taken as u64;
        if let Some(e) = failed {
            return Sent::Failed(e);
        }
        if taken < out.len() {
            counters.sends_short += 1;
            secured.kept.extend_from_slice(&out[taken..]);
            return Sent::Blocked;
        }
        // Room was left: all that was queued is in it.
        if records.has_room() && conn.queue.is_empty() && secured.due != Due::Update {
            return Sent::All;
        }
    }
}

/// Has the kernel seal what follows, if it will. What is sealed already goes first: returns
/// how the queue is left where not all of that did.
#[cold]
fn hand_over(conn: &mut Socket, secured: &mut Secured, counters: &mut Counters) -> Option<Sent> {
    if (secured.kept() > 0 || secured.clear > 0)
        && let Some(stop) = send_sealed(conn, secured, counters)
    {
        return Some(stop);
    }
    kernel_tls::take_over(conn, secured, counters);
    None
}

/// The last of a handshake, which goes as it is, and the first records behind it are one
/// call's, and mostly one segment's.
#[inline]
fn take_clear(conn: &mut Socket, secured: &mut Secured, records: &mut Records) {
    /// Tickets, or a server's whole first flight.
    const MOST: u64 = (MAX_PLAINTEXT / 2) as u64;
    if secured.clear == 0 || secured.clear > MOST || secured.kept() > 0 {
        return;
    }
    let mut pieces = [IoSlice::new(&[]); GATHER];
    let gathered = conn.queue.gather(&mut pieces, secured.clear as usize);
    if gathered.bytes as u64 != secured.clear {
        return;
    }
    for piece in &pieces[..gathered.pieces] {
        let Some(out) = records.out.get_mut(records.filled..records.filled + piece.len()) else { return };
        out.copy_from_slice(piece);
        records.filled += piece.len();
    }
    conn.queue.release(secured.clear);
    secured.clear = 0;
}

/// The peer is told why this is its end, as far as the kernel takes that at once.
#[cold]
pub(crate) fn send_last(conn: &mut Socket, secured: &mut Secured, records: &mut Records, alert: u8) {
    if secured.kernel.is_some() {
        return kernel_tls::send_last(conn, secured, alert);
    }
    records.filled = 0;
    if secured.due == Due::EndSaid || records.seal(secured, ContentType::Alert, &[&fatal(alert)], 2).is_err() {
        return;
    }
    secured.due = Due::EndSaid;
    let Some(fd) = conn.fd() else { return };
    // Without the last of the handshake nobody could read it.
    let clear = usize::try_from(secured.clear).unwrap_or(usize::MAX);
    let mut clears = [IoSlice::new(&[]); GATHER];
    let gathered = conn.queue.gather(&mut clears, clear);
    if gathered.bytes as u64 != secured.clear {
        return;
    }
    let mut pieces = clears[..gathered.pieces].to_vec();
    pieces.push(IoSlice::new(&secured.kept[secured.taken..]));
    pieces.push(IoSlice::new(&records.out[..records.filled]));
    let _ = sendmsg(fd, &pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL);
}

/// What goes as it is: queued before the connection was secured, or sealed before now.
/// Returns how the queue is left, unless all of it went.
#[cold]
fn send_sealed(conn: &mut Socket, secured: &mut Secured, counters: &mut Counters) -> Option<Sent> {
    loop {
        let fd = conn.fd()?;
        let clear = usize::try_from(secured.clear).unwrap_or(usize::MAX);
        let mut pieces = [IoSlice::new(&[]); GATHER];
        let (sent, asked) = if clear > 0 {
            let gathered = conn.queue.gather(&mut pieces, clear);
            if gathered.pieces == 0 {
                // Files are not queued before a handshake is over.
                return Some(Sent::Truncated(SendFileError { call: "sendfile()", errno: None, at: 0 }));
            }
            (gather_and_send(fd, &pieces, gathered), gathered.bytes)
        } else {
            let kept = &secured.kept[secured.taken..];
            (send(fd, kept, SendFlags::NOSIGNAL), kept.len())
        };
        counters.sends += 1;
        let taken = match sent {
            Ok(taken) => taken,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => 0,
            Err(e) => return Some(Sent::Failed(e)),
        };
        counters.sent_bytes += taken as u64;
        if clear > 0 {
            conn.queue.release(taken as u64);
            secured.clear -= taken as u64;
        } else {
            secured.taken += taken;
        }
        if taken < asked {
            counters.sends_short += 1;
            return Some(Sent::Blocked);
        }
        if secured.kept() == 0 && secured.clear == 0 {
            // A connection that waits for nothing keeps no memory for it.
            (secured.kept, secured.taken) = (Vec::new(), 0);
            return None;
        }
    }
}

fn gather_and_send(fd: BorrowedFd<'_>, pieces: &[IoSlice<'_>], gathered: Gathered) -> Result<usize, Errno> {
    sendmsg(fd, &pieces[..gathered.pieces], &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
}

/// Where our FIN follows at once, what is sent waits for it.
fn last_word(conn: &Socket, secured: &Secured) -> SendFlags {
    let last = secured.due == Due::EndSaid && conn.queue.is_empty();
    if last { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL }
}

/// Seals what is queued, until the buffer is full or `most` bytes of plaintext are sealed.
/// Returns how many were.
fn fill(
    conn: &mut Socket,
    secured: &mut Secured,
    records: &mut Records,
    (now, most): (Time, usize),
) -> Result<usize, Sent> {
    let mut plain = 0;
    while records.has_room() {
        // The last number of a key is for the message that there is another.
        if secured.due == Due::Nothing && secured.number + 1 >= secured.layer.most_records() {
            secured.due = Due::Update;
        }
        if secured.due == Due::Update {
            update(conn, secured, records).map_err(|_| Sent::Unsealed)?;
        }
        if core::mem::take(&mut secured.refuses) && secured.due == Due::Nothing {
            let refusal = records.seal(secured, ContentType::Alert, &[&NO_RENEGOTIATION], NO_RENEGOTIATION.len());
            refusal.map_err(|_| Sent::Unsealed)?;
            continue;
        }
        if conn.queue.is_empty() {
            if conn.flags.has(Flags::FINISHED) && secured.due != Due::EndSaid {
                end(secured, records).map_err(|_| Sent::Unsealed)?;
            }
            break;
        }
        if plain >= most {
            break;
        }
        plain += seal_one(conn, secured, records, now)?;
    }
    Ok(plain)
}

/// The next keys. The old ones have sealed their last: what they sealed is kept sealed.
/// Where there are none, in TLS 1.2, the last record says that this is the end.
#[cold]
fn update(conn: &mut Socket, secured: &mut Secured, records: &mut Records) -> Result<(), SealError> {
    let epoch = match secured.layer.next_epoch() {
        Ok(epoch) => epoch,
        Err(SealError::NoUpdate) => {
            conn.queue.clear();
            conn.flags.set(Flags::FINISHED | Flags::CLOSES);
            return end(secured, records);
        }
        Err(why) => return Err(why),
    };
    records.seal(secured, ContentType::Handshake, &[&KEY_UPDATE], KEY_UPDATE.len())?;
    secured.layer.forget(secured.epoch);
    (secured.epoch, secured.number, secured.due) = (epoch, 0, Due::Nothing);
    Ok(())
}

/// Nothing follows: the peer is told so.
fn end(secured: &mut Secured, records: &mut Records) -> Result<(), SealError> {
    secured.due = Due::EndSaid;
    records.seal(secured, ContentType::Alert, &[&CLOSE_NOTIFY], CLOSE_NOTIFY.len())
}

/// One record of what stands first, memory and files. Returns how many bytes it has.
fn seal_one(conn: &mut Socket, secured: &mut Secured, records: &mut Records, now: Time) -> Result<usize, Sent> {
    let segment = segment(conn, secured);
    let most = record_len(secured, segment, now);
    let mut pieces = [IoSlice::new(&[]); GATHER];
    let gathered = conn.queue.gather(&mut pieces, most);
    let mut parts: [&[u8]; GATHER + 1] = [&[]; GATHER + 1];
    for (part, piece) in parts.iter_mut().zip(&pieces[..gathered.pieces]) {
        *part = piece;
    }
    let (mut count, mut len) = (gathered.pieces, gathered.bytes);
    // Taken out, so that it can be a part while the record is sealed.
    let mut text = core::mem::take(&mut records.text);
    if len < most
        && (gathered.file_next || count == 0)
        && let Some((file, offset, left)) = conn.queue.first_file()
    {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(most - len).min(text.len());
        match read_at(file, &mut text[..wanted], offset) {
            Ok(read) => {
                parts[count] = &text[..read];
                count += 1;
                len += read;
            }
            Err(errno) => {
                records.text = text;
                return Err(Sent::Truncated(SendFileError { call: "pread()", errno, at: offset }));
            }
        }
    }
    let sealed = records.seal(secured, ContentType::ApplicationData, &parts[..count], len);
    records.text = text;
    sealed.map_err(|_| Sent::Unsealed)?;
    secured.run = secured.run.saturating_add(len);
    conn.queue.release(len as u64);
    Ok(len)
}

/// Bytes of a file, as many as there are wanted: read, and not mapped, because a file that
/// is cut short meanwhile would end the process. `None` if there are none.
fn read_at<Fd: std::os::fd::AsFd>(file: Fd, into: &mut [u8], offset: u64) -> Result<usize, Option<i32>> {
    loop {
        match pread(&file, &mut *into, offset) {
            Ok(0) => return Err(None),
            Ok(read) => return Ok(read),
            Err(Errno::INTR) => {}
            Err(why) => return Err(Some(why.raw_os_error())),
        }
    }
}

/// Plaintext of a record that fills a segment. The kernel is not asked for the sake of what is
/// in one segment anyway.
fn segment(conn: &Socket, secured: &mut Secured) -> usize {
    /// No longer than the segments of any path, but for some that are made up (RFC 9293 section 3.7.1).
    const SHORT: usize = 500;
    let known = match secured.segment {
        Some(known) => known,
        None if conn.queue.unsent() <= SHORT => return SHORT,
        None => {
            let asked = conn.fd().filter(|_| !conn.flags.has(Flags::UNIX)).and_then(option::segment);
            let overhead = u16::try_from(secured.layer.overhead()).unwrap_or(u16::MAX);
            *secured.segment.insert(asked.map_or(u16::MAX, |len| len.saturating_sub(overhead)))
        }
    };
    usize::from(known).max(1)
}

/// Most plaintext of the next record.
fn record_len(secured: &mut Secured, segment: usize, now: Time) -> usize {
    if now.since(secured.sent_at) >= REST {
        secured.run = 0;
    }
    secured.sent_at = now;
    let len = match secured.run / segment {
        ..SMALL_FOR => segment,
        SMALL_FOR..MIDDLE_FOR => segment * MIDDLE,
        _ => MAX_PLAINTEXT,
    };
    len.min(secured.layer.most()).min(MAX_PLAINTEXT)
}
