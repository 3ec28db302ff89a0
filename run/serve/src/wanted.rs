//! Which of the sockets that are there already serve what is to be listened
//! on, and what is still to be opened.

use super::systemd::Found;
use crate::plan::Listen;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use sockets::Endpoint;

/// Where nothing else is said, and nothing is there.
const USUAL_PORT: u16 = 80;

/// What is to be listened on.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Sockets that are there, and used.
    pub sockets: Vec<Found>,
    /// What is listened on, but for systemd's: once each.
    pub endpoints: Vec<Endpoint>,
    /// What sockets that are not used listen on: once each.
    pub left_out: Vec<Endpoint>,
}

/// Sorts out what was found, by what was asked for.
///
/// # Errors
/// If systemd's sockets are asked for and there are none.
pub fn sort_out(listen: &[Listen], found: Vec<Found>) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    if listen.is_empty() {
        if found.is_empty() {
            wanted.endpoints.push(every(USUAL_PORT));
        }
        wanted.sockets = found;
        return Ok(wanted);
    }
    for listen in listen {
        let endpoint = match listen {
            Listen::Port(port) => every(*port),
            Listen::At(endpoint) => endpoint.clone(),
            Listen::Systemd(name) => {
                if found.iter().any(|found| is_managed(found, name.as_deref())) {
                    continue;
                }
                let name = name.as_ref().map_or(String::new(), |name| format!(" of the name {name}"));
                return Err(format!("systemd opened no socket{name} for this process (systemd.socket(5))"));
            }
        };
        if !wanted.endpoints.contains(&endpoint) {
            wanted.endpoints.push(endpoint);
        }
    }
    for found in found {
        let asked = listen.iter().any(|listen| match listen {
            Listen::Port(port) => is_at(&found.endpoint, &every(*port)),
            Listen::At(endpoint) => is_at(&found.endpoint, endpoint),
            Listen::Systemd(name) => is_managed(&found, name.as_deref()),
        });
        if asked {
            wanted.sockets.push(found);
        } else if !wanted.left_out.contains(&found.endpoint) {
            wanted.left_out.push(found.endpoint);
        }
    }
    Ok(wanted)
}

/// What a predecessor listens on and its successor would not, once each: nobody
/// would after the take-over. `v6_only`: sockets of IPv6 take no IPv4.
pub fn uncovered(listen: &[Listen], theirs: &[Found], v6_only: bool) -> Vec<Endpoint> {
    let mut bare: Vec<Endpoint> = Vec::new();
    for found in theirs {
        // Without a word about it, all of them are taken.
        let covered = listen.is_empty()
            || listen.iter().any(|listen| match listen {
                Listen::Port(port) => covers(&every(*port), &found.endpoint, v6_only),
                Listen::At(endpoint) => covers(endpoint, &found.endpoint, v6_only),
                Listen::Systemd(name) => is_managed(found, name.as_deref()),
            });
        if !covered && !bare.contains(&found.endpoint) {
            bare.push(found.endpoint.clone());
        }
    }
    bare
}

/// Whether who comes to `theirs` is served by who listens on `ours`.
fn covers(ours: &Endpoint, theirs: &Endpoint, v6_only: bool) -> bool {
    let (Endpoint::Tcp(ours), Endpoint::Tcp(theirs)) = (ours, theirs) else { return ours == theirs };
    let all = ours.ip().is_unspecified() && (ours.is_ipv4() == theirs.is_ipv4() || ours.is_ipv6() && !v6_only);
    ours.port() == theirs.port() && (all || ours.ip() == theirs.ip())
}

/// All addresses of both families.
pub fn every(port: u16) -> Endpoint {
    Endpoint::Tcp(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port))
}

fn is_managed(found: &Found, name: Option<&str>) -> bool {
    found.managed && name.is_none_or(|name| found.name.as_deref() == Some(name))
}

/// Whether a socket is there for `wanted`. One for all addresses is IPv4's
/// where there is no IPv6.
fn is_at(is: &Endpoint, wanted: &Endpoint) -> bool {
    match (is, wanted) {
        (Endpoint::Tcp(is), Endpoint::Tcp(wanted)) => {
            let both = is.ip().is_unspecified() && wanted.ip().is_unspecified() && wanted.is_ipv6();
            is.port() == wanted.port() && (is.ip() == wanted.ip() || both)
        }
        (is, wanted) => is == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(endpoint: &str, name: Option<&str>) -> Found {
        let socket = std::fs::File::open("/dev/null").unwrap().into();
        let endpoint = endpoint.parse().unwrap();
        Found { endpoint, name: name.map(str::to_owned), managed: name.is_some(), socket }
    }

    type Sorted = (Vec<String>, Vec<String>, Vec<String>);

    fn sorted(listen: &[&str], found: Vec<Found>) -> Result<Sorted, String> {
        let listen: Vec<Listen> = listen.iter().map(|text| text.parse().unwrap()).collect();
        let Wanted { sockets, endpoints, left_out } = sort_out(&listen, found)?;
        let text = |all: Vec<Endpoint>| all.iter().map(ToString::to_string).collect();
        Ok((text(sockets.into_iter().map(|found| found.endpoint).collect()), text(endpoints), text(left_out)))
    }

    #[test]
    fn what_nobody_would_listen_on_any_more_is_named() {
        let theirs = ["0.0.0.0:80", "[::]:80", "127.0.0.1:80", "1.1.1.1:81", "unix:/a", "unix:/a"];
        let bare = |listen: &[&str], v6_only: bool| {
            let theirs: Vec<Found> =
                theirs.iter().map(|at| found(at, None)).chain([found("[::1]:9", Some("web"))]).collect();
            let listen: Vec<Listen> = listen.iter().map(|text| text.parse().unwrap()).collect();
            let bare = uncovered(&listen, &theirs, v6_only);
            bare.iter().map(ToString::to_string).collect::<Vec<String>>().join(" ")
        };
        assert_eq!(bare(&[], false), "", "all are taken");
        assert_eq!(bare(&["80"], false), "1.1.1.1:81 unix:/a [::1]:9");
        assert_eq!(bare(&["80", "0.0.0.0:81", "unix:/a", "systemd:web"], false), "");
        assert_eq!(bare(&["80", "[::]:81", "unix:/a", "9"], true), "0.0.0.0:80 127.0.0.1:80 1.1.1.1:81");
        assert_eq!(bare(&["0.0.0.0:80", "1.1.1.1:81", "unix:/a", "systemd"], false), "[::]:80");
        assert_eq!(
            bare(&["127.0.0.1:80", "81", "unix:/b", "systemd:other"], false),
            "0.0.0.0:80 [::]:80 unix:/a [::1]:9"
        );
    }

    #[test]
    fn what_is_there_is_used_if_it_is_wanted() {
        let both = || vec![found("[::]:80", None), found("unix:/a", Some("web"))];
        let list = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
        for (listen, there, expected) in [
            (&[][..], Vec::new(), (list(&[]), list(&["[::]:80"]), list(&[]))),
            (&[], both(), (list(&["[::]:80", "unix:/a"]), list(&[]), list(&[]))),
            (&["80", "80"], both(), (list(&["[::]:80"]), list(&["[::]:80"]), list(&["unix:/a"]))),
            (&["80"], vec![found("0.0.0.0:80", None)], (list(&["0.0.0.0:80"]), list(&["[::]:80"]), list(&[]))),
            (&["1.1.1.1:80"], both(), (list(&[]), list(&["1.1.1.1:80"]), list(&["[::]:80", "unix:/a"]))),
            (&["systemd", "81"], both(), (list(&["unix:/a"]), list(&["[::]:81"]), list(&["[::]:80"]))),
            (&["systemd:web"], both(), (list(&["unix:/a"]), list(&[]), list(&["[::]:80"]))),
        ] {
            assert_eq!(sorted(listen, there).unwrap(), expected, "{listen:?}");
        }
        assert!(sorted(&["systemd:other"], both()).unwrap_err().contains("of the name other"));
        assert!(sorted(&["systemd"], Vec::new()).unwrap_err().contains("systemd opened no socket"));
    }
}
