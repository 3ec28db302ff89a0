//! The C shim's functions and structures, as src/shim.c has them.

use core::ffi::{c_char, c_int, c_void};

/// Frames handed to the driver in one call.
pub(crate) const BURST: usize = 64;

/// Entries of the largest table that spreads flows over queues.
pub(crate) const RETA_LIMIT: usize = 512;

/// Bytes of the longest key of receive-side scaling.
pub(crate) const KEY_LIMIT: usize = 52;

/// A packet buffer (`rte_mbuf`), known here by its address only.
pub(crate) enum Mbuf {}

/// A pool of them (`rte_mempool`).
pub(crate) enum Pool {}

pub(crate) const RX_VERIFIED: u32 = 1;
pub(crate) const TX_CHECKSUM: u16 = 1;
pub(crate) const TX_SEGMENT: u16 = 2;
pub(crate) const TX_STAMP: u16 = 4;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) data: *const u8,
    pub(crate) len: u32,
    pub(crate) flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) mbuf: *mut Mbuf,
    pub(crate) data: *mut u8,
    pub(crate) len: u16,
    pub(crate) flags: u16,
    pub(crate) transport: u16,
    pub(crate) segment: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) queues: u16,
    pub(crate) rx_descriptors: u16,
    pub(crate) tx_descriptors: u16,
    pub(crate) mtu: u16,
    pub(crate) domain: i32,
    pub(crate) segmentation_limit: u32,
    pub(crate) checksum: u8,
    pub(crate) vlan_strip: u8,
    pub(crate) promiscuous: u8,
    pub(crate) interrupts: u8,
    pub(crate) stamps: u8,
    pub(crate) key_len: u8,
    pub(crate) key: [u8; KEY_LIMIT],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawFacts {
    pub(crate) queues: u16,
    pub(crate) rx_descriptors: u16,
    pub(crate) tx_descriptors: u16,
    pub(crate) mtu: u16,
    pub(crate) domain: i32,
    pub(crate) segmentation_limit: u32,
    pub(crate) rx_checksum: u8,
    pub(crate) tx_checksum: u8,
    pub(crate) vlan_strip: u8,
    pub(crate) promiscuous: u8,
    pub(crate) interrupts: u8,
    pub(crate) stamps_all: u8,
    pub(crate) mac: [u8; 6],
    pub(crate) key_len: u8,
    pub(crate) key: [u8; KEY_LIMIT],
    pub(crate) reta_len: u16,
    pub(crate) reta: [u16; RETA_LIMIT],
    pub(crate) rss_fields: u64,
    pub(crate) driver: [c_char; 32],
    pub(crate) step: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PortCounts {
    pub(crate) missed: u64,
    pub(crate) errors: u64,
    pub(crate) no_buffer: u64,
}

/// What a port said of stamps when it was asked: 0, or a code.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct RawStamping {
    pub(crate) enabled: i32,
    pub(crate) clock: i32,
    pub(crate) departures: i32,
    pub(crate) taken: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct MemoryRange {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

pub(crate) type Log = extern "C" fn(level: u32, text: *const c_char, len: usize);

unsafe extern "C" {
    pub(crate) fn near_log_to(to: Log) -> c_int;
    pub(crate) fn near_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    pub(crate) safe fn near_version() -> *const c_char;
    pub(crate) safe fn near_reason(code: c_int) -> *const c_char;
    pub(crate) safe fn near_enter_thread() -> c_int;
    pub(crate) safe fn near_leave_thread();

    pub(crate) fn near_attach(device: *const c_char, arguments: *const c_char, port: *mut u16) -> c_int;
    pub(crate) fn near_configure(port: u16, wish: *const Wish, facts: *mut RawFacts) -> c_int;
    pub(crate) fn near_pool(name: *const c_char, count: u32, room: u32, domain: i32) -> *mut Pool;
    pub(crate) fn near_pool_in_use(pool: *const Pool) -> u32;
    pub(crate) fn near_pool_memory(pool: *mut Pool, to: *mut MemoryRange, limit: u32) -> u32;
    pub(crate) fn near_pool_free(pool: *mut Pool);
    pub(crate) fn near_queue(port: u16, queue: u16, facts: *mut RawFacts, rx: *mut Pool) -> c_int;
    pub(crate) fn near_begin(port: u16, wish: *const Wish, facts: *mut RawFacts) -> c_int;
    pub(crate) fn near_set_mac(port: u16, mac: *const u8) -> c_int;
    pub(crate) safe fn near_is_up(port: u16) -> c_int;
    pub(crate) fn near_counts(port: u16, counts: *mut PortCounts) -> c_int;
    pub(crate) safe fn near_interrupts(port: u16, queue: u16) -> c_int;
    pub(crate) safe fn near_interrupt(port: u16, queue: u16, on: c_int);
    pub(crate) safe fn near_interrupted(epoll: c_int);
    pub(crate) safe fn near_end(port: u16);
    pub(crate) safe fn near_close(port: u16);

    pub(crate) safe fn near_expect_stamps() -> c_int;
    pub(crate) fn near_stamp(port: u16, pool: *mut Pool, found: *mut RawStamping);
    pub(crate) safe fn near_stamp_no_more(port: u16);
    pub(crate) fn near_clock(port: u16, now: *mut u64) -> c_int;
    pub(crate) fn near_counter(port: u16, now: *mut u64, beside: *mut u64) -> c_int;
    pub(crate) fn near_departure(port: u16, stamp: *mut u64) -> c_int;
    pub(crate) fn near_arrivals(port: u16, mbufs: *mut *mut Mbuf, count: u16, stamps: *mut u64);

    pub(crate) fn near_receive(
        port: u16,
        queue: u16,
        mbufs: *mut *mut Mbuf,
        frames: *mut Frame,
        max: u16,
        dropped: *mut u64,
    ) -> u16;
    pub(crate) fn near_free(mbufs: *mut *mut Mbuf, count: u16);
    pub(crate) fn near_slots(pool: *mut Pool, slots: *mut Slot, count: u16) -> c_int;
    pub(crate) fn near_drop_slots(slots: *mut Slot, count: u16);
    pub(crate) fn near_send(
        port: u16,
        queue: u16,
        slots: *const Slot,
        count: u16,
        prepare: c_int,
        refused: *mut c_int,
    ) -> u16;
}

/// A pointer's use as an opaque handle in messages of errors.
pub(crate) fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the shim gives NUL-terminated texts that live as long as the
    // process (DPDK's version, literals) or as this thread's next error.
    unsafe { core::ffi::CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

const _: () = assert!(size_of::<Frame>() == 16 && size_of::<Slot>() == 24 && size_of::<*const c_void>() == 8);
