//! What a server does without what it needs.

use interop::{Nearside, Running, scratch};
use service::clients::{Clients, Habit};
use service::server::Server;
use service::{now, wait_for};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn server(test: &str) -> Server {
    let program = PathBuf::from(Nearside::command([""; 0]).get_program());
    Server::new(&program, &scratch(test)).unwrap()
}

/// What `serve` says when it cannot start.
fn refusal(arguments: &[&str]) -> String {
    let output = Nearside::command(["serve", "--respond", "text:ok", "--control", "off"]).args(arguments).output();
    let output = output.unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// User and system time of a process, in hundredths of a second (proc(5)).
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat[stat.rfind(')').unwrap() + 1..].split_ascii_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// A counter of the server's statistics page, all workers together.
fn counter(server: &Server, name: &str) -> u64 {
    let output = Nearside::command(["status"]).arg(server.folder().join("status")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix(name)?.split_whitespace().next());
    lines.map(|value| value.parse::<u64>().unwrap()).sum()
}

/// A full disk, or a container where nothing may be written to: what nobody has asked for
/// is gone without.
#[test]
fn without_a_folder_for_its_own_files_a_server_serves() {
    let mut command = Nearside::command(["serve", "--respond", "text:ok", "--listen", "127.0.0.1:0", "--workers", "1"]);
    // Where nobody can make anything.
    let mut running = Running::start(command.env("XDG_RUNTIME_DIR", "/proc/self"));
    let serves = || Ok(running.said().contains("serving http://").then_some(()));
    wait_for("that it serves", serves).unwrap();
    let said = running.said();
    assert!(said.contains("`nearside status` does not see this process: statistics page: cannot make"), "{said}");
    assert!(said.contains("there will be no restart without a gap: no place for the control socket"), "{said}");
    assert!(!running.has_ended());
    running.stop();
}

/// EMFILE leaves the connection in the queue, and the queue ready: a server
/// that asks again at once burns its core and accepts nothing.
#[test]
fn without_descriptors_a_server_waits_and_goes_on() {
    let mut server = server("no-descriptors");
    let mut command = server.command(&["--workers", "1", "--keep-alive-timeout", "2s", "--header-timeout", "2s"]);
    let pid = server.start(&mut command).unwrap();
    let limit = |descriptors: &str| {
        let limit = format!("--nofile={descriptors}:");
        assert!(Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status().unwrap().success());
    };
    // Less than it has now, so that no more can be opened.
    limit("8");
    let waiting: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(("127.0.0.1", server.port)).expect("the queue takes it")).collect();
    wait_for("an accept without descriptors", || {
        Ok((counter(&server, "sockets.accepts_no_descriptors") > 0).then_some(()))
    })
    .unwrap();
    let (began, before) = (now(), ticks(pid));
    std::thread::sleep(Duration::from_secs(1));
    let share = (ticks(pid) - before) as f64 / 100.0 / began.elapsed().as_secs_f64();
    assert!(share < 0.2, "{share} of a core with nothing to do");
    limit("1024");
    let habit = Habit { unix: false, large: false, close: true, pause: Duration::ZERO };
    let clients = Clients::start(&server, &[habit]);
    wait_for("answers again", || Ok((clients.counts.answered.load(Ordering::Relaxed) > 10).then_some(()))).unwrap();
    assert_eq!(clients.finish().failures(), Vec::<String>::new());
    drop(waiting);
    server.stop().unwrap();
}

/// Where a limit leaves too few of them, a start says so, or files are served: no rule of what may be read is left out
/// for the want of one.
#[test]
fn a_start_with_few_descriptors_serves_files_or_says_why_not() {
    interop::in_namespace(&[], || {
        let folder = scratch("few-descriptors");
        std::fs::write(folder.join("page"), "text").unwrap();
        let program = Nearside::command([""; 0]);
        let mut served = 0;
        for limit in 19..26 {
            let mut command = Command::new("prlimit");
            command.arg(format!("--nofile={limit}:{limit}")).arg(program.get_program()).arg("serve").arg(&folder);
            command.args(["--link", interop::TAP, "--listen", "80"]).args(interop::ADDRESSES);
            let mut running = Running::start(&mut command);
            let address = format!("{}:80", interop::STACK[0]).parse().unwrap();
            let asks = || TcpStream::connect_timeout(&address, Duration::from_millis(300));
            wait_for("that it serves, or not", || Ok((running.has_ended() || asks().is_ok()).then_some(()))).unwrap();
            if running.has_ended() {
                assert!(running.said().contains("Too many open files"), "{limit}: {}", running.said());
                continue;
            }
            let mut stream = asks().unwrap();
            stream.write_all(b"GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{limit}: {answer}\n{}", running.said());
            served += 1;
            running.stop();
        }
        assert!(served > 0, "most of these are enough");
    });
}

#[test]
fn a_port_in_use_is_told_with_its_holder() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    for accept in ["reuseport", "exclusive"] {
        let said = refusal(&["--listen", &at, "--accept", accept]);
        let holder = format!("process {} (", std::process::id());
        assert!(said.contains(&format!("cannot listen on {at}")) && said.contains(&holder), "{said}");
    }
}

#[test]
fn a_path_that_cannot_be_is_told() {
    let said = refusal(&["--listen", "unix:/nonexistent/folder/web.sock"]);
    assert!(said.contains("cannot listen on unix:/nonexistent/folder/web.sock"), "{said}");
    let file = scratch("socket-paths").join("file");
    std::fs::write(&file, "not a socket").unwrap();
    let said = refusal(&["--listen", &format!("unix:{}", file.display())]);
    assert!(said.contains("cannot listen on unix:"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "not a socket");
    assert!(refusal(&["--listen", "127.0.0.1:80", "--cores", "4095"]).contains("core 4095"));
}

/// A command with more arguments, to be run again and again.
fn with(command: &Command, arguments: &[&str]) -> Command {
    let mut more = Command::new(command.get_program());
    more.args(command.get_args()).args(arguments);
    more
}

/// As anybody but root.
#[test]
fn a_port_of_root_s_is_told_with_what_it_needs() {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if first.trim().parse::<u16>().unwrap() <= 80 || !rustix::process::geteuid().is_root() {
        println!("left out: every port is everybody's here, or this is not root");
        return;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]);
    // Where nobody else may look, a copy is run.
    let program = std::env::temp_dir().join(format!("nearside-nobody-{}", std::process::id()));
    interop::copy_program(Nearside::command([""; 0]).get_program().as_ref(), &program);
    command.arg(&program).arg("serve").stdin(std::process::Stdio::null());
    let start = |arguments: &[&str]| {
        let mut command = with(&command, arguments);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let port = ["--listen", "127.0.0.1:80", "--control", "off"];
    let folder = scratch("nobody");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let (closed, log) = (folder.display().to_string(), folder.join("log").display().to_string());
    for check in [&[][..], &["--check"]] {
        let (code, said) = start(&[&["--respond", "1"], &port[..], check].concat());
        assert!(code == Some(1) && said.contains("127.0.0.1:80") && said.contains("CAP_NET_BIND_SERVICE"), "{said}");
        let (code, said) = start(&[&[closed.as_str(), "--listen", "127.0.0.1:0", "--control", "off"], check].concat());
        assert!(code == Some(1) && said.contains(&format!("directory {closed}: Permission denied")), "{said}");
    }
    // All that is wrong is told at once.
    let files = ["--access-log", log.as_str(), "--pid-file", log.as_str(), "--check"];
    let (code, said) = start(&[&["--respond", "1"], &port[..], &files].concat());
    std::fs::remove_file(&program).unwrap();
    assert_eq!(code, Some(1));
    for part in ["CAP_NET_BIND_SERVICE", "cannot open the access log", &format!("cannot make {log}")] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
