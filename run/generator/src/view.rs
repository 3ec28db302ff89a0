//! What the live view shows of a run, drawn from one moment and those before
//! it: nothing here asks the workers for anything.

use core::time::Duration;
use figures::{grouped, seconds, si};
use load::Stage;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};
use std::collections::VecDeque;

/// Rates kept for the curve: as many as a wide terminal has columns.
const HISTORY_LIMIT: usize = 512;

/// A run at a moment, over all of its threads.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Moment {
    /// How far it is.
    pub stage: Stage,
    /// Time since the first turn.
    pub elapsed: Duration,
    /// Time since the window opened.
    pub measured: Duration,
    /// The length of the window at most.
    pub planned: Duration,
    /// Responses per second lately.
    pub rate: f64,
    /// Requests per second that are asked for, in an open loop.
    pub target: Option<f64>,
    /// Connections open.
    pub open: u64,
    /// Connections asked for.
    pub connections: u64,
    /// Names and values of latency's percentiles, in nanoseconds.
    pub latency: Vec<(&'static str, u64)>,
    /// Failed requests and connects since the first turn.
    pub errors: u64,
    /// What speaks against the figures so far.
    pub warnings: Vec<String>,
}

/// Moments of a run, for the curve.
#[derive(Debug, Default)]
pub struct History {
    rates: VecDeque<u64>,
}

impl History {
    /// Adds a moment's rate; the oldest goes where there are too many.
    pub fn push(&mut self, moment: &Moment) {
        if self.rates.len() == HISTORY_LIMIT {
            self.rates.pop_front();
        }
        self.rates.push_back(moment.rate as u64);
    }

    /// The last rates, as many as fit into `width`.
    fn last(&self, width: u16) -> Vec<u64> {
        let skipped = self.rates.len().saturating_sub(usize::from(width));
        self.rates.iter().skip(skipped).copied().collect()
    }
}

/// What a stage is called.
#[must_use]
pub const fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Waiting => "waiting",
        Stage::Ramp => "connecting",
        Stage::WarmUp => "warming up",
        Stage::Measuring => "measuring",
        Stage::Ended => "done",
    }
}

/// Draws the view.
pub fn draw(frame: &mut Frame<'_>, title: &str, moment: &Moment, history: &History) {
    let warnings = u16::try_from(moment.warnings.len()).unwrap_or(u16::MAX).min(6);
    let [head, gauge, rate, latency, state, warned, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(4),
        Constraint::Length(3),
        Constraint::Length(1),
        Constraint::Length(warnings),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::styled(title.to_owned(), Style::new().add_modifier(Modifier::BOLD)), head);
    draw_progress(frame, gauge, moment);
    draw_rate(frame, rate, moment, history);
    draw_latency(frame, latency, moment);
    draw_state(frame, state, moment);
    let lines: Vec<Line<'_>> = moment
        .warnings
        .iter()
        .map(|text| Line::styled(format!("warning: {text}"), Style::new().fg(Color::Yellow)))
        .collect();
    frame.render_widget(Paragraph::new(lines), warned);
    let help = match moment.target {
        Some(_) => "q stop   + - change the rate by a tenth",
        None => "q stop",
    };
    frame.render_widget(Line::styled(help, Style::new().add_modifier(Modifier::DIM)), keys);
}

fn draw_progress(frame: &mut Frame<'_>, area: Rect, moment: &Moment) {
    let of = match moment.stage {
        Stage::Measuring => moment.measured.as_secs_f64() / moment.planned.as_secs_f64().max(1e-9),
        Stage::Ended => 1.0,
        Stage::Waiting | Stage::Ramp | Stage::WarmUp => 0.0,
    };
    let spent = match moment.stage {
        Stage::Measuring => format!("{:.0} s of {:.0} s", moment.measured.as_secs_f64(), moment.planned.as_secs_f64()),
        _ => format!("{:.0} s", moment.elapsed.as_secs_f64()),
    };
    let gauge = Gauge::default()
        .ratio(of.clamp(0.0, 1.0))
        .label(format!("{} {spent}", stage_name(moment.stage)))
        .gauge_style(Style::new().fg(Color::Blue));
    frame.render_widget(gauge, area);
}

fn draw_rate(frame: &mut Frame<'_>, area: Rect, moment: &Moment, history: &History) {
    let target = moment.target.map_or(String::new(), |target| format!(", target {}", si(target, "/s")));
    let title = format!(" requests {}{target} ", si(moment.rate, "/s"));
    let block = Block::bordered().title(title);
    let data = history.last(block.inner(area).width);
    frame.render_widget(Sparkline::default().data(data).block(block).style(Style::new().fg(Color::Green)), area);
}

fn draw_latency(frame: &mut Frame<'_>, area: Rect, moment: &Moment) {
    let mut spans = Vec::new();
    for (name, nanos) in &moment.latency {
        spans.push(Span::styled(format!(" {name} "), Style::new().add_modifier(Modifier::DIM)));
        spans.push(Span::raw(format!("{:<9}", seconds(*nanos as f64))));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)).block(Block::bordered().title(" latency ")), area);
}

fn draw_state(frame: &mut Frame<'_>, area: Rect, moment: &Moment) {
    let errors = match moment.errors {
        0 => Span::raw("no errors"),
        n => Span::styled(format!("{} errors", grouped(n)), Style::new().fg(Color::Red)),
    };
    let open = format!("{} of {} connections   ", grouped(moment.open), grouped(moment.connections));
    frame.render_widget(Line::from(vec![Span::raw(open), errors]), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn moment() -> Moment {
        Moment {
            stage: Stage::Measuring,
            elapsed: Duration::from_secs(14),
            measured: Duration::from_secs(12),
            planned: Duration::from_secs(30),
            rate: 114_034.0,
            target: Some(120_000.0),
            open: 1_000,
            connections: 1_024,
            latency: vec![("p50", 85_000), ("p99", 493_000), ("max", 4_150_000)],
            errors: 1_234,
            warnings: vec!["the generator's own core was busy".into()],
        }
    }

    fn drawn(moment: &Moment, history: &History, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("no terminal is needed");
        terminal.draw(|frame| draw(frame, "GET http://a/", moment, history)).expect("memory");
        let buffer = terminal.backend().buffer();
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        cells.chunks(usize::from(width)).map(|row| row.concat().trim_end().to_owned()).collect()
    }

    #[test]
    fn a_run_on_a_screen() {
        let mut history = History::default();
        for rate in [0.0, 50_000.0, 100_000.0] {
            history.push(&Moment { rate, ..moment() });
        }
        let rows = drawn(&moment(), &history, 60, 14);
        assert_eq!(rows[0], "GET http://a/");
        assert!(rows[1].contains("measuring 12 s of 30 s"), "{rows:#?}");
        assert!(rows[2].contains(" requests 114 k/s, target 120 k/s "), "{rows:#?}");
        assert!(rows[3].starts_with("│  █ ") && rows[4].starts_with("│  █ "), "as high as the box: {rows:#?}");
        assert!(rows[5].starts_with("│ ██ ") && rows[6].starts_with("│ ██ "), "half as high: {rows:#?}");
        assert!(rows[9].starts_with("│ p50 85.0 µs   p99 493 µs    max 4.15 ms "), "{rows:#?}");
        assert_eq!(rows[11], "1,000 of 1,024 connections   1,234 errors");
        assert_eq!(rows[12], "warning: the generator's own core was busy");
        assert_eq!(rows[13], "q stop   + - change the rate by a tenth");
    }

    #[test]
    fn a_small_screen_and_a_long_run_do_no_harm() {
        let mut history = History::default();
        for n in 0..2 * HISTORY_LIMIT {
            history.push(&Moment { rate: n as f64, ..moment() });
        }
        assert_eq!(history.last(3), [1_021, 1_022, 1_023]);
        let mut many = moment();
        many.warnings = vec!["x".repeat(500); 100];
        (many.planned, many.rate, many.target) = (Duration::ZERO, f64::NAN, None);
        for (width, height) in [(1, 1), (10, 3), (200, 60)] {
            drawn(&many, &history, width, height);
        }
        assert!(drawn(&many, &history, 60, 20).last().expect("rows").starts_with("q stop"));
    }
}
