//! `nearside load` over kernel sockets from end to end: each form of output,
//! each exit code, and servers that are not there or go away.

mod http2;
mod streams;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cpu::Clock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use server::{Config, Respond, Server, WallClock};
use silo::{Next, Usage};
use sockets::{Attendant, Endpoint, ListenOptions, Listeners, Model, Worker};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wire::Time;

/// A server in a thread of this process. Dropping it ends it.
struct Site {
    over: Arc<AtomicBool>,
    /// Requests that were answered.
    served: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    url: String,
}

struct Until {
    over: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
}

impl Attendant<Server> for Until {
    fn attend(&mut self, worker: &mut Worker<Server>, _: Time, _: &Usage) -> Next {
        self.served.store(worker.app.snapshot().requests, Ordering::Relaxed);
        if self.over.load(Ordering::Relaxed) { Next::Stop } else { Next::Go }
    }
}

impl Site {
    fn start(endpoint: Endpoint) -> Self {
        Self::start_one_of(1, endpoint)
    }

    /// So many workers have queues, of which only the first is looked after.
    fn start_one_of(workers: usize, endpoint: Endpoint) -> Self {
        Self::answering(Respond::Text("hello".into()), workers, endpoint)
    }

    fn answering(answer: Respond, workers: usize, endpoint: Endpoint) -> Self {
        let listeners =
            Listeners::bind(&[endpoint], &ListenOptions::default(), Model::Reuseport, workers).expect("free");
        let url = match &listeners.endpoints()[0] {
            Endpoint::Tcp(address) => format!("http://{address}/"),
            Endpoint::Unix(path) => format!("unix:{}:/", path.display()),
        };
        let over = Arc::new(AtomicBool::new(false));
        let served = Arc::default();
        let mut until = Until { over: Arc::clone(&over), served: Arc::clone(&served) };
        let thread = thread::spawn(move || {
            let config = Config::respond(answer);
            let server = Server::new(config, WallClock::new(Clock.now(), Clock.unix())).expect("a fixed answer");
            let mut worker =
                Worker::new(sockets::Config::default(), listeners.for_worker(0), server).expect("a worker");
            worker.run(&mut until).expect("it runs");
        });
        Self { over, served, thread: Some(thread), url }
    }

    fn tcp() -> Self {
        Self::start(Endpoint::Tcp(([127, 0, 0, 1], 0).into()))
    }

    fn end(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server does not panic");
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.end();
    }
}

/// A short run with these arguments, beside the URL.
fn load(url: &str, arguments: &str) -> Output {
    let mut words = vec!["load", url, "--progress", "none"];
    words.extend(arguments.split_whitespace());
    Command::new(env!("CARGO_BIN_EXE_nearside")).args(words).output().expect("the program starts")
}

/// The shortest useful run, without the floor.
const SHORT: &str = "-c 4 -d 300ms --warmup 50ms --no-floor --threads 1 --cores none";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A path without blanks and short enough for a socket (`unix(7)`), whatever the checkout is called.
fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("near-load-{}-{name}", std::process::id()))
}

#[track_caller]
fn ends_with(output: &Output, code: i32, told: &str) {
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{err}\n{}", text(&output.stdout));
    assert!(err.contains(told), "{err}");
}

#[test]
fn every_form_comes_from_a_run() {
    let site = Site::tcp();
    for (form, marks) in [
        ("text", ["Requests  ", "In progress  ", "Errors       none"]),
        ("ab", ["Requests per second:    ", "Document Length:        5 bytes", " 100%  "]),
        ("wrk", ["Requests/sec: ", "  1 threads and 4 connections", "    Req/Sec "]),
        ("histogram", ["min:", "value |-----", "***"]),
    ] {
        let output = load(&site.url, &format!("{SHORT} --interval 50ms --as {form}"));
        ends_with(&output, 0, "");
        let out = text(&output.stdout);
        assert!(marks.into_iter().all(|mark| out.contains(mark)), "{form}: {out}");
    }
}

/// The requests asked for are measured, however many threads have no part.
#[test]
fn one_connection_measures_all_requests() {
    let site = Site::tcp();
    let output = load(&site.url, "-c 1 -n 50 -d 60s --warmup 7r --no-floor --threads 2 --cores none --json");
    ends_with(&output, 0, "");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["traffic"]["responses"], &json["silos"]), (&50.into(), &1.into()), "{json}");
    assert!(json["warm_up_phase"]["traffic"]["responses"].as_u64() >= Some(7), "{json}");
}

#[test]
fn ab_opens_a_connection_for_each_request_unless_told() {
    let site = Site::tcp();
    for (flags, kept) in [("", false), ("-k", true)] {
        let output = load(&site.url, &format!("-n 40 -d 60s -c 2 --no-floor --threads 1 --cores none --as ab {flags}"));
        ends_with(&output, 0, "");
        let out = text(&output.stdout);
        assert!(out.contains("Complete requests:      40"), "{out}");
        assert_eq!(out.contains("Keep-Alive requests:    40"), kept, "{out}");
    }
}

#[test]
fn what_cannot_be_written_is_told_before_the_run() {
    let site = Site::tcp();
    let before = site.served.load(Ordering::Relaxed);
    let output = load(&site.url, &format!("{SHORT} --hgrm {}/none/x.hgrm", scratch("nowhere").display()));
    ends_with(&output, 1, "cannot write");
    let output =
        load(&site.url, &format!("{SHORT} --find-max p99<1s --svg {}/none/x.svg", scratch("nowhere").display()));
    ends_with(&output, 1, "cannot write");
    assert_eq!(site.served.load(Ordering::Relaxed), before, "nothing was asked");
}

#[test]
fn a_link_without_anybody_is_given_up() {
    let socket = scratch("missing.sock");
    let words = format!("-c 1 --ramp-limit 1500ms --addr 10.99.0.1/24 --link memif:{}", socket.display());
    let output = load("http://10.99.0.2/", &words);
    ends_with(&output, 1, "nobody came to the other side of memif:");
    assert!(text(&output.stderr).contains("waiting for the other side of memif:"), "{}", text(&output.stderr));
}

/// What a silo counts over a link is told where metrics are asked for.
#[test]
fn requests_over_a_link_are_in_the_servers_metrics() {
    let socket = scratch("metrics.sock");
    let link = format!("memif:{}", socket.display());
    // Free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").to_string();
    let words = ["serve", "--respond", "text:hello", "--addr", "10.99.1.2/24", "--metrics", &free, "--link"];
    let mut server = Command::new(env!("CARGO_BIN_EXE_nearside"));
    let server = server.args(words).arg(&link).args(["--control", "off"]).stderr(Stdio::piped()).spawn();
    let mut server = Ended(server.expect("it starts"));
    let said = BufReader::new(server.0.stderr.take().expect("a pipe"));
    let told = |line: String| Some(line.split_once("metrics at http://")?.1.strip_suffix("/metrics")?.to_owned());
    let mut lines = said.lines();
    let address = lines.by_ref().map_while(Result::ok).find_map(told).expect("it says where");
    let read_on = thread::spawn(move || lines.for_each(drop));

    let words = format!("-c 4 -d 300ms --warmup 50ms --json --addr 10.99.1.1/24 --link {link}");
    let output = load("http://10.99.1.2/", &words);
    ends_with(&output, 0, "");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let responses = json["traffic"]["responses"].as_u64().expect("a number");
    let counted = || {
        let mut asked = TcpStream::connect(&address).expect("it listens");
        asked.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
        let mut page = String::new();
        asked.read_to_string(&mut page).expect("text");
        let line =
            page.lines().find_map(|line| line.strip_prefix(r#"nearside_http_responses_total{silo="0",class="2xx"} "#));
        line.unwrap_or_else(|| panic!("no such line in {page}")).parse::<u64>().expect("a number")
    };
    // A silo tells a moment later, which is as long as the machine makes it.
    while counted() < responses {
        thread::sleep(Duration::from_millis(20));
    }
    drop(server);
    read_on.join().expect("it reads to the end");
}

/// A process that does not outlive this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

/// Each connection has a head of its own, and a server takes them all.
#[test]
fn heads_of_all_kinds_are_answered() {
    let site = Site::tcp();
    for heads in ["equal", "short", "browser"] {
        let output = load(&format!("{}f/[00-99]", site.url), &format!("{SHORT} --heads {heads} --json"));
        ends_with(&output, 0, "");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((&json["setup"]["heads"], &json["setup"]["requests"]), (&heads.into(), &100.into()), "{json}");
        assert_eq!(json["statuses"]["success"], json["traffic"]["responses"], "{json}");
    }
}

#[test]
fn json_and_the_files_agree() {
    let site = Site::tcp();
    let [ndjson, hdr, hgrm] = ["a.ndjson", "a.hlog", "a.hgrm"].map(scratch);
    let files = format!("--ndjson {} --hdr-log {} --hgrm {}", ndjson.display(), hdr.display(), hgrm.display());
    let output = load(&site.url, &format!("{SHORT} --json --interval 50ms --expect errors<1 {files}"));
    ends_with(&output, 0, "");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let responses = json["traffic"]["responses"].as_u64().expect("a number");
    assert!(responses > 0 && json["objectives"][0]["met"] == true, "{json}");
    // How the time divides the kernel samples by its ticks: on a short run one of the two may be nothing.
    let cpu = &json["client"]["cpu"];
    let spent = cpu["user_ns"].as_u64().zip(cpu["system_ns"].as_u64()).map(|(user, system)| user + system);
    assert!(spent > Some(0), "{json}");
    // The intervals of the window add up to the whole.
    let lines = std::fs::read_to_string(&ndjson).expect("written");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let measured = lines.iter().filter(|line| line["stage"] == "measuring");
    let sum: u64 = measured.map(|line| line["traffic"]["responses"].as_u64().unwrap_or(0)).sum();
    assert_eq!(sum, responses);
    let log = std::fs::read_to_string(&hdr).expect("written");
    assert!(log.starts_with("#[nearside load: GET http://") && log.contains("\nTag=2xx,"), "{log}");
    let table = std::fs::read_to_string(&hgrm).expect("written");
    let count = format!("Total count    = {responses:>12}]");
    assert!(table.contains(&count), "{table}");
    for file in [ndjson, hdr, hgrm] {
        std::fs::remove_file(file).expect("it was made");
    }
}

#[test]
fn little_s_law_holds_within_three_percent() {
    let site = Site::tcp();
    for pace in ["", "--rate 2k", "--rate poisson:2k"] {
        let output = load(&site.url, &format!("{SHORT} --json {pace}"));
        ends_with(&output, 0, "");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let off = json["littles_law"]["off"].as_f64().expect("a number");
        assert!(off < 0.03, "{pace}: {}", json["littles_law"]);
    }
}

#[test]
fn an_open_loop_keeps_its_rate_and_says_so() {
    let site = Site::tcp();
    let output = load(&site.url, &format!("{SHORT} --rate 1k --expect rate>1M --as ab"));
    ends_with(&output, 3, "objective rate > 1.00 M/s");
    let output = load(&site.url, &format!("{SHORT} --rate 1k --json"));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let due = json["schedule"]["due"].as_u64().expect("an open loop");
    assert!((250..=350).contains(&due), "300 in 300 ms, but for the machine's own stalls: {due}");
}

#[test]
fn names_sockets_mixes_and_reuse_are_taken() {
    let unix = Site::start(Endpoint::Unix(format!("@nearside-load-{}", std::process::id()).into()));
    ends_with(&load(&unix.url, SHORT), 0, "");
    let site = Site::tcp();
    let port = site.url.trim_end_matches('/').rsplit(':').next().expect("a port").to_owned();
    let urls = scratch("urls");
    std::fs::write(&urls, "3 /a\n1 HEAD /b\n").expect("a file");
    let mix = format!("{SHORT} --urls {} --reuse 7 -n 200 --warmup 20r --json", urls.display());
    let mix = mix.replace("-d 300ms", "-d 10s").replace("--warmup 50ms ", "");
    let output = load(&format!("http://localhost:{port}/"), &mix);
    std::fs::remove_file(urls).expect("it was made");
    ends_with(&output, 0, "");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["traffic"]["responses"], 200);
    assert!(json["connections"]["established"].as_u64() >= Some(200 / 7 - 4), "{json}");
}

#[test]
fn the_floor_is_measured_unless_left_out() {
    let site = Site::tcp();
    let output = load(&site.url, "-c 4 -d 300ms --warmup 50ms --threads 1 --cores none --json");
    ends_with(&output, 0, "");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // One that the machine put above the mean is void, and told as such.
    let void = json["warnings"].to_string().contains("floor-void");
    assert!(void || json["client"]["floor"]["p50_ns"].as_u64() > Some(0), "{json}");
}

#[test]
fn a_sweep_is_a_table() {
    let site = Site::tcp();
    let [csv, svg] = ["t.csv", "t.svg"].map(scratch);
    let files = format!("--csv {} --svg {}", csv.display(), svg.display());
    let pid = std::process::id();
    let run =
        format!("--sweep conns=1,2..4 --procs 1,2 -d 100ms --warmup 20ms --cores none --server-pid {pid} {files}");
    let output = load(&site.url, &run);
    ends_with(&output, 0, "");
    let out = text(&output.stdout);
    assert!(out.contains("PROC   CONN    RPSavg    RPSmax     LAT50"), "{out}");
    let table = std::fs::read_to_string(&csv).expect("written");
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split(',').take(2).collect()).collect();
    assert_eq!(rows, [["1", "1"], ["1", "2"], ["1", "4"], ["2", "1"], ["2", "2"], ["2", "4"]].map(Vec::from));
    assert!(std::fs::read_to_string(&svg).expect("written").contains("2 threads"));
    for file in [csv, svg] {
        std::fs::remove_file(file).expect("it was made");
    }
}

#[test]
fn the_highest_rate_is_searched_for() {
    let site = Site::tcp();
    // What falls due in so short a run varies by its root. 1,224 is in the midst of 1,000
    // and 1,500, four and a half times that from both.
    let run = "--find-max rate<1224 --find-start 500 --find-precision 50% -c 2 -d 400ms --warmup 10ms \
               --threads 1 --cores none --json";
    if let Some(output) = undisturbed(&site, run) {
        ends_with(&output, 0, "");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let rate = json["found"]["rate"].as_f64().expect("some rate meets it");
        assert_eq!(rate, 1_000.0, "{json}");
    }
    let none = "--find-max rate<0.1 --find-start 2 --find-precision 50% -c 2 -d 100ms --warmup 10ms \
                --threads 1 --cores none --json";
    if let Some(output) = undisturbed(&site, none) {
        ends_with(&output, 3, "missed");
    }
}

/// A search that the machine left alone, of three. Beside other tests there may be none:
/// each then says so, and the search itself is held against models in `apps/load`.
fn undisturbed(site: &Site, run: &str) -> Option<Output> {
    for _ in 0..3 {
        let output = load(&site.url, run);
        if output.status.code() != Some(5) {
            return Some(output);
        }
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json["found"]["invalid"], true, "{json}");
        assert!(json["found"]["rate"].is_null(), "{json}");
    }
    println!("left out: three searches were disturbed");
    None
}

#[test]
fn who_is_not_there_is_named() {
    let mut site = Site::tcp();
    let url = site.url.clone();
    site.end();
    ends_with(&load(&url, SHORT), 1, "Connection refused");
    ends_with(&load("http://nobody.invalid/", SHORT), 1, "cannot resolve nobody.invalid");
    ends_with(&load("unix:/nowhere/socket", SHORT), 1, "cannot connect to unix:/nowhere/socket");
    ends_with(&load("http://127.0.0.1/", "--insecure"), 2, "flags of HTTPS");
}

#[test]
fn a_server_that_goes_away_is_told_and_counted() {
    let mut site = Site::tcp();
    let url = site.url.clone();
    // Measured from the first request on, so that what was served before the end counts.
    let flags = format!("{SHORT} --json").replace("300ms", "3s").replace("--warmup 50ms", "--warmup 0s");
    let run = thread::spawn(move || load(&url, &flags));
    // In the midst of the run, wherever that is: the code is the same.
    let served = site.served.clone();
    while served.load(Ordering::Relaxed) < 10 {
        assert!(!run.is_finished(), "it ended before it was served");
        thread::sleep(core::time::Duration::from_millis(1));
    }
    site.end();
    let output = run.join().expect("no panic");
    ends_with(&output, 4, "the server went away");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(json["errors"]["refused"].as_u64() > Some(0), "{}", json["errors"]);
}

/// One of two workers does nothing: what the kernel's hash gives to it times
/// out, is counted, and breaks the objective, while the other's clients are
/// served.
#[test]
fn half_of_the_workers_stalled_is_told_and_counted() {
    let site = Site::start_one_of(2, Endpoint::Tcp(([127, 0, 0, 1], 0).into()));
    let run = "-c 32 -d 600ms --warmup 0s --timeout 100ms --no-floor --threads 1 --cores none --json";
    let output = load(&site.url, &format!("{run} --expect timeouts<1"));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let timeouts = report["errors"]["timeouts"].as_u64().expect("counted");
    assert!(timeouts > 0, "{report}");
    let samples = |class: &str| {
        let classes = report["classes"].as_array().expect("classes");
        let found = classes.iter().find(|one| one["class"] == class);
        found.map_or(0, |one| one["latency"]["samples"].as_u64().expect("a number"))
    };
    assert!(samples("success") > 0, "the other half is served: {report}");
    assert_eq!(samples("timed-out"), timeouts, "each is a sample: {report}");
}

#[test]
fn a_full_disk_is_told_and_costs_the_file_alone() {
    let site = Site::tcp();
    let output = load(&site.url, &format!("{SHORT} --ndjson /dev/full"));
    ends_with(&output, 1, "cannot write /dev/full: No space left on device");
    assert!(text(&output.stdout).contains("Requests  "));
    ends_with(&load(&site.url, &format!("{SHORT} --hgrm /nowhere/x")), 1, "cannot write /nowhere/x");
}

/// What users ask of answers and requests, from the command line to the report.
#[test]
fn answers_are_checked_and_requests_filled_in() {
    let site = Site::tcp();
    let run = |flags: &str| load(&site.url, &format!("{SHORT} --json {flags}"));
    let json = |output: &Output| serde_json::from_slice::<Value>(&output.stdout).expect("JSON");
    // printf hello | sha256sum
    let sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let right = run(&format!("--want-header Content-Length:5 --want-body ell --want-regex ^h.*o$ --want-sha256 {sum}"));
    ends_with(&right, 0, "");
    assert_eq!(json(&right)["errors"]["wrong_hash"], 0);
    let wrong = run("--want-header X-None --want-body x --want-regex ^x --want-status 404 --strict");
    ends_with(&wrong, 6, "the figures cannot be trusted: ");
    let report = json(&wrong);
    let responses = report["traffic"]["responses"].as_u64().expect("a number");
    for field in ["wrong_header", "wrong_text", "wrong_match", "wrong_status"] {
        assert_eq!(report["errors"][field], responses, "{field}: {report}");
    }
    assert_eq!(report["wrong_answers"][0]["request"], "GET /", "{report}");
    assert_eq!(report["verdict"]["trust"], "no");
    let [feed, urls, body] = ["feed.csv", "urls.json", "body"].map(scratch);
    std::fs::write(&feed, "user\nada\nbob\n").expect("a file");
    std::fs::write(&body, "b").expect("a file");
    let lines = format!(
        "POST /{{{{csv:user}}}}?{{{{counter}}}}\nX-Id: {{{{uuid}}}}\n@{}\n\n{{\"url\":\"/j\",\"weight\":2,\"want\":{{\"body\":\"hello\"}}}}\n",
        body.display()
    );
    std::fs::write(&urls, lines).expect("a file");
    let flags = format!("--feed {} --urls {} --per-url --cookies --follow 3", feed.display(), urls.display());
    let filled = run(&flags);
    ends_with(&filled, 0, "");
    let report = json(&filled);
    let rows = report["urls"].as_array().expect("a row for each");
    assert_eq!(
        rows.iter().map(|row| row["request"].as_str()).collect::<Vec<_>>(),
        [Some("POST /{{csv:user}}?{{counter}}"), Some("GET /j")]
    );
    assert!(rows.iter().all(|row| row["success"].as_u64() > Some(0) && row["wrong"] == 0), "{report}");
    assert_eq!((&report["redirects"]["followed"], &report["cookies"]["stored"]), (&0.into(), &0.into()));
    for (flags, told) in [
        ("--template", "no request has a word"),
        ("--feed /nowhere", "--feed /nowhere: cannot be read"),
        ("--feed-order random", "--feed"),
        ("--urls /dev/zero", "it is longer than 64 MiB"),
        ("--want-regex (", "parenthes"),
        ("--want-sha256 12", "64 hexadecimal"),
        ("--follow 21", "21"),
        ("--follow 1 --close", "on the same connection"),
        ("--follow 1 --pipeline 2", "cannot be pipelined"),
        ("--cookies --heads short", "heads that differ"),
    ] {
        ends_with(&load(&site.url, flags), 2, told);
    }
    for file in [feed, urls, body] {
        std::fs::remove_file(file).expect("it was made");
    }
}

/// A server that has `does` done to each connection, until it is dropped.
struct Odd(std::net::SocketAddr, Arc<AtomicBool>);

impl Odd {
    fn start(does: impl Fn(TcpStream) -> Option<TcpStream> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, over) = (listener.local_addr().expect("bound"), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&over);
        thread::spawn(move || {
            let mut kept = Vec::new();
            while let Ok((peer, _)) = listener.accept() {
                if until.load(Ordering::Relaxed) {
                    return;
                }
                kept.extend(does(peer));
            }
        });
        Self(address, over)
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.0);
    }
}

/// HTTPS from servers that do not speak it, end, or say nothing.
#[test]
fn handshakes_that_fail_are_told_and_counted() {
    let site = Site::tcp();
    let url = site.url.replace("http://", "https://");
    ends_with(
        &load(&url, &format!("{SHORT} --insecure")),
        1,
        "HTTPS: error:0A00010B:SSL routines::wrong version number",
    );
    let ends = Odd::start(|mut peer| {
        let _ = peer.read(&mut [0; 1 << 10]);
        None
    });
    let quiet = Odd::start(Some);
    for (server, field) in [(&ends, "handshake_failed"), (&quiet, "handshake_timeouts")] {
        let flags = format!("{SHORT} --insecure --ramp-limit 100ms --connect-timeout 50ms --json");
        let output = load(&format!("https://{}/", server.0), &flags);
        ends_with(&output, 4, "no response came");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let count = json["errors"][field].as_u64().unwrap_or(0) + json["errors_before"][field].as_u64().unwrap_or(0);
        assert!(count > 0 && json["connections"]["established"] == 0, "{field}: {json}");
        assert_eq!(json["setup"]["scheme"], "https");
    }
    for (flags, told) in [
        ("--cacert /nowhere", "cannot read /nowhere"),
        ("--insecure --cacert /nowhere", "cannot be used with"),
        ("--insecure --sni a..b", "no name of a host"),
        ("--insecure --ciphers none", "no suite"),
        ("--insecure --curves none", "no group"),
        ("--insecure --tls 1.2 --ciphers TLS_AES_128_GCM_SHA256", "no suite of the version"),
        ("--insecure --tls 1.1", "invalid value"),
        ("--insecure --alpn h2", "http/1.1 and http/1.0 are spoken"),
    ] {
        ends_with(&load(&url, flags), 2, told);
    }
}
