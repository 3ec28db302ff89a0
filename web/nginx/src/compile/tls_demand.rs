//! Certificates whose paths have variables: read when a client asks, by the thread that works on
//! its handshake and with its rights; kept for a while where `ssl_certificate_cache` says so.

use super::arguments::told;
use super::layer::Layer;
use super::tls_files;
use super::tls_settings::CertificateCache;
use super::{Compiler, Step};
use crate::message::Place;
use crate::reader::Directive;
use core::time::Duration;
use handshake::{CertificateFiles, CertificateSource, Identity, ServerTls};
use phases::CertificatesByValue;
use phases::units::{number, time};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use zeroize::Zeroizing;

/// The certificates of a server, by their files.
#[derive(Debug)]
struct CertificatesOfFiles {
    passwords: Vec<Zeroizing<Vec<u8>>>,
    rule: Option<CertificateCache>,
    kept: Mutex<HashMap<Vec<CertificateFiles>, Kept>>,
}

#[derive(Debug)]
struct Kept {
    server: Arc<ServerTls>,
    stamps: Vec<Stamp>,
    used: Instant,
    looked: Instant,
}

/// What changes when another file has a path, or it is written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// Of the files that a server is made of; none if one cannot be looked at.
    fn all(files: &[CertificateFiles]) -> Option<Vec<Self>> {
        files.iter().flat_map(|one| [&one.certificate, &one.key]).map(|path| Self::of(path)).collect()
    }

    fn of(path: &[u8]) -> Option<Self> {
        let about = std::fs::metadata(super::path_of(path)).ok()?;
        let modified = (about.mtime(), about.mtime_nsec());
        Some(Self { device: about.dev(), inode: about.ino(), length: about.len(), modified })
    }
}

impl CertificatesOfFiles {
    fn kept(&self) -> MutexGuard<'_, HashMap<Vec<CertificateFiles>, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that is kept, and whose files are what they were.
    fn known(&self, files: &[CertificateFiles], rule: &CertificateCache, now: Instant) -> Option<Arc<ServerTls>> {
        let server = {
            let mut kept = self.kept();
            let one = kept.get_mut(files)?;
            if now.duration_since(one.used) >= rule.inactive {
                kept.remove(files);
                return None;
            }
            one.used = now;
            if now.duration_since(one.looked) < rule.valid {
                return Some(Arc::clone(&one.server));
            }
            Arc::clone(&one.server)
        };
        // Nobody waits for the look at the files but who asked.
        let stamps = Stamp::all(files);
        let mut kept = self.kept();
        let one = kept.get_mut(files).filter(|one| Arc::ptr_eq(&one.server, &server))?;
        if stamps.is_none_or(|stamps| stamps != one.stamps) {
            kept.remove(files);
            return None;
        }
        one.looked = now;
        Some(server)
    }

    fn keep(&self, files: &[CertificateFiles], rule: &CertificateCache, made: Kept) {
        let now = made.used;
        let mut kept = self.kept();
        kept.retain(|_, one| now.saturating_duration_since(one.used) < rule.inactive);
        while kept.len() >= rule.max && !kept.contains_key(files) {
            let oldest = kept.iter().min_by_key(|(_, one)| one.used).map(|(files, _)| files.clone());
            let Some(oldest) = oldest else { return };
            kept.remove(&oldest);
        }
        kept.insert(files.to_vec(), made);
    }

    fn read(&self, files: &[CertificateFiles]) -> Result<Vec<Identity>, String> {
        files
            .iter()
            .map(|one| match [&one.certificate, &one.key].into_iter().find(|path| path.contains(&0)) {
                Some(path) => Err(format!("cannot load certificate \"{}\": a path has no zero byte", told(path))),
                // It is set for a handshake, not for all.
                None => tls_files::identity(&one.certificate, &one.key, &self.passwords)
                    .map_err(|why| why.replacen("SSL_CTX_use", "SSL_use", 1)),
            })
            .collect()
    }
}

impl CertificateSource for CertificatesOfFiles {
    fn find(&self, like: &ServerTls, files: &[CertificateFiles]) -> Result<Arc<ServerTls>, String> {
        let now = now();
        if let Some(rule) = &self.rule
            && let Some(known) = self.known(files, rule, now)
        {
            return Ok(known);
        }
        // First: what is written meanwhile is another file the next time.
        let stamps = self.rule.and_then(|_| Stamp::all(files));
        let identities = self.read(files)?;
        let server = Arc::new(like.with_identities(&identities).map_err(|why| {
            let key = files.last().map(|one| told(&one.key)).unwrap_or_default();
            format!("SSL_use_PrivateKey(\"{key}\") failed: {why}")
        })?);
        if let Some((rule, stamps)) = self.rule.zip(stamps) {
            self.keep(files, &rule, Kept { server: Arc::clone(&server), stamps, used: now, looked: now });
        }
        Ok(server)
    }
}

#[expect(clippy::disallowed_methods, reason = "how long files are kept for; the thread reads files, no silo does")]
fn now() -> Instant {
    Instant::now()
}

impl Compiler<'_> {
    /// `ssl_certificate_cache`
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
            let what = "\"ssl_certificate_cache\" must have the \"max\" parameter";
            return Err(self.refused(directive.place, what.to_owned()));
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
        let mut folder = self.conf_path(b"x");
        folder.pop();
        let (passwords, rule) = (settings.passwords.clone(), settings.certificate_cache);
        let source = Arc::new(CertificatesOfFiles { passwords, rule, kept: Mutex::default() });
        Ok(Some(CertificatesByValue { source, files, folder: folder.into() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::tests::compiled;

    fn files(folder: &std::path::Path, name: &str) -> Vec<CertificateFiles> {
        let path = |kind| folder.join(format!("{name}.{kind}")).into_os_string().into_encoded_bytes();
        vec![CertificateFiles { certificate: path("pem"), key: path("key") }]
    }

    #[test]
    fn what_is_kept_is_bounded_and_looked_at_anew() {
        let text = "server { listen 443 ssl; ssl_certificate $ssl_server_name.pem; \
                    ssl_certificate_key $ssl_server_name.key; ssl_certificate_cache max=2 inactive=20s valid=5s; }";
        let compiled = compiled(text).unwrap();
        let server = Arc::clone(compiled.program.servers[0].security.as_ref().unwrap());
        assert_eq!(server.staples().len(), 0);
        let folder = std::env::temp_dir().join(format!("nearside-kept-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| {
            let files = files(&folder, name);
            std::fs::write(super::super::path_of(&files[0].certificate), name).unwrap();
            std::fs::write(super::super::path_of(&files[0].key), name).unwrap();
            files
        });
        let rule = CertificateCache { max: 2, inactive: Duration::from_secs(20), valid: Duration::from_secs(5) };
        let all = CertificatesOfFiles { passwords: Vec::new(), rule: Some(rule), kept: Mutex::default() };
        let begun = now();
        let at = |second| begun + Duration::from_secs(second);
        let keep = |files: &[CertificateFiles], second| {
            let stamps = Stamp::all(files).unwrap();
            all.keep(files, &rule, Kept { server: Arc::clone(&server), stamps, used: at(second), looked: at(second) });
        };
        let is_known = |files: &[CertificateFiles], second| all.known(files, &rule, at(second)).is_some();
        keep(&a, 0);
        keep(&b, 1);
        assert!(is_known(&a, 2) && is_known(&b, 1));
        // The one that was asked for the longest ago gives way.
        keep(&c, 3);
        assert!(is_known(&a, 3) && !is_known(&b, 3) && is_known(&c, 3));
        // Others are seen when they are looked at again.
        std::fs::write(super::super::path_of(&a[0].key), "longer").unwrap();
        assert!(is_known(&a, 4) && !is_known(&a, 6) && !is_known(&a, 6));
        std::fs::remove_file(super::super::path_of(&c[0].certificate)).unwrap();
        assert!(!is_known(&c, 9));
        keep(&b, 10);
        assert!(is_known(&b, 29) && !is_known(&b, 49), "nobody asked for it");
        assert!(all.kept().is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
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
