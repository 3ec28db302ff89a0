//! What `nearside watch` reads, beside sysstat on the same interval: each of
//! sar's two readings stands between two of ours, so that what it counts must be
//! between what was counted from the later of the first two to the earlier of
//! the last two, and from the earlier to the later.

use crate::BenchError;
use core::time::Duration;
use demo::machine::find_program;
use demo::scratch::Scratch;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use watch::{ReadOptions, Reader, Sample, grown};

/// What is measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// For so long.
    pub duration: Duration,
    /// Another machine's files, for what reading them costs.
    pub root: Option<std::path::PathBuf>,
}

/// Smaller counts say nothing.
const LEAST: f64 = 10_000.0;

/// What is counted may differ by so much beyond the bracket.
const MARGIN: f64 = 0.01;

/// Of a core, for a sample a second.
const OWN: f64 = 0.005;

/// Before and after each of sar's readings.
const BRACKET: Duration = Duration::from_millis(150);

/// Compares, and prints what looking costs.
///
/// # Errors
/// If sar is not there, or says nothing.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let mut kept = true;
    match &plan.root {
        Some(root) => return Ok(told_cost(&root.display().to_string(), root, false)),
        None => {
            kept &= told_cost("this machine", Path::new("/"), false);
            let made_up = Scratch::make()?;
            large(made_up.path())?;
            kept &= told_cost("a made-up machine of 256 cores and 2,000 interrupts", made_up.path(), true);
        }
    }
    if find_program("sar").is_none() || find_program("sadf").is_none() {
        println!("the comparison is left out: sysstat (sar, sadf) is not there");
        return Ok(kept);
    }
    let rows = compare(plan.duration)?;
    println!("{:<28} {:>14} {:>14} {:>14} {:>9}", "count", "ours, least", "sysstat's", "ours, most", "beyond");
    for row in &rows {
        let word = if row.beyond() <= MARGIN { "" } else { "  NOT WITHIN 1 %" };
        println!(
            "{:<28} {:>14.0} {:>14.0} {:>14.0} {:>7.3} %{word}",
            row.name,
            row.least,
            row.theirs,
            row.most,
            row.beyond() * 100.0
        );
    }
    kept &= !rows.is_empty() && rows.iter().all(|row| row.beyond() <= MARGIN);
    Ok(kept)
}

/// Prints what a sample of a machine costs; whether that is as promised.
fn told_cost(name: &str, root: &Path, made_up: bool) -> bool {
    let of = |interrupts| cost(root, ReadOptions { interrupts }, made_up);
    let (line, tables) = (of(false), of(true));
    let kept = line <= OWN;
    println!(
        "a sample of {name}: {:.3} ms of processor time, {:.3} % of a core at 1 s, promised at most {:.1} %: {}; with \
         --cores {:.3} ms, {:.3} %",
        line * 1e3,
        line * 100.0,
        OWN * 100.0,
        if kept { "kept" } else { "NOT KEPT" },
        tables * 1e3,
        tables * 100.0
    );
    kept
}

const INTERRUPTS_FILE: &str = "proc/interrupts";

/// Lets the counts of a fourth of the made-up interrupts grow, each on a core of
/// its own: as many as a busy machine's.
fn grow(folder: &Path, times: u64) -> std::io::Result<()> {
    let path = folder.join(INTERRUPTS_FILE);
    let mut text = std::fs::read(&path)?;
    let mut start = 0;
    let mut number = 0;
    while let Some(end) = text[start..].iter().position(|byte| *byte == b'\n').map(|at| start + at) {
        // Row by row another column: eleven characters each, after the key's six.
        let at = start + 6 + 11 * (number % 256) + 10;
        if number % 4 == 1 && at < end {
            text[at] = b'0' + (times % 10) as u8;
        }
        (start, number) = (end + 1, number + 1);
    }
    std::fs::write(path, text)
}

/// The files of a machine of 256 cores and 2,000 interrupts.
fn large(folder: &Path) -> std::io::Result<()> {
    const CORES: usize = 256;
    const INTERRUPTS: usize = 2_000;
    let write = |path: &str, text: String| {
        let path = folder.join(path);
        path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(path, text))
    };
    let cores = |row: fn(usize) -> String| (0..CORES).map(row).collect::<String>();
    let stat = cores(|core| format!("cpu{core} 8592043 4519038 1817015 30505069 119017 0 5681{core:03} 3109511 0 0\n"));
    let counts: String = (0..INTERRUPTS).map(|at| format!(" {}", at * 7_919)).collect();
    let stat = format!("cpu  1 2 3 4 5 6 7 8 9 10\n{stat}intr 98123456{counts}\nctxt 123456789\nprocesses 4711\n");
    write("proc/stat", stat)?;
    let heads = cores(|core| format!(" CPU{core}"));
    let counts = cores(|core| format!(" {:>10}", core * 104_729));
    let row = |at: usize| format!("{at:>5}:{counts}  PCI-MSIX-0000:00:02.0  {at}-edge  nic-{at}\n");
    write(INTERRUPTS_FILE, format!("{heads}\n{}", (0..INTERRUPTS).map(row).collect::<String>()))?;
    let softirqs: String = (0..10).map(|at| format!("{at:>12}:{counts}\n")).collect();
    write("proc/softirqs", format!("{heads}\n{softirqs}"))?;
    let backlog = cores(|core| format!("0012d687 00000000 0000002b 0 0 0 0 0 0 0 0 0 {core:08x} 0 0\n"));
    write("proc/net/softnet_stat", backlog)?;
    let ports: String =
        (0..32).map(|at| format!("eth{at}: 123456789 123456 0 0 0 0 0 0 123456789 123456 0 0 0 0 0 0\n")).collect();
    write("proc/net/dev", format!("Inter-|\n face |\n{ports}"))?;
    for file in ["proc/net/snmp", "proc/net/netstat", "proc/meminfo"] {
        write(file, std::fs::read_to_string(Path::new("/").join(file))?)?;
    }
    for domain in 0..8 {
        let folder = format!("sys/devices/system/node/node{domain}");
        write(&format!("{folder}/cpulist"), format!("{}-{}\n", domain * 32, domain * 32 + 31))?;
        write(
            &format!("{folder}/meminfo"),
            format!("Node {domain} MemTotal: 98765432 kB\nNode {domain} MemFree: 8765432 kB\n"),
        )?;
        write(&format!("{folder}/numastat"), "numa_hit 1\nnuma_foreign 2\nlocal_node 3\nother_node 4\n".to_owned())?;
    }
    Ok(())
}

/// Processor seconds of a sample, of many.
fn cost(root: &Path, wanted: ReadOptions, made_up: bool) -> f64 {
    const TIMES: u64 = 100;
    let mut reader = Reader::new(root, wanted);
    let spent = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        text.split_ascii_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0)
    };
    reader.sample(1, 0, 100);
    let mut last = reader.sample(2, 0, 100);
    let mut all = 0;
    for at in 0..TIMES {
        if made_up && let Err(why) = grow(root, at) {
            eprintln!("the made-up machine's counts do not grow: {why}");
        }
        let before = spent();
        let next = reader.sample(3 + at, 0, 100);
        // A sample is made to be compared.
        let change = watch::Change::between(&last, &next).map(|change| watch::show::line(&change).len());
        std::hint::black_box(change).ok();
        all += spent().saturating_sub(before);
        last = next;
    }
    all as f64 / 1e9 / TIMES as f64
}

/// A count by both.
struct Row {
    name: String,
    least: f64,
    most: f64,
    theirs: f64,
}

impl Row {
    /// How far theirs is outside of ours, of ours.
    fn beyond(&self) -> f64 {
        let outside = (self.least - self.theirs).max(self.theirs - self.most).max(0.0);
        outside / self.least.max(1.0)
    }
}

fn compare(duration: Duration) -> Result<Vec<Row>, BenchError> {
    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || load(&stop))
    };
    let compared = readings(duration);
    stop.store(true, Ordering::Relaxed);
    let loaded = load.join().map_err(|_| "the load panicked")?;
    let rows = compared?;
    loaded?;
    Ok(rows)
}

fn readings(duration: Duration) -> Result<Vec<Row>, BenchError> {
    let seconds = duration.as_secs().max(2);
    let scratch = Scratch::private()?;
    let file = scratch.path().join("sar");
    let mut reader = Reader::new(Path::new("/"), ReadOptions::default());
    let mut look = || reader.sample(perf::clock::raw(), 0, 100);
    let first = look();
    let sar = Command::new("sar")
        .args(["-u", "ALL", "-w", "-I", "ALL", "-n", "DEV,TCP,ETCP", "-o"])
        .arg(&file)
        .args([&seconds.to_string(), "1"])
        .env("LC_ALL", "C")
        .stdout(std::process::Stdio::null())
        .spawn();
    let mut sar = sar.map_err(|why| format!("sar: {why}"))?;
    thread::sleep(2 * BRACKET);
    let second = look();
    thread::sleep(Duration::from_secs(seconds).saturating_sub(3 * BRACKET));
    let third = look();
    let status = sar.wait()?;
    let fourth = look();
    if !status.success() {
        return Err(format!("sar ended with {status}").into());
    }
    let told =
        Command::new("sadf").arg("-j").arg(&file).args(["--", "-w", "-I", "ALL", "-n", "DEV,TCP,ETCP"]).output()?;
    let theirs = counts(&serde_json::from_slice(&told.stdout)?, seconds as f64)?;
    let rows = theirs.into_iter().filter_map(|(name, theirs)| {
        let between =
            |before: &Sample, now: &Sample| Some(grown(count(before, &name)?, count(now, &name)?).ok()? as f64);
        let (least, most) = (between(&second, &third)?, between(&first, &fourth)?);
        (least >= LEAST).then_some(Row { least, most, theirs, name })
    });
    Ok(rows.collect())
}

/// A count of ours, by the name that it has here.
fn count(sample: &Sample, name: &str) -> Option<u64> {
    if let Some((port, what)) = name.split_once(": ") {
        let port = sample.ports.get(port)?;
        return Some(match what {
            "packets in" => port.packets[0],
            "packets out" => port.packets[1],
            "bytes in" => port.bytes[0],
            _ => port.bytes[1],
        });
    }
    sample.counts.get(name).copied()
}

/// What sadf tells, as counts of the interval under our names.
fn counts(told: &Value, seconds: f64) -> Result<BTreeMap<String, f64>, BenchError> {
    let statistics = told.pointer("/sysstat/hosts/0/statistics/0").ok_or("sadf told no interval")?;
    let mut all = BTreeMap::new();
    let mut take = |name: String, value: Option<&Value>, by: f64| {
        if let Some(rate) = value.and_then(Value::as_f64) {
            all.insert(name, rate * by * seconds);
        }
    };
    let at = |path: &str| statistics.pointer(path);
    take("switches".to_owned(), at("/process-and-context-switch/cswch"), 1.0);
    take("forks".to_owned(), at("/process-and-context-switch/proc"), 1.0);
    let interrupts = |wanted: &str| {
        let mut rows = at("/interrupts").and_then(Value::as_array).into_iter().flatten();
        let row = rows.find(|row| {
            row.get("intr").and_then(Value::as_str).is_some_and(|name| name.eq_ignore_ascii_case(wanted))
        })?;
        // Until sysstat 12.6 it was called a value.
        row.get("all").or_else(|| row.get("value"))?.as_f64()
    };
    // Its sum is that of the rows of /proc/interrupts, of which the flushes of the
    // TLB are a part of the calls: the kernel's own sum has them once.
    if let Some(sum) = interrupts("sum") {
        take("interrupts".to_owned(), Some(&Value::from(sum - interrupts("TLB").unwrap_or(0.0))), 1.0);
    }
    for (ours, path) in [
        ("tcp.ActiveOpens", "/network/net-tcp/active"),
        ("tcp.PassiveOpens", "/network/net-tcp/passive"),
        ("tcp.InSegs", "/network/net-tcp/iseg"),
        ("tcp.OutSegs", "/network/net-tcp/oseg"),
        ("tcp.RetransSegs", "/network/net-etcp/retrans"),
    ] {
        take(ours.to_owned(), at(path), 1.0);
    }
    for row in at("/network/net-dev").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = row.get("iface").and_then(Value::as_str) else { continue };
        take(format!("{name}: packets in"), row.get("rxpck"), 1.0);
        take(format!("{name}: packets out"), row.get("txpck"), 1.0);
        take(format!("{name}: bytes in"), row.get("rxkB"), 1_024.0);
        take(format!("{name}: bytes out"), row.get("txkB"), 1_024.0);
    }
    Ok(all)
}

/// New connections over the loopback with a few messages each, so that there is
/// something to count.
fn load(stop: &AtomicBool) -> Result<(), String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|why| why.to_string())?;
    let address = listener.local_addr().map_err(|why| why.to_string())?;
    let echo = thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut message = [0; 256];
            let mut first = true;
            while let Ok(length @ 1..) = stream.read(&mut message) {
                if first && message[0] == b'q' {
                    return;
                }
                first = false;
                if stream.write_all(&message[..length]).is_err() {
                    break;
                }
            }
        }
    });
    while !stop.load(Ordering::Relaxed) {
        let mut stream = TcpStream::connect(address).map_err(|why| why.to_string())?;
        let mut message = [b'm'; 256];
        for _ in 0..4 {
            stream.write_all(&message).and_then(|()| stream.read_exact(&mut message)).map_err(|why| why.to_string())?;
        }
    }
    let quit = TcpStream::connect(address).and_then(|mut stream| stream.write_all(b"q"));
    quit.map_err(|why| why.to_string())?;
    echo.join().map_err(|_| "the echo panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sadf_tells_is_counts_of_ours() {
        let told = r#"{"sysstat": {"hosts": [{"statistics": [{
            "process-and-context-switch": {"proc": 1.5, "cswch": 1000.25},
            "interrupts": [{"intr": "sum", "all": 14.0}, {"intr": "CAL", "all": 3.0}, {"intr": "TLB", "all": 2.0}],
            "network": {"net-dev": [{"iface": "lo", "rxpck": 7.0, "txpck": 8.0, "rxkB": 2.0, "txkB": 3.0}],
                        "net-tcp": {"active": 4.0, "passive": 5.0, "iseg": 6.0, "oseg": 7.0}}}]}]}}"#;
        let told = serde_json::from_str(told).expect("JSON");
        let counts = counts(&told, 2.0).expect("an interval");
        assert_eq!((counts["switches"], counts["interrupts"], counts["forks"]), (2_000.5, 24.0, 3.0));
        assert_eq!((counts["lo: bytes in"], counts["lo: packets out"]), (4_096.0, 16.0));
        assert_eq!(counts["tcp.OutSegs"], 14.0);
        assert!(super::counts(&Value::Null, 1.0).is_err());
    }

    #[test]
    fn theirs_is_within_ours_or_beyond() {
        let row = |theirs| Row { name: String::new(), least: 100.0, most: 104.0, theirs };
        assert_eq!([99.0, 100.0, 104.0, 106.0].map(|theirs| row(theirs).beyond()), [0.01, 0.0, 0.0, 0.02]);
    }
}
