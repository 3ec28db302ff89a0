//! `nearside status --live`: what running processes do from one look to the next,
//! by silo or worker, and by host and location.

use super::change::{PageLook, ProcessChange};
use crate::plan::StatusPlan;
use core::time::Duration;
use generator::terminal::Screen;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph};
use say::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use silo::Clock;
use silo::page::{Reader, living_of_user};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write, stderr, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals are looked for this often.
const PULSE: Duration = Duration::from_millis(200);

/// Shows changes until somebody ends it, or so many as were asked for: on the
/// screen where there is one, else a line of JSON or some lines of text each.
///
/// # Errors
/// If the page named is none, or output cannot be written.
pub(super) fn live(plan: &StatusPlan) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut screen = if has_terminal() && !plan.ndjson { Some(Screen::take()?) } else { None };
    let mut shown = View::default();
    let mut before: BTreeMap<u32, PageLook> = look(plan)?;
    let (mut count, mut next) = (0, Clock.now() + plan.interval);
    while !stop.load(Ordering::Relaxed) && plan.count.is_none_or(|most| count < most) {
        if !wait(&mut shown, screen.as_mut(), &stop, next)? {
            break;
        }
        next = Clock.now().max(next + plan.interval);
        let now = look(plan)?;
        let changes = now.iter().filter_map(|(pid, look)| ProcessChange::between(before.get(pid)?, look)).collect();
        before = now;
        count += 1;
        shown.take(changes);
        match &mut screen {
            Some(screen) => screen.draw(|frame| shown.draw(frame))?,
            None => write(&shown, plan.ndjson)?,
        }
    }
    Ok(())
}

/// Whether there is a screen to draw on, and keys.
pub(super) fn has_terminal() -> bool {
    stdout().is_terminal() && stderr().is_terminal() && stdin().is_terminal()
}

fn look(plan: &StatusPlan) -> Result<BTreeMap<u32, PageLook>, Failure> {
    let readers = match &plan.page {
        Some(path) => vec![Reader::open(path)?],
        None => living_of_user()?,
    };
    // One may go away meanwhile.
    Ok(readers.iter().filter_map(|reader| Some((reader.pid(), PageLook::take(reader)?))).collect())
}

/// Waits for the next look, and does what keys say; whether it is to go on.
fn wait(shown: &mut View, screen: Option<&mut Screen>, stop: &AtomicBool, until: wire::Time) -> Result<bool, Failure> {
    let mut screen = screen;
    loop {
        let left = until.since(Clock.now());
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if left.is_zero() {
            return Ok(true);
        }
        let Some(screen) = screen.as_mut() else {
            std::thread::sleep(left.min(PULSE));
            continue;
        };
        let Some(key) = screen.key(left.min(PULSE))? else { continue };
        if ends(key) {
            return Ok(false);
        }
        if let KeyCode::Char(char) = key.code {
            shown.on_key(char);
            screen.draw(|frame| shown.draw(frame))?;
        }
    }
}

fn ends(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    control || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

fn write(shown: &View, ndjson: bool) -> Result<(), Failure> {
    let mut out = stdout().lock();
    for change in &shown.changes {
        let first = shown.first.get(&change.pid).map(String::as_str);
        if ndjson {
            writeln!(out, "{}", change.json(first))?;
        } else {
            write!(out, "{}", change.text(first))?;
        }
    }
    // Whoever reads a pipe is to have it now.
    Ok(out.flush()?)
}

/// What is shown.
#[derive(Debug, Default)]
struct View {
    changes: Vec<ProcessChange>,
    /// What of each process was at its limit first.
    first: BTreeMap<u32, String>,
    /// The process that is shown, and lines of it that are not.
    at: usize,
    skipped: u16,
}

impl View {
    fn take(&mut self, changes: Vec<ProcessChange>) {
        for change in &changes {
            if let Some(limit) = change.limits.first() {
                self.first.entry(change.pid).or_insert_with(|| limit.clone());
            }
        }
        self.changes = changes;
    }

    fn on_key(&mut self, key: char) {
        match key {
            'n' => (self.at, self.skipped) = (self.at + 1, 0),
            'j' => self.skipped = self.skipped.saturating_add(1),
            'k' => self.skipped = self.skipped.saturating_sub(1),
            _ => {}
        }
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [body, words, keys] =
            Layout::vertical([Constraint::Min(3), Constraint::Length(1), Constraint::Length(1)]).areas(frame.area());
        let dim = Style::new().add_modifier(Modifier::DIM);
        frame.render_widget(Line::styled("q end   n next process   j k scroll", dim), keys);
        let Some(change) = self.changes.get(self.at % self.changes.len().max(1)) else {
            frame.render_widget(Line::raw("no process of this user publishes statistics"), body);
            return;
        };
        let title = format!(
            " {} {} ({} of {}) ",
            change.pid,
            change.label,
            self.at % self.changes.len() + 1,
            self.changes.len()
        );
        let text = change.tables();
        frame.render_widget(Paragraph::new(text).scroll((self.skipped, 0)).block(Block::bordered().title(title)), body);
        let first = self.first.get(&change.pid).map_or("nothing was at its limit", String::as_str);
        frame.render_widget(Line::styled(first.to_owned(), Style::new().fg(Color::Yellow)), words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("no terminal is needed");
        terminal.draw(|frame| view.draw(frame)).expect("memory");
        terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn a_screen_of_any_size_shows_what_there_is() {
        let mut view = View::default();
        assert!(drawn(&view, 80, 10).contains("no process"));
        view.take(super::super::change::tests::two_processes());
        assert!(drawn(&view, 100, 20).contains(" 7 serve (1 of 2) "));
        view.on_key('n');
        let second = drawn(&view, 100, 20);
        assert!(second.contains(" 8 serve (2 of 2) ") && second.contains("log lines were lost"), "{second}");
        // The first that was, and stays so.
        view.take(
            super::super::change::tests::two_processes()
                .into_iter()
                .map(|mut one| {
                    one.limits = vec!["other".to_owned()];
                    one
                })
                .collect(),
        );
        assert!(drawn(&view, 100, 20).contains("log lines were lost"));
        for (width, height) in [(1, 1), (5, 3), (300, 90)] {
            view.on_key('j');
            drawn(&view, width, height);
        }
    }
}
