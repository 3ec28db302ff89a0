//! `nearside serve --site`: a site in TOML, served as an nginx.conf is, and told to
//! as `serve` is.

use crate::load::{Loaded, resolve};
use crate::plan::{NginxAction, NginxLinks, NginxPlan, NginxWorkers};
use crate::served;
use nginx::Surroundings;
use say::Failure;
use serve::{ErrorLogs, Privileges, RestartPlan, ServePath, ServePlan, SignalRules};
use server::Prefix;
use site_toml::{CompiledSite, TEXT_MAX, as_nginx_conf, compile_site};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One call of `serve --site`.
#[derive(Clone, Debug)]
pub struct SitePlan {
    /// The file.
    pub file: PathBuf,
    /// Where metrics are told over HTTP.
    pub metrics: Option<SocketAddr>,
    /// Our own stack, over links; `None`: kernel sockets.
    pub links: Option<Box<NginxLinks>>,
    /// What is of workers over kernel sockets, and in no file.
    pub workers: NginxWorkers,
    /// Clients that may have any part of the connections.
    pub exempt: Vec<Prefix>,
    /// How to restart over kernel sockets.
    pub restart: RestartPlan,
    /// Who serves.
    pub privileges: Privileges,
    /// The file with the process id.
    pub pid_file: Option<PathBuf>,
    /// What is to be done.
    pub task: SiteTask,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteTask {
    /// Serve.
    Serve,
    /// Say whether it could be served.
    Check,
    /// Say what becomes of it.
    Explain(SiteForm),
    /// Print the schema of such files.
    Schema,
}

/// In which form a site is explained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteForm {
    /// For people.
    Words,
    /// For programs.
    Json,
    /// As an nginx.conf that says the same.
    Nginx,
}

/// Does what the command line says; `again` reads it again, and the file, which may be
/// open already.
///
/// # Errors
/// What is wrong with the file, with line and column, or went wrong.
pub fn site(plan: &SitePlan, again: fn(Option<File>) -> Result<ServePlan, String>) -> Result<ExitCode, Failure> {
    match plan.task {
        SiteTask::Serve | SiteTask::Check => serve::serve(&site_served(plan, None, again)?),
        SiteTask::Explain(form) => {
            let text = read(&plan.file, None)?;
            let mut out = io::stdout().lock();
            if form == SiteForm::Nginx {
                write!(out, "{}", as_nginx_conf(&text, &plan.file).map_err(|why| why.to_string())?)?;
                return Ok(ExitCode::SUCCESS);
            }
            let loaded = load(&plan.file, &text)?;
            let explained = nginx::explain(&loaded.configuration, &loaded.compiled);
            match form {
                SiteForm::Json => writeln!(out, "{}", serde_json::to_string_pretty(&explained)?)?,
                SiteForm::Words | SiteForm::Nginx => write!(out, "{explained}")?,
            }
            Ok(ExitCode::SUCCESS)
        }
        SiteTask::Schema => {
            writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&site_toml::schema())?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What the file has the process be now.
///
/// # Errors
/// What is wrong with it; a sentence for the user.
pub fn site_served(
    plan: &SitePlan,
    opened: Option<File>,
    again: fn(Option<File>) -> Result<ServePlan, String>,
) -> Result<ServePlan, String> {
    let text = read(&plan.file, opened)?;
    let loaded = load(&plan.file, &text)?;
    let asked = NginxPlan {
        prefix: None,
        configuration: None,
        error_log: None,
        globals: String::new(),
        metrics: plan.metrics,
        quiet: false,
        links: plan.links.clone(),
        workers: plan.workers.clone(),
        exempt: plan.exempt.clone(),
        action: NginxAction::Serve,
    };
    let mut served = served::plan(&asked, loaded, again)?;
    served.check = plan.task == SiteTask::Check;
    served.privileges = plan.privileges.clone();
    served.signals = SignalRules::Own;
    served.pid_file.clone_from(&plan.pid_file);
    served.error_log = ErrorLogs::default();
    if let ServePath::Kernel(kernel) = &mut served.path {
        kernel.restart = plan.restart.clone();
    }
    Ok(served)
}

fn load(path: &Path, text: &str) -> Result<Loaded, String> {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let prefix = whole.parent().unwrap_or(Path::new("/"));
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let root = rustix::process::geteuid().is_root();
    let around = Surroundings { prefix, hostname: &name, root, resolve };
    let CompiledSite { configuration, compiled } = compile_site(text, path, around).map_err(|why| why.to_string())?;
    for warning in &compiled.warnings {
        say::warning(&warning.text);
    }
    Ok(Loaded { path: path.to_owned(), configuration, compiled })
}

fn read(path: &Path, opened: Option<File>) -> Result<String, String> {
    let told = |why: io::Error| format!("cannot read the site in {}: {why}", path.display());
    let _asking = helper::waits::on(path);
    let file = opened.map_or_else(|| File::open(path), Ok).map_err(told)?;
    let mut bytes = Vec::new();
    file.take(TEXT_MAX + 1).read_to_end(&mut bytes).map_err(told)?;
    if bytes.len() as u64 > TEXT_MAX {
        return Err(format!("{} is longer than {} MiB", path.display(), TEXT_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))
}
