//! The rounds: every row once in each, in an order of its own, so that what
//! the machine does beside the demo falls on all rows alike.

use crate::DemoPlan;
use crate::child::{Interrupt, Scratch};
use crate::error::Error;
use crate::frames::{self, HugePages};
use crate::kernel::{self, Kernel};
use crate::machine::{Fingerprint, allowed_cores};
use crate::measure::{Contender, FILE_BYTES, Measurement, PERCENTILES, SCENARIOS, Scenario, thousands};
use crate::near::Near;
use crate::results::{Results, Row};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One item of a round.
#[derive(Clone, Copy, Debug)]
enum Item {
    Ask(Scenario, Contender),
    Frames,
}

/// Who takes part. Dropping it ends and removes everything.
struct Parts {
    kernel: Option<Kernel>,
    near: Near,
    pages: Option<HugePages>,
    scratch: Scratch,
    cores: (u16, u16),
    left_out: Vec<String>,
}

/// Measures all rounds.
pub(crate) fn run(plan: &DemoPlan, program: &Path) -> Result<Results, Error> {
    let interrupt = Interrupt::watch()?;
    let cores = cores(plan)?;
    let seconds = plan.duration.as_secs() + u64::from(plan.duration.subsec_nanos() > 0);
    let duration = Duration::from_secs(seconds.max(1));
    let mut parts = gather(program, cores, &interrupt)?;
    let mut results = Results {
        machine: Fingerprint::read(),
        nearside: env!("CARGO_PKG_VERSION").to_owned(),
        nginx: parts.kernel.as_ref().map(|kernel| kernel.version.clone()),
        congestion: None,
        cores,
        rounds: plan.rounds,
        seconds: duration.as_secs(),
        seed: plan.seed,
        percentiles: PERCENTILES.to_vec(),
        rows: empty_rows(parts.kernel.is_some()),
        frames: Vec::new(),
        left_out: parts.left_out.clone(),
    };
    let mut random = plan.seed;
    for round in 1..=plan.rounds {
        let items = order(parts.kernel.is_some(), parts.pages.is_some(), &mut random);
        for (index, item) in items.iter().enumerate() {
            eprint!("round {round}/{}, {:>2}/{}: ", plan.rounds, index + 1, items.len());
            match *item {
                Item::Ask(scenario, contender) => {
                    let measured = parts.ask(scenario, contender, plan.warmup, duration, &interrupt)?;
                    let rate = thousands(measured.requests_per_second);
                    eprintln!("{rate:>10} requests/s  {:8}  {}", contender.name(), scenario.title());
                    let row = results.rows.iter_mut().find(|r| r.scenario == scenario && r.contender == contender);
                    row.into_iter().for_each(|row| row.rounds.push(measured.clone()));
                }
                Item::Frames => {
                    let rate = parts.frames(duration, &interrupt)?;
                    eprintln!("{:>10} frames/s    testpmd   frames alone, both ways together", thousands(rate));
                    results.frames.push(rate);
                }
            }
        }
    }
    results.congestion = parts.kernel.as_ref().map(|kernel| kernel.congestion().to_owned());
    Ok(results)
}

pub(crate) fn cores(plan: &DemoPlan) -> Result<(u16, u16), Error> {
    let allowed = allowed_cores();
    match (plan.cores, allowed.as_slice()) {
        (Some((server, client)), allowed) => match [server, client].iter().find(|core| !allowed.contains(core)) {
            Some(core) => Err(Error::Machine(format!("core {core} may not be used; there are {allowed:?}"))),
            None => Ok((server, client)),
        },
        (None, [server, client, ..]) => Ok((*server, *client)),
        (None, _) => Err(Error::Machine("the demo needs two cores: one for the server, one for the client".to_owned())),
    }
}

/// Starts what can be started, and says what cannot.
fn gather(program: &Path, cores: (u16, u16), interrupt: &Interrupt) -> Result<Parts, Error> {
    let scratch = Scratch::make()?;
    let site = make_site(scratch.path())?;
    let mut left_out = Vec::new();
    let mut leave_out = |what: &str, why: String| {
        eprintln!("leaving out {what}: {why}");
        left_out.push(format!("{what}: {why}"));
    };
    let kernel = match kernel::missing() {
        None => Some(Kernel::start(scratch.path(), &site, cores, None, interrupt)?),
        Some(why) => {
            leave_out("nginx on kernel sockets", why);
            None
        }
    };
    let pages = match frames::missing() {
        None => match HugePages::take(scratch.path()) {
            Ok(pages) => Some(pages),
            Err(why) => {
                leave_out("frames alone (testpmd)", why.to_string());
                None
            }
        },
        Some(why) => {
            leave_out("frames alone (testpmd)", why);
            None
        }
    };
    let near = Near::new(program, scratch.path(), &site, cores);
    Ok(Parts { kernel, near, pages, scratch, cores, left_out })
}

/// The folder that both serve.
pub(crate) fn make_site(dir: &Path) -> Result<PathBuf, Error> {
    let site = dir.join("site");
    let mut page = String::from("<!doctype html><title>Nearside</title><p>");
    let words = ["packet", "segment", "request", "answer", "window", "burst", "turn", "silo"];
    for word in words.iter().cycle() {
        if page.len() >= FILE_BYTES {
            break;
        }
        page.push_str(word);
        page.push(' ');
    }
    page.truncate(FILE_BYTES);
    fs::create_dir(&site)
        .and_then(|()| fs::write(site.join("page.html"), page))
        .map_err(Error::io("cannot write the demo's site"))?;
    Ok(site)
}

fn empty_rows(with_nginx: bool) -> Vec<Row> {
    let contenders = if with_nginx { &[Contender::Nginx, Contender::Nearside][..] } else { &[Contender::Nearside] };
    let row = |scenario| move |contender: &Contender| Row { scenario, contender: *contender, rounds: Vec::new() };
    SCENARIOS.iter().flat_map(|scenario| contenders.iter().map(row(*scenario))).collect()
}

/// The items of a round. Scenarios are shuffled, and who comes first in each;
/// the contenders of a scenario stay next to each other, so that their ratio
/// is of one moment.
fn order(with_nginx: bool, with_frames: bool, random: &mut u64) -> Vec<Item> {
    let mut groups: Vec<Vec<Item>> = SCENARIOS
        .iter()
        .map(|scenario| {
            let mut group = vec![Item::Ask(*scenario, Contender::Nearside)];
            if with_nginx {
                let at = (draw(random) % 2) as usize;
                group.insert(at, Item::Ask(*scenario, Contender::Nginx));
            }
            group
        })
        .collect();
    if with_frames {
        groups.push(vec![Item::Frames]);
    }
    // Fisher and Yates.
    for last in (1..groups.len()).rev() {
        let other = (draw(random) % (last as u64 + 1)) as usize;
        groups.swap(last, other);
    }
    groups.concat()
}

/// SplitMix64: good enough to shuffle a dozen items, the same on every machine.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Parts {
    fn ask(
        &mut self,
        scenario: Scenario,
        contender: Contender,
        warmup: Duration,
        duration: Duration,
        interrupt: &Interrupt,
    ) -> Result<Measurement, Error> {
        match (contender, &mut self.kernel) {
            (Contender::Nginx, Some(kernel)) => kernel.measure(scenario, duration, interrupt),
            (Contender::Nginx, None) => Err(Error::Machine("nginx was left out".to_owned())),
            (Contender::Nearside, _) => self.near.measure(scenario, warmup, duration, interrupt),
        }
    }

    fn frames(&self, duration: Duration, interrupt: &Interrupt) -> Result<f64, Error> {
        match &self.pages {
            Some(pages) => frames::measure(self.scratch.path(), pages, self.cores, duration, interrupt),
            None => Err(Error::Machine("testpmd was left out".to_owned())),
        }
    }
}
