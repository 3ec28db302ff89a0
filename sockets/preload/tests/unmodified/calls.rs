//! One program on the kernel's sockets and on our stack: what it hears, and when its peer does, is the
//! same. Random sequences of calls are in `sequences`; here is what depends on time.

use crate::server::library;
use interop::{Nearside, Program, Running, in_namespace, output, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// What the program does: a line for each thing that it tries. Whoever writes to port 8106 is sent
/// signals once that came: by one ends what the program waits for meanwhile, at the latest after a
/// time. The first may come just before it waits.
const SCRIPT: &str = r#"
import ctypes, errno, fcntl, os, select, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
PEER, LONG = sys.argv[1], 30
def say(*words): print(*words, flush=True)
def connect(port):
    s = socket.create_connection((PEER, port), LONG)
    s.settimeout(None)
    return s
def outcome(result):
    return result if result >= 0 else errno.errorcode[ctypes.get_errno()]

# What is written comes while the program is away.
class Came(Exception): pass
def on_came(*_):
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    raise Came
def tell(s, act):
    signal.signal(signal.SIGUSR2, on_came)
    try:
        s.sendall(b'%d\n' % os.getpid())
        act()
        came = 'never came'
    except Came:
        came = 'came'
    # No signal is under way when the peer has ended.
    s.shutdown(socket.SHUT_WR)
    s.recv(1)
    return came
def away(what, act): say(what, tell(connect(8106), act))
def compute():
    end = time.monotonic() + LONG
    while time.monotonic() < end: pass
def wait_for_child():
    os.waitpid(child, 0)
# Who is waited for is there before there is anything to come: a signal amid a start leaves python's own
# tables half made. A slow machine takes longer than one wait to get there.
child = os.fork()
if child == 0:
    time.sleep(9 * LONG)
    os._exit(0)
pipe, pair = os.pipe(), socket.socketpair()
pair[1].settimeout(None)
away('written, then computed:', compute)
away('written, then slept:', lambda: time.sleep(LONG))
away('written, then slept by usleep:', lambda: [libc.usleep(100000) for _ in range(10 * LONG)])
away('written, then slept by select:', lambda: select.select([], [], [], LONG))
away('written, then slept by poll:', lambda: select.poll().poll(1000 * LONG))
away('written, then waited for a child:', wait_for_child)
os.kill(child, signal.SIGKILL)
away('written, then read from a pipe:', lambda: os.read(pipe[0], 1))
away('written, then received from the kernel:', lambda: pair[1].recv(1))
away('written, then waited for a signal:', signal.pause)
thread = threading.Thread(target=time.sleep, args=(9 * LONG,), daemon=True)
thread.start()
away('written, then waited for a thread:', thread.join)

# Two are ready; the first has its answer while the program computes for the second.
def amid_events():
    first, second = connect(8107), connect(8107)
    both = select.epoll()
    first.sendall(b'1\n'); second.sendall(b'2\n')
    for s in (first, second):
        select.select([s], [], [])
        both.register(s, select.EPOLLIN)
    events = both.poll(LONG, 2)
    first.recv(9)
    say('answered amid events, then computed:', tell(first, compute), len(events))
amid_events()

# What is asked again and again, without waiting.
def until(what, is_there):
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        if is_there(): return say(what, 'came')
    say(what, 'never came')
def begun(port):
    s = socket.socket(); s.setblocking(False); s.connect_ex((PEER, port)); return s
s = connect(8102)
until('recv that does not wait:', lambda: libc.recv(s.fileno(), ctypes.create_string_buffer(9), 9, 0x40) > 0)
s = connect(8102)
until('FIONREAD:', lambda: fcntl.ioctl(s.fileno(), 0x541b, bytes(4)) != bytes(4))
name, size = ctypes.create_string_buffer(16), ctypes.c_int(16)
s = begun(8101)
until('getpeername:', lambda: libc.getpeername(s.fileno(), name, ctypes.byref(size)) == 0)
s = begun(8101)
until('TCP_INFO:', lambda: s.getsockopt(6, 11, 8)[0] == 1)
s = begun(8109)
until('SO_ERROR:', lambda: s.getsockopt(1, 4) == errno.ECONNREFUSED)
s = connect(8105)
until('an error of send:', lambda: libc.send(s.fileno(), b'x', 1, 0x4040) < 0 and ctypes.get_errno() != errno.EAGAIN)
s = connect(8108); s.setblocking(False)
block, left = bytes(65536), 2000000
def more():
    global left
    try: left -= s.send(block)
    except BlockingIOError: pass
    return left <= 0
until('room, by send that does not wait:', more)
s = connect(8101); s.shutdown(socket.SHUT_RD); s.sendall(b'abc')
until('recv behind shutdown:', lambda: libc.recv(s.fileno(), ctypes.create_string_buffer(9), 9, 0) == 3)

# Signals amid calls.
def interrupted(port, restarts, call, repeat=0.02, limit=0):
    s = connect(port)
    if limit: s.setsockopt(1, 20, struct.pack('ll', limit, 0))
    signal.siginterrupt(signal.SIGALRM, not restarts)
    signal.setitimer(signal.ITIMER_REAL, 0.02, repeat)
    result = outcome(call(s.fileno()))
    signal.setitimer(signal.ITIMER_REAL, 0)
    # What was not taken is not waited for.
    s.setsockopt(1, 13, struct.pack('ii', 1, 0)); s.close()
    return result
signal.signal(signal.SIGALRM, lambda *_: None)
# One of each kind.
signal.signal(signal.SIGUSR1, lambda *_: None)
buffer = ctypes.create_string_buffer(20000000)
one = lambda fd: libc.recv(fd, buffer, 1, 0)
say('recv with SA_RESTART:', interrupted(8103, True, one))
say('recv without:', interrupted(8104, False, one))
say('recv of all with SA_RESTART:', interrupted(8103, True, lambda fd: libc.recv(fd, buffer, 5, 0x100)))
say('recv with SA_RESTART and a limit:', interrupted(8104, True, one, limit=LONG))
entry = ctypes.create_string_buffer(8)
def poll(fd):
    struct.pack_into('ihh', entry, 0, fd, 1, 0)
    return libc.poll(entry, 1, 1000 * LONG)
say('poll with SA_RESTART:', interrupted(8104, True, poll))
def wait(fd):
    e = select.epoll(); e.register(fd, 1)
    return libc.epoll_wait(e.fileno(), ctypes.create_string_buffer(12), 1, 1000 * LONG)
say('epoll_wait with SA_RESTART:', interrupted(8104, True, wait))
many = lambda fd: libc.send(fd, buffer, len(buffer), 0) > 0
say('send of much with SA_RESTART:', interrupted(8104, True, many, repeat=0.3))

# Streams.
libc.fdopen.restype = ctypes.c_void_p
s = connect(8101)
stream = ctypes.c_void_p(libc.fdopen(s.fileno(), b'r+'))
libc.fputs(b'a line\n', stream); libc.fflush(stream)
line = ctypes.create_string_buffer(20)
libc.fgets(line, 20, stream)
say('a stream:', line.value, libc.fileno(stream) == s.fileno())
say('dprintf:', libc.dprintf(s.fileno(), b'%d %s %.2f\n', 5, b'x', ctypes.c_double(1.5)), s.recv(20))

# A set that is polled.
s = connect(8102)
inner = select.epoll(); inner.register(s, select.EPOLLIN)
p = select.poll(); p.register(inner, select.POLLIN)
say('a set that is polled:', [events for _, events in p.poll(1000 * LONG)])
say('and after:', len(inner.poll(0)), s.recv(9), p.poll(0), inner.poll(0))

# What is set before connect.
s = socket.socket()
s.setsockopt(1, socket.SO_REUSEADDR, 1); s.setsockopt(1, 20, struct.pack('ll', 7, 0))
s.bind(('', 23456)); s.connect((PEER, 8101))
say('bound, and with a limit:', s.getsockname()[1], struct.unpack('ll', s.getsockopt(1, 20, 16)))

# A listener that is shut down is none, and may be one again.
l = socket.socket(); l.bind((sys.argv[2], 0)); l.listen(); l.setblocking(False)
p = select.poll(); p.register(l, select.POLLIN)
l.shutdown(socket.SHUT_RD)
say('shut down:', [events for _, events in p.poll(0)], outcome(libc.accept(l.fileno(), None, None)))
l.listen()
say('and again:', p.poll(0), outcome(libc.accept(l.fileno(), None, None)))

# What goes from pipes into connections, and out of them.
libc.splice.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
s = connect(8101)
os.write(pipe[1], b'spliced')
ends = (pipe[0], None, s.fileno(), None), (s.fileno(), None, pipe[1], None)
say('splice:', *(libc.splice(*two, 100, 0) for two in ends), os.read(pipe[0], 20))
"#;

/// Accepts at a port of the kernel's, and serves each connection on a thread of its own.
fn serve(port: u16, each: fn(TcpStream)) {
    let listener = TcpListener::bind(("0.0.0.0", port)).unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let _ = stream.set_nodelay(true);
            thread::spawn(move || each(stream));
        }
    });
}

fn echo(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut bytes) {
        let _ = stream.write_all(&bytes[..len]);
    }
}

/// Holds a connection until its peer ends it.
fn hold(mut stream: TcpStream) {
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

fn hello(mut stream: TcpStream) {
    // The program asks before it is there.
    thread::sleep(Duration::from_millis(100));
    let _ = stream.write_all(b"hello");
    hold(stream);
}

fn one_byte(mut stream: TcpStream) {
    thread::sleep(Duration::from_millis(100));
    let _ = stream.write_all(b"1");
    hold(stream);
}

/// Reads nothing until its peer is gone.
fn silent(stream: TcpStream) {
    while stream.take_error().is_ok_and(|error| error.is_none()) {
        thread::sleep(Duration::from_millis(50));
    }
}

/// Ends before it has read what came, which resets it.
fn reset(stream: TcpStream) {
    let _ = stream.peek(&mut [0]);
}

/// Sends signals to the process whose number came, until it ends the connection.
fn signal(mut stream: TcpStream) {
    let mut line = String::new();
    let read = BufReader::new(&mut stream).read_line(&mut line);
    let Some(process) = read.ok().and_then(|_| line.trim().parse().ok()).and_then(Pid::from_raw) else { return };
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("it is not zero");
    loop {
        let _ = kill_process(process, Signal::USR2);
        match stream.read(&mut [0]) {
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => return,
        }
    }
}

/// Answers the first line, and does so with the second.
fn answer_and_signal(mut stream: TcpStream) {
    let mut line = [0; 2];
    if stream.read_exact(&mut line).is_ok() && stream.write_all(&line).is_ok() {
        signal(stream);
    }
}

#[test]
fn a_program_hears_the_same_and_so_does_its_peer() {
    in_namespace(&[Program::new("python3", "python3")], || {
        let peers: [(u16, fn(TcpStream)); 8] = [
            (8101, echo),
            (8102, hello),
            (8103, one_byte),
            (8104, silent),
            (8105, reset),
            (8106, signal),
            (8107, answer_and_signal),
            (8108, hold),
        ];
        peers.into_iter().for_each(|(port, each)| serve(port, each));
        let mut command =
            Nearside::command(["run", "--link", "tap:near0,addr=10.9.0.1/24", "--addr", "10.9.0.2/24", "--library"]);
        command.arg(library()).args(["--", "python3", "-c", SCRIPT, "10.9.0.1", "10.9.0.2"]);
        let mut ours = Running::start(&mut command);
        let kernels = output(Command::new("python3").args(["-c", SCRIPT, "127.0.0.1", "127.0.0.1"]));
        wait_for("the program's end", || ours.has_ended());
        let said = ours.said();
        let (kernel, found): (Vec<&str>, Vec<&str>) = (kernels.lines().collect(), said.lines().collect());
        let all: Vec<_> = kernel.iter().zip(&found).filter(|(kernel, ours)| kernel != ours).collect();
        assert!(all.is_empty() && kernel.len() == found.len(), "the kernel and ours: {all:#?}\n{said}");
        assert!(kernel.len() == 34 && !kernels.contains("never"), "{kernels}");
    });
}
