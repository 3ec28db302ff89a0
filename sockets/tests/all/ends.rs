//! How connections end.

use crate::support::puppet::{Do, Seen, Theatre};
use crate::support::{client, listen};
use app::{Closed, ConnId};
use rustix::net::sockopt::set_socket_linger;
use sockets::{Config, Listeners, Model};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

fn opened() -> (Theatre, Listeners, ConnId, TcpStream) {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let stream = client(address);
    let id = theatre.opened();
    (theatre, listeners, id, stream)
}

/// RFC 9293 §3.6: a peer that sent its FIN still receives.
#[test]
fn a_half_closed_peer_is_still_served() {
    let (theatre, _listeners, id, mut stream) = opened();
    stream.write_all(b"last").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(theatre.bytes(4), b"last");
    assert_eq!(theatre.next(), Seen::End(id, 0));
    theatre.tell(Do::Send(id, b"answer".to_vec()));
    theatre.tell(Do::Finish(id));
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"answer");
    assert_eq!(theatre.closed(), Closed::Finished);
    assert_eq!(theatre.close().resets_sent, 0);
}

/// RFC 9293 §3.6: and so do we.
#[test]
fn what_comes_after_our_end_is_delivered() {
    let (theatre, _listeners, id, mut stream) = opened();
    theatre.tell(Do::Send(id, b"all".to_vec()));
    theatre.tell(Do::Finish(id));
    // Nothing follows a FIN.
    theatre.tell(Do::Send(id, b"more".to_vec()));
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"all");
    stream.write_all(b"late").unwrap();
    assert_eq!(theatre.bytes(4), b"late");
    drop(stream);
    assert_eq!(theatre.next(), Seen::End(id, 0));
    assert_eq!(theatre.closed(), Closed::Finished);
    theatre.close();
}

#[test]
fn an_abort_resets() {
    let (theatre, _listeners, id, mut stream) = opened();
    theatre.tell(Do::Abort(id));
    assert_eq!(theatre.closed(), Closed::Aborted);
    assert_eq!(stream.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(theatre.close().resets_sent, 1);
}

#[test]
fn a_reset_is_told_after_what_came_before_it() {
    let (theatre, _listeners, _id, mut stream) = opened();
    stream.write_all(b"before").unwrap();
    assert_eq!(theatre.bytes(6), b"before");
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    assert_eq!(theatre.closed(), Closed::Reset);
    assert_eq!(theatre.close().resets_received, 1);
}

/// A peer that is gone while it is sent to.
#[test]
fn a_send_into_a_reset_connection_ends_it() {
    let (theatre, _listeners, id, stream) = opened();
    theatre.tell(Do::Take(0));
    theatre.tell(Do::Send(id, vec![1; 64 << 20]));
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    assert_eq!(theatre.closed(), Closed::Reset);
    theatre.close();
}

/// A worker that does not read, because the application has to consume first,
/// still sees that the connection is dead.
#[test]
fn a_reset_ends_a_connection_that_is_not_read() {
    let (theatre, _listeners, id, mut stream) = opened();
    theatre.tell(Do::Take(0));
    // More than is held, so that some is left to the kernel.
    theatre.tell(Do::Unsent(id));
    assert_eq!(theatre.next(), Seen::Unsent(0), "it is told before anything arrives");
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[7; 65_536]).is_ok() {}
    assert!(matches!(theatre.next(), Seen::Data(..)));
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    loop {
        match theatre.next() {
            Seen::Data(..) => {}
            Seen::Close(_, why) => break assert_eq!(why, Closed::Reset),
            other => panic!("{other:?}"),
        }
    }
    theatre.close();
}

/// A slot's next connection has another id: late calls for the old one do
/// nothing.
#[test]
fn ids_name_one_connection_only() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let first = client(address);
    let old = theatre.opened();
    theatre.tell(Do::Abort(old));
    assert_eq!(theatre.closed(), Closed::Aborted);
    drop(first);
    let mut second = client(address);
    let new = theatre.opened();
    assert_eq!((old.index(), old == new), (new.index(), false));
    for late in [Do::Send(old, b"x".to_vec()), Do::Finish(old), Do::Abort(old), Do::Timer(old, Some(Duration::ZERO))] {
        theatre.tell(late);
    }
    theatre.tell(Do::Send(new, b"y".to_vec()));
    theatre.tell(Do::Finish(new));
    let mut all = Vec::new();
    second.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"y");
    drop(second);
    assert_eq!(theatre.next(), Seen::End(new, 0));
    assert_eq!(theatre.closed(), Closed::Finished);
    theatre.close();
}

/// Whoever stops a worker without a drain resets what is left.
#[test]
fn a_worker_that_stops_ends_its_connections() {
    let (theatre, _listeners, _id, mut stream) = opened();
    let counters = theatre.close();
    assert_eq!((counters.connections, counters.closed), (0, 1));
    assert_eq!(stream.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// RFC 9293 §3.8.5: a read stops at an urgent mark, and is short though more
/// is there.
#[test]
fn urgent_data_holds_nothing_up() {
    let (theatre, _listeners, _id, mut stream) = opened();
    rustix::net::send(&stream, b"abcU", rustix::net::SendFlags::OOB).unwrap();
    stream.write_all(b"def").unwrap();
    assert_eq!(theatre.bytes(6), b"abcdef", "all but the urgent byte");
    theatre.close();
}
