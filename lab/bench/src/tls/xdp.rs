//! Small answers over AF_XDP: our stack on one end of the veth pair, beside nginx on the same
//! end with kernel sockets.
//!
//! One client asks both, over AF_XDP on the other end of the pair; nginx is asked over kernel
//! sockets, too, to show what that client spares it. Our server runs only while it is asked: a
//! program on the pair's receive path would slow down the kernel's.

use super::{Asked, Bound, Contender, Plan, Row, SUITE, Wire, ask, print, start_one};
use crate::BenchError;
use crate::client::{Place, by_turns};
use demo::netns::DEVICE;
use std::path::Path;
use std::time::Duration;

const ROW: Row = Row {
    title: "small answer over AF_XDP on one veth pair, 64 connections kept",
    path: "small",
    flags: "",
    connections: 64,
    bound: Bound::OverXdp(4.0),
};

/// Who is measured; ours is held against the first, which the same client asks.
const NAMES: [&str; 3] = ["nginx", "nginx, sockets", "af_xdp"];

/// The server's address on the pair, beside the kernel's, and the client's.
const OWN: [&str; 2] = ["10.77.0.22", "10.77.0.11"];

/// Measures and prints. Whether the bound holds.
pub(super) fn run(
    (nearside, plan): (&Path, &Plan),
    contenders: &mut [Contender],
    at: Place<'_>,
) -> Result<bool, BenchError> {
    let duration = Duration::from_secs(plan.seconds);
    let wire = |page| Wire { spec: format!("af_xdp:{DEVICE}"), client: OWN[1], in_namespace: true, page };
    let client = wire(None);
    let [nginx, ..] = contenders else { return Ok(false) };
    let samples = by_turns(plan.rounds, NAMES.len(), |index| {
        let sample = match index {
            0 => ask((nearside, duration), &Asked { link: Some(&client), ..nginx.asked(&ROW, SUITE) }, at)?,
            1 => ask((nearside, duration), &nginx.asked(&ROW, SUITE), at)?,
            _ => {
                let addresses = ["443", "80"].map(|port| format!("{}:{port}", OWN[0]));
                let link = wire(Some(at.dir.join("xdp.page")));
                let mut own = start_one((nearside, NAMES[2]), addresses, Some(link), at)?;
                let sample = ask((nearside, duration), &own.asked(&ROW, SUITE), at);
                own.running.still_runs()?;
                sample?
            }
        };
        Ok(Some(sample))
    })?;
    Ok(print(&ROW, &NAMES, &samples))
}
