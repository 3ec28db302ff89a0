//! `nearside packet run zero-loss`: the published measurement as one command.
//!
//! A probe beside a background through a forwarder: the node is judged first,
//! then latency is measured without and with the background, and the
//! forwarder's own statistics are told with it. Without links of the user's it
//! sets up a forwarder of ours beside itself, over memif or AF_XDP on veth.

use crate::child::{own, program};
use crate::latency::{self, LatencyTold};
use crate::load::{INTERRUPTED, MISSED};
use crate::{LatencyPlan, ZeroLossPlan};
use demo::child::{Interrupt, Running};
use demo::netns::Wires;
use demo::scratch::Scratch;
use driver::Role;
use environment::{ResultKind, SCHEMA};
use host::drivers::LinkSpec;
use host::stop_signals;
use packet::verdict::Word;
use say::{Failure, eprintln, print, println};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Time for the audit, and beyond the time that noise is listened to.
const PATIENCE: Duration = Duration::from_secs(60);
/// Until the forwarder has its sockets.
const COMING: Duration = Duration::from_secs(10);
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
    let before = node(plan, scratch.path(), &interrupt)?;
    let set = Set::up(plan, scratch.path(), &interrupt)?;
    let told = latency::measured(&plan.latency(set.links(plan)?), signals.as_ref())?;
    let forwarder = set.end();
    show(plan, &before, &told, forwarder.as_ref())?;
    if let Some(why) = told.unkept {
        return Err(why.into());
    }
    Ok(match told.verdict.word {
        _ if told.stopped => ExitCode::from(INTERRUPTED),
        Word::Invalid => ExitCode::from(MISSED),
        _ if told.lost > 0 => ExitCode::from(MISSED),
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

/// What was looked at before.
struct Before {
    audit: Value,
    audit_status: i32,
    noise: Result<Value, String>,
}

/// The audit of the role forwarder, and the noise on the cores.
fn node(plan: &ZeroLossPlan, folder: &Path, interrupt: &Interrupt) -> Result<Before, Failure> {
    eprintln!("judging this machine as a forwarder");
    let words = own(&["node", "audit", "--role", "forwarder", "--json"])?;
    let mut audit = program("audit", None, words).start(folder)?;
    let status = audit.ended(PATIENCE, interrupt)?;
    let audit = serde_json::from_str(&audit.output()).unwrap_or(Value::Null);
    let cores = plan.cores();
    let noise = if plan.noise.is_zero() {
        Err("--noise 0s".to_owned())
    } else if cores.is_empty() {
        Err("no core is named (--core, --forwarder-core)".to_owned())
    } else {
        let list = cores.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        eprintln!("listening to the noise on cores {list}");
        let time = format!("{}ms", plan.noise.as_millis());
        let words = own(&["node", "noise", "--cores", &list, "--for", &time, "--json"])?;
        let mut beside = program("noise", None, words).start(folder)?;
        match beside.ended(plan.noise + PATIENCE, interrupt) {
            Ok(_) => serde_json::from_str(&beside.output()).map_err(|_| "node noise gave no report".to_owned()),
            Err(why) => Err(why.to_string()),
        }
    };
    Ok(Before { audit, audit_status: status.code().unwrap_or(-1), noise })
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
                forwarder.end();
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
    if plan.json {
        let noise = match &before.noise {
            Ok(noise) => noise.clone(),
            Err(why) => json!({ "left_out": why }),
        };
        println!(
            "{:#}",
            json!({
                "kind": ResultKind::ZeroLoss,
                "schema": SCHEMA,
                "environment": told.value["environment"],
                "audit": before.audit,
                "noise": noise,
                "measured": told.value,
                "forwarder": forwarder.map(|(_, value)| value),
                "zero_loss": told.lost == 0,
                "verdict": told.verdict,
            })
        );
        return Ok(());
    }
    println!("node audit, role forwarder: {}", audited(before));
    match &before.noise {
        Ok(noise) => println!("node noise: {}", quiet(noise)),
        Err(why) => println!("node noise: left out ({why})"),
    }
    print!("{}", told.text);
    if let Some((said, _)) = forwarder {
        println!("\nthe forwarder's own statistics\n{}", said.trim_end());
    }
    match told.lost {
        0 => println!("\nzero loss: no frame was lost beside the background"),
        lost => println!("\nzero loss: NOT KEPT, {lost} frames were lost beside the background"),
    }
    println!("{}", told.verdict);
    Ok(())
}

/// The audit in a line.
fn audited(before: &Before) -> String {
    let rows = before.audit.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let word = match before.audit_status {
        0 => "nothing is worse than the kernel's defaults",
        4 => "something is worse than the kernel's defaults",
        5 => "something is dangerous",
        _ => "no answer",
    };
    format!("{word} ({} rules; nearside node audit --role forwarder has them)", rows.len())
}

/// The noise in a line: each core's worst.
fn quiet(noise: &Value) -> String {
    let cores = noise.get("cores").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = |core: &Value| {
        let at = |key: &str| core.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        let lost = 100.0 * at("gap_nanos") / 1e9 / at("seconds").max(1e-9);
        let longest = at("longest_nanos") / 1e3;
        format!(
            "core {} lost {lost:.3} % of its time, {longest:.0} us at most, {:.0} ms stolen",
            at("core"),
            at("stolen_ms")
        )
    };
    let told: Vec<String> = cores.iter().map(one).collect();
    if told.is_empty() { "no report".to_owned() } else { told.join("; ") }
}
