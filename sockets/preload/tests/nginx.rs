//! The distribution's nginx, unmodified, on our stack: by `nearside run` over a TAP device, with the
//! kernel as the client.

use interop::{Nearside, Program, Running, in_namespace, output, scratch, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

const NGINX: Program = Program::new("nginx", "nginx-light");
const CURL: Program = Program::new("curl", "curl");

/// Bytes of the large file: many times what a connection's buffers hold.
const LARGE: usize = 3_000_000;

/// nginx with its configuration in a folder of the test's own.
struct Server {
    keeper: Running,
    folder: PathBuf,
}

impl Server {
    /// Starts it as a daemon, with workers that have given root up, and waits until it answers.
    fn start(test: &str, more: &str) -> Self {
        let folder = scratch(test);
        fs::create_dir_all(folder.join("html")).unwrap();
        let large: Vec<u8> = (0..LARGE).map(|at| (at * 7 / 3) as u8).collect();
        fs::write(folder.join("html/large"), large).unwrap();
        fs::write(folder.join("html/small"), "a small file\n").unwrap();
        // Whoever the worker is, it may read.
        let readable = Command::new("chmod").args(["-R", "a+rX"]).arg(&folder).status().unwrap();
        assert!(readable.success());
        let here = folder.display();
        let configuration = format!(
            "worker_processes 1; pid {here}/pid; error_log {here}/error info; {more}
             events {{ worker_connections 512; }}
             http {{
                 access_log {here}/access; sendfile on; client_body_temp_path {here}/body;
                 server {{
                     listen 80; listen [::]:81 ipv6only=off;
                     location / {{ root {here}/html; }}
                     location = /pid {{ return 200 $pid; }}
                     location = /whole {{ return 200 $remote_addr:$server_addr:$server_port; }}
                 }}
             }}"
        );
        fs::write(folder.join("nginx.conf"), configuration).unwrap();
        for old in ["pid", "access"] {
            let _ = fs::remove_file(folder.join(old));
        }
        let mut command = Nearside::command(["run", "--link", "tap:near0,addr=10.9.0.1/24", "--addr", "10.9.0.2/24"]);
        command.arg("--library").arg(library()).arg("--").args(nginx(&folder));
        let mut this = Self { keeper: Running::start(&mut command), folder };
        this.keeper.wait_until_open("10.9.0.2:80");
        wait_for("nginx's pid file", || this.master().is_some());
        this
    }

    /// The number of nginx's master.
    fn master(&self) -> Option<i32> {
        fs::read_to_string(self.folder.join("pid")).ok()?.trim().parse().ok()
    }

    fn signal(&self, signal: Signal) {
        send(self.master().expect("a master"), signal);
    }

    /// Asks nginx by its own command, which knows nothing of us.
    fn command(&self, order: &str) {
        let mut words = nginx(&self.folder);
        let mut command = Command::new(words.remove(0));
        let _said = output(command.args(words).args(["-s", order]));
    }

    /// It was told to end: its keeper ends with its last process.
    fn ended(&mut self) {
        wait_for("the keeper's end", || self.keeper.has_ended());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A daemon is nobody's child.
        if !self.keeper.has_ended()
            && let Some(master) = self.master().and_then(Pid::from_raw)
        {
            let _ = kill_process(master, Signal::TERM);
        }
    }
}

fn nginx(folder: &Path) -> Vec<String> {
    ["nginx".to_owned(), "-c".to_owned(), folder.join("nginx.conf").display().to_string()].into()
}

fn send(process: i32, signal: Signal) {
    kill_process(Pid::from_raw(process).expect("a process"), signal).expect("it takes signals");
}

/// The shared library, which cargo puts beside the tests.
fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let file = tests.parent().unwrap().join("libnearside_preload.so");
    assert!(file.is_file(), "there is no {}", file.display());
    file
}

/// What curl gets, on one connection where it can.
fn get(paths: &[&str]) -> String {
    let urls = paths.iter().map(|path| format!("http://10.9.0.2{path}"));
    output(Command::new("curl").args(["-sS", "--fail", "--max-time", "60"]).args(urls))
}

/// The worker that answers.
fn worker() -> i32 {
    get(&["/pid"]).parse().expect("a process")
}

/// Whether another worker answers than the old one, while they follow each other. Nobody is refused
/// then; who waits to be accepted when the old worker closes its listener is reset, as by an nginx
/// whose listeners are its workers' own (`listen … reuseport`).
fn is_followed(old: i32) -> bool {
    let asked = Command::new("curl").args(["-sS", "--fail", "--max-time", "60", "http://10.9.0.2/pid"]).output();
    let asked = asked.unwrap();
    let answer = String::from_utf8(asked.stdout).unwrap();
    let failed = asked.status.code().filter(|code| *code != 0);
    // "Failure with receiving network data."
    assert!(matches!(failed, None | Some(56)), "{}", String::from_utf8_lossy(&asked.stderr));
    answer.parse().is_ok_and(|worker: i32| worker != old)
}

#[test]
fn nginx_serves_as_it_is() {
    in_namespace(&[NGINX, CURL], || {
        let mut server = Server::start("run-serves", "");
        assert_eq!(get(&["/small", "/small"]), "a small file\na small file\n");
        assert_eq!(get(&["/whole"]), "10.9.0.1:10.9.0.2:80");
        assert_eq!(get(&[":81/whole"]), "::ffff:10.9.0.1:::ffff:10.9.0.2:81");
        let got = Command::new("curl").args(["-sS", "http://10.9.0.2/large"]).output().unwrap().stdout;
        assert!(got == fs::read(server.folder.join("html/large")).unwrap(), "{} of {LARGE} bytes", got.len());
        // Many at once, each with many requests.
        let clients: Vec<_> = (0..20).map(|_| std::thread::spawn(|| get(&["/small"; 50]))).collect();
        for client in clients {
            assert_eq!(client.join().unwrap(), "a small file\n".repeat(50));
        }
        server.command("quit");
        server.ended();
        let log = fs::read_to_string(server.folder.join("access")).unwrap();
        assert_eq!(log.lines().filter(|line| line.contains("GET /small") && line.contains(" 200 13 ")).count(), 1_002);
    });
}

/// A client that reads at leisure holds nobody up, and gets all.
#[test]
fn a_slow_reader_gets_all() {
    in_namespace(&[NGINX, CURL], || {
        let server = Server::start("run-slow", "");
        let mut slow = TcpStream::connect("10.9.0.2:80").unwrap();
        slow.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(get(&["/small"]), "a small file\n");
        let mut got = Vec::new();
        slow.read_to_end(&mut got).unwrap();
        let body = got.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        assert!(got[body..] == fs::read(server.folder.join("html/large")).unwrap());
    });
}

#[test]
fn a_worker_that_is_killed_is_replaced() {
    in_namespace(&[NGINX, CURL], || {
        let _server = Server::start("run-killed", "");
        for _ in 0..5 {
            let killed = worker();
            send(killed, Signal::KILL);
            wait_for("another worker", || {
                let asked = Command::new("curl").args(["-s", "--max-time", "5", "http://10.9.0.2/pid"]).output();
                let answer = String::from_utf8(asked.unwrap().stdout).unwrap();
                answer.parse().is_ok_and(|pid: i32| pid != killed)
            });
        }
    });
}

#[test]
fn nginx_reloads_and_changes_its_binary() {
    in_namespace(&[NGINX, CURL], || {
        let mut server = Server::start("run-reload", "");
        for _ in 0..5 {
            let old = worker();
            server.command("reload");
            wait_for("a worker of the new configuration", || is_followed(old));
        }
        let (old_master, old_worker) = (server.master().unwrap(), worker());
        server.signal(Signal::USR2);
        wait_for("a master of the new binary", || server.master().is_some_and(|master| master != old_master));
        send(old_master, Signal::WINCH);
        wait_for("a worker of the new binary", || is_followed(old_worker));
        send(old_master, Signal::QUIT);
        wait_for("the old master's end", || !Path::new(&format!("/proc/{old_master}")).exists());
        assert_eq!(get(&["/small"]), "a small file\n");
        server.command("stop");
        server.ended();
    });
}

/// The program's port is nobody else's, and the kernel's clients hear that nobody answers there.
#[test]
fn the_kernel_has_the_port_and_nobody_behind_it() {
    in_namespace(&[NGINX, CURL], || {
        let mut server = Server::start("run-port", "");
        assert_eq!(TcpListener::bind("0.0.0.0:80").unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
        for _ in 0..3 {
            let mut client = TcpStream::connect("10.9.0.1:80").unwrap();
            let failed = client.read(&mut [0]).unwrap_err();
            assert_eq!(failed.kind(), std::io::ErrorKind::ConnectionReset);
        }
        server.command("stop");
        server.ended();
        TcpListener::bind("0.0.0.0:80").expect("it is free");
    });
}

/// An nginx that asks another server on the link, and one on loopback.
#[test]
fn nginx_passes_requests_on() {
    in_namespace(&[NGINX, CURL], || {
        let server = Server::start("run-proxy", "");
        let configuration = server.folder.join("nginx.conf");
        let text = fs::read_to_string(&configuration).unwrap();
        let passing = "location = /far { proxy_pass http://10.9.0.1:8001; } location = /near { proxy_pass http://127.0.0.1:8002; }";
        fs::write(&configuration, text.replace("location = /pid", &format!("{passing} location = /pid"))).unwrap();
        let old = worker();
        server.command("reload");
        wait_for("a worker of the new configuration", || is_followed(old));
        for (address, path) in [("10.9.0.1:8001", "/far"), ("127.0.0.1:8002", "/near")] {
            let listener = TcpListener::bind(address).unwrap();
            let upstream = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let len = stream.read(&mut request).unwrap();
                assert!(request[..len].starts_with(b"GET "));
                stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nfrom upstream").unwrap();
            });
            assert_eq!(get(&[path]), "from upstream");
            upstream.join().unwrap();
            // Nobody is there any more.
            let mut curl = Command::new("curl");
            curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}"]).arg(format!("http://10.9.0.2{path}"));
            assert_eq!(output(&mut curl), "502");
        }
    });
}
