use super::*;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const PAGE: usize = 4096;

/// Some pages of a file.
fn mapped(pages: usize) -> (OwnedFd, NonNull<u8>) {
    let file = rustix::fs::memfd_create(c"test", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    rustix::fs::ftruncate(&file, (pages * PAGE) as u64).expect("truncate");
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { rustix::mm::mmap(core::ptr::null_mut(), pages * PAGE, access, flags, &file, 0) };
    (file, NonNull::new(start.expect("mapped").cast()).expect("somewhere"))
}

#[test]
fn pages_that_are_taken_away_read_as_zeros_and_only_theirs_are_lost() {
    let [(file, start), (_other, kept)] = [mapped(4), mapped(4)];
    // SAFETY: the mappings stay until the end of the process, and nothing else uses them.
    let [guard, other] = [start, kept].map(|start| unsafe { Guard::new(start, 4 * PAGE, PAGE) }.expect("the signal"));
    // SAFETY: within the mappings, which stay.
    unsafe {
        start.add(3 * PAGE).write_volatile(1);
        kept.write_volatile(2);
        assert_eq!((start.add(3 * PAGE).read_volatile(), guard.is_lost()), (1, false));
        rustix::fs::ftruncate(&file, PAGE as u64).expect("truncate");
        assert_eq!((start.add(3 * PAGE).read_volatile(), guard.is_lost()), (0, true));
        // From here on it is memory like any other.
        start.add(2 * PAGE).write_volatile(3);
        assert_eq!((start.add(2 * PAGE).read_volatile(), start.read_volatile()), (3, 0));
        assert_eq!((kept.read_volatile(), other.is_lost()), (2, false));
    }
    drop(guard);
    // An entry that is used again begins as a new one.
    let (_file, again) = mapped(1);
    // SAFETY: as above.
    assert!(!unsafe { Guard::new(again, PAGE, PAGE) }.expect("the signal").is_lost());
}

#[test]
fn several_threads_may_fault_at_once() {
    let (file, start) = mapped(64);
    // SAFETY: as above.
    let guard = unsafe { Guard::new(start, 64 * PAGE, PAGE) }.expect("the signal");
    rustix::fs::ftruncate(&file, 0).expect("truncate");
    let at = start.as_ptr().expose_provenance();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for page in (thread..64).step_by(8) {
                    // SAFETY: within the mapping, which stays; each thread has pages of its own.
                    unsafe {
                        let place = core::ptr::with_exposed_provenance_mut::<u8>(at + page * PAGE);
                        let _ = place.read_volatile();
                    }
                }
            });
        }
    });
    assert!(guard.is_lost());
}

/// Runs one of the cases below in a process of its own, which is to end.
fn ends_by(case: &str) -> Option<i32> {
    let me = std::env::current_exe().expect("a test program");
    let mut child = Command::new(me);
    child.args(["--exact", "guard::tests::dies", "--nocapture"]).env("NEARSIDE_DIES", case);
    child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).status().expect("runs").signal()
}

#[test]
fn a_bus_error_elsewhere_ends_the_process_as_ever() {
    for case in ["file", "sent", "unmapped"] {
        assert_eq!(ends_by(case), Some(libc::SIGBUS), "{case}");
    }
}

/// Does nothing but for [`ends_by`].
#[test]
fn dies() {
    let Ok(case) = std::env::var("NEARSIDE_DIES") else { return };
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).expect("no core file");
    let (file, start) = mapped(4);
    let (ours, guarded) = mapped(4);
    // SAFETY: the mappings stay.
    let guard = unsafe { Guard::new(guarded, 4 * PAGE, PAGE) }.expect("the signal");
    match case.as_str() {
        // The standard library, which had the signal before, takes the first for a fault that will come again.
        "sent" => (0..2).for_each(|_| {
            // To this thread, so that each has arrived when the call returns: two that wait for another thread are one.
            // SAFETY: takes a number only.
            unsafe { libc::raise(libc::SIGBUS) };
        }),
        // SAFETY: within the mapping; what happens then is what is tried.
        "file" => unsafe {
            rustix::fs::ftruncate(&file, 0).expect("truncate");
            start.read_volatile();
        },
        _ => {
            drop(guard);
            rustix::fs::ftruncate(&ours, 0).expect("truncate");
            // SAFETY: within the mapping. A guard that is gone guards nothing.
            unsafe { guarded.read_volatile() };
        }
    }
    println!("it lives");
}
