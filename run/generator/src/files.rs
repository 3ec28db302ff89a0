//! Files that are written while a run lasts.

use crate::plan::OutputPlan;
use core::time::Duration;
use load::{Class, Interval, Recorder, Stage};
use report::{HdrLog, interval_json};
use say::Failure;
use say::eprintln;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The files of a run, one line or more for each interval. One that cannot be
/// written any more is given up with a message; the run goes on.
#[derive(Debug, Default)]
pub struct Files {
    ndjson: Option<Sink<File>>,
    hdr_log: Option<Sink<HdrLog<File>>>,
    failures: u32,
}

#[derive(Debug)]
struct Sink<T> {
    path: PathBuf,
    out: T,
}

/// Makes a file for results.
///
/// # Errors
/// If it cannot be made, with its name.
pub fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|why| format!("cannot write {}: {why}", path.display()).into())
}

impl Files {
    /// Makes the files that the plan names. `started` is the wall clock, since
    /// the Unix epoch, and `what` says what is measured.
    ///
    /// # Errors
    /// If one cannot be made.
    pub fn create(plan: &OutputPlan, started: Duration, what: &str) -> Result<Self, Failure> {
        let ndjson = match &plan.ndjson {
            Some(path) => Some(Sink { path: path.clone(), out: create(path)? }),
            None => None,
        };
        let hdr_log = match &plan.hdr_log {
            Some(path) => {
                let log = HdrLog::begin(create(path)?, started, what);
                let log = log.map_err(|why| format!("cannot write {}: {why}", path.display()))?;
                Some(Sink { path: path.clone(), out: log })
            }
            None => None,
        };
        Ok(Self { ndjson, hdr_log, failures: 0 })
    }

    /// Writes an interval.
    pub fn interval(&mut self, interval: &Interval) {
        self.failures += tend(&mut self.ndjson, |out| out.write_all(interval_json(interval).as_bytes()));
        self.failures += tend(&mut self.hdr_log, |out| log(out, interval));
    }

    /// Files that could not be written to their end.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

/// Writes to a file that is still kept up; gives it up if that fails. Returns
/// how many were given up.
fn tend<T>(sink: &mut Option<Sink<T>>, write: impl FnOnce(&mut T) -> io::Result<()>) -> u32 {
    let Some(Sink { path, out }) = sink else { return 0 };
    let Err(why) = write(out) else { return 0 };
    eprintln!("nearside: cannot write {}: {why}; the run goes on without it", path.display());
    *sink = None;
    1
}

/// Untagged, what the usual tools read: the latencies of the measured window.
/// Tagged, the warm-up, and the parts of which the latencies consist.
fn log(out: &mut HdrLog<File>, interval: &Interval) -> io::Result<()> {
    let (start, length) = (interval.start, interval.length());
    let samples = &interval.samples;
    let mut put = |tag: Option<&str>, recorder: &Recorder| match recorder.is_empty() && tag.is_some() {
        true => Ok(()),
        false => out.interval(tag, start, length, &recorder.histogram()),
    };
    if interval.stage != Stage::Measuring {
        return put(Some("warm-up"), &samples.latency());
    }
    put(None, &samples.latency())?;
    for class in Class::ALL {
        put(Some(class.name()), samples.class(class))?;
    }
    put(Some("uncorrected"), &samples.service)?;
    put(Some("lag"), &samples.lag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Form, ProgressKind};

    #[test]
    fn a_full_disk_gives_the_file_up_and_not_the_run() {
        // Every write to it fails with ENOSPC (full(4)).
        let mut files = Files::create(&OutputPlan { ndjson: Some("/dev/full".into()), ..plan() }, Duration::ZERO, "")
            .expect("opens");
        files.interval(&Interval::default());
        files.interval(&Interval::default());
        assert_eq!(files.failures(), 1);
        let log = OutputPlan { hdr_log: Some("/dev/full".into()), ..plan() };
        let told = Files::create(&log, Duration::ZERO, "").expect_err("the head does not fit").to_string();
        assert!(told.contains("/dev/full") && told.contains("No space left"), "{told}");
    }

    fn plan() -> OutputPlan {
        OutputPlan {
            form: Form::Text,
            ndjson: None,
            hdr_log: None,
            hgrm: None,
            svg: None,
            html: None,
            interval: Duration::from_secs(1),
            progress: ProgressKind::None,
            strict: false,
        }
    }
}
