//! Over memif: nginx with several workers, and clients on our stack too, for no kernel is at the other
//! end.

use crate::server::{CURL, NGINX, Server, library, send};
use interop::{Nearside, Program, Running, in_namespace, output, wait_for};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

const NEEDED: &[Program] = &[NGINX, CURL, Program::new("python3", "python3")];

/// Asks who answers, each time on a new connection: so often, and until there is a file of this name.
/// Tells how many failed, and who answered; whoever looks sees in a file how many have answered so far.
const ASKER: &str = "
import os, socket, sys
def ask():
    with socket.create_connection(('10.9.0.2', 80)) as s:
        s.settimeout(60)
        s.sendall(b'GET /pid HTTP/1.0\\r\\n\\r\\n')
        got = b''
        while some := s.recv(4096):
            got += some
        return got.partition(b'\\r\\n\\r\\n')[2].decode()
failed, seen, asked = 0, set(), 0
while asked < int(sys.argv[1]) or not os.path.exists(sys.argv[2]):
    asked += 1
    try:
        seen.add(ask() or 'nobody')
        with open(sys.argv[2] + '-seen', 'w') as file:
            print(*seen, file=file)
    except OSError:
        failed += 1
print(failed, *seen)
";

/// A program on our stack at the other end of the server's link.
fn client(server: &Server, words: &[&str]) -> Command {
    let link = format!("memif:{},role=client", server.folder.join("link").display());
    let mut command = Nearside::command(["run", "--link", &link, "--addr", "10.9.0.1/24", "--library"]);
    command.arg(library()).arg("--").args(words);
    command
}

fn asker(server: &Server, times: usize, until: &str) -> Command {
    let until = server.folder.join(until);
    client(server, &["python3", "-c", ASKER, &times.to_string(), until.to_str().unwrap()])
}

/// How many failed, and the workers that answered.
fn told(text: &str) -> (usize, BTreeSet<i32>) {
    let mut words = text.split_whitespace();
    let failed = words.next().and_then(|word| word.parse().ok());
    let workers = words.map(|word| word.parse().unwrap_or_else(|_| panic!("{text}"))).collect();
    (failed.unwrap_or_else(|| panic!("it tells nothing: {text}")), workers)
}

/// The workers that answer so many requests of a client that comes for them, none of which fails.
fn workers(server: &Server, times: usize) -> BTreeSet<i32> {
    let (failed, workers) = told(&output(&mut asker(server, times, "nginx.conf")));
    assert_eq!(failed, 0);
    workers
}

/// Peers come and go, files pass, and workers share what there is to do.
#[test]
fn several_workers_serve_over_memif() {
    in_namespace(NEEDED, || {
        let mut server = Server::start_over_memif("serves", 2);
        let url = |path: &str| format!("http://10.9.0.2{path}");
        let large = client(&server, &["curl", "-sS", "--max-time", "60", &url("/large")]).output().unwrap().stdout;
        assert!(large == fs::read(server.folder.join("html/large")).unwrap(), "{} bytes", large.len());
        let mut several = client(&server, &["curl", "-sS", "--fail", &url("/small"), &url("/small")]);
        assert_eq!(output(&mut several), "a small file\na small file\n");
        assert_eq!(workers(&server, 40).len(), 2);
        server.command("quit");
        server.ended();
    });
}

/// No request fails while the workers of one configuration follow those of another, and none long after
/// one was killed.
#[test]
fn workers_over_memif_follow_each_other() {
    in_namespace(NEEDED, || {
        let mut server = Server::start_over_memif("follow", 2);
        let mut asking = Running::start(&mut asker(&server, 20, "done"));
        let mut now = BTreeSet::new();
        wait_for("two workers", || {
            now = workers_of(&server);
            now.len() == 2
        });
        for _ in 0..5 {
            wait_for("an answer of these", || is_seen(&server, &now));
            let before = now.clone();
            server.command("reload");
            wait_for("other workers", || {
                now = workers_of(&server);
                now.len() == 2 && now.is_disjoint(&before)
            });
        }
        wait_for("an answer of these", || is_seen(&server, &now));
        fs::write(server.folder.join("done"), "").unwrap();
        wait_for("the client's end", || asking.has_ended());
        let (failed, seen) = told(&asking.said());
        assert_eq!(failed, 0, "{seen:?}");
        assert!(seen.len() >= 6, "{seen:?}");

        let killed = now.pop_first().unwrap();
        send(killed, Signal::KILL);
        wait_for("another in its place", || workers_of(&server).len() == 2 && !workers_of(&server).contains(&killed));
        let after = workers(&server, 40);
        assert!(after.len() == 2 && !after.contains(&killed), "{after:?}");
        server.command("quit");
        server.ended();
    });
}

/// Whether the client has had an answer of one of these workers.
fn is_seen(server: &Server, workers: &BTreeSet<i32>) -> bool {
    let seen = fs::read_to_string(server.folder.join("done-seen")).unwrap_or_default();
    seen.split_whitespace().any(|word| word.parse().is_ok_and(|worker| workers.contains(&worker)))
}

/// The master's children, which do not shut down.
fn workers_of(server: &Server) -> BTreeSet<i32> {
    let Some(master) = server.master() else { return BTreeSet::new() };
    let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap_or_default();
    let title = |child: &str| fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
    let working = children.split_whitespace().filter(|child| title(child).contains("worker process\0"));
    working.filter_map(|child| child.parse().ok()).collect()
}
