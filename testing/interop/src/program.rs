//! The program under test and its peers, as child processes.

use crate::site::build_folder;
use crate::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// The program `nearside`, built once from this workspace in the profile of
/// the tests; or the one that `NEARSIDE_BINARY` names.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(named) = std::env::var_os("NEARSIDE_BINARY") {
            return named.into();
        }
        build()
    })
}

/// Whether DPDK can be built with: the program under test then has it.
#[must_use]
pub fn has_libdpdk() -> bool {
    let found = Command::new("pkg-config").args(["--exists", "libdpdk"]).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// As `make test` builds the workspace, so that nothing is built twice.
fn build() -> PathBuf {
    let folder = build_folder();
    let profile = match folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "cli", "--package", "command", "--profile", profile]);
    build.args(has_libdpdk().then_some("--features=cli/dpdk"));
    build.arg("--target-dir").arg(folder.parent().expect("a profile's folder lies in the target folder"));
    let built = build.status().expect("cargo starts");
    assert!(built.success(), "the program does not build");
    folder.join("nearside")
}

/// A child process that does not outlive this value.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    /// What it says, shown if the test fails.
    log: File,
}

impl Running {
    /// Starts `command`.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        let name = format!("{command:?}");
        let log = temporary().expect("a file for what it says");
        let (out, err) = (log.try_clone(), log.try_clone());
        let streams = out.and_then(|out| Ok((out, err?))).expect("a file can be shared");
        let child = command.stdin(Stdio::null()).stdout(streams.0).stderr(streams.1).spawn();
        let child = child.unwrap_or_else(|e| panic!("{name}: {e}"));
        Self { name, child, log }
    }

    /// Waits until it takes a TCP connection at `address`.
    ///
    /// # Panics
    /// If it does not in time, or ends.
    pub fn wait_until_open(&mut self, address: &str) {
        let address: SocketAddr = address.parse().expect("an address with a port");
        wait_for(&format!("a connection to {address}"), || {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("{}: ended early, {status}", self.name);
            }
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
        });
    }

    /// Its number as a process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// If that cannot be asked.
    pub fn has_ended(&mut self) -> bool {
        self.ended().is_some()
    }

    /// How it ended, if it has.
    ///
    /// # Panics
    /// If that cannot be asked.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it does not take it.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a child takes signals");
    }

    /// Asks it to end (SIGTERM) and waits until it has; it must end well.
    /// Returns everything that it said.
    ///
    /// # Panics
    /// If it does not end in time, or with a failure.
    pub fn stop(self) -> String {
        self.end(false)
    }

    /// Asks it to end twice, which means at once. A third time would have its parent, if
    /// it has one, kill it.
    ///
    /// # Panics
    /// As [`Running::stop`].
    pub fn stop_at_once(self) {
        self.end(true);
    }

    fn end(mut self, insist: bool) -> String {
        self.signal(Signal::TERM);
        let (mut ended, mut looks) = (None, 0);
        wait_for(&format!("{}: the end after SIGTERM", self.name), || {
            ended = self.child.try_wait().expect("a child can be waited for");
            looks += 1;
            // Two signals at once may count as one.
            if ended.is_none() && insist && looks == 5 {
                self.signal(Signal::TERM);
            }
            ended.is_some()
        });
        let ended = ended.expect("it has ended");
        assert!(ended.success(), "{}: {ended} after SIGTERM", self.name);
        self.said()
    }

    /// Whether it has ended, and then whether well.
    ///
    /// # Panics
    /// If it cannot be asked for.
    pub fn ended_well(&mut self) -> Option<bool> {
        self.ended().map(|status| status.success())
    }

    /// Everything that it has said so far.
    ///
    /// # Panics
    /// If that cannot be read.
    pub fn said(&self) -> String {
        // At its own offset: the child writes at the file's.
        let len = self.log.metadata().expect("a file has a length").len();
        let mut text = vec![0; usize::try_from(len).expect("a log fits into memory")];
        self.log.read_exact_at(&mut text, 0).expect("a file can be read");
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended takes no harm.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            println!("--- {} said:\n{}---", self.name, self.said());
        }
    }
}

/// The program under test.
#[derive(Clone, Copy, Debug)]
pub struct Nearside;

impl Nearside {
    /// A command with these arguments. A server keeps the rights of the test:
    /// its process is the one that is started then.
    #[must_use]
    pub fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(binary());
        for argument in arguments {
            command.arg(&argument);
            command.args((argument.as_ref() == "serve").then_some("--user=root"));
        }
        command
    }

    /// A command that serves with these arguments, and gives root up as users
    /// have it.
    #[must_use]
    pub fn confined<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(binary());
        command.arg("serve").args(arguments);
        command
    }

    /// Starts `nearside serve` with these arguments and waits until our
    /// stack answers on port 80.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    pub fn serve<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Running {
        let mut command = Self::command(["serve"]);
        command.args(crate::ADDRESSES).args(["--listen", "80"]).args(arguments);
        let mut running = Running::start(&mut command);
        running.wait_until_open("10.9.0.2:80");
        running
    }
}

/// Runs `command` to its end and returns what it wrote.
///
/// # Panics
/// If it does not start, or fails.
#[must_use]
pub fn output(command: &mut Command) -> String {
    let name = format!("{command:?}");
    let Output { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{name}: {e}"));
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{name}: {status}\n{out}\n{err}");
    out.into_owned()
}

/// A file without a name, gone when it is closed.
fn temporary() -> io::Result<File> {
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    Ok(rustix::fs::open(std::env::temp_dir(), flags, mode)?.into())
}
