//! Arguments of the kernel's command line, as a second entry of grub's menu
//! that is booted once: if the machine does not come up, the next boot is the
//! usual one.

use crate::machine::Machine;
use crate::persist::PersistedFile;
use crate::plan::{Argument, TuningPlan};
use crate::refusal::Refusal;
use audit::Evidence;

/// The entry's title and id.
const ENTRY: &str = "nearside-once";
/// Lines around what is ours in a file that others may write to.
const BEGIN: &str = "### BEGIN nearside ###";
const END: &str = "### END nearside ###";
/// A block of grub's environment is this long, and padded with `#`.
const BLOCK: usize = 1024;
const SIGNATURE: &[u8] = b"# GRUB Environment Block\n";

/// Files by which the next boot, and only it, has the plan's arguments.
///
/// # Errors
/// [`Refusal::Empty`] without arguments, [`Refusal::Boot`] where grub's entry
/// cannot be told or grub could not take the choice back.
pub fn boot_once(
    machine: &impl Machine,
    evidence: &Evidence,
    plan: &TuningPlan,
) -> Result<Vec<PersistedFile>, Refusal> {
    if plan.arguments.is_empty() {
        return Err(Refusal::Empty);
    }
    let refused = |why: &str| Refusal::Boot(why.to_owned());
    let running = evidence.get("proc/cmdline").unwrap_or_default();
    let kernel = running.split_whitespace().find_map(|word| word.strip_prefix("BOOT_IMAGE="));
    let kernel =
        kernel.ok_or_else(|| refused("/proc/cmdline has no BOOT_IMAGE: another loader than grub started it"))?;
    // grub names a disk before the path: (hd0,gpt2)/vmlinuz-6.12.
    let kernel = kernel.rsplit_once(')').map_or(kernel, |(_, path)| path);
    writable(evidence)?;
    let (folder, entry) = match file(machine, "boot/grub/grub.cfg")? {
        Some(menu) => {
            let entry = menu_entry(&String::from_utf8_lossy(&menu), kernel)
                .ok_or_else(|| refused("grub.cfg has no entry of the running kernel"))?;
            let own = ours(as_written(&entry)?, &plan.arguments, &plan.id);
            let path = "boot/grub/custom.cfg";
            let base = file(machine, path)?;
            let mut bytes = without_ours(base.as_deref().unwrap_or_default());
            bytes.extend_from_slice(own.as_bytes());
            ("boot/grub", PersistedFile { path: path.to_owned(), bytes, base: Some(base) })
        }
        None => {
            let (path, text) = loader_entry(machine, kernel)?
                .ok_or_else(|| refused("neither boot/grub/grub.cfg nor boot/loader/entries has the running kernel"))?;
            let bytes = with_options(as_written(&text)?, &plan.arguments).into_bytes();
            let base = Some(file(machine, &path)?);
            ("boot/grub2", PersistedFile { path, bytes, base })
        }
    };
    let path = format!("{folder}/grubenv");
    let base = file(machine, &path)?;
    let bytes = next_entry(base.as_deref().unwrap_or(SIGNATURE))
        .ok_or_else(|| refused("grubenv is no block of grub's environment, or is full"))?;
    Ok(vec![entry, PersistedFile { path, bytes, base: Some(base) }])
}

/// A file of grub's; `None` only where there is none.
fn file(machine: &impl Machine, path: &str) -> Result<Option<Vec<u8>>, Refusal> {
    let found = machine.file(path).map_err(|why| Refusal::File { path: path.to_owned(), why })?;
    Ok(found.map(|found| found.bytes))
}

/// An entry that is copied: what was no text cannot be.
fn as_written(entry: &str) -> Result<&str, Refusal> {
    match entry.contains(char::REPLACEMENT_CHARACTER) {
        false => Ok(entry),
        true => Err(Refusal::Boot("the running kernel's entry has bytes that are no UTF-8".to_owned())),
    }
}

/// Refuses where grub can read its environment but not write it: the entry
/// would then be booted for good.
fn writable(evidence: &Evidence) -> Result<(), Refusal> {
    let mounts = evidence.get("proc/mounts").unwrap_or_default();
    let of = |point: &str| {
        let fields = mounts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        fields.rev().find(|fields| fields.get(1) == Some(&point))
    };
    let Some(mount) = of("/boot/grub").or_else(|| of("/boot")).or_else(|| of("/")) else {
        return Err(Refusal::Boot("it cannot be told on which file system grub's environment is".to_owned()));
    };
    let (device, kind) = (mount.first().copied().unwrap_or_default(), mount.get(2).copied().unwrap_or_default());
    let plain = ["/dev/sd", "/dev/nvme", "/dev/vd", "/dev/xvd", "/dev/hd", "/dev/mmcblk", "/dev/disk/", "/dev/root"];
    let simple =
        plain.iter().any(|start| device.starts_with(start)) && ["ext2", "ext3", "ext4", "xfs", "vfat"].contains(&kind);
    match simple {
        true => Ok(()),
        false => Err(Refusal::Boot(format!(
            "grub cannot write its environment on {kind} of {device}, so it would boot the entry again and again: \
             add the arguments to /etc/default/grub yourself"
        ))),
    }
}

/// The first entry of a menu that starts this kernel, recovery ones aside.
fn menu_entry(menu: &str, kernel: &str) -> Option<String> {
    let mut lines = menu.lines();
    while let Some(line) = lines.next() {
        if !line.trim_start().starts_with("menuentry ") {
            continue;
        }
        let (mut body, mut depth) = (String::new(), braces(line));
        for line in lines.by_ref() {
            depth += braces(line);
            if depth <= 0 {
                break;
            }
            body.push_str(line.trim());
            body.push('\n');
        }
        let starts = |line: &str| {
            let mut words = line.split_whitespace();
            words.next().is_some_and(|word| word.starts_with("linux"))
                && words.next().is_some_and(|path| path == kernel || path.ends_with(kernel))
                && !words.any(|word| ["single", "recovery"].contains(&word))
        };
        if body.lines().any(starts) {
            return Some(body);
        }
    }
    None
}

/// Blocks that a line opens, less those that it closes; quotes and `${…}` of
/// grub's language are in balance.
fn braces(line: &str) -> i32 {
    let count = |brace: char| i32::try_from(line.matches(brace).count()).unwrap_or(i32::MAX);
    count('{') - count('}')
}

/// The entry, with the plan's arguments, between our own lines.
fn ours(entry: &str, arguments: &[Argument], plan: &str) -> String {
    let body: String = entry
        .lines()
        .map(|line| match line.starts_with("linux") {
            true => format!("\t{}\n", with_arguments(line, arguments)),
            false => format!("\t{line}\n"),
        })
        .collect();
    format!(
        "{BEGIN}\n# plan {plan}; nearside node undo removes it\nmenuentry '{ENTRY}' --id {ENTRY} \
            {{\n{body}}}\n{END}\n"
    )
}

/// A line of words, with each argument in place of what there was of it.
fn with_arguments(line: &str, arguments: &[Argument]) -> String {
    let named = |word: &str| {
        let name = word.split('=').next().unwrap_or(word);
        arguments.iter().any(|argument| argument.name == name)
    };
    let mut words: Vec<String> = line.split_whitespace().filter(|word| !named(word)).map(str::to_owned).collect();
    words.extend(arguments.iter().filter_map(Argument::word));
    words.join(" ")
}

/// What others wrote into a file, to the byte; what they left without a line end
/// gets one.
fn without_ours(text: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut inside = false;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        inside |= bare == BEGIN.as_bytes();
        if !inside {
            kept.extend_from_slice(line);
        }
        inside &= bare != END.as_bytes();
    }
    if kept.last().is_some_and(|byte| *byte != b'\n') {
        kept.push(b'\n');
    }
    kept
}

/// The entry of the Boot Loader Specification that starts this kernel: a copy
/// of it gets a name of its own.
fn loader_entry(machine: &impl Machine, kernel: &str) -> Result<Option<(String, String)>, Refusal> {
    const FOLDER: &str = "boot/loader/entries";
    let Some(name) = kernel.rsplit('/').next() else { return Ok(None) };
    let own = format!("{ENTRY}.conf");
    for found in machine.names(FOLDER).into_iter().filter(|found| found.ends_with(".conf") && *found != own) {
        let Some(bytes) = file(machine, &format!("{FOLDER}/{found}"))? else { continue };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let linux = text.lines().find_map(|line| line.strip_prefix("linux "));
        if linux.is_some_and(|path| path.trim().rsplit('/').next() == Some(name)) {
            return Ok(Some((format!("{FOLDER}/{own}"), text)));
        }
    }
    Ok(None)
}

fn with_options(text: &str, arguments: &[Argument]) -> String {
    let line = |line: &str| match line.split_whitespace().next() {
        Some("title") => format!("title {ENTRY}\n"),
        Some("options") => format!("{}\n", with_arguments(line, arguments)),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The environment with the entry chosen for one boot: grub takes the choice
/// back before it starts the kernel. What else stands there is kept to the byte.
fn next_entry(block: &[u8]) -> Option<Vec<u8>> {
    let body = block.strip_prefix(SIGNATURE)?;
    let mut text = SIGNATURE.to_vec();
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        // Padding has no end of a line.
        let padding = line.starts_with(b"#") && !line.ends_with(b"\n");
        if !padding && !line.starts_with(b"next_entry=") && line != b"\n" {
            text.extend_from_slice(line);
        }
    }
    text.extend_from_slice(format!("next_entry={ENTRY}\n").as_bytes());
    (text.len() <= BLOCK).then(|| {
        text.resize(BLOCK, b'#');
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MENU: &str = "set x=1\nmenuentry 'Debian' --class debian $menuentry_id_option 'a' \
        {\n\tload_video\n\tif [ x$feature = xy ]; \
        then insmod x; fi\n\tlinux\t/vmlinuz-6.12 root=/dev/sda1 ro quiet \
        idle=poll\n\tinitrd\t/initrd.img-6.12\n}\nsubmenu 'more' \
        {\n\tmenuentry 'old' {\n\t\tlinux /vmlinuz-6.1 root=/dev/sda1\n\t}\n\tmenuentry 'recovery' {\n\t\tlinux \
        /vmlinuz-6.12 single\n\t}\n}\n";

    fn argument(name: &str, value: Option<&str>) -> Argument {
        Argument { name: name.to_owned(), value: value.map(str::to_owned), why: String::new() }
    }

    #[test]
    fn the_running_kernels_entry_is_copied_with_arguments() {
        let entry = menu_entry(MENU, "/vmlinuz-6.12").expect("an entry");
        assert!(entry.contains("initrd") && !entry.contains("menuentry"), "{entry}");
        let arguments = [argument("idle", None), argument("nohz_full", Some("2-3")), argument("nosmt", Some("nosmt"))];
        let own = ours(&entry, &arguments, "1");
        assert!(own.contains("linux /vmlinuz-6.12 root=/dev/sda1 ro quiet nohz_full=2-3 nosmt\n"), "{own}");
        assert_eq!(menu_entry(MENU, "/vmlinuz-5"), None);
        assert!(menu_entry(MENU, "/vmlinuz-6.1").is_some_and(|entry| entry.contains("6.1 ")));
        // Written again it stands there once, and others' entries stay.
        let once = [b"# M\xfcne\n", own.as_bytes(), b"last"].concat();
        assert_eq!(without_ours(&once), b"# M\xfcne\nlast\n");
    }

    #[test]
    fn the_environment_keeps_its_length_and_others_variables() {
        let block = |variables: &[u8]| {
            let mut block = [SIGNATURE, variables].concat();
            block.resize(BLOCK, b'#');
            next_entry(&block)
        };
        let block = block(b"saved_entry=M\xfc\nnext_entry=b\n").expect("a block");
        assert_eq!(block.len(), BLOCK);
        let start = [SIGNATURE, b"saved_entry=M\xfc\nnext_entry=nearside-once\n#"].concat();
        assert!(block.starts_with(&start), "{block:?}");
        assert_eq!(next_entry(b"something else"), None);
        assert_eq!(next_entry(&[SIGNATURE, b"a=", &[b'x'; 2_000], b"\n"].concat()), None);
        assert_eq!(next_entry(SIGNATURE).map(|block| block.len()), Some(BLOCK));
    }

    #[test]
    fn a_file_system_that_grub_cannot_write_is_refused() {
        let on = |mounts: &str| writable(&Evidence::of(&[("proc/mounts", mounts)]));
        assert!(on("/dev/sda1 / ext4 rw 0 0").is_ok());
        assert!(on("/dev/mapper/vg-root / ext4 rw 0 0\n/dev/nvme0n1p2 /boot ext4 rw 0 0").is_ok());
        assert!(on("/dev/mapper/vg-root / ext4 rw 0 0").is_err());
        assert!(on("/dev/sda1 / btrfs rw 0 0").is_err());
        assert!(on("/dev/md0 /boot ext4 rw 0 0").is_err());
        assert!(on("").is_err());
    }
}
