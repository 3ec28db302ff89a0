//! Stamps of the NIC: which it has, and switched on for as long as they are
//! wanted.

use crate::interface::{InterfaceControl, StampConfig, StampFacts};
use std::io;

/// SO_TIMESTAMPING's flags: what a driver offers for stamps of both ways, by the
/// kernel and by the NIC.
pub const KERNEL_FLAGS: u32 = SOF_TX_SOFTWARE | SOF_RX_SOFTWARE | SOF_SOFTWARE;
/// See [`KERNEL_FLAGS`].
pub const NIC_FLAGS: u32 = SOF_TX_HARDWARE | SOF_RX_HARDWARE | SOF_RAW_HARDWARE;
/// Those of them that are asked for frame by frame.
pub const DEPARTURE_FLAGS: u32 = SOF_TX_SOFTWARE | SOF_TX_HARDWARE;
const SOF_TX_HARDWARE: u32 = 1;
const SOF_TX_SOFTWARE: u32 = 1 << 1;
const SOF_RX_HARDWARE: u32 = 1 << 2;
const SOF_RX_SOFTWARE: u32 = 1 << 3;
const SOF_SOFTWARE: u32 = 1 << 4;
const SOF_RAW_HARDWARE: u32 = 1 << 6;

/// Of `enum hwtstamp_tx_types` and `enum hwtstamp_rx_filters`
/// (`include/uapi/linux/net_tstamp.h`).
const TX_ON: i32 = 1;
const FILTER_NONE: i32 = 0;
const FILTER_ALL: i32 = 1;
const FILTER_V2_L2_EVENT: i32 = 9;
const FILTER_V2_EVENT: i32 = 12;

/// What stamps these frames could be of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Frames {
    All,
    OnlyPtp,
}

/// The frames that a filter lets be stamped; `None`: not those that we send.
const fn frames_of(filter: i32) -> Option<Frames> {
    match filter {
        FILTER_ALL => Some(Frames::All),
        FILTER_V2_L2_EVENT | FILTER_V2_EVENT => Some(Frames::OnlyPtp),
        _ => None,
    }
}

/// The best filter of those that a NIC has.
fn best_filter(filters: u32) -> Option<i32> {
    [FILTER_ALL, FILTER_V2_EVENT, FILTER_V2_L2_EVENT].into_iter().find(|filter| filters & 1 << filter != 0)
}

/// The clock of a NIC that stamps frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NicClock {
    /// Its number (`/dev/ptpN`).
    pub ptp: u32,
    /// Only event messages of PTP, version 2, are stamped, and no other frame.
    pub only_ptp: bool,
}

/// Whether the kernel stamps frames of both ways of an interface.
///
/// # Errors
/// Why it does not.
pub fn kernel_stamps(name: &str) -> Result<(), String> {
    let why = "its driver has no place where the kernel could stamp what leaves";
    facts_with(name, KERNEL_FLAGS, why).map(drop)
}

/// The clock that an interface's NIC stamps frames of both ways with.
///
/// # Errors
/// Why it does not.
pub fn nic_clock(name: &str) -> Result<NicClock, String> {
    let (interface, facts) = facts_with(name, NIC_FLAGS, "its NIC does not stamp frames of both ways")?;
    let ptp = u32::try_from(facts.clock).map_err(|_| format!("{name}: its NIC has no PTP clock"))?;
    if facts.departing & 1 << TX_ON == 0 {
        return Err(format!("{name}: its NIC does not stamp frames that leave"));
    }
    // Another program's choice is left as it is, if it does.
    let frames = match interface.stamp_config() {
        Ok(now) if now.departing > 0 && now.coming != FILTER_NONE => frames_of(now.coming),
        Ok(_) | Err(_) => best_filter(facts.coming).and_then(frames_of),
    };
    match frames {
        Some(frames) => Ok(NicClock { ptp, only_ptp: frames == Frames::OnlyPtp }),
        None => Err(format!(
            "{name}: its NIC stamps neither all frames that come nor PTP's event messages of version 2, or another \
             program has it stamp others"
        )),
    }
}

/// What an interface's driver stamps, which is all of `wanted`; else `why` not.
fn facts_with(name: &str, wanted: u32, why: &str) -> Result<(InterfaceControl, StampFacts), String> {
    let interface = InterfaceControl::new(name).map_err(|why| format!("{name}: {why}"))?;
    let facts = interface.stamp_facts().map_err(|why| format!("{name} does not tell what it stamps: {why}"))?;
    if facts.flags & wanted != wanted {
        return Err(format!("{name}: {why} (ethtool -T {name})"));
    }
    Ok((interface, facts))
}

/// A NIC's stamps, switched on.
#[derive(Debug)]
pub struct Stamping {
    interface: InterfaceControl,
    /// The interface's number then: another one of its name is not ours to change.
    index: i32,
    /// What was before, and what we made of it; `None`: it was on already.
    changed: Option<(StampConfig, StampConfig)>,
}

impl Stamping {
    /// Switches them on, if they are not.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn begin(name: &str) -> Result<Self, String> {
        let fail = |why: io::Error| {
            let hint = if why.raw_os_error() == Some(libc::EPERM) { "; this needs CAP_NET_ADMIN" } else { "" };
            format!("the stamps of {name}'s NIC cannot be switched on: {why}{hint}")
        };
        let interface = InterfaceControl::new(name).map_err(fail)?;
        let index = interface.index().map_err(fail)?;
        // Drivers that cannot tell take what is set.
        let before = interface.stamp_config().unwrap_or_default();
        if before.departing > 0 && frames_of(before.coming).is_some() {
            return Ok(Self { interface, index, changed: None });
        }
        if before.departing > 0 || before.coming != FILTER_NONE {
            return Err(format!(
                "another program has {name}'s NIC stamp other frames than these need (filter {}): end it, or measure \
                 with --clock kernel",
                before.coming
            ));
        }
        let facts = interface.stamp_facts().map_err(fail)?;
        let filter = best_filter(facts.coming).ok_or_else(|| format!("{name}'s NIC has no filter for our frames"))?;
        let now = interface.set_stamp_config(TX_ON, filter).map_err(fail)?;
        let stamping = Self { interface, index, changed: Some((before, now)) };
        if now.departing <= 0 || frames_of(now.coming).is_none() {
            return Err(format!("{name}'s NIC stamps other frames than it was asked to (filter {})", now.coming));
        }
        Ok(stamping)
    }
}

impl Drop for Stamping {
    fn drop(&mut self) {
        if let Some((before, ours)) = self.changed
            && self.interface.index().is_ok_and(|index| index == self.index)
            // Who has changed them since wants them so.
            && self.interface.stamp_config().map_or(true, |now| now == ours)
        {
            let _ = self.interface.set_stamp_config(before.departing, before.coming);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_for_all_frames_is_the_best() {
        let bits = |filters: &[i32]| filters.iter().fold(0, |bits, filter| bits | 1_u32 << filter);
        assert_eq!(best_filter(bits(&[0, 1, 12])), Some(FILTER_ALL));
        assert_eq!(best_filter(bits(&[0, 9, 12])), Some(FILTER_V2_EVENT));
        assert_eq!(best_filter(bits(&[0, 9])), Some(FILTER_V2_L2_EVENT));
        // Those of version 1, of one message, or of UDP alone would miss ours.
        assert_eq!(best_filter(bits(&[0, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 14, 15])), None);
        assert_eq!((frames_of(FILTER_ALL), frames_of(FILTER_V2_EVENT)), (Some(Frames::All), Some(Frames::OnlyPtp)));
    }
}
