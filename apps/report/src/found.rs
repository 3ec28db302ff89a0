//! What a search for the highest rate found: latency over load.

use core::fmt::{self, Write};
use environment::{ResultKind, ResultOrigin, SCHEMA};
use figures::{seconds, si};
use load::{Found, Objective, Trial};
use serde::Serialize;
use serde_json::json;

/// The answer, and the runs at each rate.
#[must_use]
pub fn found_text(found: &Found, objectives: &[Objective]) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = text(&mut out, found, objectives);
    out
}

/// The same as one JSON object, with what the figures belong to. Times are in
/// nanoseconds, rates per second.
#[must_use]
pub fn found_json(
    found: &Found,
    objectives: &[Objective],
    environment: &impl Serialize,
    origin: &ResultOrigin,
) -> String {
    let text = found_text(found, objectives);
    // Until the table: the answer, and what speaks against it.
    let told: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    let objectives: Vec<String> = objectives.iter().map(ToString::to_string).collect();
    let mut of = json!(found);
    for (point, trials) in found.points.iter().enumerate() {
        for (number, spoilt) in trials.trials.iter().enumerate().filter_map(|(at, trial)| Some((at, trial.spoilt?))) {
            of["points"][point]["trials"][number]["why"] = json!(spoilt.to_string());
        }
    }
    let whole = json!({
        "kind": ResultKind::FindMax, "schema": SCHEMA, "verdict": verdict(found),
        "command": origin.command, "made": origin.made, "objectives": objectives, "told": told,
        "found": of, "slices": found.sifted(), "environment": environment,
    });
    format!("{whole:#}\n")
}

/// What the search is worth: nothing where the machine spoilt its runs; in part where it ended
/// early, or the generator may have been the limit.
fn verdict(found: &Found) -> serde_json::Value {
    let spoilt = found.points.iter().flat_map(|point| &point.trials).filter_map(|trial| trial.spoilt).next_back();
    let empty = found.points.iter().all(|point| point.trials.is_empty());
    let mut reasons = Vec::new();
    if empty {
        reasons.push("nothing was measured".to_owned());
    }
    if found.invalid {
        reasons.push(match spoilt {
            Some(spoilt) => format!("the machine spoilt too many runs: {spoilt}"),
            None => "the machine spoilt too many runs".to_owned(),
        });
    }
    if found.cut_short {
        reasons.push("the search ended before the rate was as precise as asked for, and confirmed".to_owned());
    }
    if found.limited {
        reasons.push("the limit may be the generator's, or that of its connections".to_owned());
    }
    let word = if found.invalid || empty {
        "INVALID"
    } else if found.cut_short || found.limited {
        "PARTIAL"
    } else {
        "COMPLETE"
    };
    json!({ "word": word, "reasons": reasons })
}

fn text(out: &mut String, found: &Found, objectives: &[Objective]) -> fmt::Result {
    let objectives: Vec<String> = objectives.iter().map(ToString::to_string).collect();
    let objectives = objectives.join(", ");
    if found.invalid {
        let spoilt = found.points.iter().flat_map(|point| &point.trials).filter_map(|trial| trial.spoilt).next_back();
        write!(out, "INVALID: the machine spoilt too many runs")?;
        if let Some(spoilt) = spoilt {
            write!(out, " (of the last at the highest rate: {spoilt})")?;
        }
        match found.at_least {
            Some(rate) => writeln!(out, "; {objectives} is met at {} at least", si(rate, "/s"))?,
            None => writeln!(out, "; no rate is known to meet {objectives}")?,
        }
    }
    match (found.rate, found.missed) {
        _ if found.invalid => {}
        (Some(rate), Some(missed)) => {
            writeln!(out, "{} is the highest rate with {objectives}; {} misses it", si(rate, "/s"), si(missed, "/s"))?;
        }
        (Some(rate), None) => writeln!(out, "{objectives} is met up to {}, the highest rate tried", si(rate, "/s"))?,
        (None, _) => writeln!(out, "no rate was found with {objectives}")?,
    }
    if found.cut_short {
        writeln!(out, "warning: the search ended before the rate was as precise as asked for, and confirmed")?;
    }
    if found.limited {
        writeln!(
            out,
            "warning: at higher rates responses did not keep up with the rate though they met the objective: \
             the limit may be the generator's, or that of its connections"
        )?;
    }
    if let Some(sifted) = found.sifted().filter(|sifted| sifted.left_out() > 0) {
        writeln!(out, "{sifted}")?;
    }
    if found.slower > 0 {
        writeln!(
            out,
            "{} runs missed it on cores that were slower than in others (their clock, or another tenant), \
             and do not count",
            found.slower
        )?;
    }
    writeln!(
        out,
        "\n{:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  runs",
        "RATE", "ANSWERED", "MEAN", "P50", "P99", "P99.9"
    )?;
    for point in &found.points {
        let met = point.trials.iter().filter(|trial| trial.met).count();
        let median = |of: fn(&Trial) -> f64| of(point.median(of));
        // Where nothing of them counts, zeros are no figures.
        let empty = point.trials.iter().all(|trial| trial.sifted.is_some_and(|sifted| sifted.counted == 0));
        let shown = |text: String| if empty { "-".to_owned() } else { text };
        let (rate, achieved) = (si(point.rate, "/s"), shown(si(median(|trial| trial.achieved), "/s")));
        let times: [fn(&Trial) -> f64; 4] =
            [|it| it.mean_ns, |it| it.p50_ns as f64, |it| it.p99_ns as f64, |it| it.p999_ns as f64];
        let [mean, p50, p99, p999] = times.map(|of| shown(seconds(median(of))));
        let runs = point.trials.len();
        writeln!(out, "{rate:>10} {achieved:>10} {mean:>10} {p50:>10} {p99:>10} {p999:>10}  {met} of {runs} met")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::{Point, Sifted};

    fn found() -> Found {
        let trial = |achieved, met, p99_ns| Trial {
            achieved,
            met,
            mean_ns: 60_000.0,
            p50_ns: 50_000,
            p99_ns,
            p999_ns: 2 * p99_ns,
            spoilt: None,
            sifted: None,
            pace_ns: None,
        };
        Found {
            rate: Some(1_000.0),
            invalid: false,
            at_least: None,
            missed: Some(2_000.0),
            cut_short: false,
            limited: false,
            slower: 0,
            points: vec![
                Point { rate: 1_000.0, trials: vec![trial(1_000.0, true, 100_000); 3] },
                Point { rate: 2_000.0, trials: vec![trial(1_900.0, false, 5_000_000), trial(1_950.0, true, 900_000)] },
            ],
        }
    }

    fn objectives() -> Vec<Objective> {
        Objective::parse_list("p99<1ms,errors<0.1%").expect("two")
    }

    #[test]
    fn the_answer_comes_first() {
        let text = found_text(&found(), &objectives());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "1.00 k/s is the highest rate with p99 < 1.00 ms, errors < 0.1 %; 2.00 k/s misses it");
        assert_eq!(lines[2], "      RATE   ANSWERED       MEAN        P50        P99      P99.9  runs");
        assert_eq!(lines[3], "  1.00 k/s   1.00 k/s    60.0 µs    50.0 µs     100 µs     200 µs  3 of 3 met");
        assert_eq!(lines[4], "  2.00 k/s   1.90 k/s    60.0 µs    50.0 µs     900 µs    1.80 ms  1 of 2 met");
        assert!(lines.len() == 5 && !text.contains("warning"), "{text}");
        let none = Found { rate: None, cut_short: true, limited: true, points: vec![], ..found() };
        let text = found_text(&none, &objectives());
        assert!(text.starts_with("no rate was found with p99"), "{text}");
        assert_eq!(text.matches("warning: ").count(), 2);
        let mut invalid = Found { rate: None, invalid: true, at_least: Some(1_000.0), ..found() };
        invalid.points[1].trials[0].spoilt = Some(load::Spoilt::Stolen { share: 0.25 });
        let text = found_text(&invalid, &objectives());
        assert!(
            text.starts_with("INVALID: the machine spoilt") && text.contains("is met at 1.00 k/s at least"),
            "{text}"
        );
        assert!(text.contains("the hypervisor took 25") && !text.contains("is the highest rate with"), "{text}");
        assert!(!text.contains("slices left out"), "{text}");
        let sifted = |stolen| Some(Sifted { slices: 100, counted: 100 - stolen, stolen, ..Sifted::default() });
        invalid.points[0].trials[0].sifted = sifted(0);
        invalid.points[1].trials[0].sifted = sifted(30);
        let text = found_text(&invalid, &objectives());
        assert!(text.contains("\n30 of 200 slices left out: 15 % the hypervisor had a core\n"), "{text}");
    }

    #[test]
    fn the_curve_is_in_the_json() {
        let json: serde_json::Value =
            serde_json::from_str(&found_json(&found(), &objectives(), &"here", &ResultOrigin::default()))
                .expect("our own");
        assert_eq!((&json["objectives"][0], &json["environment"]), (&"p99 < 1.00 ms".into(), &"here".into()));
        assert_eq!(
            (&json["found"]["rate"], &json["found"]["points"][1]["trials"][0]["met"]),
            (&1_000.0.into(), &false.into())
        );
        assert!(json["slices"].is_null());
        let told = json["told"].as_array().map(Vec::len);
        assert_eq!(
            (told, json["told"][0].as_str().map(|line| line.contains("2.00 k/s misses it"))),
            (Some(1), Some(true))
        );
        assert_eq!((&json["kind"], &json["verdict"]["word"]), (&"find-max".into(), &"COMPLETE".into()));
        let invalid = Found { rate: None, invalid: true, cut_short: true, ..found() };
        let json: serde_json::Value =
            serde_json::from_str(&found_json(&invalid, &objectives(), &"here", &ResultOrigin::default()))
                .expect("our own");
        assert_eq!(
            (&json["verdict"]["word"], json["verdict"]["reasons"].as_array().map(Vec::len)),
            (&"INVALID".into(), Some(2))
        );
        let none = Found { rate: None, cut_short: true, points: Vec::new(), ..found() };
        assert_eq!(verdict(&none)["word"], "INVALID", "no run was made");
        let mut disturbed = invalid;
        disturbed.points[1].trials[0].spoilt = Some(load::Spoilt::Stolen { share: 0.25 });
        disturbed.points[1].trials[1].sifted = Some(Sifted { slices: 9, ..Sifted::default() });
        let json = found_json(&disturbed, &objectives(), &"here", &ResultOrigin::default());
        assert!(json.contains("\"why\": \"the hypervisor took 25"), "in words: {json}");
        let mut sifted = found();
        sifted.points[0].trials[0].sifted = Some(Sifted { slices: 9, server_waited: 4, ..Sifted::default() });
        let json: serde_json::Value =
            serde_json::from_str(&found_json(&sifted, &objectives(), &"here", &ResultOrigin::default()))
                .expect("our own");
        assert_eq!((&json["slices"]["slices"], &json["slices"]["server_waited"]), (&9.into(), &4.into()));
    }
}
