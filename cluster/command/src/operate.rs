//! The operator of a namespace: what it asks is asked, what it orders is done, each test by a thread of its own.

mod task;

use crate::args::OperateArgs;
use crate::cluster::reach;
use crate::leaving::Leaving;
use crate::opened::NAMESPACE;
use crate::random::random;
use core::time::Duration;
use cpu::Clock;
use kubernetes::{ApiError, Client};
use operator::{Moment, Note, Operator, Order, Watched};
use say::{Failure, eprintln};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use task::{Switches, Task};

/// What waits for the one who decides.
const INPUTS_LIMIT: usize = 256;

/// How often signals are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What comes from other threads.
enum Input {
    /// A watch of this number brought something.
    Watched(u64, Watched),
    /// Something became of a test.
    Note(String, Note),
}

/// Runs the tests of a namespace until it is stopped.
///
/// # Errors
/// If there is no cluster, or another operator is the one.
pub fn operate(asked: &OperateArgs) -> Result<ExitCode, Failure> {
    let (client, theirs) = reach(asked.kubeconfig.as_deref(), asked.context.as_deref())?;
    let namespace = asked.namespace.clone().or(theirs).unwrap_or_else(|| NAMESPACE.to_owned());
    let leaving = Leaving::by_signals()?;
    let (inputs, taken) = sync_channel(INPUTS_LIMIT);
    eprintln!("operator   of the namespace {namespace}");
    let resident = Resident {
        operator: Operator::new(&namespace, random()? as u64, Clock.now()),
        namespace,
        asked,
        client: Arc::new(client),
        inputs,
        taken,
        watch: Arc::default(),
        tasks: BTreeMap::new(),
    };
    resident.run(leaving)
}

/// The operator, and who works for it.
struct Resident<'a> {
    operator: Operator,
    namespace: String,
    asked: &'a OperateArgs,
    client: Arc<Client>,
    inputs: SyncSender<Input>,
    taken: Receiver<Input>,
    /// The number of the watch that is heard.
    watch: Arc<AtomicU64>,
    /// What tests that are run are told, by their numbers.
    tasks: BTreeMap<String, Arc<Switches>>,
}

impl Resident<'_> {
    fn run(mut self, mut leaving: Leaving) -> Result<ExitCode, Failure> {
        loop {
            if leaving.begins() {
                self.operator.leave(Clock.now());
            }
            if leaving.is_over(self.operator.is_over()) {
                // Tests that run go on without it, and their controllers end with this process.
                return Ok(ExitCode::SUCCESS);
            }
            while let Some(order) = self.operator.poll_order() {
                self.on_order(order)?;
            }
            if let Some(call) = self.operator.poll_call(moment()) {
                let answer = self.client.call(call.method, &call.path, call.object.as_ref());
                self.operator.on_answer(answer, moment());
            }
            // Signals wake nobody: they are looked for.
            let wait = self.operator.next_deadline(moment()).since(Clock.now()).min(LOOK_EVERY);
            if let Ok(input) = self.taken.recv_timeout(wait) {
                self.on_input(input);
                while let Ok(input) = self.taken.try_recv() {
                    self.on_input(input);
                }
            }
        }
    }

    fn on_input(&mut self, input: Input) {
        match input {
            Input::Watched(number, watched) => self.operator.on_watched(number, watched, moment()),
            Input::Note(uid, note) => {
                if note == Note::Over {
                    self.tasks.remove(&uid);
                }
                self.operator.on_note(&uid, note, moment());
            }
        }
    }

    fn on_order(&mut self, order: Order) -> Result<(), Failure> {
        match order {
            Order::Start { uid, object } => self.start(uid, object),
            Order::Release { uid } => {
                if let Some(task) = self.tasks.get(&uid) {
                    task.released.store(true, Ordering::Relaxed);
                }
            }
            Order::Stop { uid } => {
                if let Some(task) = self.tasks.get(&uid) {
                    task.stopped.store(true, Ordering::Relaxed);
                }
            }
            Order::Watch { number, path } => self.watch(number, path),
            Order::Say(words) => eprintln!("operator   {words}"),
            Order::Yield => return Err("another operator took this one's place: its Lease was taken or deleted".into()),
        }
        Ok(())
    }

    /// A thread runs a test.
    fn start(&mut self, uid: String, object: Value) {
        let switches = Arc::new(Switches::default());
        let (inputs, number) = (self.inputs.clone(), uid.clone());
        // Whoever decides is gone when nobody takes them.
        let tell = move |note: Note| drop(inputs.send(Input::Note(number.clone(), note)));
        let task = Task {
            uid: uid.clone(),
            object,
            namespace: self.namespace.clone(),
            kubeconfig: self.asked.kubeconfig.clone(),
            context: self.asked.context.clone(),
            image: self.asked.image.clone(),
            host: self.asked.host.clone(),
            switches: Arc::clone(&switches),
        };
        eprintln!("operator   runs the test {}", task.name());
        if let Err(why) = thread::Builder::new().name("near-test".into()).spawn(move || task.run(&tell)) {
            eprintln!("operator   there is no thread for a test: {why}");
            return self.operator.on_note(&uid, Note::Over, moment());
        }
        self.tasks.insert(uid, switches);
    }

    /// A thread watches tests, until another does.
    fn watch(&mut self, number: u64, path: String) {
        self.watch.store(number, Ordering::Relaxed);
        let (client, heard, inputs) = (Arc::clone(&self.client), Arc::clone(&self.watch), self.inputs.clone());
        let watch = move || {
            let is_heard = || heard.load(Ordering::Relaxed) == number;
            let told = client.watch(&path, &mut |event| {
                is_heard() && inputs.send(Input::Watched(number, Watched::Event(event))).is_ok()
            });
            // What is refused is asked for anew, from a list on: as is what was forgotten.
            let end = match told {
                Err(ApiError::Refused { .. }) => Watched::Event(Value::Null),
                Ok(()) | Err(ApiError::Unreachable(_)) => Watched::Ended,
            };
            // Not at once: a server that is away would be asked all the time.
            thread::sleep(Duration::from_secs(1));
            let _ = inputs.send(Input::Watched(number, end));
        };
        if thread::Builder::new().name("near-watch".into()).spawn(watch).is_err() {
            self.operator.on_watched(number, Watched::Event(Value::Null), moment());
        }
    }
}

/// Now, by both clocks.
fn moment() -> Moment {
    Moment { now: Clock.now(), unix: Clock.unix().as_secs() }
}
