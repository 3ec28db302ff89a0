//! `nearside node plan`, `apply`, `undo` and `confirm` on a folder that stands
//! for a machine.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

const SACK: &str = "proc/sys/net/ipv4/tcp_sack";
const SOURCE_ROUTE: &str = "proc/sys/net/ipv4/conf/eth0/accept_source_route";
/// How often a state is looked at that another process brings about, 100 ms
/// apart, before it counts as never coming.
const LOOKS: usize = 600;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Self(std::env::temp_dir().join(format!("nearside-node-{name}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&folder.0);
        folder.put("proc/sys/kernel/random/boot_id", "one");
        folder.put("proc/sys/kernel/osrelease", "6.12.0");
        folder.put(SACK, "0");
        folder
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a temporary folder");
        fs::write(path, format!("{text}\n")).expect("a temporary file");
    }

    fn says(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_default().trim().to_owned()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearside"));
        command.arg("node").args(words).arg("--root").arg(&self.0);
        command
    }

    fn node(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("a program")
    }

    /// The id of the plan that these words make.
    fn id(&self, words: &[&str]) -> String {
        let text = text(&self.node(words));
        let line = text.lines().find(|line| line.starts_with("nearside node apply ")).expect("a command");
        line.split_whitespace().nth(3).expect("an id").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_plan_is_printed_applied_by_its_id_and_undone() {
    let folder = Folder::new("whole");
    let id = folder.id(&["plan", "--role", "web-kernel"]);
    let wrong = folder.node(&["apply", "0123456789abcdef"]);
    assert!(!wrong.status.success() && text(&wrong).contains("a value changed since"), "{}", text(&wrong));
    assert_eq!(folder.says(SACK), "0");
    let applied = folder.node(&["apply", &id]);
    assert!(applied.status.success(), "{}", text(&applied));
    assert_eq!(folder.says(SACK), "1");
    folder.put(SACK, "7");
    let foreign = folder.node(&["undo"]);
    assert_eq!(foreign.status.code(), Some(4), "{}", text(&foreign));
    assert!(text(&foreign).contains("7 was written by somebody else"), "{}", text(&foreign));
    let forced = folder.node(&["undo", "--force"]);
    assert!(forced.status.success(), "{}", text(&forced));
    assert_eq!(folder.says(SACK), "0");
}

/// A virtual machine may have been made of a container's image, with its marks.
#[test]
fn what_looks_like_a_container_is_left_alone_unless_it_is_said_to_be_none() {
    let folder = Folder::new("contained");
    folder.put(".dockerenv", "");
    let text_of = text(&folder.node(&["plan"]));
    assert!(text_of.contains("apply would refuse: this is a container (docker)"), "{text_of}");
    assert!(!text_of.lines().any(|line| line.starts_with("nearside node apply ")), "{text_of}");
    let id = folder.id(&["plan", "--not-a-container"]);
    assert!(
        text_of.contains(&format!("\nif this is no container: nearside node apply {id} --not-a-container")),
        "{text_of}"
    );
    let refused = folder.node(&["apply", &id]);
    assert!(!refused.status.success() && text(&refused).contains("--not-a-container"), "{}", text(&refused));
    assert_eq!(folder.says(SACK), "0");
    let applied = folder.node(&["apply", &id, "--not-a-container", "--no-try"]);
    assert!(applied.status.success(), "{}", text(&applied));
    assert_eq!(folder.says(SACK), "1");
}

/// The session that started it is gone by then: its whole process group was
/// sent SIGHUP.
#[test]
fn a_trial_that_nobody_confirms_undoes_itself_after_the_session_is_gone() {
    use std::os::unix::process::CommandExt as _;
    let folder = Folder::new("trial");
    folder.put(SOURCE_ROUTE, "1");
    let id = folder.id(&["plan"]);
    // A group of its own, which gets what a terminal's end sends.
    let child = folder.command(&["apply", &id, "--try", "2s"]).process_group(0).stdout(Stdio::piped()).spawn();
    let child = child.expect("a program");
    let group = rustix::process::Pid::from_child(&child);
    let applied = child.wait_with_output().expect("its end");
    assert!(text(&applied).contains("it undoes itself in 2 s"), "{}", text(&applied));
    // Nobody may be left in it.
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::HUP);
    for _ in 0..LOOKS {
        if folder.says(SOURCE_ROUTE) == "1" && folder.says(SACK) == "0" {
            return;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("{} and {} a minute later", folder.says(SOURCE_ROUTE), folder.says(SACK));
}

#[test]
fn a_trial_is_the_default_where_a_step_may_cut_and_stays_once_confirmed() {
    let folder = Folder::new("confirmed");
    folder.put(SOURCE_ROUTE, "1");
    let id = folder.id(&["plan"]);
    let applied = folder.node(&["apply", &id]);
    assert!(text(&applied).contains("it undoes itself in 120 s"), "{}", text(&applied));
    let confirmed = folder.node(&["confirm"]);
    assert!(confirmed.status.success(), "{}", text(&confirmed));
    assert!(!folder.node(&["confirm"]).status.success(), "there is nothing to confirm any more");
    assert_eq!(folder.says(SOURCE_ROUTE), "0");
    assert!(folder.node(&["undo"]).status.success());
    assert_eq!(folder.says(SOURCE_ROUTE), "1");
}

#[test]
fn files_are_shown_as_they_were_written() {
    let folder = Folder::new("files");
    let id = folder.id(&["plan"]);
    let written = folder.node(&["apply", &id, "--persist", "sysctl.d"]);
    assert!(text(&written).contains("net/ipv4/tcp_sack = 1"), "{}", text(&written));
    assert!(folder.says("etc/sysctl.d/90-nearside.conf").contains("net/ipv4/tcp_sack = 1"));
    assert_eq!(folder.says(SACK), "0", "what is in force stays");
}

#[test]
fn a_profile_is_rendered_explained_and_held_against_its_node() {
    let folder = Folder::new("profile");
    folder.put("sys/devices/system/cpu/online", "0-3");
    folder.put("proc/cmdline", "ro");
    let out = folder.0.join("profile");
    let out = out.to_str().expect("a path");
    let render = ["profile", "render", "--for", "openshift", "--cluster", "4.12", "--huge", "1G:2", "--out", out];
    let rendered = folder.node(&render);
    assert!(rendered.status.success(), "{}", text(&rendered));
    let again = folder.node(&render);
    assert!(!again.status.success() && text(&again).contains("not empty"), "{}", text(&again));
    let explained = folder.node(&["profile", "explain", out]);
    assert!(text(&explained).contains("PerformanceProfile cpu.isolated"), "{}", text(&explained));
    let pods = folder.node(&["profile", "pod", out]);
    assert!(pods.status.success() && text(&pods).contains("Guaranteed, whole cores"), "{}", text(&pods));
    let held = folder.node(&["profile", "check", out, "--cluster", "4.12"]);
    assert_eq!(held.status.code(), Some(4), "{}", text(&held));
    assert!(text(&held).contains("otherwise  argument nohz_full: not given"), "{}", text(&held));
    let refused = folder.node(&["profile", "render", "--for", "grub", "--isolated", "0-9"]);
    assert!(!refused.status.success() && text(&refused).contains("no core 4"), "{}", text(&refused));
    let page = folder.0.join("audit.html");
    let judged = folder.node(&["audit", "--of", out, "--html", page.to_str().expect("a path")]);
    assert!(!judged.status.success(), "a folder is no file: {}", text(&judged));
    let manifest = format!("{out}/10-performance-profile.yaml");
    folder.node(&["audit", "--of", &manifest, "--html", page.to_str().expect("a path")]);
    assert!(folder.says("audit.html").contains("PerformanceProfile cpu.isolated"));
}

/// What manages the node is not worked against: it gets the plan in its form.
#[test]
fn a_managed_node_is_left_alone_and_its_manager_is_given_the_plan() {
    let folder = Folder::new("managed");
    folder.put("proc/77/comm", "openshift-tuned");
    folder.put("etc/tuned/active_profile", "openshift-node-performance-fast");
    let planned = folder.node(&["plan"]);
    assert!(
        text(&planned).contains("apply would refuse: OpenShift's Node Tuning Operator manages"),
        "{}",
        text(&planned)
    );
    let id = folder.id(&["plan"]);
    let refused = folder.node(&["apply", &id]);
    assert!(!refused.status.success() && text(&refused).contains("profile instead"), "{}", text(&refused));
    let given = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(given.contains("kind: Tuned\n") && given.contains("net.ipv4.tcp_sack = 1"), "{given}");
    assert!(given.contains("include=openshift-node-performance-fast"), "{given}");
    assert_eq!(folder.says(SACK), "0");
}

/// What nobody knows, or the node does not tell, is no failure unless it is asked for.
#[test]
fn strict_makes_a_failure_of_what_is_not_known() {
    let folder = Folder::new("strict");
    folder.put("proc/sys/kernel/some_new_thing", "1");
    folder.put("new.conf", "kernel.some_new_thing = 2");
    folder.put(
        "profile.yaml",
        "apiVersion: performance.openshift.io/v2\nkind: PerformanceProfile\nmetadata: {name: q}\nspec:\n  cpu: \
         {isolated: \"2-7\", reserved: \"0-1\"}\n  nodeSelector: {node-role.kubernetes.io/worker: \"\"}",
    );
    let (settings, profile) = (folder.0.join("new.conf"), folder.0.join("profile.yaml"));
    let (settings, profile) = (settings.display().to_string(), profile.display().to_string());
    for (words, said) in [
        (["audit", "--of", &settings].as_slice(), "1 not known"),
        (&["profile", "explain", &settings], "1 not known"),
        (&["profile", "check", &profile], "not told by the node"),
    ] {
        let as_it_is = folder.node(words);
        assert!(as_it_is.status.code() == Some(0) && text(&as_it_is).contains(said), "{words:?}: {}", text(&as_it_is));
        let strict = folder.node(&[words, &["--strict"]].concat());
        assert!(strict.status.code() == Some(4) && text(&strict).contains(said), "{words:?}: {}", text(&strict));
    }
}
