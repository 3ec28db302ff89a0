//! What `nearside status` tells of a program that runs on our stack.

use crate::server::{CURL, NGINX, Over, Server, ask, send, worker};
use interop::{Nearside, in_namespace, output, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::net::TcpStream;

fn status(words: &[&str]) -> String {
    output(Nearside::command(["status"]).args(words))
}

fn json(words: &[&str]) -> Value {
    let text = status(&[words, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// Keeper, master and worker name the same page, whoever asks; a worker's seat says what it did, and is
/// nobody's when it is gone.
#[test]
fn a_program_is_looked_at_by_any_of_its_processes() {
    in_namespace(&[NGINX, CURL], || {
        let mut server = Server::start(Over::Tap, "status");
        let old = worker();
        (0..20).for_each(|_| assert_eq!(ask("/pid").unwrap(), old.to_string()));
        let processes = [server.keeper(), server.master().expect("a master"), old].map(|process| process.to_string());
        // It is told a few milliseconds later.
        wait_for("the requests to be counted", || {
            let seats = &json(&[&processes[0]])[0]["silos"];
            seats[0]["sockets.exchanges"].as_u64() >= Some(21)
        });
        for process in &processes {
            let page = &json(&[process])[0];
            assert_eq!((&page["label"], page["silos"].as_array().unwrap().len()), (&"run nginx".into(), 1), "{page}");
            let seat = &page["silos"][0];
            assert_eq!((&seat["program.pid"], &seat["link.up"]), (&old.into(), &1.into()), "{seat}");
            for counted in ["stack.accepted", "silo.turns", "link.rx_frames", "program.longest_gap_ns"] {
                assert!(seat[counted].as_u64() > Some(0), "{counted}: {seat}");
            }
            assert_eq!(seat["seats.ring_full"], 0, "{seat}");
            // accept4, epoll_ctl, recv, writev, close and epoll_wait, about.
            let calls = page["calls_per_request"].as_f64().expect("requests");
            assert!((4.0..40.0).contains(&calls), "{page}");
            let text = status(&[process, "--counters"]);
            assert!(text.contains(&format!("seat 0: process {old}")) && text.contains("calls per request"), "{text}");
            assert!(text.contains("1 of 16 seats are taken"), "{text}");
        }
        server.command("reload");
        wait_for("the old worker's seat", || {
            let page = json(&[&processes[0]]);
            let seats = page[0]["silos"].as_array().unwrap().clone();
            seats.len() == 1 && seats[0]["program.pid"] != old
        });
        server.command("quit");
        server.ended();
        let gone = Nearside::command(["status", &processes[0]]).output().unwrap();
        let said = String::from_utf8(gone.stderr).unwrap();
        assert!(!gone.status.success() && said.contains("publishes no statistics"), "{said}");
    });
}

/// Whoever may write to the page has the worker tell of its connections, and one that is stopped keeps
/// nobody.
#[test]
fn connections_of_a_program_are_told() {
    in_namespace(&[NGINX, CURL], || {
        let mut server = Server::start(Over::Tap, "connections");
        let keeper = server.keeper().to_string();
        let idle: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect("10.9.0.2:80").unwrap()).collect();
        let mut told = Value::Null;
        wait_for("all connections", || {
            told = json(&[&keeper, "--connections"])[0]["silos"][0].clone();
            told["total"] == 5
        });
        let connections = told["connections"].as_array().unwrap();
        for stream in &idle {
            let own = stream.local_addr().unwrap().to_string();
            let is_it = |one: &&Value| one["peer"] == own && one["local"] == "10.9.0.2:80" && one["state"] == "ESTAB";
            assert_eq!(connections.iter().filter(is_it).count(), 1, "{own}: {told}");
        }
        let text = status(&[&keeper, "--connections"]);
        assert!(text.contains("seat 0: 5 connections") && text.contains("ESTAB") && text.contains("cwnd:10"), "{text}");
        let process = worker();
        send(process, Signal::STOP);
        let text = status(&[&keeper, "--connections"]);
        send(process, Signal::CONT);
        assert!(text.contains("seat 0 does not answer"), "{text}");
        server.command("stop");
        server.ended();
    });
}
