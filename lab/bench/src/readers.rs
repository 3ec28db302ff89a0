//! A good client's download beside others that read nothing: over a link of
//! its own, all from one host, with one silo to serve them.

use crate::BenchError;
use crate::program::{Program, Scratch};
use app::{App, Closed, ConnId, Net, Opened, Wake};
use core::net::Ipv4Addr;
use core::time::Duration;
use cpu::Clock;
use demo::child::Interrupt;
use demo::machine::allowed_cores;
use link::{Link, LinkState};
use memif::{Memif, Role};
use silo::{Attendant, Idle, Next, Silo, Usage};
use stack::{Address, LinkOffload, Seeds, Stack};
use stats::median;
use std::path::{Path, PathBuf};
use wire::{Mac, Time};

/// The share of its rate alone that a good client keeps at least.
pub const BOUND: f64 = 0.5;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct Plan {
    /// Measure both this often, by turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Measure each for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    pub seconds: u64,
    /// Connections that take nothing
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    pub stalled: u16,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    pub nearside: Option<PathBuf>,
}

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const CLIENT_MAC: Mac = Mac([0x02, 0x4e, 10, 78, 0, 1]);
const PORT: u16 = 80;

const FILE: u64 = 64 << 20;
const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n";

/// Bytes that a client takes ahead of who reads there.
const WINDOW: u32 = 64 << 10;

/// Handshakes under way at a time.
const OPENING: u32 = 64;

/// Time for anything but the measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time for those that take nothing to have their fill: then they stall.
const FILL: Duration = Duration::from_secs(12);

/// Load before the measurement that is not counted.
const WARM_UP: Duration = Duration::from_millis(500);

/// Measures by turns and prints. Returns whether the bound is kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan, nearside: &Path) -> Result<bool, BenchError> {
    let interrupt = Interrupt::watch()?;
    let [server, client, ..] = allowed_cores()[..] else { return Err("two cores are needed".into()) };
    let scratch = Scratch::make()?;
    std::fs::File::create(scratch.path().join("file"))?.set_len(FILE)?;
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..plan.rounds as usize {
        for turn in 0..2 {
            let arm = (round + turn) % 2;
            let stalled = if arm == 0 { 0 } else { plan.stalled.into() };
            let rate = sample((nearside, plan.seconds), stalled, (server, client), scratch.path(), &interrupt)?;
            eprintln!("round {}/{}, beside {stalled}: {:.0} MB/s", round + 1, plan.rounds, rate / 1e6);
            rates[arm].push(rate);
        }
    }
    let [alone, beside] = [median(&rates[0]), median(&rates[1])];
    let spread = |rates: &[f64]| rates.iter().fold((f64::MAX, 0.0_f64), |(low, high), &r| (r.min(low), r.max(high)));
    for (title, rates) in [("alone", &rates[0]), ("beside stalled readers", &rates[1])] {
        let (low, high) = spread(rates);
        println!("  {title:24} {:>8.0} MB/s ({:.0} to {:.0})", median(rates) / 1e6, low / 1e6, high / 1e6);
    }
    let kept = beside >= BOUND * alone;
    let verdict = if kept { "kept" } else { "NOT KEPT" };
    println!("  beside {}: {:.2} of the rate alone; at least {BOUND}: {verdict}", plan.stalled, beside / alone);
    Ok(kept)
}

/// Bytes in a second that the good client gets.
fn sample(
    (nearside, seconds): (&Path, u64),
    stalled: u32,
    cores: (u16, u16),
    folder: &Path,
    on: &Interrupt,
) -> Result<f64, BenchError> {
    let socket = folder.join("memif.sock");
    let _ = std::fs::remove_file(&socket);
    let words = [
        "serve".to_owned(),
        "--user=root".to_owned(),
        folder.display().to_string(),
        format!("--link=memif:{}", socket.display()),
        format!("--addr={SERVER}/24"),
        format!("--core={}", cores.0),
        "--max-connections=64k".to_owned(),
    ];
    let mut server = Program::start(nearside, "serve", &words, folder)?;
    let end = Clock.now() + PATIENCE;
    while !socket.exists() {
        server.still_runs()?;
        if Clock.now() > end {
            return Err("the server does not come up".into());
        }
        on.sleep(Duration::from_millis(10))?;
    }
    let config = memif::Config::parse(&format!("memif:{}", socket.display()), Role::Client)?;
    let link = Memif::open(config)?.split_queues().pop().ok_or("no queue")?;
    let duration = Duration::from_secs(seconds.max(2));
    let told = std::thread::spawn(move || ask(cores.1, stalled, duration, link).map_err(|why| why.to_string()));
    let rate = told.join().map_err(|_| "a thread panicked")??;
    server.still_runs()?;
    Ok(rate)
}

/// Opens what is to stall, lets it stall, and downloads.
fn ask(core: u16, stalled: u32, duration: Duration, link: memif::MemifLink) -> Result<f64, BenchError> {
    cpu::pin::pin(core)?;
    let capabilities = link.capabilities();
    let mut config = stack::Config::new(CLIENT_MAC, capabilities.mtu);
    config.addresses = vec![Address { ip: CLIENT.into(), prefix_len: 24 }];
    config.max_connections = 64 << 10;
    // What each holds that takes nothing, and room for it: whoever runs out of
    // that resets connections, and is not what is measured.
    config.tcp.receive_limit = WINDOW;
    config.receive_memory = 4 * (stalled as usize + 1) * WINDOW as usize;
    let offload = LinkOffload { checksum: capabilities.transmit_checksum, segmentation: capabilities.segmentation };
    let seeds = Seeds { table: [1, 2, 3, 4], secret: [5, 6, 7, 8], timestamps: [9; 2] };
    let stack = Stack::new(config, offload, &seeds, Clock.now());
    let app = Readers { stalled, duration, ..Readers::default() };
    let mut silo = Silo { link, stack, app };
    // The end of the run is looked for that often.
    let idle = Idle::SpinFor { spin_for: Duration::from_micros(50), max_wait: Duration::from_millis(1) };
    silo::run(&mut silo, idle, &mut Watch)?;
    let Readers { counted, failed, over, .. } = silo.app;
    if failed > 0 || !over {
        return Err(format!("{failed} connections failed; {counted} bytes came").into());
    }
    Ok(counted as f64 / duration.as_secs_f64())
}

/// Connections that take nothing, and when those are there, one that takes all.
#[derive(Debug, Default)]
struct Readers {
    stalled: u32,
    duration: Duration,
    begun: u32,
    open: u32,
    failed: u32,
    good: Option<ConnId>,
    /// Of the good one's response, what is still to come; none before its head.
    left: Option<u64>,
    from: Option<Time>,
    counted: u64,
    over: bool,
    /// When all that stall had asked.
    asked: Option<Time>,
}

impl App for Readers {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        self.open += 1;
        net.send_bytes(id, REQUEST);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if self.good != Some(id) {
            return 0;
        }
        let mut rest = data;
        if self.left.is_none() {
            let Some(at) = data.windows(4).position(|four| four == b"\r\n\r\n") else { return 0 };
            rest = &data[at + 4..];
            self.left = Some(FILE);
        }
        let left = self.left.unwrap_or(0).saturating_sub(rest.len() as u64);
        self.left = Some(left);
        if left == 0 {
            self.left = None;
            net.send_bytes(id, REQUEST);
        }
        let from = *self.from.get_or_insert(net.now() + WARM_UP);
        if net.now() >= from && net.now() < from + self.duration {
            self.counted += rest.len() as u64;
        }
        data.len()
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        self.over |= self.from.is_some_and(|from| net.now() >= from + self.duration);
        // The last is the good one, once all others have their fill.
        if self.open >= self.stalled {
            self.asked.get_or_insert(net.now());
        }
        let filled = self.stalled == 0 || self.asked.is_some_and(|at| net.now() >= at + FILL);
        let most = if filled { self.stalled + 1 } else { self.stalled };
        while self.begun < most && self.begun - self.open < OPENING {
            let Ok(id) = net.connect(None, (SERVER, PORT).into()) else { break };
            self.begun += 1;
            if self.begun > self.stalled {
                self.good = Some(id);
            }
        }
        if self.begun <= self.stalled { Wake::At(net.now() + Duration::from_millis(1)) } else { Wake::Idle }
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, _why: Closed) {
        self.failed += u32::from(!self.over);
    }

    fn on_end<N: Net>(&mut self, _net: &mut N, _id: ConnId, _held: usize) {}
    fn on_sent<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}
    fn on_timer<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}
    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        true
    }
}

/// Ends the run when it is over, or does not come to its end.
struct Watch;

impl<L: Link> Attendant<L, Readers> for Watch {
    fn attend(&mut self, silo: &mut Silo<L, Readers>, now: Time, _usage: &Usage, _link: LinkState) -> Next {
        let late = now > Time::ZERO && silo.app.from.is_some_and(|from| now >= from + silo.app.duration + PATIENCE);
        if silo.app.over || silo.app.failed > 0 || late { Next::Stop } else { Next::Go }
    }
}
