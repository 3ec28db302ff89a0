//! A network namespace for each test, or the reason why there is none.

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A program that a test needs, and the Debian package that has it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The command.
    pub name: &'static str,
    /// The package.
    pub package: &'static str,
}

impl Program {
    /// The command `name` of `package`.
    #[must_use]
    pub const fn new(name: &'static str, package: &'static str) -> Self {
        Self { name, package }
    }

    fn is_there(self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Servers are kept where only root looks.
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        folders.map(|folder| folder.join(self.name)).any(|file| file.is_file())
    }
}

/// Runs `test` on a thread in a new network namespace, with the loopback up.
///
/// Where it cannot run it prints why and returns, so that the tests pass on a
/// machine without the programs or the rights. With `CI` or
/// `NEARSIDE_REQUIRE_TOOLS` in the environment it fails instead, so that a
/// machine that is meant to run them all does.
///
/// # Panics
/// If the test does.
pub fn in_namespace(programs: &[Program], test: impl FnOnce() + Send + 'static) {
    if let Some(missing) = programs.iter().find(|program| !program.is_there()) {
        skip(&format!("{} is not installed; run: apt-get install {}", missing.name, missing.package));
        return;
    }
    let thread = thread::spawn(move || {
        // SAFETY: takes flags by value and moves only this thread.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            skip("this user may not make a network namespace; run as root");
        } else if let Err(e) = File::options().read(true).write(true).open("/dev/net/tun") {
            skip(&format!("/dev/net/tun does not open ({e}); run: modprobe tun"));
        } else {
            ip("link set lo up");
            test();
        }
    });
    match thread.join().map_err(|panic| panic.downcast::<LeftOut>()) {
        Ok(()) => {}
        Err(Ok(left)) => println!("left out: {}", left.0),
        Err(Err(panic)) => std::panic::resume_unwind(panic),
    }
}

/// Why a test ends that this machine cannot run to its end.
struct LeftOut(String);

/// Ends a test that runs [`in_namespace`] because the machine has not now what it needs
/// (memory, a device). This says why, and nothing of what it tests has failed.
pub fn leave_out(why: String) -> ! {
    // Past the hook: it is no panic that anybody wants a backtrace of.
    std::panic::resume_unwind(Box::new(LeftOut(why)))
}

fn skip(why: &str) {
    let required = ["CI", "NEARSIDE_REQUIRE_TOOLS"].iter().any(|name| std::env::var_os(name).is_some());
    assert!(!required, "cannot run: {why}");
    println!("skipped: {why}");
}

/// Runs `ip` of iproute2 with these words.
///
/// # Panics
/// If it fails.
pub fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().expect("ip (package iproute2) starts");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Asks again and again until `ready` says so, however long that takes: a machine that others
/// use takes its time. Each minute it tells `what` it waits for, past libtest, which would
/// keep that to itself.
///
/// # Panics
/// Shortly before the suite kills this program, which it does after a time ([`END`]).
pub fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let begin = clock();
    let mut told = begin;
    while !ready() {
        if clock().duration_since(told) >= TOLD_EACH {
            told = clock();
            let minutes = told.duration_since(begin).as_secs() / 60;
            // Who cannot hear it learns of it by the suite.
            let _ = writeln!(std::io::stderr(), "waiting for {minutes} min: {what}");
            assert!(!is_nearly_over(), "waited for {minutes} min: {what}");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// How often it is told what is waited for.
const TOLD_EACH: Duration = Duration::from_secs(60);

/// When the suite kills the program, in seconds since 1970.
const END: &str = "NEARSIDE_TESTS_END";

/// Whether the suite kills this program before the next look.
fn is_nearly_over() -> bool {
    let end = std::env::var(END).ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    #[expect(clippy::disallowed_methods, reason = "another process has named the time")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    end.zip(now.ok()).is_some_and(|(end, now)| now + 2 * TOLD_EACH > end)
}

#[expect(clippy::disallowed_methods, reason = "other programs answer in their own time")]
fn clock() -> Instant {
    Instant::now()
}
