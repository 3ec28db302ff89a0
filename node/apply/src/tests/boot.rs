//! Files for the next boot: grub's second entry, and a profile of tuned.

use super::Folder;
use crate::{ApplyError, PersistTo, Refusal, TuningPlan, Which, boot_once, files, undo, write_files};
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
    let text = &written[0].text;
    assert!(text.contains("\ninclude=network-latency\n") && text.contains("\nnet.ipv4.tcp_sack = 1\n"), "{text}");
    assert!(text.contains("[sysfs]\n") && text.contains("\n/sys/kernel/mm/ksm/run = 2\n"), "{text}");
    assert!(text.contains("\nnet.ipv4.conf.eth0.accept_source_route = 0\n"), "{text}");
}
