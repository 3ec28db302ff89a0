//! The queue agrees with a plain list of bytes, whatever is done to it.

use super::*;
use app::Reads;
use std::io::{IoSlice, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

type Queue = Rope<Arc<OwnedFd>>;

fn body(n: usize, seed: u8) -> Body {
    Body::new((0..n).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect())
}

fn random_from(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |n| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    }
}

/// The file's bytes, so that ranges of it can be compared.
fn file() -> (Arc<OwnedFd>, Vec<u8>) {
    let content: Vec<u8> = (0..1_000u32).map(|i| (i * 7) as u8).collect();
    let fd = rustix::fs::memfd_create("queue", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(fd);
    std::io::Write::write_all(&mut file, &content).unwrap();
    file.rewind().unwrap();
    (Arc::new(OwnedFd::from(file)), content)
}

/// Reads up to `limit` bytes of what stands first, as a data path would.
fn front_bytes(queue: &Queue, limit: usize) -> Vec<u8> {
    match queue.front() {
        Front::Empty => Vec::new(),
        Front::Only(bytes) => bytes[..bytes.len().min(limit)].to_vec(),
        Front::Several => {
            let mut out = [IoSlice::new(&[]); GATHER];
            let gathered = queue.gather(&mut out, limit);
            let bytes = out[..gathered.pieces].iter().flat_map(|piece| piece.to_vec()).collect::<Vec<u8>>();
            assert_eq!(bytes.len(), gathered.bytes);
            bytes
        }
        Front::File(file, offset, len) => {
            let mut bytes = vec![0; (len as usize).min(limit)];
            let n = rustix::io::pread(file.as_fd(), &mut bytes[..], offset).unwrap();
            assert_eq!(n, bytes.len());
            bytes
        }
    }
}

#[test]
fn what_is_gathered_agrees_with_a_plain_queue() {
    let mut random = random_from(7);
    let (file, content) = file();
    for _ in 0..300 {
        let mut queue = Queue::EMPTY;
        let mut plain: Vec<u8> = Vec::new();
        for _ in 0..80 {
            match random(5) {
                0 => {
                    let b = body(1 + random(300) as usize, random(200) as u8);
                    let start = random(u64::from(b.len())) as u32;
                    let end = start + random(u64::from(b.len() - start) + 1) as u32;
                    queue.push(&b, start, end - start).unwrap();
                    plain.extend_from_slice(&b.as_slice()[start as usize..end as usize]);
                }
                1 => {
                    let b = body(random(50) as usize, 9);
                    queue.push_bytes(b.as_slice()).unwrap();
                    plain.extend_from_slice(b.as_slice());
                }
                2 => {
                    let start = random(1_000);
                    let end = start + random(1_000 - start + 1);
                    queue.push_file(Arc::clone(&file), start..end);
                    plain.extend_from_slice(&content[start as usize..end as usize]);
                }
                _ => {
                    let front = front_bytes(&queue, 1 + random(400) as usize);
                    assert!(!front.is_empty() || plain.is_empty());
                    assert_eq!(front, plain[..front.len()]);
                    let n = random(front.len() as u64 + 1) as usize;
                    queue.release(n as u64);
                    plain.drain(..n);
                }
            }
            assert_eq!(queue.unsent(), plain.len());
            assert_eq!(queue.is_empty(), plain.is_empty());
        }
    }
}

#[test]
fn small_writes_share_a_slice() {
    let mut queue = Queue::EMPTY;
    for _ in 0..100 {
        queue.push_bytes(b"0123456789").unwrap();
    }
    assert!(matches!(queue.front(), Front::Only(bytes) if bytes.len() == 1_000));
}

#[test]
fn a_file_right_after_a_head_is_seen() {
    let (file, _) = file();
    let mut queue = Queue::EMPTY;
    queue.push_bytes(b"head").unwrap();
    queue.push_file(Arc::clone(&file), 0..10);
    let mut out = [IoSlice::new(&[]); GATHER];
    let gathered = queue.gather(&mut out, usize::MAX);
    assert_eq!(gathered, Gathered { pieces: 1, bytes: 4, file_next: true });
    let gathered = queue.gather(&mut out, 3);
    assert_eq!((gathered.bytes, gathered.file_next), (3, false), "more of the head is to come first");
}

/// A frame counts once, whatever pieces of the counted bodies it has.
#[test]
fn reads_are_counted_by_frame() {
    use std::rc::Rc;
    let reads = Rc::new(Reads::default());
    let far = || Body::counted(Arc::new(vec![7; 1_000]), Rc::clone(&reads));
    let mut rope: Rope = Rope::EMPTY;
    rope.push(&body(100, 1), 0, 100).unwrap();
    rope.push(&far(), 0, 1_000).unwrap();
    rope.push(&far(), 0, 1_000).unwrap();
    // The near head, the rest of it with the first body's beginning, the
    // two bodies, and what is left; the last once more.
    for (offset, len, want) in [
        (0, 60, (0, 0)),
        (60, 500, (1, 460)),
        (560, 1_000, (2, 1_460)),
        (1_560, 540, (3, 2_000)),
        (1_560, 540, (4, 2_540)),
    ] {
        rope.copy_out(offset, &mut vec![0; len]);
        assert_eq!((reads.frames(), reads.bytes()), want, "{offset}");
    }
    rope.release(1_100);
    rope.copy_out(10, &mut [0; 20]);
    assert_eq!((reads.frames(), reads.bytes()), (5, 2_560));
    // The whole of one, in one piece.
    assert!(rope.whole(0, 1_000).is_some());
    assert_eq!((reads.frames(), reads.bytes()), (6, 3_560));
}

/// Any order of pushes, copies at any offset, releases and cuts gives the
/// bytes of the plain queue and their checksum.
#[test]
fn what_is_copied_agrees_with_a_plain_queue() {
    let mut random = random_from(7);
    for _ in 0..200 {
        let mut rope: Rope = Rope::EMPTY;
        let mut plain: Vec<u8> = Vec::new();
        for _ in 0..60 {
            match random(5) {
                0 => {
                    let b = body(1 + random(300) as usize, random(200) as u8);
                    let start = random(u64::from(b.len())) as u32;
                    let len = random(u64::from(b.len() - start) + 1) as u32;
                    rope.push(&b, start, len).unwrap();
                    plain.extend_from_slice(&b.as_slice()[start as usize..(start + len) as usize]);
                }
                1 => {
                    let b = body(random(50) as usize, 9);
                    rope.push_bytes(b.as_slice()).unwrap();
                    plain.extend_from_slice(b.as_slice());
                }
                2 => {
                    let n = random(plain.len() as u64 + 1) as usize;
                    rope.release(n as u64);
                    plain.drain(..n);
                }
                3 => {
                    let n = random(plain.len() as u64 + 20) as usize;
                    let cut = plain.len().saturating_sub(n);
                    assert_eq!(rope.truncate(n as u32) as usize, cut);
                    plain.truncate(n);
                }
                _ => {
                    let from = random(plain.len() as u64 + 1) as usize;
                    let n = random((plain.len() - from) as u64 + 1) as usize;
                    let mut out = vec![0; n];
                    let sum = rope.copy_out(from as u32, &mut out);
                    assert_eq!(out, &plain[from..from + n]);
                    assert_eq!(sum.finish(), wire::checksum::sum(&out).finish());
                }
            }
            assert_eq!(rope.len() as usize, plain.len());
            assert_eq!(rope.is_empty(), plain.is_empty());
        }
    }
}

#[test]
fn refuses_more_than_the_limit() {
    let big = Body::new(vec![0; 1 << 20]);
    let mut rope: Rope = Rope::EMPTY;
    for _ in 0..1024 {
        rope.push(&big, 0, big.len()).unwrap();
    }
    assert_eq!(rope.len(), MAX_QUEUED);
    assert_eq!(rope.push(&big, 0, 1), Err(QueueFull));
    assert_eq!(rope.push_bytes(b"x"), Err(QueueFull));
    assert_eq!(rope.len(), MAX_QUEUED);
}
