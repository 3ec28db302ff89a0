//! All that is queued as one record: what nearly every answer is. It is fixed, placed and
//! released as any record, without the walks that find one among many.

use crate::{Rope, Workbench, cut};
use core::hint::cold_path;
use seal::{Layer, Record, SealError};
use wire::Sum;

/// That all which is queued was fixed as one record, which is to be written at once: only
/// [`Rope::fix_single`] makes it, and it is good for once.
#[derive(Debug)]
pub struct Fixed {
    record: Record,
    wire: u32,
}

impl Fixed {
    /// Bytes of the record as it is sent.
    #[inline]
    #[must_use]
    pub const fn wire(&self) -> u32 {
        self.wire
    }
}

impl Rope {
    /// Fixes all that is queued as one record under the keys of `epoch`, of `most` bytes as
    /// it is sent at most: if nothing is under way, nothing but that is to be said, and the
    /// keys are far from having sealed all that they may. [`Rope::fix`] would have fixed the
    /// same.
    #[inline(always)]
    pub fn fix_single(&mut self, epoch: u8, most: u32) -> Option<Fixed> {
        let rest = self.rest.as_deref_mut()?;
        let plain = rest.bytes;
        let (record, wire) = rest.records.as_deref_mut()?.ledger.fix_single(plain, epoch, most)?;
        Some(Fixed { record, wire })
    }

    /// As [`Rope::release`] on a sealed queue: where that is one record, whole, and all that
    /// is queued, there is nothing to be looked for.
    #[inline(always)]
    pub fn release_single(&mut self, n: u32) {
        if let Some(rest) = self.rest.as_deref_mut()
            && let Some(records) = rest.records.as_deref_mut()
            && records.has_kept_nothing()
            && rest.slices.len() == 1
            && records.ledger.release_single(n, rest.bytes)
        {
            drop(rest.slices.pop_front());
            (rest.bytes, rest.cursor) = (0, (0, 0));
            return;
        }
        cold_path();
        self.release(u64::from(n));
    }

    /// Writes the record that was just fixed into `out`, whole, and sums it, as
    /// [`Rope::seal_out`] would.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn seal_single(
        &mut self,
        Fixed { record, wire }: Fixed,
        out: &mut [u8],
        bench: &mut Workbench,
        layer: &mut dyn Layer,
    ) -> Result<Sum, SealError> {
        let rest = self.rest.as_deref_mut().ok_or(SealError::Length)?;
        rest.records.as_deref_mut().ok_or(SealError::Length)?.count(wire);
        if out.len() != wire as usize {
            cold_path();
            return Err(SealError::Length);
        }
        if let Some(slice) = rest.slices.front()
            && rest.slices.len() == 1
        {
            let (body, start, len) = slice.body();
            crate::copy::note(body, len as usize, &mut core::ptr::null());
            return layer.seal_shared(&record, &[cut(body, start, len)], out, bench.sealed(wire));
        }
        cold_path();
        let all = (0, rest.bytes);
        rest.seal_text(&record, all, bench, wire, (layer, Some(out)))
    }
}
