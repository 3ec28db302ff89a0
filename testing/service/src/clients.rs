//! Clients that check every byte of every answer, on threads of their own.
//! Whatever goes wrong is a failed request: there is no second try.

use crate::server::{FILES, Server, content};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Longest wait for any byte.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Failures that are kept for the user.
const KEPT: usize = 8;

/// What a client does, again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Habit {
    /// Asks by the Unix socket.
    pub unix: bool,
    /// Asks for the file that goes out by sendfile.
    pub large: bool,
    /// Has its connections closed after each response.
    pub close: bool,
    /// Waits so long between two requests on one connection.
    pub pause: Duration,
}

/// One client of each kind that differs in what a restart means for it: with
/// a request always on its way, with a silent connection, with a new one each
/// time, in the middle of a file.
#[must_use]
pub fn habits() -> Vec<Habit> {
    let mut all = Vec::new();
    for close in [false, true] {
        for large in [false, true] {
            for unix in [false, true] {
                let pause = Duration::from_millis(if large { 3 } else { 1 });
                all.push(Habit { unix, large, close, pause });
            }
        }
    }
    let slow = |millis| Habit { unix: false, large: false, close: false, pause: Duration::from_millis(millis) };
    all.extend([slow(0), slow(20), slow(90), slow(250)]);
    all
}

/// What all clients counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests answered right, to the last byte.
    pub answered: AtomicU64,
    /// Requests that were not.
    pub failed: AtomicU64,
    /// Connections opened.
    pub connections: AtomicU64,
    why: Mutex<Vec<String>>,
}

impl Counts {
    /// The first failures.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, habit: Habit, why: &io::Error, on_connection: u64) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(format!("{why} (request {on_connection} of its connection; {habit:?})"));
        }
    }
}

/// Clients that run until they are dropped, or [`Clients::finish`].
#[derive(Debug)]
pub struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// What they counted.
    pub counts: Arc<Counts>,
}

impl Clients {
    /// Starts a client for each habit.
    ///
    /// # Panics
    /// If the operating system gives no thread.
    #[must_use]
    pub fn start(server: &Server, habits: &[Habit]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(Counts::default());
        let threads = habits.iter().map(|&habit| {
            let (name, size) = FILES[usize::from(habit.large)];
            let client = Client {
                habit,
                port: server.port,
                unix: server.unix(),
                name,
                content: content(size),
                counts: Arc::clone(&counts),
                stop: Arc::clone(&stop),
            };
            thread::spawn(move || client.run())
        });
        let threads = threads.collect();
        Self { stop, threads, counts }
    }

    /// Has each finish the request that it is at.
    ///
    /// # Panics
    /// If one panicked.
    pub fn finish(mut self) -> Arc<Counts> {
        self.end().expect("clients do not panic");
        Arc::clone(&self.counts)
    }

    fn end(&mut self) -> thread::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).try_for_each(JoinHandle::join)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        // A panic was reported there.
        let _ = self.end();
    }
}

struct Client {
    habit: Habit,
    port: u16,
    unix: PathBuf,
    name: &'static str,
    content: Vec<u8>,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
}

/// A connection, of either kind.
trait Stream: Read + Write {}

impl Stream for TcpStream {}

impl Stream for UnixStream {}

impl Client {
    fn run(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let mut on_connection = 0;
            if let Err(why) = self.connection(&mut on_connection) {
                self.counts.fail(self.habit, &why, on_connection);
            }
        }
    }

    /// Asks on one connection until the server says that it closes it.
    fn connection(&self, on_connection: &mut u64) -> io::Result<()> {
        let mut stream = self.connect()?;
        self.counts.connections.fetch_add(1, Ordering::Relaxed);
        let close = if self.habit.close { "Connection: close\r\n" } else { "" };
        let request = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n{close}\r\n", self.name);
        let mut buffer = Vec::with_capacity(self.content.len() + 1_024);
        loop {
            *on_connection += 1;
            stream.write_all(request.as_bytes())?;
            let goes_on = self.response(&mut *stream, &mut buffer)?;
            self.counts.answered.fetch_add(1, Ordering::Relaxed);
            if !goes_on {
                // RFC 9112 §9.6: nothing follows but the end.
                let more = stream.read(&mut [0; 1])?;
                return if more == 0 { Ok(()) } else { Err(wrong("bytes after the last response")) };
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(self.habit.pause);
        }
    }

    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        if self.habit.unix {
            let stream = UnixStream::connect(&self.unix)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            return Ok(Box::new(stream));
        }
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }

    /// Reads one response and compares it. Whether the connection goes on.
    fn response(&self, stream: &mut dyn Stream, buffer: &mut Vec<u8>) -> io::Result<bool> {
        buffer.clear();
        let mut piece = [0; 16_384];
        let mut head = None;
        loop {
            if head.is_none() {
                head = buffer.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
            }
            if let Some(head) = head
                && buffer.len() >= head + self.content.len()
            {
                return self.compare(&buffer[..head], &buffer[head..]);
            }
            match stream.read(&mut piece)? {
                0 => {
                    let why = format!("the connection ended after {} bytes of a response", buffer.len());
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
                }
                read => buffer.extend_from_slice(&piece[..read]),
            }
        }
    }

    fn compare(&self, head: &[u8], body: &[u8]) -> io::Result<bool> {
        let head = std::str::from_utf8(head).map_err(|_| wrong("a head that is no text"))?;
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(wrong(head.lines().next().unwrap_or_default()));
        }
        if !head.contains(&format!("\r\nContent-Length: {}\r\n", self.content.len())) || body != self.content {
            return Err(wrong("another body"));
        }
        Ok(!head.contains("\r\nConnection: close\r\n"))
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
