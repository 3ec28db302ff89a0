//! Clients that read later than their server has done with them: what it gave to the kernel by then is theirs.

use crate::NGINX;
use crate::operators::{ADDRESS, Server, both};
use interop::in_namespace;
use random::SplitMix64;
use rustix::process::Signal;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
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
    location /proxied/ { proxy_pass http://127.0.0.1:80/; } } }";

const READS_AFTER: Duration = Duration::from_millis(1_500);

/// More than the client's kernel takes before anybody reads, and less than the server's takes.
const LENGTH: usize = 900_000;

const REQUESTS: [&str; 7] = [
    "GET /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /long HTTP/1.0\r\n\r\n",
    "GET /always HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /off HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /kept HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /gzip HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
    "GET /proxied/long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
];

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
        let [theirs, ours] = read;
        assert_eq!(ours, (vec![whole; REQUESTS.len()], whole));
        assert_eq!(theirs, ours);
    });
}
