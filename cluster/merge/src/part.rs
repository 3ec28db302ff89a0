//! One worker's figures.

use control::{Part, ProblemKind};
use figures::{seconds, share};
use load::{Figures, Interval, Outside, Plan, Report, Warning};
use messages::{BadMessage, Counted, FromWorker, Measured, Throttling};

/// What a worker measured.
pub type WorkerFigures = Box<Measured<Figures, Outside>>;

/// What a worker says, with what its figures came to.
pub type WorkerMessage = FromWorker<Part<WorkerFigures>, Box<Interval>>;

/// Silos of one worker, at most.
const SILOS_LIMIT: usize = 4_096;

/// Reads a line of a worker whose part of the load is `plan`, if that is known by now, and holds it against what
/// there can be.
///
/// # Errors
/// What is wrong with it, in words that may be shown.
pub fn read(line: &[u8], plan: Option<&Plan>) -> Result<WorkerMessage, BadMessage> {
    let bad = |why: &str| BadMessage(why.to_owned());
    Ok(match FromWorker::<WorkerFigures, Box<Interval>>::read(line)? {
        FromWorker::Interval(Counted { number, place, interval }) => {
            let interval = Box::new(interval.admit().map_err(bad)?);
            FromWorker::Interval(Counted { number, place, interval })
        }
        FromWorker::Measured(measured) => {
            let Measured { begun_ns, figures, outside, throttling } = *measured;
            if begun_ns.len() > SILOS_LIMIT {
                return Err(bad("more silos than a machine has"));
            }
            let (figures, outside) = (figures.admit().map_err(bad)?, outside.admit().map_err(bad)?);
            let begun = begun_ns.clone();
            let measured = Box::new(Measured { begun_ns, figures, outside, throttling });
            let faults = plan.map_or_else(Vec::new, |plan| faults(plan, &measured));
            FromWorker::Measured(Part { measured, begun_ns: begun, faults })
        }
        FromWorker::Hello(hello) => FromWorker::Hello(hello),
        FromWorker::Ready(ready) => FromWorker::Ready(ready),
        FromWorker::Echo(echo) => FromWorker::Echo(echo),
        FromWorker::Beat(beat) => FromWorker::Beat(beat),
        FromWorker::Failed(why) => FromWorker::Failed(why),
    })
}

/// What speaks against a worker's figures by themselves: others cannot make up for it.
#[must_use]
pub fn faults(plan: &Plan, measured: &Measured<Figures, Outside>) -> Vec<(ProblemKind, String)> {
    let mut found = Vec::new();
    if let Some(Throttling { periods, throttled_us }) = measured.throttling
        && periods > 0
    {
        let time = seconds(throttled_us as f64 * 1e3);
        let what = format!("a quota kept it from its cores for {time} in {periods} periods (cpu.stat)");
        found.push((ProblemKind::Throttled, what));
    }
    let report = Report::new(plan, &measured.figures, measured.outside.clone());
    let saturated = report.warnings.iter().any(|warning| matches!(warning, Warning::ClientSaturated { .. }));
    if saturated {
        let busy = share(report.client.busy_fraction);
        found.push((ProblemKind::Saturated, format!("its generator was busy for {busy} of the time")));
    }
    found
}
