//! Where results and pages are written: as a whole or not at all, and never onto what they are made of.

use results::{expect_writable, refuse_onto, write_whole};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("nearside-place-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        Self(folder)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn count(&self) -> usize {
        fs::read_dir(&self.0).expect("a folder").count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).expect("read")
}

#[test]
fn a_file_is_old_or_new_and_nobody_elses_is_touched() {
    let folder = Folder::new("whole");
    let file = folder.at("page.html");
    fs::write(folder.at("page.part"), "mine").expect("written");
    write_whole(&file, "one").expect("written");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("set");
    write_whole(&file, "two").expect("written");
    assert_eq!((read(&file), read(&folder.at("page.part")), folder.count()), ("two".into(), "mine".into(), 2));
    assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o640);
    let told = write_whole(&folder.at("missing/page.html"), "x").expect_err("no folder").to_string();
    assert!(told.contains("cannot write") && told.contains("missing/page.html"), "{told}");
    assert!(write_whole(&folder.0, "x").is_err());
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_written() {
    let folder = Folder::new("link");
    fs::write(folder.at("real"), "old").expect("written");
    for (link, leads) in [("link", "real"), ("dangling", "made")] {
        symlink(leads, folder.at(link)).expect("a link");
        write_whole(&folder.at(link), "new").expect("written");
        assert!(fs::symlink_metadata(folder.at(link)).expect("there").is_symlink());
        assert_eq!(read(&folder.at(leads)), "new");
    }
    assert_eq!(folder.count(), 4);
}

#[test]
fn what_is_no_file_is_written_to_and_not_replaced() {
    let folder = Folder::new("pipe");
    let pipe = folder.at("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    expect_writable(&pipe).expect("nobody is waited for");
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).expect("read")
    });
    write_whole(&pipe, "through").expect("written");
    assert_eq!(reader.join().expect("read"), "through");
    assert!(fs::metadata(&pipe).expect("there").file_type().is_fifo());
    // Where there is no room, nothing is replaced either (full(4)).
    assert!(write_whole(Path::new("/dev/full"), "x").is_err());
}

#[test]
fn what_a_process_has_open_keeps_what_was_written_to_it() {
    use std::os::fd::AsRawFd;
    let folder = Folder::new("open");
    let mut open = File::create(folder.at("said")).expect("made");
    open.write_all(b"before ").expect("written");
    let descriptor = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
    symlink(&descriptor, folder.at("link")).expect("a link");
    write_whole(&descriptor, "page ").expect("written");
    write_whole(&folder.at("link"), "page").expect("written");
    assert_eq!(read(&folder.at("said")), "before page page");
}

#[test]
fn what_is_written_later_is_looked_at_now_and_nothing_is_left_behind() {
    let folder = Folder::new("later");
    let told = expect_writable(Path::new("/nowhere/at/all")).expect_err("no folder").to_string();
    assert!(told.contains("/nowhere/at/all"), "{told}");
    let told = expect_writable(&folder.0).expect_err("a folder").to_string();
    assert!(told.contains("Is a directory"), "{told}");
    expect_writable(&folder.at("new.html")).expect("it could be made");
    assert_eq!(folder.count(), 0);
    fs::write(folder.at("old.html"), "old").expect("written");
    expect_writable(&folder.at("old.html")).expect("it could be replaced");
    assert_eq!((read(&folder.at("old.html")), folder.count()), ("old".into(), 1));
}

/// What is in a page is a third longer than by itself.
#[test]
fn a_page_of_a_long_result_is_read_as_the_result_is() {
    let folder = Folder::new("long");
    let mut result =
        serde_json::json!({ "kind": "load-sweep", "schema": 1, "rows": [{ "procs": 1, "connections": 1 }] });
    result["pad"] = "x".repeat(50 << 20).into();
    let page = results::page_of(&result).expect("a page").render();
    assert!(page.len() as u64 > results::RESULT_LIMIT);
    write_whole(&folder.at("long.html"), &page).expect("written");
    assert_eq!(results::read(&folder.at("long.html")).expect("read").len(), 1);
    fs::write(folder.at("long.json"), vec![b' '; 65 << 20]).expect("written");
    let told = results::read(&folder.at("long.json")).expect_err("too long").to_string();
    assert!(told.contains("longer than 64 MiB"), "{told}");
}

/// A folder is what is read in it.
#[test]
fn no_page_is_written_onto_a_result_of_a_folder_that_it_is_made_of() {
    let folder = Folder::new("onto");
    fs::write(folder.at("results.json"), "{}").expect("written");
    let onto = |name: &str| refuse_onto(&folder.at(name), &[&folder.0]);
    assert!(onto("results.json").is_err_and(|why| why.to_string().contains("onto itself")));
    assert!(onto("report.html").is_ok() && onto("../other.json").is_ok());
}
