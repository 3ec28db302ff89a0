//! The workers' connections: a thread that takes them in, and one for each that opens what comes. What is read is
//! decided on elsewhere, by one thread alone.

use channel::{Channel, Keys};
use control::ChannelId;
use core::time::Duration;
use cpu::Clock;
use load::Plan;
use merge::WorkerMessage;
use messages::{FromWorker, HELLO_LIMIT, LINE_LIMIT, Lines, Token};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Weak};
use std::thread;
use wire::Time;

/// A worker that takes nothing for so long is given up by its connection.
const WRITE_PATIENCE: Duration = Duration::from_secs(2);

/// Connections beside two of each worker. Of more, the one that has been silent for longest makes room.
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
    /// Its secret, of which those of workers come.
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
    let mut open: VecDeque<Open> = VecDeque::new();
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
            open.retain(|one| one.way.strong_count() > 0);
            if open.len() >= limit {
                // A stranger that says nothing keeps no worker out, which says at once who it is.
                let Some(silent) = open.iter().position(|one| !one.is_known.load(Ordering::Relaxed)) else { continue };
                if let Some(way) = open.remove(silent).and_then(|one| one.way.upgrade()) {
                    way.shutdown();
                }
            }
            let mut reader = match Reader::new(ChannelId(number), stream, &known, &events) {
                Ok(reader) => reader,
                Err(Gone::Stream) => continue,
                Err(Gone::Everybody) => return,
            };
            let here = Open { way: Arc::downgrade(&reader.way), is_known: Arc::clone(&reader.is_known) };
            // Without a thread the connection is closed unheard.
            if thread::Builder::new().name("near-worker".into()).spawn(move || reader.read()).is_ok() {
                open.push_back(here);
            }
        }
    })?;
    Ok(address)
}

/// A connection, as whoever takes them in knows it.
struct Open {
    way: Weak<Channel>,
    /// Whether its worker said its token.
    is_known: Arc<AtomicBool>,
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
    /// Which worker it says that it is, with that one's token.
    worker: Option<u32>,
    is_known: Arc<AtomicBool>,
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
        Ok(Self { channel, way, known, events, lines, worker: None, is_known: Arc::default() })
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
                            // Long lines are for those who know a worker's token.
                            if let FromWorker::Hello(hello) = &message
                                && hello.token == self.known.token.of_worker(hello.worker)
                            {
                                self.worker = Some(hello.worker);
                                self.is_known.store(true, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use load::Request;
    use messages::Hello;
    use std::net::Ipv4Addr;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn strangers_that_say_nothing_keep_no_worker_out() {
        let (token, listener) = (Token::new(7), TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"));
        let keys = Keys::of(&token).expect("keys");
        let plan = Plan::new((Ipv4Addr::LOCALHOST, 80).into(), Request::get("a", "/"));
        let known = Known { token: token.clone(), keys: keys.clone(), plans: vec![plan] };
        let (sender, events) = sync_channel(256);
        let address = listen(listener, Arc::new(known), sender).expect("it listens");
        let strangers = STRANGERS_LIMIT + 10;
        let idle: Vec<TcpStream> = (0..strangers).map(|_| TcpStream::connect(address).expect("it is taken")).collect();
        let way = Channel::connect(TcpStream::connect(address).expect("it is taken"), &keys).expect("it is heard");
        let hello = Hello { token: token.of_worker(0), worker: 0, instance: 1, version: messages::version() };
        way.write(&FromWorker::Hello::<(), ()>(hello).line()).expect("it is taken");
        let (mut came, mut closed) = (0, 0);
        loop {
            match events.recv().expect("it listens") {
                Event::Connected(..) => came += 1,
                Event::Closed(channel) => {
                    assert!(channel.0 < strangers as u64, "the oldest of them");
                    closed += 1;
                }
                Event::Message(channel, message, _) => {
                    assert!(channel.0 == strangers as u64 && matches!(*message, FromWorker::Hello(_)));
                    break;
                }
                Event::Nonsense(_, why) => panic!("{why}"),
            }
        }
        assert!(came == strangers + 1 && closed <= strangers + 1 - STRANGERS_LIMIT, "{came} {closed}");
        drop(idle);
    }
}
