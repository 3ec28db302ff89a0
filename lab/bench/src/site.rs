//! An ordinary site by its nginx.conf ([`ordinary`]): the same file, served by nginx
//! and by `nearside nginx` on every data path, asked by one generator over what
//! leaves the most to the server. All of a server, its log's thread too, is on one
//! core; the log is on tmpfs. Lines are counted: none may be missing.

use crate::BenchError;
use crate::client::by_turns;
use crate::kernel::{spread, word};
use crate::ordinary::ordinary;
use crate::program::Scratch;
use demo::child::{Interrupt, Running};
use demo::field::{Ask, Field, Generator, Link};
use demo::kernel::start_nginx;
pub(crate) use demo::kernel::workers;
use demo::measure::thousands;
use demo::netns::Namespaces;
use demo::stand::{Asked, OTHERS, Server, Stand, two_cores};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The program to measure.
    pub nearside: PathBuf,
    /// The nginx beside it.
    pub nginx: PathBuf,
    /// Each is measured in so many rounds, by turns.
    pub rounds: u32,
    /// For so long.
    pub duration: Duration,
    /// Connections, each with one request under way.
    pub connections: u32,
    /// How heads differ, as `--heads` takes it.
    pub heads: String,
}

/// Who is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Arm {
    name: &'static str,
    /// How frames come; of nginx those of the kernel.
    link: Link,
    nginx: bool,
    /// Whether each end's packets are worked on by its own side's core.
    own_cores: bool,
    /// What asks.
    generator: Generator,
    /// Which other arm it is held against, and by how many times it is to be faster.
    bound: Option<(usize, f64)>,
}

/// On one pair each side works on its own packets. Shared memory is held against an
/// nginx as most clients ask it, as in the demo: over kernel sockets, whose packets are
/// worked on where they are sent. Whoever asks it from AF_XDP does half of its work on
/// the generator's core.
const ARMS: [Arm; 5] = [
    Arm { name: "nginx", link: Link::Kernel, nginx: true, own_cores: true, generator: Generator::Bypass, bound: None },
    Arm {
        name: "kernel sockets",
        link: Link::Kernel,
        nginx: false,
        own_cores: true,
        generator: Generator::Bypass,
        bound: Some((0, 1.3)),
    },
    Arm {
        name: "af_xdp",
        link: Link::AfXdp,
        nginx: false,
        own_cores: true,
        generator: Generator::Bypass,
        bound: Some((0, 3.5)),
    },
    Arm {
        name: "nginx, sockets",
        link: Link::Kernel,
        nginx: true,
        own_cores: false,
        generator: Generator::Sockets,
        bound: None,
    },
    Arm {
        name: "memif",
        link: Link::Memif,
        nginx: false,
        own_cores: false,
        generator: Generator::Bypass,
        bound: Some((3, 14.0)),
    },
];

/// Of a page as long as the demo's file.
const PAGES: u32 = 100;

/// What the configurations that are measured say of the process.
pub(crate) const PROCESS: &str = "user root; worker_processes 1; worker_rlimit_nofile 65536; daemon off; \
                                  pid FOLDER/pid; error_log FOLDER/error.log;";

/// What one measurement gave.
struct Sample {
    rate: f64,
    p99: f64,
    server_busy: f64,
    client_busy: f64,
    /// The share of the core that other programs had the most of.
    others: f64,
    errors: u64,
    /// Lines in the log for each hundred answers; none of nginx, whose answers before
    /// the measurement nobody counts.
    lines: Option<f64>,
    lost: u64,
}

/// Measures by turns and prints. Returns whether the bounds are kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let interrupt = Interrupt::watch()?;
    let stand = Stand::new(Some(&plan.nearside), two_cores()?)?;
    let names = Namespaces::make()?;
    let folder = Scratch::in_memory()?;
    make_site(folder.path())?;
    let samples = by_turns(plan.rounds, ARMS.len(), |at| {
        let arm = ARMS[at];
        let sample = measure(plan, arm, (&stand, &names), folder.path(), &interrupt)?;
        eprintln!("  {:16} {:>9} requests/s", arm.name, thousands(sample.rate));
        Ok(Some(sample))
    })?;
    let Plan { connections, heads, rounds, .. } = plan;
    println!("An ordinary site by one nginx.conf: {connections} connections, {heads} heads, {rounds} rounds");
    let head = ["requests/s", "p99", "server", "client", "others"];
    println!("  {:16} {:>11} {:>10} {:>7} {:>7} {:>7}  log", "", head[0], head[1], head[2], head[3], head[4]);
    for (arm, samples) in ARMS.iter().zip(&samples) {
        tell(arm, samples);
    }
    let mut kept = true;
    for (arm, ours) in ARMS.iter().zip(&samples) {
        let Some((against, least)) = arm.bound else { continue };
        let ratios = ours.iter().zip(&samples[against]).map(|(ours, nginx)| ours.rate / nginx.rate).collect();
        let (low, middle, high) = spread(ratios);
        let holds = middle >= least && are_whole(ours, &samples[against]);
        kept &= holds;
        println!(
            "  {:16} {middle:.2} times nginx ({low:.2} to {high:.2}), at least {least}: {}",
            arm.name,
            word(holds)
        );
        let others = ours.iter().chain(&samples[against]).map(|sample| sample.others).collect();
        if let Some(why) = disturbance(spread(others).1) {
            println!("  {:16} {why}", "");
        }
    }
    Ok(kept)
}

/// Whether both sides did all of what is compared: nothing failed, of ours each answer has
/// its line in the log.
fn are_whole(ours: &[Sample], nginx: &[Sample]) -> bool {
    let logged = |sample: &Sample| sample.lost == 0 && sample.lines.is_none_or(|lines| lines >= 100.0);
    ours.iter().chain(nginx).all(|sample| sample.errors == 0 && logged(sample))
}

/// What to say of other programs' share of a core, whether a bound is kept or not: a ratio
/// of two that waited for a core is as wrong upwards as downwards.
fn disturbance(others: f64) -> Option<String> {
    (others >= OTHERS).then(|| {
        format!(
            "other programs had {:.0} % of a core, so that this shows nothing: while either side waits for one, the \
             other has answered what is under way, the sooner the faster it is; measure on cores that nobody else uses",
            100.0 * others
        )
    })
}

fn tell(arm: &Arm, samples: &[Sample]) {
    let middle = |value: fn(&Sample) -> f64| spread(samples.iter().map(value).collect()).1;
    let rate = thousands(middle(|sample| sample.rate));
    let (p99, server, client) = (middle(|s| s.p99), middle(|s| s.server_busy), middle(|s| s.client_busy));
    let others = 100.0 * middle(|sample| sample.others);
    let lost: u64 = samples.iter().map(|sample| sample.lost).sum();
    let errors: u64 = samples.iter().map(|sample| sample.errors).sum();
    let lines: Vec<f64> = samples.iter().filter_map(|sample| sample.lines).collect();
    let log = match spread(lines.clone()) {
        _ if lines.is_empty() => "not counted".to_owned(),
        (low, ..) => format!("{low:.3} lines of 100, {lost} lost"),
    };
    let errors = if errors > 0 { format!("  {errors} ERRORS") } else { String::new() };
    let (server, client) = (100.0 * server, 100.0 * client);
    println!("  {:16} {rate:>11} {p99:>7.0} us {server:>6.0}% {client:>6.0}% {others:>6.0}%  {log}{errors}", arm.name);
}

/// Starts one of them, asks it, and counts what it logged.
fn measure(
    plan: &Plan,
    arm: Arm,
    (stand, names): (&Stand, &Namespaces),
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<Sample, BenchError> {
    let log = folder.join("access.log");
    let _ = fs::remove_file(&log);
    names.receive_on(arm.own_cores.then_some(stand.cores))?;
    let servers = [stand.cores.0];
    let field = Field { stand, veth: Some(names), tap: None, servers: &servers, mtu: None, interrupt };
    let text = ordinary(PROCESS).replace("FOLDER", &folder.display().to_string());
    let configuration = folder.join("nginx.conf");
    fs::write(&configuration, text.replace("HOST", Field::address(arm.link)))?;
    let more = [format!("--heads={}", plan.heads)];
    let ask = Ask {
        path: "/f/[00-99].html",
        connections: plan.connections,
        more: &more,
        duration: plan.duration,
        secured: false,
    };
    let (asked, told) = if arm.nginx {
        let mut running = nginx(&plan.nginx, &configuration, field.stand, names)?;
        let mut server = Server::other(&workers(&mut running, interrupt)?);
        (field.ask(&mut server, (arm.link, Some(80)), arm.generator, ask)?, None)
    } else {
        let mut server = field.serve_configuration(arm.link, &configuration)?;
        let asked = field.ask(&mut server, (arm.link, Some(80)), arm.generator, ask)?;
        // What is on its way gets there: pages are published now and then.
        interrupt.sleep(Duration::from_millis(1_500))?;
        let (answers, lost) = (server.told("app.responses_2xx"), server.told("app.log_drops"));
        // It writes the rest of its log.
        drop(server);
        (asked, answers.zip(lost))
    };
    let lines = fs::read(&log)?.iter().filter(|byte| **byte == b'\n').count();
    let p99 = asked.at(99.0);
    let Asked { rate, server_busy, client_busy, errors, server, client, .. } = asked;
    let others = server.others.max(client.others);
    let share = told.map(|(answers, _)| 100.0 * lines as f64 / answers.max(1) as f64);
    Ok(Sample {
        rate,
        p99,
        server_busy,
        client_busy,
        others,
        errors,
        lines: share,
        lost: told.map_or(0, |(_, lost)| lost),
    })
}

/// nginx itself, as it is started everywhere.
pub(crate) fn nginx(
    nginx: &Path,
    configuration: &Path,
    stand: &Stand,
    names: &Namespaces,
) -> Result<Running, BenchError> {
    let at = (stand.folder(), names.server.as_str(), stand.cores.0);
    Ok(start_nginx(&nginx.display().to_string(), configuration, at)?)
}

/// The pages, of the demo's length.
pub(crate) fn make_site(folder: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(folder.join("f"))?;
    let page = "packet segment request answer ".repeat(100);
    for number in 0..PAGES {
        fs::write(folder.join(format!("f/{number:02}.html")), &page[..demo::measure::FILE_BYTES])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_programs_are_named_whatever_a_ratio_says() {
        let told = disturbance(0.34).expect("a third of a core");
        assert!(told.contains("34 % of a core"), "{told}");
        assert_eq!(disturbance(OTHERS / 2.0), None);
    }

    #[test]
    fn a_rate_counts_where_nothing_failed_and_each_answer_has_its_line() {
        let sample = |errors, lines, lost| {
            let (rate, p99, server_busy, client_busy, others) = (1e5, 500.0, 1.0, 1.0, 0.0);
            [Sample { rate, p99, server_busy, client_busy, others, errors, lines, lost }]
        };
        let (ours, nginx) = (sample(0, Some(100.0), 0), sample(0, None, 0));
        assert!(are_whole(&ours, &nginx));
        assert!(are_whole(&sample(0, Some(100.001), 0), &nginx));
        for spoilt in [sample(1, Some(100.0), 0), sample(0, Some(99.999), 0), sample(0, Some(100.0), 1)] {
            assert!(!are_whole(&spoilt, &nginx));
        }
        assert!(!are_whole(&ours, &sample(1, None, 0)), "nginx answered less than it was asked");
    }
}
