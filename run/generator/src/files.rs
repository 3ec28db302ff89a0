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

/// A file whose content is there after the runs. What it holds is kept until
/// then.
#[derive(Debug)]
pub struct Later {
    path: PathBuf,
    file: File,
    /// Whether there was none: it goes where nothing comes to be in it.
    made: bool,
}

impl Drop for Later {
    fn drop(&mut self) {
        if self.made {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Later {
    /// Opens or makes the file.
    ///
    /// # Errors
    /// If it cannot be written, with its name.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        let made = File::options().write(true).create_new(true).open(path).map(|file| (file, true));
        let there = || File::options().write(true).create(true).truncate(false).open(path).map(|file| (file, false));
        let opened = made.or_else(|_| there());
        let (file, made) = opened.map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, made })
    }

    /// Writes it, in place of what it held.
    ///
    /// # Errors
    /// If it cannot be written, with its name.
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        self.made = false;
        // A device or a pipe has no length to cut.
        let regular = self.file.metadata().is_ok_and(|found| found.is_file());
        let cut = if regular { self.file.set_len(0) } else { Ok(()) };
        let written = cut.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|why| format!("cannot write {}: {why}", self.path.display()).into())
    }
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
        assert!(Later::prepare(Path::new("/dev/full")).expect("opens").write("x").is_err());
    }

    #[test]
    fn what_is_written_later_is_looked_at_now() {
        let told = Later::prepare(Path::new("/nowhere/at/all")).expect_err("no folder").to_string();
        assert!(told.contains("/nowhere/at/all"), "{told}");
        let path = std::env::temp_dir().join(format!("nearside-later-{}", std::process::id()));
        std::fs::write(&path, "what was there before").expect("a file");
        let later = Later::prepare(&path).expect("opens");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "what was there before");
        later.write("new").expect("writes");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "new");
        std::fs::remove_file(&path).expect("it was made");
        // Where nothing is measured, none is left behind.
        drop(Later::prepare(&path).expect("opens"));
        assert!(!path.exists());
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
