//! What is asked, of whom, and what came of it.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use handshake::Staple;
use resolver::ResolverRules;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use x509::{Certificate, OcspError, OcspGood, OcspQuestion, Store};

/// Faults that wait to be told, at most.
const FAULTS_MAX: usize = 16;

/// Where orders go, once there is a thread that takes them: one in a process.
static ORDERS: OnceLock<Mutex<Sender<Weak<StapleOrder>>>> = OnceLock::new();

/// Whether somebody takes orders.
pub(crate) fn are_taken() -> bool {
    ORDERS.get().is_some()
}

/// All orders from now on, for who asks first.
pub(crate) fn take_orders() -> Option<Receiver<Weak<StapleOrder>>> {
    let (sender, receiver) = channel();
    ORDERS.set(Mutex::new(sender)).is_ok().then_some(receiver)
}

fn submit(order: &Arc<StapleOrder>) {
    if let Some(orders) = ORDERS.get() {
        // Who takes them is there for as long as the process.
        let _ = orders.lock().unwrap_or_else(PoisonError::into_inner).send(Arc::downgrade(order));
    }
}

/// Who is asked.
#[derive(Clone, Debug)]
pub struct Responder {
    /// Its name, or its IP address.
    pub host: Vec<u8>,
    /// Its port.
    pub port: u16,
    /// Where it is asked there: `/`, or more.
    pub path: Vec<u8>,
    /// Where it was found when the program was read; none where a resolver is asked each time.
    pub addresses: Vec<SocketAddr>,
    /// Who is asked for its name.
    pub rules: Option<Arc<ResolverRules>>,
}

/// What is asked about one certificate, again and again.
#[derive(Debug)]
pub struct StapleOrder {
    /// The certificate's file.
    name: String,
    staple: Arc<Staple>,
    question: OcspQuestion,
    pub(crate) responder: Responder,
    /// Who may have signed an answer, and who is trusted to, if that is asked.
    signers: Vec<Certificate>,
    trusted: Option<Store>,
    begun: AtomicBool,
    faults: Mutex<Vec<String>>,
}

impl StapleOrder {
    /// An order about the certificate of the file `name`, which `issuer` has issued. Answers are shown
    /// with `staple`. Those of whoever `trusted` does not lead to are refused, if there is one.
    /// `None` where no question can be made of it.
    #[must_use]
    pub fn new(
        (name, subject): (String, &Certificate),
        issuer: Certificate,
        (staple, responder): (Arc<Staple>, Responder),
        trusted: Option<Store>,
    ) -> Option<Arc<Self>> {
        let question = OcspQuestion::new(subject, &issuer)?;
        let signers = vec![issuer];
        let (begun, faults) = (AtomicBool::new(false), Mutex::default());
        Some(Arc::new(Self { name, staple, question, responder, signers, trusted, begun, faults }))
    }

    /// Has it asked from now on, if it is not yet. Returns at once.
    pub fn begin(self: &Arc<Self>) {
        if !self.begun.swap(true, Ordering::Relaxed) {
            submit(self);
        }
    }

    /// What went wrong since this was last asked, in nginx's words.
    #[must_use]
    pub fn take_faults(&self) -> Vec<String> {
        core::mem::take(&mut *self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what went wrong, and with which of its addresses.
    pub(crate) fn note_fault(&self, what: &str, peer: Option<SocketAddr>) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.len() < FAULTS_MAX {
            let host = String::from_utf8_lossy(&self.responder.host);
            let peer = peer.map(|peer| format!("peer: {peer}, ")).unwrap_or_default();
            faults.push(format!(
                "{what} while requesting certificate status, responder: {host}, {peer}certificate: \"{}\"",
                self.name
            ));
        }
    }

    pub(crate) fn question(&self) -> &[u8] {
        self.question.der()
    }

    /// Shows an answer from now on, if a client would take it.
    pub(crate) fn take(&self, answer: Vec<u8>, now: i64) -> Result<OcspGood, OcspError> {
        let good = self.question.read(&answer, &self.signers, self.trusted.as_ref(), now)?;
        let until = good.next_update.map_or(u64::MAX, |next| u64::try_from(next).unwrap_or(0));
        self.staple.put(Some(answer), until);
        Ok(good)
    }
}
