//! The queue agrees with a plain list of bytes, whatever is done to it.

use super::*;
use std::io::Seek;
use std::os::fd::AsFd;

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
fn agrees_with_a_plain_queue() {
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
                    queue.push(&b, start..end).unwrap();
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
                    queue.push_file(&file, start..end);
                    plain.extend_from_slice(&content[start as usize..end as usize]);
                }
                _ => {
                    let front = front_bytes(&queue, 1 + random(400) as usize);
                    assert!(!front.is_empty() || plain.is_empty());
                    assert_eq!(front, plain[..front.len()]);
                    let n = random(front.len() as u64 + 1) as usize;
                    queue.release(n);
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
    queue.push_file(&file, 0..10);
    let mut out = [IoSlice::new(&[]); GATHER];
    let gathered = queue.gather(&mut out, usize::MAX);
    assert_eq!(gathered, Gathered { pieces: 1, bytes: 4, file_next: true });
    let gathered = queue.gather(&mut out, 3);
    assert_eq!((gathered.bytes, gathered.file_next), (3, false), "more of the head is to come first");
}

#[test]
fn refuses_more_than_the_limit() {
    let big = body(1 << 20, 1);
    let mut queue = Queue::EMPTY;
    for _ in 0..1024 {
        queue.push(&big, 0..big.len()).unwrap();
    }
    assert_eq!(queue.unsent(), MAX_QUEUED);
    assert_eq!(queue.push(&big, 0..1), Err(QueueFull));
    assert_eq!(queue.push_bytes(b"x"), Err(QueueFull));
    assert_eq!(queue.unsent(), MAX_QUEUED);
}
