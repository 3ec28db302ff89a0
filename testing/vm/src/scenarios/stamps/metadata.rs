//! A NIC's stamps by XDP's metadata. igb gives its stamps to socket buffers and to
//! no program, and veth gives a program what is in the buffer: so frames that igb
//! stamped are sent on into a veth pair, at whose other end they are taken over
//! AF_XDP.
//!
//! veth copies a frame that has too little room before it, without the stamp. An
//! XDP program on igb makes room: what comes first on the wire is a message of PTP,
//! which igb stamps, and is cut off; a frame stands behind it.

use super::{clock_of, set};
use crate::Failure;
use crate::guest::{Guest, ip, output};
use af_xdp::{AfXdp, Stamps, XdpLink};
use driver::Claim;
use ebpf::{Assembly, Program, XdpAttachment, XdpMode};
use link::{Link, LinkState, Receive, Transmit};
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;
use wire::{Offload, Time};

/// Bytes of the message that are cut off, and its EtherType.
const CUT: usize = 128;
const ETHER_PTP: u16 = 0x88f7;
/// Of the frame behind it: one for experiments.
const ETHER_LOCAL: u16 = 0x88b5;

const CUTTER: &str = "
.type xdp
.kernel 5.9
.license Apache-2.0
    r6 = r1
    r2 = *(u32 *)(r6 + 4)
    r1 = *(u32 *)(r6 + 0)
    r3 = r1
    r3 += 14
    if r3 > r2 goto pass
    r4 = *(u16 *)(r1 + 12)
    r4 = be16 r4
    if r4 != PTP goto pass
    r1 = r6
    r2 = CUT
    call bpf_xdp_adjust_head
pass:
    r0 = 2
    exit
";

/// Frames that are stamped, of which some lose their stamp to a busy machine, and
/// frames that are not.
const FRAMES: u8 = 12;
const LEAST: usize = 4;

/// The time of day that the NIC's clock shows: long past.
const SET_TO: u64 = 1_100_000_000;

/// Frames come over AF_XDP with the stamps of igb, by its own clock.
pub fn prove(guest: &mut Guest) -> Result<(), Failure> {
    ip("link add name bridge0 type veth peer name taken0")?;
    ip("link set bridge0 up")?;
    ip("link set taken0 up")?;
    let _cutter = cut("port0")?;
    tc("qdisc add dev port0 clsact")?;
    tc("filter add dev port0 ingress matchall action mirred egress redirect dev bridge0")?;
    output(Command::new("hwstamp_ctl").args(["-i", "port0", "-t", "1", "-r", "12"]))?;
    let done = stamps(guest);
    tc("qdisc del dev port0 clsact")?;
    output(Command::new("hwstamp_ctl").args(["-i", "port0", "-t", "0", "-r", "0"]))?;
    done
}

fn stamps(guest: &mut Guest) -> Result<(), Failure> {
    let stamps = Stamps { arrivals: true, ..Stamps::default() };
    let config = af_xdp::Config { stamps, ring: 64, ..af_xdp::Config::new("taken0")? };
    let mut taken = AfXdp::open(config, &Claim::Whole)?.split_queues().pop().ok_or("a veth without a queue")?;
    let config = af_packet::Config { name: "port1".to_owned(), stamped_by: None };
    let mut sender = af_packet::PacketLink::open(&config)?;
    for turn in 0..100 {
        // igb takes its link down for the program. A link is looked at again as its clock goes on.
        if taken.poll_control(Time::from_millis(100 * turn)) == LinkState::Up && carrier("port0") && carrier("port1") {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    let _ = sender.poll_control(Time::ZERO);
    set(0, "set", &SET_TO.to_string())?;
    let mut found = Vec::new();
    for number in 0..2 * FRAMES {
        let stamped = number % 2 == 0;
        let before = clock()?;
        send(&mut sender, number, stamped)?;
        let (came, stamp) = take(&mut taken, number)?;
        let after = clock()?;
        match stamp {
            Some(stamp) if !stamped => return Err(format!("a frame that igb does not stamp came with {stamp}").into()),
            Some(stamp) if !(before..=after).contains(&stamp) => {
                return Err(format!("frame {number} was stamped {stamp}, not from {before} to {after}").into());
            }
            Some(stamp) => found.push((stamp - before, after - stamp)),
            None => {}
        }
        if came != frame(number) {
            return Err(format!("frame {number} came as {came:x?}").into());
        }
        // Meanwhile the NIC's latch is given free.
        thread::sleep(Duration::from_millis(300));
    }
    if found.len() < LEAST {
        return Err(format!("{} of {FRAMES} frames over AF_XDP had igb's stamp", found.len()).into());
    }
    let within = found.iter().map(|(before, after)| before + after).max().unwrap_or(0) / 1_000;
    guest.say(format!(
        "AF_XDP: {} of {FRAMES} frames had igb's stamp, each between two readings of /dev/ptp{} at most {within} us apart; \
         of {FRAMES} that it does not stamp none had one",
        found.len(),
        clock_of("port0")?
    ))?;
    Ok(())
}

fn cut(name: &str) -> Result<XdpAttachment, Failure> {
    let index: u32 = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))?.trim().parse()?;
    let assembly = Assembly::new(CUTTER, &[("CUT", CUT as i64), ("PTP", ETHER_PTP.into())])?;
    Ok(Program::load("cut", &assembly, &[])?.attach_xdp(index, XdpMode::Native)?)
}

fn carrier(name: &str) -> bool {
    fs::read_to_string(format!("/sys/class/net/{name}/carrier")).is_ok_and(|text| text.trim() == "1")
}

/// What is taken at the end.
fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1];
    frame.extend(ETHER_LOCAL.to_be_bytes());
    frame.resize(64, number);
    frame
}

/// Sends it: behind a Sync message of PTP over Ethernet (IEEE 1588-2008 section 13
/// and annex F), or alone.
fn send(sender: &mut af_packet::PacketLink, number: u8, stamped: bool) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    if stamped {
        bytes.extend([0x01, 0x1b, 0x19, 0, 0, 0, 2, 0, 0, 0, 0, 1]);
        bytes.extend(ETHER_PTP.to_be_bytes());
        bytes.extend([0, 2, 0, 44, 127]);
        bytes.resize(CUT, 0);
    }
    bytes.extend(frame(number));
    let (_, tx) = sender.split();
    let slot = tx.slot().ok_or("no slot to send from")?;
    slot[..bytes.len()].copy_from_slice(&bytes);
    tx.commit(bytes.len(), Offload::NONE);
    tx.flush(Time::ZERO);
    Ok(())
}

/// The frame of this number, with its stamp.
fn take(link: &mut XdpLink, number: u8) -> Result<(Vec<u8>, Option<u64>), Failure> {
    for _ in 0..5_000 {
        let (rx, _) = link.split();
        let count = rx.receive(Time::ZERO, 64);
        // The kernel sends frames of its own.
        let ours = (0..count).find(|index| {
            let bytes = rx.frame(*index);
            bytes.get(12..14) == Some(&ETHER_LOCAL.to_be_bytes()) && bytes.last() == Some(&number)
        });
        let found = ours.map(|index| (rx.frame(index).to_vec(), rx.stamp(index)));
        rx.release();
        if let Some(found) = found {
            return Ok(found);
        }
        thread::sleep(Duration::from_millis(2));
    }
    Err(format!("frame {number} did not come over AF_XDP").into())
}

/// What port0's clock shows, in nanoseconds.
fn clock() -> Result<u64, Failure> {
    let device = format!("/dev/ptp{}", clock_of("port0")?);
    let text = output(Command::new("phc_ctl").args([&device, "get"]))?;
    read_clock(&text).ok_or_else(|| format!("phc_ctl says: {text}").into())
}

fn read_clock(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("clock time is ")?;
    let (seconds, nanos) = rest.split_whitespace().next()?.split_once('.')?;
    // phc_ctl writes all nine digits.
    let nanos = nanos.get(..9).filter(|digits| digits.len() == nanos.len())?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos.parse().ok()?)
}

fn tc(what: &str) -> Result<(), Failure> {
    output(Command::new("tc").args(what.split(' '))).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_from_what_phc_ctl_says() {
        let text = "phc_ctl[4.123]: clock time is 1100000003.000123456 or Tue Nov  9 11:33:23 2004\n";
        assert_eq!(read_clock(text), Some(1_100_000_003_000_123_456));
        assert_eq!(read_clock("phc_ctl: clock time is 3.5 or"), None);
    }
}
