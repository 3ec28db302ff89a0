//! `nearside watch`: samples of this machine or of a recording, and what
//! happened between them, shown as asked for.

mod gather;
mod mallocs;
mod metrics;
mod process;
mod profile;
mod serving;
mod view;

use crate::lab::write_page;
use crate::plan::{WatchForm, WatchPlan};
use ::watch::{Change, Sample, SampleReader, Saturation, show};
use environment::{ResultKind, ResultOrigin};
use gather::Gatherer;
use generator::terminal::Screen;
use metrics::Server;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use say::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal, Write, stderr, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use view::View;

/// Heads are printed again after so many lines.
const HEADS: u64 = 20;

/// Shows samples until somebody ends it, or so many as were asked for.
///
/// # Errors
/// If a file or an address cannot be had, or output cannot be written.
pub fn watch(plan: &WatchPlan) -> Result<ExitCode, Failure> {
    let live =
        plan.form == WatchForm::Best && stdout().is_terminal() && stderr().is_terminal() && stdin().is_terminal();
    let mut source = Source::open(plan, live)?;
    let mut record = begun(plan)?;
    // Not before, nor where lines are read from a file that may be a pipe on which nothing comes: a signal ends
    // the program there.
    let stop = Arc::new(AtomicBool::new(false));
    if live || plan.replay.is_none() {
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
    }
    let server = plan.openmetrics.map(Server::listen).transpose()?;
    let mut screen = if live { Some(Screen::take()?) } else { None };
    let mut shown = Shown {
        plan,
        saturation: Saturation::default(),
        changes: 0,
        view: View::of(plan.pid.is_some() || plan.tracing.mallocs),
    };
    let mut before: Option<Sample> = None;
    let mut waits = Waits { next: perf::clock::raw(), length: plan.interval };
    while !stop.load(Ordering::Relaxed) {
        let Some(sample) = source.next()? else {
            // What was recorded can be looked at until somebody ends it.
            while let Some(screen) = &mut screen
                && shown.keys(screen, &mut waits, &stop)?
            {}
            break;
        };
        if let Some((file, path)) = &mut record {
            let written = file.write_all(line(plan, &sample, before.is_none())?.as_bytes()).and_then(|()| file.flush());
            written.map_err(|why| format!("{}: {why}", path.display()))?;
        }
        if let Some(server) = &server {
            server.show(&sample);
        }
        if let Some(earlier) = &before {
            let change = Change::between(earlier, &sample)?;
            shown.on_change(&change, screen.as_mut())?;
        }
        before = Some(sample);
        if plan.count.is_some_and(|count| shown.changes >= count) {
            break;
        }
        let goes_on = match (&mut screen, &source) {
            (Some(screen), _) => shown.keys(screen, &mut waits, &stop)?,
            (None, Source::Machine(_)) => waits.sleep(&stop),
            (None, Source::SampleReader(..)) => true,
        };
        if !goes_on {
            break;
        }
    }
    // The screen goes before the last words.
    drop(screen);
    if let Some(path) = &plan.replay
        && shown.changes == 0
    {
        return Err(format!("{}: it has fewer than two samples, and so no interval", path.display()).into());
    }
    shown.end()?;
    // What was recorded is written to its end before it is read.
    drop(record);
    keep_page(plan)?;
    Ok(ExitCode::SUCCESS)
}

/// The recording, made, if there is to be one. Where its page goes is looked at before it.
fn begun(plan: &WatchPlan) -> Result<Option<(BufWriter<File>, &PathBuf)>, Failure> {
    plan.html.as_deref().map_or(Ok(()), results::expect_writable)?;
    let Some(path) = &plan.record else { return Ok(None) };
    let file = File::create(path).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(Some((BufWriter::new(file), path)))
}

/// A sample's line. At the head of the first one stands what all results have there; what is replayed is of the machine
/// that it was recorded on, and has none.
fn line(plan: &WatchPlan, sample: &Sample, first: bool) -> Result<String, Failure> {
    if plan.replay.is_some() || !first {
        return Ok(sample.line());
    }
    let mut value = serde_json::to_value(sample)?;
    let schema = value["schema"].clone();
    crate::node::origin(&mut value, ResultKind::Recording, true)?;
    value["schema"] = schema;
    Ok(format!("{value}\n"))
}

/// Writes the page of what was recorded or replayed, if there is to be one.
fn keep_page(plan: &WatchPlan) -> Result<(), Failure> {
    let (Some(place), Some(file)) = (&plan.html, plan.record.as_ref().or(plan.replay.as_ref())) else { return Ok(()) };
    let mut page = results::page(&results::texts(file)?)?;
    page.head.command = ResultOrigin::now().command;
    write_page(place, &page)
}

/// Where samples come from.
enum Source {
    Machine(Box<Gatherer>),
    SampleReader(Box<SampleReader<BufReader<File>>>, PathBuf),
}

impl Source {
    fn open(plan: &WatchPlan, live: bool) -> Result<Self, Failure> {
        match &plan.replay {
            Some(path) => {
                let file = File::open(path).map_err(|why| format!("{}: {why}", path.display()))?;
                Ok(Self::SampleReader(Box::new(SampleReader::new(BufReader::new(file))), path.clone()))
            }
            None => Ok(Self::Machine(Box::new(Gatherer::new(plan, live)?))),
        }
    }

    fn next(&mut self) -> Result<Option<Sample>, String> {
        match self {
            Self::Machine(gatherer) => Ok(Some(gatherer.sample())),
            Self::SampleReader(recording, path) => recording.read().map_err(|why| format!("{}: {why}", path.display())),
        }
    }
}

/// The times at which samples are taken: in step, whatever showing took.
struct Waits {
    next: u64,
    length: Duration,
}

impl Waits {
    /// How long it is to the next; of those that were missed none is made up for.
    fn ahead(&mut self) -> Duration {
        let (now, length) = (perf::clock::raw(), u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX).max(1));
        while self.next <= now {
            let missed = (now - self.next) / length;
            self.next = self.next.saturating_add(length.saturating_mul(missed + 1));
        }
        Duration::from_nanos(self.next - now)
    }

    /// Sleeps; whether it is to go on.
    fn sleep(&mut self, stop: &AtomicBool) -> bool {
        /// A signal may come just before a sleep.
        const LONGEST: Duration = Duration::from_millis(500);
        let mut left = self.ahead();
        while !stop.load(Ordering::Relaxed) {
            if left <= LONGEST {
                std::thread::sleep(left);
                return !stop.load(Ordering::Relaxed);
            }
            std::thread::sleep(LONGEST);
            left = left.saturating_sub(LONGEST);
        }
        false
    }
}

/// What has been shown.
struct Shown<'a> {
    plan: &'a WatchPlan,
    saturation: Saturation,
    changes: u64,
    view: View,
}

impl Shown<'_> {
    fn on_change(&mut self, change: &Change, screen: Option<&mut Screen>) -> Result<(), Failure> {
        self.saturation.on_change(change);
        self.changes += 1;
        if let Some(screen) = screen {
            self.view.push(change.clone(), self.saturation.words());
            return Ok(screen.draw(|frame| self.view.draw(frame))?);
        }
        let mut out = stdout().lock();
        match self.plan.form {
            WatchForm::Ndjson => {
                let mut whole = serde_json::to_value(change)?;
                whole["first_at_its_limit"] = self.saturation.words().into();
                writeln!(out, "{whole}")?;
            }
            WatchForm::Text | WatchForm::Best => self.text(&mut out, change)?,
        }
        // Whoever reads a pipe is to have it now.
        Ok(out.flush()?)
    }

    fn text(&self, out: &mut impl Write, change: &Change) -> std::io::Result<()> {
        let plan = self.plan;
        let mallocs = (plan.tracing.mallocs && plan.pid.is_none()) || !change.mallocs.is_empty();
        let tables = plan.cores || plan.domains || plan.ports || plan.pid.is_some() || mallocs;
        if self.changes == 1 {
            for why in show::missing(change) {
                writeln!(out, "{why}")?;
            }
        }
        if plan.line {
            if tables || self.changes % HEADS == 1 {
                write!(out, "{}", show::heads())?;
            }
            writeln!(out, "{}", show::line(change))?;
        } else {
            writeln!(out, "{} UTC", show::clock(change.unix_ms))?;
        }
        if plan.cores {
            write!(out, "{}{}", show::totals(change), show::cores(&change.cores))?;
        }
        if plan.domains {
            write!(out, "{}", show::domains(&change.domains))?;
        }
        if plan.ports {
            write!(out, "{}{}", show::ports(&change.ports, &change.bypass), show::tcp(change))?;
        }
        if mallocs {
            write!(out, "{}", show::mallocs(&change.mallocs))?;
        }
        match &change.process {
            Some(row) => write!(out, "{}", show::process(row))?,
            None if plan.pid.is_some() => writeln!(out, "process {}: it has ended", plan.pid.unwrap_or(0))?,
            None => {}
        }
        if tables { writeln!(out) } else { Ok(()) }
    }

    /// Waits for the next interval, and does what keys say; whether it is to go
    /// on.
    fn keys(&mut self, screen: &mut Screen, waits: &mut Waits, stop: &AtomicBool) -> Result<bool, Failure> {
        let ahead = waits.ahead();
        let until = perf::clock::raw() + u64::try_from(ahead.as_nanos()).unwrap_or(u64::MAX);
        while !stop.load(Ordering::Relaxed) {
            let left = until.saturating_sub(perf::clock::raw());
            if left == 0 {
                return Ok(true);
            }
            let Some(key) = screen.key(Duration::from_nanos(left))? else { continue };
            if ends(key) {
                return Ok(false);
            }
            self.view.on_key(key.code);
            screen.draw(|frame| self.view.draw(frame))?;
        }
        Ok(false)
    }

    fn end(&self) -> Result<(), Failure> {
        if self.plan.form == WatchForm::Ndjson || self.changes == 0 {
            return Ok(());
        }
        let mut out = stdout().lock();
        Ok(writeln!(out, "{}", self.saturation.words())?)
    }
}

fn ends(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    control || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_in_step_and_missed_ones_are_not_made_up_for() {
        let now = perf::clock::raw();
        let length = Duration::from_secs(3_600);
        let mut waits = Waits { next: now.saturating_sub(10_000_000_000), length };
        let ahead = waits.ahead();
        assert!(ahead <= length && ahead > length - Duration::from_secs(60), "{ahead:?}");
        let again = waits.ahead();
        assert!(again <= ahead, "the same one: {again:?}");
    }
}
