//! The keep-alive fast path allocates nothing and makes no system call; nor does a request
//! that is passed on allocate anything.
//!
//! Both are shown over the pair, which makes none of its own: what is left is
//! the server's, the stack's and the silo's.

use crate::cost::by_conf;
use crate::ordinary::passing;
use crate::peer::{Answerer, Asker};
use crate::rig::{Rig, endless};
use link::Link;
use load::Plan;
use server::{Config, Content, ReaderKind, Respond};
use silo::memory::{CountingAlloc, HugeAlloc, allocations};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

#[global_allocator]
static ALLOCATOR: CountingAlloc<HugeAlloc> = CountingAlloc::new(HugeAlloc);

/// Requests under watch.
const REQUESTS: u64 = 10_000;

/// Set in the process that seals itself.
const SEALED: &str = "NEARSIDE_BENCH_SEALED";

/// What is to be served, by whom it is asked for, and the folder that it is in.
fn served(what: &str, connections: u32) -> (Config, Plan, Option<Site>) {
    let (config, path, site) = if what.ends_with("file") {
        let site = Site::make(connections);
        let mut config = Config::directory(&site.0);
        if let Content::Directory(directory) = &mut config.content {
            directory.reader = ReaderKind::Inline;
        }
        (config, "/page.html", Some(site))
    } else {
        (Config::respond(Respond::Text("Hello, World!".into())), "/", None)
    };
    let mut plan = endless(path);
    plan.connections = connections;
    (config, plan, site)
}

/// Whether connections are secured.
fn is_secured(what: &str) -> bool {
    what.starts_with("secured")
}

/// Allocations of the server while it answers requests, warm.
fn allocated<L: Link, A: Asker, S: Answerer>(mut rig: Rig<L, A, S>) -> u64 {
    rig.warm_up(2_000).expect("requests are answered");
    let start = rig.requests();
    let mut allocated = 0;
    while rig.requests() - start < REQUESTS {
        let before = allocations();
        rig.server_turn();
        allocated += allocations() - before;
        rig.client_turn();
    }
    allocated
}

#[test]
fn the_server_allocates_nothing() {
    for what in ["text", "file", "secured text", "secured file"] {
        for connections in [1, 64] {
            let (config, plan, _site) = served(what, connections);
            let allocated = match is_secured(what) {
                true => allocated(Rig::secured(config, plan).expect("a sound plan")),
                false => allocated(Rig::new(config, plan).expect("a sound plan")),
            };
            assert_eq!(allocated, 0, "{what}, {connections} connections");
        }
    }
}

#[test]
fn a_request_that_is_passed_on_allocates_nothing() {
    for connections in [1, 64] {
        let site = Site::make(1_000 + connections);
        let config = by_conf(&site.0, &passing("", "10.0.1.1:8080")).expect("a sound configuration");
        let mut plan = endless("/");
        plan.connections = connections;
        let answering = Config::respond(Respond::Text("Hello, World!".into()));
        let rig = Rig::passing(config, plan, answering).expect("a sound plan");
        assert_eq!(allocated(rig), 0, "{connections} connections");
    }
}

#[test]
fn allocations_would_be_seen() {
    let before = allocations();
    drop(std::hint::black_box(vec![0_u8; 100]));
    assert_eq!(allocations() - before, 1);
}

#[test]
fn no_system_call_is_made() {
    match std::env::var(SEALED) {
        Ok(what) => sealed(&what),
        Err(_) => {
            for what in ["text", "file", "secured text", "secured file"] {
                let status = run_sealed(what);
                assert_eq!(status.code(), Some(0), "{what}: {status}");
            }
            // That the seal holds: one harmless call ends the process.
            assert_eq!(run_sealed("getppid").signal(), Some(libc::SIGSYS));
        }
    }
}

/// This test again, in a process of its own that does `what` under the seal.
fn run_sealed(what: &str) -> ExitStatus {
    let this = std::env::current_exe().expect("a path to this program");
    let mut command = Command::new(this);
    command.args(["--exact", "fast_path::no_system_call_is_made", "--nocapture"]).env(SEALED, what);
    command.output().expect("the test can run itself").status
}

/// Serves under the seal, and ends the process with 0.
fn sealed(what: &str) -> ! {
    let (config, plan, site) = served(what, 64);
    match is_secured(what) {
        true => serve_sealed(what, Rig::secured(config, plan).expect("a sound plan"), site),
        false => serve_sealed(what, Rig::new(config, plan).expect("a sound plan"), site),
    }
}

fn serve_sealed<L: Link, A: Asker, S: Answerer>(what: &str, mut rig: Rig<L, A, S>, site: Option<Site>) -> ! {
    rig.warm_up(2_000).expect("requests are answered");
    // Nothing can be removed from behind the seal; the file is in memory.
    drop(site);
    let end = rig.requests() + REQUESTS;
    seal();
    if what == "getppid" {
        // SAFETY: takes nothing, touches nothing.
        unsafe { libc::getppid() };
    }
    while rig.requests() < end {
        rig.round();
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

/// From here on any system call of this thread but the one that ends the
/// process kills the process (seccomp(2), in filter mode).
fn seal() {
    let instruction =
        |code: u32, jump_true, jump_false, k| libc::sock_filter { code: code as u16, jt: jump_true, jf: jump_false, k };
    let mut filter = [
        // The number of the call is the first field of seccomp_data.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_exit_group as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its four instructions are alive during the
    // calls, which copy them.
    let sealed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(sealed, "the kernel takes no filter: {}", std::io::Error::last_os_error());
}

/// A folder with a file, removed when dropped.
struct Site(PathBuf);

impl Site {
    fn make(number: u32) -> Self {
        let folder = std::env::temp_dir().join(format!("nearside-fast-path-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).expect("a new folder");
        std::fs::write(folder.join("page.html"), [b'x'; 2_649]).expect("a new file");
        Self(folder)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
