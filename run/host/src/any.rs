//! Links of any kind, as one type.

use crate::port::Port;
use crate::published::Take;
use core::ops::Range;
use core::time::Duration;
use link::{Capabilities, Capture, Counters, Faults, Link, LinkState, Receive, Transmit};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use steer::Rss;
use wire::Time;

/// A queue of any kind, captured or harmed or not: where calls through a table for each
/// frame do not matter, and a copy of all that runs over it for each kind would.
pub struct AnyLink(Box<dyn AnyQueue>);

impl AnyLink {
    /// This one.
    pub fn new(queue: impl AnyQueue + 'static) -> Self {
        Self(Box::new(queue))
    }
}

/// What is asked of a queue of whatever driver: [`Link`] without its types.
pub trait AnyQueue: Send {
    /// [`Link::split`].
    fn halves(&mut self) -> (&mut dyn Receive, &mut dyn Transmit);
    /// [`Link::capabilities`].
    fn capabilities(&self) -> Capabilities;
    /// [`Link::poll_control`].
    fn poll_control(&mut self, now: Time) -> LinkState;
    /// [`Link::wait`].
    ///
    /// # Errors
    /// Its.
    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()>;
    /// [`Link::arm`].
    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration;
    /// [`Link::counters`].
    fn counters(&self) -> Counters;
    /// [`Link::memory`].
    fn memory(&self, each: &mut dyn FnMut(Range<usize>));
    /// [`Port::counts`].
    fn counts(&self, take: Take<'_>);
    /// [`Port::gone`].
    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool));
    /// [`Port::rss`].
    fn rss(&self) -> Option<(Rss, u16)>;
}

impl<L, R: Receive + 'static, T: Transmit + 'static> AnyQueue for L
where
    L: Port + Send + 'static,
    for<'a> L: Link<Rx<'a> = &'a mut R, Tx<'a> = &'a mut T>,
{
    fn halves(&mut self) -> (&mut dyn Receive, &mut dyn Transmit) {
        let (rx, tx) = self.split();
        (rx, tx)
    }

    fn capabilities(&self) -> Capabilities {
        Link::capabilities(self)
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        Link::poll_control(self, now)
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        Link::wait(self, wake, timeout)
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        Link::arm(self, each)
    }

    fn counters(&self) -> Counters {
        Link::counters(self)
    }

    fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        Link::memory(self, each);
    }

    fn counts(&self, take: Take<'_>) {
        Port::counts(self, take);
    }

    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        Port::gone(self, each);
    }

    fn rss(&self) -> Option<(Rss, u16)> {
        Port::rss(self)
    }
}

impl Link for AnyLink {
    type Rx<'a> = &'a mut dyn Receive;
    type Tx<'a> = &'a mut dyn Transmit;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn split(&mut self) -> (&mut dyn Receive, &mut dyn Transmit) {
        self.0.halves()
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        self.0.poll_control(now)
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        self.0.wait(wake, timeout)
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        self.0.arm(each)
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        self.0.memory(each);
    }
}

impl Port for AnyLink {
    fn counts(&self, take: Take<'_>) {
        self.0.counts(take);
    }

    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        self.0.gone(each);
    }

    fn rss(&self) -> Option<(Rss, u16)> {
        self.0.rss()
    }
}

/// One that is captured, and harmed.
pub type Wrapped = Capture<Faults<AnyLink>, CaptureFile>;

impl Port for Wrapped {
    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        self.ask_inner(|faults| faults.ask_inner(|link| link.gone(each)));
    }

    fn rss(&self) -> Option<(Rss, u16)> {
        self.ask_inner(|faults| faults.ask_inner(Port::rss))
    }
}

/// Where a capture goes, if there is one.
pub struct CaptureFile(pub Option<File>);

impl Write for CaptureFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(file) => file.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Some(file) => file.flush(),
            None => Ok(()),
        }
    }
}
