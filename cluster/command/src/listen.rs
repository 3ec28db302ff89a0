//! The workers' connections: a thread that takes them in, and one for each that opens what comes. What is read is
//! decided on elsewhere, by one thread alone.

use channel::{Channel, Keys};
use control::ChannelId;
use core::time::Duration;
use cpu::Clock;
use load::Plan;
use merge::WorkerMessage;
use messages::{FromWorker, HELLO_LIMIT, LINE_LIMIT, Lines, Token};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;
use wire::Time;

/// A worker that takes nothing for so long is given up by its connection.
const WRITE_PATIENCE: Duration = Duration::from_secs(2);

/// Connections beside two of each worker.
const STRANGERS_LIMIT: usize = 64;

/// What happened at a connection.
pub enum Event {
    /// It is there; this is to write to it.
    Connected(ChannelId, Arc<Channel>),
    /// A message came.
    Message(ChannelId, Box<WorkerMessage>, Time),
    /// What came is none.
    Nonsense(ChannelId, String),
    /// It is closed.
    Closed(ChannelId),
}

/// What readers know of the test.
pub struct Known {
    /// Its secret.
    pub token: Token,
    /// What comes of it.
    pub keys: Keys,
    /// The part of each worker.
    pub plans: Vec<Plan>,
}

/// Takes connections at a listener in, until the process ends or nobody takes the events.
///
/// # Errors
/// If there is no address, or no thread.
pub fn listen(listener: TcpListener, known: Arc<Known>, events: SyncSender<Event>) -> std::io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    let open = Arc::new(AtomicUsize::new(0));
    let limit = 2 * known.plans.len() + STRANGERS_LIMIT;
    thread::Builder::new().name("near-listen".into()).spawn(move || {
        for number in 0.. {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                // Without a descriptor there is one again when another connection ends.
                Err(_) => {
                    thread::sleep(Duration::from_millis(20));
                    continue;
                }
            };
            if open.load(Ordering::Relaxed) >= limit {
                // One of too many: closed unheard.
                continue;
            }
            let mut reader = match Reader::new(ChannelId(number), stream, &known, &events) {
                Ok(reader) => reader,
                Err(Gone::Stream) => continue,
                Err(Gone::Everybody) => return,
            };
            open.fetch_add(1, Ordering::Relaxed);
            let over = Arc::clone(&open);
            let read = move || {
                reader.read();
                over.fetch_sub(1, Ordering::Relaxed);
            };
            if thread::Builder::new().name("near-worker".into()).spawn(read).is_err() {
                open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    })?;
    Ok(address)
}

/// Who is gone.
enum Gone {
    Stream,
    Everybody,
}

struct Reader {
    channel: ChannelId,
    way: Arc<Channel>,
    known: Arc<Known>,
    events: SyncSender<Event>,
    lines: Lines,
    /// Which worker it says that it is, with the token.
    worker: Option<u32>,
}

impl Reader {
    fn new(
        channel: ChannelId,
        stream: TcpStream,
        known: &Arc<Known>,
        events: &SyncSender<Event>,
    ) -> Result<Self, Gone> {
        let _ = stream.set_nodelay(true);
        stream.set_write_timeout(Some(WRITE_PATIENCE)).map_err(|_| Gone::Stream)?;
        let way = Arc::new(Channel::accept(stream, &known.keys).map_err(|_| Gone::Stream)?);
        events.send(Event::Connected(channel, Arc::clone(&way))).map_err(|_| Gone::Everybody)?;
        let (known, events, lines) = (Arc::clone(known), events.clone(), Lines::new(HELLO_LIMIT));
        Ok(Self { channel, way, known, events, lines, worker: None })
    }

    fn read(&mut self) {
        let (mut bytes, mut opened) = (vec![0; 1 << 16], Vec::new());
        while let Ok(read @ 1..) = self.way.receive(&mut bytes) {
            let received = Clock.now();
            opened.clear();
            // What is not sealed as it is to be is a stranger's, on the way or at its end: a worker comes again.
            if self.way.open(bytes.get(..read).unwrap_or_default(), &mut opened).is_err() {
                break;
            }
            self.lines.push(&opened);
            if !self.take_lines(received) {
                break;
            }
        }
        self.way.shutdown();
        let _ = self.events.send(Event::Closed(self.channel));
    }

    /// Answers whether there may be more.
    fn take_lines(&mut self, received: Time) -> bool {
        loop {
            let channel = self.channel;
            let event = match self.lines.next() {
                Ok(None) => return true,
                Ok(Some(line)) => {
                    let plan = self.worker.and_then(|worker| self.known.plans.get(worker as usize));
                    match merge::read(line, plan) {
                        Ok(message) => {
                            // Long lines are for those who know the token.
                            if let FromWorker::Hello(hello) = &message
                                && hello.token == self.known.token
                            {
                                self.worker = Some(hello.worker);
                            }
                            Event::Message(channel, Box::new(message), received)
                        }
                        Err(why) => Event::Nonsense(channel, why.0),
                    }
                }
                Err(why) => Event::Nonsense(channel, why.to_string()),
            };
            if self.worker.is_some() {
                self.lines.limit(LINE_LIMIT);
            }
            let ends = matches!(event, Event::Nonsense(..));
            if self.events.send(event).is_err() || ends {
                return false;
            }
        }
    }
}
