//! Texts of 64 KB that are compressed by gzip, level 6, for each request: by nginx,
//! and by `nearside nginx`, on kernel sockets, all of a server on one core. There are
//! more texts than are kept compressed, so that hardly any is asked for while it is.
//! Beside them a second generator asks for a small answer at a low rate: those
//! requests are not to wait for the others' work.

use crate::BenchError;
use crate::client::by_turns;
use crate::kernel::{spread, word};
use crate::program::Scratch;
use crate::site::{PROCESS, nginx, workers};
use demo::child::{Interrupt, Program, Running};
use demo::field::{Ask, Field, Generator, Link};
use demo::measure::thousands;
use demo::netns::{Namespaces, SERVER};
use demo::stand::{Asked, Server, Stand, two_cores};
use random::SplitMix64;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many times nginx's requests per second there are to be.
const BOUND: f64 = 1.5;

/// What bodies may be longer by.
const LENGTH: f64 = 1.03;

/// The 99th percentile of other requests, at most, in microseconds.
const OTHERS: f64 = 2_000.0;

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
}

/// Texts that differ, and names of each.
const TEXTS: u32 = 100;
const NAMES: u32 = 300;

/// Bytes of each.
const TEXT: usize = 64 << 10;

/// Other requests in a second.
const OTHER_RATE: u32 = 500;

const WARM_UP: Duration = Duration::from_millis(500);

/// How much longer than asked for a generator may take.
const PATIENCE: Duration = Duration::from_secs(60);

const SITE: &str = r#"
events { worker_connections 4096; }
http {
    types { text/plain txt; }
    default_type application/octet-stream;
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
    gzip on;
    gzip_types text/plain;
    gzip_comp_level 6;
    server {
        listen 80;
        root FOLDER;
        location = /small { return 200 "small"; }
    }
}
"#;

/// What one measurement gave.
struct Sample {
    rate: f64,
    /// Bytes of a body.
    body: f64,
    errors: u64,
    server_busy: f64,
    /// Of the other requests, in microseconds.
    others: f64,
}

/// Measures by turns and prints. Returns whether the bounds are kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let interrupt = Interrupt::watch()?;
    let stand = Stand::new(Some(&plan.nearside), two_cores()?)?;
    let names = Namespaces::make()?;
    names.keep_to_cores(stand.cores)?;
    let folder = Scratch::in_memory()?;
    let urls = make_texts(folder.path())?;
    let configuration = folder.path().join("nginx.conf");
    fs::write(&configuration, (PROCESS.to_owned() + SITE).replace("FOLDER", &folder.path().display().to_string()))?;
    let samples = by_turns(plan.rounds, 2, |at| {
        let sample = measure(plan, at == 0, (&stand, &names), (&configuration, &urls), &interrupt)?;
        let Sample { rate, others, .. } = sample;
        eprintln!("  {:9} {:>7} texts/s, others' p99 {others:.0} us", NAMED[at], thousands(rate));
        Ok(Some(sample))
    })?;
    let Plan { rounds, connections, .. } = plan;
    println!("Texts of 64 KB by gzip 6, {connections} connections, {rounds} rounds by turns; {OTHER_RATE}/s others");
    println!("  {:9} {:>9} {:>12} {:>8} {:>13}", "", "texts/s", "bytes each", "server", "others' p99");
    for (name, samples) in NAMED.iter().zip(&samples) {
        let middle = |value: fn(&Sample) -> f64| spread(samples.iter().map(value).collect()).1;
        let errors: u64 = samples.iter().map(|sample| sample.errors).sum();
        println!(
            "  {name:9} {:>9} {:>12.0} {:>7.0}% {:>10.0} us{}",
            thousands(middle(|sample| sample.rate)),
            middle(|sample| sample.body),
            100.0 * middle(|sample| sample.server_busy),
            middle(|sample| sample.others),
            if errors > 0 { format!("  {errors} ERRORS") } else { String::new() }
        );
    }
    let [theirs, ours] = &samples[..] else { return Err("nothing was measured".into()) };
    let ratio = |value: fn(&Sample) -> f64| {
        spread(ours.iter().zip(theirs).map(|(ours, theirs)| value(ours) / value(theirs)).collect())
    };
    let (low, rate, high) = ratio(|sample| sample.rate);
    let (_, length, _) = ratio(|sample| sample.body);
    let (least, others, most) = spread(ours.iter().map(|sample| sample.others).collect());
    let whole = ours.iter().chain(theirs).all(|sample| sample.errors == 0);
    let held = [rate >= BOUND && whole, length <= LENGTH, others <= OTHERS];
    println!("  {rate:.2} times nginx's rate ({low:.2} to {high:.2}), at least {BOUND}: {}", word(held[0]));
    println!("  {length:.3} times nginx's length, at most {LENGTH}: {}", word(held[1]));
    println!("  others' p99 {others:.0} us ({least:.0} to {most:.0}), at most {OTHERS:.0}: {}", word(held[2]));
    Ok(held.iter().all(|held| *held))
}

const NAMED: [&str; 2] = ["nginx", "nearside"];

fn measure(
    plan: &Plan,
    is_nginx: bool,
    (stand, names): (&Stand, &Namespaces),
    (configuration, urls): (&Path, &Path),
    interrupt: &Interrupt,
) -> Result<Sample, BenchError> {
    let servers = [stand.cores.0];
    let field = Field { stand, veth: Some(names), tap: None, servers: &servers, mtu: None, interrupt };
    let mut running = None;
    let mut server = if is_nginx {
        let nginx = running.insert(nginx(&plan.nginx, configuration, stand, names)?);
        Server::other(&workers(nginx, interrupt)?)
    } else {
        field.serve_configuration(Link::Kernel, configuration)?
    };
    let mut others = others(plan, stand, names)?;
    let more = [format!("--urls={}", urls.display()), "--header=Accept-Encoding: gzip".to_owned()];
    let ask = Ask { path: "/", connections: plan.connections, more: &more, duration: plan.duration, secured: false };
    let asked = field.ask(&mut server, (Link::Kernel, Some(80)), Generator::Sockets, ask)?;
    let told = others.finish(plan.duration + PATIENCE, interrupt)?;
    let told: Value = serde_json::from_str(&told).map_err(|why| format!("nearside load's report: {why}"))?;
    let others = told["latency"]["p99_ns"].as_f64().ok_or("the report tells no 99th percentile")? / 1e3;
    let Asked { rate, goodput, errors, server_busy, .. } = asked;
    Ok(Sample { rate, body: goodput / rate, errors, server_busy, others })
}

/// Who asks for the small answer meanwhile, from the same core as the other.
fn others(plan: &Plan, stand: &Stand, names: &Namespaces) -> Result<Running, BenchError> {
    let mut words = vec![plan.nearside.display().to_string(), "load".to_owned(), format!("http://{SERVER}:80/small")];
    words.extend(["--json", "--threads=1", "--no-floor", "--connections=8"].map(str::to_owned));
    words.push(format!("--rate={OTHER_RATE}"));
    words.push(format!("--cores={}", stand.cores.1));
    words.push(format!("--duration={}ms", plan.duration.as_millis()));
    words.push(format!("--warmup={}ms", WARM_UP.as_millis()));
    let program = Program { name: "others", netns: Some(&names.client), core: Some(stand.cores.1), words };
    Ok(program.start(stand.folder())?)
}

/// Makes the texts, each under many names. Returns the list of their paths.
fn make_texts(folder: &Path) -> Result<PathBuf, BenchError> {
    let mut random = SplitMix64::new(0x7465_7874);
    let mut list = String::new();
    for text in 0..TEXTS {
        let whole = folder.join(format!("{text}.txt"));
        fs::write(&whole, words(&mut random))?;
        fs::create_dir(folder.join(text.to_string()))?;
        for name in 0..NAMES {
            fs::hard_link(&whole, folder.join(format!("{text}/{name}.txt")))?;
        }
    }
    for name in 0..NAMES {
        (0..TEXTS).for_each(|text| list.push_str(&format!("/{text}/{name}.txt\n")));
    }
    let urls = folder.join("urls");
    fs::write(&urls, list)?;
    Ok(urls)
}

/// Words of a language that nobody speaks: some often, most seldom, as in any.
fn words(random: &mut SplitMix64) -> Vec<u8> {
    const SYLLABLES: [&str; 24] = [
        "ba", "con", "de", "fir", "gu", "hal", "in", "jo", "ka", "lem", "mi", "nor", "o", "per", "qua", "ri", "sta",
        "ter", "un", "ver", "wi", "xe", "yl", "zo",
    ];
    let mut text = Vec::with_capacity(TEXT + 16);
    while text.len() < TEXT {
        // The product of two is small more often than not.
        let mut rank = random.below(64) * random.below(64);
        for _ in 0..1 + rank % 3 {
            text.extend_from_slice(SYLLABLES[rank % SYLLABLES.len()].as_bytes());
            rank /= 5;
        }
        text.push(if random.below(12) == 0 { b'\n' } else { b' ' });
    }
    text.truncate(TEXT);
    text
}
