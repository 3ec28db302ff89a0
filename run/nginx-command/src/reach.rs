//! Which upstreams the kernel alone reaches.

use configuration::Program;
use core::net::SocketAddr;
use host::HostPlan;

/// Whether silos over these links need the kernel's sockets for an upstream: one at a
/// Unix socket, on loopback, out of reach of the links' own addresses, or known by
/// requests alone. On the host's own addresses its kernel's routes decide, address by
/// address.
pub fn needs_kernel(host: &HostPlan, program: &Program) -> bool {
    let mut all = program.upstream_addresses();
    program.summary().reads && (host.uses_host_addresses() || all.any(|address| is_beyond(host, address)))
}

fn is_beyond(host: &HostPlan, address: Option<SocketAddr>) -> bool {
    let Some(address) = address else { return true };
    let ip = address.ip().to_canonical();
    let on_link = host.addresses.iter().any(|cidr| cidr.contains(ip));
    let behind = host.gateways.iter().any(|gateway| gateway.is_ipv4() == ip.is_ipv4());
    ip.is_loopback() || !(on_link || behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_links_do_not_reach_is_the_kernels() {
        let addresses = vec!["10.0.0.2/24".parse().unwrap(), "fd07::5/64".parse().unwrap()];
        let mut host = HostPlan { addresses, ..HostPlan::new(Vec::new()) };
        let beyond = |host: &HostPlan, at: &str| is_beyond(host, Some(at.parse().unwrap()));
        for (at, kernels) in [
            ("10.0.0.9:80", false),
            ("[fd07::9]:80", false),
            ("127.0.0.1:80", true),
            ("[::1]:80", true),
            ("10.0.1.9:80", true),
            ("[fd08::9]:80", true),
        ] {
            assert_eq!(beyond(&host, at), kernels, "{at}");
        }
        host.gateways.push("10.0.0.1".parse().unwrap());
        assert!(!beyond(&host, "10.0.1.9:80") && beyond(&host, "[fd08::9]:80") && beyond(&host, "127.0.0.1:80"));
        assert!(is_beyond(&host, None));
    }
}
