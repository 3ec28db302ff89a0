//! Folders as somebody might fill them who means harm.

use crate::*;
use rustix::fs::XattrFlags;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::atomic::AtomicBool;

/// A folder with `root` in it and `host` beside it, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearside-sysroot-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("root/sub/deep")).expect("a temporary folder");
        fs::create_dir_all(path.join("host")).expect("a temporary folder");
        let folder = Self(path);
        fs::write(folder.0.join("host/secret"), "secret\n").expect("a file");
        folder
    }

    fn inside(&self, path: &str) -> PathBuf {
        self.0.join("root").join(path)
    }

    fn host(&self) -> PathBuf {
        self.0.join("host/secret")
    }

    /// By the kernel, and name by name.
    fn both(&self) -> [Sysroot; 2] {
        let slow = Sysroot::at(&self.inside(""));
        slow.openat2.store(false, Ordering::Relaxed);
        [Sysroot::at(&self.inside("")), slow]
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(root: &Sysroot, path: &str) -> Result<String, io::ErrorKind> {
    root.text(path, 1 << 10).map_err(|why| why.kind())
}

#[test]
fn no_link_leads_out_of_the_root() {
    let folder = Folder::new("links");
    let host = folder.host();
    symlink(&host, folder.inside("absolute")).expect("a link");
    symlink("../host/secret", folder.inside("beside")).expect("a link");
    symlink("../../../../../../../../etc/passwd", folder.inside("sub/up")).expect("a link");
    symlink("/", folder.inside("sub/top")).expect("a link");
    symlink("loop", folder.inside("loop")).expect("a link");
    symlink("sub/top/sub/deep", folder.inside("round")).expect("a link");
    fs::write(folder.inside("sub/deep/file"), "inside").expect("a file");
    // Where links of a usual machine end: at the same place below the root.
    fs::create_dir_all(folder.inside("etc")).expect("a folder");
    fs::write(folder.inside("etc/passwd"), "of the root").expect("a file");
    let missing = Err(io::ErrorKind::NotFound);
    for root in folder.both() {
        assert_eq!(text(&root, "absolute"), missing);
        assert_eq!(text(&root, "beside"), missing);
        assert_eq!(text(&root, "sub/up"), Ok("of the root".into()));
        assert_eq!(text(&root, "../../etc/passwd"), Ok("of the root".into()));
        assert_eq!(text(&root, "/round/file"), Ok("inside".into()));
        assert_eq!(text(&root, "sub/top/round/../deep/file"), Ok("inside".into()));
        assert!(root.text("loop", 9).is_err_and(|why| why.raw_os_error() == Some(Errno::LOOP.raw_os_error())));
        assert_eq!(root.names("sub/top/sub").expect("a folder"), ["deep", "top", "up"]);
        for path in ["absolute", "beside"] {
            assert!(root.open_to_set(path).is_err() && root.may_set(path).is_err());
            // What is put there is put below the root, or nowhere.
            if let Ok(named) = root.named(path) {
                named.replace(b"mine", None).expect("room");
            }
        }
        assert_eq!(root.link("absolute").expect("a link"), host.display().to_string());
    }
    assert_eq!(fs::read_to_string(host).expect("a file"), "secret\n");
}

/// Nobody is waited for, no device is opened, nothing is read without end.
#[test]
fn only_plain_files_are_opened() {
    let folder = Folder::new("kinds");
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, folder.inside("pipe"), FileType::Fifo, mode, 0).expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(folder.inside("socket")).expect("a socket");
    // It takes a right: /dev/full.
    let device = rustix::fs::makedev(1, 7);
    let _ = rustix::fs::mknodat(CWD, folder.inside("device"), FileType::CharacterDevice, mode, device);
    symlink("pipe", folder.inside("link")).expect("a link");
    let large = fs::File::create(folder.inside("large")).expect("a file");
    large.set_len(1 << 40).expect("a file without blocks");
    for root in folder.both() {
        for path in ["pipe", "socket", "device", "link", "sub"] {
            let Some(kind) = root.kind(path) else { continue };
            assert_ne!(kind, FileKind::File);
            let refused = |why: io::Error| why.kind() == io::ErrorKind::InvalidInput;
            assert!(root.read(path, 9).is_err_and(refused), "{path}");
            assert!(root.open_to_set(path).is_err_and(refused), "{path}");
            assert!(root.named(path).and_then(|named| named.read(9)).is_err(), "{path}");
        }
        assert!(root.may_use("pipe") && root.may_use("large") && !root.may_use("none"));
        assert_eq!(root.read("large", 1 << 20).expect("zeros").len(), 1 << 20);
        let whole = root.named("large").and_then(|named| named.read(1 << 20));
        assert!(whole.is_err_and(|why| why.kind() == io::ErrorKind::FileTooLarge));
    }
}

#[test]
fn a_hard_link_is_not_written_to() {
    let folder = Folder::new("hard");
    fs::hard_link(folder.host(), folder.inside("swappiness")).expect("a hard link");
    for root in folder.both() {
        assert!(root.may_set("swappiness").is_err());
        assert!(root.open_to_set("swappiness").is_err_and(|why| why.to_string().contains("hard link")));
        assert!(root.named("swappiness").and_then(|named| named.read(99)).is_err());
    }
    assert_eq!(fs::read_to_string(folder.host()).expect("a file"), "secret\n");
}

/// A folder is a folder of the root one moment and a link to the host's the next.
#[test]
fn what_is_swapped_meanwhile_leads_nowhere() {
    let folder = Folder::new("swap");
    fs::write(folder.inside("sub/secret"), "inside\n").expect("a file");
    let (sub, aside, link) = (folder.inside("sub"), folder.inside("aside"), folder.inside("link"));
    symlink(folder.0.join("host"), &link).expect("a link");
    // Also where something does not hold.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = fs::rename(&sub, &aside);
                let _ = fs::rename(&link, &sub);
                let _ = fs::rename(&sub, &link);
                let _ = fs::rename(&aside, &sub);
            }
        });
        for root in folder.both() {
            let (mut found, mut looks) = (0, 0);
            // Until both were seen often enough for the swap to have come between; how long that
            // takes is the machine's to decide.
            while looks < 4_000 || found == 0 {
                looks += 1;
                match root.text("sub/secret", 99) {
                    Ok(text) => {
                        assert_eq!(text, "inside\n");
                        found += 1;
                    }
                    Err(why) => assert_ne!(why.kind(), io::ErrorKind::InvalidInput),
                }
                if let Ok(mut file) = root.open_to_set("sub/secret") {
                    file.write_all(b"inside\n").expect("room");
                }
            }
        }
    });
    assert_eq!(fs::read_to_string(folder.host()).expect("a file"), "secret\n");
}

/// A folder that was opened stays the same, whatever its name means later.
#[test]
fn the_root_itself_can_be_replaced() {
    let folder = Folder::new("root");
    fs::write(folder.inside("secret"), "inside\n").expect("a file");
    let roots = folder.both();
    fs::rename(folder.0.join("root"), folder.0.join("old")).expect("a folder");
    symlink(folder.0.join("host"), folder.0.join("root")).expect("a link");
    for root in roots {
        assert_eq!(text(&root, "secret"), Ok("inside\n".into()));
    }
    let none = Sysroot::at(&folder.0.join("none"));
    assert_eq!(text(&none, "secret"), Err(io::ErrorKind::NotFound));
}

/// Where the kernel is the judge: trees of folders, links and files by chance,
/// and paths through them.
#[test]
fn name_by_name_is_as_the_kernel_has_it() {
    let mut seed = 1_u64;
    let mut below = |most: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % most as u64) as usize
    };
    const NAMES: [&str; 7] = ["a", "b", "c", "..", ".", "", "none"];
    let mut led = 0;
    for tree in 0..30 {
        let folder = Folder::new(&format!("chance{tree}"));
        let mut path = |parts: usize| {
            let slash = if below(4) == 0 { "/" } else { "" };
            let parts: Vec<&str> = (0..=below(parts)).map(|_| NAMES[below(NAMES.len())]).collect();
            format!("{slash}{}", parts.join("/"))
        };
        let made: Vec<(String, String)> = (0..14).map(|_| (path(3), path(5))).collect();
        for (at, (place, target)) in made.iter().enumerate() {
            let place = folder.inside(place.trim_start_matches('/').replace("..", "d").as_str());
            let _ = match at % 3 {
                0 => fs::create_dir_all(&place),
                1 => symlink(target, &place),
                _ => fs::write(&place, place.to_string_lossy().as_bytes()),
            };
        }
        let [kernel, names] = folder.both();
        for _ in 0..200 {
            let path = path(6);
            let seen = |root: &Sysroot| {
                let entry = root.status(&path).map(|stat| (stat.st_dev, stat.st_ino));
                (entry, root.text(&path, 1 << 10).map_err(|why| why.kind()), root.names(&path).ok())
            };
            let (one, other) = (seen(&kernel), seen(&names));
            assert_eq!(one, other, "{path} in tree {tree}: {made:?}");
            led += usize::from(one.1.is_ok());
        }
    }
    assert!(led > 100, "{led} paths led to a file");
}

#[test]
fn a_file_is_replaced_with_its_owner_rights_labels_and_links() {
    let folder = Folder::new("replace");
    fs::write(folder.inside("sub/deep/block"), b"old \xff\n").expect("a file");
    fs::set_permissions(folder.inside("sub/deep/block"), fs::Permissions::from_mode(0o640)).expect("our own");
    let labelled =
        rustix::fs::setxattr(folder.inside("sub/deep/block"), "user.a", b"b\0c", XattrFlags::empty()).is_ok();
    // Only root gives files away.
    let given = std::os::unix::fs::chown(folder.inside("sub/deep/block"), Some(65_534), Some(7)).is_ok();
    symlink("deep/block", folder.inside("sub/relative")).expect("a link");
    for root in folder.both() {
        let named = root.named("sub/relative").expect("a folder");
        let before = named.read(99).expect("a file").expect("is there");
        assert_eq!(before.bytes, b"old \xff\n");
        named.replace(b"new", Some(&before.attributes)).expect("room");
        let after = named.read(99).expect("a file").expect("is there");
        assert_eq!((after.bytes.as_slice(), &after.attributes), (b"new".as_slice(), &before.attributes));
        assert_eq!(after.attributes.mode, 0o640);
        assert_eq!(after.attributes.labels.contains_key("user.a"), labelled);
        assert!(!given || (after.attributes.owner, after.attributes.group) == (65_534, 7));
        assert!(fs::symlink_metadata(folder.inside("sub/relative")).expect("a link").is_symlink());
        named.replace(&before.bytes, Some(&before.attributes)).expect("room");
        assert_eq!(named.read(99).expect("a file"), Some(before));
    }
    assert_eq!(fs::read_dir(folder.inside("sub/deep")).expect("a folder").count(), 1, "nothing lies about");
}

/// What cannot be kept is said, and the file is as it was.
#[test]
fn what_cannot_be_kept_changes_nothing() {
    let folder = Folder::new("kept");
    fs::write(folder.inside("file"), "old").expect("a file");
    let root = &folder.both()[0];
    let named = root.named("file").expect("a folder");
    let before = named.read(99).expect("a file").expect("is there");
    let mut labels = before.attributes.labels.clone();
    labels.insert("none.such".to_owned(), b"x".to_vec());
    let other = FileAttributes { labels, ..before.attributes.clone() };
    let why = named.replace(b"new", Some(&other)).expect_err("no file system has it");
    assert!(why.to_string().contains("none.such could not be kept"), "{why}");
    let mut labels = before.attributes.labels.clone();
    labels.insert("security.ima".to_owned(), vec![3, 2]);
    let why = named.replace(b"new", Some(&FileAttributes { labels, ..before.attributes.clone() }));
    assert!(why.is_err_and(|why| why.to_string().contains("signed")));
    assert_eq!(named.read(99).expect("a file"), Some(before));
    assert_eq!(root.names("").expect("a folder"), ["file", "sub"]);
}

#[test]
fn a_private_folder_is_ones_own() {
    let folder = Folder::new("private");
    let user = fs::metadata(folder.inside("sub")).expect("a folder").uid();
    fs::set_permissions(folder.inside("sub"), fs::Permissions::from_mode(0o755)).expect("our own");
    symlink("sub", folder.inside("link")).expect("a link");
    symlink("../../host/secret", folder.inside("sub/link")).expect("a link");
    let root = &folder.both()[0];
    let own = root.private("sub", user).expect("it is ours");
    assert!(root.private("link", user).is_err());
    assert!(root.private("sub", user + 1).is_err());
    assert!(root.private("none", user).is_err_and(|why| why.kind() == io::ErrorKind::NotFound));
    // A link in it leads to its own root, which has no such file.
    assert_eq!(text(&own, "link"), Err(io::ErrorKind::NotFound));
    own.named("new").and_then(|named| named.append(user)).expect("a file").write_all(b"x").expect("room");
    assert_eq!(fs::metadata(folder.inside("sub/new")).expect("a file").mode() & 0o777, 0o600);
    fs::hard_link(folder.host(), folder.inside("sub/hard")).expect("a hard link");
    assert!(own.named("hard").and_then(|named| named.append(user)).is_err());
    fs::set_permissions(folder.inside("sub"), fs::Permissions::from_mode(0o775)).expect("our own");
    assert!(root.private("sub", user).is_err());
}

#[test]
fn missing_folders_are_told_and_made() {
    let folder = Folder::new("made");
    let root = &folder.both()[1];
    let missing = root.missing_folders("sub/x/y/file").expect("told");
    assert_eq!(missing, ["sub/x", "sub/x/y"]);
    for path in &missing {
        root.make_folder(path, 0o755).expect("room");
        root.make_folder(path, 0o755).expect("it is there");
    }
    root.named("sub/x/y/file").and_then(|named| named.replace(b"1", None)).expect("room");
    assert!(root.named("sub/x/y").and_then(|named| named.remove()).is_err(), "it is not empty");
    root.named("sub/x/y/file").and_then(|named| named.remove()).expect("a file");
    root.named("sub/x/y").and_then(|named| named.remove()).expect("a folder");
    fs::write(folder.inside("plain"), "").expect("a file");
    assert!(root.missing_folders("plain/x/y").is_err());
    assert!(root.make_folder("plain", 0o755).is_err());
}
