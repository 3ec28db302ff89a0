//! Who does not take what is sent makes its other side wait, through the proxy: what lies
//! between them is bounded.

use interop::{Nearside, Running, in_namespace, scratch};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes of a body, one way or the other.
const BODY: usize = 128 << 20;

/// Bytes that may lie between the two sides: buffers of the kernel's sockets hold some
/// megabytes each, of which there are four on loopback.
const BETWEEN: usize = 64 << 20;

/// What the server may hold of them, KiB.
const HELD: usize = 32 << 10;

/// How often who sends is found to have sent nothing more before it is said to wait.
const LOOKS: usize = 20;

const ADDRESS: &str = "127.0.0.1:80";

const CONFIGURATION: &str = "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log crit;\n\
    events {}\n\
    http {\n\
    access_log off; client_max_body_size 0;\n\
    server {\n\
    listen 127.0.0.1:80;\n\
    proxy_http_version 1.1; proxy_request_buffering off; proxy_pass_request_headers off;\n\
    location / { proxy_pass http://127.0.0.1:9000; }\n\
    location /limited { proxy_limit_rate 100k; proxy_pass http://127.0.0.1:9000; }\n\
    location /unbuffered { proxy_buffering off; proxy_pass http://127.0.0.1:9000; }\n\
    } }\n";

/// What both sides know of a body under way.
#[derive(Default)]
struct Passage {
    /// Bytes that its sender has got rid of.
    sent: AtomicUsize,
    /// Its receiver takes it.
    is_taken: AtomicBool,
}

impl Passage {
    /// Sends a body.
    fn send(&self, mut stream: &TcpStream) {
        let piece = [b'x'; 64 << 10];
        for _ in 0..BODY / piece.len() {
            if stream.write_all(&piece).is_err() {
                return;
            }
            self.sent.fetch_add(piece.len(), Ordering::SeqCst);
        }
    }

    /// Takes a body, once it may; how many bytes came.
    fn take(&self, mut stream: &TcpStream, already: usize) -> usize {
        while !self.is_taken.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(10));
        }
        let (mut piece, mut all) = (vec![0; 64 << 10], already);
        while all < BODY {
            match stream.read(&mut piece) {
                Ok(length @ 1..) => all += length,
                _ => break,
            }
        }
        all
    }

    /// Waits until its sender waits; then it is taken. Bytes that lay between, and what
    /// the server holds, KiB.
    fn watch(&self, server: &Running) -> (usize, usize) {
        let (mut before, mut looks) = (0, 0);
        while looks < LOOKS {
            let sent = self.sent.load(Ordering::SeqCst);
            // All of it is no bound.
            looks = if sent == before && sent > 0 || sent == BODY { looks + 1 } else { 0 };
            before = sent;
            thread::sleep(Duration::from_millis(50));
        }
        let held = resident(server);
        self.is_taken.store(true, Ordering::SeqCst);
        (before, held)
    }
}

/// What of the process is in memory, KiB (proc_pid_status(5)).
fn resident(server: &Running) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The head that a stream begins with, and how many bytes of a body came along.
fn head(mut stream: &TcpStream) -> (String, usize) {
    let mut came = Vec::new();
    let mut piece = [0; 1024];
    loop {
        if let Some(at) = came.windows(4).position(|four| four == b"\r\n\r\n") {
            return (String::from_utf8_lossy(&came[..at]).into_owned(), came.len() - at - 4);
        }
        let length = stream.read(&mut piece).expect("a head comes");
        assert!(length > 0, "the end after {}", came.escape_ascii());
        came.extend_from_slice(&piece[..length]);
    }
}

/// Serves for `client`, beside an upstream.
fn serve(
    name: &'static str,
    upstream: impl FnOnce(TcpStream) + Send + 'static,
    client: impl FnOnce(&Running) + Send + 'static,
) {
    serve_at(name, (ADDRESS, &[]), upstream, client);
}

/// The same at an address, by these options.
fn serve_at(
    name: &'static str,
    (address, options): (&'static str, &'static [&'static str]),
    upstream: impl FnOnce(TcpStream) + Send + 'static,
    client: impl FnOnce(&Running) + Send + 'static,
) {
    in_namespace(&[], move || {
        let folder = scratch(name);
        fs::create_dir_all(&folder).unwrap();
        let text = CONFIGURATION.replace("listen 127.0.0.1:80", &format!("listen {address}"));
        fs::write(folder.join("nginx.conf"), text).unwrap();
        let listener = TcpListener::bind("127.0.0.1:9000").unwrap();
        let upstream = thread::spawn(move || upstream(listener.accept().unwrap().0));
        let mut command = Nearside::command(["nginx"]);
        command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).args(["-e", "stderr"]).args(options);
        let mut server = Running::start(&mut command);
        server.wait_until_open(address);
        client(&server);
        upstream.join().unwrap();
        server.stop();
    });
}

fn assert_bounded((between, held): (usize, usize), before: usize) {
    assert!(between <= BETWEEN, "{between} bytes were sent while nobody took any");
    assert!(held <= before + HELD, "the server holds {held} KiB, and held {before}");
}

/// An answer that is long, to a client that takes none of it.
fn long_answer(name: &'static str, path: &'static str) {
    let passage: &'static Passage = Box::leak(Box::default());
    let upstream = |mut stream: TcpStream| {
        let _ = head(&stream);
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n").as_bytes()).unwrap();
        passage.send(&stream);
    };
    serve(name, upstream, move |server| {
        let before = resident(server);
        let mut stream = TcpStream::connect(ADDRESS).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        assert_bounded(passage.watch(server), before);
        let (head, already) = head(&stream);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert_eq!(passage.take(&stream, already), BODY);
    });
}

#[test]
fn an_upstream_waits_for_a_client_that_takes_nothing() {
    long_answer("nginx-waits", "/");
}

#[test]
fn an_upstream_waits_for_such_a_client_without_buffers() {
    long_answer("nginx-waits-unbuffered", "/unbuffered");
}

/// An answer that is long, to a client that takes it slowly for a while, and leaves.
fn slow_client(name: &'static str, at: (&'static str, &'static [&'static str])) {
    const RATE: f64 = 10e6;
    let passage: &'static Passage = Box::leak(Box::default());
    let upstream = |mut stream: TcpStream| {
        let _ = head(&stream);
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n").as_bytes()).unwrap();
        passage.send(&stream);
    };
    serve_at(name, at, upstream, move |server| {
        let before = resident(server);
        let mut stream = TcpStream::connect(at.0).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let (_, mut taken) = head(&stream);
        let (begun, mut piece) = (cpu::Clock.now(), vec![0; 64 << 10]);
        let (mut between, mut held) = (0, 0);
        loop {
            let since = cpu::Clock.now().since(begun);
            if since >= Duration::from_secs(3) {
                break;
            }
            if (taken as f64) < since.as_secs_f64() * RATE {
                let length = stream.read(&mut piece).unwrap();
                assert!(length > 0, "the end after {taken} bytes");
                taken += length;
                continue;
            }
            between = between.max(passage.sent.load(Ordering::SeqCst).saturating_sub(taken));
            held = held.max(resident(server));
            thread::sleep(Duration::from_millis(20));
        }
        assert!(taken > 10_000_000, "{taken} bytes came in 3 s");
        assert_bounded((between, held), before);
    });
}

#[test]
fn an_upstream_waits_for_a_slow_client() {
    slow_client("nginx-slow", (ADDRESS, &[]));
}

#[test]
fn an_upstream_waits_for_a_slow_client_over_a_link() {
    const LINK: &[&str] = &["--link", "tap:near0,addr=172.31.77.1/24", "--addr", "172.31.77.4/24"];
    slow_client("nginx-slow-link", ("172.31.77.4:80", LINK));
}

/// The first second's worth comes at once.
#[test]
fn an_upstream_is_read_no_faster_than_it_may_be() {
    const LENGTH: usize = 250_000;
    let upstream = |mut stream: TcpStream| {
        let _ = head(&stream);
        let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        stream.write_all(&[head.as_bytes(), &[b'x'; LENGTH]].concat()).unwrap();
    };
    serve("nginx-limited", upstream, |_| {
        let mut stream = TcpStream::connect(ADDRESS).unwrap();
        let begun = cpu::Clock.now();
        stream.write_all(b"GET /limited HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let (_, already) = head(&stream);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(already + rest.len(), LENGTH);
        let took = cpu::Clock.now().since(begun);
        assert!(took > Duration::from_millis(1_200), "{took:?}");
    });
}

/// A request that is long, to an upstream that takes none of it.
#[test]
fn a_client_waits_for_an_upstream_that_takes_nothing() {
    let passage: &'static Passage = Box::leak(Box::default());
    let upstream = |mut stream: TcpStream| {
        let (head, already) = head(&stream);
        assert!(head.contains(&format!("Content-Length: {BODY}")), "{head}");
        assert_eq!(passage.take(&stream, already), BODY);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        // It is closed once it has answered.
        let _ = stream.read(&mut [0]);
    };
    serve("nginx-client-waits", upstream, move |server| {
        let before = resident(server);
        let mut stream = TcpStream::connect(ADDRESS).unwrap();
        stream.write_all(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY}\r\n\r\n").as_bytes()).unwrap();
        thread::scope(|scope| {
            let sender = stream.try_clone().unwrap();
            scope.spawn(move || passage.send(&sender));
            assert_bounded(passage.watch(server), before);
        });
        let (head, _) = head(&stream);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    });
}
