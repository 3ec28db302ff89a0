//! Which server of an upstream is asked: the same as nginx asks, one after the other,
//! whatever the servers do.

use crate::process::{Folder, Running};
use nginx::{Configuration, Disk, Surroundings, compile};
use random::SplitMix64;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::time::Duration;
use upstream::{Attempts, Balancer, Balancing, BalancingKey};

/// Upstreams; `@` is the address of one more listener. Failures rest for longer than
/// the test takes, so that no second decides.
const UPSTREAMS: [&str; 9] = [
    "server @ weight=8 max_fails=4 fail_timeout=1h; server @ weight=3 max_fails=0; server @ max_fails=0;",
    "server @ max_fails=1 fail_timeout=1h; server @ weight=2 max_fails=2 fail_timeout=1h; server @ backup max_fails=0;
     server @ backup weight=3 max_fails=5 fail_timeout=1h;",
    "ip_hash; server @ weight=2 max_fails=0; server @ down; server @ weight=3 max_fails=6 fail_timeout=1h; server @ max_conns=1;",
    "least_conn; server @ max_fails=0; server @ weight=2 max_fails=0 max_conns=2; server @ weight=3 max_fails=3 fail_timeout=1h;
     server @ backup;",
    "hash $arg_k; server @ weight=2 max_fails=0; server @ max_fails=0; server @ weight=3 max_fails=3 fail_timeout=1h;",
    "hash $arg_k consistent; server @ max_fails=0; server @ weight=2 max_fails=0; server @ max_conns=1 max_fails=0; server @ down;",
    "server @ fail_timeout=1h;",
    "server @ max_conns=1 max_fails=0; server @ max_conns=2 weight=4 max_fails=0;",
    "server @ fail_timeout=1h; hash $arg_k consistent; server @ fail_timeout=1h; server @ max_fails=3 fail_timeout=1h; keepalive 2;",
];

/// A second for all that happens here.
const NOW: i64 = 5;
/// How long what must come may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// An upstream: the listeners of its servers, and what we think of them.
struct Upstream {
    balancer: Balancer,
    listeners: Vec<TcpListener>,
}

/// A request on its way.
struct Asked {
    client: TcpStream,
    server: TcpStream,
    attempts: Attempts,
    upstream: usize,
}

fn upstreams(folder: &Folder) -> (Vec<Upstream>, String) {
    let (mut text, mut all) = (String::new(), Vec::new());
    for (number, pattern) in UPSTREAMS.iter().enumerate() {
        let mut pieces = pattern.split('@');
        let mut servers = pieces.next().unwrap().to_owned();
        let mut listeners = Vec::new();
        for piece in pieces {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            servers += &listener.local_addr().unwrap().to_string();
            servers += piece;
            listener.set_nonblocking(true).unwrap();
            listeners.push(listener);
        }
        text += &format!("upstream u{number} {{ {servers} }}\n");
        all.push(listeners);
    }
    folder.write("ours.conf", format!("events {{}} http {{ access_log off; {text} }}").as_bytes());
    let path = folder.configuration().with_file_name("ours.conf");
    let configuration = Configuration::read(&mut Disk, &path, b"").unwrap();
    let around = Surroundings { prefix: path.parent().unwrap(), hostname: "here", root: true, resolve: |_| Vec::new() };
    let groups = compile(&configuration, around).unwrap().program.upstreams;
    let balancers = groups.into_iter().map(|group| Balancer::new(group.group));
    let all = all.into_iter().zip(balancers).map(|(listeners, balancer)| Upstream { balancer, listeners });
    (all.collect(), text)
}

/// Asks nginx for something of an upstream.
fn ask(nginx: &Running, upstream: usize, key: &str, client: IpAddr) -> TcpStream {
    let mut stream = nginx.connect().into_inner();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request =
        format!("GET /{upstream}/?k={key} HTTP/1.1\r\nHost: a\r\nX-Real-IP: {client}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Whichever server of an upstream is asked, and the connection, its request read.
fn accepted(upstream: &Upstream) -> (usize, TcpStream) {
    for _ in 0..300_000 {
        let came = upstream.listeners.iter().map(TcpListener::accept);
        let Some((server, Ok((stream, _)))) = came.enumerate().find(|(_, came)| came.is_ok()) else {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut stream, mut read, mut byte) = (stream, Vec::new(), [0]);
        while !read.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            read.push(byte[0]);
        }
        return (server, stream);
    }
    panic!("nginx asks no server of {}", upstream.name());
}

impl Upstream {
    fn name(&self) -> String {
        String::from_utf8_lossy(&self.balancer.group().name).into_owned()
    }

    /// The next server for a request, beside the one that nginx asks; none where nginx
    /// says that there is none.
    fn next(&mut self, attempts: &mut Attempts, client: &mut TcpStream) -> Option<TcpStream> {
        let Some(peer) = self.balancer.choose(attempts, NOW, &mut || 0) else {
            assert_eq!(status(client), 502, "no server of {}", self.name());
            return None;
        };
        let expected = self.balancer.group().peers()[peer.place()].server;
        let (server, stream) = accepted(self);
        assert_eq!(server, usize::from(expected), "{}", self.name());
        Some(stream)
    }
}

/// The status of an answer, read to its end.
fn status(client: &mut TcpStream) -> u16 {
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap()
}

/// A client of IPv4 or IPv6.
fn some_client(random: &mut SplitMix64) -> IpAddr {
    let bits = random.bits();
    if bits & 1 == 0 {
        Ipv4Addr::from(bits as u32 >> 3 | 0x0a00_0000).into()
    } else {
        Ipv6Addr::from(u128::from(bits) << 60 | u128::from(bits)).into()
    }
}

#[test]
fn servers_are_asked_in_the_same_order() {
    let Some(folder) = Folder::new("balancing") else { return };
    let (mut upstreams, text) = upstreams(&folder);
    let own = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let locations: String = (0..upstreams.len())
        .map(|number| format!("location /{number}/ {{ proxy_pass http://u{number}; }}\n"))
        .collect();
    let server = format!(
        "{text} set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP; proxy_read_timeout 600; proxy_connect_timeout 600;
         proxy_http_version 1.1; proxy_set_header Connection \"\";
         server {{ listen 127.0.0.1:{own}; {locations} }}"
    );
    let nginx = folder.start(&server, own);
    let mut random = SplitMix64::new(0x9e6c_63d0_876a_6a35);
    let mut under_way: Vec<Asked> = Vec::new();
    let (mut none, mut second) = (0, 0);
    for step in 0..900 {
        let ends = under_way.len() >= 12 || step >= 850;
        if !ends && (under_way.is_empty() || random.below(2) == 0) {
            let number = random.below(upstreams.len());
            let key = if random.below(10) == 0 { String::new() } else { format!("k/{}", random.below(5_000)) };
            let address = some_client(&mut random);
            let mut client = ask(&nginx, number, &key, address);
            let upstream = &mut upstreams[number];
            let key = match upstream.balancer.group().balancing() {
                Balancing::ClientAddress => BalancingKey::Client(Some(address)),
                _ => BalancingKey::Value(key.as_bytes()),
            };
            let mut attempts = upstream.balancer.begin(key);
            match upstream.next(&mut attempts, &mut client) {
                Some(server) => under_way.push(Asked { client, server, attempts, upstream: number }),
                None => none += 1,
            }
            continue;
        }
        if under_way.is_empty() {
            break;
        }
        let mut asked = under_way.swap_remove(random.below(under_way.len()));
        let upstream = &mut upstreams[asked.upstream];
        if random.below(4) > 0 {
            asked.server.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").unwrap();
            drop(asked.server);
            assert_eq!(status(&mut asked.client), 200);
            upstream.balancer.release(&mut asked.attempts, NOW, false);
            continue;
        }
        // It fails without an answer: the next is asked, if there is one.
        drop(asked.server);
        upstream.balancer.release(&mut asked.attempts, NOW, true);
        if asked.attempts.left() == 0 {
            assert_eq!(status(&mut asked.client), 502);
        } else if let Some(server) = upstream.next(&mut asked.attempts, &mut asked.client) {
            second += 1;
            under_way.push(Asked { server, ..asked });
        } else {
            none += 1;
        }
    }
    assert!(none > 5 && second > 20, "{none} found no server, {second} were asked as second");
}
