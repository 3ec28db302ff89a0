//! The process begins: its error log, and in the background.

use crate::load::{Loaded, reason};
use crate::memory;
use crate::pid_file;
use crate::plan::NginxPlan;
use crate::served;
use core::time::Duration;
use say::Failure;
use serve::ServePlan;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

/// Names the process that waits until this one serves, in the background.
const VARIABLE: &str = "NEARSIDE_DAEMON";

/// How often it is looked whether the process in the background serves.
const LOOK: Duration = Duration::from_millis(20);

/// Serves what the configuration says, in the background if it says so.
///
/// # Errors
/// What went wrong once it served. Until then it is said as nginx says it.
pub fn start(plan: &NginxPlan, again: fn(Option<File>) -> Result<ServePlan, String>) -> Result<ExitCode, Failure> {
    // Those that a process of ours starts say nothing twice.
    let first = std::env::var_os(VARIABLE).is_none() && !serve::is_ours();
    if serve::is_ours() {
        write_as_nginx();
        serve::starting(tell_both(io::stdout().into_duplicate().ok()));
    } else {
        serve::starting(|line| say::eprintln!("nginx: [error] {line}"));
    }
    // What pipes gave is not given again.
    if let Some(mut piped) = serve::left() {
        nginx::bring_piped(&mut piped).map_err(|why| format!("what named pipes gave is not whole: {why}"))?;
    }
    let loaded = match Loaded::new(plan) {
        Ok(loaded) => loaded,
        Err(refusal) => {
            refusal.tell(false);
            return Ok(ExitCode::FAILURE);
        }
    };
    if first {
        loaded.warn(false);
    }
    if let Some(piped) = nginx::take_piped() {
        serve::leave(&piped).map_err(|why| format!("what named pipes gave cannot be left to who serves: {why}"))?;
    }
    if let Err(why) = memory::can_be_had(&loaded.compiled.program) {
        say::eprintln!("nginx: [alert] {why}");
        return Ok(ExitCode::FAILURE);
    }
    let (daemon, pid_path) = (loaded.compiled.process.daemon, loaded.compiled.process.pid.clone());
    if first && daemon {
        return Ok(in_background(&pid_path.unwrap_or_default()));
    }
    // Whom a failure is told beside the error log: who waits, or the terminal.
    let told = if waits_for_us() {
        let _ = rustix::process::setsid();
        io::stdout().into_duplicate()
    } else if serve::is_ours() && std::env::var_os(VARIABLE).is_some() {
        // It has the output of the one that started it, which is waited for.
        io::stdout().into_duplicate()
    } else {
        io::stderr().into_duplicate()
    };
    write_as_nginx();
    be_called_nginx();
    let outcome = served::plan(plan, loaded, again).map_err(Failure::from).and_then(|plan| {
        let terminal = io::stderr().into_duplicate().ok();
        lead_to_error_log(&plan)?;
        if !serve::is_ours() {
            serve::starting(tell_both(terminal));
        }
        say::no_less_than(plan.error_log.level);
        serve::tell_syslog(&plan);
        if let Some(path) = pid_path.as_deref().filter(|_| !serve::is_ours()) {
            let told = |why| format!("open() \"{}\" failed ({})", path.display(), reason(&why));
            pid_file::can_be_made(path).map_err(told)?;
        }
        serve::serve(&plan)
    });
    outcome.or_else(|why| {
        say::error(&why);
        let mut told = told.map_err(|_| "nobody can be told")?;
        let _ = writeln!(told, "nginx: [emerg] {why}");
        Ok(ExitCode::FAILURE)
    })
}

/// Lines are as nginx's from now on.
fn write_as_nginx() {
    // Read now: a process that gives its rights up cannot.
    formats::zone::local_zone();
    say::as_nginx(formats::zone::local_offset);
}

/// Tells the error log, and a terminal that is another stream.
fn tell_both(terminal: Option<File>) -> impl FnMut(&str) + Send + 'static {
    let place = |stream: BorrowedFd<'_>| rustix::fs::fstat(stream).ok().map(|stat| (stat.st_dev, stat.st_ino));
    let mut terminal = terminal.filter(|terminal| place(terminal.as_fd()) != place(io::stderr().as_fd()));
    move |line| {
        say::error(line);
        let _ = terminal.as_mut().map(|terminal| writeln!(terminal, "nginx: [error] {line}"));
    }
}

/// The process has nginx's name, whatever it was called by: who signals the process
/// in the file with its id looks whether it has (Debian's rotation of logs, and its
/// `service nginx reload`).
fn be_called_nginx() {
    // Names of threads are for others; nothing hangs on this one's here.
    let _ = rustix::thread::set_name(c"nginx");
}

/// A stream of ours, for later.
trait Duplicate {
    fn into_duplicate(self) -> io::Result<File>;
}

impl<S: AsFd> Duplicate for S {
    fn into_duplicate(self) -> io::Result<File> {
        self.as_fd().try_clone_to_owned().map(File::from)
    }
}

/// Whether the process that started this one waits until it serves.
fn waits_for_us() -> bool {
    let told = std::env::var(VARIABLE).ok().and_then(|text| text.parse::<u32>().ok());
    told == Some(std::os::unix::process::parent_id())
}

fn lead_to_error_log(plan: &ServePlan) -> Result<(), Failure> {
    let Some(path) = plan.error_log.file.as_deref() else { return Ok(()) };
    let led = serve::open_error_log(plan, path).and_then(|file| Ok(rustix::stdio::dup2_stderr(&file)?));
    led.map_err(|why| format!("open() \"{}\" failed ({})", path.display(), reason(&why)).into())
}

/// Starts this program again, and waits until it serves, or has ended.
fn in_background(path: &Path) -> ExitCode {
    let now = || pid_file::read(path).map(|found| found.text).unwrap_or_default();
    let before = now();
    let started = programs::own().and_then(|program| {
        let mut command = Command::new(program);
        std::os::unix::process::CommandExt::arg0(&mut command, std::env::args_os().next().unwrap_or_default());
        command.args(std::env::args_os().skip(1)).env(VARIABLE, std::process::id().to_string());
        let _left = serve::hand_on(&mut command)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
    });
    let mut child = match started {
        Ok(child) => child,
        Err(why) => {
            say::eprintln!("nginx: [alert] fork() failed ({})", reason(&why));
            return ExitCode::FAILURE;
        }
    };
    // What it says is told as it comes: a start may stand at a path for long.
    let said = child.stdout.take().and_then(|mut said| {
        let relay = move || _ = io::copy(&mut said, &mut io::stderr());
        thread::Builder::new().name("relay".to_owned()).spawn(relay).ok()
    });
    let expected = child.id().to_string().into_bytes();
    loop {
        let now = now();
        if now == expected && now != before {
            return ExitCode::SUCCESS;
        }
        match child.try_wait() {
            Ok(None) => thread::sleep(LOOK),
            Ok(Some(_)) | Err(_) => break,
        }
    }
    let _ = said.map(thread::JoinHandle::join);
    ExitCode::FAILURE
}
