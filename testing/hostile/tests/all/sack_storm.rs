//! What selective acknowledgements of small segments cost who sends them.

use random::SplitMix64;
use std::process::Command;
use tcp::config::MIN_MSS;
use tcp::{Agreed, Config, Connection, Context, Counters, Path, State};
use wire::Time;
use wire::tcp::{Flags, SackBlocks, SeqNum, TcpHeader, TcpOptions};

const PATH: Path = Path { mtu: 1_500, v6: false };
/// Bytes in flight when it begins.
const FLIGHT: u32 = 256 << 10;
/// Acknowledgements of the attack: enough for as many pieces as the largest flight can lie in.
const ACKS: u64 = 6_000;
/// Segments that a connection may send in one turn.
const PER_TURN: usize = 16;

struct Victim {
    connection: Connection,
    /// Bytes in flight when it begins.
    flight: u32,
    config: Config,
    counters: Counters,
    now: Time,
}

impl Victim {
    /// A connection with `flight` bytes in flight, in segments of `mss`.
    fn new(mss: u16, flight: u32) -> Self {
        // Flights as large as can be, in no time: nothing here turns a calendar.
        let config = Config { pace_start: false, ..Config::default() };
        let mut counters = Counters::default();
        let now = Time::from_millis(1_000);
        let agreed = Agreed { sack: true, peer_shift: Some(7), ..Agreed::bare(SeqNum(0), SeqNum(0), mss) };
        let connection = Connection::accept(&mut context(now, &config, &mut counters), PATH, &agreed, 65_535);
        let mut victim = Self { connection, flight, config, counters, now };
        victim.connection.on_handshake_time(10);
        victim.connection.send_bytes(&vec![7; 8 << 20]).expect("there is room");
        while victim.connection.in_flight() < flight {
            assert!(victim.send(usize::MAX) > 0);
            let una = victim.connection.info().una;
            let (end, step) = (una.plus(victim.connection.in_flight()), 4 * u32::from(mss));
            victim.now = victim.now + core::time::Duration::from_millis(10);
            while victim.connection.in_flight() < flight && victim.connection.info().una.before(end) {
                let next = victim.connection.info().una.plus(step);
                victim.take(if next.after(end) { end } else { next }, SackBlocks::EMPTY);
            }
        }
        assert_eq!(victim.connection.mss(), mss);
        victim
    }

    fn send(&mut self, most: usize) -> usize {
        let mut cx = context(self.now, &self.config, &mut self.counters);
        (0..most).take_while(|_| self.connection.poll_segment(&mut cx, PATH, 0).is_some()).count()
    }

    fn take(&mut self, ack: SeqNum, sack: SackBlocks) {
        let options = TcpOptions { sack, ..TcpOptions::default() };
        // The peer has sent nothing but its SYN.
        let (seq, flags, window) = (SeqNum(1), Flags::ACK, 0xffff);
        let header = TcpHeader { src_port: 1, dst_port: 2, seq, ack, flags, window, urgent: 0, options };
        let mut cx = context(self.now, &self.config, &mut self.counters);
        self.connection.on_segment(&mut cx, PATH, &header, &[]);
    }
}

fn context<'a>(now: Time, config: &'a Config, counters: &'a mut Counters) -> Context<'a> {
    Context { now, now_ms: now.as_millis() as u32, ts_offset: 0, receive_full: false, config, counters }
}

/// Each acknowledgement tells of three segments, here and there, so that what is
/// not told of lies in as many pieces as can be; and nothing is ever
/// acknowledged. Counted by callgrind.
#[inline(never)]
fn attack(victim: &mut Victim) {
    let mut random = SplitMix64::new(7);
    let (una, mss) = (victim.connection.info().una, u32::from(victim.connection.mss()));
    for number in 0..ACKS {
        let mut sack = SackBlocks::EMPTY;
        for _ in 0..3 {
            let start = una.plus((1 + random.below((victim.flight / mss - 2) as usize) as u32) * mss);
            sack.push(start, start.plus(mss));
        }
        victim.take(una, sack);
        victim.send(PER_TURN);
        if number % 8 == 0 {
            victim.now = victim.now + core::time::Duration::from_millis(1);
        }
    }
}

/// CVE-2019-11479: with the least MSS that a peer may ask for there are nearly
/// twice as many segments as with 88, and what the attacker has us do for an
/// acknowledgement is at most twice as much. Nor is it more with four times as much
/// in flight: what is remembered is bounded by number, not by the flight. Where
/// callgrind is not there it is said.
#[test]
fn a_storm_of_sack_costs_at_the_least_mss_at_most_twice_what_it_costs_at_88() {
    const ASKED: &str = "STORM_MSS_AND_FLIGHT";
    if let Ok(asked) = std::env::var(ASKED) {
        let asked = asked.split_once(' ').and_then(|(mss, flight)| mss.parse().ok().zip(flight.parse().ok()));
        let (mss, flight) = asked.expect("two numbers");
        let mut victim = Victim::new(mss, flight);
        attack(&mut victim);
        assert_eq!(victim.connection.info().state, State::Established);
        assert!(victim.counters.retransmits > 100, "{:?}", victim.counters);
        return;
    }
    let instructions = |mss: u16, flight: u32| -> Option<u64> {
        let ran = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*sack_storm::attack*"])
            .arg(std::env::current_exe().expect("this program"))
            .args(["--exact", "sack_storm::a_storm_of_sack_costs_at_the_least_mss_at_most_twice_what_it_costs_at_88"])
            .env(ASKED, format!("{mss} {flight}"))
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stdout));
        let line = said.lines().find_map(|line| line.split("Collected :").nth(1))?;
        line.trim().parse().ok()
    };
    let counted =
        [(MIN_MSS, FLIGHT), (88, FLIGHT), (MIN_MSS, 4 * FLIGHT)].map(|(mss, flight)| instructions(mss, flight));
    let [Some(least), Some(usual), Some(longer)] = counted else {
        println!("skipped: there is no valgrind to count instructions");
        return;
    };
    let each = [least, usual, longer].map(|all| all / ACKS);
    println!(
        "{} instructions for an acknowledgement at {MIN_MSS}, {} at 88, {} in a flight four times as long",
        each[0], each[1], each[2]
    );
    assert!(usual > 100 * ACKS, "{usual} instructions in all: what is to be counted was not");
    assert!(least <= 2 * usual, "{each:?} for an acknowledgement");
    assert!(2 * longer <= 3 * least, "{each:?} for an acknowledgement: it grows with the flight");
}
