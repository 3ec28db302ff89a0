//! Names of upstreams that are resolved while requests wait: answers and lines of the
//! error log are as nginx's, whatever DNS says; and groups follow what it says without a
//! reload.

use crate::answer::{Answer, Connection};
use crate::dns::{Names, Told};
use crate::operators::{Server, both};
use crate::{NGINX, upstream};
use interop::{in_namespace, wait_for};
use rustix::process::Signal;
use std::net::Ipv6Addr;
use std::time::Duration;

const ADDRESS: &str = "127.0.0.1:80";

fn ask(path: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    Connection::open(ADDRESS).ask(request.as_bytes(), b"GET")
}

/// The status, and who was asked.
fn told(path: &str) -> (Option<u16>, String) {
    let answer = ask(path);
    (answer.status(), answer.field("x-upstream").unwrap_or("-").to_owned())
}

/// Lines of a log, without what differs by time or chance.
fn lines(server: &Server, name: &str) -> Vec<String> {
    let text = server.text(name);
    let mut lines: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_once("] ")?.1.split_once(": ")?.1.split_once(' '))
        .filter(|(connection, _)| connection.starts_with('*'))
        .map(|(_, rest)| rest.to_owned())
        .collect();
    lines.sort();
    lines
}

fn names() -> Names {
    let names = Names::default();
    let here = || Told::V4(vec![[127, 0, 0, 1]], 60);
    let all = [
        ("good", here()),
        ("alias", Told::Alias("good")),
        ("far", Told::Alias("alias")),
        ("one", Told::Alias("other")),
        ("other", Told::Alias("one")),
        ("itself", Told::Alias("itself")),
        ("unable", Told::Code(2)),
        ("refuses", Told::Code(5)),
        ("long", Told::Long(Box::new(Told::V4((1..=250).map(|last| [127, 0, 1, last]).collect(), 60)))),
        ("spoofed", Told::Spoofed(Box::new(here()), 12)),
        ("six", Told::V6(Ipv6Addr::LOCALHOST, 60)),
        ("empty", Told::V4(Vec::new(), 60)),
        ("silent", Told::Silence),
        // The second answers.
        ("two", Told::V4(vec![[127, 0, 0, 2]], 60)),
    ];
    all.into_iter().for_each(|(name, told)| names.set(name, told));
    names
}

const CONF: &str = "\
    error_log error.log;\n\
    http { access_log off; resolver 127.0.0.53 ipv6=off; resolver_timeout 2s;\n\
    upstream group { server 127.0.0.1:9000; }\n\
    server { listen 127.0.0.1:80; add_header X-Upstream $upstream_addr always;\n\
    location ~ ^/to/([^/]*)/(.*)$ { proxy_pass http://$1:9000/$2; }\n\
    location ~ ^/usual/([^/]*)/(.*)$ { proxy_pass http://$1/$2; }\n\
    location ~ ^/fastcgi/([^/]*)/(.*)$ { fastcgi_pass $1:9009; }\n\
    location ~ ^/portless/([^/]*)/(.*)$ { uwsgi_pass $1; }\n\
    location ~ ^/scgi/([^/]*)/(.*)$ { scgi_pass $1:9009; }\n\
    } }";

#[test]
fn names_are_resolved_as_with_nginx() {
    in_namespace(&[NGINX], || {
        upstream::start();
        let names = names();
        names.serve("127.0.0.53:53");
        let hosts = [
            "good",
            "GOOD.",
            "alias",
            "far",
            "one",
            "itself",
            "unable",
            "refuses",
            "spoofed",
            "six",
            "empty",
            "missing",
            "two",
            "silent",
            "127.0.0.1",
            "a..b",
        ];
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "resolved", CONF);
            let mut seen: Vec<_> = hosts.iter().map(|host| (*host, told(&format!("/to/{host}/small")))).collect();
            // A group of this name comes first, and has its port.
            seen.push(("group", told("/usual/group/small")));
            for path in ["/fastcgi/good/x", "/fastcgi/missing/x", "/portless/good/x", "/scgi/missing/x", "/scgi/good/x"]
            {
                seen.push((path, told(path)));
            }
            let (status, _) = told("/to/long/small");
            assert_eq!(status, Some(200), "over TCP");
            server.running.signal(Signal::HUP);
            std::thread::sleep(Duration::from_millis(500));
            seen.push(("after", told("/to/good/small")));
            wait_for("the error log", || server.text("error.log").contains("silent could not be resolved"));
            let lines = lines(&server, "error.log");
            server.running.stop();
            (seen, lines)
        });
        for (theirs, ours) in seen[0].0.iter().zip(&seen[1].0) {
            assert_eq!(theirs, ours);
        }
        let apart = |one: usize, other: usize| seen[one].1.iter().filter(|line| !seen[other].1.contains(line)).count();
        assert_eq!((apart(0, 1), apart(1, 0)), (0, 0), "{:#?} {:#?}", seen[0].1, seen[1].1);
        assert!(seen[0].1.iter().any(|line| line.starts_with("missing could not be resolved (3: Host not found)")));
    });
}

/// What a name stands for changes with its time; what is known serves while nobody can be
/// asked; and where several wait, one question is asked.
#[test]
fn what_names_stand_for_changes_with_their_time() {
    in_namespace(&[NGINX], || {
        upstream::start();
        let seen = both(|is_nginx| {
            let names = names();
            let at = if is_nginx { "127.0.0.53:53" } else { "127.0.0.54:53" };
            names.serve(at);
            let conf = CONF.replace("resolver 127.0.0.53", &format!("resolver {at}"));
            let server = Server::start(is_nginx, "changing", &conf);
            names.set("moves", Told::V4(vec![[127, 0, 0, 4]], 1));
            names.set("stays", Told::V4(vec![[127, 0, 0, 6]], 60));
            let mut seen = vec![told("/to/moves/small"), told("/to/stays/small")];
            names.set("moves", Told::V4(vec![[127, 0, 0, 5]], 60));
            names.set("stays", Told::V4(vec![[127, 0, 0, 7]], 60));
            std::thread::sleep(Duration::from_millis(2_200));
            seen.extend([told("/to/moves/small"), told("/to/stays/small")]);
            names.be_silent(true);
            seen.extend([told("/to/moves/small"), told("/to/stays/small"), told("/to/good/small")]);
            names.be_silent(false);
            seen.push(told("/to/good/small"));
            let clients: Vec<_> = (0..20).map(|_| std::thread::spawn(|| told("/to/two/small"))).collect();
            seen.extend(clients.into_iter().map(|client| client.join().unwrap()));
            assert!(names.asked("two") <= 2, "{}", names.asked("two"));
            server.running.stop();
            seen
        });
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[0][2].1, "127.0.0.5:9000");
    });
}

const GROUPS: &str = "\
    user nobody;\n\
    error_log error.log;\n\
    http { access_log off; resolver 127.0.0.53 valid=1s; resolver_timeout 2s;\n\
    upstream named { zone named 64k; server moves:9000 resolve max_fails=0; keepalive 4; }\n\
    upstream served { zone served 64k; server hosts service=http resolve max_fails=0; }\n\
    upstream mixed { zone mixed 64k; server 127.0.0.9:9000; server moves:9000 resolve; }\n\
    server { listen 127.0.0.1:80; add_header X-Upstream $upstream_addr always;\n\
    add_header X-Round one always; proxy_http_version 1.1; proxy_set_header Connection '';\n\
    location /named/ { proxy_pass http://named/; }\n\
    location /served/ { proxy_pass http://served/; }\n\
    location /mixed/ { proxy_pass http://mixed/; }\n\
    } }";

/// Waits until a place is passed on to this server.
fn wait_until(path: &str, expected: (Option<u16>, &str)) {
    wait_for(&format!("{path}: {expected:?}"), || {
        let (status, by) = told(path);
        (status, &*by) == expected
    });
}

/// Servers of groups that are known by names, served by a process that has given its rights
/// up.
#[test]
fn groups_follow_names_without_a_reload() {
    in_namespace(&[], || {
        upstream::start();
        let names = Names::default();
        names.serve("127.0.0.53:53");
        names.set("moves", Told::V4(vec![[127, 0, 0, 1]], 1));
        names.set("_http._tcp.hosts", Told::Hosts(vec![(5, 1, 9_009, "here"), (9, 1, 9_000, "there")], 1));
        names.set("here", Told::V4(vec![[127, 0, 0, 3]], 1));
        names.set("there", Told::V4(vec![[127, 0, 0, 4]], 1));
        let server = Server::start(false, "groups", GROUPS);
        // The very first waits until there is somebody to ask.
        assert_eq!(told("/named/small"), (Some(200), "127.0.0.1:9000".to_owned()));
        // Nobody listens at the first port: those of more than the least number are backups.
        wait_until("/served/small", (Some(200), "127.0.0.3:9009, 127.0.0.4:9000"));
        names.set("moves", Told::V4(vec![[127, 0, 0, 2]], 1));
        names.set("_http._tcp.hosts", Told::Hosts(vec![(1, 1, 9_000, "there")], 1));
        wait_until("/named/small", (Some(200), "127.0.0.2:9000"));
        wait_until("/served/small", (Some(200), "127.0.0.4:9000"));
        let mixed: std::collections::BTreeSet<_> = (0..4).map(|_| told("/mixed/small").1).collect();
        assert_eq!(mixed.into_iter().collect::<Vec<_>>(), ["127.0.0.2:9000", "127.0.0.9:9000"]);
        // What is known serves while nobody answers, behind a reload as well.
        names.be_silent(true);
        wait_for("a line", || server.text("error.log").contains("moves could not be resolved (110: "));
        assert_eq!(told("/named/small"), (Some(200), "127.0.0.2:9000".to_owned()));
        server.reload(&GROUPS.replace("Round one", "Round two"));
        wait_until_told("/named/small", "x-round", "two");
        assert_eq!(told("/named/small"), (Some(200), "127.0.0.2:9000".to_owned()));
        assert_eq!(told("/served/small"), (Some(200), "127.0.0.4:9000".to_owned()));
        names.be_silent(false);
        // A name that is gone has no servers.
        names.set("moves", Told::Code(3));
        wait_until("/named/small", (Some(502), "named"));
        wait_until("/mixed/small", (Some(200), "127.0.0.9:9000"));
        names.set("moves", Told::V4(vec![[127, 0, 0, 7], [127, 0, 0, 8]], 1));
        names.set("there", Told::Code(3));
        wait_until("/named/small", (Some(200), "127.0.0.7:9000"));
        wait_until("/named/small", (Some(200), "127.0.0.8:9000"));
        wait_until("/served/small", (Some(502), "served"));
        for line in [
            "moves could not be resolved (3: Host not found)\n",
            "no live upstreams while connecting to upstream",
            "there could not be resolved (3: Host not found) while resolving service http of hosts\n",
            "service http of hosts could not be resolved (3: Host not found)\n",
        ] {
            wait_for(line, || server.text("error.log").contains(line));
        }
        server.running.stop();
    });
}

fn wait_until_told(path: &str, field: &str, start: &str) {
    wait_for(field, || ask(path).field(field).is_some_and(|value| value.starts_with(start)));
}
