//! What several programs print at once, one after the other: the one that began
//! first is heard while it runs, the others wait for their turn.

use std::collections::VecDeque;
use std::io::{self, Write};

/// See the module.
#[derive(Debug)]
pub struct Stage<W> {
    out: W,
    /// In the order in which they began.
    running: VecDeque<Running>,
    next: usize,
}

#[derive(Debug)]
struct Running {
    number: usize,
    /// What it printed while another was heard.
    waiting: Vec<u8>,
    over: bool,
}

impl<W: Write> Stage<W> {
    /// One that is printed to `out`.
    pub fn new(out: W) -> Self {
        Self { out, running: VecDeque::new(), next: 0 }
    }

    /// Another program begins: its number.
    pub fn begin(&mut self) -> usize {
        let number = self.next;
        self.next += 1;
        self.running.push_back(Running { number, waiting: Vec::new(), over: false });
        number
    }

    /// A line of a program's, without its end.
    ///
    /// # Errors
    /// If it cannot be printed.
    pub fn say(&mut self, number: usize, line: &[u8]) -> io::Result<()> {
        match self.running.iter_mut().position(|one| one.number == number) {
            Some(0) => {
                self.out.write_all(line)?;
                self.out.write_all(b"\n")?;
                self.out.flush()
            }
            Some(at) => {
                let waiting = &mut self.running[at].waiting;
                waiting.extend_from_slice(line);
                waiting.push(b'\n');
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A program has ended.
    ///
    /// # Errors
    /// If what waited for it cannot be printed.
    pub fn end(&mut self, number: usize) -> io::Result<()> {
        if let Some(one) = self.running.iter_mut().find(|one| one.number == number) {
            one.over = true;
        }
        while self.running.front().is_some_and(|first| first.over) {
            self.running.pop_front();
            if let Some(first) = self.running.front_mut() {
                self.out.write_all(&core::mem::take(&mut first.waiting))?;
            }
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_heard_whole_and_in_its_turn() {
        let mut stage = Stage::new(Vec::new());
        let (a, b, c) = (stage.begin(), stage.begin(), stage.begin());
        stage.say(b, b"b1").unwrap();
        stage.say(a, b"a1").unwrap();
        stage.say(c, b"c1").unwrap();
        stage.end(c).unwrap();
        assert_eq!(stage.out, b"a1\n");
        stage.end(a).unwrap();
        assert_eq!(stage.out, b"a1\nb1\n");
        stage.say(b, b"b2").unwrap();
        assert_eq!(stage.out, b"a1\nb1\nb2\n");
        stage.end(b).unwrap();
        assert_eq!(stage.out, b"a1\nb1\nb2\nc1\n");
    }
}
