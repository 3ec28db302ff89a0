//! `nearside load`.
//!
//! | module | for |
//! | --- | --- |
//! | `plan` | what it is to do |
//! | `run` | one run of a plan, over either data path |
//! | `bypass`, `kernel` | the data paths: silos over links, threads over kernel sockets |
//! | `account`, `own`, `server_time` | what the kernel knows of us and of the server |
//! | `collect`, `files` | intervals taken from the workers, and written |
//! | `show`, `view`, `terminal` | how the run goes |
//! | `resolve`, `floor` | before the run: the target's address, and our own floor |
//! | `goal`, `sweep` | many runs |
//! | `bulk` | a link measured by streams without end |
//! | `streaming` | streams that are to have a rate |
//! | `watch`, `sift` | what disturbs a run, and which slices of it count |
//! | `noise` | what else the machine did meanwhile |
//! | `siblings` | the cores that share one with the generator's |
//! | `port` | the interface that requests go by, and how full it is |
//! | `drawn` | results as pages, SVG, and in plain characters |
//! | `worker`, `post`, `route` | a part of a load that many generate, what it tells their controller, and how |
//! | `quota` | what a quota of processor time keeps it from |
//! | `print` | what comes out, and the exit code |

mod account;
mod bulk;
mod bypass;
mod collect;
mod drawn;
mod files;
mod floor;
mod goal;
mod kernel;
mod noise;
mod own;
mod plan;
mod port;
mod post;
mod print;
mod quota;
mod resolve;
mod route;
mod run;
mod server_time;
mod show;
mod siblings;
mod sift;
mod streaming;
mod sweep;
pub mod terminal;
mod view;
mod watch;
mod worker;

pub use plan::{
    BulkTask, ControllerPlan, Form, LoadPath, LoadPlan, LoadSockets, OutputPlan, Place, ProgressKind, ServerPlan,
    StreamTask, SweepPlan, Task, WorkerPlan,
};

use drawn::Drawings;
use environment::ResultOrigin;
use goal::Goal;
use host::Layout;
use report::{exit_reason, render_hgrm, render_json};
use run::Runner;
use say::{Failure, eprintln};
use std::process::ExitCode;

/// Loads a server and prints what was measured.
///
/// # Errors
/// What the user is to know.
pub fn load(plan: LoadPlan) -> Result<ExitCode, Failure> {
    let LoadPlan { path, mut load, task, expect, output, notes, worker } = plan;
    if let Some(place) = worker {
        return worker::work(&place, path, &load, output);
    }
    notes.iter().for_each(|note| eprintln!("nearside: {note}"));
    let (form, strict) = (output.form, output.strict);
    if let LoadPath::Link(host) = &path
        && host.plan_only
    {
        Layout::new(host)?.print(form == Form::Json);
        return Ok(ExitCode::SUCCESS);
    }
    // What cannot be written is told before the run, not after it.
    let hgrm = output.hgrm.clone();
    hgrm.as_deref().map_or(Ok(()), results::expect_writable)?;
    let drawings = Drawings::prepare(&output)?;
    let mut runner = Runner::new(path, output, &mut load)?;
    let code = match task {
        Task::FindMax { objectives, config, server } => {
            let goal = Goal { objectives, config, server };
            goal::find_max(&runner, &load, &goal, form, drawings)?
        }
        Task::Bulk(task) => {
            let bulk::BulkMeasured { verdict, json } = runner.bulk(&load, &task, form, print::put)?;
            drawings.write(&json)?;
            match () {
                () if runner.is_stopped() => print::INTERRUPTED,
                // Of a server that sends what ends, as of one that answers nothing.
                () if !verdict.reasons.is_empty() => {
                    eprintln!("nearside: INVALID: {}", verdict.reasons.join("; "));
                    print::INVALID
                }
                () => 0,
            }
        }
        Task::Stream(task) => {
            let measured = runner.stream(&load, &task, &expect, form, print::put)?;
            drawings.write(&measured.json)?;
            print::streams(&measured, strict)
        }
        Task::Sweep(plan) => sweep::sweep(&mut runner, &load, &plan, form, drawings)?,
        Task::Once => {
            let floor = runner.floor(&load)?;
            let outcome = runner.run(&load, floor, None)?;
            let judged = print::judge(&outcome.report, &expect);
            let json = render_json(&outcome.report, &judged, &outcome.environment, &ResultOrigin::now());
            print::outcome(form, &outcome, &judged, &json)?;
            drawings.write(&json)?;
            if let Some(file) = hgrm {
                results::write_whole(&file, &render_hgrm(&outcome.report))?;
            }
            let reason = exit_reason(&outcome.report, &judged, outcome.seen.failures, strict);
            if let Some(why) = reason.sentence(&outcome.report) {
                eprintln!("nearside: {why}");
            }
            reason.code()
        }
    };
    Ok(print::exit(code))
}
