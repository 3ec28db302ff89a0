//! Certificates whose paths have variables: read when a client or a request asks, by the thread that works
//! on its handshake and with its rights; kept for a while where `ssl_certificate_cache` or
//! `proxy_ssl_certificate_cache` says so.

use super::arguments::told;
use super::kept_files::KeptFiles;
use super::layer::Layer;
use super::tls_files;
use super::tls_settings::{CertificateCache, UpstreamTlsSettings};
use super::{Compiler, Step};
use crate::message::Place;
use crate::reader::Directive;
use configuration::CertificatesByValue;
use configuration::proxying::OwnCertificateByValue;
use core::time::Duration;
use features::units::{number, time};
use handshake::{CertificateFiles, CertificateSource, Identity, OwnCertificate, OwnCertificateSource, ServerTls};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The certificates of a server, by their files.
#[derive(Debug)]
struct CertificatesOfFiles {
    passwords: Vec<Zeroizing<Vec<u8>>>,
    kept: KeptFiles<ServerTls>,
}

/// Those that upstreams are shown.
#[derive(Debug)]
struct OwnCertificatesOfFiles {
    passwords: Vec<Zeroizing<Vec<u8>>>,
    /// How often the paths lead to a parent, as they are written and without what variables add.
    climbs: [usize; 2],
    kept: KeptFiles<OwnCertificate>,
}

impl CertificateSource for CertificatesOfFiles {
    fn find(&self, like: &ServerTls, files: &[CertificateFiles]) -> Result<Arc<ServerTls>, String> {
        self.kept.find(files, || {
            let identities: Vec<_> = files.iter().map(|one| read(one, &self.passwords)).collect::<Result<_, _>>()?;
            let server = like.with_identities(&identities);
            server.map(Arc::new).map_err(|why| refused(files.last(), &why))
        })
    }
}

impl OwnCertificateSource for OwnCertificatesOfFiles {
    fn find(&self, files: &CertificateFiles) -> Result<Arc<OwnCertificate>, String> {
        for (path, climbs) in [&files.certificate, &files.key].into_iter().zip(self.climbs) {
            if self::climbs(path) > climbs {
                let path = told(path);
                return Err(format!("cannot load certificate \"{path}\": a variable leads to a parent folder"));
            }
        }
        self.kept.find(core::slice::from_ref(files), || {
            let own = OwnCertificate::new(&read(files, &self.passwords)?);
            own.map(Arc::new).map_err(|why| refused(Some(files), &why))
        })
    }
}

/// How often a path leads to a parent.
fn climbs(path: &[u8]) -> usize {
    path.split(|byte| *byte == b'/').filter(|part| *part == b"..").count()
}

/// In the words of one handshake, not of all.
fn read(files: &CertificateFiles, passwords: &[Zeroizing<Vec<u8>>]) -> Result<Identity, String> {
    match [&files.certificate, &files.key].into_iter().find(|path| path.contains(&0)) {
        Some(path) => Err(format!("cannot load certificate \"{}\": a path has no zero byte", told(path))),
        None => tls_files::identity(&files.certificate, &files.key, passwords)
            .map_err(|why| why.replacen("SSL_CTX_use", "SSL_use", 1)),
    }
}

fn refused(files: Option<&CertificateFiles>, why: &dyn core::fmt::Display) -> String {
    let key = files.map(|one| told(&one.key)).unwrap_or_default();
    format!("SSL_use_PrivateKey(\"{key}\") failed: {why}")
}

impl Compiler<'_> {
    /// `ssl_certificate_cache`, `proxy_ssl_certificate_cache`
    pub(super) fn certificate_cache(&self, directive: &Directive) -> Step<Option<CertificateCache>> {
        let mut rule = CertificateCache::BY_DEFAULT;
        let mut off = false;
        for word in &directive.arguments {
            let invalid = || self.refused(directive.place, format!("invalid parameter \"{}\"", told(word)));
            let span = |text| time(text, true).map(Duration::from_millis).map_err(|_| invalid());
            match word.as_slice() {
                b"off" => off = true,
                _ => {
                    if let Some(most) = word.strip_prefix(b"max=") {
                        let most = number(most).ok().filter(|most| *most > 0).ok_or_else(invalid)?;
                        rule.max = usize::try_from(most).unwrap_or(usize::MAX);
                    } else if let Some(text) = word.strip_prefix(b"inactive=") {
                        rule.inactive = span(text)?;
                    } else if let Some(text) = word.strip_prefix(b"valid=") {
                        rule.valid = span(text)?;
                    } else {
                        return Err(invalid());
                    }
                }
            }
        }
        if !off && rule.max == 0 {
            let what = format!("\"{}\" must have the \"max\" parameter", told(&directive.name));
            return Err(self.refused(directive.place, what));
        }
        Ok((!off).then_some(rule))
    }

    /// The certificates of a server whose paths have variables.
    pub(super) fn certificates_by_value(&mut self, layer: &Layer, place: Place) -> Step<Option<CertificatesByValue>> {
        let settings = &*layer.tls;
        if !settings.by_value() {
            return Ok(None);
        }
        let mut files = Vec::new();
        for (certificate, key) in settings.certificates.iter().zip(&settings.keys) {
            files.push((self.value(certificate, place)?, self.value(key, place)?));
        }
        let (passwords, kept) = (settings.passwords.clone(), KeptFiles::new(settings.certificate_cache));
        let source = Arc::new(CertificatesOfFiles { passwords, kept });
        Ok(Some(CertificatesByValue { source, files, folder: self.conf_folder() }))
    }

    /// Where the certificates are found that upstreams are shown; none where their paths have no variables.
    pub(super) fn own_source(&self, settings: &UpstreamTlsSettings) -> Option<Arc<dyn OwnCertificateSource>> {
        let (certificate, key) = settings.by_value()?;
        let climbs = [certificate, key].map(|path| climbs(&self.conf_path(path)));
        let kept = KeptFiles::new(settings.common.certificate_cache);
        Some(Arc::new(OwnCertificatesOfFiles { passwords: settings.common.passwords.clone(), climbs, kept }))
    }

    /// The certificate that upstreams of a block are shown whose paths have variables.
    pub(super) fn own_by_value(
        &mut self,
        settings: &UpstreamTlsSettings,
        source: Option<Arc<dyn OwnCertificateSource>>,
        place: Place,
    ) -> Step<Option<OwnCertificateByValue>> {
        let (Some(source), Some((certificate, key))) = (source, settings.by_value()) else { return Ok(None) };
        let (certificate, key) = (self.value(certificate, place)?, self.value(key, place)?);
        Ok(Some(OwnCertificateByValue { source, certificate, key, folder: self.conf_folder() }))
    }

    /// Where relative paths of certificates begin.
    fn conf_folder(&self) -> Box<[u8]> {
        let mut folder = self.conf_path(b"x");
        folder.pop();
        folder.into()
    }
}

#[cfg(test)]
mod tests {
    use super::{KeptFiles, OwnCertificatesOfFiles, climbs};
    use crate::compile::tests::compiled;
    use handshake::{CertificateFiles, OwnCertificateSource};

    #[test]
    fn parents_are_counted_where_they_are_whole_names() {
        assert_eq!(["/a/b", "/a/../b/..", "../..a/a../...", ""].map(|path| climbs(path.as_bytes())), [0, 2, 1, 0]);
    }

    /// It is neither a path's end nor a file of another name that is opened.
    #[test]
    fn no_path_has_a_zero_byte() {
        let source = OwnCertificatesOfFiles { passwords: Vec::new(), climbs: [0; 2], kept: KeptFiles::new(None) };
        for (certificate, key) in [("/c/a.pem\0.txt", "/c/a.key"), ("/c/a.pem", "/c/a.key\0")] {
            let files = CertificateFiles { certificate: certificate.into(), key: key.into() };
            let why = source.find(&files).unwrap_err();
            assert!(why.ends_with("a path has no zero byte"), "{why}");
        }
    }

    #[test]
    fn upstreams_are_shown_what_variables_name() {
        let text = |path: &str| {
            format!(
                "proxy_ssl_certificate ../$arg_n.pem; proxy_ssl_certificate_key {path};
                 proxy_ssl_certificate_cache max=2;
                 server {{ location / {{ proxy_pass https://127.0.0.1; }} location /b {{ proxy_pass https://127.0.0.1; }}
                 location /c {{ proxy_ssl_certificate \"\"; proxy_pass https://127.0.0.1; }} }}"
            )
        };
        let compiled = compiled(&text("k.key")).unwrap();
        let all: Vec<_> = compiled.program.blocks.iter().filter_map(|block| block.proxy.tls.clone()).collect();
        let [first, second, third] = &all[..] else { panic!("{} blocks", all.len()) };
        assert!(first.shows.is_some() && first == second, "one cache for equal settings");
        assert!(third.shows.is_none());
        let why = crate::compile::tests::compiled(&text("\"\"")).unwrap_err();
        assert!(why.contains("no \"proxy_ssl_certificate_key\" is defined for certificate \"../$arg_n.pem\""), "{why}");
    }

    #[test]
    fn a_cache_is_told_as_nginx_has_it() {
        let said = |words: &str| match compiled(&format!("server {{ ssl_certificate_cache {words}; }}")) {
            Ok(_) => String::new(),
            Err(why) => why,
        };
        for well in ["off", "max=10", "max=1000 inactive=20s valid=1m"] {
            assert_eq!(said(well), "", "{well}");
        }
        for wrong in ["max=0", "max=x", "max=1 inactive=x", "min=1"] {
            assert!(said(wrong).contains("invalid parameter \""), "{wrong}: {}", said(wrong));
        }
        assert!(said("valid=5s").contains("\"ssl_certificate_cache\" must have the \"max\" parameter"));
    }
}
