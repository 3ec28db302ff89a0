//! The process that serves, and those that follow it.

use crate::{Failure, wait_for};
use random::SplitMix64;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The small file, and the large one, of which the second is larger than what
/// is held in memory.
pub const FILES: [(&str, usize); 2] = [("small.txt", 700), ("large.bin", 1_000_000)];

/// A folder with a site, a server's log and its sockets, and every process
/// that served from it. Dropping it ends them all.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    folder: PathBuf,
    /// Where it listens, besides its Unix socket.
    pub port: u16,
    pids: Vec<u32>,
}

impl Server {
    /// A folder of its own for a server that is `program`, which is not
    /// started yet.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn new(program: &Path, folder: &Path) -> Result<Self, Failure> {
        // Those whose parent ends are ours to wait for.
        set_child_subreaper(Some(getpid()))?;
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder.join("site"))?;
        for (name, size) in FILES {
            fs::write(folder.join("site").join(name), content(size))?;
        }
        // Free now, and taken below by the server alone: ports of this range
        // are given to nobody who does not name one twice in a row.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        Ok(Self { program: program.to_owned(), folder: folder.to_owned(), port, pids: Vec::new() })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The Unix socket that is served.
    #[must_use]
    pub fn unix(&self) -> PathBuf {
        self.folder.join("web.sock")
    }

    /// The control socket.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.folder.join("control")
    }

    /// A command that serves the site, with `more` arguments.
    #[must_use]
    pub fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // Its process is the one that is started then.
        command.arg("serve").arg("--user=root").arg(self.folder.join("site"));
        command.args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        command.args(["--listen", &format!("unix:{}", self.unix().display())]);
        command.arg("--pid-file").arg(self.folder.join("pid")).arg("--control").arg(self.control());
        command.arg("--status-page").arg(self.folder.join("status")).arg("--access-log");
        command.arg(self.folder.join("access.log")).args(more);
        command
    }

    /// Starts `command`, what it says going to the log, and waits until it
    /// serves. Returns its process id.
    ///
    /// # Errors
    /// If it does not serve.
    pub fn start(&mut self, command: &mut Command) -> Result<u32, Failure> {
        let log = File::options().create(true).append(true).open(self.folder.join("log"))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let pid = child.id();
        self.pids.push(pid);
        wait_for("the start of the server", || {
            if has_ended(pid) {
                return Err(format!("process {pid} ended; the log:\n{}", self.log()).into());
            }
            Ok((self.serving() == Some(pid)).then_some(pid))
        })
    }

    /// Has the process that serves start its successor (SIGUSR2), and waits
    /// until that serves. Returns its process id.
    ///
    /// # Errors
    /// If it does not serve.
    pub fn restart(&mut self) -> Result<u32, Failure> {
        let old = self.serving().ok_or("nobody serves")?;
        signal(old, Signal::USR2)?;
        let new = wait_for("the successor", || Ok(self.serving().filter(|new| *new != old)));
        let new = new.map_err(|why| format!("{why}; the log:\n{}", self.log()))?;
        self.pids.push(new);
        Ok(new)
    }

    /// The process that serves, as its file says.
    #[must_use]
    pub fn serving(&self) -> Option<u32> {
        fs::read_to_string(self.folder.join("pid")).ok()?.trim().parse().ok()
    }

    /// Everything that was said so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Waits until the log says `text`.
    ///
    /// # Errors
    /// If it never does.
    pub fn wait_until_said(&self, text: &str) -> Result<(), Failure> {
        let said = wait_for(text, || Ok(self.log().contains(text).then_some(())));
        said.map_err(|why| format!("{why}; the log:\n{}", self.log()).into())
    }

    /// Waits until process `pid` has ended.
    ///
    /// # Errors
    /// If it does not.
    pub fn wait_until_ended(&self, pid: u32) -> Result<(), Failure> {
        wait_for(&format!("the end of process {pid}"), || Ok(has_ended(pid).then_some(())))
            .map_err(|why| format!("{why}; the log:\n{}", self.log()).into())
    }

    /// Asks the process that serves to stop, and waits until it and all
    /// before it have ended.
    ///
    /// # Errors
    /// If one does not.
    pub fn stop(self) -> Result<(), Failure> {
        let serving = self.serving().ok_or("nobody serves")?;
        signal(serving, Signal::TERM)?;
        for &pid in &self.pids {
            self.wait_until_ended(pid)?;
        }
        if self.folder.join("pid").exists() || self.unix().exists() || self.control().exists() {
            return Err(format!("something is left behind in {}", self.folder.display()).into());
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that nobody waited for yet.
        self.pids.extend(self.serving());
        for &pid in &self.pids {
            if !has_ended(pid) {
                let _ = signal(pid, Signal::KILL);
                let _ = self.wait_until_ended(pid);
            }
        }
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Sends a signal to a process.
///
/// # Errors
/// If there is none.
pub fn signal(pid: u32, signal: Signal) -> Result<(), Failure> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("no process has this number")?;
    Ok(kill_process(pid, signal)?)
}

/// Whether a process, ours to wait for, has ended; then nothing is left of it.
#[must_use]
pub fn has_ended(pid: u32) -> bool {
    let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    // Not ours while its parent lives.
    let _ = waitpid(Some(id), WaitOptions::NOHANG);
    !is_below_us(pid)
}

/// Whether this number is that of a process below this one, as all are that were started
/// from here: those whose parent ends are given to us. The number of one that has ended
/// may be another's since, or that of another's thread.
fn is_below_us(pid: u32) -> bool {
    let of = |pid: u32, name: &str| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    let own = std::process::id();
    let mut at = of(pid, "Tgid:").filter(|process| *process == pid);
    while let Some(process) = at.filter(|process| *process > 1) {
        if process == own {
            return true;
        }
        at = of(process, "PPid:");
    }
    false
}

/// `size` bytes of which each word is another.
#[must_use]
pub fn content(size: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(size as u64);
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        bytes.extend(random.bits().to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}
