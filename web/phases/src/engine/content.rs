//! What answers a request: files, folders, text.

use super::course::Phase;
use super::course_parts::Tried;
use super::errors::{FORBIDDEN, MISSING};
use super::run::{At, FileAt, Flow, Runner};
use super::text::{Escape, escape};
use crate::program::{Alias, Block, ContentRules, SymlinkKind};
use app::Body;
use features::ErrorLevel;
use features::Value;
use files::{Excerpt, Unread};
use gzip::Coding;
use semantics::Method;
use std::rc::Rc;

/// An answer, before its fields are known.
pub(super) struct Answer {
    pub status: u16,
    pub media_type: Option<Vec<u8>>,
    pub body: AnswerBody,
    /// Unix seconds, and the entity tag.
    pub modified: Option<u64>,
    pub etag: Option<String>,
    /// How the site writes when it was modified, in place of that date.
    pub modified_text: Option<Vec<u8>>,
    pub location: Option<Vec<u8>>,
    pub takes_ranges: bool,
    /// It takes one alone.
    pub takes_one_range: bool,
    /// What an upstream says of ranges does not hold any more.
    pub is_unranged: bool,
    /// The coding that the body is in.
    pub coding: Option<Coding>,
    /// Others might get it in another.
    pub vary: bool,
    /// nginx does not know its length, and so compresses it however short it is.
    pub unmeasured: bool,
    /// An upstream gave it: it has looked at conditions. Its content is in a coding that
    /// nothing is known of.
    pub of_upstream: bool,
    pub is_coded: bool,
}

/// Where a body comes from.
pub(super) enum AnswerBody {
    None,
    Bytes(Vec<u8>),
    Memory(Body),
    /// It is not sent, and its length not known.
    Unknown,
    File(FileAt),
    /// The same, of which this is sent in its place.
    Excerpt(FileAt, Box<Excerpt>),
    /// It comes from an upstream; its length, if that is known.
    Upstream(Option<u64>),
    /// The same by slices, of a whole of so many bytes; the first, if all of it came.
    Sliced(u64, Option<Vec<u8>>),
}

impl AnswerBody {
    /// Bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::None | Self::Unknown => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Memory(body) => body.len() as u64,
            Self::File(file) => file.size,
            Self::Excerpt(_, excerpt) => excerpt.length(),
            Self::Upstream(length) => length.unwrap_or(0),
            Self::Sliced(length, _) => *length,
        }
    }
}

impl Answer {
    pub const fn new(status: u16, body: AnswerBody) -> Self {
        Self {
            status,
            media_type: None,
            body,
            modified: None,
            etag: None,
            modified_text: None,
            location: None,
            takes_ranges: false,
            takes_one_range: false,
            is_unranged: false,
            coding: None,
            vary: false,
            unmeasured: false,
            of_upstream: false,
            is_coded: false,
        }
    }
}

impl Answer {
    /// Its bytes become others: there are no ranges of them, and its tag names what it
    /// was made of. One without quotes is none, and cannot be made weak.
    pub fn changes(&mut self) {
        (self.takes_ranges, self.is_unranged) = (false, true);
        self.etag.take_if(|etag| !etag.starts_with("W/") && !etag.starts_with('"'));
        if let Some(etag) = self.etag.as_mut().filter(|etag| !etag.starts_with("W/")) {
            etag.insert_str(0, "W/");
        }
    }

    /// Nothing tells its content from another any more.
    pub fn clear_validators(&mut self) {
        (self.modified, self.modified_text, self.etag) = (None, None, None);
    }
}

impl Runner<'_> {
    /// The content phase.
    pub(super) fn content(&mut self) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(at) = Self::block(&loaded, self.course) else { return Flow::Status(500) };
        let block: &Block = &loaded.program.blocks[at];
        if block.mirrors && !self.is_sub() {
            match self.mirror(block) {
                Flow::On => {}
                flow => return flow,
            }
        }
        match block.content {
            ContentRules::Files => {}
            #[cfg(test)]
            ContentRules::Echo(streamed) => return self.echo(streamed),
            ContentRules::Proxy(ref pass) | ContentRules::Grpc(ref pass) => {
                let is_grpc = matches!(block.content, ContentRules::Grpc(_));
                return self.pass_on(if is_grpc { &block.grpc } else { &block.proxy }, pass);
            }
            ContentRules::Gateway(ref pass) => return self.pass_to_program(block, pass),
            _ => return self.fixed_content(block),
        }
        let is_sought = block.features.seeking.format.is_some();
        if is_sought && !matches!(self.course.method, Method::Get | Method::Head) {
            return Flow::Status(405);
        }
        if self.course.uri.last() == Some(&b'/') {
            return self.folder(block);
        }
        self.file(block)
    }

    /// A path that ends with a slash: its index, or what is in it.
    fn folder(&mut self, block: &Block) -> Flow {
        if !matches!(self.course.method, Method::Get | Method::Head | Method::Post) {
            return Flow::Status(405);
        }
        // `random_index` comes first: an index is a file as others are.
        while let Some(name) = block.index.get(self.course.at as usize).filter(|_| !block.autoindex.random) {
            let name = self.scope().get(name);
            if name.first() == Some(&b'/') {
                // Another name was looked for in vain: is the folder there at all?
                if self.course.at > 0
                    && let Err(flow) = self.existing_folder(block)
                {
                    return flow;
                }
                let args = core::mem::take(&mut self.course.args);
                return self.redirect(&name, &args);
            }
            let mut path = Vec::new();
            self.scope().file_path(&mut path);
            path.extend_from_slice(&name);
            match self.look(&path) {
                Ok(At::File(_) | At::Unread(Unread::File { .. } | Unread::Other)) => {
                    let uri = [self.course.uri.as_slice(), &name].concat();
                    let args = core::mem::take(&mut self.course.args);
                    return self.redirect(&uri, &args);
                }
                Ok(At::Forbidden) => {
                    // A link that may not be followed is refused without a word.
                    if block.symlinks.kind == SymlinkKind::Followed {
                        self.tell_of_file("", &path, "is forbidden", FORBIDDEN);
                    }
                    return Flow::Status(403);
                }
                Ok(At::Failed) => return Flow::Status(500),
                Ok(At::Missing | At::Directory | At::Unread(Unread::Directory)) => {}
                Err(flow) => return flow,
            }
            self.course.at += 1;
        }
        match self.existing_folder(block) {
            // One of its files may be asked for by any method that files know.
            Ok(path) if block.autoindex.random || block.autoindex.on && self.course.method != Method::Post => {
                self.list(block, &path)
            }
            Ok(path) => self.no_index(&path),
            Err(flow) => flow,
        }
    }

    /// The path of the folder that is asked for, if it is there.
    fn existing_folder(&mut self, block: &Block) -> Result<Vec<u8>, Flow> {
        let mut path = Vec::new();
        self.scope().file_path(&mut path);
        match self.look(&path)? {
            At::Directory | At::Unread(Unread::Directory) => Ok(path),
            At::Forbidden => {
                self.tell_of_file("", &path, "is forbidden", FORBIDDEN);
                Err(Flow::Status(403))
            }
            At::Failed => Err(Flow::Status(500)),
            At::Missing | At::File(_) | At::Unread(_) if block.autoindex.random => {
                self.tell_of_file("opendir() ", path.strip_suffix(b"/").unwrap_or(&path), "failed", MISSING);
                Err(Flow::Status(404))
            }
            At::Missing | At::File(_) | At::Unread(_) => {
                if let Some(name) = block.index.first() {
                    path.extend_from_slice(&self.scope().get(name));
                }
                self.tell_of_file("", &path, "is not found", MISSING);
                Err(Flow::Status(404))
            }
        }
    }

    pub(super) fn no_index(&self, path: &[u8]) -> Flow {
        self.tell(ErrorLevel::ERROR, || [b"directory index of \"", path, b"\" is forbidden"].concat());
        Flow::Status(403)
    }

    /// A file.
    fn file(&mut self, block: &Block) -> Flow {
        if !matches!(self.course.method, Method::Get | Method::Head | Method::Post) {
            return Flow::Status(405);
        }
        let mut path = Vec::new();
        self.scope().file_path(&mut path);
        let (coded, vary) = match self.course.method {
            Method::Post => (None, false),
            // These have no other forms.
            _ if block.features.seeking.format.is_some() => (None, false),
            _ => match self.precompressed(block, &path) {
                Ok(found) => found,
                Err(flow) => return flow,
            },
        };
        let found = match coded.map_or_else(|| self.look(&path), |(file, _)| Ok(At::File(file))) {
            Ok(found) => found,
            Err(flow) => return flow,
        };
        match found {
            At::File(_) if self.course.method == Method::Post => Flow::Status(405),
            At::File(file) => {
                let mut answer = Answer::new(200, AnswerBody::File(file));
                answer.media_type = Some(self.media_type(block));
                answer.modified = Some(file.modified);
                answer.takes_ranges = true;
                (answer.coding, answer.vary) = (coded.map(|(_, coding)| coding), vary);
                answer.status = self.course.told.unwrap_or(200);
                if let Err(flow) = self.seek(block, (file, path.as_slice()), &mut answer) {
                    return flow;
                }
                // By the length of what is sent, which of a film from a time on is another.
                let length = answer.body.length();
                answer.etag = block.fields.etag.then(|| format!("\"{:x}-{length:x}\"", file.modified));
                match self.compress_file(&answer, block) {
                    Some(flow) => flow,
                    None => self.send(answer),
                }
            }
            At::Directory => self.redirect_to_slash(),
            // It was there when it was tried, and is gone.
            At::Missing if self.course.again.tried == Tried::Found && block.try_files.is_some() => {
                self.course.again.tried = Tried::Again;
                self.course.enter(Phase::Try);
                Flow::On
            }
            At::Missing => {
                self.tell_of_file("open() ", &path, "failed", MISSING);
                Flow::Status(404)
            }
            At::Unread(Unread::Other) => {
                self.tell(ErrorLevel::CRIT, || [b"\"", &path[..], b"\" is not a regular file"].concat());
                Flow::Status(404)
            }
            At::Forbidden | At::Unread(_) => {
                self.tell_of_file("open() ", &path, "failed", FORBIDDEN);
                Flow::Status(403)
            }
            At::Failed => Flow::Status(500),
        }
    }

    /// What is asked for ends with a slash that is missing.
    pub(super) fn redirect_to_slash(&mut self) -> Flow {
        let mut location = Vec::new();
        escape(&self.course.uri, Escape::Path, &mut location);
        location.push(b'/');
        if !self.course.args.is_empty() {
            location.push(b'?');
            location.extend_from_slice(&self.course.args);
        }
        self.location = Some(location);
        Flow::Status(301)
    }

    /// The media type of what the path names.
    pub(super) fn media_type(&self, block: &Block) -> Vec<u8> {
        if let Some(kept) = &self.course.kept.media_type {
            return kept.clone();
        }
        block.types.of(&self.course.uri).unwrap_or(&block.default_type).to_vec()
    }

    /// Text of the configuration's own.
    pub(super) fn answer_text(&mut self, status: u16, text: Vec<u8>) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(at) = Self::block(&loaded, self.course) else { return Flow::Status(500) };
        self.course.enter(Phase::Content);
        let block = &loaded.program.blocks[at];
        self.course.sent.is_text = !block.filters.any();
        let mut answer = Answer::new(status, AnswerBody::Bytes(text));
        answer.media_type = Some(self.media_type(block));
        self.send(answer)
    }

    /// Where the block's files are, for a path that is looked for below it.
    pub(super) fn root_of(&mut self, block: &Block, out: &mut Vec<u8>) {
        let root: &Value = &block.root.path;
        self.scope().write(root, out);
    }

    /// What of a name that is tried follows the root: what stands for an alias is
    /// left out where the name has it.
    pub(super) fn below_alias<'n>(&self, block: &Block, name: &'n [u8]) -> &'n [u8] {
        match block.root.alias {
            Some(Alias::Start(length)) => {
                let start = self.course.uri.get(..length as usize);
                start.and_then(|start| name.strip_prefix(start)).unwrap_or(name)
            }
            _ => name,
        }
    }

    /// The path becomes what was tried and found.
    pub(super) fn take_tried(&mut self, block: &Block, name: Vec<u8>, is_directory: bool) {
        match block.root.alias {
            None => self.course.uri = name,
            Some(Alias::Path) => {
                if !is_directory {
                    self.course.uri = name;
                    self.course.whole_path = true;
                }
            }
            Some(Alias::Start(length)) => {
                let start = self.course.uri.get(..length as usize).unwrap_or_default();
                let rest = name.strip_prefix(start).unwrap_or(&name);
                self.course.uri = [start, rest].concat();
            }
        }
    }
}
