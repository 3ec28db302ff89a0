//! Shelves: by themselves, under helper threads, and below whole look-ups.

use super::*;
use crate::config::Directory;
use crate::target::Key;
use crate::worker::{FileReader, Found, Known};
use core::time::Duration;
use exchange::HeadWriter;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::SystemTime;

const KIB: usize = 1 << 10;

fn shared_content(bytes: usize, copies: usize) -> Arc<SharedContent> {
    SharedContent::new(&[0, 1], bytes, copies, Duration::from_secs(1))
}

/// A folder with files of known content, all of them old.
struct Site(PathBuf);

impl Site {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("nearside-shared_content-{name}-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        Self(root)
    }

    fn write(&self, name: &str, byte: u8, len: usize, seconds: u64) {
        // Renamed over, as who changes served files does.
        let draft = self.0.join(format!(".{name}"));
        fs::write(&draft, vec![byte; len]).unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(&draft).unwrap().set_modified(at).unwrap();
        fs::rename(&draft, self.0.join(name)).unwrap();
    }

    fn worker(&self, shared_content: &Arc<SharedContent>, domain: u16) -> FileReader {
        let directory = Directory { shared_content: Some(shared_content.member(domain)), ..Directory::new(&self.0) };
        FileReader::new(&directory, HeadWriter::new(0, |_, _, _| {})).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A look-up, and what a silo keeps of it.
fn look(worker: &FileReader, name: &str, known: Option<&Known>, now: u64) -> (&'static str, Option<Known>) {
    match worker.look_up(&Key::of(name.as_bytes()), known, now) {
        Found::File(file) => {
            let known = Known { identity: file.identity, racy: file.racy, content: file.content };
            ("file", Some(known))
        }
        Found::Unchanged => ("unchanged", None),
        Found::Large { .. } => ("large", None),
        other => panic!("{other:?}"),
    }
}

fn domain(known: &Option<Known>) -> u16 {
    known.as_ref().unwrap().content.as_ref().unwrap().domain
}

#[test]
fn silos_of_a_domain_have_one_copy_and_those_of_another_theirs_when_it_is_hot() {
    let site = Site::new("near");
    site.write("a", b'a', 20 * KIB, 1_000);
    let shared_content = shared_content(1 << 20, 1 << 20);
    let (one, two, far) =
        (site.worker(&shared_content, 0), site.worker(&shared_content, 0), site.worker(&shared_content, 1));
    let (_, first) = look(&one, "a", None, 5_000);
    let (_, second) = look(&two, "a", None, 5_000);
    let of = |known: &Option<Known>| Arc::clone(&known.as_ref().unwrap().content.as_ref().unwrap().bytes);
    assert!(Arc::ptr_eq(&of(&first), &of(&second)));
    assert_eq!(shared_content.held(), Held { bytes: 20 * KIB, copies: 0 });
    // At first it is sent from where it is; asked for again, it is copied.
    let (_, third) = look(&far, "a", None, 5_000);
    assert_eq!(domain(&third), 0);
    let (what, fourth) = look(&far, "a", third.as_ref(), 5_001);
    assert_eq!((what, domain(&fourth)), ("file", 1));
    assert_eq!(*of(&fourth), vec![b'a'; 20 * KIB]);
    assert_eq!(shared_content.held(), Held { bytes: 40 * KIB, copies: 20 * KIB });
    assert_eq!(look(&far, "a", fourth.as_ref(), 5_002).0, "unchanged");
    assert_eq!(look(&one, "a", first.as_ref(), 5_002).0, "unchanged");
    // A second silo of that domain finds the copy.
    let further = site.worker(&shared_content, 1);
    assert_eq!(domain(&look(&further, "a", None, 5_002).1), 1);
    assert_eq!(look(&further, "a", third.as_ref(), 5_002).0, "file");
}

#[test]
fn copies_have_a_limit_of_their_own() {
    let site = Site::new("copies");
    for name in ["a", "b"] {
        site.write(name, name.as_bytes()[0], 20 * KIB, 1_000);
    }
    let shared_content = shared_content(1 << 20, 30 * KIB);
    let (near, far) = (site.worker(&shared_content, 0), site.worker(&shared_content, 1));
    let mut known = Vec::new();
    for name in ["a", "b"] {
        look(&near, name, None, 5_000);
        known.push(look(&far, name, None, 5_000).1);
    }
    let copied = look(&far, "a", known[0].as_ref(), 5_001);
    assert_eq!((copied.0, domain(&copied.1)), ("file", 1));
    assert_eq!(look(&far, "b", known[1].as_ref(), 5_001).0, "unchanged");
    assert_eq!(shared_content.held().copies, 20 * KIB);
    // Once the copy is cold, and nobody has it, there is room for the other.
    drop(copied);
    known[0] = None;
    let (what, now_near) = look(&far, "b", known[1].as_ref(), 5_009);
    assert_eq!((what, domain(&now_near)), ("file", 1));
    assert_eq!(shared_content.held().copies, 20 * KIB);
}

#[test]
fn what_is_changed_is_read_again_by_all_and_the_old_goes() {
    let site = Site::new("changed");
    site.write("a", b'1', 20 * KIB, 1_000);
    let shared_content = shared_content(1 << 20, 1 << 20);
    let (one, two) = (site.worker(&shared_content, 0), site.worker(&shared_content, 1));
    let first = look(&one, "a", None, 5_000).1;
    let second = look(&two, "a", None, 5_000).1;
    site.write("a", b'2', 24 * KIB, 2_000);
    let (what, changed) = look(&two, "a", second.as_ref(), 5_001);
    assert_eq!((what, domain(&changed)), ("file", 1));
    let content = changed.as_ref().unwrap().content.clone().unwrap();
    assert_eq!(*content.bytes, vec![b'2'; 24 * KIB]);
    // The other finds what the one read.
    let (what, found) = look(&one, "a", first.as_ref(), 5_001);
    assert_eq!((what, domain(&found)), ("file", 1));
    // Old content of another domain that nobody asks for is off the shelf
    // when there is need; what is held counts.
    assert_eq!(shared_content.held().bytes, 44 * KIB);
    shared_content.clear();
    assert!(!content.is_kept());
    drop((first, second, changed, found, content));
    assert_eq!(shared_content.held(), Held::default());
}

#[test]
fn a_newcomer_is_streamed_until_there_is_room() {
    let site = Site::new("room");
    for name in ["a", "b", "c"] {
        site.write(name, name.as_bytes()[0], 20 * KIB, 1_000);
    }
    let shared_content = shared_content(50 * KIB, 0);
    let worker = site.worker(&shared_content, 0);
    let a = look(&worker, "a", None, 5_000).1;
    let b = look(&worker, "b", None, 5_000).1;
    assert_eq!(look(&worker, "c", None, 5_001).0, "large");
    // Both are asked for on and on: they stay.
    for now in 5_002..5_010 {
        assert_eq!(look(&worker, "a", a.as_ref(), now).0, "unchanged");
        assert_eq!(look(&worker, "b", b.as_ref(), now).0, "unchanged");
        assert_eq!(look(&worker, "c", None, now).0, "large");
    }
    // One is not any more. Off the shelf it is at once; the memory is free
    // when the silo has let go.
    let before = shared_content.taken_off();
    for now in 5_010..5_014 {
        assert_eq!(look(&worker, "b", b.as_ref(), now).0, "unchanged");
    }
    assert_eq!(look(&worker, "c", None, 5_014).0, "large");
    assert_eq!(shared_content.taken_off(), before + 1);
    assert!(!a.as_ref().unwrap().content.as_ref().unwrap().is_kept());
    assert!(shared_content.held().bytes <= 50 * KIB);
    drop(a);
    assert_eq!(look(&worker, "c", None, 5_015).0, "file");
    assert_eq!(shared_content.held().bytes, 40 * KIB);
}

#[test]
fn a_file_that_may_still_change_is_for_its_asker_alone() {
    let site = Site::new("racy");
    site.write("a", b'a', 20 * KIB, 5_000);
    let shared_content = shared_content(1 << 20, 1 << 20);
    let (one, two) = (site.worker(&shared_content, 0), site.worker(&shared_content, 0));
    let first = look(&one, "a", None, 5_001).1;
    assert!(first.as_ref().unwrap().racy);
    let second = look(&two, "a", None, 5_001).1;
    assert_eq!(shared_content.held().bytes, 40 * KIB);
    let again = look(&one, "a", first.as_ref(), 5_004).1;
    assert!(!again.as_ref().unwrap().racy);
    drop((first, second));
    assert_eq!(shared_content.held().bytes, 20 * KIB);
}

/// Helper threads of four silos in two domains, files that change, and less
/// room than all of it takes: nothing wrong is ever found, and the limits
/// hold at every moment.
#[test]
fn helper_threads_share_within_the_limits() {
    const FILES: usize = 24;
    let site = Site::new("stress");
    let len = |file: usize| (17 + file) * KIB;
    for file in 0..FILES {
        site.write(&format!("f{file}"), b'A', len(file), 1_000);
    }
    let shared_content = shared_content(400 * KIB, 100 * KIB);
    let second = AtomicU64::new(5_000);
    std::thread::scope(|scope| {
        for silo in 0..4_u16 {
            let (site, shared_content, second) = (&site, &shared_content, &second);
            scope.spawn(move || {
                let worker = site.worker(shared_content, silo % 2);
                let mut held: Vec<Option<Known>> = (0..FILES).map(|_| None).collect();
                let mut random = u64::from(silo) + 1;
                for turn in 0..3_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let file = (random >> 33) as usize % FILES;
                    let now = second.load(Ordering::Relaxed);
                    // As a silo does each second.
                    for known in &mut held {
                        if known.as_ref().and_then(|known| known.content.as_ref()).is_some_and(|c| !c.is_kept()) {
                            *known = None;
                        }
                    }
                    let (what, known) = look(&worker, &format!("f{file}"), held[file].as_ref(), now);
                    match what {
                        "file" => {
                            let content = known.as_ref().unwrap().content.as_ref().unwrap();
                            assert_eq!(content.bytes.len(), len(file));
                            let first = content.bytes[0];
                            assert!(first.is_ascii_uppercase() && content.bytes.iter().all(|byte| *byte == first));
                            held[file] = known;
                        }
                        "large" => held[file] = None,
                        _ => assert!(held[file].is_some()),
                    }
                    let seen = shared_content.held();
                    assert!(seen.bytes <= 400 * KIB && seen.copies <= 100 * KIB, "{seen:?}");
                    if turn % 8 == 0 && silo == 0 {
                        second.fetch_add(1, Ordering::Relaxed);
                    }
                    if turn % 50 == 0 {
                        let byte = b'A' + (turn / 50 % 26) as u8;
                        let changed = usize::from(silo) * FILES / 4 + turn / 50 % (FILES / 4);
                        site.write(&format!("f{changed}"), byte, len(changed), 1_001 + turn as u64);
                    }
                }
            });
        }
    });
    shared_content.clear();
    assert_eq!(shared_content.held(), Held::default());
}
