//! Requests beside bare frames: how near the link's own limit the server
//! comes, without nginx beside it.

use crate::DemoPlan;
use crate::child::Interrupt;
use crate::error::Error;
use crate::field::{Ask, Field, Generator, Link};
use crate::frames;
use crate::pages::HugePages;
use crate::rounds::cores;
use crate::stand::Stand;
use std::path::Path;

/// Connections: enough for full bursts.
const CONNECTIONS: u32 = 64;

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
    let stand = Stand::new(Some(program), cores(plan)?)?;
    let pages = HugePages::take(stand.folder())?;
    let servers = [stand.cores.0];
    let field = Field { stand: &stand, veth: None, tap: None, servers: &servers, mtu: None, interrupt: &interrupt };
    // The cheapest request.
    let ask = Ask::small(CONNECTIONS, plan.duration);
    let requests = || {
        let mut server = field.serve(Link::Memif, None)?;
        field.ask(&mut server, (Link::Memif, None), Generator::Bypass, ask).map(|asked| asked.rate)
    };
    let frames = || frames::measure(stand.folder(), &pages, stand.cores, plan.duration, &interrupt);
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
