//! Stamps of the NIC: which it has, and switched on for as long as they are
//! wanted.

use crate::interface::{Interface, StampConfig};
use crate::socket::flags_of;
use driver::{StampClock, StampedBy};
use std::io;

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

/// The clock that frames of an interface are stamped with.
///
/// # Errors
/// Why they are not.
pub(crate) fn clock(name: &str, by: StampedBy) -> Result<StampClock, String> {
    let interface = Interface::new(name).map_err(|why| format!("{name}: {why}"))?;
    let facts = interface.stamp_facts().map_err(|why| format!("{name} does not tell what it stamps: {why}"))?;
    let wanted = flags_of(by);
    if facts.flags & wanted != wanted {
        let who = match by {
            StampedBy::Kernel => "its driver has no place where the kernel could stamp what leaves",
            StampedBy::Nic => "its NIC does not stamp frames of both ways",
        };
        return Err(format!("{name}: {who} (ethtool -T {name})"));
    }
    if by == StampedBy::Kernel {
        return Ok(StampClock { ptp: None, only_ptp: false });
    }
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
        Some(frames) => Ok(StampClock { ptp: Some(ptp), only_ptp: frames == Frames::OnlyPtp }),
        None => Err(format!(
            "{name}: its NIC stamps neither all frames that come nor PTP's event messages of version 2, or another \
             program has it stamp others"
        )),
    }
}

/// A NIC's stamps, switched on.
pub(crate) struct Stamping {
    interface: Interface,
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
        let interface = Interface::new(name).map_err(fail)?;
        // Drivers that cannot tell take what is set.
        let before = interface.stamp_config().unwrap_or_default();
        if before.departing > 0 && frames_of(before.coming).is_some() {
            return Ok(Self { interface, changed: None });
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
        let stamping = Self { interface, changed: Some((before, now)) };
        if now.departing <= 0 || frames_of(now.coming).is_none() {
            return Err(format!("{name}'s NIC stamps other frames than it was asked to (filter {})", now.coming));
        }
        Ok(stamping)
    }
}

impl Drop for Stamping {
    fn drop(&mut self) {
        if let Some((before, ours)) = self.changed
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
