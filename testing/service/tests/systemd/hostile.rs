//! A process that serves and is no longer ours, beside its parent, which has all rights
//! and is believed by the service manager. The test plays the child: it takes the child's
//! end of their channel (pidfd_getfd(2)) and writes to it what it likes.

use super::program;
use interop::{Running, scratch};
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType, send, sendmsg};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open};
use service::{now, wait_for};
use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Root, who serves as nobody beside a parent, and the service manager's ear.
struct Stage {
    folder: PathBuf,
    port: u16,
    manager: UnixDatagram,
    parent: Running,
}

fn serve(folder: &Path, port: u16, more: &[&str]) -> Running {
    let mut command = Command::new(program());
    command.args(["serve", "--respond", "text:ok", "--workers", "1", "--listen", &format!("127.0.0.1:{port}")]);
    command.arg("--control").arg(folder.join("control")).args(more);
    Running::start(command.env("NOTIFY_SOCKET", folder.join("notify")))
}

/// Nobody but root can play.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("left out: this user is not root");
    }
    root
}

impl Stage {
    fn new(test: &str) -> Self {
        let folder = scratch(test);
        let path = folder.join("notify");
        let _ = fs::remove_file(&path);
        let manager = UnixDatagram::bind(&path).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let parent = serve(&folder, port, &[]);
        let stage = Self { folder, port, manager, parent };
        stage.hear("READY=1");
        stage
    }

    /// What the manager is told until it is told `what`, as lines.
    fn hear(&self, what: &str) -> Vec<String> {
        let mut all = Vec::new();
        while !all.iter().any(|line| line == what) {
            let mut message = [0; 4_096];
            let len = self.manager.recv(&mut message).unwrap_or_else(|why| panic!("{what}: {why}, after {all:?}"));
            all.extend(String::from_utf8_lossy(&message[..len]).split('\n').map(str::to_owned));
        }
        all
    }

    /// The process that serves, once there is one, and its end of the channel.
    fn child(&self) -> (u32, OwnedFd) {
        let children = format!("/proc/{0}/task/{0}/children", self.parent.id());
        let pid: u32 = fs::read_to_string(children).unwrap().split_whitespace().next().unwrap().parse().unwrap();
        let process = pidfd_open(Pid::from_raw(pid.cast_signed()).unwrap(), PidfdFlags::empty()).unwrap();
        let numbers = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_channel = |socket: &OwnedFd| {
            socket_type(socket) == Ok(SocketType::SEQPACKET)
                && socket_domain(socket) == Ok(AddressFamily::UNIX)
                && socket_acceptconn(socket) == Ok(false)
        };
        let taken = numbers.filter_map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok());
        (pid, taken.into_iter().find(is_channel).expect("a channel"))
    }
}

fn say(channel: &OwnedFd, text: &str) -> bool {
    send(channel, text.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
}

#[test]
fn what_a_child_writes_is_a_line_and_names_no_process() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("hostile-lines");
    let (child, channel) = stage.child();
    let hostile = r#"x\nMAINPID=1234\nNOTIFYACCESS=all\r\nWATCHDOG_USEC=0\nFDSTOREREMOVE=1"#;
    assert!(say(&channel, &format!(r#"{{"says":"reloading","status":"{hostile}"}}"#)));
    assert!(say(&channel, &format!(r#"{{"says":"ready","status":"{hostile}"}}"#)));
    assert!(say(&channel, r#"{"says":"follows","at":"/nonexistent"}"#), "of a child that serves already");
    let told = stage.hear("READY=1");
    let known = |line: &String| {
        line.is_empty()
            || ["RELOADING=1", "READY=1"].contains(&line.as_str())
            || ["STATUS=", "MONOTONIC_USEC="].iter().any(|start| line.starts_with(start))
    };
    assert!(told.iter().all(known) && told.iter().any(|line| line.starts_with("STATUS=x MAINPID=1234 ")), "{told:?}");
    // Whatever it claims: the manager, the child itself, anybody, nobody.
    for pid in [1, child, std::process::id(), 4_321, 0, u32::MAX] {
        assert!(say(&channel, &format!(r#"{{"says":"followed","pid":{pid}}}"#)));
    }
    assert!(say(&channel, r#"{"says":"ready","status":"of one that is followed"}"#));
    stage.parent.signal(Signal::TERM);
    let told = stage.hear("STOPPING=1");
    assert!(!told.iter().any(|line| line.starts_with("MAINPID=") || line.contains("followed")), "{told:?}");
}

#[test]
fn a_child_that_floods_is_told_on_ten_times_a_second() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("hostile-flood");
    let (_, channel) = stage.child();
    let text = format!(r#"{{"says":"ready","status":"{}"}}"#, "x".repeat(2_000));
    let began = now();
    let (said, told) = thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut said = 0_u32;
            while began.elapsed() < Duration::from_millis(1_500) {
                said += u32::from(say(&channel, &text));
            }
            // What it says at last is told at last.
            let last = || Ok(say(&channel, r#"{"says":"ready","status":"the last"}"#).then_some(()));
            wait_for("room", last).unwrap();
            said
        });
        let told = stage.hear("STATUS=the last").iter().filter(|line| *line == "READY=1").count();
        (flood.join().unwrap(), told)
    });
    let seconds = began.elapsed().as_secs() as usize + 1;
    assert!(told <= 10 * (seconds + 1), "{told} of {said} messages were passed on in {seconds} s");
    assert!(said as usize <= 4_096 * seconds, "{said} messages were taken in {seconds} s");
    stage.parent.stop();
}

/// It has none to send, and to close one may take as long as its sender likes.
#[test]
fn a_child_that_sends_descriptors_or_nonsense_is_ended() {
    if !is_root() {
        return;
    }
    for what in ["descriptors", "nonsense", "deep"] {
        let mut stage = Stage::new("hostile-descriptors");
        let (_, channel) = stage.child();
        let deep = "[".repeat(100_000);
        let refused = match what {
            "descriptors" => {
                let file = fs::File::open("/dev/null").unwrap();
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                let files = [file.as_fd()];
                assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
                let words = [IoSlice::new(br#"{"says":"alive"}"#)];
                sendmsg(&channel, &words, &mut control, SendFlags::DONTWAIT).is_err()
            }
            "nonsense" => !say(&channel, r#"{"says":"mainpid","pid":1}"#),
            _ => !say(&channel, &deep),
        };
        if refused {
            // By the kernel, where it knows how (SO_PASSRIGHTS, Linux 6.16).
            assert_eq!(what, "descriptors");
            stage.parent.stop();
            continue;
        }
        wait_for("the end", || Ok(stage.parent.has_ended().then_some(()))).unwrap();
        assert!(stage.parent.said().contains("cannot be understood"), "{what}: {}", stage.parent.said());
        assert_eq!(stage.parent.ended_well(), Some(false));
    }
}

/// Whoever has rights starts one by hand, which has a parent of its own: that one says so
/// itself, and is signalled from then on.
#[test]
fn a_successor_that_was_started_by_hand_is_told_of() {
    if !is_root() {
        return;
    }
    let mut stage = Stage::new("hostile-by-hand");
    let control = stage.folder.join("control");
    let more = ["--take-over", control.to_str().unwrap()];
    let by_hand = serve(&stage.folder, stage.port, &more);
    let told = stage.hear(&format!("MAINPID={}", by_hand.id()));
    assert!(told.iter().any(|line| line == "READY=1"), "{told:?}");
    wait_for("the first one's end", || Ok(stage.parent.has_ended().then_some(()))).unwrap();
    assert_eq!(stage.parent.ended_well(), Some(true), "{}", stage.parent.said());
    // And one without a parent.
    let former = std::mem::replace(&mut stage.parent, by_hand);
    drop(former);
    let alone = serve(&stage.folder, stage.port, &[&more[..], &["--user", "root"]].concat());
    stage.hear(&format!("MAINPID={}", alone.id()));
    wait_for("the second one's end", || Ok(stage.parent.has_ended().then_some(()))).unwrap();
    alone.stop();
    stage.hear("STOPPING=1");
}
