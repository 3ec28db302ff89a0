//! A test begun in a cluster, or gone on with where an earlier controller left it.

use crate::args::{RunArgs, port_of};
use crate::cluster::drive::Driven;
use crate::cluster::pods::Pods;
use cpu::Clock;
use kubernetes::Client;
use manifests::{Contents, Manifests, Setting, objects};
use messages::Token;
use reconcile::{ClusterEvent, Meeting, Reconciler};
use say::{Failure, eprintln};
use spec::{Arranged, FieldError, LoadTest};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};

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
        manifests: Manifests,
        (token, holder): (Token, u64),
        interrupted: &AtomicBool,
    ) -> Result<Option<Started>, Failure> {
        let own = client.own_address()?;
        let workers = self.test.workers;
        let objects = Reconciler::new(self.namespace, manifests, holder, workers, Clock.now());
        let mut driven = Driven::new(objects, client);
        let mut beginning = Beginning { test: self, own, arranged, interrupted, token, listener: None, failure: None };
        let mut begun = false;
        driven.run(|objects, event| {
            begun = event == Some(ClusterEvent::Begun);
            beginning.on_event(objects, event);
            begun
        });
        let Beginning { token, listener, failure, .. } = beginning;
        match listener.filter(|_| begun) {
            Some(listener) => Ok(Some(Started { token, listener, pods: Pods::look(driven, workers)? })),
            None => {
                if let Some(why) = driven.end() {
                    eprintln!("nearside: what the test made is not deleted: {why}");
                }
                let why = failure.or_else(|| driven.objects.failure().map(str::to_owned));
                why.map_or(Ok(None), |why| Err(why.into()))
            }
        }
    }
}

/// A test that is begun.
struct Beginning<'a> {
    test: &'a ClusterTest<'a>,
    own: IpAddr,
    arranged: &'a Arranged,
    interrupted: &'a AtomicBool,
    token: Token,
    listener: Option<TcpListener>,
    failure: Option<String>,
}

impl Beginning<'_> {
    fn on_event(&mut self, objects: &mut Reconciler, event: Option<ClusterEvent>) {
        let quiet = self.test.asked.quiet;
        match event {
            Some(ClusterEvent::Waits { holder }) if !quiet => {
                eprintln!("waiting    another test has this target: {holder}");
            }
            Some(ClusterEvent::Holds { known }) => {
                if known.is_some() && !quiet {
                    eprintln!("resuming   an earlier controller began this test");
                }
                match self.meet(known) {
                    Ok(manifests) => objects.make(manifests, Clock.now()),
                    Err(why) => {
                        self.failure = Some(why);
                        objects.end(Clock.now());
                    }
                }
            }
            _ => {}
        }
        if self.interrupted.load(Ordering::Relaxed) {
            objects.end(Clock.now());
        }
    }

    /// Listens where workers look for their controller; answers the objects that tell them of it.
    fn meet(&mut self, known: Option<Meeting>) -> Result<Manifests, String> {
        let place = known.as_ref().map(|known| known.controller.as_str()).or(self.test.asked.address.as_deref());
        let (listener, place) = listen(place, self.own)?;
        self.listener = Some(listener);
        if let Some(Meeting { token, .. }) = known {
            self.token = token;
        }
        let manifests = self.test.objects(self.arranged, self.token.text(), &place);
        manifests.map_err(|wrong| wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
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
        Some(place) => port_of(place)?,
    };
    let any: IpAddr = if own.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let listener = TcpListener::bind((any, port)).map_err(|why| format!("cannot listen on port {port}: {why}"))?;
    let port = listener.local_addr().map_err(|why| why.to_string())?.port();
    let place = place.map_or_else(|| std::net::SocketAddr::new(own, port).to_string(), str::to_owned);
    Ok((listener, place))
}
