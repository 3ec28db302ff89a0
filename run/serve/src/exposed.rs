//! Where a process that serves tells of itself over HTTP: metrics, and whether it
//! lives and is ready.

use crate::plan::ServePlan;
use metrics::{Endpoint, Exposition, Lifecycle, Readiness, Server};
use page::Page;
use say::Failure;
use std::sync::Arc;

/// Takes the address, if one is asked for: before anything is given up, and beside
/// the process that is followed.
///
/// # Errors
/// If it cannot be had.
pub fn bind(plan: &ServePlan, follows: bool) -> Result<Option<Endpoint>, Failure> {
    let bound = |address| Endpoint::bind(address, follows).map_err(|why| format!("metrics at {address}: {why}").into());
    plan.metrics.map(bound).transpose()
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
pub fn advance(server: Option<&Server>, stage: Readiness) {
    if let Some(server) = server {
        server.advance(stage);
    }
}
