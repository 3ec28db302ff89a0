//! What a configuration means: a [`Program`], and how the process is to be.
//!
//! ```text
//! Configuration ─► http ─► server ─► location ─► if, limit_except
//!                   └── a Layer for each: it begins as a copy of the one
//!                       outside, and each directive changes it (setters); then
//!                       it is a block of the program
//! ```
//!
//! A directive is compiled, or has no effect here, or is refused by its name:
//! [`DirectiveClass`] says which.

mod access;
mod arguments;
mod bodies;
mod classes;
mod content;
mod effect;
mod gateways;
mod grpc;
mod hosts;
mod kept_files;
mod layer;
mod listen;
mod logs;
mod modules;
mod pipes;
mod process;
mod proxy;
mod resolvers;
mod rows;
mod script;
mod settings;
mod subrequests;
mod tables;
#[cfg(test)]
mod tests;
mod tls;
mod tls_demand;
mod tls_files;
mod tls_settings;
mod tls_stapling;
mod upstream_tls;
mod upstreams;
mod url;

pub use classes::DirectiveClass;
pub use listen::{KeepAliveRules, SocketRules};
pub use logs::ACCESS_LOG;
pub use pipes::{bring_piped, take_piped};
pub use process::{AffinityRules, ErrorLog, ErrorLogTarget, ProcessRules};

use crate::message::{ConfError, Level, Message, Place, REASONS_MAX};
use crate::reader::{Configuration, Directive};
use arguments::{inside, told};
use configuration::program::ResolverRules;
use configuration::variables::VariableError;
use configuration::{Block, BlockId, Program, TooManyTerms};
use core::net::IpAddr;
use core::time::Duration;
use features::Value;
use layer::Layer;
use listen::Addresses;
use pcre::{Regex, RegexOptions};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a configuration is compiled.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// What paths are relative to (`-p`).
    pub prefix: &'a Path,
    /// The machine's name (`$hostname`).
    pub hostname: &'a str,
    /// Whether we are root.
    pub root: bool,
    /// Addresses of a host; none if there is no such host.
    pub resolve: Resolve,
}

/// Finds addresses of a host.
pub type Resolve = fn(&str) -> Vec<IpAddr>;

/// What a configuration means.
#[derive(Debug)]
pub struct Compiled {
    /// What becomes of requests.
    pub program: Program,
    /// Options of the sockets that it is listened on, by its listeners.
    pub sockets: Vec<SocketRules>,
    /// How the process is to be.
    pub process: ProcessRules,
    /// What was said and is no reason to refuse it.
    pub warnings: Vec<Message>,
    /// Directives that have no effect here.
    pub notes: Vec<Remark>,
    /// Where blocks of the program stand; nowhere for those that nobody wrote.
    pub places: Vec<Option<Place>>,
    /// Requests are logged to [`ACCESS_LOG`], because no `access_log` says otherwise.
    pub unsaid_log: bool,
}

/// A directive that has no effect here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// Its name.
    pub name: &'static str,
    /// Where it stands.
    pub place: Place,
    /// Why it has none.
    pub why: &'static str,
}

/// Compiles a configuration.
///
/// # Errors
/// What is wrong with it, as nginx says it; or what is not supported here.
pub fn compile(configuration: &Configuration, around: Surroundings<'_>) -> Result<Compiled, ConfError> {
    let mut compiler = Compiler {
        configuration,
        around,
        program: Program::default(),
        places: Vec::new(),
        warnings: Vec::new(),
        notes: Vec::new(),
        expressions: HashMap::new(),
        addresses: Addresses::default(),
        hosts: Vec::new(),
        server_names: Vec::new(),
        upstreams: Vec::new(),
        upstream_tls: Vec::new(),
        outer_resolver: None,
        outer_timeout: layer::RESOLVER_TIMEOUT,
        errors: configuration.errors.clone(),
        unsaid_log: false,
    };
    let (process, sockets) = compiler.all();
    pipes::forget();
    if let Some(error) = ConfError::of(compiler.errors, compiler.warnings.clone()) {
        return Err(error);
    }
    Ok(Compiled {
        program: compiler.program,
        sockets,
        process,
        warnings: compiler.warnings,
        notes: compiler.notes,
        places: compiler.places,
        unsaid_log: compiler.unsaid_log,
    })
}

/// See the module.
pub(crate) struct Compiler<'a> {
    configuration: &'a Configuration,
    around: Surroundings<'a>,
    program: Program,
    places: Vec<Option<Place>>,
    warnings: Vec<Message>,
    notes: Vec<Remark>,
    /// Numbers of expressions by their text, and whether case matters not.
    expressions: HashMap<(Vec<u8>, bool), u32>,
    addresses: Addresses,
    /// Names of servers, by their numbers.
    hosts: Vec<Vec<hosts::ServerName>>,
    /// Those of the server that is compiled.
    server_names: Vec<hosts::ServerName>,
    /// Upstreams by their names.
    upstreams: Vec<upstreams::Known>,
    /// How upstreams are secured, of all blocks.
    upstream_tls: upstream_tls::KnownTls,
    /// `resolver` and `resolver_timeout` of `http`.
    outer_resolver: Option<Arc<ResolverRules>>,
    outer_timeout: Duration,
    /// What is wrong so far. What is compiled behind it is compiled for what else is.
    errors: Vec<Message>,
    /// Requests are logged where nothing says so.
    unsaid_log: bool,
}

/// What one step comes to.
type Step<T = ()> = Result<T, Message>;

impl Compiler<'_> {
    /// Goes on behind what is wrong, to find what else is: with nothing in its place.
    fn note<T: Default>(&mut self, step: Step<T>) -> T {
        step.unwrap_or_else(|message| {
            if self.errors.len() < REASONS_MAX {
                self.errors.push(message);
            }
            T::default()
        })
    }

    /// Takes a step that says of the whole what is wrong, where its parts are right.
    fn if_right<T: Default>(&mut self, step: impl FnOnce(&mut Self) -> Step<T>) -> T {
        if !self.errors.is_empty() {
            return T::default();
        }
        let done = step(self);
        self.note(done)
    }

    fn all(&mut self) -> (ProcessRules, Vec<SocketRules>) {
        let mut process = ProcessRules::new();
        let (mut events, mut http, mut modules) = (false, false, Vec::new());
        for directive in &self.configuration.directives {
            match directive.name.as_slice() {
                b"http" => {
                    http = true;
                    self.http(inside(directive), directive.place);
                }
                b"load_module" => {
                    let taken = self.load_module(directive, &mut modules, events || http);
                    self.note(taken);
                }
                name => {
                    events |= name == b"events";
                    let taken = self.process(&mut process, directive);
                    self.note(taken);
                }
            }
        }
        if !events && !self.configuration.is_cut {
            self.note::<()>(Err(nowhere("no \"events\" section in configuration".to_owned())));
        }
        process.http = http;
        if let (Some(AffinityRules::Masks(masks)), Some(workers)) = (&process.affinity, process.workers)
            && masks.len() != 1
            && masks.len() != workers as usize
        {
            let text = "the number of \"worker_processes\" is not equal to the number of \"worker_cpu_affinity\" \
                        masks, using last mask for remaining worker processes";
            self.warnings.push(Message { level: Level::Warn, ..nowhere(text.to_owned()) });
        }
        self.keep_used_folders();
        let sockets = self.if_right(Self::listeners);
        self.if_right(Self::number_terms);
        (process, sockets)
    }

    fn number_terms(&mut self) -> Step {
        self.program.number_terms().map_err(|why| {
            let place = match &why {
                TooManyTerms::Exchanges(block) => self.places.get(block.0 as usize).copied().flatten(),
                TooManyTerms::Heads(_) => None,
            };
            let text = format!("not supported here: {why}");
            place.map_or_else(|| nowhere(text.clone()), |place| self.refused(place, text.clone()))
        })
    }

    fn http(&mut self, directives: &[Directive], place: Place) {
        let blocks = blocks_in(directives);
        self.program.blocks.reserve(blocks);
        self.places.reserve(blocks);
        let mut layer = Layer::outermost(Value::literal(&self.full_path(b"html")));
        let taken = self.usual_error_logs(&mut layer);
        self.note(taken);
        self.usual_temp_path();
        for step in
            [self.log_formats(directives, place), self.declarations(directives), self.outer_resolver(directives)]
        {
            self.note(step);
        }
        for directive in directives {
            let taken = match directive.name.as_slice() {
                b"server" | b"log_format" => Ok(()),
                b"map" => self.map(directive),
                b"geo" => self.geo(directive),
                b"split_clients" => self.split_clients(directive),
                b"charset_map" => self.charset_map(directive),
                b"upstream" => self.upstream(directive),
                _ => self.set(&mut layer, directive),
            };
            self.note(taken);
        }
        let taken = self.finish(&mut layer, place);
        self.note(taken);
        self.usual_log(&mut layer, directives);
        let is_right = self.errors.is_empty();
        for directive in directives.iter().filter(|one| one.name == b"server") {
            self.server(&layer, is_right, directive);
        }
        self.if_right(|this| this.charsets_are_known());
        self.if_right(|this| match this.program.variables.undefined() {
            Some(name) => Err(nowhere(format!("unknown \"{}\" variable", told(name)))),
            None => Ok(()),
        });
    }

    /// A block of the program, which stands at `place`.
    fn block(&mut self, block: Block, place: Place) -> BlockId {
        let id = BlockId(self.program.blocks.len() as u32);
        self.program.blocks.push(block);
        self.places.push(Some(place));
        id
    }

    /// A value with variables, which may be defined later.
    fn value(&mut self, text: &[u8], place: Place) -> Step<Value> {
        let variables = &mut self.program.variables;
        let mut full = None;
        let value = Value::parse(text, &mut |name| {
            let number = variables.reserve(&name.to_ascii_lowercase());
            number.map_err(|why| full = Some(why)).ok().or(Some(0))
        });
        if let Some(why) = full {
            return Err(self.refused(place, why.to_string()));
        }
        value.map_err(|why| self.refused(place, why.to_string()))
    }

    /// A path with variables: one that begins with none lies in the prefix.
    fn path_value(&mut self, text: &[u8], place: Place) -> Step<Value> {
        if text.first() == Some(&b'$') {
            return self.value(text, place);
        }
        let path = self.full_path(text);
        self.value(&path, place)
    }

    /// A path, in the prefix unless it is absolute.
    fn full_path(&self, text: &[u8]) -> Vec<u8> {
        in_folder(self.around.prefix, text)
    }

    /// A path, in the folder of the configuration unless it is absolute.
    fn conf_path(&self, text: &[u8]) -> Vec<u8> {
        let first = self.configuration.files.first().and_then(|file| file.path.parent());
        in_folder(first.unwrap_or(self.around.prefix), text)
    }

    /// The number of an expression. Its groups with names become variables.
    fn expression(&mut self, pattern: &[u8], caseless: bool, place: Place) -> Step<u32> {
        if let Some(number) = self.expressions.get(&(pattern.to_vec(), caseless)) {
            return Ok(*number);
        }
        let regex = Regex::new(pattern, RegexOptions { caseless }).map_err(|why| {
            let what = format!("pcre2_compile() failed: {} in \"{}\"", why.message, told(pattern));
            let behind = pattern.get(why.offset..).filter(|behind| !behind.is_empty());
            let at = behind.map_or_else(String::new, |behind| format!(" at \"{}\"", told(behind)));
            self.refused(place, what + &at)
        })?;
        let number = self.program.expressions.len() as u32;
        for (name, group) in regex.names() {
            let slot = self.program.variables.captured(name.to_ascii_lowercase().as_bytes());
            let slot = slot.map_err(|why| self.refused(place, why.to_string()))?;
            self.program.variables.bind(number, *group, slot);
        }
        self.program.expressions.push(regex);
        self.expressions.insert((pattern.to_vec(), caseless), number);
        Ok(number)
    }

    fn variable_error(&self, place: Place, why: &VariableError) -> Message {
        self.refused(place, why.to_string())
    }

    fn refused(&self, place: Place, text: String) -> Message {
        self.configuration.message(Level::Emerg, text, place)
    }

    fn warn(&mut self, place: Place, text: String) {
        let message = self.configuration.message(Level::Warn, text, place);
        self.warnings.push(message);
    }

    /// `"…" directive …`, or about its value.
    fn invalid(&self, directive: &Directive, what: &str) -> Message {
        self.refused(directive.place, format!("\"{}\" directive {what}", told(&directive.name)))
    }

    fn unsupported(&self, place: Place, what: &str) -> Message {
        self.refused(place, format!("not supported here: {what}"))
    }
}

/// A message about no place.
fn nowhere(text: String) -> Message {
    Message { level: Level::Emerg, text, place: None }
}

/// How many blocks stand in these directives.
fn blocks_in(directives: &[Directive]) -> usize {
    directives.iter().filter_map(|one| one.block.as_deref()).map(|block| 1 + blocks_in(block)).sum()
}

fn in_folder(folder: &Path, text: &[u8]) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    if text.first() == Some(&b'/') {
        return text.to_vec();
    }
    let folder = folder.as_os_str().as_bytes();
    let slash: &[u8] = if folder.ends_with(b"/") { b"" } else { b"/" };
    [folder, slash, text].concat()
}

/// A path of these bytes.
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}
