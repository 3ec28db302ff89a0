//! `nearside load`.

use crate::args::LoadPlan;
use crate::figures::Figures;
use crate::host::{Failure, Start, over_link, stack, stop_signals};
use app::App;
use core::time::Duration;
use link::{Link, LinkState};
use load::{Busy, Live, Load, Report, Stage};
use report::{render_hgrm, render_json, render_text};
use silo::{Attendant, Next, Silo, Usage};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use wire::Time;

/// Loads a server and prints what was measured.
///
/// # Errors
/// What the user is to know.
pub fn load(plan: LoadPlan) -> Result<(), Failure> {
    let host = plan.host.clone();
    over_link(&host, Run { plan })
}

struct Run {
    plan: LoadPlan,
}

impl Start for Run {
    fn start<L: Link>(self, link: L) -> Result<(), Failure> {
        let LoadPlan { mut host, load: plan, hgrm } = self.plan;
        // Beside the connections asked for there are those that are closing.
        let closing = plan.connections.saturating_add(CLOSING_ROOM);
        host.max_connections = host.max_connections.max(plan.connections.saturating_add(closing));
        let stack = stack(&host, &link.capabilities(), &[], plan.sources.iter().copied())?;
        let app = Load::new(plan.clone())?;
        let progress = Progress::start(app.live());
        let mut silo = Silo { link, stack, app };
        let figures = Figures::new(&host, "load", &silo, core::iter::empty())?;
        let mut attendant = LoadAttendant {
            figures,
            signals: stop_signals()?,
            opened: None,
            ended: None,
            link_seen: false,
            waiting_since: None,
        };
        silo::run(&mut silo, host.idle, &mut attendant)?;
        progress.stop();
        let busy = attendant.busy();
        let Silo { app, .. } = silo;
        let figures = app.into_figures(silo::Clock.now());
        let report = Report::new(&plan, &figures, busy);
        if host.json {
            println!("{}", render_json(&report));
        } else {
            print!("{}", render_text(&report));
        }
        if let Some(path) = hgrm {
            std::fs::write(&path, render_hgrm(&report))
                .map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        }
        Ok(())
    }
}

/// Connections that may be closing beside those that are open, at least.
const CLOSING_ROOM: u32 = 4_096;

/// Connections are given this long to close after the last measurement.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

struct LoadAttendant {
    figures: Figures,
    signals: Arc<AtomicUsize>,
    /// The silo's time when the measured window opened.
    opened: Option<Usage>,
    /// The same when it ended, and when that was.
    ended: Option<(Usage, Time)>,
    link_seen: bool,
    waiting_since: Option<Time>,
}

impl LoadAttendant {
    /// The share of the window in which the silo had something to do.
    fn busy(&self) -> Option<Busy> {
        let window = self.ended?.0.since(self.opened.as_ref()?);
        Some(Busy { busy: Duration::from_nanos(window.busy_ns), total: Duration::from_nanos(window.total_ns()) })
    }
}

impl<L: Link> Attendant<L, Load> for LoadAttendant {
    fn attend(&mut self, silo: &mut Silo<L, Load>, now: Time, usage: &Usage, link: LinkState) -> Next {
        self.figures.publish(silo, now, usage, link, core::iter::empty());
        if link == LinkState::Up {
            self.link_seen = true;
        } else if !self.link_seen {
            let since = *self.waiting_since.get_or_insert(now);
            if now.since(since) >= Duration::from_secs(2) {
                self.waiting_since = Some(Time::MAX);
                eprintln!("waiting for the link's other side");
            }
        }
        let stage = silo.app.stage();
        if stage == Stage::Measuring && self.opened.is_none() {
            self.opened = Some(*usage);
        }
        let stopped = self.signals.load(Ordering::Relaxed) > 0;
        if stage != Stage::Ended && !stopped {
            return Next::Go;
        }
        let (_, since) = *self.ended.get_or_insert((*usage, now));
        if silo.app.drain(&mut silo.stack) && silo.stack.connections() == 0 || now.since(since) >= CLOSE_LIMIT {
            return Next::Stop;
        }
        Next::Go
    }
}

/// A thread that says once a second how far the run is.
struct Progress {
    over: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Progress {
    fn start(live: Live) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let terminal = std::io::stderr().is_terminal();
            while !ended.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_secs(1));
                let run = live.read();
                if ended.load(Ordering::Relaxed) || run.stage == Stage::Ended {
                    continue;
                }
                let line = line(&run);
                let mut err = std::io::stderr().lock();
                // Nobody to tell is no reason to stop.
                let _ = if terminal { write!(err, "\r\x1b[K{line}") } else { writeln!(err, "{line}") };
            }
            if terminal {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
        });
        Self { over, thread }
    }

    fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

fn line(run: &load::Progress) -> String {
    let stage = match run.stage {
        Stage::Waiting => "waiting",
        Stage::Ramp => "connecting",
        Stage::WarmUp => "warming up",
        Stage::Measuring => "measuring",
        Stage::Ended => "done",
    };
    format!(
        "{stage} {:.0} s  {} connections  {:.0} k requests/s  p99 {:.1} µs  {} errors",
        run.elapsed.as_secs_f64(),
        run.open,
        run.rate as f64 / 1e3,
        run.p99_ns as f64 / 1e3,
        run.errors
    )
}
