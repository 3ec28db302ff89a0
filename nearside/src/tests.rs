//! The same applications on both data paths.

use crate::{Address, App, Bypass, ConnId, Http, Kernel, Net, Opened, Reply, Request, Status};
use cpu::Clock;
use link::{Pair, PairConfig};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
#[cfg(feature = "tls")]
use std::process::{Command, Stdio};
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
            reply.field("X-Kind", b"small").body(b"hello");
        }
        b"/echo" => {
            reply.body(body);
        }
        b"/split" => {
            reply.field("Location", b"/a\r\nSet-Cookie: b=c").body(b"not sent");
        }
        #[cfg(feature = "compress")]
        b"/long" => {
            reply.body(&b"hello, world\n".repeat(100)).compressed();
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

#[test]
fn a_head_that_would_be_split_is_an_error_and_its_service_is_told() {
    struct Splits(Option<crate::BadReply>);
    impl crate::Service for Splits {
        fn on_request(&mut self, request: &Request<'_>, body: &[u8], reply: &mut Reply) {
            service(request, body, reply);
        }

        fn on_bad_reply(&mut self, request: &Request<'_>, why: crate::BadReply) {
            assert_eq!(request.path(), b"/split");
            self.0 = Some(why);
        }
    }
    let mut http = Http::new(Splits(None)).expect("descriptors");
    assert!(http.wake_fd().is_some(), "what wakes a data path for the server's helpers");
    let send = b"GET /split HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = without_date(&over_a_pair(send));
    assert_eq!(
        answer,
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nX-Kind: small\r\n\
         Content-Length: 5\r\nConnection: close\r\n\r\nhello"
    );
    let kernel = Kernel::listen(&["127.0.0.1:0".parse().expect("an endpoint")], http).expect("it listens");
    let place = kernel.endpoints()[0].to_string();
    let stop = Arc::new(AtomicBool::new(false));
    let asker = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let mut stream = TcpStream::connect(place).expect("connected");
            stream.write_all(b"GET /split HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
            let mut got = String::new();
            stream.read_to_string(&mut got).expect("an answer");
            stop.store(true, Ordering::Relaxed);
        })
    };
    http = kernel.run(&stop).expect("it ran");
    asker.join().expect("it asked");
    assert_eq!(http.service().and_then(|splits| splits.0), Some(crate::BadReply::Value));
}

#[cfg(feature = "compress")]
#[test]
fn a_client_that_takes_a_coding_gets_it() {
    let plain = over_a_pair(b"GET /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(plain.contains("\r\nContent-Length: 1300\r\n") && !plain.contains("Content-Encoding"), "{plain}");
    let send = b"HEAD /long HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    let short = over_a_pair(send);
    assert!(short.contains("\r\nContent-Encoding: gzip\r\n") && !short.contains(": 1300\r\n"), "{short}");
}

/// With a key whose signatures are a helper's to make.
#[cfg(feature = "tls")]
#[test]
fn https_is_answered() {
    let made = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=a -days 30 -keyout /dev/stdout 2> /dev/null";
    let pem = Command::new("sh").args(["-c", made]).output().expect("openssl").stdout;
    assert!(matches!(crate::server_tls(b"", &pem), Err(crate::TlsError::Certificates(_))));
    assert!(matches!(crate::server_tls(&pem, b"no key"), Err(crate::TlsError::Key(_))));
    let tls = Some(crate::server_tls(&pem, &pem).expect("a server"));
    let config = crate::HttpConfig { tls, ..crate::HttpConfig::default() };
    let http = Http::with(service as fn(&Request<'_>, &[u8], &mut Reply), config).expect("descriptors");
    let kernel = Kernel::listen(&["127.0.0.1:0".parse().expect("an endpoint")], http).expect("it listens");
    let place = kernel.endpoints()[0].to_string();
    let stop = Arc::new(AtomicBool::new(false));
    let asker = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let answers = ["-tls1_2", "-tls1_3"].map(|version| {
                let mut client = Command::new("openssl")
                    .args(["s_client", "-quiet", version, "-connect", &place])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("openssl");
                let mut input = client.stdin.take().expect("a pipe");
                input.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
                let got = client.wait_with_output().expect("it ended").stdout;
                drop(input);
                String::from_utf8(got).expect("text")
            });
            stop.store(true, Ordering::Relaxed);
            answers
        })
    };
    kernel.run(&stop).expect("it ran");
    for answer in asker.join().expect("it asked") {
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
    }
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
