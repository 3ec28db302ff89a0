//! The well-behaved client: the load generator, with every byte of every
//! response compared with what the server must send.

use app::{App, Closed, ConnId, Net, Opened, Wake};
use load::{Load, Stage};
use std::collections::HashMap;

/// Bytes of a response's head at most; a longer one is wrong.
const HEAD_LIMIT: usize = 1024;

/// The load generator under supervision.
pub struct Checked {
    /// The load generator.
    pub load: Load,
    /// The content that each response must have.
    content: Vec<u8>,
    parts: HashMap<ConnId, Part>,
    /// Responses that were right to the last byte.
    pub right: u64,
    /// What was wrong with others.
    pub wrong: Vec<String>,
}

/// How far a response was read.
enum Part {
    Head(Vec<u8>),
    Content(usize),
}

impl Checked {
    /// Checks that `load` is answered with `content`.
    #[must_use]
    pub fn new(load: Load, content: Vec<u8>) -> Self {
        Self { load, content, parts: HashMap::new(), right: 0, wrong: Vec::new() }
    }

    /// Whether the measured window is over.
    #[must_use]
    pub fn done(&self) -> bool {
        self.load.stage() == Stage::Ended
    }

    fn check(&mut self, id: ConnId, mut data: &[u8]) {
        while let Some(&first) = data.first() {
            let part = self.parts.entry(id).or_insert_with(|| Part::Head(Vec::new()));
            match part {
                Part::Head(head) => {
                    head.push(first);
                    data = &data[1..];
                    if head.ends_with(b"\r\n\r\n") {
                        if let Err(complaint) = check_head(head, self.content.len()) {
                            self.wrong.push(complaint);
                        }
                        *part = Part::Content(0);
                    } else if head.len() > HEAD_LIMIT {
                        self.wrong.push("a head without end".into());
                        return;
                    }
                }
                Part::Content(at) => {
                    let len = data.len().min(self.content.len() - *at);
                    if data[..len] != self.content[*at..*at + len] {
                        self.wrong.push(format!("content differs between {at} and {}", *at + len));
                    }
                    *at += len;
                    data = &data[len..];
                }
            }
            if let Some(Part::Content(at)) = self.parts.get(&id)
                && *at == self.content.len()
            {
                self.right += 1;
                self.parts.remove(&id);
            }
        }
    }
}

fn check_head(head: &[u8], len: usize) -> Result<(), String> {
    let text = String::from_utf8_lossy(head);
    let length = format!("\r\ncontent-length: {len}\r\n");
    if text.starts_with("HTTP/1.1 200 ") && text.to_ascii_lowercase().contains(&length) {
        return Ok(());
    }
    Err(format!("a wrong head: {text}"))
}

impl App for Checked {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        self.load.on_open(net, id, how);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let used = self.load.on_data(net, id, data).min(data.len());
        self.check(id, &data[..used]);
        used
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        self.load.on_end(net, id, held);
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.load.on_sent(net, id);
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.load.on_timer(net, id);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        self.parts.remove(&id);
        self.load.on_close(net, id, why);
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        self.load.on_turn(net)
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        self.load.drain(net)
    }
}
