//! Passwords that come with a request are looked up and verified (`auth_basic`).

use super::runner::{Flow, Runner};
use super::waits::On;
use features::auth_basic::Login;
use features::{Value, auth_basic};

impl Runner<'_> {
    /// Whether a password that came along is in the file of users that `file` names.
    pub(super) fn password(&mut self, realm: &[u8], file: &Value) -> Flow {
        let credentials = match auth_basic::login(file, &mut self.scope()) {
            Login::Passes => return Flow::On,
            Login::Challenged => return self.challenge(realm),
            Login::Refused(status) => return Flow::Status(status),
            Login::Asks(credentials) => credentials,
        };
        let ticket = self.rest.tickets.next(self.token);
        let source = self.state.client.peer.map(|peer| peer.ip());
        let Some(verifier) = &mut self.rest.verifier else { return Flow::Status(500) };
        if verifier.submit(ticket, source, credentials, self.rest.clock.now).is_err() {
            return Flow::Status(503);
        }
        (self.state.wait.ticket, self.state.wait.login) = (Some(ticket), true);
        Flow::Waits(On::Helper)
    }

    /// The realm that a password is asked for in, and the file of users; nothing where the
    /// realm is `off` for this request.
    pub(super) fn realm_of<'v>(&mut self, password: Option<(&Value, &'v Value)>) -> Option<(Vec<u8>, &'v Value)> {
        let (realm, file) = password?;
        let realm = self.scope().get(realm);
        (realm != b"off").then_some((realm, file))
    }

    /// Asks for a password.
    pub(super) fn challenge(&mut self, realm: &[u8]) -> Flow {
        let fields = &mut self.state.reply.kept_fields;
        fields.extend_from_slice(b"WWW-Authenticate: Basic realm=\"");
        formats::text::field_value(realm, fields);
        fields.extend_from_slice(b"\"\r\n");
        Flow::Status(401)
    }
}
