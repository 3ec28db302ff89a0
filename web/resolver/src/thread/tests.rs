use crate::message::tests::{answer, record};
use crate::{Resolution, ResolveError, Resolver, ResolverRules};
use core::time::Duration;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;

/// How a question over TCP is answered: with 70 addresses.
fn long(question: &[u8]) -> Vec<u8> {
    let records: Vec<_> = (0..70).map(|last| record(b"\xc0\x0c", 1, 60, &[10, 0, 0, last])).collect();
    answer(question, 0, &records, &[])
}

/// Answers three questions: with an address behind a guess, with what is too long, with
/// nothing.
fn answer_datagrams(datagrams: UdpSocket) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 600];
        for step in 0..3 {
            let (length, from) = datagrams.recv_from(&mut buffer).unwrap();
            let question = &buffer[..length];
            let mut right = answer(question, 0, &[record(b"\xc0\x0c", 1, 60, &[10, 0, 0, 9])], &[]);
            match step {
                0 => {
                    let mut wrong = right.clone();
                    wrong[0] ^= 1;
                    datagrams.send_to(&wrong, from).unwrap();
                }
                1 => {
                    right = answer(question, 0, &[], &[]);
                    right[2] |= 2;
                }
                _ => right = answer(question, 3, &[], &[]),
            }
            datagrams.send_to(&right, from).unwrap();
        }
    })
}

/// Answers one question over TCP, in small pieces.
fn answer_stream(streams: TcpListener) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut stream, _) = streams.accept().unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut question).unwrap();
        let message = long(&question);
        let whole = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
        for piece in whole.chunks(7) {
            stream.write_all(piece).unwrap();
        }
    })
}

#[test]
fn names_are_resolved_by_a_server_on_this_machine() {
    // The same port for both: taken for one, it may not be free for the other.
    let (datagrams, streams) = (0..100)
        .find_map(|_| {
            let streams = TcpListener::bind("127.0.0.1:0").unwrap();
            UdpSocket::bind(streams.local_addr().unwrap()).ok().map(|datagrams| (datagrams, streams))
        })
        .expect("a port for both");
    let server = streams.local_addr().unwrap();
    let (ended, streams) = (answer_datagrams(datagrams), answer_stream(streams));
    let event = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    let mut resolver = Resolver::start(&[]).unwrap();
    resolver.wake_by(&event);
    let timeout = Duration::from_secs(300);
    let rules = Arc::new(ResolverRules { servers: vec![server], valid: None, v4: true, v6: false, timeout });
    let mut ask = |ticket: u64, name: &[u8]| {
        resolver.ask(ticket, &rules, name, None).unwrap();
        loop {
            poll(&mut [PollFd::new(&event, PollFlags::IN)], None).unwrap();
            let _ = rustix::io::read(&event, &mut [0; 8]);
            if resolver.arrived()
                && let Some((told, answer)) = resolver.take()
            {
                assert_eq!(told, ticket);
                return answer.found.map(|found| match found {
                    Resolution::Addresses(addresses) => addresses.to_vec(),
                    Resolution::Service(_) => Vec::new(),
                });
            }
        }
    };
    assert_eq!(ask(7, b"short.example"), Ok(vec![[10, 0, 0, 9].into()]));
    assert_eq!(ask(8, b"short.example"), Ok(vec![[10, 0, 0, 9].into()]), "by heart");
    let mut all = ask(9, b"long.example").unwrap();
    all.sort();
    assert_eq!((all.len(), all[0]), (crate::message::ADDRESSES_MAX, [10, 0, 0, 0].into()));
    assert_eq!(ask(10, b"none.example"), Err(ResolveError::NotFound));
    assert_eq!(ask(11, b"no host"), Err(ResolveError::BadName));
    ended.join().unwrap();
    streams.join().unwrap();
}
