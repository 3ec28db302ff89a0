//! What answers and is no file: lists of folders, pictures, counters.

use super::answer::{Answer, AnswerBody};
use super::request_state::Depends;
use super::runner::{Flow, Runner};
use super::waits::On;
use configuration::autoindex::{EntryKind, FolderEntry, Listed, random_file};
use configuration::program::{Block, ContentRules};
use configuration::small::{EMPTY_GIF, EMPTY_GIF_MODIFIED, StubStatus};
use features::ErrorLevel;
use files::{ListError, Name, NameKind};
use semantics::Method;

impl Runner<'_> {
    /// What is the same whatever is asked for.
    pub(super) fn fixed_content(&mut self, block: &Block) -> Flow {
        if !matches!(self.state.method, Method::Get | Method::Head) {
            return Flow::Status(405);
        }
        let mut answer = match block.content {
            ContentRules::EmptyGif => {
                let mut answer = Answer::new(200, AnswerBody::Bytes(EMPTY_GIF.to_vec()));
                answer.media_type = Some(b"image/gif".to_vec());
                answer.modified = Some(EMPTY_GIF_MODIFIED);
                answer
            }
            ContentRules::StubStatus => {
                self.state.reuse.depends.on(Depends::OTHER);
                let text = self.counted().text();
                let mut answer = Answer::new(200, AnswerBody::Bytes(text.into_bytes()));
                answer.media_type = Some(StubStatus::MEDIA_TYPE.to_vec());
                answer
            }
            ContentRules::Files | ContentRules::Proxy(_) | ContentRules::Grpc(_) | ContentRules::Gateway(_) => {
                return Flow::Status(404);
            }
        };
        // It is there for as long as the server is.
        answer.etag = None;
        self.send(answer)
    }

    /// What all silos have counted, as they last told.
    fn counted(&mut self) -> StubStatus {
        self.rest.share.publish(self.replies.totals(), self.rest.requests.count() as u64);
        StubStatus::of(&self.loaded.program.silos)
    }

    /// A folder without an index file.
    pub(super) fn list(&mut self, block: &Block, path: &[u8]) -> Flow {
        let rules = &block.autoindex;
        let listing = match self.files.take_listing(self.token) {
            Some(listing) => listing,
            None => {
                let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
                let end = path.iter().rposition(|byte| *byte != b'/').map_or(start, |last| last + 1);
                let Some(mark) = self.files.list(self.state.id, &path[start..end], self.token) else {
                    return Flow::Status(503);
                };
                self.state.wait.inner = Some(mark);
                return Flow::Waits(On::Helper);
            }
        };
        // What is in it may be another thing at any time.
        self.state.reuse.depends.on(Depends::OTHER);
        let mut entries: Vec<FolderEntry> = match listing {
            Ok(names) => names.into_iter().map(entry_of).collect(),
            Err(ListError::Missing) => return Flow::Status(404),
            Err(ListError::Forbidden) => return Flow::Status(403),
            Err(ListError::Failed) => return Flow::Status(500),
        };
        if rules.random {
            let (random, _) = self.state.request_id();
            if let Some(file) = random_file(&entries, random) {
                let uri = [self.state.route.uri.as_slice(), &file.name].concat();
                let args = core::mem::take(&mut self.state.route.args);
                return self.redirect(&uri, &args);
            }
            if !rules.on || self.state.method == Method::Post {
                return self.no_index(path);
            }
        }
        let callback = self.state.route.args.split(|byte| *byte == b'&').find_map(|one| one.strip_prefix(b"callback="));
        let utf8 = block.charset.charset.as_ref().and_then(|charset| charset.constant());
        let listed = Listed {
            path: &self.state.route.uri,
            callback,
            utf8: utf8.is_some_and(|charset| charset.eq_ignore_ascii_case(b"utf-8")),
            local_offset: self.rest.clock.there.offset.into(),
        };
        let mut page = Vec::new();
        if rules.write(&listed, &mut entries, &mut page).is_err() {
            return Flow::Status(400);
        }
        let (media_type, charset) = rules.media_type(&listed);
        let mut media_type = media_type.to_vec();
        if let Some(charset) = charset {
            media_type.extend_from_slice(b"; charset=");
            media_type.extend_from_slice(charset);
        }
        let mut answer = Answer::new(200, AnswerBody::Bytes(page));
        answer.media_type = Some(media_type);
        answer.unmeasured = true;
        self.send(answer)
    }

    pub(super) fn no_index(&self, path: &[u8]) -> Flow {
        self.tell(ErrorLevel::ERROR, || [b"directory index of \"", path, b"\" is forbidden"].concat());
        Flow::Status(403)
    }
}

fn entry_of(name: Name) -> FolderEntry {
    let Name { name, kind, size, modified } = name;
    let kind = match kind {
        NameKind::Folder => EntryKind::Folder,
        NameKind::File => EntryKind::File,
        NameKind::Other => EntryKind::Other,
    };
    FolderEntry { name, kind, size, modified }
}
