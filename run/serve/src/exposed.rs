//! Where a process that serves tells of itself over HTTP: metrics, and whether it
//! lives and is ready.

use crate::plan::ServePlan;
use metrics::{Endpoint, Exposition, Lifecycle, Readiness, Server};
use page::Page;
use say::Failure;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Takes the address, if one is asked for: before anything is given up. What the process that is followed listens by
/// there is `given`: then nobody is refused who comes while the two change places. A process of an earlier version
/// gives none, and has the address beside this one.
///
/// # Errors
/// If it cannot be had.
pub fn bind(plan: &ServePlan, follows: bool, given: Option<OwnedFd>) -> Result<Option<Endpoint>, Failure> {
    let Some(address) = plan.metrics else { return Ok(None) };
    if let Some(endpoint) = given.and_then(|socket| Endpoint::adopt(socket, address)) {
        return Ok(Some(endpoint));
    }
    let bound = Endpoint::bind(address, follows);
    Ok(Some(bound.map_err(|why| format!("metrics at {address}: {why}"))?))
}

/// Begins to tell; nothing yet but that it is starting.
///
/// # Errors
/// If there can be no thread.
pub fn start(endpoint: Endpoint, page: &Page) -> Result<Server, Failure> {
    let address = endpoint.address();
    let lifecycle = Arc::new(Lifecycle::default());
    let exposition = Exposition::new(page.reader()?, Arc::clone(&lifecycle));
    let server = Server::start(endpoint, exposition, lifecycle)?;
    say::info(format_args!("metrics at http://{address}/metrics"));
    Ok(server)
}

/// The process has come so far, if anybody is to hear of it.
pub fn advance(server: Option<&mut Server>, stage: Readiness) {
    if let Some(server) = server {
        server.advance(stage);
    }
}
