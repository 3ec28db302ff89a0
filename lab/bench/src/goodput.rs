//! A bulk transfer over a lossy link: our stack in virtual time, beside the
//! Mathis bound and beside Linux over the same faults in real time.

use crate::{BenchError, linux};
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
    /// Nothing but CUBIC with timestamps beside CUBIC without.
    pub only_timestamps: bool,
}

/// What is left at least where the peer knows no timestamps.
pub const WITHOUT_TIMESTAMPS: f64 = 0.95;

/// The median of some transfers, the least and the most, in Mbit/s.
#[derive(Clone, Copy, Debug)]
struct Rates {
    median: f64,
    least: f64,
    most: f64,
}

impl Plan {
    fn transfer(&self, congestion: Algorithm, loss_back: bool, timestamps: bool, seed: u64) -> Transfer {
        Transfer { bytes: self.bytes, loss: LOSS, loss_back, rtt: RTT, rate: None, congestion, timestamps, seed }
    }

    fn rates(&self, congestion: Algorithm, loss_back: bool, timestamps: bool) -> Result<Rates, BenchError> {
        let mut rates = Vec::new();
        for seed in 1..=self.seeds {
            let transfer = self.transfer(congestion, loss_back, timestamps, seed);
            rates.push(transfer.goodput(&transfer.run()) / 1e6);
        }
        rates.sort_unstable_by(f64::total_cmp);
        let (Some(least), Some(most)) = (rates.first(), rates.last()) else { return Err("no transfers".into()) };
        Ok(Rates { median: rates[rates.len() / 2], least: *least, most: *most })
    }
}

/// Measures and prints. Returns whether the median of each congestion control
/// reaches the bound, and that without timestamps nearly what it is with them.
///
/// # Errors
/// If there is nothing to measure.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    println!("{:.0} MB at 1 % loss of frames and {RTT:?} round trip, in virtual time", plan.bytes as f64 / 1e6);
    let kept = plan.only_timestamps || beside_mathis(plan)?;
    Ok(kept & without_timestamps(plan)?)
}

/// A peer without timestamps, beside one that knows them.
fn without_timestamps(plan: &Plan) -> Result<bool, BenchError> {
    let mut kept = true;
    for loss_back in [true, false] {
        let with = plan.rates(Algorithm::Cubic, loss_back, true)?;
        let without = plan.rates(Algorithm::Cubic, loss_back, false)?;
        let share = without.median / with.median;
        kept &= share >= WITHOUT_TIMESTAMPS;
        println!(
            "CUBIC without timestamps, loss {}: {:.2} Mbit/s ({:.2} to {:.2}); with them {:.2} ({:.2} to {:.2}); \
             {share:.3} of it, at least {WITHOUT_TIMESTAMPS}: {}",
            ways(loss_back),
            without.median,
            without.least,
            without.most,
            with.median,
            with.least,
            with.most,
            verdict(share >= WITHOUT_TIMESTAMPS),
        );
    }
    Ok(kept)
}

const fn ways(loss_back: bool) -> &'static str {
    if loss_back { "both ways" } else { "of data only" }
}

const fn verdict(kept: bool) -> &'static str {
    if kept { "kept" } else { "NOT KEPT" }
}

fn beside_mathis(plan: &Plan) -> Result<bool, BenchError> {
    let bound = plan.transfer(Algorithm::Cubic, true, true, 0).mathis() / 1e6;
    println!("Mathis bound: MSS / RTT * sqrt(3/2) / sqrt(p) = {bound:.2} Mbit/s, with an MSS of 1,448 bytes.");
    println!("sqrt(3/2) is the constant of Reno that is not held back by delayed acknowledgements;");
    println!("CUBIC at such a round trip is in its Reno-friendly region, with the same (RFC 9438 section 4.3).");
    let mut kept = true;
    for (congestion, loss_back) in
        [(Algorithm::Cubic, true), (Algorithm::Cubic, false), (Algorithm::NewReno, true), (Algorithm::NewReno, false)]
    {
        let Rates { median, least, most } = plan.rates(congestion, loss_back, true)?;
        println!(
            "{congestion:?}, loss {}: {median:.2} Mbit/s ({least:.2} to {most:.2}), at least {bound:.2}: {}",
            ways(loss_back),
            verdict(median >= bound),
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
