//! What is plugged in: block devices, and the links of PCI Express that they and NICs have.

use core::fmt;

/// A block device that hardware stands behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    /// Its name: `nvme0n1`.
    pub name: String,
    /// What it calls itself.
    pub model: Option<String>,
    /// The domain that its controller is attached to; `None` where the firmware does not say.
    pub domain: Option<u16>,
    /// Its length in bytes; zero where that is not told.
    pub bytes: u64,
    /// Whether it turns.
    pub rotational: bool,
    /// The PCI Express link of its controller; `None` where there is none.
    pub pci: Option<PciPlace>,
    /// What it shares that link with: the slot of its controller, or of NVMe the controller itself.
    pub slot: Option<String>,
}

impl Disk {
    /// Whether it is a namespace of NVMe.
    #[must_use]
    pub fn is_nvme(&self) -> bool {
        self.name.starts_with("nvme")
    }
}

/// How a device's PCI Express link runs, and how it could.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PciPlace {
    /// As it was trained.
    pub now: PciLink,
    /// The most that the device can; `None` where that is not told.
    pub device: Option<PciLink>,
    /// The most that the port above it can, into which it is plugged.
    pub slot: Option<PciLink>,
}

/// A link of PCI Express: lanes, and the rate of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PciLink {
    /// Lanes.
    pub width: u8,
    /// Megatransfers per second of a lane: 8000 is the third generation.
    pub rate: u32,
}

impl PciLink {
    /// As sysfs tells it: `8.0 GT/s PCIe` and `16`; `None` for `Unknown`, no lanes, or what no
    /// generation has.
    #[must_use]
    pub fn read(speed: &str, width: &str) -> Option<Self> {
        let rate = match speed.split_whitespace().next()? {
            "2.5" => 2_500,
            "5" | "5.0" => 5_000,
            "8" | "8.0" => 8_000,
            "16" | "16.0" => 16_000,
            "32" | "32.0" => 32_000,
            "64" | "64.0" => 64_000,
            _ => return None,
        };
        // The widths that links have had (PCI Express Base 3.0: x1 to x32).
        let width = width.parse::<u8>().ok().filter(|width| matches!(width, 1 | 2 | 4 | 8 | 12 | 16 | 32))?;
        Some(Self { width, rate })
    }

    /// The generation, from 1.
    #[must_use]
    pub const fn generation(self) -> u8 {
        match self.rate {
            0..=2_500 => 1,
            2_501..=5_000 => 2,
            5_001..=8_000 => 3,
            8_001..=16_000 => 4,
            16_001..=32_000 => 5,
            _ => 6,
        }
    }

    /// Bytes per second in each direction, behind the line's code and before packets' headers: ten
    /// bits for eight up to 5 GT/s, 130 for 128 up to 32 GT/s, and flits of 256 bytes with 236 of
    /// packets at 64 GT/s.
    #[must_use]
    pub fn bytes(self) -> u64 {
        let bits = u64::from(self.rate) * 1_000_000 * u64::from(self.width);
        match self.generation() {
            1 | 2 => bits * 8 / 10 / 8,
            3..=5 => bits * 128 / 130 / 8,
            _ => bits * 236 / 256 / 8,
        }
    }
}

impl fmt::Display for PciLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PCIe {}.0 x{}", self.generation(), self.width)
    }
}

impl PciPlace {
    /// What is less than it could be, a sentence for each; none for what is well.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let Some(device) = self.device else { return faults };
        // What both ends can is what a link is trained to.
        let both = self
            .slot
            .map_or(device, |slot| PciLink { width: slot.width.min(device.width), rate: slot.rate.min(device.rate) });
        if self.now.bytes() < both.bytes() {
            faults.push(format!(
                "runs at {} and both ends can {both}: seat, riser, or a link that saves power when nothing passes",
                self.now
            ));
        }
        if let Some(slot) = self.slot
            && both.bytes() < device.bytes()
        {
            faults.push(format!("can {device} in a slot of {slot}"));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(speed: &str, width: &str) -> Option<PciLink> {
        PciLink::read(speed, width)
    }

    #[test]
    fn links_are_read_as_the_kernel_writes_them() {
        let third = link("8.0 GT/s PCIe", "16").unwrap();
        assert_eq!((third.to_string(), third.bytes() / 1_000_000), ("PCIe 3.0 x16".to_owned(), 15_753));
        assert_eq!(link("16.0 GT/s PCIe", "4").unwrap().bytes() / 1_000_000, 7_876);
        assert_eq!(link("5 GT/s", "1").unwrap().bytes(), 500_000_000);
        assert_eq!(link("64.0 GT/s PCIe", "4").unwrap().generation(), 6);
        for (speed, width) in
            [("Unknown", "16"), ("8.0 GT/s", "0"), ("8.0", "255"), ("", "1"), ("9.0 GT/s", "4"), ("8.0", "3")]
        {
            assert_eq!(link(speed, width), None, "{speed} {width}");
        }
    }

    #[test]
    fn what_could_be_more_is_told_by_whom_it_lies_with() {
        let [x16, x8, slow] = [("8.0", "16"), ("8.0", "8"), ("2.5", "16")].map(|(speed, width)| link(speed, width));
        let place = |now: Option<PciLink>, device, slot| PciPlace { now: now.unwrap(), device, slot };
        assert!(place(x16, x16, x16).faults().is_empty() && place(x8, None, None).faults().is_empty());
        assert_eq!(place(x8, x16, x8).faults(), ["can PCIe 3.0 x16 in a slot of PCIe 3.0 x8"]);
        let trained = place(slow, x16, x16).faults();
        assert!(trained[0].starts_with("runs at PCIe 1.0 x16 and both ends can PCIe 3.0 x16"), "{trained:?}");
        assert_eq!(place(slow, x16, x8).faults().len(), 2);
    }
}
