//! In which coding an answer is sent.

use crate::answer::{Answer, AnswerBody};
use crate::filtered_body::Making;
use crate::lookup::{At, FileAt};
use crate::request_state::Depends;
use crate::runner::{Flow, Runner};
use crate::waits::On;
use configuration::program::{Block, SymlinkKind};
use core::time::Duration;
use features::compression::{
    Accepted, BodyKey, Chosen, Compressed, CompressedBodies, CompressionRules, DiskFile, FILE_MAX, RequestFacts,
    ResponseFacts, Uncompressed,
};
use filters::Filter;
use gzip::Coding;
use semantics::{Known, Method, date};

/// Answers that are made at a time, beyond which no more are compressed by the piece.
const ENCODED_MAX: usize = 2_048;

/// Nothing is compressed for who takes less than this at a time: who compresses has some hundred
/// kilobytes until the end of the body.
const ENCODED_ROOM: usize = 4 << 10;

/// How long a request waits for its content to be compressed; then it is sent as it is.
const COMPRESSION_WAIT: Duration = Duration::from_secs(5);

impl Runner<'_> {
    /// What the client takes here.
    pub(crate) fn accepted(&mut self, rules: &CompressionRules) -> Accepted {
        if self.state.within.sub.is_some() {
            // What it is part of is coded.
            return Accepted::default();
        }
        self.state.reuse.depends.on(Depends::ENCODING);
        let request = self.request;
        let has = |known| request.at().has(known);
        let facts = RequestFacts {
            accept_encoding: request.known(Known::AcceptEncoding),
            user_agent: request.known(Known::UserAgent),
            via: has(Known::Via),
            authorization: has(Known::Authorization),
            old: self.state.about.http10,
        };
        if rules.looks_at_agents() {
            self.state.reuse.depends.on(Depends::OTHER);
        }
        let loaded = &self.loaded;
        rules.accepted(&facts, &mut |expression, agent| loaded.matches(expression, agent))
    }

    /// A file that was compressed before, beside the one at `path`; or nothing, and
    /// whether others might get one.
    pub(crate) fn precompressed(
        &mut self,
        block: &Block,
        path: &[u8],
    ) -> Result<(Option<(FileAt, Coding)>, bool), Flow> {
        let rules = &block.features.compression;
        if !rules.has_files() {
            return Ok((None, false));
        }
        let accepted = self.accepted(rules);
        let mut vary = false;
        let files: Vec<_> = rules.files(accepted).collect();
        for (coding, chosen) in files {
            let beside = [path, coding.suffix()].concat();
            if let At::File(file) = self.look(&beside)? {
                vary |= chosen.vary;
                if let Some(coding) = chosen.coding {
                    return Ok((Some((file, coding)), vary));
                }
            }
        }
        Ok((None, vary))
    }

    /// Which coding an answer gets, which has these lines of fields, too.
    fn choose(&mut self, answer: &Answer, block: &Block, added: &[u8], making: &Making) -> Chosen {
        let rules = &block.features.compression;
        if !rules.is_on() || self.state.within.sub.is_some() {
            return Chosen { coding: None, vary: false };
        }
        let accepted = self.accepted(rules);
        if self.request.at().has(Known::Via) {
            // Of answers to proxies the age decides, too.
            self.state.reuse.depends.on(Depends::SECOND);
        }
        self.with_facts(answer, added, making, |facts| rules.choose(accepted, facts))
    }

    /// What of an answer that has these lines of fields, too, decides how it is coded.
    pub(crate) fn with_facts<T>(
        &self,
        answer: &Answer,
        added: &[u8],
        making: &Making,
        act: impl FnOnce(&ResponseFacts<'_>) -> T,
    ) -> T {
        let named = |name: &'static [u8]| {
            added.split(|byte| *byte == b'\n').filter_map(move |line| {
                let colon = line.iter().position(|byte| *byte == b':')?;
                line[..colon].eq_ignore_ascii_case(name).then(|| line[colon + 1..].trim_ascii())
            })
        };
        let cache_control: Vec<&[u8]> = named(b"cache-control").collect();
        let second = self.rest.clock.second;
        act(&ResponseFacts {
            status: answer.status,
            encoded: answer.coding.is_some() || answer.is_coded,
            length: (!making.is_open && !answer.unmeasured).then(|| answer.body.length()),
            media_type: answer.media_type.as_deref().unwrap_or_default(),
            expires: named(b"expires").next().map(|value| date::parse(value, second).unwrap_or(u64::MAX)),
            now: second,
            cache_control: &cache_control,
            // nginx looks at the field, which it has of upstreams alone; a file's is a time.
            last_modified: answer.modified.is_some() && answer.of_upstream,
            etag: answer.etag.is_some(),
        })
    }

    /// Has a file's content compressed, if it is to be and is not yet: then the
    /// request waits, but once, and for [`COMPRESSION_WAIT`] at most. Who compresses stays
    /// behind all others on its core: on a busy one a long file takes it any time.
    pub(crate) fn compress_file(&mut self, answer: &Answer, block: &Block) -> Option<Flow> {
        let AnswerBody::File(file) = answer.body else { return None };
        let follows = block.symlinks.kind == SymlinkKind::Followed;
        if self.state.method == Method::Head || !follows || block.filters.any() && answer.may_pass(block) {
            return None;
        }
        // What is added to it may forbid it later.
        let making = Making::new();
        let Chosen { coding: Some(coding), .. } = self.choose(answer, block, b"", &making) else { return None };
        let level = block.features.compression.of(coding).level;
        let (key, content) = self.compressible(file, coding, level)?;
        let is_known = !matches!(self.rest.compressed.as_mut()?.find(key), Compressed::Unknown);
        if is_known || self.state.features.compression.waited_by.is_some() {
            return None;
        }
        let ticket = self.rest.tickets.next(self.token);
        if !self.rest.compressed.as_mut()?.ask(key, content, ticket) {
            return None;
        }
        self.state.wait.ticket = Some(ticket);
        self.state.features.compression.waited_by = Some(ticket);
        self.rest.tickets.expire(ticket, self.rest.clock.now + COMPRESSION_WAIT);
        Some(Flow::Waits(On::Helper))
    }

    /// A file's content, and what it is known by when it was compressed.
    fn compressible(&mut self, file: FileAt, coding: Coding, level: u8) -> Option<(BodyKey, Uncompressed)> {
        if let Some(memory) = self.files.in_memory(file.id) {
            let key = CompressedBodies::key(memory.body, coding, level);
            return Some((key, Uncompressed::Memory(memory.body.clone(), memory.start)));
        }
        let (path, meta) = self.files.on_disk(file.id)?;
        if file.size > FILE_MAX {
            return None;
        }
        let content = DiskFile { path, size: file.size, modified: file.modified };
        let tag = meta.file.as_ref().map_or("", |file| &file.etag);
        let key = self.rest.compressed.as_ref()?.key_of_file(&content, tag, coding, level);
        Some((key, Uncompressed::File(content)))
    }

    /// Gives an answer the coding that it is sent in. Whether it is to say that
    /// others might get another.
    pub(crate) fn encode(&mut self, answer: &mut Answer, block: &Block, added: &[u8], making: &mut Making) -> bool {
        let Chosen { coding, vary } = self.choose(answer, block, added, making);
        let Some(coding) = coding else { return vary };
        let rules = block.features.compression.of(coding);
        let whole = answer.body.length();
        // What links lead to is read by who knows their rule.
        let follows = block.symlinks.kind == SymlinkKind::Followed;
        let passes = !follows || block.filters.any() && answer.may_pass(block);
        match &answer.body {
            // How long it would be, nobody knows.
            AnswerBody::File(_)
            | AnswerBody::Excerpt(..)
            | AnswerBody::Bytes(_)
            | AnswerBody::Upstream(_)
            | AnswerBody::Sliced(..)
                if self.state.method == Method::Head =>
            {
                answer.body = AnswerBody::Unknown;
            }
            AnswerBody::File(file) if !making.is_needed() && file.size <= FILE_MAX && !passes => {
                let content = self.compressible(*file, coding, rules.level);
                let (Some((key, _)), Some(bodies)) = (content, self.rest.compressed.as_mut()) else {
                    self.state.reuse.depends.on(Depends::SECOND);
                    return vary;
                };
                let body = match bodies.find(key) {
                    Compressed::Known(body) => body,
                    Compressed::AsItIs => return vary,
                    Compressed::Unknown => {
                        // What could not be compressed in time is sent as it is, this time.
                        self.state.reuse.depends.on(Depends::SECOND);
                        return vary;
                    }
                };
                self.state.features.compression.lengths = Some((whole, u64::from(body.len())));
                answer.body = AnswerBody::Memory(body);
            }
            AnswerBody::File(_)
            | AnswerBody::Excerpt(..)
            | AnswerBody::Bytes(_)
            | AnswerBody::Memory(_)
            | AnswerBody::Upstream(_)
            | AnswerBody::Sliced(..) => {
                let takes_little = self.replies.flow(self.state.id).welcome() < ENCODED_ROOM;
                if takes_little || self.rest.makings.count() > ENCODED_MAX {
                    // Each of them holds memory for as long as its client takes.
                    self.state.reuse.depends.on(Depends::SECOND);
                    return vary;
                }
                let level = rules.level_by_piece(coding);
                let Some(encoder) = self.rest.encoders.take(coding, level) else {
                    self.state.reuse.depends.on(Depends::SECOND);
                    return vary;
                };
                let filter = Filter::encode(encoder, (coding, level));
                match &mut making.postponed {
                    Some(postponed) => postponed.coding.push(filter),
                    None => making.pipeline.push(filter),
                }
                making.is_open = true;
            }
            AnswerBody::None | AnswerBody::Unknown => return vary,
        }
        answer.coding = Some(coding);
        answer.changes();
        vary
    }
}
