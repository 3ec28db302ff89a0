//! Those who are no workers, or not the ones that they say.

use super::{Event, World};
use control::Part;
use core::time::Duration;
use messages::{Beat, Counted, FromWorker, Hello, Readiness, Token};

impl World {
    /// Somebody who is no worker, or says that it is one.
    pub(super) fn stranger(&mut self, kind: u32) {
        if self.control.is_none() {
            return;
        }
        let channel = self.open(None);
        let hello = |token, worker, instance| Hello { token, worker, instance, version: "1".into() };
        let words: Vec<super::Word> = match kind {
            0 => vec![FromWorker::Hello(hello(Token::new(8), 0, 1))],
            // As many workers as there are, and one that is there.
            1 => vec![FromWorker::Hello(hello(Token::new(7).of_worker(1_000), 1_000, 1))],
            // The last worker says to be the first, and what that one measured, and that it is ready and alive.
            5 if self.workers.len() > 1 => {
                let last = self.workers.len() as u32 - 1;
                let part = Part { measured: 1 << 50, begun_ns: Vec::new(), faults: Vec::new() };
                vec![
                    FromWorker::Hello(hello(Token::new(7).of_worker(last), 0, 1)),
                    FromWorker::Ready(Readiness { open: 1, silos: 1, setup: "plan 0".to_owned() }),
                    FromWorker::Beat(Beat::default()),
                    FromWorker::Measured(part),
                ]
            }
            // And with the controller's token it is no worker.
            6 => vec![FromWorker::Hello(hello(Token::new(7), 0, 1))],
            2 => vec![FromWorker::Measured(Part { measured: 1_000_000, begun_ns: Vec::new(), faults: Vec::new() })],
            3 => {
                let interval = Counted { number: 0, place: 0, interval: 1 << 40 };
                vec![FromWorker::Interval(interval), FromWorker::Failed("no".to_owned())]
            }
            // Says nothing at all.
            _ => Vec::new(),
        };
        for word in words {
            self.after(Duration::from_micros(30), Event::ToControl(channel, word));
        }
    }
}
