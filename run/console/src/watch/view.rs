//! The live view: the line's history as curves, ports stacked over time, and
//! tables below. It is drawn from changes alone.

use ::watch::{Change, Figure, show};
use load::units::si;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Sparkline, Widget};
use std::collections::{BTreeMap, VecDeque};

/// Changes kept: as many as a wide terminal has columns.
const HISTORY_LIMIT: usize = 512;

/// Which table stands below the curves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Below {
    #[default]
    Cores,
    Ports,
    Domains,
    Process,
}

/// What is shown.
#[derive(Debug, Default)]
pub(super) struct View {
    history: VecDeque<Moment>,
    last: Option<Change>,
    words: String,
    below: Below,
    skipped: u16,
}

/// What a column of the curves is drawn from.
#[derive(Clone, PartialEq, Debug, Default)]
struct Moment {
    cpu: f64,
    /// Bits per second in and out, by port.
    ports: BTreeMap<String, f64>,
}

impl View {
    /// Adds a change; the oldest goes where there are too many.
    pub(super) fn push(&mut self, change: Change, words: String) {
        if self.history.len() == HISTORY_LIMIT {
            self.history.pop_front();
        }
        self.history.push_back(moment(&change));
        (self.last, self.words) = (Some(change), words);
    }

    pub(super) fn on_key(&mut self, key: char) {
        match key {
            'c' => self.below = Below::Cores,
            'p' => self.below = Below::Ports,
            'd' => self.below = Below::Domains,
            'i' => self.below = Below::Process,
            'j' => self.skipped = self.skipped.saturating_add(1),
            'k' => self.skipped = self.skipped.saturating_sub(1),
            _ => {}
        }
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let [head, line, curves, table, missing, words, keys] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(1),
            Constraint::Length(10),
            Constraint::Min(3),
            Constraint::Length(self.last.as_ref().map_or(0, |change| show::missing(change).len().min(4) as u16)),
            Constraint::Length(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(Paragraph::new(show::heads()).style(bold), head);
        let Some(change) = &self.last else {
            frame.render_widget(Line::raw("the first interval is not over"), line);
            return;
        };
        frame.render_widget(Line::raw(show::line(change)), line);
        self.curves(frame, curves, change);
        let (title, text) = self.table(change);
        let block = Block::bordered().title(title);
        frame.render_widget(Paragraph::new(text).scroll((self.skipped, 0)).block(block), table);
        frame.render_widget(Paragraph::new(show::missing(change).join("\n")), missing);
        frame.render_widget(Line::styled(self.words.clone(), Style::new().fg(Color::Yellow)), words);
        let help = "q end   c cores   p ports   d domains   i process   j k scroll";
        frame.render_widget(Line::styled(help, Style::new().add_modifier(Modifier::DIM)), keys);
    }

    fn table(&self, change: &Change) -> (&'static str, String) {
        match self.below {
            Below::Cores => (" cores ", show::cores(&change.cores)),
            Below::Ports => (" ports ", show::ports(&change.ports, &change.bypass)),
            Below::Domains => (" domains ", show::domains(&change.domains)),
            Below::Process => (
                " process ",
                change.process.as_ref().map_or_else(|| "none: name one with --pid".to_owned(), show::process),
            ),
        }
    }

    fn curves(&self, frame: &mut Frame<'_>, area: Rect, change: &Change) {
        let [left, right] = Layout::horizontal([Constraint::Percentage(40), Constraint::Percentage(60)]).areas(area);
        let percent = change.machine.get("cpu").and_then(Figure::value).unwrap_or(0.0);
        let block = Block::bordered().title(format!(" CPU {percent:.1} % "));
        let width = usize::from(block.inner(left).width);
        let recent = || self.history.iter().skip(self.history.len().saturating_sub(width));
        let data: Vec<u64> = recent().map(|moment| (moment.cpu * 10.0) as u64).collect();
        let sparkline = Sparkline::default().data(data).max(1_000).block(block).style(Style::new().fg(Color::Green));
        frame.render_widget(sparkline, left);
        let stack = Stack { moments: self.history.iter().collect() };
        frame.render_widget(stack, right);
    }
}

fn moment(change: &Change) -> Moment {
    let cpu = change.machine.get("cpu").and_then(Figure::value).unwrap_or(0.0);
    let ports = change.ports.iter().filter(|port| port.outward).map(|port| (port.name.clone(), &port.bits));
    let ours = change.bypass.iter().filter(|row| row.links).map(|row| (format!("nearside {}", row.pid), &row.bits));
    let sum = |bits: &[Figure; 2]| bits.iter().filter_map(Figure::value).sum::<f64>();
    Moment { cpu, ports: ports.chain(ours).map(|(name, bits)| (name, sum(bits))).collect() }
}

/// Ports' bandwidth, one upon the other, over time.
struct Stack<'a> {
    moments: Vec<&'a Moment>,
}

/// Each port's colour and, where colours do not show, its letter.
const COLOURS: [Color; 6] = [Color::Blue, Color::Magenta, Color::Cyan, Color::Yellow, Color::Red, Color::Green];

impl Widget for Stack<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let sum = |moment: &&Moment| moment.ports.values().sum::<f64>();
        let now = self.moments.last().map_or(0.0, sum);
        let mut names: Vec<&str> =
            self.moments.iter().flat_map(|moment| moment.ports.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        let block = Block::bordered().title(format!(" in and out {} ", si(now, "b/s")));
        let inner = block.inner(area);
        block.render(area, buffer);
        if inner.is_empty() {
            return;
        }
        let width = usize::from(inner.width);
        let shown = &self.moments[self.moments.len().saturating_sub(width)..];
        let most = shown.iter().map(sum).fold(1.0, f64::max);
        let height = inner.height - 1;
        for (column, moment) in shown.iter().enumerate() {
            let mut below = 0.0;
            for (port, name) in names.iter().enumerate() {
                let bits = moment.ports.get(*name).copied().unwrap_or(0.0);
                let rows = |bits: f64| (bits / most * f64::from(height)).round() as u16;
                let (from, until) = (rows(below), rows(below + bits).min(height));
                below += bits;
                for row in from..until {
                    let place = (inner.x + column as u16, inner.y + height - 1 - row);
                    if let Some(cell) = buffer.cell_mut(place) {
                        cell.set_char(letter(port))
                            .set_style(Style::new().fg(Color::Black).bg(COLOURS[port % COLOURS.len()]));
                    }
                }
            }
        }
        let legend: Vec<String> =
            names.iter().enumerate().map(|(port, name)| format!("{} {name}", letter(port))).collect();
        buffer.set_stringn(inner.x, inner.y + height, legend.join("  "), width, Style::new());
    }
}

fn letter(port: usize) -> char {
    char::from(b'a' + (port % 26) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::watch::{CoreCounters, PortCounters, Sample};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn change(at: u64, one: u64, other: u64) -> Change {
        let sample = |at: u64, later: bool| {
            let mut sample = Sample { at: at * 1_000_000_000, unix_ms: at * 1_000, ..Sample::default() };
            let ticks = if later { [50, 0, 0, 50, 0, 0, 0, 0, 0, 0] } else { [0; 10] };
            sample.cores.insert(0, CoreCounters { ticks, ..CoreCounters::default() });
            for (name, bytes) in [("eth0", one), ("eth1", other)] {
                let bytes = if later { [bytes, 0] } else { [0, 0] };
                sample.ports.insert(name.into(), PortCounters { bytes, device: true, ..PortCounters::default() });
            }
            sample
        };
        Change::between(&sample(at, false), &sample(at + 1, true)).expect("time passed")
    }

    fn drawn(view: &View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("no terminal is needed");
        terminal.draw(|frame| view.draw(frame)).expect("memory");
        let cells: Vec<&str> = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
        cells.chunks(usize::from(width)).map(|row| row.concat().trim_end().to_owned()).collect()
    }

    #[test]
    fn ports_stand_upon_each_other() {
        let mut view = View::default();
        view.push(change(0, 500, 0), String::new());
        view.push(change(1, 500, 500), "nothing was at its limit".into());
        let rows = drawn(&view, 140, 30);
        assert!(rows[0].contains("Gb/s") && rows[2].starts_with("00:00:02"), "{rows:#?}");
        assert!(rows[3].contains(" CPU 50.0 % ") && rows[3].contains(" in and out 8.00 kb/s "), "{rows:#?}");
        let column = |at: usize| -> String { (4..12).filter_map(|row| rows[row].chars().nth(57 + at)).collect() };
        let (first, second) = (column(0), column(1));
        assert!(second.contains("bbb") && second.contains("aaa") && second.find('b') < second.find('a'), "{rows:#?}");
        assert!(first.contains("aaa") && !first.contains('b'), "{rows:#?}");
        assert!(rows.iter().any(|row| row.contains("a eth0  b eth1")), "{rows:#?}");
        assert!(rows.iter().any(|row| row.starts_with("nothing was at its limit")), "{rows:#?}");
    }

    #[test]
    fn keys_choose_the_table_and_small_screens_do_no_harm() {
        let mut view = View::default();
        assert!(drawn(&view, 80, 20).iter().any(|row| row.contains("the first interval is not over")));
        for at in 0..2 * HISTORY_LIMIT as u64 {
            view.push(change(at, at, 1), "x".repeat(500));
        }
        assert_eq!(view.history.len(), HISTORY_LIMIT);
        for (key, title) in [('c', " cores "), ('p', " ports "), ('d', " domains "), ('i', " process ")] {
            view.on_key(key);
            assert!(drawn(&view, 100, 30).iter().any(|row| row.contains(title)), "{title}");
        }
        view.on_key('j');
        view.on_key('k');
        view.on_key('k');
        for (width, height) in [(1, 1), (10, 4), (30, 12), (300, 80)] {
            drawn(&view, width, height);
        }
    }
}
