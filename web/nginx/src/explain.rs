//! `-t --explain`: what each server and location is, what has no effect here, and
//! what keeps answers from being given ready.

use crate::compile::Compiled;
use crate::message::Place;
use crate::reader::Configuration;
use core::fmt;
use phases::program::{Alias, ContentRules, Expires};
use phases::script::{Condition, Instruction};
use phases::variables::{Core, Variable};
use phases::{Block, BlockId, Program, Value, VirtualServer};
use std::collections::{BTreeMap, BTreeSet};

/// What a configuration comes to, for people: its `Display` is some lines.
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'c> {
    configuration: &'c Configuration,
    compiled: &'c Compiled,
}

/// Explains a configuration.
#[must_use]
pub const fn explain<'c>(configuration: &'c Configuration, compiled: &'c Compiled) -> Explanation<'c> {
    Explanation { configuration, compiled }
}

/// What a variable is the same for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Reach {
    /// All requests.
    Always,
    /// Those of one second.
    Second,
    /// Those with the same path, or the same path and query.
    Target,
    /// Those of a connection.
    Connection,
    /// Those with the same field.
    Header,
    /// None but the request itself.
    Request,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "always the same",
            Self::Second => "of the second",
            Self::Target => "of the target",
            Self::Connection => "of the connection",
            Self::Header => "of a field of the request",
            Self::Request => "of the request alone",
        })
    }
}

/// Of one of nginx's own.
const fn reach(core: Core) -> Reach {
    match core {
        Core::Hostname
        | Core::NginxVersion
        | Core::Pid
        | Core::ServerName
        | Core::DocumentRoot
        | Core::RealpathRoot
        | Core::Scheme
        | Core::Https => Reach::Always,
        Core::DateGmt | Core::DateLocal | Core::TimeIso8601 | Core::TimeLocal => Reach::Second,
        Core::Uri
        | Core::DocumentUri
        | Core::RequestFilename
        | Core::Args
        | Core::QueryString
        | Core::IsArgs
        | Core::RequestUri
        | Core::RequestMethod
        | Core::ServerProtocol => Reach::Target,
        Core::RemoteAddr
        | Core::BinaryRemoteAddr
        | Core::RemotePort
        | Core::RealipRemoteAddr
        | Core::RealipRemotePort
        | Core::ServerAddr
        | Core::ServerPort
        | Core::ProxyProtocolAddr
        | Core::ProxyProtocolPort
        | Core::ProxyProtocolServerAddr
        | Core::ProxyProtocolServerPort
        | Core::Connection => Reach::Connection,
        Core::Host | Core::ContentType | Core::ContentLength | Core::RemoteUser | Core::InvalidReferer => Reach::Header,
        _ => Reach::Request,
    }
}

/// What variables of values reach.
struct Reaches<'p> {
    program: &'p Program,
    /// Numbers that were seen: a map may name itself by another.
    seen: BTreeSet<u16>,
    /// Names of those that keep answers from being given again, and why.
    kept: BTreeSet<(String, Reach)>,
}

impl Reaches<'_> {
    fn value(&mut self, value: &Value) {
        let numbers: Vec<u16> = value.variables().collect();
        numbers.into_iter().for_each(|number| self.variable(number));
    }

    fn variable(&mut self, number: u16) {
        if !self.seen.insert(number) {
            return;
        }
        let program = self.program;
        let found = match program.variables.get(number) {
            Some(Variable::Core(core)) => reach(*core),
            Some(Variable::Header(_) | Variable::Cookie(_)) => Reach::Header,
            Some(Variable::Argument(_)) => Reach::Target,
            Some(Variable::SentHeader(_) | Variable::SentTrailer(_)) => Reach::Request,
            Some(Variable::Map(map)) => {
                if let Some(map) = program.maps.get(usize::from(*map)) {
                    self.value(&map.source);
                    map.values().for_each(|value| self.value(value));
                }
                Reach::Always
            }
            Some(Variable::Geo(_)) => Reach::Connection,
            Some(Variable::Split(split)) => {
                if let Some(split) = program.splits.get(usize::from(*split)) {
                    self.value(&split.source);
                }
                Reach::Always
            }
            // Its values are those that scripts give it, which are looked at there.
            Some(Variable::Slot(_) | Variable::Absent) | None => Reach::Always,
        };
        if found > Reach::Target {
            let name = String::from_utf8_lossy(program.variables.name(number)).into_owned();
            self.kept.insert((name, found));
        }
    }

    fn script(&mut self, script: &[Instruction]) {
        for instruction in script {
            match instruction {
                Instruction::Set { value, .. } => self.value(value),
                Instruction::Rewrite { replacement, arguments, .. } => {
                    self.value(replacement);
                    arguments.iter().for_each(|arguments| self.value(arguments));
                }
                Instruction::Return { text, .. } => text.iter().for_each(|text| self.value(text)),
                Instruction::If { condition, .. } => match condition {
                    Condition::True(value) | Condition::File { path: value, .. } => self.value(value),
                    Condition::Equal { left, right, .. } => {
                        self.value(left);
                        self.value(right);
                    }
                    Condition::Matches { left, .. } => self.value(left),
                },
                Instruction::Break => {}
            }
        }
    }

    fn block(&mut self, block: &Block) {
        self.script(&block.script);
        self.value(&block.root.path);
        block.index.iter().for_each(|index| self.value(index));
        if let Some(try_files) = &block.try_files {
            try_files.tried.iter().for_each(|(value, _)| self.value(value));
        }
        for field in block.fields.added.iter().chain(&block.fields.trailers) {
            self.value(&field.value);
        }
        if let Expires::Value(value) = &block.fields.expires {
            self.value(value);
        }
        block.charset.charset.iter().for_each(|charset| self.value(charset));
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = &self.compiled.program;
        for listener in &program.listeners {
            match (&listener.address, &listener.path) {
                (Some(address), _) => write!(f, "listens on {address}:")?,
                (None, Some(path)) => write!(f, "listens on unix:{}:", path.display())?,
                (None, None) => {}
            }
            for id in &listener.servers {
                let server = &program.servers[usize::from(id.0)];
                write!(f, " {}", name_of(&server.name))?;
            }
            writeln!(f)?;
        }
        let servers: BTreeMap<BlockId, &VirtualServer> =
            program.servers.iter().map(|server| (server.block, server)).collect();
        for (at, block) in program.blocks.iter().enumerate() {
            let at = BlockId(at as u32);
            match servers.get(&at) {
                Some(server) => writeln!(f, "server {} at {}", name_of(&server.name), self.place(at))?,
                None => writeln!(f, "  {} at {}", String::from_utf8_lossy(&block.label), self.place(at))?,
            }
            self.block(f, block)?;
        }
        if !self.compiled.notes.is_empty() {
            writeln!(f, "no effect here:")?;
        }
        for note in &self.compiled.notes {
            writeln!(f, "  {} at {}: {}", note.name, self.named(note.place), note.why)?;
        }
        Ok(())
    }
}

impl Explanation<'_> {
    fn block(&self, f: &mut fmt::Formatter<'_>, block: &Block) -> fmt::Result {
        let program = &self.compiled.program;
        let returns = block.script.iter().any(|one| matches!(one, Instruction::Return { .. }));
        let what = match block.content {
            ContentRules::Files if returns && block.script.len() == 1 => "a response of its own",
            ContentRules::StubStatus => "numbers of connections",
            ContentRules::EmptyGif => "an empty picture",
            ContentRules::Files => "files",
        };
        write!(f, "    {what}")?;
        if what == "files" {
            let kind = if block.root.alias.is_some() { "alias" } else { "root" };
            match block.root.path.constant() {
                Some(path) => write!(f, ", {kind} {}", String::from_utf8_lossy(path))?,
                None => write!(f, ", {kind} by request")?,
            }
        }
        writeln!(f)?;
        let mut reaches = Reaches { program, seen: BTreeSet::new(), kept: BTreeSet::new() };
        reaches.block(block);
        let mut reasons: Vec<String> =
            reaches.kept.into_iter().map(|(name, reach)| format!("${name} is {reach}")).collect();
        if !block.access.is_empty() {
            reasons.push("access rules are asked for each request".to_owned());
        }
        if !block.limits.is_empty() {
            reasons.push("requests or connections are counted".to_owned());
        }
        if block.limit_except.is_some() {
            reasons.push("methods have rules of their own".to_owned());
        }
        if block.connection.keepalive.is_zero() {
            reasons.push("its connections end with each answer".to_owned());
        }
        if block.content == ContentRules::StubStatus {
            reasons.push("its numbers change with each request".to_owned());
        }
        if block.limit_rate.is_some() {
            reasons.push("its rate is limited".to_owned());
        }
        match reasons.as_slice() {
            [] => writeln!(f, "    answers are given ready where they are held in memory")?,
            reasons => writeln!(f, "    no answer is given ready: {}", reasons.join("; "))?,
        }
        let lets_out = match (&block.root.alias, block.root.path.constant()) {
            (Some(Alias::Start(_)), Some(path)) => path.ends_with(b"/") && !block.label.ends_with(b"/"),
            _ => false,
        };
        let is_exact = block.label.starts_with(b"=");
        if lets_out && !is_exact && !block.label.starts_with(b"if") {
            writeln!(f, "    careful: a slash is missing at its end, so that /..-like names lead out of its folder")?;
        }
        Ok(())
    }

    fn place(&self, block: BlockId) -> String {
        let place = self.compiled.places.get(block.0 as usize).copied().flatten();
        place.map_or_else(String::new, |place| self.named(place))
    }

    fn named(&self, place: Place) -> String {
        match self.configuration.path(place.file) {
            Some(path) => format!("{}:{}", path.display(), place.line),
            None => "the command line".to_owned(),
        }
    }
}

fn name_of(name: &[u8]) -> String {
    if name.is_empty() { "\"\"".to_owned() } else { String::from_utf8_lossy(name).into_owned() }
}
