//! What a configuration says of silos over links.

use crate::over_sockets::endpoint;
use crate::plan::{NginxLinks, PATIENCE};
use crate::reach;
use configuration::Program;
use configuration::program::ListenerRules;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use host::{CONNECTIONS_MAX, HostPlan, Neighbourhood, SILOS_MAX, Silos};
use nginx::{ProcessRules, SocketRules};
use serve::{PortPlan, ServePath};
use std::thread;

/// The data path, and how many connections there may be.
///
/// # Errors
/// What is listened on cannot be: in nginx's words.
pub fn path(
    links: &NginxLinks,
    program: &Program,
    rules: &[SocketRules],
    process: &ProcessRules,
) -> Result<(ServePath, usize), String> {
    let NginxLinks { host, counted, restart, media_bytes: _ } = links;
    let listen = Box::new(listen(host, &program.listeners, rules)?);
    let mut host = host.clone();
    if !counted {
        host.silos = match process.workers {
            Some(0 | 1) => Silos::One,
            Some(count) => Silos::Count(u16::try_from(count).unwrap_or(u16::MAX).min(SILOS_MAX)),
            None => Silos::Auto,
        };
    }
    // Each worker's are its own; a silo's, its even part of all.
    let silos = match &host.silos {
        Silos::One => 1,
        Silos::Count(count) => usize::from(*count),
        Silos::Cores(cores) => cores.len(),
        Silos::Auto => thread::available_parallelism().map_or(1, usize::from),
    };
    let connections = (process.connections as usize).saturating_mul(silos.max(1)).max(1);
    host.max_connections = u32::try_from(connections).unwrap_or(u32::MAX).min(CONNECTIONS_MAX);
    host.beside.connects = reach::needs_kernel(&host, program);
    host.dials = program.summary().reads && !host.uses_host_addresses();
    let restart = restart.clone().map(|mut restart| {
        restart.drain = process.shutdown.unwrap_or(PATIENCE);
        Box::new(restart)
    });
    let connections = host.max_connections as usize;
    Ok((ServePath::Link { host, listen, copies: None, restart, json: false }, connections))
}

/// What is listened on, on addresses that are ours.
///
/// # Errors
/// There is one that is not, in nginx's words.
pub fn listen(host: &HostPlan, listeners: &[ListenerRules], rules: &[SocketRules]) -> Result<PortPlan, String> {
    let mut theirs: Vec<IpAddr> = Vec::new();
    if host.uses_host_addresses()
        && let Ok(Some(neighbourhood)) = Neighbourhood::of(host)
    {
        theirs.extend(neighbourhood.addresses().into_iter().flatten());
    }
    let ours = |ip: IpAddr| host.addresses.iter().any(|cidr| cidr.address == ip) || theirs.contains(&ip);
    let mut plan = PortPlan::default();
    for (listener, rules) in listeners.iter().zip(rules) {
        let Some(address) = listener.address else {
            return Err(format!(
                "bind() to {} failed: over a link there are no Unix sockets (--link)",
                endpoint(listener)
            ));
        };
        let ip = address.ip();
        if !ip.is_unspecified() && !ours(ip.to_canonical()) {
            return Err(format!(
                "bind() to {address} failed (99: Cannot assign requested address): over a link only its own addresses \
                 are served (--addr)"
            ));
        }
        plan.at.push(SocketAddr::new(ip.to_canonical(), address.port()));
        if ip.is_unspecified() && ip.is_ipv6() && rules.takes_v4 {
            plan.at.push(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()));
        }
    }
    plan.at.sort_unstable();
    plan.at.dedup();
    Ok(plan)
}
