//! Plans on folders that stand for machines, ended after each write.

mod boot;
mod faulty;
mod kernel;
mod killed;
mod root;

use crate::*;
use audit::{Evidence, Role};
pub(super) use faulty::Fault;
use faulty::Faulty;
use std::fs;
use std::path::PathBuf;

pub(super) const BOOT: &str = "proc/sys/kernel/random/boot_id";

/// A machine that the catalogue finds several faults with, some of them in
/// what may cut a connection.
const FAULTY: &[(&str, &str)] = &[
    (BOOT, "first-boot"),
    ("proc/sys/kernel/osrelease", "6.12.0"),
    ("proc/self/uid_map", "         0          0 4294967295"),
    ("proc/sys/net/ipv4/tcp_sack", "0"),
    ("proc/sys/net/ipv4/tcp_window_scaling", "0"),
    ("proc/sys/net/ipv4/tcp_slow_start_after_idle", "1"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t87380\t1000000"),
    ("proc/sys/net/ipv4/conf/eth0/accept_source_route", "1"),
    ("proc/sys/net/ipv4/conf/all/accept_source_route", "1"),
    ("proc/sys/vm/compact_unevictable_allowed", "1"),
    ("proc/sys/vm/dirty_ratio", "0"),
    ("proc/sys/vm/dirty_bytes", "1000000"),
    ("sys/devices/system/cpu/online", "0-1"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave"),
    ("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "powersave"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
    ("sys/kernel/mm/transparent_hugepage/defrag", "[always] defer defer+madvise madvise never"),
    ("sys/kernel/mm/ksm/run", "1"),
];

/// A folder of its own, gone with the value.
pub(super) struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearside-apply-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let folder = Self(path);
        for (path, text) in FAULTY {
            folder.put(path, text);
        }
        folder
    }

    pub fn put(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a temporary folder");
        fs::write(path, format!("{text}\n")).expect("a temporary file");
    }

    pub fn says(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).expect("a file").trim().to_owned()
    }

    pub fn machine(&self) -> Faulty {
        Faulty::new(&self.0)
    }

    pub fn evidence(&self) -> Evidence {
        Evidence::take(&self.0).expect("a machine")
    }

    pub fn plan(&self) -> TuningPlan {
        TuningPlan::for_role(&self.evidence(), Role::WebKernel, &[])
    }

    pub fn apply(&self, machine: &mut Faulty) -> Result<Applied, ApplyError> {
        apply(machine, &self.evidence(), &self.plan(), None, |_| Ok(()))
    }

    /// Every setting, as it is.
    pub fn settings(&self) -> Vec<String> {
        FAULTY.iter().map(|(path, _)| self.says(path)).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn outcomes(restored: &[Restored]) -> Vec<&Outcome> {
    restored.iter().map(|one| &one.outcome).collect()
}

#[test]
fn a_plan_has_reasons_commands_and_what_may_cut_last() {
    let folder = Folder::new("reasons");
    let plan = folder.plan();
    assert!(plan.steps.len() >= 10, "{plan:#?}");
    assert!(plan.steps.iter().all(|step| !step.why.is_empty() && !step.undo.is_empty()));
    let first_cut = plan.steps.iter().position(|step| step.may_cut).expect("one that may cut");
    assert!(plan.steps[first_cut..].iter().all(|step| step.may_cut));
    assert!(plan.may_cut());
    let commands: Vec<&str> = plan.steps.iter().map(|step| step.command.as_str()).collect();
    assert!(commands.contains(&"sysctl -w net.ipv4.tcp_sack='1'"), "{commands:?}");
    assert!(commands.contains(&"echo 'madvise' > '/sys/kernel/mm/transparent_hugepage/enabled'"), "{commands:?}");
    let governors = plan.steps.iter().filter(|step| step.path.ends_with("scaling_governor"));
    assert_eq!(governors.count(), 2);
    let thp = plan.steps.iter().find(|step| step.path.ends_with("hugepage/enabled")).expect("a step");
    assert!(!thp.exact && thp.undo.contains("not exactly"), "{thp:?}");
}

#[test]
fn a_plans_id_is_of_its_steps_and_of_what_they_found() {
    let folder = Folder::new("id");
    let first = folder.plan();
    assert_eq!(first, folder.plan());
    folder.put("proc/sys/net/ipv4/tcp_rmem", "4096\t87380\t1000001");
    assert_ne!(first.id, folder.plan().id);
    let other = TuningPlan::for_role(&folder.evidence(), Role::Mixed, &[]);
    assert_ne!(other.id, folder.plan().id);
}

#[test]
fn apply_changes_what_the_plan_says_and_undo_restores_exactly() {
    let folder = Folder::new("whole");
    let before = folder.settings();
    let plan = folder.plan();
    let applied = folder.apply(&mut folder.machine()).expect("applied");
    assert_eq!(applied.changes, plan.steps.len());
    for step in &plan.steps {
        assert!(step.form.same(&folder.says(&step.path), &step.wanted), "{}", step.path);
    }
    assert!(folder.plan().steps.is_empty(), "{:#?}", folder.plan().steps);
    let restored = undo(&mut folder.machine(), Which::Last, false).expect("undone");
    assert!(restored.iter().all(|one| one.outcome == Outcome::Restored), "{restored:#?}");
    assert_eq!(folder.settings(), before);
    assert!(matches!(undo(&mut folder.machine(), Which::Last, false), Err(Refusal::NoJournal(_))));
}

/// vm.dirty_ratio and vm.dirty_bytes: whichever is written turns the other off.
#[test]
fn undo_brings_back_the_one_of_a_pair_that_was_in_force() {
    let folder = Folder::new("pair");
    let settings = [("vm.dirty_ratio".to_owned(), "20".to_owned())];
    let machine = &mut folder.machine();
    let plan = TuningPlan::of(machine, &folder.evidence(), Role::WebKernel, &settings).expect("a plan");
    apply(machine, &folder.evidence(), &plan, None, |_| Ok(())).expect("applied");
    assert_eq!(folder.says("proc/sys/vm/dirty_bytes"), "0");
    undo(machine, Which::Last, false).expect("undone");
    assert_eq!(folder.says("proc/sys/vm/dirty_bytes"), "1000000");
    assert_eq!(folder.says("proc/sys/vm/dirty_ratio"), "0");
}

#[test]
fn a_value_that_changed_since_the_plan_stops_everything() {
    let folder = Folder::new("changed");
    let (plan, evidence) = (folder.plan(), folder.evidence());
    folder.put("proc/sys/net/ipv4/tcp_slow_start_after_idle", "5");
    let before = folder.settings();
    let why = apply(&mut folder.machine(), &evidence, &plan, None, |_| Ok(())).expect_err("changed");
    assert!(matches!(&why, ApplyError::Refused(Refusal::Changed { now, .. }) if now == "5"), "{why}");
    assert_eq!(folder.settings(), before);
}

/// Whoever can write to the journal's folder has root write what they like.
#[test]
fn a_folder_of_journals_that_others_may_write_to_is_not_believed() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("own");
    folder.apply(&mut folder.machine()).expect("applied");
    let applied = folder.settings();
    let state = folder.0.join(STATE);
    fs::set_permissions(&state, fs::Permissions::from_mode(0o770)).expect("our own");
    assert!(matches!(undo(&mut folder.machine(), Which::Last, false), Err(Refusal::Journal(_))));
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("our own");
    fs::rename(&state, folder.0.join("elsewhere")).expect("a folder");
    std::os::unix::fs::symlink(folder.0.join("elsewhere"), &state).expect("a link");
    assert!(matches!(undo(&mut folder.machine(), Which::Last, false), Err(Refusal::Journal(_))));
    assert_eq!(folder.settings(), applied);
}

/// Names of interfaces are chosen by whoever makes them.
#[test]
fn commands_to_type_hold_nothing_that_a_shell_would_run() {
    let folder = Folder::new("quotes");
    folder.put("proc/sys/net/ipv4/conf/a';reboot;'/accept_source_route", "1");
    let plan = folder.plan();
    let step = plan.steps.iter().find(|step| step.path.contains("reboot")).expect("a step");
    assert_eq!(step.command, "echo '0' > '/proc/sys/net/ipv4/conf/a'\\'';reboot;'\\''/accept_source_route'");
}

#[test]
fn two_at_once_are_refused() {
    let folder = Folder::new("lock");
    let held = folder.machine().lock().expect("a lock's file").expect("free");
    let before = folder.settings();
    let machine = &mut folder.machine().with(Fault::Locked);
    assert!(matches!(folder.apply(machine), Err(ApplyError::Refused(Refusal::Locked))));
    assert!(matches!(undo(machine, Which::Last, false), Err(Refusal::Locked)));
    assert_eq!(folder.settings(), before);
    drop(held);
    folder.apply(&mut folder.machine()).expect("free again");
}

#[test]
fn a_step_that_fails_undoes_those_before_it() {
    for fault in [Fault::Refused(1), Fault::Refused(6), Fault::Differs(1), Fault::Differs(6)] {
        let folder = Folder::new("rollback");
        let before = folder.settings();
        let mut machine = folder.machine().with(fault);
        let why = folder.apply(&mut machine).expect_err("a fault");
        assert!(matches!(why, ApplyError::Failed { .. }), "{why}");
        assert!(why.to_string().ends_with("everything is as it was"), "{why}");
        assert_eq!(folder.settings(), before, "{fault:?}");
        assert_eq!(machine.journals().expect("a folder"), Vec::<String>::new());
    }
}

#[test]
fn a_full_disk_changes_nothing() {
    for from in 1..8 {
        let folder = Folder::new("full");
        let before = folder.settings();
        let why = folder.apply(&mut folder.machine().with(Fault::Full(from))).expect_err("a full disk");
        assert_eq!(matches!(why, ApplyError::Refused(Refusal::Journal(_))), from == 1, "{why}");
        assert_eq!(folder.settings(), before, "from record {from} on");
        // What the disk kept of a line harms nobody later.
        folder.apply(&mut folder.machine()).expect("room again");
    }
}

#[test]
fn what_somebody_else_wrote_is_left_alone_and_told_unless_forced() {
    let folder = Folder::new("foreign");
    let before = folder.settings();
    folder.apply(&mut folder.machine()).expect("applied");
    folder.put("proc/sys/net/ipv4/tcp_sack", "9");
    let restored = undo(&mut folder.machine(), Which::Last, false).expect("undone");
    let foreign: Vec<_> = restored.iter().filter(|one| one.outcome != Outcome::Restored).collect();
    assert_eq!(foreign.len(), 1, "{foreign:?}");
    assert_eq!(foreign[0].outcome, Outcome::Foreign("9".to_owned()));
    assert_eq!(folder.says("proc/sys/net/ipv4/tcp_sack"), "9");
    undo(&mut folder.machine(), Which::Last, true).expect("forced");
    assert_eq!(folder.settings(), before);
}

#[test]
fn values_of_another_boot_are_never_written() {
    let folder = Folder::new("boot");
    folder.apply(&mut folder.machine()).expect("applied");
    folder.put(BOOT, "second-boot");
    let applied = folder.settings();
    let restored = undo(&mut folder.machine(), Which::Last, true).expect("told");
    assert!(outcomes(&restored).iter().all(|outcome| **outcome == Outcome::OtherBoot), "{restored:?}");
    assert_eq!(folder.settings(), applied);
    assert!(matches!(confirm(&mut folder.machine()), Err(Refusal::NoJournal(_))));
}

#[test]
fn settings_of_another_network_namespace_are_not_written_here() {
    let folder = Folder::new("network");
    let before = folder.settings();
    let link = |to: &str| {
        let link = folder.0.join("proc/self/ns/net");
        fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(to, link).expect("a link");
    };
    link("net:[1]");
    folder.apply(&mut folder.machine()).expect("applied");
    link("net:[2]");
    let restored = undo(&mut folder.machine(), Which::Last, true).expect("told");
    for one in &restored {
        let of_network = one.path.starts_with("proc/sys/net/");
        assert_eq!(one.outcome, if of_network { Outcome::OtherNetwork } else { Outcome::Restored }, "{}", one.path);
    }
    assert_eq!(folder.says("proc/sys/net/ipv4/tcp_sack"), "1");
    link("net:[1]");
    undo(&mut folder.machine(), Which::Last, false).expect("undone where it was done");
    assert_eq!(folder.settings(), before);
}

#[test]
fn a_trial_waits_until_it_is_confirmed_or_undone() {
    let folder = Folder::new("trial");
    let before = folder.settings();
    let trial = |guard: Result<(), String>| {
        apply(&mut folder.machine(), &folder.evidence(), &folder.plan(), Some(120), |_| guard)
    };
    let why = trial(Err("no process".to_owned())).expect_err("no guard");
    assert!(matches!(why, ApplyError::Refused(Refusal::Guard(_))), "{why}");
    assert_eq!(folder.settings(), before);
    let applied = trial(Ok(())).expect("applied");
    assert!(waits(&folder.machine(), &applied.journal));
    // Another one is refused meanwhile.
    folder.put("proc/sys/net/ipv4/tcp_sack", "0");
    assert!(matches!(trial(Ok(())), Err(ApplyError::Refused(Refusal::Pending(_)))));
    folder.put("proc/sys/net/ipv4/tcp_sack", "1");
    undo(&mut folder.machine(), Which::Unconfirmed(&applied.journal), false).expect("time is over");
    assert_eq!(folder.settings(), before);
    assert!(!waits(&folder.machine(), &applied.journal));
    let applied = trial(Ok(())).expect("applied again");
    confirm(&mut folder.machine()).expect("confirmed");
    assert!(!waits(&folder.machine(), &applied.journal));
    let late = undo(&mut folder.machine(), Which::Unconfirmed(&applied.journal), false);
    assert!(matches!(late, Err(Refusal::NoJournal(_))));
    undo(&mut folder.machine(), Which::Last, false).expect("by hand");
    assert_eq!(folder.settings(), before);
}

#[test]
fn containers_managed_nodes_and_missing_files_are_refused() {
    for (path, text) in [
        (".dockerenv", ""),
        ("run/.containerenv", ""),
        ("run/systemd/container", "lxc"),
        ("proc/1/environ", "PATH=/bin\0container=oci\0"),
        ("proc/self/uid_map", "0 100000 65536"),
        ("etc/machine-config-daemon/currentconfig", "{}"),
        ("proc/77/comm", "tuned"),
        ("proc/77/comm", "openshift-tuned"),
        ("sys/devices/system/cpu/isolated", "0-1"),
    ] {
        let folder = Folder::new("refused");
        folder.put(path, text);
        let before = folder.settings();
        let why = folder.apply(&mut folder.machine()).expect_err(path);
        let right = match path {
            "etc/machine-config-daemon/currentconfig" | "proc/77/comm" => "profile instead",
            "sys/devices/system/cpu/isolated" => "would leave no core",
            _ => "this is a container",
        };
        assert!(matches!(why, ApplyError::Refused(_)) && why.to_string().contains(right), "{path}: {why}");
        assert_eq!(folder.settings(), before, "{path}");
    }
    // A virtual machine from a container's image.
    let folder = Folder::new("image");
    let marks = [
        (".dockerenv", ""),
        ("proc/2/comm", "kthreadd"),
        ("proc/1/mountinfo", "22 1"),
        ("proc/self/mountinfo", "22 1"),
    ];
    marks.iter().for_each(|(path, text)| folder.put(path, text));
    folder.apply(&mut folder.machine()).expect("a whole machine");
    folder.put("proc/self/mountinfo", "777 1");
    assert!(folder.apply(&mut folder.machine()).is_err(), "another mount namespace than the first process");
    // Whoever knows better says so.
    let folder = Folder::new("overruled");
    folder.put("proc/1/environ", "container=oci\0");
    let (mut plan, evidence) = (folder.plan(), folder.evidence());
    assert!(obstacles(&folder.machine(), &evidence, &plan).iter().any(|why| matches!(why, Refusal::Container(_))));
    plan.no_container = true;
    assert!(obstacles(&folder.machine(), &evidence, &plan).is_empty());
    apply(&mut folder.machine(), &evidence, &plan, None, |_| Ok(())).expect("it was said to be a machine");
    let folder = Folder::new("missing");
    let (plan, evidence) = (folder.plan(), folder.evidence());
    fs::remove_file(folder.0.join("proc/sys/net/ipv4/tcp_sack")).expect("a file");
    let why = apply(&mut folder.machine(), &evidence, &plan, None, |_| Ok(())).expect_err("missing");
    assert!(why.to_string().contains("CAP_NET_ADMIN"), "{why}");
}

#[test]
fn dangerous_values_are_in_no_roles_plan_and_named_ones_say_what_they_do() {
    let folder = Folder::new("danger");
    folder.put("proc/sys/kernel/sched_rt_runtime_us", "950000");
    folder.put("sys/devices/virtual/workqueue/cpumask", "3");
    folder.put("sys/devices/system/cpu/isolated", "1");
    let (machine, evidence) = (folder.machine(), folder.evidence());
    let of = |key: &str, value: &str| {
        TuningPlan::of(&machine, &evidence, Role::Forwarder, &[(key.to_owned(), value.to_owned())])
    };
    let plan = of("kernel.sched_rt_runtime_us", "-1").expect("by name");
    assert!(plan.steps[0].risk.contains("stops everything else"), "{plan:?}");
    for role in Role::ALL {
        let steps = TuningPlan::for_role(&evidence, role, &[]).steps;
        assert!(steps.iter().all(|step| !step.path.contains("rt_runtime")), "{steps:?}");
    }
    assert!(matches!(of("workqueue cores", "2"), Err(Refusal::NoHousekeeping(_))));
    assert_eq!(of("workqueue cores", "1").expect("a core is left").steps.len(), 1);
    for (key, value) in [
        ("net.ipv4.tcp_sack", "yes"),
        ("net.ipv4.tcp_sack", ""),
        ("net.ipv4.tcp_sack", "1\n2"),
        ("net.ipv4.no_such", "1"),
        ("net/../../../etc/passwd", "1"),
        ("net.ipv4/..//..", "1"),
        ("tcp", "1"),
        ("transparent_hugepage/enabled", "often"),
    ] {
        assert!(matches!(of(key, value), Err(Refusal::Setting(_))), "{key}={value}");
    }
}

#[test]
fn files_are_written_whole_shown_and_undone() {
    let folder = Folder::new("files");
    let plan = folder.plan();
    let (sysctls, left) = files(&folder.evidence(), &plan, PersistTo::SysctlD);
    assert_eq!(sysctls.len(), 1);
    assert!(sysctls[0].text().contains("\nnet/ipv4/tcp_sack = 1\n"), "{}", sysctls[0].text());
    assert!(left.iter().any(|left| left.key == "ksm/run"));
    let (both, left) = files(&folder.evidence(), &plan, PersistTo::Systemd);
    assert!(both[1].text().contains("\nw /sys/kernel/mm/ksm/run - - - - 2\n"), "{}", both[1].text());
    assert_eq!(left, []);
    folder.put("etc/sysctl.d/90-nearside.conf", "# what was there");
    let before = folder.settings();
    write_files(&mut folder.machine(), &plan, &both).expect("written");
    assert_eq!(folder.says(&both[0].path), both[0].text().trim());
    assert_eq!(folder.settings(), before, "files, not settings");
    folder.put(BOOT, "second-boot");
    undo(&mut folder.machine(), Which::Last, false).expect("undone after a boot, too");
    assert_eq!(folder.says("etc/sysctl.d/90-nearside.conf"), "# what was there");
    assert!(!folder.0.join(&both[1].path).exists());
    folder.put("run/ostree-booted", "");
    let why = write_files(&mut folder.machine(), &plan, &both).expect_err("an image");
    assert!(matches!(why, ApplyError::Refused(Refusal::Image)), "{why}");
}
