//! Choosing the worker of a new connection: the eBPF programs of the models
//! `local` and `least`, and what they share with the workers.
//!
//! ```text
//! Steering::attach(listeners, cores, topology) ─► Steering::seat(worker) ─► Worker::set_seat(seat)
//! ```
//!
//! The programs stand in `programs/`, as text. Where they cannot be had, the
//! models work as `reuseport`, and [`SteerError`] says why.

mod candidates;
mod work_counter;

pub use work_counter::WorkCounter;

use crate::config::Model;
use crate::endpoint::Endpoint;
use crate::listen::Listeners;
use candidates::{Candidates, MAX_CPUS};
use core::fmt;
use core::time::Duration;
use ebpf::{AssembleError, Assembly, Cause, Map, MapKind, Program, detach_reuseport};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use topology::{Topology, TopologyError};

/// The most workers that are chosen among: each look at all of them costs a
/// turn of the program's loop, and their indices are kept in bytes.
pub const MAX_WORKERS: usize = 256;

/// A CPU's entry in the map `cpus`: four words, and the list of workers.
const CPU_OWN: usize = 0;
const CPU_DOMAIN: usize = 4;
const CPU_ALL: usize = 8;
const CPU_TURN: usize = 12;
const CPU_LIST: usize = 16;
/// Whole cache lines, because the turn is written.
const CPU_ENTRY: usize = (CPU_LIST + MAX_WORKERS).next_multiple_of(64);

const _: () = assert!(MAX_WORKERS == u8::MAX as usize + 1, "a worker's index is a byte");
const _: () = assert!(CPU_ENTRY * MAX_CPUS <= ebpf::MAX_BYTES as usize);

/// A worker's line in the value of the map `work`: a cache line, of which
/// the program writes the first word and the worker the others.
const LINE_SHIFT: usize = 6;
const WORK_LINE: usize = 1 << LINE_SHIFT;
const WORK_CHOSEN: usize = 0;
const WORK_FINISHED: usize = 4;
const WORK_BESIDES: usize = 8;

/// In place of work besides: this worker is not to be chosen. Nor is one with
/// half as much, because connections may count below zero for a moment.
const OUT_OF_SERVICE: u32 = i32::MAX as u32;
const OUT_FROM: u32 = OUT_OF_SERVICE / 2;

/// The counters of [`Chosen`], in its order.
const COUNT_OWN: usize = 0;
const COUNT_DOMAIN: usize = 1;
const COUNT_ANY: usize = 2;
const COUNT_KERNEL: usize = 3;
const COUNTS: usize = 4;

/// One definition for the programs and for us.
const CONSTANTS: [(&str, i64); 16] = [
    ("CPU_OWN", CPU_OWN as i64),
    ("CPU_DOMAIN", CPU_DOMAIN as i64),
    ("CPU_ALL", CPU_ALL as i64),
    ("CPU_TURN", CPU_TURN as i64),
    ("CPU_LIST", CPU_LIST as i64),
    ("LINE_SHIFT", LINE_SHIFT as i64),
    ("WORK_CHOSEN", WORK_CHOSEN as i64),
    ("WORK_FINISHED", WORK_FINISHED as i64),
    ("WORK_BESIDES", WORK_BESIDES as i64),
    ("OUT_FROM", OUT_FROM as i64),
    ("MAX_WORKERS", MAX_WORKERS as i64),
    ("LAST_WORKER", MAX_WORKERS as i64 - 1),
    ("COUNT_OWN", COUNT_OWN as i64),
    ("COUNT_DOMAIN", COUNT_DOMAIN as i64),
    ("COUNT_ANY", COUNT_ANY as i64),
    ("COUNT_KERNEL", COUNT_KERNEL as i64),
];

const LOCAL: &str = include_str!("../programs/local.bpf");
const LEAST: &str = include_str!("../programs/least.bpf");

/// How long the sockets may be held by a program that was just taken off: the
/// kernel frees its maps when all CPUs have passed on, three seconds later at most on a busy machine.
const RELEASE_TRIES: u32 = 600;
const RELEASE_WAIT: Duration = Duration::from_millis(5);

/// The program of a model, at work on the listening sockets. It works on as
/// long as the sockets are open, also when this is dropped; a process that
/// takes the sockets over attaches its own in its place.
#[derive(Debug)]
pub struct Steering {
    /// `least` only.
    work: Option<Arc<ebpf::Shared>>,
    counters: Map,
    workers: usize,
}

/// Who chose, summed over all CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Chosen {
    /// The program: a worker of the receiving CPU (`local` only).
    pub own: u64,
    /// The program: a worker of the receiving CPU's NUMA domain.
    pub domain: u64,
    /// The program: any worker, because none of the domain could take it.
    pub any: u64,
    /// The kernel's hash, because the program found nobody.
    pub kernel: u64,
}

/// Why the kernel's hash chooses, and no program: the model works as
/// `reuseport`.
#[derive(Debug)]
pub enum SteerError {
    /// More than [`MAX_WORKERS`].
    TooManyWorkers(usize),
    /// All workers take from one socket, as a service manager made it: there
    /// is nothing to choose from.
    Shared(Endpoint),
    /// Another process has the sockets in a map of its own, and holds on to it.
    Held(Endpoint),
    /// The machine's topology cannot be read.
    Topology(TopologyError),
    /// The kernel refuses maps or programs.
    Kernel(ebpf::Error),
    /// A program's text is wrong: ours to mend.
    Program(AssembleError),
}

impl SteerError {
    /// Why, without what comes of it.
    #[must_use]
    pub fn reason(&self) -> String {
        Reason(self).to_string()
    }
}

impl fmt::Display for SteerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connections are dealt out by the kernel's hash: {}", Reason(self))
    }
}

struct Reason<'a>(&'a SteerError);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SteerError::TooManyWorkers(workers) => {
                write!(f, "an eBPF program chooses among at most {MAX_WORKERS} workers, not {workers}")
            }
            SteerError::Shared(at) => write!(f, "{at} has one socket for all workers, made without SO_REUSEPORT"),
            SteerError::Held(at) => write!(f, "another process steers the sockets of {at}"),
            SteerError::Topology(e) => write!(f, "cannot read which CPU is in which NUMA domain: {e}"),
            SteerError::Kernel(e) => e.fmt(f),
            SteerError::Program(e) => write!(f, "the eBPF program does not assemble: {e}"),
        }
    }
}

impl core::error::Error for SteerError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Topology(e) => Some(e),
            Self::Kernel(e) => Some(e),
            Self::Program(e) => Some(e),
            Self::TooManyWorkers(_) | Self::Shared(_) | Self::Held(_) => None,
        }
    }
}

impl From<ebpf::Error> for SteerError {
    fn from(e: ebpf::Error) -> Self {
        Self::Kernel(e)
    }
}

impl Steering {
    /// Whether this kernel, and this process's rights, have the program of a model for
    /// so many workers: it is loaded, and dropped.
    ///
    /// # Errors
    /// See [`SteerError`]. Sockets may be in the way still, where others made them.
    pub fn try_out(model: Model, workers: usize) -> Result<(), SteerError> {
        let Some(text) = program_of(model).filter(|_| workers > 1) else { return Ok(()) };
        if workers > MAX_WORKERS {
            return Err(SteerError::TooManyWorkers(workers));
        }
        let assembly = Assembly::new(text, &CONSTANTS).map_err(SteerError::Program)?;
        let maps = Maps::new(model, &Candidates::of(&Topology::default(), &vec![None; workers]))?;
        let sockets = Map::create("sockets", MapKind::ReuseportSockets, 4, 8, workers as u32)?;
        Program::load("steer", &assembly, &[&[&sockets], maps.all().as_slice()].concat())?;
        Ok(())
    }

    /// Attaches the program of `listeners`' model to its TCP sockets; `cores`
    /// is where each worker is pinned. `None` if the model has no program, or there is
    /// one worker. Unix sockets have one queue, which needs none; addresses where the
    /// kernel's hash is asked for ([`ListenOptions::hashed`]) have none.
    ///
    /// # Errors
    /// See [`SteerError`]; no program is attached then, and the kernel's hash
    /// chooses.
    pub fn attach(
        listeners: &Listeners,
        cores: &[Option<u16>],
        topology: &Topology,
    ) -> Result<Option<Self>, SteerError> {
        let workers = listeners.workers();
        let text = program_of(listeners.model()).filter(|_| workers > 1);
        // The process before this one may have left its program, which knows nothing of
        // sockets that are new.
        for (endpoint, socket) in listeners.iter() {
            if matches!(endpoint, Endpoint::Tcp(_)) && (text.is_none() || listeners.is_hashed(endpoint)) {
                let _ = detach_reuseport(socket);
            }
        }
        let Some(text) = text else { return Ok(None) };
        if workers > MAX_WORKERS {
            return Err(SteerError::TooManyWorkers(workers));
        }
        let assembly = Assembly::new(text, &CONSTANTS).map_err(SteerError::Program)?;
        let mut pinned = cores.to_vec();
        pinned.resize(workers, None);
        let maps = Maps::new(listeners.model(), &Candidates::of(topology, &pinned))?;
        let mut attached = Vec::new();
        let steered = |at: &Endpoint| matches!(at, Endpoint::Tcp(_)) && !listeners.is_hashed(at);
        for endpoint in listeners.endpoints().into_iter().filter(steered) {
            let outcome = listeners.queues(&endpoint).ok_or_else(|| SteerError::Shared(endpoint.clone()));
            let outcome = outcome.and_then(|sockets| {
                attached.extend(sockets.first().map(|(_, socket)| *socket));
                attach_group(&endpoint, &sockets, workers, &assembly, &maps.all())
            });
            if let Err(e) = outcome {
                // All or none: what is half steered cannot be explained.
                for socket in attached {
                    let _ = detach_reuseport(socket);
                }
                return Err(e);
            }
        }
        let work = maps.work.map(|work| work.share().map(Arc::new)).transpose()?;
        Ok(Some(Self { work, counters: maps.counters, workers }))
    }

    /// The part of the worker with this index: to be had once, by the worker
    /// that [`Listeners::for_worker`] gives its sockets to. `None` if there is
    /// no such worker, or the program does not look at what workers have.
    #[must_use]
    pub fn seat(&self, worker: usize) -> Option<WorkCounter> {
        let work = self.work.as_ref().filter(|_| worker < self.workers)?;
        Some(WorkCounter::new(Arc::clone(work), worker))
    }

    /// What each worker has outstanding, as the program sees it: connections,
    /// those that wait to be accepted included. Empty for a program that does
    /// not look.
    #[must_use]
    pub fn outstanding(&self) -> Vec<i64> {
        use core::sync::atomic::Ordering::Relaxed;
        let Some(work) = &self.work else { return Vec::new() };
        let of = |worker: usize| {
            let word = |at| work.word(worker * WORK_LINE + at).load(Relaxed);
            let counted = word(WORK_CHOSEN).wrapping_sub(word(WORK_FINISHED)).cast_signed();
            i64::from(counted) + i64::from(word(WORK_BESIDES))
        };
        (0..self.workers).map(of).collect()
    }

    /// Who chose so far.
    ///
    /// # Errors
    /// The system's.
    pub fn chosen(&self) -> Result<Chosen, ebpf::Error> {
        let sum = |index: usize| -> Result<u64, ebpf::Error> {
            let per_cpu = self.counters.get(&(index as u32).to_ne_bytes())?.unwrap_or_default();
            let (values, _) = per_cpu.as_chunks::<8>();
            Ok(values.iter().map(|value| u64::from_ne_bytes(*value)).sum())
        };
        Ok(Chosen {
            own: sum(COUNT_OWN)?,
            domain: sum(COUNT_DOMAIN)?,
            any: sum(COUNT_ANY)?,
            kernel: sum(COUNT_KERNEL)?,
        })
    }
}

/// The program's text, if the model has one.
const fn program_of(model: Model) -> Option<&'static str> {
    match model {
        Model::Local => Some(LOCAL),
        Model::Least => Some(LEAST),
        Model::Blocking | Model::Epoll | Model::Exclusive | Model::Reuseport => None,
    }
}

/// What a program shares with us, beside the sockets of its address.
struct Maps {
    cpus: Map,
    counters: Map,
    /// `least` only.
    work: Option<Map>,
}

impl Maps {
    fn new(model: Model, candidates: &[Candidates]) -> Result<Self, SteerError> {
        let shared = if model == Model::Least { MapKind::SharedArray } else { MapKind::Array };
        let work = || Map::create("work", shared, 4, (MAX_WORKERS * WORK_LINE) as u32, 1);
        Ok(Self {
            cpus: cpus_map(shared, candidates)?,
            counters: Map::create("counters", MapKind::PerCpuArray, 4, 8, COUNTS as u32)?,
            work: (model == Model::Least).then(work).transpose()?,
        })
    }

    /// In the order of the programs.
    fn all(&self) -> Vec<&Map> {
        [&self.cpus, &self.counters].into_iter().chain(&self.work).collect()
    }
}

fn cpus_map(kind: MapKind, all: &[Candidates]) -> Result<Map, SteerError> {
    let map = Map::create("cpus", kind, 4, CPU_ENTRY as u32, all.len() as u32)?;
    for (cpu, candidates) in (0u32..).zip(all) {
        let mut entry = [0; CPU_ENTRY];
        let counts = [(CPU_OWN, candidates.own), (CPU_DOMAIN, candidates.domain), (CPU_ALL, candidates.list.len())];
        for (at, count) in counts {
            entry[at..at + 4].copy_from_slice(&(count as u32).to_ne_bytes());
        }
        entry[CPU_LIST..][..candidates.list.len()].copy_from_slice(&candidates.list);
        map.set(&cpu.to_ne_bytes(), &entry)?;
    }
    Ok(map)
}

/// The program for one endpoint: its sockets are a group of their own. The
/// map of sockets stays in the kernel as long as the program is attached, and
/// no longer, because nobody else has it: so a successor that takes the
/// program off can put the sockets into its own.
fn attach_group(
    endpoint: &Endpoint,
    sockets: &[(usize, BorrowedFd<'_>)],
    workers: usize,
    assembly: &Assembly,
    shared: &[&Map],
) -> Result<(), SteerError> {
    let map = Map::create("sockets", MapKind::ReuseportSockets, 4, 8, workers as u32)?;
    let program = Program::load("steer", assembly, &[&[&map], shared].concat())?;
    for (worker, socket) in sockets {
        put_socket(endpoint, &map, *worker as u32, *socket)?;
    }
    if let Some((_, socket)) = sockets.first() {
        program.attach_reuseport(*socket)?;
    }
    Ok(())
}

/// A socket is in one map at a time. One that was taken over is in the map of
/// the program that the process before us attached: taking that off frees
/// both, soon, unless somebody holds them.
fn put_socket(endpoint: &Endpoint, map: &Map, worker: u32, socket: BorrowedFd<'_>) -> Result<(), SteerError> {
    for attempt in 0..RELEASE_TRIES {
        match map.set_socket(worker, socket) {
            Err(ebpf::Error { cause: Cause::System(Errno::BUSY), .. }) => {}
            Err(e) => return Err(e.into()),
            Ok(()) => return Ok(()),
        }
        if attempt == 0 {
            detach_reuseport(socket)?;
        }
        std::thread::sleep(RELEASE_WAIT);
    }
    Err(SteerError::Held(endpoint.clone()))
}

#[cfg(test)]
mod tests;
