//! `nearside status --live` on a terminal: what running processes do from one look
//! to the next, by silo or worker, and by host and location.

use core::time::Duration;
use cpu::Clock;
use generator::terminal::Screen;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph};
use say::Failure;
use status::{Firsts, Looks, ProcessChange, StatusPlan, stopped_by_signals};
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals are looked for this often.
const PULSE: Duration = Duration::from_millis(200);

/// Prints the statistics of running processes, or shows them on this terminal, if
/// it is one.
///
/// # Errors
/// If the page named is none, or output cannot be written.
pub fn status(plan: &StatusPlan) -> Result<(), Failure> {
    if plan.has_screen() { live(plan) } else { status::status(plan) }
}

/// Shows changes until somebody ends it, or so many as were asked for.
fn live(plan: &StatusPlan) -> Result<(), Failure> {
    let stop = stopped_by_signals()?;
    let mut screen = Screen::take()?;
    let (mut looks, mut shown) = (Looks::new(plan)?, View::default());
    let (mut count, mut next) = (0, Clock.now() + plan.interval);
    while !stop.load(Ordering::Relaxed) && plan.count.is_none_or(|most| count < most) {
        if !wait(&mut shown, &mut screen, &stop, next)? {
            break;
        }
        next = Clock.now().max(next + plan.interval);
        shown.take(looks.again()?);
        count += 1;
        screen.draw(|frame| shown.draw(frame))?;
    }
    Ok(())
}

/// Waits for the next look, and does what keys say; whether it is to go on.
fn wait(shown: &mut View, screen: &mut Screen, stop: &AtomicBool, until: wire::Time) -> Result<bool, Failure> {
    loop {
        let left = until.since(Clock.now());
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if left.is_zero() {
            return Ok(true);
        }
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

/// What is shown.
#[derive(Debug, Default)]
struct View {
    changes: Vec<ProcessChange>,
    firsts: Firsts,
    /// The process that is shown, and lines of it that are not.
    at: usize,
    skipped: u16,
}

impl View {
    fn take(&mut self, changes: Vec<ProcessChange>) {
        self.firsts.note(&changes);
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
        let first = self.firsts.of(change.pid).unwrap_or("nothing was at its limit");
        frame.render_widget(Line::styled(first.to_owned(), Style::new().fg(Color::Yellow)), words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn two_processes() -> Vec<ProcessChange> {
        let process = |pid, limits: &[&str]| ProcessChange {
            pid,
            label: "serve".to_owned(),
            span: Duration::from_secs(1),
            silos: Vec::new(),
            places: Vec::new(),
            limits: limits.iter().map(|limit| (*limit).to_owned()).collect(),
        };
        vec![process(7, &[]), process(8, &["log lines were lost"])]
    }

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("no terminal is needed");
        terminal.draw(|frame| view.draw(frame)).expect("memory");
        terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn a_screen_of_any_size_shows_what_there_is() {
        let mut view = View::default();
        assert!(drawn(&view, 80, 10).contains("no process"));
        view.take(two_processes());
        assert!(drawn(&view, 100, 20).contains(" 7 serve (1 of 2) "));
        view.on_key('n');
        let second = drawn(&view, 100, 20);
        assert!(second.contains(" 8 serve (2 of 2) ") && second.contains("log lines were lost"), "{second}");
        // The first that was, and stays so.
        view.take(
            two_processes()
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
