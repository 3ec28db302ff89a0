//! The first of several paths that is there (`try_files`).

use super::lookup::At;
use super::request_state::{Phase, Tried};
use super::runner::{Flow, Runner};
use configuration::program::{Alias, Block, Target};
use features::Value;
use files::Unread;
use std::rc::Rc;

impl Runner<'_> {
    /// `try_files`.
    pub(super) fn try_files(&mut self) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.state.route.block) else { return Flow::Status(500) };
        let Some(try_files) = &block.try_files else {
            self.state.route.enter(Phase::Content);
            return Flow::On;
        };
        while let Some((value, is_directory)) = try_files.tried.get(self.state.route.at as usize) {
            let name = self.scope().get(value);
            let mut path = Vec::new();
            self.root_of(block, &mut path);
            // nginx leaves it out of names with variables alone.
            let rest = if value.constant().is_some() { &name } else { self.below_alias(block, &name) };
            path.extend_from_slice(rest);
            let found = match self.look(&path) {
                Ok(At::File(_)) => !is_directory,
                Ok(At::Directory) => *is_directory,
                Ok(At::Failed) => return Flow::Status(500),
                // Looked for, and not opened.
                Ok(At::Unread(what)) => *is_directory == (what == Unread::Directory),
                Ok(At::Forbidden) => {
                    self.tell_of_unreached(&path);
                    false
                }
                Ok(At::Missing) => false,
                Err(flow) => return flow,
            };
            if found {
                if self.state.wait.again.tried == Tried::No {
                    self.state.wait.again.tried = Tried::Found;
                }
                self.take_tried(block, name, *is_directory);
                self.state.route.enter(Phase::Content);
                return Flow::On;
            }
            self.state.route.at += 1;
        }
        match &try_files.otherwise {
            Target::Status(status) => Flow::Status(*status),
            Target::Named(name) => self.enter_named(name),
            Target::Path(value) => self.redirect_to(value),
        }
    }

    /// Where the block's files are, for a path that is looked for below it.
    fn root_of(&mut self, block: &Block, out: &mut Vec<u8>) {
        let root: &Value = &block.root.path;
        self.scope().write(root, out);
    }

    /// What of a name that is tried follows the root: what stands for an alias is
    /// left out where the name has it.
    fn below_alias<'n>(&self, block: &Block, name: &'n [u8]) -> &'n [u8] {
        match block.root.alias {
            Some(Alias::Start(length)) => {
                let start = self.state.route.uri.get(..length as usize);
                start.and_then(|start| name.strip_prefix(start)).unwrap_or(name)
            }
            _ => name,
        }
    }

    /// The path becomes what was tried and found.
    fn take_tried(&mut self, block: &Block, name: Vec<u8>, is_directory: bool) {
        match block.root.alias {
            None => self.state.route.uri = name,
            Some(Alias::Path) => {
                if !is_directory {
                    self.state.route.uri = name;
                    self.state.route.whole_path = true;
                }
            }
            Some(Alias::Start(length)) => {
                let start = self.state.route.uri.get(..length as usize).unwrap_or_default();
                let rest = name.strip_prefix(start).unwrap_or(&name);
                self.state.route.uri = [start, rest].concat();
            }
        }
    }
}
