//! `nearside packet run zero-loss`: the published measurement as one command.
//!
//! A probe beside a background through a forwarder: the node is judged first,
//! then latency is measured without and with the background, and the
//! forwarder's own statistics are told with it. Without links of the user's it
//! sets up a forwarder of ours beside itself, over memif or AF_XDP on veth.

use crate::child::{own, program};
use crate::latency::{self, LatencyTold, PAGE};
use crate::load::{INTERRUPTED, MISSED, made};
use crate::look::Before;
use crate::pages::keep_page;
use crate::{LatencyPlan, ZeroLossPlan};
use demo::child::{Interrupt, Running};
use demo::netns::Wires;
use demo::scratch::Scratch;
use driver::Role;
use environment::{ResultKind, SCHEMA};
use host::drivers::LinkSpec;
use host::stop_signals;
use packet::verdict::Word;
use say::{Failure, print, println};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Until the forwarder has its sockets.
const COMING: Duration = Duration::from_secs(10);
/// Until it has told what it counted, on a machine that others keep busy.
const LAST_WORDS: Duration = Duration::from_secs(30);
/// Until it has its interfaces, which nothing shows.
const SETTLING: Duration = Duration::from_secs(2);

/// What lies between the tester's ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Shared memory.
    Memif,
    /// Two veth pairs by AF_XDP, the forwarder in a namespace of its own.
    Veth,
}

/// Measures, and prints table, curves' place and the forwarder's statistics.
///
/// # Errors
/// What the user is to know.
pub fn zero_loss(plan: &ZeroLossPlan) -> Result<ExitCode, Failure> {
    let signals = stop_signals()?;
    let interrupt = Interrupt::of(Arc::clone(&signals));
    let scratch = Scratch::private()?;
    if let Some(folder) = &plan.out {
        std::fs::create_dir_all(folder).map_err(|why| format!("cannot make {}: {why}", folder.display()))?;
    }
    let before = Before::look(&plan.cores(), plan.noise, scratch.path(), &interrupt)?;
    let set = Set::up(plan, scratch.path(), &interrupt)?;
    let mut told = latency::measured(&plan.latency(set.links(plan)?), signals.as_ref())?;
    before.name(&mut told.verdict);
    let forwarder = set.end();
    if forwarder.as_ref().is_some_and(|(_, told)| told.is_null()) {
        told.verdict.lacks("the forwarder's own statistics: it ended without them");
    }
    show(plan, &before, &told, forwarder.as_ref())?;
    if let Some(why) = told.unkept {
        return Err(why.into());
    }
    Ok(match told.verdict.word {
        _ if told.stopped => ExitCode::from(INTERRUPTED),
        Word::Invalid => ExitCode::from(MISSED),
        _ if told.lost > Some(0) => ExitCode::from(MISSED),
        Word::Complete | Word::Partial => ExitCode::SUCCESS,
    })
}

impl ZeroLossPlan {
    /// The measurement: without a background, and with it.
    fn latency(&self, links: Vec<LinkSpec>) -> LatencyPlan {
        LatencyPlan {
            links,
            probe: self.probe.clone(),
            background: self.background.clone(),
            rates: vec![0.0, self.rate],
            durations: vec![self.alone, self.duration],
            duration: self.duration,
            drain: self.drain,
            late_limit: self.late_limit,
            threshold: self.threshold,
            clock: self.clock,
            link_limit: self.link_limit,
            pace: self.pace.clone(),
            out: self.out.clone(),
            // That of the whole is made when the forwarder has told what it did.
            html: None,
            checkpoint: self.checkpoint,
            json: self.json,
        }
    }

    /// The cores that matter, where they are named.
    fn cores(&self) -> Vec<u16> {
        let named = self.pace.cores.iter().chain(&self.forwarder.cores).flatten();
        let mut cores: Vec<u16> = named.copied().collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    }
}

/// A forwarder that was set up, or the user's own.
enum Set {
    /// It is elsewhere.
    Theirs,
    /// Over sockets, or between interfaces.
    Ours { forwarder: Box<Running>, links: [String; 2], out: std::path::PathBuf, wires: Option<Box<Wires>> },
}

impl Set {
    fn up(plan: &ZeroLossPlan, folder: &Path, interrupt: &Interrupt) -> Result<Self, Failure> {
        if !plan.links.is_empty() {
            return Ok(Self::Theirs);
        }
        let wires = match plan.medium {
            Medium::Memif => None,
            Medium::Veth => Some(Box::new(Wires::here()?)),
        };
        let (inner, links) = match &wires {
            None => {
                let socket = |name: &str| folder.join(name).display().to_string();
                let of = |role: &str| ["a.sock", "b.sock"].map(|name| format!("memif:{},role={role}", socket(name)));
                (of("server"), of("client"))
            }
            Some(wires) => (
                wires.inner.clone().map(|name| format!("af_xdp:{name}")),
                wires.outer.clone().map(|name| format!("af_xdp:{name}")),
            ),
        };
        let out = folder.join("forwarder.json");
        let mode = plan.forwarder_mode.name();
        let mut words = own(&["packet", "forward", "--mode", mode])?;
        words.extend(inner.iter().map(|link| format!("--link={link}")));
        words.extend(["--out".to_owned(), out.display().to_string()]);
        if let [Some(core)] = plan.forwarder.cores[..] {
            words.extend(["--cores".to_owned(), core.to_string()]);
        }
        if let Some(priority) = plan.forwarder.fifo {
            words.extend(["--sched".to_owned(), format!("fifo:{priority}")]);
        }
        let netns = wires.as_ref().map(|wires| wires.inside());
        let mut forwarder = program("forwarder", netns, words).start(folder)?;
        // Sockets show when it is there; interfaces do not, and testers wait for them.
        match &wires {
            Some(_) => {
                interrupt.sleep(SETTLING)?;
                forwarder.still_runs()?;
            }
            None => {
                let there = || ["a.sock", "b.sock"].iter().all(|name| folder.join(name).exists());
                forwarder.wait_until("open its sockets", COMING, interrupt, there)?;
            }
        }
        Ok(Self::Ours { forwarder: Box::new(forwarder), links, out, wires })
    }

    fn links(&self, plan: &ZeroLossPlan) -> Result<Vec<LinkSpec>, Failure> {
        match self {
            Self::Theirs => Ok(plan.links.clone()),
            Self::Ours { links, .. } => {
                let parse = |link: &String| LinkSpec::parse(link, Role::Client).map_err(|why| why.to_string().into());
                links.iter().map(parse).collect()
            }
        }
    }

    /// Ends it; what it said, for people and for programs.
    fn end(self) -> Option<(String, Value)> {
        match self {
            Self::Theirs => None,
            Self::Ours { mut forwarder, out, wires, .. } => {
                forwarder.end_within(LAST_WORDS);
                let said = forwarder.output();
                drop(wires);
                let text = std::fs::read_to_string(out).unwrap_or_default();
                Some((said, serde_json::from_str(&text).unwrap_or(Value::Null)))
            }
        }
    }
}

fn show(
    plan: &ZeroLossPlan,
    before: &Before,
    told: &LatencyTold,
    forwarder: Option<&(String, Value)>,
) -> Result<(), Failure> {
    let links = told.value["told"].as_array();
    let lines = before.lines().into_iter().map(Value::String);
    let value = json!({
        "kind": ResultKind::ZeroLoss,
        "schema": SCHEMA,
        "command": told.value["command"],
        "made": made(),
        "environment": told.value["environment"],
        "audit": before.audit,
        "noise": before.noise_json(),
        "measured": told.value,
        "forwarder": forwarder.map(|(_, value)| value),
        "told": lines.chain(links.into_iter().flatten().cloned()).collect::<Vec<_>>(),
        "zero_loss": zero_loss_of(told),
        "verdict": told.verdict,
    });
    if plan.json {
        println!("{value:#}");
        return keep(plan, &value);
    }
    print!("{}", before.told());
    print!("{}", told.text);
    if let Some((said, _)) = forwarder {
        println!("\nthe forwarder's own statistics\n{}", said.trim_end());
    }
    match (zero_loss_of(told), told.lost) {
        (Some(true), _) => println!("\nzero loss: no frame was lost beside the background"),
        (_, None) => println!("\nzero loss: not known, as it did not come to its end"),
        (None, Some(lost)) => println!("\nzero loss: not known, as the result is INVALID ({lost} frames did not come)"),
        (_, Some(lost)) => println!("\nzero loss: NOT KEPT, {lost} frames were lost beside the background"),
    }
    println!("{}", told.verdict);
    keep(plan, &value)
}

/// Whether nothing was lost; `None` where it cannot be told of the device: the measurement did not come
/// to its end, or is none.
fn zero_loss_of(told: &LatencyTold) -> Option<bool> {
    told.lost.filter(|_| told.verdict.word != Word::Invalid).map(|lost| lost == 0)
}

/// The page of the whole, in the place of that of the latencies alone.
fn keep(plan: &ZeroLossPlan, value: &Value) -> Result<(), Failure> {
    let page = plan.out.as_ref().map(|folder| folder.join(PAGE));
    keep_page(page.as_deref(), value).and_then(|()| keep_page(plan.html.as_deref(), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::verdict::Validity;

    #[test]
    fn no_loss_is_told_of_what_was_cut_off_or_is_invalid() {
        let told = |lost, fails: bool| {
            let mut verdict = Validity::default();
            if fails {
                verdict.fails("the tester was late");
            }
            let text = String::new();
            zero_loss_of(&LatencyTold { value: Value::Null, text, verdict, stopped: false, lost, unkept: None })
        };
        assert_eq!((told(Some(0), false), told(Some(4), false)), (Some(true), Some(false)));
        assert_eq!((told(None, false), told(Some(0), true), told(Some(4), true)), (None, None, None));
    }
}
