//! Our stack as the host under test, in a silo over an in-memory link, under
//! virtual time.

use crate::frames::{Family, OUR_IP, OUR_IP_V6, PREFIX_LEN, PREFIX_LEN_V6, SERVICE_PORT};
use crate::puppet::{Puppet, Strings};
use crate::run::{Act, Target, Told};
use crate::script::{Script, Step};
use ::stack::{Address, Config, LinkOffload, Seeds, Stack};
use core::net::IpAddr;
use core::time::Duration;
use link::{Link, Pair, PairConfig, PairLink, Receive, Transmit};
use silo::{Silo, Turn};
use wire::{Mac, Offload, Time, ipv4, ipv6};

const OUR_MAC: Mac = Mac([0x02, 0, 0, 0, 0, 0x01]);

/// Turns at one time before it is a livelock.
const MOST_TURNS: u32 = 100_000;

/// Our stack.
pub struct Ours {
    silo: Silo<PairLink, Puppet>,
    /// The script's end of the link.
    wire: PairLink,
    strings: Strings,
    family: Family,
    now: Time,
    last: Option<Turn>,
}

impl Ours {
    /// A stack with the script's settings, that speaks `family`.
    ///
    /// # Errors
    /// A setting that there is not.
    pub fn new(script: &Script, family: Family) -> Result<Self, String> {
        let mut config = Config::new(OUR_MAC, 1_500);
        config.addresses = vec![match family {
            Family::V4 => Address { ip: IpAddr::V4(OUR_IP), prefix_len: PREFIX_LEN },
            Family::V6 => Address { ip: IpAddr::V6(OUR_IP_V6), prefix_len: PREFIX_LEN_V6 },
        }];
        config.max_connections = 64;
        config.max_half_open = 16;
        config.max_time_wait = 64;
        for (key, value) in script.settings.iter().filter(|(key, _)| !key.starts_with("net.")) {
            set(&mut config, key, value).ok_or_else(|| format!("there is no setting '{key} {value}'"))?;
        }
        if family == Family::V6 {
            config.mtu += (ipv6::HEADER_LEN - ipv4::HEADER_LEN) as u16;
        }
        if script.steps.iter().any(|(_, step)| *step == Step::Listen) {
            config.listen = vec![SERVICE_PORT];
        }
        let (near, wire) = Pair::new(PairConfig { mtu: config.mtu, ..PairConfig::default() });
        let strings = Strings::default();
        let seeds = Seeds { table: [1, 2, 3, 4], secret: [5, 6, 7, 8], timestamps: [9; 2] };
        // Milliseconds, as timestamps count them, are about to wrap.
        let now = Time::from_millis(u64::from(u32::MAX) - 2_000);
        let stack = Stack::new(config, LinkOffload::default(), &seeds, now);
        let app = Puppet::new(strings.clone(), family);
        Ok(Self { silo: Silo { link: near, stack, app }, wire, strings, family, now, last: None })
    }

    /// When the next turn is due.
    fn due(&self) -> Time {
        match self.last {
            Some(turn) if !turn.more && self.silo.link.waiting() == 0 => turn.deadline.min(self.silo.stack_deadline()),
            _ => self.now,
        }
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let rx = self.wire.split().0;
        let frame = (rx.receive(self.now, 1) > 0).then(|| rx.frame(0).to_vec());
        rx.release();
        frame
    }
}

fn set(config: &mut Config, key: &str, value: &str) -> Option<()> {
    fn number<T: core::str::FromStr>(value: &str) -> Option<T> {
        value.parse().ok()
    }
    let switch = || match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    let tcp = &mut config.tcp;
    match key {
        "mtu" => config.mtu = number(value)?,
        "max-half-open" => config.max_half_open = number(value)?,
        "receive-limit" => tcp.receive_limit = number(value)?,
        "sack" => tcp.sack = switch()?,
        "timestamps" => tcp.timestamps = switch()?,
        "nagle" => tcp.nagle = switch()?,
        "retries" => tcp.retries = number(value)?,
        "user-timeout" => tcp.user_timeout = number(value)?,
        "fin-wait2" => tcp.fin_wait2 = number(value)?,
        "keepalive-idle" => tcp.keepalive_idle = number(value)?,
        "keepalive-interval" => tcp.keepalive_interval = number(value)?,
        "keepalive-probes" => tcp.keepalive_probes = number(value)?,
        _ => return None,
    }
    Some(())
}

impl Target for Ours {
    fn now(&self) -> Time {
        self.now
    }

    fn family(&self) -> Family {
        self.family
    }

    fn inject(&mut self, frame: &[u8]) {
        let now = self.now;
        let tx = self.wire.split().1;
        if let Some(slot) = tx.slot() {
            let len = frame.len().min(slot.len());
            slot[..len].copy_from_slice(&frame[..len]);
            tx.commit(len, Offload::NONE);
        }
        tx.flush(now);
    }

    fn next_frame(&mut self, until: Time) -> Option<(Time, Vec<u8>)> {
        let mut turns = 0;
        loop {
            if let Some(frame) = self.take() {
                return Some((self.now, frame));
            }
            let due = self.due();
            if due > self.now {
                if due > until {
                    self.now = until.max(self.now);
                    return None;
                }
                self.now = due;
                turns = 0;
            }
            turns += 1;
            assert!(turns < MOST_TURNS, "the stack never comes to rest");
            self.last = Some(self.silo.turn(self.now));
        }
    }

    fn act(&mut self, act: Act) -> Result<(), String> {
        // At once: frames that come later find it done.
        self.strings.pull(act);
        self.last = Some(self.silo.turn(self.now));
        Ok(())
    }

    fn told(&mut self) -> Told {
        self.strings.told()
    }

    fn slack(&self) -> Duration {
        Duration::ZERO
    }
}
