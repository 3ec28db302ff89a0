//! What is a container, and what only looks like one.

use super::server;
use crate::Role;

/// A virtual machine made of a container's image has the image's mark, and is none; what is recorded says which.
#[test]
fn a_mark_alone_makes_no_container_of_a_whole_machine() {
    let of = |files: &[(&str, &str)]| {
        let evidence = files.iter().fold(server(), |evidence, (path, text)| evidence.with(path, text));
        let evidence = evidence.with("proc/1/comm", "systemd");
        let report = crate::machine(&evidence, Role::WebKernel);
        let row = report.rows.iter().find(|row| row.key == "container").expect("a row");
        row.value.clone()
    };
    let image = [(".dockerenv", ""), ("proc/2/comm", "kthreadd"), ("proc/1/mountinfo", "22 1 /")];
    let with = |more: &[(&'static str, &'static str)]| [&image[..], more].concat();
    assert_eq!(of(&with(&[("proc/self/mountinfo", "22 1 /")])), "none");
    // Another mount namespace than the first process's, and a recording that has no mounts.
    assert_eq!(of(&with(&[("proc/self/mountinfo", "700 1 /")])), "docker");
    assert_eq!((of(&image[..1]), of(&image[1..2])), ("docker".to_owned(), "none".to_owned()));
    assert_eq!(of(&[("run/systemd/container", "lxc")]), "systemd-nspawn or another manager");
    assert_eq!(of(&[("proc/self/uid_map", "0 100000 65536")]), "a user namespace of its own");
    let recorded: Vec<bool> = ["proc/1/mountinfo", "proc/self/mountinfo", "proc/2/comm", "proc/self/uid_map"]
        .map(|path| crate::Evidence::take(std::path::Path::new("/")).is_ok_and(|here| here.read(path).is_some()))
        .to_vec();
    assert_eq!(recorded, [true; 4]);
}
