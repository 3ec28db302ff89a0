//! Two links as one between two processes of ours: one of them fails and comes
//! back under way, and no request may notice.

use app::{App, Closed, ConnId, Net, Opened, Wake};
use bond::{Bond, Member, Setup};
use interop::cable::Cable;
use interop::veth::{CLIENT, Far, SERVER};
use interop::{Nearside, Running, SITE_LARGE, SITE_SMALL, in_namespace, ip, output, scratch, site, wait_for};
use memif::{Address, Config, MemifLink, Role};
use rustix::process::Signal;
use serde_json::Value;
use silo::{Attendant, Idle, Next, Silo, Usage};
use stack::{LinkOffload, Seeds, Stack};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use wire::{Mac, Time};

/// A place for a page, without one that a test before left behind.
fn fresh(name: &str) -> PathBuf {
    let page = scratch("bond").join(name);
    let _ = std::fs::remove_file(&page);
    page
}

/// What `status` says of the page.
fn status(page: &Path) -> Value {
    let text = output(Nearside::command(["status", "--json"]).arg(page));
    let mut pages: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
    pages[0].take()
}

/// Waits until the ports of the page are in these states.
fn until(page: &Path, states: [&str; 2]) -> Value {
    let mut ports = Value::Null;
    wait_for(&format!("ports {states:?}"), || {
        ports = status(page)["ports"].take();
        ports.as_array().is_some_and(|ports| ports.iter().map(|port| &port["state"]).eq(states))
    });
    ports
}

/// Waits for `count` more requests answered than now.
fn requests(page: &Path, count: u64) {
    let answered = || status(page)["silos"][0]["app.requests"].as_u64().unwrap_or(0);
    let wanted = answered() + count;
    wait_for("requests that go on", || answered() >= wanted);
}

/// Interrupts a generator, in whose report nothing may have failed.
fn expect_no_errors(mut generator: Running) {
    generator.signal(Signal::TERM);
    wait_for("the generator's end", || generator.has_ended());
    let said = generator.said();
    // Among what it says of links and of the interruption.
    let report = said.find("\n{\n").or(said.starts_with("{\n").then_some(0)).zip(said.find("\n}\n"));
    let (from, to) = report.unwrap_or_else(|| panic!("no report in {said}"));
    let report: Value = serde_json::from_str(&said[from..to + 2]).unwrap_or_else(|why| panic!("{why}: {said}"));
    let errors = report["errors"].as_object().unwrap_or_else(|| panic!("{said}"));
    assert!(!errors.is_empty() && errors.values().all(|count| *count == 0), "{said}");
    assert!(report["statuses"]["success"].as_u64().is_some_and(|answers| answers > 1_000), "{said}");
}

/// A server over two memif links, each behind a cable.
struct Cabled {
    server: Running,
    page: PathBuf,
    cables: [Cable; 2],
    ends: [PathBuf; 2],
}

impl Cabled {
    fn new(test: &str) -> Self {
        let folder = scratch("bond");
        let path = |what: &str, n: usize| folder.join(format!("{test}-{what}{n}.sock"));
        let (sockets, ends) = ([0, 1].map(|n| path("server", n)), [0, 1].map(|n| path("client", n)));
        let page = fresh(test);
        let mut command = Nearside::command(["serve", site().to_str().unwrap(), "--addr", "10.9.0.2/24"]);
        for socket in &sockets {
            command.arg("--link").arg(format!("memif:{}", socket.display()));
        }
        let server = Running::start(command.args(["--idle", "adaptive", "--status-page"]).arg(&page));
        wait_for("the server's page", || page.exists() && sockets.iter().all(|socket| socket.exists()));
        let cables = [0, 1].map(|n| Cable::new(&ends[n], &sockets[n]));
        Self { server, page, cables, ends }
    }

    /// Pulls each cable once, and plugs it in again, while requests flow.
    fn pull_each(&self) {
        until(&self.page, ["distributing"; 2]);
        for (cable, without) in self.cables.iter().zip([["down", "distributing"], ["distributing", "down"]]) {
            requests(&self.page, 200);
            let joined = cable.joined();
            cable.plug(false);
            until(&self.page, without);
            requests(&self.page, 200);
            cable.plug(true);
            until(&self.page, ["distributing"; 2]);
            assert!(cable.joined() > joined);
        }
        requests(&self.page, 200);
    }
}

#[test]
fn no_request_fails_with_a_memif_link() {
    let cabled = Cabled::new("load");
    let mut load = Nearside::command(["load", &format!("http://10.9.0.2/{}", SITE_SMALL.0), "--addr", "10.9.0.1/24"]);
    for end in &cabled.ends {
        load.arg("--link").arg(format!("memif:{}", end.display()));
    }
    load.args(["-c", "16", "-d", "600s", "--warmup", "64r", "--want-length", &SITE_SMALL.1.to_string()]);
    load.args(["--json", "--progress", "none", "--idle", "adaptive"]);
    let load = Running::start(load.arg("--status-page").arg(fresh("load-generator")));
    cabled.pull_each();
    expect_no_errors(load);
    let ports = status(&cabled.page)["ports"].take();
    for port in ports.as_array().unwrap() {
        assert_eq!((&port["left"], &port["joined"]), (&Value::from(2), &Value::from(2)), "{ports}");
        assert!(port["rx_frames"].as_u64() > Some(100) && port["tx_frames"].as_u64() > Some(100), "{ports}");
        assert!(port["name"].is_null() || port["name"].as_str().unwrap().starts_with("memif:"), "{ports}");
    }
    cabled.server.stop();
}

/// Bytes of a file asked for at once: some hundred segments.
const PIECE: usize = 300_000;
/// Connections that ask for one piece after another.
const FETCHERS: usize = 8;

/// Fetches pieces of a file and compares them.
struct Fetcher {
    file: Vec<u8>,
    connections: HashMap<ConnId, Piece>,
    started: bool,
    pieces: usize,
}

/// A piece on its way.
struct Piece {
    at: usize,
    /// Bytes of the body that came; `None` before its head has.
    got: Option<usize>,
}

impl Fetcher {
    fn ask<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let at = self.pieces * 77_777 % (self.file.len() - PIECE);
        self.pieces += 1;
        let (name, last) = (SITE_LARGE.0, at + PIECE - 1);
        let request = format!("GET /{name} HTTP/1.1\r\nHost: a\r\nRange: bytes={at}-{last}\r\n\r\n");
        net.send_bytes(id, request.as_bytes());
        self.connections.insert(id, Piece { at, got: None });
    }
}

impl App for Fetcher {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _: Opened) {
        self.ask(net, id);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let piece = self.connections.get_mut(&id).expect("a connection that asked");
        let Some(got) = &mut piece.got else {
            let Some(head) = data.windows(4).position(|four| four == b"\r\n\r\n") else { return 0 };
            assert!(data.starts_with(b"HTTP/1.1 206 "), "{}", String::from_utf8_lossy(&data[..head]));
            piece.got = Some(0);
            return head + 4 + if data.len() > head + 4 { self.on_data(net, id, &data[head + 4..]) } else { 0 };
        };
        let from = piece.at + *got;
        assert!(*got + data.len() <= PIECE && self.file[from..from + data.len()] == *data, "wrong bytes at {from}");
        *got += data.len();
        if *got == PIECE {
            self.ask(net, id);
        }
        data.len()
    }

    fn on_end<N: Net>(&mut self, _: &mut N, _: ConnId, _: usize) {
        panic!("the server ends a connection");
    }

    fn on_sent<N: Net>(&mut self, _: &mut N, _: ConnId) {}
    fn on_timer<N: Net>(&mut self, _: &mut N, _: ConnId) {}

    fn on_close<N: Net>(&mut self, _: &mut N, _: ConnId, why: Closed) {
        panic!("a connection is gone: {why:?}");
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if !core::mem::replace(&mut self.started, true) {
            for _ in 0..FETCHERS {
                net.connect(None, SocketAddr::from(([10, 9, 0, 2], 80))).expect("a connection begins");
            }
        }
        Wake::Idle
    }

    fn drain<N: Net>(&mut self, _: &mut N) -> bool {
        true
    }
}

/// Ends the silo when the main thread says so.
struct Until<'a>(&'a core::sync::atomic::AtomicBool);

impl<L: link::Link> Attendant<L, Fetcher> for Until<'_> {
    fn attend(&mut self, _: &mut Silo<L, Fetcher>, _: Time, _: &Usage, _: link::LinkState) -> Next {
        if self.0.load(core::sync::atomic::Ordering::Relaxed) { Next::Stop } else { Next::Go }
    }
}

/// The other process is the test itself, with our stack over a bond, as only
/// it compares what it gets.
#[test]
fn every_byte_is_right_over_two_memif_links() {
    let cabled = Cabled::new("bytes");
    let over = core::sync::atomic::AtomicBool::new(false);
    let pieces = std::thread::scope(|scope| {
        let fetch = scope.spawn(|| {
            let mac = Mac([2, 0, 0, 0, 0, 9]);
            let open = |end: &PathBuf| {
                MemifLink::open(Config::new(Address::Path(end.clone()), Role::Client)).expect("a link to a cable")
            };
            let members = (0_u16..).zip(&cabled.ends).map(|(port, end)| Member { port, link: open(end) }).collect();
            let aggregator = Setup::default().aggregator(mac, ["0", "1"].map(String::from));
            let link = Bond::new(members, aggregator).expect("a bond");
            let mut config = stack::Config::new(mac, 1_500);
            config.addresses = vec![stack::Address { ip: IpAddr::from([10, 9, 0, 1]), prefix_len: 24 }];
            let seeds = Seeds { table: [1, 2, 3, 4], secret: [5, 6, 7, 8], timestamps: [9; 2] };
            let stack = Stack::new(config, LinkOffload::default(), &seeds, cpu::Clock.now());
            let file = std::fs::read(site().join(SITE_LARGE.0)).expect("the site");
            let app = Fetcher { file, connections: HashMap::new(), started: false, pieces: 0 };
            let mut silo = Silo { link, stack, app };
            silo::run(&mut silo, Idle::default(), &mut Until(&over)).expect("a silo that runs");
            silo.app.pieces
        });
        let pulled = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| cabled.pull_each()));
        over.store(true, core::sync::atomic::Ordering::Relaxed);
        let pieces = fetch.join();
        pulled.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        pieces.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert!(pieces >= 1_000, "{pieces}");
    cabled.server.signal(Signal::TERM);
    cabled.server.stop_at_once();
}

const SECOND: (&str, &str) = ("near1", "far1");

/// The Ethernet address of an interface in the clients' namespace.
fn mac(far: &Far, interface: &str) -> String {
    let text = output(far.command("ip").args(["-oneline", "link", "show", "dev", interface]));
    let mut words = text.split_whitespace().skip_while(|word| *word != "link/ether");
    words.nth(1).unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Both sides take control frames by their XDP programs, and answer to the
/// address of their first interface on both.
#[test]
fn af_xdp_ports_are_joined_by_lacp() {
    in_namespace(&[], || {
        let far = Far::new(1);
        far.join(SECOND.0, SECOND.1);
        let (page, loading) = (fresh("lacp"), fresh("lacp-generator"));
        let links = |interfaces: [&str; 2]| interfaces.map(|name| format!("--link=af_xdp:{name}"));
        let mut serve = Nearside::command(["serve", site().to_str().unwrap(), "--addr", "10.7.0.5/24"]);
        serve.args(links([SERVER, SECOND.0])).args(["--bond", "lacp", "--idle", "adaptive", "--status-page"]);
        let mut server = Running::start(serve.arg(&page));
        wait_for("the server's page", || {
            assert!(!server.has_ended(), "{}", server.said());
            page.exists()
        });
        let nearside = Nearside::command::<&str>([]).get_program().to_owned();
        let url = format!("http://10.7.0.5/{}", SITE_SMALL.0);
        let mut load = far.command(nearside);
        load.args(["load", &url, "--addr", "10.7.0.9/24", "--bond", "lacp"]).args(links([CLIENT, SECOND.1]));
        load.args(["-c", "16", "-d", "600s", "--warmup", "64r", "--want-length", &SITE_SMALL.1.to_string()]);
        load.args(["--json", "--progress", "none", "--idle", "adaptive", "--status-page"]);
        let load = Running::start(load.arg(&loading));
        let ports = until(&page, ["distributing"; 2]);
        for (port, number) in ports.as_array().unwrap().iter().zip(1..) {
            let partner = &port["lacp"]["partner"];
            assert_eq!((&partner["system"], &partner["port"]), (&mac(&far, CLIENT).into(), &number.into()), "{ports}");
            assert_eq!(port["lacp"]["receive"], "current", "{ports}");
        }
        for (interface, without) in [(SECOND.0, ["distributing", "down"]), (SERVER, ["down", "distributing"])] {
            requests(&page, 200);
            ip(&format!("link set {interface} down"));
            until(&page, without);
            requests(&page, 200);
            ip(&format!("link set {interface} up"));
            until(&page, ["distributing"; 2]);
        }
        requests(&page, 200);
        let text = output(Nearside::command(["status"]).arg(&page));
        let lines: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("port ")).collect();
        assert_eq!(lines.len(), 2, "{text}");
        for (line, name) in lines.iter().zip([SERVER, SECOND.0]) {
            assert!(line.contains(&format!("af_xdp:{name}: distributing, selected, current")), "{text}");
        }
        expect_no_errors(load);
        server.stop();
    });
}
