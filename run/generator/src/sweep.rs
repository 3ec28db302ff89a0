//! `--sweep`: a table of runs.

use super::drawn::{Drawings, ascii};
use super::files;
use super::print::{INTERRUPTED, put};
use super::run::{Runner, only_server};
use super::server_time::ServerTime;
use crate::plan::{Form, ServerPlan, SweepPlan};
use environment::ResultOrigin;
use load::{Cpu, Plan};
use report::{CpuUse, SweepRow, sweep_csv_heading, sweep_csv_line, sweep_heading, sweep_json, sweep_line};
use say::Failure;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Runs a plan with each number of threads and connections, prints each row
/// when it is there, and answers the exit code.
///
/// # Errors
/// What the user is to know.
pub fn sweep(
    runner: &mut Runner,
    plan: &Plan,
    sweep: &SweepPlan,
    form: Form,
    drawings: Drawings,
) -> Result<u8, Failure> {
    let (server, unknown) = match server(&sweep.server)? {
        Ok(server) => (Some(server), None),
        Err(why) => (None, Some(why)),
    };
    let mut csv = match &sweep.csv {
        Some(path) => Some((path.as_path(), files::create(path)?)),
        None => None,
    };
    append(&mut csv, &sweep_csv_heading())?;
    let table = form != Form::Json;
    if table {
        put(&sweep_heading(unknown.as_deref()))?;
    }
    let procs: Vec<Option<u32>> = match sweep.procs.as_slice() {
        [] => vec![None],
        procs => procs.iter().copied().map(Some).collect(),
    };
    let mut rows = Vec::new();
    'all: for threads in procs {
        if let Some(threads) = threads {
            runner.set_threads(threads)?;
        }
        for connections in &sweep.connections {
            let mut plan = plan.clone();
            plan.connections = *connections;
            plan.check()?;
            let workers = runner.workers(&plan) as u32;
            let outcome = runner.run(&plan, None, server.as_ref())?;
            if runner.is_stopped() {
                break 'all;
            }
            let report = &outcome.report;
            let window = report.window_ns as f64;
            let client = |cpu: Cpu| CpuUse::of(cpu.user_ns as f64 / window, cpu.system_ns as f64 / window);
            let client = report.client.cpu.map(client).filter(|_| window > 0.0);
            let threads = threads.unwrap_or(workers);
            let row = SweepRow::new(threads, report, outcome.seen.best_rate, client, outcome.seen.server);
            if table {
                put(&sweep_line(&row))?;
            }
            append(&mut csv, &sweep_csv_line(&row))?;
            rows.push(row);
        }
    }
    let json =
        sweep_json(&rows, runner.is_stopped(), unknown.as_deref(), &runner.environment(plan), &ResultOrigin::now());
    put(&if table { ascii(&json)? } else { json.clone() })?;
    drawings.write(&json)?;
    Ok(if runner.is_stopped() { INTERRUPTED } else { 0 })
}

/// Adds to the table's file at once, so that a long sweep that is cut off
/// leaves what it has.
fn append(csv: &mut Option<(&Path, File)>, text: &str) -> Result<(), Failure> {
    let Some((path, file)) = csv else { return Ok(()) };
    file.write_all(text.as_bytes()).map_err(|why| format!("cannot write {}: {why}", path.display()).into())
}

/// Where the server's time is read, or why it is read nowhere.
fn server(plan: &ServerPlan) -> Result<Result<ServerTime, String>, Failure> {
    match plan {
        ServerPlan::Page(path) => ServerTime::page(path).map(Ok),
        ServerPlan::Process(pid) => ServerTime::process(*pid).map(Ok),
        ServerPlan::Usual => {
            Ok(only_server().and_then(|page| ServerTime::read_from(page).map_err(|why| why.to_string())))
        }
    }
}
