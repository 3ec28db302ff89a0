//! A configuration is read, and compiled.

use crate::plan::NginxPlan;
use crate::reasons;
use core::net::IpAddr;
use nginx::{
    Compiled, ConfError, Configuration, Disk, ErrorLogTarget, Level, Message, ProcessRules, Surroundings, compile,
};
use std::io;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What paths are relative to, where nothing else is said: as Debian's nginx.
pub const PREFIX: &str = "/usr/share/nginx";

/// The configuration, where nothing else is said.
pub const CONFIGURATION: &str = "/etc/nginx/nginx.conf";

/// Where the process id goes, where nothing else is said.
pub const PID: &str = "/run/nginx.pid";

/// A configuration, and what it means.
#[derive(Debug)]
pub struct Loaded {
    /// Where it is.
    pub path: PathBuf,
    /// As it is written.
    pub configuration: Configuration,
    /// What it means.
    pub compiled: Compiled,
}

/// Why a configuration is not taken.
#[derive(Debug)]
pub struct Refusal {
    /// Where it is.
    pub path: PathBuf,
    /// Why, and what was said before.
    pub error: Box<ConfError>,
}

impl Refusal {
    /// Says it; with a verdict, if it was a test.
    pub fn tell(&self, test: bool) {
        warn(self.error.warnings.iter(), false);
        say::eprintln!("nginx: {}", self.error);
        if let Some(hint) = self.hint() {
            say::eprintln!("nginx: {hint}");
        }
        if test {
            reasons::tell(&self.reasons());
            failed(&self.path);
        } else if !self.error.others.is_empty() {
            let others = self.error.others.len();
            say::eprintln!("nginx: nor would it start after that: nginx -t names all that is wrong ({others} more)");
        }
    }

    /// All of them.
    pub fn reasons(&self) -> Vec<Message> {
        self.error.reasons().cloned().collect()
    }
}

impl Refusal {
    /// Where to go from here, if it is known whose configuration this is.
    pub fn hint(&self) -> Option<String> {
        const OF_FSTACK: [&str; 5] = [
            "\"fstack_conf\"",
            "\"kernel_network_stack\"",
            "\"proxy_kernel_network_stack\"",
            "\"schedule_timeout\"",
            "event type \"kqueue\"",
        ];
        let text = &self.error.message.text;
        OF_FSTACK.iter().any(|word| text.contains(word)).then(|| {
            format!(
                "this is a configuration of F-Stack's nginx: nearside import F-STACK.CONF --nginx {} says what becomes \
                 of each line of both files",
                self.path.display()
            )
        })
    }
}

/// The verdict on a configuration that is not good.
pub fn failed(path: &Path) {
    say::eprintln!("nginx: configuration file {} test failed", path.display());
}

fn warn<'m>(messages: impl Iterator<Item = &'m Message>, quiet: bool) {
    messages.filter(|_| !quiet).for_each(|message| say::eprintln!("nginx: {message}"));
}

impl NginxPlan {
    /// What paths are relative to.
    fn prefix(&self) -> PathBuf {
        let prefix = self.prefix.clone().unwrap_or_else(|| PREFIX.into());
        std::path::absolute(&prefix).unwrap_or(prefix)
    }

    /// The file that the error log is, if it is one.
    pub fn error_log(&self, process: &ProcessRules) -> Option<PathBuf> {
        let mut targets = process.error_log.iter().map(|log| &log.target);
        match targets.find(|target| !target.is_syslog()) {
            Some(ErrorLogTarget::File(path)) => Some(path.clone()),
            Some(_) => None,
            // A syslog server has a file beside it.
            None => {
                let given = self.error_log.as_ref().filter(|path| path.as_os_str() != "stderr");
                given.map(|path| self.prefix().join(path))
            }
        }
    }

    /// Where the configuration is.
    pub fn path(&self) -> PathBuf {
        self.prefix().join(self.configuration.as_deref().unwrap_or(CONFIGURATION.as_ref()))
    }
}

impl Loaded {
    /// That of a command line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(plan: &NginxPlan) -> Result<Self, Refusal> {
        let (prefix, path) = (plan.prefix(), plan.path());
        let refused = |error: ConfError| Refusal { path: path.clone(), error: Box::new(error) };
        // Where something is wrong in it, compile() looks for more of it.
        let configuration = Configuration::read_all(&mut Disk, &path, plan.globals.as_bytes());
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        // A process that has given its rights up reads what it did before.
        static ROOT: OnceLock<bool> = OnceLock::new();
        let is_root = rustix::process::geteuid().is_root();
        let root = *ROOT.get_or_init(|| is_root);
        let around = Surroundings { prefix: &prefix, hostname: &name, root, resolve };
        let nobody = Self::nobody(&configuration, is_root);
        let mut compiled = match (compile(&configuration, around), nobody) {
            (Ok(compiled), None) => compiled,
            (Ok(compiled), Some(message)) => {
                let warnings = [configuration.warnings, compiled.warnings].concat();
                return Err(refused(ConfError { message, others: Vec::new(), warnings }));
            }
            (Err(mut error), nobody) => {
                error.warnings.splice(0..0, configuration.warnings.iter().cloned());
                error.others.extend(nobody);
                return Err(refused(error));
            }
        };
        compiled.warnings.splice(0..0, configuration.warnings.iter().cloned());
        compiled.program.line_feeds = true;
        compiled.process.pid.get_or_insert_with(|| PID.into());
        Ok(Self { path, configuration, compiled })
    }

    /// What is wrong with `user`, which only root heeds.
    fn nobody(configuration: &Configuration, root: bool) -> Option<Message> {
        let directive = configuration.directives.iter().find(|one| one.name == b"user" && root)?;
        let words: Vec<String> =
            directive.arguments.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let [user, rest @ ..] = words.as_slice() else { return None };
        let group = rest.first().map(String::as_str);
        let text = match (serve::has_user(user, None), group) {
            // A number needs a group.
            (false, None) => format!("getpwnam(\"{user}\") failed"),
            (_, Some(group)) if !serve::has_user("0", Some(group)) => format!("getgrnam(\"{group}\") failed"),
            (false, group) if !serve::has_user(user, group) => format!("getpwnam(\"{user}\") failed"),
            _ => return None,
        };
        Some(configuration.message(Level::Emerg, text, directive.place))
    }

    /// What nginx warns of.
    pub fn warnings(&self) -> &[Message] {
        &self.compiled.warnings
    }

    /// Says what nginx warns of.
    pub fn warn(&self, quiet: bool) {
        warn(self.compiled.warnings.iter(), quiet);
    }
}

pub fn resolve(host: &str) -> Vec<IpAddr> {
    (host, 0).to_socket_addrs().map(|found| found.map(|one| one.ip()).collect()).unwrap_or_default()
}

/// A number and a word, as nginx tells an error of the system.
pub fn reason(why: &io::Error) -> String {
    let told = why.to_string();
    match why.raw_os_error() {
        Some(number) => format!("{number}: {}", told.split(" (os error").next().unwrap_or(&told)),
        None => told,
    }
}
