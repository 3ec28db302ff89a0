//! How long memory takes from each NUMA domain to each, and how much of it passes in a second:
//! measured, since no file of the machine's tells.
//!
//! A thread in one domain fills memory, which the kernel then takes from there (its default
//! policy). A thread in another follows pointers through it that no prefetcher foresees, each to
//! another line: that is the latency. Then a thread on each core there reads all of it: that is
//! the bandwidth.
#![forbid(unsafe_code)]

mod placed;

use core::hint::black_box;
use core::time::Duration;
use cpu::{Clock, pin};
use std::sync::Barrier;
use std::thread;
use topology::Topology;

/// What all pairs of domains may take together.
const WHOLE: Duration = Duration::from_secs(4);

/// What a pair takes: long enough for many thousand misses.
const EACH: [Duration; 2] = [Duration::from_millis(40), Duration::from_millis(400)];

/// Words of a line of the cache.
const LINE: usize = 8;

/// Memory that is read: so many times the last cache, between these bounds.
const CACHES: u64 = 4;
const LEAST: u64 = 64 << 20;
const MOST: u64 = 1 << 30;

/// The share of a domain's free memory that is taken.
const SHARE: u64 = 4;

/// Threads that read at once.
const THREADS: usize = 128;

/// Pages that lie where they should, for a figure to count.
const PLACED: f64 = 0.9;

/// Steps and words between two looks at the clock.
const STEPS: usize = 2_000;
const WORDS: usize = 1 << 15;

/// From one domain's cores to one domain's memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reach {
    /// The domain of the cores.
    pub from: u16,
    /// The domain of the memory.
    pub to: u16,
    /// Nanoseconds until a word comes that nothing foresaw.
    pub nanos: f64,
    /// Bytes per second that all cores of the domain together read.
    pub bytes: f64,
}

/// What was measured, and what was not, with the reason.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reaches {
    /// By pair, the memory's domain first.
    pub pairs: Vec<Reach>,
    /// Why a pair is missing, a sentence each.
    pub missing: Vec<String>,
}

/// Measures each pair; `tell` hears how many are done, of how many, before each.
pub fn measure(topology: &Topology, tell: &mut dyn FnMut(usize, usize)) -> Reaches {
    let cores = |domain: &topology::Domain| {
        let usable = |core: &u16| topology.core(*core).is_some_and(topology::Core::is_usable);
        domain.cores.iter().copied().filter(usable).take(THREADS).collect::<Vec<u16>>()
    };
    let domains: Vec<(u16, Vec<u16>, u64)> =
        topology.domains.iter().map(|domain| (domain.number, cores(domain), domain.memory_free)).collect();
    let cache = topology.cores.iter().map(|core| core.cache_bytes).max().unwrap_or(0);
    let with_cores = domains.iter().filter(|(_, cores, _)| !cores.is_empty()).count();
    let pairs = (with_cores * with_cores).max(1);
    let each = (WHOLE / u32::try_from(pairs).unwrap_or(u32::MAX)).clamp(EACH[0], EACH[1]);
    let mut reaches = Reaches::default();
    for (to, near, free) in &domains {
        let Some(first) = near.first() else {
            reaches.missing.push(format!("domain {to} has no core here that could fill its memory"));
            continue;
        };
        let bytes = (cache.saturating_mul(CACHES)).clamp(LEAST, MOST).min(free / SHARE);
        if bytes < 2 * cache || bytes < LEAST / 4 {
            reaches.missing.push(format!("domain {to} has too little free memory: its caches would hold what is read"));
            continue;
        }
        let filled = thread::scope(|scope| {
            let filler =
                scope.spawn(|| pin::pin(*first).map(|()| filled(bytes as usize / 64)).map_err(|why| why.to_string()));
            filler.join().unwrap_or_else(|_| Err("the thread that fills it ended".to_owned()))
        });
        let memory = match filled {
            Ok(memory) if placed::share(&memory, *to).is_none_or(|share| share >= PLACED) => memory,
            Ok(_) => {
                reaches.missing.push(format!("the kernel put memory of domain {to} elsewhere: it has none left"));
                continue;
            }
            Err(why) => {
                reaches.missing.push(format!("domain {to}: {why}"));
                continue;
            }
        };
        for (from, cores, _) in domains.iter().filter(|(_, cores, _)| !cores.is_empty()) {
            tell(reaches.pairs.len(), pairs);
            match (chased(&memory, cores[0], each / 2), streamed(&memory, cores, each / 2)) {
                (Ok(nanos), Ok(bytes)) => reaches.pairs.push(Reach { from: *from, to: *to, nanos, bytes }),
                (Err(why), _) | (_, Err(why)) => reaches.missing.push(format!("domain {from} to {to}: {why}")),
            }
        }
    }
    reaches
}

/// Memory of so many lines, the first word of each the place of the next line's: one way through
/// all of them (Sattolo's algorithm), in an order that is the same each time.
fn filled(lines: usize) -> Vec<u64> {
    let lines = lines.clamp(2, u32::MAX as usize);
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..lines).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, (state % last as u64) as usize);
    }
    let mut memory = vec![0; lines * LINE];
    for (line, next) in order.iter().enumerate() {
        memory[line * LINE] = u64::from(*next) * LINE as u64;
    }
    memory
}

/// Nanoseconds of a step from line to line.
fn chased(memory: &[u64], core: u16, time: Duration) -> Result<f64, String> {
    thread::scope(|scope| {
        let chaser = scope.spawn(|| {
            pin::pin(core).map_err(|why| why.to_string())?;
            let clock = Clock;
            let (began, mut at, mut steps) = (clock.now().as_nanos(), 0_usize, 0_usize);
            loop {
                for _ in 0..STEPS {
                    at = memory.get(at).copied().unwrap_or(0) as usize;
                }
                steps += STEPS;
                let passed = clock.now().as_nanos().saturating_sub(began);
                if u128::from(passed) >= time.as_nanos() {
                    black_box(at);
                    return Ok(passed as f64 / steps as f64);
                }
            }
        });
        chaser.join().unwrap_or_else(|_| Err("the thread that measures ended".to_owned()))
    })
}

/// Bytes per second that these cores read together.
fn streamed(memory: &[u64], cores: &[u16], time: Duration) -> Result<f64, String> {
    // Each begins elsewhere, so that no core reads what another has just brought near.
    let part = memory.len().div_ceil(cores.len()).max(1);
    let ready = Barrier::new(cores.len());
    thread::scope(|scope| {
        let reader = |(core, own)| {
            let ready = &ready;
            move || {
                let pinned: Result<(), String> = pin::pin(core).map_err(|why| why.to_string());
                // Whoever cannot be pinned must not keep the others waiting.
                ready.wait();
                pinned.map(|()| read_for(own, time))
            }
        };
        let parts = cores.iter().copied().zip(memory.chunks(part).cycle());
        let readers: Vec<_> = parts.map(|one| scope.spawn(reader(one))).collect();
        let rates = readers
            .into_iter()
            .map(|reader| reader.join().unwrap_or_else(|_| Err("the thread that measures ended".to_owned())));
        rates.sum::<Result<f64, String>>()
    })
}

/// Bytes per second of one thread over its part, again and again.
fn read_for(own: &[u64], time: Duration) -> f64 {
    let clock = Clock;
    let (began, mut words) = (clock.now().as_nanos(), 0_usize);
    loop {
        for some in own.chunks(WORDS) {
            let mut sums = [0_u64; LINE];
            let mut lines = some.chunks_exact(LINE);
            for line in &mut lines {
                sums.iter_mut().zip(line).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
            }
            black_box(sums);
            words += some.len();
            let passed = clock.now().as_nanos().saturating_sub(began);
            if u128::from(passed) >= time.as_nanos() {
                return (words * size_of::<u64>()) as f64 * 1e9 / passed as f64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_goes_through_every_line_once() {
        for lines in [2, 3, 64, 1_000] {
            let memory = filled(lines);
            let (mut at, mut seen) = (0, vec![false; lines]);
            for _ in 0..lines {
                assert!(!core::mem::replace(&mut seen[at / LINE], true), "a line twice");
                at = memory[at] as usize;
            }
            assert!(at == 0 && seen.iter().all(|seen| *seen), "{lines}");
        }
    }

    #[test]
    fn this_machine_is_measured() {
        let topology = Topology::here().unwrap();
        let mut told = Vec::new();
        let reaches = measure(&topology, &mut |done, all| told.push((done, all)));
        assert_eq!(told.len(), reaches.pairs.len() + reaches.missing.iter().filter(|why| why.contains(" to ")).count());
        assert!(!reaches.pairs.is_empty() || !reaches.missing.is_empty());
        for pair in &reaches.pairs {
            assert!(pair.nanos > 0.1 && pair.nanos < 1e6 && pair.bytes > 1e6 && pair.bytes < 1e13, "{pair:?}");
        }
    }

    #[test]
    fn a_core_that_is_not_ours_is_told_and_nobody_waits() {
        let memory = filled(1_000);
        let short = Duration::from_millis(1);
        assert!(chased(&memory, 9_999, short).is_err());
        let ours = pin::allowed_cores().unwrap()[0];
        assert!(streamed(&memory, &[ours, 9_999], short).is_err());
        assert!(streamed(&memory, &[ours], short).is_ok_and(|bytes| bytes > 0.0));
    }

    #[test]
    fn odd_machines_are_not_measured_and_say_why() {
        let text = "sys/devices/system/cpu/possible 0\nsys/devices/system/node/node0/cpulist 0\n\
                    sys/devices/system/node/node1/distance 20 10\n";
        let machine = Topology::of(&topology::Recording::parse(text).unwrap(), None).unwrap();
        let reaches = measure(&machine, &mut |_, _| {});
        assert!(reaches.pairs.is_empty());
        assert!(reaches.missing[0].contains("too little free memory"), "{:?}", reaches.missing);
        assert!(reaches.missing[1].contains("no core here"), "{:?}", reaches.missing);
    }
}
