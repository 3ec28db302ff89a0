//! A small DNS server, which answers rightly or not by what its names are set to.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

/// What is said of a name.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// These addresses, for so many seconds.
    V4(Vec<[u8; 4]>, u32),
    V6(Ipv6Addr, u32),
    /// Another name has them.
    Alias(&'static str),
    /// Hosts of a service: priority, weight, port, host.
    Hosts(Vec<(u16, u16, u16, &'static str)>, u32),
    /// A code in place of an answer.
    Code(u8),
    /// The same, over TCP alone.
    Long(Box<Told>),
    /// The same, behind datagrams that are others' or somebody's guesses: so many.
    Spoofed(Box<Told>, u32),
    /// Nothing.
    Silence,
}

/// Names, and what is said of them.
#[derive(Clone, Default)]
pub(crate) struct Names(Arc<Mutex<Zone>>);

#[derive(Default)]
struct Zone {
    told: HashMap<String, Told>,
    asked: HashMap<String, usize>,
    silent: bool,
}

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const SRV: u16 = 33;

impl Names {
    pub(crate) fn set(&self, name: &str, told: Told) {
        self.0.lock().unwrap().told.insert(name.to_owned(), told);
    }

    /// Whether nothing is answered.
    pub(crate) fn be_silent(&self, silent: bool) {
        self.0.lock().unwrap().silent = silent;
    }

    /// How often a name was asked for.
    pub(crate) fn asked(&self, name: &str) -> usize {
        self.0.lock().unwrap().asked.get(name).copied().unwrap_or(0)
    }

    /// Answers at an address, until the process ends.
    pub(crate) fn serve(&self, at: &str) {
        let datagrams = UdpSocket::bind(at).expect("a port of the test's own");
        let streams = TcpListener::bind(at).expect("a port of the test's own");
        let (names, also) = (self.clone(), self.clone());
        thread::spawn(move || {
            let mut buffer = [0; 2_000];
            while let Ok((length, from)) = datagrams.recv_from(&mut buffer) {
                names.answer_datagram(&datagrams, from, &buffer[..length]);
            }
        });
        thread::spawn(move || {
            for stream in streams.incoming().flatten() {
                let names = also.clone();
                thread::spawn(move || names.answer_stream(stream));
            }
        });
    }

    fn told(&self, question: &Question) -> Option<Told> {
        let mut zone = self.0.lock().unwrap();
        *zone.asked.entry(question.name.clone()).or_default() += 1;
        if zone.silent {
            return Some(Told::Silence);
        }
        zone.told.get(&question.name).cloned()
    }

    fn answer_datagram(&self, socket: &UdpSocket, to: SocketAddr, message: &[u8]) {
        let Some(question) = Question::of(message) else { return };
        let mut told = self.told(&question);
        if let Some(Told::Spoofed(rest, guesses)) = told {
            for guess in 0..guesses {
                let mut wrong = question.answer(Some(&Told::V4(vec![[192, 0, 2, 66]], 60)), false);
                // Another number, another name, another type, or what claims to be a question.
                match guess % 4 {
                    0 => wrong[1] = wrong[1].wrapping_add(1 + (guess / 4) as u8),
                    1 => wrong[13] ^= 1,
                    2 => wrong[12 + question.name.len() + 3] ^= 2,
                    _ => wrong[2] &= 0x7f,
                }
                let _ = socket.send_to(&wrong, to);
            }
            told = Some(*rest);
        }
        if !matches!(told, Some(Told::Silence)) {
            let _ = socket.send_to(&question.answer(told.as_ref(), false), to);
        }
    }

    fn answer_stream(&self, mut stream: TcpStream) -> Option<()> {
        let mut length = [0; 2];
        stream.read_exact(&mut length).ok()?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut message).ok()?;
        let question = Question::of(&message)?;
        let told = self.told(&question);
        if matches!(told, Some(Told::Silence)) {
            return None;
        }
        let answer = question.answer(told.as_ref(), true);
        let whole = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
        whole.chunks(100).try_for_each(|piece| stream.write_all(piece)).ok()
    }
}

struct Question {
    /// Its head and what it asks, as they came.
    bytes: Vec<u8>,
    name: String,
    kind: u16,
}

impl Question {
    fn of(message: &[u8]) -> Option<Self> {
        let (mut at, mut labels) = (12, Vec::new());
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(message.get(at..at + length)?).into_owned());
            at += length;
        }
        let kind = u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]);
        Some(Self { bytes: message.get(..at + 4)?.to_vec(), name: labels.join(".").to_lowercase(), kind })
    }

    fn answer(&self, told: Option<&Told>, tcp: bool) -> Vec<u8> {
        let mut records = Vec::new();
        let (mut code, mut cut) = (0, false);
        match told {
            None => code = 3,
            Some(Told::Code(told)) => code = *told,
            Some(Told::Long(_)) if !tcp => cut = true,
            Some(Told::Long(told) | Told::Spoofed(told, _)) => return self.answer(Some(told), tcp),
            Some(told) => records = self.records(told),
        }
        let mut out = self.bytes.clone();
        (out[2], out[3]) = (0x81 | if cut { 2 } else { 0 }, 0x80 | code);
        // One question, and nothing behind the answers.
        out[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        out[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        records.iter().for_each(|record| out.extend_from_slice(record));
        out
    }

    fn records(&self, told: &Told) -> Vec<Vec<u8>> {
        let record = |kind: u16, seconds: u32, data: &[u8]| {
            let length = (data.len() as u16).to_be_bytes();
            [&[0xc0, 12][..], &kind.to_be_bytes(), &[0, 1], &seconds.to_be_bytes(), &length, data].concat()
        };
        match (told, self.kind) {
            (Told::V4(addresses, seconds), A) => {
                addresses.iter().map(|address| record(A, *seconds, &Ipv4Addr::from(*address).octets())).collect()
            }
            (Told::V6(address, seconds), AAAA) => vec![record(AAAA, *seconds, &address.octets())],
            (Told::Alias(name), _) => vec![record(CNAME, 60, &wire(name))],
            (Told::Hosts(hosts, seconds), SRV) => {
                let host = |(priority, weight, port, name): &(u16, u16, u16, &str)| {
                    let numbers = [*priority, *weight, *port].map(u16::to_be_bytes).concat();
                    record(SRV, *seconds, &[numbers, wire(name)].concat())
                };
                hosts.iter().map(host).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn wire(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8][..], label.as_bytes()].concat());
    labels.chain([0]).collect()
}
