//! The system call bpf(2): one function per command, `union bpf_attr` as one
//! structure each (`linux/bpf.h`). The kernel takes any prefix of the union
//! that holds the fields it needs, and wants zeros in what it does not know.

use crate::insn::Insn;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: u32 = 0;
const MAP_LOOKUP: u32 = 1;
const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const PROG_LOAD: u32 = 5;
const PROG_TEST_RUN: u32 = 10;
const PROG_GET_FD_BY_ID: u32 = 13;
const OBJ_GET_INFO_BY_FD: u32 = 15;
const LINK_CREATE: u32 = 28;
const LINK_UPDATE: u32 = 29;

/// The attach type of XDP programs (`enum bpf_attach_type`).
const ATTACH_XDP: u32 = 37;

/// `BPF_F_XDP_DEV_BOUND_ONLY`.
const DEVICE_BOUND: u32 = 1 << 6;

/// Names of maps and programs, their end included (BPF_OBJ_NAME_LEN).
const NAME_LEN: usize = 16;

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; NAME_LEN],
}

#[repr(C)]
struct Element {
    map_fd: u32,
    reserved: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; NAME_LEN],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct LinkUpdate {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}

#[repr(C)]
struct GetId {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

#[repr(C)]
struct GetInfo {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// `struct bpf_prog_info` as far as the name.
#[repr(C)]
#[derive(Default)]
struct ProgInfo {
    prog_type: u32,
    id: u32,
    tag: [u8; 8],
    jited_prog_len: u32,
    xlated_prog_len: u32,
    jited_prog_insns: u64,
    xlated_prog_insns: u64,
    load_time: u64,
    created_by_uid: u32,
    nr_map_ids: u32,
    map_ids: u64,
    name: [u8; NAME_LEN],
}

// No hole: the kernel would read what lies in it.
const _: () = assert!(size_of::<MapCreate>() == 44 && size_of::<Element>() == 32);
const _: () = assert!(size_of::<LinkCreate>() == 16 && size_of::<LinkUpdate>() == 16);
const _: () = assert!(size_of::<GetId>() == 12 && size_of::<GetInfo>() == 16 && size_of::<ProgInfo>() == 80);
const _: () = assert!(size_of::<ProgLoad>() == 72 && size_of::<TestRun>() == 40);

/// # Safety
/// Every pointer in `attr` that `command` reads or writes through is valid
/// for the size that the command gives it.
unsafe fn bpf<A>(command: u32, attr: &mut A) -> Result<i64, Errno> {
    // SAFETY: `attr` is valid for reads and writes of its size; what it points
    // to is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, core::ptr::from_mut(attr), size_of::<A>()) };
    if result < 0 { Err(last_errno()) } else { Ok(result) }
}

pub(crate) fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

/// A descriptor that the kernel just made.
fn owned(fd: i64) -> OwnedFd {
    // SAFETY: bpf(2) returned it as new, so nobody else owns it; it fits an int.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// The first 15 bytes, of letters, digits and `_.` only, as the kernel wants.
fn name_field(name: &str) -> [u8; NAME_LEN] {
    let mut field = [0; NAME_LEN];
    for (to, from) in field.iter_mut().zip(name.bytes()).take(NAME_LEN - 1) {
        *to = if from.is_ascii_alphanumeric() || from == b'.' { from } else { b'_' };
    }
    field
}

/// Makes a map; sizes in bytes.
pub(crate) fn map_create(
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    name: &str,
) -> Result<OwnedFd, Errno> {
    let map_name = name_field(name);
    let mut attr = MapCreate {
        map_type: kind,
        key_size,
        value_size,
        max_entries,
        map_flags,
        inner_map_fd: 0,
        numa_node: 0,
        map_name,
    };
    // SAFETY: the attribute holds no pointers.
    unsafe { bpf(MAP_CREATE, &mut attr) }.map(owned)
}

fn fd_field(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

/// # Safety
/// `key` has the map's key size; `value` the size that the kernel gives for
/// this map's kind, for all CPUs where it has one per CPU.
pub(crate) unsafe fn map_lookup(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> Result<(), Errno> {
    let (key, value) = (key.as_ptr() as u64, value.as_mut_ptr() as u64);
    let mut attr = Element { map_fd: fd_field(map), reserved: 0, key, value, flags: 0 };
    // SAFETY: both pointers are valid for the sizes that the caller promises.
    unsafe { bpf(MAP_LOOKUP, &mut attr) }.map(drop)
}

/// # Safety
/// As for [`map_lookup`].
pub(crate) unsafe fn map_update(map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> Result<(), Errno> {
    let (key, value) = (key.as_ptr() as u64, value.as_ptr() as u64);
    let mut attr = Element { map_fd: fd_field(map), reserved: 0, key, value, flags: 0 };
    // SAFETY: both pointers are valid for the sizes that the caller promises.
    unsafe { bpf(MAP_UPDATE, &mut attr) }.map(drop)
}

/// # Safety
/// `key` has the map's key size.
pub(crate) unsafe fn map_delete(map: BorrowedFd<'_>, key: &[u8]) -> Result<(), Errno> {
    let mut attr = Element { map_fd: fd_field(map), reserved: 0, key: key.as_ptr() as u64, value: 0, flags: 0 };
    // SAFETY: the key's pointer is valid for the size that the caller promises.
    unsafe { bpf(MAP_DELETE, &mut attr) }.map(drop)
}

/// Loads a program, for the interface of this number alone if there is one; what
/// the verifier says goes to `log`, unless it is empty.
pub(crate) fn prog_load(
    (kind, interface): (u32, Option<u32>),
    code: &[Insn],
    license: &core::ffi::CStr,
    name: &str,
    log: &mut [u8],
) -> Result<OwnedFd, Errno> {
    let mut attr = ProgLoad {
        prog_type: kind,
        insn_cnt: code.len() as u32,
        insns: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        // Without a log the kernel wants no buffer either.
        log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kern_version: 0,
        prog_flags: if interface.is_some() { DEVICE_BOUND } else { 0 },
        prog_name: name_field(name),
        prog_ifindex: interface.unwrap_or(0),
        expected_attach_type: 0,
    };
    // SAFETY: the instructions, the licence with its end, and the log are
    // valid for the sizes given, the log for writing.
    unsafe { bpf(PROG_LOAD, &mut attr) }.map(owned)
}

/// Runs a program once on `data`, as a packet; returns what it returned.
pub(crate) fn test_run(program: BorrowedFd<'_>, data: &[u8]) -> Result<u32, Errno> {
    let mut attr = TestRun {
        prog_fd: fd_field(program),
        retval: 0,
        data_size_in: data.len() as u32,
        data_size_out: 0,
        data_in: data.as_ptr() as u64,
        data_out: 0,
        repeat: 1,
        duration: 0,
    };
    // SAFETY: the data is valid for the size given; nothing is written back
    // but to the attribute.
    unsafe { bpf(PROG_TEST_RUN, &mut attr) }.map(|_| attr.retval)
}

/// Attaches an XDP program to an interface, for as long as the descriptor
/// that comes back is open.
pub(crate) fn link_create_xdp(program: BorrowedFd<'_>, interface: u32, flags: u32) -> Result<OwnedFd, Errno> {
    let mut attr = LinkCreate { prog_fd: fd_field(program), target_ifindex: interface, attach_type: ATTACH_XDP, flags };
    // SAFETY: the attribute holds no pointers.
    unsafe { bpf(LINK_CREATE, &mut attr) }.map(owned)
}

/// Puts another program in the place of the one that `link` attaches.
pub(crate) fn link_update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut attr = LinkUpdate { link_fd: fd_field(link), new_prog_fd: fd_field(program), flags: 0, old_prog_fd: 0 };
    // SAFETY: the attribute holds no pointers.
    unsafe { bpf(LINK_UPDATE, &mut attr) }.map(drop)
}

/// The name of the program with this number, up to 15 bytes.
pub(crate) fn program_name(id: u32) -> Result<[u8; NAME_LEN], Errno> {
    let mut attr = GetId { id, next_id: 0, open_flags: 0 };
    // SAFETY: the attribute holds no pointers.
    let program = unsafe { bpf(PROG_GET_FD_BY_ID, &mut attr) }.map(owned)?;
    let mut info = ProgInfo::default();
    let (info_len, pointer) = (size_of::<ProgInfo>() as u32, core::ptr::from_mut(&mut info) as u64);
    let mut attr = GetInfo { bpf_fd: program.as_raw_fd() as u32, info_len, info: pointer };
    // SAFETY: `info` is valid for writes of `info_len`; its pointers are null
    // and its counts zero, so that nothing more is written.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attr) }?;
    Ok(info.name)
}

/// Sets an option of `SOL_SOCKET` that is one int.
pub(crate) fn set_socket_option(socket: BorrowedFd<'_>, option: i32, value: i32) -> Result<(), Errno> {
    let size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value is valid for the size given, and read only.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, core::ptr::from_ref(&value).cast(), size)
    };
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}
