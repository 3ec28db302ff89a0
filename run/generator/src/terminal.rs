//! The terminal that the live view has for itself, and its way back.

use super::view::{History, Moment, draw};
use core::time::Duration;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use ratatui::{Frame, Terminal};
use std::io::{self, Stderr, stderr};
use std::sync::Once;

/// What the user asked for by a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// End the run now.
    Stop,
    /// Ask for a tenth more.
    Faster,
    /// Ask for a tenth less.
    Slower,
}

/// A terminal in raw mode, on a screen of its own. Dropping it gives the old
/// screen back; so does a panic, on whatever thread, before its message.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
}

impl Screen {
    /// Takes the terminal that standard error writes to, so that results on
    /// standard output may go elsewhere.
    ///
    /// # Errors
    /// If it is none.
    pub fn take() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                usual(panic);
            }));
        });
        enable_raw_mode()?;
        let screen =
            execute!(stderr(), EnterAlternateScreen).and_then(|()| Terminal::new(CrosstermBackend::new(stderr())));
        match screen {
            Ok(terminal) => Ok(Self { terminal }),
            Err(why) => {
                give_back();
                Err(why)
            }
        }
    }

    /// Shows a moment.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn show(&mut self, title: &str, moment: &Moment, history: &History) -> io::Result<()> {
        self.draw(|frame| draw(frame, title, moment, history))
    }

    /// Shows whatever is drawn.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, with: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(with).map(|_| ())
    }

    /// Waits for a key, at most for `patience`.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn wish(&self, patience: Duration) -> io::Result<Option<Wish>> {
        Ok(self.key(patience)?.and_then(meaning))
    }

    /// Waits for any key, at most for `patience`.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn key(&self, patience: Duration) -> io::Result<Option<KeyEvent>> {
        if !event::poll(patience)? {
            return Ok(None);
        }
        Ok(match event::read()? {
            Event::Key(key) if key.kind == KeyEventKind::Press => Some(key),
            _ => None,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Nobody is left to tell if the terminal is gone.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(stderr(), LeaveAlternateScreen, cursor::Show);
}

fn meaning(key: KeyEvent) -> Option<Wish> {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Wish::Stop),
        // In raw mode it comes as a key, not as a signal.
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::Stop),
        KeyCode::Char('+' | '=') | KeyCode::Up => Some(Wish::Faster),
        KeyCode::Char('-') | KeyCode::Down => Some(Wish::Slower),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_meaning() {
        let plain = |c| meaning(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        assert_eq!(
            ['q', '+', '=', '-', 'c', 'x'].map(plain),
            [Some(Wish::Stop), Some(Wish::Faster), Some(Wish::Faster), Some(Wish::Slower), None, None]
        );
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(meaning(control), Some(Wish::Stop));
    }
}
