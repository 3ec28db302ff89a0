//! Programs that requests are passed on to by FastCGI, SCGI and uwsgi: php-fpm, uWSGI, and
//! small ones of the test's own. What these answer is said by the last part of the path;
//! some of it is what programs do that are broken.

use crate::twins::folder_of;
use interop::{Program, scratch};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// How a program is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    FastCgi,
    Scgi,
    Uwsgi,
}

/// Where php-fpm listens.
const PHP: &str = "0.0.0.0:9004";

/// Programs that are others' work, which end with the value.
#[derive(Default)]
pub(crate) struct Programs(Vec<Child>);

impl Programs {
    /// Those of a site: small ones of the test's own, php-fpm, or uWSGI. They listen
    /// when this returns.
    pub(crate) fn of_site(name: &str) -> Self {
        match name {
            "proxied-programs" => {
                serve();
                Self::default()
            }
            "wordpress" | "nextcloud" => Self(vec![php_fpm(name)]),
            "django" => Self(vec![uwsgi_server(name)]),
            _ => Self::default(),
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Their workers end with them by this signal.
            let pid = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = child.wait();
        }
    }
}

/// What a site needs beside nginx.
pub(crate) fn needed(name: &str) -> Vec<Program> {
    match name {
        "wordpress" | "nextcloud" => vec![Program::new(php_name(), "php-fpm")],
        "django" => vec![Program::new("uwsgi", "uwsgi-core uwsgi-plugin-python3")],
        _ => Vec::new(),
    }
}

/// php-fpm's name has its version.
fn php_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let files = fs::read_dir("/usr/sbin").into_iter().flatten().flatten();
        let mut names = files.filter_map(|file| file.file_name().into_string().ok());
        names.find(|name| name.starts_with("php-fpm")).unwrap_or_else(|| "php-fpm".to_owned())
    })
}

fn php_fpm(site: &str) -> Child {
    // By TCP, or by a path of the test's own.
    let socket = match site {
        "nextcloud" => scratch("nginx").join("nextcloud.sock").to_string_lossy().into_owned(),
        _ => PHP.to_owned(),
    };
    php_at(site, &[&socket])
}

/// php-fpm at these sockets, which anybody may connect to.
pub(crate) fn php_pools(name: &str, sockets: &[&str]) -> Programs {
    Programs(vec![php_at(name, sockets)])
}

fn php_at(name: &str, sockets: &[&str]) -> Child {
    let path = scratch("nginx").join(format!("{name}-fpm.conf"));
    let mut text = "[global]\ndaemonize = no\nerror_log = /dev/null\n".to_owned();
    for (number, socket) in sockets.iter().enumerate() {
        text += &format!(
            "[pool{number}]\nuser = root\ngroup = root\nlisten = {socket}\nlisten.mode = 0666\npm = static\n\
             pm.max_children = 12\n"
        );
    }
    fs::write(&path, text).expect("a folder for what is scratch");
    let mut command = Command::new(php_name());
    // Without a php.ini, as root, in the foreground; what scripts say of errors is told.
    command.args(["-n", "-R", "-F", "-d", "log_errors=1", "-y"]).arg(&path);
    began(&mut command, sockets)
}

fn uwsgi_server(site: &str) -> Child {
    let app = folder_of(site).join("wsgi.py");
    let sockets = ["0.0.0.0:9005", "0.0.0.0:9006", "0.0.0.0:9007"];
    let mut command = Command::new("uwsgi");
    command.args(["--plugin", "python3", "--master", "--die-on-term", "--workers", "1", "--disable-logging"]);
    command.args(["--uwsgi-socket", sockets[0], "--scgi-socket", sockets[1], "--fastcgi-socket", sockets[2]]);
    command.arg("--wsgi-file").arg(app).env("PYTHONDONTWRITEBYTECODE", "1");
    began(&mut command, &sockets)
}

/// Starts a program, and waits until it takes connections.
fn began(command: &mut Command, sockets: &[&str]) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let takes = |socket: &str| match socket.strip_prefix("0.0.0.0") {
        Some(port) => TcpStream::connect(format!("127.0.0.1{port}")).is_ok(),
        None => UnixStream::connect(socket).is_ok(),
    };
    while !sockets.iter().all(|socket| takes(socket)) {
        let ended = child.try_wait().expect("a child of this process");
        assert!(ended.is_none(), "{command:?} ended: {ended:?}");
        thread::sleep(Duration::from_millis(20));
    }
    child
}

/// Serves with one small program for each protocol; they end with the process.
pub(crate) fn serve() {
    for (port, protocol) in [(9001, Protocol::FastCgi), (9002, Protocol::Scgi), (9003, Protocol::Uwsgi)] {
        let listener = TcpListener::bind(("0.0.0.0", port)).expect("a port of the test's own");
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // Answers of several pieces wait for nobody's acknowledgement.
                let _ = stream.set_nodelay(true);
                thread::spawn(move || match protocol {
                    Protocol::FastCgi => while fastcgi(&mut stream) == Some(true) {},
                    Protocol::Scgi => end(scgi(&mut stream), &mut stream),
                    Protocol::Uwsgi => end(uwsgi(&mut stream), &mut stream),
                });
            }
        });
    }
}

/// Ends a connection that was answered on. What was sent beyond is read: unread it would make
/// the end a reset, which overtakes the answer with some.
fn end(_: Option<()>, stream: &mut TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    while stream.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {}
}

/// Exactly so many bytes; none if there are no more.
fn exactly(stream: &mut TcpStream, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).ok().map(|()| bytes)
}

/// Names and values, as lines.
fn lines(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    pairs.iter().flat_map(|(name, value)| [name.as_slice(), b"=", value, b"\n"].concat()).collect()
}

fn param(pairs: &[(Vec<u8>, Vec<u8>)], wanted: &str) -> String {
    let found = pairs.iter().find(|(name, _)| name == wanted.as_bytes());
    found.map_or_else(String::new, |(_, value)| String::from_utf8_lossy(value).into_owned())
}

/// Answers with fields that a site may say otherwise.
pub(crate) fn against(name: &str) -> Option<Vec<u8>> {
    const ALL: &str = "Date: Tue, 15 Nov 1994 08:12:31 GMT\r\nServer: program\r\nContent-Type: text/plain\r\n\
        Expires: Wed, 16 Nov 1994 08:12:31 GMT\r\nCache-Control: max-age=60\r\nAccept-Ranges: bytes\r\n\
        ETag: \"up\"\r\nLast-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\nX-One: 1\r\nVary: Origin\r\n";
    const PACKED: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x01\x05\0\xfa\xffhello\x86\xa6\x10\x36\x05\0\0\0";
    let text = |head: &str, body: &[u8]| Some([head.as_bytes(), b"\r\n", body].concat());
    match name {
        "said-all" => text(&format!("{ALL}Content-Length: 11\r\n"), b"hello world"),
        "said-open" => text(ALL, b"hello world"),
        // Nobody has it whole with its head.
        "said-long" => text(&format!("{ALL}Content-Length: 100000\r\n"), &b"hello".repeat(20_000)),
        "said-twice" => text(
            &format!("{ALL}Date: Wed, 16 Nov 1994 08:12:31 GMT\r\nServer: again\r\nContent-Length: 11\r\n"),
            b"hello world",
        ),
        "said-bare" => text("Content-Type: text/plain\r\nContent-Length: 11\r\n", b"hello world"),
        "said-coded" => text(&format!("{ALL}Content-Encoding: gzip\r\nContent-Length: {}\r\n", PACKED.len()), PACKED),
        "said-part" => text(
            &format!("Status: 206 Partial Content\r\n{ALL}Content-Range: bytes 0-4/11\r\nContent-Length: 5\r\n"),
            b"hello",
        ),
        "said-401" => text(
            &format!("Status: 401 Unauthorized\r\n{ALL}WWW-Authenticate: Basic realm=\"up\"\r\nContent-Length: 2\r\n"),
            b"no",
        ),
        "said-301" | "said-302" => text(
            &format!("Status: {} Moved\r\n{ALL}Location: http://up.example/there\r\nContent-Length: 2\r\n", &name[5..]),
            b"no",
        ),
        "said-404" => text(&format!("Status: 404 Not Found\r\n{ALL}Content-Length: 2\r\n"), b"no"),
        "said-204" => text(&format!("Status: 204 No Content\r\n{ALL}"), b""),
        "said-304" => text(&format!("Status: 304 Not Modified\r\n{ALL}"), b""),
        _ => None,
    }
}

/// What a program answers, for the name at the end of the path.
fn answer(name: &str, told: &[u8], body: &[u8]) -> Vec<u8> {
    let text = b"Content-Type: text/plain\r\n\r\n".as_slice();
    if let Some(said) = against(name) {
        return said;
    }
    match name {
        "bare" => b"\n".to_vec(),
        "unix" => b"Content-type: text/html\nX-One: 1\n\n<p>lines\n".to_vec(),
        "status" => b"Status: 404 Gone astray\r\nContent-Type: text/plain\r\n\r\nno\n".to_vec(),
        "code" => b"Status: 503\r\nContent-Type: text/plain\r\n\r\nno\n".to_vec(),
        "location" => b"Location: /elsewhere/\r\n\r\n".to_vec(),
        "moved" => b"Status: 301 Moved\r\nLocation: http://elsewhere.example/\r\n\r\n".to_vec(),
        "length" => b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello".to_vec(),
        "too-much" => b"Content-Type: text/plain\r\nContent-Length: 4\r\n\r\nfour and more".to_vec(),
        "fields" => b"Content-Type: text/html; charset=utf-8\r\nX-One: 1\r\nX-Powered-By: us\r\nSet-Cookie: a=b\r\n\
            Set-Cookie: c=d\r\nCache-Control: no-cache\r\nX-Accel-Expires: 5\r\n\r\n<p>"
            .to_vec(),
        "inside" => b"X-Accel-Redirect: /kept/page.html\r\n\r\nno".to_vec(),
        "no-head" => Vec::new(),
        "half-head" => b"Content-Type: text".to_vec(),
        "garbage" => b"what is this\r\n\r\n".to_vec(),
        "bad-status" => b"Status: abc\r\n\r\n".to_vec(),
        "huge-head" => [b"X-A: ".as_slice(), &[b'a'; 20_000], b"\r\n\r\n"].concat(),
        "big" => [text, &[b'x'; 300_000]].concat(),
        _ => [text, told, b"\n", body].concat(),
    }
}

fn name_of(pairs: &[(Vec<u8>, Vec<u8>)]) -> String {
    let uri = param(pairs, "REQUEST_URI");
    let path = uri.split('?').next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// One request; whether another may follow.
fn fastcgi(stream: &mut TcpStream) -> Option<bool> {
    let (mut stream_of_params, mut body, mut keeps) = (Vec::new(), Vec::new(), false);
    loop {
        let head = exactly(stream, 8)?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let content = exactly(stream, length)?;
        exactly(stream, usize::from(head[6]))?;
        match (head[1], length) {
            (1, _) => keeps = content[2] & 1 == 1,
            (4, _) => stream_of_params.extend(content),
            (5, 0) => break,
            (5, _) => body.extend(content),
            _ => return None,
        }
    }
    let mut pairs = Vec::new();
    let mut rest = stream_of_params.as_slice();
    while !rest.is_empty() {
        let mut length = || {
            let long = rest[0] & 0x80 != 0;
            let bytes =
                if long { u32::from_be_bytes([rest[0] & 0x7f, rest[1], rest[2], rest[3]]) } else { rest[0].into() };
            rest = &rest[if long { 4 } else { 1 }..];
            bytes as usize
        };
        let (name, value) = (length(), length());
        pairs.push((rest[..name].to_vec(), rest[name..name + value].to_vec()));
        rest = &rest[name + value..];
    }
    let name = name_of(&pairs);
    let answer = answer(&name, &lines(&pairs), &body);
    let mut record = |kind: u8, content: &[u8], padding: u8| {
        let [high, low] = (content.len() as u16).to_be_bytes();
        let head = [1, kind, 0, 1, high, low, padding, 0];
        stream.write_all(&[&head[..], content, &vec![0; usize::from(padding)]].concat()).is_ok()
    };
    let piece = if name == "small" { 3 } else { 30_000 };
    if name == "errors" {
        record(7, b"PHP message: oh no\n", 5);
    }
    if name == "records" {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
        return Some(false);
    }
    for (number, piece) in answer.chunks(piece).enumerate() {
        if !record(6, piece, (number % 8) as u8) {
            return None;
        }
        if name == "errors" {
            record(7, b"and again", 0);
        }
    }
    if name == "cut" {
        return Some(false);
    }
    record(6, b"", 0);
    record(3, &[0; 8], 0).then_some(keeps)
}

fn scgi(stream: &mut TcpStream) -> Option<()> {
    let mut length = Vec::new();
    loop {
        match exactly(stream, 1)?[0] {
            b':' => break,
            digit => length.push(digit),
        }
    }
    let length: usize = String::from_utf8(length).ok()?.parse().ok()?;
    let text = exactly(stream, length)?;
    exactly(stream, 1)?;
    let mut parts = text.split(|byte| *byte == 0);
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        pairs.push((name.to_vec(), value.to_vec()));
    }
    let body = exactly(stream, param(&pairs, "CONTENT_LENGTH").parse().unwrap_or(0))?;
    stream.write_all(&answer(&name_of(&pairs), &lines(&pairs), &body)).ok()
}

fn uwsgi(stream: &mut TcpStream) -> Option<()> {
    let head = exactly(stream, 4)?;
    let text = exactly(stream, usize::from(u16::from_le_bytes([head[1], head[2]])))?;
    let mut pairs = vec![(b"modifiers".to_vec(), format!("{} {}", head[0], head[3]).into_bytes())];
    let mut rest = text.as_slice();
    while !rest.is_empty() {
        let mut next = || {
            let length = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
            let value = rest[2..2 + length].to_vec();
            rest = &rest[2 + length..];
            value
        };
        let pair = (next(), next());
        pairs.push(pair);
    }
    let body = exactly(stream, param(&pairs, "CONTENT_LENGTH").parse().unwrap_or(0))?;
    let name = name_of(&pairs);
    if name == "line" {
        return stream.write_all(b"HTTP/1.1 202 Taken\r\nContent-Type: text/plain\r\n\r\nline\n").ok();
    }
    stream.write_all(&answer(&name, &lines(&pairs), &body)).ok()
}
