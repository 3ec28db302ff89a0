//! Restarts, and what can go wrong with them.

use interop::Nearside;
use rustix::process::Signal;
use service::clients::{Clients, habits};
use service::restarts;
use service::server::{Server, has_ended, signal};
use service::wait_for;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

fn server(test: &str) -> Server {
    let program = PathBuf::from(Nearside::command([""; 0]).get_program());
    Server::new(&program, &interop::scratch(test)).unwrap()
}

/// Keep-alive connections and new ones, over TCP and a Unix socket, small
/// files and sendfile; to other accept models, and more or fewer workers.
#[test]
fn ten_restarts_under_load_lose_no_request() {
    let mut server = server("ten-restarts");
    let mut command = server.command(&["--workers", "2"]);
    server.start(&mut command).unwrap();
    let report = restarts::run(&mut server, 10, |_| {}).unwrap();
    assert_eq!((report.failed, report.why), (0, Vec::new()));
    assert!(report.answered > 120 && report.restarts == 10);
    server.stop().unwrap();
}

/// Clients beside what a test does to the server; none may notice.
fn beside(server: &mut Server, test: impl FnOnce(&mut Server)) {
    let clients = Clients::start(server, &habits()[..6]);
    test(server);
    let counts = clients.finish();
    assert_eq!((counts.failed.load(Ordering::Relaxed), counts.failures()), (0, Vec::new()));
    assert!(counts.answered.load(Ordering::Relaxed) > 6);
}

/// A server whose program is a copy of its own, and where that lies.
fn copied(test: &str) -> (Server, PathBuf) {
    let original = server(test);
    let program = interop::scratch(&format!("{test}-program")).join("nearside");
    let _ = fs::remove_file(&program);
    interop::copy_program(Nearside::command([""; 0]).get_program().as_ref(), &program);
    drop(original);
    (Server::new(&program, &interop::scratch(test)).unwrap(), program)
}

/// Puts a script in the program's place, as an installation would.
fn replace(program: &Path, script: &str) {
    let draft = program.with_extension("new");
    fs::write(&draft, script).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&draft, program).unwrap();
}

/// What is told at `path` of the address where metrics are; `None`: by nobody.
fn told(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Whoever collects metrics, or asks whether clients may be sent, finds whoever
/// serves at one address, and nothing that was counted is of another process.
#[test]
fn a_restart_leaves_metrics_at_their_address() {
    let mut server = server("metrics-restart");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let arguments = ["--workers", "1", "--metrics", &address];
    let mut command = server.command(&arguments);
    server.start(&mut command).unwrap();
    let value = |name: &str| {
        let text = told(port, "/metrics").expect("somebody answers");
        let line = text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
    };
    let is_ready = || told(port, "/readyz").is_some_and(|text| text.ends_with("\r\n\r\nready\n"));
    wait_for("the first", || Ok(is_ready().then_some(()))).unwrap();
    assert!(told(port, "/healthz").is_some_and(|text| text.starts_with("HTTP/1.1 200 ")));
    assert!(told(port, "/").is_some_and(|text| text.starts_with("HTTP/1.1 404 ")));
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    client.write_all(b"GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    let counted = |count: f64| Ok((value("nearside_http_requests_total{silo=\"0\"}") >= count).then_some(()));
    wait_for("a request on the page", || counted(1.0)).unwrap();
    let began = value("process_start_time_seconds ");
    // Another that is started by mistake is told so, and takes nothing.
    let other = Nearside::command(["serve", "--respond", "x", "--listen", "127.0.0.1:0", "--metrics", &address]);
    let refused = { other }.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains(&format!("metrics at {address}: Address already in use")),
        "{said}"
    );
    server.restart().unwrap();
    wait_for("the successor", || Ok((is_ready() && value("process_start_time_seconds ") > began).then_some(())))
        .unwrap();
    server.stop().unwrap();
}

#[test]
fn a_successor_that_fails_leaves_the_old_one_serving() {
    let (mut server, program) = copied("bad-successors");
    let mut command = server.command(&["--workers", "1", "--restart-timeout", "500ms"]);
    let old = server.start(&mut command).unwrap();
    beside(&mut server, |server| {
        let kept = program.with_extension("kept");
        fs::rename(&program, &kept).unwrap();
        signal(old, Signal::USR2).unwrap();
        server.wait_until_said("nearside: No such file or directory").unwrap();
        replace(&program, "#!/bin/sh\nexit 3\n");
        signal(old, Signal::USR2).unwrap();
        server.wait_until_said("ended before it served: exit status: 3; this process serves on").unwrap();
        replace(&program, "#!/bin/sh\nexec sleep 1000\n");
        signal(old, Signal::USR2).unwrap();
        server.wait_until_said("the successor did not serve within 500ms; this process serves on").unwrap();
        // One that asks for the sockets, gets them, and dies.
        replace(&program, &format!("#!/bin/sh\nexec {} serve /nonexistent \"$@\"\n", kept.display()));
        signal(old, Signal::USR2).unwrap();
        server.wait_until_said("ended before it served: exit status: 2").unwrap();
        assert_eq!(server.serving(), Some(old));
        // And one that is as it should be.
        fs::rename(&kept, &program).unwrap();
        let new = server.restart().unwrap();
        server.wait_until_ended(old).unwrap();
        assert_ne!(new, old);
    });
    server.stop().unwrap();
}

/// Started by hand, they end with a reason; the server does not notice.
#[test]
fn whoever_cannot_take_over_says_why() {
    let mut server = server("refused-by-hand");
    let mut command = server.command(&["--workers", "1"]);
    server.start(&mut command).unwrap();
    beside(&mut server, |server| {
        let refused = |command: &mut Command, reason: &str| {
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains(reason), "{said}");
        };
        let nobody = "/nonexistent/control";
        refused(server.command(&["--take-over", nobody]).arg(""), "unexpected argument");
        refused(&mut server.command(&["--take-over", nobody]), "cannot take over by /nonexistent/control");
        // Without --take-over, what the server has is taken.
        refused(&mut server.command(&[]), "has its statistics page there");
        let at = format!("127.0.0.1:{}", server.port);
        let mut command = Nearside::command(["serve", "--respond", "1", "--listen", &at]);
        refused(&mut command, &format!("cannot listen on {at}: somebody listens there already: process"));
        // Another site, which would take this one's place and leave its port bare.
        let mut command = Nearside::command(["serve", "--respond", "1", "--listen", "127.0.0.1:1", "--take-over"]);
        let bare =
            format!("it listens on 127.0.0.1:{} unix:{}, where nobody would", server.port, server.unix().display());
        refused(command.arg(server.control()), &bare);
        server.wait_until_said("the new process would not listen on 127.0.0.1:").unwrap();
        // It cannot serve what it took over for: the root is not there.
        let mut command = Nearside::command(["serve", "/nonexistent/root", "--take-over"]);
        refused(command.arg(server.control()), "cannot open the root directory");
        server.wait_until_said("the successor failed: the other process went away").unwrap();
    });
    server.stop().unwrap();
}

#[test]
fn a_process_has_ended_whoever_has_its_number_since() {
    let mut child = Command::new("sleep").arg("600").spawn().expect("sleep starts");
    assert!(!has_ended(child.id()));
    child.kill().expect("it takes signals");
    child.wait().expect("a child can be waited for");
    assert!(has_ended(child.id()));
    // As a thread's number, and as that of a process which is nobody's of ours.
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let living = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).expect("somebody asks");
        let _ = ended.recv();
    });
    assert!(has_ended(told.recv().expect("it lives")) && has_ended(1));
    drop(end);
    living.join().expect("it ends");
}
