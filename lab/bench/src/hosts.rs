//! 10,000 hosts with ten locations each, by an nginx.conf on kernel sockets, beside one
//! host: what a request takes of the server's core, with every request another
//! host's, and how long a reload takes, from the signal to the first answer by the
//! new configuration.

use crate::BenchError;
use crate::client::by_turns;
use crate::kernel::{spread, word};
use crate::ordinary::hosts;
use crate::program::Scratch;
use crate::site::PROCESS;
use cpu::Clock;
use demo::child::{Interrupt, Program};
use demo::machine::{CpuSample, find_program, with_children};
use demo::measure::thousands;
use demo::stand::{Server, Stand, two_cores, words};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Hosts.
const MANY: u32 = 10_000;

/// What a request may take, times what it takes with one host.
const TIME: f64 = 2.0;

/// How long a reload may take.
const RELOAD: Duration = Duration::from_secs(1);

const ADDRESS: &str = "127.0.0.1:8080";

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The program to measure.
    pub nearside: PathBuf,
    /// Each is measured in so many rounds, by turns.
    pub rounds: u32,
    /// For so long.
    pub duration: Duration,
}

/// What one measurement gave.
struct Sample {
    rate: f64,
    /// Microseconds of the server's process for a request.
    cost: f64,
    reload: Duration,
}

/// Measures by turns and prints. Returns whether the bounds are kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let wrk = find_program("wrk").ok_or("wrk is not installed (package wrk)")?;
    let interrupt = Interrupt::watch()?;
    let stand = Stand::new(Some(&plan.nearside), two_cores()?)?;
    let folder = Scratch::in_memory()?;
    fs::write(folder.path().join("page.html"), "page\n".repeat(100))?;
    let counts = [1, MANY];
    let samples = by_turns(plan.rounds, counts.len(), |at| {
        let sample = measure(plan, counts[at], (&stand, &wrk), folder.path(), &interrupt)?;
        let Sample { rate, cost, reload } = sample;
        let hosts = counts[at];
        eprintln!("  {hosts:>6} hosts {:>9} requests/s, {cost:.2} us each, reload {reload:?}", thousands(rate));
        Ok(Some(sample))
    })?;
    let [one, many] = &samples[..] else { return Err("nothing was measured".into()) };
    let (low, time, high) = spread(many.iter().zip(one).map(|(many, one)| many.cost / one.cost).collect());
    let (least, reload, most) = spread(many.iter().map(|sample| sample.reload.as_secs_f64()).collect());
    let held = [time <= TIME, reload <= RELOAD.as_secs_f64()];
    println!("{MANY} hosts with ten locations each, {} rounds by turns", plan.rounds);
    println!(
        "  a request takes {time:.2} times what it takes with one ({low:.2} to {high:.2}), at most {TIME}: {}",
        word(held[0])
    );
    println!(
        "  a reload takes {reload:.2} s ({least:.2} to {most:.2}), at most {:.1}: {}",
        RELOAD.as_secs_f64(),
        word(held[1])
    );
    Ok(held.iter().all(|held| *held))
}

fn measure(
    plan: &Plan,
    count: u32,
    (stand, wrk): (&Stand, &str),
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<Sample, BenchError> {
    let configuration = folder.join("nginx.conf");
    let text = hosts(PROCESS, ADDRESS, count).replace("FOLDER", &folder.display().to_string()).replace("HOST", "asked");
    let write = |number: u32| fs::write(&configuration, text.replace("NUMBER", &number.to_string()));
    write(0)?;
    let path = configuration.display().to_string();
    let server = stand.start(None, Some(stand.cores.0), &words(["nginx", "-e", "stderr", "-c", &path]), interrupt)?;
    interrupt.sleep(Duration::from_millis(500))?;
    let script = folder.join("hosts.lua");
    fs::write(&script, SCRIPT.replace("COUNT", &count.to_string()))?;
    let program = |seconds: u64| Program {
        name: "wrk",
        netns: None,
        core: Some(stand.cores.1),
        words: vec![
            wrk.to_owned(),
            "--threads=1".to_owned(),
            "--connections=64".to_owned(),
            format!("--duration={seconds}s"),
            format!("--script={}", script.display()),
            format!("http://{ADDRESS}/"),
        ],
    };
    // Each host's answer is made once.
    program(1).start(stand.folder())?.finish(Duration::from_secs(20), interrupt)?;
    let pids = with_children(server.pid());
    let seconds = plan.duration.as_secs().max(1);
    let mut running = program(seconds).start(stand.folder())?;
    interrupt.sleep(plan.duration / 5)?;
    let before = CpuSample::take(&pids, stand.cores.0);
    interrupt.sleep(plan.duration * 3 / 5)?;
    let share = before.share_until(&CpuSample::take(&pids, stand.cores.0));
    let said = running.finish(plan.duration + Duration::from_secs(20), interrupt)?;
    let rate = rate_of(&said).ok_or_else(|| format!("wrk told no rate, but:\n{said}"))?;
    write(1)?;
    let reload = reload(&server)?;
    Ok(Sample { rate, cost: share.process * 1e6 / rate, reload })
}

/// Has the server read its configuration again; how long until it answers by it.
fn reload(server: &Server) -> Result<Duration, BenchError> {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw).ok_or("no process")?;
    let start = Clock.now();
    kill_process(pid, Signal::HUP)?;
    let patience = Duration::from_secs(30);
    while Clock.now().since(start) < patience {
        let mut stream = TcpStream::connect(ADDRESS)?;
        stream.write_all(b"GET /page.html HTTP/1.1\r\nHost: asked\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        if answer.windows(11).any(|here| here.eq_ignore_ascii_case(b"x-host: 1\r\n")) {
            return Ok(Clock.now().since(start));
        }
    }
    Err("the new configuration is not taken up".into())
}

/// Each request is another host's.
const SCRIPT: &str = r#"
local hosts = {}
for host = 0, COUNT - 1 do
    local name = host == math.floor(COUNT / 2) and "asked" or "h" .. host .. ".example"
    hosts[host] = wrk.format("GET", "/page.html", { Host = name })
end
local at = 0
function request()
    at = (at + 7919) % COUNT
    return hosts[at]
end
"#;

/// From `Requests/sec:  12345.67`.
fn rate_of(said: &str) -> Option<f64> {
    said.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok())
}
