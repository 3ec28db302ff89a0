//! Virtual hosts never see each other's files, whatever name is asked for, in whichever
//! way, and however often.

use crate::NGINX;
use crate::answer::Connection;
use crate::operators::{Server, both};
use crate::twins::{SIDES, Twins};
use interop::{Nearside, Running, in_namespace, scratch, wait_for};
use random::SplitMix64;
use std::fmt::Write as _;
use std::fs;

/// Sites that are made up, and requests to each.
const SITES: u64 = 3;
const REQUESTS: usize = 400;

/// Random requests that are sent to nginx, too.
const NAMED: usize = 2_000;

/// Hosts of a site.
const HOSTS: usize = 12;

const ADDRESS: &str = "127.0.0.1:80";

const LABELS: [&str; 6] = ["a", "b", "www", "files", "x-1", "mail"];
const DOMAINS: [&str; 4] = ["example", "test", "a.example", "www.test"];

fn one<'t>(random: &mut SplitMix64, of: &[&'t str]) -> &'t str {
    of[random.below(of.len())]
}

/// Names of servers, none twice: exact ones, and ones with an asterisk at either end.
fn names(random: &mut SplitMix64) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    while names.len() < HOSTS {
        let (label, domain) = (one(random, &LABELS), one(random, &DOMAINS));
        let name = match random.below(4) {
            0 => format!("*.{domain}"),
            1 => format!("{label}.*"),
            _ => format!("{label}.{domain}"),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Whose a host is, found in the plainest way: by its whole name, by the longest end of
/// it, by the longest start of it; or the first server's.
fn owner(names: &[String], host: &str) -> usize {
    let host = host.to_ascii_lowercase();
    let longest = |fits: &dyn Fn(&str) -> bool| {
        let fitting = names.iter().enumerate().filter(|(_, name)| fits(name));
        fitting.max_by_key(|(_, name)| name.len()).map(|(at, _)| at)
    };
    let exact = names.iter().position(|name| *name == host);
    let end =
        || longest(&|name| name.strip_prefix('*').is_some_and(|end| host.len() > end.len() && host.ends_with(end)));
    let start = || longest(&|name| name.strip_suffix('*').is_some_and(|start| host.starts_with(start)));
    exact.or_else(end).or_else(start).unwrap_or(0)
}

/// A request for the page of a host, and the host that it names.
fn request(random: &mut SplitMix64) -> (String, String) {
    let name = match random.below(5) {
        0 => one(random, &DOMAINS).to_owned(),
        1 => format!("{}.{}.{}", one(random, &LABELS), one(random, &LABELS), one(random, &DOMAINS)),
        _ => format!("{}.{}", one(random, &LABELS), one(random, &DOMAINS)),
    };
    let written = match random.below(4) {
        0 => name.to_ascii_uppercase(),
        1 => format!("{name}."),
        2 => format!("{name}:{}", random.below(65_536)),
        _ => name.clone(),
    };
    let target = one(random, &["/page", "/page", "/page?host=a.example", "//page", "/./page", "/x/../page", "/%70age"]);
    let text = match random.below(3) {
        0 => format!("GET http://{written}{target} HTTP/1.1\r\nHost: {}\r\n\r\n", one(random, &DOMAINS)),
        _ => format!("GET {target} HTTP/1.1\r\nHost: {written}\r\nX-Host: {}\r\n\r\n", one(random, &DOMAINS)),
    };
    (text, name)
}

#[test]
fn hosts_never_see_the_files_of_others() {
    in_namespace(&[], || {
        for seed in 0..SITES {
            a_random_site(seed);
        }
    });
}

fn a_random_site(seed: u64) {
    let mut random = SplitMix64::new(seed);
    let folder = scratch("nginx-hosts").join(seed.to_string());
    let _ = fs::remove_dir_all(&folder);
    let names = names(&mut random);
    let mut servers = String::new();
    for (at, name) in names.iter().enumerate() {
        let root = folder.join(format!("www/{at}"));
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("page"), format!("page of host {at}\n")).unwrap();
        writeln!(servers, "server {{ listen {ADDRESS}; server_name {name}; root www/{at}; }}").unwrap();
    }
    let text = format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log;\n\
         events {{}}\nhttp {{ access_log off; {servers} }}\n"
    );
    fs::write(folder.join("nginx.conf"), text).unwrap();
    let mut command = Nearside::command(["nginx"]);
    command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).args(["-e", "stderr"]);
    let mut server = Running::start(&mut command);
    server.wait_until_open(ADDRESS);
    let mut kept = Connection::open(ADDRESS);
    for _ in 0..REQUESTS {
        let (text, host) = request(&mut random);
        let expected = format!("page of host {}\n", owner(&names, &host));
        let answer = kept.ask(text.as_bytes(), b"GET");
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status() == Some(200) && body == expected, "seed {seed}: {text}{names:?}\n{answer:?}");
    }
    drop(kept);
    server.stop();
}

/// What names of hosts are put together of: what they have, what they never have, and what
/// only looks like one.
const PIECES: [&str; 42] = [
    "a",
    "A",
    "www",
    "x-y",
    "w",
    "u",
    "test",
    "1",
    "1.2.3.4",
    "a.test",
    "q.w.test",
    "b.u.test",
    ".",
    ".",
    "..",
    ":",
    ":80",
    ":0",
    ":99999",
    ":a",
    "[",
    "]",
    "[::1]",
    "[::1",
    "[v1.a]",
    "_",
    "%",
    "%41",
    "%2e",
    "/",
    "\\",
    "@",
    "u:p@",
    "#",
    "?",
    " ",
    "\0",
    "\x7f",
    "ü",
    "*",
    "\"",
    ",;=~!$&'()+",
];

/// Methods, as they are written and as they are not.
const METHODS: [&str; 14] =
    ["GET", "GET", "GET", "GET", "PATCH", "FOO", "A_B", "M-SEARCH", "get", "Get", "gET", "GET1", "G.T", "!"];

/// Fields that may be doubled, and their values.
const FIELDS: [(&str, &str); 19] = [
    ("Authorization", "Basic eDp5"),
    ("Expect", "100-continue"),
    ("If-Match", "*"),
    ("If-None-Match", "\"a\""),
    ("If-Modified-Since", "x"),
    ("If-Unmodified-Since", "x"),
    ("If-Range", "\"a\""),
    ("Content-Range", "bytes 0-1/2"),
    ("Range", "bytes=0-1"),
    ("User-Agent", "a"),
    ("Referer", "a"),
    ("Cookie", "a=b"),
    ("Accept-Encoding", "gzip"),
    ("Via", "1.1 a"),
    ("X-Forwarded-For", "10.0.0.1"),
    ("Content-Type", "a/b"),
    ("Cache-Control", "no-cache"),
    ("Upgrade", "a"),
    ("TE", "trailers"),
];

/// A name, or something like it.
fn name(random: &mut SplitMix64) -> String {
    let labels = |random: &mut SplitMix64| {
        let count = 1 + random.below(4);
        let of: Vec<&str> = (0..count).map(|_| one(random, &["a", "w", "test", "", "A", "1", "u"])).collect();
        of.join(".")
    };
    match random.below(6) {
        0 => labels(random),
        1 => labels(random) + one(random, &[":80", ":", ".:80", ":.", ":80.", ":.."]),
        2 => one(random, &["a.test", "q.w.test", "A.TEST.", "x.u.test", "..u.test", "[::1]:80"]).to_owned(),
        _ => (0..1 + random.below(4)).map(|_| one(random, &PIECES)).collect(),
    }
}

/// A request, and the names of hosts that it has.
fn named(random: &mut SplitMix64) -> (String, Vec<String>) {
    let (host, other) = (name(random), name(random));
    let method = one(random, &METHODS);
    let version = one(random, &["1.1", "1.1", "1.0"]);
    let (before, after) = (one(random, &[" ", "", "  "]), one(random, &["", "", " "]));
    let mut text = match random.below(8) {
        0..3 => format!("{method} / HTTP/{version}\r\nHost:{before}{host}{after}\r\n"),
        3 => format!("{method} / HTTP/{version}\r\nHost: {host}\r\nhost: {other}\r\n"),
        4 => format!("{method} / HTTP/{version}\r\nHost: a.test\r\n"),
        _ => {
            let scheme = one(random, &["http", "http", "HTTP", "https"]);
            let path = one(random, &["/", "", "/x", "?a", "/..", "/x?y"]);
            let told = one(random, &[&other, "a.test", &host]);
            format!("{method} {scheme}://{host}{path} HTTP/{version}\r\nHost: {told}\r\n")
        }
    };
    if random.below(3) == 0 {
        let (name, value) = FIELDS[random.below(FIELDS.len())];
        for name in [name.to_owned(), name.to_ascii_lowercase()].iter().take(1 + random.below(2)) {
            write!(text, "{name}: {value}\r\n").unwrap();
        }
    }
    text.push_str("\r\n");
    (text, vec![host, other])
}

/// Whether a text is the name of a host, perhaps with a port, and every label but the last has
/// something in it: read from RFC 3986 section 3.2.2 in the plainest way.
fn is_name(text: &str) -> bool {
    let text = text.trim_matches(' ');
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((literal, port)) => (format!("[{literal}]"), port.to_owned()),
        None => {
            text.split_once(':').map_or((text.into(), String::new()), |(name, port)| (name.into(), format!(":{port}")))
        }
    };
    let port_fits = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => {
            digits.is_empty() || digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u16>().is_ok()
        }
    };
    let name_fits = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(literal) => literal.starts_with('v') || literal.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let bytes = name.replace("%41", "A").replace("%2e", "p");
            let labels: Vec<&str> = name.strip_suffix('.').unwrap_or(&name).split('.').collect();
            bytes.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&b))
                && labels.iter().all(|label| !label.is_empty())
        }
    };
    name_fits && port_fits
}

/// Whatever name is asked for, by whatever method, with whichever fields twice: it is for the
/// host that nginx takes it for, or refused as nginx refuses it. Only names that are none are
/// refused where nginx takes them (docs/differences.md).
#[test]
fn random_names_mean_what_they_mean_to_nginx() {
    in_namespace(&[NGINX], || {
        let twins = Twins::start("names");
        let mut random = SplitMix64::new(36);
        let (mut taken, mut refused, mut stricter) = (0, 0, 0);
        for _ in 0..NAMED {
            let (text, names) = named(&mut random);
            let method = text.split(' ').next().unwrap_or_default().to_owned();
            let answers = SIDES.map(|side| {
                let answer = Connection::open(&format!("{}:80", side.address)).ask(text.as_bytes(), method.as_bytes());
                // Pages of errors name who made them.
                let body = if answer.status() == Some(200) { answer.plain_body() } else { Vec::new() };
                (answer.status(), String::from_utf8_lossy(&body).into_owned())
            });
            let [nginx, sockets, stack] = &answers;
            assert_eq!(sockets, stack, "{text:?}");
            match (nginx.0, sockets.0) {
                (Some(400), Some(400)) => refused += 1,
                (Some(_), Some(400)) if !names.iter().all(|name| is_name(name)) => stricter += 1,
                _ => {
                    assert_eq!(nginx, sockets, "{text:?}");
                    taken += 1;
                }
            }
        }
        twins.stop();
        // It compares something of each kind.
        assert!(taken > NAMED / 8 && refused > NAMED / 8 && stricter > NAMED / 50, "{taken} {refused} {stricter}");
    });
}

/// Hosts, as requests name them one after another, all of which one file answers.
const OFTEN: [&str; 11] = [
    "a.example",
    "a.example",
    "A.Example",
    "a.example:81",
    "b.example.",
    "b.example",
    "a.example2",
    "a.exampl",
    "x_y.example",
    "[::1]:80",
    "a.example",
];

/// Whoever was answered before with the same, and however the line was prepared.
#[test]
fn the_hosts_of_requests_for_one_file_are_logged() {
    const CONF: &str = "http { log_format l '$host|$http_host|$request|$http_referer'; access_log l.log l;\n\
        log_format j escape=json '$host|$http_host'; access_log j.log j; keepalive_requests 10000;\n\
        server { listen 127.0.0.1:80; server_name first; root www; }\n\
        server { listen 127.0.0.1:80; server_name b.example; access_log b.log l; root www; } }";
    in_namespace(&[NGINX], || {
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "hosts", CONF);
            fs::create_dir_all(server.folder.join("www")).unwrap();
            fs::write(server.folder.join("www/f"), "one file").unwrap();
            let mut connection = Connection::open(ADDRESS);
            // Lines are prepared for what is often asked for in a second.
            for (round, usual) in OFTEN.iter().enumerate() {
                for (at, host) in OFTEN.iter().enumerate() {
                    // One host for a while, and each after each.
                    let host = if round % 3 == 0 { usual } else { host };
                    let request = format!("GET /f HTTP/1.1\r\nHost: {host}\r\nReferer: {at}\r\n\r\n");
                    assert_eq!(connection.ask(request.as_bytes(), b"GET").status(), Some(200), "{host}");
                }
            }
            let texts = || ["l.log", "j.log", "b.log"].map(|log| server.text(log));
            let expected = OFTEN.len() * OFTEN.len();
            wait_for("lines", || texts()[0].lines().count() + texts()[2].lines().count() >= expected);
            let texts = texts();
            server.running.stop();
            texts
        });
        assert_eq!(seen[0], seen[1]);
    });
}
