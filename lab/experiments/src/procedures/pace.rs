//! What a server's pace costs and saves: `--idle`, and `--tx-delay`. One
//! server and one generator over memif, each on a core of its own; only the
//! server's pace differs between the arms of a server, and the generator polls.
//! The server is ours, or nginx, unmodified, on our stack.
//!
//! Each run asks three times: at a low rate (open loop, Poisson arrivals, so
//! that nothing can fall into step with a sleeper), on one connection (closed
//! loop: what a request costs where nothing is shared) and on many (closed
//! loop: throughput).

use super::sides::{distribution, note_others, put_in};
use crate::Failure;
use crate::procedure::{Arm, Procedure, ProcedureSettings, Setting};
use crate::runs::{ArmResults, Check, Figure, Run};
use demo::measure::SMALL_BODY;
use demo::stand::{Asked, Server, Stand, two_cores, words};
use demo::unmodified::{self, RunNginx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silo::{Idle, Pace};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Which paces, and how they are asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Requests per second of the open loop: few enough to leave the server
    /// idle.
    #[serde(default = "default_rate")]
    pub rate: u32,
    /// Connections of the closed loop that is after throughput.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// Milliseconds of each of the three measurements.
    #[serde(default = "default_milliseconds")]
    pub milliseconds: u64,
    /// The nearside to measure; this program if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    /// The paces.
    pub arms: Vec<PacedServer>,
}

/// One server's pace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PacedServer {
    /// Its name in tables and results.
    pub name: String,
    /// Which server it is.
    #[serde(default)]
    pub server: PacedProgram,
    /// What it does while there is nothing to do, as --idle takes it.
    #[serde(default = "default_idle")]
    pub idle: String,
    /// For how many microseconds it may hold frames back (--tx-delay).
    #[serde(default)]
    pub tx_delay_us: u64,
}

/// A server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PacedProgram {
    /// Ours.
    #[default]
    Nearside,
    /// nginx, unmodified, on our stack (nearside run).
    Nginx,
}

const fn default_rate() -> u32 {
    1_000
}

const fn default_connections() -> u32 {
    64
}

const fn default_milliseconds() -> u64 {
    2_000
}

fn default_idle() -> String {
    Idle::Spin.to_string()
}

/// The open loop's connections: enough that no request waits for one.
const OPEN_CONNECTIONS: u32 = 64;

/// The longest of the three measurements.
const LONGEST: u64 = 600_000;

const SERVER: &str = "10.78.0.2";
const CLIENT: &str = "10.78.0.1";

/// The three measurements.
const LOW: &str = "low rate";
const ONE: &str = "one connection";
const MANY: &str = "many connections";

/// How far rate × mean latency may be off the connections (Little's law).
const LITTLE: f64 = 0.05;

/// The experiment.
#[derive(Debug)]
pub struct Paces {
    settings: Settings,
    paces: Vec<Pace>,
    stand: Result<Stand, String>,
}

impl Paces {
    /// # Errors
    /// If the settings make no sense.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        if settings.arms.is_empty() {
            return Err("pace: write at least one of [[pace.arms]]".into());
        }
        let good = (1..=1_000_000).contains(&settings.rate)
            && (2..=10_000).contains(&settings.connections)
            && (50..=LONGEST).contains(&settings.milliseconds);
        if !good {
            return Err(format!(
                "pace: write a rate of 1 to 1,000,000, 2 to 10,000 connections and 50 to {LONGEST} milliseconds"
            )
            .into());
        }
        let pace = |side: &PacedServer| -> Result<Pace, Failure> {
            let idle = side.idle.parse().map_err(|why| format!("pace: idle of {}: {why}", side.name))?;
            Ok(Pace { idle, tx_delay: Duration::from_micros(side.tx_delay_us) })
        };
        let paces = settings.arms.iter().map(pace).collect::<Result<Vec<Pace>, Failure>>()?;
        let stand = match two_cores() {
            Ok(cores) => Ok(Stand::new(settings.program.as_deref(), cores)?),
            Err(why) => Err(why),
        };
        Ok(Self { settings: settings.clone(), paces, stand })
    }

    fn serve(&self, stand: &Stand, arm: usize, setting: &Setting) -> Result<Server, Failure> {
        let (pace, core) = (self.paces[arm], stand.cores.0);
        let socket = stand.folder().join("memif.sock");
        let _ = std::fs::remove_file(&socket);
        let mut options = vec![format!("--link=memif:{}", socket.display())];
        options.push(format!("--addr={SERVER}/24"));
        options.push(format!("--idle={}", pace.idle));
        options.push(format!("--tx-delay={}us", pace.tx_delay.as_micros()));
        if self.settings.arms[arm].server == PacedProgram::Nginx {
            let configuration = unmodified::site(stand.folder(), &format!("{SERVER}:80"), &[core])?;
            let run = RunNginx { configuration: &configuration, workers: 1, preload: None };
            return Ok(stand.run_nginx((None, Some(core)), &options, run, setting.interrupt)?);
        }
        let mut words = words(["--respond", &format!("text:{SMALL_BODY}")]);
        words.append(&mut options);
        words.push(format!("--core={core}"));
        Ok(stand.serve(None, &words, setting.interrupt)?)
    }

    fn ask(&self, stand: &Stand, server: &mut Server, pass: &str, setting: &Setting) -> Result<Asked, Failure> {
        let mut words = vec![format!("http://{SERVER}/small")];
        words.push(format!("--link=memif:{}", stand.folder().join("memif.sock").display()));
        words.push(format!("--addr={CLIENT}/24"));
        words.push(format!("--core={}", stand.cores.1));
        words.push("--idle=spin".to_owned());
        words.push(match pass {
            LOW => format!("--connections={OPEN_CONNECTIONS}"),
            ONE => "--connections=1".to_owned(),
            _ => format!("--connections={}", self.settings.connections),
        });
        if pass == LOW {
            words.push(format!("--rate=poisson:{}", self.settings.rate));
        }
        let duration = Duration::from_millis(self.settings.milliseconds);
        Ok(stand.ask(server, None, &words, duration, setting.interrupt)?)
    }
}

impl ProcedureSettings for Settings {
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        Ok(Box::new(Paces::new(self)?))
    }
}

impl Procedure for Paces {
    fn arms(&self) -> Vec<Arm> {
        let conditions = BTreeMap::from([
            ("link".to_owned(), "memif between two processes".to_owned()),
            ("response".to_owned(), format!("{} B of body", SMALL_BODY.len())),
            ("low rate".to_owned(), format!("{} requests/s, Poisson", self.settings.rate)),
            ("many connections".to_owned(), self.settings.connections.to_string()),
        ]);
        let left_out = self.stand.as_ref().err().cloned();
        let arm = |side: &PacedServer| Arm {
            name: side.name.clone(),
            conditions: conditions.clone(),
            left_out: left_out.clone().or_else(|| {
                let is_nginx = side.server == PacedProgram::Nginx;
                let stand = self.stand.as_ref().ok().filter(|_| is_nginx)?;
                unmodified::missing(stand.program())
            }),
        };
        self.settings.arms.iter().map(arm).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for pass in [LOW, ONE, MANY] {
            let name = |what: &str| format!("{pass} {what}");
            if pass != LOW {
                figures.push(Figure::higher(&name("rate"), "requests/s"));
            }
            figures.extend(["mean", "p50", "p99"].map(|what| Figure::lower(&name(what), "µs")));
            figures.extend(["stdev", "max"].map(|what| Figure::plain(&name(what), "µs")));
            figures.push(Figure::plain(&name("server busy"), "% of its time"));
            figures.push(Figure::lower(&name("server CPU"), "% of a core"));
        }
        figures
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "Server busy: the share of its time in turns that found something. Server CPU: what the kernel books on \
             its process; who polls takes all of it. nginx tells nothing of itself: its busy share is what the kernel \
             books on it."
                .to_owned(),
            "The latency curves and histograms are those of the low rate.".to_owned(),
            "Latency at the low rate counts from when a request was due (open loop); on one connection and on many \
             from its first byte (closed loop)."
                .to_owned(),
        ]
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        let stand = self.stand.as_ref().map_err(String::as_str)?;
        let mut server = self.serve(stand, arm, setting)?;
        let mut run = Run::default();
        for (done, pass) in (0..).zip([LOW, ONE, MANY]) {
            setting.progress.tell(done, 3);
            let asked = self.ask(stand, &mut server, pass, setting)?;
            if pass != LOW {
                put_in(&mut run, pass, "rate", asked.rate);
            }
            put_in(&mut run, pass, "mean", asked.mean);
            put_in(&mut run, pass, "p50", asked.at(50.0));
            put_in(&mut run, pass, "p99", asked.at(99.0));
            put_in(&mut run, pass, "stdev", asked.stdev);
            put_in(&mut run, pass, "max", asked.latency.max);
            put_in(&mut run, pass, "server busy", 100.0 * asked.server_busy);
            put_in(&mut run, pass, "server CPU", 100.0 * asked.server.process);
            run.details.insert(format!("{pass}, limited by"), asked.saturated().to_owned());
            if !asked.warnings.is_empty() {
                run.details.insert(format!("{pass}, the generator warns of"), asked.warnings.join(", "));
            }
            run.passes.insert(pass.to_owned(), distribution(&asked));
            note_others(&mut run, &asked);
            run.errors += asked.errors;
        }
        Ok(run)
    }

    fn checks(&self, arms: &[ArmResults]) -> Vec<Check> {
        let mut checks = Checks { arms, found: Vec::new() };
        let failed: u64 = arms.iter().flat_map(|arm| &arm.runs).map(|run| run.errors).sum();
        checks.add("no request fails".to_owned(), Some(failed as f64), "", |failed| failed == 0.0);
        let sides = || self.settings.arms.iter().zip(self.paces.iter().copied());
        let many = f64::from(self.settings.connections);
        for (side, pace) in sides() {
            let name = side.name.as_str();
            checks.little(name, ONE, 1.0);
            checks.little(name, MANY, many);
            // What it is held against: the same server, and the same pace but for what is looked at.
            let is_base = |other: &PacedServer, pace: Pace, wanted| other.server == side.server && pace == wanted;
            let base = |wanted: Pace| {
                let found = sides().find(|(other, pace)| is_base(other, *pace, wanted));
                found.map(|(other, _)| other.name.as_str())
            };
            if let Idle::Sleep(span) = pace.idle {
                checks.sleeper(name, base(Pace { idle: Idle::Spin, ..pace }), span);
            }
            if let Idle::Adaptive { .. } = pace.idle {
                let cpu = checks.of(name, LOW, "server CPU");
                checks.add(format!("{name}: {LOW}: at most half a core"), cpu, " % of a core", |cpu| cpu <= 50.0);
            }
            if !pace.tx_delay.is_zero() {
                checks.holder(name, base(Pace { tx_delay: Duration::ZERO, ..pace }), pace.tx_delay, many);
            }
        }
        checks.found
    }
}

/// Expectations, each beside what was found.
struct Checks<'a> {
    arms: &'a [ArmResults],
    found: Vec<Check>,
}

impl Checks<'_> {
    fn of(&self, arm: &str, pass: &str, figure: &str) -> Option<f64> {
        self.arms.iter().find(|other| other.name == arm)?.median(&format!("{pass} {figure}"))
    }

    fn add(&mut self, what: String, value: Option<f64>, unit: &str, keeps: impl Fn(f64) -> bool) {
        let found = value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.1}{unit}"));
        self.found.push(Check { what, found, kept: value.map(keeps) });
    }

    /// By how much a figure is above that of another arm.
    fn above(&self, arm: &str, base: Option<&str>, pass: &str, figure: &str) -> Option<f64> {
        Some(self.of(arm, pass, figure)? - self.of(base?, pass, figure)?)
    }

    /// Rate × mean latency is the connections (Little, 1961).
    fn little(&mut self, arm: &str, pass: &str, connections: f64) {
        // Within each run: the medians of rates and of means come from different ones.
        let figure = |run: &Run, what: &str| run.figures.get(&format!("{pass} {what}")).copied();
        let product = |run: &Run| Some(figure(run, "rate")? * figure(run, "mean")? / 1e6);
        let runs = self.arms.iter().find(|other| other.name == arm).map_or(&[][..], |arm| &arm.runs);
        let off = |product: &f64| (product / connections - 1.0).abs();
        let furthest = runs.iter().filter_map(product).max_by(|one, other| off(one).total_cmp(&off(other)));
        let what = format!("{arm}: {pass}: rate × mean latency is {connections} within {:.0} %", 100.0 * LITTLE);
        self.add(what, furthest, " at the furthest", |product| off(&product) <= LITTLE);
    }

    /// Who sleeps by the clock: a request that comes at any time waits for
    /// half of the sleep, one that comes right after an answer for all of it.
    /// With many connections it depends on whether the server ever catches up
    /// with its clients, so nothing is expected there.
    fn sleeper(&mut self, arm: &str, base: Option<&str>, span: Duration) {
        let span = span.as_secs_f64() * 1e6;
        let more = self.above(arm, base, LOW, "mean");
        let what = format!("{arm}: {LOW}: mean above polling's by half of the sleep, 0.4 to 0.8 of it");
        self.add(what, more, " µs", |more| (0.4 * span..=0.8 * span).contains(&more));
        let more = self.above(arm, base, ONE, "p50");
        let what = format!("{arm}: {ONE}: median above polling's by the sleep, 0.9 to 1.3 of it");
        self.add(what, more, " µs", |more| (0.9 * span..=1.3 * span).contains(&more));
        let cpu = self.of(arm, LOW, "server CPU");
        self.add(format!("{arm}: {LOW}: at most a quarter of a core"), cpu, " % of a core", |cpu| cpu <= 25.0);
    }

    /// Who holds frames back: each answer comes later by the delay, and in a
    /// closed loop each connection gets at most one answer for each delay.
    fn holder(&mut self, arm: &str, base: Option<&str>, delay: Duration, many: f64) {
        let delay = delay.as_secs_f64() * 1e6;
        for (pass, figure) in [(LOW, "p50"), (ONE, "p50")] {
            let more = self.above(arm, base, pass, figure);
            let what = format!("{arm}: {pass}: median up by the delay, 0.8 to 1.4 of it");
            self.add(what, more, " µs", |more| (0.8 * delay..=1.4 * delay).contains(&more));
        }
        let (rate, most) = (self.of(arm, MANY, "rate"), many / delay * 1e6);
        let what = format!("{arm}: {MANY}: at most one answer for each connection and delay, {most:.0} requests/s");
        self.add(what, rate, " requests/s", |rate| rate <= 1.05 * most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(sides: &[(&str, &str, u64)]) -> Settings {
        let side = |(name, idle, tx_delay_us): &(&str, &str, u64)| PacedServer {
            name: (*name).to_owned(),
            server: PacedProgram::Nearside,
            idle: (*idle).to_owned(),
            tx_delay_us: *tx_delay_us,
        };
        Settings {
            rate: 1_000,
            connections: 64,
            milliseconds: 2_000,
            program: None,
            arms: sides.iter().map(side).collect(),
        }
    }

    /// An arm whose one run has these figures.
    fn arm(name: &str, figures: &[(&str, f64)]) -> ArmResults {
        let figures = figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        ArmResults {
            name: name.to_owned(),
            repeats: None,
            conditions: BTreeMap::new(),
            left_out: None,
            runs: vec![Run { figures, ..Run::default() }],
        }
    }

    fn kept(checks: &[Check], what: &str) -> Option<bool> {
        checks.iter().find(|check| check.what.contains(what)).expect(what).kept
    }

    fn checks(settings: &Settings, arms: &[ArmResults]) -> Vec<Check> {
        let paces = settings.arms.iter().map(|side| Pace {
            idle: side.idle.parse().expect("a policy"),
            tx_delay: Duration::from_micros(side.tx_delay_us),
        });
        let stand = Err("nothing is run".to_owned());
        Paces { settings: settings.clone(), paces: paces.collect(), stand }.checks(arms)
    }

    #[test]
    fn a_sleeper_is_held_against_who_polls() {
        let settings = settings(&[("0", "spin", 0), ("1 ms", "sleep:1ms", 0)]);
        let polls = arm("0", &[("low rate mean", 10.0), ("one connection p50", 5.0)]);
        let mut figures = [
            ("low rate mean", 520.0),
            ("low rate server CPU", 8.0),
            ("one connection p50", 1_060.0),
            ("one connection rate", 900.0),
            ("one connection mean", 1_110.0),
            ("many connections rate", 60_000.0),
            ("many connections mean", 900.0),
        ];
        let found = checks(&settings, &[polls.clone(), arm("1 ms", &figures)]);
        for what in ["half of the sleep", "by the sleep", "quarter of a core"] {
            assert_eq!(kept(&found, what), Some(true), "{what}");
        }
        assert_eq!(kept(&found, "1 ms: one connection: rate × mean"), Some(true));
        assert_eq!(kept(&found, "1 ms: many connections: rate × mean"), Some(false), "54 is not 64");
        assert_eq!(kept(&found, "0: one connection: rate × mean"), None, "not measured");
        figures[0].1 = 100.0;
        let found = checks(&settings, &[polls, arm("1 ms", &figures)]);
        assert_eq!(kept(&found, "half of the sleep"), Some(false));
    }

    /// Each server is held against itself.
    #[test]
    fn a_pace_is_held_against_that_of_the_same_server() {
        let mut settings =
            settings(&[("spins", "spin", 0), ("nginx spins", "spin", 0), ("nginx sleeps", "sleep:1ms", 0)]);
        settings.arms[1..].iter_mut().for_each(|side| side.server = PacedProgram::Nginx);
        let arms = [
            arm("spins", &[("low rate mean", 10.0)]),
            arm("nginx spins", &[("low rate mean", 400.0)]),
            arm("nginx sleeps", &[("low rate mean", 900.0)]),
        ];
        assert_eq!(kept(&checks(&settings, &arms), "half of the sleep"), Some(true), "500 µs above its own");
        settings.arms.remove(1);
        assert_eq!(kept(&checks(&settings, &arms), "half of the sleep"), None, "nothing to be held against");
    }

    /// Two runs that keep the law each; the medians of which would break it.
    #[test]
    fn rate_and_mean_are_multiplied_within_a_run() {
        let settings = settings(&[("0", "spin", 0)]);
        let runs: [&[(&str, f64)]; 3] = [
            &[("one connection rate", 100_000.0), ("one connection mean", 10.0)],
            &[("one connection rate", 50_000.0), ("one connection mean", 20.0)],
            &[("one connection rate", 90_000.0), ("one connection mean", 11.1)],
        ];
        let mut all = arm("0", runs[0]);
        all.runs.extend(runs[1..].iter().flat_map(|figures| arm("0", figures).runs));
        assert_eq!(kept(&checks(&settings, core::slice::from_ref(&all)), "0: one connection: rate × mean"), Some(true));
        all.runs.extend(arm("0", &[("one connection rate", 90_000.0), ("one connection mean", 20.0)]).runs);
        assert_eq!(kept(&checks(&settings, &[all]), "0: one connection: rate × mean"), Some(false));
    }

    #[test]
    fn who_holds_frames_is_held_against_who_does_not() {
        let settings = settings(&[("0", "spin", 0), ("100 µs", "spin", 100)]);
        let none = arm("0", &[("low rate p50", 10.0), ("one connection p50", 5.0)]);
        let some = arm("100 µs", &[("low rate p50", 112.0), ("one connection p50", 205.0)]);
        let found = checks(&settings, &[none, some]);
        assert_eq!(kept(&found, "100 µs: low rate: median"), Some(true));
        assert_eq!(kept(&found, "100 µs: one connection: median"), Some(false));
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let wrong = |settings: &Settings| Paces::new(settings).map(|_| ()).expect_err("it is wrong").to_string();
        assert!(wrong(&settings(&[])).contains("at least one"));
        assert!(wrong(&settings(&[("a", "doze", 0)])).contains("expected spin"));
        assert!(wrong(&Settings { milliseconds: 0, ..settings(&[("a", "spin", 0)]) }).contains("milliseconds"));
    }
}
