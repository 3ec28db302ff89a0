//! A file system that does not answer: the threads that read files are stopped
//! in the middle of whatever they do, as they are in a disk that fails or a
//! file server that is away; or a file system of our own (FUSE) leaves them without an answer.

use interop::fuse::{Fate, Fuse};
use interop::{ADDRESSES, Nearside, Running, STACK, TAP, ask, in_namespace, leave_out, scratch, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
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

/// Bytes of a file that is read as it is sent.
const LARGE: usize = 3 << 20;

/// Files of our own file system.
const FILMS: [&str; 7] = ["fine", "hang0", "hang1", "hang2", "hang3", "hang4", "hang5"];

fn film(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(LARGE).collect()
}

/// A folder of pages, and below it another, which is a file system of our own with these films.
fn with_films(test: &str) -> (PathBuf, Fuse) {
    let folder = scratch("hung").join(test);
    std::fs::create_dir_all(folder.join("films")).unwrap();
    (0..60).for_each(|page| std::fs::write(folder.join(format!("page{page}")), format!("this is {page}")).unwrap());
    std::fs::write(folder.join("large"), film("large")).unwrap();
    let films = FILMS.map(film);
    let files: Vec<_> = FILMS.into_iter().zip(films.iter().map(Vec::as_slice)).collect();
    let mounted = Fuse::mount(&folder.join("films"), &files);
    let fuse = mounted.unwrap_or_else(|why| leave_out(format!("no file system of our own: {why}")));
    (folder, fuse)
}

/// A client that has asked, and not read.
fn asking(address: (&str, u16), path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// The status of what comes, and its body.
fn answer(mut stream: TcpStream) -> (String, Vec<u8>) {
    let mut came = Vec::new();
    stream.read_to_end(&mut came).unwrap();
    let end = came.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&came[..end]).into_owned();
    (head.split(' ').nth(1).unwrap_or_default().to_owned(), came.split_off(end + 4))
}

fn get(address: (&str, u16), path: &str) -> (String, Vec<u8>) {
    answer(asking(address, path))
}

fn is_whole(found: &(String, Vec<u8>), name: &str) -> bool {
    found.0 == "200" && found.1 == film(name)
}

/// Nobody has asked for these pages before.
fn pages_are_there(address: (&str, u16), pages: core::ops::Range<usize>) {
    for page in pages {
        let found = get(address, &format!("/page{page}"));
        assert_eq!(found, ("200".to_owned(), format!("this is {page}").into_bytes()));
    }
}

/// Whatever hangs of one file system, what lies on others is found and read; and of that one what does not hang, as
/// long as it is little that does.
fn others_go_on(fuse: &Fuse, address: (&str, u16), fate: Fate) {
    let hang = |names: &[&str]| -> Vec<TcpStream> {
        names.iter().for_each(|name| fuse.set(name, fate));
        names.iter().map(|name| asking(address, &format!("/films/{name}"))).collect()
    };
    let mut waiting = hang(&FILMS[1..2]);
    wait_for("a request that hangs", || fuse.held() > 0);
    pages_are_there(address, 0..20);
    assert!(is_whole(&get(address, "/films/fine"), "fine"));
    assert!(is_whole(&get(address, "/large"), "large"));
    waiting.extend(hang(&FILMS[2..]));
    wait_for("two requests that hang", || fuse.held() > 1);
    pages_are_there(address, 20..60);
    assert!(is_whole(&get(address, "/large"), "large"));
    FILMS.iter().for_each(|name| fuse.set(name, Fate::Answered));
    for (name, stream) in FILMS[1..].iter().zip(waiting) {
        assert!(is_whole(&answer(stream), name), "{name}");
    }
}

#[test]
fn an_opening_that_hangs_holds_up_no_other_over_kernel_sockets() {
    in_namespace(&[], || {
        let (root, fuse) = with_films("opening-kernel");
        let words = ["serve", root.to_str().unwrap(), "--listen", "127.0.0.1:8080", "--workers", "1"];
        let mut server = Running::start(&mut Nearside::command(words));
        server.wait_until_open("127.0.0.1:8080");
        others_go_on(&fuse, ("127.0.0.1", 8080), Fate::Hangs);
        server.stop();
    });
}

/// Of a file that sendfile(2) would send, were it a disk's.
#[test]
fn a_read_that_hangs_holds_up_no_other_over_kernel_sockets() {
    in_namespace(&[], || {
        let (root, fuse) = with_films("reading-kernel");
        let words = ["serve", root.to_str().unwrap(), "--listen", "127.0.0.1:8080", "--workers", "1"];
        let mut server = Running::start(&mut Nearside::command(words));
        server.wait_until_open("127.0.0.1:8080");
        others_go_on(&fuse, ("127.0.0.1", 8080), Fate::HangsRead);
        server.stop();
    });
}

/// As root has it started: what asks where a file lies has given its rights up by then.
#[test]
fn what_hangs_holds_up_no_other_of_a_server_without_rights() {
    in_namespace(&[], || {
        for fate in [Fate::Hangs, Fate::HangsRead] {
            let (root, fuse) = with_films(&format!("confined-{fate:?}"));
            let words = [root.to_str().unwrap(), "--listen", "127.0.0.1:8080", "--workers", "1"];
            let mut server = Running::start(&mut Nearside::confined(words));
            server.wait_until_open("127.0.0.1:8080");
            others_go_on(&fuse, ("127.0.0.1", 8080), fate);
            server.stop();
        }
    });
}

/// A file is closed some time after it was sent, and whoever has it is told of that.
fn closings_hold_up_nobody(fuse: &Fuse, address: (&str, u16)) {
    for name in &FILMS[1..] {
        assert!(is_whole(&get(address, &format!("/films/{name}")), name));
    }
    FILMS[1..].iter().for_each(|name| fuse.set(name, Fate::HangsClosed));
    wait_for("a closing that hangs", || fuse.held() > 0);
    pages_are_there(address, 0..60);
    assert!(is_whole(&get(address, "/large"), "large"));
    FILMS.iter().for_each(|name| fuse.set(name, Fate::Answered));
}

#[test]
fn a_closing_that_hangs_holds_up_nobody_over_kernel_sockets() {
    in_namespace(&[], || {
        let (root, fuse) = with_films("closing-kernel");
        let words = ["serve", root.to_str().unwrap(), "--listen", "127.0.0.1:8080", "--workers", "1"];
        let mut server = Running::start(&mut Nearside::command(words));
        server.wait_until_open("127.0.0.1:8080");
        closings_hold_up_nobody(&fuse, ("127.0.0.1", 8080));
        server.stop();
    });
}

#[test]
fn a_closing_that_hangs_holds_up_nobody_over_a_link() {
    in_namespace(&[], || {
        let (root, fuse) = with_films("closing-link");
        let server = Nearside::serve([root.to_str().unwrap(), "--link", TAP]);
        closings_hold_up_nobody(&fuse, (STACK[0], 80));
        server.stop();
    });
}

#[test]
fn an_opening_that_hangs_holds_up_no_other_over_a_link() {
    in_namespace(&[], || {
        let (root, fuse) = with_films("opening-link");
        let server = Nearside::serve([root.to_str().unwrap(), "--link", TAP, "--media-memory", "16M"]);
        others_go_on(&fuse, (STACK[0], 80), Fate::Hangs);
        // Its requests hang no more, and all else was as always.
        let said = server.stop();
        assert!(!said.contains("io_uring"), "{said}");
    });
}

/// Refuses io_uring_setup(2), as sandboxes of containers do: EPERM.
fn without_io_uring(command: &mut Command) -> &mut Command {
    let refuse = || {
        const SETUP: u32 = libc::SYS_io_uring_setup as u32;
        let filter = [
            libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
            libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: SETUP },
            libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::EPERM as u32 },
            libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the program and what it points to outlive the call, which only reads them.
        let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec nothing is done but that call: no memory is asked for.
    unsafe { command.pre_exec(refuse) }
}

/// And the start says so.
#[test]
fn a_read_that_hangs_holds_up_no_other_without_io_uring() {
    in_namespace(&[], || {
        let (root, fuse) = with_films("no-ring");
        let words = ["serve", root.to_str().unwrap(), "--link", TAP, "--listen", "80", "--media-memory", "16M"];
        let mut server = Running::start(without_io_uring(Nearside::command(words).args(ADDRESSES)));
        server.wait_until_open("10.9.0.2:80");
        others_go_on(&fuse, (STACK[0], 80), Fate::HangsRead);
        let said = server.stop();
        assert!(said.contains("io_uring is not to be had (Operation not permitted"), "{said}");
    });
}

/// Nobody is to be sent to a server whose files cannot be looked for; one of them that hangs is no such thing.
#[test]
fn a_server_without_its_files_is_not_ready() {
    in_namespace(&[], || {
        let (root, fuse) = with_films("ready");
        let films = root.join("films");
        let start = |root: &Path, port: u16, metrics: &str| {
            let listen = format!("127.0.0.1:{port}");
            let words = ["serve", root.to_str().unwrap(), "--listen", &listen, "--metrics", metrics, "--workers", "1"];
            let mut server = Running::start(&mut Nearside::command(words));
            server.wait_until_open(&listen);
            server
        };
        let servers = [start(&root, 8080, "9100"), start(&films, 8081, "9101")];
        pages_are_there(("127.0.0.1", 8080), 0..1);
        assert!(is_whole(&get(("127.0.0.1", 8081), "/fine"), "fine"));
        let ready = |port: u16| get(("127.0.0.1", port), "/readyz");
        assert_eq!([9100, 9101].map(|port| ready(port).0), ["200"; 2]);
        FILMS.iter().for_each(|name| fuse.set(name, Fate::Hangs));
        let waiting = [(8080, "/films/hang0"), (8081, "/hang0")].map(|(port, path)| asking(("127.0.0.1", port), path));
        wait_for("that it is not ready", || ready(9101).0 == "503");
        let why = String::from_utf8(ready(9101).1).unwrap();
        assert!(why.starts_with("the file system has answered nothing for "), "{why}");
        assert_eq!(ready(9100).0, "200", "its pages are there");
        pages_are_there(("127.0.0.1", 8080), 1..9);
        FILMS.iter().for_each(|name| fuse.set(name, Fate::Answered));
        wait_for("that it is ready again", || ready(9101).0 == "200");
        waiting.into_iter().for_each(|stream| assert!(is_whole(&answer(stream), "hang0")));
        servers.into_iter().for_each(|server| _ = server.stop());
    });
}
