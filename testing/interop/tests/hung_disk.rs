//! A file system that does not answer: the threads that read files are stopped
//! in the middle of whatever they do, as they are in a disk that fails or a
//! file server that is away.

use interop::{Nearside, Running, STACK, TAP, ask, in_namespace, scratch, wait_for};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// A thread that stands still until this is dropped. Stopped, let go and asked
/// about by the thread that made it, and by no other (ptrace(2)).
struct Still(libc::pid_t);

impl Still {
    fn new(thread: libc::pid_t) -> Self {
        // SAFETY: neither call is given an address; they concern a thread of a
        // child of ours.
        let stopped = unsafe {
            libc::ptrace(libc::PTRACE_SEIZE, thread, 0, 0) == 0
                && libc::ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0) == 0
        };
        assert!(stopped, "cannot trace: {}", std::io::Error::last_os_error());
        let mut status = 0;
        // SAFETY: `status` is ours and outlives the call.
        let waited = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
        assert_eq!(waited, thread);
        Self(thread)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, 0, 0) };
    }
}

/// The threads that read files.
fn readers(server: &Running) -> Vec<libc::pid_t> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap().map(|thread| thread.unwrap());
    let reads = threads.filter(|thread| {
        std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default().trim_end() == "file-reader"
    });
    reads.map(|thread| thread.file_name().to_str().unwrap().parse().unwrap()).collect()
}

fn site(test: &str) -> PathBuf {
    let folder = scratch("hung").join(test);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("page.txt"), "first").unwrap();
    std::fs::write(folder.join("large.txt"), "x".repeat(10_000)).unwrap();
    folder
}

/// Longer than any look at a file counts, and than a hang goes unnoticed.
const ROUNDS: u32 = 25;
const PAUSE: Duration = Duration::from_millis(200);

fn goes_on(server: Running, root: &std::path::Path, address: (&str, u16)) {
    let open = || {
        let stream = TcpStream::connect(address).unwrap();
        // Less than the time after which a request that waits for the file
        // system is given up.
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> = (0..8).map(|_| open()).collect();
    for stream in &mut streams {
        assert_eq!(ask(stream, "/page.txt"), "first");
        assert_eq!(ask(stream, "/large.txt").len(), 10_000);
    }
    let still: Vec<Still> = readers(&server).into_iter().map(Still::new).collect();
    assert!(!still.is_empty(), "there is a thread that reads");
    std::fs::write(root.join("page.txt"), "second").unwrap();
    // What is not in memory waits, and nobody with it.
    let mut waiting = open();
    std::io::Write::write_all(&mut waiting, b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    for _ in 0..ROUNDS {
        for stream in &mut streams {
            assert_eq!(ask(stream, "/page.txt"), "first");
            assert_eq!(ask(stream, "/large.txt").len(), 10_000);
        }
        std::thread::sleep(PAUSE);
    }
    drop(still);
    wait_for("the newer content", || ask(&mut streams[0], "/page.txt") == "second");
    server.stop();
}

#[test]
fn what_is_in_memory_is_served_on_over_kernel_sockets() {
    in_namespace(&[], || {
        let root = site("kernel");
        let words = ["serve", root.to_str().unwrap(), "--listen", "127.0.0.1:8080"];
        let mut server = Running::start(&mut Nearside::command(words));
        server.wait_until_open("127.0.0.1:8080");
        goes_on(server, &root, ("127.0.0.1", 8080));
    });
}

#[test]
fn what_is_in_memory_is_served_on_over_a_link() {
    in_namespace(&[], || {
        let root = site("link");
        let server = Nearside::serve([root.to_str().unwrap(), "--link", TAP]);
        goes_on(server, &root, (STACK[0], 80));
    });
}
