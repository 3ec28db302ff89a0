//! Requests beside bare frames: how near the link's own limit the server
//! comes, without nginx beside it.

use crate::DemoPlan;
use crate::child::{Interrupt, Scratch};
use crate::error::Error;
use crate::frames::{self, HugePages};
use crate::measure::{Connections, Content, Scenario};
use crate::near::Near;
use crate::rounds::{cores, make_site};
use std::path::Path;

/// What is asked: the cheapest request, over enough connections for full
/// bursts.
const ASKED: Scenario = Scenario { content: Content::Small, connections: Connections::KeepAlive, count: 64 };

/// For each round of `plan`, the requests per second between two processes of
/// `program` and the frames per second between two testpmd, over the same kind
/// of memif. Who comes first alternates.
///
/// # Errors
/// If either cannot be measured: testpmd needs root, huge pages and Debian's
/// dpdk-dev.
pub fn requests_and_frames(plan: &DemoPlan, program: &Path) -> Result<Vec<(f64, f64)>, Error> {
    if let Some(why) = frames::missing() {
        return Err(Error::Machine(format!("testpmd: {why}")));
    }
    let interrupt = Interrupt::watch()?;
    let cores = cores(plan)?;
    let scratch = Scratch::make()?;
    let site = make_site(scratch.path())?;
    let pages = HugePages::take(scratch.path())?;
    let near = Near::new(program, scratch.path(), &site, cores);
    let requests = || near.measure(ASKED, plan.warmup, plan.duration, &interrupt).map(|m| m.requests_per_second);
    let frames = || frames::measure(scratch.path(), &pages, cores, plan.duration, &interrupt);
    (0..plan.rounds)
        .map(|round| {
            if round % 2 == 0 {
                Ok((requests()?, frames()?))
            } else {
                let frames = frames()?;
                Ok((requests()?, frames))
            }
        })
        .collect()
}
