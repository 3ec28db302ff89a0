//! What was made of files of certificates, kept for a while (`ssl_certificate_cache`, `proxy_ssl_certificate_cache`).

use super::tls_settings::CertificateCache;
use handshake::CertificateFiles;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What was made of files, by these.
#[derive(Debug)]
pub(super) struct KeptFiles<T> {
    rule: Option<CertificateCache>,
    kept: Mutex<HashMap<Vec<CertificateFiles>, Kept<T>>>,
}

#[derive(Debug)]
struct Kept<T> {
    made: Arc<T>,
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
        let path = super::path_of(path);
        let _asking = helper::waits::on(&path);
        let about = std::fs::metadata(path).ok()?;
        let modified = (about.mtime(), about.mtime_nsec());
        Some(Self { device: about.dev(), inode: about.ino(), length: about.len(), modified })
    }
}

impl<T> KeptFiles<T> {
    /// As this says; none: nothing is kept.
    pub fn new(rule: Option<CertificateCache>) -> Self {
        Self { rule, kept: Mutex::default() }
    }

    /// What is kept of these files, or is made of them now.
    pub fn find(
        &self,
        files: &[CertificateFiles],
        make: impl FnOnce() -> Result<Arc<T>, String>,
    ) -> Result<Arc<T>, String> {
        let now = now();
        if let Some(rule) = &self.rule
            && let Some(known) = self.known(files, rule, now)
        {
            return Ok(known);
        }
        // First: what is written meanwhile is another file the next time.
        let stamps = self.rule.and_then(|_| Stamp::all(files));
        let made = make()?;
        if let Some((rule, stamps)) = self.rule.zip(stamps) {
            self.keep(files, &rule, Kept { made: Arc::clone(&made), stamps, used: now, looked: now });
        }
        Ok(made)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Vec<CertificateFiles>, Kept<T>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that is kept, and whose files are what they were.
    fn known(&self, files: &[CertificateFiles], rule: &CertificateCache, now: Instant) -> Option<Arc<T>> {
        let made = {
            let mut kept = self.kept();
            let one = kept.get_mut(files)?;
            if now.duration_since(one.used) >= rule.inactive {
                kept.remove(files);
                return None;
            }
            one.used = now;
            if now.duration_since(one.looked) < rule.valid {
                return Some(Arc::clone(&one.made));
            }
            Arc::clone(&one.made)
        };
        // Nobody waits for the look at the files but who asked.
        let stamps = Stamp::all(files);
        let mut kept = self.kept();
        let one = kept.get_mut(files).filter(|one| Arc::ptr_eq(&one.made, &made))?;
        if stamps.is_none_or(|stamps| stamps != one.stamps) {
            kept.remove(files);
            return None;
        }
        one.looked = now;
        Some(made)
    }

    fn keep(&self, files: &[CertificateFiles], rule: &CertificateCache, made: Kept<T>) {
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
}

#[expect(clippy::disallowed_methods, reason = "how long files are kept for; the thread reads files, no silo does")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn files(folder: &std::path::Path, name: &str) -> Vec<CertificateFiles> {
        let path = |kind| folder.join(format!("{name}.{kind}")).into_os_string().into_encoded_bytes();
        vec![CertificateFiles { certificate: path("pem"), key: path("key") }]
    }

    #[test]
    fn what_is_kept_is_bounded_and_looked_at_anew() {
        let folder = std::env::temp_dir().join(format!("nearside-kept-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| {
            let files = files(&folder, name);
            std::fs::write(super::super::path_of(&files[0].certificate), name).unwrap();
            std::fs::write(super::super::path_of(&files[0].key), name).unwrap();
            files
        });
        let rule = CertificateCache { max: 2, inactive: Duration::from_secs(20), valid: Duration::from_secs(5) };
        let all = KeptFiles::new(Some(rule));
        let begun = now();
        let at = |second| begun + Duration::from_secs(second);
        let keep = |files: &[CertificateFiles], second| {
            let stamps = Stamp::all(files).unwrap();
            all.keep(files, &rule, Kept { made: Arc::new(()), stamps, used: at(second), looked: at(second) });
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
}
