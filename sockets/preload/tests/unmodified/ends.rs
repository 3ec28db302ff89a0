//! What ends, and what is left of it: the keeper, and children of workers.

use crate::server::{CURL, LARGE, NGINX, Over, Server, ask, library, send, worker};
use interop::{Nearside, Program, Running, in_namespace, output, wait_for};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Workers go on with what they have, and get nothing new: no seat, nobody who resets the kernel's
/// clients. A worker without a seat says so where the program logs.
#[test]
fn workers_outlive_their_keeper() {
    in_namespace(&[NGINX, CURL], || {
        let mut server = Server::start(Over::Tap, "keeper");
        let old = worker();
        send(server.keeper(), Signal::KILL);
        server.ended();
        for _ in 0..5 {
            assert_eq!(ask("/pid").unwrap(), old.to_string());
        }
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "60", "-o", "/dev/null", "-w", "%{size_download}", "http://10.9.0.2/large"]);
        assert_eq!(output(&mut curl), LARGE.to_string());
        let gone = Nearside::command(["status", &old.to_string()]).output().unwrap();
        assert!(!gone.status.success(), "its page is gone with it");
        server.command("quit");
        let master = server.master();
        wait_for("nginx's end", || master.is_none_or(|master| !Path::new(&format!("/proc/{master}/exe")).exists()));
    });
}

/// A worker that forks, again and again: most children only end, and every tenth becomes a worker of
/// its own. Tells its descriptors and pages before and after; it begins when it is told to.
const FORKER: &str = "
import ctypes, os, socket, sys
libc = ctypes.CDLL(None)
def used():
    fds = len(os.listdir('/proc/self/fd'))
    return fds, int(open('/proc/self/statm').read().split()[1])
def ask(s):
    s.sendall(b'x')
    return s.recv(1) == b'x'
def fork(becomes_worker):
    child = os.fork()
    if child == 0:
        done = False
        try:
            if becomes_worker:
                with socket.create_connection(('10.9.0.1', 8001)) as s:
                    done = ask(s)
            else:
                done = True
        finally:
            # exit(3), for what the library does at the end.
            libc.exit(0 if done else 1)
    return os.waitpid(child, 0)[1] == 0
s = socket.create_connection(('10.9.0.1', 8001))
forks = int(sys.argv[1])
failed = sum(not fork(at % 10 == 0) for at in range(20))
before = used()
print('before:', flush=True)
sys.stdin.readline()
failed += sum(not fork(at % 10 == 0) for at in range(forks))
after = used()
print(failed, *before, *after, ask(s), flush=True)
sys.stdin.read()
";

/// How often it forks: 10,000 times in a soak.
fn forks() -> u32 {
    std::env::var("NEARSIDE_FORKS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

/// Echoes on each connection.
fn start_echo(listener: TcpListener) {
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut byte = [0];
                while stream.read(&mut byte).unwrap_or(0) > 0 {
                    let _ = stream.write_all(&byte);
                }
            });
        }
    });
}

fn descriptors(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

#[test]
fn forks_leave_nothing_behind() {
    in_namespace(&[Program::new("python3", "python3")], || {
        // The kernel's end of the link is there as soon as the keeper is.
        let mut command =
            Nearside::command(["run", "--link", "tap:near0,addr=10.9.0.1/24", "--addr", "10.9.0.2/24", "--library"]);
        command.arg(library()).args(["--", "sh", "-c"]);
        command.arg("while ! test -e $0; do sleep 0.02; done; exec python3 -c \"$1\" $2 < $3");
        let folder = interop::scratch("run-forks");
        let (ready, pipe) = (folder.join("ready"), folder.join("pipe"));
        for old in [&ready, &pipe] {
            let _ = fs::remove_file(old);
        }
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        command.arg(&ready).arg(FORKER).arg(forks().to_string()).arg(&pipe);
        let mut keeper = Running::start(&mut command);
        let mut listener = None;
        wait_for("the kernel's end of the link", || {
            listener = TcpListener::bind("10.9.0.1:8001").ok();
            listener.is_some()
        });
        start_echo(listener.expect("it was bound"));
        fs::write(&ready, "").unwrap();
        let mut holds_open = fs::File::options().read(true).write(true).open(&pipe).unwrap();
        let process = keeper.id();
        let is_alone = || {
            let text = output(Nearside::command(["status", "--counters"]).arg(process.to_string()));
            text.contains("1 of 16 seats are taken")
        };
        wait_for("some forks", || keeper.said().contains("before:") && is_alone());
        let before = descriptors(process);
        holds_open.write_all(b"\n").unwrap();
        wait_for("all forks", || keeper.said().contains("True") || keeper.said().contains("False"));
        let said = keeper.said();
        let words: Vec<&str> = said.trim_start_matches("before:").split_whitespace().collect();
        let [failed, fds, pages, fds_after, pages_after, works] = words[..] else { panic!("{said}") };
        assert_eq!((failed, works, fds), ("0", "True", fds_after), "{said}");
        let grown = pages_after.parse::<u64>().unwrap().saturating_sub(pages.parse().unwrap());
        assert!(grown < 256, "pages: {said}");
        wait_for("the seats to be free", is_alone);
        assert_eq!(descriptors(process), before, "the keeper's");
        drop(holds_open);
        wait_for("the program's end", || keeper.has_ended());
    });
}
