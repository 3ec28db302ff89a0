//! The life of processes: whichever way one ends, its peers get what it wrote and hear of its end; and
//! what its children, its threads and its keeper make of that.

use crate::server::{NGINX, Over, Server, library, send};
use interop::{Nearside, Program, Running, in_namespace, ip, wait_for};
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::time::Duration;

pub const PYTHON: Program = Program::new("python3", "python3");

/// What each script begins with: a listener on our stack, and a child for each thing to be done.
const PRELUDE: &str = "
import ctypes, errno, os, select, signal, socket, sys, threading, time
libc = ctypes.CDLL(None)
def say(*words):
    # In one piece, for the keeper writes there, too.
    os.write(1, (' '.join(map(str, words)) + '\\n').encode())
def listen():
    return socket.create_server(('10.9.0.2', 7000))
def in_child(act):
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException as why:
            say('failed:', repr(why))
        os._exit(1)
    return os.waitpid(child, 0)[1]
def failure(act):
    try:
        act()
    except OSError as why:
        return 'EOPNOTSUPP' if why.errno == errno.EOPNOTSUPP else errno.errorcode[why.errno]
    return 'no error'
";

/// A script of Python's on our stack, with the kernel's end of the link at 10.9.0.1.
pub fn python(script: &str, words: &[&str]) -> Command {
    python_over("tap:near0,addr=10.9.0.1/24", script, words)
}

/// The same over a link of any kind.
fn python_over(link: &str, script: &str, words: &[&str]) -> Command {
    let mut command = Nearside::command(["run", "--link", link, "--addr", "10.9.0.2/24"]);
    command.arg("--library").arg(library()).args(["--", "python3", "-c"]);
    command.arg(format!("{PRELUDE}{script}")).args(words);
    command
}

/// A connection to the script, as soon as it listens.
pub fn connect() -> TcpStream {
    let mut stream = None;
    wait_for("a connection", || {
        stream = TcpStream::connect_timeout(&"10.9.0.2:7000".parse().unwrap(), Duration::from_secs(5)).ok();
        stream.is_some()
    });
    let stream = stream.unwrap();
    // A peer that hears of nothing is what is looked for.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn read(mut stream: TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut got = Vec::new();
    let why = stream.read_to_end(&mut got).err();
    (got, why.map(|why| why.kind()))
}

const ENDS: &str = "
ends = {
    'exit': lambda: libc.exit(0),
    '_exit': lambda: os._exit(0),
    '_Exit': lambda: libc._Exit(0),
    'quick_exit': lambda: libc.quick_exit(0),
    'abort': lambda: libc.abort(),
    'daemon': lambda: libc.daemon(0, 0),
    'execv': lambda: os.execv('/bin/true', ['true']),
    'execve': lambda: os.execve('/bin/true', ['true'], {}),
    'execvp': lambda: libc.execvp(b'true', (ctypes.c_char_p * 2)(b'true', None)),
    'execl': lambda: libc.execl(b'/bin/echo', *([b'echo'] + [b'%d' % at for at in range(9)]), None),
    'execle': lambda: libc.execle(b'/bin/sh', b'sh', b'-c', b'echo $HERE', b'4', b'5', b'6', b'7', b'8', b'9', None,
                                  (ctypes.c_char_p * 2)(b'HERE=there', None)),
    'term': lambda: os.kill(os.getpid(), signal.SIGTERM),
    'kill': lambda: os.kill(os.getpid(), signal.SIGKILL),
    'segv': lambda: ctypes.string_at(8),
}
listener = listen()
for name in sys.argv[1:]:
    def serve():
        s, _ = listener.accept()
        s.sendall(b'hi\\n')
        ends[name]()
    in_child(serve)
    say('over:', name)
";

/// No other worker is there that could do anything for them.
#[test]
fn whichever_way_a_process_ends_its_peers_hear_of_it() {
    const ORDERLY: [&str; 11] =
        ["exit", "_exit", "_Exit", "quick_exit", "abort", "daemon", "execv", "execve", "execvp", "execl", "execle"];
    const KILLED: [&str; 3] = ["term", "kill", "segv"];
    in_namespace(&[PYTHON], || {
        let words: Vec<&str> = ORDERLY.into_iter().chain(KILLED).collect();
        let mut keeper = Running::start(&mut python(ENDS, &words));
        for name in ORDERLY {
            assert_eq!(read(connect()), (b"hi\n".to_vec(), None), "{name}");
        }
        for name in KILLED {
            let (_, why) = read(connect());
            assert!(matches!(why, None | Some(ErrorKind::ConnectionReset)), "{name}: {why:?}");
        }
        wait_for("the program's end", || keeper.has_ended());
        let said = keeper.said();
        assert!(!said.contains("failed:"), "{said}");
        assert!(
            said.contains("0 1 2 3 4 5 6 7 8") && said.contains("there"),
            "what was executed had its words: {said}"
        );
    });
}

const UNREAD: &str = "
listener = listen()
for name in ['_exit', 'becomes', 'fails']:
    def serve():
        s, _ = listener.accept()
        s.sendall(name.encode() + b' ' * 200_000)
        if name == 'becomes':
            for _ in range(20):
                failure(lambda: os.execv('/etc/passwd', ['x']))
            os.execv('/bin/true', ['true'])
        if name == 'fails':
            say(failure(lambda: os.execv('/bin/none', ['none'])), failure(lambda: os.execv('/etc/passwd', ['x'])))
            s.sendall(b'more')
        os._exit(0)
    say('ended:', name, in_child(serve))
say('over')
";

/// A process's end does not wait for peers that do not read, and they have all of it when they do. What
/// could not become another program goes on as before, and may become one in the end.
#[test]
fn what_peers_have_not_taken_outlives_the_process() {
    in_namespace(&[PYTHON], || {
        let mut keeper = Running::start(&mut python(UNREAD, &[]));
        let mut streams = Vec::new();
        for name in ["_exit", "becomes", "fails"] {
            streams.push((name, connect()));
            wait_for("its end", || keeper.said().contains(&format!("ended: {name} 0")));
        }
        for (name, stream) in streams.drain(..2) {
            let (got, why) = read(stream);
            assert_eq!((got.len(), why), (name.len() + 200_000, None), "{name}");
            assert!(got.starts_with(name.as_bytes()));
        }
        wait_for("the program's end", || keeper.said().contains("over"));
        assert!(keeper.said().contains("ENOENT EACCES"), "{}", keeper.said());
        // Its peer still has not read: who waits for that is told, and need not.
        wait_for("the keeper's word", || keeper.said().contains("have not taken all that was written"));
        assert!(!keeper.has_ended());
        keeper.signal(Signal::TERM);
        wait_for("the keeper's end", || keeper.has_ended());
        let (_, stream) = streams.pop().unwrap();
        let (got, why) = read(stream);
        assert!(got.len() < 200_009 && why == Some(ErrorKind::ConnectionReset), "{} bytes, {why:?}", got.len());
    });
}

const WAITING: &str = "
listener = listen()
def first():
    s, _ = listener.accept()
    s.recv(1)
    os._exit(0)
def second():
    listener.accept()[0].sendall(b'second')
    os._exit(0)
in_child(first)
in_child(second)
";

/// Who waits to be accepted where a process ends is not reset while another one listens: the next that
/// accepts has it, as from the kernel's queue.
#[test]
fn who_waits_to_be_accepted_is_left_to_the_next_process() {
    in_namespace(&[PYTHON], || {
        let mut keeper = Running::start(&mut python(WAITING, &[]));
        let (mut first, waiting) = (connect(), connect());
        first.write_all(b"x").unwrap();
        assert_eq!(read(first), (Vec::new(), None));
        assert_eq!(read(waiting), (b"second".to_vec(), None));
        wait_for("the program's end", || keeper.has_ended());
        assert!(!keeper.said().contains("failed:"), "{}", keeper.said());
    });
}

const GIVEN: &str = "
import array
def passes():
    ours, other = socket.socketpair()
    def takes():
        fds = array.array('i')
        for _, _, data in other.recvmsg(1, 64)[1]:
            fds.frombytes(data)
        s, _ = socket.socket(fileno=fds[0]).accept()
        s.sendall(b'passed')
        os._exit(0)
    child = os.fork()
    if child == 0:
        takes()
    # The child has none yet.
    with socket.create_server(('10.9.0.2', 7000)) as listener:
        socket.send_fds(ours, [b'x'], [listener.fileno()])
    os.waitpid(child, 0)
passes()
";

/// A listener that another process has passed is ours as one that the process made itself.
#[test]
fn a_listener_that_was_passed_is_ours() {
    in_namespace(&[PYTHON], || {
        let mut keeper = Running::start(&mut python(GIVEN, &[]));
        assert_eq!(read(connect()), (b"passed".to_vec(), None));
        wait_for("the program's end", || keeper.has_ended());
        assert!(!keeper.said().contains("Traceback"), "{}", keeper.said());
    });
}

const SIGNALLED: &str = "
def on_signal(number, _):
    say('got', signal.Signals(number).name)
for number in [signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM if 'stays' in sys.argv else signal.SIGUSR2]:
    signal.signal(number, on_signal)
say('ready')
while True:
    signal.pause()
";

/// Whether this process ignores it, which its children inherit.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

/// What is sent to `nearside run` is the program's, and so is its status; a second one ends both, unless it comes with
/// the first.
#[test]
fn signals_to_the_keeper_are_the_programs() {
    in_namespace(&[PYTHON], || {
        // Not of the terminal's job, which has its signals from there.
        let mut keeper = Running::start(python(SIGNALLED, &[]).process_group(0));
        wait_for("the program", || keeper.said().contains("ready"));
        let all = [(Signal::HUP, "SIGHUP"), (Signal::USR1, "SIGUSR1"), (Signal::USR2, "SIGUSR2")];
        // What nobody hears here (nohup) the keeper does not hear either.
        for (signal, name) in all.into_iter().filter(|(signal, _)| !is_ignored(*signal)) {
            keeper.signal(signal);
            wait_for(name, || keeper.said().contains(&format!("got {name}")));
        }
        keeper.signal(Signal::TERM);
        wait_for("the end", || keeper.has_ended());
        assert_eq!(keeper.ended().unwrap().code(), Some(128 + 15));
        assert_eq!(keeper.ended().unwrap().signal(), None);

        let mut keeper = Running::start(python(SIGNALLED, &["stays"]).process_group(0));
        wait_for("the program", || keeper.said().contains("ready"));
        keeper.signal(Signal::TERM);
        // As timeout(1) does, which signals its child and then the group.
        keeper.signal(Signal::TERM);
        wait_for("SIGTERM", || keeper.said().contains("got SIGTERM"));
        keeper.signal(Signal::HUP);
        wait_for("SIGHUP", || is_ignored(Signal::HUP) || keeper.said().contains("got SIGHUP"));
        assert!(!keeper.has_ended());
        std::thread::sleep(Duration::from_secs(1));
        keeper.signal(Signal::TERM);
        wait_for("the end", || keeper.has_ended());
        assert_eq!(keeper.ended().unwrap().code(), Some(128 + 9));
    });
}

/// A daemon's first process gets them, where the one that was started is gone.
#[test]
fn signals_to_the_keeper_reach_a_daemon() {
    in_namespace(&[NGINX], || {
        let mut server = Server::start(Over::Tap, "signalled");
        send(server.keeper(), Signal::TERM);
        server.ended();
    });
}

const FORKED: &str = "
peer = socket.create_connection(('10.9.0.1', 8001))
both = select.epoll()
both.register(peer)
def use():
    say('recv', failure(lambda: peer.recv(1)))
    say('send', failure(lambda: peer.send(b'x')))
    say('epoll', failure(lambda: both.poll(60)))
    say('poll', failure(lambda: [poll := select.poll(), poll.register(peer), poll.poll(60_000)]))
    peer.close()
    os._exit(0)
in_child(use)
def execute():
    os.dup2(peer.fileno(), 0)
    os.execv('/bin/true', ['true'])
in_child(execute)
peer.sendall(b'x')
say('parent', peer.recv(1))
# A daemon: what watches a listener goes on in a child.
listener = listen()
waits = select.epoll()
waits.register(listener)
parent = os.getpid()
if os.fork() == 0:
    peer.close()
    while os.getppid() == parent:
        time.sleep(0.01)
    say('alone')
    say('daemon', waits.poll(60)[0][0] == listener.fileno())
    s, _ = listener.accept()
    s.sendall(b'daemon')
    os._exit(0)
";

/// A child has none of its parent's connections, and hears so at once; listeners it has.
#[test]
fn children_have_listeners_and_no_connections() {
    in_namespace(&[PYTHON], || {
        let mut keeper = Running::start(&mut python(FORKED, &[]));
        let mut listener = None;
        wait_for("the kernel's end of the link", || {
            listener = TcpListener::bind("10.9.0.1:8001").ok();
            listener.is_some() || keeper.has_ended()
        });
        let (mut stream, _) = listener.expect("it runs").accept().unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        stream.write_all(&byte).unwrap();
        wait_for("the parent's end", || keeper.said().contains("alone"));
        assert_eq!(read(connect()), (b"daemon".to_vec(), None));
        wait_for("the program's end", || keeper.has_ended());
        let said = keeper.said();
        for expected in
            ["recv EOPNOTSUPP", "send EOPNOTSUPP", "epoll EOPNOTSUPP", "poll EOPNOTSUPP", "parent b'x'", "daemon True"]
        {
            assert!(said.lines().any(|line| line == expected), "{expected}: {said}");
        }
        for call in ["recv", "send", "epoll_wait", "poll"] {
            let why = format!("has called {call} for a connection that its parent opened or accepted before fork(2)");
            assert_eq!(said.matches(&why).count(), 1, "{why}: {said}");
        }
        assert!(said.contains("becomes another program with 1 descriptors of connections open"), "{said}");
    });
}

const THREADS: &str = "
listener = listen()
first, _ = listener.accept()
def use():
    say('accept', failure(listener.accept))
    say('recv', failure(lambda: first.recv(1)))
    first.close()
    say('over')
waits = select.epoll()
waits.register(listener)
thread = threading.Thread(target=use, name='other')
# Not before the next client is there.
waits.poll(60)
thread.start()
while thread.is_alive():
    waits.poll(0.01)
waits.poll(0)
";

/// A thread that cannot have a connection keeps nobody waiting for it, and may close it.
#[test]
fn what_another_thread_cannot_have_is_ended() {
    in_namespace(&[PYTHON], || {
        let mut keeper = Running::start(&mut python(THREADS, &[]));
        let first = connect();
        let second = connect();
        let (got, why) = read(second);
        assert!(got.is_empty() && why == Some(ErrorKind::ConnectionReset), "{got:?}, {why:?}");
        assert_eq!(read(first), (Vec::new(), None));
        wait_for("the program's end", || keeper.has_ended());
        let said = keeper.said();
        for expected in ["accept EOPNOTSUPP", "recv EOPNOTSUPP", "over"] {
            assert!(said.lines().any(|line| line == expected), "{expected}: {said}");
        }
        for call in ["accept", "recv"] {
            assert!(
                said.contains(&format!("has called {call} and got EOPNOTSUPP: connections on our stack are")),
                "{said}"
            );
        }
    });
}

const ONE_AFTER_THE_OTHER: &str = "
listener = listen()
listener.listen()
kept = []
def serve(word):
    connection = listener.accept()[0]
    connection.sendall(word)
    kept.append(connection)
def in_thread(act, *words):
    thread = threading.Thread(target=act, args=words)
    thread.start()
    thread.join()
in_thread(serve, b'first\\n')
in_thread(serve, b'second\\n')
# What a thread had that has ended is this one's, too.
serve(b'third\\n')
for connection in kept:
    connection.sendall(b'behind\\n')
    connection.close()
say('over')
";

/// What a thread had that has ended is whoever's goes on: as descriptors are.
#[test]
fn the_next_thread_goes_on_for_one_that_has_ended() {
    in_namespace(&[PYTHON], || {
        let mut keeper = Running::start(&mut python(ONE_AFTER_THE_OTHER, &[]));
        let clients: Vec<TcpStream> = (0..3).map(|_| connect()).collect();
        let got: Vec<_> = clients.into_iter().map(read).collect();
        wait_for("the program's end", || keeper.has_ended());
        let words = ["first", "second", "third"].map(|word| (format!("{word}\nbehind\n").into_bytes(), None));
        assert_eq!(got, words, "{}", keeper.said());
        assert!(keeper.said().lines().any(|line| line == "over"), "{}", keeper.said());
    });
}

const WAITS: &str = "
listener = listen()
waits = select.epoll()
waits.register(listener)
waits.poll(600)
listener.accept()[0].sendall(b'here')
";

/// What becomes of the link is said, and connections come when it is up again.
#[test]
fn a_link_that_goes_down_is_told() {
    in_namespace(&[PYTHON], || {
        let mut keeper = Running::start(&mut python(WAITS, &[]));
        // Before there is a worker nobody looks.
        wait_for("a seat", || {
            let seats = Nearside::command(["status", &keeper.id().to_string()]).output().unwrap();
            String::from_utf8_lossy(&seats.stdout).contains("1 of 16 seats are taken") || keeper.has_ended()
        });
        ip("link set near0 down");
        wait_for("its word", || keeper.said().contains("tap:near0,addr=10.9.0.1/24 is down"));
        ip("link set near0 up");
        wait_for("its word", || keeper.said().contains("tap:near0,addr=10.9.0.1/24 is up"));
        assert_eq!(read(connect()), (b"here".to_vec(), None));
        wait_for("the program's end", || keeper.has_ended());
    });
}

const WRITES_AND_ENDS: &str = "
listener = listen()
signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
s, _ = listener.accept()
s.sendall(b'x' * 200_000)
say('written')
while True:
    s.recv(1)
";

/// What was written leaves when the carrier is back, where the link is down as the process ends.
fn what_was_written_waits_for_the_carrier(over: Over, interface: &'static str) {
    in_namespace(&[PYTHON], move || {
        let link = over.prepare();
        let mut keeper = Running::start(&mut python_over(link, WRITES_AND_ENDS, &[]));
        let mut stream = connect();
        let mut got = vec![0; 1];
        stream.read_exact(&mut got).unwrap();
        wait_for("what it writes", || keeper.said().contains("written"));
        ip(&format!("link set {interface} down"));
        wait_for("its word", || keeper.said().contains("is down"));
        keeper.signal(Signal::USR1);
        // A second after the end of the program.
        wait_for("the keeper's word", || {
            keeper.said().contains("have not taken all that was written") || keeper.has_ended()
        });
        ip(&format!("link set {interface} up"));
        let (more, why) = read(stream);
        assert_eq!((got.len() + more.len(), why), (200_000, None), "{}", keeper.said());
        wait_for("the keeper's end", || keeper.has_ended());
    });
}

#[test]
fn what_was_written_waits_for_the_carrier_over_tap() {
    what_was_written_waits_for_the_carrier(Over::Tap, "near0");
}

#[test]
fn what_was_written_waits_for_the_carrier_over_xdp() {
    what_was_written_waits_for_the_carrier(Over::Xdp { queues: 1 }, "far0");
}

/// What may write no long files (`ulimit -f`, in 512 bytes) says so, and is not ended by SIGXFSZ without a word.
#[test]
fn a_limit_of_files_is_told() {
    in_namespace(&[PYTHON], || {
        let plain = python("", &[]);
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 100; exec \"$@\"", "sh"]).arg(plain.get_program()).args(plain.get_args());
        let mut keeper = Running::start(&mut command);
        wait_for("its end", || keeper.has_ended());
        assert_eq!(keeper.ended().unwrap().code(), Some(1), "{}", keeper.said());
        assert!(keeper.said().contains("(ulimit -f)"), "{}", keeper.said());
    });
}

/// The keeper takes in who has ended: a daemon's first process, and whoever it is the last parent of.
#[test]
fn ended_processes_are_taken_in() {
    in_namespace(&[NGINX, Program::new("unshare", "util-linux")], || {
        let states = |keeper: i32| -> String {
            let children = std::fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).unwrap();
            let stat = |child: &str| std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            let state = |child: &str| stat(child).rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            children.split_whitespace().filter_map(state).collect()
        };
        let server = Server::start(Over::Tap, "ended");
        wait_for("no child that has ended", || !states(server.keeper()).contains('Z'));
        drop(server);
        // As the first process of a container.
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]).arg(Nearside::command(["run"]).get_program());
        command.args(["run", "--link", "tap:near1,addr=10.8.0.1/24", "--addr", "10.8.0.2/24", "--library"]);
        command.arg(library()).args(["--", "sh", "-c", "(sleep 0.2 & sleep 0.1 & :); sleep 600; :"]);
        let first = Running::start(&mut command);
        let keeper = || {
            let own = first.id();
            let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
            children.split_whitespace().next()?.parse::<i32>().ok()
        };
        wait_for("the program", || keeper().is_some_and(|keeper| !states(keeper).is_empty()));
        let keeper = keeper().expect("a keeper");
        // Those that sleep are its children once their own parent is gone; only the shell stays.
        wait_for("the shell alone", || states(keeper).len() == 1 && !states(keeper).contains('Z'));
        drop(first);
    });
}
