//! Against systemd itself, and against answers that are none.

use crate::message::Reply;
use crate::{Manager, name};
use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Self(std::env::temp_dir().join(format!("nearside-systemd-{name}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir_all(&folder.0).expect("a temporary folder");
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A manager of a user's services, which ends them with itself.
struct Own(Child);

impl Drop for Own {
    fn drop(&mut self) {
        // Asked to end, it takes its services with it.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        for _ in 0..400 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        // One that hangs is not to hang the test, too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Names of units that no other manager has: managers that run at once share
/// the kernel's groups of processes by their names, and one that stops a unit
/// ends whatever runs in the group.
fn units() -> (String, String) {
    let process = std::process::id();
    (format!("one-{process}"), format!("bad-{process}"))
}

/// What both units say. The slice is nobody else's, for the same reason:
/// a manager that ends removes the usual one under another's service.
fn service(rest: &str) -> String {
    format!("[Service]\nSlice=nearside{}.slice\n{rest}", std::process::id())
}

fn manager(folder: &Path) -> Option<(Own, Manager)> {
    // It wants a machine that systemd has booted, which a folder stands for,
    // and to see who asks: it has this process's numbers of processes.
    let script = "mkdir -p /run/systemd && mount -t tmpfs none /run/systemd && mkdir -p /run/systemd/system && \
                  exec /usr/lib/systemd/systemd --user";
    let (one, bad) = units();
    let units = folder.join("units");
    fs::create_dir_all(&units).expect("a folder");
    fs::write(units.join(format!("{one}.service")), service("ExecStart=/bin/sleep 600\n")).expect("a unit");
    // Its start is over when it has run, and so has failed by then; of another
    // kind of service it is over, and the unit active, before its program ends.
    fs::write(units.join(format!("{bad}.service")), service("Type=oneshot\nExecStart=/bin/false\n")).expect("a unit");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]);
    // Behind ours come the usual folders.
    command.env("XDG_RUNTIME_DIR", folder).env("SYSTEMD_UNIT_PATH", format!("{}:", units.display()));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let own = Own(child);
    let socket = folder.join("systemd/private");
    for _ in 0..200 {
        if let Ok(manager) = Manager::at(&socket) {
            return Some((own, manager));
        }
        thread::sleep(Duration::from_millis(50));
    }
    None
}

/// Needs root, systemd, and namespaces; says so where they are missing.
#[test]
fn services_are_asked_started_and_stopped() {
    let folder = Folder::new("real");
    let Some((_own, mut manager)) = manager(&folder.0) else {
        println!("left out: no manager of systemd can be started here");
        return;
    };
    let (one, bad) = units();
    assert_eq!(manager.state(&one).expect("a unit"), "inactive", "before it is started");
    manager.start(&one).expect("started");
    assert_eq!(manager.state(&format!("{one}.service")).expect("a unit"), "active", "after its start");
    manager.stop(&one).expect("stopped");
    assert_eq!(manager.state(&one).expect("a unit"), "inactive", "after its stop");
    manager.start(&bad).expect("it was asked to");
    assert_eq!(manager.state(&bad).expect("a unit"), "failed", "after a start that fails");
    let missing = manager.state("nothing-of-the-kind").expect_err("is not there");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound, "{missing}");
    assert!(manager.start("nothing-of-the-kind").is_err());
}

#[test]
fn names_of_units_are_names() {
    assert_eq!(name("irqbalance").expect("a name"), "irqbalance.service");
    assert_eq!(name("fstrim.timer").expect("a name"), "fstrim.timer");
    assert_eq!(name("a.b").expect("a name"), "a.b.service");
    for wrong in ["", "a b", "../x", "a/b", "a\n", ".service"] {
        assert!(name(wrong).is_err(), "{wrong:?}");
    }
}

/// Whatever sits behind the socket: an error, no end of the program.
#[test]
fn answers_that_are_none_are_errors() {
    for (at, answer) in [
        &b""[..],
        b"REJECTED EXTERNAL\r\n",
        b"OK 1\r\nx",
        b"OK 1\r\nl\x02\x00\x01\xff\xff\xff\xff\x01\x00\x00\x00\x00\x00\x00\x00",
        b"OK 1\r\nl\x02\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x08\x00\x00\x00\x05\x01u\x00\x01\x00\x00\x00",
    ]
    .iter()
    .enumerate()
    {
        let folder = Folder::new(&format!("wrong-{at}"));
        let socket = folder.0.join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let answer = answer.to_vec();
        let other = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.write_all(&answer);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            // What it sends is read, so that it is not told of a broken pipe.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let result = Manager::at(&socket).and_then(|mut manager| manager.state("one"));
        assert!(result.is_err(), "{at}: {result:?}");
        other.join().expect("the other end");
    }
    for length in 0..40 {
        let bytes = vec![b'l'; length];
        assert!(Reply::read(&mut bytes.as_slice()).is_err(), "{length}");
    }
}
