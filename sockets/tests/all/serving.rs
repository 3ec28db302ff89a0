//! Serving: echo and the web server, under every accept model.

use crate::support::{ask, client, listen, listen_on, start, start_echo};
use app::Closed;
use sockets::{Config, ListenOptions, Model};
use std::io::{Read, Write};
use std::net::Shutdown;

#[test]
fn an_echo_is_the_same_bytes() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let running = start_echo(Config::default(), listeners.for_worker(0));
    let mut stream = client(address);
    for size in [1, 100, 5_000, 65_536, 65_537, 1_000_000] {
        let bytes: Vec<u8> = (0..size).map(|i: u32| ((i * 7) >> 3) as u8).collect();
        let mut half = stream.try_clone().unwrap();
        let sent = bytes.clone();
        let writer = std::thread::spawn(move || half.write_all(&sent).unwrap());
        let mut back = vec![0; bytes.len()];
        stream.read_exact(&mut back).unwrap();
        writer.join().unwrap();
        assert!(back == bytes, "{size} bytes");
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "our end is answered with theirs");
    let (echo, counters) = running.stop();
    assert_eq!(echo.closed, [Closed::Finished]);
    assert_eq!((counters.accepted, counters.closed, counters.connections), (1, 1, 0));
    assert_eq!(counters.received_bytes, counters.sent_bytes);
}

/// The default endpoint takes both families.
#[test]
fn both_families_on_one_socket() {
    let (listeners, address) = listen_on("0", &ListenOptions::default(), Model::Reuseport, 1);
    let running = start_echo(Config::default(), listeners.for_worker(0));
    ask(&mut client(([127, 0, 0, 1], address.port()).into()), b"four");
    ask(&mut client((core::net::Ipv6Addr::LOCALHOST, address.port()).into()), b"six");
    assert_eq!(running.stop().0.opened, 2);
}

#[test]
fn every_model_serves_under_several_workers() {
    for model in Model::ALL {
        let (listeners, address) = listen(model, 3);
        let config = || Config { model, ..Config::default() };
        let running: Vec<_> = (0..3).map(|at| start_echo(config(), listeners.for_worker(at))).collect();
        // Under `blocking` each worker serves one, to its end.
        let at_once = if model == Model::Blocking { 3 } else { 30 };
        for round in 0..30 / at_once {
            let mut streams: Vec<_> = (0..at_once).map(|_| client(address)).collect();
            for (index, stream) in streams.iter_mut().enumerate() {
                ask(stream, format!("{model} {round} {index}").as_bytes());
            }
        }
        let opened: u64 = running.into_iter().map(|worker| worker.stop().0.opened).sum();
        assert_eq!(opened, 30, "{model}");
    }
}

fn web(body: u64) -> server::Server {
    let config = server::Config::respond(server::Respond::Size(body));
    let clock = server::WallClock::new(cpu::Clock.now(), cpu::Clock.unix());
    server::Server::new(config, clock).unwrap()
}

/// Pipelined requests (RFC 9112 §9.3.2): their responses leave in one call.
#[test]
fn the_web_server_answers_a_pipeline() {
    const DEPTH: usize = 16;
    let (listeners, address) = listen(Model::Reuseport, 1);
    let running = start(Config::default(), listeners.for_worker(0), || web(100), |server| server.snapshot().requests);
    let mut stream = client(address);
    for _ in 0..3 {
        stream.write_all("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(DEPTH).as_bytes()).unwrap();
        let mut all = Vec::new();
        while all.windows(4).filter(|w| w == b"\r\n\r\n").count() < DEPTH {
            let mut buffer = [0; 65_536];
            let n = stream.read(&mut buffer).unwrap();
            assert!(n > 0);
            all.extend_from_slice(&buffer[..n]);
        }
    }
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    drop(stream);
    let (requests, counters) = running.stop();
    assert_eq!(requests, 3 * DEPTH as u64 + 1);
    assert!(counters.sends <= 3 * 2 + 1, "{} sends", counters.sends);
}
