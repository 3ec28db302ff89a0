//! Folders that somebody else filled, and files that were there before.

use super::{BOOT, Fault, Folder};
use crate::{
    Applied, ApplyError, Machine as _, Outcome, PersistTo, PersistedFile, Refusal, STATE, Tree, TuningPlan, Which,
    apply, boot_once, files, journals, undo, write_files,
};
use audit::{Evidence, Role};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Everything below a folder: names, kinds, rights, owners, texts, links; but for
/// the journals' own folder.
fn everything(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        let about = fs::symlink_metadata(&path).expect("it is ours");
        let text = match about.file_type() {
            kind if kind.is_symlink() => format!("{:?}", fs::read_link(&path).expect("a link")),
            kind if kind.is_file() => format!("{:?}", fs::read(&path).expect("a file")),
            kind if kind.is_dir() && !path.ends_with(STATE) => {
                open.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
                String::new()
            }
            kind => format!("{kind:?}"),
        };
        if !path.starts_with(folder.join("var")) {
            found.push(format!("{} {:o} {} {text}", path.display(), about.mode(), about.uid()));
        }
    }
    found.sort();
    found
}

/// A machine with grub, whose files are somebody's: of an odd mode, with bytes that
/// are no text, behind a link.
fn grub(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz-6.12 root=/dev/sda1 ro");
    folder.put("proc/mounts", "/dev/sda1 / ext4 rw 0 0");
    folder.put("boot/grub/grub.cfg", "menuentry 'M' {\n\tlinux /vmlinuz-6.12 root=/dev/sda1\n}");
    let custom = folder.0.join("boot/grub/custom.cfg");
    fs::write(&custom, b"# M\xfcller\npassword_pbkdf2 root grub.pbkdf2.SECRET\n\n\n").expect("a file");
    fs::set_permissions(&custom, fs::Permissions::from_mode(0o600)).expect("our own");
    // Only root gives files away.
    let _ = std::os::unix::fs::chown(&custom, Some(65_534), Some(65_534));
    fs::create_dir_all(folder.0.join("boot/efi")).expect("a folder");
    let mut block = b"# GRUB Environment Block\n# WARNING: Do not edit\nsaved_entry=x\n".to_vec();
    block.resize(1024, b'#');
    fs::write(folder.0.join("boot/efi/grubenv"), block).expect("a file");
    symlink("../efi/grubenv", folder.0.join("boot/grub/grubenv")).expect("a link");
    folder
}

fn plan(folder: &Folder) -> TuningPlan {
    let asked = [("cmdline nohz_full".to_owned(), "1".to_owned())];
    TuningPlan::of(&folder.machine(), &folder.evidence(), Role::Forwarder, &asked).expect("a plan")
}

fn boot_files(folder: &Folder) -> Result<Vec<PersistedFile>, Refusal> {
    boot_once(&folder.machine(), &folder.evidence(), &plan(folder))
}

fn write(folder: &Folder, fault: Fault) -> Result<Applied, ApplyError> {
    let written = boot_files(folder).expect("files");
    write_files(&mut folder.machine().with(fault), &plan(folder), &written)
}

#[test]
fn files_keep_their_owner_rights_links_and_bytes() {
    let folder = grub("kept");
    let before = everything(&folder.0);
    let custom = folder.0.join("boot/grub/custom.cfg");
    let owner = fs::metadata(&custom).expect("a file").uid();
    write(&folder, Fault::None).expect("written");
    let now = fs::metadata(&custom).expect("a file");
    assert_eq!((now.mode() & 0o7777, now.uid()), (0o600, owner));
    let text = fs::read(&custom).expect("a file");
    assert!(text.starts_with(b"# M\xfcller\n") && text.windows(12).any(|part| part == b"nearside-onc"), "{text:?}");
    let link = folder.0.join("boot/grub/grubenv");
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    let block = fs::read(&link).expect("a block");
    assert!(block.len() == 1024 && block.windows(11).any(|part| part == b"saved_entry"), "{block:?}");
    assert!(block.starts_with(b"# GRUB Environment Block\n# WARNING: Do not edit\n"));
    let restored = undo(&mut folder.machine(), Which::Last, false).expect("undone");
    assert!(restored.iter().all(|one| one.outcome == Outcome::Restored), "{restored:?}");
    assert_eq!(everything(&folder.0), before);
    // Nobody is told what was for its owner alone to read.
    let told = boot_files(&folder).expect("files").iter().map(PersistedFile::added).collect::<String>();
    assert!(told.contains("next_entry=nearside-once\n") && told.contains("nohz_full=1\n"), "{told}");
    assert!(!told.contains("SECRET") && !format!("{restored:?}").contains("SECRET"), "{told} {restored:?}");
}

#[test]
fn files_are_whole_and_put_back_wherever_it_ends() {
    for last in 1..100 {
        let folder = grub("files-ended");
        let _ = fs::remove_file(folder.0.join("boot/grub/custom.cfg"));
        let before = everything(&folder.0);
        let ended = catch_unwind(AssertUnwindSafe(|| write(&folder, Fault::Ends(last)).map(drop))).is_err();
        // What a crash within a replacement leaves.
        fs::write(folder.0.join("boot/grub/custom.cfg.nearside-new"), "half").expect("a file");
        let restored = undo(&mut folder.machine(), Which::Last, false);
        let _ = fs::remove_file(folder.0.join("boot/grub/custom.cfg.nearside-new"));
        assert!(restored.is_ok_and(|all| all.iter().all(|one| one.outcome.is_as_before())), "after write {last}");
        assert_eq!(everything(&folder.0), before, "after write {last}");
        assert_eq!(folder.machine().journals().expect("a folder"), Vec::<String>::new());
        if !ended {
            assert!(last > 5, "only {last} writes");
            return;
        }
    }
    panic!("no plan has so many writes");
}

#[test]
fn a_full_disk_leaves_files_and_folders_as_they_were() {
    for at in 1..=2 {
        let folder = Folder::new("files-full");
        let before = everything(&folder.0);
        let (both, _) = files(&folder.evidence(), &folder.plan(), PersistTo::Systemd);
        let machine = &mut folder.machine().with(Fault::Unwritable(at));
        let why = write_files(machine, &folder.plan(), &both).expect_err("a full disk");
        assert!(why.to_string().ends_with("everything is as it was"), "{why}");
        assert_eq!(everything(&folder.0), before);
    }
}

#[test]
fn folders_that_were_made_go_unless_they_are_used() {
    let folder = Folder::new("made");
    let before = everything(&folder.0);
    let (profile, _) = files(&folder.evidence(), &folder.plan(), PersistTo::Tuned);
    write_files(&mut folder.machine(), &folder.plan(), &profile).expect("written");
    undo(&mut folder.machine(), Which::Last, false).expect("undone");
    assert_eq!(everything(&folder.0), before);
    write_files(&mut folder.machine(), &folder.plan(), &profile).expect("written");
    folder.put("etc/tuned/mine/tuned.conf", "[main]");
    undo(&mut folder.machine(), Which::Last, false).expect("undone");
    assert!(folder.0.join("etc/tuned/mine").is_dir() && !folder.0.join("etc/tuned/nearside").exists());
}

/// What is there and cannot be put back is not taken for missing.
#[test]
fn what_cannot_be_read_whole_is_not_replaced() {
    type Make = fn(&Path);
    let ways: [(&str, Make); 5] = [
        ("no plain file", |path| fs::create_dir(path).expect("a folder")),
        ("no plain file", |path| symlink("/dev/null", path).expect("a link")),
        ("bytes", |path| fs::File::create(path).and_then(|file| file.set_len(2 << 20)).expect("a long file")),
        ("hard link", |path| fs::hard_link(path.with_file_name("grub.cfg"), path).expect("a hard link")),
        ("symbolic links", |path| symlink("custom.cfg", path).expect("a link to itself")),
    ];
    for (at, (said, make)) in ways.into_iter().enumerate() {
        let folder = grub("unread");
        let custom = folder.0.join("boot/grub/custom.cfg");
        fs::remove_file(&custom).expect("a file");
        make(&custom);
        // The link's device is one of the folder.
        fs::create_dir_all(folder.0.join("dev/null")).expect("a folder");
        let before = everything(&folder.0);
        let why = boot_files(&folder).expect_err("refused");
        assert!(matches!(&why, Refusal::File { .. }) && why.to_string().contains(said), "{at}: {why}");
        assert_eq!(everything(&folder.0), before);
        if at == 4 {
            break;
        }
        // A text that is ours alone is not put there either.
        let sysctl = folder.0.join("etc/sysctl.d/90-nearside.conf");
        fs::create_dir_all(sysctl.parent().expect("a folder")).expect("a folder");
        fs::write(sysctl.with_file_name("grub.cfg"), "").expect("a file");
        make(&sysctl);
        let (sysctls, _) = files(&folder.evidence(), &folder.plan(), PersistTo::SysctlD);
        let before = everything(&folder.0);
        let why = write_files(&mut folder.machine(), &folder.plan(), &sysctls).expect_err("refused");
        assert!(why.to_string().contains(said), "{why}");
        assert_eq!(everything(&folder.0), before);
        assert!(journals(&folder.machine()).expect("a folder").is_empty());
    }
}

#[test]
fn a_file_that_somebody_changed_meanwhile_is_not_written_over() {
    let folder = grub("meanwhile");
    let written = boot_files(&folder).expect("files");
    folder.put("boot/grub/custom.cfg", "# another entry");
    let before = everything(&folder.0);
    let why = write_files(&mut folder.machine(), &plan(&folder), &written).expect_err("changed");
    assert!(matches!(why, ApplyError::Refused(Refusal::Changed { .. })), "{why}");
    assert_eq!(everything(&folder.0), before);
    // Afterwards as well: it stays, unless it is forced.
    write(&folder, Fault::None).expect("written");
    folder.put("boot/grub/custom.cfg", "# a third one");
    let restored = undo(&mut folder.machine(), Which::Last, false).expect("told");
    assert!(restored.iter().any(|one| matches!(one.outcome, Outcome::Foreign(_))), "{restored:?}");
    assert_eq!(folder.says("boot/grub/custom.cfg"), "# a third one");
    // Where it went, its owner and rights are put back with it.
    fs::remove_file(folder.0.join("boot/grub/custom.cfg")).expect("a file");
    undo(&mut folder.machine(), Which::Last, true).expect("forced");
    assert_eq!(everything(&folder.0), before);
}

/// A folder whose links lead to the machine that reads it.
#[test]
fn nothing_outside_of_the_root_is_read_or_written() {
    let beside = Folder::new("beside");
    let host = beside.0.join("host");
    for path in ["secret", "grub/custom.cfg", "sysctl.d/90-nearside.conf", "nearside-node/00000007.journal"] {
        fs::create_dir_all(host.join(path).parent().expect("a folder")).expect("a folder");
        fs::write(host.join(path), "1 of the host\n").expect("a file");
    }
    fs::set_permissions(host.join("nearside-node"), fs::Permissions::from_mode(0o700)).expect("our own");
    let before = everything(&host);
    let folder = grub("hostile");
    let link = |path: &str, target: &str, relative: bool| {
        let path = folder.0.join(path);
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let up = "../".repeat(path.components().count());
        let host = host.join(target);
        symlink(if relative { Path::new(&up).join(host.strip_prefix("/").expect("below /")) } else { host }, &path)
            .expect("a link");
    };
    for relative in [false, true] {
        link("proc/sys/vm/swappiness", "secret", relative);
        link("boot/grub/custom.cfg", "grub/custom.cfg", relative);
        link("etc/sysctl.d", "sysctl.d", relative);
        link(STATE, "nearside-node", relative);
        let (machine, evidence) = (&mut folder.machine(), folder.evidence());
        assert!(!evidence.to_string().contains("of the host"));
        let asked = [("vm.swappiness".to_owned(), "10".to_owned())];
        assert!(TuningPlan::of(machine, &evidence, Role::WebKernel, &asked).is_err());
        let applied = folder.apply(machine);
        assert!(applied.is_err(), "its journals would be the host's: {applied:?}");
        assert!(undo(machine, Which::All, true).is_err());
        fs::remove_file(folder.0.join(STATE)).expect("a link");
        let (both, _) = files(&evidence, &folder.plan(), PersistTo::Systemd);
        // A folder whose link leads nowhere cannot be made.
        assert!(write_files(machine, &folder.plan(), &both).is_err());
        // The link's own end, below the root, is as good as any.
        let _ = write(&folder, Fault::None);
        let _ = undo(&mut folder.machine(), Which::All, true);
        assert_eq!(everything(&host), before);
    }
}

#[test]
fn a_setting_with_another_name_is_not_written_to() {
    let folder = Folder::new("hard");
    let host = folder.0.join("host");
    fs::write(&host, "60\n").expect("a file");
    fs::hard_link(&host, folder.0.join("proc/sys/vm/swappiness")).expect("a hard link");
    let asked = [("vm.swappiness".to_owned(), "10".to_owned())];
    let (machine, evidence) = (&mut folder.machine(), folder.evidence());
    let plan = TuningPlan::of(machine, &evidence, Role::WebKernel, &asked).expect("a plan");
    let why = apply(machine, &evidence, &plan, None, |_| Ok(())).expect_err("refused");
    assert!(matches!(&why, ApplyError::Refused(Refusal::Rights { .. })), "{why}");
    assert_eq!(fs::read_to_string(&host).expect("a file"), "60\n");
}

/// What could not be written back as it was is not changed.
#[test]
fn a_setting_that_is_no_text_is_left_alone() {
    let folder = Folder::new("no-text");
    fs::write(folder.0.join("proc/sys/kernel/domainname"), b"M\xfcnchen\n").expect("a file");
    let asked = [("kernel.domainname".to_owned(), "x".to_owned())];
    let (machine, evidence) = (&mut folder.machine(), folder.evidence());
    let plan = TuningPlan::of(machine, &evidence, Role::WebKernel, &asked).expect("a plan");
    let why = apply(machine, &evidence, &plan, None, |_| Ok(())).expect_err("refused");
    assert!(why.to_string().contains("no UTF-8"), "{why}");
    assert_eq!(fs::read(folder.0.join("proc/sys/kernel/domainname")).expect("a file"), b"M\xfcnchen\n");
}

/// Journals that others may have written, that are of earlier versions, or that
/// nobody wrote.
#[test]
fn journals_that_are_not_ours_are_not_believed() {
    let folder = grub("journals");
    write(&folder, Fault::None).expect("written");
    let after = everything(&folder.0);
    let journal = folder.0.join(STATE).join("00000001.journal");
    let set = |mode| fs::set_permissions(&journal, fs::Permissions::from_mode(mode)).expect("our own");
    set(0o666);
    assert!(matches!(undo(&mut folder.machine(), Which::Last, false), Err(Refusal::Journal(_))));
    set(0o600);
    let text = fs::read(&journal).expect("a journal");
    fs::remove_file(&journal).expect("our own");
    symlink(folder.0.join("boot/grub/grub.cfg"), &journal).expect("a link");
    assert!(matches!(undo(&mut folder.machine(), Which::Last, false), Err(Refusal::Journal(_))));
    fs::remove_file(&journal).expect("our own");
    assert_eq!(everything(&folder.0), after);
    // Base64 that is none, and a number that no journal has.
    let damaged = String::from_utf8_lossy(&text).replace("\"base64\":\"", "\"base64\":\"*");
    fs::write(&journal, damaged).expect("room");
    let restored = undo(&mut folder.machine(), Which::Last, true).expect("told");
    assert!(restored.iter().any(|one| matches!(&one.outcome, Outcome::Failed(why) if why.contains("damaged"))));
    fs::write(&journal, &text).expect("room");
    undo(&mut folder.machine(), Which::Last, true).expect("undone");
    folder.put(&format!("{STATE}/{}.journal", u64::MAX), "{}");
    assert!(write(&folder, Fault::None).is_err());
}

/// As versions wrote it that kept no end of a text.
#[test]
fn an_earlier_versions_journal_is_not_put_back_as_if_it_were_whole() {
    let folder = Folder::new("earlier");
    folder.put("etc/sysctl.d/90-nearside.conf", "new");
    let boot = folder.says(BOOT);
    let entry = "{\"write\":{\"path\":\"etc/sysctl.d/90-nearside.conf\",\"form\":\"words\",\"found\":\"old\",\
                 \"wanted\":\"new\",\"file\":true}}";
    let begin = format!("{{\"begin\":{{\"plan\":\"1\",\"boot\":\"{boot}\",\"network\":\"\",\"try_seconds\":null}}}}");
    folder.put(&format!("{STATE}/00000001.journal"), &format!("{begin}\n{entry}\n\"applied\""));
    fs::set_permissions(folder.0.join(STATE), fs::Permissions::from_mode(0o700)).expect("our own");
    let restored = undo(&mut folder.machine(), Which::Last, false).expect("told");
    assert!(matches!(&restored[0].outcome, Outcome::Failed(why) if why.contains("--force")), "{restored:?}");
    assert_eq!(folder.says("etc/sysctl.d/90-nearside.conf"), "new");
    undo(&mut folder.machine(), Which::Last, true).expect("forced");
    assert_eq!(folder.says("etc/sysctl.d/90-nearside.conf"), "old");
}

/// The root is a link to a folder, or none.
#[test]
fn the_root_is_where_its_name_leads() {
    let folder = Folder::new("named");
    let beside = Folder::new("named-beside");
    let link = beside.0.join("root");
    symlink(&folder.0, &link).expect("a link");
    assert_eq!(Evidence::take(&link).expect("a machine"), folder.evidence());
    assert!(Tree::at(&link).read(BOOT).is_ok());
    assert!(Tree::at(&beside.0.join("none")).read(BOOT).is_err());
    assert!(Evidence::take(&beside.0.join("none")).is_err());
}
