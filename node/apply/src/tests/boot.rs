//! Files for the next boot: grub's second entry, and a profile of tuned.

use super::Folder;
use crate::{ApplyError, PersistTo, Refusal, TuningPlan, Which, boot_once, files, for_manager, undo, write_files};
use audit::Role;

fn plan(folder: &Folder, settings: &[(&str, &str)]) -> Result<TuningPlan, Refusal> {
    let settings: Vec<(String, String)> =
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    TuningPlan::of(&folder.machine(), &folder.evidence(), Role::Forwarder, &settings)
}

fn grub(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz-6.12 root=/dev/sda1 ro idle=poll");
    folder.put("proc/mounts", "/dev/sda1 / ext4 rw 0 0");
    let entry = "menuentry 'Debian' {\n\tlinux /vmlinuz-6.12 root=/dev/sda1 ro idle=poll\n\tinitrd \
        /initrd.img-6.12\n}";
    folder.put("boot/grub/grub.cfg", entry);
    folder.put("boot/grub/custom.cfg", "# somebody's");
    folder
}

#[test]
fn a_second_entry_is_written_booted_once_and_undone() {
    let folder = grub("boot-once");
    let asked = [("cmdline nohz_full", "1"), ("cmdline idle", "nothing"), ("cmdline mce", "off")];
    let plan = plan(&folder, &asked).expect("a plan");
    assert!(plan.steps.is_empty() && plan.arguments.len() == 3);
    assert!(plan.arguments[2].why.contains("dangerous"), "{}", plan.arguments[2].why);
    let written = boot_once(&folder.machine(), &folder.evidence(), &plan).expect("files");
    write_files(&mut folder.machine(), &plan, &written).expect("written");
    let custom = folder.says("boot/grub/custom.cfg");
    assert!(custom.starts_with("# somebody's\n"), "{custom}");
    assert!(custom.contains("linux /vmlinuz-6.12 root=/dev/sda1 ro nohz_full=1 mce=off"), "{custom}");
    let block = std::fs::read(folder.0.join("boot/grub/grubenv")).expect("the environment");
    assert_eq!(block.len(), 1024);
    undo(&mut folder.machine(), Which::Last, false).expect("undone");
    assert_eq!(folder.says("boot/grub/custom.cfg"), "# somebody's");
    assert!(!folder.0.join("boot/grub/grubenv").exists());
}

#[test]
fn a_boot_that_cannot_be_for_once_is_refused() {
    let refused = |folder: &Folder, settings: &[(&str, &str)]| {
        let plan = plan(folder, settings).expect("a plan");
        boot_once(&folder.machine(), &folder.evidence(), &plan).expect_err("refused")
    };
    let folder = grub("boot-refused");
    assert!(matches!(refused(&folder, &[("vm.dirty_ratio", "10")]), Refusal::Empty));
    folder.put("proc/mounts", "/dev/mapper/root / btrfs rw 0 0");
    assert!(matches!(refused(&folder, &[("cmdline nosmt", "nosmt")]), Refusal::Boot(_)));
    folder.put("proc/mounts", "/dev/sda1 / ext4 rw 0 0");
    folder.put("boot/grub/grub.cfg", "# nothing");
    assert!(matches!(refused(&folder, &[("cmdline nosmt", "nosmt")]), Refusal::Boot(_)));
    for odd in [("cmdline x", "a b"), ("cmdline x", "'; reboot"), ("cmdline", "1"), ("cmdline x;y", "1")] {
        assert!(plan(&folder, &[odd]).is_err(), "{odd:?}");
    }
    folder.put("run/ostree-booted", "");
    let asked = plan(&folder, &[("cmdline nosmt", "nosmt")]).expect("a plan");
    let image = write_files(&mut folder.machine(), &asked, &[]);
    assert!(matches!(image, Err(ApplyError::Refused(Refusal::Image))), "{image:?}");
}

#[test]
fn a_profile_of_tuned_is_on_top_of_the_active_one() {
    let folder = Folder::new("tuned");
    folder.put("etc/tuned/active_profile", "network-latency");
    let (written, _) = files(&folder.evidence(), &folder.plan(), PersistTo::Tuned);
    let text = &written[0].text();
    assert!(text.contains("\ninclude=network-latency\n") && text.contains("\nnet.ipv4.tcp_sack = 1\n"), "{text}");
    assert!(text.contains("[sysfs]\n") && text.contains("\n/sys/kernel/mm/ksm/run = 2\n"), "{text}");
    assert!(text.contains("\nnet.ipv4.conf.eth0.accept_source_route = 0\n"), "{text}");
}

/// What others' programs say of the files: grub's own tools, where they are.
#[test]
fn grubs_own_tools_take_the_entry_and_the_environment() {
    use std::process::Command;
    let folder = grub("boot-tools");
    let plan = plan(&folder, &[("cmdline nohz_full", "1")]).expect("a plan");
    let written = boot_once(&folder.machine(), &folder.evidence(), &plan).expect("files");
    write_files(&mut folder.machine(), &plan, &written).expect("written");
    let list = Command::new("grub-editenv").arg(folder.0.join("boot/grub/grubenv")).arg("list").output();
    let check = Command::new("grub-script-check").arg(folder.0.join("boot/grub/custom.cfg")).output();
    let (Ok(list), Ok(check)) = (list, check) else { return println!("left out: needs grub-common") };
    assert!(check.status.success(), "{check:?}");
    assert_eq!(String::from_utf8_lossy(&list.stdout), "next_entry=nearside-once\n", "{list:?}");
    // What grub does before it starts the kernel: the choice is taken back.
    let unset =
        Command::new("grub-editenv").arg(folder.0.join("boot/grub/grubenv")).args(["unset", "next_entry"]).output();
    assert!(unset.is_ok_and(|output| output.status.success()));
    undo(&mut folder.machine(), Which::Last, true).expect("undone");
    assert_eq!(folder.says("boot/grub/custom.cfg"), "# somebody's");
}

/// A port whose driver's settings are changed, and one without a device.
fn drivers(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.put("sys/class/net/eth0/address", "02:00:00:00:00:01");
    folder.put("ethtool/eth0/rings/rx", "256");
    folder.put("ethtool/eth0/coalescing/rx-usecs", "400");
    folder.put("ethtool/tap0/rings/rx", "256");
    folder
}

fn of_drivers(folder: &Folder) -> TuningPlan {
    let evidence = ["eth0/rings/rx", "eth0/coalescing/rx-usecs", "tap0/rings/rx"].iter().fold(
        folder
            .evidence()
            .with("ethtool/eth0/rings", "rx 256 of 4096, tx 256 of 4096")
            .with("ethtool/tap0/rings", "rx 256 of 512, tx 1 of 1")
            .with("ethtool/eth0/coalescing", "rx-usecs 400, adaptive-rx off"),
        |evidence, path| evidence.with(&format!("ethtool/{path}"), &folder.says(&format!("ethtool/{path}"))),
    );
    let settings = [
        ("ring sizes@eth0", "rx 512"),
        ("interrupt coalescing@eth0", "rx-usecs 8"),
        ("ring sizes@tap0", "rx 512"),
        ("vm.dirty_ratio", "10"),
    ];
    let settings: Vec<(String, String)> =
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    TuningPlan::of(&folder.machine(), &evidence, Role::WebKernel, &settings).expect("a plan")
}

#[test]
fn settings_of_drivers_are_kept_by_udev_or_tuned() {
    let folder = drivers("udev");
    let plan = of_drivers(&folder);
    let (written, left) = files(&folder.evidence(), &plan, PersistTo::Systemd);
    let rules = written.iter().find(|file| file.path.ends_with("90-nearside.rules")).expect("rules");
    let rule = "ACTION==\"add\", SUBSYSTEM==\"net\", DRIVERS==\"?*\", ATTR{address}==\"02:00:00:00:00:01\", \
                RUN+=\"/usr/sbin/ethtool -G $name rx 512\"";
    assert!(rules.text().lines().any(|line| line == rule), "{}", rules.text());
    assert_eq!(rules.text().matches("RUN+=").count(), 2);
    assert!(left.iter().any(|left| left.key == "ring sizes@tap0"), "{left:?}");
    let (written, left) = files(&folder.evidence(), &plan, PersistTo::Tuned);
    let text = &written[0].text();
    assert!(text.contains("type=net\ndevices=eth0\n") && text.contains("\nring=rx 512\n"), "{text}");
    assert!(text.contains("\ncoalesce=rx-usecs 8\n") && left.is_empty(), "{text} {left:?}");
}

/// Where others manage the node, the plan is given in their form.
#[test]
fn a_nodes_manager_is_given_the_plan_in_its_own_form() {
    let folder = drivers("manager");
    folder.put("etc/tuned/active_profile", "openshift-node-performance-fast");
    let settings = [("net.ipv4.tcp_sack".to_owned(), "1".to_owned()), ("cmdline nohz_full".to_owned(), "1".to_owned())];
    let plan = TuningPlan::of(&folder.machine(), &folder.evidence(), Role::Forwarder, &settings).expect("a plan");
    let (manifest, left) = for_manager(&folder.evidence(), &plan, "OpenShift's Node Tuning Operator");
    assert!(left.is_empty(), "{left:?}");
    let text = &manifest[0].text();
    let found = audit::advice::parse("tuned.yaml", text).expect("a manifest");
    let value = |key: &str| found.iter().find(|one| one.key == key).map(|one| one.value.as_str());
    assert_eq!(value("net.ipv4.tcp_sack"), Some("1"), "{text}");
    assert_eq!(value("cmdline nohz_full"), Some("1"), "{text}");
    assert_eq!(value("tuned include"), Some("openshift-node-performance-fast"), "{text}");
    let (profile, left) = for_manager(&folder.evidence(), &plan, "a running tuned");
    assert!(profile[0].path.ends_with("tuned.conf") && left.len() == 1, "{left:?}");
}

/// One interrupt's cores, one domain's pages: planned, applied, undone.
#[test]
fn an_interrupt_and_a_domains_pages_are_steps_and_are_undone() {
    const IRQ: &str = "proc/irq/24/smp_affinity_list";
    const PAGES: &str = "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages";
    let folder = Folder::new("placed");
    folder.put(IRQ, "0-1");
    folder.put(PAGES, "0");
    folder.put("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  1048576 kB");
    let asked = [("interrupt affinity@24", "1"), ("huge pages of a domain@node0 2048kB", "64")];
    let plan = plan(&folder, &asked).expect("a plan");
    let told: Vec<(&str, bool)> = plan.steps.iter().map(|step| (step.key.as_str(), step.may_cut)).collect();
    assert_eq!(told, [("huge pages of a domain@node0 2048kB", false), ("interrupt affinity@24", true)]);
    let machine = &mut folder.machine();
    crate::apply(machine, &folder.evidence(), &plan, None, |_| Ok(())).expect("applied");
    assert_eq!((folder.says(IRQ), folder.says(PAGES)), ("1".to_owned(), "64".to_owned()));
    undo(machine, Which::Last, false).expect("undone");
    assert_eq!((folder.says(IRQ), folder.says(PAGES)), ("0-1".to_owned(), "0".to_owned()));
    let refused = [
        ("interrupt affinity@24", "9"),
        ("interrupt affinity@24", "x"),
        ("interrupt affinity@99", "1"),
        ("interrupt affinity", "1"),
        ("interrupt affinity@../24", "1"),
        ("huge pages of a domain@node0", "1"),
        ("huge pages of a domain@node9 2048kB", "1"),
        ("huge pages of a domain@node0 2048kB", "many"),
    ];
    for (key, value) in refused {
        assert!(matches!(self::plan(&folder, &[(key, value)]), Err(Refusal::Setting(_))), "{key}={value}");
    }
    // What would not stay, or not leave anything, is said.
    folder.put("proc/9/comm", "irqbalance");
    let risks = self::plan(&folder, &[("interrupt affinity@24", "1"), ("huge pages of a domain@node0 2048kB", "500")]);
    let steps = risks.expect("a plan").steps;
    assert!(steps.iter().any(|step| step.risk.contains("irqbalance")), "{steps:?}");
    assert!(steps.iter().any(|step| step.risk.contains("as many as fit")), "{steps:?}");
    let (written, left) = files(&folder.evidence(), &plan, PersistTo::Systemd);
    assert!(written[0].text().contains("nr_hugepages - - - - 64"), "{}", written[0].text());
    assert!(left.iter().any(|left| left.why.contains("after a boot")), "{left:?}");
}

/// Services are started and stopped as files of a folder say, and put back.
#[test]
fn a_service_is_a_step_and_is_undone() {
    let folder = Folder::new("service");
    folder.put("systemd/irqbalance", "active");
    let plan = plan(&folder, &[("service irqbalance", "stop")]).expect("a plan");
    assert_eq!(plan.steps[0].command, "systemctl stop irqbalance");
    assert!(!plan.steps[0].may_cut);
    let machine = &mut folder.machine();
    crate::apply(machine, &folder.evidence(), &plan, None, |_| Ok(())).expect("applied");
    assert_eq!(folder.says("systemd/irqbalance"), "inactive");
    undo(machine, Which::Last, false).expect("undone");
    assert_eq!(folder.says("systemd/irqbalance"), "active");
    for (key, value) in
        [("service ../x", "stop"), ("service x", "restart"), ("service ", "stop"), ("service nothing", "stop")]
    {
        assert!(self::plan(&folder, &[(key, value)]).is_err(), "{key}={value}");
    }
    // Without systemd it is named from what runs.
    folder.put("proc/77/comm", "chronyd");
    let why = self::plan(&folder, &[("service chronyd", "stop")]).expect_err("no systemd").to_string();
    assert!(why.contains("as process 77"), "{why}");
    folder.put("systemd/ssh", "active");
    assert!(self::plan(&folder, &[("service ssh", "stop")]).expect("a plan").steps[0].may_cut);
}
