//! Captures what passes a link, as pcapng (draft-ietf-opsawg-pcapng), which
//! Wireshark and tshark open.
//!
//! The packet path only copies frames into a buffer of bounded size; the
//! buffer is written out by [`Link::poll_control`] and [`Link::wait`], and at
//! the end. A frame that finds the buffer full is left out of the capture and
//! counted, and never delays the traffic. A failed write ends the capture, not
//! the traffic.

mod pcapng;

use crate::shared::Shared;
use crate::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use core::time::Duration;
use pcapng::Direction;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::{Offload, Time};

/// Ethernet header with one VLAN tag: what a slot holds beside the packet.
const HEADER_ROOM: usize = 18;

/// How to capture.
#[derive(Clone, Debug)]
pub struct CaptureConfig {
    /// The interface's name in the capture.
    pub name: String,
    /// Bytes of each frame to keep; longer frames are cut in the capture and
    /// their length noted. Default 262,144, as tcpdump: whole frames.
    pub snap_len: u32,
    /// Bytes that wait to be written, at most. Default 4 MiB, which is what
    /// passes at 10 Gbit/s in 3 ms, and `poll_control` comes every 1 ms. Too
    /// small shows in [`CaptureCounters::dropped`].
    pub buffer: usize,
    /// The wall clock at [`Time::ZERO`], since the Unix epoch. With the
    /// default of zero the capture shows times since the clock's origin.
    pub epoch: Duration,
}

impl Default for CaptureConfig {
    fn default() -> Self {
        Self { name: "nearside".into(), snap_len: 256 * 1024, buffer: 4 * 1024 * 1024, epoch: Duration::ZERO }
    }
}

/// How the capture went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CaptureCounters {
    /// Frames put into the capture.
    pub captured: u64,
    /// Frames left out: the buffer was full, or the capture had ended.
    pub dropped: u64,
    /// Why the capture ended before its time, if it did.
    pub failed: Option<io::ErrorKind>,
}

/// A link whose frames are captured to `W`. Frames pass unchanged, offloads
/// included: what is sent is captured as it was handed over, so with offloads
/// a sent frame's checksum is not yet complete.
pub struct Capture<L: Link, W: Write> {
    link: Shared<L>,
    log: SharedLog<W>,
    rx: CaptureRx<L, W>,
    tx: CaptureTx<L, W>,
}

impl<L: Link, W: Write> Capture<L, W> {
    /// Asks the link that is captured.
    pub fn ask_inner<T>(&self, ask: impl FnOnce(&L) -> T) -> T {
        ask(&self.link.lock())
    }

    /// Captures what passes `link`. The file's head is written with the first
    /// frames.
    pub fn new(link: L, out: W, config: CaptureConfig) -> Self {
        let capabilities = link.capabilities();
        let packet = capabilities.segmentation.unwrap_or(0).max(u32::from(capabilities.mtu));
        let link = Shared::new(link);
        let log = SharedLog(Arc::new(Mutex::new(Log::new(out, &config))));
        Self {
            rx: CaptureRx { link: link.clone(), log: log.clone(), frames: Vec::new(), taken: 0 },
            tx: CaptureTx {
                link: link.clone(),
                log: log.clone(),
                slot: vec![0; packet as usize + HEADER_ROOM],
                offered: false,
            },
            link,
            log,
        }
    }

    /// How the capture went so far.
    pub fn capture_counters(&self) -> CaptureCounters {
        self.log.lock().counters
    }

    /// Writes out what waits, and closes the capture with its statistics.
    /// Dropping does the same, without telling whether it worked.
    ///
    /// # Errors
    /// If the capture had failed, or the last write fails.
    pub fn finish(self) -> io::Result<()> {
        self.log.lock().finish()
    }
}

impl<L: Link, W: Write> Drop for Capture<L, W> {
    fn drop(&mut self) {
        // A failure was counted; there is nobody left to tell.
        let _ = self.log.lock().finish();
    }
}

impl<L: Link, W: Write> Link for Capture<L, W> {
    type Rx<'a>
        = &'a mut CaptureRx<L, W>
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut CaptureTx<L, W>
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        self.link.lock().capabilities()
    }

    fn split(&mut self) -> (&mut CaptureRx<L, W>, &mut CaptureTx<L, W>) {
        (&mut self.rx, &mut self.tx)
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        let mut log = self.log.lock();
        log.now = now;
        log.write_out();
        drop(log);
        self.link.lock().poll_control(now)
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        self.log.lock().write_out();
        self.link.lock().wait(wake, timeout)
    }

    fn counters(&self) -> Counters {
        self.link.lock().counters()
    }
}

/// The receive half of [`Capture`].
pub struct CaptureRx<L, W> {
    link: Shared<L>,
    log: SharedLog<W>,
    frames: Vec<(Vec<u8>, bool)>,
    taken: usize,
}

impl<L: Link, W: Write> Receive for CaptureRx<L, W> {
    fn receive(&mut self, now: Time, max: usize) -> usize {
        let mut inner = self.link.lock();
        let mut rx = inner.split().0;
        let mut log = self.log.lock();
        log.now = now;
        self.taken = rx.receive(now, max);
        if self.frames.len() < self.taken {
            self.frames.resize_with(self.taken, Default::default);
        }
        for (i, (bytes, verified)) in self.frames[..self.taken].iter_mut().enumerate() {
            let frame = rx.frame(i);
            log.record(Direction::Inbound, frame);
            bytes.clear();
            bytes.extend_from_slice(frame);
            *verified = rx.verified(i);
        }
        rx.release();
        self.taken
    }

    fn frame(&self, index: usize) -> &[u8] {
        &self.frames[..self.taken][index].0
    }

    fn verified(&self, index: usize) -> bool {
        self.frames[..self.taken][index].1
    }

    fn release(&mut self) {
        self.taken = 0;
    }
}

/// The transmit half of [`Capture`].
pub struct CaptureTx<L, W> {
    link: Shared<L>,
    log: SharedLog<W>,
    slot: Vec<u8>,
    offered: bool,
}

impl<L: Link, W: Write> Transmit for CaptureTx<L, W> {
    fn room(&self) -> usize {
        self.link.lock().split().1.room()
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        // The inner slot stays the next one until it is committed below.
        self.link.lock().split().1.slot()?;
        self.offered = true;
        Some(&mut self.slot)
    }

    fn commit(&mut self, len: usize, offload: Offload) {
        if !core::mem::take(&mut self.offered) {
            return;
        }
        let mut inner = self.link.lock();
        let mut tx = inner.split().1;
        let Some(slot) = tx.slot() else { return };
        let len = len.min(slot.len()).min(self.slot.len());
        slot[..len].copy_from_slice(&self.slot[..len]);
        tx.commit(len, offload);
        self.log.lock().record(Direction::Outbound, &self.slot[..len]);
    }

    fn flush(&mut self, now: Time) {
        self.log.lock().now = now;
        self.link.lock().split().1.flush(now);
    }
}

/// The capture file, and what waits to be written to it.
struct Log<W> {
    out: W,
    pending: Vec<u8>,
    /// Bytes at the front of `pending` that a partial write has taken.
    written: usize,
    limit: usize,
    snap_len: u32,
    epoch: Duration,
    /// The time of this turn.
    now: Time,
    finished: bool,
    counters: CaptureCounters,
}

impl<W: Write> Log<W> {
    fn new(out: W, config: &CaptureConfig) -> Self {
        let mut pending = Vec::with_capacity(config.buffer);
        pcapng::head(&mut pending, &config.name, config.snap_len);
        Self {
            out,
            // The head is written whatever the limit is.
            limit: config.buffer.max(pending.len()),
            pending,
            written: 0,
            snap_len: config.snap_len,
            epoch: config.epoch,
            now: Time::ZERO,
            finished: false,
            counters: CaptureCounters::default(),
        }
    }

    fn timestamp(&self) -> u64 {
        let epoch = u64::try_from(self.epoch.as_nanos()).unwrap_or(u64::MAX);
        epoch.saturating_add(self.now.as_nanos())
    }

    fn record(&mut self, direction: Direction, frame: &[u8]) {
        let kept = frame.len().min(self.snap_len as usize);
        let fits = self.pending.len() + pcapng::packet_len(kept) <= self.limit;
        if !fits || self.counters.failed.is_some() || self.finished {
            self.counters.dropped += 1;
            return;
        }
        let timestamp = self.timestamp();
        pcapng::packet(&mut self.pending, timestamp, direction, &frame[..kept], frame.len());
        self.counters.captured += 1;
    }

    /// Writes what waits; a writer that would block is tried again later.
    fn write_out(&mut self) {
        while self.counters.failed.is_none() && self.written < self.pending.len() {
            match self.out.write(&self.pending[self.written..]) {
                Ok(0) => self.counters.failed = Some(io::ErrorKind::WriteZero),
                Ok(count) => self.written += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => self.counters.failed = Some(e.kind()),
            }
        }
        if self.written == self.pending.len() || self.counters.failed.is_some() {
            self.pending.clear();
        } else {
            self.pending.drain(..self.written);
        }
        self.written = 0;
    }

    fn finish(&mut self) -> io::Result<()> {
        if !self.finished {
            self.finished = true;
            let timestamp = self.timestamp();
            let CaptureCounters { captured, dropped, .. } = self.counters;
            pcapng::statistics(&mut self.pending, timestamp, captured + dropped, dropped);
            self.write_out();
            if self.counters.failed.is_none() {
                if !self.pending.is_empty() {
                    self.counters.failed = Some(io::ErrorKind::WouldBlock);
                } else if let Err(e) = self.out.flush() {
                    self.counters.failed = Some(e.kind());
                }
            }
        }
        self.counters.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

/// The log as both halves reach it; for the lock see [`Shared`].
struct SharedLog<W>(Arc<Mutex<Log<W>>>);

impl<W> SharedLog<W> {
    fn lock(&self) -> MutexGuard<'_, Log<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W> Clone for SharedLog<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests;
