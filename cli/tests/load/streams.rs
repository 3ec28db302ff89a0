//! Streams: those that are played (`nearside load --stream`), those that are held against a rate, and
//! those without end (`--bulk`).

use super::{Odd, Site, ends_with, load, scratch, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use server::Respond;
use sockets::Endpoint;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};

/// A second is the shortest that is measured.
const SHORT: &str = "-c 3 -d 1s --warmup 100ms --threads 1 --cores none";

fn large() -> Site {
    Site::answering(Respond::Size(4 << 20), 1, Endpoint::Tcp(([127, 0, 0, 1], 0).into()))
}

/// A run in which all streams got under way, which takes as many as a machine that does other things needs.
fn run(url: &str, flags: &str) -> (Output, Value) {
    loop {
        let output = load(url, flags);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        if json["under_way"] == 3 {
            return (output, json);
        }
    }
}

/// Players take their rate, however much a server would send, and tell when they began.
#[test]
fn streams_are_played() {
    let site = large();
    let (output, json) = run(&site.url, &format!("{SHORT} --stream 2Mbit --buffer 200ms --json --expect start99<60s"));
    // 5: the one second may not count.
    assert!([Some(0), Some(5)].contains(&output.status.code()), "{}", text(&output.stderr));
    assert_eq!(
        (&json["kind"], &json["under_way"], &json["setup"]["rate"]),
        (&"streams".into(), &3.into(), &2_000_000.into())
    );
    assert_eq!(
        (&json["playing"]["start"]["samples"], &json["first_byte"]["samples"]),
        (&3.into(), &3.into()),
        "{json}"
    );
    // Nor do objectives then.
    let met = if output.status.code() == Some(0) { true.into() } else { Value::Null };
    assert_eq!((&json["counted"]["window"], &json["objectives"][0]["met"]), (&1.into(), &met), "{json}");
    assert!(json["evenness"].is_null() && json["environment"]["kernel"].is_string(), "{json}");
    // A window's worth, and what the buffers hold.
    let bytes = json["bits_per_second"].as_f64().expect("a rate") / 8.0;
    assert!(bytes <= 3.0 * 250_000.0 * 1.25, "{json}");
    let output = load(&site.url, &format!("{SHORT} --stream 2Mbit --buffer 200ms --play-at 50%"));
    let out = text(&output.stdout);
    for part in [
        "3 streams of 2.00 Mbit/s, each played from a buffer of 200 ms, 50 %",
        "Streams      3 of 3 played",
        "to playing",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
}

/// A server that does not pace gives more than is due: that is counted, and an objective on it is missed.
#[test]
fn streams_are_held_against_their_rate() {
    let site = large();
    let page = scratch("streams.html");
    let flags = format!("{SHORT} --stream 1Mbit --json --html {} --expect ttfb99<60s,within2>99%", page.display());
    let (output, json) = run(&site.url, &flags);
    // On a machine that does other things the one second may not count.
    if json["late"]["samples"] == 0 {
        ends_with(&output, 5, "no second of any stream counts");
    } else {
        ends_with(&output, 3, "an objective was missed");
        assert_eq!(json["evenness"]["within_two"], 0.0, "{json}");
        assert!(json["evenness"]["off_bytes"]["samples"].as_u64() > Some(0), "{json}");
    }
    assert!(json["playing"].is_null() && json["bits_per_second"].is_number(), "{json}");
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("3 streams of 1.00 Mbit/s"), "{html}");
    std::fs::remove_file(page).expect("it was made");
}

#[test]
fn streams_that_cannot_be_are_told() {
    // Nobody listens on it.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    ends_with(&load(&format!("http://{free}/"), &format!("{SHORT} --stream 1Mbit")), 1, "cannot connect");
    let site = Site::tcp();
    for (flags, told) in [
        ("--buffer 1s", "--stream"),
        ("--stream 1Mbit --play-at 50%", "--buffer"),
        ("--stream-start spread", "--stream"),
        ("--stream 1Mbit --buffer 1s --play-at 0%", "0.1% to 100%"),
        ("--stream 100", "at least 1k"),
        ("--stream 2Tbit", "bits per second"),
        ("--stream 1Mbit --rate 1k", "cannot be used"),
        ("--stream 1Mbit --bulk", "cannot be used"),
        ("--stream 1Mbit -d 1500ms", "whole seconds"),
        ("--stream 1Mbit --warmup 10r", "for a time"),
        ("--stream 1Mbit --grpc", "no calls of gRPC"),
        ("--stream 1Mbit --http2 --cookies", "for HTTP/1.1"),
        ("--stream 1Mbit --max-concurrent-streams 3", "--http2"),
        ("--stream 1Mbit --pipeline 3", "cannot be used"),
        ("--stream 1Mbit --as ab", "about requests"),
        ("--stream 1Mbit --cookies", "no cookies"),
        ("--stream 1Mbit --per-url", "none of each URL"),
        ("--stream 1Mbit --template --method POST --body {{counter}}", "without templates"),
        ("--stream 1Mbit --csv x", "cannot be used"),
        ("--stream 1Mbit --procs 1", "cannot be used"),
        ("--stream 1Mbit --find-start 5", "cannot be used"),
        ("--stream 1Mbit --server-pid 1", "cannot be used"),
        ("--stream 1Mbit --mix", "cannot be used"),
        ("--stream 1Mbit --closer client", "cannot be used"),
        ("--bulk --buffer 1s", "cannot be used"),
        ("--stream 1Mbit --hgrm x", "about requests"),
        ("--stream 1Mbit --expect p99<1ms", "no figure of streams"),
        ("--stream 1Mbit --expect start99<1s", "held against a rate"),
        ("--stream 1Mbit --buffer 1s --expect within1>99%", "that are played"),
        ("--expect late99<1s", "a figure of streams"),
        ("--find-max underruns=0", "a figure of streams"),
    ] {
        ends_with(&load(&site.url, flags), 2, told);
    }
    let mut live = Command::new(env!("CARGO_BIN_EXE_nearside"));
    let live = live.args(["load", &site.url, "--stream", "1Mbit", "--progress", "live"]);
    ends_with(&live.output().expect("it starts"), 2, "about requests");
}

/// A log's requests are asked for in turn, but for those whose answers have nothing to play.
#[test]
fn streams_go_by_a_log() {
    let site = large();
    let log = scratch("access.log");
    let line = |request: &str| format!("10.0.0.1 - - [30/Nov/2026:02:00:00 +0000] \"{request} HTTP/1.1\" 200 9\n");
    let lines = [line("GET /a"), line("HEAD /a"), line("GET /b"), line("GET /a")];
    std::fs::write(&log, lines.concat()).expect("written");
    let (output, json) = run(&site.url, &format!("{SHORT} --stream 1Mbit --json --urls {}", log.display()));
    assert!(text(&output.stderr).contains("1 of these are left out: answers to HEAD"), "{}", text(&output.stderr));
    assert_eq!(json["setup"]["requests"], 2, "{json}");
    std::fs::write(&log, line("HEAD /a")).expect("written");
    ends_with(&load(&site.url, &format!("{SHORT} --stream 1Mbit --urls {}", log.display())), 2, "nothing to play");
    std::fs::remove_file(log).expect("it was made");
}

/// A terminal that is closed ends it, and what was measured by then has its page.
#[test]
fn a_hang_up_leaves_a_whole_page() {
    let site = large();
    let page = scratch("hung-up.html");
    let words = format!("load {} -c 1 -d 600s --warmup 0s --threads 1 --cores none --stream 1Mbit --html", site.url);
    // Under nohup it would hear of none.
    let mut run = Command::new("env");
    let run = run.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_nearside")]);
    let run = run.args(words.split(' ')).arg(&page).args(["--progress", "lines"]).stdout(Stdio::piped());
    let mut run = run.spawn().expect("it starts");
    let mut lines = BufReader::new(run.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let heading: Vec<String> = lines.by_ref().take_while(|line| !line.contains("1 of 1 under way")).collect();
    assert!(heading.iter().any(|line| line.contains("  1 stream of 1.00 Mbit/s")), "{heading:?}");
    let pid = i32::try_from(run.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::HUP).expect("it is told");
    let rest: Vec<String> = lines.collect();
    assert_eq!(run.wait().expect("it ends").code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("; 600 were to be measured")), "{rest:?}");
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("1 stream of 1.00 Mbit/s") && html.trim_end().ends_with("</html>"), "{html}");
    std::fs::remove_file(page).expect("it was made");
}

/// As many descriptors are asked of the system as threads with streams need; where it has too few, that is said.
#[test]
fn streams_need_descriptors() {
    let site = large();
    for (limit, code, told) in [(300, 0, ""), (100, 1, "161 may be needed")] {
        let nearside = env!("CARGO_BIN_EXE_nearside");
        let flags = "-c 1 -d 1s --warmup 100ms --threads 8 --cores none --stream 1Mbit --progress none";
        let line = format!("ulimit -n {limit}; exec {nearside} load {} {flags}", site.url);
        let output = Command::new("sh").arg("-c").arg(line).output().expect("it starts");
        // 5: the one second may not count.
        if output.status.code() != Some(5) {
            ends_with(&output, code, told);
        }
    }
}

/// Streams without end, both ways, over kernel sockets and over a link; and servers that take none.
#[test]
fn what_a_link_carries_is_measured() {
    let site = Site::tcp();
    let large = Site::answering(Respond::Size(4 << 20), 1, Endpoint::Tcp(([127, 0, 0, 1], 0).into()));
    let run = "-c 2 -d 300ms --warmup 50ms --interval 100ms --threads 1 --cores none --json";
    // What comes are tiny answers: round trips, and no bulk.
    ends_with(&load(&site.url, &format!("{run} --bulk down")), 5, "answers have");
    for (way, up, down) in [("up", true, false), ("down", false, true), ("both", true, true)] {
        let output = load(&large.url, &format!("{run} --bulk {way}"));
        ends_with(&output, 0, "");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        for (name, asked) in [("up", up), ("down", down)] {
            assert_eq!(json[name]["bits_per_second"].as_f64().is_some_and(|rate| rate > 1e3), asked, "{way}: {json}");
        }
        let intervals = json["intervals"].as_array().expect("some").iter();
        let sum: u64 = intervals.map(|one| one["up"]["bytes"].as_u64().unwrap_or(0)).sum();
        assert_eq!(sum, json["up"]["bytes"].as_u64().unwrap_or(0), "{way}: {json}");
        assert!(!up || json["up"]["cwnd"].as_u64() > Some(0), "{json}");
        assert!(json["environment"]["kernel"].is_string(), "{json}");
    }
    let ends = Odd::start(|mut peer| {
        let _ = peer.read(&mut [0; 1 << 10]);
        let _ = peer.write_all(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n");
        Some(peer)
    });
    ends_with(&load(&format!("http://{}/", ends.0), &format!("{run} --bulk")), 1, "answers content with status 405");
    for (flags, told) in [
        ("--bulk --rate 1k", "cannot be used"),
        ("--bulk --strict", "about requests"),
        ("--bulk -c 2000", "1024 streams"),
    ] {
        ends_with(&load(&site.url, flags), 2, told);
    }
}
