//! Look-ups where the kernel has no `openat2`.

use super::*;
use std::os::unix::fs::symlink;

fn look(worker: &FileReader, path: &str) -> String {
    let found = worker.look_up(&Key::of(path.as_bytes()), None, 0);
    match found {
        Found::File(file) => String::from_utf8_lossy(&file.message[file.head_len..]).into_owned(),
        other => format!("{other:?}"),
    }
}

/// Before Linux 5.6, or where a sandbox forbids `openat2`.
#[test]
fn without_openat2_links_are_refused_and_files_are_found() {
    let root = std::env::temp_dir().join(format!("nearside-worker-{}", std::process::id()));
    std::fs::create_dir_all(root.join("site/a/b")).expect("directories");
    std::fs::write(root.join("secret"), "secret").expect("a file");
    std::fs::write(root.join("site/a/b/c.txt"), "c").expect("a file");
    std::fs::write(root.join("site/index.html"), "home").expect("a file");
    symlink("../secret", root.join("site/out")).expect("a link");
    symlink("a/b/c.txt", root.join("site/in")).expect("a link");
    symlink("a", root.join("site/dir")).expect("a link");
    symlink("..", root.join("site/a/up")).expect("a link");
    for symlinks in [Symlinks::Off, Symlinks::WithinRoot] {
        let directory = Directory { symlinks, ..Directory::new(root.join("site")) };
        let worker = FileReader::new(&directory, HeadWriter::new(0, |_, _, _| {})).expect("the root is there");
        worker.without_openat2();
        for (path, found) in [
            ("", "home"),
            ("index.html", "home"),
            ("a/b/c.txt", "c"),
            ("a/b", "Directory"),
            ("a/b/", "Forbidden"),
            ("a/none", "Missing"),
            ("index.html/x", "Missing"),
            ("out", "Forbidden"),
            ("in", "Forbidden"),
            ("dir/b/c.txt", "Forbidden"),
            ("a/up/a/b/c.txt", "Forbidden"),
        ] {
            assert_eq!(look(&worker, path), found, "{path}");
        }
    }
    std::fs::remove_dir_all(root).expect("removed");
}
