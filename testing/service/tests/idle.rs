//! A server that nobody asks anything.

use interop::{Nearside, Running, scratch};
use service::wait_for;
use std::fs::read_to_string;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// How long is looked. A server that polls wakes each of its workers twenty
/// times a second, or a hundred times.
const WINDOW: Duration = Duration::from_secs(3);

/// Times that all threads of one may wake in it: once a second and worker, and
/// as often again for what may be going on beside it.
const MOST: u64 = 18;

/// Times that the threads of a process have gone to sleep, and those of its children.
fn sleeps(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: &Path| {
        let status = read_to_string(task.join("status")).unwrap_or_default();
        let own = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok());
        let children = read_to_string(task.join("children")).unwrap_or_default();
        own.unwrap_or(0) + children.split_whitespace().filter_map(|pid| Some(sleeps(pid.parse().ok()?))).sum::<u64>()
    };
    tasks.flatten().map(|task| of(&task.path())).sum()
}

/// One by an nginx.conf over memif, with an upstream that only the kernel reaches.
fn passing_on(folder: &Path) -> Running {
    let folder = folder.join("passing");
    std::fs::create_dir_all(folder.join("logs")).unwrap();
    let configuration = "daemon off; pid nginx.pid; error_log logs/error.log; events {}\n\
                         http { access_log off; server { listen 80;\n\
                         location / { proxy_pass http://127.0.0.1:9; } } }\n";
    std::fs::write(folder.join("nginx.conf"), configuration).unwrap();
    let mut command = Nearside::command(["nginx", "-e", "stderr", "--addr", "10.0.0.2/24", "--link"]);
    command.arg(format!("memif:{}", folder.join("sock").display())).arg("-p").arg(&folder);
    let server = Running::start(command.arg("-c").arg(folder.join("nginx.conf")));
    wait_for("its process", || Ok(folder.join("nginx.pid").exists().then_some(()))).unwrap();
    server
}

fn ask(port: u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /idle HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("ok"), "{answer}");
}

#[test]
fn an_idle_server_sleeps() {
    let folder = scratch("idle");
    let place = |name: &str| folder.join(name).display().to_string();
    let mut servers: Vec<(&str, Option<u16>, Running)> = Vec::new();
    for (name, arguments) in [
        ("epoll", "--engine epoll --accept reuseport"),
        ("io_uring", "--engine auto --accept reuseport"),
        ("blocking", "--accept blocking"),
        ("memif", "--link"),
    ] {
        let mut command = Nearside::command(["serve", "--respond", "text:ok", "--access-log", "-"]);
        command.arg("--status-page").arg(place(&format!("{name}.status")));
        if name == "memif" {
            command.arg("--link").arg(format!("memif:{}", place("sock"))).args(["--addr", "10.0.0.2/24"]);
            servers.push((name, None, Running::start(&mut command)));
            continue;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        command.args(["--control", "off", "--workers", "2", "--listen", &format!("127.0.0.1:{port}")]);
        let mut server = Running::start(command.args(arguments.split(' ')));
        server.wait_until_open(&format!("127.0.0.1:{port}"));
        ask(port);
        servers.push((name, Some(port), server));
    }
    servers.push(("memif with the kernel beside", None, passing_on(&folder)));
    // What is logged on standard output is there, although nobody wakes for it
    // but the log.
    for (name, _, server) in servers.iter().filter(|(_, port, _)| port.is_some()) {
        wait_for(name, || Ok(server.said().contains("\"GET /idle HTTP/1.1\" 200 2").then_some(()))).unwrap();
    }
    // A busy machine may be at something else, as taking its first breath: the
    // quietest of several windows counts.
    let mut least = vec![u64::MAX; servers.len()];
    for _ in 0..10 {
        let before: Vec<u64> = servers.iter().map(|(_, _, server)| sleeps(server.id())).collect();
        std::thread::sleep(WINDOW);
        for ((least, before), (.., server)) in least.iter_mut().zip(before).zip(&servers) {
            *least = (*least).min(sleeps(server.id()) - before);
        }
        if least.iter().all(|woke| *woke <= MOST) {
            break;
        }
    }
    for ((name, ..), woke) in servers.iter().zip(least) {
        assert!(woke <= MOST, "{name} woke {woke} times in {WINDOW:?}");
    }
    // And it is there at once when it is asked.
    for (_, port, server) in servers {
        port.into_iter().for_each(ask);
        server.stop_at_once();
    }
}
