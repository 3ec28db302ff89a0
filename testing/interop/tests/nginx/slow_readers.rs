//! Clients that read later than their server has done with them: what it gave to the kernel by then is theirs.

use crate::NGINX;
use crate::operators::{ADDRESS, Server, both};
use interop::in_namespace;
use random::SplitMix64;
use rustix::process::Signal;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Longer than any of these times they read nothing.
const CONF: &str = "\
    http { access_log off; root www; lingering_timeout 300ms; lingering_time 500ms; gzip_types *;\n\
    server { listen 127.0.0.1:80;\n\
    location /always { lingering_close always; try_files /long =404; }\n\
    location /off { lingering_close off; try_files /long =404; }\n\
    location /kept { keepalive_timeout 300ms; try_files /long =404; }\n\
    location /gzip { gzip on; try_files /long =404; }\n\
    location /cut/ { proxy_pass http://127.0.0.1:81; proxy_http_version 1.1; }\n\
    location /proxied/ { proxy_pass http://127.0.0.1:80/; } } }";

const READS_AFTER: Duration = Duration::from_millis(1_500);

/// More than the client's kernel takes before anybody reads, and less than the server's takes.
const LENGTH: usize = 900_000;

const REQUESTS: [&str; 8] = [
    "GET /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /long HTTP/1.0\r\n\r\n",
    "GET /always HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /off HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /kept HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /gzip HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
    "GET /proxied/long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    CUT,
];

/// Its upstream ends amid its answer, of which only the connection's end tells where it is.
const CUT: &str = "GET /cut/ HTTP/1.0\r\n\r\n";

/// An upstream that sends a chunk, and ends without another.
fn end_early(listener: &TcpListener) {
    for mut stream in listener.incoming().flatten() {
        let _ = stream.read(&mut [0; 1_024]);
        let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{LENGTH:x}\r\n");
        let _ = stream.write_all(&[head.as_bytes(), &[b'x'; LENGTH], b"\r\n"].concat());
    }
}

/// How many bytes came behind the head, all told, and how it ended.
fn read_late(request: &str) -> (bool, Result<(), ErrorKind>) {
    let mut stream = TcpStream::connect(ADDRESS).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    thread::sleep(READS_AFTER);
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).map(drop).map_err(|why| why.kind());
    let body = bytes.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| bytes.len() - at - 4);
    // What is random packs into no less.
    (body >= LENGTH, ended)
}

#[test]
fn who_reads_late_has_all_of_it() {
    in_namespace(&[NGINX], || {
        let listener = TcpListener::bind("127.0.0.1:81").unwrap();
        thread::spawn(move || end_early(&listener));
        let read = both(|is_nginx| {
            let server = Server::start(is_nginx, "slow-readers", CONF);
            let mut random = SplitMix64::new(1);
            let long: Vec<u8> = (0..LENGTH).map(|_| random.bits() as u8).collect();
            fs::write(server.folder.join("www/long"), long).unwrap();
            let asked: Vec<_> = REQUESTS.into_iter().map(|request| thread::spawn(move || read_late(request))).collect();
            let ended = asked.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>();
            // And of one that stops meanwhile.
            let late = thread::spawn(|| read_late(REQUESTS[0]));
            thread::sleep(Duration::from_millis(200));
            server.running.signal(Signal::QUIT);
            (ended, late.join().unwrap())
        });
        let whole = (true, Ok(()));
        let expected = |cut| (REQUESTS.map(|request| if request == CUT { cut } else { whole }).to_vec(), whole);
        let [theirs, ours] = read;
        assert_eq!(theirs, expected(whole));
        // Where the end alone says that something is missing, ours says it by a reset, behind what there is.
        assert_eq!(ours, expected((true, Err(ErrorKind::ConnectionReset))));
    });
}
