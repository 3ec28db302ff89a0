//! `syslog:`, as a place of lines.

use crate::addresses::address;
use access_log::{SyslogPlace, SyslogServer};
use core::net::SocketAddr;
use std::path::PathBuf;

/// Facilities, in the order of their numbers (RFC 3164 section 4.1.1), by nginx's
/// names.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp", "ntp",
    "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"];

/// The port of syslog (RFC 5426 section 3.3).
const PORT: u16 = 514;

/// The most letters of a tag (RFC 3164 section 4.1.3).
const TAG_MAX: usize = 32;

/// Finds the addresses of a host's name.
pub(super) type Resolving<'a> = &'a mut dyn FnMut(&str) -> Option<core::net::IpAddr>;

/// A place from what follows `syslog:`.
///
/// # Errors
/// What is wrong with it, in nginx's words.
pub fn syslog_place(text: &[u8], resolve: Resolving<'_>) -> Result<SyslogPlace, String> {
    let text = String::from_utf8_lossy(text);
    let (mut server, mut facility, mut severity, mut tag, mut hostname) = (None, None, None, None, true);
    let number = |names: &[&str], name: &str, kind: &str| {
        let found = names.iter().position(|known| *known == name);
        found.map(|at| at as u8).ok_or_else(|| format!("unknown syslog {kind} \"{name}\""))
    };
    for part in text.split(',') {
        let twice = |name: &str| Err(format!("duplicate syslog \"{name}\""));
        if let Some(url) = part.strip_prefix("server=") {
            if server.is_some() {
                return twice("server");
            }
            server = Some(parse_server(url, resolve).map_err(|why| format!("{why} in syslog server \"{url}\""))?);
        } else if let Some(name) = part.strip_prefix("facility=") {
            if facility.is_some() {
                return twice("facility");
            }
            facility = Some(number(&FACILITIES, name, "facility")?);
        } else if let Some(name) = part.strip_prefix("severity=") {
            if severity.is_some() {
                return twice("severity");
            }
            severity = Some(number(&SEVERITIES, name, "severity")?);
        } else if let Some(name) = part.strip_prefix("tag=") {
            if tag.is_some() {
                return twice("tag");
            }
            if name.len() > TAG_MAX {
                return Err("syslog tag length exceeds 32".into());
            }
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err("syslog \"tag\" only allows alphanumeric characters and underscore".into());
            }
            tag = Some(name.to_owned());
        } else if part == "nohostname" {
            hostname = false;
        } else {
            return Err(format!("unknown syslog parameter \"{part}\""));
        }
    }
    let server = server.ok_or("no syslog server specified")?;
    // local7.info
    let (facility, severity) = (facility.unwrap_or(23), severity.unwrap_or(6));
    Ok(SyslogPlace { server, facility, severity, tag: tag.unwrap_or_else(|| "nginx".into()), hostname })
}

/// Where the server is; what is wrong, in nginx's words.
fn parse_server(url: &str, resolve: Resolving<'_>) -> Result<SyslogServer, &'static str> {
    if let Some(path) = url.strip_prefix("unix:") {
        // What a sockaddr_un has room for.
        return match path.len() {
            0 => Err("no path in the unix domain socket"),
            108.. => Err("too long path in the unix domain socket"),
            _ => Ok(SyslogServer::Unix(PathBuf::from(path))),
        };
    }
    let (host, port) = match url.strip_prefix('[') {
        Some(inner) => {
            let (host, behind) = inner.split_once(']').ok_or("invalid host")?;
            match behind.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if behind.is_empty() => (host, None),
                None => return Err("invalid host"),
            }
        }
        None => url.split_once(':').map_or((url, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Ok(PORT), |port| port.parse().ok().filter(|port| *port > 0).ok_or("invalid port"))?;
    if host.is_empty() {
        return Err("no host");
    }
    let found = address(host.as_bytes()).or_else(|| resolve(host)).ok_or("host not found")?;
    Ok(SyslogServer::Udp(SocketAddr::new(found, port)))
}
