//! Whom the process that serves is to be, and whether a parent stays: decided from
//! what was asked for, and what there is.

use super::confine::{Confinement, Identity, USUAL};
use crate::plan::{ServePath, ServePlan, SignalRules};
use rustix::thread::{CapabilitySet, capabilities};
use say::Failure;

/// What comes of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decision {
    /// A parent stays that opens what the process that serves may not.
    pub parent: bool,
    /// What that process gives up; `None`: nothing.
    pub confinement: Option<Confinement>,
    /// What the operator is to hear.
    pub said: Vec<String>,
}

/// Who this process is.
#[derive(Clone, Copy, Debug)]
struct Standing {
    uid: u32,
    /// The first process of its namespace: nobody else takes children in.
    first: bool,
    /// Root that may become another user.
    may_become: fn(u32) -> bool,
}

/// Decides for `plan`, where signals go to the process `main`.
///
/// # Errors
/// If what is asked for cannot be: a sentence for the user.
pub fn decide(plan: &ServePlan, main: u32) -> Result<Decision, Failure> {
    let uid = rustix::process::geteuid().as_raw();
    decide_for(plan, Standing { uid, first: main == 1, may_become }).map_err(Failure::from)
}

fn decide_for(plan: &ServePlan, standing: Standing) -> Result<Decision, String> {
    let silos = matches!(plan.path, ServePath::Link { .. });
    let links = match &plan.path {
        ServePath::Link { host, .. } => host.links.as_slice(),
        ServePath::Kernel(_) => &[],
    };
    // What its driver does while it runs that only root may.
    let as_root = links.first().and_then(|link| link.driver.kind().as_root);
    // A link may connect, again for each peer that comes.
    let connects = links.iter().any(|link| link.driver.connects());
    let privileges = &plan.privileges;
    let asked = privileges.supervise || standing.first;
    // As nginx's master: new workers follow old ones, whoever waits for this process.
    let leads = matches!((plan.signals, &plan.path), (SignalRules::Nginx { .. }, ServePath::Kernel(_)));
    let confined = |identity| Some(Confinement { identity, restricts: as_root.is_none(), silos });
    let mut said = Vec::new();
    let user = privileges.user.as_deref().map(Identity::find).transpose()?;
    let (parent, confinement) = match (standing.uid, user) {
        // Whoever it is, it keeps what it has.
        (uid, Some(user)) if user.uid == 0 => {
            if uid == 0 {
                said.push("serves as root, and keeps its rights (--user root)".to_owned());
            }
            (asked || leads && uid == 0, None)
        }
        (0, Some(user)) => (true, confined(Some(user))),
        (0, None) if let Some(as_root) = as_root => {
            said.push(format!(
                "serves as root: {as_root}; with --user NAME it gives up what they can do without, or ends where they \
                 cannot"
            ));
            (asked, None)
        }
        (0, None) if connects => {
            said.push(
                "stays root, without its capabilities: its link connects to its peer's socket, which may be root's; \
                 with --user NAME that user must be able to"
                    .to_owned(),
            );
            (true, confined(None))
        }
        (0, None) => {
            let user = Identity::find(USUAL)?;
            if (standing.may_become)(user.uid) {
                (true, confined(Some(user)))
            } else {
                said.push(format!(
                    "stays root, without its capabilities: this process may not become {USUAL} \
                     (CAP_SETUID, CAP_SETGID, and a user namespace that has it)"
                ));
                (true, confined(None))
            }
        }
        (uid, Some(user)) if user.uid != uid => {
            return Err(format!("--user {}: only root can become another user", user.name));
        }
        _ => (asked, if asked { confined(None) } else { None }),
    };
    Ok(Decision { parent, confinement, said })
}

/// Whether this process may become `uid`.
fn may_become(uid: u32) -> bool {
    let rights = capabilities(None).map(|sets| sets.effective);
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    let mapped = std::fs::read_to_string("/proc/self/uid_map").map_or(true, |map| has(&map, uid));
    rights.is_ok_and(|rights| rights.contains(needed)) && mapped
}

/// Whether a user namespace's map (user_namespaces(7)) has this number.
fn has(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
        match (numbers.next(), numbers.nth(1)) {
            (Some(Ok(first)), Some(Ok(count))) => uid.checked_sub(first).is_some_and(|at| at < count),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ErrorLogs, Privileges, Settings};
    use host::HostPlan;
    use host::drivers::LinkSpec;

    fn plan(link: &str, user: Option<&str>, supervise: bool) -> ServePlan {
        let link = LinkSpec::parse(link, driver::Role::Server).unwrap();
        let host = HostPlan::new(vec![link]);
        ServePlan {
            server: server::Config::respond(server::Respond::Size(1)),
            path: ServePath::Link { host, listen: Box::default(), copies: None, restart: None, json: false },
            settings: Settings::default(),
            check: false,
            privileges: Privileges { user: user.map(str::to_owned), supervise },
            signals: SignalRules::Own,
            pid_file: None,
            error_log: ErrorLogs::default(),
            metrics: None,
            again: |_| Err(String::new()),
        }
    }

    /// Whether a parent stays, whom the process becomes, and whether it is
    /// restricted.
    type Outcome = (bool, Option<(Option<u32>, bool)>);

    fn decided(link: &str, user: Option<&str>, supervise: bool, standing: Standing) -> Result<Outcome, String> {
        let decision = decide_for(&plan(link, user, supervise), standing)?;
        let confinement = decision.confinement;
        Ok((decision.parent, confinement.map(|it| (it.identity.map(|user| user.uid), it.restricts))))
    }

    #[test]
    fn root_is_given_up_unless_it_is_asked_for() {
        let root = Standing { uid: 0, first: false, may_become: |_| true };
        let nobody = Identity::find(USUAL).unwrap().uid;
        for (link, user, supervise, outcome) in [
            ("tap:near0", None, false, (true, Some((Some(nobody), true)))),
            ("tap:near0", Some("4321:4321"), false, (true, Some((Some(4_321), true)))),
            ("tap:near0", Some("root"), false, (false, None)),
            ("tap:near0", Some("0"), true, (true, None)),
            ("memif:/run/peer.sock", None, false, (true, Some((Some(nobody), true)))),
            ("memif:/run/peer.sock,role=client", None, false, (true, Some((None, true)))),
            ("memif:/run/peer.sock,role=client", Some("4321:4321"), false, (true, Some((Some(4_321), true)))),
            ("dpdk:net_null0", None, false, (false, None)),
            ("dpdk:net_null0", Some("4321:4321"), false, (true, Some((Some(4_321), false)))),
        ] {
            assert_eq!(decided(link, user, supervise, root), Ok(outcome), "{link} {user:?} {supervise}");
        }
        let bound = Standing { may_become: |_| false, ..root };
        assert_eq!(decided("tap:near0", None, false, bound), Ok((true, Some((None, true)))));
    }

    #[test]
    fn others_stay_who_they_are() {
        let user = Standing { uid: 4_321, first: false, may_become: |_| false };
        assert_eq!(decided("tap:near0", None, false, user), Ok((false, None)));
        assert_eq!(decided("tap:near0", None, true, user), Ok((true, Some((None, true)))));
        assert_eq!(decided("tap:near0", Some("4321:1"), false, user), Ok((false, None)));
        assert_eq!(decided("tap:near0", None, false, Standing { first: true, ..user }), Ok((true, Some((None, true)))));
        assert_eq!(decided("tap:near0", Some("root"), true, user), Ok((true, None)));
        assert!(decided("tap:near0", Some("5"), false, user).is_err());
        assert!(decided("tap:near0", Some("5:5"), false, user).unwrap_err().contains("only root"));
        assert!(decided("tap:near0", Some("no-such-user-here"), false, user).unwrap_err().contains("no such user"));
    }

    #[test]
    fn maps_of_namespaces_are_read() {
        assert!(has("         0          0 4294967295\n", 65_534));
        assert!(!has("0 1000 1\n", 65_534) && has("0 1000 1\n1 100000 65536\n", 65_534));
        assert!(!has("", 0) && !has("nonsense", 0));
    }
}
