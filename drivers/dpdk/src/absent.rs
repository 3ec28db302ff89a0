//! The link's types where the program was built without DPDK: there are no
//! values of them.

use crate::config::{Config, Device};
use crate::error::{DpdkError, Step};
use crate::facts::{Facts, StampedFrames};
use ::link::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use core::time::Duration;
use std::io;
use std::os::fd::BorrowedFd;
use wire::{Mac, Offload, Time};

/// The version of DPDK: without it, none.
#[must_use]
pub fn version() -> String {
    String::new()
}

/// The address of an open port: there is none.
#[must_use]
pub fn mac(_device: &Device) -> Option<Mac> {
    None
}

/// What an open port is like: there is none.
#[must_use]
pub fn facts(_device: &Device) -> Option<Facts> {
    None
}

/// Which frames a port stamps: there is none.
pub(crate) fn stamped_frames(config: &Config) -> Result<StampedFrames, String> {
    Err(DpdkError::of(Step::NotBuiltIn).on(&config.device).to_string())
}

/// The time of an open port's clock: there is none.
pub(crate) fn clock_of(_device: &Device) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// An opened port: there is none.
#[derive(Debug)]
pub enum Dpdk {}

impl Dpdk {
    /// Fails.
    ///
    /// # Errors
    /// Always: the program was built without DPDK.
    pub fn open(config: &Config) -> Result<Self, DpdkError> {
        Err(DpdkError::of(Step::NotBuiltIn).on(&config.device))
    }

    /// What the port is like.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        match *self {}
    }

    /// One link for each queue pair.
    #[must_use]
    pub fn split_queues(self) -> Vec<DpdkLink> {
        match self {}
    }
}

/// One queue pair of a port: there is none.
#[derive(Debug)]
pub enum DpdkLink {}

impl DpdkLink {
    /// Fails.
    ///
    /// # Errors
    /// As [`Dpdk::open`].
    pub fn open(config: &Config) -> Result<Self, DpdkError> {
        match Dpdk::open(config)? {}
    }

    /// Which of the port's queue pairs it is.
    #[must_use]
    pub const fn queue(&self) -> u16 {
        match *self {}
    }

    /// What the port is like.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        match *self {}
    }
}

impl Link for DpdkLink {
    type Rx<'a>
        = &'a mut DpdkRx
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut DpdkTx
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        match *self {}
    }

    fn split(&mut self) -> (&mut DpdkRx, &mut DpdkTx) {
        match *self {}
    }

    fn poll_control(&mut self, _now: Time) -> LinkState {
        match *self {}
    }

    fn wait(&mut self, _wake: Option<BorrowedFd<'_>>, _timeout: Duration) -> io::Result<()> {
        match *self {}
    }

    fn counters(&self) -> Counters {
        match *self {}
    }
}

/// The receive half: there is none.
#[derive(Debug)]
pub enum DpdkRx {}

impl Receive for DpdkRx {
    fn receive(&mut self, _now: Time, _max: usize) -> usize {
        match *self {}
    }

    fn frame(&self, _index: usize) -> &[u8] {
        match *self {}
    }

    fn release(&mut self) {
        match *self {}
    }
}

/// The transmit half: there is none.
#[derive(Debug)]
pub enum DpdkTx {}

impl Transmit for DpdkTx {
    fn room(&self) -> usize {
        match *self {}
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        match *self {}
    }

    fn commit(&mut self, _len: usize, _offload: Offload) {
        match *self {}
    }

    fn flush(&mut self, _now: Time) {
        match *self {}
    }
}
