//! Who may see a place, and how many at once: the phases before content.

use super::request_state::Depends;
use super::runner::{Flow, Runner};
use super::waits::On;
use configuration::access::{Access, AccessRules};
use features::ErrorLevel;
use features::limits::Admission;
use std::rc::Rc;

impl Runner<'_> {
    /// Whether it may come so soon, and with so many others.
    pub(super) fn limits(&mut self) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.state.route.block) else { return Flow::Status(500) };
        let rules = &block.features.limits;
        if rules.is_empty() {
            return Flow::On;
        }
        self.state.reuse.depends.on(Depends::OTHER);
        let now = self.rest.clock.now.as_nanos() / 1_000_000;
        match rules.admit(&loaded.program.declared.zones, &mut self.scope(), now) {
            Admission::Pass => Flow::On,
            Admission::Refuse(status) => Flow::Status(status),
            Admission::Delay(time) => {
                let at = self.rest.clock.now + time;
                self.rest.tickets.delay((self.token, self.state), at);
                Flow::Waits(On::Clock(at))
            }
        }
    }

    /// Whether its client may see this.
    pub(super) fn access(&mut self) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.state.route.block) else { return Flow::Status(500) };
        let (rules, password): (&AccessRules, _) = (&block.access, block.features.asks_for_password());
        if rules.is_empty() && password.is_none() {
            return Flow::On;
        }
        self.state.reuse.depends.on(Depends::OTHER);
        if !rules.permission.uri.is_empty() {
            return self.access_by_permission(rules, password);
        }
        let password = self.realm_of(password);
        match (rules.decide(self.state.client.peer.map(|peer| peer.ip()), password.is_some()), password) {
            (Access::Granted, _) => Flow::On,
            (Access::Password, Some((realm, file))) => match self.password(&realm, file) {
                // A file of passwords that is not there: as nginx, where one of several may let in.
                Flow::Status(403) if rules.any => self.forbid(),
                flow => flow,
            },
            _ => self.forbid(),
        }
    }

    /// Nobody lets its client in.
    fn forbid(&mut self) -> Flow {
        self.tell(ErrorLevel::ERROR, || b"access forbidden by rule".to_vec());
        Flow::Status(403)
    }
}
