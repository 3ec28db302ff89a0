//! Between the objects of a test and the API server: what they ask is asked, one question after the other.

use core::time::Duration;
use cpu::Clock;
use kubernetes::Client;
use reconcile::{ClusterEvent, Reconciler, Stage};
use std::thread;

/// How often it is looked whether somebody wants something else.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The objects of a test, and who asks for them.
pub struct Driven {
    /// What is asked.
    pub objects: Reconciler,
    client: Client,
}

impl Driven {
    /// These objects, of this client's cluster.
    pub fn new(objects: Reconciler, client: Client) -> Self {
        Self { objects, client }
    }

    /// Asks until nothing more is to be asked, or `on` says of the last event, or of none, that it is enough. A
    /// question has an end in time, and between two of them `on` is asked every 50 ms.
    pub fn run(&mut self, mut on: impl FnMut(&mut Reconciler, Option<ClusterEvent>) -> bool) {
        while self.objects.stage() < Stage::Over {
            let event = self.objects.poll_event();
            let is_none = event.is_none();
            if on(&mut self.objects, event) {
                return;
            }
            if !is_none {
                continue;
            }
            match self.objects.poll_call(Clock.now()) {
                Some(call) => {
                    let answer = self.client.call(call.method, &call.path, call.object.as_ref());
                    self.objects.on_answer(answer, Clock.now());
                }
                None => thread::sleep(self.objects.next_deadline().since(Clock.now()).min(LOOK_EVERY)),
            }
        }
    }

    /// Deletes what was made, and leaves the target; answers what remains of it, and why, if something does.
    pub fn end(&mut self) -> Option<String> {
        self.objects.end(Clock.now());
        self.run(|_, _| false);
        self.objects.remains().map(str::to_owned)
    }
}
