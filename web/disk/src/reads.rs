//! The ring, and what is being read.

use crate::waker::Waker;
use core::fmt;
use io_uring::register::Restriction;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// The number of what wakes, beside those of reads.
const WAKES: u64 = u64::MAX;

/// How a read went.
#[derive(Debug)]
pub struct ReadDone<T> {
    /// What it was started with.
    pub ticket: T,
    /// What was read, if all went well, behind what aligns it: fewer bytes than were asked for where the
    /// file ends.
    pub buffer: Vec<u8>,
    /// Where it begins in the buffer.
    pub from: usize,
    /// Or what the file system said.
    pub outcome: Result<(), Errno>,
}

/// What of a file is read, and how.
#[derive(Clone, Copy, Debug)]
pub struct ReadRange {
    /// From there on.
    pub offset: u64,
    /// So many bytes, or as many as there are.
    pub length: usize,
    /// A power of two: 1, or what a file that is read past the page cache (O_DIRECT) wants memory aligned to,
    /// and `offset` and `length` be multiples of.
    pub alignment: usize,
    /// By a thread of the kernel's own (IOSQE_ASYNC) from the beginning: for file systems that may hold up who
    /// begins a read, whatever they were told (FUSE and those of networks). The others say that they would.
    pub aside: bool,
}

/// A read that is under way. Its buffer is the kernel's.
struct UnderWay<T> {
    ticket: T,
    /// Open for as long as it is read from.
    file: Arc<OwnedFd>,
    range: ReadRange,
    buffer: Vec<u8>,
    /// Bytes of it before what is read.
    from: usize,
}

/// Reads of one thread. `T` is what tells them apart.
pub struct Reads<T> {
    ring: IoUring,
    under_way: Box<[Option<UnderWay<T>>]>,
    /// Places of `under_way` where there is nothing.
    free: Vec<u32>,
    done: VecDeque<ReadDone<T>>,
    waker: Arc<Waker>,
    /// The ring waits for what wakes.
    is_watched: bool,
}

impl<T> fmt::Debug for Reads<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads").field("under_way", &self.under_way()).finish_non_exhaustive()
    }
}

impl<T> Reads<T> {
    /// A ring for up to `most` reads at a time, which can do nothing else from here on.
    ///
    /// # Errors
    /// The kernel has none (Linux 5.10), or it may not be had: kernel.io_uring_disabled, the
    /// sandbox of a container, the limit on locked memory.
    pub fn new(most: u16) -> io::Result<Self> {
        // One more, for what wakes.
        let entries = (u32::from(most) + 1).next_power_of_two();
        let ring = IoUring::builder().setup_r_disabled().dontfork().build(entries)?;
        // A thread for each that is read aside: by default there are four for each core, which one file
        // system that does not answer takes. Linux before 5.15 has no say in this.
        let _ = ring.submitter().register_iowq_max_workers(&mut [u32::from(most), 0]);
        let [read, poll] = [opcode::Read::CODE, opcode::PollAdd::CODE].map(Restriction::sqe_op);
        let aside = Restriction::sqe_flags_allowed(squeue::Flags::ASYNC.bits());
        ring.submitter().register_restrictions(&mut [read, poll, aside])?;
        ring.submitter().register_enable_rings()?;
        Ok(Self {
            ring,
            under_way: (0..most).map(|_| None).collect(),
            free: (0..u32::from(most)).rev().collect(),
            done: VecDeque::with_capacity(usize::from(most)),
            waker: Arc::new(Waker::new()?),
            is_watched: false,
        })
    }

    /// What wakes its thread.
    #[must_use]
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Reads that are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way.len() - self.free.len()
    }

    /// Whether one more can be started.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Starts to read some of a file into the memory of `buffer`, which grows where it is smaller. It begins
    /// by the next [`Reads::submit`] or [`Reads::wait`].
    ///
    /// # Errors
    /// The ticket and the buffer, where [there is no room](Self::has_room).
    pub fn start(
        &mut self,
        ticket: T,
        file: Arc<OwnedFd>,
        range: ReadRange,
        mut buffer: Vec<u8>,
    ) -> Result<(), (T, Vec<u8>)> {
        let Some(at) = self.free.pop() else { return Err((ticket, buffer)) };
        buffer.clear();
        buffer.reserve_exact(range.length + range.alignment - 1);
        let from = buffer.as_ptr().addr().next_multiple_of(range.alignment) - buffer.as_ptr().addr();
        buffer.resize(from, 0);
        self.under_way[at as usize] = Some(UnderWay { ticket, file, range, buffer, from });
        self.read_on(at);
        Ok(())
    }

    /// Asks for what is missing of a read.
    fn read_on(&mut self, at: u32) {
        let Some(read) = &mut self.under_way[at as usize] else { return };
        let filled = read.buffer.len() - read.from;
        let missing = read.range.length - filled;
        // Calls take less than 2 GiB (read(2)).
        let missing = u32::try_from(missing).unwrap_or(u32::MAX).min(1 << 30);
        let memory = read.buffer.spare_capacity_mut().as_mut_ptr().cast();
        let flags = if read.range.aside { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
        let read =
            opcode::Read::new(Fd(read.file.as_raw_fd()), memory, missing).offset(read.range.offset + filled as u64);
        self.push(&read.build().flags(flags).user_data(u64::from(at)));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: memory and descriptor of a read lie in `under_way` until it is done: what is there
        // is neither moved out nor grown before its completion was seen, the heap memory of a
        // vector stays where it is when the vector moves, at least `missing` bytes of it are
        // spare, and `Drop` lets go of neither. What wakes has no memory, and its descriptor is as
        // old as the ring. A peer decides of none of this: how long a read is and where it
        // begins are numbers that the kernel checks against the file.
        //
        // There is room: the queue has a place for each read and for what wakes, and each is in it once.
        let pushed = unsafe { self.ring.submission().push(entry) };
        debug_assert!(pushed.is_ok(), "a place for each");
    }

    /// Lets what was started begin, and sees what is done by then, without waiting.
    pub fn submit(&mut self) {
        self.enter(0);
        self.reap();
    }

    /// Waits until a read is done, or until the [waker](Self::waker) is used; not at all if `is_needless`
    /// says so, which is asked when whoever wakes knows of the wait: what they wrote before it
    /// is seen.
    pub fn wait(&mut self, is_needless: impl FnOnce() -> bool) {
        if !self.is_watched {
            let poll = opcode::PollAdd::new(Fd(self.waker.event.as_raw_fd()), readable());
            self.push(&poll.build().user_data(WAKES));
            self.is_watched = true;
        }
        self.waker.announce();
        self.enter(u32::from(!is_needless() && self.done.is_empty()));
        self.waker.withdraw();
        self.reap();
    }

    fn enter(&self, want: u32) {
        loop {
            match self.ring.submitter().submit_and_wait(want as usize) {
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                // No memory for it now, or completions that are to be seen first: what was not
                // submitted is by the next call.
                _ => return,
            }
        }
    }

    /// What is done comes to where it is taken; what came in part goes on.
    fn reap(&mut self) {
        loop {
            let Some((data, result)) = self.ring.completion().next().map(|done| (done.user_data(), done.result()))
            else {
                return;
            };
            if data == WAKES {
                self.is_watched = false;
                self.waker.clear();
            } else if let Ok(at) = u32::try_from(data) {
                self.on_read(at, result);
            }
        }
    }

    fn on_read(&mut self, at: u32, result: i32) {
        let Some(read) = self.under_way.get_mut(at as usize).and_then(Option::as_mut) else { return };
        let outcome = match result {
            0 => Ok(()),
            more if more > 0 => {
                let filled = read.buffer.len() - read.from + more as usize;
                debug_assert!(filled <= read.range.length, "no more than was asked for");
                // SAFETY: the kernel has written so many bytes behind those that were there, and was
                // given no more room than the capacity has.
                unsafe { read.buffer.set_len(read.from + filled.min(read.range.length)) };
                // Past the page cache there is nothing behind what ends amid a block.
                if filled < read.range.length && filled.is_multiple_of(read.range.alignment) {
                    return self.read_on(at);
                }
                Ok(())
            }
            code => match Errno::from_raw_os_error(-code) {
                Errno::INTR => return self.read_on(at),
                // It would wait for whom it may not hold up.
                Errno::AGAIN if !read.range.aside => {
                    read.range.aside = true;
                    return self.read_on(at);
                }
                why => Err(why),
            },
        };
        if let Some(UnderWay { ticket, buffer, from, .. }) = self.under_way[at as usize].take() {
            self.free.push(at);
            self.done.push_back(ReadDone { ticket, buffer, from, outcome });
        }
    }

    /// A read that is done.
    pub fn take(&mut self) -> Option<ReadDone<T>> {
        self.done.pop_front()
    }
}

impl<T> Drop for Reads<T> {
    fn drop(&mut self) {
        // A disk may still write into the memory of what is under way, and cannot be told not to.
        for read in self.under_way.iter_mut().filter_map(Option::take) {
            core::mem::forget(read.buffer);
        }
    }
}

const fn readable() -> u32 {
    rustix::event::PollFlags::IN.bits() as u32
}

#[cfg(test)]
mod tests;
