//! `-t` and `-T`: whether a configuration is good. Nothing is made and nothing is
//! listened on: whether it could be is found out, by sockets that are bound for that.

use crate::load::{Loaded, failed, reason};
use crate::memory;
use crate::over_links;
use crate::over_sockets;
use crate::plan::{ExplainForm, NginxPlan};
use crate::reasons::{self, Kind};
use access_log::LogPlace;
use nginx::{Compiled, ErrorLogTarget, Explanation, Level, Message};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use say::Failure;
use serde::Serialize;
use sockets::Endpoint;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;

/// Tests a configuration, and says what came of it.
///
/// # Errors
/// What is to be printed cannot be.
pub fn test(plan: &NginxPlan, dump: bool, explain: Option<ExplainForm>) -> Result<ExitCode, Failure> {
    let loaded = match Loaded::new(plan) {
        Ok(loaded) => loaded,
        Err(refusal) => {
            refusal.tell(true);
            if explain == Some(ExplainForm::Json) {
                let reasons = refusal.reasons();
                write_json(&Verdict::new(&refusal.path, &reasons, &refusal.error.warnings, None))?;
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    let path = loaded.path.display();
    loaded.warn(false);
    if !plan.quiet {
        say::eprintln!("nginx: the configuration file {path} syntax is ok");
    }
    let at = |level: Level| move |text: String| Message { level, text, place: None };
    let mut reasons: Vec<Message> = places(&loaded).into_iter().map(at(Level::Emerg)).collect();
    reasons.extend(addresses(plan, &loaded).into_iter().map(at(Level::Emerg)));
    // nginx maps memory last, and says so at another level.
    reasons.extend(memory::can_be_had(&loaded.compiled.program).err().map(at(Level::Alert)));
    if let Some(first) = reasons.first() {
        say::eprintln!("nginx: {first}");
        reasons::tell(&reasons);
        failed(&loaded.path);
        if explain == Some(ExplainForm::Json) {
            write_json(&Verdict::new(&loaded.path, &reasons, loaded.warnings(), None))?;
        }
        return Ok(ExitCode::FAILURE);
    }
    if !plan.quiet && loaded.compiled.unsaid_log {
        say::eprintln!("nginx: requests are logged to {}: no access_log says otherwise", nginx::ACCESS_LOG);
    }
    if !plan.quiet {
        say::eprintln!("nginx: configuration file {path} test is successful");
    }
    if dump {
        io::stdout().write_all(&loaded.configuration.dump())?;
    }
    let explained = || {
        let mut explained = nginx::explain(&loaded.configuration, &loaded.compiled);
        if plan.links.is_none() {
            let Compiled { program, sockets, process, .. } = &loaded.compiled;
            over_sockets::explain(&mut explained, &plan.workers, (program, sockets, process));
        }
        explained
    };
    match explain {
        None => {}
        Some(ExplainForm::Words) => write!(io::stdout(), "{}", explained())?,
        Some(ExplainForm::Json) => {
            write_json(&Verdict::new(&loaded.path, &[], loaded.warnings(), Some(&explained())))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says that a configuration is not good for this: a file system did not answer.
///
/// # Errors
/// What is to be printed cannot be.
pub fn unanswered(plan: &NginxPlan, explain: Option<ExplainForm>, why: &str) -> Result<(), Failure> {
    let path = plan.path();
    failed(&path);
    match explain {
        Some(ExplainForm::Json) => {
            let reason = Message { level: Level::Emerg, text: why.to_owned(), place: None };
            write_json(&Verdict::new(&path, &[reason], &[], None))
        }
        Some(ExplainForm::Words) | None => Ok(()),
    }
}

/// What came of a test, for programs.
#[derive(Serialize)]
struct Verdict<'a> {
    configuration: &'a Path,
    good: bool,
    /// The first that is wrong with it.
    error: Option<Said<'a>>,
    /// All that is, by kinds.
    errors: Vec<Kind<'a>>,
    warnings: Vec<Said<'a>>,
    /// What becomes of it, if it is good.
    #[serde(flatten)]
    explained: Option<&'a Explanation>,
}

/// What is said of a configuration.
#[derive(Serialize)]
struct Said<'a> {
    text: &'a str,
    file: Option<&'a Path>,
    line: Option<u32>,
}

impl<'a> Said<'a> {
    fn of(message: &'a Message) -> Self {
        let place = message.place.as_ref();
        let file = place.and_then(|(file, _)| file.as_deref());
        Self { text: &message.text, file, line: file.and(place).map(|(_, line)| *line) }
    }
}

impl<'a> Verdict<'a> {
    fn new(
        configuration: &'a Path,
        reasons: &'a [Message],
        warnings: &'a [Message],
        explained: Option<&'a Explanation>,
    ) -> Self {
        let warnings = warnings.iter().map(Said::of).collect();
        let (error, errors) = (reasons.first().map(Said::of), reasons::kinds(reasons));
        Self { configuration, good: error.is_none(), error, errors, warnings, explained }
    }
}

fn write_json(verdict: &Verdict<'_>) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "{}", serde_json::to_string_pretty(verdict)?)?)
}

/// Whether logs and the file with the process id can be written, and folders for bodies
/// of requests made.
fn places(loaded: &Loaded) -> Vec<String> {
    let compiled = &loaded.compiled;
    let logs = compiled.program.logs.iter().filter_map(|log| match &log.place {
        LogPlace::File { path, .. } => Some(path.as_path()),
        _ => None,
    });
    let own = compiled.process.error_log.iter().filter_map(|log| match &log.target {
        ErrorLogTarget::File(path) => Some(path.as_path()),
        _ => None,
    });
    let process = &compiled.process;
    let user = process.user_and_group();
    // As at the start: a log that others could have put something else in the place of is
    // opened as the user that serves.
    let log = |path: &Path| serve::can_open_log(path, user.as_deref()).map_err(|why| unopened(path, &why));
    let owner = serve::other_user(user.as_deref());
    let mut wrong: Vec<String> = own.chain(logs).filter_map(|path| log(path).err()).collect();
    wrong.extend(process.pid.as_deref().and_then(|path| can_be_written(path).err()));
    wrong.extend(compiled.program.temp_folders.iter().filter_map(|rules| {
        let given = owner.map_or(Ok(()), |owner| rules.can_be_given(owner).map_err(|why| why.to_string()));
        given.and_then(|()| can_be_made(&rules.path)).err()
    }));
    wrong
}

fn can_be_made(folder: &Path) -> Result<(), String> {
    let _asking = helper::waits::on(folder);
    if folder.is_dir() {
        return Ok(());
    }
    if std::fs::symlink_metadata(folder).is_ok() {
        let why = reason(&Errno::NOTDIR.into());
        return Err(format!("mkdir() \"{}\" failed ({why})", folder.display()));
    }
    let within = folder.parent().filter(|within| !within.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let asked = accessat(CWD, within, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).map_err(io::Error::from);
    asked.map_err(|why| format!("mkdir() \"{}\" failed ({})", folder.display(), reason(&why)))
}

/// Why metrics could not be told at their address, a link has not those that are listened
/// on, or sockets could not be bound to them. Who listens there is no reason: it may be the
/// process that is to read this configuration.
fn addresses(plan: &NginxPlan, loaded: &Loaded) -> Vec<String> {
    let metrics = plan.metrics.and_then(|metrics| {
        let why = serve::can_be_bound(metrics).err()?;
        Some(format!("metrics at {metrics}: {}", reason(&why)))
    });
    let Compiled { program, sockets, .. } = &loaded.compiled;
    let listened: Vec<String> = match &plan.links {
        Some(links) => over_links::listen(&links.host, &program.listeners, sockets).err().into_iter().collect(),
        None => program.listeners.iter().filter_map(|listener| unbound(&over_sockets::endpoint(listener))).collect(),
    };
    metrics.into_iter().chain(listened).collect()
}

/// Why nothing can be listened on there, in nginx's words.
fn unbound(endpoint: &Endpoint) -> Option<String> {
    let why = match endpoint {
        Endpoint::Tcp(address) => serve::can_be_bound(*address).err(),
        Endpoint::Unix(path) => {
            let _asking = helper::waits::on(path);
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let asked = accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS);
            let is_other = std::fs::symlink_metadata(path).is_ok_and(|data| !data.file_type().is_socket());
            asked.err().or(is_other.then_some(Errno::ADDRINUSE)).map(io::Error::from)
        }
    };
    why.map(|why| format!("bind() to {endpoint} failed ({})", reason(&why)))
}

fn can_be_written(path: &Path) -> Result<(), String> {
    let _asking = helper::waits::on(path);
    let access = |path: &Path| accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).map_err(io::Error::from);
    let asked = match access(path) {
        // Whoever may write to a folder cannot write it.
        Ok(()) if path.is_dir() => Err(Errno::ISDIR.into()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            access(folder.unwrap_or(Path::new(".")))
        }
        asked => asked,
    };
    asked.map_err(|why| unopened(path, &why))
}

fn unopened(path: &Path, why: &io::Error) -> String {
    format!("open() \"{}\" failed ({})", path.display(), reason(why))
}
