//! What is printed.

use control::{Control, Offset, Outcome, Progress, RunningWorker};
use environment::{Fingerprint, ResultOrigin};
use figures::{grouped, seconds, share, si};
use load::{Interval, Judged, Latency, Plan, Recorder, Report};
use merge::{Whole, WorkerFigures};
use messages::Standing;
use report::{ExitReason, exit_reason, render_json_of_workers, render_text};
use say::{Failure, eprintln, print};
use serde::Serialize;
use spec::LoadTest;
use std::path::Path;
use std::process::ExitCode;
use wire::Time;

/// What came of a test, for people and programs.
pub struct Shown<'a> {
    pub test: &'a LoadTest,
    pub plan: &'a Plan,
    pub outcome: Outcome<WorkerFigures>,
    /// What each worker said on standard error.
    pub words: &'a [String],
    /// Files that could not be written to their end.
    pub failures: u32,
}

/// What a test comes to.
pub struct Weighed {
    /// All workers as one.
    pub report: Report,
    /// What it expects, and whether that is met.
    pub judged: Vec<Judged>,
    /// Each of them.
    pub workers: WorkersReport,
    /// All of that, as `nearside load --json` has it.
    pub result: String,
    /// The first of the reasons that hold.
    pub reason: ExitReason,
}

/// What is known of all workers, as it stands in a result.
#[derive(Serialize)]
pub struct WorkersReport {
    /// How many there were to be.
    pub asked: u32,
    /// How many measured.
    pub measured: u32,
    /// From the first that began to the last; with what clocks are known to, and how late the last was.
    #[serde(skip_serializing_if = "Option::is_none")]
    skew: Option<SkewReport>,
    /// Connections that were none of a worker.
    strangers: u64,
    /// Of these, those who had another worker's token; and who they were.
    refused: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    impostors: Vec<ImpostorReport>,
    /// What makes the test invalid.
    problems: Vec<ProblemReport>,
    each: Vec<WorkerReport>,
}

#[derive(Serialize)]
struct SkewReport {
    spread_ns: u64,
    latest_ns: u64,
    error_ns: u64,
}

#[derive(Serialize)]
struct ImpostorReport {
    token_of: u32,
    said_to_be: u32,
}

#[derive(Serialize)]
struct ProblemReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<u32>,
    what: &'static str,
    sentence: String,
}

/// What is known of a worker. Its percentiles are its own: those of the whole are of all samples.
#[derive(Serialize)]
struct WorkerReport {
    worker: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<load::Verdict>,
    responses: u64,
    requests_per_second: f64,
    latency: Latency,
    connections: u64,
    silos: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    busy_fraction: Option<f64>,
    /// After the time that was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    begun_after_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_ahead_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_error_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled_us: Option<u64>,
}

impl Shown<'_> {
    /// Prints it, and answers the exit code.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn print(mut self, json: bool, page: Option<&Path>) -> Result<ExitCode, Failure> {
        let Weighed { report, judged, workers, result, .. } = self.weigh();
        if json {
            print!("{result}");
        } else {
            print!("{}{}", render_text(&report), table(&workers));
            judged.iter().for_each(|judged| print!("Objective    {judged}\n"));
        }
        if let Some(place) = page {
            let page = results::page(&[("result.json".to_owned(), result)])?;
            if let Err(why) = results::write_whole(place, &page.render()) {
                eprintln!("nearside: {why}");
                self.failures += 1;
            }
        }
        let reason = self.reason(&report, &judged, self.failures);
        self.explain(reason, &report);
        Ok(ExitCode::from(reason.code()))
    }

    /// What it comes to, as one.
    pub fn weigh(&self) -> Weighed {
        let workers = self.workers();
        let mut whole = Whole::default();
        self.outcome.workers.iter().filter_map(|worker| worker.measured.as_ref()).for_each(|one| whole.add(one));
        let report = whole.report(self.plan, &self.outcome);
        let judged: Vec<Judged> = self.test.expect.iter().map(|objective| objective.judge(&report)).collect();
        let (machine, origin) = (Fingerprint::read(), ResultOrigin::now());
        let result = render_json_of_workers(&report, &judged, &machine, &origin, Some(&workers));
        let reason = self.reason(&report, &judged, self.failures);
        Weighed { report, judged, workers, result, reason }
    }

    fn reason(&self, report: &Report, judged: &[Judged], failures: u32) -> ExitReason {
        if self.outcome.interrupted {
            ExitReason::Interrupted
        } else if failures > 0 {
            ExitReason::Failed
        } else if !self.outcome.is_valid() {
            ExitReason::Invalid
        } else {
            exit_reason(report, judged, failures, self.test.strict)
        }
    }

    /// Says why the exit code is what it is.
    fn explain(&self, reason: ExitReason, report: &Report) {
        for problem in &self.outcome.problems {
            eprintln!("nearside: INVALID: {problem}");
            let Some(worker) = problem.worker else { continue };
            if let Some(words) = self.words.get(worker as usize).filter(|words| !words.is_empty()) {
                eprintln!("nearside: worker {worker} said: {words}");
            }
        }
        for refused in &self.outcome.impostors {
            eprintln!("nearside: {refused}");
        }
        if let Some(why) = reason.sentence(report) {
            eprintln!("nearside: {why}");
        }
    }

    fn workers(&self) -> WorkersReport {
        let nanos = |span: core::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let first = self.outcome.skew.zip(self.outcome.workers.iter().filter_map(|one| Some(one.begun?.1)).max());
        // The time that was set.
        let start = first.map(|(skew, last)| last.as_nanos().saturating_sub(nanos(skew.latest)));
        let each = self.outcome.workers.iter().enumerate().map(|(n, one)| self.worker(n as u32, one, start));
        let problem = |one: &control::Problem| ProblemReport {
            worker: one.worker,
            what: one.kind.words(),
            sentence: one.what.clone(),
        };
        let impostor = |one: &control::Refused| ImpostorReport { token_of: one.whose, said_to_be: one.said };
        WorkersReport {
            asked: self.test.workers,
            measured: self.outcome.workers.iter().filter(|one| one.measured.is_some()).count() as u32,
            skew: self.outcome.skew.map(|skew| SkewReport {
                spread_ns: nanos(skew.spread),
                latest_ns: nanos(skew.latest),
                error_ns: nanos(skew.error),
            }),
            strangers: self.outcome.strangers,
            refused: self.outcome.refused,
            impostors: self.outcome.impostors.iter().map(impostor).collect(),
            problems: self.outcome.problems.iter().map(problem).collect(),
            each: each.collect(),
        }
    }

    fn worker(&self, number: u32, one: &control::WorkerOutcome<WorkerFigures>, start: Option<u64>) -> WorkerReport {
        let part = self.plan.share(number, self.test.workers);
        let report = one.measured.as_ref().zip(part).map(|(measured, part)| {
            (Report::new(&part, &measured.figures, measured.outside.clone()), measured.throttling)
        });
        let narrow = |nanos: i128| i64::try_from(nanos).unwrap_or(i64::MAX);
        let begun = one.begun.zip(start).map(|((_, last), start)| i128::from(last.as_nanos()) - i128::from(start));
        let error = |offset: Offset| u64::try_from(offset.error.as_nanos()).unwrap_or(u64::MAX);
        let (report, throttling) = report.map_or((None, None), |(report, throttling)| (Some(report), throttling));
        WorkerReport {
            worker: number,
            responses: report.as_ref().map_or(0, |report| report.traffic.responses),
            requests_per_second: report.as_ref().map_or(0.0, |report| report.throughput.requests_per_second),
            latency: report.as_ref().map_or_else(|| Latency::of(&Recorder::new()), |report| report.latency),
            connections: one.open,
            silos: one.silos,
            busy_fraction: report.as_ref().map(|report| report.client.busy_fraction),
            verdict: report.map(|report| report.verdict),
            begun_after_ns: begun.map(narrow),
            clock_ahead_ns: one.offset.map(|offset| narrow(offset.ahead_ns)),
            clock_error_ns: one.offset.map(error),
            throttled_us: throttling.map(|throttling| throttling.throttled_us),
        }
    }
}

/// The workers, for people.
fn table(workers: &WorkersReport) -> String {
    let time = |nanos: u64| seconds(nanos as f64);
    let mut out = format!("Workers      {} of {} measured", workers.measured, workers.asked);
    if let Some(skew) = &workers.skew {
        let (spread, error, latest) = (time(skew.spread_ns), time(skew.error_ns), time(skew.latest_ns));
        out += &format!(
            "; began within {spread} of each other, the last {latest} after the time set, clocks known to {error}"
        );
    }
    out.push('\n');
    let heads = ["worker", "rate", "responses", "p50", "p99", "max", "began", "busy", "by itself"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for one in &workers.each {
        let word = one.verdict.as_ref().map_or("nothing measured", |verdict| verdict.trust.word());
        let latency = &one.latency;
        rows.push(vec![
            one.worker.to_string(),
            si(one.requests_per_second, "/s"),
            grouped(one.responses),
            time(latency.p50_ns),
            time(latency.p99_ns),
            time(latency.max_ns),
            one.begun_after_ns.map_or_else(|| "-".to_owned(), |after| seconds(after as f64)),
            one.busy_fraction.map_or_else(|| "-".to_owned(), share),
            word.to_owned(),
        ]);
    }
    let lines = figures::columns(&rows, |column| column == heads.len() - 1);
    lines.lines().for_each(|line| out += &format!("  {line}\n"));
    for problem in &workers.problems {
        let whose = problem.worker.map(|worker| format!("worker {worker}: ")).unwrap_or_default();
        out += &format!("  INVALID: {whose}{}\n", problem.sentence);
    }
    out
}

/// How a test goes, in a line.
pub fn progress_line(control: &Control<WorkerFigures>, latest: Option<&Interval>, now: Time) -> String {
    let workers: Vec<RunningWorker> = control.workers().collect();
    let all = workers.len();
    match control.progress() {
        Progress::Preparing => {
            let here = workers.iter().filter(|one| one.is_here).count();
            let ready = workers.iter().filter(|one| one.is_ready).count();
            format!("preparing  {here} of {all} workers here, {ready} ready")
        }
        Progress::Ending | Progress::Over => "ending".to_owned(),
        Progress::Loading => {
            let since = control.start().map_or(0.0, |start| now.since(start).as_secs_f64());
            let sum = |of: fn(&RunningWorker) -> u64| workers.iter().map(of).sum::<u64>();
            let (open, errors) = (sum(|one| one.beat.open), sum(|one| one.beat.errors));
            let ended = workers.iter().filter(|one| one.beat.standing == Standing::Ended).count();
            let p99 = latest.map(|interval| interval.samples.latency()).filter(|all| !all.is_empty());
            let p99 = p99.map_or_else(|| "-".to_owned(), |all| seconds(all.quantile(0.99) as f64));
            let rate = si(sum(|one| one.beat.rate) as f64, "/s");
            let ends = if ended > 0 { format!("  {ended} of {all} ended") } else { String::new() };
            format!(
                "loading {since:.0} s  {} connections  {rate}  p99 {p99}  {} errors{ends}",
                grouped(open),
                grouped(errors)
            )
        }
    }
}
