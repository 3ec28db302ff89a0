//! A test begun in a cluster, or gone on with where an earlier controller left it.

use crate::args::port_of;
use crate::cluster::drive::Driven;
use crate::cluster::pods::Pods;
use channel::Keys;
use cpu::Clock;
use kubernetes::Client;
use manifests::{Contents, Manifests, Setting, objects};
use messages::Token;
use reconcile::{ClusterEvent, Meeting, Reconciler};
use say::{Failure, eprintln};
use spec::{Arranged, FieldError, LoadTest};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a test in a cluster is made of.
#[derive(Clone, Copy)]
pub struct ClusterTest<'a> {
    pub test: &'a LoadTest,
    /// Its file.
    pub source: &'a str,
    pub namespace: &'a str,
    /// The image, if that of the test is not to be taken.
    pub image: Option<&'a str>,
    /// The number of the object that the test is, if it is one.
    pub owner: Option<&'a str>,
    /// Where pods find this process.
    pub found: Found<'a>,
}

/// Where pods find this process.
#[derive(Clone, Copy)]
pub enum Found<'a> {
    /// At its own address towards the API server.
    Own,
    /// At this host and port, at which it listens.
    At(&'a str),
    /// At this host, and whichever port it listens at.
    Host(&'a str),
}

/// What comes of a test's token for its workers.
pub struct WorkerKeys {
    pub token: Token,
    /// The controller's public key, as text.
    pub controller: String,
    /// The token of each worker, as text.
    pub tokens: Vec<String>,
}

impl WorkerKeys {
    /// Those of a test with so many workers.
    ///
    /// # Errors
    /// If the library has no such keys.
    pub fn of(token: &Token, workers: u32) -> std::io::Result<Self> {
        let controller = Keys::of(token)?.controller_key().text();
        let tokens = (0..workers).map(|worker| token.of_worker(worker).text().to_owned()).collect();
        Ok(Self { token: token.clone(), controller, tokens })
    }
}

/// What is to be known of a test that begins.
pub enum Starting<'a> {
    /// Another has its target.
    Waits(&'a str),
    /// An earlier controller began it.
    Resumes,
    /// Its pods may begin.
    Begun,
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
    pub fn objects(
        &self,
        arranged: &Arranged,
        keys: &WorkerKeys,
        controller: &str,
    ) -> Result<Manifests, Vec<FieldError>> {
        let WorkerKeys { token, controller: key, tokens } = keys;
        let (request, feed) = (arranged.request.as_str(), arranged.feed.as_deref());
        let contents = Contents { token: token.text(), key, tokens, controller, request, feed };
        let Self { test, source, namespace, image, owner, .. } = *self;
        objects(&Setting { test, source, namespace, image, owner, contents })
    }

    /// Waits for the target, and begins the test; none if somebody interrupts that. `manifests` are its objects but
    /// for what workers are to know; the token is for them alone, and `holder` is a number that anybody may see. What
    /// happens meanwhile is told.
    ///
    /// # Errors
    /// What the user is to know; nothing of it is left.
    pub fn start(
        &self,
        (client, arranged): (Client, &Arranged),
        manifests: Manifests,
        (token, holder): (Token, u64),
        interrupted: &AtomicBool,
        tell: &mut dyn FnMut(Starting<'_>),
    ) -> Result<Option<Started>, Failure> {
        let own = client.own_address()?;
        let workers = self.test.workers;
        let objects = Reconciler::new(self.namespace, manifests, holder, workers, Clock.now());
        let mut driven = Driven::new(objects, client);
        let mut beginning =
            Beginning { test: self, own, arranged, interrupted, token, listener: None, failure: None, tell };
        let mut begun = false;
        driven.run(|objects, event| {
            begun = event == Some(ClusterEvent::Begun);
            beginning.on_event(objects, event);
            begun
        });
        let Beginning { token, listener, failure, tell, .. } = beginning;
        if begun {
            tell(Starting::Begun);
        }
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
    tell: &'a mut dyn FnMut(Starting<'_>),
}

impl Beginning<'_> {
    fn on_event(&mut self, objects: &mut Reconciler, event: Option<ClusterEvent>) {
        match event {
            Some(ClusterEvent::Waits { holder }) => (self.tell)(Starting::Waits(&holder)),
            Some(ClusterEvent::Holds { known }) => {
                if known.is_some() {
                    (self.tell)(Starting::Resumes);
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
        let (listener, place) = match &known {
            Some(known) => listen_again(&known.controller, self.test.found, self.own)?,
            None => listen(self.test.found, self.own)?,
        };
        self.listener = Some(listener);
        if let Some(Meeting { token, .. }) = known {
            self.token = token;
        }
        let keys = WorkerKeys::of(&self.token, self.test.test.workers).map_err(|why| why.to_string())?;
        let manifests = self.test.objects(self.arranged, &keys, &place);
        manifests.map_err(|wrong| wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }
}

/// Listens where workers look for their controller, and says where that is: as it is said, or at an own address.
///
/// # Errors
/// If nobody can be found there, or somebody else listens.
pub fn listen(found: Found<'_>, own: IpAddr) -> Result<(TcpListener, String), String> {
    let port = match found {
        Found::Own if own.is_loopback() => {
            let why = "the cluster is asked through this machine itself: --address HOST:PORT says where pods find it";
            return Err(why.to_owned());
        }
        Found::Own | Found::Host(_) => 0,
        Found::At(place) => port_of(place)?,
    };
    let (listener, port) = listen_at(port, own)?;
    let place = match found {
        Found::Own => SocketAddr::new(own, port).to_string(),
        Found::At(place) => place.to_owned(),
        Found::Host(host) => format!("{host}:{port}"),
    };
    Ok((listener, place))
}

/// The same where workers look for an earlier controller already.
///
/// # Errors
/// As [`listen`], or if this process is elsewhere.
pub fn listen_again(place: &str, found: Found<'_>, own: IpAddr) -> Result<(TcpListener, String), String> {
    // An address that this process has said to be its own was another's.
    let theirs = place.parse::<SocketAddr>().map(|theirs| theirs.ip());
    if matches!(found, Found::Own) && theirs.is_ok_and(|theirs| theirs != own) {
        return Err(format!("its workers look for an earlier controller at {place}, and this one is at {own}"));
    }
    let (listener, _) = listen_at(port_of(place)?, own)?;
    Ok((listener, place.to_owned()))
}

fn listen_at(port: u16, own: IpAddr) -> Result<(TcpListener, u16), String> {
    let any: IpAddr = if own.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let listener = TcpListener::bind((any, port)).map_err(|why| format!("cannot listen on port {port}: {why}"))?;
    let port = listener.local_addr().map_err(|why| why.to_string())?.port();
    Ok((listener, port))
}
