//! An echo server on either data path:
//!
//! ```text
//! echo 127.0.0.1:7007           on kernel sockets
//! echo memif:/tmp/echo.sock     on our own stack, over shared memory: as 192.0.2.1, port 7
//! echo ask:/tmp/echo.sock TEXT  the other side of it: asks once, and prints the answer
//! ```

use nearside::memif::{self, Memif, MemifLink, Role};
use nearside::{Address, App, Bypass, Closed, ConnId, Kernel, Net, Opened, Wake, wire};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const PORT: u16 = 7;

/// Connections whose peer sends no more, and whose last bytes are not echoed yet.
#[derive(Default)]
struct Echo {
    ended: Vec<ConnId>,
}

impl App for Echo {
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        // Only as much as the peer takes back: the rest is offered again.
        let room = nearside::app::SEND_LOW_WATER.saturating_sub(net.unsent(id));
        let take = data.len().min(room);
        net.send_bytes(id, &data[..take]);
        if take == data.len() && self.ended.contains(&id) {
            net.finish(id);
        }
        take
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        if held > 0 { self.ended.push(id) } else { net.finish(id) }
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        net.resume(id);
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, id: ConnId, _why: Closed) {
        self.ended.retain(|other| *other != id);
    }
}

/// Asks once, and prints what comes back.
struct Ask {
    text: String,
    asked: bool,
    stop: Arc<AtomicBool>,
}

impl App for Ask {
    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if !self.asked {
            self.asked = net.connect(None, SocketAddr::new(SERVER, PORT)).is_ok();
        }
        Wake::Idle
    }

    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        net.send_bytes(id, self.text.as_bytes());
        net.finish(id);
    }

    fn on_data<N: Net>(&mut self, _net: &mut N, _id: ConnId, data: &[u8]) -> usize {
        print!("{}", String::from_utf8_lossy(data));
        data.len()
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, _why: Closed) {
        println!();
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The link's one queue.
fn open(socket: &str, role: Role) -> Result<MemifLink, Box<dyn Error>> {
    let config = memif::Config::new(memif::Address::Path(socket.into()), role);
    Ok(Memif::open(config)?.split_queues().pop().ok_or("memif gave no queue")?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let stop = Arc::new(AtomicBool::new(false));
    // Ctrl-C, and what service managers send: what is under way is finished.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let address = |ip| Address { ip, prefix_len: 24 };
    match words.as_slice() {
        [place] if place.starts_with("memif:") => {
            let link = open(&place["memif:".len()..], Role::Server)?;
            let mac = wire::Mac([2, 0, 0, 0, 0, 1]);
            Bypass::new(link, mac, &[address(SERVER)], &[PORT], Echo::default())?.run(&stop)?;
        }
        [place, text] if place.starts_with("ask:") => {
            let link = open(&place["ask:".len()..], Role::Client)?;
            let mac = wire::Mac([2, 0, 0, 0, 0, 2]);
            let ask = Ask { text: (*text).to_owned(), asked: false, stop: Arc::clone(&stop) };
            Bypass::new(link, mac, &[address(CLIENT)], &[], ask)?.run(&stop)?;
        }
        [place] => {
            let echo = Kernel::listen(&[place.parse()?], Echo::default())?;
            eprintln!("echoing on {}", echo.endpoints()[0]);
            echo.run(&stop)?;
        }
        _ => return Err("usage: echo ADDRESS:PORT | echo memif:SOCKET | echo ask:SOCKET TEXT".into()),
    }
    Ok(())
}
