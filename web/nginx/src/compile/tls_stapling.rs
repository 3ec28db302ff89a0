//! `ssl_stapling`: who is asked about which certificate.

use super::arguments::told;
use super::layer::Layer;
use super::resolvers::with_timeout;
use super::tls_files;
use super::tls_settings::TlsSettings;
use super::url::{Tail, Url, UrlHost};
use super::{Compiler, Step, nowhere};
use crate::message::{Level, Message};
use core::net::SocketAddr;
use handshake::{Identity, ServerTls};
use stapling::{Responder, StapleOrder};
use upstream::PeerAddress;
use x509::{Certificate, Store};

/// The port of responders that name none.
const PORT: u16 = 80;

/// What every address of a responder begins with.
const SCHEME: &[u8] = b"http://";

/// A question whose certificate has no server yet.
pub(super) struct StapleDraft {
    /// The place of the certificate among those of its server.
    at: usize,
    name: String,
    subject: Certificate,
    issuer: Certificate,
    responder: Responder,
}

impl Compiler<'_> {
    /// The certificates of a server about which somebody can be asked. Of the others there is a warning.
    pub(super) fn staple_drafts(&mut self, layer: &Layer, identities: &[Identity]) -> Step<Vec<StapleDraft>> {
        let settings = &*layer.tls;
        if !settings.staples || settings.stapled.is_some() {
            return Ok(Vec::new());
        }
        let trusted = self.staple_authorities(settings)?;
        let mut drafts = Vec::new();
        for (at, (identity, path)) in identities.iter().zip(&settings.certificates).enumerate() {
            let name = told(&self.conf_path(path));
            match self.staple_draft(layer, identity, &trusted) {
                Ok((subject, issuer, responder)) => {
                    drafts.push(StapleDraft { at, name, subject, issuer, responder });
                }
                Err(why) => {
                    let text = format!("\"ssl_stapling\" ignored, {why} \"{name}\"");
                    self.warnings.push(Message { level: Level::Warn, ..nowhere(text) });
                }
            }
        }
        Ok(drafts)
    }

    /// What is trusted where answers are verified, and looked for issuers in.
    fn staple_authorities(&mut self, settings: &TlsSettings) -> Step<Vec<Certificate>> {
        let mut all = Vec::new();
        for path in [&settings.trusted_certificate, &settings.client_certificate].into_iter().flatten() {
            self.note_file(path);
            all.extend(tls_files::authorities(path, "SSL_CTX_load_verify_locations").map_err(nowhere)?);
        }
        Ok(all)
    }

    fn staple_draft(
        &self,
        layer: &Layer,
        identity: &Identity,
        trusted: &[Certificate],
    ) -> Result<(Certificate, Certificate, Responder), String> {
        let copy = |one: &Certificate| Certificate::from_der(&one.der()).ok();
        let (leaf, chain) = identity.chain.split_first().ok_or("no certificate in")?;
        let issuer = chain.iter().chain(trusted).find(|one| one.is_issuer_of(leaf)).and_then(copy);
        let issuer = issuer.ok_or("issuer certificate not found for certificate")?;
        let subject = copy(leaf).ok_or("no certificate in")?;
        let own = || leaf.ocsp_responder().ok_or("no OCSP responder URL in the certificate");
        let named = layer.tls.responder.clone().map_or_else(own, Ok)?;
        let of = |why: &str, named: &[u8]| format!("{why} in OCSP responder \"{}\" in the certificate", told(named));
        let (scheme, address) = named.split_at_checked(SCHEME.len()).unwrap_or_default();
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return Err(of("invalid URL prefix", &named));
        }
        let responder = self.responder(layer, address).map_err(|why| of(why, address))?;
        Ok((subject, issuer, responder))
    }

    fn responder(&self, layer: &Layer, named: &[u8]) -> Result<Responder, &'static str> {
        let url = Url::parse(named, Tail::Path)?;
        let port = url.port.unwrap_or(PORT);
        let (mut addresses, mut rules): (Vec<SocketAddr>, _) = (Vec::new(), None);
        match (&url.host, &layer.block.resolver) {
            (UrlHost::Unix(_), _) => return Err("invalid host"),
            // Asked for each time: it may move.
            (UrlHost::Name(_), Some(resolver)) => {
                rules = Some(with_timeout(resolver.clone(), layer.resolver_timeout));
            }
            _ => {
                let found = url.addresses(port, self.around.resolve)?;
                addresses.extend(found.into_iter().filter_map(|peer| match peer {
                    PeerAddress::Inet(address) => Some(address),
                    PeerAddress::Unix(_) => None,
                }));
            }
        }
        let path = if url.path.starts_with(b"/") { url.path.to_vec() } else { [b"/", url.path].concat() };
        Ok(Responder { host: url.name.to_vec(), port, path, addresses, rules })
    }

    /// The server of these certificates is there.
    pub(super) fn order_staples(
        &mut self,
        settings: &TlsSettings,
        drafts: Vec<StapleDraft>,
        server: &ServerTls,
    ) -> Step {
        for StapleDraft { at, name, subject, issuer, responder } in drafts {
            let trusted = match settings.staples_verified {
                true => {
                    let store = Store::new(&self.staple_authorities(settings)?, &[]);
                    Some(store.map_err(|why| nowhere(format!("X509_STORE_add_cert() failed: {why}")))?)
                }
                false => None,
            };
            let Some(staple) = server.staples().get(at) else { continue };
            let order = StapleOrder::new((name, &subject), issuer, (staple.clone(), responder), trusted);
            self.program.staples.extend(order);
        }
        Ok(())
    }
}
