//! `-s`: the process that serves is told.

use crate::load::Loaded;
use crate::pid_file::{self, NotTold};
use crate::plan::{NginxPlan, NginxSignal};
use core::time::Duration;
use rustix::process::{Pid, Signal};
use serve::{Answers, ReloadAnswer};
use std::path::Path;
use std::process::ExitCode;

impl NginxSignal {
    const fn number(self) -> Signal {
        match self {
            Self::Stop => Signal::TERM,
            Self::Quit => Signal::QUIT,
            Self::Reload => Signal::HUP,
            Self::Reopen => Signal::USR1,
        }
    }
}

/// Tells the process whose id is in the file that the configuration names.
pub fn send(plan: &NginxPlan, wanted: NginxSignal) -> ExitCode {
    let loaded = match Loaded::new(plan) {
        Ok(loaded) => loaded,
        Err(refusal) => {
            refusal.tell(false);
            return ExitCode::FAILURE;
        }
    };
    loaded.warn(false);
    let log = plan.error_log(&loaded.compiled.process);
    let path = loaded.compiled.process.pid.unwrap_or_default();
    let path = path.as_path();
    let told = path.display();
    let found = match pid_file::read(path) {
        Ok(found) => found,
        Err(why) => {
            say::eprintln!("nginx: [error] open() \"{told}\" failed ({})", crate::load::reason(&why));
            return ExitCode::FAILURE;
        }
    };
    let number = found.text.as_slice();
    let pid = core::str::from_utf8(number).ok().and_then(|text| text.parse::<i32>().ok()).filter(|pid| *pid > 0);
    let Some(pid) = pid.and_then(Pid::from_raw) else {
        say::eprintln!("nginx: [error] invalid PID number \"{}\" in \"{told}\"", String::from_utf8_lossy(number));
        return ExitCode::FAILURE;
    };
    let signal = wanted.number();
    let number = pid.as_raw_nonzero().get().unsigned_abs();
    let answers = Answers::of(number).filter(|_| wanted == NginxSignal::Reload);
    match pid_file::tell(pid, found.owner, signal) {
        Ok(()) => answers.map_or(ExitCode::SUCCESS, |answers| reloaded(&answers, log.as_deref())),
        Err(NotTold::Refused(why)) => {
            let (pid, signal, why) = (pid.as_raw_nonzero(), signal.as_raw(), crate::load::reason(&why.into()));
            say::eprintln!("nginx: [alert] kill({pid}, {signal}) failed ({why})");
            ExitCode::FAILURE
        }
        Err(NotTold::Other(name)) => {
            let pid = pid.as_raw_nonzero();
            say::eprintln!("nginx: [error] process {pid} of \"{told}\" is {name:?}, and no server: it is not told");
            ExitCode::FAILURE
        }
    }
}

/// How long the process may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Waits for what comes of a reload, and says what of it is not as it is asked for.
fn reloaded(answers: &Answers, log: Option<&Path>) -> ExitCode {
    let why = match answers.wait(ANSWER) {
        ReloadAnswer::Done(_) => return ExitCode::SUCCESS,
        ReloadAnswer::Partly(said) | ReloadAnswer::Failed(said) => said,
        ReloadAnswer::None => {
            let log = log.map_or_else(|| "the error log".to_owned(), |path| path.display().to_string());
            let seconds = ANSWER.as_secs();
            format!("no answer to the reload within {seconds} s, it goes on: where it waits for a file, {log} says so")
        }
    };
    say::eprintln!("nginx: [error] {why}");
    ExitCode::FAILURE
}
