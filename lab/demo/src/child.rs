//! Programs that the demo starts: pinned to a core, watched, and ended with
//! it whatever happens.

use crate::error::Error;
use crate::machine::now;
use cpu::process_stat::{self, ProcessStat};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How long a program may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// How often waiting looks up. Coarse, so that it costs the measured
/// programs nothing that could be seen.
const NAP: Duration = Duration::from_millis(20);

/// More than nothing after Ctrl-C or SIGTERM; every wait looks at it.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Takes both signals from their default, which would end the process
    /// without cleaning up.
    pub fn watch() -> Result<Self, Error> {
        let flag = Arc::new(AtomicUsize::new(0));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let seen = signal_hook::flag::register_usize(signal, Arc::clone(&flag), 1);
            seen.map_err(Error::io("cannot watch for Ctrl-C"))?;
        }
        Ok(Self(flag))
    }

    /// Of signals that somebody counts already.
    #[must_use]
    pub const fn of(count: Arc<AtomicUsize>) -> Self {
        Self(count)
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// After Ctrl-C.
    pub fn check(&self) -> Result<(), Error> {
        if self.0.load(Ordering::Relaxed) > 0 { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Sleeps, but not through an interrupt.
    pub fn sleep(&self, span: Duration) -> Result<(), Error> {
        let end = now() + span;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(NAP));
        }
    }
}

/// What to start, and where.
pub struct Program<'a> {
    /// The name for messages.
    pub name: &'a str,
    /// The network namespace to run in.
    pub netns: Option<&'a str>,
    /// The core to run on.
    pub core: Option<u16>,
    /// The program and its arguments.
    pub words: Vec<String>,
}

/// A program that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    out: File,
    err: File,
}

impl Program<'_> {
    /// Starts the program, its output kept in files under `dir`.
    ///
    /// It is started through `ip netns exec`, `taskset` and `setpriv`, each of
    /// which replaces itself by the next, so that the process is the program
    /// in the end. It dies with this process, even if that is killed.
    pub fn start(self, dir: &Path) -> Result<Running, Error> {
        let mut words: Vec<String> = Vec::new();
        if let Some(netns) = self.netns {
            words.extend(["ip", "netns", "exec", netns].map(str::to_owned));
        }
        if let Some(core) = self.core {
            words.extend(["taskset".to_owned(), "--cpu-list".to_owned(), core.to_string()]);
        }
        words.extend(["setpriv", "--pdeathsig", "KILL"].map(str::to_owned));
        words.extend(self.words);
        let open = |kind: &str| {
            let path = dir.join(format!("{}.{kind}", self.name.replace(' ', "-")));
            let options = &mut File::options();
            let file = options.read(true).write(true).create(true).truncate(true).open(&path);
            file.map_err(Error::io(format!("cannot make {}", path.display())))
        };
        let (out, err) = (open("out")?, open("err")?);
        let share = |file: &File| file.try_clone().map(Stdio::from).map_err(Error::io("cannot share a file"));
        let child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(share(&out)?)
            .stderr(share(&err)?)
            .spawn()
            .map_err(Error::io(format!("cannot start {}", self.name)))?;
        Ok(Running { name: self.name.to_owned(), child, out, err })
    }
}

impl Running {
    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to standard output so far.
    pub fn output(&mut self) -> String {
        read_all(&mut self.out)
    }

    /// An error if it ended, which a server should not.
    pub fn still_runs(&mut self) -> Result<(), Error> {
        match self.child.try_wait().map_err(Error::io(format!("cannot watch {}", self.name)))? {
            None => Ok(()),
            Some(status) => Err(self.failure(status)),
        }
    }

    /// Waits until `ready`, at most for `limit`.
    pub fn wait_until(
        &mut self,
        what: &str,
        limit: Duration,
        interrupt: &Interrupt,
        mut ready: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let end = now() + limit;
        while !ready() {
            self.still_runs()?;
            if now() > end {
                return Err(Error::Machine(format!("{} did not {what} within {limit:?}", self.name)));
            }
            interrupt.sleep(NAP)?;
        }
        Ok(())
    }

    /// Waits for its end, at most for `limit`, and returns its output.
    pub fn finish(&mut self, limit: Duration, interrupt: &Interrupt) -> Result<String, Error> {
        match self.ended(limit, interrupt)? {
            status if status.success() => Ok(self.output()),
            status => Err(self.failure(status)),
        }
    }

    /// Waits for its end, at most for `limit`, however it ends.
    pub fn ended(&mut self, limit: Duration, interrupt: &Interrupt) -> Result<ExitStatus, Error> {
        let end = now() + limit;
        loop {
            let status = self.child.try_wait().map_err(Error::io(format!("cannot watch {}", self.name)))?;
            match status {
                Some(status) => return Ok(status),
                None if now() > end => {
                    return Err(Error::Machine(format!("{} did not end within {limit:?}", self.name)));
                }
                None => interrupt.sleep(NAP)?,
            }
        }
    }

    /// Ticks of processor time that it has used (proc(5), stat: utime and stime).
    #[must_use]
    pub fn processor_ticks(&self) -> Option<u64> {
        let line = process_stat::line_of(self.child.id())?;
        let (user, system) = ProcessStat::parse(&line)?.ticks()?;
        Some(user + system)
    }

    /// The last lines that it wrote to standard error.
    pub fn complaint(&mut self) -> String {
        let said = read_all(&mut self.err);
        let lines: Vec<&str> = said.trim_end().lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    fn failure(&mut self, status: ExitStatus) -> Error {
        Error::Program { name: self.name.clone(), status, said: self.complaint() }
    }

    /// Asks it to end, and makes it end if it does not.
    pub fn end(&mut self) {
        self.end_within(GRACE);
    }

    /// The same of one that has something to say at its end, for which it has so long.
    pub fn end_within(&mut self, grace: Duration) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // Fails only if it ended meanwhile.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let end = now() + grace;
        while now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(NAP);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads from the start; the program writes through the same open file, so
/// the place must be put back to the end, where it will write on.
fn read_all(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes));
    let _ = read.and_then(|_| file.seek(SeekFrom::End(0)));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs a short command to its end, for setting up.
pub fn call(words: &[&str]) -> Result<String, Error> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(Error::io(format!("cannot run {}", words[0])))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(Error::Program { name: words.join(" "), status: output.status, said })
}

/// What names of the demo's own begin with; the process id follows.
pub const PREFIX: &str = "nearside-demo-";

/// Whether a name is of a demo whose process is gone.
pub fn is_stale(name: &str) -> bool {
    let id = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    id.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists())
}
