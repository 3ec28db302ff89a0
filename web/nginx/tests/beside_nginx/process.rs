//! nginx, as a process: what it says of a configuration, what it serves by one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const NGINX: &str = "/usr/sbin/nginx";

/// A folder with a configuration, gone with the value.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// None where there is no nginx.
    pub(crate) fn new(name: &str) -> Option<Self> {
        if !Path::new(NGINX).exists() {
            eprintln!("left out: there is no nginx here");
            return None;
        }
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Some(Self(path))
    }

    /// Writes `text` into the file `name`, in folders of its own.
    pub(crate) fn write(&self, name: &str, text: &[u8]) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Where the configuration is.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.0.join("nginx.conf")
    }

    /// Why nginx refuses `text` as its configuration: what it says first.
    pub(crate) fn refusal(&self, text: &[u8]) -> Option<String> {
        self.judgement(text).0
    }

    /// The same, and what it warns of.
    fn judgement(&self, text: &[u8]) -> (Option<String>, Vec<String>) {
        self.write("nginx.conf", text);
        let output = self.nginx().arg("-t").stderr(Stdio::piped()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        // Between the level and what is said stand the process and its thread; what is
        // said may be several lines, and the verdict follows.
        let said = told.split_once("[emerg] ").and_then(|(_, rest)| rest.split_once(": "));
        let said = said.and_then(|(_, said)| said.split("\nnginx: ").next()).map(str::to_owned);
        assert_eq!(output.status.success(), said.is_none(), "{told}");
        let warning = |line: &str| line.split_once("[warn] ")?.1.split_once(": ").map(|(_, said)| said.to_owned());
        (said, told.lines().filter_map(warning).map(|said| format!("[warn] {said}")).collect())
    }

    /// The same of a configuration with these servers.
    pub(crate) fn warnings_of_servers(&self, servers: &str) -> (Option<String>, Vec<String>) {
        self.judgement(self.with(servers).as_bytes())
    }

    /// Why nginx refuses a configuration with these servers.
    pub(crate) fn refusal_of_servers(&self, servers: &str) -> Option<String> {
        self.refusal(self.with(servers).as_bytes())
    }

    /// Starts nginx with these servers, and waits until it takes connections.
    pub(crate) fn start(&self, servers: &str, port: u16) -> Running {
        self.write("nginx.conf", self.with(servers).as_bytes());
        let nginx = Running(self.nginx().spawn().unwrap(), port);
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return nginx;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("nginx does not come up");
    }

    fn with(&self, servers: &str) -> String {
        format!(
            "daemon off; master_process off; pid {folder}/pid; error_log stderr crit;\n\
             events {{}}\nhttp {{ access_log off; default_type text/plain;\n{servers}}}\n",
            folder = self.0.display()
        )
    }

    fn nginx(&self) -> Command {
        let mut nginx = Command::new(NGINX);
        // What the configuration says itself must not be said twice.
        nginx.args(["-e", "stderr", "-p"]).arg(&self.0).arg("-c").arg(self.configuration());
        nginx.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        nginx
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An nginx that serves, on a port; it ends with the value.
pub(crate) struct Running(Child, u16);

impl Running {
    /// A connection; nginx ends it after a thousand requests.
    pub(crate) fn connect(&self) -> BufReader<TcpStream> {
        BufReader::new(TcpStream::connect(("127.0.0.1", self.1)).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What nginx answers for `path` of the server `host`: a place, or none.
pub(crate) fn ask(stream: &mut BufReader<TcpStream>, host: &str, path: &[u8]) -> Option<u32> {
    let (status, body) = exchange(stream, host, path);
    (status == 200).then(|| String::from_utf8_lossy(&body).parse().unwrap())
}

/// A request, and the status and body of its answer.
pub(crate) fn exchange(stream: &mut BufReader<TcpStream>, host: &str, path: &[u8]) -> (u16, Vec<u8>) {
    let path = String::from_utf8_lossy(path);
    // In one write: a second waits for the acknowledgement of the first.
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let (mut line, mut status, mut length) = (String::new(), 0, 0);
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "nginx closed the connection");
        let lower = line.to_ascii_lowercase();
        if let Some(rest) = lower.strip_prefix("http/1.1 ") {
            status = rest[..3].parse().unwrap();
        } else if let Some(rest) = lower.strip_prefix("content-length: ") {
            length = rest.trim().parse().unwrap();
        } else if lower == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (status, body)
}
