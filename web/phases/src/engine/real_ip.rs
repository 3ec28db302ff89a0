//! Whose client it is: a proxy that is believed tells of another (`real_ip_header`,
//! `set_real_ip_from`).

use super::course::Course;
use super::loaded::Loaded;
use super::runner::Runner;
use crate::addresses::forwarded;
use crate::program::{Block, RealIpHeader};
use core::net::IpAddr;
use semantics::Request;
use std::rc::Rc;

/// Sets the client's address to what a proxy that is believed tells, by the rules of the
/// place that the request is in.
fn set_real_address(loaded: &Loaded, course: &mut Course, request: &Request<'_>) {
    let block = loaded.program.blocks.get(course.route.block.0 as usize);
    set_address_by(block, course, request);
}

fn set_address_by(block: Option<&Block>, course: &mut Course, request: &Request<'_>) {
    let Some(rules) = block.and_then(|block| block.real_ip.as_ref()) else { return };
    let trusts = |address: Option<IpAddr>| match address {
        Some(address) => rules.from.iter().any(|prefix| prefix.contains(address)),
        None => rules.from_unix,
    };
    let from = course.about.peer.map(|peer| peer.ip().to_canonical());
    let told = match &rules.header {
        RealIpHeader::ProxyProtocol => course.client.proxied.as_ref().map(|told| told.source).filter(|_| trusts(from)),
        RealIpHeader::Field(name) => {
            let fields = request.fields().filter(|field| field.name.eq_ignore_ascii_case(name));
            let values: Vec<&[u8]> = fields.map(|field| field.value).collect();
            forwarded(from, values.into_iter(), trusts, rules.recursive)
        }
    };
    if told.is_some() {
        course.client.peer = told;
    }
}

/// The same of a request that is answered without a look at its places: those of its server
/// come first.
pub(super) fn set_real_address_of_ready(loaded: &Loaded, course: &mut Course, request: &Request<'_>) {
    let server = loaded.program.servers.get(usize::from(course.route.server.0));
    let block = server.and_then(|server| loaded.program.blocks.get(server.block.0 as usize));
    set_address_by(block, course, request);
    if course.client.peer == course.about.peer {
        set_real_address(loaded, course, request);
    }
}

impl Runner<'_> {
    /// Whose client it is: a proxy that is believed tells of another.
    pub(super) fn real_address(&mut self) {
        // What was believed once is.
        if self.course.client.peer == self.course.about.peer {
            let loaded = Rc::clone(&self.loaded);
            set_real_address(&loaded, self.course, self.request);
        }
    }
}
