//! The rounds: every row once in each, in an order of its own, so that what
//! the machine does beside the demo falls on all rows alike.

use crate::DemoPlan;
use crate::child::Interrupt;
use crate::error::Error;
use crate::field::{Ask, Field, Generator, Link};
use crate::frames;
use crate::kernel::{self, Kernel};
use crate::machine::{Fingerprint, allowed_cores};
use crate::measure::{
    Connections, Contender, Content, FILE_BYTES, Measurement, PERCENTILES, SCENARIOS, Scenario, Stage,
};
use crate::pages::HugePages;
use crate::progress::Progress;
use crate::results::{DemoResults, Row};
use crate::stand::{Server, Stand};
use environment::ResultOrigin;
use random::SplitMix64;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One item of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Item {
    Ask(Scenario, Contender),
    Frames,
}

/// Who takes part. Dropping it ends and removes everything.
pub(crate) struct Parts {
    kernel: Option<Kernel>,
    pages: Option<HugePages>,
    stand: Stand,
    site: PathBuf,
    /// What asks on the one pair.
    generator: Generator,
    af_xdp: bool,
    left_out: Vec<String>,
    /// What wrk has asked for before: it needs no warming up again.
    warm: Vec<(Scenario, Contender)>,
    interrupt: Interrupt,
}

/// Which rows are measured, how often and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measuring {
    pub(crate) rounds: u32,
    pub(crate) duration: Duration,
    /// The rows of the first look alone, without frames.
    pub(crate) first_look: bool,
}

/// Rows of one run that may be given up. What fails more often fails everywhere.
const GIVEN_UP: usize = 3;

/// Measures all rounds, as far as that goes; what there is until an error is kept, and the error beside it.
pub(crate) fn run(parts: &mut Parts, course: Measuring, seed: u64) -> (DemoResults, Option<Error>) {
    let mut results = parts.results(course, seed);
    let with_frames = parts.pages.is_some() && !course.first_look;
    let ended = rounds(&mut results, course, with_frames, &mut |item| {
        let came = match item {
            Item::Ask(scenario, contender) => {
                parts.ask(scenario, contender, course.duration).map(|row| Came::Row(Box::new(row)))
            }
            Item::Frames => parts.frames(course.duration).map(Came::Frames),
        };
        // A signal of the terminal ends programs, too: that is no failure of theirs.
        came.map_err(|why| if parts.interrupt.check().is_err() { Error::Interrupted } else { why })
    });
    let ended = ended.err();
    results.ended = ended.as_ref().map(ToString::to_string);
    results.congestion = parts.kernel.as_ref().map(|kernel| kernel.congestion().to_owned());
    (results, ended)
}

/// What came of an item.
enum Came {
    Row(Box<Measurement>),
    Frames(f64),
}

/// The rounds by themselves. A row of which a program fails is given up, and what it had in the rounds before is kept:
/// rounds are paired by their numbers.
fn rounds(
    results: &mut DemoResults,
    course: Measuring,
    with_frames: bool,
    measure: &mut dyn FnMut(Item) -> Result<Came, Error>,
) -> Result<(), Error> {
    let mut progress = Progress::default();
    let mut random = SplitMix64::new(results.seed);
    let mut given_up: Vec<Item> = Vec::new();
    for round in 1..=course.rounds {
        let mut items = order(results, with_frames, &mut random);
        items.retain(|item| !given_up.contains(item));
        for (index, item) in items.iter().enumerate() {
            let place = match course.first_look {
                true => format!("first look, {}/{}", index + 1, items.len()),
                false => format!("round {round}/{}, {}/{}", course.rounds, index + 1, items.len()),
            };
            let name = match *item {
                Item::Ask(scenario, contender) => format!("{}, {}", results.name(contender), scenario.title()),
                Item::Frames => "frames alone between two testpmd".to_owned(),
            };
            progress.tell(&format!("{place}: {name}"));
            match (measure(*item), *item) {
                (Ok(Came::Row(measured)), Item::Ask(scenario, contender)) => {
                    let row = results.rows.iter_mut().find(|r| r.scenario == scenario && r.contender == contender);
                    if let Some(row) = row {
                        row.rounds.push(*measured);
                    }
                }
                (Ok(Came::Frames(rate)), _) => results.frames.push(rate),
                (Ok(Came::Row(_)), Item::Frames) => {}
                (Err(why @ (Error::Program { .. } | Error::Output { .. })), _) if given_up.len() < GIVEN_UP => {
                    progress.clear();
                    eprintln!("giving up {name}: {why}");
                    results.failed.push(format!("{name}: {why}"));
                    given_up.push(*item);
                }
                (Err(why), _) => {
                    progress.clear();
                    return Err(why);
                }
            }
        }
    }
    progress.clear();
    Ok(())
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
pub(crate) fn gather(plan: &DemoPlan, program: &Path) -> Result<Parts, Error> {
    let interrupt = Interrupt::watch()?;
    let stand = Stand::new(Some(program), cores(plan)?)?;
    let site = make_site(stand.folder())?;
    let mut left_out = Vec::new();
    let mut leave_out = |what: &str, why: String| {
        eprintln!("leaving out {what}: {why}");
        left_out.push(format!("{what}: {why}"));
    };
    let nginx = kernel::find(&plan.nginx)?;
    let none = nginx.is_empty().then(|| "not installed: nginx (package nginx-light)".to_owned());
    let kernel = match kernel::no_pair().or(none) {
        None => Some(Kernel::with(&nginx, stand.folder(), &site, stand.cores, &interrupt)?),
        Some(why) => {
            leave_out("nginx, and Nearside on kernel sockets and over AF_XDP", why);
            None
        }
    };
    let af_xdp = match kernel.as_ref().map(|kernel| try_af_xdp(&stand, kernel, &interrupt)) {
        Some(Err(Error::Interrupted)) => return Err(Error::Interrupted),
        Some(Err(why)) => {
            leave_out("Nearside over AF_XDP", why.to_string());
            false
        }
        Some(Ok(())) => true,
        None => false,
    };
    let pages = match frames::missing().map_or_else(|| HugePages::take(stand.folder()), |why| Err(Error::Machine(why)))
    {
        Ok(pages) => Some(pages),
        Err(why) => {
            leave_out("frames alone (testpmd)", why.to_string());
            None
        }
    };
    let generator = if af_xdp { Generator::Bypass } else { Generator::Sockets };
    Ok(Parts { kernel, pages, stand, site, generator, af_xdp, left_out, warm: Vec::new(), interrupt })
}

/// Whether a server comes up over AF_XDP here.
fn try_af_xdp(stand: &Stand, kernel: &Kernel, interrupt: &Interrupt) -> Result<(), Error> {
    let servers = [stand.cores.0];
    Field { stand, veth: Some(kernel.names()), tap: None, servers: &servers, mtu: None, interrupt }
        .serve(Link::AfXdp, None)?;
    Ok(())
}

/// The folder that all serve: a hundred files.
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
    fs::create_dir_all(site.join("f"))
        .and_then(|()| (0..100).try_for_each(|file| fs::write(site.join(format!("f/{file:02}.html")), &page)))
        .map_err(Error::io("cannot write the demo's site"))?;
    Ok(site)
}

/// The items of a round. Scenarios are shuffled, and who comes first in each;
/// the contenders of a scenario stay next to each other, so that their ratio
/// is of one moment.
fn order(results: &DemoResults, with_frames: bool, random: &mut SplitMix64) -> Vec<Item> {
    let mut groups: Vec<Vec<Item>> = Vec::new();
    for scenario in SCENARIOS {
        let rows = results.rows.iter().filter(|row| row.scenario == scenario);
        let mut group: Vec<Item> = rows.map(|row| Item::Ask(scenario, row.contender)).collect();
        shuffle(&mut group, random);
        groups.push(group);
    }
    if with_frames {
        groups.push(vec![Item::Frames]);
    }
    shuffle(&mut groups, random);
    groups.concat()
}

/// Fisher and Yates.
fn shuffle<T>(items: &mut [T], random: &mut SplitMix64) {
    for last in (1..items.len()).rev() {
        let other = (random.bits() % (last as u64 + 1)) as usize;
        items.swap(last, other);
    }
}

impl Parts {
    fn results(&self, course: Measuring, seed: u64) -> DemoResults {
        let rows = SCENARIOS.into_iter().filter(|scenario| !course.first_look || scenario.is_first());
        let row = |scenario: Scenario| {
            let taken = scenario.stage.contenders().iter().filter(move |contender| self.takes_part(**contender));
            taken.map(move |contender| Row { scenario, contender: *contender, rounds: Vec::new() })
        };
        DemoResults {
            origin: ResultOrigin::now(),
            machine: Fingerprint::read(),
            nearside: env!("CARGO_PKG_VERSION").to_owned(),
            nginx: self.kernel.as_ref().map(Kernel::known).unwrap_or_default(),
            configuration: self.kernel.as_ref().map(Kernel::configuration),
            congestion: None,
            generator: self.generator,
            cores: self.stand.cores,
            rounds: course.rounds,
            seconds: course.duration.as_secs_f64(),
            seed,
            percentiles: PERCENTILES.to_vec(),
            rows: rows.flat_map(row).collect(),
            frames: Vec::new(),
            left_out: self.left_out.clone(),
            failed: Vec::new(),
            ended: None,
        }
    }

    fn takes_part(&self, contender: Contender) -> bool {
        match contender {
            Contender::Memif => true,
            Contender::AfXdp => self.af_xdp,
            Contender::Sockets => self.kernel.is_some(),
            Contender::Nginx | Contender::OtherNginx => {
                let known = self.kernel.as_ref().map_or(0, |kernel| kernel.known().len());
                contender.nginx().is_some_and(|at| at < known)
            }
        }
    }

    fn ask(&mut self, scenario: Scenario, contender: Contender, duration: Duration) -> Result<Measurement, Error> {
        if let Some(kernel) = &self.kernel {
            // On the one pair all is charged to its own side; elsewhere nginx
            // has what is faster for it.
            let cores = (scenario.stage == Stage::OnePair).then_some(self.stand.cores);
            kernel.names().receive_on(cores)?;
        }
        match (scenario.stage, contender.nginx()) {
            (Stage::SharedMemory, Some(at)) => {
                // A measurement of less is to show that it works.
                let cold = duration >= Duration::from_secs(1) && !self.warm.contains(&(scenario, contender));
                let Some(kernel) = &mut self.kernel else { return Err(Error::Machine("nginx is gone".to_owned())) };
                let measured = kernel.measure(at, scenario, cold, duration, &self.interrupt)?;
                self.warm.push((scenario, contender));
                Ok(measured)
            }
            _ => self.ask_by_load(scenario, contender, duration),
        }
    }

    /// By `nearside load`, over what joins it to the contender.
    fn ask_by_load(&self, scenario: Scenario, contender: Contender, duration: Duration) -> Result<Measurement, Error> {
        let (kernel, servers) = (self.kernel.as_ref(), [self.stand.cores.0]);
        let veth = kernel.map(Kernel::names);
        let field =
            Field { stand: &self.stand, veth, tap: None, servers: &servers, mtu: None, interrupt: &self.interrupt };
        let folder = (scenario.content == Content::File).then_some(self.site.as_path());
        let (link, port) = match contender {
            Contender::Memif => (Link::Memif, None),
            Contender::AfXdp => (Link::AfXdp, None),
            Contender::Sockets => (Link::Kernel, None),
            Contender::Nginx | Contender::OtherNginx => (Link::Kernel, contender.nginx().map(kernel::port)),
        };
        let mut server = match contender.nginx() {
            Some(at) => Server::other(kernel.map_or(&[], |kernel| kernel.workers_of(at))),
            None => field.serve(link, folder)?,
        };
        let mut more = vec![format!("--heads={}", scenario.heads.word())];
        if scenario.connections == Connections::New {
            more.push("--close".to_owned());
        }
        let ask = Ask { path: scenario.path(), connections: scenario.count, more: &more, duration, secured: false };
        let generator = if link == Link::Memif { Generator::Bypass } else { self.generator };
        Ok(field.ask(&mut server, (link, port), generator, ask)?.into())
    }

    fn frames(&self, duration: Duration) -> Result<f64, Error> {
        match &self.pages {
            Some(pages) => frames::measure(self.stand.folder(), pages, self.stand.cores, duration, &self.interrupt),
            None => Err(Error::Machine("testpmd was left out".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report;
    use crate::tests::invented;

    /// Rounds of invented rows, of which each that `fails` names has its error when it is asked that often.
    fn run(fails: impl Fn(usize) -> Option<Error>) -> (DemoResults, Option<Error>, usize) {
        let measured = invented().rows[0].rounds[0].clone();
        let mut results = invented();
        results.rows.iter_mut().for_each(|row| row.rounds.clear());
        let course = Measuring { rounds: 2, duration: Duration::from_secs(1), first_look: false };
        let mut asked = 0;
        let ended = rounds(&mut results, course, false, &mut |_| {
            asked += 1;
            fails(asked).map_or_else(|| Ok(Came::Row(Box::new(measured.clone()))), Err)
        });
        (results, ended.err(), asked)
    }

    #[test]
    fn a_row_that_fails_is_given_up_and_the_others_are_measured() {
        let all = invented().rows.len();
        let (results, ended, asked) = run(|at| (at == 3).then(|| Error::output("wrk", "answered requests")));
        assert!(ended.is_none() && asked == 2 * all - 1, "{ended:?} {asked}");
        let counts: Vec<usize> = results.rows.iter().map(|row| row.rounds.len()).collect();
        assert_eq!(
            (counts.iter().sum::<usize>(), counts.iter().filter(|count| **count == 0).count()),
            (2 * all - 2, 1)
        );
        let (word, reasons) = results.verdict();
        assert!(word == "PARTIAL" && reasons[0].contains("wrk printed no answered requests"), "{reasons:?}");
        assert!(report::page(&results).render().contains("wrk printed no answered requests"));
        // What fails everywhere ends it.
        let (results, ended, asked) = run(|_| Some(Error::output("wrk", "answered requests")));
        assert!(ended.is_some() && asked == GIVEN_UP + 1 && results.verdict().0 == "INVALID", "{asked}");
    }

    #[test]
    fn what_was_measured_before_an_interrupt_is_kept() {
        let (mut results, ended, asked) = run(|at| (at == 13).then_some(Error::Interrupted));
        assert!(matches!(ended, Some(Error::Interrupted)) && asked == 13, "{ended:?} {asked}");
        results.ended = ended.as_ref().map(ToString::to_string);
        assert_eq!(results.rows.iter().map(|row| row.rounds.len()).sum::<usize>(), 12);
        let page = report::page(&results).render();
        assert!(page.contains("It ended early: interrupted."), "{page}");
        assert!(results.to_json().contains("\"PARTIAL\""));
    }
}
