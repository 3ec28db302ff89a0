//! Whoever listens: a ring of events for each core, and counters of what no
//! event tells.

use super::Birth;
use crate::cause::Name;
use crate::look;
use crate::tally::{Gap, Named, Tally};
use crate::timeline::{Beyond, Event, Timeline};
use crate::tracepoints::Tracepoints;
use crate::witness::Witness;
use perf::counter::{Count, What, Whose};
use perf::{Osnoise, Record, Ring, Symbols, Tracefs, clock};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a core's ring: what a core tells in an interval, and some more.
const RING: usize = 4 << 20;

/// Events that are older than this belong to no gap that is still to be told of,
/// nanoseconds.
const OLD: u64 = 10_000_000_000;

/// What is heard of all cores.
pub(crate) struct Ears {
    /// Of each, in the order of the plan.
    pub(super) cores: Vec<Ear>,
    /// `None` with the reason where tracepoints cannot be had.
    pub(super) tracepoints: Result<Tracepoints, String>,
    cost: Option<f64>,
    stolen: BTreeMap<u16, u64>,
    another: Name,
    /// The kernel's own tracer, or why it is none; `None` if nobody asked for it.
    osnoise: Option<Result<Osnoise, String>>,
}

/// What is heard of one core.
pub(crate) struct Ear {
    pub(super) core: u16,
    pub(super) thread: u32,
    pub(super) late: Vec<u64>,
    ring: Result<Ring, String>,
    timeline: Timeline,
    pub(super) tally: Tally,
    /// How often each tracepoint came by.
    pub(super) hits: HashMap<u64, u64>,
    pub(super) lost: u64,
    pub(super) faults: u64,
    pub(super) smis: Result<Smis, String>,
    pub(super) smis_seen: u64,
    /// What the kernel's own tracer told of it.
    pub(super) witness: Option<Witness>,
    /// Cache, branch and TLB misses.
    pub(super) misses: [Result<Count, String>; 3],
}

impl Ears {
    pub(super) fn open(births: Vec<Birth>, plain: bool, osnoise: Option<&[u16]>) -> Self {
        let osnoise = osnoise.map(Osnoise::start);
        let witness = matches!(osnoise, Some(Ok(_)));
        let mut tracepoints = if plain { Err("not asked for".to_owned()) } else { found(witness) };
        let virtual_machine = look::is_virtual();
        let mut cores = Vec::with_capacity(births.len());
        for birth in births {
            let ring = match &mut tracepoints {
                Ok(known) => Ring::of_core(birth.core, &known.formats(), RING).map(|(ring, refused)| {
                    for (id, why) in refused {
                        let name = known.name(id).unwrap_or("a tracepoint");
                        if !known.missing.iter().any(|(missing, _)| *missing == name) {
                            known.missing.push((name, why));
                        }
                    }
                    ring
                }),
                Err(why) => Err(why.clone()),
            };
            let mut made = Ear::made(birth, ring, virtual_machine);
            made.ear.witness = witness.then(Witness::default);
            cores.push(made);
        }
        if let (Ok(_), Some(why)) = (&tracepoints, cores.iter().find_map(|ear| ear.refused.clone())) {
            tracepoints = Err(why);
        }
        let cores = cores.into_iter().map(|made| made.ear).collect();
        let cost = tracepoints.as_ref().ok().and_then(|_| perf::cost::of_a_tracepoint(true));
        Self { cores, tracepoints, cost, stolen: stolen(), another: "another".into(), osnoise }
    }

    /// The loops' threads.
    pub(super) fn threads(&self) -> Vec<u32> {
        self.cores.iter().map(|ear| ear.thread).collect()
    }

    /// Nanoseconds that a tracepoint takes each time that it comes by.
    pub(super) const fn cost_of_a_hit(&self) -> Option<f64> {
        self.cost
    }

    /// Empties the rings.
    pub(super) fn hear(&mut self) {
        let now = clock::raw();
        for ear in &mut self.cores {
            ear.hear(self.tracepoints.as_mut().ok(), &self.another);
            ear.timeline.forget(now.saturating_sub(OLD));
        }
    }

    /// Names a core's gaps, which are over, and all of this interval.
    pub(super) fn name(&mut self, core: u16, gaps: Vec<Gap>, on_gap: &mut dyn FnMut(u16, &Named)) {
        let Some(ear) = self.cores.iter_mut().find(|ear| ear.core == core) else { return };
        let now = stolen().get(&core).copied();
        let before = self.stolen.get(&core).copied();
        if let Some(now) = now {
            self.stolen.insert(core, now);
        }
        let smis = ear.smis.as_mut().map_or(0, |smis| smis.grown());
        ear.smis_seen += smis;
        let mut beyond = Beyond { stolen: now > before, smis };
        for gap in gaps {
            let named = Named { gap, verdict: ear.timeline.verdict(gap.from, gap.until, &mut beyond) };
            on_gap(core, &named);
            ear.tally.add(named);
        }
    }

    /// What is missing, for whoever reads the report.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Err(why) = clock::steady() {
            notes.push(why);
        }
        match &self.osnoise {
            Some(Err(why)) => notes.push(format!("the kernel's tracer osnoise does not tell anything: {why}")),
            Some(Ok(_)) => {}
            None if self.tracepoints.is_ok() && Osnoise::is_there() => {
                notes.push("this kernel has the tracer osnoise: with --osnoise it tells what it finds, too".to_owned());
            }
            None => {}
        }
        match &self.tracepoints {
            Err(why) => notes.push(format!(
                "no tracepoints ({why}): gaps are told apart by the loop's own page faults and by whether another \
                 thread ran; what each core's counters say is below"
            )),
            Ok(known) => {
                let refused: Vec<String> = known.missing.iter().map(|(name, why)| format!("{name} ({why})")).collect();
                if !refused.is_empty() {
                    notes.push(format!("tracepoints that are missing here: {}", refused.join(", ")));
                }
            }
        }
        notes
    }
}

struct Made {
    ear: Ear,
    refused: Option<String>,
}

impl Ear {
    /// With the core's ring, or with the loop's own.
    fn made(birth: Birth, ring: Result<Ring, String>, virtual_machine: bool) -> Made {
        let Birth { core, thread, late, own, .. } = birth;
        let refused = ring.as_ref().err().cloned();
        let misses = [What::CacheMisses, What::BranchMisses, What::TlbMisses];
        let ear = Self {
            core,
            thread,
            late,
            ring: ring.or(own),
            timeline: Timeline::new(thread, virtual_machine),
            tally: Tally::default(),
            hits: HashMap::new(),
            lost: 0,
            faults: 0,
            smis: Smis::of(core),
            smis_seen: 0,
            witness: None,
            misses: misses.map(|what| Count::start(what, Whose::Core(core))),
        };
        Made { ear, refused }
    }

    fn hear(&mut self, mut known: Option<&mut Tracepoints>, another: &Name) {
        let Ok(ring) = &mut self.ring else { return };
        while let Some(record) = ring.poll() {
            match record {
                Record::Lost { at, count } => {
                    self.lost += count;
                    self.timeline.on_event(at, Event::Lost(count));
                }
                Record::Switch { at, out } => {
                    let thread = if out { u32::MAX } else { self.thread };
                    self.timeline.on_event(at, Event::Switch { thread, name: another.clone() });
                }
                Record::Sample(sample) => {
                    let event = match (sample.id(), &mut known) {
                        (Some(id), Some(known)) => {
                            *self.hits.entry(id).or_default() += 1;
                            if let (Some(witness), Some((kind, nanos, thread))) =
                                (&mut self.witness, known.witnessed(id, sample.record))
                                && thread != Some(u64::from(self.thread))
                                && thread != Some(0)
                            {
                                witness.add(kind, nanos);
                            }
                            known.event(self.core, id, sample.record)
                        }
                        _ => Some(Event::PageFault),
                    };
                    if let Some(event) = event {
                        self.faults += u64::from(event == Event::PageFault && sample.thread == self.thread);
                        self.timeline.on_event(sample.at, event);
                    }
                }
            }
        }
    }

    /// How often a tracepoint came by; why that is not known.
    pub(super) fn hits_of(&self, known: &Result<Tracepoints, String>, name: &str) -> Result<u64, String> {
        let known = known.as_ref().map_err(|why| format!("no tracepoints: {why}"))?;
        if let Some((_, why)) = known.missing.iter().find(|(missing, _)| *missing == name) {
            return Err(format!("no tracepoint {name}: {why}"));
        }
        Ok(self.hits.iter().filter(|(id, _)| known.name(**id) == Some(name)).map(|(_, hits)| hits).sum())
    }

    /// Cache, branch or TLB misses so far.
    pub(super) fn missed(&mut self, which: usize) -> Result<u64, String> {
        match &mut self.misses[which] {
            Ok(count) => count.read(),
            Err(why) => Err(why.clone()),
        }
    }
}

fn found(witness: bool) -> Result<Tracepoints, String> {
    let tracefs = Tracefs::open()?;
    Tracepoints::find(|name| tracefs.format(name), Symbols::kernel(), witness)
}

fn stolen() -> BTreeMap<u16, u64> {
    look::stolen(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// The processor's count of system management interrupts.
pub(crate) struct Smis {
    from: Smi,
    last: u64,
}

enum Smi {
    Perf(Count),
    /// Of the core's registers.
    Register(fs::File),
}

impl Smi {
    /// A core's registers, as the module msr shows them.
    fn register(path: &Path) -> Result<Self, String> {
        fs::File::open(path).map(Self::Register).map_err(|why| format!("{}: {why}", path.display()))
    }
}

/// MSR_SMI_COUNT: Intel's manual, volume 4, table 2-2.
const MSR_SMI_COUNT: u64 = 0x34;

impl Smis {
    fn of(core: u16) -> Result<Self, String> {
        let by_perf = Count::start(What::Pmu("msr", "smi"), Whose::Core(core));
        let from = by_perf.map(Smi::Perf).or_else(|why| {
            let path = format!("/dev/cpu/{core}/msr");
            Smi::register(Path::new(&path)).map_err(|other| format!("perf's msr/smi: {why}; {other}"))
        })?;
        Self::from(from)
    }

    /// Counts from what it is now on.
    fn from(from: Smi) -> Result<Self, String> {
        let mut smis = Self { from, last: 0 };
        smis.last = smis.read()?;
        Ok(smis)
    }

    fn read(&mut self) -> Result<u64, String> {
        match &mut self.from {
            Smi::Perf(count) => count.read(),
            Smi::Register(file) => {
                let mut bytes = [0; 8];
                file.read_exact_at(&mut bytes, MSR_SMI_COUNT).map_err(|why| format!("MSR_SMI_COUNT: {why}"))?;
                Ok(u64::from_le_bytes(bytes) & u64::from(u32::MAX))
            }
        }
    }

    fn grown(&mut self) -> u64 {
        let Ok(now) = self.read() else { return 0 };
        let grown = look::difference(now, self.last);
        self.last = now;
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;

    /// Registers of a core whose firmware takes it away: a file with the count in
    /// its place, as the module msr shows it.
    #[test]
    fn system_management_is_named_by_the_count_of_it() {
        let path = std::env::temp_dir().join(format!("nearside-noise-msr-{}", std::process::id()));
        let file = fs::File::create(&path).expect("room");
        // The upper half is reserved.
        let count = |count: u64| file.write_at(&(count | 0xabcd << 32).to_le_bytes(), MSR_SMI_COUNT).expect("room");
        count(u64::from(u32::MAX));
        let mut smis = Smi::register(&path).and_then(Smis::from).expect("a file of registers");
        assert_eq!(smis.grown(), 0);
        count(1);
        let grown = smis.grown();
        file.set_len(8).expect("it is ours");
        assert_eq!((grown, smis.grown()), (2, 0), "across the wrap; of a count that is gone none");
        std::fs::remove_file(&path).expect("it is ours");
        assert!(Smi::register(&path).is_err());
        // Two of three gaps that nothing of the kernel's explains, in that interval.
        let mut timeline = Timeline::new(7, false);
        let mut beyond = Beyond { stolen: false, smis: grown };
        let mut cause = |from: u64| timeline.verdict(from, from + 150_000, &mut beyond).cause;
        assert_eq!([1_000_000, 2_000_000, 3_000_000].map(&mut cause), [Cause::Smi, Cause::Smi, Cause::Unknown]);
    }
}
