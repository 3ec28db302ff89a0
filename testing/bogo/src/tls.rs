//! What is said in handshakes, from what the runner asks.

use crate::flags::{Asked, Shown, TLS12, TLS13, Unfit};
use gzip::{Coding, Whole};
use handshake::{
    CertificateBrotli, ClientMode, ClientRules, ClientTls, Clients, Groups, GroupsError, Identity, ServerRules,
    ServerTls, Servers, SessionCache, Suites, TicketKeys, group_name_of,
};
use std::sync::Arc;
use x509::{Store, read_certificates, read_key};

/// What certificates are compressed with, as texts are: quick enough for a turn.
static BROTLI: CertificateBrotli = CertificateBrotli(|certificate| {
    let mut packed = Vec::new();
    Whole::default().encode(Coding::Brotli, 5, certificate, &mut packed).then_some(packed)
});

/// Bytes of sessions that are kept.
const SESSIONS: usize = 1 << 20;

/// What outlives a connection of the server.
pub struct Kept {
    tickets: Arc<TicketKeys>,
    sessions: Arc<SessionCache>,
    early: Arc<SessionCache>,
}

impl Kept {
    pub fn new() -> Self {
        let cache = || Arc::new(SessionCache::new(SESSIONS));
        Self { tickets: Arc::new(TicketKeys::rotating()), sessions: cache(), early: cache() }
    }
}

fn unfit(what: impl Into<String>) -> Unfit {
    Unfit::Unimplemented(what.into())
}

fn read(path: &str) -> Result<Vec<u8>, Unfit> {
    std::fs::read(path).map_err(|e| Unfit::Wrong(format!("{path}: {e}")))
}

fn identities(asked: &Asked) -> Result<Vec<Identity>, Unfit> {
    let made = |shown: &Shown| {
        let Shown { certificate, key, stapled } = shown;
        let wrong = |e: &dyn core::fmt::Debug| Unfit::Wrong(format!("{certificate}: {e:?}"));
        let chain = read_certificates(&read(certificate)?).map_err(|e| wrong(&e))?;
        let key = read_key(&read(key)?, &[]).map_err(|e| wrong(&e))?;
        Ok(Identity { chain, key, stapled: stapled.clone() })
    };
    asked.identities.iter().map(made).collect()
}

fn store(asked: &Asked) -> Result<Store, Unfit> {
    let wrong = |e: &dyn core::fmt::Debug| Unfit::Wrong(format!("authorities: {e:?}"));
    let authorities = match &asked.trusted {
        Some(path) => read_certificates(&read(path)?).map_err(|e| wrong(&e))?,
        None => Vec::new(),
    };
    Store::new(&authorities, &[]).map_err(|e| wrong(&e))
}

fn groups(asked: &Asked) -> Result<Groups, Unfit> {
    if asked.groups.is_empty() {
        return Ok(Groups::auto());
    }
    let named: Option<Vec<_>> = asked.groups.iter().map(|number| group_name_of(*number)).collect();
    let named = named.ok_or_else(|| unfit("groups"))?;
    match Groups::of(&named.join(":")) {
        Ok((groups, missing)) if missing.is_empty() => Ok(groups),
        Ok(_) | Err(GroupsError::NoneOfOurs | GroupsError::Unknown(_)) => Err(unfit(named.join(":"))),
    }
}

fn suites(asked: &Asked) -> Result<Suites, Unfit> {
    let text = asked.cipher.as_deref().unwrap_or("HIGH:!aNULL:!MD5");
    Suites::of_tls12(text).map_err(|_| unfit(format!("-cipher {text}")))
}

fn versions(asked: &Asked) -> Result<(bool, bool), Unfit> {
    match (asked.speaks(TLS12), asked.speaks(TLS13)) {
        (false, false) => Err(unfit("no TLS 1.2 or 1.3")),
        both => Ok(both),
    }
}

/// The server.
pub fn server(asked: &Asked, kept: &Kept) -> Result<Arc<ServerTls>, Unfit> {
    let identities = identities(asked)?;
    if identities.is_empty() {
        return Err(unfit("a server without a certificate"));
    }
    let (tls12, tls13) = versions(asked)?;
    let mode = match (asked.requires_certificate, asked.verifies) {
        (true, _) => Some(ClientMode::Required),
        (false, true) => Some(ClientMode::OptionalNoAuthority),
        (false, false) => None,
    };
    let clients = match mode {
        Some(mode) => Some(Clients { mode, store: store(asked)?, authorities: Vec::new(), depth: 5 }),
        None => None,
    };
    let rules = ServerRules {
        identities,
        tls12,
        tls13,
        suites12: suites(asked)?,
        suites13: Suites::all_tls13(),
        groups: groups(asked)?,
        prefers_own: false,
        kernel: false,
        compresses: asked.compresses.then_some(&BROTLI),
        tickets: (!asked.no_ticket).then(|| Arc::clone(&kept.tickets)),
        sessions: Some(Arc::clone(&kept.sessions)),
        early: asked.early_data.then(|| Arc::clone(&kept.early)),
        lifetime: 7_200,
        clients,
        rejects: false,
        protocols: asked.selects.iter().cloned().collect(),
    };
    ServerTls::new(rules).map(Arc::new).map_err(|why| unfit(why.to_string()))
}

/// The client.
pub fn client(asked: &Asked) -> Result<Arc<ClientTls>, Unfit> {
    if asked.early_data {
        return Err(unfit("early data of a client"));
    }
    let (tls12, tls13) = versions(asked)?;
    let servers =
        if asked.verifies { Some(Servers { store: store(asked)?, depth: 5, by_address: false }) } else { None };
    let mut identities = identities(asked)?;
    if identities.len() > 1 {
        return Err(unfit("a client with certificates to choose from"));
    }
    let rules = ClientRules {
        identity: identities.pop(),
        tls12,
        tls13,
        suites12: suites(asked)?,
        suites13: Suites::all_tls13(),
        groups: groups(asked)?,
        servers,
        tickets: if asked.no_ticket { 0 } else { 8 },
        protocols: protocols(asked.offers.as_deref().unwrap_or_default()),
    };
    ClientTls::new(rules).map(Arc::new).map_err(|why| unfit(format!("{why:?}")))
}

/// Protocols, as ALPN's extension has them (RFC 7301 section 3.1).
pub fn protocols(mut list: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some((len, rest)) = list.split_first() {
        let len = usize::from(*len).min(rest.len());
        all.push(rest[..len].to_vec());
        list = &rest[len..];
    }
    all
}
