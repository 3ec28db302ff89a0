//! A table of runs, one for each number of connections and of generator
//! threads, as text, CSV and JSON.

use core::fmt::{self, Write};
use environment::{ResultKind, ResultOrigin, SCHEMA};
use figures::many;
use load::{Report, Trust};
use serde::Serialize;

/// The columns, as published tables of this kind name them.
const COLUMNS: [&str; 15] = [
    "PROC", "CONN", "RPSavg", "RPSmax", "LAT50", "LAT75", "LAT90", "LAT99", "LATmax", "CPU_c", "usr_c", "sys_c",
    "CPU_s", "usr_s", "sys_s",
];

/// Processor time ÷ time: 1 is one core.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct CpuUse {
    /// In all.
    pub all: f64,
    /// In user mode; `None` where it is not told apart.
    pub user: Option<f64>,
    /// In the kernel, likewise.
    pub system: Option<f64>,
}

impl CpuUse {
    /// Of both parts.
    #[must_use]
    pub fn of(user: f64, system: f64) -> Self {
        Self { all: user + system, user: Some(user), system: Some(system) }
    }
}

/// One run of a sweep.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepRow {
    /// Threads of the generator.
    pub procs: u32,
    /// Connections.
    pub connections: u32,
    /// Responses per second, over the whole run.
    pub rps_avg: f64,
    /// The same in its best interval; `None` if there was no whole one.
    pub rps_max: Option<f64>,
    /// The median latency.
    pub lat50_ns: u64,
    /// The 75th percentile.
    pub lat75_ns: u64,
    /// The 90th percentile.
    pub lat90_ns: u64,
    /// The 99th percentile.
    pub lat99_ns: u64,
    /// The longest latency.
    pub latmax_ns: u64,
    /// How many latencies these are of.
    pub samples: u64,
    /// What the generator took.
    pub cpu_client: Option<CpuUse>,
    /// What the server took; `None` if it cannot be read.
    pub cpu_server: Option<CpuUse>,
    /// Requests that failed, and connects.
    pub errors: u64,
    /// Whether the row can be trusted.
    pub trust: Trust,
    /// What speaks against the row, the gravest first.
    pub warnings: Vec<String>,
}

/// All that speaks against a report: of many, readers see the first, and a row's verdict names it.
fn gravest_first(report: &Report) -> Vec<String> {
    let mut warnings: Vec<String> = report.verdict.reasons.iter().map(|reason| reason.sentence.clone()).collect();
    for warning in report.warnings.iter().map(ToString::to_string) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

impl SweepRow {
    /// The row of a run with `procs` threads.
    #[must_use]
    pub fn new(
        procs: u32,
        report: &Report,
        rps_max: Option<f64>,
        cpu_client: Option<CpuUse>,
        cpu_server: Option<CpuUse>,
    ) -> Self {
        let latency = &report.latency;
        Self {
            procs,
            connections: report.setup.connections,
            rps_avg: report.throughput.requests_per_second,
            rps_max,
            lat50_ns: latency.p50_ns,
            lat75_ns: latency.p75_ns,
            lat90_ns: latency.p90_ns,
            lat99_ns: latency.p99_ns,
            latmax_ns: latency.max_ns,
            samples: latency.samples,
            cpu_client,
            cpu_server,
            errors: report.errors.failed_requests() + report.errors.failed_connects(),
            trust: report.verdict.trust,
            warnings: gravest_first(report),
        }
    }

    /// The cells of a row; what is not known is `unknown`.
    fn cells(&self, unknown: &str) -> [String; COLUMNS.len()] {
        let rate = |value: f64| format!("{value:.0}");
        let millis = |nanos: u64| format!("{:.3}", nanos as f64 * 1e-6);
        let percent = |cores: Option<f64>| cores.map_or(unknown.to_owned(), |cores| format!("{:.0}", cores * 100.0));
        [
            self.procs.to_string(),
            self.connections.to_string(),
            rate(self.rps_avg),
            self.rps_max.map_or(unknown.to_owned(), rate),
            millis(self.lat50_ns),
            millis(self.lat75_ns),
            millis(self.lat90_ns),
            millis(self.lat99_ns),
            millis(self.latmax_ns),
            percent(self.cpu_client.map(|cpu| cpu.all)),
            percent(self.cpu_client.and_then(|cpu| cpu.user)),
            percent(self.cpu_client.and_then(|cpu| cpu.system)),
            percent(self.cpu_server.map(|cpu| cpu.all)),
            percent(self.cpu_server.and_then(|cpu| cpu.user)),
            percent(self.cpu_server.and_then(|cpu| cpu.system)),
        ]
    }
}

/// The lines above the table: units, why the server's columns are empty if they are, and columns.
#[must_use]
pub fn sweep_heading(server_unknown: Option<&str>) -> String {
    let mut out = String::from(
        "RPS in requests/s, LAT in ms, CPU in % of one core (user and system apart; _c client, _s server)\n",
    );
    if let Some(why) = server_unknown {
        let _ = writeln!(out, "The server's CPU is not known: {why}");
    }
    let _ = line(&mut out, &COLUMNS.map(str::to_owned));
    out
}

/// A row of the table, and below it what speaks against it.
#[must_use]
pub fn sweep_line(row: &SweepRow) -> String {
    let mut out = String::new();
    let _ = line(&mut out, &row.cells("-"));
    for warning in &row.warnings {
        let _ = writeln!(out, "      warning: {warning}");
    }
    if row.errors > 0 {
        let _ = writeln!(out, "      {} errors", row.errors);
    }
    out
}

fn line(out: &mut String, cells: &[String; COLUMNS.len()]) -> fmt::Result {
    const WIDTHS: [usize; COLUMNS.len()] = [4, 6, 9, 9, 9, 9, 9, 9, 9, 6, 6, 6, 6, 6, 6];
    let cells: Vec<String> = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:>width$}")).collect();
    writeln!(out, "{}", cells.join(" "))
}

/// The first line of the table as comma-separated values (RFC 4180). Units as
/// in [`sweep_heading`].
#[must_use]
pub fn sweep_csv_heading() -> String {
    COLUMNS.join(",") + ",errors,warnings\r\n"
}

/// A row of it; what is not known is empty.
#[must_use]
pub fn sweep_csv_line(row: &SweepRow) -> String {
    let warnings = row.warnings.join("; ").replace('"', "\"\"");
    format!("{},{},\"{warnings}\"\r\n", row.cells("").join(","), row.errors)
}

/// The whole table as JSON: rows, times in nanoseconds, and what they belong to; of a sweep that was
/// ended early, those that there are.
#[must_use]
pub fn sweep_json(
    rows: &[SweepRow],
    ended_early: bool,
    server_unknown: Option<&str>,
    environment: &impl Serialize,
    origin: &ResultOrigin,
) -> String {
    let whole = serde_json::json!({
        "kind": ResultKind::LoadSweep, "schema": SCHEMA, "command": origin.command, "made": origin.made,
        "verdict": verdict(rows, ended_early), "rows": rows,
        "server_unknown": server_unknown, "environment": environment,
    });
    format!("{whole:#}\n")
}

/// Of what was ended before all of it was measured.
const EARLY: &str = "it ended before its time";

/// What the table is worth: as much as the row that is worth least, and not all where rows are missing.
fn verdict(rows: &[SweepRow], ended_early: bool) -> serde_json::Value {
    let of = |trust: Trust| rows.iter().filter(move |row| row.trust == trust);
    let nothing = rows.is_empty().then_some(Trust::No);
    let early = ended_early.then_some(Trust::WithCare);
    let worst = rows.iter().map(|row| row.trust).chain(early).chain(nothing).max();
    let worst = worst.unwrap_or_default();
    let name = |row: &SweepRow| {
        format!("{}, {}", many(row.procs.into(), "thread"), many(row.connections.into(), "connection"))
    };
    let rows = [Trust::No, Trust::WithCare].into_iter().flat_map(of);
    let rows = rows.map(|row| format!("{}: {}", name(row), row.warnings.first().map_or("doubtful", String::as_str)));
    let early = ended_early.then(|| EARLY.to_owned());
    let nothing = nothing.map(|_| "nothing was measured".to_owned());
    let reasons: Vec<String> = nothing.into_iter().chain(early).chain(rows).collect();
    serde_json::json!({ "word": worst.word(), "reasons": reasons })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(procs: u32, connections: u32) -> SweepRow {
        SweepRow {
            procs,
            connections,
            rps_avg: 10_000.4 * f64::from(procs),
            rps_max: (procs > 1).then_some(23_456.7),
            lat50_ns: 100_100,
            lat75_ns: 150_000,
            lat90_ns: 200_000,
            lat99_ns: 1_234_567,
            latmax_ns: 20_000_000,
            samples: 100_000,
            cpu_client: Some(CpuUse::of(0.114, 0.4)),
            cpu_server: (procs > 1).then_some(CpuUse { all: 1.5, user: None, system: None }),
            errors: 0,
            trust: Trust::Yes,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_table_of_runs() {
        let mut spoilt = row(2, 128);
        spoilt.warnings.push("the \"core\" was busy".into());
        spoilt.errors = 3;
        let text = sweep_heading(None) + &sweep_line(&row(1, 1)) + &sweep_line(&spoilt);
        let expected = "\
RPS in requests/s, LAT in ms, CPU in % of one core (user and system apart; _c client, _s server)
PROC   CONN    RPSavg    RPSmax     LAT50     LAT75     LAT90     LAT99    LATmax  CPU_c  usr_c  sys_c  CPU_s  usr_s  sys_s
   1      1     10000         -     0.100     0.150     0.200     1.235    20.000     51     11     40      -      -      -
   2    128     20001     23457     0.100     0.150     0.200     1.235    20.000     51     11     40    150      -      -
      warning: the \"core\" was busy
      3 errors
";
        assert_eq!(text, expected, "\n{text}");
        let csv = sweep_csv_heading() + &sweep_csv_line(&row(1, 1)) + &sweep_csv_line(&spoilt);
        let lines: Vec<&str> = csv.split("\r\n").collect();
        assert_eq!(lines[0], format!("{},errors,warnings", COLUMNS.join(",")));
        assert_eq!(lines[1], "1,1,10000,,0.100,0.150,0.200,1.235,20.000,51,11,40,,,,0,\"\"");
        assert!(lines[2].ends_with(",3,\"the \"\"core\"\" was busy\""), "{}", lines[2]);
        assert_eq!((lines.len(), lines[3]), (4, ""));
    }

    #[test]
    fn the_reason_of_a_row_is_its_gravest() {
        let plan = load::Plan::new(([127, 0, 0, 1], 80).into(), load::Request::get("a", "/"));
        let figures = load::Figures { ended: load::Ended::Interrupted, ..load::Figures::default() };
        let report = Report::new(&plan, &figures, load::Outside::default());
        assert_eq!(report.warnings.first(), Some(&load::Warning::Interrupted), "it is found first");
        let row = SweepRow::new(1, &report, None, None, None);
        assert_eq!((row.trust, row.warnings.len()), (Trust::No, report.warnings.len()));
        assert_eq!(row.warnings[0], report.verdict.reasons[0].sentence);
        assert_ne!(row.warnings[0], report.warnings[0].to_string());
    }

    #[test]
    fn a_sweep_that_was_ended_early_is_not_complete() {
        let mut bad = row(1, 1);
        (bad.trust, bad.warnings) = (Trust::No, vec!["the core was busy".to_owned()]);
        let early = |rows: &[SweepRow]| verdict(rows, true);
        assert_eq!(verdict(&[row(1, 4)], false)["word"], "COMPLETE");
        assert_eq!(early(&[row(1, 4)]), serde_json::json!({ "word": "PARTIAL", "reasons": [EARLY] }));
        assert_eq!(early(&[]), serde_json::json!({ "word": "INVALID", "reasons": ["nothing was measured", EARLY] }));
        let reasons = [EARLY, "1 thread, 1 connection: the core was busy"];
        assert_eq!(early(&[row(1, 4), bad]), serde_json::json!({ "word": "INVALID", "reasons": reasons }));
    }

    #[test]
    fn json_keeps_what_is_not_known_apart_from_zero() {
        let json: serde_json::Value =
            serde_json::from_str(&sweep_json(&[row(1, 4)], false, Some("two run"), &"here", &ResultOrigin::default()))
                .expect("our own JSON");
        assert_eq!((&json["environment"], &json["server_unknown"]), (&"here".into(), &"two run".into()));
        assert!(sweep_heading(Some("two run")).contains("\nThe server's CPU is not known: two run\n"));
        let json = &json["rows"];
        assert_eq!((&json[0]["connections"], &json[0]["lat99_ns"]), (&4.into(), &1_234_567.into()));
        assert_eq!(json[0]["cpu_client"]["system"], 0.4);
        assert!(json[0]["cpu_server"].is_null() && json[0]["rps_max"].is_null());
    }
}
