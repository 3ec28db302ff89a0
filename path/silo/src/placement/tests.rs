//! Placement on the machine at hand, of which every one has domain 0 or is
//! told so.

use super::*;
use core::time::Duration;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::thread;
use wire::Time;

/// Pages of their own, gone when dropped.
struct Mapped {
    start: *mut u8,
    len: usize,
}

impl Mapped {
    fn new(pages: usize) -> Self {
        let len = pages * rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping touches no memory of ours.
        let start = unsafe { mmap_anonymous(core::ptr::null_mut(), len, access, MapFlags::PRIVATE) };
        Self { start: start.unwrap().cast(), len }
    }

    fn range(&self) -> Range<usize> {
        self.start.addr()..self.start.addr() + self.len
    }

    fn touch(&self, page: usize) {
        let at = page * rustix::param::page_size();
        assert!(at < self.len);
        // SAFETY: within the mapping, which is writable.
        unsafe { self.start.add(at).write_volatile(1) };
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing points into it.
        unsafe { munmap(self.start.cast(), self.len) }.unwrap();
    }
}

/// The domain that a page touched now comes from: there may be several here.
fn here() -> u16 {
    let page = Mapped::new(1);
    page.touch(0);
    Placement::of([page.range()]).unwrap().domains().next().unwrap().0
}

/// Sets a policy on a thread of its own, so that no other test has it.
fn under(policy: MemoryPolicy<'static>, run: impl FnOnce() + Send + 'static) {
    let apart = move || {
        bind(policy).unwrap();
        run();
    };
    thread::spawn(apart).join().unwrap();
}

#[test]
fn pages_are_found_once_they_are_touched() {
    let domain = here();
    under(MemoryPolicy::Domain(domain), move || {
        let pages = Mapped::new(3_000);
        assert_eq!(Placement::of([pages.range()]).unwrap(), Placement { domains: Vec::new(), absent: 3_000 });
        for page in [0, 1, 1_024, 2_999] {
            pages.touch(page);
        }
        let placement = Placement::of([pages.range()]).unwrap();
        assert_eq!((placement.within(domain), placement.outside(domain), placement.absent()), (4, 0, 2_996));
        assert_eq!(placement.domains().collect::<Vec<_>>(), [(domain, 4)]);
    });
}

#[test]
fn ranges_are_taken_by_whole_pages() {
    let pages = Mapped::new(4);
    let start = pages.range().start;
    let page = rustix::param::page_size();
    pages.touch(1);
    pages.touch(2);
    // Within page 1; over both; nothing; and page 2 again, which counts once.
    let ranges = [start + page + 8..start + page + 16, start + 2 * page - 1..start + 2 * page + 1, start..start];
    let placement = Placement::of(ranges).unwrap();
    assert_eq!(placement.domains().map(|(_, count)| count).sum::<u64>(), 2);
}

#[test]
fn what_is_not_mapped_is_absent_and_no_error() {
    // What is free again may be another thread's the next moment: the kernel gives the same
    // place out anew.
    let freed = (0..100).map(|_| {
        let pages = Mapped::new(2);
        pages.touch(0);
        let range = pages.range();
        drop(pages);
        Placement::of([range]).unwrap().absent()
    });
    assert!(freed.into_iter().any(|absent| absent == 2));
    let page = rustix::param::page_size();
    assert_eq!(Placement::of(core::iter::once(0..page)).unwrap().absent(), 1);
    // The very end of the address space.
    assert_eq!(Placement::of(core::iter::once(usize::MAX - 1..usize::MAX)).unwrap().absent(), 0);
}

#[test]
fn policies_are_taken_or_refused_with_a_reason() {
    let domain = here();
    under(MemoryPolicy::Domain(domain), || bind(MemoryPolicy::Local).unwrap());
    let leaked: &'static [u16] = vec![domain].leak();
    under(MemoryPolicy::Interleave(leaked), || ());
    for wrong in [MemoryPolicy::Domain(1_023), MemoryPolicy::Domain(u16::MAX), MemoryPolicy::Interleave(&[MAX_DOMAINS])]
    {
        // Domain 1023 could be there; nobody has seen one.
        let why = thread::spawn(move || bind(wrong).unwrap_err().to_string()).join().unwrap();
        assert!(why.contains("there is no such domain"), "{why}");
    }
}

#[test]
fn memory_moves_to_a_domain_that_there_is() {
    let pages = Mapped::new(8);
    pages.touch(3);
    let domain = here();
    move_to(pages.range(), domain).unwrap();
    assert_eq!(Placement::of([pages.range()]).unwrap().within(domain), 1);
    move_to(5..5, domain).unwrap();
    assert!(move_to(pages.range(), 1_023).is_err());
    let range = pages.range();
    drop(pages);
    let why = move_to(range, domain).unwrap_err().to_string();
    assert!(why.starts_with("cannot move memory (NUMA domain"), "{why}");
}

#[test]
fn a_watch_sees_pages_beside_the_silo() {
    let pages = Mapped::new(16);
    pages.touch(5);
    pages.touch(6);
    let inspector = Inspector::start(2).unwrap();
    let domain = here();
    let mut near = inspector.watch(domain, true);
    let mut far = inspector.watch(domain + 1, false);
    drop(inspector);
    assert!(near.is_due(Time::ZERO));
    assert_eq!(near.pages(), Pages::default());
    let now = Time::from_nanos(1);
    for watch in [&mut near, &mut far] {
        // Half of it is where frames lie.
        let range = pages.range();
        let middle = range.start + range.len() / 2;
        watch.look(now, |each| each(range.start..middle), |each| each(middle..range.end));
        while watch.pages().looks == 0 {
            thread::yield_now();
        }
    }
    let page = rustix::param::page_size();
    let seen = [near.far().unwrap(), far.far().unwrap()];
    let of = |far: &FarPages| far.of(pages.range().start + 5 * page);
    assert_eq!((of(&seen[0]), of(&seen[1])), (None, Some(domain)));
    assert!(seen[0].is_empty() && seen[1].of(pages.range().start + 4 * page).is_none());
    assert!(near.far().is_none());
    assert_eq!(near.pages(), Pages { local: 2, remote: 0, absent: 14, looks: 1 });
    assert_eq!(far.pages(), Pages { local: 0, remote: 2, absent: 14, looks: 1 });
    assert!(!near.is_due(now + Duration::from_millis(1_999)));
    assert!(near.is_due(now + Duration::from_secs(3_600)));
}

#[test]
fn a_watch_that_brings_leaves_what_cannot_be_brought() {
    let pages = Mapped::new(4);
    pages.touch(1);
    let domain = here();
    // No machine has this one: the kernel refuses, and all is counted as it is.
    let inspector = Inspector::start(1).unwrap();
    let mut watch = inspector.watch(1_022, true);
    watch.look(Time::ZERO, |_| {}, |each| each(pages.range()));
    while watch.pages().looks == 0 {
        thread::yield_now();
    }
    assert_eq!(watch.pages(), Pages { local: 0, remote: 1, absent: 3, looks: 1 });
    // One that is there takes what is there already.
    let mut far = FarPages::new();
    far.add(pages.range().start, &[None, Some(1_022)]);
    bring(&far, domain).unwrap();
    assert_eq!(Placement::of([pages.range()]).unwrap().within(domain), 1);
}

#[test]
fn what_is_told_many_times_over_is_looked_at_once() {
    let page = rustix::param::page_size();
    let told = vec![5 * page + 1..5 * page + 2, 0..0, page..3 * page, 2 * page + 7..4 * page, 5 * page..6 * page - 1];
    assert_eq!(merged(told), [page..4 * page, 5 * page..6 * page]);
    // As a peer's descriptors did it: each told all of a region.
    assert_eq!(merged(vec![0..1 << 32; 32_768]).len(), 1);
}

/// A peer shares a file of 64 GiB with nothing in it.
#[test]
fn a_look_at_sparse_memory_is_bounded_and_sees_its_parts() {
    const PAGES: usize = 1 << 24;
    let page = rustix::param::page_size();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new private mapping touches no memory of ours.
    let start = unsafe { mmap_anonymous(core::ptr::null_mut(), PAGES * page, access, flags) };
    let mapped = Mapped { start: start.unwrap().cast(), len: PAGES * page };
    let domain = here();
    let (bound, called_off) = (1 << 10, AtomicBool::new(false));
    let scope = Scope { pages: bound, called_off: &called_off };
    // Of 2^14 pages, the first is asked about.
    mapped.touch(3 << 14);
    mapped.touch((5 << 14) + 1);
    let frames = [mapped.range()];
    let (far, placement) = FarPages::beyond(domain + 1, &frames, scope).unwrap().unwrap();
    assert_eq!((placement.within(domain), placement.absent()), (1 << 14, (1 << 24) - (1 << 14)));
    assert_eq!(far.starts().collect::<Vec<_>>(), [mapped.range().start + (3 << 14) * page]);
    let of = |number: usize| far.of(mapped.range().start + number * page);
    assert_eq!((of(3 << 14), of((4 << 14) - 1), of(4 << 14)), (Some(domain), Some(domain), None));
    called_off.store(true, Ordering::Relaxed);
    assert!(FarPages::beyond(domain, &frames, scope).unwrap().is_none(), "nobody waits for it");
}

#[test]
fn a_look_that_is_called_off_counts_nothing_and_the_next_one_does() {
    let pages = Mapped::new(1 << 16);
    pages.touch(1);
    let inspector = Inspector::start(1).unwrap();
    let mut watch = inspector.watch(here(), false);
    let mut now = Time::ZERO;
    while watch.pages().looks == 0 {
        if watch.is_due(now) {
            watch.look(now, |each| each(pages.range()), |_| {});
            // The first at least, before or after it began.
            if now == Time::ZERO {
                watch.call_off();
            }
        }
        now = now + Duration::from_millis(500);
        thread::yield_now();
    }
    assert_eq!(watch.pages().local, 1);
}
