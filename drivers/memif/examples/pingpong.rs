//! Frames per second over memif, between two of ours or with any other peer.
//!
//! ```text
//! pingpong both [SECONDS] [KEY=VALUE,…]          two threads, one per core
//! pingpong generate ADDRESS [SECONDS] [CPU]      sends, and counts what returns
//! pingpong reflect ADDRESS [SECONDS] [CPU]       returns every frame, addresses swapped
//! pingpong instructions [BURSTS]                 one thread, to be run under callgrind
//! ```
//!
//! FRAME in the environment is the length of a generated frame, 60 by default.
//! ADDRESS is as in `memif:/run/x.sock,role=server,ring=256`. Rates are of
//! frames that went out and came back.

use link::{Link, LinkState, Receive, Transmit};
use memif::{Config, MemifLink, Role};
use std::time::{Duration, Instant};
use wire::{Offload, Time};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Frames per turn, as a silo takes them.
const BURST: usize = 32;
/// Bytes of the shortest frame that Ethernet has, without check sequence.
const FRAME_MIN: usize = 60;
/// Bytes of the longest.
const FRAME_MAX: usize = 1514;
/// Turns between two looks at clock and control channel.
const TURNS_PER_POLL: u32 = 1024;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize| arguments.get(index).map(String::as_str);
    let seconds = |index| argument(index).map_or(Ok(3), str::parse).map(Duration::from_secs);
    match (argument(0), argument(1)) {
        (Some("both"), _) => both(seconds(1)?, argument(2).unwrap_or_default()),
        (Some("generate"), Some(address)) => {
            pin(argument(3))?;
            let rate = run(MemifLink::open(address.parse()?)?, seconds(2)?, generate)?;
            println!("{rate:.2} million frames per second returned");
            Ok(())
        }
        (Some("reflect"), Some(address)) => {
            pin(argument(3))?;
            let rate = run(MemifLink::open(address.parse()?)?, seconds(2)?, reflect)?;
            println!("{rate:.2} million frames per second reflected");
            Ok(())
        }
        (Some("instructions"), _) => instructions(argument(1).map_or(Ok(10_000), str::parse)?),
        _ => Err("usage: pingpong both|generate|reflect|instructions, see the head of the example".into()),
    }
}

/// One turn of a generator: as much out as there is room for, all in.
fn generate(link: &mut MemifLink, frame: usize) -> usize {
    let (rx, tx) = link.split();
    for _ in 0..BURST {
        let Some(slot) = tx.slot() else { break };
        slot[..frame].copy_from_slice(&TEMPLATE[..frame]);
        tx.commit(frame, Offload::NONE);
    }
    tx.flush(Time::ZERO);
    let count = rx.receive(Time::ZERO, BURST);
    let swapped = (0..count).filter(|&index| rx.frame(index)[..6] == TEMPLATE[6..12]).count();
    rx.release();
    swapped
}

/// One turn of a reflector: what fits goes back, the rest is dropped.
fn reflect(link: &mut MemifLink, _: usize) -> usize {
    let (rx, tx) = link.split();
    let count = rx.receive(Time::ZERO, BURST);
    for index in 0..count {
        let (frame, Some(slot)) = (rx.frame(index), tx.slot()) else { break };
        if let (Some(to), 12..) = (slot.get_mut(..frame.len()), frame.len()) {
            to.copy_from_slice(frame);
            let (destination, source) = to[..12].split_at_mut(6);
            destination.swap_with_slice(source);
            tx.commit(frame.len(), Offload::NONE);
        }
    }
    tx.flush(Time::ZERO);
    rx.release();
    count
}

static TEMPLATE: [u8; FRAME_MAX] = {
    let mut frame = [0; FRAME_MAX];
    let mut index = 0;
    while index < 12 {
        frame[index] = if index < 6 { 0x02 } else { 0x06 };
        index += 1;
    }
    frame[12] = 0x88; // Local experimental EtherType, IEEE 802.
    frame[13] = 0xB5;
    frame
};

fn frame_length() -> Result<usize, Error> {
    let length = std::env::var("FRAME").map_or(Ok(FRAME_MIN), |text| text.parse())?;
    let good = (FRAME_MIN..=FRAME_MAX).contains(&length);
    good.then_some(length).ok_or_else(|| "FRAME takes 60 to 1514".into())
}

/// Takes turns for as long as told; returns million frames per second.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn run(mut link: MemifLink, span: Duration, turn: fn(&mut MemifLink, usize) -> usize) -> Result<f64, Error> {
    let frame = frame_length()?;
    let origin = Instant::now();
    let now = || Time::from_nanos(u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    while link.poll_control(now()) == LinkState::Down {
        if origin.elapsed() > Duration::from_secs(30) {
            return Err(format!("no peer: {:?}", link.status()).into());
        }
        link.wait(None, Duration::from_millis(1))?;
    }
    let start = Instant::now();
    let mut frames = 0;
    loop {
        for _ in 0..TURNS_PER_POLL {
            frames += turn(&mut link, frame);
        }
        let elapsed = start.elapsed();
        if elapsed >= span || link.poll_control(now()) == LinkState::Down {
            println!("{:?} {:?}", link.status(), link.counters());
            return Ok(frames as f64 / elapsed.as_secs_f64() / 1e6);
        }
    }
}

fn both(span: Duration, options: &str) -> Result<(), Error> {
    let comma = if options.is_empty() { "" } else { "," };
    let address = format!("memif:@nearside-pingpong-{}{comma}{options}", std::process::id());
    let server = MemifLink::open(Config::parse(&address, Role::Server)?)?;
    let client = MemifLink::open(Config::parse(&address, Role::Client)?)?;
    let reflector = std::thread::spawn(move || {
        pin(Some("1"))?;
        run(server, span + Duration::from_secs(60), reflect)
    });
    pin(Some("0"))?;
    let rate = run(client, span, generate)?;
    reflector.join().map_err(|_| "the reflector panicked")??;
    println!("{rate:.2} million frames per second returned");
    Ok(())
}

/// Both sides in one thread: per burst, every frame is received and sent twice.
fn instructions(bursts: u32) -> Result<(), Error> {
    let address = format!("memif:@nearside-pingpong-{}", std::process::id());
    let mut server = MemifLink::open(Config::parse(&address, Role::Server)?)?;
    let mut client = MemifLink::open(Config::parse(&address, Role::Client)?)?;
    let mut now = Time::ZERO;
    while (server.poll_control(now) == LinkState::Down) | (client.poll_control(now) == LinkState::Down) {
        now = now + Duration::from_millis(1);
    }
    let (mut frames, frame) = (0, frame_length()?);
    for _ in 0..bursts {
        frames += generate(&mut client, frame);
        reflect(&mut server, frame);
    }
    println!("{frames} frames, each received and sent twice");
    Ok(())
}

fn pin(cpu: Option<&str>) -> Result<(), Error> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu.parse()?);
    rustix::thread::sched_setaffinity(None, &set)?;
    Ok(())
}
