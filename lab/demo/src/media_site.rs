//! A site of films, as its nginx.conf says it: the same for nginx and for Nearside.

use crate::child::call;
use crate::error::Error;
use std::path::Path;

/// How nginx has files read. Nearside reads them in its own way whichever of these is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilmReading {
    /// sendfile(2) by the worker, which waits for the disk.
    Sendfile,
    /// Its threads read what is not in memory, and the worker sends it by sendfile(2).
    Threads,
    /// Its threads read past the page cache.
    Directio,
}

impl FilmReading {
    const fn directives(self) -> &'static str {
        match self {
            Self::Sendfile => "sendfile on; tcp_nopush on;",
            Self::Threads => "sendfile on; tcp_nopush on; aio threads;",
            Self::Directio => "sendfile on; tcp_nopush on; aio threads; directio 512; output_buffers 2 256k;",
        }
    }
}

/// Who seals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sealer {
    /// The server itself.
    Server,
    /// The kernel, where server and kernel have that.
    Kernel,
}

/// A site of films.
#[derive(Clone, Copy, Debug)]
pub struct MediaSite<'a> {
    /// The films.
    pub films: &'a Path,
    /// Where the server writes, and finds `site.pem` and `site.key`.
    pub own: &'a Path,
    /// The address with its port.
    pub listen: &'a str,
    /// Who seals, over TLS 1.3.
    pub secured: Option<Sealer>,
    /// How nginx reads.
    pub reading: FilmReading,
}

impl MediaSite<'_> {
    /// Its nginx.conf, for one worker.
    #[must_use]
    pub fn configuration(&self) -> String {
        let (films, own, listen) = (self.films.display(), self.own.display(), self.listen);
        let seals = match self.secured {
            None => String::new(),
            Some(sealer) => format!(
                "ssl_certificate {own}/site.pem; ssl_certificate_key {own}/site.key; ssl_protocols TLSv1.3;\n\
                 ssl_conf_command Options {}KTLS;\n",
                if sealer == Sealer::Kernel { "" } else { "-" }
            ),
        };
        let (ssl, reading) = (if self.secured.is_some() { " ssl" } else { "" }, self.reading.directives());
        format!(
            "user root; worker_processes 1; worker_rlimit_nofile 65536; daemon off;\n\
             pid {own}/pid; error_log {own}/error.log;\n\
             events {{ worker_connections 12000; }}\n\
             http {{ access_log off; root {films}; {reading}\n\
             keepalive_requests 1000000; keepalive_timeout 1h;\n\
             {seals}server {{ listen {listen}{ssl}; }} }}\n"
        )
    }
}

/// Makes `site.key` and `site.pem`: ECDSA on P-256.
///
/// # Errors
/// If there is no openssl, or it fails.
pub fn make_certificate(dir: &Path) -> Result<(), Error> {
    let (key, certificate) = (dir.join("site.key"), dir.join("site.pem"));
    let text = |path: &Path| path.display().to_string();
    call(&["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", &text(&key)])?;
    let words = ["openssl", "req", "-x509", "-new", "-subj", "/CN=site.example", "-days", "30"];
    call(&[&words[..], &["-key", &text(&key), "-out", &text(&certificate)]].concat())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_says_who_seals_and_how_it_reads() {
        let site = |secured, reading| {
            let (films, own, listen) = (Path::new("/films"), Path::new("/own"), "10.0.0.2:443");
            MediaSite { films, own, listen, secured, reading }.configuration()
        };
        let plain = site(None, FilmReading::Sendfile);
        assert!(
            plain.contains("listen 10.0.0.2:443; }") && !plain.contains("ssl") && !plain.contains("aio"),
            "{plain}"
        );
        let own = site(Some(Sealer::Server), FilmReading::Threads);
        assert!(own.contains("listen 10.0.0.2:443 ssl;") && own.contains("Options -KTLS;"), "{own}");
        assert!(own.contains("ssl_certificate /own/site.pem;") && own.contains("aio threads;"), "{own}");
        let kernel = site(Some(Sealer::Kernel), FilmReading::Directio);
        assert!(kernel.contains("Options KTLS;") && kernel.contains("directio 512;"), "{kernel}");
    }
}
