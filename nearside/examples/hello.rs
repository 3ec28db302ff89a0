//! A small HTTP service on either data path:
//!
//! ```text
//! hello 127.0.0.1:8007          on kernel sockets
//! hello memif:/tmp/hello.sock   on our own stack: nearside load asks it with
//!                               --link memif:/tmp/hello.sock --addr 192.0.2.2/24 http://192.0.2.1/
//! ```

use nearside::memif::{self, Memif, MemifLink, Role};
use nearside::{Address, Bypass, Http, Kernel, Method, Reply, Request, Service, Status, wire};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Counts, and gives back what it is posted.
#[derive(Default)]
struct Hello {
    requests: u64,
}

impl Service for Hello {
    fn on_request(&mut self, request: &Request<'_>, body: &[u8], reply: &mut Reply) {
        self.requests += 1;
        match (request.method(), request.path()) {
            (Method::Get | Method::Head, b"/") => {
                reply.body(b"hello, world\n");
            }
            (Method::Get | Method::Head, b"/count") => {
                reply.body(format!("{}\n", self.requests).as_bytes());
            }
            (Method::Post, b"/echo") => {
                reply.body(body);
            }
            (_, b"/" | b"/count" | b"/echo") => {
                reply.status(Status::METHOD_NOT_ALLOWED);
            }
            _ => {
                reply.status(Status::NOT_FOUND);
            }
        }
    }
}

/// The link's one queue.
fn open(socket: &str, role: Role) -> Result<MemifLink, Box<dyn Error>> {
    let config = memif::Config::new(memif::Address::Path(socket.into()), role);
    Ok(Memif::open(config)?.split_queues().pop().ok_or("memif gave no queue")?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::args().nth(1).ok_or("usage: hello ADDRESS:PORT | hello memif:SOCKET")?;
    let stop = Arc::new(AtomicBool::new(false));
    // Ctrl-C, and what service managers send: what is under way is finished.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let hello = Http::new(Hello::default())?;
    match place.strip_prefix("memif:") {
        Some(socket) => {
            let link = open(socket, Role::Server)?;
            let own = Address { ip: Ipv4Addr::new(192, 0, 2, 1).into(), prefix_len: 24 };
            Bypass::new(link, wire::Mac([2, 0, 0, 0, 0, 1]), &[own], &[80], hello)?.run(&stop)?;
        }
        None => {
            let hello = Kernel::listen(&[place.parse()?], hello)?;
            eprintln!("http://{}/", hello.endpoints()[0]);
            hello.run(&stop)?;
        }
    }
    Ok(())
}
