//! Where pods of an audit say what their nodes came to: a thread that takes connections in, and one for each.

use channel::{Channel, Keys};
use core::time::Duration;
use messages::{FromWorker, HELLO_LIMIT, Lines, ToWorker, Token};
use reconcile::Meeting;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

/// The longest audit of a node, in bytes: with what changed it is an object of less than a mebibyte.
pub const AUDIT_LIMIT: usize = 640 << 10;

/// The same as a message: within quotes a letter may take two.
const LINE_LIMIT: usize = 2 * AUDIT_LIMIT + (1 << 12);

/// A pod that takes nothing for so long is given up.
const WRITE_PATIENCE: Duration = Duration::from_secs(2);

/// A stranger who says nothing for so long is closed.
const STRANGER_PATIENCE: Duration = Duration::from_secs(10);

/// The same of a pod, whose answer is being kept.
const POD_PATIENCE: Duration = Duration::from_secs(60);

/// Connections at one time: of more, the one that has been a stranger for longest makes room.
const CONNECTIONS_LIMIT: usize = 1_100;

/// How often it is looked whether anybody connects, or nobody is listened for any more.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a node's pod says of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeWords {
    /// Which node.
    pub node: String,
    /// Its audit, as `nearside node audit --json` has it; or why there is none.
    pub said: Result<String, String>,
}

/// A message of a pod.
pub type Said = FromWorker<NodeWords, ()>;

/// What a pod of the audit of this number said.
pub struct Heard {
    pub audit: String,
    pub words: NodeWords,
}

/// Pods of one audit are listened for, until this is dropped.
pub struct Listening {
    pub meeting: Meeting,
    over: Arc<AtomicBool>,
    /// Who waits to hear that its node's answer is kept.
    waiting: Waiting,
}

type Waiting = Arc<Mutex<BTreeMap<String, Arc<Channel>>>>;

impl Listening {
    /// Listens for pods of the audit of this number, who know this.
    ///
    /// # Errors
    /// If there are no keys, or no thread.
    pub fn start(listener: TcpListener, audit: &str, meeting: Meeting, heard: SyncSender<Heard>) -> io::Result<Self> {
        let keys = Keys::of(&meeting.token)?;
        listener.set_nonblocking(true)?;
        let (over, waiting) = (Arc::new(AtomicBool::new(false)), Waiting::default());
        let known =
            Known { audit: audit.to_owned(), token: meeting.token.clone(), keys, heard, waiting: Arc::clone(&waiting) };
        let ends = Arc::clone(&over);
        thread::Builder::new().name("near-listen".into()).spawn(move || accept(&listener, &Arc::new(known), &ends))?;
        Ok(Self { meeting, over, waiting })
    }

    /// A node's answer is kept.
    pub fn kept(&self, node: &str) {
        if let Some(way) = locked(&self.waiting).remove(node) {
            // Whoever is gone says it again, and hears it then.
            let _ = way.write(&ToWorker::Kept.line());
            way.shutdown();
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        locked(&self.waiting).values().for_each(|way| way.shutdown());
    }
}

fn locked(waiting: &Waiting) -> MutexGuard<'_, BTreeMap<String, Arc<Channel>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What readers know of the audit.
struct Known {
    audit: String,
    token: Token,
    keys: Keys,
    heard: SyncSender<Heard>,
    waiting: Waiting,
}

/// A connection, as whoever takes them in knows it.
struct Open {
    way: Weak<Channel>,
    is_known: Arc<AtomicBool>,
}

fn accept(listener: &TcpListener, known: &Arc<Known>, over: &AtomicBool) {
    let mut open: VecDeque<Open> = VecDeque::new();
    while !over.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            // Nobody is there; or there is no descriptor, until another connection ends.
            thread::sleep(LOOK_EVERY);
            continue;
        };
        open.retain(|one| one.way.strong_count() > 0);
        if open.len() >= CONNECTIONS_LIMIT {
            let Some(silent) = open.iter().position(|one| !one.is_known.load(Ordering::Relaxed)) else { continue };
            if let Some(way) = open.remove(silent).and_then(|one| one.way.upgrade()) {
                way.shutdown();
            }
        }
        let is_known = Arc::new(AtomicBool::new(false));
        let Ok((way, again)) = taken(stream, &known.keys) else { continue };
        let here = Open { way: Arc::downgrade(&way), is_known: Arc::clone(&is_known) };
        let known = Arc::clone(known);
        let read = move || {
            // What is no pod's, and what breaks, is closed: a pod comes again.
            let _ = hear(&way, &again, &known, &is_known);
            way.shutdown();
            locked(&known.waiting).retain(|_, waits| !Arc::ptr_eq(waits, &way));
        };
        // Without a thread the connection is closed unheard.
        if thread::Builder::new().name("near-node".into()).spawn(read).is_ok() {
            open.push_back(here);
        }
    }
}

fn taken(stream: TcpStream, keys: &Keys) -> io::Result<(Arc<Channel>, TcpStream)> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_PATIENCE))?;
    stream.set_read_timeout(Some(STRANGER_PATIENCE))?;
    let again = stream.try_clone()?;
    Ok((Arc::new(Channel::accept(stream, keys)?), again))
}

/// Hears a pod to its end.
fn hear(way: &Arc<Channel>, again: &TcpStream, known: &Known, is_known: &AtomicBool) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let (mut lines, mut bytes, mut opened) = (Lines::new(HELLO_LIMIT), vec![0; 1 << 16], Vec::new());
    loop {
        let received = way.receive(&mut bytes)?;
        if received == 0 {
            return Ok(());
        }
        opened.clear();
        way.open(bytes.get(..received).unwrap_or_default(), &mut opened)?;
        lines.push(&opened);
        while let Some(line) = lines.next().map_err(|_| invalid())? {
            match Said::read(line).map_err(|_| invalid())? {
                FromWorker::Hello(hello) if hello.token == known.token => {
                    is_known.store(true, Ordering::Relaxed);
                    again.set_read_timeout(Some(POD_PATIENCE))?;
                }
                FromWorker::Measured(words) if is_known.load(Ordering::Relaxed) => {
                    locked(&known.waiting).insert(words.node.clone(), Arc::clone(way));
                    let heard = Heard { audit: known.audit.clone(), words };
                    known.heard.send(heard).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
                }
                _ => return Err(invalid()),
            }
            if is_known.load(Ordering::Relaxed) {
                // Long lines are for those who know the token.
                lines.limit(LINE_LIMIT);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use messages::Hello;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::mpsc::{Receiver, sync_channel};

    fn listening(token: u128) -> (Listening, SocketAddr, Keys, Receiver<Heard>) {
        let token = Token::new(token);
        let keys = Keys::of(&token).expect("keys");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let (heard, taken) = sync_channel(8);
        let meeting = Meeting { token, controller: address.to_string() };
        (Listening::start(listener, "u-1", meeting, heard).expect("it listens"), address, keys, taken)
    }

    fn hello(token: u128) -> Vec<u8> {
        let hello = Hello { token: Token::new(token), worker: 0, instance: 0, version: messages::version() };
        let hello: Said = FromWorker::Hello(hello);
        hello.line()
    }

    fn words(said: Result<String, String>) -> Vec<u8> {
        let words: Said = FromWorker::Measured(NodeWords { node: "n-1".to_owned(), said });
        words.line()
    }

    fn connect(address: SocketAddr, keys: &Keys) -> Channel {
        Channel::connect(TcpStream::connect(address).expect("it is taken"), keys).expect("it knows the token")
    }

    /// Until the other side closes; whether it said anything.
    fn is_closed_unheard(way: &Channel) -> bool {
        let mut bytes = [0; 256];
        matches!(way.receive(&mut bytes), Ok(0) | Err(_))
    }

    #[test]
    fn what_a_pod_says_is_heard_and_it_hears_when_that_is_kept() {
        let (listening, address, keys, taken) = listening(7);
        let way = connect(address, &keys);
        way.write(&hello(7)).expect("it is taken");
        way.write(&words(Ok("{}".repeat(100_000)))).expect("it is taken");
        let Heard { audit, words } = taken.recv().expect("it is heard");
        assert_eq!((audit.as_str(), words.node.as_str()), ("u-1", "n-1"));
        assert_eq!(words.said.expect("an audit").len(), 200_000);
        listening.kept("n-2");
        listening.kept("n-1");
        let (mut bytes, mut opened) = ([0; 256], Vec::new());
        let received = way.receive(&mut bytes).expect("it answers");
        way.open(&bytes[..received], &mut opened).expect("it is the other side");
        assert_eq!(ToWorker::read(&opened), Ok(ToWorker::Kept));
    }

    #[test]
    fn strangers_nonsense_and_what_is_too_long_are_closed_and_change_nothing() {
        let (_listening, address, keys, taken) = listening(7);
        // Without the token there is no connection; and a token is said before anything else.
        let stranger = Keys::of(&Token::new(8)).expect("keys");
        assert!(Channel::connect(TcpStream::connect(address).expect("it is taken"), &stranger).is_err());
        for lines in [
            vec![words(Ok("{}".to_owned()))],
            vec![hello(8)],
            vec![hello(7), b"nonsense\n".to_vec()],
            vec![hello(7), words(Ok("x".repeat(3 * AUDIT_LIMIT)))],
        ] {
            let way = connect(address, &keys);
            // It may be closed before all of it is taken.
            lines.iter().for_each(|line| drop(way.write(line)));
            assert!(is_closed_unheard(&way), "{:?}", lines.first().map(Vec::len));
        }
        assert!(taken.try_recv().is_err(), "nothing was heard");
        // And a pod is heard as before.
        let way = connect(address, &keys);
        way.write(&hello(7)).expect("it is taken");
        way.write(&words(Err("there is no /host/proc".to_owned()))).expect("it is taken");
        assert!(taken.recv().expect("it is heard").words.said.is_err());
    }
}
