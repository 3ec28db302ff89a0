//! `nearside serve` over DPDK's memif beside our own memif: the same program,
//! the same generator, the same cores, by turns. DPDK's driver copies each
//! frame in and out; what that and its packet buffers cost is the difference.

use crate::BenchError;
use crate::program::{Program, Scratch};
use demo::pages::HugePages;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Requests per second over DPDK's memif, beside our own's, at least.
pub const BOUND: f64 = 0.85;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The program to measure, built with DPDK.
    pub nearside: PathBuf,
    /// Each pair is measured in so many rounds, by turns.
    pub rounds: u32,
    /// For so long.
    pub duration: Duration,
}

const SERVER_CORE: &str = "0";
const CLIENT_CORE: &str = "1";
const ADDRESSES: [&str; 2] = ["10.79.0.1/24", "10.79.0.2/24"];
const CONNECTIONS: &str = "64";

/// Time for a program to open its socket, in looks 10 ms apart.
const LOOKS: u32 = 3_000;

/// The two links of the server; both listen, and the generator connects with
/// our own memif.
const ARMS: [&str; 2] = ["own memif", "DPDK memif"];

fn server_link(arm: usize, socket: &str) -> String {
    match arm {
        0 => format!("memif:{socket},role=server"),
        _ => format!("dpdk:net_memif0,dev.role=server,dev.socket={socket},dev.socket-abstract=no"),
    }
}

/// Measures by turns and prints. Returns whether the bound holds.
///
/// # Errors
/// If either cannot be measured.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let scratch = Scratch::make()?;
    let _pages = HugePages::take(scratch.path())?;
    println!("{:>14} {:>14}   ratio", format!("{}/s", ARMS[0]), format!("{}/s", ARMS[1]));
    let mut ratios = Vec::new();
    for round in 0..plan.rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut requests = [0.0; 2];
        for arm in order {
            requests[arm] = measure(plan, scratch.path(), arm)?;
        }
        let ratio = requests[1] / requests[0];
        println!("{:14.0} {:14.0}  {ratio:6.3}", requests[0], requests[1]);
        ratios.push(ratio);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else { return Err("no rounds".into()) };
    let median = ratios[ratios.len() / 2];
    let kept = median >= BOUND;
    let word = if kept { "kept" } else { "NOT KEPT" };
    println!("{median:.3} of our own memif's requests ({least:.3} to {most:.3}), at least {BOUND}: {word}");
    Ok(kept)
}

/// Requests per second over the link of this arm.
fn measure(plan: &Plan, folder: &Path, arm: usize) -> Result<f64, BenchError> {
    let socket = folder.join("memif.sock");
    let _ = std::fs::remove_file(&socket);
    let path = socket.display().to_string();
    let page = |name: &str| format!("--status-page={}", folder.join(name).display());
    let words = [
        "serve",
        "--user=root",
        "--respond=1024",
        "--idle=spin",
        "--core",
        SERVER_CORE,
        "--addr",
        ADDRESSES[1],
        "--link",
    ];
    let mut words: Vec<String> = words.map(str::to_owned).into();
    words.extend([server_link(arm, &path), page("serve.page")]);
    let mut server = Program::start(&plan.nearside, "nearside serve", &words, folder)?;
    for _ in 0..LOOKS {
        server.still_runs()?;
        if socket.exists() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let mut load = Command::new(&plan.nearside);
    load.args(["load", "http://10.79.0.2/", "--idle=spin", "--core", CLIENT_CORE, "--addr", ADDRESSES[0]]);
    load.args(["--connections", CONNECTIONS, "--warmup=1s", "--json"]).arg(page("load.page"));
    load.arg(format!("--duration={}ms", plan.duration.as_millis())).arg(format!("--link=memif:{path},role=client"));
    let output = load.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    server.still_runs()?;
    let report: Value = serde_json::from_slice(&output.stdout).map_err(|_| "nearside load gave no report")?;
    let errors = report["errors"].as_object().map_or(0, |kinds| kinds.values().filter_map(Value::as_u64).sum());
    if errors > 0 {
        return Err(format!("{}: {errors} errors", ARMS[arm]).into());
    }
    let requests = report.pointer("/throughput/requests_per_second").and_then(Value::as_f64);
    Ok(requests.ok_or("nearside load reported no throughput")?)
}
