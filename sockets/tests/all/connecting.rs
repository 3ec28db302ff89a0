//! The client's side: connections that we open.

use crate::support::puppet::{Do, Seen, Theatre};
use crate::support::{PATIENCE, client};
use app::{Closed, ConnectError, Opened, Unreachable};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use sockets::{Config, StreamOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

fn here() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn a_connect_is_answered_and_used() {
    let (listener, address) = here();
    let theatre = Theatre::open(Config::default(), Vec::new());
    theatre.tell(Do::Connect(None, address));
    let Seen::Connect(Ok(id)) = theatre.next() else { panic!("a connect that began") };
    // What is sent before the answer waits for it.
    theatre.tell(Do::Send(id, b"early".to_vec()));
    let (mut peer, from) = listener.accept().unwrap();
    assert_eq!(theatre.next(), Seen::Open(id, Opened::Connected));
    let mut early = [0; 5];
    peer.read_exact(&mut early).unwrap();
    assert_eq!(&early, b"early");
    theatre.tell(Do::Addresses(id));
    assert_eq!(theatre.next(), Seen::Addresses(Some(from), Some(address)));
    peer.write_all(b"answer").unwrap();
    assert_eq!(theatre.bytes(6), b"answer");
    drop(peer);
    assert_eq!(theatre.next(), Seen::End(id, 0));
    theatre.tell(Do::Finish(id));
    assert_eq!(theatre.closed(), Closed::Finished);
    let counters = theatre.close();
    assert_eq!((counters.connects, counters.connected, counters.connects_failed), (1, 1, 0));
}

#[test]
fn a_refusal_is_told() {
    // A port that is taken, so that nobody else listens on it meanwhile.
    let (family, kind) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM);
    let taken = rustix::net::socket(family, kind, None).unwrap();
    rustix::net::bind(&taken, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = rustix::net::getsockname(&taken).unwrap().try_into().unwrap();
    let theatre = Theatre::open(Config::default(), Vec::new());
    theatre.tell(Do::Connect(None, address));
    assert!(matches!(theatre.next(), Seen::Connect(Ok(_))));
    assert_eq!(theatre.closed(), Closed::Refused);
    let counters = theatre.close();
    assert_eq!((counters.connects_failed, counters.resets_received), (1, 0));
}

/// 0.0.0.0/8 but for itself, and class E, lead nowhere.
#[test]
fn what_leads_nowhere_is_told_at_once() {
    let theatre = Theatre::open(Config::default(), Vec::new());
    theatre.tell(Do::Connect(None, "[2001:db8::1]:80".parse().unwrap()));
    match theatre.next() {
        Seen::Connect(Err(ConnectError::NoRoute)) => {}
        // A machine with a route for all of IPv6.
        Seen::Connect(Ok(id)) => theatre.tell(Do::Abort(id)),
        other => panic!("{other:?}"),
    }
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    theatre.tell(Do::Connect(Some(elsewhere), "127.0.0.1:80".parse().unwrap()));
    let next = loop {
        match theatre.next() {
            Seen::Close(..) => {}
            other => break other,
        }
    };
    assert_eq!(next, Seen::Connect(Err(ConnectError::NoRoute)), "192.0.2.1 is not ours");
    theatre.close();
}

#[test]
fn the_source_address_is_as_asked_for() {
    let (listener, address) = here();
    let theatre = Theatre::open(Config::default(), Vec::new());
    for last in 1..5 {
        let from = IpAddr::V4(Ipv4Addr::new(127, 0, 3, last));
        theatre.tell(Do::Connect(Some(from), address));
        assert_eq!(listener.accept().unwrap().1.ip(), from);
    }
    theatre.close();
}

#[test]
fn the_limit_on_connections_holds() {
    let (listener, address) = here();
    let theatre = Theatre::open(Config { max_connections: 2, ..Config::default() }, Vec::new());
    for _ in 0..2 {
        theatre.tell(Do::Connect(None, address));
        let Seen::Connect(Ok(id)) = theatre.next() else { panic!("within the limit") };
        assert_eq!(theatre.next(), Seen::Open(id, Opened::Connected));
    }
    theatre.tell(Do::Connect(None, address));
    assert_eq!(theatre.next(), Seen::Connect(Err(ConnectError::Full)));
    drop(listener);
    assert_eq!(theatre.close().connects_refused, 1);
}

fn unix(name: &str) -> (PathBuf, Config) {
    let path = std::env::temp_dir().join(format!("nearside-{name}-{}", std::process::id()));
    let config = Config { connect_to: Some(path.clone()), ..Config::default() };
    (path, config)
}

const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

#[test]
fn a_unix_socket_is_connected_to() {
    let (path, config) = unix("to");
    let listener = UnixListener::bind(&path).unwrap();
    let theatre = Theatre::open(config, Vec::new());
    theatre.tell(Do::Connect(None, ANYWHERE));
    let Seen::Connect(Ok(id)) = theatre.next() else { panic!("a connect that began") };
    assert_eq!(theatre.next(), Seen::Open(id, Opened::Connected));
    let (mut peer, _) = listener.accept().unwrap();
    peer.write_all(b"answer").unwrap();
    assert_eq!(theatre.bytes(6), b"answer");
    theatre.tell(Do::Addresses(id));
    assert_eq!(theatre.next(), Seen::Addresses(None, None));
    std::fs::remove_file(&path).unwrap();
    theatre.tell(Do::Connect(None, ANYWHERE));
    assert!(matches!(theatre.next(), Seen::Connect(Ok(_))));
    assert_eq!(theatre.closed(), Closed::Refused, "nobody is there any more");
    theatre.close();
}

/// connect(2), EAGAIN: a Unix socket's queue is full, and nothing tells when
/// it no longer is.
#[test]
fn a_full_queue_is_waited_for() {
    let (path, config) = unix("full");
    let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    let theatre = Theatre::open(config, Vec::new());
    for _ in 0..6 {
        theatre.tell(Do::Connect(None, ANYWHERE));
    }
    let (mut begun, mut open) = (0, 0);
    let mut taken = Vec::new();
    while begun < 6 || open < 6 {
        match theatre.next() {
            Seen::Connect(outcome) => begun += usize::from(outcome.is_ok()),
            Seen::Open(..) => open += 1,
            other => panic!("{other:?}"),
        }
        if begun == 6 && taken.len() < 6 {
            taken.push(rustix::net::accept(&socket).unwrap());
        }
    }
    std::fs::remove_file(&path).unwrap();
    assert!(theatre.close().connects_again > 0);
}

/// An application that names the path itself: abstract ones too, and each failure
/// is told for what it is. None waits for room in a queue.
#[test]
fn unix_sockets_are_connected_to_by_their_paths() {
    let (path, _) = unix("by-path");
    let listener = UnixListener::bind(&path).unwrap();
    let name = format!("@nearside-by-path-{}", std::process::id());
    let abstract_one = std::os::unix::net::SocketAddr::from_abstract_name(&name[1..]).unwrap();
    let unnamed = UnixListener::bind_addr(&abstract_one).unwrap();
    let theatre = Theatre::open(Config::default(), Vec::new());
    for (path, listener) in [(path.clone(), &listener), (name.into(), &unnamed)] {
        theatre.tell(Do::ConnectUnix(path));
        let Seen::Connect(Ok(id)) = theatre.next() else { panic!("a connect that began") };
        assert_eq!(theatre.next(), Seen::Open(id, Opened::Connected));
        let (mut peer, _) = listener.accept().unwrap();
        theatre.tell(Do::Send(id, b"asked".to_vec()));
        peer.read_exact(&mut [0; 5]).unwrap();
        peer.write_all(b"answer").unwrap();
        assert_eq!(theatre.bytes(6), b"answer");
        theatre.tell(Do::Addresses(id));
        assert_eq!(theatre.next(), Seen::Addresses(None, None));
        drop(peer);
        assert_eq!(theatre.next(), Seen::End(id, 0));
        theatre.tell(Do::Finish(id));
        assert_eq!(theatre.closed(), Closed::Finished);
    }
    for bad in ["", "@", "nul\0", &"x".repeat(108), &format!("@{}", "x".repeat(107))] {
        theatre.tell(Do::ConnectUnix(bad.into()));
        assert_eq!(theatre.next(), Seen::Connect(Err(ConnectError::Path)), "{bad}");
    }
    let datagrams = path.with_extension("datagrams");
    let _other = std::os::unix::net::UnixDatagram::bind(&datagrams).unwrap();
    drop(listener);
    for (path, why) in [
        (path.clone(), ConnectError::Refused),
        (path.join("below"), ConnectError::Missing),
        (path.with_extension("none"), ConnectError::Missing),
    ] {
        theatre.tell(Do::ConnectUnix(path.clone()));
        assert_eq!(theatre.next(), Seen::Connect(Err(why)), "{}", path.display());
    }
    theatre.tell(Do::ConnectUnix(datagrams.clone()));
    assert!(matches!(theatre.next(), Seen::Connect(Ok(_))));
    assert_eq!(theatre.closed(), Closed::Unreachable(Unreachable::Protocol));
    [path, datagrams].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    assert_eq!(theatre.close().connects_refused, 8);
}

#[test]
fn a_unix_socket_whose_queue_is_full_is_told_at_once() {
    let (path, _) = unix("busy");
    let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    let theatre = Theatre::open(Config::default(), Vec::new());
    let mut open = 0;
    loop {
        theatre.tell(Do::ConnectUnix(path.clone()));
        match theatre.next() {
            Seen::Connect(Ok(id)) => assert_eq!(theatre.next(), Seen::Open(id, Opened::Connected)),
            Seen::Connect(Err(why)) => break assert_eq!(why, ConnectError::Busy),
            other => panic!("{other:?}"),
        }
        open += 1;
        assert!(open < 8, "a queue of one");
    }
    // Once there is room, it is as ever.
    drop(rustix::net::accept(&socket).unwrap());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(theatre.close().connects_again, 0);
}

/// Options are on the connections that we open, too.
#[test]
fn options_are_set_on_what_is_opened() {
    let (listener, address) = here();
    let stream = StreamOptions { no_delay: false, send_buffer: Some(32_768), ..StreamOptions::default() };
    let theatre = Theatre::open(Config { stream, ..Config::default() }, Vec::new());
    theatre.tell(Do::Connect(None, address));
    let Seen::Connect(Ok(id)) = theatre.next() else { panic!("a connect that began") };
    assert_eq!(theatre.next(), Seen::Open(id, Opened::Connected));
    // Of 64 MB, a buffer of twice 32 KiB and the peer's take little.
    theatre.tell(Do::Send(id, vec![0; 64 << 20]));
    theatre.tell(Do::Unsent(id));
    theatre.tell(Do::Unsent(id));
    theatre.next();
    let Seen::Unsent(unsent) = theatre.next() else { panic!("how much is unsent") };
    assert!(unsent > 50 << 20, "{unsent}");
    drop(listener);
    theatre.close();
}

/// A peer that answers late: nothing is lost, and no one else waits.
#[test]
fn a_connect_that_is_given_up_is_over() {
    let (listener, address) = here();
    let theatre = Theatre::open(Config::default(), Vec::new());
    theatre.tell(Do::Connect(None, address));
    let Seen::Connect(Ok(id)) = theatre.next() else { panic!("a connect that began") };
    assert_eq!(theatre.next(), Seen::Open(id, Opened::Connected));
    theatre.tell(Do::Abort(id));
    assert_eq!(theatre.closed(), Closed::Aborted);
    let (mut peer, _) = listener.accept().unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(peer.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    drop(client(address));
    theatre.close();
}

/// ip_local_port_range(ip-sysctl.rst): with four ports there are four
/// connections to one peer from one address, and four more from the next.
#[test]
fn no_free_port_is_told_at_once() {
    in_namespace(exhaust_ports);
}

/// Runs `test` on a thread in a network of its own, which ends with it.
fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let run = || {
        // SAFETY: takes flags by value and moves only this thread.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
            return test();
        }
        let required = |name| std::env::var_os(name).is_some();
        assert!(!required("CI") && !required("NEARSIDE_REQUIRE_TOOLS"), "no right to make a namespace; run as root");
        println!("skipped: no right to make a namespace; run as root");
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

fn exhaust_ports() {
    let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
    assert!(up.unwrap().success());
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40003").unwrap();
    let listener = TcpListener::bind("127.0.0.1:80").unwrap();
    let address = listener.local_addr().unwrap();
    let theatre = Theatre::open(Config::default(), Vec::new());
    for last in 1..3 {
        let from = Some(IpAddr::V4(Ipv4Addr::new(127, 0, 3, last)));
        for _ in 0..4 {
            theatre.tell(Do::Connect(from, address));
            let Seen::Connect(Ok(id)) = theatre.next() else { panic!("there is a port") };
            assert_eq!(theatre.next(), Seen::Open(id, Opened::Connected));
        }
        theatre.tell(Do::Connect(from, address));
        assert_eq!(theatre.next(), Seen::Connect(Err(ConnectError::NoPort)));
    }
    theatre.close();
}
