//! What is at a path, and which links it may lead over.

use super::runner::{Flow, Runner};
use super::waits::On;
use configuration::program::SymlinkKind;
use files::{FileId, Lead, LinkRule, Look, Unread};
use std::rc::Rc;

/// What is at a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    File(FileAt),
    Directory,
    Missing,
    /// It may not be come to, or not by a link.
    Forbidden,
    /// It is there, and may not be read.
    Unread(Unread),
    Failed,
}

/// A file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileAt {
    pub id: FileId,
    pub size: u64,
    /// Unix seconds.
    pub modified: u64,
    pub executable: bool,
}

impl Runner<'_> {
    /// Whether nothing of a path leads up but the root that was written so
    /// (`root ../www`).
    fn root_alone_leads_up(&self, path: &[u8]) -> bool {
        let block = self.loaded.program.block(self.state.route.block);
        let Some(root) = block.and_then(|block| block.root.path.constant()) else { return false };
        let Some(rest) = path.strip_prefix(root) else { return false };
        let apart = root.ends_with(b"/") || matches!(rest, [] | [b'/', ..]);
        apart && !leads_up(rest)
    }

    /// Which links a path may lead over here.
    pub(super) fn links(&mut self, path: &[u8]) -> LinkRule {
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.state.route.block) else { return LinkRule::Followed };
        let rules = &block.symlinks;
        if rules.kind == SymlinkKind::Followed {
            return LinkRule::Followed;
        }
        let from = rules.from.as_ref().map_or_else(Vec::new, |from| self.scope().get(from));
        let trusted = match path.strip_prefix(from.as_slice()) {
            Some([]) => return LinkRule::Followed,
            Some([b'/', ..]) => from.len(),
            Some(_) if from.ends_with(b"/") => from.len() - 1,
            _ => 0,
        };
        match rules.kind {
            SymlinkKind::OfOwner => LinkRule::OfOwner(trusted as u32),
            _ => LinkRule::Refused(trusted as u32),
        }
    }

    /// Looks where a path leads.
    pub(super) fn look(&mut self, path: &[u8]) -> Result<At, Flow> {
        if leads_up(path) && !self.root_alone_leads_up(path) || path.contains(&0) {
            // No path that a request makes leaves where it begins.
            return Ok(At::Missing);
        }
        let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(start, |last| last + 1);
        let waited = core::mem::take(&mut self.state.wait.waited);
        let id = self.state.id;
        let marked;
        let key = match self.links(path) {
            LinkRule::Followed => &path[start..end],
            rule => {
                // A link in place of a folder is no folder where one is asked for.
                let within: &[u8] = if path.ends_with(b"/") { b"/." } else { b"" };
                marked = rule.below(start).mark(&[&path[start..end], within].concat());
                &marked
            }
        };
        match self.files.look(id, key, self.rest.clock.now, self.token, waited) {
            Look::Known(id) => {
                let stamp = self.files.stamp(id);
                self.state.reuse.looked(stamp);
                Ok(match self.files.lead(id) {
                    // No file is a folder.
                    Lead::File(_) if path.ends_with(b"/") => At::Missing,
                    Lead::File(meta) => {
                        let modified = meta.file.as_ref().map_or(0, |file| file.modified);
                        At::File(FileAt { id, size: meta.size, modified, executable: self.files.is_executable(id) })
                    }
                    Lead::Directory => At::Directory,
                    Lead::Missing => At::Missing,
                    Lead::Forbidden => At::Forbidden,
                    Lead::Unread(Unread::File { .. } | Unread::Other) if path.ends_with(b"/") => At::Missing,
                    Lead::Unread(what) => At::Unread(what),
                    Lead::Failed(why) => {
                        why.into_iter().for_each(|why| self.tell_of_look(path, why));
                        At::Failed
                    }
                })
            }
            Look::Waits(mark) => {
                self.state.wait.inner = Some(mark);
                Err(Flow::Waits(On::Helper))
            }
            Look::Full => Err(Flow::Status(503)),
        }
    }
}

/// Whether a segment of a path is `..`.
fn leads_up(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| segment == b"..")
}
