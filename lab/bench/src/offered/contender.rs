//! The servers that are compared, and how each is told to serve the same.

use super::{DataPath, OfferedRow, Plan};
use crate::BenchError;
use crate::ordinary::passing;
use crate::proxied::PORT;
use crate::site::{PROCESS, nginx, workers};
use demo::child::{Program, Running};
use demo::field::{Field, Link};
use demo::machine::find_program;
use demo::netns::SERVER;
use demo::stand::Server;
use silo::Idle;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A server to be asked.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Contender {
    pub(super) name: String,
    pub(super) link: Link,
    pub(super) kind: Kind,
}

/// Whose it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    Nginx,
    Lighttpd,
    H2o,
    Haproxy,
    /// Ours by its nginx.conf, with this policy on a link.
    Ours {
        idle: Option<Idle>,
    },
    /// Ours by `serve FOLDER --engine io_uring`: an nginx.conf does not choose.
    OursByIoUring,
}

/// One suite, of which both sides' hardware does the most.
pub(super) const SUITE: [&str; 3] = ["--tls=1.3", "--ciphers=TLS_AES_128_GCM_SHA256", "--curves=X25519"];

/// How long a server may take to begin.
const START: Duration = Duration::from_secs(10);

/// Those of a row, nginx first. Whoever does not do what the row asks is not in it, nor is one
/// that is not installed.
pub(super) fn all(plan: &Plan, row: OfferedRow) -> Vec<Contender> {
    let other = |name: &str, kind| Contender { name: name.to_owned(), link: Link::Kernel, kind };
    let mut contenders = vec![other("nginx", Kind::Nginx)];
    let wanted: &[(&str, Kind)] = match row {
        OfferedRow::File | OfferedRow::New => &[("lighttpd", Kind::Lighttpd), ("h2o", Kind::H2o)],
        OfferedRow::Tls | OfferedRow::Http2 | OfferedRow::Http2Tls => &[("h2o", Kind::H2o)],
        OfferedRow::Proxied | OfferedRow::Proxied64k => &[("haproxy", Kind::Haproxy)],
    };
    if !plan.only_nginx {
        for (name, kind) in wanted {
            match find_program(name) {
                Some(_) => contenders.push(other(name, *kind)),
                None => eprintln!("bench: there is no {name}: it is left out (scripts/need.sh bench)"),
            }
        }
    }
    for path in &plan.paths {
        let (name, link) = match path {
            DataPath::IoUring if matches!(row, OfferedRow::File | OfferedRow::New) => {
                let (name, link) = ("io_uring, serve".to_owned(), Link::Kernel);
                contenders.push(Contender { name, link, kind: Kind::OursByIoUring });
                continue;
            }
            DataPath::IoUring => continue,
            DataPath::Sockets => {
                let (name, link) = ("sockets".to_owned(), Link::Kernel);
                contenders.push(Contender { name, link, kind: Kind::Ours { idle: None } });
                continue;
            }
            DataPath::AfXdp => ("af_xdp", Link::AfXdp),
            DataPath::Memif => ("memif", Link::Memif),
        };
        for idle in &plan.idle {
            let policy = idle.map_or_else(|| "default".to_owned(), |idle| idle.to_string());
            contenders.push(Contender { name: format!("{name} {policy}"), link, kind: Kind::Ours { idle: *idle } });
        }
    }
    contenders
}

/// Starts one; what is returned first is what runs, where the second does not keep it.
pub(super) fn start(
    contender: &Contender,
    row: OfferedRow,
    field: &Field<'_>,
    folder: &Path,
    nginx_program: &Path,
) -> Result<(Option<Running>, Server), BenchError> {
    let stand = field.stand;
    let names = field.veth.ok_or("no namespaces")?;
    let (name, text) = match contender.kind {
        Kind::Nginx | Kind::Ours { .. } | Kind::OursByIoUring => ("nginx.conf", like_nginx(row)),
        Kind::Lighttpd => ("lighttpd.conf", LIGHTTPD.to_owned()),
        Kind::H2o => ("h2o.conf", H2O.to_owned()),
        Kind::Haproxy => ("haproxy.cfg", HAPROXY.replace("UPSTREAM", &format!("127.0.0.1:{PORT}"))),
    };
    let configuration = folder.join(name);
    fs::write(&configuration, text.replace("FOLDER", &folder.display().to_string()))?;
    let conf = configuration.display().to_string();
    let words: Vec<&str> = match contender.kind {
        Kind::OursByIoUring => {
            let mut words = vec![folder.display().to_string(), format!("--listen={SERVER}:80")];
            words.extend(["--engine=io_uring", "--control=off", "--workers=1", "--backlog=16384"].map(str::to_owned));
            words.push(format!("--cores={}", stand.cores.0));
            return Ok((None, stand.serve(Some(&names.server), &words, field.interrupt)?));
        }
        Kind::Ours { idle } => {
            let more: Vec<String> = idle.map(|idle| format!("--idle={idle}")).into_iter().collect();
            return Ok((None, field.serve_configuration_with(contender.link, &configuration, &more)?));
        }
        Kind::Nginx => {
            let mut running = nginx(nginx_program, &configuration, stand, names)?;
            let server = Server::other(&workers(&mut running, field.interrupt)?);
            return Ok((Some(running), server));
        }
        Kind::Lighttpd => vec!["lighttpd", "-D", "-f", &conf],
        Kind::H2o => vec!["h2o", "-m", "worker", "-c", &conf],
        Kind::Haproxy => vec!["haproxy", "-db", "-f", &conf],
    };
    let words = words.into_iter().map(str::to_owned).collect();
    let program = Program { name: "a server", netns: Some(&names.server), core: Some(stand.cores.0), words };
    let mut running = program.start(stand.folder())?;
    // State 0A is LISTEN (include/net/tcp_states.h).
    let port = if row.is_secured() { ":01BB" } else { ":0050" };
    let table = format!("/proc/{}/net/tcp", running.pid());
    let is_listening = |text: String| text.lines().any(|line| line.contains(port) && line.contains(" 0A "));
    running.wait_until("listen", START, field.interrupt, || fs::read_to_string(&table).is_ok_and(is_listening))?;
    let server = Server::other(&demo::machine::with_children(running.pid()));
    Ok((Some(running), server))
}

/// What nginx and ours are told.
fn like_nginx(row: OfferedRow) -> String {
    if row.behind().is_some() {
        return passing(PROCESS, &format!("127.0.0.1:{PORT}"));
    }
    // Debian's nginx 1.22 has no directive for it.
    let http2 = if row.is_http2() { " http2" } else { "" };
    format!("{PROCESS}\n{}", FILES.replace(" HTTP2", http2))
}

const FILES: &str = r"
events { worker_connections 16384; }
http {
    types { text/html html; }
    access_log off;
    sendfile on;
    tcp_nopush on;
    open_file_cache max=1000;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    ssl_protocols TLSv1.3;
    ssl_certificate FOLDER/site.pem;
    ssl_certificate_key FOLDER/site.key;
    server { listen 80 HTTP2 backlog=16384; listen 443 ssl HTTP2 backlog=16384; root FOLDER; }
}
";

const LIGHTTPD: &str = r#"
server.modules = ()
server.document-root = "FOLDER"
server.port = 80
server.errorlog = "FOLDER/lighttpd.log"
server.max-connections = 16384
server.max-fds = 32768
server.max-keep-alive-requests = 0
server.max-keep-alive-idle = 3600
server.listen-backlog = 16384
mimetype.assign = ( ".html" => "text/html" )
"#;

const H2O: &str = r"
user: root
num-threads: 1
max-connections: 16384
http1-request-timeout: 3600
tcp-fastopen: 0
hosts:
  default:
    listen:
      port: 80
    listen:
      port: 443
      ssl:
        certificate-file: FOLDER/site.pem
        key-file: FOLDER/site.key
        minimum-version: TLSv1.2
    paths:
      /:
        file.dir: FOLDER
";

const HAPROXY: &str = r"
global
    nbthread 1
    maxconn 16384
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    option http-keep-alive
    http-reuse always
frontend in
    bind :80
    default_backend back
backend back
    option forwardfor
    server upstream UPSTREAM pool-max-conn 256
";
