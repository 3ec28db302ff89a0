//! A server over AF_XDP that is taken over by a new process: nobody's
//! connection is lost, and whoever cannot take over changes nothing.

use interop::veth::{Far, HOST, OWN, OWN_HOSTS, SERVER};
use interop::{
    Nearside, Program, Running, SITE_LARGE, SITE_SMALL, in_namespace, output, scratch, sha256, site, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CURL: Program = Program::new("curl", "curl");
const PYTHON: Program = Program::new("python3", "python3");

/// What nobody receiving may take at most: two processes that talk, on a
/// machine that does much else.
const OUTAGE: Duration = Duration::from_secs(2);

/// A server that is followed by others, and what all of them are to do.
struct Server {
    /// The one that was started first: what its successors say stands there
    /// too.
    first: Running,
    control: PathBuf,
    pid_file: PathBuf,
    page: PathBuf,
}

impl Server {
    fn start(far: &Far, test: &str, host: &str, link: &str, more: &[&str]) -> Self {
        let folder = scratch(test);
        let [control, pid_file, page] = ["control", "pid", "page"].map(|name| folder.join(name));
        let site = site().to_str().unwrap();
        let mut arguments: Vec<String> = ["serve", site, "--link", link, "--listen", "80"].map(str::to_owned).into();
        arguments.extend(more.iter().map(|text| (*text).to_owned()));
        for (name, path) in [("--control", &control), ("--pid-file", &pid_file), ("--status-page", &page)] {
            let _ = std::fs::remove_file(path);
            arguments.extend([name.to_owned(), path.to_str().unwrap().to_owned()]);
        }
        let mut first = Running::start(&mut Nearside::command(&arguments));
        far.wait_until_served(&mut first, &format!("http://{host}/{}", SITE_SMALL.0));
        let this = Self { first, control, pid_file, page };
        wait_for("the control socket", || this.control.exists() && this.pid_file.exists());
        this
    }

    /// The process that serves.
    fn pid(&self) -> u32 {
        std::fs::read_to_string(&self.pid_file).unwrap().trim().parse().unwrap()
    }

    fn signal(&self, pid: u32, signal: Signal) {
        kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).expect("it takes signals");
    }

    /// Has the one that serves start a successor, and waits until it serves.
    fn restart(&self) -> u32 {
        let old = self.pid();
        let before = self.waits().len();
        self.signal(old, Signal::USR2);
        wait_for("a successor", || self.waits().len() > before);
        wait_for("its number", || {
            std::fs::read_to_string(&self.pid_file)
                .is_ok_and(|text| text.trim().parse().is_ok_and(|pid: u32| pid != old))
        });
        old
    }

    /// For how long new connections waited, each time, as it was said.
    fn waits(&self) -> Vec<Duration> {
        let said = self.first.said();
        let figures = said.lines().filter_map(|line| {
            let (_, waited) = line.split_once("info: took over from process ")?;
            waited.split_once("new connections waited at most ")?.1.strip_suffix(" us")
        });
        figures.map(|text| Duration::from_micros(text.parse().unwrap())).collect()
    }

    fn stop(mut self) {
        let last = self.pid();
        self.signal(last, Signal::TERM);
        wait_for("the end of the last", || has_gone(last));
        wait_for("the end of the first", || self.first.has_ended());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whoever serves after a test that failed; one that ended is no more.
        if let Ok(text) = std::fs::read_to_string(&self.pid_file)
            && let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Whether a process has ended. Nobody may have taken note of its end.
fn has_gone(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    state.map_or(true, |text| text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

fn has_program() -> bool {
    output(Command::new("ip").args(["-details", "link", "show", "dev", SERVER])).contains("prog/xdp")
}

fn small(far: &Far, host: &str) {
    let mut curl = far.command("curl");
    curl.args(["--silent", "--show-error", "--globoff", "--max-time", "20", "--output", "/dev/null"]);
    curl.args(["--write-out", "%{http_code}"]).arg(format!("http://{host}/{}", SITE_SMALL.0));
    assert_eq!(output(&mut curl), "200");
}

/// A download of the large file, which is under way and comes to no end before
/// somebody reads it: a pipe holds little of it.
fn download(far: &Far, host: &str) -> Child {
    let mut curl = far.command("curl");
    curl.args(["--silent", "--show-error", "--fail", "--globoff", "--max-time", "600", "--limit-rate", "8M"]);
    curl.arg(format!("http://{host}/{}", SITE_LARGE.0));
    let curl = curl.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let arrived = || rustix::io::ioctl_fionread(curl.stdout.as_ref().unwrap()).unwrap();
    wait_for("the first bytes of a download", || arrived() > 0);
    curl
}

fn arrives(mut curl: Child) {
    let expected = sha256(File::open(site().join(SITE_LARGE.0)).unwrap());
    let got = sha256(curl.stdout.take().unwrap());
    let curl = curl.wait_with_output().unwrap();
    assert!(curl.status.success(), "{}: {}", curl.status, String::from_utf8_lossy(&curl.stderr));
    assert_eq!(got, expected);
}

/// In the middle of a download, twice: by two processes in a row it passes
/// through, and the address is the host's or of our own.
#[test]
fn a_download_goes_on_while_the_server_changes() {
    in_namespace(&[CURL], || {
        for (test, host, more) in [("takeover-host", HOST[0], &[][..]), ("takeover-own", OWN_HOSTS[1], &OWN[..])] {
            let far = Far::new(1);
            let link = format!("af_xdp:{SERVER}");
            let server = Server::start(&far, test, host, &link, more);
            let curl = download(&far, host);
            let first = server.restart();
            small(&far, host);
            let second = server.restart();
            small(&far, host);
            assert!(!has_gone(first), "it has a connection left");
            arrives(curl);
            wait_for("the end of the first two", || has_gone(first) && has_gone(second));
            assert_eq!(server.waits().len(), 2);
            assert!(server.waits().iter().all(|wait| *wait < OUTAGE), "{:?}", server.waits());
            let waited = server.waits()[1].as_micros();
            let status = output(Nearside::command(["status", "--json"]).arg(&server.page));
            let status: Value = serde_json::from_str(&status).unwrap();
            let told = status.pointer("/0/silos/0/link.takeover_wait_ns").and_then(Value::as_u64).unwrap();
            assert_eq!(u128::from(told / 1_000), waited, "{status:#}");
            small(&far, host);
            // The program ends with whoever has it now.
            assert!(has_program());
            server.signal(server.pid(), Signal::KILL);
            wait_for("the program to be gone", || !has_program());
            // A killed process gives its descriptors back one after the other.
            wait_for("the kernel to have the port again", || TcpListener::bind("10.7.0.1:80").is_ok());
            interop::ip(&format!("link del {SERVER}"));
        }
    });
}

/// Whoever took over has the program, and it alone.
#[test]
fn a_killed_successor_leaves_no_program_though_the_old_one_lives() {
    in_namespace(&[CURL], || {
        let far = Far::new(1);
        let server = Server::start(&far, "takeover-killed", HOST[0], &format!("af_xdp:{SERVER}"), &[]);
        let mut curl = download(&far, HOST[0]);
        let old = server.restart();
        assert!(has_program());
        server.signal(server.pid(), Signal::KILL);
        wait_for("the program to be gone", || !has_program());
        assert!(!has_gone(old), "it has a connection left");
        server.signal(old, Signal::KILL);
        wait_for("the end of the old one", || has_gone(old));
        assert!(!has_program());
        // Nobody is left to send the rest.
        curl.kill().unwrap();
        curl.wait().unwrap();
    });
}

/// New connections for each request, by several clients, while one process
/// after the other takes over; over several queues and silos, where software
/// spreads them, too.
#[test]
fn no_request_fails_while_one_server_follows_the_other() {
    in_namespace(&[CURL], || {
        for (test, queues, options, more) in [
            ("takeover-load", 1, "", &[][..]),
            ("takeover-silos", 2, "", &["--silos", "2"]),
            ("takeover-shared", 4, ",umem=shared,hugepages=off,ring=128", &["--idle", "spin"]),
        ] {
            let far = Far::new(queues);
            let server = Server::start(&far, test, HOST[0], &format!("af_xdp:{SERVER}{options}"), more);
            let nearside = Nearside::command::<&str>([]).get_program().to_owned();
            let url = format!("http://{}/{}", HOST[0], SITE_SMALL.0);
            let mut load = far.command(&nearside);
            load.args(["load", &url, "--connections", "16", "--duration", "3s", "--warmup", "200ms", "--json"]);
            load.arg("--close").stdin(Stdio::null()).stdout(Stdio::piped());
            let load = load.spawn().unwrap();
            // Clients on the server's host come over kernel sockets, which change
            // hands with the queues.
            let mut local = Nearside::command(["load", &url, "--connections", "4", "--duration", "3s", "--json"]);
            let local = local.arg("--close").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(500));
            for _ in 0..4 {
                let old = server.restart();
                wait_for("the end of the one before", || has_gone(old));
            }
            let [responses, here] = [load, local].map(|load| all_succeeded(test, load));
            let waits = server.waits();
            assert!(waits.len() == 4 && waits.iter().all(|wait| *wait < OUTAGE), "{waits:?}");
            println!("{test}: {responses} connections, and {here} from the host; nobody received for {waits:?}");
            server.stop();
            interop::ip(&format!("link del {SERVER}"));
        }
    });
}

/// How many requests a generator had answered, every one.
fn all_succeeded(test: &str, load: Child) -> u64 {
    let report = load.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    for errors in ["errors", "errors_before"] {
        for (kind, count) in report[errors].as_object().expect("a list of errors") {
            assert_eq!(count.as_u64(), Some(0), "{test}: {errors}: {kind}\n{report:#}");
        }
    }
    let responses = report["traffic"]["responses"].as_u64().unwrap();
    assert_eq!(report["statuses"]["success"].as_u64(), Some(responses), "{report:#}");
    assert!(responses > 0, "{report:#}");
    responses
}

/// A successor by the protocol, that ends, or says nothing more, where it
/// stands in the arguments.
const FALSE_SUCCESSOR: &str = "
import json, os, socket, sys, time
control, until = sys.argv[1:]
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(control)
def say(**message): s.send(json.dumps(message).encode())
def hear():
    data, descriptors, _, _ = socket.recv_fds(s, 1 << 17, 64)
    for descriptor in descriptors: os.close(descriptor)
    return json.loads(data)
say(message='hello', version=1, pid=os.getpid())
message = hear()
while message['message'] == 'sockets': message = hear()
assert message['message'] == 'port', message
while message['message'] == 'port' or message['more']: message = hear()
if until == 'offered': sys.exit(0)
say(message='ready')
message = hear()
assert message['message'] == 'frozen', message
if until == 'frozen': sys.exit(0)
if until == 'nonsense': s.send(b'{}')
if until == 'silent': assert s.recv(1) == b''
if until == 'late':
    assert s.recv(1) == b''
    try: say(message='taken')
    except BrokenPipeError: sys.exit(0)
    sys.exit('it could still be taken')
";

#[test]
fn a_successor_that_ends_midway_leaves_the_old_one_serving() {
    in_namespace(&[CURL, PYTHON], || {
        let far = Far::new(2);
        let server = Server::start(&far, "takeover-midway", HOST[0], &format!("af_xdp:{SERVER}"), &["--silos", "2"]);
        let curl = download(&far, HOST[0]);
        for until in ["offered", "frozen", "nonsense", "late", "frozen"] {
            let mut python = Command::new("python3");
            let _ = output(python.args(["-c", FALSE_SUCCESSOR]).arg(&server.control).arg(until));
            let failures = || server.first.said().matches("; this process serves on").count();
            wait_for("the old one to go on", || failures() > 0);
            for _ in 0..8 {
                small(&far, HOST[0]);
            }
        }
        assert_eq!(server.first.said().matches("; this process serves on").count(), 5, "{}", server.first.said());
        // And one that is as it should be.
        let old = server.restart();
        arrives(curl);
        wait_for("the end of the old one", || has_gone(old));
        small(&far, HOST[0]);
        server.stop();
    });
}

#[test]
fn whoever_is_to_do_something_else_is_refused() {
    in_namespace(&[CURL], || {
        let far = Far::new(2);
        let link = format!("af_xdp:{SERVER}");
        let server = Server::start(&far, "takeover-refused", HOST[0], &link, &["--silos", "2"]);
        let control = server.control.to_str().unwrap().to_owned();
        let refused = |arguments: &[&str], why: &str| {
            let mut command = Nearside::command(["serve", "--respond", "x", "--take-over", &control]);
            let refused = command.args(arguments).args(["--control", "off"]).stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success() && said.contains(why), "{arguments:?}: {said}");
        };
        let one = format!("{link},queues=1");
        let other = format!("{link},ring=1024");
        for (arguments, why) in [
            (&["--link", &link, "--listen", "80", "--listen", "81"][..], "the served ports must be the same"),
            (&["--link", &link, "--addr", "10.7.0.6/24"], "the kind of addresses must be the same"),
            (&["--link", &one], "the link must be the same"),
            (&["--link", &other], "the link must be the same"),
            (&["--link", &link, "--silos", "3"], "a successor needs a queue for each silo"),
        ] {
            refused(arguments, why);
            wait_for("the reason on the other side", || server.first.said().contains(why));
        }
        refused(&["--listen", "8080"], "it serves over AF_XDP");
        refused(&["--link", "memif:@takeover", "--addr", "10.7.0.9/24"], "take-over is for kernel sockets and af_xdp");
        refused(&["--link", &link, "--capture", "/dev/null"], "--capture cannot go on");
        small(&far, HOST[0]);
        assert_eq!(server.pid(), server.first.id());
        server.stop();
        // The other way round: kernel sockets cannot become queues.
        let mut kernel = Nearside::command(["serve", "--respond", "x", "--listen", "8080", "--control", &control]);
        let mut kernel = Running::start(&mut kernel);
        kernel.wait_until_open("127.0.0.1:8080");
        wait_for("its control socket", || Path::new(&control).exists());
        refused(&["--link", &link], "it serves over kernel sockets");
        kernel.wait_until_open("127.0.0.1:8080");
        drop(kernel.stop());
    });
}

/// Other links stay with their process; a signal meant for another does not
/// end it.
#[test]
fn a_server_over_another_link_says_that_it_cannot_be_followed() {
    in_namespace(&[], || {
        let server = Nearside::serve(["--respond", "x", "--link", interop::TAP]);
        server.signal(Signal::USR2);
        wait_for("the reason", || server.said().contains("take-over is for kernel sockets and af_xdp"));
        drop(server.stop());
    });
}
