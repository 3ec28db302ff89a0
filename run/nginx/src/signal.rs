//! `-s`: the process that serves is told.

use crate::load::Loaded;
use crate::pid_file::{self, NotTold};
use crate::plan::{NginxPlan, NginxSignal};
use rustix::process::{Pid, Signal};
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
    match pid_file::tell(pid, found.owner, signal) {
        Ok(()) => ExitCode::SUCCESS,
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
