//! A bulk transfer over a lossy link: our stack in virtual time, beside the
//! Mathis bound and beside Linux over the same faults in real time.

use crate::{Failure, linux};
use core::time::Duration;
use sim::transfer::Transfer;
use tcp::congestion::Algorithm;

/// The faulty link: one frame in a hundred is lost.
pub const LOSS: f64 = 0.01;
/// Its round trip.
pub const RTT: Duration = Duration::from_millis(20);

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Bytes of each transfer.
    pub bytes: u64,
    /// Transfers of ours, each with its own faults.
    pub seeds: u64,
    /// Bytes that Linux transfers, which takes its time; 0 for none.
    pub linux_bytes: u64,
}

/// Measures and prints. Returns whether the median of each congestion control
/// reaches the bound.
///
/// # Errors
/// If there is nothing to measure.
pub fn run(plan: &Plan) -> Result<bool, Failure> {
    let transfer = |congestion, loss_back, seed| Transfer {
        bytes: plan.bytes,
        loss: LOSS,
        loss_back,
        rtt: RTT,
        rate: None,
        congestion,
        seed,
    };
    let bound = transfer(Algorithm::Cubic, true, 0).mathis() / 1e6;
    println!("{:.0} MB at 1 % loss of frames and {RTT:?} round trip, in virtual time", plan.bytes as f64 / 1e6);
    println!("Mathis bound: MSS / RTT * sqrt(3/2) / sqrt(p) = {bound:.2} Mbit/s, with an MSS of 1,448 bytes.");
    println!("sqrt(3/2) is the constant of Reno that is not held back by delayed acknowledgements;");
    println!("CUBIC at such a round trip is in its Reno-friendly region, with the same (RFC 9438 section 4.3).");
    let mut kept = true;
    for (congestion, loss_back) in
        [(Algorithm::Cubic, true), (Algorithm::Cubic, false), (Algorithm::NewReno, true), (Algorithm::NewReno, false)]
    {
        let mut rates = Vec::new();
        for seed in 1..=plan.seeds {
            let transfer = transfer(congestion, loss_back, seed);
            rates.push(transfer.goodput(&transfer.run()) / 1e6);
        }
        rates.sort_unstable_by(f64::total_cmp);
        let (Some(least), Some(most)) = (rates.first(), rates.last()) else { return Err("no transfers".into()) };
        let median = rates[rates.len() / 2];
        let verdict = if median >= bound { "kept" } else { "NOT KEPT" };
        let ways = if loss_back { "both ways" } else { "of data only" };
        println!(
            "{congestion:?}, loss {ways}: {median:.2} Mbit/s ({least:.2} to {most:.2}), at least {bound:.2}: {verdict}"
        );
        kept &= median >= bound;
    }
    if plan.linux_bytes > 0 {
        beside_linux(plan.linux_bytes, bound);
    }
    Ok(kept)
}

/// The kernel's own, for the same congestion controls, loss both ways. Real
/// time: where other programs keep the bridge waiting, the round trip grows
/// and Linux looks slower than it is.
fn beside_linux(bytes: u64, bound: f64) {
    for congestion in ["cubic", "reno"] {
        match linux::transfer(bytes, LOSS, RTT, congestion) {
            Ok(rate) => println!(
                "Linux {congestion}: {:.2} Mbit/s, {:.2} of the bound; {:.0} MB in real time between two TAPs",
                rate / 1e6,
                rate / 1e6 / bound,
                bytes as f64 / 1e6,
            ),
            Err(why) => println!("Linux {congestion} is left out: {why}"),
        }
    }
}
