//! `-t --explain`: what each server and location is, what keeps answers from being
//! given ready, what is slower than it could be, and what has no effect here. For
//! people by its `Display`, for programs by its `Serialize`.
//!
//! | module | for |
//! | --- | --- |
//! | `ready` | whether answers of a place are given ready, and what keeps them off |
//! | `words` | the same for people |

mod ready;
#[cfg(test)]
mod tests;
mod words;

use crate::compile::{ACCESS_LOG, Compiled};
use crate::message::Place;
use crate::reader::Configuration;
use configuration::program::{Alias, ContentRules};
use configuration::script::Instruction;
use configuration::{Block, BlockId, Program};
use ready::Scripts;
use serde::Serialize;
use std::path::PathBuf;

/// What a configuration comes to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Explanation {
    /// Where it is listened.
    pub listeners: Vec<ExplainedListener>,
    /// The servers, in the order in which they are written.
    pub servers: Vec<ExplainedServer>,
    /// Directives that have no effect here.
    pub no_effect: Vec<NoEffect>,
    /// Where requests are logged because nothing says otherwise, if any are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsaid_log: Option<&'static str>,
}

/// Where it is listened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ExplainedListener {
    /// Address and port, or `unix:` and a path.
    pub address: String,
    /// Names of the servers here; the first is that of requests for no other.
    pub servers: Vec<String>,
    /// How workers come by connections there; none over links, where silos have queues of
    /// their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<Accepting>,
}

/// How workers come by connections at an address.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Accepting {
    /// The accept model's name.
    pub model: String,
    /// Queues of connections that wait there.
    pub queues: usize,
    /// Why the model is another than `listen` asks for, where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ExplainedServer {
    /// Its first name.
    pub name: String,
    /// What answers where no location does.
    #[serde(flatten)]
    pub settings: ExplainedPlace,
    /// Its locations, and what stands in them.
    pub places: Vec<ExplainedPlace>,
}

/// A place that settings stand in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ExplainedPlace {
    /// What it is written as: `~* \.png$`, `if ($a)`, `server`.
    pub label: String,
    /// Where that stands; nowhere for what nobody wrote.
    pub at: Option<Whereabouts>,
    /// What answers there.
    pub answers: Answers,
    /// The folder, or what stands for a part of the path; none where a request
    /// decides it, or where no file answers.
    pub folder: Option<String>,
    /// Whether answers are given ready, from memory, by the short way.
    pub ready: bool,
    /// What keeps them all off it.
    pub kept_off: Vec<KeptOff>,
    /// What keeps some of them off it.
    pub kept_off_for_some: Vec<KeptOff>,
    /// What costs more than it looks.
    pub slower: Vec<Slower>,
    /// It is an `alias` that a missing slash lets out of its folder elsewhere.
    pub alias_without_slash: bool,
}

/// Where something is written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Whereabouts {
    /// The file; none is the command line.
    pub file: Option<PathBuf>,
    /// The line, from 1.
    pub line: u32,
}

/// What answers at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// Files below a folder.
    Root,
    /// Files in the place of a part of the path.
    Alias,
    /// A `return`.
    Return,
    /// `stub_status`.
    StubStatus,
    /// `empty_gif`.
    EmptyGif,
    /// `proxy_pass`.
    Proxy,
    /// `grpc_pass`.
    Grpc,
    /// `fastcgi_pass`, `uwsgi_pass`, `scgi_pass`.
    Gateway,
}

/// Why answers are not given ready.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct KeptOff {
    /// A variable with its `$`, or a directive.
    pub by: String,
    /// For which requests that variable stands for the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<&'static str>,
    /// The same for people.
    pub why: String,
}

/// What costs more than it looks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Slower {
    /// The directive.
    pub directive: &'static str,
    /// Why.
    pub why: &'static str,
}

/// A directive that has no effect here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NoEffect {
    /// Its name.
    pub directive: &'static str,
    /// Where it stands.
    pub at: Whereabouts,
    /// Why it has none.
    pub why: &'static str,
}

/// Explains a configuration.
#[must_use]
pub fn explain(configuration: &Configuration, compiled: &Compiled) -> Explanation {
    let (program, whereabouts) = (&compiled.program, |place: Place| whereabouts(configuration, place));
    let address = |listener: &configuration::ListenerRules| match (&listener.address, &listener.path) {
        (Some(address), _) => address.to_string(),
        (None, Some(path)) => format!("unix:{}", path.display()),
        (None, None) => String::new(),
    };
    let named = |id: &configuration::ServerId| told(&program.servers[usize::from(id.0)].name);
    let listeners = program.listeners.iter().map(|listener| ExplainedListener {
        address: address(listener),
        servers: listener.servers.iter().map(named).collect(),
        accept: None,
    });
    let no_effect =
        compiled.notes.iter().map(|note| NoEffect { directive: note.name, at: whereabouts(note.place), why: note.why });
    Explanation {
        listeners: listeners.collect(),
        servers: servers(configuration, compiled),
        no_effect: no_effect.collect(),
        unsaid_log: compiled.unsaid_log.then_some(ACCESS_LOG),
    }
}

fn servers(configuration: &Configuration, compiled: &Compiled) -> Vec<ExplainedServer> {
    let program = &compiled.program;
    // Those of a server follow its own.
    let mut explained: Vec<ExplainedServer> = Vec::with_capacity(program.servers.len());
    let scripts = Scripts::of(program);
    for (number, server) in program.servers.iter().enumerate() {
        let end = program.servers.get(number + 1).map_or(program.blocks.len() as u32, |next| next.block.0);
        let place = |id: u32| {
            let at = compiled.places.get(id as usize).copied().flatten();
            let at = at.map(|place| whereabouts(configuration, place));
            explain_place(program, &scripts, (number as u16, BlockId(id)), at)
        };
        explained.push(ExplainedServer {
            name: told(&server.name),
            settings: place(server.block.0),
            places: (server.block.0 + 1..end).map(place).collect(),
        });
    }
    explained
}

fn explain_place(
    program: &Program,
    scripts: &Scripts,
    (server, id): (u16, BlockId),
    at: Option<Whereabouts>,
) -> ExplainedPlace {
    let block = &program.blocks[id.0 as usize];
    let answers = match block.content {
        ContentRules::StubStatus => Answers::StubStatus,
        ContentRules::EmptyGif => Answers::EmptyGif,
        ContentRules::Proxy(_) => Answers::Proxy,
        ContentRules::Grpc(_) => Answers::Grpc,
        ContentRules::Gateway(_) => Answers::Gateway,
        ContentRules::Files if always_returns(block).is_some() => Answers::Return,
        ContentRules::Files if block.root.alias.is_some() => Answers::Alias,
        ContentRules::Files => Answers::Root,
    };
    let is_file = matches!(answers, Answers::Root | Answers::Alias);
    let (kept_off, kept_off_for_some) = ready::kept_off(program, scripts, (server, id));
    ExplainedPlace {
        label: told(&block.label),
        at,
        answers,
        folder: block.root.path.constant().filter(|_| is_file).map(told),
        ready: kept_off.is_empty(),
        kept_off,
        kept_off_for_some,
        slower: ready::slower(program, block),
        alias_without_slash: alias_without_slash(block),
    }
}

/// The status that a block's script returns whatever is asked for.
fn always_returns(block: &Block) -> Option<u16> {
    match block.script.first() {
        Some(Instruction::Return { status, .. }) => Some(*status),
        _ => None,
    }
}

/// Whether what the alias stands for ends without a slash, and the alias with one:
/// `/img` and `/data/` make `/data/../x` of `/img../x`.
fn alias_without_slash(block: &Block) -> bool {
    let (Some(Alias::Start(length)), Some(path)) = (block.root.alias, block.root.path.constant()) else {
        return false;
    };
    // Places within have paths of their own, which say no more of it.
    let name = block.label.strip_prefix(b"^~").unwrap_or(&block.label).trim_ascii_start();
    name.len() == length as usize && name.first() == Some(&b'/') && !name.ends_with(b"/") && path.ends_with(b"/")
}

fn whereabouts(configuration: &Configuration, place: Place) -> Whereabouts {
    Whereabouts { file: configuration.path(place.file).map(PathBuf::from), line: place.line }
}

fn told(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
