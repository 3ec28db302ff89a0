//! AWS-LC's source of random bytes.

use aws_lc_rs::rand;
use std::sync::Once;

static SEEDED: Once = Once::new();

/// Has it gather what it begins with, once in a process. That takes tens of milliseconds of processor time,
/// which the first handshake would take else, on a thread that others wait for: so whatever handshakes are
/// made of is made behind this.
pub(crate) fn seed() {
    // If there are none, who needs them is told.
    SEEDED.call_once(|| _ = rand::fill(&mut [0]));
}

#[cfg(test)]
mod tests {
    use super::SEEDED;
    use crate::{ClientRules, ClientTls, Groups, ServerRules, ServerTls, Suites};
    use std::process::Command;

    /// What is made first in a process.
    const MADE: &str = "NEARSIDE_MADE_FIRST";

    fn server() -> ServerTls {
        let rules = ServerRules {
            identities: Vec::new(),
            tls12: true,
            tls13: true,
            suites12: Suites::of_tls12("DEFAULT").expect("suites"),
            suites13: Suites::all_tls13(),
            groups: Groups::auto(),
            prefers_own: false,
            kernel: false,
            compresses: None,
            tickets: None,
            sessions: None,
            early: None,
            lifetime: 300,
            clients: None,
            rejects: true,
            protocols: Vec::new(),
        };
        ServerTls::new(rules).expect("a server")
    }

    fn client() -> ClientTls {
        let rules = ClientRules {
            identity: None,
            tls12: true,
            tls13: true,
            suites12: Suites::of_tls12("DEFAULT").expect("suites"),
            suites13: Suites::all_tls13(),
            groups: Groups::auto(),
            servers: None,
            tickets: 0,
            protocols: Vec::new(),
        };
        ClientTls::new(rules).expect("a client")
    }

    /// Whoever may shake hands does not begin with that. Each is asked alone in a process, where nothing
    /// has begun it before.
    #[test]
    fn no_handshake_is_the_first_to_need_random_bytes() {
        match std::env::var(MADE).as_deref() {
            Err(_) => {
                for made in ["server", "client"] {
                    let mut command = Command::new(std::env::current_exe().expect("this program"));
                    command.args(["--exact", "random::tests::no_handshake_is_the_first_to_need_random_bytes"]);
                    let status = command.env(MADE, made).status().expect("it runs");
                    assert!(status.success(), "{made}");
                }
            }
            Ok(made) => {
                assert!(!SEEDED.is_completed(), "nothing has begun it");
                if made == "server" {
                    drop(server());
                } else {
                    drop(client());
                }
                assert!(SEEDED.is_completed(), "{made}");
            }
        }
    }
}
