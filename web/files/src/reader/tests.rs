//! A pipe that nobody writes to stands for a disk that does not answer.

use super::*;
use crate::identity::Identity;
use core::time::Duration;
use rustix::fd::AsRawFd;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use std::collections::BTreeMap;

/// A reader, with what it answered by the place of the work.
struct Asked {
    reader: Reader,
    read: BTreeMap<u32, (Vec<u8>, ReadOutcome)>,
    found: u32,
}

impl Asked {
    /// None where this machine has no ring, which is said.
    fn new() -> Option<Self> {
        let directory = Directory::new(std::env::temp_dir());
        let reader = Reader::open(&directory, HeadWriter::new(0, |_, _, _| {}), &[]).expect("a reader");
        let has_ring = matches!(&reader.side, Side::Thread(thread) if thread.ring.is_some());
        if !has_ring {
            println!("left out: io_uring is not to be had here");
        }
        has_ring.then(|| Self { reader, read: BTreeMap::new(), found: 0 })
    }

    fn read(&mut self, place: u32, source: &Arc<Source>, (offset, length): (u64, usize)) {
        let whom = ReadFor::Stream(WorkId { place, serial: 1 });
        self.reader.submit(Job::Read { whom, source: Arc::clone(source), offset, length, buffer: Vec::new() });
        self.reader.hand_over();
    }

    fn look_up(&mut self) {
        let key = Key::of(b"nearside-there-is-no-such-file");
        self.reader.submit(Job::LookUp { entry: EntryId::default(), key, known: None, now: 0 });
        self.reader.hand_over();
    }

    fn note(&mut self, done: Done) {
        match done {
            Done::Read(ReadAnswer { whom: ReadFor::Stream(work), buffer, outcome, .. }) => {
                let before = self.read.insert(work.place, (buffer, outcome));
                assert!(before.is_none(), "once each");
            }
            Done::LookUp { found, .. } => {
                assert!(matches!(found, Found::Missing), "{found:?}");
                self.found += 1;
            }
            other => panic!("{other:?}"),
        }
    }

    /// Until this is so, which takes as long as the machine wants.
    fn wait_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            if self.reader.arrived() {
                while let Some(done) = self.reader.take() {
                    self.note(done);
                }
            }
            // What had no place has one now.
            self.reader.hand_over();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A file that is streamed, open.
fn source(file: OwnedFd) -> Arc<Source> {
    let identity = Identity::of(&rustix::fs::fstat(&file).unwrap());
    Arc::new(Source::opened(b"a path".as_slice().into(), identity, file))
}

/// One of so many bytes, which nobody finds by a name.
fn file(length: usize) -> (Arc<Source>, Vec<u8>) {
    let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    let path = std::env::temp_dir().join(format!("nearside-reader-{}-{length}", std::process::id()));
    std::fs::write(&path, &bytes).unwrap();
    let file = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    std::fs::remove_file(path).unwrap();
    (source(file), bytes)
}

#[test]
fn a_read_that_takes_long_holds_nobody_up() {
    let Some(mut asked) = Asked::new() else { return };
    let (hangs, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (hangs, (quick, bytes)) = (source(hangs), file(300_000));
    asked.read(0, &hangs, (0, 4));
    asked.look_up();
    asked.read(1, &quick, (100_000, 150_000));
    asked.look_up();
    asked.wait_until(|asked| asked.found == 2 && asked.read.len() == 1);
    assert!(asked.read[&1] == (bytes[100_000..250_000].to_vec(), ReadOutcome::Intact));
    // It is waited for, and the file system does not hang for that.
    assert!(asked.reader.waits(Time::from_nanos(1)) && !asked.reader.is_at_rest());
    assert!(!asked.reader.hangs(Time::from_nanos(1) + 2 * HANGS));
    rustix::io::write(&writer, b"late").unwrap();
    asked.wait_until(|asked| asked.read.len() == 2);
    assert_eq!(asked.read[&0], (b"late".to_vec(), ReadOutcome::Intact));
    assert!(!asked.reader.waits(Time::from_nanos(2)) && asked.reader.is_at_rest());
}

#[test]
fn a_device_that_does_not_answer_holds_others_up_neither() {
    let Some(mut asked) = Asked::new() else { return };
    let (hangs, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (hangs, (quick, bytes)) = (source(hangs), file(1_000_000));
    let many = 3 * PLACES as u32;
    (0..many).for_each(|place| asked.read(place, &hangs, (0, 1)));
    for place in many..2 * many {
        asked.read(place, &quick, (u64::from(place), 5_000));
        asked.look_up();
    }
    asked.wait_until(|asked| asked.found == many && asked.read.len() == many as usize);
    for (place, read) in &asked.read {
        let from = *place as usize;
        assert!(*read == (bytes[from..from + 5_000].to_vec(), ReadOutcome::Intact), "{place}");
    }
    // It answers all the same, in the end.
    rustix::io::write(&writer, &vec![b'.'; many as usize]).unwrap();
    asked.wait_until(|asked| asked.read.len() == 2 * many as usize);
}

#[test]
fn what_is_shorter_than_it_was_is_told() {
    let Some(mut asked) = Asked::new() else { return };
    let (shrinks, bytes) = file(100_000);
    asked.read(0, &shrinks, (0, 100_000));
    asked.wait_until(|asked| asked.read.len() == 1);
    assert!(asked.read[&0] == (bytes, ReadOutcome::Intact));
    // It is open to be read alone.
    let own = format!("/proc/self/fd/{}", shrinks.file().unwrap().as_raw_fd());
    std::fs::OpenOptions::new().write(true).open(own).unwrap().set_len(60_000).unwrap();
    asked.read(1, &shrinks, (50_000, 50_000));
    asked.wait_until(|asked| asked.read.len() == 2);
    assert_eq!(asked.read[&1].1, ReadOutcome::Changed);
    let folder = rustix::fs::open("/tmp", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    asked.read(2, &source(folder.unwrap()), (0, 10));
    asked.wait_until(|asked| asked.read.len() == 3);
    assert_eq!(asked.read[&2].1, ReadOutcome::Failed(rustix::io::Errno::ISDIR));
}

/// One that reads is ended, whatever it waits for.
#[test]
fn it_ends_while_a_read_takes_long() {
    let Some(mut asked) = Asked::new() else { return };
    let (hangs, _writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    asked.read(0, &source(hangs), (0, 4));
    asked.look_up();
    asked.wait_until(|asked| asked.found == 1);
    drop(asked);
}
