//! Whether a machine is a container.

/// Files that containers have, and whose.
const MARKS: &[(&str, &str)] = &[
    ("run/.containerenv", "podman"),
    (".dockerenv", "docker"),
    ("run/systemd/container", "systemd-nspawn or another manager"),
];

/// What a user namespace maps that is the machine's own.
const WHOLE: [&str; 3] = ["0", "0", "4294967295"];

/// Whose container this is, if it is one: by the marks that containers carry, where it is not a whole machine, by
/// the first process's environment (man 1 systemd-detect-virt), and by the user namespace. `read` has what a file
/// below the root says, and `None` where it is missing or may not be read.
#[must_use]
pub fn container(read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let marked = MARKS.iter().find(|(path, _)| read(path).is_some());
    if let Some((_, by)) = marked.filter(|_| !is_whole_machine(&read)) {
        return Some((*by).to_owned());
    }
    // The first process's environment is root's to read, and in no recording.
    let environment = read("proc/1/environ").unwrap_or_default();
    if let Some(by) = environment.split('\0').find_map(|pair| pair.strip_prefix("container=")) {
        return Some(by.chars().filter(|char| char.is_ascii_graphic()).take(40).collect());
    }
    let map = read("proc/self/uid_map")?;
    (!map.split_whitespace().eq(WHOLE)).then(|| "a user namespace of its own".to_owned())
}

/// Whether the kernel's threads are seen, and the first process's mounts are
/// this one's: a virtual machine may have been made of a container's image,
/// with the file in it that marks containers.
fn is_whole_machine(read: impl Fn(&str) -> Option<String>) -> bool {
    let mounts = |process: &str| read(&format!("proc/{process}/mountinfo")).filter(|text| !text.is_empty());
    read("proc/2/comm").is_some_and(|comm| comm.trim() == "kthreadd")
        && mounts("1").is_some_and(|first| mounts("self") == Some(first))
}
