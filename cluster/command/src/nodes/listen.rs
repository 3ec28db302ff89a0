//! Where pods of an audit say what their nodes came to: a thread that takes connections in, and one for each.

use channel::{Channel, Keys};
use core::time::Duration;
use messages::{BadMessage, HELLO_LIMIT, Lines, ToWorker, Token};
use reconcile::Meeting;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
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

/// Reports without their node's token that are told of: who sends more of them is known by then.
const REFUSED_LIMIT: u32 = 100;

/// What a node's pod says of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeWords {
    /// Which node, by its token.
    pub node: String,
    /// Its audit, as `nearside node audit --json` has it; or why there is none.
    pub said: Result<String, String>,
}

/// Which node a pod is of.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeHello {
    /// The node's name.
    pub node: String,
    /// Its own token ([`Token::derived`]).
    pub token: Token,
    /// [`messages::version`].
    pub version: String,
}

/// A message of a pod.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromNode {
    /// Who it is: its first word.
    Hello(NodeHello),
    /// What its node came to.
    Said(Result<String, String>),
}

impl FromNode {
    /// Reads a line of a pod.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(line: &[u8]) -> Result<Self, BadMessage> {
        serde_json::from_slice(line).map_err(|why| BadMessage(format!("no message: {:?}", why.classify())))
    }

    /// The message as a line, its end included.
    pub fn line(&self) -> Vec<u8> {
        let mut line = match serde_json::to_vec(self) {
            Ok(line) => line,
            Err(_) => unreachable!("texts alone"),
        };
        line.push(b'\n');
        line
    }
}

/// What was heard where pods of the audit of this number are listened for.
pub struct Heard {
    pub audit: String,
    pub what: HeardWhat,
}

/// What was heard.
pub enum HeardWhat {
    /// A node's pod said this.
    Words(NodeWords),
    /// Somebody said to be of this node, with a token that is not that node's.
    Refused { node: String, token: String },
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
        let known = Known {
            audit: audit.to_owned(),
            token: meeting.token.clone(),
            keys,
            heard,
            waiting: Arc::clone(&waiting),
            refused: AtomicU32::new(0),
        };
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
    /// Who was not who he said: so many.
    refused: AtomicU32,
}

impl Known {
    fn tell(&self, what: HeardWhat) -> io::Result<()> {
        let heard = Heard { audit: self.audit.clone(), what };
        self.heard.send(heard).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    /// Which node it is by its token; none where that is another's, or nobody's.
    fn node_of(&self, hello: NodeHello) -> io::Result<Option<String>> {
        if hello.token == self.token.derived(&hello.node) {
            return Ok(Some(hello.node));
        }
        if self.refused.fetch_add(1, Ordering::Relaxed) < REFUSED_LIMIT {
            let (node, token) = (messages::shown(&hello.node), hello.token.text().to_owned());
            self.tell(HeardWhat::Refused { node, token })?;
        }
        Ok(None)
    }
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

/// Hears a pod to its end. What it says is of the node whose token it has said first.
fn hear(way: &Arc<Channel>, again: &TcpStream, known: &Known, is_known: &AtomicBool) -> io::Result<()> {
    let mut of: Option<String> = None;
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
            match FromNode::read(line).map_err(|_| invalid())? {
                FromNode::Hello(hello) if of.is_none() => {
                    of = Some(known.node_of(hello)?.ok_or_else(invalid)?);
                    is_known.store(true, Ordering::Relaxed);
                    again.set_read_timeout(Some(POD_PATIENCE))?;
                    // Long lines are for those who know a token.
                    lines.limit(LINE_LIMIT);
                }
                FromNode::Said(said) => {
                    let Some(node) = &of else { return Err(invalid()) };
                    locked(&known.waiting).insert(node.clone(), Arc::clone(way));
                    known.tell(HeardWhat::Words(NodeWords { node: node.clone(), said }))?;
                }
                FromNode::Hello(_) => return Err(invalid()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use channel::ControllerKey;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::mpsc::{Receiver, sync_channel};

    /// Somebody listens; pods know this address and key, and each the token of its node.
    struct Place {
        listening: Listening,
        address: SocketAddr,
        key: ControllerKey,
        taken: Receiver<Heard>,
    }

    fn place(token: u128) -> Place {
        let token = Token::new(token);
        let key = Keys::of(&token).expect("keys").controller_key().text();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let (heard, taken) = sync_channel(8);
        let meeting = Meeting { token, controller: address.to_string(), key: Some(key.clone()) };
        let listening = Listening::start(listener, "u-1", meeting, heard).expect("it listens");
        Place { listening, address, key: ControllerKey::read(&key).expect("a key"), taken }
    }

    /// The first word of who says to be of this node, with the token of that one.
    fn hello(node: &str, token: &Token) -> Vec<u8> {
        let (node, token) = (node.to_owned(), token.clone());
        FromNode::Hello(NodeHello { node, token, version: messages::version() }).line()
    }

    fn own(node: &str) -> Token {
        Token::new(7).derived(node)
    }

    fn said(said: Result<String, String>) -> Vec<u8> {
        FromNode::Said(said).line()
    }

    fn connect(place: &Place) -> Channel {
        let stream = TcpStream::connect(place.address).expect("it is taken");
        Channel::connect(stream, &place.key).expect("it knows the key")
    }

    /// Until the other side closes; whether it said anything.
    fn is_closed_unheard(way: &Channel) -> bool {
        let mut bytes = [0; 256];
        matches!(way.receive(&mut bytes), Ok(0) | Err(_))
    }

    fn words(heard: Heard) -> NodeWords {
        match heard.what {
            HeardWhat::Words(words) => words,
            HeardWhat::Refused { node, .. } => panic!("{node} was refused"),
        }
    }

    #[test]
    fn what_a_pod_says_is_heard_and_it_hears_when_that_is_kept() {
        let place = place(7);
        let way = connect(&place);
        way.write(&hello("n-1", &own("n-1"))).expect("it is taken");
        way.write(&said(Ok("{}".repeat(100_000)))).expect("it is taken");
        let heard = place.taken.recv().expect("it is heard");
        assert_eq!(heard.audit, "u-1");
        let words = words(heard);
        assert_eq!((words.node.as_str(), words.said.expect("an audit").len()), ("n-1", 200_000));
        place.listening.kept("n-2");
        place.listening.kept("n-1");
        let (mut bytes, mut opened) = ([0; 256], Vec::new());
        let received = way.receive(&mut bytes).expect("it answers");
        way.open(&bytes[..received], &mut opened).expect("it is the other side");
        assert_eq!(ToWorker::read(&opened), Ok(ToWorker::Kept));
    }

    #[test]
    fn strangers_nonsense_and_what_is_too_long_are_closed_and_change_nothing() {
        let place = place(7);
        // Another's key is not taken; and a token is said before anything else, once.
        let stranger = Keys::of(&Token::new(8)).expect("keys");
        assert!(Channel::connect(TcpStream::connect(place.address).expect("it is taken"), &stranger).is_err());
        let mine = || hello("n-1", &own("n-1"));
        for lines in [
            vec![said(Ok("{}".to_owned()))],
            vec![mine(), b"nonsense\n".to_vec()],
            vec![mine(), hello("n-2", &own("n-2"))],
            vec![mine(), said(Ok("x".repeat(3 * AUDIT_LIMIT)))],
        ] {
            let way = connect(&place);
            // It may be closed before all of it is taken.
            lines.iter().for_each(|line| drop(way.write(line)));
            assert!(is_closed_unheard(&way), "{:?}", lines.first().map(Vec::len));
        }
        assert!(place.taken.try_recv().is_err(), "nothing was heard");
        // And a pod is heard as before.
        let way = connect(&place);
        way.write(&mine()).expect("it is taken");
        way.write(&said(Err("there is no /host/proc".to_owned()))).expect("it is taken");
        assert!(words(place.taken.recv().expect("it is heard")).said.is_err());
    }

    #[test]
    fn a_pod_that_has_the_token_of_another_node_is_refused_and_told_of() {
        let place = place(7);
        let round = Token::new(7);
        // That of another node, that of the round, of which a pod does not know it, and one that is nobody's.
        for token in [own("n-2"), Token::new(8), own("")] {
            let way = connect(&place);
            way.write(&hello("n-1", &token)).expect("it is taken");
            let _ = way.write(&said(Ok("{}".to_owned())));
            assert!(is_closed_unheard(&way));
            let HeardWhat::Refused { node, token: theirs } = place.taken.recv().expect("it is told").what else {
                panic!("it was heard")
            };
            assert_eq!((node.as_str(), theirs.as_str()), ("n-1", token.text()));
        }
        assert!(place.taken.try_recv().is_err(), "nothing was heard");
        // Nor can it be the controller for another pod: of its own token comes another key.
        let its = Keys::of(&own("n-1")).expect("keys");
        assert_ne!(its.controller_key().text(), place.key.text());
        assert_ne!(own("n-1").text(), round.text());
    }
}
