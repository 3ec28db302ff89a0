//! How workers come by connections: without `reuseport` each has its part of those that
//! are kept, as from one queue.

use crate::answer::Connection;
use interop::{Nearside, Running, in_namespace, leave_out, output, scratch};
use std::fs;

const WORKERS: usize = 12;
const CONNECTIONS: usize = 240;
const ADDRESS: &str = "127.0.0.1:80";

/// Connections that each worker has taken.
fn taken(page: &std::path::Path) -> Vec<u64> {
    let text = output(Nearside::command(["status", "--json"]).arg(page));
    let pages: serde_json::Value = serde_json::from_str(&text).unwrap();
    let workers = pages[0]["silos"].as_array().expect("workers");
    workers.iter().map(|worker| worker["sockets.accepted"].as_u64().expect("a counter")).collect()
}

/// Serves with `more` behind the address, and says how many connections that stay each
/// worker has of [`CONNECTIONS`]; and what the log, the page and `--explain` say.
fn shares(name: &str, more: &str, arguments: &[&str]) -> (Vec<u64>, [String; 3]) {
    let folder = scratch(name);
    let (conf, page) = (folder.join("nginx.conf"), folder.join("page"));
    fs::write(
        &conf,
        format!(
            "worker_processes {WORKERS}; daemon off; pid nginx.pid; error_log stderr notice;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; keepalive_timeout 1h; server {{ listen {ADDRESS} {more}; return 200 yes; }} }}\n"
        ),
    )
    .unwrap();
    let command = || {
        let mut command = Nearside::command(["nginx", "-e", "stderr", "-p"]);
        command.arg(&folder).arg("-c").arg(&conf).args(arguments);
        command
    };
    let explained = output(command().args(["-t", "-q", "--explain"]));
    let mut server = Running::start(command().arg("--status-page").arg(&page));
    server.wait_until_open(ADDRESS);
    // That of the wait is counted, too.
    let mut first = Connection::open(ADDRESS);
    assert_eq!(first.ask(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET").status(), Some(200));
    interop::wait_for("the page", || page.exists() && taken(&page).iter().sum::<u64>() >= 2);
    let base = taken(&page);
    let mut kept: Vec<Connection> = (0..CONNECTIONS).map(|_| Connection::open(ADDRESS)).collect();
    for connection in &mut kept {
        assert_eq!(connection.ask(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET").status(), Some(200));
    }
    let all = |now: &[u64]| now.iter().sum::<u64>() - base.iter().sum::<u64>();
    interop::wait_for("all of them on the page", || all(&taken(&page)) >= CONNECTIONS as u64);
    let now = taken(&page);
    let label = output(Nearside::command(["status"]).arg(&page));
    let said = server.stop();
    (now.iter().zip(&base).map(|(now, base)| now - base).collect(), [said, label, explained])
}

#[test]
fn kept_connections_are_shared_out_evenly_without_reuseport() {
    in_namespace(&[], || {
        let (shares, said) = shares("nginx-accepting", "", &[]);
        if said[0].contains("accept model exclusive") {
            leave_out(format!("the program of the model least cannot be had here: {}", said[0]));
        }
        for text in &said {
            assert!(text.contains("least, 12 queues"), "{text}");
        }
        let most = shares.iter().max().copied().unwrap_or(0) as f64;
        let share = CONNECTIONS as f64 / WORKERS as f64;
        assert!(most <= 1.5 * share, "{most} beside {share}: {shares:?}");
    });
}

#[test]
fn reuseport_and_an_option_say_otherwise() {
    in_namespace(&[], || {
        let (_, said) = shares("nginx-reuseport", "reuseport", &[]);
        for text in &said {
            assert!(text.contains("reuseport, 12 queues"), "{text}");
        }
        let (_, said) = shares("nginx-accept-option", "reuseport", &["--accept", "exclusive"]);
        for text in &said {
            assert!(text.contains("exclusive, 1 queue"), "{text}");
        }
    });
}
