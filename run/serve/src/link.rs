//! `nearside serve --link`: over links and our own stack, with a silo for each
//! core.
//!
//! | module | for |
//! | --- | --- |
//! | `serving` | what silos have in common, and one silo's life |
//! | `beside` | kernel sockets beside the links |
//! | `own_ports` | queues that change hands |
//! | `path` | how the main thread has them do so |

mod beside;
mod own_ports;
mod path;
mod serving;

pub use beside::try_out as try_local_clients;

use super::asked::Asked;
use super::exposed;
use super::orders::{Orders, Stage};
use super::share::share;
use super::supervisor::{PagePlace, Supervisor};
use super::systemd::Found;
use super::takeover::Predecessor;
use crate::plan::{PortPlan, ServePath, ServePlan};
use beside::Beside;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicUsize};
use core::time::Duration;
use cpu::Clock;
use driver::Kernel;
use host::HostPlan;
use host::figures::Figures;
use host::near::Domains;
use host::{Finish, Layout, Losses, Neighbourhood, fleet};
use own_ports::OwnPorts;
use path::LinkPath;
use say::Failure;
use server::{Content, Server, WallClock};
use serving::ServingSilos;
use sockets::fleet::Stop;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// Whom a process follows, and what it takes over.
#[derive(Default)]
struct Following<'a> {
    own_ports: OwnPorts,
    predecessor: Option<&'a Predecessor>,
    /// Where the statistics page is to be once the predecessor's has gone.
    page: Option<PathBuf>,
    /// What it tells metrics by.
    metrics: Option<OwnedFd>,
}

/// Serves until it is told to stop, or a successor has taken over and the last
/// connection ended.
///
/// # Errors
/// What the user is to know.
pub fn serve(plan: &ServePlan) -> Result<(), Failure> {
    let ServePath::Link { host, restart, json, .. } = &plan.path else { return Ok(()) };
    // Asked now: once the file is replaced, the kernel tells another name.
    let program = programs::own()?;
    let layout = Layout::new(host)?;
    if host.plan_only {
        layout.print(*json);
        return Ok(());
    }
    let asked = match restart {
        Some(restart) => {
            let queues_max = host.links.iter().map(|link| link.driver.most_queues()).max().unwrap_or(0);
            Predecessor::ask_for_queues(restart.take_over.as_ref(), queues_max)?
        }
        None => None,
    };
    let Some((mut predecessor, offer)) = asked else {
        return over(plan, host, &layout, Following::default(), (program, Vec::new()));
    };
    let mut host = HostPlan { follows: true, ..host.clone() };
    // Two pages cannot have one place, which is free once this one serves.
    let page = host.status_page.clone();
    host.status_page = page.as_deref().map(draft);
    let (local, metrics) =
        (core::mem::take(&mut predecessor.sockets), Predecessor::take_metrics(Some(&mut predecessor)));
    let followed = OwnPorts::new(offer, &host, &layout).map_err(Failure::from).and_then(|own_ports| {
        let following = Following { own_ports, predecessor: Some(&predecessor), page, metrics };
        over(plan, &host, &layout, following, (program, local))
    });
    // Whoever has been followed does not listen any more.
    followed.inspect_err(|why| predecessor.refuse(&why.to_string()))
}

/// A place beside a page's.
fn draft(path: &Path) -> PathBuf {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}.next", std::process::id()));
    draft.into()
}

fn over(
    plan: &ServePlan,
    host: &HostPlan,
    layout: &Layout,
    mut following: Following<'_>,
    (program, local): (PathBuf, Vec<Found>),
) -> Result<(), Failure> {
    let ServePath::Link { listen, copies, .. } = &plan.path else { return Ok(()) };
    let endpoint = exposed::bind(plan, following.predecessor.is_some(), following.metrics.take())?;
    let silos = layout.seats.len();
    let mut domains = Domains::new(layout);
    let beside = Beside::new(host, listen, silos, (following.predecessor.is_some(), local));
    let mut server = share_out(plan, silos);
    domains.share_content(layout, &plan.server.content, &mut server.content, *copies);
    let mut figures = Figures::new(host, layout, ("serve", endpoint.is_some()), try_out(server.clone())?)?;
    let orders = Orders::new(silos)?;
    let stop = Stop::default();
    // Asked while anything can be asked.
    let addresses = addresses(host);
    tell_of_ring(&plan.server.content);
    let columns = figures.columns().into_iter().map(Some);
    let asked = Asked::new(&orders, plan.signals)?;
    let company = ServingSilos {
        host,
        server,
        listen,
        silos,
        layout,
        domains,
        beside,
        own_ports: &following.own_ports,
        orders: &orders,
        stop: &stop,
        finish: Finish::new(silos),
        columns: Mutex::new(columns.collect()),
        latencies: endpoint.is_some().then(|| figures.latencies()),
        reopen: Arc::clone(&asked.reopens),
        losses: Losses::new(layout),
        left: AtomicUsize::new(0),
        down: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let fleet = thread::Builder::new().name("fleet".to_owned()).spawn_scoped(scope, || {
            let outcome = fleet::run(host, layout, &stop, &company).map_err(|why| why.to_string());
            orders.advance(Stage::Halt);
            orders.ring();
            outcome
        })?;
        let page = PagePlace { own: host.status_page.is_some(), next: following.page.clone() };
        let path = LinkPath {
            silos: &company,
            page: figures.page(),
            own_ports: &following.own_ports,
            predecessor: following.predecessor,
        };
        let mut supervisor = Supervisor::new(program, plan, (&orders, asked), path, (page, endpoint));
        let say = |_: &mut LinkPath<'_>, took_over| {
            announce((host, &addresses, company.beside.local_clients()), layout, (listen, &plan.server), took_over)
        };
        let supervised = supervisor.serve(&fleet, say);
        if supervised.is_err() {
            orders.advance(Stage::Drain);
        }
        fleet.join().map_err(|_| "a silo ended by a bug: see above")??;
        company.tell_left();
        supervised
    })
}

/// Files that are read as they are sent are read many at a time, where the kernel lets this process.
fn tell_of_ring(content: &Content) {
    if matches!(content, Content::Respond(_)) {
        return;
    }
    if let Some(why) = files::why_no_ring() {
        say::warning(format_args!(
            "io_uring is not to be had ({why}): large files are read a piece at a time, and a few more where a file \
             system does not answer"
        ));
    }
}

/// Makes a server once, and drops it: what cannot be is found out before anybody can
/// connect. Returns what it counts.
fn try_out(mut server: server::Config) -> Result<impl Iterator<Item = (&'static str, u64)>, Failure> {
    // Without a thread, whose memory a silo's might be given when it has ended.
    if let Some(directory) = server.content.directory_mut() {
        directory.reader = server::ReaderKind::Inline;
    }
    Ok(Server::new(server, WallClock::new(Clock.now(), Clock.unix()))?.counters())
}

/// Each silo's even part of what is asked for.
fn share_out(plan: &ServePlan, silos: usize) -> server::Config {
    let beside = match &plan.path {
        ServePath::Link { host, .. } => host.beside_connections(silos),
        ServePath::Kernel(_) => 0,
    };
    let mut server = share(plan.server.clone(), plan.server.limits.connections.div_ceil(silos) + beside, silos);
    server.limits.beside = beside;
    server
}

/// Over AF_XDP, whether this host's own programs reach it, and how; if not, why.
fn local_clients(host: &HostPlan, beside: Result<bool, String>, addresses: &[IpAddr]) -> Option<String> {
    let Kernel::Beside(interface) = host.links.first()?.driver.kernel() else { return None };
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let why = match (beside, host.uses_host_addresses()) {
        (Ok(true), _) => return Some("  clients on this host are served, too, over kernel sockets".to_owned()),
        (Err(why), _) => why,
        (_, true) => format!("the kernel passes what they send there over lo, and never by {interface}"),
        (_, false) => format!("what they send leaves by {interface}, and only what arrives there is seen"),
    };
    Some(format!("  clients on this host do not reach {}: {why}", addresses.join(" ")))
}

/// The addresses that are served, as far as they are of use in a URL.
fn addresses(host: &HostPlan) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = host.addresses.iter().map(|cidr| cidr.address).collect();
    if let Ok(Some(neighbourhood)) = Neighbourhood::of(host)
        && host.uses_host_addresses()
    {
        // One of the link alone is of no use in a URL.
        let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        addresses.extend(neighbourhood.addresses().into_iter().flatten().filter(|ip| !link_local(ip)));
    }
    addresses
}

fn announce(
    (host, addresses, beside): (&HostPlan, &[IpAddr], Result<bool, String>),
    layout: &Layout,
    (listen, server): (&PortPlan, &server::Config),
    took_over: Option<(u32, Option<Duration>)>,
) {
    let urls = addresses
        .iter()
        .flat_map(|ip| listen.ports().into_iter().map(|port| SocketAddr::new(*ip, port)))
        .filter(|address| listen.takes(*address))
        .map(|address| format!("{}://{address}/", server.scheme_at(address)));
    let urls: Vec<String> = urls.collect();
    let links: Vec<&str> = layout.ports.iter().map(|port| port.name.as_str()).collect();
    let silos = match layout.seats.as_slice() {
        [seat] => seat.core.map_or(String::new(), |core| format!(", core {core}")),
        seats => format!(", {} silos", seats.len()),
    };
    let (urls, links, idle) = (urls.join(" "), links.join(" "), host.idle);
    say::info(format_args!("serving {urls} over {links}{silos}, idle {idle}"));
    local_clients(host, beside, addresses).iter().for_each(say::info);
    if layout.seats.len() > 1 || layout.quota.is_some() {
        layout.say();
    }
    if let Some((pid, waited)) = took_over {
        let waited = waited.unwrap_or_default().as_micros();
        say::info(format_args!("took over from process {pid}; new connections waited at most {waited} us"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::drivers::LinkSpec;

    #[test]
    fn whether_local_clients_are_served_is_said_with_the_reason() {
        let addresses = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let told = |link: &str, own: &[&str], beside: Result<bool, String>| {
            let link = LinkSpec::parse(link, driver::Role::Server).unwrap();
            let addresses_of_plan = own.iter().map(|cidr| cidr.parse().unwrap()).collect();
            let host = HostPlan { addresses: addresses_of_plan, ..HostPlan::new(vec![link]) };
            local_clients(&host, beside, &addresses).unwrap_or_default()
        };
        assert!(told("af_xdp:eth0", &[], Ok(true)).contains("are served, too"));
        let without = told("af_xdp:eth0", &[], Err("somebody listens there already".to_owned()));
        assert!(without.contains("do not reach 10.0.0.1 fd00::1: somebody listens"), "{without}");
        let off = told("af_xdp:eth0", &[], Ok(false));
        assert!(off.contains("do not reach 10.0.0.1 fd00::1: ") && off.contains("over lo"), "{off}");
        let own = told("af_xdp:eth0", &["10.0.0.2/24"], Ok(false));
        assert!(own.contains("do not reach ") && own.contains("leaves by eth0"), "{own}");
        assert_eq!(told("tap:near0", &["10.0.0.2/24"], Ok(false)), "");
    }
}
