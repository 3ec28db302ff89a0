//! A host moves from nginx to ours and back, as docs/from-nginx.md says it, without an edit:
//! two sites, php-fpm, an application with WebSocket, limits, passwords, certificates that
//! are renewed and logs that are rotated. How long nobody listened is printed; with
//! `NEARSIDE_GAP_MS` in the environment it has a bound, for machines that are quiet.

use crate::NGINX;
use crate::answer::Connection;
use crate::debian::keep_apart;
use crate::programs::{self, Programs};
use interop::{Nearside, Program, Running, in_namespace, output, scratch, wait_for};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PLACE: &str = "/etc/nginx";

/// The form of Debian's file.
const CONF: &str = "\
user www-data;
worker_processes auto;
pid /run/nginx.pid;
error_log /var/log/nginx/error.log;
events { worker_connections 768; }
http {
    sendfile on;
    tcp_nopush on;
    types_hash_max_size 2048;
    server_tokens off;
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    ssl_protocols TLSv1.2 TLSv1.3;
    access_log /var/log/nginx/access.log;
    gzip on;
    include /etc/nginx/conf.d/*.conf;
    include /etc/nginx/sites-enabled/*;
}
";

const LIMITS: &str = "limit_req_zone $binary_remote_addr zone=few:1m rate=1r/m;\n\
    map $http_upgrade $connection_upgrade { default upgrade; '' close; }\n";

const FILES: &str = "\
server {
    listen 80 default_server;
    server_name one.example;
    root {folder}/www;
    index index.html;
    error_page 404 /missing.html;
    location / { try_files $uri $uri/ =404; }
    location /app/ {
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root/app.php;
        fastcgi_pass 127.0.0.1:{port};
    }
    location /staff/ { auth_basic staff; auth_basic_user_file {folder}/passwords; }
    location /few/ { limit_req zone=few; try_files /index.html =404; }
}
";

const PASSED: &str = "\
upstream app { server 127.0.0.1:3000; keepalive 4; }
server {
    listen 80;
    listen 443 ssl;
    server_name two.example;
    ssl_certificate {folder}/live/fullchain.pem;
    ssl_certificate_key {folder}/live/privkey.pem;
    location / {
        proxy_pass http://app;
        proxy_http_version 1.1;
        proxy_set_header Host $host;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
    }
}
";

/// What is asked: the host, the path, and fields.
const ASKED: &[(&str, &str, &str)] = &[
    ("one.example", "/", ""),
    ("one.example", "/", "Accept-Encoding: gzip\r\n"),
    ("one.example", "/missing", ""),
    ("one.example", "/app/length", ""),
    ("one.example", "/staff/", ""),
    ("one.example", "/staff/", "Authorization: Basic YW5uYTprZXk=\r\n"),
    ("one.example", "/staff/", "Authorization: Basic YW5uYTpubw==\r\n"),
    ("one.example", "/few/", ""),
    ("one.example", "/few/", ""),
    ("one.example", "/few/", ""),
    ("two.example", "/any", ""),
];

/// The host: its files, and the programs behind its server.
struct Host {
    folder: PathBuf,
    _programs: Programs,
}

impl Host {
    fn set_up() -> Self {
        let folder = scratch("nginx-moving");
        let _ = fs::remove_dir_all(&folder);
        for below in ["www/staff", "live", "etc/conf.d", "etc/sites-enabled"] {
            fs::create_dir_all(folder.join(below)).unwrap();
        }
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("www/index.html", &"<p>one\n".repeat(40));
        write("www/missing.html", "<p>not here\n");
        write("www/staff/index.html", "<p>staff\n");
        write("www/app.php", "<?php header('Content-Type: text/plain'); echo 'hello';");
        write("passwords", "anna:{PLAIN}key\n");
        let (programs, port) = programs_behind();
        for (name, text) in [
            ("nginx.conf", CONF),
            ("conf.d/limits.conf", LIMITS),
            ("sites-enabled/one", FILES),
            ("sites-enabled/two", PASSED),
        ] {
            let text = text.replace("{folder}", folder.to_str().unwrap()).replace("{port}", &port.to_string());
            write(&format!("etc/{name}"), &text);
        }
        for name in ["mime.types", "fastcgi_params"] {
            fs::copy(Path::new(PLACE).join(name), folder.join("etc").join(name)).unwrap();
        }
        run(Command::new("mount").args(["--bind", folder.join("etc").to_str().unwrap(), PLACE]));
        let host = Self { folder, _programs: programs };
        host.renew("first");
        host
    }

    /// What certbot does: another certificate in the same place.
    fn renew(&self, name: &str) {
        let live = self.folder.join("live");
        let mut made = Command::new("openssl");
        made.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9"]);
        made.args(["-subj", &format!("/CN={name}"), "-keyout"]).arg(live.join("privkey.pem"));
        run(made.arg("-out").arg(live.join("fullchain.pem")).stderr(Stdio::null()));
    }

    /// All files of the configuration, with their contents.
    fn configuration() -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut open = vec![PathBuf::from(PLACE)];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { open.push(path) } else { found.push((path.clone(), fs::read(path).unwrap())) }
            }
        }
        found.sort();
        found
    }
}

/// php-fpm, or a small program in its place; and the port.
fn programs_behind() -> (Programs, u16) {
    if fs::read_dir("/usr/sbin")
        .unwrap()
        .flatten()
        .any(|file| file.file_name().to_string_lossy().starts_with("php-fpm"))
    {
        return (programs::php_pools("moving", &["0.0.0.0:9004"]), 9004);
    }
    println!("php-fpm is not installed: a program of the test's own is in its place");
    programs::serve();
    (Programs::default(), 9001)
}

/// The application: a WebSocket whose bytes come back, or one page.
fn application() {
    let listener = TcpListener::bind("127.0.0.1:3000").unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0; 1];
                while !head.ends_with(b"\r\n\r\n") {
                    if stream.read(&mut byte).unwrap_or(0) == 0 {
                        return;
                    }
                    head.push(byte[0]);
                }
                let upgrades = String::from_utf8_lossy(&head).to_ascii_lowercase().contains("upgrade: websocket");
                if !upgrades {
                    let page = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nConnection: close\r\n\r\napp\n";
                    let _ = stream.write_all(page);
                    return;
                }
                let _ = stream.write_all(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
                );
                let mut bytes = [0; 512];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// What clients see of whoever serves at this port.
fn seen(port: u16) -> Vec<String> {
    let mut seen = Vec::new();
    for (host, path, fields) in ASKED {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
        let answer = Connection::open(&format!("127.0.0.1:{port}")).ask(request.as_bytes(), b"GET");
        let told = ["content-type", "content-encoding", "www-authenticate", "location"].map(|name| answer.field(name));
        // Pages that are made for errors end with the server's name.
        let body = String::from_utf8_lossy(&answer.plain_body()).replace("<center>nearside</", "<center>nginx</");
        seen.push(format!("{host}{path} {fields:?}: {:?} {told:?} {body}", answer.status()));
    }
    let mut tunnel = TcpStream::connect(("127.0.0.1", port)).unwrap();
    tunnel
        .write_all(b"GET /socket HTTP/1.1\r\nHost: two.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        tunnel.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    tunnel.write_all(b"there and back").unwrap();
    let mut back = [0; 14];
    tunnel.read_exact(&mut back).unwrap();
    let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
    seen.push(format!("a WebSocket: {line} {}", String::from_utf8_lossy(&back)));
    seen
}

/// The name in the certificate that is shown.
fn certificate() -> String {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", "127.0.0.1:443", "-servername", "two.example"]);
    let told = client.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    told.lines().find_map(|line| line.strip_prefix("subject=")).unwrap_or_default().replace(' ', "")
}

/// Log lines without what is another's each time: of access logs the time, and the bytes,
/// which count how a body is coded and framed; of error logs all that is before the text.
fn lines(name: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new("/var/log/nginx").join(name)).unwrap_or_default();
    let access = |line: &str| {
        let ((who, _), (_, what)) = (line.split_once(" [")?, line.split_once("] \"")?);
        let (request, rest) = what.split_once("\" ")?;
        let (status, rest) = rest.split_once(' ')?;
        let (_, rest) = rest.split_once(' ')?;
        Some(format!("{who} {request} {status} {rest}"))
    };
    let error = |line: &str| Some(line.split_once(": *")?.1.split_once(' ')?.1.to_owned());
    let one = |line: &str| if name.starts_with("access") { access(line) } else { error(line) };
    let mut lines: Vec<String> = text.lines().filter_map(one).collect();
    lines.sort();
    lines
}

/// What logrotate does by Debian's rules for nginx (/etc/logrotate.d/nginx, and the
/// `rotate` of /etc/init.d/nginx).
fn rotate() {
    for name in ["access.log", "error.log"] {
        fs::rename(format!("/var/log/nginx/{name}"), format!("/var/log/nginx/{name}.1")).unwrap();
    }
    let mut told = Command::new("start-stop-daemon");
    run(told.args(["--stop", "--signal", "USR1", "--quiet", "--pidfile", "/run/nginx.pid", "--name", "nginx"]));
    wait_for("new logs", || {
        ["access.log", "error.log"].iter().all(|name| Path::new("/var/log/nginx").join(name).exists())
    });
}

/// Asks all the time whether somebody listens.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "what is measured is how long other programs take")]
    fn begin() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let address: SocketAddr = "127.0.0.1:80".parse().expect("an address");
            let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
            while !ends.load(Ordering::Relaxed) {
                if TcpStream::connect(address).is_ok() {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
                thread::sleep(Duration::from_micros(200));
            }
            longest
        });
        Self { stop, thread }
    }

    /// How long nobody listened.
    fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only connects")
    }
}

fn nginx() -> Running {
    let mut server = Running::start(Command::new("/usr/sbin/nginx").args(["-g", "daemon off;"]));
    server.wait_until_open("127.0.0.1:80");
    wait_for("the pid file", || Path::new("/run/nginx.pid").exists());
    server
}

/// Runs a command that is to succeed.
fn run(command: &mut Command) {
    let _ = output(command);
}

/// What `systemctl start nearside-nginx` starts.
fn ours() -> Running {
    run(&mut Nearside::command(["nginx", "-t", "-q", "-c", "/etc/nginx/nginx.conf"]));
    let mut server =
        Running::start(&mut Nearside::command(["nginx", "-c", "/etc/nginx/nginx.conf", "-g", "daemon off;"]));
    server.wait_until_open("127.0.0.1:80");
    wait_for("the pid file", || Path::new("/run/nginx.pid").exists());
    server
}

fn quit(mut server: Running) {
    server.signal(Signal::QUIT);
    let mut well = None;
    wait_for("its end", || {
        well = server.ended_well();
        well.is_some()
    });
    assert_eq!(well, Some(true), "{}", server.said());
}

#[test]
fn a_host_moves_from_nginx_and_back_without_an_edit() {
    let needed = [NGINX, Program::new("openssl", "openssl"), Program::new("start-stop-daemon", "dpkg")];
    if !Path::new(PLACE).join("fastcgi_params").is_file() {
        println!("left out: {PLACE} has no fastcgi_params; run: apt-get install nginx-common");
        return;
    }
    in_namespace(&needed, || {
        keep_apart(None);
        let host = Host::set_up();
        application();
        let written = Host::configuration();

        let server = nginx();
        let (theirs, certified) = (seen(80), certificate());
        assert!(theirs.iter().filter(|line| line.contains("Some(200)")).count() >= 6, "{theirs:#?}");
        assert!(theirs.iter().filter(|line| line.contains("Some(503)")).count() == 2, "{theirs:#?}");
        let logs = [lines("access.log"), lines("error.log")];
        assert!(logs[1].iter().any(|line| line.starts_with("user \"anna\": password mismatch, client: 1")), "{logs:?}");

        // Side by side, on other ports.
        run(Command::new("cp").args(["-r", PLACE, "/run/side"]));
        fs::create_dir("/run/side/log").unwrap();
        let edit = "s#/etc/nginx#/run/side#; s#/run/nginx.pid#/run/side/pid#; s#/var/log/nginx#/run/side/log#; \
                    s/listen 80/listen 8080/; s/listen 443/listen 8443/";
        run(Command::new("sh").args(["-c", &format!("find /run/side -type f -exec sed -i '{edit}' {{}} +")]));
        let conf = ["nginx", "-c", "/run/side/nginx.conf", "-g", "daemon off;"];
        let mut beside = Running::start(&mut Nearside::command(conf));
        beside.wait_until_open("127.0.0.1:8080");
        assert_eq!(seen(8080), theirs);
        quit(beside);

        rotate();
        let watch = Watch::begin();
        quit(server);
        let server = ours();
        let there = watch.end();
        assert_eq!(seen(80), theirs);
        assert_eq!(certificate(), certified);
        wait_for("the lines of logs", || lines("access.log").len() >= logs[0].len());
        assert_eq!([lines("access.log"), lines("error.log")].map(without_connects), logs.map(without_connects));

        // Renewed, by a hook that knows of nginx alone; and rotated.
        host.renew("second");
        run(Command::new("/usr/sbin/nginx").args(["-s", "reload"]).stderr(Stdio::null()));
        wait_for("the second certificate", || certificate().contains("second"));
        rotate();
        assert_eq!(lines("access.log").len(), 0);
        let _ = seen(80);
        wait_for("lines in the new file", || lines("access.log").len() >= ASKED.len());

        let watch = Watch::begin();
        quit(server);
        let server = nginx();
        let back = watch.end();
        assert_eq!(seen(80), theirs);
        quit(server);
        assert_eq!(Host::configuration(), written, "no file was edited");
        println!("nobody listened for {there:.1?} on the way there, and for {back:.1?} on the way back");
        let bound = std::env::var("NEARSIDE_GAP_MS").ok().and_then(|text| text.parse().ok()).map(Duration::from_millis);
        assert!(bound.is_none_or(|bound| there.max(back) <= bound), "{there:?} {back:?}: more than {bound:?}");
    });
}

/// Without those of connections on which nothing was asked.
fn without_connects(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().filter(|line| !line.contains("while waiting for request")).collect()
}
