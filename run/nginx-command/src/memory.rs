//! Memory that a configuration has silos share: whether it is to be had is found out
//! before any of it is taken, as by nginx, which maps all of it when it starts.

use crate::load::reason;
use configuration::Program;
use core::ptr::NonNull;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Memory that was mapped to see whether it can be, and never touched.
struct Mapped(NonNull<core::ffi::c_void>, usize);

impl Mapped {
    fn new(bytes: u64) -> Result<Self, String> {
        let failed =
            |why: rustix::io::Errno| format!("mmap(MAP_ANON|MAP_SHARED, {bytes}) failed ({})", reason(&why.into()));
        let len = usize::try_from(bytes).map_err(|_| failed(rustix::io::Errno::NOMEM))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of ours.
        let start = unsafe { mmap_anonymous(core::ptr::null_mut(), len, access, MapFlags::SHARED) };
        let start = start.and_then(|start| NonNull::new(start).ok_or(rustix::io::Errno::NOMEM)).map_err(failed)?;
        Ok(Self(start, len))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing has a reference into it.
        let _ = unsafe { munmap(self.0.as_ptr(), self.1) };
    }
}

/// Whether all that silos share is to be had at once.
///
/// # Errors
/// What cannot be mapped, as nginx says it.
pub fn can_be_had(program: &Program) -> Result<(), String> {
    let mapped: Result<Vec<Mapped>, String> = program.shared_memory.values().map(|bytes| Mapped::new(*bytes)).collect();
    mapped.map(drop)
}

/// Takes what of it is needed from the beginning.
///
/// # Errors
/// As [`can_be_had`]; nothing was taken then.
pub fn take(program: &Program) -> Result<(), String> {
    can_be_had(program)?;
    program.declared.zones.iter().for_each(|zone| zone.make());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_mapped_is_refused_as_nginx_says_it() {
        let program = |sizes: &[u64]| Program {
            shared_memory: (0_u8..).zip(sizes).map(|(name, bytes)| (vec![name], *bytes)).collect(),
            ..Program::default()
        };
        assert_eq!(can_be_had(&program(&[])), Ok(()));
        assert_eq!(can_be_had(&program(&[32 << 10, 1 << 20])), Ok(()));
        for bytes in [1 << 55, u64::MAX] {
            let why = can_be_had(&program(&[32 << 10, bytes])).expect_err("more than there is");
            assert_eq!(why, format!("mmap(MAP_ANON|MAP_SHARED, {bytes}) failed (12: Cannot allocate memory)"));
        }
    }
}
