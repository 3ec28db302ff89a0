//! Processes of workers: started, looked after, and none of them left.

use control::Gone;
use core::time::Duration;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What a worker says on standard error is kept up to here, its end.
const WORDS_LIMIT: usize = 4_096;

/// Processes that are to end by themselves are given this long.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(10);

const SIGKILL: i32 = 9;

/// The processes of a test. Whoever drops this ends them.
pub struct Processes {
    program: PathBuf,
    /// What each worker finds in its environment, beside this process's.
    variables: Vec<Variables>,
    children: Vec<Option<Worker>>,
    /// Processes that the kernel ended as memory ran out, when the test began.
    killed_before: Option<u64>,
}

/// Names and values in a worker's environment.
pub type Variables = [(&'static str, String); 2];

struct Worker {
    child: Child,
    words: Arc<Mutex<Vec<u8>>>,
    ended: bool,
}

impl Processes {
    /// None so far, of as many workers as there are environments.
    pub fn new(program: PathBuf, variables: Vec<Variables>) -> Self {
        let children = variables.iter().map(|_| None).collect();
        Self { program, variables, children, killed_before: killed_for_memory() }
    }

    /// Starts a worker, if it has no process yet.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn launch(&mut self, worker: u32, arguments: &[OsString]) -> std::io::Result<()> {
        let free = self.children.get_mut(worker as usize).filter(|place| place.is_none());
        let Some(place) = free else { return Ok(()) };
        let variables = self.variables.get(worker as usize).into_iter().flatten();
        let mut child = Command::new(&self.program)
            .args(arguments)
            .envs(variables.map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for the controller, which ends them.
            .process_group(0)
            .spawn()?;
        let words = Arc::new(Mutex::new(Vec::new()));
        if let Some(stderr) = child.stderr.take() {
            let words = Arc::clone(&words);
            thread::Builder::new().name("near-words".into()).spawn(move || keep_words(stderr, &words))?;
        }
        *place = Some(Worker { child, words, ended: false });
        Ok(())
    }

    /// Workers whose process ended since the last look, and how.
    pub fn ended(&mut self) -> Vec<(u32, Gone)> {
        let before = self.killed_before;
        let mut found = Vec::new();
        for (worker, place) in self.children.iter_mut().enumerate() {
            let Some(one) = place.as_mut().filter(|one| !one.ended) else { continue };
            if let Ok(Some(status)) = one.child.try_wait() {
                one.ended = true;
                found.push((worker as u32, how(status, before)));
            }
        }
        found
    }

    /// Ends a worker at once.
    pub fn kill(&mut self, worker: u32) {
        if let Some(Some(one)) = self.children.get_mut(worker as usize)
            && !one.ended
        {
            // It may have ended by itself.
            let _ = one.child.kill();
        }
    }

    /// The last words of a worker on standard error.
    pub fn words(&self, worker: u32) -> String {
        let Some(Some(one)) = self.children.get(worker as usize) else { return String::new() };
        let words = one.words.lock().unwrap_or_else(PoisonError::into_inner);
        messages::shown(&String::from_utf8_lossy(&words))
    }

    /// Waits for all to end, and ends those that do not.
    pub fn finish(&mut self) {
        let mut waited = Duration::ZERO;
        while waited < END_PATIENCE && self.children.iter_mut().flatten().any(|one| one.is_running()) {
            thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
        for one in self.children.iter_mut().flatten().filter(|one| !one.ended) {
            let _ = one.child.kill();
            // Its place in the table of processes.
            let _ = one.child.wait();
            one.ended = true;
        }
    }
}

impl Worker {
    fn is_running(&mut self) -> bool {
        self.ended |= self.child.try_wait().is_ok_and(|status| status.is_some());
        !self.ended
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for worker in 0..self.children.len() as u32 {
            self.kill(worker);
        }
        self.finish();
    }
}

fn how(status: ExitStatus, killed_before: Option<u64>) -> Gone {
    match (status.code(), status.signal()) {
        (Some(code), _) => Gone::Code(code),
        (None, Some(SIGKILL)) if is_more(killed_for_memory(), killed_before) => Gone::OutOfMemory,
        (None, signal) => Gone::Signal(signal.unwrap_or_default()),
    }
}

fn is_more(now: Option<u64>, before: Option<u64>) -> bool {
    now.zip(before).is_some_and(|(now, before)| now > before)
}

/// Processes that the kernel ended since it started, as memory ran out.
fn killed_for_memory() -> Option<u64> {
    let known = fs::read_to_string("/proc/vmstat").ok()?;
    known.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// Keeps the end of what a process says.
fn keep_words(mut stderr: ChildStderr, words: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 1_024];
    while let Ok(read @ 1..) = stderr.read(&mut bytes) {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(bytes.get(..read).unwrap_or_default());
        let over = words.len().saturating_sub(WORDS_LIMIT);
        words.drain(..over);
    }
}
