//! A server of HTTP/2 that does as little as a server can: it decodes no fields, and answers each
//! request with the same frames, by the number of its stream. So whoever asks it is what is
//! measured: a generator, or a proxy before it.
//!
//! Calls of gRPC may say how long their answer is to be: by a message of four bytes, its length.
//! Such answers keep to the windows that the client opens.

use crate::BenchError;
use cpu::Clock;
use h2::frame::{self, ACK, END_HEADERS, END_STREAM, FrameHead, HEAD, Kind, MAX_STREAM, PAYLOAD, PREFACE, setting};
use hpack::{HeaderField, put_static, put_status};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use wire::Time;

/// How it answers.
#[derive(Clone, Debug, clap::Args)]
pub struct FrameServerArgs {
    /// Where it listens
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// It answers calls of gRPC
    #[arg(long)]
    grpc: bool,
    /// Streams that it allows on a connection
    #[arg(long, default_value_t = 1_000)]
    streams: u32,
    /// Milliseconds before each answer
    #[arg(long, default_value_t = 0)]
    hold: u64,
    /// Where it tells its address, and what it has seen
    #[arg(long)]
    tells: PathBuf,
}

/// Content of an answer to a request that is no call.
const TEXT: &[u8] = b"Hello, World!";

/// The message of a call's answer, where the call says nothing.
const MESSAGE: &[u8] = b"\0\0\0\0\x0dHello, World!";

/// How often it tells.
const TELL: Duration = Duration::from_millis(50);

/// Bytes read at a time.
const READ: usize = 64 << 10;

/// What a server has seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) address: String,
    /// Connections open at once, at most.
    pub(crate) connections: u64,
    /// Requests.
    pub(crate) requests: u64,
    /// Requests under way at once on one connection, at most.
    pub(crate) streams: u64,
    /// Answers that wait for a window.
    pub(crate) held_up: u64,
}

impl Seen {
    /// What a server told last.
    pub(crate) fn read(tells: &Path) -> Result<Self, BenchError> {
        let text = fs::read_to_string(tells)?;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [address, connections, requests, streams, held_up] = words[..] else {
            return Err(format!("the server of frames tells {text:?}").into());
        };
        Ok(Self {
            address: address.to_owned(),
            connections: connections.parse()?,
            requests: requests.parse()?,
            streams: streams.parse()?,
            held_up: held_up.parse()?,
        })
    }

    fn write(&self, tells: &Path) -> Result<(), BenchError> {
        let Self { address, connections, requests, streams, held_up } = self;
        let new = tells.with_extension("new");
        fs::write(&new, format!("{address} {connections} {requests} {streams} {held_up}\n"))?;
        Ok(fs::rename(new, tells)?)
    }
}

/// What connections count, each in a thread.
#[derive(Debug, Default)]
struct Counts {
    open: AtomicU64,
    most_open: AtomicU64,
    requests: AtomicU64,
    most_streams: AtomicU64,
    held_up: AtomicU64,
}

/// Serves until it is killed.
///
/// # Errors
/// If it cannot listen or tell.
pub fn run(args: &FrameServerArgs) -> Result<(), BenchError> {
    let listener = TcpListener::bind(args.listen)?;
    let address = listener.local_addr()?.to_string();
    let (counts, frames) = (Arc::new(Counts::default()), Arc::new(Frames::new(args.grpc)));
    let told = Arc::clone(&counts);
    let (args, tells) = (args.clone(), args.tells.clone());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let talk = Talk::new(&args, Arc::clone(&frames), Arc::clone(&counts));
            thread::spawn(move || {
                let open = talk.counts.open.fetch_add(1, Ordering::Relaxed) + 1;
                talk.counts.most_open.fetch_max(open, Ordering::Relaxed);
                let counts = Arc::clone(&talk.counts);
                // A connection that breaks ends by itself.
                let _ = talk.serve(stream);
                counts.open.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    loop {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let seen = Seen {
            address: address.clone(),
            connections: of(&told.most_open),
            requests: of(&told.requests),
            streams: of(&told.most_streams),
            held_up: of(&told.held_up),
        };
        seen.write(&tells)?;
        thread::sleep(TELL);
    }
}

/// The frames of answers, as they are on stream 0.
#[derive(Debug)]
struct Frames {
    head: Vec<u8>,
    content: &'static [u8],
    /// The end of an answer: none where that is with its last content.
    trailers: Vec<u8>,
    /// All of the usual answer, and where the numbers of streams stand in it.
    whole: Vec<u8>,
    streams: Vec<usize>,
}

impl Frames {
    fn new(grpc: bool) -> Self {
        let (mut block, mut head, mut trailers) = (Vec::new(), Vec::new(), Vec::new());
        put_status(200, &mut block);
        let kind: &[u8] = if grpc { b"application/grpc" } else { b"text/plain" };
        put_static(HeaderField::new(b"content-type", kind), &mut block);
        frame::write(&mut head, Kind::Headers, END_HEADERS, 0, &block);
        if grpc {
            block.clear();
            put_static(HeaderField::new(b"grpc-status", b"0"), &mut block);
            frame::write(&mut trailers, Kind::Headers, END_HEADERS | END_STREAM, 0, &block);
        }
        let content = if grpc { MESSAGE } else { TEXT };
        let mut whole = head.clone();
        let ends = if trailers.is_empty() { END_STREAM } else { 0 };
        frame::write(&mut whole, Kind::Data, ends, 0, content);
        whole.extend_from_slice(&trailers);
        let mut streams = Vec::new();
        let mut at = 0;
        while let Some(head) = whole.get(at..).and_then(FrameHead::read) {
            streams.push(at + HEAD - 4);
            at += HEAD + head.length as usize;
        }
        Self { head, content, trailers, whole, streams }
    }

    /// Frames that are one, on its stream.
    fn put(frame: &[u8], stream: u32, out: &mut Vec<u8>) {
        let at = out.len() + HEAD - 4;
        out.extend_from_slice(frame);
        if let Some(place) = out.get_mut(at..at + 4) {
            place.copy_from_slice(&stream.to_be_bytes());
        }
    }

    fn put_whole(&self, stream: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.whole);
        for at in &self.streams {
            out[start + at..start + at + 4].copy_from_slice(&stream.to_be_bytes());
        }
    }
}

/// An answer under way.
#[derive(Debug)]
struct Long {
    left: u64,
    window: i64,
    /// The prefix of its message is still to be sent.
    prefix: Option<[u8; 5]>,
}

/// One connection.
#[derive(Debug)]
struct Talk {
    frames: Arc<Frames>,
    counts: Arc<Counts>,
    streams: u32,
    hold: Duration,
    out: Vec<u8>,
    /// What may be sent, and on a new stream.
    window: i64,
    first_window: i64,
    /// Bytes that came since the client's window was opened.
    came: u32,
    /// The first bytes of requests' content.
    asked: BTreeMap<u32, Vec<u8>>,
    /// Requests to be answered, and when.
    due: VecDeque<(Time, u32, u32)>,
    long: BTreeMap<u32, Long>,
}

impl Talk {
    fn new(args: &FrameServerArgs, frames: Arc<Frames>, counts: Arc<Counts>) -> Self {
        Self {
            frames,
            counts,
            streams: args.streams,
            hold: Duration::from_millis(args.hold),
            out: Vec::new(),
            window: 65_535,
            first_window: 65_535,
            came: 0,
            asked: BTreeMap::new(),
            due: VecDeque::new(),
            long: BTreeMap::new(),
        }
    }

    fn serve(mut self, mut stream: TcpStream) -> Result<(), BenchError> {
        stream.set_nodelay(true)?;
        frame::write_settings(
            &mut self.out,
            &[(setting::MAX_CONCURRENT_STREAMS, self.streams), (setting::INITIAL_WINDOW_SIZE, MAX_STREAM)],
        );
        frame::write_window_update(&mut self.out, 0, MAX_STREAM - 65_535);
        let (mut bytes, mut used, mut begun) = (vec![0; 2 * READ], 0, false);
        loop {
            if !self.out.is_empty() {
                stream.write_all(&self.out)?;
                self.out.clear();
            }
            self.wait(&stream)?;
            let room = bytes.get_mut(used..).unwrap_or_default();
            match stream.read(room) {
                Ok(0) => return Ok(()),
                Ok(length) => used += length,
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(why) => return Err(why.into()),
            }
            let mut taken = 0;
            if !begun {
                if used < PREFACE.len() {
                    continue;
                }
                (begun, taken) = (true, PREFACE.len());
            }
            while let Some(head) = FrameHead::read(&bytes[taken..used]) {
                let end = taken + HEAD + head.length as usize;
                if head.length as usize > PAYLOAD {
                    return Err("a frame is too long".into());
                }
                if end > used {
                    break;
                }
                self.on_frame(head, &bytes[taken + HEAD..end]);
                taken = end;
            }
            bytes.copy_within(taken..used, 0);
            used -= taken;
            self.answer_due();
        }
    }

    /// Waits for bytes no longer than until an answer is due.
    fn wait(&self, stream: &TcpStream) -> Result<(), BenchError> {
        if !self.hold.is_zero() {
            let left = self.due.front().map(|(due, ..)| due.since(Clock.now()));
            stream.set_read_timeout(left.map(|left| left.max(Duration::from_micros(1))))?;
        }
        Ok(())
    }

    fn on_frame(&mut self, head: FrameHead, payload: &[u8]) {
        let word = || payload.get(..4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        match head.kind {
            Kind::Headers if head.has(END_STREAM) => self.on_request(head.stream, 0),
            Kind::Headers => drop(self.asked.insert(head.stream, Vec::new())),
            Kind::Data => self.on_data(head, payload),
            Kind::Settings if !head.has(ACK) => {
                for (name, value) in frame::settings(payload) {
                    if name == setting::INITIAL_WINDOW_SIZE {
                        let change = i64::from(value) - self.first_window;
                        self.first_window = value.into();
                        self.long.values_mut().for_each(|long| long.window += change);
                    }
                }
                frame::write(&mut self.out, Kind::Settings, ACK, 0, &[]);
                self.send_long();
            }
            Kind::WindowUpdate => {
                match (head.stream, self.long.get_mut(&head.stream)) {
                    (0, _) => self.window += i64::from(word()),
                    (_, Some(long)) => long.window += i64::from(word()),
                    _ => {}
                }
                self.send_long();
            }
            Kind::Ping if !head.has(ACK) => frame::write(&mut self.out, Kind::Ping, ACK, 0, payload),
            Kind::Reset => {
                self.asked.remove(&head.stream);
                self.due.retain(|(_, stream, _)| *stream != head.stream);
                let held_up = u64::from(self.long.remove(&head.stream).is_some());
                self.counts.held_up.fetch_sub(held_up, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn on_data(&mut self, head: FrameHead, payload: &[u8]) {
        self.came += head.length;
        if self.came > MAX_STREAM / 2 {
            frame::write_window_update(&mut self.out, 0, core::mem::take(&mut self.came));
        }
        let Some(asked) = self.asked.get_mut(&head.stream) else { return };
        // A prefix of five bytes, and a length of four.
        let room = 9usize.saturating_sub(asked.len());
        asked.extend_from_slice(payload.get(..room).unwrap_or(payload));
        if !head.has(END_STREAM) {
            return;
        }
        let asked = self.asked.remove(&head.stream).unwrap_or_default();
        let length = match asked[..] {
            [0, 0, 0, 0, 4, a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
            _ => 0,
        };
        self.on_request(head.stream, length);
    }

    /// A request is whole, whose answer is to have so many bytes, or as many as usual.
    fn on_request(&mut self, stream: u32, length: u32) {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        if self.hold.is_zero() {
            return self.answer(stream, length);
        }
        self.due.push_back((Clock.now() + self.hold, stream, length));
        self.counts.most_streams.fetch_max(self.due.len() as u64, Ordering::Relaxed);
    }

    fn answer_due(&mut self) {
        if self.due.is_empty() {
            return;
        }
        let now = Clock.now();
        while let Some((_, stream, length)) = self.due.pop_front_if(|(due, ..)| *due <= now) {
            self.answer(stream, length);
        }
    }

    fn answer(&mut self, stream: u32, length: u32) {
        let usual = self.frames.content.len() as i64;
        if length == 0 && self.window >= usual && self.first_window >= usual {
            self.window -= usual;
            return self.frames.put_whole(stream, &mut self.out);
        }
        Frames::put(&self.frames.head, stream, &mut self.out);
        let length = if length == 0 { TEXT.len() as u32 } else { length };
        let [a, b, c, d] = length.to_be_bytes();
        let prefix = (!self.frames.trailers.is_empty()).then_some([0, a, b, c, d]);
        let left = u64::from(length) + prefix.map_or(0, |prefix| prefix.len() as u64);
        self.long.insert(stream, Long { left, window: self.first_window, prefix });
        self.counts.held_up.fetch_add(1, Ordering::Relaxed);
        self.send_long();
    }

    /// Sends of long answers what windows are open for.
    fn send_long(&mut self) {
        let Self { frames, out, window, long, counts, .. } = self;
        long.retain(|stream, long| {
            while long.left > 0 {
                let most = long.window.min(*window).min(PAYLOAD as i64).min(i64::try_from(long.left).unwrap_or(0));
                // A prefix is never cut.
                if most <= 0 || long.prefix.is_some() && most < 5 {
                    return true;
                }
                let mut content = vec![b'x'; most as usize];
                if let Some(prefix) = long.prefix.take() {
                    content[..prefix.len()].copy_from_slice(&prefix);
                }
                long.left -= most as u64;
                long.window -= most;
                *window -= most;
                let ends = if long.left == 0 && frames.trailers.is_empty() { END_STREAM } else { 0 };
                frame::write(out, Kind::Data, ends, *stream, &content);
            }
            if !frames.trailers.is_empty() {
                Frames::put(&frames.trailers, *stream, out);
            }
            counts.held_up.fetch_sub(1, Ordering::Relaxed);
            false
        });
    }
}

/// A client that makes calls of long answers on one connection, and takes nothing of them.
pub(crate) fn stall(to: SocketAddr, authority: &str, calls: u32, length: u32) -> Result<TcpStream, BenchError> {
    let mut stream = TcpStream::connect(to)?;
    let mut out = PREFACE.to_vec();
    frame::write_settings(&mut out, &[]);
    let mut block = Vec::new();
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/bench.Frames/Long"),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ];
    for (name, value) in fields {
        put_static(HeaderField::new(name.as_bytes(), value.as_bytes()), &mut block);
    }
    let [a, b, c, d] = length.to_be_bytes();
    for call in 0..calls {
        let number = 2 * call + 1;
        frame::write(&mut out, Kind::Headers, END_HEADERS, number, &block);
        frame::write(&mut out, Kind::Data, END_STREAM, number, &[0, 0, 0, 0, 4, a, b, c, d]);
    }
    stream.write_all(&out)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk(grpc: bool) -> Talk {
        let args =
            FrameServerArgs { listen: ([127, 0, 0, 1], 0).into(), grpc, streams: 10, hold: 0, tells: PathBuf::new() };
        Talk::new(&args, Arc::new(Frames::new(grpc)), Arc::default())
    }

    /// The frames that are to be sent: kind, stream, length, and whether they end it.
    fn sent(talk: &mut Talk) -> Vec<(Kind, u32, u32, bool)> {
        let out = core::mem::take(&mut talk.out);
        let (mut at, mut frames) = (0, Vec::new());
        while let Some(head) = FrameHead::read(&out[at..]) {
            let ends = head.has(END_STREAM) && matches!(head.kind, Kind::Data | Kind::Headers);
            frames.push((head.kind, head.stream, head.length, ends));
            at += HEAD + head.length as usize;
        }
        assert_eq!(at, out.len());
        frames
    }

    fn take(talk: &mut Talk, kind: Kind, flags: u8, stream: u32, payload: &[u8]) {
        talk.on_frame(FrameHead { length: payload.len() as u32, kind, flags, stream }, payload);
    }

    #[test]
    fn a_request_is_answered_on_its_stream() {
        let mut plain = talk(false);
        take(&mut plain, Kind::Headers, END_HEADERS | END_STREAM, 7, &[0x82]);
        let frames = sent(&mut plain);
        assert_eq!(frames[1..], [(Kind::Data, 7, 13, true)]);
        assert_eq!((frames[0].0, frames[0].1, frames[0].3), (Kind::Headers, 7, false));
        let mut calls = talk(true);
        take(&mut calls, Kind::Headers, END_HEADERS, 9, &[0x83]);
        assert_eq!(sent(&mut calls), []);
        take(&mut calls, Kind::Data, END_STREAM, 9, &[0; 5]);
        let kinds: Vec<_> = sent(&mut calls).iter().map(|frame| (frame.0, frame.1, frame.3)).collect();
        assert_eq!(kinds, [(Kind::Headers, 9, false), (Kind::Data, 9, false), (Kind::Headers, 9, true)]);
    }

    #[test]
    fn long_answers_keep_to_both_windows() {
        let mut talk = talk(true);
        take(&mut talk, Kind::Headers, END_HEADERS, 1, &[0x83]);
        // 100,000 bytes, in two pieces.
        take(&mut talk, Kind::Data, 0, 1, &[0, 0, 0, 0, 4, 0]);
        take(&mut talk, Kind::Data, END_STREAM, 1, &[1, 0x86, 0xa0]);
        let content = |talk: &mut Talk| -> u32 {
            sent(talk).iter().filter(|frame| frame.0 == Kind::Data).map(|frame| frame.2).sum()
        };
        assert_eq!(content(&mut talk), 65_535);
        take(&mut talk, Kind::WindowUpdate, 0, 1, &100_000u32.to_be_bytes());
        assert_eq!(content(&mut talk), 0);
        assert_eq!(talk.counts.held_up.load(Ordering::Relaxed), 1);
        // A call beside it has no window either; both have when the connection's opens.
        take(&mut talk, Kind::Headers, END_HEADERS | END_STREAM, 3, &[0x83]);
        take(&mut talk, Kind::WindowUpdate, 0, 0, &100_000u32.to_be_bytes());
        let frames = sent(&mut talk);
        let all: u32 = frames.iter().filter(|frame| frame.0 == Kind::Data).map(|frame| frame.2).sum();
        assert_eq!(all, 100_005 - 65_535 + 18);
        assert_eq!(frames.iter().filter(|frame| frame.3).map(|frame| frame.1).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(talk.counts.held_up.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_told_is_read() {
        let tells = std::env::temp_dir().join(format!("frame-server-{}", std::process::id()));
        let seen = Seen { address: "127.0.0.1:80".to_owned(), connections: 2, requests: 3, streams: 4, held_up: 5 };
        seen.write(&tells).expect("it is written");
        assert_eq!(Seen::read(&tells).expect("it is read"), seen);
        fs::write(&tells, "127.0.0.1:80 2 3\n").expect("it is written");
        assert!(Seen::read(&tells).is_err());
        fs::remove_file(tells).expect("it is there");
    }
}
