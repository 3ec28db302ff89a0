//! `proxy_ssl_…`, `grpc_ssl_…`, `uwsgi_ssl_…`: how upstreams are secured.

use super::arguments::{argument, is_on, told};
use super::layer::Layer;
use super::settings::Setter;
use super::tls_files;
use super::tls_settings::{SecuredBy, UpstreamTlsSettings};
use super::{Compiler, Step, nowhere};
use crate::message::Place;
use crate::reader::Directive;
use configuration::gateways::GatewayProtocol;
use configuration::program::ContentRules;
use configuration::proxying::{UpstreamTls, UpstreamVersion};
use features::units::number;
use handshake::{ClientError, ClientRules, ClientTls, Identity, OwnCertificateSource, Servers};
use std::sync::Arc;
use x509::Store;

/// Tickets of each server that are kept.
const TICKETS: usize = 8;

/// What those of blocks came to: of equal ones one is made.
pub(super) type KnownTls = Vec<(Arc<UpstreamTlsSettings>, MadeTls)>;

/// What is said and done, and where the certificates are found whose paths have variables.
pub(super) type MadeTls = (Arc<ClientTls>, Option<Arc<dyn OwnCertificateSource>>);

fn set_proxy(compiler: &mut Compiler<'_>, layer: &mut Layer, directive: &Directive) -> Step {
    compiler.upstream_tls(layer, SecuredBy::Proxy, directive)
}

fn set_grpc(compiler: &mut Compiler<'_>, layer: &mut Layer, directive: &Directive) -> Step {
    compiler.upstream_tls(layer, SecuredBy::Grpc, directive)
}

fn set_uwsgi(compiler: &mut Compiler<'_>, layer: &mut Layer, directive: &Directive) -> Step {
    compiler.upstream_tls(layer, SecuredBy::Uwsgi, directive)
}

/// Directives of handshakes with upstreams: each is a part of one value.
pub(super) const UPSTREAM_TLS_SETTERS: &[(&str, Setter)] = &[
    ("proxy_ssl_session_reuse", set_proxy),
    ("proxy_ssl_protocols", set_proxy),
    ("proxy_ssl_ciphers", set_proxy),
    ("proxy_ssl_name", set_proxy),
    ("proxy_ssl_server_name", set_proxy),
    ("proxy_ssl_verify", set_proxy),
    ("proxy_ssl_verify_depth", set_proxy),
    ("proxy_ssl_trusted_certificate", set_proxy),
    ("proxy_ssl_crl", set_proxy),
    ("proxy_ssl_certificate", set_proxy),
    ("proxy_ssl_certificate_key", set_proxy),
    ("proxy_ssl_certificate_cache", set_proxy),
    ("proxy_ssl_password_file", set_proxy),
    ("proxy_ssl_conf_command", set_proxy),
    ("grpc_ssl_session_reuse", set_grpc),
    ("grpc_ssl_protocols", set_grpc),
    ("grpc_ssl_ciphers", set_grpc),
    ("grpc_ssl_name", set_grpc),
    ("grpc_ssl_server_name", set_grpc),
    ("grpc_ssl_verify", set_grpc),
    ("grpc_ssl_verify_depth", set_grpc),
    ("grpc_ssl_trusted_certificate", set_grpc),
    ("grpc_ssl_crl", set_grpc),
    ("grpc_ssl_certificate", set_grpc),
    ("grpc_ssl_certificate_key", set_grpc),
    ("grpc_ssl_certificate_cache", set_grpc),
    ("grpc_ssl_password_file", set_grpc),
    ("grpc_ssl_conf_command", set_grpc),
    ("uwsgi_ssl_session_reuse", set_uwsgi),
    ("uwsgi_ssl_protocols", set_uwsgi),
    ("uwsgi_ssl_ciphers", set_uwsgi),
    ("uwsgi_ssl_name", set_uwsgi),
    ("uwsgi_ssl_server_name", set_uwsgi),
    ("uwsgi_ssl_verify", set_uwsgi),
    ("uwsgi_ssl_verify_depth", set_uwsgi),
    ("uwsgi_ssl_trusted_certificate", set_uwsgi),
    ("uwsgi_ssl_crl", set_uwsgi),
    ("uwsgi_ssl_certificate", set_uwsgi),
    ("uwsgi_ssl_certificate_key", set_uwsgi),
    ("uwsgi_ssl_certificate_cache", set_uwsgi),
    ("uwsgi_ssl_password_file", set_uwsgi),
    ("uwsgi_ssl_conf_command", set_uwsgi),
];

impl Compiler<'_> {
    /// Takes one of these directives.
    fn upstream_tls(&mut self, layer: &mut Layer, by: SecuredBy, directive: &Directive) -> Step {
        let (value, place) = (argument(directive, 0), directive.place);
        let path = self.conf_path(value);
        let is_first = directive.rule.is_some_and(|rule| layer.first(rule.name));
        let settings = Arc::make_mut(layer.upstream_tls_mut(by));
        match directive.name.get(by.prefix().len()..).unwrap_or_default() {
            b"_session_reuse" => settings.resumes = is_on(directive),
            b"_protocols" => self.tls_protocols(&mut settings.common, directive),
            b"_ciphers" => settings.common.ciphers = told(value),
            b"_name" => settings.name = Some(self.value(value, place)?),
            b"_server_name" => settings.tells_name = is_on(directive),
            b"_verify" => settings.verifies = is_on(directive),
            b"_verify_depth" => settings.common.depth = number(value).map_or(u32::MAX, |depth| depth as u32),
            b"_trusted_certificate" => {
                settings.common.trusted_certificate = Some(path).filter(|_| !value.is_empty());
            }
            b"_crl" => settings.common.revocations = Some(path).filter(|_| !value.is_empty()),
            b"_certificate" | b"_certificate_key" => {
                let own = if directive.name.ends_with(b"_key") { &mut settings.key } else { &mut settings.certificate };
                if !is_first {
                    return Err(self.invalid(directive, "is duplicate"));
                }
                *own = Some(value.to_vec()).filter(|value| !value.is_empty());
                self.tls_path_is_of_a_file(value, place)?;
            }
            b"_certificate_cache" => settings.common.certificate_cache = self.certificate_cache(directive)?,
            b"_password_file" => {
                self.note_file(&path);
                settings.common.passwords = tls_files::passwords(&path).map_err(|why| self.refused(place, why))?;
            }
            b"_conf_command" => self.tls_command(&mut settings.common, directive)?,
            _ => {}
        }
        Ok(())
    }

    /// Makes what requests need of the settings, now that all of the block are known.
    pub(super) fn finish_upstream_tls(&mut self, layer: &mut Layer, place: Place) -> Step {
        let by = match &layer.block.content {
            ContentRules::Proxy(pass) if pass.may_be_secured() => SecuredBy::Proxy,
            ContentRules::Grpc(pass) if pass.may_be_secured() => SecuredBy::Grpc,
            ContentRules::Gateway(pass) if pass.may_be_secured() => SecuredBy::Uwsgi,
            _ => return Ok(()),
        };
        let mut settings = Arc::clone(layer.upstream_tls_mut(by));
        if by == SecuredBy::Grpc || by == SecuredBy::Proxy && layer.block.proxy.version == UpstreamVersion::Http2 {
            Arc::make_mut(&mut settings).speaks_http2 = true;
        }
        let (tls, source) = self.client_tls(&settings, by, place)?;
        let shows = self.own_by_value(&settings, source, place)?;
        let made = UpstreamTls { tls, name: settings.name.clone(), tells_name: settings.tells_name, shows };
        let rules = match by {
            SecuredBy::Proxy => &mut layer.block.proxy,
            SecuredBy::Grpc => &mut layer.block.grpc,
            SecuredBy::Uwsgi => &mut Arc::make_mut(&mut layer.block.gateways).of_mut(GatewayProtocol::Uwsgi).relay,
        };
        if rules.tls.as_deref() != Some(&made) {
            Arc::make_mut(rules).tls = Some(Arc::new(made));
        }
        Ok(())
    }

    fn client_tls(&mut self, settings: &Arc<UpstreamTlsSettings>, by: SecuredBy, place: Place) -> Step<MadeTls> {
        let known = |(one, _): &&(Arc<UpstreamTlsSettings>, _)| Arc::ptr_eq(one, settings) || **one == **settings;
        if let Some((_, made)) = self.upstream_tls.iter().rev().find(known) {
            return Ok(made.clone());
        }
        let (common, prefix) = (&settings.common, by.prefix());
        self.warn_of_old(common);
        let (suites12, suites13) = self.tls_suites(common, prefix, place)?;
        let identity = self.upstream_identity(settings, prefix)?;
        let servers = self.upstream_servers(settings, prefix)?;
        let groups = self.tls_groups(common, &format!("{prefix}_conf_command"), place)?;
        let rules = ClientRules {
            identity,
            tls12: common.tls12,
            tls13: common.tls13,
            suites12,
            suites13,
            groups,
            servers,
            tickets: if settings.resumes && common.tickets { TICKETS } else { 0 },
            protocols: if settings.speaks_http2 { vec![b"h2".to_vec()] } else { Vec::new() },
        };
        let made = ClientTls::new(rules).map_err(|why| match &why {
            ClientError::Key => {
                let path = settings.key.as_ref().map(|key| told(&self.conf_path(key))).unwrap_or_default();
                nowhere(format!("SSL_CTX_use_PrivateKey(\"{path}\") failed: {why}"))
            }
            _ => {
                let what = format!("\"{prefix}_protocols\" and \"{prefix}_ciphers\" as they are: {why}");
                self.unsupported(place, &what)
            }
        })?;
        let made = (Arc::new(made), self.own_source(settings));
        self.upstream_tls.push((Arc::clone(settings), made.clone()));
        Ok(made)
    }

    /// What upstreams are shown that ask who we are.
    fn upstream_identity(&mut self, settings: &UpstreamTlsSettings, prefix: &str) -> Step<Option<Identity>> {
        let Some(certificate) = &settings.certificate else { return Ok(None) };
        let Some(key) = &settings.key else {
            let what = format!("no \"{prefix}_certificate_key\" is defined for certificate \"{}\"", told(certificate));
            return Err(nowhere(what));
        };
        if settings.by_value().is_some() {
            return Ok(None);
        }
        let (certificate, key) = (self.conf_path(certificate), self.conf_path(key));
        self.note_file(&certificate);
        self.note_file(&key);
        tls_files::identity(&certificate, &key, &settings.common.passwords).map(Some).map_err(nowhere)
    }

    /// Which upstreams are trusted; none where none is asked who it is.
    fn upstream_servers(&mut self, settings: &UpstreamTlsSettings, prefix: &str) -> Step<Option<Servers>> {
        if !settings.verifies {
            return Ok(None);
        }
        let Some(path) = &settings.common.trusted_certificate else {
            return Err(nowhere(format!("no {prefix}_trusted_certificate for {prefix}_verify")));
        };
        self.note_file(path);
        let trusted = tls_files::authorities(path, "SSL_CTX_load_verify_locations").map_err(nowhere)?;
        let revocations = match &settings.common.revocations {
            Some(path) => {
                self.note_file(path);
                tls_files::revocations(path).map_err(nowhere)?
            }
            None => Vec::new(),
        };
        let store = Store::new(&trusted, &revocations);
        let store = store.map_err(|why| nowhere(format!("X509_STORE_add_cert() failed: {why}")))?;
        Ok(Some(Servers { store, depth: settings.common.depth, by_address: false }))
    }
}
