//! Heads whose lines end in LF alone, mutated: through nginx, through us, and through
//! nginx in front of us, to an upstream that takes nothing but CR LF. No two read a stream
//! as other requests: one may refuse where another goes on, and no more.

use crate::NGINX;
use interop::{Nearside, Running, in_namespace, scratch};
use random::SplitMix64;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

/// How many streams.
const STREAMS: usize = 480;

/// Clients at a time.
const CLIENTS: usize = 24;

/// What streams are made of.
const WHOLE: [&str; 6] = [
    "GET /one HTTP/1.1\r\nHost: a\r\nX-Field: v\r\n\r\nGET /two?x HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /one HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\nGET /within HTTP/1.1\r\nX: y\r\n\
     GET /two HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /one HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
     1b\r\nGET /within HTTP/1.1\r\nX: y\r\n\r\n0\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /one HTTP/1.1\r\nX: y\r\nHost: a\r\nContent-Length: 0\r\n\r\nPUT /two HTTP/1.1\r\nHost: a\r\n\
     Content-Length: 4\r\n\r\n\r\n\r\nGET /three HTTP/1.0\r\n\r\n",
    "\r\nGET /one HTTP/1.1\r\nHost: a\r\nX: GET /within HTTP/1.1\r\nY:\r\n\r\nHEAD /two HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /one HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloPOST /two HTTP/1.1\r\nHost: a\r\n\
     Transfer-Encoding: chunked\r\n\r\n5\r\nworld\r\n0\r\nT: v\r\n\r\nGET /three HTTP/1.1\r\nHost: a\r\n\r\n",
];

/// What stands in place of CR LF, more often what is a line's end.
const ENDS: [&str; 12] = ["\n", "\n", "\n", "\n", "\r\n", "\r\n", "\r", "\n\r\n", "\r\r\n", "\n\n", "\n ", " \n"];

fn mutated(number: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(number as u64);
    let whole = WHOLE[number % WHOLE.len()];
    // Every other one has sound ends alone.
    let ends = if random.below(2) == 0 { &ENDS[..6] } else { &ENDS };
    let parts: Vec<&str> = whole.split("\r\n").collect();
    let mut out = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        out.extend_from_slice(part.as_bytes());
        if at + 1 < parts.len() {
            out.extend_from_slice(ends[random.below(ends.len())].as_bytes());
        }
    }
    out
}

/// What a strict server reads: each request with its body, by the stream that it is of.
type ReadRequests = Arc<Mutex<BTreeMap<usize, Vec<String>>>>;

/// An upstream that takes what RFC 9112 defines, and nothing else.
fn upstream(address: &str) -> ReadRequests {
    let listener = TcpListener::bind(address).unwrap();
    let read = ReadRequests::default();
    let all = Arc::clone(&read);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let all = Arc::clone(&all);
            thread::spawn(move || serve(stream, &all));
        }
    });
    read
}

/// One request, for the servers in front are told to close.
fn serve(mut stream: TcpStream, all: &ReadRequests) {
    let (mut held, mut piece) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(end) = memchr::memmem::find(&held, b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) if held.is_empty() => return,
            Ok(0) | Err(_) => break held.len(),
            Ok(read) => held.extend_from_slice(&piece[..read]),
        }
    };
    let head = String::from_utf8_lossy(&held[..end]).into_owned();
    let field = |name: &str| {
        let lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect::<Vec<_>>()
    };
    let sound = !head.replace("\r\n", "").contains(['\r', '\n']) && held.len() > end;
    let length = field("Content-Length").first().map_or(0, |length| length.parse::<usize>().unwrap_or(usize::MAX));
    let mut body = held.split_off((end + 4).min(held.len()));
    while body.len() < length {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(read) => body.extend_from_slice(&piece[..read]),
        }
    }
    let line = head.split("\r\n").next().unwrap_or_default().rsplit_once(' ').unwrap_or_default().0;
    let fields: Vec<_> = ["X-Field", "X", "Y", "T", "Transfer-Encoding"].map(field).into();
    let told = match sound && body.len() == length {
        true => format!("{line} {fields:?} {}", body.escape_ascii()),
        false => format!("MALFORMED {} | {}", head.escape_debug(), body.escape_ascii()),
    };
    let of = field("Stream").first().and_then(|number| number.rsplit('.').next()?.parse().ok()).unwrap_or(0);
    let of = of + 256 * field("Stream").first().and_then(|number| number.split('.').nth(2)?.parse().ok()).unwrap_or(0);
    all.lock().unwrap().entry(of).or_default().push(told);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
}

/// A server of `program` on `port`; its clients' addresses, or what it was told of them,
/// go on in `Stream`.
fn configuration(port: u16, to: u16, from: &str) -> String {
    format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log crit;\n\
         events {{}}\nhttp {{ access_log off; client_body_temp_path body; proxy_temp_path proxy;\n\
         keepalive_timeout 400ms; client_header_timeout 400ms; client_body_timeout 400ms; lingering_close off;\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{to}; proxy_http_version 1.1;\n\
         proxy_set_header Connection close; proxy_set_header Stream {from}; }} }} }}\n"
    )
}

fn start(folder: &Path, name: &str, mut command: Command, text: &str, port: u16) -> Running {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("nginx.conf"), text).unwrap();
    command.arg("-p").arg(&folder).args(["-c", "nginx.conf", "-e", "stderr"]);
    let mut running = Running::start(&mut command);
    running.wait_until_open(&format!("127.0.0.1:{port}"));
    running
}

/// Sends a stream from an address of its own, and waits until the server closes: it does
/// so once nothing more comes.
fn send(number: usize, port: u16) {
    let own = SocketAddrV4::new(Ipv4Addr::new(127, 1, (number / 256) as u8, (number % 256) as u8), 0);
    let one = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&one, &SocketAddr::V4(own)).unwrap();
    connect(&one, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    let mut stream = TcpStream::from(one);
    let _ = stream.write_all(&mutated(number));
    let _ = stream.read_to_end(&mut Vec::new());
    let _ = stream.shutdown(Shutdown::Both);
}

fn send_all(port: u16) {
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || (client + 1..=STREAMS).step_by(CLIENTS).for_each(|number| send(number, port)));
        }
    });
}

#[test]
fn no_two_read_a_stream_as_other_requests() {
    in_namespace(&[NGINX], || {
        let folder = scratch("nginx-line-feeds");
        let nginx = || Command::new("nginx");
        let ours = || Nearside::command(["nginx"]);
        let of_client = "$remote_addr";
        let read = [upstream("127.0.0.1:9001"), upstream("127.0.0.1:9002"), upstream("127.0.0.1:9003")];
        let running = [
            start(&folder, "nginx", nginx(), &configuration(8001, 9001, of_client), 8001),
            start(&folder, "ours", ours(), &configuration(8002, 9002, of_client), 8002),
            start(&folder, "behind", ours(), &configuration(8013, 9003, "$http_stream"), 8013),
            start(&folder, "front", nginx(), &configuration(8003, 8013, of_client), 8003),
        ];
        for port in [8001, 8002, 8003] {
            send_all(port);
        }
        let [theirs, ours, behind] = read.map(|read| read.lock().unwrap().clone());
        running.into_iter().for_each(|running| drop(running.stop()));
        let (mut taken, none) = (0, Vec::new());
        for number in 1..=STREAMS {
            let sent = mutated(number).escape_ascii().to_string();
            let [theirs, ours, behind] = [&theirs, &ours, &behind].map(|read| read.get(&number).unwrap_or(&none));
            let alike = |one: &[String], other: &[String]| one.iter().zip(other).all(|(one, other)| one == other);
            assert!(alike(theirs, ours), "{sent}\nnginx: {theirs:#?}\nours: {ours:#?}");
            assert_eq!(behind, theirs, "{sent}\nbehind nginx");
            let all = [theirs, ours].into_iter().flatten();
            assert!(!all.clone().any(|one| one.starts_with("MALFORMED")), "{sent}\n{theirs:#?}\n{ours:#?}");
            taken += usize::from(ours.len() >= 2 && sent.replace("\\r\\n", "").contains("\\n"));
        }
        // Most are of sound heads.
        assert!(taken > STREAMS / 6, "{taken}");
    });
}

/// What upstreams say, and what comes of it: the status, and where it is 200 the content.
const ANSWERS: [(&str, &str, &str); 7] = [
    ("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "200", "ok"),
    ("HTTP/1.1 200 OK\nContent-Length: x\n\nok", "502", ""),
    ("HTTP/1.1 200 OK\nContent-Length: 2\nContent-Length: 3\n\nok", "502", ""),
    ("HTTP/1.1 200 OK\nContent-Length: 2\nTransfer-Encoding: chunked\n\nok", "502", ""),
    ("HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nX: y\r\nContent-Length: x\n\nok", "502", ""),
    ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\nContent-Length: x\n\nok", "502", ""),
    ("HTTP/1.1 103 Early Hints\nLink: a\n\nHTTP/1.1 200 OK\nContent-Length: 2\r\n\nok", "200", "ok"),
];

#[test]
fn what_answers_with_line_feeds_alone_say_is_looked_at_as_of_others() {
    in_namespace(&[], || {
        let folder = scratch("nginx-line-feeds-answers");
        let listener = TcpListener::bind("127.0.0.1:9004").unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (mut held, mut piece) = (Vec::new(), [0; 4096]);
                while !held.ends_with(b"\r\n\r\n") {
                    let read = stream.read(&mut piece).unwrap();
                    held.extend_from_slice(&piece[..read]);
                }
                let number: usize = String::from_utf8_lossy(&held).split(['/', ' ']).nth(2).unwrap().parse().unwrap();
                stream.write_all(ANSWERS[number].0.as_bytes()).unwrap();
            }
        });
        let ours = configuration(8004, 9004, "x");
        let running = start(&folder, "answers", Nearside::command(["nginx"]), &ours, 8004);
        for (number, (answer, status, content)) in ANSWERS.into_iter().enumerate() {
            let mut stream = TcpStream::connect("127.0.0.1:8004").unwrap();
            write!(stream, "GET /{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let mut came = String::new();
            stream.read_to_string(&mut came).unwrap();
            assert!(came.starts_with(&format!("HTTP/1.1 {status} ")), "{}: {came}", answer.escape_debug());
            assert!(came.ends_with(content), "{}: {came}", answer.escape_debug());
        }
        drop(running.stop());
    });
}
