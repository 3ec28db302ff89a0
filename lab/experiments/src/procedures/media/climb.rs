//! Steps of more and more streams, and the knee: the last step before streams ran dry, or the one in which
//! a core was full.

use crate::procedures::sides::put;
use crate::runs::{Figure, FigureCurve, FigurePoint, Run, RunVerdict};
use demo::played::StreamsPlayed;
use demo::stand::SATURATED;
use demo::watched::Watched;

/// From this share of what a ring alone reads on, the disk is what limits.
const DISK_FULL: f64 = 0.9;

/// Seconds that may be left out of a step without a word.
const LEFT_OUT: f64 = 0.1;

/// Of the knee.
pub(super) const KEPT: &str = "kept";
const CONNECTIONS: &str = "connections";
const CPU: &str = "CPU";
pub(super) const COST: &str = "CPU per Gbit/s";
pub(super) const MODELLED: &str = "moved, by the model";
pub(super) const COUNTED: &str = "moved, as counted";
pub(super) const READ: &str = "read from disk";
const FIRST_BYTE: &str = "first byte p99";
const LATE: &str = "late p99";
const CLIENT: &str = "generator's CPU";
/// Of the disk.
const DISK: &str = "disk alone";
/// Of each step beside these.
const RATE: &str = "Gbit/s";
pub(super) const DRY: &str = "ran dry";

/// The detail of a run that names the figures that it has not, each with the reason.
const NOT_MEASURED: &str = "not measured";

/// What a step gave. Times in milliseconds, shares of a core.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct FilmStep {
    streams: u32,
    /// Content.
    gbit: f64,
    cpu: f64,
    client: f64,
    first_byte: f64,
    late: f64,
    /// Streams that ran dry, or never played.
    dry: u64,
    /// The share of seconds that do not count.
    left_out: f64,
    failed: u64,
    others: f64,
    /// Bytes a second of disks.
    read: Option<f64>,
    /// Bytes that passed memory for each of content.
    pub(super) modelled: Option<f64>,
    pub(super) counted: Option<f64>,
    /// Why figures are not there, by their names.
    pub(super) unmeasured: Vec<(&'static str, String)>,
}

impl FilmStep {
    pub(super) fn of(streams: u32, played: &StreamsPlayed, watched: &Watched) -> Self {
        Self {
            streams,
            gbit: played.bits_per_second / 1e9,
            cpu: watched.server_cpu(),
            client: watched.client_cpu(),
            first_byte: played.first_byte.p99_ms(),
            late: played.late.p99_ms(),
            // Those that never played are among the dry, unless no second of theirs counts.
            dry: played.dry().max(u64::from(streams).saturating_sub(played.under_way)),
            left_out: played.left_out(),
            failed: played.failed(),
            others: watched.others(),
            read: watched.read,
            modelled: None,
            counted: None,
            unmeasured: Vec::new(),
        }
    }

    /// Why a figure of it is not there.
    fn why_not(&self, figure: &str) -> String {
        let told = self.unmeasured.iter().find(|(name, _)| *name == figure);
        told.map_or_else(|| "there is no sample of it".to_owned(), |(_, why)| why.clone())
    }

    /// Bytes of content in a second.
    pub(super) fn bytes(&self) -> f64 {
        self.gbit * 1e9 / 8.0
    }

    /// Bytes of disks for each of content.
    pub(super) fn disk_share(&self) -> Option<f64> {
        self.read.filter(|_| self.gbit > 0.0).map(|read| read / self.bytes())
    }

    /// Whether each stream had what it plays, in seconds that count.
    fn holds(&self) -> bool {
        self.dry == 0 && self.left_out < 1.0
    }

    /// Percent of a core for each Gbit/s.
    fn cost(&self) -> f64 {
        100.0 * self.cpu / self.gbit
    }

    /// What is full in it.
    fn full(&self, disk: f64) -> Option<&'static str> {
        match () {
            () if self.cpu >= SATURATED => Some("the server's core is full"),
            () if self.client >= SATURATED => Some("the generator's core is full"),
            () if self.read.is_some_and(|read| read >= DISK_FULL * disk) => Some("the disk gives no more"),
            () => None,
        }
    }

    /// Why no more streams are to be asked for, if so.
    fn end(&self, disk: f64) -> Option<String> {
        let streams = self.streams;
        match self.full(disk) {
            _ if self.left_out >= 1.0 => Some(format!(
                "at {streams} streams no second counts: the hypervisor had a core, or the generator was late"
            )),
            full if self.dry > 0 => {
                let why = full.map_or_else(String::new, |full| format!(", and {full}"));
                Some(format!("{} of {streams} streams ran dry{why}", self.dry))
            }
            full => full.map(|full| format!("{full} at {streams} streams")),
        }
    }
}

/// The steps of a run.
#[derive(Debug)]
pub(super) struct Climb {
    /// Bytes a second that a ring alone reads of the disk.
    disk: f64,
    steps: Vec<FilmStep>,
    end: Option<String>,
}

impl Climb {
    pub(super) const fn new(disk: f64) -> Self {
        Self { disk, steps: Vec::new(), end: None }
    }

    /// Adds a step. Whether to go on.
    pub(super) fn add(&mut self, step: FilmStep) -> bool {
        self.end = step.end(self.disk);
        self.steps.push(step);
        self.end.is_none()
    }

    /// The last step that held.
    fn knee(&self) -> Option<&FilmStep> {
        self.steps.iter().take_while(|step| step.holds()).last()
    }

    /// What it found, as a run has it.
    pub(super) fn run(&self) -> Run {
        let mut run = Run { errors: self.steps.iter().map(|step| step.failed).sum(), ..Run::default() };
        let figures = &mut run.figures;
        for step in &self.steps {
            let name = |what| of_step(step.streams, what);
            put(figures, &name(DRY), step.dry as f64);
            // Where no second counts there are no figures.
            if step.left_out < 1.0 {
                put(figures, &name(RATE), step.gbit);
                put(figures, &name(CPU), 100.0 * step.cpu);
                put(figures, &name(COST), step.cost());
                put(figures, &name(FIRST_BYTE), step.first_byte);
                put(figures, &name(LATE), step.late);
            }
        }
        put(figures, DISK, self.disk * 8.0 / 1e9);
        let knee = self.knee();
        if let Some(knee) = knee {
            put(figures, KEPT, knee.gbit);
            put(figures, CONNECTIONS, f64::from(knee.streams));
            put(figures, CPU, 100.0 * knee.cpu);
            put(figures, COST, knee.cost());
            put(figures, FIRST_BYTE, knee.first_byte);
            put(figures, LATE, knee.late);
            put(figures, CLIENT, 100.0 * knee.client);
            let shares = [(MODELLED, knee.modelled), (COUNTED, knee.counted), (READ, knee.disk_share())];
            shares.into_iter().filter_map(|(name, share)| Some((name, share?))).for_each(|(name, share)| {
                put(figures, name, share);
            });
            let missing = OF_KNEE.iter().filter(|name| !figures.contains_key(**name));
            let missing: Vec<String> = missing.map(|name| format!("{name} ({})", knee.why_not(name))).collect();
            if !missing.is_empty() {
                run.details.insert(NOT_MEASURED.to_owned(), missing.join("; "));
            }
            run.verdict = (knee.left_out > LEFT_OUT).then(|| RunVerdict {
                word: results::Worth::Partial.word().to_owned(),
                reasons: vec![format!("{:.0} % of the seconds at the knee do not count", 100.0 * knee.left_out)],
            });
        }
        let all = "all steps held: ask for more streams";
        let end = self.end.clone().unwrap_or_else(|| all.to_owned());
        let told = match knee {
            Some(knee) => format!("{} streams; {end}", knee.streams),
            None => format!("none: {end}"),
        };
        run.details.insert("knee".to_owned(), told);
        run.others = self.steps.iter().map(|step| step.others).reduce(f64::max);
        run
    }
}

/// What there is to be of each knee.
const OF_KNEE: [&str; 10] = [KEPT, CONNECTIONS, CPU, COST, MODELLED, COUNTED, READ, FIRST_BYTE, LATE, CLIENT];

/// The name of a figure of a step.
pub(super) fn of_step(streams: u32, what: &str) -> String {
    format!("{streams} streams {what}")
}

/// Those of the knee, and those of each step.
pub(super) fn figures(steps: &[u32]) -> Vec<Figure> {
    let mut figures = vec![
        Figure::higher(KEPT, "Gbit/s"),
        Figure::plain(CONNECTIONS, ""),
        Figure::plain(CPU, "% of a core"),
        Figure::lower(COST, "%"),
        Figure::plain(MODELLED, "bytes per byte sent"),
        Figure::plain(COUNTED, "bytes per byte sent"),
        Figure::plain(READ, "bytes per byte sent"),
        Figure::lower(FIRST_BYTE, "ms"),
        Figure::lower(LATE, "ms"),
        Figure::plain(CLIENT, "% of a core"),
        Figure::plain(DISK, "Gbit/s"),
    ];
    for streams in steps {
        let name = |what| of_step(*streams, what);
        figures.push(Figure::plain(&name(RATE), ""));
        figures.push(Figure::plain(&name(CPU), "% of a core"));
        figures.push(Figure::lower(&name(COST), "%"));
        figures.push(Figure::plain(&name(FIRST_BYTE), "ms"));
        figures.push(Figure::plain(&name(LATE), "ms"));
        figures.push(Figure::plain(&name(DRY), "streams"));
    }
    figures
}

/// The curve of some arms.
pub(super) fn curve(over: &str, arms: Vec<String>, steps: &[u32]) -> FigureCurve {
    let point = |streams: &u32| FigurePoint {
        x: of_step(*streams, RATE),
        y: of_step(*streams, CPU),
        spoilt_by: Some(of_step(*streams, DRY)),
    };
    FigureCurve {
        title: format!("Processor time by content sent, {over}: a point that does not count is beyond the knee"),
        arms,
        x: "content, Gbit/s".to_owned(),
        y: "CPU, % of a core".to_owned(),
        points: steps.iter().map(point).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of streams of 5 Mbit/s.
    fn step(streams: u32, cpu: f64, dry: u64) -> FilmStep {
        FilmStep {
            streams,
            gbit: f64::from(streams) * 0.005,
            cpu,
            client: 0.5,
            first_byte: 2.0,
            late: 0.0,
            dry,
            left_out: 0.0,
            failed: 1,
            others: cpu / 10.0,
            read: Some(f64::from(streams) * 0.005e9 / 8.0 / 2.0),
            modelled: Some(2.0),
            counted: None,
            unmeasured: vec![(COUNTED, "nothing counts it".to_owned())],
        }
    }

    fn climbed(disk: f64, steps: &[FilmStep]) -> (Run, usize) {
        let mut climb = Climb::new(disk);
        let went_on = steps.iter().take_while(|step| climb.add((*step).clone())).count();
        (climb.run(), went_on)
    }

    #[test]
    fn the_knee_is_the_last_step_before_streams_run_dry() {
        let steps = [step(100, 0.1, 0), step(200, 0.25, 0), step(400, 0.6, 3), step(800, 0.9, 0)];
        let (run, went_on) = climbed(1e9, &steps);
        assert_eq!(went_on, 2, "no step after that");
        let of = |name: &str| run.figures.get(name).copied();
        assert_eq!((of(KEPT), of(CONNECTIONS), of(CPU), of(COST)), (Some(1.0), Some(200.0), Some(25.0), Some(25.0)));
        assert_eq!((of(MODELLED), of(COUNTED), of(READ), of(DISK)), (Some(2.0), None, Some(0.5), Some(8.0)));
        assert_eq!(
            (of("400 streams ran dry"), of("400 streams CPU"), of("800 streams CPU")),
            (Some(3.0), Some(60.0), None)
        );
        assert_eq!(run.details["knee"], "200 streams; 3 of 400 streams ran dry");
        assert_eq!(run.details[NOT_MEASURED], "moved, as counted (nothing counts it)");
        assert_eq!((run.errors, run.others, run.verdict), (3, Some(0.06), None));
        let known: Vec<String> = figures(&[100, 200, 400]).into_iter().map(|figure| figure.name).collect();
        assert!(run.figures.keys().all(|name| known.contains(name)), "{:?}", run.figures);
    }

    #[test]
    fn what_is_full_ends_it_and_is_told() {
        let (run, went_on) = climbed(1e9, &[step(100, 0.5, 0), step(200, 0.96, 0), step(400, 0.99, 0)]);
        assert_eq!((went_on, run.figures[KEPT]), (1, 1.0), "a step with a full core counts as long as it holds");
        assert_eq!(run.details["knee"], "200 streams; the server's core is full at 200 streams");
        let busy = FilmStep { client: 1.0, ..step(200, 0.4, 7) };
        let (run, _) = climbed(1e9, &[step(100, 0.2, 0), busy]);
        assert_eq!(run.details["knee"], "100 streams; 7 of 200 streams ran dry, and the generator's core is full");
        let (run, _) = climbed(34e6, &[step(50, 0.2, 0), step(100, 0.2, 0)]);
        assert_eq!(run.details["knee"], "100 streams; the disk gives no more at 100 streams");
        let (run, _) = climbed(1e9, &[step(100, 0.2, 0)]);
        assert!(run.details["knee"].ends_with("all steps held: ask for more streams"));
    }

    #[test]
    fn what_is_not_there_is_named_with_its_reason() {
        let blind = FilmStep { first_byte: f64::NAN, read: None, counted: Some(3.0), ..step(100, 0.2, 0) };
        let unmeasured = vec![(READ, "the kernel does not count it".to_owned())];
        let (run, _) = climbed(1e9, &[FilmStep { unmeasured, ..blind }]);
        let told = "read from disk (the kernel does not count it); first byte p99 (there is no sample of it)";
        assert_eq!(run.details[NOT_MEASURED], told);
        let (run, _) = climbed(1e9, &[FilmStep { counted: Some(3.0), ..step(100, 0.2, 0) }]);
        assert!(!run.details.contains_key(NOT_MEASURED));
        // All figures of a knee are told of, and no other.
        let known: Vec<String> = figures(&[]).into_iter().map(|figure| figure.name).collect();
        assert!(OF_KNEE.iter().all(|name| known.iter().any(|known| known == name)));
        assert_eq!(known.len(), OF_KNEE.len() + 1, "and the disk's own");
    }

    #[test]
    fn seconds_that_do_not_count_are_no_figures() {
        let (run, _) = climbed(1e9, &[FilmStep { left_out: 1.0, ..step(100, 0.2, 0) }]);
        assert_eq!(run.figures.keys().collect::<Vec<_>>(), ["100 streams ran dry", DISK]);
        assert!(run.details["knee"].starts_with("none: at 100 streams no second counts"));
        let (run, _) = climbed(1e9, &[FilmStep { left_out: 0.25, ..step(100, 0.2, 0) }]);
        let verdict = run.verdict.expect("a part was left out");
        assert_eq!(
            (verdict.word.as_str(), verdict.reasons[0].as_str()),
            ("PARTIAL", "25 % of the seconds at the knee do not count")
        );
    }

    #[test]
    fn a_curve_goes_through_the_steps_that_held() {
        let curve = curve("TLS", vec!["a".to_owned()], &[100, 200]);
        let known: Vec<String> = figures(&[100, 200]).into_iter().map(|figure| figure.name).collect();
        for point in &curve.points {
            let names = [Some(&point.x), Some(&point.y), point.spoilt_by.as_ref()];
            assert!(names.into_iter().flatten().all(|name| known.contains(name)), "{point:?}");
        }
        assert_eq!(curve.points.len(), 2);
    }
}
