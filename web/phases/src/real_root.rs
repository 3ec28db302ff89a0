//! `$realpath_root`: where a root lies once its links are followed. The reader finds that
//! out before anything of the place is asked for; it is looked for again in each second
//! in which it is needed.

use super::errors::failed;
use super::runner::{Flow, Runner};
use super::waits::On;
use features::ErrorLevel;

impl Runner<'_> {
    /// Finds out where the root of the place lies, once for each place that the request
    /// comes to; what is to be done before it goes on.
    #[cold]
    pub(super) fn find_real_root(&mut self) -> Option<Flow> {
        let loaded = std::rc::Rc::clone(&self.loaded);
        let block = loaded.program.block(self.state.route.block)?;
        let path = self.scope().get(&block.root.path);
        let second = self.rest.clock.second;
        if let Some((asked, found)) = self.files.take_real_path(self.token) {
            self.state.wait.waited = false;
            if let Err(why) = &found {
                self.tell(ErrorLevel::CRIT, || failed("realpath()", &asked, why));
            }
            loaded.real_roots.borrow_mut().put(asked, found.ok(), second);
        }
        if loaded.real_roots.borrow().is_known(&path, second) || path.contains(&0) {
            self.state.route.real_root = Some(self.state.route.block);
            return None;
        }
        let Some(mark) = self.files.real_path(self.state.id, &path, self.token) else {
            return Some(Flow::Status(503));
        };
        self.state.wait.inner = Some(mark);
        Some(Flow::Waits(On::Helper))
    }
}
