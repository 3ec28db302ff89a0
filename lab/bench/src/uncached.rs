//! Requests for files that are not in memory, pipelined: each waits for the
//! file reader, and the one behind it for the answer.

use crate::BenchError;
use crate::program::{Program, Scratch};
use cpu::Clock;
use demo::child::Interrupt;
use demo::machine::allowed_cores;
use demo::measure::thousands;
use serde_json::Value;
use stats::median;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Requests in a second that each data path answers at least.
pub const BOUND: f64 = 25_000.0;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The program to measure.
    pub nearside: PathBuf,
    /// Each data path is measured in so many rounds, by turns.
    pub rounds: u32,
    /// For so long.
    pub duration: Duration,
    /// Connections, and requests under way on each.
    pub connections: u32,
    /// See [`Plan::connections`].
    pub depth: u16,
}

/// Files, of which next to none are in memory when they are asked for.
const FILES: u32 = 40_000;
const CACHE: &str = "256K";

const SERVER: &str = "10.78.0.2";
const CLIENT: &str = "10.78.0.1";
const PORT: u16 = 8_000;

/// Time for a program to come up, or to end.
const PATIENCE: Duration = Duration::from_secs(20);

const PATHS: [&str; 2] = ["kernel sockets", "memif"];

/// Measures by turns and prints. Returns whether the bound is kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let interrupt = Interrupt::watch()?;
    let [server, client, ..] = allowed_cores()[..] else { return Err("two cores are needed".into()) };
    let scratch = Scratch::make()?;
    let urls = make_files(scratch.path())?;
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..plan.rounds as usize {
        for turn in 0..PATHS.len() {
            let path = (round + turn) % PATHS.len();
            let rate = sample(plan, path, (server, client), scratch.path(), &urls, &interrupt)?;
            eprintln!("round {}/{}, {}: {} requests/s", round + 1, plan.rounds, PATHS[path], thousands(rate));
            rates[path].push(rate);
        }
    }
    let Plan { connections, depth, .. } = plan;
    println!("{FILES} files, next to none in memory; {connections} connections, {depth} requests under way on each");
    let mut kept = true;
    for (path, rates) in PATHS.iter().zip(&rates) {
        let (low, high) = rates.iter().fold((f64::MAX, 0.0), |(low, high), &rate| (rate.min(low), rate.max(high)));
        let middle = median(rates);
        let verdict = if middle >= BOUND { "kept" } else { "NOT KEPT" };
        kept &= middle >= BOUND;
        println!(
            "  {path:14} {:>8} requests/s ({} to {}); at least {}: {verdict}",
            thousands(middle),
            thousands(low),
            thousands(high),
            thousands(BOUND)
        );
    }
    Ok(kept)
}

/// Makes the files. Returns the list of their paths.
fn make_files(folder: &Path) -> Result<PathBuf, BenchError> {
    let site = folder.join("site");
    std::fs::create_dir(&site)?;
    let mut list = String::new();
    for number in 0..FILES {
        std::fs::write(site.join(number.to_string()), [b'x'; 64])?;
        list.push_str(&format!("/{number}\n"));
    }
    let urls = folder.join("urls");
    std::fs::write(&urls, list)?;
    Ok(urls)
}

/// Requests per second over one data path.
fn sample(
    plan: &Plan,
    path: usize,
    cores: (u16, u16),
    folder: &Path,
    urls: &Path,
    interrupt: &Interrupt,
) -> Result<f64, BenchError> {
    let socket = folder.join("memif.sock");
    let _ = std::fs::remove_file(&socket);
    let (serve, load, url) = match path {
        0 => (
            vec![format!("--listen=127.0.0.1:{PORT}"), format!("--cores={}", cores.0), "--control=off".to_owned()],
            vec!["--no-floor".to_owned(), "--threads=1".to_owned(), format!("--cores={}", cores.1)],
            format!("http://127.0.0.1:{PORT}/"),
        ),
        _ => (
            vec![
                format!("--link=memif:{}", socket.display()),
                format!("--addr={SERVER}/24"),
                format!("--core={}", cores.0),
            ],
            vec![
                format!("--link=memif:{}", socket.display()),
                format!("--addr={CLIENT}/24"),
                format!("--core={}", cores.1),
                "--idle=sleep:20us".to_owned(),
                format!("--status-page={}", folder.join("load.page").display()),
            ],
            format!("http://{SERVER}/"),
        ),
    };
    let page = folder.join("serve.page");
    let _ = std::fs::remove_file(&page);
    let mut words = vec!["serve".to_owned(), "--user=root".to_owned(), folder.join("site").display().to_string()];
    words.extend([format!("--cache-size={CACHE}"), "--max-connections=1k".to_owned()]);
    words.push(format!("--status-page={}", page.display()));
    words.extend(serve);
    let mut server = Program::start(&plan.nearside, "serve", &words, folder)?;
    let end = Clock.now() + PATIENCE;
    while !page.exists() {
        server.still_runs()?;
        if Clock.now() > end {
            return Err("the server does not come up".into());
        }
        interrupt.sleep(Duration::from_millis(10))?;
    }
    // What it listens on is there a moment after its page.
    interrupt.sleep(Duration::from_millis(300))?;
    let mut client = Command::new(&plan.nearside);
    client.args(["load", "--json", &url]).arg("--urls").arg(urls).args(load);
    client.arg(format!("--pipeline={}", plan.depth)).arg(format!("--connections={}", plan.connections));
    client.arg(format!("--duration={}ms", plan.duration.as_millis())).arg("--warmup=500ms");
    let output = client.output()?;
    interrupt.check()?;
    server.still_runs()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&said)
        .map_err(|_| format!("nearside load gave no report: {}", String::from_utf8_lossy(&output.stderr)))?;
    let errors = report["errors"].as_object().ok_or("the report tells no errors")?;
    let errors: u64 = errors.values().filter_map(Value::as_u64).sum();
    if errors > 0 {
        return Err(format!("{errors} requests failed").into());
    }
    report["throughput"]["requests_per_second"].as_f64().ok_or_else(|| "the report tells no rate".into())
}
