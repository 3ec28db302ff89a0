//! Configurations follow each other under load: each stamps its number on fields, on
//! text and on files, so that an answer by a mixture of two is seen.

use crate::answer::Connection;
use interop::{Nearside, Raised, Running, in_namespace, output, scratch, wait_for};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How many configurations follow the first one, unless `NEARSIDE_RELOADS` says
/// otherwise.
const RELOADS: usize = 20;

/// Each so many configurations all workers are waited for, whose pages take a second.
const WAITED_FOR: usize = 10;

/// Threads of the client, and the connections of each.
const THREADS: usize = 3;
const EACH: usize = 8;

/// Where a data path serves, and what makes it that one.
#[derive(Clone, Copy)]
struct Path {
    name: &'static str,
    address: &'static str,
    link: &'static [&'static str],
}

const SOCKETS: Path = Path { name: "sockets", address: "127.0.0.1:80", link: &[] };
const STACK: Path =
    Path { name: "stack", address: "10.9.0.2:80", link: &["--link", interop::TAP, "--addr", "10.9.0.2/24"] };

/// What is asked for: text, a file, a file by `try_files`, an error page, another host.
const ASKED: [&[u8]; 5] = [
    b"GET /text HTTP/1.1\r\nHost: one.example\r\n\r\n",
    b"GET /page.txt HTTP/1.1\r\nHost: one.example\r\nAccept-Encoding: gzip\r\n\r\n",
    b"GET /tried HTTP/1.1\r\nHost: one.example\r\n\r\n",
    b"GET /missing HTTP/1.1\r\nHost: one.example\r\n\r\n",
    b"GET /page.txt HTTP/1.1\r\nHost: two.example\r\n\r\n",
];

struct Site {
    folder: PathBuf,
    path: Path,
}

impl Site {
    fn new(path: Path, reloads: usize) -> Self {
        let folder = scratch("nginx-reloads").join(path.name);
        let _ = fs::remove_dir_all(&folder);
        for number in 0..=reloads {
            let release = folder.join(format!("www/{number}"));
            fs::create_dir_all(&release).unwrap();
            fs::write(release.join("page.txt"), format!("{number}\n").repeat(200)).unwrap();
        }
        fs::create_dir_all(folder.join("logs")).unwrap();
        let site = Self { folder, path };
        site.configure(0);
        site
    }

    fn path(&self) -> PathBuf {
        self.folder.join("nginx.conf")
    }

    /// Puts the configuration of this number in place, whole.
    fn configure(&self, number: usize) {
        let draft = self.folder.join("next.conf");
        fs::write(&draft, configuration(self.path, number)).unwrap();
        fs::rename(&draft, self.path()).unwrap();
    }
}

/// The same answers each time but for their number; made in other ways.
fn configuration(path: Path, number: usize) -> String {
    let (mut more, address) = (String::new(), path.address);
    // Over kernel sockets another process serves where others are listened on.
    if !path.link.is_empty() {
        let _ = writeln!(more, "server {{ listen {}; return 404; }}", 8_000 + number % 3);
    }
    // Variables, expressions and servers have other numbers in each.
    for at in 0..number % 7 {
        let _ = writeln!(more, "map $uri $extra{at} {{ default {at}; ~^/x{at}/(?<part{at}>.*)$ $part{at}; }}");
        let _ = writeln!(more, "server {{ listen {address}; server_name extra{at}.example; return 404; }}");
    }
    let gzip = if number.is_multiple_of(2) { "gzip on; gzip_types text/plain; gzip_min_length 1;" } else { "" };
    let text = match number % 3 {
        0 => format!("location = /text {{ return 200 \"{number}\\n\"; }}"),
        1 => format!("location ~ ^/te(x)t$ {{ set $is \"{number}\"; return 200 \"$is\\n\"; }}"),
        _ => format!(
            "location /t {{ if ($uri = /text) {{ return 200 \"{number}\\n\"; }} root www/{number}; \
             try_files $uri /page.txt; }}"
        ),
    };
    format!(
        "user root; worker_processes 2; daemon off; pid nginx.pid; error_log logs/error.log;\n\
         events {{}}\n\
         http {{\n\
         types {{ text/plain txt; }}\n\
         default_type text/plain; keepalive_requests 1000000000;\n\
         log_format stamped '{number} $status $sent_http_x_number';\n\
         access_log logs/access-{log}.log stamped;\n\
         {gzip}\n{more}\n\
         add_header X-Number {number} always;\n\
         server {{\n\
         listen {address}; server_name one.example; root www/{number};\n\
         error_page 404 = @missing;\n\
         location @missing {{ return 200 \"{number}\\n\"; }}\n\
         location /tried {{ try_files $uri /page.txt =404; }}\n\
         {text}\n\
         }}\n\
         server {{ listen {address}; server_name two.example *.two.example; root www/{number}; }}\n\
         }}\n",
        log = number % 2,
    )
}

/// What all connections have in common.
#[derive(Default)]
struct Shared {
    /// The oldest configuration that a request sent now may be answered by, and the
    /// newest.
    oldest: AtomicUsize,
    newest: AtomicUsize,
    answered: AtomicUsize,
    stop: AtomicBool,
}

fn ask(connection: &mut Connection, asked: &[u8], shared: &Shared) {
    let oldest = shared.oldest.load(Ordering::SeqCst);
    let answer = connection.ask(asked, b"GET");
    let newest = shared.newest.load(Ordering::SeqCst);
    let told = String::from_utf8_lossy(asked);
    assert!(answer.lives && answer.status() == Some(200), "{told}: {answer:?}");
    let number: usize = answer.field("x-number").expect("a stamp").parse().expect("a number");
    assert!((oldest..=newest).contains(&number), "{told}: by {number}, not {oldest} to {newest}");
    let body = answer.plain_body();
    let text = String::from_utf8_lossy(&body);
    assert!(!text.is_empty() && text.lines().all(|line| line == number.to_string()), "{told}: by {number}: {text}");
    shared.answered.fetch_add(1, Ordering::SeqCst);
}

fn client(path: Path, shared: &Shared) {
    let mut connections: Vec<Connection> = (0..EACH).map(|_| Connection::open(path.address)).collect();
    let mut turn = 0;
    while !shared.stop.load(Ordering::SeqCst) {
        for connection in &mut connections {
            turn += 1;
            ask(connection, ASKED[turn % ASKED.len()], shared);
        }
    }
}

/// The process's page of statistics.
fn page_of(server: &Running) -> PathBuf {
    // Over kernel sockets a parent stays beside it, which has none.
    let (id, folder) = (server.id(), ::page::usual_folder().expect("a folder for pages"));
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let child = children.split_ascii_whitespace().next().and_then(|child| child.parse().ok());
    folder.join(::page::usual_name(child.unwrap_or(id)))
}

/// Whether some new connection is answered by this configuration.
fn is_answered_by(path: Path, number: usize) -> bool {
    let answer = Connection::open(path.address).ask(ASKED[0], b"GET");
    answer.field("x-number") == Some(&*number.to_string())
}

/// Whether each worker has taken so many configurations up.
fn all_reloaded(page: &std::path::Path, times: usize) -> bool {
    let text = output(Nearside::command(["status", "--json"]).arg(page));
    let pages: serde_json::Value = serde_json::from_str(&text).unwrap();
    let workers = pages[0]["silos"].as_array().unwrap();
    workers.iter().all(|worker| worker["app.reloads"].as_u64() == Some(times as u64))
}

fn start(site: &Site) -> Running {
    let mut command = Nearside::command(["nginx"]);
    command.arg("-p").arg(&site.folder).arg("-c").arg(site.path()).args(["-e", "stderr"]).args(site.path.link);
    let mut running = Running::start(&mut command);
    running.wait_until_open(site.path.address);
    running
}

#[test]
fn configurations_follow_each_other_under_load() {
    follow_each_other(SOCKETS);
}

#[test]
fn configurations_follow_each_other_over_our_stack() {
    follow_each_other(STACK);
}

fn follow_each_other(path: Path) {
    let reloads = std::env::var("NEARSIDE_RELOADS").map_or(RELOADS, |count| count.parse().expect("a number"));
    in_namespace(&[], move || {
        let site = Site::new(path, reloads);
        let server = start(&site);
        let page = page_of(&server);
        let shared = Shared::default();
        thread::scope(|scope| {
            let stop = Raised(&shared.stop);
            let clients: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| client(path, &shared))).collect();
            let failed = || clients.iter().any(|client| client.is_finished());
            let more = || {
                let before = shared.answered.load(Ordering::SeqCst);
                wait_for("answers", || failed() || shared.answered.load(Ordering::SeqCst) >= before + THREADS * EACH);
            };
            for number in 1..=reloads {
                more();
                shared.newest.store(number, Ordering::SeqCst);
                site.configure(number);
                server.signal(Signal::HUP);
                wait_for("a reload", || failed() || is_answered_by(path, number));
                if number.is_multiple_of(WAITED_FOR) {
                    wait_for("a reload by all", || failed() || all_reloaded(&page, number));
                    shared.oldest.store(number, Ordering::SeqCst);
                }
            }
            // A wrong one changes nothing.
            fs::write(site.path(), "http { server { listen nowhere:port; } }").unwrap();
            server.signal(Signal::HUP);
            more();
            drop(stop);
            clients.into_iter().for_each(|client| client.join().unwrap());
        });
        server.stop();
    });
}

/// Hosts of a configuration that takes its time to be read.
const HOSTS: usize = 400;

/// Where it is asked whether a server is ready.
const METRICS: &str = "127.0.0.1:9147";

/// The status of what is told there.
fn answered(path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(METRICS)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")?;
    let mut came = String::new();
    stream.read_to_string(&mut came)?;
    Ok(came.split(' ').nth(1).unwrap_or_default().to_owned())
}

/// Addresses that are listened on change, so that another process serves: whoever asks whether it is ready is
/// answered all the time.
#[test]
fn whoever_asks_while_processes_change_is_answered() {
    in_namespace(&[], || {
        let folder = scratch("nginx-reloads").join("metrics");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("www")).unwrap();
        let hosts = |port: usize| -> String {
            let host = |at| format!("server {{ listen 127.0.0.1:80; server_name h{at}.example; root www; }}\n");
            let other = format!("server {{ listen 127.0.0.1:{port}; return 200 {port}; }}\n");
            (0..HOSTS).map(host).chain([other]).collect()
        };
        let configure = |user: &str, port: usize| {
            let text = format!(
                "user {user}; worker_processes 2; daemon off; pid nginx.pid; error_log error.log; events {{}}\n\
                 http {{ access_log off;\n{} }}\n",
                hosts(port)
            );
            fs::write(folder.join("nginx.conf"), text).unwrap();
        };
        // A process that has kept its rights has no successor without being asked for one.
        for (user, order) in [("root", "-USR2"), ("nobody", "-HUP")] {
            configure(user, 8_000);
            let words = ["nginx", "-p", folder.to_str().unwrap(), "-c", "nginx.conf", "--metrics", METRICS];
            let mut running = Running::start(&mut Nearside::command(words));
            running.wait_until_open("127.0.0.1:80");
            let signal = |name: &str| {
                let pid = fs::read_to_string(folder.join("nginx.pid")).unwrap();
                output(Command::new("kill").args([name, pid.trim()]))
            };
            wait_for("it is ready", || answered("/readyz").is_ok_and(|status| status == "200"));
            let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
            thread::scope(|scope| {
                let probe = |path: &'static str| {
                    let (over, asked) = (&over, &asked);
                    scope.spawn(move || {
                        while !over.load(Ordering::SeqCst) {
                            let status = answered(path);
                            assert!(status.as_ref().is_ok_and(|status| status == "200"), "{path}: {status:?}");
                            asked.fetch_add(1, Ordering::SeqCst);
                            thread::sleep(PROBE);
                        }
                    })
                };
                let probes = [probe("/readyz"), probe("/metrics")];
                let raised = Raised(&over);
                for port in 8_001..8_005_u16 {
                    configure(user, port.into());
                    let mut looks = 0;
                    wait_for("the new address", || {
                        // One successor after the other: it may be too early for the next.
                        let _ = (looks % 200 == 0).then(|| signal(order));
                        looks += 1;
                        TcpStream::connect(("127.0.0.1", port)).is_ok()
                    });
                    let before = asked.load(Ordering::SeqCst);
                    wait_for("answers behind it", || {
                        asked.load(Ordering::SeqCst) > before + 20 || probes.iter().any(|probe| probe.is_finished())
                    });
                }
                drop(raised);
                probes.into_iter().for_each(|probe| probe.join().unwrap());
            });
            signal("-TERM");
            wait_for("the end", || TcpStream::connect(METRICS).is_err());
        }
    });
}

/// How often it is asked: each so long.
const PROBE: Duration = Duration::from_millis(5);
