//! Connections that another process goes on with before anything was said on them.

use super::Sent;
use crate::{Address, Arrived, Config, LinkOffload, Migrant, Seeds, Stack};
use app::{ConnId, Net};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use wire::{Mac, Time};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 80;

fn stack(number: u8, ip: Ipv4Addr, timestamps: bool) -> Stack {
    let mut config = Config::new(Mac([2, 0, 0, 0, 0, number]), 1_500);
    config.addresses = vec![Address { ip: IpAddr::V4(ip), prefix_len: 24 }];
    config.listen = vec![PORT];
    config.steered = true;
    config.tcp.timestamps = timestamps;
    let seeds = Seeds { table: [number.into(); 4], secret: [number.into(); 4], timestamps: [number.into(); 2] };
    Stack::new(config, LinkOffload::default(), &seeds, Time::from_millis(1))
}

/// Has both sides say what they have to; what the server's application got.
fn exchange(client: &mut Stack, server: &mut Stack) -> Vec<u8> {
    let (mut there, mut back) = (Sent::default(), Sent::default());
    let mut got = Vec::new();
    for _ in 0..8 {
        client.poll_transmit(&mut there);
        for frame in core::mem::take(&mut there.frames) {
            match server.on_frame(&frame, false, &mut back) {
                Arrived::Data(_, data) => got.extend_from_slice(data),
                Arrived::Segment(arrival) => got.extend_from_slice(arrival.data),
                _ => {}
            }
        }
        server.poll_transmit(&mut back);
        for frame in core::mem::take(&mut back.frames) {
            let _ = client.on_frame(&frame, false, &mut there);
        }
    }
    got
}

fn open(client: &mut Stack, server: &mut Stack) -> (ConnId, ConnId) {
    let id = client.open(None, SocketAddr::new(SERVER.into(), PORT)).expect("a connection");
    exchange(client, server);
    let there = server.connection_ids().next().expect("it was accepted");
    (id, there)
}

/// The peer sees one connection: what it sent before the change is not asked for again, what it
/// sends after it arrives, and so does what it is answered.
#[test]
fn another_stack_goes_on() {
    for timestamps in [true, false] {
        let mut client = stack(1, CLIENT, timestamps);
        let (mut old, mut new) = (stack(2, SERVER, timestamps), stack(2, SERVER, timestamps));
        let (id, there) = open(&mut client, &mut old);
        client.send_bytes(id, b"before ");
        assert_eq!(exchange(&mut client, &mut old), b"before ");
        let migrant = old.migrant(there).expect("nothing is under way");
        assert_eq!((migrant.local.port(), migrant.agreed.timestamps.is_some()), (PORT, timestamps));
        assert!(migrant.agreed.peer_shift.is_some() && migrant.agreed.sack);
        old.emigrate(there);
        let here = new.immigrate(&migrant).expect("there is room");
        assert_eq!((old.connections(), new.connections()), (0, 1));
        assert_eq!(new.info(here).unwrap().mss, client.info(id).unwrap().mss, "as long segments as before");
        assert!(old.poll_closed().is_none());
        let mut out = Sent::default();
        old.poll_transmit(&mut out);
        assert!(out.frames.is_empty(), "nobody is reset");
        client.send_bytes(id, b"after");
        assert_eq!(exchange(&mut client, &mut new), b"after");
        new.send_bytes(here, &[7; 3_000]);
        exchange(&mut client, &mut new);
        assert_eq!(client.info(id).unwrap().rcv_nxt, new.info(here).unwrap().nxt);
        assert_eq!(client.connections(), 1);
        assert_eq!((old.counters().emigrated, new.counters().immigrated), (1, 1));
    }
}

/// What is under way binds a connection to its stack, and a flow is one connection's.
#[test]
fn what_has_spoken_stays() {
    let mut client = stack(1, CLIENT, true);
    let (mut old, mut new) = (stack(2, SERVER, true), stack(2, SERVER, true));
    let (_, there) = open(&mut client, &mut old);
    let migrant = old.migrant(there).expect("nothing is under way");
    assert!(new.immigrate(&migrant).is_some());
    assert!(new.immigrate(&migrant).is_none(), "it is there");
    let elsewhere = Migrant { local: "10.0.0.9:80".parse().unwrap(), ..migrant };
    assert!(new.immigrate(&elsewhere).is_none(), "that is not ours");
    old.send_bytes(there, b"said");
    assert_eq!(old.migrant(there), None);
    old.abort(there);
    assert_eq!(old.migrant(there), None);
}
