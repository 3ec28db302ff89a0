//! Several silos: each serves, whichever way its frames find it, and they end
//! together.

use interop::{
    Nearside, Program, Running, SITE_LARGE, SITE_SMALL, STACK, TAP, in_namespace, output, scratch, sha256, site,
    wait_for,
};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const CURL: Program = Program::new("curl", "curl");
const WRK: Program = Program::new("wrk", "wrk");

/// A value of each silo on a statistics page.
fn each(page: &Path, name: &str) -> Vec<u64> {
    let text = output(Nearside::command(["status", "--json"]).arg(page));
    let pages: Value = serde_json::from_str(&text).unwrap();
    let silos = pages[0]["silos"].as_array().unwrap_or_else(|| panic!("{text}"));
    silos.iter().map(|silo| silo[name].as_u64().unwrap_or_else(|| panic!("no {name} in {silo}"))).collect()
}

/// A page for the test called `name`, which no other test uses.
fn page(name: &str) -> PathBuf {
    scratch("silos").join(name)
}

/// The response to a request of its own connection, head and all.
fn ask(path: &str, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect((STACK[0], 80)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n").unwrap();
    stream
}

/// Connections of the kernel, each with one request: `count` of them.
fn small_files(count: usize) {
    let content = std::fs::read(site().join(SITE_SMALL.0)).unwrap();
    for number in 0..count {
        let mut answer = Vec::new();
        ask(SITE_SMALL.0, "").read_to_end(&mut answer).unwrap();
        let intact = answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(&content);
        assert!(intact, "request {number}: {}", String::from_utf8_lossy(&answer[..answer.len().min(200)]));
    }
}

/// Two silos over a TAP device: small files on connections of their own, a
/// large one, and wrk's keep-alive connections; then all is to be told apart
/// by silo.
fn both_serve(test: &'static str, options: &'static str, more: &'static [&'static str]) {
    in_namespace(&[CURL, WRK], move || {
        let page = page(test);
        let link = format!("{TAP}{options}");
        let fixed =
            [site().to_str().unwrap(), "--link", &link, "--silos", "2", "--status-page", page.to_str().unwrap()];
        let server = Nearside::serve([&fixed[..], more].concat());
        small_files(64);
        let expected = sha256(File::open(site().join(SITE_LARGE.0)).unwrap());
        for host in STACK {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail", "--globoff", "--max-time", "120"]);
            let curl = curl.arg(format!("http://{host}/{}", SITE_LARGE.0)).stdout(Stdio::piped()).spawn();
            let mut curl = curl.unwrap();
            assert_eq!(sha256(curl.stdout.take().unwrap()), expected, "{host}");
            assert!(curl.wait().unwrap().success());
        }
        let mut wrk = Command::new("wrk");
        wrk.args(["-t", "1", "-c", "64", "-d", "1s", "--timeout", "60s"]);
        let report = output(wrk.arg(format!("http://{}/{}", STACK[0], SITE_SMALL.0)));
        assert!(!report.contains("Socket errors") && !report.contains("Non-2xx"), "{report}");
        let requests = each(&page, "app.requests");
        assert!(requests.len() == 2 && requests.iter().all(|count| *count > 20), "{requests:?}");
        assert!(each(&page, "app.responses_5xx").iter().sum::<u64>() == 0);
        let said = server.stop();
        assert!(said.contains("2 silos") && said.contains("steering by"), "{said}");
    });
}

#[test]
fn two_silos_with_a_queue_each_serve() {
    both_serve("queues", "", &[]);
}

/// Every second flow is passed on, and its answers go out by the other silo.
#[test]
fn two_silos_with_one_queue_serve() {
    both_serve("one-queue", ",queues=1", &[]);
}

#[test]
fn the_least_loaded_silo_serves() {
    both_serve("least", "", &["--steer", "least"]);
}

/// Nothing is lost that TCP does not bring back, in whichever silo.
#[test]
fn two_silos_serve_over_a_link_that_loses() {
    both_serve("loss", ",offload=off", &["--loss", "0.2%", "--seed", "3"]);
}

/// `nearside load` against `nearside serve`, with so many silos and queues.
fn over_memory(test: &str, serving: (&str, &str), loading: (&str, &str), busy: usize) {
    let page = page(test);
    let socket = format!("memif:{}", scratch("silos").join(format!("{test}.sock")).display());
    let mut command = Nearside::command(["serve", "--respond", "2649", "--addr", "10.9.0.2/24", "--idle", "adaptive"]);
    command.args(["--link", &format!("{socket}{}", serving.0), "--silos", serving.1]);
    let server = Running::start(command.arg("--status-page").arg(&page));
    let mut load =
        Nearside::command(["load", "http://10.9.0.2/", "--addr", "10.9.0.1/24", "--json", "--progress", "none"]);
    load.args(["--link", &format!("{socket}{}", loading.0), "--silos", loading.1]);
    load.args(["-c", "64", "-n", "20000", "-d", "60s", "--warmup", "64r", "--want-length", "2649"]);
    let report = output(&mut load);
    let report: Value = serde_json::from_str(&report).unwrap_or_else(|why| panic!("{why}: {report}"));
    assert_eq!(report["classes"][0]["latency"]["samples"], 20_000, "{report}");
    assert_eq!(report["most_open"], 64, "{report}");
    assert_eq!(report["classes"].as_array().map(Vec::len), Some(1), "{report}");
    let requests = each(&page, "app.requests");
    assert!(requests.iter().filter(|count| **count > 100).count() >= busy, "{test}: {requests:?}");
    assert!(requests.iter().sum::<u64>() >= 20_000, "{requests:?}");
    server.stop();
}

/// A server that is named by its process tells of all connections, or of some that are taken evenly.
#[test]
fn connections_over_memory_are_told_of() {
    let socket = format!("memif:{}", scratch("silos").join("connections.sock").display());
    let mut command = Nearside::command(["serve", "--respond", "100", "--addr", "10.9.0.2/24", "--idle", "adaptive"]);
    let server = Running::start(command.args(["--link", &socket]));
    let process = server.id().to_string();
    let mut load = Nearside::command(["load", "http://10.9.0.2/", "--addr", "10.9.0.1/24", "--progress", "none"]);
    let load = Running::start(load.args(["--link", &socket, "-c", "300", "--rate", "300", "-d", "300s"]));
    let ask = || -> Value {
        let asked = Nearside::command(["status", &process, "--connections", "--json"]).output().unwrap();
        serde_json::from_slice(&asked.stdout).unwrap_or_default()
    };
    wait_for("all connections", || ask()[0]["silos"][0]["total"] == 300);
    let told = ask();
    let connections = told[0]["silos"][0]["connections"].as_array().unwrap();
    let peers: BTreeSet<&str> = connections.iter().map(|one| one["peer"].as_str().unwrap()).collect();
    assert_eq!((connections.len(), peers.len()), (256, 256), "{told}");
    assert!(connections.iter().all(|one| one["state"] == "ESTAB" && one["mss"] == 1448), "{told}");
    assert!(told[0]["silos"][0]["took_us"].as_f64() > Some(0.0), "{told}");
    drop(load);
    server.stop();
}

#[test]
fn silos_with_a_queue_each_meet_over_memory() {
    over_memory("two-and-two", ("", "2"), ("", "2"), 2);
    over_memory("four-and-four", ("", "4"), ("", "4"), 4);
}

#[test]
fn silos_share_a_queue_of_memory() {
    over_memory("four-and-one", (",queues=1", "4"), ("", "1"), 4);
    over_memory("two-and-one", (",queues=1", "2"), ("", "1"), 2);
}

/// One silo looks after all queues.
#[test]
fn one_silo_takes_several_queues() {
    over_memory("one-and-three", (",queues=3", "1"), (",queues=3", "1"), 1);
}

/// Told to stop, each silo finishes the responses that it has begun, also
/// those that leave through another silo.
#[test]
fn all_silos_finish_what_they_have_begun() {
    in_namespace(&[], || {
        let page = page("drain");
        let link = format!("{TAP},queues=1");
        let fixed = [site().to_str().unwrap(), "--link", &link, "--silos", "2"];
        let server = Nearside::serve([&fixed[..], &["--status-page", page.to_str().unwrap()]].concat());
        let file = std::fs::read(site().join(SITE_LARGE.0)).unwrap();
        const LENGTH: usize = 6_000_000;
        let mut begun: Vec<(TcpStream, Vec<u8>)> = Vec::new();
        for _ in 0..12 {
            let mut stream = ask(SITE_LARGE.0, &format!("Range: bytes=0-{}\r\n", LENGTH - 1));
            let mut first = vec![0; 1_000];
            stream.read_exact(&mut first).unwrap();
            begun.push((stream, first));
        }
        let open = each(&page, "stack.connections");
        assert!(open.iter().all(|count| *count > 0), "{open:?}");
        server.signal(Signal::TERM);
        for (mut stream, mut answer) in begun {
            stream.read_to_end(&mut answer).unwrap();
            let head = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            assert!(answer[head..] == file[..LENGTH], "{} bytes of a response", answer.len() - head);
        }
        let said = server.stop();
        assert!(said.contains("finishing responses under way"), "{said}");
    });
}

/// What `serve` says when it does not start.
fn refusal(arguments: &[&str]) -> String {
    let mut command = Nearside::command(["serve", "--respond", "text:ok", "--addr", "10.9.0.2/24"]);
    let output = command.args(arguments).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_cannot_be_had_is_said() {
    let link = ["--link", "memif:@nearside-silos-refused"];
    let refused = |more: &[&str]| refusal(&[&link[..], more].concat());
    assert!(refused(&["--silos", "4000,4001"]).contains("4000"));
    assert!(refused(&["--silos", "2", "--core", "0"]).contains("cannot be used with"));
    assert!(refused(&["--silos", "none"]).contains("3-3 is core 3 alone"));
    assert!(refused(&["--link", link[1]]).contains("given twice"));
    let mut load = Nearside::command(["load", "http://10.9.0.2/", "--addr", "10.9.0.1/24", "--silos", "2"]);
    let told = load.args(["--link", "memif:@nearside-silos-refused,queues=1", "--steer", "least", "--plan"]);
    let told = told.output().unwrap();
    assert!(String::from_utf8_lossy(&told.stderr).contains("several silos need --steer hash"));
    assert!(refused(&["--link", "tap:near0"]).contains("all links are of one kind"));
}

/// Short of descriptors, one silo or another cannot start: then none does,
/// and it is said which. With enough all do.
#[test]
fn a_silo_that_cannot_start_ends_the_others() {
    let mut said = Vec::new();
    let mut served = false;
    for descriptors in (10..60).step_by(2) {
        let socket = scratch("silos").join("short.sock");
        let program = Nearside::command([""; 0]).get_program().to_owned();
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={descriptors}:")).arg("--").arg(program);
        command.args(["serve", site().to_str().unwrap(), "--addr", "10.9.0.2/24", "--silos", "2"]);
        command.args(["--link", &format!("memif:{}", socket.display())]);
        command.arg("--status-page").arg(page("short"));
        let mut running = Running::start(&mut command);
        let mut ended = false;
        interop::wait_for("a start, or an end", || {
            ended = running.ended_well().is_some();
            ended || running.said().contains("serving http://")
        });
        if !ended {
            // At the brink it may be short of descriptors later on: how it
            // ends is another test's.
            served = true;
            drop(running);
            break;
        }
        assert_eq!(running.ended_well(), Some(false), "{}", running.said());
        said.push(running.said());
    }
    assert!(served, "{said:#?}");
    assert!(said.iter().any(|text| text.contains(" silo 0: ")), "{said:#?}");
}

#[test]
fn the_plan_is_printed_for_people_and_for_programs() {
    let plan = |more: &[&str]| {
        let mut command = Nearside::command(["serve", "--respond", "1", "--addr", "10.9.0.2/24", "--plan"]);
        output(command.args(["--link", "memif:@nearside-plan,queues=2", "--silos", "3"]).args(more))
    };
    let text = plan(&[]);
    let heads: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(heads, ["silo", "core", "domain", "port", "queues", "memory"]);
    assert!(text.contains("steering by hash: in software"), "{text}");
    let json: Value = serde_json::from_str(&plan(&["--json"])).unwrap();
    let silos = json["silos"].as_array().unwrap();
    assert_eq!(silos.len(), 3, "{json}");
    for (index, silo) in silos.iter().enumerate() {
        assert_eq!(silo["silo"], index);
        assert!(silo["core"].is_u64() && silo["domain"].is_u64(), "{silo}");
        assert_eq!(silo["leaves_by"][0], "memif:@nearside-plan");
    }
    let queues: Vec<&Value> = silos.iter().flat_map(|silo| silo["queues"].as_array().unwrap()).collect();
    assert_eq!(queues.len(), 2, "{json}");
    assert!(
        json["warnings"].as_array().unwrap().iter().any(|w| w.as_str().unwrap().contains("more silos than queues"))
    );
    // A plan for one silo that is not pinned has nothing to say of cores.
    let mut one = Nearside::command(["load", "http://10.9.0.2/", "--addr", "10.9.0.1/24", "--plan", "--json"]);
    let one: Value = serde_json::from_str(&output(one.args(["--link", "memif:@nearside-plan"]))).unwrap();
    assert_eq!((&one["silos"][0]["core"], &one["steering"]), (&Value::Null, &Value::Null));
}
