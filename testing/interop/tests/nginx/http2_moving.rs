//! Connections of HTTP/2 while configurations and processes follow each other: they stay over a reload, and what is
//! asked for on them then is answered by the new configuration; at a take-over the old process answers what it has
//! begun, and says which stream was the last.

use interop::{Nearside, Running, in_namespace, scratch, wait_for};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ADDRESS: &str = "127.0.0.1:80";

/// Bytes of what takes long.
const LONG: usize = 600_000;

/// A client that reads frames when it is asked to.
struct Client {
    stream: TcpStream,
    read: Vec<u8>,
    /// What came on each stream, and whether that has ended.
    came: BTreeMap<u32, (Vec<u8>, bool)>,
    /// The last streams that were told.
    lasts: Vec<u32>,
    closed: bool,
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

impl Client {
    fn open() -> Self {
        let mut stream = TcpStream::connect(ADDRESS).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let settings = [&[0, 4][..], &(1_u32 << 24).to_be_bytes()].concat();
        let window = frame(8, 0, 0, &(1_u32 << 24).to_be_bytes());
        stream
            .write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &settings), &window].concat())
            .unwrap();
        Self { stream, read: Vec::new(), came: BTreeMap::new(), lasts: Vec::new(), closed: false }
    }

    fn ask(&mut self, stream: u32, path: &str) {
        // GET, http, :authority and :path as they are.
        let block = [b"\x82\x86\x01\x01a\x04", &[path.len() as u8][..], path.as_bytes()].concat();
        self.stream.write_all(&frame(1, 5, stream, &block)).unwrap();
        self.came.insert(stream, (Vec::new(), false));
    }

    /// What has come meanwhile.
    fn look(&mut self) {
        let mut some = [0; 1 << 16];
        match self.stream.read(&mut some) {
            Ok(0) => self.closed = true,
            Ok(read) => self.read.extend_from_slice(&some[..read]),
            Err(_) => {}
        }
        while let Some(&[a, b, c, kind, flags, d, e, f, g]) = self.read.first_chunk() {
            let (length, stream) = (u32::from_be_bytes([0, a, b, c]) as usize, u32::from_be_bytes([d, e, f, g]));
            if self.read.len() < 9 + length {
                break;
            }
            let payload: Vec<u8> = self.read.drain(..9 + length).skip(9).collect();
            let came = self.came.get_mut(&stream);
            match (kind, came) {
                (0, Some((bytes, ended))) => {
                    bytes.extend_from_slice(&payload);
                    *ended |= flags & 1 != 0;
                }
                (4, _) if flags & 1 == 0 => self.stream.write_all(&frame(4, 1, 0, &[])).unwrap(),
                (6, _) if flags & 1 == 0 => self.stream.write_all(&frame(6, 1, 0, &payload)).unwrap(),
                (7, _) => self.lasts.push(u32::from_be_bytes(*payload.first_chunk().unwrap())),
                (3, _) => panic!("stream {stream} was reset"),
                _ => {}
            }
        }
    }

    fn answer(&mut self, stream: u32) -> Vec<u8> {
        wait_for("an answer", || {
            self.look();
            self.came[&stream].1
        });
        self.came[&stream].0.clone()
    }
}

/// Puts the configuration with this word in place.
fn configure(folder: &Path, word: &str) {
    let text = format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log info;\n\
         events {{}}\n\
         http {{ access_log off; root {folder};\n\
         server {{ listen {ADDRESS}; http2 on;\n\
           location = /word {{ return 200 {word}; }}\n\
           location /long {{ limit_rate 200k; }} }} }}\n",
        folder = folder.display()
    );
    fs::write(folder.join("nginx.conf"), text).unwrap();
}

fn start(folder: &Path) -> Running {
    let mut command = Nearside::command(["nginx"]);
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf")).args(["-e", "stderr"]);
    let mut running = Running::start(&mut command);
    running.wait_until_open(ADDRESS);
    running
}

fn folder(name: &str) -> PathBuf {
    let folder = scratch("nginx-http2-moving").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("logs")).unwrap();
    fs::write(folder.join("long"), vec![b'l'; LONG]).unwrap();
    folder
}

/// Whether who connects now is answered with this word.
fn says(word: &str) -> bool {
    let mut client = Client::open();
    client.ask(1, "/word");
    client.answer(1) == word.as_bytes()
}

#[test]
fn over_a_reload_connections_stay_and_new_streams_have_the_new_configuration() {
    in_namespace(&[], || {
        let folder = folder("reload");
        configure(&folder, "one");
        let server = start(&folder);
        let mut client = Client::open();
        client.ask(1, "/word");
        assert_eq!(client.answer(1), b"one");
        client.ask(3, "/long");
        wait_for("some of it", || {
            client.look();
            !client.came[&3].0.is_empty()
        });
        configure(&folder, "two");
        server.signal(Signal::HUP);
        wait_for("the new configuration", || says("two"));
        client.ask(5, "/word");
        assert_eq!(client.answer(5), b"two");
        assert!(!client.came[&3].1, "it takes long");
        assert_eq!(client.answer(3), vec![b'l'; LONG]);
        client.ask(7, "/word");
        assert_eq!(client.answer(7), b"two");
        assert!(client.lasts.is_empty() && !client.closed);
        server.stop();
    });
}

#[test]
fn at_a_take_over_the_old_process_answers_what_it_has_begun() {
    in_namespace(&[], || {
        let folder = folder("take-over");
        configure(&folder, "one");
        let server = start(&folder);
        let pid = || fs::read_to_string(folder.join("nginx.pid")).unwrap_or_default();
        let first = pid();
        let mut client = Client::open();
        client.ask(1, "/long");
        wait_for("some of it", || {
            client.look();
            !client.came[&1].0.is_empty()
        });
        configure(&folder, "two");
        server.signal(Signal::USR2);
        wait_for("the successor", || {
            client.look();
            pid() != first && !pid().is_empty() && says("two")
        });
        // The old process says that it ends, and then which stream was the last; what it began it ends.
        assert_eq!(client.answer(1), vec![b'l'; LONG]);
        wait_for("its end", || {
            client.look();
            client.closed
        });
        assert_eq!(client.lasts, [(1 << 31) - 1, 1]);
        server.stop();
    });
}
