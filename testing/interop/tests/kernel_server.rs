//! `nearside load` over a TAP, against servers on the kernel's TCP.

use interop::{ADDRESSES, KERNEL, Nearside, Program, Running, SITE_LARGE, SITE_SMALL, TAP};
use interop::{in_namespace, ip, output, scratch, site};
use serde_json::Value;
use std::process::Command;

const NGINX: Program = Program::new("nginx", "nginx-light");
const PYTHON: Program = Program::new("python3", "python3");

/// nginx in the foreground, serving the site on port 80 of every address.
fn nginx(test: &str) -> Running {
    let folder = scratch(test);
    let (name, root) = (folder.display(), site().display());
    let file = folder.join("nginx.conf");
    let config = format!(
        "daemon off; master_process off; pid {name}/nginx.pid; error_log stderr warn;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
           access_log off; keepalive_requests 1000000000;\n\
           client_body_temp_path {name}/body; proxy_temp_path {name}/proxy; fastcgi_temp_path {name}/fastcgi;\n\
           uwsgi_temp_path {name}/uwsgi; scgi_temp_path {name}/scgi;\n\
           server {{ listen 80; listen [::]:80; root {root}; }}\n\
         }}\n"
    );
    std::fs::write(&file, config).unwrap();
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap());
    let mut command = Command::new("nginx");
    let mut running = Running::start(command.env("PATH", path).arg("-c").arg(&file).args(["-e", "stderr"]));
    running.wait_until_open("127.0.0.1:80");
    running
}

/// Runs the generator to its end, and returns its report, which must show
/// `least` responses, all of them successes of the right length, and no error.
fn load(url: &str, arguments: &[&str], least: u64) -> Value {
    load_over(TAP, url, arguments, least)
}

fn load_over(link: &str, url: &str, arguments: &[&str], least: u64) -> Value {
    let mut command = Nearside::command(["load", url, "--link", link, "--json"]);
    let report = output(command.args(ADDRESSES).args(arguments));
    let report: Value = serde_json::from_str(&report).unwrap_or_else(|e| panic!("{e}:\n{report}"));
    for errors in ["errors", "errors_before"] {
        for (kind, count) in report[errors].as_object().expect("a list of errors") {
            assert_eq!(count.as_u64(), Some(0), "{errors}: {kind}\n{report:#}");
        }
    }
    let responses = report["traffic"]["responses"].as_u64().unwrap();
    assert_eq!(report["statuses"]["success"].as_u64(), Some(responses), "{report:#}");
    assert!(responses >= least, "{responses} responses\n{report:#}");
    report
}

fn body_bytes(report: &Value) -> u64 {
    report["traffic"]["body_bytes"].as_u64().unwrap()
}

#[test]
fn nginx_serves_our_client_with_and_without_keep_alive() {
    in_namespace(&[NGINX], || {
        let nginx = nginx("nginx");
        for host in KERNEL {
            let url = format!("http://{host}/{}", SITE_SMALL.0);
            for close in [&["-c", "64"][..], &["-c", "8", "--close"]] {
                let close = [&["-d", "1s", "--warmup", "100ms"], close].concat();
                let report = load(&url, &close, 100);
                let responses = report["traffic"]["responses"].as_u64().unwrap();
                assert_eq!(body_bytes(&report), responses * SITE_SMALL.1 as u64);
            }
        }
        drop(nginx);
    });
}

#[test]
fn nginx_sends_our_client_a_large_file_through_loss_and_reordering() {
    in_namespace(&[NGINX], || {
        // The device before its user, so that its route can be set: what the
        // kernel sends here is paced by the congestion control that most of
        // the world's servers use.
        ip("tuntap add dev near0 mode tap vnet_hdr");
        ip("addr add 10.9.0.1/24 dev near0");
        ip("link set near0 up");
        ip("route change 10.9.0.0/24 dev near0 proto kernel scope link src 10.9.0.1 congctl cubic");
        let nginx = nginx("nginx-lossy");
        let url = format!("http://{}/{}", KERNEL[0], SITE_LARGE.0);
        let harm = ["--loss", "1%", "--reorder", "1%", "--seed", "3"];
        let plan = ["-c", "1", "-n", "1", "-d", "200s", "--timeout", "200s", "--warmup", "0s"];
        let report = load(&url, &[&plan[..], &harm].concat(), 1);
        assert_eq!(body_bytes(&report), SITE_LARGE.1 as u64, "{report:#}");
        drop(nginx);
    });
}

/// Frames of up to 64 KiB, which no wire brings but the kernel does if asked.
#[test]
fn nginx_sends_our_client_a_large_file_uncut() {
    in_namespace(&[NGINX], || {
        let nginx = nginx("nginx-uncut");
        for host in KERNEL {
            let url = format!("http://{host}/{}", SITE_LARGE.0);
            let plan = ["-c", "1", "-n", "2", "-d", "100s", "--timeout", "100s", "--warmup", "0s"];
            let report = load_over(&format!("{TAP},large=on"), &url, &plan, 2);
            assert_eq!(body_bytes(&report), 2 * SITE_LARGE.1 as u64, "{report:#}");
        }
        drop(nginx);
    });
}

/// A server of a handful of lines that closes after each response (HTTP/1.0)
/// and writes head and body apart.
#[test]
fn python_serves_our_client() {
    in_namespace(&[PYTHON], || {
        let mut python = Command::new("python3");
        python.args(["-m", "http.server", "80", "--bind", "0.0.0.0", "--directory"]).arg(site());
        let mut python = Running::start(&mut python);
        python.wait_until_open("127.0.0.1:80");
        let url = format!("http://{}/{}", KERNEL[0], SITE_SMALL.0);
        let report = load(&url, &["-c", "4", "-d", "2s", "--close"], 20);
        let responses = report["traffic"]["responses"].as_u64().unwrap();
        assert_eq!(body_bytes(&report), responses * SITE_SMALL.1 as u64);
    });
}
