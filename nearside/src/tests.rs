//! The same applications on both data paths.

use crate::{Address, App, Bypass, ConnId, Http, Kernel, Net, Opened, Reply, Request, Status};
use cpu::Clock;
use link::{Pair, PairConfig};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use wire::Mac;

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

/// Gives a small service's answers.
fn service(request: &Request<'_>, body: &[u8], reply: &mut Reply) {
    match request.path() {
        b"/" => {
            reply.field("X-Kind", b"small").expect("a field").body(b"hello");
        }
        b"/echo" => {
            reply.body(body);
        }
        b"/panic" => panic!("asked for it"),
        _ => {
            reply.status(Status::NOT_FOUND);
        }
    }
}

/// Sends what it was given, and keeps what comes back.
struct Asker {
    send: &'static [u8],
    got: Vec<u8>,
    closed: bool,
}

impl App for Asker {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        net.send_bytes(id, self.send);
    }

    fn on_data<N: Net>(&mut self, _net: &mut N, _id: ConnId, data: &[u8]) -> usize {
        self.got.extend_from_slice(data);
        data.len()
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, _why: crate::Closed) {
        self.closed = true;
    }
}

/// What a service answers over our own stack, until it ends the connection.
fn over_a_pair(send: &'static [u8]) -> String {
    let (near, far) = Pair::new(PairConfig::default());
    let address = |ip| [Address { ip, prefix_len: 24 }];
    let http = Http::new(service as fn(&Request<'_>, &[u8], &mut Reply)).expect("descriptors");
    let mut server = Bypass::new(near, Mac([2, 0, 0, 0, 0, 1]), &address(SERVER), &[80], http).expect("random bits");
    let asker = Asker { send, got: Vec::new(), closed: false };
    let mut client = Bypass::new(far, Mac([2, 0, 0, 0, 0, 2]), &address(CLIENT), &[], asker).expect("random bits");
    let begin = Clock.now();
    client.silo.stack.begin_turn(begin);
    client.silo.stack.connect(None, SocketAddr::new(SERVER, 80)).expect("a route");
    // In virtual time: a turn each millisecond.
    for turn in 0..10_000 {
        let now = begin + Duration::from_millis(turn);
        client.silo.turn(now);
        server.silo.turn(now);
        if client.silo.app.closed {
            break;
        }
    }
    String::from_utf8(client.silo.app.got).expect("text")
}

/// The same over kernel sockets.
fn over_sockets(send: &[u8]) -> String {
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, told) = channel();
    let server = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let http = Http::new(service as fn(&Request<'_>, &[u8], &mut Reply)).expect("descriptors");
            let kernel = Kernel::listen(&["127.0.0.1:0".parse().expect("an endpoint")], http).expect("it listens");
            tell.send(kernel.endpoints()[0].to_string()).expect("somebody waits");
            kernel.run(&stop).map(|_| ()).map_err(|why| why.to_string())
        })
    };
    let mut stream = TcpStream::connect(told.recv().expect("it listens")).expect("connected");
    stream.write_all(send).expect("sent");
    let mut got = String::new();
    stream.read_to_string(&mut got).expect("an answer");
    drop(stream);
    stop.store(true, Ordering::Relaxed);
    server.join().expect("no panic").expect("it ran");
    got
}

/// Without what differs from run to run.
fn without_date(text: &str) -> String {
    text.split_inclusive("\r\n").filter(|line| !line.starts_with("Date: ")).collect()
}

#[test]
fn a_service_answers_the_same_on_both_data_paths() {
    let send = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde\
        HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let bypass = without_date(&over_a_pair(send));
    assert_eq!(
        bypass,
        "HTTP/1.1 200 OK\r\nX-Kind: small\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n\
         abcdeHTTP/1.1 200 OK\r\nX-Kind: small\r\nContent-Length: 5\r\n\r\nHTTP/1.1 404 Not Found\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(without_date(&over_sockets(send)), bypass);
}

#[test]
fn what_is_no_request_is_refused_and_ended() {
    let answer = over_a_pair(b"GET nothing\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("Connection: close"), "{answer}");
}

/// The policy of the crate's first page.
#[test]
fn a_panic_leaves_run_and_ends_the_connections() {
    let (tell, told) = channel();
    let server = thread::spawn(move || {
        let http = Http::new(service as fn(&Request<'_>, &[u8], &mut Reply)).expect("descriptors");
        let kernel = Kernel::listen(&["127.0.0.1:0".parse().expect("an endpoint")], http).expect("it listens");
        tell.send(kernel.endpoints()[0].to_string()).expect("somebody waits");
        let stop = AtomicBool::new(false);
        kernel.run(&stop).map(|_| ()).map_err(|why| why.to_string())
    });
    let mut stream = TcpStream::connect(told.recv().expect("it listens")).expect("connected");
    stream.write_all(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    // The end, or a reset: nothing else comes.
    assert!(!matches!(stream.read(&mut [0; 16]), Ok(1..)));
    assert!(server.join().is_err());
}
