//! Upstreams that fail at any byte and clients that leave at any byte, on real sockets:
//! what a client is given is its own, what is missing shows, and nothing is left open.

use interop::{Nearside, Running, in_namespace, scratch, wait_for};
use random::SplitMix64;
use rustix::net::sockopt::set_socket_linger;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How many requests, unless `NEARSIDE_FAULTS` says otherwise.
const REQUESTS: usize = 1_000;

/// Clients at a time, and requests that one sends at once on a connection.
const CLIENTS: usize = 8;
const AT_ONCE: usize = 3;

/// How an answer tells where it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    Length,
    Chunks,
    Close,
}

/// What becomes of it on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Whole,
    /// More comes than was said.
    Surplus,
    /// Its upstream closes, or resets, behind so many bytes of it.
    Closed(usize),
    Reset(usize),
    /// Nothing more comes behind so many.
    Silent(usize),
    /// It is none.
    Garbage,
}

/// All of one request, which both sides know by its number.
struct Plan {
    number: usize,
    ends: Ends,
    fate: Fate,
    body: Vec<u8>,
    /// What is sent along.
    sent: Vec<u8>,
    /// Bytes that the upstream writes at a time.
    piece: usize,
}

impl core::fmt::Debug for Plan {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { number, ends, fate, body, sent, piece } = self;
        let (body, sent) = (body.len(), sent.len());
        write!(f, "{number}: {body} bytes {ends:?} {fate:?}, {piece} at a time, after {sent}")
    }
}

/// What nothing else has.
fn stamped(number: usize, length: usize) -> Vec<u8> {
    format!("<{number}>").bytes().cycle().take(length).collect()
}

impl Plan {
    fn of(number: usize) -> Self {
        let mut random = SplitMix64::new(number as u64);
        let ends = [Ends::Length, Ends::Chunks, Ends::Close][random.below(3)];
        let most = [1, 100, 5_000, 200_000][random.below(4)];
        let mut plan = Self {
            number,
            ends,
            fate: Fate::Whole,
            body: stamped(number, 1 + random.below(most)),
            sent: Vec::new(),
            piece: [7, 1_000, 1 << 20][random.below(3)].max(most / 20),
        };
        if random.below(4) == 0 {
            plan.sent = stamped(number, [10, 40_000][random.below(2)]);
        }
        let answer = plan.answer();
        // Every other time behind a line.
        let lines = answer.windows(2).enumerate().filter(|(_, two)| two == b"\r\n").map(|(at, _)| at + 2);
        let lines: Vec<usize> = lines.filter(|at| *at < answer.len()).collect();
        let at = match random.below(2) {
            0 => lines[random.below(lines.len())],
            _ => random.below(answer.len()),
        };
        plan.fate = match random.below(10) {
            0 | 1 => Fate::Closed(at),
            2 => Fate::Reset(at),
            3 => Fate::Silent(at),
            4 => Fate::Garbage,
            // Where only the end of the connection tells, there is nothing behind it.
            5 if ends != Ends::Close => Fate::Surplus,
            _ => Fate::Whole,
        };
        plan
    }

    /// The answer, as if nothing was wrong with it.
    fn answer(&self) -> Vec<u8> {
        let ends = match self.ends {
            Ends::Length => format!("Content-Length: {}\r\n", self.body.len()),
            Ends::Chunks => "Transfer-Encoding: chunked\r\n".to_owned(),
            Ends::Close => String::new(),
        };
        // Else another request could be on its way when it closes.
        let close = if self.keeps() { "" } else { "Connection: close\r\n" };
        let mut out = format!("HTTP/1.1 200 OK\r\n{ends}{close}\r\n").into_bytes();
        if self.ends != Ends::Chunks {
            out.extend_from_slice(&self.body);
            return out;
        }
        for chunk in self.body.chunks(1 + self.body.len() / 3) {
            out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"0\r\n\r\n");
        out
    }

    /// Whether its upstream answers another one on the same connection.
    fn keeps(&self) -> bool {
        self.fate == Fate::Whole && self.ends != Ends::Close && (self.number / 3).is_multiple_of(2)
    }

    fn request(&self) -> Vec<u8> {
        let places = ["kept", "new", "streamed"];
        let place = if matches!(self.fate, Fate::Silent(_)) { "silent" } else { places[self.number % 3] };
        let method = if self.sent.is_empty() { "GET" } else { "POST" };
        let length = self.sent.len();
        let head = format!("{method} /{place}/{} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n", self.number);
        [head.as_bytes(), &self.sent].concat()
    }

    /// Whether a client may be given this.
    fn allows(&self, answer: &Given) -> bool {
        let is_part = self.body.starts_with(&answer.body);
        match (answer.status, self.fate) {
            (200, Fate::Whole | Fate::Surplus) => answer.is_whole && answer.body == self.body,
            // Nobody can tell that something is missing.
            (200, Fate::Closed(_)) if self.ends == Ends::Close => is_part,
            (200, Fate::Closed(_) | Fate::Reset(_) | Fate::Silent(_)) => is_part && !answer.is_whole,
            (502, Fate::Closed(_) | Fate::Reset(_) | Fate::Garbage) | (504, Fate::Silent(_)) => true,
            _ => false,
        }
    }
}

/// What a client is given.
struct Given {
    status: u16,
    body: Vec<u8>,
    is_whole: bool,
}

/// The upstream: each connection is one thread's.
fn answer_all(listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        thread::spawn(move || while answer_one(&stream).is_some() {});
    }
}

/// Answers one request; nothing if no other follows.
fn answer_one(mut stream: &TcpStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head);
    let number = text.split(' ').nth(1)?.rsplit('/').next()?.parse().ok()?;
    let plan = Plan::of(number);
    let mut sent = vec![0; plan.sent.len()];
    stream.read_exact(&mut sent).ok()?;
    if sent != plan.sent {
        // No plan has this status.
        let _ = stream.write_all(b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n");
        return None;
    }
    let (mut bytes, end) = (plan.answer(), plan.fate);
    match end {
        Fate::Closed(at) | Fate::Reset(at) | Fate::Silent(at) => bytes.truncate(at),
        Fate::Surplus => bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanothe"),
        Fate::Garbage => bytes = b"SSH-2.0-none of this is HTTP\r\n\r\n".to_vec(),
        Fate::Whole => {}
    }
    for piece in bytes.chunks(plan.piece) {
        stream.write_all(piece).ok()?;
        if plan.piece < bytes.len() && plan.number.is_multiple_of(5) {
            thread::sleep(Duration::from_millis(1));
        }
    }
    match end {
        Fate::Reset(_) => set_socket_linger(stream, Some(Duration::ZERO)).ok().and(None),
        // Until it is given up.
        Fate::Silent(_) => stream.read(&mut [0]).ok().and(None),
        _ => plan.keeps().then_some(()),
    }
}

/// Sends some requests at once, and takes what comes; sometimes not all of it.
fn ask(address: &str, numbers: core::ops::Range<usize>) -> Result<usize, String> {
    let plans: Vec<Plan> = numbers.map(Plan::of).collect();
    let Some(first) = plans.first() else { return Ok(0) };
    let mut random = SplitMix64::new(!(first.number as u64));
    let mut stream = TcpStream::connect(address).map_err(|e| e.to_string())?;
    let requests: Vec<u8> = plans.iter().flat_map(Plan::request).collect();
    let leaves = (random.below(6) == 0).then(|| random.below(20_000));
    let mut reader = stream.try_clone().map_err(|e| e.to_string())?;
    // Who answers may wait for its answers to be taken before it reads on.
    let writer = thread::spawn(move || {
        let last = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(&[&requests[..], last].concat());
    });
    let mut came = Vec::new();
    let mut piece = [0; 4096];
    let ended = loop {
        if leaves.is_some_and(|most| came.len() >= most) {
            let _ = set_socket_linger(&reader, (first.number % 3 == 0).then_some(Duration::ZERO));
            let _ = reader.shutdown(std::net::Shutdown::Both);
            break Ok(());
        }
        match reader.read(&mut piece) {
            Ok(0) => break Ok(()),
            Ok(length) => came.extend_from_slice(&piece[..length]),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => break Ok(()),
            Err(e) => break Err(format!("{e}; came {}; {plans:?}", came.escape_ascii())),
        }
    };
    drop(reader);
    writer.join().map_err(|_| "the writer failed".to_owned())?;
    ended?;
    judge(&plans, &came, leaves.is_some())
}

/// Whether all of it is as planned; how many answers were whole.
fn judge(plans: &[Plan], came: &[u8], left: bool) -> Result<usize, String> {
    let (mut rest, mut whole) = (came, 0);
    for plan in plans {
        let Some(given) = next_answer(&mut rest) else {
            // Nothing at all came of it: only who leaves may see that.
            return if left { Ok(whole) } else { Err(format!("no answer to {plan:?} in {}", came.escape_ascii())) };
        };
        let is_part = !given.is_whole && plan.body.starts_with(&given.body);
        if !(plan.allows(&given) || left && is_part) {
            let Given { status, body, is_whole } = given;
            let body = body.escape_ascii();
            return Err(format!("{plan:?} was answered with {status}, whole: {is_whole}, {body}"));
        }
        if !given.is_whole {
            return Ok(whole);
        }
        whole += usize::from(given.status == 200);
    }
    match next_answer(&mut rest) {
        Some(last) if last.status == 200 && rest.is_empty() => Ok(whole),
        _ if left => Ok(whole),
        _ => Err(format!("behind {plans:?} came {}", came.escape_ascii())),
    }
}

/// The answer that `rest` begins with.
fn next_answer(rest: &mut &[u8]) -> Option<Given> {
    let end = rest.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let (head, behind) = rest.split_at(end);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let mut given = Given { status, body: Vec::new(), is_whole: true };
    *rest = behind;
    if let Some(length) = field("content-length:") {
        let length: usize = length.parse().ok()?;
        let there = length.min(rest.len());
        given.is_whole = there == length;
        given.body = rest[..there].to_vec();
        *rest = &rest[there..];
        return Some(given);
    }
    if field("transfer-encoding:") != Some("chunked") {
        return None;
    }
    loop {
        let chunk = rest.windows(2).position(|two| two == b"\r\n").and_then(|end| {
            let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
            Some((end + 2, size))
        });
        let Some((start, size)) = chunk else {
            given.is_whole = false;
            return Some(given);
        };
        let there = size.min(rest.len() - start);
        given.body.extend_from_slice(&rest[start..start + there]);
        given.is_whole = rest.len() >= start + size + 2;
        *rest = rest.get(start + size + 2..).unwrap_or_default();
        if size == 0 || !given.is_whole {
            return Some(given);
        }
    }
}

const CONFIGURATION: &str = "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log crit;\n\
    events {}\n\
    http {\n\
    access_log off; proxy_next_upstream off;\n\
    upstream kept { server 127.0.0.1:9000; keepalive 8; keepalive_timeout 1s; }\n\
    server {\n\
    listen 127.0.0.1:80;\n\
    location /kept/ { proxy_http_version 1.1; proxy_set_header Connection ''; proxy_pass http://kept; }\n\
    location /streamed/ { proxy_http_version 1.1; proxy_set_header Connection ''; proxy_request_buffering off; \
    proxy_pass http://kept; }\n\
    location /new/ { proxy_pass http://127.0.0.1:9000; }\n\
    location /silent/ { proxy_read_timeout 50ms; proxy_pass http://127.0.0.1:9000; }\n\
    location /last { return 200 last; }\n\
    } }\n";

/// Descriptors of pipes that a worker keeps for the next long body (`sockets::pipes`).
const PIPES_KEPT: usize = 2 * 8;

/// Descriptors that are no pipes, and pipes.
fn descriptors(server: &Running) -> (usize, usize) {
    let entries = fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().flatten();
    let named: Vec<_> = entries.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    let pipes = named.iter().filter(|name| name.to_string_lossy().starts_with("pipe:")).count();
    (named.len() - pipes, pipes)
}

#[test]
fn faults_of_upstreams_and_clients_mix_no_answers_and_leave_nothing() {
    let requests = std::env::var("NEARSIDE_FAULTS").map_or(REQUESTS, |count| count.parse().expect("a number"));
    in_namespace(&[], move || {
        let folder = scratch("nginx-faults");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("nginx.conf"), CONFIGURATION).unwrap();
        let listener = TcpListener::bind("127.0.0.1:9000").unwrap();
        thread::spawn(move || answer_all(&listener));
        let mut command = Nearside::command(["nginx"]);
        command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).args(["-e", "stderr"]);
        let mut server = Running::start(&mut command);
        let address = "127.0.0.1:80";
        server.wait_until_open(address);
        // What is made once is there.
        for number in 0..AT_ONCE * CLIENTS {
            ask(address, number..number + 1).unwrap();
        }
        wait_for("idle connections' end", || connections() == 0);
        let before = descriptors(&server);
        let (next, whole) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            let client = || {
                loop {
                    let number = next.fetch_add(AT_ONCE, Ordering::Relaxed);
                    if number >= requests {
                        return;
                    }
                    let count = ask(address, number..number + AT_ONCE).unwrap_or_else(|why| panic!("{why}"));
                    whole.fetch_add(count, Ordering::Relaxed);
                }
            };
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
        });
        // Most of them are cut at some byte: still some are whole.
        assert!(whole.load(Ordering::Relaxed) > requests / 10, "{whole:?} of {requests} were whole");
        wait_for("the end of all connections", || connections() == 0);
        wait_for("as many descriptors as before", || {
            let (others, pipes) = descriptors(&server);
            others == before.0 && pipes <= before.1 + PIPES_KEPT
        });
        server.stop();
    });
}

/// Connections of this namespace that are not over (proc_net_tcp(5)).
fn connections() -> usize {
    let text = fs::read_to_string("/proc/net/tcp").unwrap();
    // Neither listening (0A) nor waiting for segments that are late (06).
    text.lines().skip(1).filter(|line| !matches!(line.split_ascii_whitespace().nth(3), Some("0A" | "06"))).count()
}
