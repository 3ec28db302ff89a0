//! Stamps of a NIC, which stand in the umem before a frame: of one that came, as
//! the program writes it, and of one that left, as the kernel does.
//!
//! Source: `struct xsk_tx_metadata` in `include/uapi/linux/if_xdp.h`,
//! Documentation/networking/xsk-tx-metadata.rst and xdp-rx-metadata.rst.

use crate::config::{Config, CopyChoice, ModeChoice};
use crate::interface::Interface;
use driver::{StampClock, StampedBy};

/// The clock that an interface's NIC stamps frames with.
///
/// # Errors
/// Why it does not: a reason for the user.
pub(crate) fn clock(config: &Config, by: StampedBy) -> Result<StampClock, String> {
    let name = &config.interface;
    if by == StampedBy::Kernel {
        return Err(format!("{name}: the kernel stamps no frames of an AF_XDP socket; it does over af_packet:{name}"));
    }
    if config.mode == ModeChoice::Generic || config.copy == CopyChoice::Copy {
        return Err(format!("{name}: a NIC stamps frames in native mode without a copy only (mode=, copy=)"));
    }
    let interface = Interface::open(name).map_err(|why| format!("{name}: {why}"))?;
    let known = stamping::features().and_then(|features| features.get(&interface.index()).copied());
    let known = known.ok_or_else(|| format!("{name}: this kernel does not tell what its driver does (Linux 6.3)"))?;
    let missing: Vec<&str> = [
        (known.stamps_arrivals, "tell programs when a frame came"),
        (known.stamps_departures, "tell sockets when a frame left"),
        (known.zero_copy, "send without a copy"),
    ]
    .into_iter()
    .filter_map(|(has, what)| (!has).then_some(what))
    .collect();
    if !missing.is_empty() {
        return Err(format!("{name}: its driver, as far as this kernel says, does not {}", missing.join(", nor ")));
    }
    // Where the program would not be loaded, another clock is better than none.
    ebpf::has_function("bpf_xdp_metadata_rx_timestamp").map_err(|why| format!("{name}: {why}"))?;
    let clock = stamping::nic_clock(name)?;
    Ok(StampClock { ptp: Some(clock.ptp), only_ptp: clock.only_ptp })
}

/// Before a frame that came: the mark, and the time.
pub(crate) const BEFORE_ARRIVAL: usize = 16;

/// Before a frame that leaves: flags, then what is asked for and answered.
pub(crate) const BEFORE_DEPARTURE: usize = 24;

/// Of a descriptor's options: `XDP_TX_METADATA`.
pub(crate) const HAS_METADATA: u32 = 1 << 1;

/// The stamps of a burst. Nobody but the program writes before a frame; that
/// something is of it is known by a mark that is of this opening alone.
#[derive(Debug)]
pub(crate) struct Arrivals {
    mark: u64,
    stamps: Vec<Option<u64>>,
}

impl Arrivals {
    /// For bursts of at most so many frames.
    pub fn new(mark: u64, burst: usize) -> Self {
        Self { mark, stamps: vec![None; burst] }
    }

    /// Takes the stamp of frame `index` of the burst from what stands before it,
    /// if there is room for one: it stands there once.
    pub fn take(&mut self, index: usize, before: Option<&mut [u8; BEFORE_ARRIVAL]>) {
        let stamp = before.and_then(|before| {
            let (mark, time) = before.split_at_mut(8);
            let mark = mark.first_chunk_mut().filter(|mark| u64::from_ne_bytes(**mark) == self.mark)?;
            *mark = [0; 8];
            time.first_chunk().map(|time| u64::from_ne_bytes(*time)).filter(|time| *time != 0)
        });
        if let Some(place) = self.stamps.get_mut(index) {
            *place = stamp;
        }
    }

    pub fn of(&self, index: usize) -> Option<u64> {
        self.stamps.get(index).copied().flatten()
    }
}

/// Asks for a frame's stamp, in what stands before it.
pub(crate) fn ask(before: &mut [u8; BEFORE_DEPARTURE]) {
    // No answer of an earlier one stays.
    *before = [0; BEFORE_DEPARTURE];
    before[..8].copy_from_slice(&u64::from(libc::XDP_TXMD_FLAGS_TIMESTAMP).to_ne_bytes());
}

/// The answer, once the frame is back.
pub(crate) fn answer(before: &[u8; BEFORE_DEPARTURE]) -> Option<u64> {
    before[8..].first_chunk().map(|time| u64::from_ne_bytes(*time)).filter(|time| *time != 0)
}

/// A number that nobody guesses.
pub(crate) fn new_mark() -> Result<u64, rustix::io::Errno> {
    let mut mark = [0; 8];
    loop {
        let filled = rustix::rand::getrandom(&mut mark, rustix::rand::GetRandomFlags::empty())?;
        // Zero stands where there is none.
        if filled == mark.len() && mark != [0; 8] {
            return Ok(u64::from_ne_bytes(mark));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
