//! Everything that a run of the demo found out, as `results.json` keeps it.

use crate::field::Generator;
use crate::machine::{Fingerprint, MAX_OTHERS};
use crate::measure::{Contender, Measurement, Scenario, Stage};
use environment::{ResultKind, ResultOrigin, SCHEMA};
use serde::{Deserialize, Serialize};

/// The figures of all rounds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DemoResults {
    /// The machine that they belong to.
    pub machine: Fingerprint,
    /// Version of Nearside.
    pub nearside: String,
    /// Each nginx that was measured: the ratios are to the first.
    pub nginx: Vec<Nginx>,
    /// nginx's configuration.
    pub configuration: Option<String>,
    /// Congestion control seen on nginx's connections.
    pub congestion: Option<String>,
    /// What asked the servers on the one pair.
    pub generator: Generator,
    /// The server's and the client's core.
    pub cores: (u16, u16),
    /// Rounds asked for.
    pub rounds: u32,
    /// Seconds measured for each row in each round.
    pub seconds: f64,
    /// The seed of the order.
    pub seed: u64,
    /// The percentiles of every latency curve.
    pub percentiles: Vec<f64>,
    /// One row for each scenario and contender.
    pub rows: Vec<Row>,
    /// Frames per second over memif, both ways together, by round.
    pub frames: Vec<f64>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
    /// Rows that were given up, and why: what was measured of them before is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Why it ended early, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// By which command, and when it was made.
    #[serde(flatten)]
    pub origin: ResultOrigin,
}

/// An nginx.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Nginx {
    /// Its version, as it says it.
    pub version: String,
    /// Where it is.
    pub path: String,
}

/// The rounds of one scenario with one contender.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What was asked.
    pub scenario: Scenario,
    /// Who answered.
    pub contender: Contender,
    /// What came of each round.
    pub rounds: Vec<Measurement>,
}

impl DemoResults {
    /// The contents of `results.json`.
    #[must_use]
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Whole<'a> {
            kind: ResultKind,
            schema: u32,
            verdict: serde_json::Value,
            #[serde(flatten)]
            results: &'a DemoResults,
        }
        let (word, reasons) = self.verdict();
        let verdict = serde_json::json!({ "word": word, "reasons": reasons });
        // Only a map with keys other than strings could fail, and there is none.
        let whole = Whole { kind: ResultKind::Demo, schema: SCHEMA, verdict, results: self };
        serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
    }

    /// A contender's name in tables.
    #[must_use]
    pub fn name(&self, contender: Contender) -> String {
        match contender {
            Contender::Sockets => "Nearside, sockets".to_owned(),
            Contender::AfXdp => "Nearside, AF_XDP".to_owned(),
            Contender::Memif => "Nearside, memif".to_owned(),
            Contender::Nginx | Contender::OtherNginx => {
                let nginx = contender.nginx().and_then(|at| self.nginx.get(at));
                nginx.map_or_else(|| "nginx".to_owned(), |nginx| format!("nginx {}", nginx.version))
            }
        }
    }

    /// The scenarios of a part that were measured, in the order of the table.
    #[must_use]
    pub fn scenarios(&self, stage: Stage) -> Vec<Scenario> {
        let mut scenarios: Vec<Scenario> = Vec::new();
        for row in self.rows.iter().filter(|row| row.scenario.stage == stage && !row.rounds.is_empty()) {
            if !scenarios.contains(&row.scenario) {
                scenarios.push(row.scenario);
            }
        }
        scenarios
    }

    /// Whether no row was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.rounds.is_empty())
    }

    /// What the figures are worth, in a word, and why.
    #[must_use]
    pub fn verdict(&self) -> (&'static str, Vec<String>) {
        let mut reasons: Vec<String> = self.ended.iter().map(|why| format!("It ended early: {why}.")).collect();
        reasons.extend(self.failed.iter().map(|row| format!("Given up: {row}.")));
        reasons.extend(self.doubt());
        match (self.is_empty(), reasons.is_empty()) {
            (true, _) => ("INVALID", [vec!["Nothing was measured.".to_owned()], reasons].concat()),
            (false, true) => ("COMPLETE", reasons),
            (false, false) => ("PARTIAL", reasons),
        }
    }

    /// What makes the figures doubtful, to be read before them.
    #[must_use]
    fn doubt(&self) -> Option<String> {
        let shares = || self.rows.iter().flat_map(|row| &row.rounds).map(|round| round.others());
        let (all, busy) = (shares().count(), shares().filter(|share| *share > MAX_OTHERS).count());
        (busy > 0).then(|| {
            format!(
                "Not a quiet machine: in {busy} of {all} measurements other programs or the hypervisor took more than \
                 {:.0}% of the server's or the client's core, at most {:.0}%. Rates are too low, latencies too long, \
                 and ratios are of unlike moments; measure again on a quiet machine.",
                100.0 * MAX_OTHERS,
                100.0 * shares().fold(0.0, f64::max)
            )
        })
    }
}
