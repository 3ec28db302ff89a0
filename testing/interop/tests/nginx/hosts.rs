//! Virtual hosts never see each other's files, whatever name is asked for, in whichever
//! way, and however often.

use crate::answer::Connection;
use interop::{Nearside, Running, in_namespace, scratch};
use random::SplitMix64;
use std::fmt::Write as _;
use std::fs;

/// Sites that are made up, and requests to each.
const SITES: u64 = 3;
const REQUESTS: usize = 400;

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
