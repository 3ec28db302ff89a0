//! Two stacks of ours, joined by a link, under a virtual clock.

use crate::call::{Call, HANDLES, Outcome, Place, SETS, World, counted};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use link::{Link, Pair, PairConfig, PairLink};
use posix::{Calls, Defaults, Errno, Gather, MOST_BYTES, Scatter, SocketTable};
use silo::Silo;
use stack::{Address, Config, LinkOffload, Seeds, Stack};
use std::io::{IoSlice, IoSliceMut};
use wire::{Mac, Time};

/// Turns at one time before it is a livelock.
const MOST_TURNS: usize = 100_000;
/// How far the clock goes in [`World::settle`]: beyond delayed acknowledgements, and the first
/// question to a neighbour.
const STEP: Duration = Duration::from_millis(50);

/// One end.
pub struct End {
    /// Its silo.
    pub silo: Silo<PairLink, SocketTable>,
}

/// The world.
pub struct Ours {
    /// Both ends.
    pub ends: [End; 2],
    now: Time,
    sockets: [[i32; HANDLES]; 2],
    sets: [[i32; SETS]; 2],
    /// The next descriptor: none is used again, so that it is the same in both worlds whose watch
    /// a number names.
    next: i32,
}

/// A descriptor that nobody has.
const NOBODY: i32 = -1;

/// What the ports of a sequence are counted from.
const BASE: u16 = 1000;

/// The address of a side.
#[must_use]
pub fn address(side: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + side as u8))
}

impl End {
    fn new(side: usize, link: PairLink, defaults: Defaults) -> Self {
        let offers = link.capabilities();
        let mut config = Config::new(Mac([2, 0, 0, 0, 0, side as u8 + 1]), offers.mtu);
        config.addresses = vec![Address { ip: address(side), prefix_len: 24 }];
        config.tcp = tcp::Config { nagle: true, ..tcp::Config::default() };
        config.max_connections = 1024;
        let offload = LinkOffload { checksum: offers.transmit_checksum, segmentation: offers.segmentation };
        let seed = side as u64 + 1;
        let seeds = Seeds { table: [seed, 2, 3, 4], secret: [5, 6, seed, 8], timestamps: [9, seed] };
        let stack = Stack::new(config, offload, &seeds, Time::from_millis(1_000));
        Self { silo: Silo { link, stack, app: SocketTable::new(defaults) } }
    }

    /// The calls of this end.
    pub fn calls(&mut self) -> Calls<'_> {
        let Silo { stack, app, .. } = &mut self.silo;
        Calls { stack, table: app }
    }
}

impl Ours {
    /// A world with these defaults of its sockets.
    #[must_use]
    pub fn new(defaults: Defaults) -> Self {
        let (one, other) = Pair::new(PairConfig::default());
        let ends = [End::new(0, one, defaults), End::new(1, other, defaults)];
        let (sockets, sets) = ([[NOBODY; HANDLES]; 2], [[NOBODY; SETS]; 2]);
        let mut this = Self { ends, now: Time::from_millis(1_000), sockets, sets, next: 3 };
        this.settle();
        this
    }

    const fn fresh(&mut self) -> i32 {
        self.next += 1;
        self.next
    }

    /// A handle is a new descriptor's from now on; what it was is closed.
    fn keep(&mut self, side: usize, handle: usize, fd: i32) {
        let old = core::mem::replace(&mut self.sockets[side][handle], fd);
        let _ = self.ends[side].calls().close(old);
    }

    /// Takes turns at this time until nobody has anything to do.
    pub fn rest(&mut self) {
        for _ in 0..MOST_TURNS {
            let mut busy = false;
            for end in &mut self.ends {
                if end.silo.app.take_ends() {
                    end.silo.send_said(self.now);
                }
                let turn = end.silo.turn(self.now);
                end.calls().after_turn();
                busy |= turn.more || turn.frames > 0;
            }
            if !busy && self.ends.iter().all(|end| end.silo.link.waiting() == 0) {
                return;
            }
        }
        panic!("the stacks never come to rest");
    }

    /// Has one side take a turn, and the other none.
    pub fn turn(&mut self, side: usize) {
        let end = &mut self.ends[side];
        _ = end.silo.turn(self.now);
        end.calls().after_turn();
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.rest();
            let due = self.ends.iter().map(|end| end.silo.stack_deadline()).min().unwrap_or(Time::MAX);
            if due > until {
                break;
            }
            self.now = self.now.max(due);
        }
        self.now = until;
        self.rest();
    }

    /// Calls that make or end descriptors.
    fn attempt(&mut self, side: usize, call: &Call) -> Result<Outcome, Errno> {
        let new_fd = self.fresh();
        let mut calls = self.ends[side].calls();
        match *call {
            Call::Socket { handle } => {
                calls.socket(new_fd, false, true);
                calls.set_option(new_fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32.to_ne_bytes())?;
                self.keep(side, handle, new_fd);
                Ok(Outcome::of(0))
            }
            Call::Accept { handle, new } => {
                let peer = calls.accept(self.sockets[side][handle], new_fd, true)?;
                let Some(peer) = peer else { return Err(Errno(libc::EAGAIN)) };
                self.keep(side, new, new_fd);
                Ok(Outcome { address: name(peer), ..Outcome::of(0) })
            }
            Call::Dup { handle, new } => {
                calls.dup(self.sockets[side][handle], new_fd)?;
                self.keep(side, new, new_fd);
                Ok(Outcome::of(0))
            }
            Call::CreateSet { set } => {
                calls.create_set(new_fd);
                let old = core::mem::replace(&mut self.sets[side][set], new_fd);
                let _ = calls.close(old);
                Ok(Outcome::of(0))
            }
            Call::Close { handle } => {
                let fd = core::mem::replace(&mut self.sockets[side][handle], NOBODY);
                calls.close(fd).map(|()| Outcome::of(0))
            }
            Call::CloseSet { set } => {
                let fd = core::mem::replace(&mut self.sets[side][set], NOBODY);
                calls.close(fd).map(|()| Outcome::of(0))
            }
            _ => self.attempt_state(side, call),
        }
    }

    fn attempt_state(&mut self, side: usize, call: &Call) -> Result<Outcome, Errno> {
        let sockets = self.sockets[side];
        let fd = |handle: usize| sockets[handle];
        let mut calls = self.ends[side].calls();
        match *call {
            Call::Bind { handle, place, port } => {
                let ip = match place {
                    Place::Own => address(side),
                    Place::Any => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                    Place::Foreign => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
                };
                calls.bind(fd(handle), SocketAddr::new(ip, port.map_or(0, |port| BASE + port)))?;
                Ok(Outcome::of(0))
            }
            Call::Listen { handle, backlog } => calls.listen(fd(handle), backlog).map(|()| Outcome::of(0)),
            Call::Connect { handle, port } => {
                calls.connect(fd(handle), SocketAddr::new(address(1 - side), BASE + port))?;
                Ok(Outcome::of(0))
            }
            Call::Disconnect { handle } => calls.disconnect(fd(handle)).map(|()| Outcome::of(0)),
            Call::Shutdown { handle, how } => calls.shutdown(fd(handle), how).map(|()| Outcome::of(0)),
            Call::LocalAddress { handle } => {
                calls.local_address(fd(handle)).map(|local| Outcome { address: name(local), ..Outcome::of(0) })
            }
            Call::PeerAddress { handle } => {
                calls.peer_address(fd(handle)).map(|peer| Outcome { address: name(peer), ..Outcome::of(0) })
            }
            Call::Readable { handle } => calls.readable(fd(handle)).map(|count| Outcome::of(count as i64)),
            Call::Option { handle, choice } => {
                let value = calls.option(fd(handle), choice.level, choice.name, 4)?;
                let value = value.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                Ok(Outcome::of(value.into()))
            }
            Call::SetOption { handle, choice, value } => {
                let set = calls.set_option(fd(handle), choice.level, choice.name, &value.to_ne_bytes());
                set.map(|()| Outcome::of(0))
            }
            Call::Linger { handle, on, seconds } => {
                let value = [on.to_ne_bytes(), seconds.to_ne_bytes()].concat();
                calls.set_option(fd(handle), libc::SOL_SOCKET, libc::SO_LINGER, &value).map(|()| Outcome::of(0))
            }
            _ => self.attempt_data(side, call),
        }
    }

    fn attempt_data(&mut self, side: usize, call: &Call) -> Result<Outcome, Errno> {
        let (sockets, sets) = (self.sockets[side], self.sets[side]);
        let fd = |handle: usize| sockets[handle];
        let mut calls = self.ends[side].calls();
        match *call {
            Call::Send { handle, first, len, flags } => {
                let bytes = counted(first, len);
                send(&mut calls, fd(handle), &[IoSlice::new(&bytes)], flags)
            }
            Call::Writev { handle, first, lens } => {
                let bytes = counted(first, lens[0] + lens[1]);
                let (one, other) = bytes.split_at(lens[0]);
                send(&mut calls, fd(handle), &[IoSlice::new(one), IoSlice::new(other)], 0)
            }
            Call::Recv { handle, len, flags } => {
                let mut bytes = vec![0; len];
                receive(&mut calls, fd(handle), &mut bytes, &[len], flags)
            }
            Call::Readv { handle, lens } => {
                let mut bytes = vec![0; lens[0] + lens[1]];
                receive(&mut calls, fd(handle), &mut bytes, &lens, 0)
            }
            Call::Poll { handle, events } => {
                let asked = u32::from(events.cast_unsigned());
                let found = calls.events(fd(handle), asked).unwrap_or(libc::POLLNVAL as u32);
                let events = if found == 0 { Vec::new() } else { vec![(0, found)] };
                Ok(Outcome { events, ..Outcome::of(i64::from(found != 0)) })
            }
            Call::Control { set, op, handle, events } => {
                calls.control(sets[set], op, fd(handle), events, handle as u64).map(|()| Outcome::of(0))
            }
            Call::Wait { set, most } => {
                let mut events = Vec::new();
                let count = calls.take_ready(sets[set], most, |found, data| events.push((data, found)))?;
                Ok(Outcome { events, ..Outcome::of(count as i64) })
            }
            Call::PollSet { set } => {
                let found = calls.events(sets[set], libc::POLLIN as u32).unwrap_or(libc::POLLNVAL as u32);
                let events = if found == 0 { Vec::new() } else { vec![(0, found)] };
                Ok(Outcome { events, ..Outcome::of(i64::from(found != 0)) })
            }
            _ => unreachable!("the C library's calls are not those of sockets"),
        }
    }
}

fn send(calls: &mut Calls<'_>, fd: i32, slices: &[IoSlice<'_>], flags: i32) -> Result<Outcome, Errno> {
    let mut from = Gather::new(slices, MOST_BYTES);
    match (calls.send(fd, &mut from, flags), from.taken()) {
        (Err(error), 0) => Err(error),
        (Ok(None), 0) => Err(Errno(libc::EAGAIN)),
        (_, taken) => Ok(Outcome::of(taken as i64)),
    }
}

fn receive(calls: &mut Calls<'_>, fd: i32, bytes: &mut [u8], lens: &[usize], flags: i32) -> Result<Outcome, Errno> {
    let mut rest = &mut bytes[..];
    let mut slices = Vec::new();
    for len in lens {
        let (slice, later) = rest.split_at_mut(*len);
        slices.push(IoSliceMut::new(slice));
        rest = later;
    }
    let mut out = Scatter::new(&mut slices, MOST_BYTES);
    // What does not block does not wait for all of it either.
    let outcome = calls.recv(fd, &mut out, flags & !libc::MSG_WAITALL);
    let filled = out.filled();
    match (outcome, filled) {
        (Err(error), 0) => Err(error),
        (Ok(None), 0) => Err(Errno(libc::EAGAIN)),
        _ => {
            let seen = if flags & libc::MSG_TRUNC == 0 { filled } else { 0 };
            Ok(Outcome { bytes: bytes[..seen].to_vec(), ..Outcome::of(filled as i64) })
        }
    }
}

/// An address, with names for what differs between worlds.
fn name(address: SocketAddr) -> String {
    let ip = if address.ip().is_unspecified() { "any" } else { "own" };
    format!("{ip}:{}", crate::port_name(address.port(), BASE))
}

impl World for Ours {
    fn call(&mut self, side: usize, call: &Call) -> Outcome {
        let outcome = self.attempt(side, call);
        self.rest();
        outcome.unwrap_or_else(|Errno(errno)| Outcome::failed(errno))
    }

    fn settle(&mut self) {
        self.pass(STEP);
    }
}
