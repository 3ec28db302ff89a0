use super::*;

/// Zeroed memory for a ring, aligned as a mapping would be.
fn memory(log2_size: u8) -> Box<[AtomicU64]> {
    (0..ring_bytes(log2_size) / 8).map(|_| AtomicU64::new(0)).collect()
}

fn ring(memory: &[AtomicU64], log2_size: u8) -> &Ring {
    assert_eq!(size_of_val(memory), ring_bytes(log2_size));
    // SAFETY: `memory` is large enough (just checked), aligned for u64, consists of atomics, and outlives the
    // result.
    unsafe { &*ring_at(memory.as_ptr().cast(), log2_size) }
}

#[test]
fn layout_is_the_protocols() {
    let words = memory(6);
    let ring = ring(&words, 6);
    ring.format(|i| Descriptor::new(7, 0x1000 * u32::from(i), 2048));
    ring.publish_head(0x0102);
    ring.publish_tail(0x0304);
    ring.describe(1, Descriptor::new(9, 0, 0x55));
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.load(Ordering::Relaxed).to_ne_bytes()).collect();
    assert_eq!(bytes[0..4], [0x20, 0x1F, 0xE3, 0x03], "cookie");
    assert_eq!(bytes[4..6], [1, 0], "flags: interrupt masked");
    assert_eq!(bytes[6..8], [0x02, 0x01], "head");
    assert_eq!(bytes[64..66], [0x04, 0x03], "tail");
    assert_eq!(bytes[128..144], [0, 0, 7, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "first descriptor");
    assert_eq!(bytes[144..160], [0, 0, 9, 0, 0x55, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0], "second: offset kept");
}

#[test]
fn descriptors_survive_the_trip_and_wrap() {
    let words = memory(6);
    let ring = ring(&words, 6);
    let descriptor = Descriptor::new(u16::MAX, u32::MAX, 0x8000_0001).chained();
    ring.write(64 + 3, descriptor);
    let seen = ring.snapshot(3);
    assert_eq!(seen, descriptor);
    assert!(seen.has_next());
    assert_eq!((seen.region(), seen.offset(), seen.length()), (u16::MAX, u32::MAX, 0x8000_0001));
    assert_eq!(ring.snapshot_low(u16::MAX - 60).length(), 0x8000_0001, "65475 mod 64 = 3");
}

#[test]
fn distance_wraps_and_refuses_what_cannot_be() {
    assert_eq!(distance(0, 0, 256), Ok(0));
    assert_eq!(distance(65_530, 4, 256), Ok(10));
    assert_eq!(distance(5, 261, 256), Ok(256));
    assert_eq!(distance(5, 262, 256), Err(BadIndex));
    assert_eq!(distance(5, 4, 256), Err(BadIndex), "never backwards");
}

#[test]
fn nothing_outside_of_a_region_is_ever_located() {
    let mut bytes = [[0_u8; 4096], [0; 4096]];
    let regions: Vec<Extent> =
        bytes.iter_mut().map(|region| Extent { base: region.as_mut_ptr(), size: region.len() as u64 }).collect();
    let good = |region, offset, length| locate(&regions, Descriptor::new(region, offset, length)).is_some();
    assert!(good(0, 0, 4096) && good(1, 4095, 1) && good(1, 4096, 0));
    assert!(!good(0, 0, 4097) && !good(1, 4096, 1) && !good(2, 0, 1));
    assert!(!good(0, u32::MAX, u32::MAX) && !good(0, 1, u32::MAX) && !good(0, u32::MAX, 1));
    let mut state = 7_u64;
    for _ in 0..10_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let descriptor = Descriptor::new(
            (state >> 60) as u16,
            (state >> 20) as u32 & 0x1FFF,
            ((state >> 40) as u32 & 0x1FFF) << (state >> 59 & 0x10),
        );
        if let Some(place) = locate(&regions, descriptor) {
            let region = regions[usize::from(descriptor.region())];
            let start = place as usize - region.base as usize;
            assert!(start + descriptor.length() as usize <= 4096);
        }
    }
}
