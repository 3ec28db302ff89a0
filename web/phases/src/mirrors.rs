//! Copies of requests (`mirror`): each is a subrequest whose answer nobody waits for, and
//! which may outlive the request that it is a copy of.

use super::bodies::BodyReading;
use super::runner::{Flow, Runner};
use super::subrequest::SubUse;
use super::subs::AskedSub;
use configuration::program::Block;

impl Runner<'_> {
    /// Makes the copies of this request, once its body was read for them.
    pub(super) fn mirror(&mut self, block: &Block) -> Flow {
        if self.state.within.children.as_ref().is_some_and(|children| children.mirrored) {
            return Flow::On;
        }
        let rules = &block.subrequests;
        if rules.mirrors_body {
            match self.read_body(BodyReading::Whole) {
                Flow::On => {}
                flow => return flow,
            }
        }
        self.state.within.children.get_or_insert_default().mirrored = true;
        let args = self.state.route.args.clone();
        for uri in &rules.mirrors {
            // One that cannot be made is told of; the request is answered all the same.
            let _ = self.ask_sub(AskedSub { uri, args: &args, purpose: SubUse::Mirror, has_body: rules.mirrors_body });
        }
        Flow::On
    }
}
