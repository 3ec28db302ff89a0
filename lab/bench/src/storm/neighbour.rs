//! What silo 0 has to do with: a sender on its queue, and on its core.

use super::frames::{answer, pool};
use super::{Plan, THIS_SEED};
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use core::time::Duration;
use cpu::Clock;
use link::{Link, LinkState, Receive, Transmit};
use memif::MemifLink;
use stats::Random;
use std::thread;
use wire::{Offload, Time};

/// What happens on silo 0's core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Weather {
    /// Nothing.
    Calm,
    /// Something computes, and touches nothing of anybody's.
    Busy,
    /// Frames come as fast as the queue takes them.
    Storm,
    /// It is over.
    End,
}

/// The sender, as the others see it.
#[derive(Debug, Default)]
pub(super) struct Neighbour {
    weather: AtomicU8,
    up: AtomicU8,
    sent: AtomicU64,
    full: AtomicU64,
}

/// How often the link is looked after.
const EVERY: Duration = Duration::from_millis(1);

/// Computed between two looks at the clock.
const SPINS: u32 = 1_000;

/// Frames taken from the queue at a time.
const BURST: usize = 256;

impl Neighbour {
    pub(super) fn set(&self, weather: Weather) {
        self.weather.store(weather as u8, Ordering::Relaxed);
    }

    fn weather(&self) -> Weather {
        match self.weather.load(Ordering::Relaxed) {
            0 => Weather::Calm,
            1 => Weather::Busy,
            2 => Weather::Storm,
            _ => Weather::End,
        }
    }

    /// Whether its queue is connected.
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed) != 0
    }

    /// Frames sent, and how often the queue was full.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.full.load(Ordering::Relaxed))
    }

    /// Makes the weather until its end.
    ///
    /// # Errors
    /// If it cannot have its core.
    pub(super) fn run(&self, plan: &Plan, core: u16, mut link: MemifLink) -> Result<(), String> {
        cpu::pin::pin(core).map_err(|why| why.to_string())?;
        let frames = pool(&plan.kinds, &mut Random::new(THIS_SEED));
        let (mut next, mut attend_at) = (0, Time::ZERO);
        loop {
            let now = Clock.now();
            if now >= attend_at {
                attend_at = now + EVERY;
                let up = link.poll_control(now) == LinkState::Up;
                self.up.store(u8::from(up), Ordering::Relaxed);
                hear(&mut link, now);
            }
            match self.weather() {
                Weather::Calm => thread::sleep(EVERY),
                Weather::Busy => (0..SPINS).for_each(|_| spin_loop()),
                Weather::Storm => {
                    self.blow(&mut link, &frames, &mut next, now);
                    // The silo is on the same core: it takes what is there.
                    thread::yield_now();
                    hear(&mut link, now);
                }
                Weather::End => return Ok(()),
            }
        }
    }

    /// Fills the queue.
    fn blow(&self, link: &mut MemifLink, frames: &[Vec<u8>], next: &mut usize, now: Time) {
        let (_, tx) = link.split();
        let mut sent = 0;
        while let Some(slot) = tx.slot() {
            let frame = &frames[*next];
            *next = if *next + 1 < frames.len() { *next + 1 } else { 0 };
            let Some(place) = slot.get_mut(..frame.len()) else { break };
            place.copy_from_slice(frame);
            tx.commit(frame.len(), Offload::NONE);
            sent += 1;
        }
        tx.flush(now);
        self.sent.fetch_add(sent, Ordering::Relaxed);
        self.full.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes what comes back, and tells who asks where the gateway is.
fn hear(link: &mut MemifLink, now: Time) {
    let (rx, tx) = link.split();
    loop {
        let count = rx.receive(now, BURST);
        for index in 0..count {
            if let Some(answer) = answer(rx.frame(index))
                && let Some(place) = tx.slot().and_then(|slot| slot.get_mut(..answer.len()))
            {
                place.copy_from_slice(&answer);
                tx.commit(answer.len(), Offload::NONE);
            }
        }
        rx.release();
        if count < BURST {
            break;
        }
    }
    tx.flush(now);
}
