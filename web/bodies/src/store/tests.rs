//! Bodies, with a writer that works when it is told to.

use super::*;
use crate::BodyFiles;
use crate::received::{BodyContent, BodyFile};
use crate::writer::{TempFile, work};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A store, and its writer's end.
struct Desk {
    store: BodyStore,
    jobs: Receiver<BodyJob>,
    done: Sender<BodyDone>,
    left: Vec<Arc<TempFile>>,
    folder: PathBuf,
}

const RULES: BodyRules = BodyRules { buffer: 100, in_file: BodyFiles::Long, folder: 0 };

/// Pieces as long as the buffer.
const LIMITS: BodyLimits = BodyLimits { bytes: 128 << 20, files: 16 << 10, piece: 100 };

impl Desk {
    fn new(name: &str, limits: BodyLimits) -> Self {
        let folder = std::env::temp_dir().join(format!("nearside-body-store-{name}-{}", std::process::id()));
        let rules = TempFolderRules { path: folder.clone(), levels: [0; 3] };
        rules.make(None).expect("made");
        let folders = vec![Arc::new(TempFolder::new(rules.clone(), rules.open().expect("there")))];
        let ((to_jobs, jobs), (done, from_done)) = (channel(), channel());
        let folders = BodyFolders { folders, jobs: to_jobs, done: from_done, signals: Arc::default(), twin: None };
        let flags = rustix::event::EventfdFlags::NONBLOCK;
        let event = Arc::new(rustix::event::eventfd(0, flags).expect("an event"));
        let store = BodyStore::new(folders, limits, &event);
        Self { store, jobs, done, left: Vec::new(), folder }
    }

    /// The writer does one thing, if there is one.
    fn work(&mut self) -> bool {
        let Ok(job) = self.jobs.try_recv() else { return false };
        if let Some(finished) = work(job, &mut self.left) {
            self.done.send(finished).expect("taken");
            self.store.signals.tell();
        }
        self.left.retain(|file| Arc::strong_count(file) > 1 || Arc::strong_count(&file.file) > 1);
        true
    }

    /// All that it has to do, and what the store hears of it for one body.
    fn settle(&mut self, body: &mut ReceivedBody) -> Result<bool, BodyError> {
        let mut whole = Ok(false);
        while self.work() {
            while let Some((ticket, event)) = self.store.take() {
                match event {
                    BodyEvent::Written(wrote) if ticket == body.ticket() => whole = body.on_written(wrote),
                    BodyEvent::Written(wrote) => self.store.drop_written(wrote),
                    BodyEvent::Room => body.on_room(),
                    BodyEvent::Read(_) => body.on_read(),
                }
            }
        }
        whole
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn file(body: &ReceivedBody) -> &BodyFile {
    match body.content() {
        Some(BodyContent::File(file)) => file,
        content => panic!("no file: {content:?}"),
    }
}

#[test]
fn what_is_little_longer_than_the_buffer_stays_in_memory_where_that_is_known() {
    let mut desk = Desk::new("lengths", LIMITS);
    for (length, known, in_memory) in [
        (0, true, true),
        (100, false, true),
        (101, false, false),
        (124, true, true),
        (125, true, false),
        (126, true, false),
        (0, false, true),
    ] {
        let mut body = desk.store.begin(RULES, known.then_some(length as u64), 1);
        let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let taken = body.add(rest).expect("room");
            rest = &rest[taken..];
            assert!(desk.settle(&mut body).is_ok() && (taken > 0 || rest.is_empty()), "{length}");
        }
        let whole = body.end().expect("room");
        assert_eq!(whole, in_memory, "{length}");
        assert_eq!(desk.settle(&mut body), Ok(!in_memory));
        match body.content() {
            Some(BodyContent::Memory(memory)) => assert_eq!((memory.as_slice(), in_memory), (bytes.as_slice(), true)),
            _ => {
                let BodyFile { file, length } = file(&body);
                let mut found = vec![0; *length as usize];
                let file = std::fs::File::from(file.try_clone().expect("a descriptor"));
                file.read_exact_at(&mut found, 0).expect("read");
                assert!(found == bytes && body.path().is_some());
            }
        }
        drop(body);
        desk.work();
        assert_eq!((desk.store.held(), desk.left.len()), ((0, 0), 0), "{length}");
    }
}

/// A writer that does not come to it: twice the buffer is held, and no more taken.
#[test]
fn nothing_is_taken_while_the_writer_is_behind() {
    let mut desk = Desk::new("behind", LIMITS);
    let mut body = desk.store.begin(RULES, None, 1);
    let bytes = [7; 1_000];
    assert_eq!(body.add(&bytes).expect("room"), 200);
    assert_eq!(body.add(&bytes[200..]).expect("room"), 0);
    assert!(!desk.store.arrived() && desk.store.held().0 <= 200);
    // It ends meanwhile: what is left is written afterwards.
    assert_eq!(body.end(), Ok(false));
    assert!(desk.work() && desk.store.arrived());
    let Some((1, BodyEvent::Written(wrote))) = desk.store.take() else { panic!("written") };
    assert_eq!(body.on_written(wrote), Ok(false));
    assert_eq!(desk.settle(&mut body), Ok(true));
    assert_eq!((file(&body).length, body.received()), (200, 200));
}

/// Long bodies go to the writer by long pieces, whether their length was told or not: what
/// each hand-over costs is shared by many bytes, and the next piece is filled meanwhile, in
/// memory that was used before.
#[test]
fn what_goes_to_a_file_is_handed_over_by_pieces() {
    const PIECE: usize = 4_000;
    const LENGTH: usize = 50_000;
    let mut desk = Desk::new("pieces", BodyLimits { piece: PIECE, ..LIMITS });
    let bytes: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    for (known, first) in [(true, PIECE), (false, 100)] {
        let mut body = desk.store.begin(RULES, known.then_some(LENGTH as u64), 1);
        let (mut rest, mut pieces, mut memory) = (bytes.as_slice(), Vec::new(), BTreeSet::new());
        let (mut whole, mut ended) = (false, false);
        while !whole {
            // As they come from a socket.
            while !rest.is_empty() {
                let some = rest.len().min(1_500);
                let taken = body.add(&rest[..some]).expect("room");
                rest = &rest[taken..];
                if taken < some {
                    break;
                }
            }
            if rest.is_empty() && !ended {
                assert_eq!(body.end(), Ok(false), "the last piece is still to be written");
                ended = true;
            }
            assert!(desk.store.held().0 <= 3 * PIECE, "{}", desk.store.held().0);
            let job = desk.jobs.try_recv().expect("there is always one");
            if let BodyJob::Write { bytes, .. } = &job {
                pieces.push(bytes.len());
                memory.insert(bytes.as_ptr() as usize);
            }
            desk.done.send(work(job, &mut desk.left).expect("done")).expect("taken");
            let Some((1, BodyEvent::Written(wrote))) = desk.store.take() else { panic!("written") };
            whole = body.on_written(wrote).expect("written");
        }
        let (last, others) = pieces.split_last().expect("some");
        assert!(others[0] == first && others[1..].iter().all(|piece| *piece == PIECE), "{pieces:?}");
        assert!(*last <= PIECE && pieces.iter().sum::<usize>() == LENGTH, "{pieces:?}");
        assert!(memory.len() <= 4, "each piece has memory of its own: {}", memory.len());
        let mut found = vec![0; LENGTH];
        let file = std::fs::File::from(file(&body).file.try_clone().expect("a descriptor"));
        file.read_exact_at(&mut found, 0).expect("read");
        assert!(found == bytes);
        drop((body, file));
        desk.work();
        assert_eq!((desk.store.held(), desk.left.len()), ((0, 0), 0));
    }
}

/// Where half of all memory is held, bodies that go to files hold no more than their buffers.
#[test]
fn pieces_are_short_where_much_is_held() {
    let mut desk = Desk::new("pressed", BodyLimits { bytes: 10_000, piece: 4_000, ..LIMITS });
    let bytes = [7; 6_000];
    let mut first = desk.store.begin(BodyRules { buffer: 6_000, ..RULES }, None, 1);
    assert_eq!(first.add(&bytes).expect("room"), 6_000);
    let mut second = desk.store.begin(RULES, Some(6_000), 2);
    assert_eq!(second.add(&bytes).expect("room"), 200, "a buffer that is written, and one that waits");
    drop(first);
    assert_eq!(second.add(&bytes[200..]).expect("room"), 3_900, "a piece");
    assert!(desk.settle(&mut second).is_ok());
}

/// One that leaves meanwhile: its memory counts until it was written, and its file goes.
#[test]
fn a_body_that_is_gone_leaves_nothing() {
    let mut desk = Desk::new("gone", LIMITS);
    for works_first in [false, true] {
        let mut body = desk.store.begin(RULES, None, 1);
        assert_eq!(body.add(&[1; 300]).expect("room"), 200);
        if works_first {
            assert!(desk.work());
        }
        drop(body);
        assert_eq!(desk.store.held(), (100, 0), "as long as somebody else has it");
        desk.work();
        let Some((1, BodyEvent::Written(wrote))) = desk.store.take() else { panic!("written") };
        desk.store.drop_written(wrote);
        assert!(desk.work(), "the file is let go");
        assert_eq!((desk.store.held(), desk.left.len()), ((0, 0), 0));
    }
    // A stream that still sends from it has it to its end.
    let mut body = desk.store.begin(RULES, None, 2);
    body.add(&[1; 150]).expect("room");
    desk.settle(&mut body).expect("written");
    assert_eq!(body.end(), Ok(false));
    desk.settle(&mut body).expect("written");
    let sent = file(&body).clone();
    drop(body);
    assert!(desk.work() && desk.left.len() == 1);
    drop(sent);
    desk.left.retain(|file| Arc::strong_count(file) > 1 || Arc::strong_count(&file.file) > 1);
    assert!(desk.left.is_empty());
}

/// Where all memory is held, a body goes to its file early, and one that holds none
/// waits for its turn.
#[test]
fn all_together_hold_no_more_than_they_may() {
    let mut desk = Desk::new("limits", BodyLimits { bytes: 1_000, files: 2, ..LIMITS });
    let rules = BodyRules { buffer: 800, ..RULES };
    let mut first = desk.store.begin(rules, None, 1);
    assert_eq!(first.add(&[1; 700]).expect("room"), 700);
    let mut second = desk.store.begin(rules, None, 2);
    assert_eq!(second.add(&[2; 300]).expect("room"), 300);
    let held = desk.store.held().0;
    assert!(held >= 1_000);
    let mut third = desk.store.begin(rules, None, 3);
    assert_eq!(third.add(&[3; 50]).expect("room"), 0, "it waits");
    assert_eq!(third.add(&[3; 50]).expect("room"), 0, "once");
    // No room to grow: to a file with it.
    let more = second.add(&[2; 700]).expect("room");
    assert!(desk.store.held().0 <= held + 512 && more < 700, "{more}");
    assert!(desk.work());
    let Some((2, BodyEvent::Written(wrote))) = desk.store.take() else { panic!("written") };
    assert_eq!(second.on_written(wrote), Ok(false));
    // What was written is held no more.
    assert!(desk.store.arrived());
    let Some((3, BodyEvent::Room)) = desk.store.take() else { panic!("room") };
    third.on_room();
    assert_eq!(third.add(&[3; 50]).expect("room"), 50);
    assert!(desk.store.take().is_none());
}

#[test]
fn files_have_a_limit_and_each_goes_by_its_rule() {
    let mut desk = Desk::new("files", BodyLimits { bytes: 1 << 20, files: 1, ..LIMITS });
    let kept = BodyRules { in_file: BodyFiles::Kept, ..RULES };
    let removed = BodyRules { in_file: BodyFiles::Removed, ..RULES };
    for (rules, stays) in [(removed, false), (kept, true)] {
        for bytes in [&b""[..], b"text"] {
            let mut body = desk.store.begin(rules, Some(bytes.len() as u64), 1);
            assert_eq!(body.add(bytes).expect("room"), bytes.len());
            assert_eq!(body.end(), Ok(false), "written though it is short");
            let mut other = desk.store.begin(kept, None, 2);
            let why = other.end().expect_err("one has a file");
            assert_eq!((why.call, why.why), ("open()", Errno::MFILE));
            drop(other);
            assert_eq!(desk.settle(&mut body), Ok(true));
            let path = PathBuf::from(String::from_utf8(body.path().expect("a file").to_vec()).expect("text"));
            assert_eq!(std::fs::read(&path).expect("it has its name"), bytes);
            drop(body);
            desk.work();
            assert_eq!((path.exists(), desk.store.held()), (stays, (0, 0)));
        }
    }
}

#[test]
fn a_file_that_cannot_be_made_is_told_of() {
    let mut desk = Desk::new("unmade", LIMITS);
    std::fs::remove_dir_all(&desk.folder).expect("removed");
    let mut body = desk.store.begin(RULES, None, 1);
    assert_eq!(body.add(&[1; 300]).expect("room"), 200);
    let why = desk.settle(&mut body).expect_err("no folder").to_string();
    assert!(why.starts_with("open() \"") && why.ends_with("\" failed (2: No such file or directory)"), "{why}");
    drop(body);
    assert_eq!(desk.store.held(), (0, 0));
}
