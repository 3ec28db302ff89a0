//! Programs that a test has beside it: this one in another role, testpmd, ip.

use say::Failure;
use serde_json::Value;
use silo::Clock;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How often a child is looked after.
const LOOK: Duration = Duration::from_millis(20);
/// Time to end in after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// Lines of what it said that a failure quotes.
const QUOTED: usize = 6;

/// A program that runs. Dropping it ends it; it dies with this process, too.
pub struct Companion {
    name: String,
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Companion {
    /// Starts it, in a network namespace if one is named, with its output in
    /// `folder`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(folder: &Path, name: &str, netns: Option<&str>, words: &[String]) -> Result<Self, Failure> {
        let mut all: Vec<String> = Vec::new();
        if let Some(netns) = netns {
            all.extend(["ip", "netns", "exec", netns].map(str::to_owned));
        }
        all.extend(["setpriv", "--pdeathsig", "KILL"].map(str::to_owned));
        all.extend(words.iter().cloned());
        let (out, err) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.err")));
        let open = |path: &Path| {
            File::create(path).map_err(|why| Failure::from(format!("cannot make {}: {why}", path.display())))
        };
        let child = Command::new(&all[0])
            .args(&all[1..])
            .stdin(Stdio::null())
            .stdout(open(&out)?)
            .stderr(open(&err)?)
            .spawn()
            .map_err(|why| format!("cannot start {} for {name}: {why}", all[0]))?;
        Ok(Self { name: name.to_owned(), child, out, err })
    }

    /// What it wrote to standard output so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// An error if it ended.
    ///
    /// # Errors
    /// With the end of what it said.
    pub fn still_runs(&mut self) -> Result<(), Failure> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(self.failure(status)),
        }
    }

    /// Ticks of processor time that it has used (proc(5), stat: utime and stime).
    pub fn processor_ticks(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // Behind the name, which may have anything in it.
        let mut words = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
        Some(words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?)
    }

    /// Waits for its end, as long as no signal came, and gives what it wrote
    /// and how it ended.
    ///
    /// # Errors
    /// If it takes longer than `limit`.
    pub fn finish(mut self, limit: Duration, signals: &AtomicUsize) -> Result<(String, ExitStatus), Failure> {
        let began = Clock.now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok((self.said(), status));
            }
            if signals.load(Ordering::Relaxed) > 0 || Clock.now().since(began) > limit {
                let told = if signals.load(Ordering::Relaxed) > 0 { "was told to end" } else { "takes too long" };
                self.end();
                return Err(format!("{} {told}", self.name).into());
            }
            thread::sleep(LOOK);
        }
    }

    /// Tells it to end, and what it wrote until then.
    pub fn stop(mut self) -> String {
        self.end();
        self.said()
    }

    fn end(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // Fails only if it has ended meanwhile.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let began = Clock.now();
        while Clock.now().since(began) < GRACE {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn failure(&self, status: ExitStatus) -> Failure {
        format!("{} ended ({status}): {}", self.name, self.complaint()).into()
    }

    /// The end of what it wrote to standard error.
    pub fn complaint(&self) -> String {
        let said = fs::read_to_string(&self.err).unwrap_or_default();
        let lines: Vec<&str> = said.trim_end().lines().collect();
        lines[lines.len().saturating_sub(QUOTED)..].join("; ")
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.end();
    }
}

/// This program with other words.
///
/// # Errors
/// If it does not know where it is.
pub fn own(words: &[&str]) -> Result<Vec<String>, Failure> {
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or("this program's path is no text")?.to_owned();
    Ok(core::iter::once(program).chain(words.iter().map(|word| (*word).to_owned())).collect())
}

/// Runs a short command to its end.
///
/// # Errors
/// With what it said.
pub fn call(words: &[&str]) -> Result<String, Failure> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|why| format!("cannot run {}: {why}", words[0]))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(format!("{}: {said} ({})", words.join(" "), output.status).into())
}

/// What a child of ours printed as JSON.
///
/// # Errors
/// If it is none.
pub fn parse(name: &str, said: &str) -> Result<Value, Failure> {
    serde_json::from_str(said).map_err(|why| format!("{name} printed no JSON ({why}): {said}").into())
}

/// A folder of this run's own, which goes with it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one that nobody else may look into.
    ///
    /// # Errors
    /// The system's.
    pub fn make() -> Result<Self, Failure> {
        use std::os::unix::fs::DirBuilderExt;
        let random = crate::load::seed(None)? as u32;
        let path = std::env::temp_dir().join(format!("nearside-packet-{}-{random:08x}", std::process::id()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|why| format!("cannot make {}: {why}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
