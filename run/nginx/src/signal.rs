//! `-s`: the process that serves is told.

use crate::load::Loaded;
use crate::plan::{NginxPlan, NginxSignal};
use rustix::process::{Pid, Signal, kill_process};
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
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(why) => {
            say::eprintln!("nginx: [error] open() \"{told}\" failed ({})", crate::test::reason(&why));
            return ExitCode::FAILURE;
        }
    };
    let number = text.trim_ascii_end();
    let pid = core::str::from_utf8(number).ok().and_then(|text| text.parse::<i32>().ok()).filter(|pid| *pid > 0);
    let Some(pid) = pid.and_then(Pid::from_raw) else {
        say::eprintln!("nginx: [error] invalid PID number \"{}\" in \"{told}\"", String::from_utf8_lossy(number));
        return ExitCode::FAILURE;
    };
    let signal = wanted.number();
    match kill_process(pid, signal) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let (pid, signal, why) = (pid.as_raw_nonzero(), signal.as_raw(), crate::test::reason(&why.into()));
            say::eprintln!("nginx: [alert] kill({pid}, {signal}) failed ({why})");
            ExitCode::FAILURE
        }
    }
}
