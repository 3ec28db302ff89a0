//! `nearside serve --link`: over a link and our own stack.

use crate::args::HostPlan;
use crate::figures::Figures;
use crate::host::{Failure, Start, link_name, over_link, reopen_signals, stack, stop_signals};
use app::App;
use core::time::Duration;
use link::{Link, LinkState};
use server::{Server, WallClock};
use silo::{Attendant, Clock, Next, Silo, Usage};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::Time;

/// Serves until it is told to stop.
///
/// # Errors
/// What the user is to know.
pub fn serve(host: HostPlan, server: server::Config, ports: Vec<u16>) -> Result<(), Failure> {
    over_link(&host.clone(), Serve { host, server, ports })
}

struct Serve {
    host: HostPlan,
    server: server::Config,
    ports: Vec<u16>,
}

impl Start for Serve {
    fn start<L: Link>(self, link: L) -> Result<(), Failure> {
        let Self { host, server, ports } = self;
        let clock = Clock;
        let stack = stack(&host, &link.capabilities(), &ports, std::iter::empty())?;
        let drain_limit = server.timeouts.drain.saturating_add(DRAIN_GRACE);
        let app = Server::new(server, WallClock::new(clock.now(), clock.unix()))?;
        let mut silo = Silo { link, stack, app };
        let figures = Figures::new(&host, "serve", &silo, silo.app.counters())?;
        let signals = stop_signals()?;
        let reopen = reopen_signals()?;
        announce(&host, &ports);
        let mut attendant = ServeAttendant {
            figures,
            signals,
            reopen,
            reopened: 0,
            next_wall_clock: Time::ZERO,
            drain_limit,
            stopping: None,
        };
        silo::run(&mut silo, host.pace(), &mut attendant)?;
        Ok(())
    }
}

fn announce(host: &HostPlan, ports: &[u16]) {
    let urls = host.addresses.iter().flat_map(|cidr| {
        ports.iter().map(move |port| format!("http://{}/", core::net::SocketAddr::new(cidr.address, *port)))
    });
    let urls: Vec<String> = urls.collect();
    let core = host.core.map_or(String::new(), |core| format!(", core {core}"));
    eprintln!("serving {} over {}{core}, idle {}", urls.join(" "), link_name(&host.link), host.idle);
}

/// How often the offset between the clocks is looked at: a stepped wall clock
/// shows in `Date` after this at the latest.
const WALL_CLOCK_EVERY: Duration = Duration::from_secs(10);

/// How long a drain may take beyond its limit: for resets to leave, and for
/// what the server takes its time to notice.
const DRAIN_GRACE: Duration = Duration::from_secs(5);

struct ServeAttendant {
    figures: Figures,
    signals: Arc<AtomicUsize>,
    /// How often the log was to be opened again, and how often it was.
    reopen: Arc<AtomicUsize>,
    reopened: usize,
    next_wall_clock: Time,
    /// The longest that a stop may take.
    drain_limit: Duration,
    /// Since when the server drains.
    stopping: Option<Time>,
}

impl<L: Link> Attendant<L, Server> for ServeAttendant {
    fn attend(&mut self, silo: &mut Silo<L, Server>, now: Time, usage: &Usage, link: LinkState) -> Next {
        self.figures.publish(silo, now, usage, link, silo.app.counters());
        if now >= self.next_wall_clock {
            self.next_wall_clock = now + WALL_CLOCK_EVERY;
            silo.app.set_wall_clock(WallClock::new(now, Clock.unix()));
        }
        let reopen = self.reopen.load(Ordering::Relaxed);
        if reopen != self.reopened {
            self.reopened = reopen;
            silo.app.reopen_log();
        }
        let signals = self.signals.load(Ordering::Relaxed);
        if signals == 0 {
            return Next::Go;
        }
        let since = *self.stopping.get_or_insert_with(|| {
            silo.stack.stop_listening();
            eprintln!("stopping: finishing responses under way; once more to stop at once");
            now
        });
        let left = silo.stack.connections();
        let done = silo.app.drain(&mut silo.stack) && left == 0;
        if !done && link == LinkState::Down {
            // Whoever they were, they cannot be told anything.
            eprintln!("stopping: the link is down, {left} connections end unfinished");
            return Next::Stop;
        }
        if done || signals > 1 || now.since(since) >= self.drain_limit {
            return Next::Stop;
        }
        Next::Go
    }

    fn wake<'a>(&self, app: &'a Server) -> Option<BorrowedFd<'a>> {
        app.wake_fd()
    }
}
