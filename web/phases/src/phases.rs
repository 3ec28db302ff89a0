//! A request runs through its phases.

use super::request_state::{Phase, RequestStage};
use super::runner::{Flow, Runner};
use exchange::Stop;
use features::ErrorLevel;
use semantics::Method;

impl Runner<'_> {
    /// Runs until it was answered or waits; whether it was answered. `first` is what came of
    /// the step that it waited in, if that is known.
    pub fn run(&mut self, mut first: Option<Flow>) -> bool {
        loop {
            let mut flow = match first.take() {
                Some(flow) => flow,
                None => self.step(),
            };
            // An error page may have one of its own.
            while let Flow::Status(status) = flow {
                flow = self.fail(status);
            }
            match flow {
                Flow::Waits(on) if self.state.is_awaited(on) => return false,
                // Nobody would ever wake it.
                Flow::Waits(on) => {
                    self.tell(ErrorLevel::CRIT, || format!("a request waits for nothing: {on:?}").into_bytes());
                    first = Some(Flow::Status(500));
                }
                Flow::Done => return true,
                Flow::HangUp => {
                    self.hang_up();
                    return true;
                }
                Flow::On | Flow::Status(_) => {}
            }
        }
    }

    /// One phase.
    #[inline(always)]
    fn step(&mut self) -> Flow {
        if self.loaded.asks_for_real_roots
            && self.state.route.real_root != Some(self.state.route.block)
            && !matches!(self.state.route.phase, Phase::Start | Phase::Find)
            && let Some(flow) = self.find_real_root()
        {
            return flow;
        }
        match self.state.route.phase {
            Phase::Start => {
                if let Some(status) = self.state.refused.or(self.state.client.fault) {
                    return Flow::Status(status);
                }
                if matches!(self.state.method, Method::Connect | Method::Trace) {
                    self.set_last();
                    return Flow::Status(405);
                }
                self.real_address();
                self.state.route.enter(Phase::Server);
                match self.server().map(|server| server.block) {
                    // Its script would do nothing.
                    Some(block) if self.loaded.program.block(block).is_some_and(|block| block.script.is_empty()) => {
                        self.state.route.settle(block);
                        self.state.route.enter(Phase::Find);
                        self.find()
                    }
                    _ => Flow::On,
                }
            }
            Phase::Server => {
                let Some(block) = self.server().map(|server| server.block) else { return Flow::Status(500) };
                self.state.route.settle(block);
                let flow = self.script(block);
                self.next(flow, Phase::Find)
            }
            Phase::Find => self.find(),
            Phase::Rewrite => {
                let flow = self.script(self.state.route.place);
                if flow == Flow::On && core::mem::take(&mut self.state.route.uri_changed) {
                    if !self.state.route.may_change() {
                        self.tell_of_cycle("while processing \"", &self.state.route.uri);
                        return Flow::Status(500);
                    }
                    self.state.route.enter(Phase::Find);
                    return Flow::On;
                }
                self.next(flow, Phase::Limit)
            }
            Phase::Limit => {
                self.real_address();
                let flow = self.limits();
                self.next(flow, Phase::Access)
            }
            Phase::Access => {
                // nginx asks this of main requests alone.
                let flow = if self.is_sub() { Flow::On } else { self.access() };
                self.next(flow, Phase::Try)
            }
            Phase::Try => self.try_files(),
            Phase::Content => self.content(),
        }
    }

    fn next(&mut self, flow: Flow, phase: Phase) -> Flow {
        if flow == Flow::On {
            self.state.route.enter(phase);
        }
        flow
    }

    fn hang_up(&mut self) {
        if !matches!(self.state.sent.status, 400 | 408 | 499) {
            self.state.sent.status = 444;
        }
        self.state.wait.stage = RequestStage::Over;
        self.replies.stop(self.state.id, Stop::HangUp);
    }
}
