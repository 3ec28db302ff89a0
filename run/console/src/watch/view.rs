//! The live view: the line's history as curves, ports stacked over time, and
//! tables below. It is drawn from changes alone, of which those before can be
//! looked at again.

use ::watch::{Change, Figure, show};
use figures::si;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Sparkline, Widget, Wrap};
use std::collections::{BTreeMap, VecDeque};

/// Changes whose curves are kept: as many as a wide terminal has columns.
const HISTORY_LIMIT: usize = 512;

/// Rows of those that are kept whole: machines of hundreds of cores have as many
/// in each.
const ROWS_LIMIT: usize = 50_000;

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
    /// For the curves.
    history: VecDeque<Moment>,
    /// The latest of them whole, with the words of their time.
    whole: VecDeque<(Change, String)>,
    /// Rows of these.
    rows: usize,
    /// How many changes ago is looked at.
    ago: usize,
    below: Below,
    skipped: u16,
    across: u16,
}

/// What a column of the curves is drawn from.
#[derive(Clone, PartialEq, Debug, Default)]
struct Moment {
    cpu: f64,
    /// Bits per second in and out, by port.
    ports: BTreeMap<String, f64>,
}

/// Lines that texts need at a width, about.
fn lines(texts: &[String], width: u16) -> usize {
    texts.iter().map(|text| text.chars().count().div_ceil(usize::from(width.max(1))).max(1)).sum()
}

/// Rows that a change holds.
fn rows(change: &Change) -> usize {
    1 + change.cores.len() + change.ports.len() + change.domains.len() + change.bypass.len()
}

impl View {
    /// With the table of the process, or of cores, below.
    pub(super) fn of(process: bool) -> Self {
        Self { below: if process { Below::Process } else { Below::Cores }, ..Self::default() }
    }

    /// Adds a change; the oldest goes where there are too many.
    pub(super) fn push(&mut self, change: Change, words: String) {
        if self.history.len() == HISTORY_LIMIT {
            self.history.pop_front();
        }
        self.history.push_back(moment(&change));
        self.rows += rows(&change);
        self.whole.push_back((change, words));
        while self.whole.len() > HISTORY_LIMIT || (self.rows > ROWS_LIMIT && self.whole.len() > 1) {
            self.rows -= self.whole.pop_front().map_or(0, |(change, _)| rows(&change));
        }
        // Who looks back goes on looking at the same.
        if self.ago > 0 {
            self.ago = (self.ago + 1).min(self.whole.len() - 1);
        }
    }

    pub(super) fn on_key(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char('c') => self.below = Below::Cores,
            KeyCode::Char('p') => self.below = Below::Ports,
            KeyCode::Char('d') => self.below = Below::Domains,
            KeyCode::Char('i') => self.below = Below::Process,
            KeyCode::Char('j') | KeyCode::Down => self.skipped = self.skipped.saturating_add(1),
            KeyCode::Char('k') | KeyCode::Up => self.skipped = self.skipped.saturating_sub(1),
            KeyCode::PageDown => self.skipped = self.skipped.saturating_add(PAGE),
            KeyCode::PageUp => self.skipped = self.skipped.saturating_sub(PAGE),
            KeyCode::Char('l') => self.across = self.across.saturating_add(ASIDE),
            KeyCode::Char('h') => self.across = self.across.saturating_sub(ASIDE),
            KeyCode::Left => self.ago = (self.ago + 1).min(self.whole.len().saturating_sub(1)),
            KeyCode::Right => self.ago = self.ago.saturating_sub(1),
            KeyCode::Home => self.ago = self.whole.len().saturating_sub(1),
            KeyCode::End => self.ago = 0,
            _ => return,
        }
        if matches!(key, KeyCode::Char('c' | 'p' | 'd' | 'i')) {
            (self.skipped, self.across) = (0, 0);
        }
    }

    /// The change that is looked at, and what was at its limit by then.
    fn shown(&self) -> Option<&(Change, String)> {
        self.whole.get(self.whole.len().checked_sub(self.ago + 1)?)
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let Some((change, words)) = self.shown() else {
            frame.render_widget(Paragraph::new(show::heads()), area);
            let below = Rect { y: area.y.saturating_add(2), height: area.height.saturating_sub(2).min(1), ..area };
            frame.render_widget(Line::raw("the first interval is not over"), below);
            return;
        };
        let pieces = show::pieces(change, usize::from(area.width));
        let missing = show::missing(change);
        let height = |lines: usize, most: u16| u16::try_from(lines).unwrap_or(most).min(most);
        // What was full first may need more than one line.
        let said = lines(core::slice::from_ref(words), area.width);
        let [line, curves, table, reasons, last, keys] = Layout::vertical([
            Constraint::Length(height(3 * pieces.len(), area.height / 2)),
            Constraint::Length((area.height * 3 / 10).clamp(4, 12)),
            Constraint::Min(3),
            Constraint::Length(height(lines(&missing, area.width), 3)),
            Constraint::Length(height(said, 2)),
            Constraint::Length(1),
        ])
        .areas(area);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let rows = pieces.iter().flat_map(|[upper, lower, line]| {
            [Line::styled(upper.as_str(), bold), Line::styled(lower.as_str(), bold), Line::raw(line.as_str())]
        });
        frame.render_widget(Paragraph::new(rows.collect::<Vec<Line<'_>>>()), line);
        self.curves(frame, curves, change);
        let (title, text) = self.table(change);
        let title = match self.ago {
            0 => format!(" {title} "),
            ago => format!(" {title}, {} UTC, {ago} back ", show::clock(change.unix_ms)),
        };
        let block = Block::bordered().title(title);
        // Beyond the table's end there is nothing to see.
        let most = u16::try_from(text.lines().count()).unwrap_or(u16::MAX).saturating_sub(block.inner(table).height);
        let skipped = self.skipped.min(most);
        frame.render_widget(Paragraph::new(text).scroll((skipped, self.across)).block(block), table);
        let wrap = Wrap { trim: true };
        frame.render_widget(Paragraph::new(missing.join("\n")).wrap(wrap), reasons);
        let wrapped = Paragraph::new(words.as_str()).wrap(wrap);
        frame.render_widget(wrapped.style(Style::new().fg(Color::Yellow)), last);
        let help = "q end  c cores  p ports  d domains  i process  h j k l scroll  ← → back  End now";
        frame.render_widget(Line::styled(help, Style::new().add_modifier(Modifier::DIM)), keys);
        self.skipped = skipped;
    }

    fn table(&self, change: &Change) -> (&'static str, String) {
        match self.below {
            Below::Cores => ("cores", show::totals(change) + &show::cores(&change.cores)),
            Below::Ports => ("ports", show::tcp(change) + &show::ports(&change.ports, &change.bypass)),
            Below::Domains => ("domains", show::domains(&change.domains)),
            Below::Process if change.process.is_none() && !change.mallocs.is_empty() => {
                ("mallocs", show::mallocs(&change.mallocs))
            }
            Below::Process => (
                "process",
                change.process.as_ref().map_or_else(|| "none: name one with --pid".to_owned(), show::process),
            ),
        }
    }

    fn curves(&self, frame: &mut Frame<'_>, area: Rect, change: &Change) {
        let [left, right] = Layout::horizontal([Constraint::Percentage(40), Constraint::Percentage(60)]).areas(area);
        let percent = change.machine.get("cpu").and_then(Figure::value).unwrap_or(0.0);
        let block = Block::bordered().title(format!(" CPU {percent:.1} % "));
        let width = usize::from(block.inner(left).width);
        // The right end is what is looked at.
        let until = self.history.len().saturating_sub(self.ago);
        let recent = || self.history.iter().take(until).skip(until.saturating_sub(width));
        let data: Vec<u64> = recent().map(|moment| (moment.cpu * 10.0) as u64).collect();
        let sparkline = Sparkline::default().data(data).max(1_000).block(block).style(Style::new().fg(Color::Green));
        frame.render_widget(sparkline, left);
        let stack = Stack { moments: self.history.iter().take(until).collect() };
        frame.render_widget(stack, right);
    }
}

/// Rows and columns that are scrolled at once.
const PAGE: u16 = 20;
const ASIDE: u16 = 8;

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
        let inner = Block::bordered().inner(area);
        let width = usize::from(inner.width);
        let shown = &self.moments[self.moments.len().saturating_sub(width)..];
        let most = shown.iter().map(sum).fold(1.0, f64::max);
        let title = format!(" in and out {}, top {} ", si(now, "b/s"), si(most, "b/s"));
        Block::bordered().title(title).render(area, buffer);
        if inner.is_empty() {
            return;
        }
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

    fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
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
        let rows = drawn(&mut view, 140, 30);
        assert!(rows[0].contains("Gb/s") && rows[2].starts_with("00:00:02"), "{rows:#?}");
        assert!(
            rows[3].contains(" CPU 50.0 % ") && rows[3].contains(" in and out 8.00 kb/s, top 8.00 kb/s "),
            "{rows:#?}"
        );
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
        assert!(drawn(&mut view, 80, 20).iter().any(|row| row.contains("the first interval is not over")));
        for at in 0..2 * HISTORY_LIMIT as u64 {
            view.push(change(at, at, 1), "x".repeat(500));
        }
        assert_eq!(view.history.len(), HISTORY_LIMIT);
        for (key, title) in [('c', " cores "), ('p', " ports "), ('d', " domains "), ('i', " process ")] {
            view.on_key(KeyCode::Char(key));
            assert!(drawn(&mut view, 100, 30).iter().any(|row| row.contains(title)), "{title}");
        }
        for key in [KeyCode::Char('j'), KeyCode::Up, KeyCode::Up, KeyCode::PageDown, KeyCode::Char('l'), KeyCode::F(1)]
        {
            view.on_key(key);
        }
        for (width, height) in [(1, 1), (10, 4), (30, 12), (300, 80)] {
            drawn(&mut view, width, height);
        }
    }

    #[test]
    fn what_was_before_can_be_looked_at_again() {
        let mut view = View::default();
        view.on_key(KeyCode::Left);
        for at in 0..5 {
            view.push(change(at, 500, 0), format!("words of {at}"));
        }
        let first = |view: &mut View| drawn(view, 140, 30).iter().find(|row| row.starts_with("00:00")).cloned();
        let time = |view: &mut View| first(view).map(|row| row[..8].to_owned());
        assert_eq!(time(&mut view).as_deref(), Some("00:00:05"));
        view.on_key(KeyCode::Left);
        view.on_key(KeyCode::Left);
        assert_eq!(time(&mut view).as_deref(), Some("00:00:03"));
        let rows = drawn(&mut view, 140, 30);
        assert!(rows.iter().any(|row| row.contains("cores, 00:00:03 UTC, 2 back")), "{rows:#?}");
        assert!(rows.iter().any(|row| row.starts_with("words of 2")), "{rows:#?}");
        // It stays there while others come.
        view.push(change(5, 0, 0), String::new());
        assert_eq!(time(&mut view).as_deref(), Some("00:00:03"));
        view.on_key(KeyCode::Home);
        view.on_key(KeyCode::Left);
        assert_eq!(time(&mut view).as_deref(), Some("00:00:01"));
        view.on_key(KeyCode::End);
        assert_eq!(time(&mut view).as_deref(), Some("00:00:06"));
    }

    #[test]
    fn narrow_screens_have_the_whole_line() {
        let mut view = View::default();
        view.push(change(0, 500, 0), "first at its limit ".repeat(6));
        let rows = drawn(&mut view, 80, 24);
        for head in ["Gb/s", "re-", "own"] {
            assert!(rows.iter().take(6).any(|row| row.contains(head)), "{head}: {rows:#?}");
        }
        assert!(rows[23].starts_with("q end"), "{rows:#?}");
        assert!(rows[21].starts_with("first at") && rows[22].contains("its limit"), "{rows:#?}");
    }
}
