//! As systemd has it: sockets from outside, notifications, unit files; and what a process
//! without rights cannot have its parent tell it.

mod hostile;

use interop::{Nearside, scratch};
use rustix::process::Signal;
use service::server::{Server, signal};
use service::wait_for;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

fn program() -> PathBuf {
    Nearside::command([""; 0]).get_program().into()
}

/// Starts `serve` with this socket as descriptor 3, as systemd would.
fn activated(server: &Server, socket: TcpListener, arguments: &[&str]) -> Command {
    // The shell becomes the server, so that its number is the server's.
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(program()).args([
        "serve",
        "--user=root",
        "--respond",
        "text:ok",
        "--workers",
        "2",
    ]);
    command.arg("--control").arg(server.control()).arg("--pid-file").arg(server.folder().join("pid"));
    command.args(arguments).stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)));
    command
}

fn ask(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The socket is never closed by the server, so that who comes while it stops
/// and starts waits.
#[test]
fn sockets_are_taken_from_outside_and_handed_on() {
    let mut server = Server::new(&program(), &scratch("activation")).unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    for arguments in [&[][..], &["--listen", "systemd:web"], &["--listen", &format!("127.0.0.1:{port}")]] {
        let mut command = activated(&server, socket.try_clone().unwrap(), arguments);
        let log = fs::File::create(server.folder().join("log")).unwrap();
        let mut child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        wait_for("the start", || Ok((server.serving() == Some(child.id())).then_some(())))
            .unwrap_or_else(|why| panic!("{why}: {}", server.log()));
        assert!(ask(port).ends_with("ok"));
        let old = child.id();
        let new = server.restart().unwrap();
        assert!(ask(port).ends_with("ok") && child.wait().unwrap().success());
        signal(new, Signal::TERM).unwrap();
        server.wait_until_ended(new).unwrap();
        assert_ne!(old, new);
        // Nobody serves; the connection waits in the queue.
        let waiting = TcpStream::connect(("127.0.0.1", port)).expect("the socket is still there");
        drop(waiting);
    }
    let mut command = activated(&server, socket, &["--listen", "systemd:other"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no socket of the name other"), "{said}");
}

#[test]
fn systemd_is_told_what_happens() {
    let mut server = Server::new(&program(), &scratch("notify")).unwrap();
    let path = server.folder().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let told = |what: &str| {
        let mut all = Vec::new();
        loop {
            let mut message = [0; 4_096];
            let len = socket.recv(&mut message).unwrap_or_else(|why| panic!("{what}: {why}, after {all:?}"));
            let text = String::from_utf8_lossy(&message[..len]).into_owned();
            if text.lines().any(|line| line == what) {
                return text;
            }
            all.push(text);
        }
    };
    let mut command = server.command(&["--workers", "1"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    let old = server.start(&mut command).unwrap();
    told("READY=1");
    told("WATCHDOG=1");
    let new = server.restart().unwrap();
    let reloading = told("RELOADING=1");
    assert!(reloading.lines().any(|line| line.starts_with("MONOTONIC_USEC=")), "{reloading}");
    let followed = told(&format!("MAINPID={new}"));
    assert!(followed.lines().any(|line| line == "READY=1"), "{followed}");
    server.wait_until_ended(old).unwrap();
    // From the successor: nobody else is left.
    told("WATCHDOG=1");
    signal(new, Signal::TERM).unwrap();
    told("STOPPING=1");
    server.wait_until_ended(new).unwrap();
}

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd")
}

/// The program and its arguments are this program's, whoever installs it.
#[test]
fn the_unit_files_are_what_systemd_and_the_program_take() {
    let folder = scratch("units");
    for name in ["nearside.service", "nearside.socket", "nearside-link@.service", "nearside-nginx.service"] {
        let text = fs::read_to_string(units().join(name)).unwrap();
        let section = |line: &str| line.starts_with('[') && line.ends_with(']');
        let sound = |line: &str| line.is_empty() || line.starts_with('#') || section(line) || line.contains('=');
        assert!(text.lines().all(sound), "{name}");
        fs::write(folder.join(name), text.replace("/usr/bin/nearside", &program().display().to_string())).unwrap();
    }
    for name in ["nearside.service", "nearside-link@.service", "nearside-nginx.service"] {
        let service = fs::read_to_string(units().join(name)).unwrap();
        let start = service.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/nearside ")).unwrap();
        // It knows every flag: what it says is about the folder, or the help.
        let start = start.replace("\"daemon off;\"", "daemon_off");
        let help = Nearside::command(start.split(' ').chain(["--help"])).output().unwrap();
        assert!(help.status.success());
    }
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "./nearside.service", "./nearside.socket", "./nearside-nginx.service"])
        .current_dir(&folder)
        .output();
    match verify {
        Ok(verify) => {
            let said = String::from_utf8_lossy(&verify.stderr).into_owned();
            assert!(verify.status.success() && !said.contains("nearside"), "{said}");
        }
        Err(why) => println!("systemd-analyze is not here ({why}): the units were read, not verified"),
    }
}

/// nginx's unit is one that `nearside run` fits into, by the drop-in that is among the examples.
#[test]
fn the_unit_of_nginx_takes_the_example_of_its_life_on_our_stack() {
    let folder = scratch("unmodified");
    let _ = fs::remove_dir_all(&folder);
    let drop_ins = folder.join("nginx.service.d");
    fs::create_dir_all(&drop_ins).unwrap();
    let text = fs::read_to_string(units().join("examples/nginx-on-our-stack.conf")).unwrap();
    let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/nearside ")).unwrap();
    let (start, nginx) = start.split_once(" -- ").unwrap();
    let help = Nearside::command(start.split(' ').chain(["--help"])).output().unwrap();
    assert!(help.status.success(), "{}", String::from_utf8_lossy(&help.stderr));
    let text = text.replace("/usr/bin/nearside", &program().display().to_string());
    fs::write(drop_ins.join("ours.conf"), text.replace(nginx, "/bin/true")).unwrap();
    // As Debian's package has it.
    let unit = "[Service]\nType=forking\nPIDFile=/run/nginx.pid\nExecStart=/bin/true -g 'daemon on;'\n\
                ExecReload=/bin/true -s reload\nExecStop=-/bin/true\nTimeoutStopSec=5\nKillMode=mixed\n";
    fs::write(folder.join("nginx.service"), unit).unwrap();
    let verify =
        Command::new("systemd-analyze").args(["verify", "--man=no", "./nginx.service"]).current_dir(&folder).output();
    match verify {
        Ok(verify) => {
            let said = String::from_utf8_lossy(&verify.stderr).into_owned();
            assert!(verify.status.success() && !said.contains("nginx"), "{said}");
        }
        Err(why) => println!("systemd-analyze is not here ({why}): the unit was read, not verified"),
    }
}

/// The name of nginx's unit is ours where an operator asks for it, by the drop-in that is
/// among the examples, and nginx's again afterwards.
#[test]
fn the_name_of_nginx_s_unit_is_taken_on_request_and_given_back() {
    let root = scratch("alias");
    let _ = fs::remove_dir_all(&root);
    let (own, etc) = (root.join("lib/systemd/system"), root.join("etc/systemd/system"));
    let drop_ins = etc.join("nearside-nginx.service.d");
    for folder in [&own, &drop_ins] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::copy(units().join("nearside-nginx.service"), own.join("nearside-nginx.service")).unwrap();
    fs::write(own.join("nginx.service"), "[Service]\nExecStart=/usr/sbin/nginx\n").unwrap();
    let name = etc.join("nginx.service");
    let systemctl = |word: &str| {
        let done = Command::new("systemctl").arg("--root").arg(&root).args([word, "nearside-nginx"]).output();
        done.inspect(|done| assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)))
    };
    if let Err(why) = systemctl("enable") {
        println!("left out: systemctl is not here ({why})");
        return;
    }
    assert!(!name.is_symlink(), "without being asked for");
    for example in ["alias.conf", "metrics.conf"] {
        fs::copy(units().join("examples").join(example), drop_ins.join(example)).unwrap();
    }
    systemctl("enable").unwrap();
    let leads = fs::read_link(&name).unwrap();
    assert_eq!(leads.file_name().and_then(|name| name.to_str()), Some("nearside-nginx.service"), "{}", leads.display());
    systemctl("disable").unwrap();
    assert!(!name.is_symlink(), "it is given back");
}
