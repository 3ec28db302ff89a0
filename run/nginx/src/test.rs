//! `-t` and `-T`: whether a configuration is good. Nothing is made and nothing is
//! listened on: whether it could be is found out.

use crate::load::{Loaded, failed};
use crate::over_links;
use crate::plan::NginxPlan;
use access_log::LogPlace;
use nginx::{Compiled, ErrorLogTarget};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Tests a configuration, and says what came of it.
pub fn test(plan: &NginxPlan, dump: bool, explain: bool) -> ExitCode {
    let loaded = match Loaded::new(plan) {
        Ok(loaded) => loaded,
        Err(refusal) => {
            refusal.tell(true);
            return ExitCode::FAILURE;
        }
    };
    let path = loaded.path.display();
    loaded.warn(false);
    if !plan.quiet {
        say::eprintln!("nginx: the configuration file {path} syntax is ok");
    }
    if let Err(why) = places(&loaded).and_then(|()| addresses(plan, &loaded)) {
        say::eprintln!("nginx: [emerg] {why}");
        failed(&loaded.path);
        return ExitCode::FAILURE;
    }
    if !plan.quiet {
        say::eprintln!("nginx: configuration file {path} test is successful");
    }
    if dump {
        write(&loaded.configuration.dump());
    }
    if explain {
        write(nginx::explain(&loaded.configuration, &loaded.compiled).to_string().as_bytes());
    }
    ExitCode::SUCCESS
}

fn write(text: &[u8]) {
    if let Err(why) = io::stdout().write_all(text) {
        say::eprintln!("nginx: cannot write to standard output: {why}");
    }
}

/// Whether logs and the file with the process id can be written.
fn places(loaded: &Loaded) -> Result<(), String> {
    let compiled = &loaded.compiled;
    for log in &compiled.program.logs {
        if let LogPlace::File { path, .. } = &log.place {
            can_be_written(path)?;
        }
    }
    for log in &compiled.process.error_log {
        if let ErrorLogTarget::File(path) = &log.target {
            can_be_written(path)?;
        }
    }
    compiled.process.pid.as_deref().map_or(Ok(()), can_be_written)
}

/// Whether a link has the addresses that are listened on.
fn addresses(plan: &NginxPlan, loaded: &Loaded) -> Result<(), String> {
    let Some(links) = &plan.links else { return Ok(()) };
    let Compiled { program, sockets, .. } = &loaded.compiled;
    over_links::listen(&links.host, &program.listeners, sockets).map(drop)
}

fn can_be_written(path: &Path) -> Result<(), String> {
    let access = |path: &Path| accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).map_err(io::Error::from);
    let asked = match access(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            access(folder.unwrap_or(Path::new(".")))
        }
        asked => asked,
    };
    asked.map_err(|why| format!("open() \"{}\" failed ({})", path.display(), reason(&why)))
}

/// A number and a word, as nginx tells an error of the system.
pub fn reason(why: &io::Error) -> String {
    let told = why.to_string();
    match why.raw_os_error() {
        Some(number) => format!("{number}: {}", told.split(" (os error").next().unwrap_or(&told)),
        None => told,
    }
}
