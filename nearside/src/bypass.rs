//! An application on our own stack, over any link.

use crate::RunError;
use crate::run::Until;
use app::App;
use core::sync::atomic::AtomicBool;
use cpu::Clock;
use link::{Link, LinkState};
use silo::{Idle, Next, Silo, Usage};
use stack::{Address, LinkOffload, Seeds, Stack};
use std::os::fd::BorrowedFd;
use wire::{Mac, Time};

/// An application on our own stack, over a link.
#[derive(Debug)]
pub struct Bypass<L, A> {
    /// Link, stack and application: [`Silo::turn`] takes one turn, for whoever
    /// has a loop of their own.
    pub silo: Silo<L, A>,
}

impl<L: Link, A: App> Bypass<L, A> {
    /// Has the addresses, and takes connections to `ports`; none, for a
    /// client. `mac` is our Ethernet address, a unicast one.
    ///
    /// # Errors
    /// If the operating system gives no random bits.
    pub fn new(link: L, mac: Mac, addresses: &[Address], ports: &[u16], app: A) -> Result<Self, RunError> {
        let mut config = stack::Config::new(mac, link.capabilities().mtu);
        config.addresses = addresses.to_vec();
        config.listen = ports.to_vec();
        Self::with(link, config, app)
    }

    /// [`Bypass::new`] with settings of the caller's own.
    ///
    /// # Errors
    /// If the operating system gives no random bits.
    pub fn with(link: L, mut config: stack::Config, app: A) -> Result<Self, RunError> {
        let capabilities = link.capabilities();
        config.shared_frames = capabilities.shared_frames;
        let offload = LinkOffload { checksum: capabilities.transmit_checksum, segmentation: capabilities.segmentation };
        let seeds = Seeds { table: random()?, secret: random()?, timestamps: random()? };
        let stack = Stack::new(config, offload, &seeds, Clock.now());
        Ok(Self { silo: Silo { link, stack, app } })
    }

    /// Runs on this thread until `stop` is set; then accepts no more, and ends
    /// when the application has nothing under way, or after [`crate::DRAIN`]. Sleeps
    /// while there is nothing to do.
    ///
    /// # Errors
    /// If the link can no longer be waited on.
    pub fn run(mut self, stop: &AtomicBool) -> Result<A, RunError> {
        silo::run(&mut self.silo, Idle::ADAPTIVE, &mut Until::new(stop)).map_err(RunError::Wait)?;
        Ok(self.silo.app)
    }
}

impl<L: Link, A: App> silo::Attendant<L, A> for Until<'_> {
    fn attend(&mut self, silo: &mut Silo<L, A>, now: Time, _usage: &Usage, _link: LinkState) -> Next {
        let Some((first, since)) = self.asked(now) else { return Next::Go };
        if first {
            silo.stack.stop_listening();
        }
        let over = silo.app.drain(&mut silo.stack) && silo.stack.connections() == 0;
        if over || now.since(since) >= crate::DRAIN { Next::Stop } else { Next::Go }
    }

    fn wake<'b>(&'b self, app: &'b A) -> Option<BorrowedFd<'b>> {
        app.wake_fd()
    }
}

fn random<const N: usize>() -> Result<[u64; N], RunError> {
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; 8];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
                .map_err(|why| RunError::Random(why.into()))?;
        }
        *word = u64::from_ne_bytes(bytes);
    }
    Ok(words)
}
