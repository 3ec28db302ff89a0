use super::*;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 64).unwrap()
}

/// Bytes of huge pages under the mapping that holds `address`, by the
/// kernel's own account.
fn huge_bytes(address: usize) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split(' ').next().unwrap().split_once('-');
        let bounds = range.and_then(|(from, to)| {
            let hex = |text| usize::from_str_radix(text, 16).ok();
            Some(hex(from)?..hex(to)?)
        });
        if let Some(bounds) = bounds {
            inside = bounds.contains(&address);
        } else if inside && line.starts_with("AnonHugePages:") {
            return line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024;
        }
    }
    panic!("no mapping holds {address:x}");
}

#[test]
fn large_allocations_are_aligned_zero_and_huge() {
    for size in [HUGE_PAGE, HUGE_PAGE + 1, 3 * HUGE_PAGE, 9_000_000] {
        // SAFETY: the block is used within its size and released once.
        unsafe {
            let start = HugeAlloc.alloc_zeroed(layout(size));
            assert!(!start.is_null() && start.addr().is_multiple_of(HUGE_PAGE));
            assert_eq!((*start, *start.add(size - 1)), (0, 0));
            start.write_bytes(0xa5, size);
            if HugePages::probe().transparent != Transparent::Never {
                // Short of memory the kernel may give fewer, so only that
                // there are any shows that the advice was heard.
                let huge = huge_bytes(start.addr());
                println!("{size} bytes: {huge} in huge pages");
                assert!(huge > 0);
            }
            HugeAlloc.dealloc(start, layout(size));
        }
    }
}

#[test]
fn zeroed_memory_is_not_touched() {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let size = 1 << 30;
    let before = resident();
    // SAFETY: the block is released once and not used.
    unsafe {
        let start = HugeAlloc.alloc_zeroed(layout(size));
        assert!(!start.is_null());
        assert!(resident() < before + size / 4);
        HugeAlloc.dealloc(start, layout(size));
    }
}

#[test]
fn contents_survive_growing_and_shrinking_across_the_threshold() {
    let sizes = [100, HUGE_PAGE - 1, HUGE_PAGE, HUGE_PAGE + 9, 2 * HUGE_PAGE, 2 * HUGE_PAGE + 1];
    for from in sizes {
        for to in sizes {
            // SAFETY: blocks are used within their sizes and released once.
            unsafe {
                let start = HugeAlloc.alloc(layout(from));
                for i in 0..from {
                    *start.add(i) = (i % 251) as u8;
                }
                let moved = HugeAlloc.realloc(start, layout(from), to);
                for i in 0..from.min(to) {
                    assert_eq!(*moved.add(i), (i % 251) as u8, "{from} to {to} at {i}");
                }
                moved.write_bytes(1, to);
                HugeAlloc.dealloc(moved, layout(to));
            }
        }
    }
}

#[test]
fn what_cannot_be_had_is_null() {
    let size = isize::MAX as usize - HUGE_PAGE;
    // SAFETY: nothing is used.
    assert!(unsafe { HugeAlloc.alloc(layout(size)) }.is_null());
    assert!(map(usize::MAX).is_null());
    assert!(map(usize::MAX - 2 * HUGE_PAGE).is_null());
}

#[test]
fn counting_counts_this_thread_only() {
    let counting = CountingAlloc::new(HugeAlloc);
    let before = allocations();
    // SAFETY: blocks are released once and not used.
    unsafe {
        let a = counting.alloc(layout(10));
        let b = counting.alloc_zeroed(layout(10));
        let a = counting.realloc(a, layout(10), 1000);
        counting.dealloc(a, layout(1000));
        counting.dealloc(b, layout(10));
    }
    assert_eq!(allocations() - before, 3);
    assert_eq!(std::thread::spawn(allocations).join().unwrap(), 0);
}

#[test]
fn huge_pages_are_found_where_the_kernel_tells() {
    let folder = std::env::temp_dir().join(format!("nearside-mm-{}", std::process::id()));
    let pages = folder.join("hugepages/hugepages-2048kB");
    std::fs::create_dir_all(&pages).unwrap();
    std::fs::create_dir_all(folder.join("hugepages/other")).unwrap();
    std::fs::create_dir_all(folder.join("transparent_hugepage")).unwrap();
    let setting = folder.join("transparent_hugepage/enabled");
    std::fs::write(&setting, "always [madvise] never\n").unwrap();
    std::fs::write(pages.join("nr_hugepages"), "256\n").unwrap();
    std::fs::write(pages.join("free_hugepages"), "204\n").unwrap();
    let probed = HugePages::probe_at(&folder);
    let two_mib = ReservedPages { size: HUGE_PAGE as u64, total: 256, free: 204 };
    let expected = HugePages { transparent: Transparent::Madvise, reserved: vec![two_mib] };
    assert_eq!(probed, expected);
    assert_eq!(probed.to_string(), "transparent huge pages: where advised; 2048 KiB pages: 204 of 256 free");
    std::fs::write(&setting, "[always] madvise never\n").unwrap();
    assert_eq!(HugePages::probe_at(&folder).transparent, Transparent::Always);
    std::fs::remove_dir_all(&folder).unwrap();
    let absent = HugePages { transparent: Transparent::Never, reserved: Vec::new() };
    assert_eq!(HugePages::probe_at(&folder), absent);
}
