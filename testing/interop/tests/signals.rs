//! What the server does when it is told to stop, or to open its log again: a
//! process alone, and one that has given its rights up beside its parent.

use interop::veth::{Far, HOST, OWN, OWN_HOSTS, SERVER};
use interop::{ADDRESSES, Nearside, Running, STACK, TAP, in_namespace, ip, output, scratch, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Nobody can be told that the server stops, so it does not wait for anybody:
/// it would for half a minute otherwise, longer than a stop may take here.
#[test]
fn a_server_whose_device_was_deleted_stops_at_once() {
    in_namespace(&[], || {
        let server = Nearside::serve(["--respond", "text:Hello", "--link", TAP]);
        let mut kept = TcpStream::connect((STACK[0], 80)).unwrap();
        kept.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n").unwrap();
        // The first is answered; the second stays half a request.
        let mut answer = Vec::new();
        wait_for("an answer", || {
            let mut piece = [0; 512];
            let len = kept.read(&mut piece).unwrap();
            answer.extend_from_slice(&piece[..len]);
            answer.ends_with(b"Hello")
        });
        ip("link del near0");
        let said = server.stop();
        assert!(said.contains("the link is down, 1 connections end unfinished"), "{said}");
    });
}

/// As nginx does, so that tools that rotate its logs rotate ours.
#[test]
fn the_log_is_opened_again_on_request() {
    in_namespace(&[], || {
        let folder = scratch("rotated-log");
        let [now, before] = ["access.log", "access.log.1"].map(|name| folder.join(name));
        for old in [&now, &before] {
            let _ = std::fs::remove_file(old);
        }
        let log = now.to_str().unwrap().to_owned();
        let server = Nearside::serve(["--respond", "text:Hello", "--link", TAP, "--access-log", &log]);
        let asked = |path: &str| {
            let mut stream = TcpStream::connect((STACK[0], 80)).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        };
        let has = |file: &std::path::Path, path: &str| {
            std::fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("\"GET {path} HTTP/1.1\" 200 5")))
        };
        asked("/first");
        wait_for("the first line", || has(&now, "/first"));
        std::fs::rename(&now, &before).unwrap();
        server.signal(Signal::USR1);
        wait_for("the new file", || now.exists());
        asked("/second");
        wait_for("the second line", || has(&now, "/second"));
        assert!(has(&before, "/first") && !has(&now, "/first") && !has(&before, "/second"));
        server.stop();
    });
}

/// A site whose releases follow each other, its log and the server's files, where
/// only root writes.
struct Site(PathBuf);

impl Site {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("nearside-confined-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        for release in ["one", "two", "three"] {
            fs::create_dir_all(folder.join("site").join(release)).unwrap();
            fs::write(folder.join("site").join(release).join("page"), release).unwrap();
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let site = Self(folder);
        site.publish("one");
        site
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn publish(&self, release: &str) {
        let draft = self.0.join("draft");
        symlink(release, &draft).unwrap();
        fs::rename(&draft, self.0.join("site/current")).unwrap();
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![self.at("site/current"), "--access-log".to_owned(), self.at("log")];
        for (option, name) in [("--pid-file", "pid"), ("--control", "control")] {
            arguments.extend([option.to_owned(), self.at(name)]);
        }
        arguments
    }

    /// Whether the log has any line.
    fn has_lines(&self, log: &str) -> bool {
        fs::read_to_string(self.0.join(log)).is_ok_and(|text| text.lines().count() > 0)
    }

    /// Rotates the log.
    fn rotate(&self, parent: u32) {
        fs::rename(self.0.join("log"), self.0.join("log.1")).unwrap();
        signal(parent, Signal::USR1);
        wait_for("the new log", || self.0.join("log").exists());
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Processes that this one is the parent of, with their states (proc_pid_stat(5)).
fn children(parent: u32) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let child = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit(") ").next()?.split(' ');
        let (state, of) = (fields.next()?.to_owned(), fields.next()?.parse::<u32>().ok()?);
        (of == parent).then_some((pid, state))
    };
    entries.filter_map(child).collect()
}

/// The one process that serves beside its parent, other than `not`.
fn serving(parent: u32, not: Option<u32>) -> u32 {
    let mut found = 0;
    wait_for("one process that serves", || match children(parent).as_slice() {
        [(pid, _)] if Some(*pid) != not => {
            found = *pid;
            true
        }
        _ => false,
    });
    found
}

/// Waits until the process is confined: it is alone, for whoever it follows has
/// ended, a moment before it has given its rights up and serves.
fn assert_confined(pid: u32) {
    let mut told = 0;
    wait_for("confinement", || match confined(pid) {
        Ok(()) => true,
        Err(why) => {
            // Now and then: the last of it stands before the panic.
            if told % 500 == 0 {
                eprintln!("process {pid} is not confined: {why}");
            }
            told += 1;
            false
        }
    });
}

/// Whether every thread of the process is nobody's, has no capability and a filter;
/// or what it has.
fn confined(pid: u32) -> Result<(), String> {
    let mut threads = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        // One that has ended meanwhile has nothing.
        let Ok(status) = fs::read_to_string(thread.unwrap().path().join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).expect(name);
            line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
        };
        let nobodys = |name: &&str| field(name).split(' ').all(|id| id == "65534");
        let dropped = |name: &&str| field(name).bytes().all(|digit| digit == b'0');
        let groups = !field("Groups").split(' ').any(|group| group == "0");
        let filtered = (field("NoNewPrivs").as_str(), field("Seccomp").as_str()) == ("1", "2");
        let capabilities = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].iter().all(dropped);
        if !(["Uid", "Gid"].iter().all(nobodys) && groups && capabilities && filtered) {
            return Err(status);
        }
        threads += 1;
    }
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    match (threads, core.split_ascii_whitespace().nth(4)) {
        // Of the main thread, one that serves, and its helpers.
        (4.., Some("0")) => Ok(()),
        _ => Err(format!("{threads} threads; {core}")),
    }
}

fn ask(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// Waits until what `asked` gets is this release.
fn is_served(release: &str, asked: impl Fn() -> Option<String>) {
    wait_for(&format!("release {release}"), || asked().as_deref() == Some(release));
}

#[test]
fn a_server_over_kernel_sockets_gives_root_up_and_does_all_it_did() {
    in_namespace(&[], || {
        let site = Site::new("kernel");
        fs::write(site.0.join("site/one/secret"), "").unwrap();
        fs::set_permissions(site.0.join("site/one/secret"), fs::Permissions::from_mode(0o600)).unwrap();
        let settings = site.0.join("settings.toml");
        let write = |folder: &str, log: &str| {
            let text = format!("folder = '{}'\naccess-log = '{}'\n", site.at(folder), site.at(log));
            fs::write(&settings, text).unwrap();
            // The parent reads it.
            fs::set_permissions(&settings, fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("site/current", "log");
        let words = ["--listen", "127.0.0.1:80", "--workers", "1", "--settings", settings.to_str().unwrap()];
        let files = site.arguments();
        let server = Running::start(Nearside::confined(words).args(&files[3..]));
        let asked = || ask("127.0.0.1:80");
        is_served("one", asked);
        wait_for("the file with the process id", || {
            fs::read_to_string(site.0.join("pid")).is_ok_and(|text| text.trim() == server.id().to_string())
        });
        let first = serving(server.id(), None);
        assert_confined(first);
        assert!(server.said().contains("nobody may not read 1 of 2 names"), "{}", server.said());
        // Another release, behind the same link.
        site.publish("two");
        server.signal(Signal::HUP);
        is_served("two", asked);
        site.rotate(server.id());
        wait_for("a line", || asked().as_deref() == Some("two") && site.has_lines("log"));
        // Another folder, and another log, in a folder that only root writes to.
        write("site/three", "other");
        server.signal(Signal::HUP);
        is_served("three", asked);
        wait_for("the line in the other log", || site.has_lines("other"));
        // One that lies where the process may not read waits for the next.
        let elsewhere = Site::new("kernel-elsewhere");
        write("site/three", "other");
        let text = fs::read_to_string(&settings).unwrap();
        fs::write(&settings, text.replace(&site.at("site/three"), &elsewhere.at("site/two"))).unwrap();
        server.signal(Signal::HUP);
        let left = "left as it was: folder, which needs a take-over (SIGUSR2)";
        wait_for("what was left", || server.said().contains(left));
        assert_eq!(asked().as_deref(), Some("three"));
        server.signal(Signal::USR2);
        wait_for("the start", || server.said().contains("starting a successor"));
        // A parent that is late finds that one was followed and its end at one look.
        server.signal(Signal::STOP);
        wait_for("the first one's end", || children(server.id()).contains(&(first, "Z".to_owned())));
        server.signal(Signal::CONT);
        is_served("two", asked);
        let second = serving(server.id(), Some(first));
        assert_confined(second);
        assert!(!server.said().contains("error"), "{}", server.said());
        server.stop();
        assert!(!site.0.join("pid").exists() && !site.0.join("control").exists(), "something is left");
    });
}

#[test]
fn a_parent_ends_as_the_process_that_served() {
    in_namespace(&[], || {
        let site = Site::new("killed");
        let mut server = Running::start(Nearside::confined(["--listen", "127.0.0.1:80"]).args(site.arguments()));
        is_served("one", || ask("127.0.0.1:80"));
        // One that does not come up leaves the other serving.
        let first = serving(server.id(), None);
        fs::rename(site.0.join("site/current"), site.0.join("site/gone")).unwrap();
        server.signal(Signal::USR2);
        wait_for("the reason", || server.said().contains(&format!("process {first} serves on")));
        assert_eq!(ask("127.0.0.1:80").as_deref(), Some("one"));
        signal(first, Signal::KILL);
        wait_for("the parent's end", || server.has_ended());
        assert!(server.said().contains("which served, has ended (signal: 9)"), "{}", server.said());
        assert_eq!(server.ended_well(), Some(false));
    });
}

/// Clients may be answered before the parent has heard that its child serves, and before.
#[test]
fn a_successor_that_is_asked_for_early_comes() {
    in_namespace(&[], || {
        let site = Site::new("early");
        let server = Running::start(Nearside::confined(["--listen", "127.0.0.1:80"]).args(site.arguments()));
        wait_for("the first child", || !children(server.id()).is_empty());
        server.signal(Signal::USR2);
        let said = |server: &Running| ["starting a successor", "no successor"].map(|what| server.said().contains(what));
        wait_for("a word about it", || said(&server) != [false; 2]);
        assert_eq!(said(&server), [true, false], "{}", server.said());
        is_served("one", || ask("127.0.0.1:80"));
        server.stop();
    });
}

/// A server of logs has another socket at the same path when it began anew.
#[test]
fn lines_find_a_syslog_server_that_began_anew_without_rights() {
    in_namespace(&[], || {
        let site = Site::new("syslog");
        let (socket, conf) = (site.0.join("syslog"), site.0.join("nginx.conf"));
        let listen = || {
            let _ = fs::remove_file(&socket);
            let listens = UnixDatagram::bind(&socket).unwrap();
            fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
            listens.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            listens
        };
        let text = format!(
            "user nobody; daemon off; error_log stderr; pid {}; events {{}}\n\
             http {{ access_log syslog:server=unix:{},nohostname; server {{ listen 127.0.0.1:80; return 200 one; }} }}\n",
            site.at("pid"),
            socket.display()
        );
        fs::write(&conf, text).unwrap();
        let mut command = Command::new(Nearside::command([""; 0]).get_program());
        let first = listen();
        let server = Running::start(command.arg("nginx").arg("-c").arg(&conf));
        is_served("one", || ask("127.0.0.1:80"));
        let hears = |listens: &UnixDatagram| {
            let mut line = [0; 512];
            ask("127.0.0.1:80").is_some() && listens.recv(&mut line).is_ok_and(|len| line[..len].starts_with(b"<190>"))
        };
        wait_for("a line", || hears(&first));
        assert_confined(serving(server.id(), None));
        drop(first);
        let _ = ask("127.0.0.1:80");
        let second = listen();
        wait_for("a line for the new one", || hears(&second));
        server.stop();
    });
}

/// Servers that requests are passed on to, on loopback and at a path; each says who it is.
fn upstreams(path: &Path) {
    fn answer(mut stream: impl Read + Write, name: &str) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match stream.read(&mut byte) {
                Ok(1..) => request.push(byte[0]),
                _ => return,
            }
        }
        let _ = write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
    }
    let (tcp, unix) = (TcpListener::bind("127.0.0.1:8080").unwrap(), UnixListener::bind(path).unwrap());
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    thread::spawn(move || tcp.incoming().flatten().for_each(|stream| answer(stream, "tcp")));
    thread::spawn(move || unix.incoming().flatten().for_each(|stream| answer(stream, "unix")));
}

/// As the first process of a container, with upstreams that come and go with reloads.
#[test]
fn requests_are_passed_on_without_rights() {
    in_namespace(&[], || {
        let site = Site::new("proxy");
        let (socket, conf) = (site.0.join("upstream"), site.0.join("nginx.conf"));
        upstreams(&socket);
        let configure = |rules: &str| {
            let text = format!(
                "user nobody; daemon off; error_log stderr; pid {};\n\
                 events {{}} http {{ access_log off; upstream near {{ server localhost:8080; }}\n\
                 server {{ listen 127.0.0.1:80; location / {{ {rules} }} }} }}\n",
                site.at("pid"),
            );
            fs::write(&conf, text).unwrap();
        };
        configure("return 200 one;");
        let mut container = Command::new("unshare");
        container.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
        container.arg(Nearside::command([""; 0]).get_program()).arg("nginx").arg("-c").arg(&conf);
        let mut unshare = Running::start(&mut container);
        is_served("one", || ask("127.0.0.1:80"));
        let parent = serving(unshare.id(), None);
        let path = socket.display();
        for (rules, name) in [
            ("proxy_pass http://127.0.0.1:8080;".to_owned(), "tcp"),
            (format!("proxy_pass http://unix:{path};"), "unix"),
            ("proxy_pass http://near;".to_owned(), "tcp"),
            ("return 200 one;".to_owned(), "one"),
            (format!("proxy_pass http://unix:{path}:/other/;"), "unix"),
        ] {
            configure(&rules);
            signal(parent, Signal::HUP);
            is_served(name, || ask("127.0.0.1:80"));
        }
        wait_for("one process that serves", || children(parent).len() == 1);
        assert_confined(serving(parent, None));
        signal(parent, Signal::TERM);
        wait_for("the end", || unshare.has_ended());
        assert_eq!(unshare.ended_well(), Some(true), "{}", unshare.said());
    });
}

#[test]
fn a_device_comes_back_to_a_server_without_rights() {
    in_namespace(&[], || {
        let site = Site::new("tap");
        let mut server = Running::start(
            Nearside::confined(["--listen", "80", "--link", TAP]).args(ADDRESSES).args(&site.arguments()[..3]),
        );
        let address = format!("{}:80", STACK[0]);
        server.wait_until_open(&address);
        is_served("one", || ask(&address));
        assert_confined(serving(server.id(), None));
        ip("link del near0");
        wait_for("the loss", || server.said().contains("link lost"));
        ip("tuntap add dev near0 mode tap");
        wait_for("the return", || server.said().contains("link back"));
        server.wait_until_open(&address);
        site.publish("two");
        server.signal(Signal::HUP);
        is_served("two", || ask(&address));
        site.rotate(server.id());
        server.stop();
    });
}

/// With addresses of its own, then with the host's.
#[test]
fn an_interface_is_served_without_rights() {
    in_namespace(&[], || {
        let far = Far::new(1);
        for (host, own) in [(OWN_HOSTS[0], &OWN[..]), (HOST[0], &[])] {
            let site = Site::new(if own.is_empty() { "xdp-host" } else { "xdp-own" });
            let link = format!("af_xdp:{SERVER}");
            let mut server = Running::start(
                Nearside::confined(["--listen", "80", "--link", &link]).args(own).args(site.arguments()),
            );
            let url = format!("http://{host}/page");
            let asked = || Some(output(far.command("curl").args(["--silent", "--max-time", "60", &url])));
            far.wait_until_served(&mut server, &url);
            is_served("one", asked);
            let first = serving(server.id(), None);
            assert_confined(first);
            if own.is_empty() {
                // Whom the kernel does not know, the parent asks it for.
                ip(&format!("neigh flush dev {SERVER}"));
                is_served("one", asked);
            } else {
                ip(&format!("link del {SERVER}"));
                wait_for("the loss", || server.said().contains("link lost"));
                far.make_again();
                wait_for("the return", || server.said().contains("link back"));
                far.wait_until_served(&mut server, &url);
            }
            site.publish("two");
            server.signal(Signal::HUP);
            is_served("two", asked);
            server.signal(Signal::USR2);
            let second = serving(server.id(), Some(first));
            wait_for("the successor", || server.said().contains("took over from process"));
            assert_confined(second);
            is_served("two", asked);
            site.rotate(server.id());
            server.stop();
            assert!(!site.0.join("pid").exists() && !site.0.join("control").exists(), "something is left");
        }
    });
}

/// As the first process of a container: what ends there is taken in, and the one
/// that serves is followed by another.
#[test]
fn as_process_1_it_stays_while_servers_follow_each_other() {
    in_namespace(&[], || {
        let site = Site::new("container");
        let mut container = Command::new("unshare");
        let program = Nearside::confined(["--listen", "127.0.0.1:80"]);
        container.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]).arg(program.get_program());
        let mut unshare = Running::start(container.args(program.get_args()).args(site.arguments()));
        is_served("one", || ask("127.0.0.1:80"));
        let parent = serving(unshare.id(), None);
        let first = serving(parent, None);
        assert_confined(first);
        // Left by its own parent to the first process.
        let orphan = ["--pid", "--target", &parent.to_string(), "--", "sh", "-c", "sleep 0.1 & exit 0"];
        let _ = output(Command::new("nsenter").args(orphan));
        signal(parent, Signal::USR2);
        let second = serving(parent, Some(first));
        assert_confined(second);
        assert_eq!(ask("127.0.0.1:80").as_deref(), Some("one"));
        wait_for("nobody is left unburied", || children(parent).iter().all(|(pid, _)| *pid == second));
        signal(parent, Signal::TERM);
        wait_for("the end", || unshare.has_ended());
        assert_eq!(unshare.ended_well(), Some(true), "{}", unshare.said());
    });
}

/// Peers come and go: each brings memory of its own, which is mapped without
/// rights.
#[test]
fn peers_in_shared_memory_are_served_without_rights() {
    in_namespace(&[], || {
        let site = Site::new("memif");
        let link = format!("memif:{}", site.0.join("link.sock").display());
        let arguments = ["--listen", "80", "--link", &link, "--addr", "192.0.2.1/24"];
        let server = Running::start(Nearside::confined(arguments).args(&site.arguments()[..3]));
        wait_for("the start", || server.said().contains("serving http://"));
        assert_confined(serving(server.id(), None));
        for peer in ["192.0.2.2/24", "192.0.2.3/24"] {
            let load = ["load", "--link", &link, "--addr", peer, "http://192.0.2.1/", "-c", "4", "-n", "1000"];
            let said = output(&mut Nearside::command(load));
            assert!(said.contains("1,000 responses"), "{said}");
        }
        server.stop();
    });
}
