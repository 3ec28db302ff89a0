use super::*;
use crate::config::Address;
use crate::sizes::CACHE_LINE;
use driver::Role;

const MANY: u64 = u64::MAX;

fn plan() -> Plan {
    Plan { peer: String::new(), queues: 3, log2_ring_size: 6 }
}

fn config(hugepages: bool) -> Config {
    Config { hugepages, ..Config::new(Address::Abstract("x".into()), Role::Client) }
}

#[test]
fn rings_and_buffers_do_not_overlap() {
    let own = OwnMemory::new(&config(false), &plan()).expect("ordinary memory");
    assert_eq!(own.backing, MemoryKind::Ordinary);
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for &(to_server, to_client) in &own.layout.rings {
        for offset in [to_server, to_client] {
            parts.push((u64::from(offset), ring_bytes(6) as u64));
            let ring = RingRef::new(&own.memory, 0, offset, 6).expect("within the memory");
            for slot in 0..64 {
                let descriptor = ring.get().snapshot(slot);
                parts.push((u64::from(descriptor.offset()), u64::from(descriptor.length())));
                assert_eq!(descriptor.length(), 2048);
                assert_eq!(descriptor.offset() % CACHE_LINE, 0);
            }
        }
    }
    parts.sort_unstable();
    assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "overlap");
    let (last, len) = parts[parts.len() - 1];
    assert!(last + len <= own.layout.size);
    assert_eq!(parts.len(), 6 * 65);
}

#[test]
fn own_memory_is_sealed_and_acceptable_to_a_strict_server() {
    let own = OwnMemory::new(&config(false), &plan()).expect("ordinary memory");
    assert!(rustix::fs::ftruncate(&own.file, 0).is_err(), "sealed");
    let size = own.layout.size;
    let theirs = map_peers(&[(own.file, size)], true, MANY).expect("accepted");
    let ring = RingRef::new(&theirs, 0, 0, 6).expect("within");
    assert!(ring.get().has_cookie());
}

#[test]
fn huge_pages_fall_back_to_ordinary_ones() {
    let own = OwnMemory::new(&config(true), &plan()).expect("some memory");
    let free: u64 = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    // Other processes may take or give pages in between; with none configured the answer is certain.
    if free == 0 && own.backing == MemoryKind::Huge {
        println!("huge pages appeared while the test ran");
    }
    assert_eq!(own.layout.size % if own.backing == MemoryKind::Huge { HUGE_PAGE } else { 4096 }, 0);
    // So many that no machine has them: the fallback itself.
    let (_file, mapping, backing) = create(HUGE_PAGE, false).expect("ordinary");
    assert_eq!((backing, mapping.size), (MemoryKind::Ordinary, HUGE_PAGE));
    let impossible = create_with(1 << 45, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB);
    assert!(impossible.is_err(), "32 TiB of huge pages fail when mapped, not when used");
}

#[test]
fn what_is_no_sound_memory_file_is_refused() {
    let file = |flags| rustix::fs::memfd_create(c"test", flags).expect("memfd");
    let small = file(MemfdFlags::ALLOW_SEALING);
    rustix::fs::ftruncate(&small, 4096).expect("truncate");
    assert!(map_peers(&[(small.try_clone().expect("dup"), 8192)], false, MANY).is_err(), "larger than its file");
    assert!(map_peers(&[(small.try_clone().expect("dup"), 4096)], true, MANY).is_ok(), "sealed by us");
    assert!(rustix::fs::ftruncate(&small, 0).is_err(), "so that the peer cannot shrink it");

    let unsealable = file(MemfdFlags::empty());
    rustix::fs::ftruncate(&unsealable, 4096).expect("truncate");
    assert!(map_peers(&[(unsealable.try_clone().expect("dup"), 4096)], false, MANY).is_ok());
    assert!(map_peers(&[(unsealable, 4096)], true, MANY).is_err(), "required, and impossible");

    let (socket, _other) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .expect("socketpair");
    assert!(map_peers(&[(socket, 4096)], false, MANY).is_err(), "a socket");
}

#[test]
fn rings_outside_of_their_region_are_refused() {
    let own = OwnMemory::new(&config(false), &plan()).expect("ordinary memory");
    let size = u32::try_from(own.layout.size).expect("small");
    let ring = ring_bytes(6) as u32;
    assert!(RingRef::new(&own.memory, 0, size - ring, 6).is_some());
    assert!(RingRef::new(&own.memory, 0, size - ring + 8, 6).is_none());
    assert!(RingRef::new(&own.memory, 0, 4, 6).is_none(), "misaligned");
    assert!(RingRef::new(&own.memory, 1, 0, 6).is_none(), "no such region");
    assert!(RingRef::new(&own.memory, 0, u32::MAX - 7, 14).is_none());
}

#[test]
fn memory_that_offsets_cannot_reach_is_refused() {
    assert!(own_bytes(255, 14, 1 << 17).is_none());
    assert_eq!(own_bytes(1, 8, 2048), Some(2 * ((128 + 16 * 256) + 2112 * 256)));
}

/// Pages that nobody has touched would be charged to who touches them.
#[test]
fn a_peer_shares_no_more_ordinary_pages_than_it_may() {
    let sparse = |size: u64| {
        let file = rustix::fs::memfd_create(c"test", MemfdFlags::ALLOW_SEALING).expect("memfd");
        rustix::fs::ftruncate(&file, size).expect("truncate");
        (file, size)
    };
    let limit = config(false).memory_limit();
    assert_eq!(limit, 1 << 30);
    assert_eq!(Config { queues: 16, ..config(false) }.memory_limit(), 2 << 30);
    assert_eq!(Config { memory: Some(3), queues: 8, ..config(false) }.memory_limit(), 3 << 20);
    assert!(map_peers(&[sparse(limit)], false, limit).is_ok());
    for regions in [vec![sparse(1 << 36)], vec![sparse(limit), sparse(1)], (0..257).map(|_| sparse(1 << 22)).collect()]
    {
        let why = map_peers(&regions, false, limit).expect_err("too much");
        assert!(why.contains("at most 1024 are taken") && why.contains("memory="), "{why}");
    }
    let huge = |size: u64| create_with(size, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB);
    // Where the machine has any.
    if let Ok((file, mapping)) = huge(HUGE_PAGE) {
        assert!(map_peers(&[(file, mapping.size)], true, 1 << 20).is_ok(), "huge pages do not count");
    }
}
