//! The shim on our own stack: another stack is joined to it by frames in memory, and hands to the
//! runner, over a socket, what comes to it.

use crate::shim::Shim;
use app::{App, Closed, ConnId, Net, Opened, Wake};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use cpu::Clock;
use link::{Link, Pair, PairConfig, PairLink};
use silo::Silo;
use stack::{Address, LinkOffload, Seeds, Stack};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use wire::Mac;

/// Where the other stack listens.
pub const FAR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 7, 0, 2)), 443);
const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 7, 0, 1));

/// Bytes of the runner's that wait for the shim at most.
const UNSENT_MAX: usize = 64 << 10;

/// How long a loop with nothing to do rests.
const REST: Duration = Duration::from_micros(50);

/// Turns of both after the test is over, in which the last segments arrive.
const LAST_TURNS: usize = 64;

/// Runs a test.
pub fn run(app: Shim, runner: SocketAddr) -> Option<String> {
    let (near, far) = Pair::new(PairConfig::default());
    let mut near = silo(near, NEAR, 1, app);
    let mut far = silo(far, FAR.ip(), 2, Bridge { runner, line: None });
    let mut last = LAST_TURNS;
    while last > 0 {
        let now = Clock.now();
        let busy = [near.turn(now), far.turn(now)].iter().any(|turn| turn.frames > 0 || turn.more);
        if near.app.over {
            last -= 1;
        } else if !busy {
            std::thread::sleep(REST);
        }
    }
    far.app.end(Closed::Finished);
    near.app.failure
}

fn silo<A: App>(link: PairLink, address: IpAddr, number: u8, app: A) -> Silo<PairLink, A> {
    let capabilities = link.capabilities();
    let mac = Mac([2, 0, 0, 0, 0, number]);
    let mut config = stack::Config::new(mac, capabilities.mtu);
    config.addresses = vec![Address { ip: address, prefix_len: 24 }];
    config.listen = vec![FAR.port()];
    config.max_connections = 64;
    let offload = LinkOffload { checksum: capabilities.transmit_checksum, segmentation: capabilities.segmentation };
    // Nobody but these two is on the link.
    let seeds = Seeds { table: [1; 4], secret: [2; 4], timestamps: [3; 2] };
    let stack = Stack::new(config, offload, &seeds, Clock.now());
    Silo { link, stack, app }
}

/// Joins the connection that comes to the far stack to one with the runner.
struct Bridge {
    runner: SocketAddr,
    line: Option<Line>,
}

/// A connection, and its socket.
struct Line {
    id: ConnId,
    socket: TcpStream,
    /// What the socket did not take yet.
    unwritten: Vec<u8>,
    /// The shim sends no more.
    ended: bool,
    /// Neither does the runner.
    heard: bool,
}

impl Line {
    fn open(id: ConnId, runner: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(runner)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Self { id, socket, unwritten: Vec::new(), ended: false, heard: false })
    }

    /// Has the socket take what it can.
    fn write(&mut self) -> io::Result<()> {
        while !self.unwritten.is_empty() {
            match self.socket.write(&self.unwritten) {
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        if core::mem::take(&mut self.ended) { self.socket.shutdown(std::net::Shutdown::Write) } else { Ok(()) }
    }

    /// Takes what the runner sent.
    fn read<N: Net>(&mut self, net: &mut N) -> io::Result<()> {
        let mut bytes = [0; 16 << 10];
        while !self.heard && net.unsent(self.id) < UNSENT_MAX {
            match self.socket.read(&mut bytes) {
                Ok(0) => {
                    self.heard = true;
                    net.finish(self.id);
                }
                Ok(read) => net.send_bytes(self.id, &bytes[..read]),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}

impl Bridge {
    /// The shim's side is gone: so is the runner's.
    fn end(&mut self, why: Closed) {
        let Some(mut line) = self.line.take() else { return };
        if why == Closed::Finished {
            // What is there is had by the runner, unless that has gone.
            let _ = line.socket.set_nonblocking(false).and_then(|()| line.write());
        } else {
            let _ = rustix::net::sockopt::set_socket_linger(&line.socket, Some(Duration::ZERO));
        }
    }
}

impl App for Bridge {
    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if let Some(line) = &mut self.line
            && line.write().and_then(|()| line.read(net)).is_err()
        {
            net.abort(line.id);
        }
        Wake::Idle
    }

    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        match Line::open(id, self.runner) {
            Ok(line) => self.line = Some(line),
            Err(_) => net.abort(id),
        }
    }

    fn on_data<N: Net>(&mut self, _net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if let Some(line) = self.line.as_mut().filter(|line| line.id == id) {
            line.unwritten.extend_from_slice(data);
        }
        data.len()
    }

    fn on_end<N: Net>(&mut self, _net: &mut N, id: ConnId, _held: usize) {
        if let Some(line) = self.line.as_mut().filter(|line| line.id == id) {
            line.ended = true;
        }
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, id: ConnId, why: Closed) {
        if self.line.as_ref().is_some_and(|line| line.id == id) {
            self.end(why);
        }
    }
}
