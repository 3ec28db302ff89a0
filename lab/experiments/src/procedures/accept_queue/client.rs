//! The client: so many connections in a closed loop, on the calling thread.

use super::server::{RESPONSE, request};
use crate::Failure;
use crate::latencies::Latencies;
use crate::procedure::Setting;
use demo::machine::now;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Events taken from the kernel at a time.
const EVENTS: usize = 256;

/// How long nothing at all may come before the workers are taken for dead.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it looks for Ctrl-C.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What to ask, and how often.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) address: SocketAddr,
    pub(super) connections: u32,
    pub(super) requests: u64,
    pub(super) keep_alive: bool,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) latencies: Latencies,
    pub(super) seconds: f64,
    pub(super) errors: u64,
}

/// A place for a connection.
struct Slot {
    socket: Option<OwnedFd>,
    began: Instant,
    /// Whether a request is under way, or about to be sent.
    asking: bool,
    sent: bool,
    /// Bytes of the response that are there.
    got: usize,
}

struct Client<'a> {
    plan: &'a Plan,
    poll: OwnedFd,
    slots: Vec<Slot>,
    begun: u64,
    ended: u64,
    errors: u64,
    latencies: Latencies,
}

/// Asks until all requests are answered, or have failed.
///
/// # Errors
/// If there are no sockets, nothing comes any more, or the user interrupts.
pub(super) fn run(plan: &Plan, setting: &Setting) -> Result<Outcome, Failure> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let slot = || Slot { socket: None, began: now(), asking: false, sent: false, got: 0 };
    let slots = (0..plan.connections).map(|_| slot()).collect();
    let latencies = Latencies::default();
    let mut client = Client { plan, poll, slots, begun: 0, ended: 0, errors: 0, latencies };
    let begin = now();
    for index in 0..client.slots.len() {
        client.ask(index)?;
    }
    let mut events = Vec::with_capacity(EVENTS);
    let mut heard = begin;
    while client.ended < plan.requests {
        events.clear();
        match epoll::wait(&client.poll, spare_capacity(&mut events), Some(&LOOK)) {
            Ok(0) => {
                setting.interrupt.check()?;
                if heard.elapsed() > PATIENCE {
                    return Err(format!("no worker answered for {PATIENCE:?}").into());
                }
                continue;
            }
            Ok(_) => heard = now(),
            Err(Errno::INTR) => continue,
            Err(why) => return Err(format!("cannot wait for sockets: {why}").into()),
        }
        for event in &events {
            client.on_event(event.data.u64() as usize)?;
        }
        setting.progress.tell(client.ended, plan.requests);
        setting.interrupt.check()?;
    }
    Ok(Outcome { latencies: client.latencies, seconds: begin.elapsed().as_secs_f64(), errors: client.errors })
}

impl Client<'_> {
    /// Begins the next request in a slot, if there is one left.
    fn ask(&mut self, index: usize) -> Result<(), Failure> {
        let slot = &mut self.slots[index];
        slot.asking = self.begun < self.plan.requests;
        if !slot.asking {
            slot.socket = None;
            return Ok(());
        }
        self.begun += 1;
        (slot.sent, slot.got, slot.began) = (false, 0, now());
        if slot.socket.is_none() {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let family = if self.plan.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket_with(family, SocketType::STREAM, flags, None)
                .map_err(|why| format!("cannot make a socket: {why}"))?;
            let wanted = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            epoll::add(&self.poll, &socket, epoll::EventData::new_u64(index as u64), wanted)
                .map_err(|why| format!("cannot watch a socket: {why}"))?;
            match connect(&socket, &self.plan.address) {
                Ok(()) | Err(Errno::INPROGRESS) => slot.socket = Some(socket),
                Err(why) => return Err(format!("cannot connect to {}: {why}", self.plan.address).into()),
            }
        }
        self.send(index)
    }

    fn send(&mut self, index: usize) -> Result<(), Failure> {
        let slot = &mut self.slots[index];
        let Some(socket) = &slot.socket else { return Ok(()) };
        let request = request(self.plan.keep_alive);
        match send(socket, request, SendFlags::NOSIGNAL) {
            Ok(sent) if sent == request.len() => slot.sent = true,
            // Not connected yet.
            Err(Errno::AGAIN | Errno::NOTCONN) => {}
            // So few bytes always fit into an empty buffer.
            Ok(_) | Err(_) => return self.fail(index),
        }
        Ok(())
    }

    fn on_event(&mut self, index: usize) -> Result<(), Failure> {
        if self.slots[index].socket.is_none() {
            return Ok(());
        }
        if self.slots[index].asking && !self.slots[index].sent {
            self.send(index)?;
        }
        self.receive(index)
    }

    /// Takes all that is there. A response ends a request; a connection that
    /// is not kept is over when the worker has ended it as well, so that the
    /// worker's side keeps TIME-WAIT and the client's ports stay free.
    fn receive(&mut self, index: usize) -> Result<(), Failure> {
        let mut buffer = [0; 512];
        loop {
            let slot = &mut self.slots[index];
            let Some(socket) = &slot.socket else { return Ok(()) };
            match recv(socket, &mut buffer[..], RecvFlags::empty()) {
                Err(Errno::AGAIN | Errno::NOTCONN) => return Ok(()),
                Err(Errno::INTR) => {}
                Ok((0, _)) | Err(_) if slot.asking => return self.fail(index),
                Ok((0, _)) | Err(_) => {
                    slot.socket = None;
                    return self.ask(index);
                }
                Ok((count, _)) => {
                    slot.got += count;
                    if slot.got == RESPONSE.len() && slot.asking {
                        self.latencies.add(u64::try_from(slot.began.elapsed().as_nanos()).unwrap_or(u64::MAX));
                        self.ended += 1;
                        slot.asking = false;
                        if self.plan.keep_alive {
                            return self.ask(index);
                        }
                    } else if slot.got > RESPONSE.len() {
                        return self.fail(index);
                    }
                }
            }
        }
    }

    /// The request under way has failed; the slot goes on with the next.
    #[cold]
    fn fail(&mut self, index: usize) -> Result<(), Failure> {
        self.errors += 1;
        self.ended += 1;
        // With nothing but errors there is nothing to measure, and each would
        // be followed by the next at once.
        if self.errors > 1_000 && self.latencies.count() < self.errors {
            return Err(format!("{} of {} requests failed", self.errors, self.ended).into());
        }
        self.slots[index].socket = None;
        self.ask(index)
    }
}
