//! What answers a request: files, folders, text.

use super::answer::{Answer, AnswerBody};
use super::errors::{FORBIDDEN, MISSING};
use super::lookup::At;
use super::request_state::{Phase, Tried};
use super::runner::{Flow, Runner};
use configuration::program::{Block, ContentRules, SymlinkKind};
use features::ErrorLevel;
use files::Unread;
use semantics::Method;
use std::rc::Rc;

impl Runner<'_> {
    /// The content phase.
    #[inline(always)]
    pub(super) fn content(&mut self) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.state.route.block) else { return Flow::Status(500) };
        if block.mirrors && !self.is_sub() {
            match self.mirror(block) {
                Flow::On => {}
                flow => return flow,
            }
        }
        #[cfg(test)]
        if let Some(streamed) = super::echo::ANSWERS.get() {
            return self.echo(streamed);
        }
        match block.content {
            ContentRules::Files => {}
            ContentRules::Proxy(ref pass) | ContentRules::Grpc(ref pass) => {
                let is_grpc = matches!(block.content, ContentRules::Grpc(_));
                return self.pass_on(if is_grpc { &block.grpc } else { &block.proxy }, pass);
            }
            ContentRules::Gateway(ref pass) => return self.pass_to_program(block, pass),
            _ => return self.fixed_content(block),
        }
        let is_sought = block.features.seeking.format.is_some();
        if is_sought && !matches!(self.state.method, Method::Get | Method::Head) {
            return Flow::Status(405);
        }
        if self.state.route.uri.last() == Some(&b'/') {
            return self.folder(block);
        }
        self.file(block)
    }

    /// A path that ends with a slash: its index, or what is in it.
    fn folder(&mut self, block: &Block) -> Flow {
        if !matches!(self.state.method, Method::Get | Method::Head | Method::Post) {
            return Flow::Status(405);
        }
        // `random_index` comes first: an index is a file as others are.
        while let Some(name) = block.index.get(self.state.route.at as usize).filter(|_| !block.autoindex.random) {
            let name = self.scope().get(name);
            if name.first() == Some(&b'/') {
                // Another name was looked for in vain: is the folder there at all?
                if self.state.route.at > 0
                    && let Err(flow) = self.existing_folder(block)
                {
                    return flow;
                }
                let args = core::mem::take(&mut self.state.route.args);
                return self.redirect(&name, &args);
            }
            let mut path = Vec::new();
            self.scope().file_path(&mut path);
            path.extend_from_slice(&name);
            match self.look(&path) {
                Ok(At::File(_) | At::Unread(Unread::File { .. } | Unread::Other)) => {
                    let uri = [self.state.route.uri.as_slice(), &name].concat();
                    let args = core::mem::take(&mut self.state.route.args);
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
            self.state.route.at += 1;
        }
        match self.existing_folder(block) {
            // One of its files may be asked for by any method that files know.
            Ok(path) if block.autoindex.random || block.autoindex.on && self.state.method != Method::Post => {
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

    /// A file.
    fn file(&mut self, block: &Block) -> Flow {
        if !matches!(self.state.method, Method::Get | Method::Head | Method::Post) {
            return Flow::Status(405);
        }
        let mut path = Vec::new();
        self.scope().file_path(&mut path);
        let (coded, vary) = match self.state.method {
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
            At::File(_) if self.state.method == Method::Post => Flow::Status(405),
            At::File(file) => {
                let mut answer = Answer::new(200, AnswerBody::File(file));
                answer.media_type = Some(self.media_type(block));
                answer.modified = Some(file.modified);
                answer.takes_ranges = true;
                (answer.coding, answer.vary) = (coded.map(|(_, coding)| coding), vary);
                answer.status = self.state.reply.override_status.unwrap_or(200);
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
            At::Missing if self.state.wait.again.tried == Tried::Found && block.try_files.is_some() => {
                self.state.wait.again.tried = Tried::Again;
                self.state.route.enter(Phase::Try);
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

    /// The media type of what the path names.
    pub(super) fn media_type(&self, block: &Block) -> Vec<u8> {
        if let Some(kept) = &self.state.passed.kept.media_type {
            return kept.clone();
        }
        block.types.of(&self.state.route.uri).unwrap_or(&block.default_type).to_vec()
    }

    /// Text of the configuration's own.
    pub(super) fn answer_text(&mut self, status: u16, text: Vec<u8>) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.state.route.block) else { return Flow::Status(500) };
        self.state.route.enter(Phase::Content);
        self.state.sent.is_text = !block.filters.any();
        let mut answer = Answer::new(status, AnswerBody::Bytes(text));
        answer.media_type = Some(self.media_type(block));
        self.send(answer)
    }
}
