use super::*;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Serves until told to end; and counts what it was asked.
struct Stand {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
    thread: Option<std::thread::JoinHandle<usize>>,
}

impl Stand {
    fn new(body: &'static str) -> Self {
        let endpoint = Endpoint::bind("127.0.0.1:0".parse().expect("one"), false).expect("a port");
        let address = endpoint.address();
        let stop = Arc::new(AtomicBool::new(false));
        let flags = rustix::event::EventfdFlags::NONBLOCK;
        let wake = Arc::new(rustix::event::eventfd(0, flags).expect("an event"));
        let (stopped, woken) = (Arc::clone(&stop), Arc::clone(&wake));
        let thread = std::thread::spawn(move || {
            let (mut clients, mut asked) = (Clients::new(endpoint), 0);
            let mut answer = |path: &str| {
                asked += 1;
                match path {
                    "/metrics" => Answer::text("200 OK", body),
                    _ => Answer::text("404 Not Found", "no\n"),
                }
            };
            while !stopped.load(Ordering::Relaxed) {
                clients.turn(woken.as_fd(), &mut answer).expect("it waits");
            }
            asked
        });
        Self { address, stop, wake, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        stream
    }

    fn ask(&self, request: &[u8]) -> String {
        let mut client = self.connect();
        client.write_all(request).expect("sent");
        let mut response = String::new();
        client.read_to_string(&mut response).expect("an answer");
        response
    }

    fn end(&mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        rustix::io::write(&*self.wake, &1_u64.to_ne_bytes()).expect("woken");
        self.thread.take().map_or(0, |thread| thread.join().expect("it ends"))
    }
}

#[test]
fn what_is_asked_for_is_told_and_nothing_else() {
    let mut stand = Stand::new("x 1\n");
    let found = stand.ask(b"GET /metrics?a=b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(found.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain"), "{found}");
    assert!(found.ends_with("\r\nConnection: close\r\n\r\nx 1\n"), "{found}");
    let head = stand.ask(b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(stand.ask(b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    let refused = stand.ask(b"POST /metrics HTTP/1.1\r\n\r\n");
    assert!(refused.starts_with("HTTP/1.1 405") && refused.contains("\r\nAllow: GET, HEAD\r\n"), "{refused}");
    assert!(stand.ask(b"GET /\xff HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert_eq!(stand.end(), 3);
}

#[test]
fn a_head_without_end_is_not_read_on() {
    let mut stand = Stand::new("x 1\n");
    let mut client = stand.connect();
    // It may be gone before all is said.
    let _ = client.write_all(&vec![b'x'; 64 << 10]);
    let mut response = Vec::new();
    let _ = client.read_to_end(&mut response);
    assert!(response.is_empty());
    assert_eq!(stand.end(), 0);
}

/// Those that say nothing, and those that read nothing, are as many as there may be,
/// and more: whoever comes is answered all the same.
#[test]
fn slow_clients_keep_nobody_waiting() {
    let body: &'static str = "y".repeat(8 << 20).leak();
    let mut stand = Stand::new(body);
    let slow: Vec<TcpStream> = (0..2 * CLIENTS_MAX)
        .map(|at| {
            let mut client = stand.connect();
            let request: &[u8] = if at % 2 == 0 { b"GET /metr" } else { b"GET /metrics HTTP/1.1\r\n\r\n" };
            client.write_all(request).expect("sent");
            client
        })
        .collect();
    assert!(stand.ask(b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    let whole = stand.ask(b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(whole.len() > body.len(), "{}", whole.len());
    drop(slow);
    stand.end();
}

#[test]
fn only_a_successor_has_the_address_as_well() {
    let first = Endpoint::bind("127.0.0.1:0".parse().expect("one"), false).expect("a port");
    let again = |follows| Endpoint::bind(first.address(), follows);
    assert_eq!(again(false).expect_err("in use").kind(), io::ErrorKind::AddrInUse);
    let mut successor = again(true).expect("beside it");
    assert!(!successor.listens);
    successor.listen().expect("its turn");
    drop(first);
    let stream = TcpStream::connect(successor.address()).expect("heard");
    drop(stream);
}

/// Whoever connected before it closes is answered.
#[test]
fn who_has_connected_is_answered_after_the_end() {
    let endpoint = Endpoint::bind("127.0.0.1:0".parse().expect("one"), false).expect("a port");
    let mut client = TcpStream::connect(endpoint.address()).expect("it listens");
    let mut clients = Clients::new(endpoint);
    let mut answer = |_: &str| Answer::text("503 Service Unavailable", "no\n");
    clients.close(&mut answer);
    assert!(!clients.is_over());
    client.write_all(b"GET /readyz HTTP/1.1\r\n\r\n").expect("sent");
    let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).expect("an event");
    let reads = std::thread::spawn(move || {
        let mut response = String::new();
        client.read_to_string(&mut response).map(|_| response)
    });
    while !clients.is_over() {
        clients.turn(wake.as_fd(), &mut answer).expect("it waits");
    }
    assert!(reads.join().expect("ended").expect("an answer").starts_with("HTTP/1.1 503"));
}
