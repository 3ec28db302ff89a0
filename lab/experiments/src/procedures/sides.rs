//! The servers that are put side by side: what a measurement of one enters
//! into its run.

use crate::runs::{Distribution, Figure, Run};
use demo::stand::{Asked, OTHERS, SATURATED};
use std::collections::BTreeMap;

/// How far rate × mean latency may be off the connections before latencies are
/// not believed.
pub(crate) const LITTLE: f64 = 0.05;

/// The figures of a measurement, by the names that [`enter`] gives them.
pub(crate) fn figures(pass: &str) -> Vec<Figure> {
    let name = |what: &str| format!("{pass} {what}");
    let mut figures = vec![Figure::higher(&name("rate"), "requests/s")];
    figures.extend(["mean", "p50", "p99", "p99.9"].map(|what| Figure::lower(&name(what), "µs")));
    figures.extend(["stdev", "max"].map(|what| Figure::plain(&name(what), "µs")));
    figures.push(Figure::plain(&name("transfer"), "MB/s"));
    figures.push(Figure::lower(&name("server CPU"), "µs/request"));
    figures.push(Figure::plain(&name("server busy"), "% of its time"));
    figures.push(Figure::plain(&name("generator busy"), "% of its time"));
    for side in ["CPU_c", "CPU_s"] {
        figures.extend(["user", "system"].map(|what| Figure::plain(&name(&format!("{side} {what}")), "% of a core")));
    }
    figures
}

/// Enters a measurement into its run. Latencies that contradict Little's law
/// are not: of figures that cannot be there is no verdict.
pub(crate) fn enter(run: &mut Run, pass: &str, asked: &Asked, connections: u32, servers: usize) {
    let mut put = |name: &str, value: f64| put_in(run, pass, name, value);
    put("rate", asked.rate);
    put("transfer", asked.transfer / 1e6);
    put("server CPU", asked.server_busy * servers as f64 * 1e6 / asked.rate);
    put("server busy", 100.0 * asked.server_busy);
    put("generator busy", 100.0 * asked.client_busy);
    for (side, share) in [("CPU_c", &asked.client), ("CPU_s", &asked.server)] {
        put(&format!("{side} user"), 100.0 * (share.process - share.system));
        put(&format!("{side} system"), 100.0 * share.system);
    }
    let believed = agrees(asked, connections);
    if believed {
        put("mean", asked.mean);
        put("stdev", asked.stdev);
        for (name, percentile) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)] {
            put(name, asked.at(percentile));
        }
        put("max", asked.latency.max);
    }
    let mut said = format!("limited by {}", limit(asked));
    let (server, client) = (100.0 * asked.server.others, 100.0 * asked.client.others);
    if servers == 1 && server.max(client) > 100.0 * OTHERS {
        said +=
            &format!("; other programs had {server:.0} % of the server's core and {client:.0} % of the generator's");
    }
    if !believed {
        let found = asked.in_progress();
        said += &format!(
            "; latencies left out: rate × mean is {found:.1}, and there are {connections} connections (Little's law)"
        );
    }
    run.details.insert(pass.to_owned(), said);
    if believed {
        run.passes.insert(pass.to_owned(), distribution(asked));
    }
    note_others(run, asked);
    run.errors += asked.errors;
}

/// The latencies of a measurement as results keep them.
pub(crate) fn distribution(asked: &Asked) -> Distribution {
    let curve = asked.latency.curve.clone();
    Distribution { curve, max: asked.latency.max, count: asked.samples, hdr: None }
}

/// Keeps the most that others took of either core.
pub(crate) fn note_others(run: &mut Run, asked: &Asked) {
    let others = asked.server.others.max(asked.client.others);
    run.others = Some(run.others.map_or(others, |known| known.max(others)));
}

/// Puts a figure where it is one.
pub(crate) fn put(figures: &mut BTreeMap<String, f64>, name: &str, value: f64) {
    if value.is_finite() {
        figures.insert(name.to_owned(), value);
    }
}

/// As [`put`], for a pass of several in one run.
pub(crate) fn put_in(run: &mut Run, pass: &str, name: &str, value: f64) {
    put(&mut run.figures, &format!("{pass} {name}"), value);
}

fn agrees(asked: &Asked, connections: u32) -> bool {
    (asked.in_progress() / f64::from(connections) - 1.0).abs() <= LITTLE
}

/// What limited a closed loop.
fn limit(asked: &Asked) -> &'static str {
    let taken = asked.server.others.max(asked.client.others) >= OTHERS;
    match (asked.server_busy >= SATURATED, asked.client_busy >= SATURATED) {
        (false, false) if !taken => "neither core: by the way between them, and the connections that wait for it",
        _ => asked.saturated(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use demo::machine::CpuShare;
    use demo::measure::{Latency, PERCENTILES};

    fn asked(rate: f64, mean: f64) -> Asked {
        let latency = Latency { curve: vec![mean; PERCENTILES.len()], max: mean };
        Asked {
            rate,
            goodput: 0.0,
            transfer: 1e6,
            mean,
            stdev: 1.0,
            latency,
            samples: 9,
            errors: 0,
            server_busy: 1.0,
            frames_sent: 0.0,
            server: CpuShare::default(),
            client_busy: 0.5,
            client: CpuShare::default(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn latencies_that_cannot_be_are_left_out() {
        let mut run = Run::default();
        enter(&mut run, "good", &asked(100_000.0, 640.0), 64, 1);
        enter(&mut run, "bad", &asked(100_000.0, 320.0), 64, 1);
        assert_eq!(run.figures.get("good mean"), Some(&640.0));
        assert_eq!((run.figures.get("bad mean"), run.figures.get("bad rate")), (None, Some(&100_000.0)));
        assert!(run.details["good"] == "limited by the server's core", "{:?}", run.details);
        assert!(run.details["bad"].contains("Little's law"), "{:?}", run.details);
        assert_eq!(run.figures.get("good server CPU"), Some(&10.0));
        for figure in figures("good") {
            assert!(run.figures.contains_key(&figure.name), "{}", figure.name);
        }
    }

    #[test]
    fn a_figure_that_is_none_is_left_out() {
        let mut run = Run::default();
        put_in(&mut run, "pass", "rate", f64::NAN);
        put_in(&mut run, "pass", "p50", 1.0);
        assert_eq!(run.figures.into_iter().collect::<Vec<_>>(), [("pass p50".to_owned(), 1.0)]);
    }

    #[test]
    fn the_most_that_others_took_is_kept() {
        let mut run = Run::default();
        for taken in [0.1, 0.4, 0.2] {
            let mut asked = asked(1.0, 1.0);
            asked.client.others = taken;
            note_others(&mut run, &asked);
        }
        assert_eq!(run.others, Some(0.4));
    }
}
