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
        seen.add(int(ask()))
        with open(sys.argv[2] + '.seen', 'w') as file:
            print(*seen, file=file)
    except (OSError, ValueError) as why:
        print('failed:', repr(why), flush=True)
        failed += 1
print('told:', failed, *seen, flush=True)
";

/// A program on our stack at the other end of the server's link.
fn client(server: &Server, words: &[&str]) -> Command {
    let link = format!("memif:{},role=client", server.folder.join("link").display());
    let mut command = Nearside::command(["run", "--link", &link, "--addr", "10.9.0.1/24", "--library"]);
    command.arg(library()).arg("--").args(words);
    command
}

/// Asks `times` times at least, until there is a file of this name in the server's folder.
fn asker(server: &Server, times: usize, until: &str) -> Running {
    let until = server.folder.join(until);
    for old in [until.clone(), until.with_extension("seen")] {
        let _ = fs::remove_file(old);
    }
    Running::start(&mut client(server, &["python3", "-c", ASKER, &times.to_string(), until.to_str().unwrap()]))
}

/// The workers that have answered the one who asks until there is this file.
fn seen(server: &Server, until: &str) -> BTreeSet<i32> {
    let seen = fs::read_to_string(server.folder.join(until).with_extension("seen")).unwrap_or_default();
    seen.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Has the asker end: the workers that answered. No request failed.
fn end(server: &Server, mut asking: Running, until: &str) -> BTreeSet<i32> {
    fs::write(server.folder.join(until), "").unwrap();
    wait_for("the client's end", || asking.has_ended());
    let text = asking.said();
    let told = text.lines().find_map(|line| line.strip_prefix("told: "));
    let mut words = told.unwrap_or_else(|| panic!("it tells nothing: {text}")).split_whitespace();
    assert_eq!(words.next(), Some("0"), "some failed: {text}");
    words.map(|word| word.parse().expect("a process")).collect()
}

/// The workers that answer a client that comes for them, until there are so many of them: one that has
/// just begun may take its time. None of its requests fails.
fn workers(server: &Server, count: usize) -> BTreeSet<i32> {
    const UNTIL: &str = "workers";
    let asking = asker(server, 40, UNTIL);
    wait_for("answers of all workers", || seen(server, UNTIL).len() >= count);
    end(server, asking, UNTIL)
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
        assert_eq!(workers(&server, 2).len(), 2);
        server.command("quit");
        server.ended();
    });
}

/// No request fails while the workers of one configuration follow those of another, and none long after
/// one was killed.
#[test]
fn workers_over_memif_follow_each_other() {
    const DONE: &str = "done";
    in_namespace(NEEDED, || {
        let mut server = Server::start_over_memif("follow", 2);
        let asking = asker(&server, 20, DONE);
        let mut now = BTreeSet::new();
        wait_for("two workers", || {
            now = workers_of(&server);
            now.len() == 2
        });
        for _ in 0..5 {
            wait_for("an answer of these", || !seen(&server, DONE).is_disjoint(&now));
            let before = now.clone();
            server.command("reload");
            wait_for("other workers", || {
                now = workers_of(&server);
                now.len() == 2 && now.is_disjoint(&before)
            });
        }
        wait_for("an answer of these", || !seen(&server, DONE).is_disjoint(&now));
        let seen = end(&server, asking, DONE);
        assert!(seen.len() >= 6, "{seen:?}");

        let killed = now.pop_first().unwrap();
        send(killed, Signal::KILL);
        wait_for("another in its place", || workers_of(&server).len() == 2 && !workers_of(&server).contains(&killed));
        let after = workers(&server, 2);
        assert!(after.len() == 2 && !after.contains(&killed), "{after:?}");
        server.command("quit");
        server.ended();
    });
}

/// The master's children, which do not shut down.
fn workers_of(server: &Server) -> BTreeSet<i32> {
    let Some(master) = server.master() else { return BTreeSet::new() };
    let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap_or_default();
    let title = |child: &str| fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
    let working = children.split_whitespace().filter(|child| title(child).contains("worker process\0"));
    working.filter_map(|child| child.parse().ok()).collect()
}
