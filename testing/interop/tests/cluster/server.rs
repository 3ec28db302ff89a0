//! The server that a load is sent to: it notes what it is asked.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A server that answers everything, and keeps the paths that it was asked for.
pub struct Server {
    /// Where it is.
    pub address: SocketAddr,
    paths: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server at a free port of this address.
    pub fn start(host: &str) -> Self {
        let listener = TcpListener::bind((host, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let paths = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&paths);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || answer(stream, &kept));
            }
        });
        Self { address, paths }
    }

    /// What it was asked for.
    pub fn paths(&self) -> Vec<String> {
        self.paths.lock().expect("no panic").clone()
    }
}

fn answer(mut stream: TcpStream, paths: &Mutex<Vec<String>>) {
    let (mut held, mut bytes) = (Vec::new(), [0; 4_096]);
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        held.extend_from_slice(&bytes[..read]);
        while let Some(end) = held.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&held[..end]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            paths.lock().expect("no panic").push(path);
            held.drain(..end + 4);
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    }
}
