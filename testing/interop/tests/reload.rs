//! SIGHUP: another release of a site is served, and no connection notices.

use interop::{Nearside, Raised, Running, STACK, TAP, ask, in_namespace, output, scratch, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Threads of the client, and the connections of each.
const THREADS: usize = 6;
const EACH: usize = 50;

/// Releases that follow each other.
const RELEASES: usize = 5;

/// A file of this release: all alike, so that a mix of two is seen.
const SIZE: usize = 3_000;

fn content(release: usize) -> Vec<u8> {
    vec![b'A' + release as u8; SIZE]
}

/// A link that points to the newest of the folders with releases.
struct Site {
    folder: PathBuf,
}

impl Site {
    fn new(test: &str) -> Self {
        let folder = scratch("reload").join(test);
        let _ = std::fs::remove_dir_all(&folder);
        for release in 0..=RELEASES {
            let release_folder = folder.join(format!("release-{release}"));
            std::fs::create_dir_all(&release_folder).unwrap();
            std::fs::write(release_folder.join("page.txt"), content(release)).unwrap();
        }
        let site = Self { folder };
        site.publish(0);
        site
    }

    fn root(&self) -> PathBuf {
        self.folder.join("current")
    }

    fn publish(&self, release: usize) {
        let draft = self.folder.join("next");
        symlink(format!("release-{release}"), &draft).unwrap();
        std::fs::rename(&draft, self.root()).unwrap();
    }
}

/// What all connections have in common.
#[derive(Default)]
struct Shared {
    /// The oldest release that a request sent now may be answered with, and
    /// the newest.
    oldest: AtomicUsize,
    newest: AtomicUsize,
    answered: AtomicUsize,
    stop: AtomicBool,
}

fn request(stream: &mut TcpStream, shared: &Shared) {
    let oldest = shared.oldest.load(Ordering::SeqCst);
    stream.write_all(b"GET /page.txt HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 8_192];
    let body = loop {
        let len = stream.read(&mut piece).unwrap();
        assert!(len > 0, "a connection ended after {} bytes of a response", answer.len());
        answer.extend_from_slice(&piece[..len]);
        if let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n")
            && answer.len() >= head + 4 + SIZE
        {
            break head + 4;
        }
    };
    let newest = shared.newest.load(Ordering::SeqCst);
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer[..body]));
    let fits = (oldest..=newest).any(|release| answer[body..] == content(release));
    assert!(fits, "neither of the releases {oldest} to {newest}: {}", char::from(answer[body]));
    shared.answered.fetch_add(1, Ordering::SeqCst);
}

fn client(address: (&str, u16), shared: &Shared) {
    let connect = |_| {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> = (0..EACH).map(connect).collect();
    while !shared.stop.load(Ordering::SeqCst) {
        streams.iter_mut().for_each(|stream| request(stream, shared));
    }
}

/// A counter of a statistics page, all workers or silos together.
fn counter(page: &Path, name: &str) -> (u64, usize) {
    let text = output(Nearside::command(["status", "--json"]).arg(page));
    let pages: Value = serde_json::from_str(&text).unwrap();
    let silos = pages[0]["silos"].as_array().unwrap();
    (silos.iter().map(|silo| silo[name].as_u64().unwrap()).sum(), silos.len())
}

/// Releases follow each other under connections that stay: each request is
/// answered with one release, whole, and after the signal was seen with none
/// but the newest.
fn releases_follow(server: Running, site: &Site, page: &Path, address: (&str, u16)) {
    let shared = Shared::default();
    thread::scope(|scope| {
        let stop = Raised(&shared.stop);
        // Threads of a scope are in the namespace of the one that made them.
        let clients: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| client(address, &shared))).collect();
        let more = |count: usize| {
            let before = shared.answered.load(Ordering::SeqCst);
            wait_for("answers", || {
                shared.answered.load(Ordering::SeqCst) >= before + count || clients.iter().any(|c| c.is_finished())
            });
        };
        more(THREADS * EACH);
        for release in 1..=RELEASES {
            // The root is the one that was opened, until it is asked for.
            site.publish(release);
            more(THREADS * EACH);
            shared.newest.store(release, Ordering::SeqCst);
            server.signal(Signal::HUP);
            wait_for("a reload by all", || {
                let (reloads, workers) = counter(page, "app.reloads");
                reloads == (release * workers) as u64
            });
            shared.oldest.store(release, Ordering::SeqCst);
            more(2 * THREADS * EACH);
        }
        // A site that is gone is served on.
        std::fs::remove_file(site.root()).unwrap();
        server.signal(Signal::HUP);
        wait_for("a word about it", || server.said().contains("what was served is served on"));
        more(THREADS * EACH);
        drop(stop);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    // Not one connection more than at the start, but for those of the wait for it.
    let (connections, _) = counter(page, "app.connections");
    assert!((THREADS * EACH..THREADS * EACH + 8).contains(&(connections as usize)), "{connections}");
    server.stop();
}

/// Settings from a file, over a link: what changes at SIGHUP shows on
/// connections of both silos that stay, and a bad file changes nothing.
#[test]
fn settings_follow_each_other_over_two_silos() {
    in_namespace(&[], || {
        let folder = scratch("reload");
        let (settings, page) = (folder.join("settings.toml"), folder.join("settings.page"));
        let write = |body: &str, more: &str| {
            let text = format!(
                "respond = \"text:{body}\"\nlink = \"{TAP}\"\nsilos = 2\nstatus-page = \"{}\"\n{more}",
                page.display()
            );
            std::fs::write(&settings, text).unwrap();
        };
        write("one", "idle = \"spin\"\n");
        let server = Nearside::serve(["--settings", settings.to_str().unwrap()]);
        let mut staying: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect((STACK[0], 80)).unwrap()).collect();
        let mut ask_all = |body: &str| {
            for stream in &mut staying {
                stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
                assert_eq!(ask(stream, "/"), body);
            }
        };
        ask_all("one");
        let mut said = String::new();
        let mut reload = |more: &str| {
            let before = server.said().lines().count();
            server.signal(Signal::HUP);
            wait_for("a word about it", || {
                let all = server.said();
                said = all.lines().skip(before).find(|line| line.contains(more)).unwrap_or_default().to_owned();
                !said.is_empty()
            });
        };
        let asleep = || counter(&page, "silo.sleeps").0;
        assert_eq!(asleep(), 0, "it polls on");
        write("another body", "idle = \"sleep:50\"\ntx-delay = 20\nmax-connections = 100\n");
        reload("changed: idle, max-connections, respond, tx-delay");
        ask_all("another body");
        wait_for("a sleep", || asleep() > 0);
        // What a link cannot change without a new start stays, by name; and a
        // file with a fault changes nothing at all.
        write("a third", "idle = \"spin\"\nsteer = \"least\"\nmax-connections = 200k\n");
        reload("settings.toml:7: ");
        write("a third", "idle = \"spin\"\nsteer = \"lest\"\n");
        reload("settings.toml:6: invalid value 'lest' for '--steer <POLICY>'");
        ask_all("another body");
        write("a third", "idle = \"spin\"\nsteer = \"least\"\nmax-connections = \"200k\"\n");
        reload("changed: idle, respond, tx-delay; left as it was: max-connections, steer, which need a new start");
        ask_all("a third");
        // Limits that become shorter count for waits that have begun.
        write("a third", "idle = \"adaptive\"\nkeep-alive-timeout = \"200ms\"\n");
        reload("changed: idle, keep-alive-timeout, max-connections");
        for stream in &mut staying {
            assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
        }
        let text = output(Nearside::command(["status", "--json"]).arg(&page));
        let pages: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(pages[0]["reload"]["done"], Value::Bool(true));
        // The page has it without time and level.
        let (_, text) = said.split_once(" info: ").expect("a line of the log");
        assert_eq!(pages[0]["reload"]["text"], text);
        server.stop();
    });
}

#[test]
fn releases_follow_each_other_over_two_silos() {
    in_namespace(&[], || {
        let site = Site::new("silos");
        let page = scratch("reload").join("silos.page");
        let root = site.root();
        let server = Nearside::serve([
            root.to_str().unwrap(),
            "--link",
            TAP,
            "--silos",
            "2",
            "--status-page",
            page.to_str().unwrap(),
        ]);
        releases_follow(server, &site, &page, (STACK[0], 80));
    });
}

#[test]
fn releases_follow_each_other_over_kernel_sockets() {
    in_namespace(&[], || {
        let site = Site::new("sockets");
        let page = scratch("reload").join("sockets.page");
        let mut command =
            Nearside::command(["serve", "--listen", "127.0.0.1:8080", "--workers", "2", "--control", "off"]);
        let mut server = Running::start(command.arg(site.root()).arg("--status-page").arg(&page));
        server.wait_until_open("127.0.0.1:8080");
        releases_follow(server, &site, &page, ("127.0.0.1", 8080));
    });
}
