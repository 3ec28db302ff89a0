//! A test begun in a cluster, or gone on with where an earlier controller left it.

use crate::args::RunArgs;
use crate::cluster::deployment::{Deployment, Meeting};
use crate::cluster::pods::Pods;
use kubernetes::Client;
use manifests::{Contents, Manifests, Setting, objects};
use messages::Token;
use say::{Failure, eprintln};
use spec::{Arranged, FieldError, LoadTest};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::sync::atomic::AtomicBool;

/// What a test in a cluster is made of.
pub struct ClusterTest<'a> {
    pub asked: &'a RunArgs,
    pub test: &'a LoadTest,
    /// Its file.
    pub source: &'a str,
    pub namespace: &'a str,
}

/// A test whose pods are on their way.
pub struct Started {
    pub token: Token,
    pub listener: TcpListener,
    pub pods: Pods,
}

impl ClusterTest<'_> {
    /// The objects of the test, for workers that are to know this.
    ///
    /// # Errors
    /// What of the test cannot be in a cluster.
    pub fn objects(&self, arranged: &Arranged, token: &str, controller: &str) -> Result<Manifests, Vec<FieldError>> {
        let contents = Contents { token, controller, request: &arranged.request, feed: arranged.feed.as_deref() };
        let Self { asked, test, source, namespace } = *self;
        objects(&Setting { test, source, namespace, image: asked.image.as_deref(), contents })
    }

    /// Waits for the target, and begins the test; none if somebody interrupts that. `manifests` are its objects but
    /// for what workers are to know; the token is for them alone, and `holder` is a number that anybody may see.
    ///
    /// # Errors
    /// What the user is to know; nothing of it is left.
    pub fn start(
        &self,
        (client, arranged): (Client, &Arranged),
        manifests: &Manifests,
        (token, holder): (Token, u64),
        interrupted: &AtomicBool,
    ) -> Result<Option<Started>, Failure> {
        let own = client.own_address()?;
        let deployment = Deployment::new(client, self.namespace, manifests, holder);
        if !deployment.hold_target(&manifests.lease, interrupted, self.asked.quiet)? {
            return Ok(None);
        }
        let made = self.begin((&deployment, own), arranged, manifests, token);
        match made {
            Ok((token, listener, uid)) => {
                let pods = Pods::look(deployment, uid, self.test.workers)?;
                Ok(Some(Started { token, listener, pods }))
            }
            Err((why, is_ours)) => {
                let left = if is_ours { deployment.delete() } else { deployment.leave() };
                if let Err(why) = left {
                    eprintln!("nearside: what the test made is not deleted: {why}");
                }
                Err(why)
            }
        }
    }

    /// Makes the objects; where that fails, also whether what is there is this test's.
    fn begin(
        &self,
        (deployment, own): (&Deployment, IpAddr),
        arranged: &Arranged,
        manifests: &Manifests,
        token: Token,
    ) -> Result<(Token, TcpListener, String), (Failure, bool)> {
        let theirs = |why: String| (Failure::from(why), false);
        let ours = |why: String| (Failure::from(why), true);
        let known = deployment.find(manifests).map_err(theirs)?;
        if known.is_some() && !self.asked.quiet {
            eprintln!("resuming   an earlier controller began this test");
        }
        let place = known.as_ref().map(|known| known.controller.as_str()).or(self.asked.address.as_deref());
        let (listener, place) = listen(place, own).map_err(theirs)?;
        let token = known.map_or(token, |known: Meeting| known.token);
        let manifests = self.objects(arranged, token.text(), &place);
        let manifests = manifests.map_err(|wrong| theirs(wrong.iter().map(ToString::to_string).collect::<String>()))?;
        let uid = deployment.make(&manifests).map_err(ours)?;
        Ok((token, listener, uid))
    }
}

/// Listens where workers look for their controller, and says where that is: as it is said, or at an own address.
fn listen(place: Option<&str>, own: IpAddr) -> Result<(TcpListener, String), String> {
    let port = match place {
        None if own.is_loopback() => {
            let why = "the cluster is asked through this machine itself: --address HOST:PORT says where pods find it";
            return Err(why.to_owned());
        }
        None => 0,
        Some(place) => {
            let port = place.rsplit_once(':').and_then(|(host, port)| port.parse().ok().filter(|_| !host.is_empty()));
            port.ok_or_else(|| format!("{place:?} is no address as in 192.0.2.7:7000"))?
        }
    };
    let any: IpAddr = if own.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let listener = TcpListener::bind((any, port)).map_err(|why| format!("cannot listen on port {port}: {why}"))?;
    let port = listener.local_addr().map_err(|why| why.to_string())?.port();
    let place = place.map_or_else(|| std::net::SocketAddr::new(own, port).to_string(), str::to_owned);
    Ok((listener, place))
}
