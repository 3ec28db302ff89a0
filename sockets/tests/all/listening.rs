//! Listening sockets: their options, and how they change hands.

use crate::support::puppet::{Do, Seen, Theatre};
use crate::support::{PATIENCE, ask, client, is_asleep, listen, listen_on, start_echo, wait_for};
use app::Closed;
use rustix::net::sockopt;
use sockets::{
    BindError, Config, Endpoint, KeepAlive, ListenOptions, Listeners, Model, Origin, OwnOptions, StartError,
    StreamOptions, Worker,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Options of connections are set once, where Linux has every connection
/// inherit them.
#[test]
fn connections_inherit_their_options() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let stream = StreamOptions {
        no_delay: true,
        no_push: true,
        keep_alive: Some(KeepAlive {
            idle: Duration::from_millis(61_500),
            interval: Duration::from_secs(7),
            probes: 3,
        }),
        send_buffer: Some(40_000),
        receive_buffer: Some(50_000),
        pacing_rate: Some(123_456_789),
        busy_poll: Some(Duration::from_micros(50)),
        congestion: Some("reno".into()),
        user_timeout: Some(Duration::from_millis(61_500)),
        not_sent_low_water: Some(16_384),
        ..StreamOptions::default()
    };
    let config = Config { stream, ..Config::default() };
    let worker =
        Worker::new(crate::support::on_engine(config), listeners.for_worker(0), crate::support::Echo::default())
            .unwrap();
    let _client = client(address);
    // connect(2) may return before the connection is in the queue.
    let mut accepted = None;
    wait_for("the connection", || {
        accepted = rustix::net::accept(listeners.iter().next().unwrap().1).ok();
        accepted.is_some()
    });
    let fd = accepted.unwrap();
    assert!(sockopt::tcp_nodelay(&fd).unwrap());
    assert!(sockopt::socket_keepalive(&fd).unwrap());
    assert_eq!(sockopt::tcp_keepidle(&fd).unwrap(), Duration::from_secs(62), "rounded up");
    assert_eq!(sockopt::tcp_keepintvl(&fd).unwrap(), Duration::from_secs(7));
    assert_eq!(sockopt::tcp_keepcnt(&fd).unwrap(), 3);
    assert_eq!(sockopt::socket_send_buffer_size(&fd).unwrap(), 80_000);
    assert_eq!(sockopt::socket_recv_buffer_size(&fd).unwrap(), 100_000);
    // Inherited too, but for a route that says otherwise (congctl,
    // ip-route(8)), as this machine's may.
    assert_eq!(sockopt::tcp_congestion(listeners.iter().next().unwrap().1).unwrap(), "reno");
    assert_eq!(number(&fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE), 123_456_789);
    assert_eq!(number(&fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL), 50);
    assert_eq!(number(&fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), 16_384);
    assert_eq!(number(&fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT), 61_500);
    assert!(!sockopt::tcp_quickack(&fd).unwrap(), "what arrives is acknowledged with its answer");
    drop(worker);
}

/// A client that sends the rest of its request only when the first part is
/// acknowledged (RFC 9293 §3.7.4) is not kept waiting for it: no answer comes
/// that could bring it along.
#[test]
fn a_request_in_parts_is_acknowledged_at_once() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let mut stream = client(address);
    theatre.opened();
    stream.write_all(b"part").unwrap();
    assert_eq!(theatre.bytes(4), b"part");
    let ours = other_end(&stream);
    wait_for("the kernel to be told", || sockopt::tcp_quickack(&ours).unwrap());
    stream.write_all(b"rest").unwrap();
    assert_eq!(theatre.bytes(4), b"rest");
    theatre.close();
}

/// The server's end of a connection of this process.
fn other_end(stream: &TcpStream) -> OwnedFd {
    let client = stream.local_addr().unwrap();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let Ok(number) = entry.unwrap().file_name().to_string_lossy().parse::<i32>() else { continue };
        // SAFETY: it is looked at, and copied if it is the one; if it is closed
        // meanwhile, both say so.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
        let peer = rustix::net::getpeername(fd).ok().flatten().and_then(|peer| peer.try_into().ok());
        if peer == Some(client) {
            return fd.try_clone_to_owned().unwrap();
        }
    }
    panic!("no descriptor is connected to {client}");
}

fn number(fd: &OwnedFd, level: i32, option: i32) -> u32 {
    let (mut value, mut len) = (0u32, 4);
    // SAFETY: `value` has room for the `len` bytes that the kernel may write.
    let rc = unsafe {
        libc::getsockopt(std::os::fd::AsRawFd::as_raw_fd(fd), level, option, (&raw mut value).cast(), &raw mut len)
    };
    assert_eq!(rc, 0);
    value
}

#[test]
fn an_option_that_cannot_be_had_is_named_at_the_start() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let stream = StreamOptions { congestion: Some("nonesuch".into()), ..StreamOptions::default() };
    let config = Config { stream, ..Config::default() };
    for mine in [listeners.for_worker(0), Vec::new()] {
        let Err(error) = Worker::new(crate::support::on_engine(config.clone()), mine, crate::support::Echo::default())
        else {
            panic!("no error")
        };
        assert!(matches!(error, StartError::Option(..)));
        let text = error.to_string();
        assert!(text.contains("TCP_CONGESTION cannot be nonesuch"), "{text}");
    }
    drop(listeners);
    let _ = address;
}

#[test]
fn somebody_else_s_port_is_not_shared() {
    let (_first, address) = listen(Model::Reuseport, 2);
    for model in [Model::Reuseport, Model::Exclusive] {
        let error = Listeners::bind(&[Endpoint::Tcp(address)], &ListenOptions::default(), model, 2).unwrap_err();
        assert!(matches!(error, BindError::InUse(_)), "{error}");
        assert_eq!(error.to_string(), format!("cannot listen on {address}: somebody listens there already"));
    }
}

#[test]
fn each_worker_has_a_queue_or_all_share_one() {
    for model in Model::ALL {
        let (listeners, address) = listen(model, 3);
        let each: Vec<_> = (0..3).map(|at| listeners.for_worker(at)).collect();
        assert!(each.iter().all(|mine| mine.len() == 1 && mine[0].endpoint() == &Endpoint::Tcp(address)));
        assert_eq!(listeners.iter().count(), if model.is_shared() { 1 } else { 3 }, "{model}");
        assert_eq!(listeners.endpoints(), [Endpoint::Tcp(address)]);
        for (index, (_, fd)) in listeners.iter().enumerate() {
            assert_eq!(sockopt::socket_reuseport(fd).unwrap(), !model.is_shared());
            assert_eq!(
                std::os::fd::AsRawFd::as_raw_fd(&each[index][0].as_fd()),
                std::os::fd::AsRawFd::as_raw_fd(&fd),
                "in the order of the workers"
            );
        }
    }
}

#[test]
fn blocking_needs_a_worker_for_each_socket() {
    let two: Vec<Endpoint> = ["127.0.0.1:0", "[::1]:0"].map(|at| at.parse().unwrap()).into();
    let options = ListenOptions::default();
    let error = Listeners::bind(&two, &options, Model::Blocking, 1).unwrap_err();
    assert!(matches!(error, BindError::TooFewWorkers(2)), "{error}");
    let listeners = Listeners::bind(&two, &options, Model::Blocking, 3).unwrap();
    let at = |index: usize| listeners.for_worker(index)[0].endpoint().clone();
    assert_eq!((at(0), at(1)), (listeners.endpoints()[0].clone(), listeners.endpoints()[1].clone()));
    assert_eq!(at(2), at(0));
}

#[test]
fn what_does_not_listen_is_not_taken_over() {
    let adopt = |fd: OwnedFd| {
        Listeners::adopt(vec![fd], Origin::Manager, &[], &ListenOptions::default(), Model::Reuseport, 1).unwrap_err()
    };
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(adopt(udp.into()).to_string().contains("is no stream socket"));
    let (_listeners, address) = listen(Model::Reuseport, 1);
    assert!(adopt(client(address).into()).to_string().contains("does not listen"));
    let file = std::fs::File::open("/proc/self/status").unwrap();
    assert!(matches!(adopt(file.into()), BindError::Unfit(..)));
}

/// A service manager's socket can have none beside it: all take from it.
#[test]
fn a_manager_s_socket_is_shared() {
    let theirs = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = theirs.local_addr().unwrap();
    let endpoints = [Endpoint::Tcp(address)];
    let options = ListenOptions::default();
    let listeners =
        Listeners::adopt(vec![theirs.into()], Origin::Manager, &endpoints, &options, Model::Reuseport, 2).unwrap();
    assert!((0..2).all(|at| listeners.for_worker(at).len() == 1 && listeners.for_worker(at)[0].is_shared()));
    let running = [0, 1].map(|at| start_echo(Config::default(), listeners.for_worker(at)));
    for _ in 0..10 {
        ask(&mut client(address), b"hello");
    }
    let opened: u64 = running.into_iter().map(|worker| worker.stop().0.opened).sum();
    assert_eq!(opened, 10);
}

/// A successor with more workers tops up, one with fewer takes all queues:
/// what waits in any is served.
#[test]
fn a_predecessor_s_queues_are_all_served() {
    for (before, after) in [(3, 1), (1, 3), (3, 2)] {
        let (first, address) = listen(Model::Reuseport, before);
        let mut waiting: Vec<_> = (0..40).map(|_| client(address)).collect();
        let handed = first.iter().map(|(_, fd)| fd.try_clone_to_owned().unwrap()).collect();
        let endpoints = [Endpoint::Tcp(address)];
        let options = ListenOptions::default();
        let second =
            Listeners::adopt(handed, Origin::Predecessor, &endpoints, &options, Model::Reuseport, after).unwrap();
        drop(first);
        assert_eq!(second.iter().count(), before.max(after));
        let running: Vec<_> = (0..after).map(|at| start_echo(Config::default(), second.for_worker(at))).collect();
        for stream in &mut waiting {
            ask(stream, b"served by the next");
        }
        for _ in 0..20 {
            ask(&mut client(address), b"new");
        }
        let opened: u64 = running.into_iter().map(|worker| worker.stop().0.opened).sum();
        assert_eq!(opened, 60, "{before} to {after}");
    }
}

/// A worker that stops leaves what waits in a shared queue to the others.
#[test]
fn stopping_leaves_the_queue_to_others() {
    for model in [Model::Exclusive, Model::Epoll] {
        let (listeners, address) = listen(model, 2);
        let config = || Config { model, ..Config::default() };
        let stopped = Theatre::open(config(), listeners.for_worker(0));
        let mut held = client(address);
        stopped.opened();
        stopped.tell(Do::StopListening);
        assert_eq!(stopped.next(), Seen::StoppedListening);
        held.write_all(b"still served").unwrap();
        assert_eq!(stopped.bytes(12), b"still served");
        let mut waiting: Vec<_> = (0..20).map(|_| client(address)).collect();
        let other = start_echo(config(), listeners.for_worker(1));
        for stream in &mut waiting {
            ask(stream, b"by the other");
        }
        assert!(stopped.is_quiet());
        assert_eq!(stopped.close().accepted, 1);
        assert_eq!(other.stop().0.opened, 20);
    }
}

/// The kernel's order of those that wait in accept(2): first in, first out.
/// Who waits for half a second is called away and waits behind the others, so
/// a busy machine may need several tries to see three rounds in between.
#[test]
fn blocking_workers_are_woken_in_turn() {
    let mut orders = Vec::new();
    while orders.len() < 20 {
        let (in_turn, order) = in_turn();
        if in_turn {
            return;
        }
        orders.push(order);
    }
    panic!("{orders:?}");
}

/// Whether they were, and who was.
fn in_turn() -> (bool, Vec<usize>) {
    const WORKERS: usize = 3;
    let (listeners, address) = listen(Model::Blocking, WORKERS);
    let config = || Config { model: Model::Blocking, ..Config::default() };
    let theatres: Vec<_> = (0..WORKERS).map(|at| Theatre::open(config(), listeners.for_worker(at))).collect();
    theatres.iter().for_each(|theatre| theatre.wait_until_in(libc::SYS_accept4));
    let mut order = Vec::new();
    for _ in 0..4 * WORKERS {
        let stream = client(address);
        let taken = cpu::Clock.now();
        let (at, id) = loop {
            assert!(cpu::Clock.now().since(taken) < PATIENCE);
            let seen = theatres.iter().enumerate().find_map(|(at, theatre)| Some((at, theatre.try_next()?)));
            match seen {
                Some((at, Seen::Open(id, _))) => break (at, id),
                Some(other) => panic!("{other:?}"),
                None => std::thread::yield_now(),
            }
        };
        order.push(at);
        drop(stream);
        // The peer's end, and our answer to it, bring the worker back.
        assert_eq!(theatres[at].next(), Seen::End(id, 0));
        theatres[at].tell(Do::Finish(id));
        assert_eq!(theatres[at].closed(), Closed::Finished);
        theatres[at].wait_until_in(libc::SYS_accept4);
    }
    for theatre in theatres {
        theatre.close();
    }
    let mut rounds = order.chunks(WORKERS);
    let mut first = order[..WORKERS].to_vec();
    first.sort_unstable();
    (first == [0, 1, 2] && rounds.all(|round| round == &order[..WORKERS]), order)
}

/// A worker that waits in accept(2), and for nothing else, still stops.
#[test]
fn an_idle_blocking_worker_stops() {
    let (listeners, _) = listen(Model::Blocking, 1);
    let config = Config { model: Model::Blocking, ..Config::default() };
    // By what wakes it, at once: before it would be seen to anyhow, half a
    // second after it began to wait. On a busy machine, in one of some tries.
    let sooner = |_| {
        let theatre = Theatre::open(config.clone(), listeners.for_worker(0));
        theatre.wait_until_in(libc::SYS_accept4);
        let asked = cpu::Clock.now();
        theatre.close();
        cpu::Clock.now().since(asked) < Duration::from_millis(400)
    };
    assert!((0..50).any(sooner));
    // Without, when it is next seen to.
    let running = start_echo(config, listeners.for_worker(0));
    std::thread::sleep(Duration::from_millis(50));
    running.stop();
}

/// TCP_DEFER_ACCEPT and TCP_FASTOPEN where the machine allows it, else a
/// reason.
#[test]
fn options_of_listening_sockets_are_set() {
    let options = ListenOptions { defer_accept: Some(Duration::from_secs(3)), ..ListenOptions::default() };
    let (listeners, address) = listen_on("127.0.0.1:0", &options, Model::Reuseport, 1);
    let running = start_echo(Config::default(), listeners.for_worker(0));
    let mut stream = client(address);
    // Not handed over before it has said something.
    std::thread::sleep(Duration::from_millis(30));
    ask(&mut stream, b"hello");
    let (echo, counters) = running.stop();
    assert_eq!((echo.opened, counters.receives_empty), (1, 0), "its first read found what it said");
    let options = ListenOptions { fast_open: Some(16), ..ListenOptions::default() };
    match Listeners::bind(&["127.0.0.1:0".parse().unwrap()], &options, Model::Reuseport, 1) {
        Ok(listeners) => {
            let fd = listeners.iter().next().unwrap().1.try_clone_to_owned().unwrap();
            assert_eq!(number(&fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN), 16);
        }
        Err(error) => assert!(error.to_string().contains("net.ipv4.tcp_fastopen"), "{error}"),
    }
}

/// What one address has of its own, no other has; connections inherit it.
#[test]
fn addresses_have_options_of_their_own() {
    let all: Vec<Endpoint> = ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"].map(|at| at.parse().unwrap()).into();
    let times = KeepAlive { idle: Duration::from_secs(77), interval: Duration::from_secs(7), probes: 3 };
    let stream = StreamOptions { keep_alive: Some(times), ..StreamOptions::default() };
    let deferred = ListenOptions { defer_accept: Some(Duration::from_secs(3)), ..ListenOptions::default() };
    let own = vec![
        (all[1].clone(), OwnOptions { listen: deferred, stream: Some(stream) }),
        (all[2].clone(), OwnOptions { listen: ListenOptions::default(), stream: None }),
    ];
    let usual = ListenOptions { own, ..ListenOptions::default() };
    let listeners = Listeners::bind(&all, &usual, Model::Exclusive, 1).unwrap();
    let running = start_echo(Config::default(), listeners.for_worker(0));
    for (endpoint, _) in listeners.iter() {
        let Endpoint::Tcp(address) = endpoint else { panic!("{endpoint}") };
        ask(&mut client(*address), b"hello");
    }
    let fds: Vec<OwnedFd> = listeners.iter().map(|(_, fd)| fd.try_clone_to_owned().unwrap()).collect();
    let options = |option| fds.iter().map(move |fd| number(fd, libc::IPPROTO_TCP, option));
    let idle: Vec<u32> = options(libc::TCP_KEEPIDLE).collect();
    assert_eq!(idle[1], 77, "{idle:?}");
    assert!(idle[0] != 77 && idle[0] == idle[2], "{idle:?}");
    let deferred: Vec<bool> = options(libc::TCP_DEFER_ACCEPT).map(|seconds| seconds > 0).collect();
    assert_eq!(deferred, [false, true, false]);
    running.stop();
}

/// While they serve, and by who takes them over.
#[test]
fn options_of_what_listens_change() {
    let at: Vec<Endpoint> = vec!["127.0.0.1:0".parse().unwrap()];
    let times = KeepAlive { idle: Duration::from_secs(77), interval: Duration::from_secs(7), probes: 3 };
    let stream = StreamOptions { keep_alive: Some(times), receive_buffer: Some(40_000), ..StreamOptions::default() };
    let deferred = ListenOptions { backlog: 7, defer_accept: Some(Duration::from_secs(1)), ..ListenOptions::default() };
    let mut listeners = Listeners::bind(&at, &ListenOptions::default(), Model::Reuseport, 2).unwrap();
    let told = |listeners: &Listeners| {
        let of = |(_, fd): (&Endpoint, std::os::fd::BorrowedFd<'_>)| {
            let fd = fd.try_clone_to_owned().unwrap();
            let deferred = number(&fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) > 0;
            let keeps = sockopt::socket_keepalive(&fd).unwrap().then(|| sockopt::tcp_keepidle(&fd).unwrap().as_secs());
            (deferred, keeps, sockopt::socket_recv_buffer_size(&fd).unwrap())
        };
        let all: Vec<_> = listeners.iter().map(of).collect();
        assert!(all.len() == 2 && all[0] == all[1], "{all:?}");
        all[0]
    };
    assert_eq!((told(&listeners).0, told(&listeners).1), (false, None));
    assert!(listeners.set_options(&deferred, &stream).is_empty());
    assert_eq!(told(&listeners), (true, Some(77), 80_000));
    // What is not set stays, but for the deferring.
    assert!(listeners.set_options(&ListenOptions::default(), &StreamOptions::default()).is_empty());
    assert_eq!(told(&listeners), (false, Some(77), 80_000));
    let off = StreamOptions { no_keep_alive: true, ..StreamOptions::default() };
    assert!(listeners.set_options(&ListenOptions::default(), &off).is_empty());
    assert_eq!(told(&listeners), (false, None, 80_000));
    let fds = listeners.iter().map(|(_, fd)| fd.try_clone_to_owned().unwrap()).collect();
    listeners.disown_files();
    let at = listeners.endpoints();
    let taken = Listeners::adopt(fds, Origin::Predecessor, &at, &deferred, Model::Reuseport, 2).unwrap();
    assert_eq!(told(&taken), (true, None, 80_000));
    let bad = StreamOptions { congestion: Some("no-such".into()), ..StreamOptions::default() };
    assert_eq!(taken.set_options(&deferred, &bad).len(), 2);
}

/// `[::]` alone, when asked for.
#[test]
fn ipv6_only_is_only_ipv6() {
    let options = ListenOptions { v6_only: true, ..ListenOptions::default() };
    let (listeners, address) = listen_on("[::]:0", &options, Model::Reuseport, 1);
    let running = start_echo(Config::default(), listeners.for_worker(0));
    ask(&mut client((core::net::Ipv6Addr::LOCALHOST, address.port()).into()), b"six");
    // At an address that nobody else here listens at: the port is ours for IPv6 alone.
    assert!(std::net::TcpStream::connect((core::net::Ipv4Addr::new(127, 66, 0, 6), address.port())).is_err());
    running.stop();
}

/// At its limit on connections a worker ends the one that has been idle for
/// longest for each that comes.
#[test]
fn idle_connections_make_room() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let running = start_echo(Config { max_connections: 8, ..Config::default() }, listeners.for_worker(0));
    let mut streams: Vec<_> = (0..8).map(|_| client(address)).collect();
    for stream in &mut streams {
        ask(stream, b"idle from now on");
    }
    // These are idle for less long.
    for stream in &mut streams[..4] {
        ask(stream, b"again");
    }
    let mut newcomers: Vec<_> = (0..4).map(|_| client(address)).collect();
    for stream in &mut newcomers {
        ask(stream, b"new");
    }
    for stream in streams[..4].iter_mut().chain(&mut newcomers) {
        ask(stream, b"still there");
    }
    for stream in &mut streams[4..] {
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "ended in order");
    }
    let (echo, counters) = running.stop();
    assert_eq!((echo.opened, counters.idle_displaced, counters.accept_limits), (12, 4, 0));
}

/// At its limit on connections, of which none is idle, a worker leaves the
/// queue alone until one ends.
#[test]
fn the_limit_on_connections_holds_back_the_queue() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config { max_connections: 2, ..Config::default() }, listeners.for_worker(0));
    let streams = [client(address), client(address)];
    let ids = [theatre.opened(), theatre.opened()];
    let mut third = client(address);
    third.write_all(b"wait").unwrap();
    wait_for("the limit to be seen", || theatre.counters().accept_limits == 1);
    let (before, began) = (theatre.counters(), cpu::Clock.now());
    std::thread::sleep(Duration::from_millis(60));
    let after = theatre.counters();
    assert_eq!((after.connections, after.accept_limits), (2, 1));
    // It sleeps, however long that was.
    let (waits, slept) = (after.waits - before.waits, cpu::Clock.now().since(began));
    assert!(is_asleep(waits, slept), "{waits} waits in {slept:?}");
    theatre.tell(Do::Abort(ids[0]));
    assert_eq!(theatre.closed(), Closed::Aborted);
    assert_eq!(theatre.opened().index(), ids[0].index(), "slots are dense");
    assert_eq!(theatre.bytes(4), b"wait");
    drop(streams);
    theatre.close();
}

/// A client that has as many connections as it may have is reset, and may come
/// again when one has ended; a proxy's address has no limit.
#[test]
fn one_client_has_its_limit() {
    for exempt in [Vec::new(), vec!["127.0.0.0/8".parse().unwrap()]] {
        let limited = exempt.is_empty();
        let (listeners, address) = listen(Model::Reuseport, 1);
        let per_source = Some(app::SourceRule { limit: 2, exempt });
        let running = start_echo(Config { per_source, ..Config::default() }, listeners.for_worker(0));
        let mut streams = [client(address), client(address)];
        for stream in &mut streams {
            ask(stream, b"one of two");
        }
        if limited {
            // Reset as soon as it is accepted: before connect(2) has returned, or when it speaks.
            let answer = TcpStream::connect(address).and_then(|mut third| {
                let _ = third.write_all(b"x");
                third.read(&mut [0; 1])
            });
            assert!(matches!(answer, Err(_) | Ok(0)), "{answer:?}");
            let [first, mut second] = streams;
            first.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!((&first).read(&mut [0; 1]).unwrap(), 0);
            // It is over before the next is asked for, or soon after.
            drop(first);
            ask(&mut second, b"still there");
            ask(&mut client(address), b"in its place");
        } else {
            ask(&mut client(address), b"a proxy's");
        }
        let (_, counters) = running.stop();
        assert_eq!(counters.source_limited, u64::from(limited));
    }
}

/// All of IPv4's addresses are none of IPv6's, where each family has its own socket.
#[test]
fn a_socket_of_one_family_does_not_stand_for_the_other() {
    let options = ListenOptions { v6_only: true, ..ListenOptions::default() };
    let bind = |given: Vec<OwnedFd>, at: &[String]| {
        let endpoints: Vec<Endpoint> = at.iter().map(|text| text.parse().unwrap()).collect();
        Listeners::adopt(given, Origin::Predecessor, &endpoints, &options, Model::Reuseport, 1)
    };
    let first = bind(Vec::new(), &["0.0.0.0:0".to_owned()]).unwrap();
    let (Endpoint::Tcp(at), fd) = first.iter().next().map(|(at, fd)| (at.clone(), fd)).unwrap() else { panic!("TCP") };
    let given = vec![fd.try_clone_to_owned().unwrap()];
    match bind(given, &[at.to_string(), format!("[::]:{}", at.port())]) {
        Ok(both) => assert_eq!(both.endpoints().len(), 2),
        Err(why) => println!("left out: no IPv6 here ({why})"),
    }
}

/// One address has a queue for each worker where all others share one, and the other way
/// around none is lost.
#[test]
fn an_address_that_is_hashed_has_its_own_queues_whatever_the_model_is() {
    let hashed: Endpoint = "127.0.0.1:0".parse().unwrap();
    let shared: Endpoint = "127.0.0.2:0".parse().unwrap();
    let own = OwnOptions { listen: ListenOptions { hashed: true, ..ListenOptions::default() }, stream: None };
    let options = ListenOptions { own: vec![(hashed.clone(), own)], ..ListenOptions::default() };
    let listeners = Listeners::bind(&[hashed, shared], &options, Model::Exclusive, 3).unwrap();
    for worker in 0..3 {
        let mine = listeners.for_worker(worker);
        let is_shared: Vec<bool> = mine.iter().map(sockets::Listener::is_shared).collect();
        assert_eq!(is_shared, [false, true]);
    }
    assert_eq!(listeners.iter().count(), 4);
}
