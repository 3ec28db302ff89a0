//! `nearside serve --link`: over links and our own stack, with a silo for each
//! core.
//!
//! | module | for |
//! | --- | --- |
//! | `company` | what silos have in common, and one silo's life |
//! | `supervisor` | the main thread |

mod company;
mod supervisor;

use super::orders::{Orders, Stage};
use super::share::share;
use crate::args::{HostPlan, ServePath, ServePlan};
use crate::figures::Figures;
use crate::host::{Failure, Finish, Layout, Neighbourhood, fleet};
use crate::numa::Domains;
use company::Company;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicUsize};
use server::{Server, WallClock};
use silo::Clock;
use sockets::fleet::Stop;
use std::sync::Mutex;
use std::thread;
use supervisor::Supervisor;

/// Serves until it is told to stop.
///
/// # Errors
/// What the user is to know.
pub fn serve(plan: &ServePlan) -> Result<(), Failure> {
    let ServePath::Link { host, ports, copies, json } = &plan.path else { return Ok(()) };
    let layout = Layout::new(host)?;
    if host.plan_only {
        layout.print(*json);
        return Ok(());
    }
    let silos = layout.seats.len();
    let mut domains = Domains::new(&layout);
    let mut server = share_out(plan, silos);
    domains.share_content(&layout, &plan.server.content, &mut server.content, *copies);
    // What cannot be is found out before anybody can connect.
    // Without a thread, whose memory a silo's might be given when it has ended.
    let mut tried = server.clone();
    if let server::Content::Directory(directory) = &mut tried.content {
        directory.reader = server::ReaderKind::Inline;
    }
    let counters = Server::new(tried, WallClock::new(Clock.now(), Clock.unix()))?.counters();
    let mut figures = Figures::new(host, &layout, "serve", counters)?;
    let orders = Orders::new(silos)?;
    let stop = Stop::default();
    let columns = figures.columns().into_iter().map(Some);
    let mut supervisor = Supervisor::new(&orders, plan)?;
    let company = Company {
        host,
        server,
        ports,
        silos,
        layout: &layout,
        domains,
        orders: &orders,
        stop: &stop,
        finish: Finish::new(silos),
        columns: Mutex::new(columns.collect()),
        reopen: supervisor.reopen(),
        left: AtomicUsize::new(0),
        down: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let fleet = thread::Builder::new().name("fleet".to_owned()).spawn_scoped(scope, || {
            let outcome = fleet::run(host, &layout, &stop, &company).map_err(|why| why.to_string());
            orders.advance(Stage::Halt);
            orders.ring();
            outcome
        })?;
        let supervised = supervisor.serve(&fleet, (&company, figures.page()), || announce(host, &layout, ports));
        if supervised.is_err() {
            orders.advance(Stage::Drain);
        }
        fleet.join().map_err(|_| "a silo ended by a bug: see above")??;
        company.tell_left();
        supervised
    })
}

/// Each silo's even part of what is asked for.
fn share_out(plan: &ServePlan, silos: usize) -> server::Config {
    share(plan.server.clone(), plan.server.limits.connections.div_ceil(silos), silos)
}

fn announce(host: &HostPlan, layout: &Layout, ports: &[u16]) {
    let mut addresses: Vec<IpAddr> = host.addresses.iter().map(|cidr| cidr.address).collect();
    if let Ok(Some(neighbourhood)) = Neighbourhood::of(host)
        && host.uses_host_addresses()
    {
        // One of the link alone is of no use in a URL.
        let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        addresses.extend(neighbourhood.addresses().into_iter().flatten().filter(|ip| !link_local(ip)));
    }
    let urls = addresses
        .iter()
        .flat_map(|ip| ports.iter().map(move |port| format!("http://{}/", SocketAddr::new(*ip, *port))));
    let urls: Vec<String> = urls.collect();
    let links: Vec<&str> = layout.ports.iter().map(|port| port.name.as_str()).collect();
    let silos = match layout.seats.as_slice() {
        [seat] => seat.core.map_or(String::new(), |core| format!(", core {core}")),
        seats => format!(", {} silos", seats.len()),
    };
    eprintln!("serving {} over {}{silos}, idle {}", urls.join(" "), links.join(" "), host.idle);
    if layout.seats.len() > 1 {
        eprint!("{layout}");
    }
}
