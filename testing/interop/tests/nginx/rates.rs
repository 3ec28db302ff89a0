//! Answers that are sent at a rate leave evenly: what may be sent in a second does not leave at its beginning,
//! over kernel sockets and over our own stack; and who is answered after that has all at once.

use crate::operators::ADDRESS;
use interop::{Nearside, Running, TAP, in_namespace, ip, scratch};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

const STACK: &str = "10.9.0.2:80";

/// Files: one that is kept in memory, and one that is read as it is sent.
const FILES: [(&str, usize); 2] = [("short", 900_000), ("long", 3_000_000)];

/// Bytes a second of each.
const RATES: [usize; 2] = [300_000, 1_000_000];

/// What goes at once before the rate counts, where a place says so.
const AFTER: usize = 1_000_000;

/// More may be there than the rate has by then: ten segments, which Linux does not pace, what it
/// makes segments of at a time, and a head.
const BURST: usize = 10 * 1_460 + 2 * 65_536;

fn configuration(listen: &str) -> String {
    let mut places = String::new();
    for (prefix, more) in [
        ("", String::new()),
        ("later-", format!("limit_rate_after {AFTER};")),
        ("changed-", "sub_filter zzz yyy; sub_filter_types *;".to_owned()),
        ("passed-", "proxy_pass http://127.0.0.1:81/;".to_owned()),
    ] {
        for ((name, _), rate) in FILES.into_iter().zip(RATES) {
            let _ = writeln!(places, "location /{prefix}{name}/ {{ limit_rate {rate}; alias www/; {more} }}");
        }
    }
    let places = places.replace("alias www/; proxy_pass", "proxy_pass");
    let unbuffered = "location /unbuffered/ { limit_rate 1500; proxy_buffering off; proxy_pass http://127.0.0.1:81/; }";
    of_servers(&format!("server {{ listen {listen}; {places} {unbuffered} location /free/ {{ alias www/; }} }}"))
}

fn of_servers(servers: &str) -> String {
    format!(
        "user root; worker_processes 1; daemon off; pid pid; error_log error.log crit; events {{}}\n\
         http {{ access_log off; {servers} }}\n"
    )
}

/// Who serves these files by a configuration.
fn serve(name: &str, configuration: &str, (address, link): (&str, &[&str])) -> Running {
    let folder = scratch("nginx-rates").join(name);
    fs::create_dir_all(folder.join("www")).unwrap();
    for (name, length) in FILES {
        fs::write(folder.join("www").join(name), vec![b'x'; length]).unwrap();
    }
    let www = folder.join("www");
    let configuration = configuration.replace("www/", &format!("{}/", www.display()));
    fs::write(folder.join("nginx.conf"), configuration).unwrap();
    let mut command = Nearside::command(["nginx", "-e", "error.log"]);
    command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).args(link);
    let mut server = Running::start(&mut command);
    server.wait_until_open(address);
    server
}

/// Takes an answer's content of this length: at which times how much of it had come.
fn take(stream: &mut TcpStream, path: &str, length: usize) -> Vec<(Duration, usize)> {
    let begun = cpu::Clock.now();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let (mut bytes, mut head, mut tail) = (vec![0; 64 << 10], Vec::new(), Vec::new());
    let (mut came, mut told) = (0, Vec::new());
    loop {
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{path} ends after {came}");
        if head.ends_with(b"\r\n\r\n") {
            came += count;
        } else {
            assert!(head.len() < 4_096, "{path}: {}", String::from_utf8_lossy(&head[..256]));
            head.extend_from_slice(&bytes[..count]);
            let Some(at) = head.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
            came = head.len() - at - 4;
            head.truncate(at + 4);
        }
        told.push((cpu::Clock.now().since(begun), came));
        tail.extend_from_slice(&bytes[count.saturating_sub(5)..count]);
        tail.drain(..tail.len().saturating_sub(5));
        // Content that is changed comes in chunks, which are a little longer.
        let in_chunks = head.windows(7).any(|word| word == b"chunked");
        if came >= length && (!in_chunks || tail == b"0\r\n\r\n") {
            break;
        }
    }
    assert!(head.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&head));
    told
}

/// Asks for one on a connection of its own, and then for a long one that has no rate.
fn ask(address: &str, prefix: &str, number: usize) {
    let ((name, length), rate) = (FILES[number], RATES[number]);
    let path = format!("/{prefix}{name}/{name}");
    let mut stream = TcpStream::connect(address).unwrap();
    let told = take(&mut stream, &path, length);
    let after = if prefix == "later-" { AFTER } else { 0 };
    for (since, came) in &told {
        // After what goes at once comes the first second's, as nginx has it.
        let seconds = if after > 0 { since.as_secs_f64().max(1.0) } else { since.as_secs_f64() };
        let due = after + (seconds * rate as f64) as usize + BURST;
        assert!(*came <= due, "{address}{path}: {came} after {since:?}, {due} are due");
    }
    let (last, _) = told.last().unwrap();
    let whole = Duration::from_secs_f64(length.saturating_sub(after) as f64 / rate as f64);
    assert!(*last < whole + Duration::from_secs(3), "{address}{path}: {last:?} for {whole:?}");
    let (name, length) = FILES[1];
    let told = take(&mut stream, &format!("/free/{name}"), length);
    let (last, _) = told.last().unwrap();
    // At a rate it would take thrice as long, or ten times.
    assert!(*last < Duration::from_secs(2), "{address}{path}, and then without a rate: {last:?}");
}

#[test]
fn what_is_sent_at_a_rate_leaves_evenly() {
    const LINK: &[&str] = &["--link", TAP, "--addr", "10.9.0.2/24"];
    const UPSTREAM: &str = "127.0.0.1:81";
    in_namespace(&[], || {
        // Ten of its own segments are all that is sent here.
        ip("link set lo mtu 1500");
        let upstream = of_servers(&format!("server {{ listen {UPSTREAM}; location / {{ alias www/; }} }}"));
        let upstream = serve("upstream", &upstream, (UPSTREAM, &[]));
        for (name, listen, address, link) in [("sockets", ADDRESS, ADDRESS, &[][..]), ("stack", "80", STACK, LINK)] {
            let server = serve(name, &configuration(listen), (address, link));
            thread::scope(|scope| {
                scope.spawn(move || {
                    // What goes on as it comes has its upstream's rate, with nginx as well.
                    let (name, length) = FILES[0];
                    let mut stream = TcpStream::connect(address).unwrap();
                    let told = take(&mut stream, &format!("/unbuffered/{name}"), length);
                    let (last, _) = told.last().unwrap();
                    assert!(*last < Duration::from_secs(60), "{address}: {last:?}, ten minutes at that rate");
                });
                for prefix in ["", "later-", "changed-", "passed-"] {
                    for number in 0..FILES.len() {
                        scope.spawn(move || ask(address, prefix, number));
                    }
                }
            });
            server.stop();
        }
        upstream.stop();
        fs::remove_dir_all(scratch("nginx-rates")).unwrap();
    });
}

/// Of what a rate lets go so seldom, less than the send timeout asks for may leave within that: the client is not
/// to blame.
#[test]
fn no_client_is_late_with_what_waits_for_its_rate() {
    const LINK: &[&str] = &["--link", TAP, "--addr", "10.9.0.2/24"];
    const RATE: usize = 1_500;
    const LOOKS: Duration = Duration::from_secs(8);
    in_namespace(&[], || {
        ip("link set lo mtu 1500");
        let servers = [("seldom-sockets", ADDRESS, ADDRESS, &[][..]), ("seldom-stack", "80", STACK, LINK)];
        let servers = servers.map(|(name, listen, address, link)| {
            let place = format!(
                "location / {{ send_timeout 500ms; limit_rate {RATE}; alias www/; }} \
                                 location = /page {{ limit_rate 1; return 200 page; }} \
                                 location /later/ {{ limit_rate {RATE}; limit_rate_after 897k; alias www/; }} \
                                 location /free/ {{ alias www/; }}"
            );
            let configuration = of_servers(&format!("server {{ listen {listen}; {place} }}"));
            (serve(name, &configuration, (address, link)), address)
        });
        thread::scope(|scope| {
            for (_, address) in &servers {
                for path in ["/page", "/later/short"] {
                    scope.spawn(move || {
                        // What comes next does not wait for what the last segment takes at that rate.
                        let mut stream = TcpStream::connect(address).unwrap();
                        take(&mut stream, path, if path == "/page" { 4 } else { FILES[0].1 });
                        let told = take(&mut stream, "/free/short", FILES[0].1);
                        let (last, _) = told.last().unwrap();
                        assert!(*last < Duration::from_secs(4), "{address}: {last:?} behind {path}");
                    });
                }
                scope.spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.write_all(b"GET /short HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                    let begun = cpu::Clock.now();
                    let (mut bytes, mut came) = (vec![0; 64 << 10], 0);
                    while cpu::Clock.now().since(begun) < LOOKS {
                        let count =
                            stream.read(&mut bytes).unwrap_or_else(|why| panic!("{address}: {why} after {came}"));
                        assert!(count > 0, "{address}: the end, after {came}");
                        came += count;
                    }
                    let due = LOOKS.as_secs() as usize * RATE + BURST;
                    assert!(came <= due, "{address}: {came} bytes, {due} are due");
                });
            }
        });
        servers.into_iter().for_each(|(server, _)| server.stop_at_once());
    });
}
