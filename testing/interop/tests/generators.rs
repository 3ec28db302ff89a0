//! ab and wrk, on the kernel's TCP, against `nearside serve` over a TAP.

use interop::{Nearside, Program, SITE_SMALL, STACK, TAP, in_namespace, output, site};
use std::process::Command;

const AB: Program = Program::new("ab", "apache2-utils");
const WRK: Program = Program::new("wrk", "wrk");

/// The number behind `label` in a generator's report.
fn figure(report: &str, label: &str) -> f64 {
    let line = report.lines().find(|line| line.trim_start().starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no '{label}' in:\n{report}"));
    let words = line.trim_start()[label.len()..].split_whitespace().next().unwrap();
    words.parse().unwrap_or_else(|_| panic!("no number behind '{label}' in:\n{report}"))
}

fn served() -> interop::Running {
    Nearside::serve([site().to_str().unwrap(), "--link", TAP])
}

#[test]
fn ab_runs_with_and_without_keep_alive() {
    in_namespace(&[AB], || {
        let server = served();
        for (host, keep_alive) in [(STACK[0], true), (STACK[0], false), (STACK[1], true), (STACK[1], false)] {
            let mut ab = Command::new("ab");
            ab.args(["-q", "-n", "5000", "-c", "32", "-s", "60"]);
            if keep_alive {
                ab.arg("-k");
            }
            let report = output(ab.arg(format!("http://{host}/{}", SITE_SMALL.0)));
            assert_eq!(figure(&report, "Complete requests:"), 5000.0);
            assert_eq!(figure(&report, "Failed requests:"), 0.0, "{report}");
            assert!(!report.contains("Non-2xx"), "{report}");
            assert_eq!(figure(&report, "Document Length:"), SITE_SMALL.1 as f64);
            if keep_alive {
                assert_eq!(figure(&report, "Keep-Alive requests:"), 5000.0);
            }
        }
        server.stop();
    });
}

#[test]
fn wrk_runs_without_an_error() {
    in_namespace(&[WRK], || {
        let server = served();
        for host in STACK {
            for connections in ["1", "64"] {
                let mut wrk = Command::new("wrk");
                wrk.args(["-t", "1", "-c", connections, "-d", "1s", "--timeout", "60s"]);
                let report = output(wrk.arg(format!("http://{host}/{}", SITE_SMALL.0)));
                assert!(!report.contains("Socket errors") && !report.contains("Non-2xx"), "{report}");
                assert!(figure(&report, "Requests/sec:") > 100.0, "{report}");
            }
        }
        server.stop();
    });
}
