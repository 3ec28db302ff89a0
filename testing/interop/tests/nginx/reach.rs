//! Upstreams that only the kernel reaches, behind a front whose clients come by a link:
//! on loopback, at a Unix socket, and by the kernel's routes. As root starts it: under a
//! parent, as nobody.

use interop::veth::{Far, SERVER};
use interop::{Nearside, Program, Running, TAP, in_namespace, output, scratch, wait_for};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

const CURL: Program = Program::new("curl", "curl");
const PORT: u16 = 9_180;

/// Bytes of a body that no buffer holds.
const LONG: usize = 3_000_000;

/// A front, and where what it needs lies.
struct Front {
    folder: PathBuf,
    /// Where clients reach it.
    address: &'static str,
}

impl Front {
    fn new(name: &str, address: &'static str) -> Self {
        let folder = scratch(&format!("nginx-reach-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("logs")).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, address }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("upstream")
    }

    /// What it says, and the upstreams that it has: a name, and where it is. Bodies have a
    /// folder of their own: who serves next as another user takes the usual one over.
    fn configure(&self, text: &str, upstreams: &[(&str, String)]) {
        let pass = |(name, at): &(&str, String)| format!("location = /{name} {{ proxy_pass http://{at}; }}\n");
        let passed: String = upstreams.iter().map(pass).collect();
        let configuration = format!(
            "daemon off; pid nginx.pid; error_log logs/error.log;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log logs/access.log; client_body_temp_path bodies; server {{ listen {}:80;\n\
             location = /text {{ return 200 {text}; }}\n{passed} }} }}\n",
            self.address
        );
        fs::write(self.folder.join("nginx.conf"), configuration).unwrap();
    }

    fn start(&self, link: &[&str]) -> Running {
        let mut command = Nearside::command(["nginx", "-e", "stderr"]);
        command.args(link).arg("-p").arg(&self.folder).arg("-c").arg(self.folder.join("nginx.conf"));
        Running::start(&mut command)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    fn told(&self) -> String {
        fs::read_to_string(self.folder.join("logs/error.log")).unwrap_or_default()
    }

    /// What a client gets of `path`, and what it sends there.
    fn ask(&self, mut curl: Command, path: &str, body: Option<&Path>) -> String {
        curl.args(["--silent", "--show-error", "--max-time", "60"]).arg(self.url(path));
        if let Some(body) = body {
            curl.arg("--data-binary").arg(format!("@{}", body.display()));
        }
        output(&mut curl)
    }
}

/// What it told of a test that fails; a thread of its own writes it, and may be behind.
impl Drop for Front {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::thread::sleep(Duration::from_millis(500));
            println!("the error log: {}", self.told());
        }
    }
}

/// Holds what upstreams are to say, until they may.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn wait(&self) {
        let (open, changed) = &*self.0;
        drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// Answers one request after the other: who asked, and how many bytes it sent; of
/// `/long`, half of many bytes, and the rest once the gate is open.
fn answer(mut stream: impl Read + Write, who: &str, gate: &Gate) {
    let mut arrived = Vec::new();
    let mut piece = [0; 16_384];
    loop {
        let Ok(length @ 1..) = stream.read(&mut piece) else { return };
        arrived.extend_from_slice(&piece[..length]);
        let Some(end) = arrived.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&arrived[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.parse::<usize>().unwrap());
        if arrived.len() < end + 4 + length {
            continue;
        }
        let sent: u64 = arrived[end + 4..].iter().map(|byte| u64::from(*byte)).sum();
        arrived.clear();
        let done = if head.contains(" /long ") {
            let half = [b'x'; LONG / 2];
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG}\r\n\r\n");
            let begun = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&half));
            gate.wait();
            begun.and_then(|()| stream.write_all(&half))
        } else {
            let text = format!("{who}, {sent}");
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            stream.write_all(answer.as_bytes())
        };
        if done.is_err() {
            return;
        }
    }
}

/// Upstreams in the test's namespace, on all addresses and at a path; they end with the
/// test's process.
fn upstreams(socket: &Path) -> Gate {
    let gate = Gate::default();
    let (tcp, unix) = (TcpListener::bind(("0.0.0.0", PORT)).unwrap(), UnixListener::bind(socket).unwrap());
    fs::set_permissions(socket, fs::Permissions::from_mode(0o777)).unwrap();
    let (of_tcp, of_unix) = (gate.clone(), gate.clone());
    thread::spawn(move || {
        while let Ok((stream, from)) = tcp.accept() {
            let gate = of_tcp.clone();
            thread::spawn(move || answer(stream, &from.ip().to_string(), &gate));
        }
    });
    thread::spawn(move || {
        while let Ok((stream, _)) = unix.accept() {
            let gate = of_unix.clone();
            thread::spawn(move || answer(stream, "a path", &gate));
        }
    });
    gate
}

/// An upstream behind the interface, that tells who asked.
fn far_upstream(far: &Far, front: &Front) -> Running {
    let folder = front.folder.join("far");
    fs::create_dir_all(folder.join("logs")).unwrap();
    let configuration = format!(
        "daemon off; pid nginx.pid; error_log stderr; events {{}}\n\
         http {{ access_log off; server {{ listen {PORT}; location / {{ return 200 \"$remote_addr, 0\"; }} }} }}\n"
    );
    fs::write(folder.join("nginx.conf"), configuration).unwrap();
    let mut command = far.command(Nearside::command::<&str>([]).get_program());
    command.args(["nginx", "-e", "stderr", "-p"]).arg(&folder).arg("-c").arg(folder.join("nginx.conf"));
    let mut upstream = Running::start(&mut command);
    far.wait_until_served(&mut upstream, &format!("http://10.7.0.2:{PORT}/"));
    upstream
}

/// A download through the front that is under way, and whose upstream waits.
fn download(mut curl: Command, front: &Front, path: &str) -> Child {
    curl.args(["--silent", "--show-error", "--fail", "--max-time", "600"]).arg(front.url(path));
    let curl = curl.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let arrived = || rustix::io::ioctl_fionread(curl.stdout.as_ref().unwrap()).unwrap();
    wait_for("the first bytes of a download", || arrived() > 0);
    curl
}

/// On the host's own addresses: upstreams are added by a reload, and go by one, each
/// time by a new process, which has the rights for it or not; what is under way is
/// finished by the one before.
#[test]
fn a_front_on_the_hosts_addresses_reaches_all_that_its_kernel_does() {
    in_namespace(&[CURL], || {
        let front = Front::new("host", "10.7.0.1");
        let far = Far::new(2);
        let gate = upstreams(&front.socket());
        let behind = far_upstream(&far, &front);
        front.configure("one", &[]);
        let link = format!("af_xdp:{SERVER}");
        let mut server = front.start(&["--link", &link, "--silos", "2"]);
        far.wait_until_served(&mut server, &front.url("text"));
        assert!(front.told().contains("serves as nobody"), "{}", front.told());
        let path = format!("unix:{}:", front.socket().display());
        let all = [
            ("loopback", format!("127.0.0.1:{PORT}")),
            ("path", path.clone()),
            ("own", format!("10.7.0.1:{PORT}")),
            ("far", format!("10.7.0.2:{PORT}")),
            ("long", format!("127.0.0.1:{PORT}")),
        ];
        front.configure("two", &all);
        server.signal(Signal::HUP);
        let ask = |path: &str| front.ask(far.command("curl"), path, None);
        wait_for("upstreams", || ask("text") == "two");
        for (name, who) in [("loopback", "127.0.0.1"), ("path", "a path"), ("own", "10.7.0.1"), ("far", "10.7.0.1")] {
            for _ in 0..4 {
                assert_eq!(ask(name), format!("{who}, 0"), "{name}: {}", front.told());
            }
            // By clients on the host itself, too.
            assert_eq!(front.ask(Command::new("curl"), name, None), format!("{who}, 0"), "{name}");
        }
        let body = front.folder.join("body");
        fs::write(&body, [3; 700_000]).unwrap();
        for name in ["loopback", "path"] {
            let told = front.ask(far.command("curl"), name, Some(&body));
            assert!(told.ends_with(", 2100000"), "{name}: {told}: {}", front.told());
        }
        let curl = download(far.command("curl"), &front, "long");
        front.configure("three", &[]);
        server.signal(Signal::HUP);
        wait_for("no upstreams", || ask("text") == "three");
        gate.open();
        let got = curl.wait_with_output().unwrap();
        assert!(got.status.success() && got.stdout.len() == LONG, "{} bytes: {}", got.stdout.len(), front.told());
        server.stop();
        behind.stop();
    });
}

/// With an address of its own, where what its network reaches goes by the link.
#[test]
fn a_front_with_its_own_address_reaches_the_kernels_beside_its_network() {
    in_namespace(&[CURL], || {
        let front = Front::new("own", "10.7.0.5");
        let far = Far::new(1);
        let gate = upstreams(&front.socket());
        let behind = far_upstream(&far, &front);
        let path = format!("unix:{}:", front.socket().display());
        let all = [
            ("loopback", format!("127.0.0.1:{PORT}")),
            ("path", path),
            ("far", format!("10.7.0.2:{PORT}")),
            ("long", format!("127.0.0.1:{PORT}")),
        ];
        front.configure("one", &all);
        let link = format!("af_xdp:{SERVER}");
        let mut server = front.start(&["--link", &link, "--addr", "10.7.0.5/24"]);
        far.wait_until_served(&mut server, &front.url("text"));
        for (name, who) in [("loopback", "127.0.0.1"), ("path", "a path"), ("far", "10.7.0.5")] {
            for _ in 0..4 {
                assert_eq!(front.ask(far.command("curl"), name, None), format!("{who}, 0"), "{name}: {}", front.told());
            }
        }
        let curl = download(far.command("curl"), &front, "long");
        gate.open();
        assert_eq!(curl.wait_with_output().unwrap().stdout.len(), LONG);
        server.stop();
        behind.stop();
    });
}

/// Over links of which there is no copy of the stack with the kernel beside: the one for
/// any link is used.
#[test]
fn a_front_over_another_link_reaches_the_kernels_too() {
    in_namespace(&[CURL], || {
        let front = Front::new("tap", "10.9.0.2");
        let gate = upstreams(&front.socket());
        let path = format!("unix:{}:", front.socket().display());
        let all = [
            ("loopback", format!("127.0.0.1:{PORT}")),
            ("path", path),
            ("own", format!("10.9.0.1:{PORT}")),
            ("long", format!("127.0.0.1:{PORT}")),
        ];
        front.configure("one", &all);
        let mut server = front.start(&["--link", TAP, "--addr", "10.9.0.2/24"]);
        server.wait_until_open("10.9.0.2:80");
        for (name, who) in [("loopback", "127.0.0.1"), ("path", "a path"), ("own", "10.9.0.1")] {
            for _ in 0..4 {
                let told = front.ask(Command::new("curl"), name, None);
                assert_eq!(told, format!("{who}, 0"), "{name}: {}", front.told());
            }
        }
        let curl = download(Command::new("curl"), &front, "long");
        gate.open();
        assert_eq!(curl.wait_with_output().unwrap().stdout.len(), LONG);
        server.stop();
    });
}
