//! What this machine has for DPDK: PCI network devices and the drivers they
//! are bound to, huge pages, IOMMU. Read from sysfs and procfs below a given
//! root, so that any machine's can be replayed.

use crate::config::{Device, EalOptions};
use crate::remedy::Remedy;
use std::path::Path;
use sysroot::Sysroot;

/// No file that is looked at is longer.
const FILE_LIMIT: u64 = 1 << 20;

/// Kernel drivers that hand a device to user space.
const USER_SPACE_DRIVERS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// Kernel drivers beside which DPDK works on the same device: it asks them
/// for queues of its own.
const SHARING_DRIVERS: [&str; 3] = ["mlx5_core", "mlx4_core", "mana"];

/// PCI class of network controllers (PCI Code and ID Assignment, 1.3).
const NETWORK_CLASS: u32 = 0x02;

/// A machine's devices and memory, as its kernel shows them.
#[derive(Clone, Debug)]
pub struct Machine {
    root: Sysroot,
}

/// A network device on a PCI bus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PciDevice {
    /// Address in full.
    pub address: String,
    /// Vendor and device, as `8086:1572`.
    pub id: String,
    /// The kernel driver that it is bound to.
    pub driver: Option<String>,
    /// The kernel's interfaces on it.
    pub interfaces: Vec<String>,
    /// Its NUMA domain, where the machine tells.
    pub domain: Option<u32>,
    /// The group that the IOMMU isolates it in.
    pub group: Option<String>,
}

/// Pages of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HugePages {
    /// Size of one, in KiB.
    pub kib: u64,
    /// How many there are.
    pub total: u64,
    /// How many of them nobody uses.
    pub free: u64,
}

/// What protects memory from devices that user space drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Iommu {
    /// Devices are isolated in groups.
    Present,
    /// There is none, and vfio is told to go on without.
    Unsafe,
    /// There is none, or it is switched off.
    Absent,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Self {
        Self::at("/")
    }

    /// The machine whose `sys`, `proc` and `dev` are below `root`.
    #[must_use]
    pub fn at(root: impl AsRef<Path>) -> Self {
        Self { root: Sysroot::at(root.as_ref()) }
    }

    /// Network devices on PCI buses, by address.
    #[must_use]
    pub fn network_devices(&self) -> Vec<PciDevice> {
        let mut found: Vec<PciDevice> = self
            .names("sys/bus/pci/devices")
            .into_iter()
            .filter_map(|address| self.pci_device(&address))
            .filter(|(class, _)| class >> 16 == NETWORK_CLASS)
            .map(|(_, device)| device)
            .collect();
        found.sort_by(|a, b| a.address.cmp(&b.address));
        found
    }

    /// The NUMA domain of a device's slot; of virtual devices and of machines
    /// with one domain, none.
    #[must_use]
    pub fn domain(&self, device: &Device) -> Option<u32> {
        let Device::Pci(address) = device else { return None };
        self.pci_device(address)?.1.domain
    }

    fn pci_device(&self, address: &str) -> Option<(u32, PciDevice)> {
        let folder = format!("sys/bus/pci/devices/{address}");
        let hex = |name: &str| {
            let text = self.text(&format!("{folder}/{name}"))?;
            u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        };
        let device = PciDevice {
            address: address.to_owned(),
            id: format!("{:04x}:{:04x}", hex("vendor").unwrap_or(0), hex("device").unwrap_or(0)),
            driver: self.link(&format!("{folder}/driver")),
            interfaces: self.interfaces(&folder),
            domain: self.text(&format!("{folder}/numa_node")).and_then(|text| text.parse().ok()),
            group: self.link(&format!("{folder}/iommu_group")),
        };
        Some((hex("class")?, device))
    }

    /// A virtio device's interfaces are one step further down.
    fn interfaces(&self, folder: &str) -> Vec<String> {
        let mut found = self.names(&format!("{folder}/net"));
        for part in self.names(folder).iter().filter(|name| name.starts_with("virtio")) {
            found.extend(self.names(&format!("{folder}/{part}/net")));
        }
        found.sort();
        found
    }

    /// Huge pages of each size that the kernel has.
    #[must_use]
    pub fn huge_pages(&self) -> Vec<HugePages> {
        let folder = "sys/kernel/mm/hugepages";
        let number = |path: String| self.text(&path).and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut found: Vec<HugePages> = self
            .names(folder)
            .into_iter()
            .filter_map(|name| {
                let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
                let total = number(format!("{folder}/{name}/nr_hugepages"));
                Some(HugePages { kib, total, free: number(format!("{folder}/{name}/free_hugepages")) })
            })
            .collect();
        found.sort_by_key(|pages| pages.kib);
        found
    }

    /// What isolates devices.
    #[must_use]
    pub fn iommu(&self) -> Iommu {
        if !self.names("sys/kernel/iommu_groups").is_empty() && !self.is_unsafe() {
            Iommu::Present
        } else if self.is_unsafe() {
            Iommu::Unsafe
        } else {
            Iommu::Absent
        }
    }

    fn is_unsafe(&self) -> bool {
        let knob = self.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
        knob.is_some_and(|text| text == "Y" || text == "1")
    }

    /// What is missing for memory as `options` want it.
    #[must_use]
    pub fn lacks_memory(&self, options: &EalOptions) -> Option<Remedy> {
        if !options.huge {
            return None;
        }
        let pages = self.huge_pages();
        let (free, total) = pages.iter().fold((0, 0), |(free, total), pages| {
            (free + pages.free * pages.kib / 1024, total + pages.total * pages.kib / 1024)
        });
        let wanted = options.memory.iter().map(|megabytes| u64::from(*megabytes)).sum::<u64>().max(16);
        if pages.is_empty() {
            return Some(
                Remedy::new("this kernel has no huge pages").or("give huge=off, which is slower: no device can use it"),
            );
        }
        if free < wanted {
            let count = (total.saturating_sub(free) + wanted.max(512)) / 2;
            return Some(
                Remedy::new(format!(
                    "packet memory wants {wanted} MB of huge pages, and of {total} MB there are {free} MB free"
                ))
                .run(format!("echo {count} > /proc/sys/vm/nr_hugepages"))
                .or("give huge=off for virtual devices"),
            );
        }
        let mounted = self.text("proc/mounts").is_some_and(|text| text.contains(" hugetlbfs "));
        (options.file_prefix.is_some() && !mounted).then(|| {
            Remedy::new("huge pages that other processes share need a mounted hugetlbfs")
                .run("mkdir -p /dev/hugepages && mount -t hugetlbfs nodev /dev/hugepages")
                .or("leave file-prefix out")
        })
    }

    /// What is missing for DPDK to drive this device.
    #[must_use]
    pub fn lacks_device(&self, device: &Device) -> Option<Remedy> {
        let Device::Pci(address) = device else { return None };
        let there = self.network_devices();
        match there.iter().find(|device| device.address == *address) {
            Some(device) => self.lacks_driver(device),
            None => {
                let names =
                    there.iter().map(|d| format!("{} ({})", d.address, d.driver.as_deref().unwrap_or("unbound")));
                let names: Vec<String> = names.collect();
                let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                Some(Remedy::new(format!("there is no network device {address}; on PCI buses there are: {there}")))
            }
        }
    }

    fn lacks_driver(&self, device: &PciDevice) -> Option<Remedy> {
        let address = &device.address;
        let bind = format!("modprobe vfio-pci && dpdk-devbind.py -b vfio-pci {address}");
        match device.driver.as_deref() {
            Some(driver) if SHARING_DRIVERS.contains(&driver) => None,
            Some(driver) if USER_SPACE_DRIVERS.contains(&driver) => self.lacks_access(device, driver),
            Some(driver) => {
                let used = match &device.interfaces[..] {
                    [] => String::new(),
                    names => format!(" as {}, which then is gone", names.join(", ")),
                };
                let remedy = Remedy::new(format!("{address} is bound to the kernel's driver {driver}{used}")).run(bind);
                let first = device.interfaces.first();
                Some(first.map_or(remedy.clone(), |name| remedy.or(format!("leave it there and use af_xdp:{name}"))))
            }
            None => Some(Remedy::new(format!("{address} is bound to no driver")).run(bind)),
        }
    }

    /// A device given to user space still needs somebody who may open it. Asked
    /// without opening: who closes a device of uio_pci_generic takes its access
    /// to memory away, whoever else works with it.
    fn lacks_access(&self, device: &PciDevice, driver: &str) -> Option<Remedy> {
        let address = &device.address;
        if driver != "vfio-pci" {
            return (!self.root.may_use("dev/uio0")).then(|| {
                Remedy::new(format!("{address} is bound to {driver}, which only root may use")).run("sudo -i")
            });
        }
        let Some(group) = &device.group else {
            return Some(
                Remedy::new(format!("{address} is in no IOMMU group: this machine has no IOMMU, or it is off"))
                    .run("add intel_iommu=on or amd_iommu=on to the kernel's command line and boot again")
                    .run(format!(
                        "echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode && \
                         dpdk-devbind.py -u {address} && dpdk-devbind.py -b vfio-pci {address}"
                    ))
                    .or("the second way lets the device reach all memory"),
            );
        };
        let files = [format!("dev/vfio/{group}"), format!("dev/vfio/noiommu-{group}")];
        if files.iter().any(|file| self.root.may_use(file)) {
            return None;
        }
        Some(
            Remedy::new(format!("this user may not open /dev/vfio/{group}, which {address} is in"))
                .run(format!("sudo chown $USER /dev/vfio/{group}"))
                .run("ulimit -l unlimited")
                .or("run as root"),
        )
    }

    fn text(&self, path: &str) -> Option<String> {
        Some(self.root.text(path, FILE_LIMIT).ok()?.trim().to_owned())
    }

    fn link(&self, path: &str) -> Option<String> {
        let target = self.root.link(path).ok()?;
        Some(Path::new(&target).file_name()?.to_string_lossy().into_owned())
    }

    fn names(&self, path: &str) -> Vec<String> {
        self.root.names(path).unwrap_or_default()
    }
}

impl PciDevice {
    /// Whether DPDK can drive it as it is bound now.
    #[must_use]
    pub fn is_in_user_space(&self) -> bool {
        self.driver.as_deref().is_some_and(|driver| USER_SPACE_DRIVERS.contains(&driver))
    }

    /// Whether DPDK can drive it beside the kernel.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.driver.as_deref().is_some_and(|driver| SHARING_DRIVERS.contains(&driver))
    }
}

#[cfg(test)]
mod tests;
