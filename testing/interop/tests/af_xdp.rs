//! `nearside serve` over an interface's queues (AF_XDP), with the kernel on the
//! other end of a veth pair, and beside it on the same interface.

use interop::veth::{CLIENT, CLIENT_OWN, Far, HOST, OWN, OWN_HOSTS, SERVER};
use interop::{
    Nearside, Program, Running, SITE_LARGE, SITE_SMALL, in_namespace, ip, output, scratch, sha256, site, wait_for,
};
use rustix::process::Signal;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const CURL: Program = Program::new("curl", "curl");
const AB: Program = Program::new("ab", "apache2-utils");
const WRK: Program = Program::new("wrk", "wrk");
const PING: Program = Program::new("ping", "iputils-ping");

/// A server of the site with these arguments, that answers at `host`.
fn serve(far: &Far, host: &str, arguments: &[&str]) -> Running {
    serve_with(far, host, "", arguments)
}

/// The same, with these options of the link.
fn serve_with(far: &Far, host: &str, options: &str, arguments: &[&str]) -> Running {
    let link = format!("af_xdp:{SERVER}{options}");
    let mut command = Nearside::command(["serve", site().to_str().unwrap(), "--link", &link, "--listen", "80"]);
    let mut server = Running::start(command.args(arguments));
    far.wait_until_served(&mut server, &format!("http://{host}/{}", SITE_SMALL.0));
    server
}

fn small(far: &Far, host: &str) {
    let (name, size) = SITE_SMALL;
    let mut curl = far.command("curl");
    curl.args(["--silent", "--show-error", "--globoff", "--max-time", "60", "--output", "/dev/null"]);
    curl.args(["--write-out", "%{http_code} %{size_download}"]).arg(format!("http://{host}/{name}"));
    assert_eq!(output(&mut curl), format!("200 {size}"));
}

fn large(far: &Far, host: &str) {
    let (name, size) = SITE_LARGE;
    let expected = sha256(File::open(site().join(name)).unwrap());
    let mut curl = far.command("curl");
    curl.args(["--silent", "--show-error", "--fail", "--globoff", "--max-time", "300"]);
    curl.args(["--write-out", "%{stderr}%{http_code} %{size_download}"]).arg(format!("http://{host}/{name}"));
    let mut curl = curl.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let got = sha256(curl.stdout.take().unwrap());
    let curl = curl.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&curl.stderr);
    assert!(curl.status.success(), "{}: {said}", curl.status);
    assert_eq!((said.as_ref(), got), (&*format!("200 {size}"), expected));
}

/// The number behind `label` in a generator's report.
fn figure(report: &str, label: &str) -> f64 {
    let line = report.lines().find(|line| line.trim_start().starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no '{label}' in:\n{report}"));
    line.trim_start()[label.len()..].split_whitespace().next().unwrap().parse().unwrap()
}

/// Whether the server's interface has an XDP program.
fn has_program() -> bool {
    output(Command::new("ip").args(["-details", "link", "show", "dev", SERVER])).contains("prog/xdp")
}

#[test]
fn the_hosts_addresses_are_served_and_all_else_stays_with_the_kernel() {
    in_namespace(&[CURL, AB, PING], || {
        let far = Far::new(1);
        // As SSH: a TCP server of the kernel's on the same address.
        let listener = TcpListener::bind("10.7.0.1:22").unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut line = [0; 64];
                    while let Ok(len @ 1..) = stream.read(&mut line) {
                        stream.write_all(&line[..len]).unwrap();
                    }
                });
            }
        });
        let server = serve(&far, HOST[0], &[]);
        let said = server.said();
        assert!(said.contains("driver veth, native mode"), "{said}");
        for host in HOST {
            small(&far, host);
            large(&far, host);
        }
        let mut session = far.command("python3");
        session.args(["-c", SESSION]).stdin(Stdio::null()).stdout(Stdio::piped());
        let session = session.spawn().unwrap();
        let ping =
            far.command("ping").args(["-q", "-i", "0.02", "-c", "50", "10.7.0.1"]).stdout(Stdio::piped()).spawn();
        let url = format!("http://{}/{}", HOST[0], SITE_SMALL.0);
        let report = output(far.command("ab").args(["-q", "-k", "-n", "30000", "-c", "32", "-s", "60", &url]));
        assert_eq!((figure(&report, "Failed requests:"), figure(&report, "Complete requests:")), (0.0, 30_000.0));
        let session = session.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&session.stdout), "200 lines came back\n");
        let ping = ping.unwrap().wait_with_output().unwrap();
        let ping = String::from_utf8_lossy(&ping.stdout).into_owned();
        assert!(ping.contains(" 0% packet loss"), "{ping}");
        // Ports that are not served are refused by the kernel.
        let refused = far.command("curl").args(["--silent", "http://10.7.0.1:81/"]).status().unwrap();
        assert_eq!(refused.code(), Some(7));
        server.stop();
        wait_for("the program to be gone", || !has_program());
    });
}

/// A conversation line by line, as SSH's.
const SESSION: &str = "
import socket
s = socket.create_connection(('10.7.0.1', 22), timeout=20)
for n in range(200):
    line = b'line %d' % n
    s.sendall(line)
    assert s.recv(64) == line
print('200 lines came back')";

/// What the host's own programs send to its addresses goes over lo: kernel sockets
/// in the same silos serve it, confined as they are.
#[test]
fn clients_on_the_same_host_are_served_too() {
    in_namespace(&[CURL], || {
        let far = Far::new(2);
        let folder = scratch("af-xdp-local");
        let [log, page] = ["log", "page"].map(|name| folder.join(name).to_str().unwrap().to_owned());
        [&log, &page].iter().for_each(|path| drop(std::fs::remove_file(path)));
        let link = format!("af_xdp:{SERVER}");
        let started = |more: &[&str]| {
            let mut command = Nearside::confined([site().to_str().unwrap(), "--link", &link, "--listen", "80"]);
            command.args(["--silos", "2", "--access-log", &log, "--status-page", &page]).args(more);
            let mut server = Running::start(&mut command);
            far.wait_until_served(&mut server, &format!("http://{}/{}", HOST[0], SITE_SMALL.0));
            server
        };
        let here = |host: &str, port: u16, file: (&str, usize)| {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--globoff", "--max-time", "60", "--output", "/dev/null"]);
            let told = curl.args(["--write-out", "%{http_code} %{size_download}"]);
            let out = told.arg(format!("http://{host}:{port}/{}", file.0)).output().unwrap();
            (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
        };
        let server = started(&[]);
        assert!(server.said().contains("clients on this host are served, too"), "{}", server.said());
        assert_eq!(here("127.0.0.1", 80, SITE_SMALL).0, Some(7), "the interface's addresses alone");
        for host in HOST {
            for file in [SITE_SMALL, SITE_LARGE] {
                assert_eq!(here(host, 80, file), (Some(0), format!("200 {}", file.1)), "{host}");
            }
            assert_eq!(here(host, 81, SITE_SMALL).0, Some(7), "{host}");
        }
        small(&far, HOST[0]);
        let told = || output(Nearside::command(["status", "--json"]).arg(&page));
        let of = |name: &str| {
            let pages: serde_json::Value = serde_json::from_str(&told()).unwrap();
            let silos = pages[0]["silos"].as_array().unwrap().iter();
            silos.map(|silo| silo[name].as_u64().unwrap_or_else(|| panic!("no {name} in {silo}"))).sum::<u64>()
        };
        wait_for("the counts", || of("sockets.accepted") == 4);
        assert!(of("app.requests") >= 6, "{}", told());
        let lines = || std::fs::read_to_string(&log).unwrap();
        for (client, count) in [("10.7.0.1 ", 2), ("fd07::1 ", 2)] {
            let known = || lines().lines().filter(|line| line.starts_with(client)).count() == count;
            wait_for("the lines", known);
        }
        assert!(lines().contains("10.7.0.2 "), "{}", lines());
        // What is open when it is told to stop is finished.
        let mut open = TcpStream::connect("10.7.0.1:80").unwrap();
        open.write_all(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", SITE_LARGE.0).as_bytes()).unwrap();
        open.read_exact(&mut [0; 1_000]).unwrap();
        let reader = thread::spawn(move || open.read_to_end(&mut Vec::new()).unwrap() + 1_000);
        server.stop();
        assert!(reader.join().unwrap() > SITE_LARGE.1, "head and body");
        // Who does not want it.
        let server = started(&["--local-clients", "off"]);
        assert!(server.said().contains("do not reach 10.7.0.1"), "{}", server.said());
        assert_eq!(here(HOST[0], 80, SITE_SMALL).0, Some(7));
        server.stop();
    });
}

#[test]
fn an_address_of_our_own_is_resolved_and_served() {
    in_namespace(&[CURL, WRK, PING], || {
        let far = Far::new(1);
        let server = serve(&far, OWN_HOSTS[0], &OWN);
        for host in OWN_HOSTS {
            small(&far, host);
            let url = format!("http://{host}/{}", SITE_SMALL.0);
            let report = output(far.command("wrk").args(["-t", "1", "-c", "64", "-d", "1s", "--timeout", "60s", &url]));
            assert!(!report.contains("Socket errors") && !report.contains("Non-2xx"), "{report}");
        }
        large(&far, OWN_HOSTS[0]);
        // Ours answers echo requests, and the host's own address is untouched.
        for address in ["10.7.0.5", "fd07::5", "10.7.0.1", "fd07::1"] {
            let _ = output(far.command("ping").args(["-q", "-c", "3", "-i", "0.1", "-W", "5", address]));
        }
        server.stop();
    });
}

#[test]
fn four_queues_serve_every_byte() {
    in_namespace(&[CURL, AB], || {
        let cores = first_cores();
        for (options, silos) in [
            ("", &[][..]),
            (",umem=shared", &["--silos", "2"]),
            (",hugepages=off,ring=128", &["--silos", &cores, "--steer", "hash"]),
        ] {
            let far = Far::new(4);
            let server = serve_with(&far, HOST[0], options, silos);
            assert!(server.said().contains("queues 4 of 4"), "{}", server.said());
            // So many connections that each queue has some.
            let url = format!("http://{}/{}", HOST[0], SITE_SMALL.0);
            let report = output(far.command("ab").args(["-q", "-k", "-n", "10000", "-c", "64", "-s", "60", &url]));
            assert_eq!(figure(&report, "Failed requests:"), 0.0, "{report}");
            thread::scope(|scope| {
                for host in HOST {
                    let far = &far;
                    scope.spawn(move || large(far, host));
                }
            });
            server.stop();
            ip(&format!("link del {SERVER}"));
        }
    });
}

/// Two cores by number, or the one that there is for this process.
fn first_cores() -> String {
    let set = rustix::thread::sched_getaffinity(None).expect("a process may ask for its cores");
    let cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).map(|core| core.to_string());
    let first: Vec<_> = cores.take(2).collect();
    // As a list of one number would be a number of silos.
    if let [only] = &first[..] { format!("{only}-{only}") } else { first.join(",") }
}

/// For interfaces whose driver has no native mode; with a poll by system
/// calls.
#[test]
fn generic_mode_serves_too() {
    in_namespace(&[CURL], || {
        let far = Far::new(1);
        let server = serve_with(&far, HOST[0], ",mode=generic,busy-poll=20us", &[]);
        assert!(server.said().contains("generic mode"), "{}", server.said());
        for host in HOST {
            small(&far, host);
        }
        large(&far, HOST[0]);
        server.stop();
    });
}

#[test]
fn our_generator_loads_it_over_kernel_sockets_and_over_af_xdp() {
    in_namespace(&[CURL], || {
        let far = Far::new(1);
        let server = serve(&far, HOST[0], &[]);
        let nearside = Nearside::command::<&str>([]).get_program().to_owned();
        let link = format!("af_xdp:{CLIENT}");
        let over_xdp = [&["--link", &link][..], &CLIENT_OWN].concat();
        for host in HOST {
            for path in [&[][..], &over_xdp] {
                let url = format!("http://{host}/{}", SITE_SMALL.0);
                let mut load = far.command(&nearside);
                load.args(["load", &url, "--connections", "32", "--warmup", "100ms", "--duration", "500ms", "--json"]);
                load.args(path);
                let report: serde_json::Value = serde_json::from_str(&output(&mut load)).expect("JSON");
                let text = report.to_string();
                let number = |at: &str| report.pointer(at).and_then(serde_json::Value::as_u64);
                assert!(number("/statuses/success").is_some_and(|answers| answers > 100), "{text}");
                let none = ["/errors/reset", "/errors/timeouts", "/errors/wrong_length", "/errors/truncated"];
                assert!(none.iter().all(|at| number(at) == Some(0)), "{text}");
            }
        }
        server.stop();
    });
}

/// A kernel cuts its segments itself where the other end of a veth takes
/// frames natively: what it sends in bulk arrives, and none of it twice.
#[test]
fn what_a_kernel_client_sends_in_bulk_arrives() {
    in_namespace(&[CURL], || {
        let far = Far::new(1);
        let server = serve(&far, HOST[0], &[]);
        let said = output(far.command("python3").args(["-c", PIPELINE]));
        assert_eq!(said, "5000 answers\n");
        server.stop();
    });
}

/// Requests in a row, 200 KB of them, written as fast as the kernel takes
/// them.
const PIPELINE: &str = "
import socket, threading
s = socket.create_connection(('10.7.0.1', 80), timeout=30)
requests = b'GET /small.html HTTP/1.1\\r\\nHost: near\\r\\n\\r\\n' * 5000
threading.Thread(target=s.sendall, args=(requests,), daemon=True).start()
answers, tail = 0, b''
while answers < 5000:
    more = s.recv(1 << 16)
    assert more, 'closed after %d' % answers
    tail += more
    answers += tail.count(b'HTTP/1.1 200 OK\\r\\n')
    tail = tail[tail.rfind(b'HTTP/1.1 200 OK\\r\\n') + 17:] if b'HTTP/1.1 200 OK\\r\\n' in tail else tail[-16:]
print('%d answers' % answers)";

#[test]
fn an_interface_goes_down_and_comes_back() {
    in_namespace(&[CURL], || {
        let far = Far::new(1);
        let server = serve(&far, HOST[0], &[]);
        let url = format!("http://{}/{}", HOST[0], SITE_LARGE.0);
        let mut curl = far.command("curl");
        curl.args(["--silent", "--fail", "--max-time", "120", "--limit-rate", "8M", "--output", "/dev/null", &url]);
        let mut under_way = Running::start(&mut curl);
        for _ in 0..3 {
            ip(&format!("link set {SERVER} down"));
            thread::sleep(Duration::from_millis(150));
            ip(&format!("link set {SERVER} up"));
        }
        // Taken down, an interface loses its IPv6 addresses.
        ip(&format!("addr add fd07::1/64 dev {SERVER} nodad"));
        small(&far, HOST[0]);
        // One that comes is served once the server has heard of it.
        wait_for("the address that came back", || {
            let mut curl = far.command("curl");
            curl.args(["--silent", "--globoff", "--max-time", "2", "--output", "/dev/null"]);
            curl.arg(format!("http://{}/{}", HOST[1], SITE_SMALL.0)).status().is_ok_and(|status| status.success())
        });
        wait_for("the end of a download under way", || under_way.has_ended());
        server.stop();
    });
}

#[test]
fn a_peer_that_is_deleted_leaves_a_server_that_can_be_stopped() {
    in_namespace(&[CURL], || {
        let far = Far::new(2);
        let server = serve(&far, HOST[0], &[]);
        drop(far);
        wait_for("the interface to be gone", || {
            !Command::new("ip").args(["link", "show", "dev", SERVER]).output().unwrap().status.success()
        });
        thread::sleep(Duration::from_millis(300));
        server.stop_at_once();
    });
}

#[test]
fn a_second_program_is_refused_with_the_name_of_the_first() {
    in_namespace(&[CURL], || {
        let far = Far::new(1);
        let server = serve(&far, HOST[0], &[]);
        let link = format!("af_xdp:{SERVER}");
        let second = ["serve", "--respond", "x", "--link", &link, "--addr", "10.7.0.6/24"];
        let refused = Nearside::command(second).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("nearside_host") && said.contains("xdp off"), "{said}");
        small(&far, HOST[0]);
        server.stop();
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    in_namespace(&[CURL], || {
        let _far = Far::new(1);
        let refusal = |link: &str| {
            let refused = Nearside::command(["serve", "--respond", "x", "--link", link]).stdin(Stdio::null()).output();
            let refused = refused.unwrap();
            assert!(!refused.status.success(), "{link}");
            String::from_utf8_lossy(&refused.stderr).into_owned()
        };
        for (link, why) in [
            ("af_xdp:nobody", "there is no interface nobody"),
            ("af_xdp:lo", "Ethernet"),
            ("af_xdp:near0,queues=3", "no queue"),
            ("af_xdp:near0,copy=zero-copy", "copy=auto"),
        ] {
            let said = refusal(link);
            assert!(said.contains(why), "{link}: {said}");
        }
        let listener = TcpListener::bind("10.7.0.1:80").unwrap();
        assert!(refusal("af_xdp:near0").contains("port 80 cannot be had"));
        drop(listener);
        ip("link set near0 mtu 9000");
        assert!(refusal("af_xdp:near0").contains("MTU of 9000"));
        ip("addr flush dev near0");
        ip("link set near0 mtu 1500");
        assert!(refusal("af_xdp:near0").contains("no address"));
    });
}

#[test]
fn a_smaller_mtu_is_kept() {
    in_namespace(&[CURL], || {
        let far = Far::new(1);
        let server = serve(&far, HOST[0], &[]);
        for mtu in [1_300, 1_500, 1_280] {
            far.ip(&format!("link set {CLIENT} mtu {mtu}"));
            ip(&format!("link set {SERVER} mtu {mtu}"));
            thread::sleep(Duration::from_millis(100));
            large(&far, HOST[0]);
        }
        server.stop();
    });
}

/// The program is attached by a descriptor, which the kernel closes however
/// the process ends.
#[test]
fn a_killed_server_leaves_no_program() {
    in_namespace(&[CURL], || {
        let far = Far::new(1);
        let mut server = serve(&far, HOST[0], &[]);
        assert!(has_program());
        server.signal(Signal::KILL);
        wait_for("the end of the server", || server.has_ended());
        wait_for("the program to be gone", || !has_program());
        // The kernel has the port again.
        let listener = TcpListener::bind("10.7.0.1:80").unwrap();
        let answer =
            far.command("python3").args(["-c", "import socket; socket.create_connection(('10.7.0.1', 80))"]).status();
        assert!(answer.unwrap().success());
        let (_stream, peer): (TcpStream, _) = listener.accept().unwrap();
        assert_eq!(peer.ip().to_string(), "10.7.0.2");
    });
}

/// What flips on the way is found by the checksum, also where a local kernel
/// may leave checksums to hardware that is not there.
#[test]
fn a_segment_that_was_changed_after_summing_is_not_served() {
    in_namespace(&[CURL], || {
        let far = Far::new(1);
        let server = serve(&far, OWN_HOSTS[0], &OWN);
        let mac = |mut ip: Command, interface: &str| {
            let told = output(ip.args(["-brief", "link", "show", "dev", interface]));
            told.split_whitespace().nth(2).unwrap().to_owned()
        };
        let (ours, theirs) = (mac(Command::new("ip"), SERVER), mac(far.command("ip"), CLIENT));
        let said = |change: &str| {
            let mut python = far.command("python3");
            output(python.args(["-c", BY_HAND, CLIENT, &theirs, &ours, change]))
        };
        let (name, _) = SITE_SMALL;
        assert_eq!(said(&format!("/{name}>/{name}")), "HTTP/1.1 200 OK\n");
        let missing = "x".repeat(name.len());
        assert_eq!(said(&format!("/{name}>/{missing}")), "no answer\n");
        // The kernel's own, of which hardware was to complete the sums.
        small(&far, OWN_HOSTS[0]);
        // It would wait for those that went without a word.
        drop(server);
    });
}

/// A client by hand, without a TCP of its kernel's: its request is summed, and
/// one part of it is then exchanged for another.
const BY_HAND: &str = "
import socket, struct, sys
interface, own, to, change = sys.argv[1:]
was, becomes = change.encode().split(b'>')
own, to = (bytes.fromhex(mac.replace(':', '')) for mac in (own, to))
src, dst = socket.inet_aton('10.7.0.9'), socket.inet_aton('10.7.0.5')
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
link.bind((interface, 0))
def total(data):
    data += bytes(len(data) % 2)
    sum = 0
    for (word,) in struct.iter_unpack('!H', data):
        sum += word
    while sum >> 16:
        sum = (sum & 0xffff) + (sum >> 16)
    return sum ^ 0xffff
port, isn = struct.unpack('!HI', open('/dev/urandom', 'rb').read(6))
port, isn = port | 0x8000, isn >> 1
def send(seq, ack, flags, payload=b''):
    tcp = struct.pack('!HHIIBBHHH', port, 80, seq, ack, 5 << 4, flags, 65535, 0, 0) + payload
    sum = total(src + dst + struct.pack('!BBH', 0, 6, len(tcp)) + tcp)
    tcp = (tcp[:16] + struct.pack('!H', sum) + tcp[18:]).replace(was, becomes)
    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(tcp), 1, 0x4000, 64, 6, 0, src, dst)
    ip = ip[:10] + struct.pack('!H', total(ip)) + ip[12:]
    link.send(to + own + b'\\x08\\x00' + ip + tcp)
def hear(patience):
    link.settimeout(patience)
    while True:
        frame = link.recv(4096)
        if frame[6:12] == to and frame[23] == 6 and frame[34:38] == struct.pack('!HH', 80, port):
            payload = 34 + (frame[46] >> 4) * 4
            end = 14 + struct.unpack('!H', frame[16:18])[0]
            return struct.unpack('!I', frame[38:42])[0], frame[47], frame[payload:end]
send(isn, 0, 2)
seq, flags, _ = hear(20)
assert flags == 0x12, flags
send(isn + 1, seq + 1, 0x18, b'GET ' + was + b' HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n')
try:
    # A loss is asked about again in far less.
    payload = b''
    while not payload:
        _, _, payload = hear(20 if was == becomes else 3)
    print(payload.split(b'\\r\\n')[0].decode())
except TimeoutError:
    print('no answer')
";
