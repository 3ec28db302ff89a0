use super::*;
use io_uring::types::Timespec;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;

fn file(name: &str, bytes: &[u8]) -> Arc<OwnedFd> {
    let path = std::env::temp_dir().join(format!("nearside-disk-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let file = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    std::fs::remove_file(path).unwrap();
    Arc::new(file)
}

/// A ring; none where this machine's rules forbid them, which is said.
fn reads<T>(most: u16) -> Option<Reads<T>> {
    Reads::new(most).inspect_err(|why| println!("left out: {why}")).ok()
}

fn all<T>(reads: &mut Reads<T>) -> Vec<ReadDone<T>> {
    let mut done = Vec::new();
    while reads.under_way() > 0 {
        reads.wait(|| false);
        done.extend(core::iter::from_fn(|| reads.take()));
    }
    done
}

fn range_of(offset: u64, length: usize) -> ReadRange {
    ReadRange { offset, length, alignment: 1, aside: false }
}

#[test]
fn pieces_come_whole_and_short_at_the_end() {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let file = file("pieces", &bytes);
    let Some(mut reads) = reads(8) else { return };
    let ranges = [(0, 1), (2_999_999, 5), (3_000_000, 7), (9_000_000, 7), (1, 2_000_000), (7, 0), (4_096, 4_096)];
    for (at, range) in ranges.into_iter().enumerate() {
        let buffer = Vec::with_capacity(at * 1_000);
        reads.start(at, Arc::clone(&file), range_of(range.0, range.1), buffer).unwrap();
    }
    let done = all(&mut reads);
    assert_eq!(done.len(), ranges.len());
    for ReadDone { ticket, buffer, outcome, .. } in done {
        let (offset, length) = ranges[ticket];
        let from = bytes.len().min(offset as usize);
        assert_eq!(outcome, Ok(()));
        assert!(buffer == bytes[from..bytes.len().min(from + length)], "{ticket}");
    }
}

/// Past the page cache, where the file system can.
#[test]
fn aligned_reads_are_whole_up_to_the_files_end() {
    const ALIGNMENT: usize = 4096;
    let bytes: Vec<u8> = (0..1_000_001_u32).map(|at| (at % 251) as u8).collect();
    let path = std::env::current_dir().unwrap().join(format!("direct-{}", std::process::id()));
    std::fs::write(&path, &bytes).unwrap();
    let direct = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT, Mode::empty());
    std::fs::remove_file(path).unwrap();
    let Ok(direct) = direct else { return println!("left out: this file system has no O_DIRECT") };
    let Some(mut reads) = reads(8) else { return };
    let direct = Arc::new(direct);
    for block in 0..8 {
        let range = ReadRange { alignment: ALIGNMENT, ..range_of(block * (128 << 10), 128 << 10) };
        // Memory that was aligned otherwise before.
        reads.start(block, Arc::clone(&direct), range, vec![7; block as usize * 30_000]).unwrap();
    }
    let done = all(&mut reads);
    assert_eq!(done.len(), 8);
    for ReadDone { ticket, buffer, from, outcome } in done {
        let first = bytes.len().min(ticket as usize * (128 << 10));
        assert_eq!((outcome, buffer[from..].as_ptr().addr() % ALIGNMENT), (Ok(()), 0));
        assert!(buffer[from..] == bytes[first..bytes.len().min(first + (128 << 10))], "{ticket}");
    }
}

#[test]
fn no_more_than_there_is_room_for() {
    let file = file("room", b"abc");
    let Some(mut reads) = reads(2) else { return };
    assert!(reads.start('a', Arc::clone(&file), range_of(0, 3), Vec::new()).is_ok());
    assert!(reads.start('b', Arc::clone(&file), range_of(0, 3), Vec::new()).is_ok() && !reads.has_room());
    let (ticket, buffer) = reads.start('c', Arc::clone(&file), range_of(0, 3), vec![1]).unwrap_err();
    assert_eq!((ticket, buffer), ('c', vec![1]));
    all(&mut reads);
    for ticket in "defghijkl".chars() {
        reads.start(ticket, Arc::clone(&file), range_of(0, 3), Vec::new()).unwrap();
        let done = all(&mut reads);
        assert_eq!((done[0].ticket, &*done[0].buffer), (ticket, &b"abc"[..]));
    }
}

/// A pipe that nobody writes to stands for a disk that does not answer.
#[test]
fn one_that_hangs_holds_nobody_up_and_its_memory_stays() {
    let (hangs, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let hangs = Arc::new(hangs);
    let quick = file("quick", b"quick");
    let Some(mut reads) = reads(4) else { return };
    reads.start(0, Arc::clone(&hangs), range_of(0, 4), Vec::new()).unwrap();
    reads.start(1, Arc::clone(&quick), range_of(0, 5), Vec::new()).unwrap();
    reads.wait(|| false);
    let done = reads.take().unwrap();
    assert_eq!((done.ticket, &*done.buffer, reads.under_way()), (1, &b"quick"[..], 1));
    // In two parts.
    for part in [b"la", b"te"] {
        rustix::io::write(&writer, part).unwrap();
        reads.wait(|| false);
    }
    let done = reads.take().unwrap();
    assert_eq!((done.ticket, &*done.buffer, done.outcome), (0, &b"late"[..], Ok(())));
    reads.start(2, hangs, range_of(0, 4), Vec::new()).unwrap();
    reads.submit();
    drop(reads);
    // The kernel may have let go of it by now, or not.
    let _ = rustix::io::write(&writer, b"....");
}

#[test]
fn who_wakes_is_heard_before_and_during_the_wait() {
    let Some(mut reads) = reads::<()>(1) else { return };
    let waker = reads.waker();
    // Nothing is waited for that is there.
    reads.wait(|| true);
    for _ in 0..100 {
        let (waker, (told, tells)) = (Arc::clone(&waker), std::sync::mpsc::channel());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                told.send(()).unwrap();
                waker.wake();
            });
            let mut heard = false;
            while !heard {
                reads.wait(|| {
                    heard = tells.try_recv().is_ok();
                    heard
                });
            }
        });
    }
}

/// As many as there may be hang, each of them in a thread of the kernel's, and hold up neither who began them nor one
/// that is read so as well.
#[test]
fn those_that_are_read_aside_hang_by_themselves() {
    const MOST: u16 = 48;
    let (hangs, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let hangs = Arc::new(hangs);
    let quick = file("aside", b"quick");
    let Some(mut reads) = reads(MOST) else { return };
    let aside = |length| ReadRange { aside: true, ..range_of(0, length) };
    for at in 1..MOST {
        reads.start(at, Arc::clone(&hangs), aside(1), Vec::new()).unwrap();
    }
    reads.submit();
    reads.start(0, quick, aside(5), Vec::new()).unwrap();
    reads.wait(|| false);
    let done = reads.take().unwrap();
    assert_eq!((done.ticket, &*done.buffer, reads.under_way()), (0, &b"quick"[..], usize::from(MOST) - 1));
    rustix::io::write(&writer, &[b'x'; MOST as usize - 1]).unwrap();
    let done = all(&mut reads);
    assert!(done.len() == usize::from(MOST) - 1 && done.iter().all(|done| *done.buffer == b"x"[..]));
}

#[test]
fn what_the_file_system_says_is_told() {
    let folder = rustix::fs::open("/tmp", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let Some(mut reads) = reads(1) else { return };
    reads.start((), Arc::new(folder.unwrap()), range_of(0, 10), Vec::new()).unwrap();
    let done = all(&mut reads);
    assert_eq!((done[0].outcome, done[0].buffer.len()), (Err(Errno::ISDIR), 0));
}

/// Whoever runs code in its process can ask the ring for nothing that a filter of system calls
/// would refuse.
#[test]
fn a_ring_does_nothing_but_read() {
    let Some(mut reads) = reads::<()>(8) else { return };
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    let (byte, path, time) = (b"x", c"/etc/passwd", Timespec::new());
    let entries = [
        opcode::Write::new(Fd(write.as_raw_fd()), byte.as_ptr(), 1).build(),
        opcode::OpenAt::new(Fd(-100), path.as_ptr()).build(),
        opcode::Socket::new(2, 1, 0).build(),
        opcode::UnlinkAt::new(Fd(-100), c"/nowhere".as_ptr()).build(),
        opcode::Close::new(Fd(read.as_raw_fd())).build(),
        opcode::Timeout::new(&raw const time).build(),
        opcode::Nop::new().build(),
    ];
    for (at, entry) in entries.into_iter().enumerate() {
        // SAFETY: what they point to outlives the test.
        unsafe { reads.ring.submission().push(&entry.user_data(7)).unwrap() };
        reads.ring.submitter().submit_and_wait(1).unwrap();
        let done = reads.ring.completion().next().unwrap();
        assert_eq!(done.result(), -Errno::ACCESS.raw_os_error(), "entry {at}");
    }
    assert_eq!(rustix::io::read(&read, &mut [0_u8; 1]), Err(Errno::AGAIN));
    // Nor are its rules changed.
    let mut more = [Restriction::sqe_op(opcode::Write::CODE)];
    let changed = reads.ring.submitter().register_restrictions(&mut more);
    assert!(changed.is_err());
    assert!(reads.ring.submitter().register_files(&[write.as_raw_fd()]).is_err());
}
