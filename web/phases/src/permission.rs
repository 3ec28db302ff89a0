//! Whether a request may go on is asked of another path (`auth_request`).

use super::runner::{Flow, Runner};
use super::subrequest::{Permission, SubUse};
use super::subs::AskedSub;
use super::waits::On;
use configuration::access::AccessRules;
use configuration::script::SetTarget;
use features::{ErrorLevel, Value};

/// Fields that a client is challenged by, of an answer with this status.
const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;

impl Runner<'_> {
    /// Whether its client may see this, where another path is asked, too.
    pub(super) fn access_by_permission(&mut self, rules: &AccessRules, password: Option<(&Value, &Value)>) -> Flow {
        if self.state.within.children.as_ref().is_some_and(|children| children.permission.is_some()) {
            return self.permission(rules);
        }
        let fields = self.state.reply.kept_fields.len();
        let mut code = 0;
        match (rules.of_address(self.state.client.peer.map(|peer| peer.ip())), rules.any) {
            (Some(true), true) => return Flow::On,
            (Some(false), false) => {
                self.tell(ErrorLevel::ERROR, || b"access forbidden by rule".to_vec());
                return Flow::Status(FORBIDDEN);
            }
            (Some(false), true) => code = FORBIDDEN,
            _ => {}
        }
        if let Some((realm, file)) = self.realm_of(password) {
            match self.password(&realm, file) {
                Flow::On if rules.any => return Flow::On,
                Flow::On => {}
                Flow::Status(status @ (UNAUTHORIZED | FORBIDDEN)) if rules.any => {
                    code = if code == UNAUTHORIZED { code } else { status };
                }
                flow => return flow,
            }
        }
        // As nginx: a body that came is not for whoever is asked.
        let asked = AskedSub { uri: &rules.permission.uri, args: b"", purpose: SubUse::Permission, has_body: false };
        let Some(_) = self.ask_sub(asked) else { return Flow::Status(500) };
        self.state.within.children.get_or_insert_default().permission = Some(Permission::Asked { code, fields });
        Flow::Waits(On::Source)
    }

    /// What was said of it.
    fn permission(&mut self, rules: &AccessRules) -> Flow {
        let Some(children) = self.state.within.children.as_deref_mut() else { return Flow::Status(500) };
        let (code, fields, result) = match children.permission.take() {
            Some(Permission::Said { code, fields, result }) => (code, fields, result),
            asked => {
                children.permission = asked;
                return Flow::Waits(On::Source);
            }
        };
        let set = rules.permission.set.iter().map(|(target, _)| *target).zip(&result.values);
        set.for_each(|(target, value)| self.set_to(target, value));
        match result.status {
            200..=299 => {
                if rules.any {
                    // A password is not asked for any more.
                    self.state.reply.kept_fields.truncate(fields);
                }
                Flow::On
            }
            status @ (UNAUTHORIZED | FORBIDDEN) => {
                for challenge in &result.challenges {
                    formats::text::put_field(b"WWW-Authenticate", challenge, &mut self.state.reply.kept_fields);
                }
                let status = if rules.any && code == UNAUTHORIZED { code } else { status };
                if rules.any && status == FORBIDDEN {
                    self.tell(ErrorLevel::ERROR, || b"access forbidden by rule".to_vec());
                }
                Flow::Status(status)
            }
            status => {
                self.tell(ErrorLevel::ERROR, || format!("auth request unexpected status: {status}").into_bytes());
                Flow::Status(500)
            }
        }
    }

    fn set_to(&mut self, target: SetTarget, value: &[u8]) {
        match target {
            SetTarget::Slot(slot) => {
                if let Some(place) = self.state.values.slots.get_mut(usize::from(slot)) {
                    *place = Some(value.into());
                }
            }
            SetTarget::Arguments => (self.state.route.args, self.state.route.rewritten.ever) = (value.to_vec(), true),
            SetTarget::LimitRate => self.state.reply.limit_rate = features::units::size(value).ok(),
        }
    }
}
