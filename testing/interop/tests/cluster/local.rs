//! `nearside cluster run --local`: processes as workers, against a server that notes what it is asked.

use crate::server::Server;
use interop::{Nearside, scratch, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

/// A test's file; what is measured is short, and what may be slow is given time.
fn spec(name: &str, server: &Server, more: &str) -> PathBuf {
    let folder = scratch(&format!("cluster-{name}"));
    let path = folder.join("test.yaml");
    let text = format!(
        "apiVersion: nearside.dev/v1alpha1\nkind: LoadTest\nmetadata: {{name: {name}}}\nspec:\n  \
         target: http://{}/\n  workers: 3\n  floor: false\n  startTolerance: 10s\n  warmUp: 200ms\n{more}",
        server.address
    );
    fs::write(&path, text).expect("a file");
    path
}

fn start(spec: &PathBuf, options: &[&str]) -> Child {
    let mut command = Nearside::command(["cluster", "run"]);
    command.arg(spec).args(["--local", "--quiet"]).args(options);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The processes that this one started.
fn below(parent: u32) -> Vec<u32> {
    let is_below = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name, which is in brackets: state and parent.
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        let mut fields = rest.split_whitespace();
        fields.next() != Some("Z") && fields.next().and_then(|field| field.parse().ok()) == Some(parent)
    };
    let all = fs::read_dir("/proc").expect("it is there").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_below).collect()
}

pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

pub fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a number")).expect("above zero");
    kill_process(pid, signal).expect("it takes signals");
}

/// The workers of a test whose load is on, which `server` had no more than `before` of.
fn loading(child: &mut Child, server: &Server, before: usize) -> Vec<u32> {
    wait_for("requests", || {
        if let Some(status) = child.try_wait().expect("it can be asked") {
            let mut said = String::new();
            let errors = child.stderr.take().map(|mut errors| errors.read_to_string(&mut said));
            panic!("it ended, {status}: {said} {errors:?}");
        }
        server.paths().len() > before + 20
    });
    let workers = below(child.id());
    assert_eq!(workers.len(), 3, "{workers:?}");
    workers
}

#[test]
fn what_workers_count_is_what_the_server_saw_and_no_counter_comes_twice() {
    let server = Server::start("127.0.0.1");
    let request = "  rate: 300\n  connections: 7\n  duration: 1s\n  expect: ['errors<1', 'p99<60s']\n  \
                   request: {template: true, headers: [{name: X-N, value: '{{counter}}'}]}\n";
    let path = spec("counted", &server, request);
    let text = fs::read_to_string(&path).expect("written above").replace("/\n  workers", "/{{counter}}\n  workers");
    fs::write(&path, text).expect("a file");
    let ndjson = path.with_file_name("intervals.ndjson");
    let html = path.with_file_name("page.html");
    let options = ["--json", "--ndjson", ndjson.to_str().expect("text"), "--html", html.to_str().expect("text")];
    let output = start(&path, &options).wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
    assert_eq!((&result["kind"], &result["setup"]["connections"]), (&"load".into(), &7.into()));
    assert_eq!((&result["workers"]["asked"], &result["workers"]["measured"]), (&3.into(), &3.into()));
    assert_eq!(result["objectives"].as_array().map(Vec::len), Some(2), "{result:#}");
    let skew = &result["workers"]["skew"];
    assert!(skew["spread_ns"].as_u64().is_some() && skew["error_ns"].as_u64() > Some(0), "{skew}");
    // All that was sent arrived, each counter once, and none is left out before the last.
    let number = |path: &str| result.pointer(path).and_then(Value::as_u64).expect("a number");
    let sent = number("/traffic/sent") + number("/warm_up_phase/traffic/sent") + number("/ramp_phase/traffic/sent");
    let paths = server.paths();
    assert_eq!(paths.len() as u64, sent);
    let counters: BTreeSet<u64> = paths.iter().filter_map(|path| path.trim_start_matches('/').parse().ok()).collect();
    assert_eq!(counters.len(), paths.len(), "a counter came twice");
    assert_eq!(number("/latency/samples"), number("/traffic/responses"));
    let each = result["workers"]["each"].as_array().expect("a list").iter();
    let sum: u64 = each.filter_map(|one| one["responses"].as_u64()).sum();
    assert_eq!(sum, number("/traffic/responses"));
    let intervals = fs::read_to_string(&ndjson).expect("written");
    let of_window = intervals.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let measured = of_window.filter(|line| line["stage"] == "measuring");
    let counted: u64 = measured.filter_map(|line| line["traffic"]["responses"].as_u64()).sum();
    assert_eq!(counted, number("/traffic/responses"), "{intervals}");
    assert!(fs::read_to_string(&html).expect("written").contains("</html>"));
}

#[test]
fn a_worker_that_is_killed_is_named_and_none_is_left() {
    let server = Server::start("127.0.0.1");
    let path = spec("killed", &server, "  rate: 300\n  duration: 60s\n");
    let mut child = start(&path, &[]);
    let workers = loading(&mut child, &server, 0);
    send(workers[1], Signal::KILL);
    let output = child.wait_with_output().expect("it ends");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("INVALID: worker ") && said.contains("its process was killed (SIGKILL)"), "{said}");
    // What was measured stands beside it.
    assert!(said.contains("worker lost") && said.contains("Workers      2 of 3 measured"), "{said}");
    assert!(!workers.into_iter().any(is_alive));
}

#[test]
fn an_interrupt_and_a_killed_controller_leave_no_worker() {
    let server = Server::start("127.0.0.1");
    let path = spec("interrupted", &server, "  rate: 300\n  duration: 60s\n");
    let mut child = start(&path, &[]);
    let workers = loading(&mut child, &server, 0);
    send(child.id(), Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).contains("Workers      3 of 3 measured"), "{}", said(&output));
    assert!(!workers.into_iter().any(is_alive));
    let before = server.paths().len();
    let mut child = start(&path, &[]);
    let workers = loading(&mut child, &server, before);
    send(child.id(), Signal::KILL);
    child.wait().expect("it ends");
    wait_for("the workers' end", || !workers.iter().any(|worker| is_alive(*worker)));
    // Nor a file: a request may hold secrets.
    let left = fs::read_dir(std::env::temp_dir()).expect("it is there").flatten();
    let names = left.filter_map(|entry| entry.file_name().into_string().ok());
    let left: Vec<String> = names.filter(|name| name.starts_with("nearside-interrupted-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn strangers_and_bad_files_change_nothing() {
    let server = Server::start("127.0.0.1");
    let path = spec("refused", &server, "  rate: 2\n  workerz: 9\n");
    let output = start(&path, &[]).wait_with_output().expect("it ends");
    let said_first = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said_first}");
    for told in ["line 10: spec.rate: 2 a second over 3 workers", "line 11: spec.workerz: there is no such field"] {
        assert!(said_first.contains(told), "{told}: {said_first}");
    }
    assert!(server.paths().is_empty(), "nothing was started");
    // Nobody is at the target: each worker says so.
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let path = spec("nobody", &server, "  rate: 30\n");
    let text = fs::read_to_string(&path).expect("written").replace(&server.address.to_string(), &gone.to_string());
    fs::write(&path, text).expect("a file");
    let output = start(&path, &[]).wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(said(&output).contains("cannot connect to"), "{}", said(&output));

    let path = spec("strangers", &server, "  rate: 100\n  connections: 3\n  duration: 2s\n");
    let mut child = start(&path, &["--json"]);
    loading(&mut child, &server, 0);
    let port = listening(child.id());
    for line in
        ["{\"hello\":{\"token\":\"00\",\"worker\":0,\"instance\":1,\"version\":\"1\"}}\n", "GET / HTTP/1.1\r\n\r\n", ""]
    {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.write_all(line.as_bytes()).expect("it is open");
        if !line.is_empty() {
            stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
            let mut told = Vec::new();
            let ended = stream.read_to_end(&mut told);
            let is_open = ended.is_err_and(|why| why.kind() == ErrorKind::WouldBlock);
            assert!(!is_open && told.len() < 16, "{line}: it is closed, with an alert at most: {told:?}");
        }
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
    assert_eq!(result["workers"]["measured"], 3);
    assert!(result["workers"]["strangers"].as_u64() >= Some(2), "{}", result["workers"]);
}

/// The port that a process listens on: of its sockets, the one in the table of those that listen.
fn listening(pid: u32) -> u16 {
    let sockets = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").flatten();
    let inodes: BTreeSet<String> = sockets
        .filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.to_str()?.to_owned()))
        .filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("a table");
    let ports = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let listens = fields.get(3) == Some(&"0A") && fields.get(9).is_some_and(|inode| inodes.contains(*inode));
        let port = fields.get(1)?.rsplit_once(':')?.1;
        listens.then(|| u16::from_str_radix(port, 16).ok()).flatten()
    });
    ports.into_iter().next().expect("a port")
}
