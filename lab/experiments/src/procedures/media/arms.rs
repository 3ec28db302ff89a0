//! Who serves films, and how.

use budget::ContentWay;
use demo::field::Link;
use demo::kernel;
use demo::machine::{find_program, is_root};
use demo::media_site::{FilmReading, Sealer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A server, by the way that its frames take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FilmServer {
    /// nginx on kernel sockets.
    Nginx,
    /// Nearside on kernel sockets.
    Sockets,
    /// Nearside over AF_XDP.
    AfXdp,
    /// Nearside over shared memory.
    Memif,
}

impl FilmServer {
    /// All of them, in the order of tables.
    pub(super) const ALL: [Self; 4] = [Self::Nginx, Self::Sockets, Self::AfXdp, Self::Memif];

    pub(super) const fn link(self) -> Link {
        match self {
            Self::Nginx | Self::Sockets => Link::Kernel,
            Self::AfXdp => Link::AfXdp,
            Self::Memif => Link::Memif,
        }
    }

    /// Whether the kernel sends for it, and holds its films in the page cache.
    pub(super) const fn is_kernels(self) -> bool {
        matches!(self, Self::Nginx | Self::Sockets)
    }

    fn name(self) -> String {
        if self == Self::Nginx { "nginx".to_owned() } else { format!("Nearside, {}", self.link().name()) }
    }
}

/// What films go over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FilmTransport {
    /// TLS 1.3.
    Tls,
    /// HTTP in the clear.
    Plain,
}

impl FilmTransport {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tls => "TLS 1.3",
            Self::Plain => "in the clear",
        }
    }
}

/// One side of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FilmArm {
    pub(super) server: FilmServer,
    /// Who seals, over TLS.
    pub(super) secured: Option<Sealer>,
}

impl FilmArm {
    /// All of these servers, over each of these transports; of those whose frames the kernel sends, once
    /// more with the kernel's TLS.
    pub(super) fn all(servers: &[FilmServer], transports: &[FilmTransport]) -> Vec<Self> {
        let mut arms = Vec::new();
        for transport in transports {
            for server in servers {
                let mut arm = |secured| arms.push(Self { server: *server, secured });
                match transport {
                    FilmTransport::Plain => arm(None),
                    FilmTransport::Tls => {
                        arm(Some(Sealer::Server));
                        if server.is_kernels() {
                            arm(Some(Sealer::Kernel));
                        }
                    }
                }
            }
        }
        arms
    }

    pub(super) const fn transport(self) -> FilmTransport {
        if self.secured.is_some() { FilmTransport::Tls } else { FilmTransport::Plain }
    }

    pub(super) fn name(self) -> String {
        let how = match self.secured {
            None => "plain",
            Some(Sealer::Server) => "TLS",
            Some(Sealer::Kernel) => "kTLS",
        };
        format!("{}, {how}", self.server.name())
    }

    /// Why it cannot be measured here, if so.
    pub(super) fn missing(self, program: &str) -> Option<String> {
        let lacks = |name: &str, package: &str| {
            find_program(name).is_none().then(|| format!("not installed: {name} (package {package})"))
        };
        let pair = || if is_root() { lacks("ip", "iproute2") } else { Some("network namespaces need root".to_owned()) };
        let own = match self.server {
            FilmServer::Nginx => pair().or_else(|| lacks("nginx", "nginx-light")),
            FilmServer::Sockets | FilmServer::AfXdp => pair(),
            FilmServer::Memif => None,
        };
        let own = own.or_else(|| self.server.link().missing(program));
        let sealed = match self.secured {
            None => None,
            Some(Sealer::Server) => lacks("openssl", "openssl"),
            Some(Sealer::Kernel) => {
                let kernels = sockets::kernel_tls::probe().err().map(str::to_owned);
                kernels.or_else(|| lacks("openssl", "openssl"))
            }
        };
        own.or(sealed)
    }

    /// The way of content that a budget is made of, where it knows it: what nginx copies from one of its
    /// buffers to another stays in the cache, so that its own TLS moves as much as the kernel's.
    pub(super) fn way(self, reading: FilmReading) -> Option<ContentWay> {
        match (self.server, self.secured) {
            (FilmServer::AfXdp | FilmServer::Memif, _) => Some(ContentWay::IntoSlot),
            (_, Some(_)) => Some(ContentWay::KernelTls),
            // It reads into buffers, and copies from there.
            (FilmServer::Nginx, None) if reading == FilmReading::Directio => None,
            (_, None) => Some(ContentWay::Sendfile),
        }
    }
}

/// The version of nginx, if there is one.
pub(super) fn nginx() -> Option<(String, String)> {
    let nginx = find_program("nginx")?;
    let version = kernel::version(&nginx).ok()?;
    Some((nginx, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_an_arm_of_its_own_name_over_each_transport() {
        let arms = FilmArm::all(&FilmServer::ALL, &[FilmTransport::Tls, FilmTransport::Plain]);
        let names: Vec<String> = arms.iter().map(|arm| arm.name()).collect();
        let expected = [
            "nginx, TLS",
            "nginx, kTLS",
            "Nearside, kernel sockets, TLS",
            "Nearside, kernel sockets, kTLS",
            "Nearside, af_xdp, TLS",
            "Nearside, memif, TLS",
            "nginx, plain",
            "Nearside, kernel sockets, plain",
            "Nearside, af_xdp, plain",
            "Nearside, memif, plain",
        ];
        assert_eq!(names, expected);
        let none = arms.iter().filter(|arm| arm.way(FilmReading::Threads).is_none()).count();
        let direct = arms.iter().filter(|arm| arm.way(FilmReading::Directio).is_none()).count();
        assert_eq!((none, direct), (0, 1));
    }

    #[test]
    fn a_kernel_without_tls_leaves_out_what_it_would_seal() {
        let arm = |secured| FilmArm { server: FilmServer::Memif, secured };
        let kernels = arm(Some(Sealer::Kernel)).missing("nearside");
        assert_eq!(kernels.is_some(), sockets::kernel_tls::probe().is_err() || find_program("openssl").is_none());
        assert_eq!(arm(None).missing("nearside"), None);
    }
}
