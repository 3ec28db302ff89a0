//! Answers that are sent at a rate (`limit_rate`), counted by `nearside load --stream`: what it says of us,
//! and of nginx.

use interop::{Nearside, Running, in_namespace, scratch};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Streams, and the rate of each.
const STREAMS: u64 = 4;
const RATE: u64 = 1_000_000;

const CONFIGURATION: &str = "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log crit;\n\
    events {}\n\
    http { access_log off; root .;\n\
    server { listen 127.0.0.1:80; location / { limit_rate 125000; } }\n\
    }\n";

fn serve(mut command: Command, folder: &Path) -> Running {
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    let mut server = Running::start(&mut command);
    server.wait_until_open("127.0.0.1:80");
    server
}

/// What is counted of who serves: bits per second of all, and the whole.
fn counted(flags: &[&str]) -> (f64, Value) {
    let mut command = Nearside::command(["load", "http://127.0.0.1/film", "-c", "4", "-d", "3s"]);
    command.args(["--threads", "1", "--cores", "none", "--json", "--stream", "1Mbit"]).args(flags);
    let ran = command.output().expect("it starts");
    // 5: on a machine that does other things no second may count.
    assert!(ran.status.success() || ran.status.code() == Some(5), "{}", String::from_utf8_lossy(&ran.stderr));
    let json: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    (json["bits_per_second"].as_f64().expect("a rate"), json)
}

/// nginx sends by the seconds of its clock, a second's worth ahead; both come to the rate,
/// and both can be played.
#[test]
fn a_rate_is_counted_alike_of_nginx_and_of_us() {
    in_namespace(&[super::NGINX], || {
        let folder = scratch("nginx-streams");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("nginx.conf"), CONFIGURATION).expect("written");
        fs::write(folder.join("film"), vec![b'x'; 64 << 20]).expect("written");
        for ours in [false, true] {
            let command = if ours { Nearside::command(["nginx"]) } else { Command::new("nginx") };
            let server = serve(command, &folder);
            let (rate, json) = counted(&[]);
            assert_eq!((&json["under_way"], &json["errors"]["lost"]), (&STREAMS.into(), &0.into()), "{ours}: {json}");
            // Whatever else the machine does, no more comes than is sent: a second's worth ahead of three.
            let due = (STREAMS * RATE) as f64;
            assert!(rate > 0.0 && rate <= due * 4.1 / 3.0, "{ours}: {rate}, {json}");
            // Where nothing disturbed it, it is the rate.
            if json["counted"]["stolen"] == 0 && json["counted"]["generator_late"] == 0 {
                assert!(rate > due * 0.6, "{ours}: {rate}, {json}");
            }
            let (_, json) = counted(&["--buffer", "500ms", "--play-at", "10%"]);
            assert_eq!((&json["under_way"], &json["setup"]["buffer_ns"]), (&STREAMS.into(), &500_000_000.into()));
            server.stop();
        }
        fs::remove_dir_all(&folder).expect("it goes");
    });
}
