//! What the kernel watches of sockets that may become ours by `connect`: some programs watch them
//! before.

use crate::kernel;
use crate::worker::place;
use core::ffi::c_int;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// A watch of the kernel's on a socket that may become ours by `connect`.
#[derive(Clone, Copy, Debug)]
pub struct KernelWatch {
    /// In which set.
    pub set: c_int,
    /// For what.
    pub events: u32,
    /// What it is known by.
    pub data: u64,
}

/// Watches on sockets of the kernel that are not connected, by descriptor and set.
static WATCHES: Mutex<BTreeMap<(c_int, c_int), KernelWatch>> = Mutex::new(BTreeMap::new());

/// Sets of the kernel's that others watch, by themselves and by who watches them.
static NESTED: Mutex<BTreeSet<(c_int, c_int)>> = Mutex::new(BTreeSet::new());

/// Whether a set is watched by another.
pub fn is_nested(set: c_int) -> bool {
    let nested = NESTED.lock().unwrap_or_else(PoisonError::into_inner);
    nested.range((set, c_int::MIN)..=(set, c_int::MAX)).next().is_some()
}

/// One set watches another, or does not any more.
fn note_nested(set: c_int, op: c_int, fd: c_int) {
    let mut nested = NESTED.lock().unwrap_or_else(PoisonError::into_inner);
    match op {
        libc::EPOLL_CTL_ADD => nested.insert((fd, set)),
        libc::EPOLL_CTL_DEL => nested.remove(&(fd, set)),
        _ => false,
    };
}

/// A descriptor is nothing any more that could become ours.
pub fn forget(fd: c_int) {
    if place().is_none() {
        return;
    }
    let mut nested = NESTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !nested.is_empty() {
        nested.retain(|(watched, set)| *watched != fd && *set != fd);
    }
    drop(nested);
    let mut watches = WATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    if !watches.is_empty() {
        watches.retain(|(watched, set), _| *watched != fd && *set != fd);
    }
}

/// Takes the kernel's watches on a descriptor, which end there with its socket.
pub fn take(fd: c_int) -> Vec<KernelWatch> {
    let mut watches = WATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    let taken: Vec<_> = watches.range((fd, c_int::MIN)..=(fd, c_int::MAX)).map(|(key, watch)| (*key, *watch)).collect();
    watches.retain(|(watched, _), _| *watched != fd);
    taken.into_iter().map(|(_, watch)| watch).collect()
}

/// Notes what the kernel watches, of sockets that are not connected.
pub fn note(set: c_int, op: c_int, fd: c_int, events: u32, data: u64) {
    let Some(place) = place() else { return };
    let mut watches = WATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    match op {
        libc::EPOLL_CTL_ADD => {
            let protocol = kernel::number_option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL);
            if protocol == Some(libc::IPPROTO_TCP) {
                watches.insert((fd, set), KernelWatch { set, events, data });
            } else if protocol.is_none() && kernel::is_set(fd, place.channel).is_ok() {
                note_nested(set, op, fd);
            }
        }
        libc::EPOLL_CTL_MOD => {
            if let Some(watch) = watches.get_mut(&(fd, set)) {
                (watch.events, watch.data) = (events, data);
            }
        }
        _ => {
            watches.remove(&(fd, set));
            note_nested(set, op, fd);
        }
    }
}
