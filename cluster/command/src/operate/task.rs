//! One test of an operator, from its object to what it came to: as `nearside cluster run` runs it, told by notes.

use crate::cluster::{ClusterTest, Found, Started, Starting, WorkerKeys, reach, secret_of};
use crate::random::random;
use crate::running::{Onlooker, Running};
use crate::shown::{Shown, Weighed};
use crate::workers::Workers;
use control::{Control, Outcome, Progress};
use core::time::Duration;
use cpu::Clock;
use figures::{seconds, share, si};
use kubernetes::Client;
use load::Interval;
use manifests::yaml;
use merge::WorkerFigures;
use messages::Token;
use operator::{Ending, Figures, Note, Verdict};
use report::ExitReason;
use say::{Failure, eprintln};
use serde_json::Value;
use spec::{Arranged, FieldError, Files, LoadTest, SecretKey};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use wire::Time;

/// What a test made is kept until what it came to is told, for so long at most.
const RELEASE_PATIENCE: Duration = Duration::from_secs(60);

/// How often it is looked whether that is so.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a test that runs is told.
#[derive(Debug, Default)]
pub struct Switches {
    /// It was deleted: it ends.
    pub stopped: AtomicBool,
    /// What it came to is told: what it made may go.
    pub released: AtomicBool,
}

/// One test.
pub struct Task {
    pub uid: String,
    pub object: Value,
    pub namespace: String,
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    /// The image, where the test names none.
    pub image: Option<String>,
    /// A name by which pods find this process.
    pub host: Option<String>,
    pub switches: Arc<Switches>,
}

impl Task {
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Runs it; the last note is that nothing of it is left.
    pub fn run(self, tell: &dyn Fn(Note)) {
        let _end = Ends(tell);
        let source = yaml(&[&self.object]);
        let done = match LoadTest::read(&source) {
            Ok(test) => self.run_test(&test, &source, tell),
            Err(wrong) => Err(refused(&wrong)),
        };
        if let Err((reason, why)) = done {
            eprintln!("operator   the test {}: {why}", self.name());
            tell(Note::Ended(Box::new(Ending {
                verdict: Verdict::Invalid,
                reason,
                message: why,
                figures: Figures::default(),
                result: None,
            })));
        }
    }

    fn run_test(&self, test: &LoadTest, source: &str, tell: &dyn Fn(Note)) -> Result<(), Refusal> {
        let (client, _) = reach(self.kubeconfig.as_deref(), self.context.as_deref()).map_err(not_started)?;
        // What its name means is a pod's to find out.
        let nowhere = (Ipv4Addr::UNSPECIFIED, test.target.port).into();
        let mut files = InCluster { client: &client, namespace: &self.namespace };
        let arranged = test.arrange(nowhere, &mut files).map_err(|wrong| refused(&wrong))?;
        let cluster = ClusterTest {
            test,
            source,
            namespace: &self.namespace,
            image: self.image.as_deref().filter(|_| test.pods.image.is_none()),
            owner: Some(&self.uid),
            found: self.host.as_deref().map_or(Found::Own, Found::Host),
        };
        let place = self.host.as_deref().unwrap_or_default();
        let keys = WorkerKeys::of(&Token::new(0), test.workers).map_err(not_started)?;
        let manifests = cluster.objects(&arranged, &keys, place).map_err(|wrong| refused(&wrong))?;
        let draw = || random().map_err(not_started);
        let drawn = (Token::new(draw()?), draw()? as u64);
        let mut starting = |starting: Starting<'_>| match starting {
            Starting::Waits(holder) => tell(Note::Waits { holder: holder.to_owned() }),
            Starting::Begun => tell(Note::Begun),
            Starting::Resumes => {}
        };
        let stopped = &self.switches.stopped;
        let started = cluster.start((client, &arranged), manifests, drawn, stopped, &mut starting);
        let Some(Started { token, listener, pods }) = started.map_err(not_started)? else { return Ok(()) };
        let running = Running::start((test, &arranged), (token, listener), Workers::Pods(pods), None);
        self.complete(running.map_err(not_started)?, (test, &arranged), tell);
        Ok(())
    }

    fn complete(&self, mut running: Running<'_>, (test, arranged): (&LoadTest, &Arranged), tell: &dyn Fn(Note)) {
        running.run(&self.switches.stopped, &mut Notes { tell, is_prepared: false, is_loading: false });
        let (outcome, words, mut workers) = running.judge();
        let shown = Shown { test, plan: &arranged.plan, outcome, words: &words, failures: 0 };
        tell(Note::Ended(Box::new(ending(shown.weigh(), &shown.outcome))));
        let until = Clock.now() + RELEASE_PATIENCE;
        let is_kept = || {
            let Switches { stopped, released } = &*self.switches;
            let is_wanted = !stopped.load(Ordering::Relaxed) && !shown.outcome.interrupted;
            is_wanted && !released.load(Ordering::Relaxed) && Clock.now() < until
        };
        while is_kept() {
            thread::sleep(LOOK_EVERY);
        }
        workers.finish();
    }
}

/// Whoever runs a test says so when it is over, however that ends.
struct Ends<'a>(&'a dyn Fn(Note));

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        (self.0)(Note::Over);
    }
}

/// Why there is nothing: in a word as conditions have it, and in a sentence.
type Refusal = (&'static str, String);

fn refused(wrong: &[FieldError]) -> Refusal {
    // Lines are of a file, which this is not.
    let words = wrong.iter().map(|one| FieldError { line: 0, ..one.clone() }.to_string());
    ("InvalidSpec", words.collect::<Vec<_>>().join("; "))
}

fn not_started(why: impl Into<Failure>) -> Refusal {
    ("NotStarted", why.into().to_string())
}

/// What a test came to, for its status.
fn ending(weighed: Weighed, outcome: &Outcome<WorkerFigures>) -> Ending {
    let Weighed { report, judged, workers, result, reason } = weighed;
    let (verdict, word) = match reason {
        ExitReason::Done => (Verdict::Pass, if judged.is_empty() { "Measured" } else { "ObjectivesMet" }),
        ExitReason::Missed => (Verdict::Fail, "ObjectiveMissed"),
        ExitReason::Nothing => (Verdict::Fail, "NothingMeasured"),
        ExitReason::Doubtful => (Verdict::Fail, "Doubtful"),
        ExitReason::Invalid => (Verdict::Invalid, "WorkerInvalid"),
        ExitReason::Interrupted => (Verdict::Invalid, "Stopped"),
        ExitReason::Failed => (Verdict::Invalid, "Failed"),
    };
    let message = match reason {
        ExitReason::Invalid => outcome.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        ExitReason::Missed => {
            let missed = judged.iter().filter(|judged| !judged.met);
            missed.map(ToString::to_string).collect::<Vec<_>>().join("; ")
        }
        _ => reason.sentence(&report).unwrap_or_else(|| report.verdict.to_string()),
    };
    let has_any = report.traffic.responses > 0;
    let figures = Figures {
        workers: Some(format!("{}/{}", workers.measured, workers.asked)),
        rate: has_any.then(|| si(report.throughput.requests_per_second, "/s")),
        rate_of_due: report.schedule.as_ref().map(|schedule| share(schedule.achieved_fraction)),
        p99: has_any.then(|| seconds(report.latency.p99_ns as f64)),
        skew: outcome.skew.map(|skew| seconds(skew.spread.as_nanos() as f64)),
    };
    Ending { verdict, reason: word, message, figures, result: Some(result) }
}

/// Tells how a test goes, when that changes.
struct Notes<'a> {
    tell: &'a dyn Fn(Note),
    is_prepared: bool,
    is_loading: bool,
}

impl Onlooker for Notes<'_> {
    fn on_interval(&mut self, _: Interval) {}

    fn look(&mut self, control: &Control<WorkerFigures>, now: Time) {
        if control.progress() != Progress::Loading {
            return;
        }
        if !core::mem::replace(&mut self.is_prepared, true) {
            (self.tell)(Note::Prepared);
        }
        if control.start().is_some_and(|start| now >= start) && !core::mem::replace(&mut self.is_loading, true) {
            (self.tell)(Note::Loading);
        }
    }
}

/// What a test names: secrets of its namespace.
struct InCluster<'a> {
    client: &'a Client,
    namespace: &'a str,
}

impl Files for InCluster<'_> {
    fn secret(&mut self, key: &SecretKey) -> Result<String, String> {
        secret_of(self.client, self.namespace, key)
    }

    fn data(&mut self, _: &str) -> Result<Vec<u8>, String> {
        let why = "rows of data are a file beside the test's own, and here is none: nearside cluster run takes them";
        Err(why.to_owned())
    }
}
