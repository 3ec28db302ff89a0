//! Link aggregation control: whatever partners say, ports carry frames only
//! with one that is in agreement, and nobody is made to shout.

use crate::Target;
use bond::lacp::{Lacp, LacpRate, Settings};
use core::time::Duration;
use std::collections::VecDeque;
use wire::lacp::{LacpPdu, Marker, PDU_LEN, PortInfo, PortState, SlowPdu};
use wire::{Mac, Time};

pub(crate) const TARGET: Target = Target {
    name: "lacp",
    about: "slow protocols are read as written; only ports in agreement with one partner carry frames",
    run,
    seeds,
    dictionary: &[
        &[LINK, LINK + 1, LINK + 2],
        &[WAIT, 0, 100],
        &[WAIT, 8, 0],
        &[ANSWER, 0, 0x3f],
        &[ANSWER, 1, 0x0f],
        &[ANSWER, 2, 0x3d],
        &[RAW, 1, 1, 1, 20],
        &[RAW, 2, 1, 1, 16],
        &[3, 16, 0, 0],
    ],
    test_runs: 8_000,
    max_len: 1_200,
};

const PORTS: usize = 3;
const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);

// What a step's first byte says, beside the port in its lower bits: the link
// changes; time passes; a partner of the system in the next byte answers with
// the state in the one after; bytes are received as they are.
const LINK: u8 = 0x00;
const WAIT: u8 = 0x40;
const ANSWER: u8 = 0x80;
const RAW: u8 = 0xc0;

struct World {
    lacp: Lacp,
    now: Time,
    up: [bool; PORTS],
    /// When each port sent in the last second.
    sent: [VecDeque<Time>; PORTS],
    /// Questions that were not answered yet.
    asked: usize,
}

fn run(input: &[u8]) {
    let Some((&settings, mut rest)) = input.split_first() else { return };
    let rate = if settings & 1 == 0 { LacpRate::Fast } else { LacpRate::Slow };
    let settings = Settings { rate, active: settings & 2 == 0, ..Settings::default() };
    let mut world = World {
        lacp: Lacp::new(&settings, OURS, PORTS),
        now: Time::ZERO,
        up: [false; PORTS],
        sent: Default::default(),
        asked: 0,
    };
    while let Some((&first, after)) = rest.split_first() {
        rest = world.step(first, after);
        world.speak();
        world.check();
    }
}

impl World {
    fn step<'i>(&mut self, first: u8, rest: &'i [u8]) -> &'i [u8] {
        let port = usize::from(first & 0x3f) % PORTS;
        match (first & 0xc0, rest) {
            (LINK, _) => {
                self.up[port] = !self.up[port];
                self.lacp.on_link(port, self.up[port], self.now);
                rest
            }
            (WAIT, [high, low, rest @ ..]) => {
                self.pass(Duration::from_millis(u64::from(u16::from_be_bytes([*high, *low]))));
                rest
            }
            (ANSWER, [system, state, rest @ ..]) => {
                let actor = PortInfo {
                    system: Mac([2, 0, 0, 0, 0, system % 4]),
                    key: u16::from(system / 64),
                    port: port as u16 + 1,
                    state: PortState(*state),
                    ..PortInfo::default()
                };
                let partner = *self.lacp.ports()[port].actor();
                self.hear(port, &SlowPdu::Lacp(LacpPdu { actor, partner, max_delay: 0 }));
                rest
            }
            (RAW, _) => {
                let (bytes, rest) = rest.split_at(rest.len().min(PDU_LEN));
                match SlowPdu::parse(bytes) {
                    Ok(pdu) => {
                        let mut out = [0xa5; PDU_LEN];
                        assert_eq!(pdu.emit(&mut out), PDU_LEN);
                        assert_eq!(SlowPdu::parse(&out), Ok(pdu), "read again as it was written");
                        self.hear(port, &pdu);
                    }
                    Err(_) => self.lacp.on_malformed(port),
                }
                rest
            }
            _ => &[],
        }
    }

    fn hear(&mut self, port: usize, pdu: &SlowPdu) {
        if let SlowPdu::Marker(Marker { response: false, .. }) = pdu
            && self.up[port]
        {
            self.asked += 1;
        }
        self.lacp.on_pdu(port, pdu, self.now);
    }

    /// As a silo does it: told the time when it is due.
    fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while self.lacp.deadline(self.now) <= until {
            let due = self.lacp.deadline(self.now);
            assert!(due > self.now, "time stands still");
            self.now = due;
            self.lacp.on_time(due);
            self.speak();
            self.check();
        }
        self.now = until;
        self.lacp.on_time(until);
    }

    fn speak(&mut self) {
        for (port, sent) in self.sent.iter_mut().enumerate() {
            while let Some(pdu) = self.lacp.poll_pdu(port, self.now) {
                assert!(self.up[port], "a port without a link is silent");
                let SlowPdu::Lacp(pdu) = pdu else {
                    self.asked = self.asked.checked_sub(1).expect("only what was asked is answered");
                    continue;
                };
                assert_eq!(pdu.actor, *self.lacp.ports()[port].actor());
                sent.retain(|at| self.now.since(*at) < Duration::from_secs(1));
                sent.push_back(self.now);
                assert!(sent.len() <= 3, "IEEE 802.1AX-2014 clause 6.4.16: three in a second");
            }
        }
        assert_eq!(self.lacp.speaking(self.now), 0, "all is said");
    }

    fn check(&self) {
        let (collecting, distributing) = (self.lacp.collecting(), self.lacp.distributing());
        assert_eq!(distributing & !collecting, 0, "whoever sends takes, too");
        let mut partner = None;
        for (index, port) in self.lacp.ports().iter().enumerate() {
            let agreed = port.partner();
            if collecting >> index & 1 != 0 {
                assert!(self.up[index], "a port without a link takes nothing");
                assert!(agreed.state.has(PortState::SYNCHRONIZATION));
                assert_ne!(agreed.system, OURS, "a loop leads nowhere");
                let alone = !agreed.state.has(PortState::AGGREGATION);
                let group = (agreed.system_priority, agreed.system, agreed.key, alone.then_some(index));
                assert_eq!(*partner.get_or_insert(group), group, "one partner");
            }
            if distributing >> index & 1 != 0 {
                assert!(agreed.state.has(PortState::COLLECTING), "what is sent is taken");
            }
            let says = port.actor().state;
            assert_eq!(says.has(PortState::COLLECTING), collecting >> index & 1 != 0, "what is said is so");
            assert_eq!(says.has(PortState::DISTRIBUTING), distributing >> index & 1 != 0);
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    // Two ports join with a partner, a third stands by; one partner is
    // silent; a port is moved to the other.
    let mut story = vec![0, LINK, LINK + 1, LINK + 2];
    for state in [0x07, 0x0f, 0x3f, 0x3f] {
        story.extend([ANSWER, 2, state, ANSWER + 1, 2, state, ANSWER + 2, 3, state, WAIT, 2, 200]);
    }
    let mut silence = story.clone();
    silence.extend([ANSWER + 1, 2, 0x3f, WAIT, 8, 0, ANSWER + 1, 2, 0x3f, WAIT, 8, 0, ANSWER + 1, 2, 0x3f]);
    let mut moved = story.clone();
    moved.extend([ANSWER, 3, 0x3f, ANSWER + 1, 3, 0x3f, WAIT, 10, 0, ANSWER, 3, 0x3f, LINK + 1, LINK + 1]);
    let mut raw = vec![1, LINK];
    let actor =
        PortInfo { system: Mac([2, 0, 0, 0, 0, 9]), key: 1, port: 1, state: PortState(0x3d), ..PortInfo::default() };
    let pdus = [
        SlowPdu::Lacp(LacpPdu { actor, ..LacpPdu::default() }),
        SlowPdu::Marker(Marker { requester_system: actor.system, transaction: 7, ..Marker::default() }),
        SlowPdu::Marker(Marker { response: true, ..Marker::default() }),
    ];
    for pdu in pdus {
        let mut out = [0; PDU_LEN];
        pdu.emit(&mut out);
        raw.push(RAW);
        raw.extend_from_slice(&out);
    }
    let mut passive = story.clone();
    passive[0] = 3;
    vec![story, silence, moved, raw, passive]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The invariants of carrying frames are tested only where some are
    /// carried.
    #[test]
    fn the_story_comes_to_carrying_frames() {
        let story = seeds().remove(0);
        let mut world = World {
            lacp: Lacp::new(&Settings::default(), OURS, PORTS),
            now: Time::ZERO,
            up: [false; PORTS],
            sent: Default::default(),
            asked: 0,
        };
        let mut rest = &story[1..];
        while let Some((&first, after)) = rest.split_first() {
            rest = world.step(first, after);
        }
        assert_eq!((world.lacp.distributing(), world.lacp.collecting()), (0b011, 0b011));
    }
}
