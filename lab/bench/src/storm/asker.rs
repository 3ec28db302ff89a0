//! Who asks silo 1: the load generator's application on a queue of its own.

use super::{CLIENT, CLIENT_MAC, PORT, SERVER, THIS_SEED, WARM_UP};
use crate::BenchError;
use app::App;
use core::time::Duration;
use cpu::Clock;
use link::{Link, LinkState};
use load::{Figures, Load, Plan, Request, Stage, Stop};
use memif::MemifLink;
use silo::{Attendant, Idle, Next, Silo, Usage};
use stack::{Address, LinkOffload, Seeds, Stack};
use std::sync::mpsc::{Receiver, Sender};
use wire::Time;

/// Asks when it is told to, for so long; tells what it found.
///
/// # Errors
/// If it cannot have its core, or its link fails.
pub(super) fn run(
    core: u16,
    connections: u32,
    link: MemifLink,
    orders: &Receiver<Duration>,
    found: &Sender<Figures>,
) -> Result<(), BenchError> {
    cpu::pin::pin(core)?;
    let capabilities = link.capabilities();
    let mut config = stack::Config::new(CLIENT_MAC, capabilities.mtu);
    config.addresses = vec![Address { ip: CLIENT.into(), prefix_len: 16 }];
    let offload = LinkOffload { checksum: capabilities.transmit_checksum, segmentation: capabilities.segmentation };
    let seeds = Seeds { table: [THIS_SEED, 2, 3, 4], secret: [THIS_SEED, 6, 7, 8], timestamps: [9; 2] };
    let mut stack = Stack::new(config, offload, &seeds, Clock.now());
    let mut link = link;
    // Its core is the silo's as well: who has nothing to do leaves it.
    let idle = Idle::Adaptive { latency: Duration::ZERO, max_wait: Duration::from_millis(10) };
    while let Ok(duration) = orders.recv() {
        let mut plan = Plan::new((SERVER, PORT).into(), Request::get(&SERVER.to_string(), "/"));
        plan.connections = connections;
        plan.warm_up = WARM_UP;
        plan.stop = Stop::After(duration);
        let mut silo = Silo { link, stack, app: Load::new(plan)? };
        silo::run(&mut silo, idle, &mut Watch::default())?;
        (link, stack) = (silo.link, silo.stack);
        if found.send(silo.app.into_figures(Clock.now())).is_err() {
            break;
        }
    }
    Ok(())
}

/// Connections are given this long to close.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Ends a run that is over.
#[derive(Debug, Default)]
struct Watch {
    over_since: Option<Time>,
}

impl<L: Link> Attendant<L, Load> for Watch {
    fn attend(&mut self, silo: &mut Silo<L, Load>, now: Time, _usage: &Usage, _link: LinkState) -> Next {
        if silo.app.stage() != Stage::Ended {
            return Next::Go;
        }
        let since = *self.over_since.get_or_insert(now);
        let closed = silo.app.drain(&mut silo.stack) && silo.stack.connections() == 0;
        if closed || now.since(since) >= CLOSE_LIMIT { Next::Stop } else { Next::Go }
    }
}
