//! The distribution's nginx, with a configuration and files of the test's own.

use interop::{Nearside, Program, Running, ip, output, scratch, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub const NGINX: Program = Program::new("nginx", "nginx-light");
pub const CURL: Program = Program::new("curl", "curl");

/// Bytes of the large file: many times what a connection's buffers hold.
pub const LARGE: usize = 3_000_000;

/// The link that a program's connections come by, with the kernel at its other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// A TAP device.
    Tap,
    /// A pair of virtual Ethernet interfaces with so many queues, over AF_XDP.
    Xdp { queues: u16 },
}

impl Over {
    /// Sets up what is the kernel's, and tells how the link is written.
    pub fn prepare(self) -> &'static str {
        let Self::Xdp { queues } = self else { return "tap:near0,addr=10.9.0.1/24" };
        let count = format!("numrxqueues {queues} numtxqueues {queues}");
        ip(&format!("link add near0 {count} type veth peer name far0 {count}"));
        ip("addr add 10.9.0.1/24 dev far0");
        ["near0", "far0"].iter().for_each(|end| ip(&format!("link set {end} up")));
        "af_xdp:near0"
    }
}

/// nginx with its configuration in a folder of the test's own.
pub struct Server {
    keeper: Running,
    /// Where it has all that is its own.
    pub folder: PathBuf,
}

impl Server {
    /// Starts it as a daemon, with workers that have given root up, and waits until it answers.
    pub fn start(over: Over, test: &str) -> Self {
        Self::start_with(over, test, &[])
    }

    /// The same with options of `nearside run`.
    pub fn start_with(over: Over, test: &str, options: &[&str]) -> Self {
        Self::start_below(over, test, options, None)
    }

    /// The same for a service manager, that hears of it at this socket.
    pub fn start_as_service(over: Over, test: &str, manager: &Path) -> Self {
        Self::start_below(over, test, &[], Some(manager))
    }

    fn start_below(over: Over, test: &str, options: &[&str], manager: Option<&Path>) -> Self {
        let name = match over {
            Over::Tap => "tap".to_owned(),
            Over::Xdp { queues } => format!("xdp{queues}"),
        };
        let folder = scratch(&format!("run-{test}-{name}"));
        let mut this = Self::start_in(folder, over.prepare(), 1, options, manager);
        this.keeper.wait_until_open("10.9.0.2:80");
        wait_for("nginx's pid file", || this.master().is_some());
        this
    }

    /// Starts it with so many workers, as the server of a memif interface in its folder.
    pub fn start_over_memif(test: &str, workers: usize) -> Self {
        let folder = scratch(&format!("run-{test}-memif"));
        let link = format!("memif:{}", folder.join("link").display());
        let this = Self::start_in(folder, &link, workers, &[], None);
        wait_for("nginx's pid file", || this.master().is_some());
        this
    }

    fn start_in(folder: PathBuf, link: &str, workers: usize, options: &[&str], manager: Option<&Path>) -> Self {
        fs::create_dir_all(folder.join("html")).unwrap();
        let large: Vec<u8> = (0..LARGE).map(|at| (at * 7 / 3) as u8).collect();
        fs::write(folder.join("html/large"), large).unwrap();
        fs::write(folder.join("html/small"), "a small file\n").unwrap();
        // Whoever the worker is, it may read.
        let readable = Command::new("chmod").args(["-R", "a+rX"]).arg(&folder).status().unwrap();
        assert!(readable.success());
        fs::write(folder.join("nginx.conf"), configuration(&folder, workers)).unwrap();
        for old in ["pid", "access"] {
            let _ = fs::remove_file(folder.join(old));
        }
        let mut command = Nearside::command(["run", "--link", link, "--addr", "10.9.0.2/24"]);
        command.args(options).arg("--library").arg(library()).arg("--").args(nginx(&folder));
        if let Some(manager) = manager {
            command.env("NOTIFY_SOCKET", manager);
        }
        Self { keeper: Running::start(&mut command), folder }
    }

    /// The number of nginx's master.
    pub fn master(&self) -> Option<i32> {
        fs::read_to_string(self.folder.join("pid")).ok()?.trim().parse().ok()
    }

    /// The process that keeps its link.
    pub fn keeper(&self) -> i32 {
        self.keeper.id().try_into().expect("a process")
    }

    pub fn signal(&self, signal: Signal) {
        send(self.master().expect("a master"), signal);
    }

    /// Writes its configuration anew, from what it was.
    pub fn configure(&self, change: impl FnOnce(&str) -> String) {
        let file = self.folder.join("nginx.conf");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, change(&text)).unwrap();
    }

    /// Asks nginx by its own command, which knows nothing of us.
    pub fn command(&self, order: &str) {
        let mut words = nginx(&self.folder);
        let mut command = Command::new(words.remove(0));
        let _said = output(command.args(words).args(["-s", order]));
    }

    /// It was told to end: its keeper ends with its last process.
    pub fn ended(&mut self) {
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

fn configuration(folder: &Path, workers: usize) -> String {
    let here = folder.display();
    format!(
        "worker_processes {workers}; pid {here}/pid; error_log {here}/error info;
         events {{ worker_connections 512; }}
         http {{
             access_log {here}/access; sendfile on; send_timeout 1h; client_body_temp_path {here}/body;
             server {{
                 listen 80; listen [::]:81 ipv6only=off;
                 location / {{ root {here}/html; }}
                 location = /pid {{ return 200 $pid; }}
                 location = /whole {{ return 200 $remote_addr:$server_addr:$server_port; }}
             }}
         }}"
    )
}

fn nginx(folder: &Path) -> Vec<String> {
    ["nginx".to_owned(), "-c".to_owned(), folder.join("nginx.conf").display().to_string()].into()
}

pub fn send(process: i32, signal: Signal) {
    kill_process(Pid::from_raw(process).expect("a process"), signal).expect("it takes signals");
}

/// The shared library, which cargo puts beside the tests.
pub fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let file = tests.parent().unwrap().join("libnearside_preload.so");
    assert!(file.is_file(), "there is no {}", file.display());
    file
}

/// What curl gets, on one connection where it can.
pub fn get(paths: &[&str]) -> String {
    let urls = paths.iter().map(|path| format!("http://10.9.0.2{path}"));
    output(Command::new("curl").args(["-sS", "--fail", "--max-time", "60"]).args(urls))
}

/// The worker that answers.
pub fn worker() -> i32 {
    get(&["/pid"]).parse().expect("a process")
}

/// What a client of its own gets, on a connection of its own.
pub fn ask(path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect("10.9.0.2:80")?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    // In one piece: a second one would wait until the first is acknowledged (RFC 9293 section 3.7.4).
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let whole = answer.split_once("\r\n\r\n").filter(|(head, _)| head.starts_with("HTTP/1.1 200 "));
    whole.map(|(_, body)| body.to_owned()).ok_or_else(|| io::Error::other(format!("this is no answer: {answer:?}")))
}

/// Whether another worker answers than the old one, while they follow each other: nobody is refused
/// or reset then.
pub fn is_followed(old: i32) -> bool {
    worker() != old
}
