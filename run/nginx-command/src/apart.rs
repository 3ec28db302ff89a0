//! What reads the disk for a command (`-s`, `-t`) does so in a process apart: nobody ends a thread that a disk has hung
//! up, nor the process that it is of. Whoever called the command is told which path it is, and waits no longer.

use core::time::Duration;
use helper::waits::{self, Story, Wait};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};
use say::Failure;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};

/// Names to the process apart who waits for it, and the descriptor by which that is told of a path that it stands at.
const VARIABLE: &str = "NEARSIDE_APART";

/// A path is waited for this long.
const LONGEST: Duration = Duration::from_secs(10);

/// Does something that reads the disk. Where a path is waited for longer than [`LONGEST`], it says so and returns a
/// failure; `unanswered` is told the reason then, to say what else there is to be said.
///
/// # Errors
/// As either.
pub fn run(
    act: impl FnOnce() -> Result<ExitCode, Failure>,
    unanswered: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    if let Some(caller) = caller() {
        let _watch = watch(caller);
        return act();
    }
    // Without another process it is done here, however long that takes.
    let Ok((mut child, orders)) = start() else { return act() };
    // Whoever reads what the command says waits for all who could still say something: the process apart has no
    // stream of the caller's.
    let errors = child.stderr.take().map(|errors| File::from(OwnedFd::from(errors)));
    let output = child.stdout.take().map(|output| File::from(OwnedFd::from(output)));
    let Some(sentence) = relay([errors, output, Some(orders)])? else {
        let status = child.wait()?;
        let code = status.code().or_else(|| Some(128 + status.signal()?));
        return Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)));
    };
    say::eprintln!("nginx: [emerg] {sentence}");
    unanswered(&sentence)?;
    Ok(ExitCode::FAILURE)
}

/// Passes on what the process apart says, what is wrong first, until it has ended; or until it says that a path is not
/// answered for, which is returned.
fn relay(mut from: [Option<File>; 3]) -> io::Result<Option<String>> {
    let mut some = vec![0; 16 << 10];
    loop {
        let open: Vec<usize> = (0..from.len()).filter(|at| from[*at].is_some()).collect();
        let mut fds: Vec<PollFd<'_>> = from.iter().flatten().map(|file| PollFd::new(file, PollFlags::IN)).collect();
        if fds.is_empty() {
            return Ok(None);
        }
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(why) => return Err(why.into()),
        }
        let ready = fds.iter().position(|fd| !fd.revents().is_empty());
        drop(fds);
        let Some(at) = ready.and_then(|place| open.get(place)).copied() else { continue };
        let length = from[at].as_mut().map_or(Ok(0), |file| file.read(&mut some))?;
        let said = &some[..length];
        let goes_on = match at {
            _ if length == 0 => false,
            0 => io::stderr().write_all(said).is_ok(),
            1 => io::stdout().write_all(said).and_then(|()| io::stdout().flush()).is_ok(),
            _ => return Ok(Some(String::from_utf8_lossy(said).into_owned())),
        };
        if !goes_on {
            // Where nobody reads any more, the process apart is to notice that.
            from[at] = None;
        }
    }
}

/// Starts this program again, with the same arguments; what can be read of it ends with it.
fn start() -> io::Result<(Child, File)> {
    let (reader, writer) = io::pipe()?;
    // Without close-on-exec, unlike what is duplicated.
    let handed = rustix::io::dup(&writer)?;
    let mut command = Command::new(programs::own()?);
    command.arg0(std::env::args_os().next().unwrap_or_default()).args(std::env::args_os().skip(1));
    command.env(VARIABLE, format!("{}:{}", std::process::id(), handed.as_raw_fd()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok((command.spawn()?, File::from(OwnedFd::from(reader))))
}

/// Who waits for this process, if it is the one apart: by this descriptor.
fn caller() -> Option<File> {
    let told = std::env::var(VARIABLE).ok()?;
    let (whose, number) = told.split_once(':')?;
    let (whose, number) = (whose.parse::<u32>().ok()?, number.parse::<u32>().ok()?);
    // It ends with the command, where that is ended.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    if whose != std::os::unix::process::parent_id() {
        return None;
    }
    File::options().write(true).open(format!("/proc/self/fd/{number}")).ok()
}

/// Says what is waited for, and tells the caller when that has lasted too long.
fn watch(mut caller: File) -> waits::Watch {
    let mut story = Story::of("the command");
    waits::watch(move |path, wait| {
        if let Some(line) = story.next(path, wait) {
            say::eprintln!("nginx: [warn] {line}");
        }
        if matches!(wait, Wait::Lasts(so_long) if so_long >= LONGEST) {
            let (path, seconds) = (path.display(), LONGEST.as_secs());
            // In one piece: the caller reads once.
            let sentence = format!("{path}: its file system has not answered for {seconds} s: given up");
            let _ = caller.write_all(sentence.as_bytes());
        }
    })
}
