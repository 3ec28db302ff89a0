//! Whether answers of a place are given ready, and what keeps them off: what the
//! engine finds out by a request, from the configuration alone.

use super::{KeptOff, Slower, always_returns, told};
use configuration::program::ContentRules;
use configuration::script::{Condition, Instruction, SetTarget};
use configuration::variables::Variable;
use configuration::{Block, BlockId, Program};
use features::{Explaining, Reach, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Whose scripts run before a block's settings count: that of the location which
/// an `if` stands in.
pub(super) struct Scripts(BTreeMap<BlockId, BlockId>);

impl Scripts {
    pub fn of(program: &Program) -> Self {
        let mut outer = BTreeMap::new();
        for (at, block) in program.blocks.iter().enumerate() {
            let inner = block.script.iter().filter_map(|instruction| match instruction {
                Instruction::If { settings, .. } => *settings,
                _ => None,
            });
            outer.extend(inner.map(|inner| (inner, BlockId(at as u32))));
        }
        Self(outer)
    }
}

/// What keeps answers off: all of them, and some.
#[derive(Default)]
struct Reasons {
    all: BTreeSet<KeptOff>,
    some: BTreeSet<KeptOff>,
}

/// What variables of a place reach.
struct Reaches<'p> {
    program: &'p Program,
    reasons: Reasons,
    /// Numbers that were seen: a map may name itself by another.
    seen: BTreeSet<(u16, bool)>,
}

impl Reaches<'_> {
    fn directive(&mut self, name: &str, always: bool, why: &str) {
        self.keep(KeptOff { by: name.to_owned(), reach: None, why: format!("{name}: {why}") }, always);
    }

    fn keep(&mut self, reason: KeptOff, always: bool) {
        let Reasons { all, some } = &mut self.reasons;
        if always {
            some.remove(&reason);
            all.insert(reason);
        } else if !all.contains(&reason) {
            some.insert(reason);
        }
    }

    /// A value that is written, `always` or for some requests.
    fn value(&mut self, value: &Value, always: bool) {
        let numbers: Vec<u16> = value.variables().collect();
        numbers.into_iter().for_each(|number| self.variable(number, always));
    }

    fn variable(&mut self, number: u16, always: bool) {
        if !self.seen.insert((number, always)) {
            return;
        }
        let program = self.program;
        let Some(variable) = program.variables.get(number) else { return };
        match variable.unset() {
            Variable::Map(map) => {
                if let Some(map) = program.maps.get(usize::from(*map)) {
                    self.value(&map.source, always);
                    map.values().for_each(|value| self.value(value, false));
                }
            }
            Variable::Split(split) => {
                if let Some(split) = program.splits.get(usize::from(*split)) {
                    self.value(&split.source, always);
                }
            }
            _ => {}
        }
        let reach = variable.reach();
        if reach.is_shared() {
            return;
        }
        let by = format!("${}", told(program.variables.name(number)));
        // What depends on the query is ready for those who have none.
        let (always, why) = match reach {
            Reach::Query => (false, format!("{by} is {reach}: not where a request has one")),
            _ => (always, format!("{by} is {reach}")),
        };
        self.keep(KeptOff { by, reach: Some(reach.name()), why }, always);
    }

    /// A script: what stands in an `if` is done for some requests.
    fn script(&mut self, script: &[Instruction]) {
        let mut conditional_to = 0;
        for (at, instruction) in script.iter().enumerate() {
            let always = at >= conditional_to;
            match instruction {
                Instruction::Set { target, value } => {
                    self.value(value, always);
                    if *target == SetTarget::Arguments {
                        self.directive("set $args", always, "the query is no longer the one that was sent");
                    }
                }
                Instruction::Rewrite { replacement, arguments, .. } => {
                    self.value(replacement, false);
                    if let Some(arguments) = arguments {
                        self.value(arguments, false);
                        self.directive("rewrite", false, "where it matches, the query is another than the one sent");
                    }
                }
                Instruction::Return { text, .. } => {
                    text.iter().for_each(|text| self.value(text, always));
                    if always {
                        return;
                    }
                }
                Instruction::If { condition, otherwise, .. } => {
                    match condition {
                        Condition::True(value) | Condition::File { path: value, .. } => self.value(value, always),
                        Condition::Equal { left, right, .. } => {
                            self.value(left, always);
                            self.value(right, always);
                        }
                        Condition::Matches { left, .. } => self.value(left, always),
                    }
                    conditional_to = conditional_to.max(*otherwise as usize);
                }
                Instruction::Break if always => return,
                Instruction::Break => {}
            }
        }
    }

    /// What is written of a block's settings.
    fn settings(&mut self, block: &Block) {
        let is_file = block.content == ContentRules::Files && always_returns(block).is_none();
        if is_file {
            self.value(&block.root.path, true);
            block.index.iter().for_each(|index| self.value(index, false));
            if let Some(try_files) = &block.try_files {
                for (at, (value, _)) in try_files.tried.iter().enumerate() {
                    self.value(value, at == 0);
                }
            }
        }
        for field in &block.fields.added {
            self.value(&field.value, true);
        }
        block.charset.charset.iter().chain(&block.charset.source).for_each(|charset| self.value(charset, true));
    }

    /// Directives that keep answers off whatever variables they name.
    fn directives(&mut self, block: &Block, own: bool) {
        // A password has been told of by its feature.
        if !block.access.is_empty() && block.features.asks_for_password().is_none() {
            let is_asked = !block.access.permission.uri.is_empty();
            let name = if is_asked { "auth_request" } else { "allow, deny" };
            self.directive(name, own, "who asks is looked at in each request");
        }
        block.features.explain(self);
        if block.mirrors {
            self.directive("mirror", own, "each request is copied");
        }
        if block.subrequests.before.is_some() || block.subrequests.after.is_some() {
            self.directive("add_before_body, add_after_body", false, "they are asked for each time");
        }
        if block.limit_except.is_some() {
            self.directive("limit_except", own, "the method is looked at in each request");
        }
        if block.connection.keepalive.is_zero() {
            self.directive("keepalive_timeout", own, "the connection ends with each answer");
        }
        if block.connection.disabled.safari {
            self.directive("keepalive_disable", own, "browsers are looked at in each request");
        }
        let of_first = self.program.first_block().map(|block| block.connection).unwrap_or_default();
        let is_kept = !block.connection.keepalive.is_zero();
        if is_kept && block.connection.age < of_first.age {
            self.directive("keepalive_time", own, "shorter than the first server's: the connection's age is looked at");
        }
        if is_kept && block.connection.requests < of_first.requests {
            let why = "fewer than the first server's: the requests of a connection are counted";
            self.directive("keepalive_requests", own, why);
        }
        if block.content == ContentRules::StubStatus {
            self.directive("stub_status", own, "its numbers change with each request");
        }
        if let Some(directive) = asks(&block.content) {
            self.directive(directive, own, "an upstream is asked each time");
        }
        if let Some(status) = always_returns(block).filter(|status| *status != 200) {
            self.directive("return", own, &format!("only answers of status 200 are kept, and its own is {status}"));
        }
        if !block.fields.trailers.is_empty() {
            self.directive("add_trailer", own, "fields follow the body");
        }
        if let Some(rate) = &block.limit_rate
            && rate.constant() != Some(b"0")
        {
            let after = block.limit_rate_after.is_some();
            let why =
                if after { "what is longer than limit_rate_after is sent at a pace" } else { "it is sent at a pace" };
            self.directive("limit_rate", own && !after, why);
        }
        if block.content == ContentRules::Files && (block.autoindex.on || block.autoindex.random) {
            let name = if block.autoindex.random { "random_index" } else { "autoindex" };
            self.directive(name, false, "a folder is read for each request");
        }
    }
}

/// What features have to say of a place.
impl Explaining for Reaches<'_> {
    fn value(&mut self, value: &Value, always: bool) {
        Reaches::value(self, value, always);
    }

    fn keeps_off(&mut self, directive: &'static str, why: &'static str) {
        self.directive(directive, true, why);
    }

    fn serves_files(&self) -> bool {
        true
    }

    fn slows(&mut self, _directive: &'static str, _why: &'static str) {}
}

/// What of a place costs more than it looks.
struct Costs {
    slower: Vec<Slower>,
    is_file: bool,
}

impl Explaining for Costs {
    fn value(&mut self, _value: &Value, _always: bool) {}

    fn keeps_off(&mut self, _directive: &'static str, _why: &'static str) {}

    fn serves_files(&self) -> bool {
        self.is_file
    }

    fn slows(&mut self, directive: &'static str, why: &'static str) {
        self.slower.push(Slower { directive, why });
    }
}

/// What keeps answers of a block off: all of them, and some.
pub(super) fn kept_off(
    program: &Program,
    scripts: &Scripts,
    (server, id): (u16, BlockId),
) -> (Vec<KeptOff>, Vec<KeptOff>) {
    let block = &program.blocks[id.0 as usize];
    let mut reaches = Reaches { program, reasons: Reasons::default(), seen: BTreeSet::new() };
    let servers = program.servers.get(usize::from(server));
    // The server's script runs before its locations are looked for.
    if let Some(own) = servers.filter(|server| server.block != id).and_then(|server| block_of(program, server.block)) {
        reaches.script(&own.script);
    }
    // The script of an `if`'s location led there.
    let mut inner = id;
    while let Some(outer) = scripts.0.get(&inner) {
        if let Some(block) = block_of(program, *outer) {
            reaches.script(&block.script);
        }
        inner = *outer;
    }
    reaches.script(&block.script);
    reaches.settings(block);
    reaches.directives(block, true);
    let by_expression = program.listeners.iter().any(|listener| {
        let places = listener.servers.iter().enumerate().filter(|(_, id)| id.0 == server);
        places.into_iter().any(|(place, _)| listener.names.has_expression(place as u16))
    });
    if by_expression {
        let why = "what an expression found in the host is the request's own";
        reaches.directive("server_name", false, why);
    }
    let Reasons { all, some } = reaches.reasons;
    (all.into_iter().collect(), some.into_iter().collect())
}

fn block_of(program: &Program, id: BlockId) -> Option<&Block> {
    program.blocks.get(id.0 as usize)
}

/// What of a block costs more than it looks.
pub(super) fn slower(program: &Program, block: &Block) -> Vec<Slower> {
    let asks_for_files =
        block.script.iter().any(|one| matches!(one, Instruction::If { condition: Condition::File { .. }, .. }));
    let named_log =
        block.logs.iter().any(|used| program.logs.get(usize::from(used.log)).is_some_and(|log| log.path.is_some()));
    let is_file = block.content == ContentRules::Files;
    let of_files = [
        (asks_for_files, "if (-f)", "a path that was not looked at in the last second is looked at on a thread first"),
        (
            is_file && block.try_files.as_ref().is_some_and(|tried| tried.tried.len() > 3),
            "try_files",
            "each path that is tried in vain is looked at once a second",
        ),
        (is_file && block.autoindex.on, "autoindex", "the folder is read on a thread for each request"),
        (is_file && block.autoindex.random, "random_index", "the folder is read on a thread for each request"),
    ];
    let of_files = of_files.into_iter().filter(|(holds, ..)| *holds);
    let slower = of_files.map(|(_, directive, why)| Slower { directive, why }).collect();
    let mut costs = Costs { slower, is_file };
    block.features.explain(&mut costs);
    if named_log {
        costs.slows("access_log", "its file is looked for by name for each line");
    }
    costs.slower
}

/// The directive by which an upstream is asked.
fn asks(content: &ContentRules) -> Option<&'static str> {
    match content {
        ContentRules::Proxy(_) => Some("proxy_pass"),
        ContentRules::Grpc(_) => Some("grpc_pass"),
        ContentRules::Gateway(pass) => Some(pass.directive()),
        _ => None,
    }
}
