//! From a name to an address that answers.

use crate::plan::{LoadSockets, Place};
use core::time::Duration;
use load::Plan;
use say::Failure;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::path::Path;

/// A first connection is waited for this long at most: it only shows whether
/// there is anybody.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sets the plan's target to an address of the server that takes connections:
/// of several, the first in the resolver's order.
///
/// # Errors
/// If the name is not known, or nobody is there.
pub fn resolve(sockets: &LoadSockets, plan: &mut Plan) -> Result<(), Failure> {
    let patience = plan.connect_timeout.min(PATIENCE);
    let (addresses, what) = match &sockets.place {
        Place::Unix(path) => {
            let fail = |why: io::Error| format!("cannot connect to unix:{}: {why}", path.display());
            return knock(path).map_err(|why| fail(why).into());
        }
        Place::Address(address) => (vec![*address], address.to_string()),
        Place::Name(name, port) => (look_up(name, *port, plan)?, format!("{name}:{port}")),
    };
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(_) => {
                plan.targets = vec![address];
                return Ok(());
            }
            Err(why) => last = Some((address, why)),
        }
    }
    let (address, why) = last.ok_or_else(|| format!("{what} has no address"))?;
    let why = reason(&why);
    match sockets.place {
        Place::Name(..) => Err(format!("cannot connect to {what} ({address}): {why}").into()),
        Place::Address(_) | Place::Unix(_) => Err(format!("cannot connect to {what}: {why}").into()),
    }
}

fn look_up(name: &str, port: u16, plan: &Plan) -> Result<Vec<SocketAddr>, Failure> {
    let found = (name, port).to_socket_addrs().map_err(|why| format!("cannot resolve {name}: {}", reason(&why)))?;
    // Connections come from these, so they can only go to their own family.
    let source = plan.sources.first();
    let found: Vec<SocketAddr> =
        found.filter(|address| source.is_none_or(|source| source.is_ipv4() == address.is_ipv4())).collect();
    match (found.is_empty(), source) {
        (false, _) => Ok(found),
        (true, Some(source)) => Err(format!("{name} has no address of the family of --source {source}").into()),
        (true, None) => Err(format!("{name} has no address").into()),
    }
}

fn knock(path: &Path) -> io::Result<()> {
    let abstract_name = path.to_str().and_then(|path| path.strip_prefix('@'));
    let address = match abstract_name {
        Some(name) => UnixAddress::from_abstract_name(name)?,
        None => UnixAddress::from_pathname(path)?,
    };
    UnixStream::connect_addr(&address).map(drop)
}

/// What went wrong, without the number that the standard library adds.
fn reason(why: &io::Error) -> String {
    let text = why.to_string();
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    text.split(" (os error").next().unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::Cores;
    use load::Request;
    use sockets::Engine;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    fn resolved(place: Place) -> Result<Vec<SocketAddr>, String> {
        let sockets = LoadSockets {
            place,
            threads: None,
            cores: Cores::NotPinned,
            engine: Engine::Auto,
            spin: Duration::ZERO,
            congestion: None,
            pacing_rate: None,
            user_timeout: None,
            fifo: None,
            floor: false,
        };
        let mut plan = Plan::new(([0, 0, 0, 0], 80).into(), Request::get("a", "/"));
        resolve(&sockets, &mut plan).map(|()| plan.targets).map_err(|why| why.to_string())
    }

    #[test]
    fn names_become_the_address_that_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        assert_eq!(resolved(Place::Address(address)), Ok(vec![address]));
        // It may have an address of each family; one has a listener.
        assert_eq!(resolved(Place::Name("localhost".into(), address.port())), Ok(vec![address]));
        drop(listener);
        let told = resolved(Place::Address(address)).expect_err("nobody listens");
        assert_eq!(told, format!("cannot connect to {address}: Connection refused"));
        // RFC 6761 §6.4: it never resolves.
        let told = resolved(Place::Name("nobody.invalid".into(), 80)).expect_err("no such name");
        assert!(told.starts_with("cannot resolve nobody.invalid: ") && !told.contains("os error"), "{told}");
    }

    #[test]
    fn unix_sockets_are_knocked_at() {
        let name = format!("nearside-resolve-{}", std::process::id());
        let address = UnixAddress::from_abstract_name(&name).expect("short");
        let listener = UnixListener::bind_addr(&address).expect("a new name");
        assert!(resolved(Place::Unix(format!("@{name}").into())).is_ok());
        drop(listener);
        let told = resolved(Place::Unix(format!("@{name}").into())).expect_err("nobody listens");
        assert!(told.starts_with(&format!("cannot connect to unix:@{name}: Connection refused")), "{told}");
        assert!(resolved(Place::Unix("/nowhere/socket".into())).is_err());
    }
}
