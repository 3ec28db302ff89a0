use super::*;
use crate::config::Config;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A machine in files, removed at the end.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("nearside-machine-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn machine(&self) -> Machine {
        Machine::at(&self.0)
    }

    fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn link(&self, path: &str, target: &str) -> &Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        self
    }

    /// A network device on a PCI bus.
    fn nic(&self, address: &str, driver: &str, more: &[&str]) -> &Self {
        let folder = format!("sys/bus/pci/devices/{address}");
        self.file(&format!("{folder}/class"), "0x020000\n").file(&format!("{folder}/vendor"), "0x8086\n");
        self.file(&format!("{folder}/device"), "0x1572\n").file(&format!("{folder}/numa_node"), "1\n");
        if !driver.is_empty() {
            self.link(&format!("{folder}/driver"), &format!("../../drivers/{driver}"));
        }
        for path in more {
            self.file(&format!("{folder}/{path}/address"), "02:00:00:00:00:01\n");
        }
        self
    }

    fn huge(&self, kib: u64, total: u64, free: u64) -> &Self {
        let folder = format!("sys/kernel/mm/hugepages/hugepages-{kib}kB");
        self.file(&format!("{folder}/nr_hugepages"), &total.to_string());
        self.file(&format!("{folder}/free_hugepages"), &free.to_string())
    }

    /// The message for this device.
    fn message(&self, device: &str) -> String {
        self.machine().lacks_device(&device.parse().unwrap()).map_or(String::new(), |remedy| remedy.to_string())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const NIC: &str = "0000:3b:00.0";

#[test]
fn network_devices_are_found_with_what_is_known_of_them() {
    let files = Files::new();
    files.nic("0000:86:00.0", "", &[]).nic(NIC, "i40e", &["net/eth1", "net/eth0"]);
    files.file("sys/bus/pci/devices/0000:00:1f.2/class", "0x010601");
    files.nic("0000:00:03.0", "virtio-pci", &["virtio0/net/ens3"]);
    let found = files.machine().network_devices();
    assert_eq!(found.iter().map(|d| d.address.as_str()).collect::<Vec<_>>(), ["0000:00:03.0", NIC, "0000:86:00.0"]);
    assert_eq!(found[0].interfaces, ["ens3"]);
    assert_eq!(
        (found[1].id.as_str(), found[1].driver.as_deref(), found[1].domain),
        ("8086:1572", Some("i40e"), Some(1))
    );
    assert_eq!(found[1].interfaces, ["eth0", "eth1"]);
    assert_eq!(found[2].driver, None);
    assert_eq!(Files::new().machine().network_devices(), []);
}

#[test]
fn a_device_that_is_not_there_is_answered_with_those_that_are() {
    let files = Files::new();
    files.nic(NIC, "i40e", &[]).nic("0000:86:00.0", "", &[]);
    let message = files.message("0000:01:00.0");
    assert!(message.contains("there is no network device 0000:01:00.0"), "{message}");
    assert!(message.contains("0000:3b:00.0 (i40e), 0000:86:00.0 (unbound)"), "{message}");
    assert_eq!(files.message("net_memif0"), "");
}

#[test]
fn a_device_that_the_kernel_has_is_to_be_bound_to_vfio() {
    let files = Files::new();
    files.nic(NIC, "i40e", &["net/eth0"]).nic("0000:86:00.0", "", &[]).nic("0000:87:00.0", "mlx5_core", &[]);
    let bound = files.message(NIC);
    assert!(bound.contains("kernel's driver i40e as eth0"), "{bound}");
    assert!(bound.contains("run: modprobe vfio-pci && dpdk-devbind.py -b vfio-pci 0000:3b:00.0"), "{bound}");
    assert!(bound.contains("af_xdp:eth0"), "{bound}");
    let unbound = files.message("0000:86:00.0");
    assert!(unbound.contains("bound to no driver") && unbound.contains("dpdk-devbind.py"), "{unbound}");
    assert_eq!(files.message("0000:87:00.0"), "", "shares the device with the kernel");
}

#[test]
fn a_machine_without_iommu_is_told_of_both_ways() {
    let files = Files::new();
    files.nic(NIC, "vfio-pci", &[]);
    assert_eq!(files.machine().iommu(), Iommu::Absent);
    let message = files.message(NIC);
    for wanted in ["intel_iommu=on", "enable_unsafe_noiommu_mode", "reach all memory"] {
        assert!(message.contains(wanted), "{message}");
    }
    files.file("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
    assert_eq!(files.machine().iommu(), Iommu::Unsafe);
}

#[test]
fn a_user_without_the_group_is_told_whose_it_is() {
    let files = Files::new();
    files.nic(NIC, "vfio-pci", &[]).link(&format!("sys/bus/pci/devices/{NIC}/iommu_group"), "../../iommu_groups/42");
    files.file("sys/kernel/iommu_groups/42/type", "DMA");
    assert_eq!(files.machine().iommu(), Iommu::Present);
    let message = files.message(NIC);
    assert!(message.contains("chown $USER /dev/vfio/42"), "{message}");
    files.file("dev/vfio/42", "");
    assert_eq!(files.message(NIC), "");
}

#[test]
fn missing_huge_pages_are_counted_out() {
    let files = Files::new();
    let lacks = |link: &str| {
        let config: Config = link.parse().unwrap();
        files.machine().lacks_memory(&config.eal).map_or(String::new(), |remedy| remedy.to_string())
    };
    assert!(lacks("dpdk:net_null0").contains("no huge pages"));
    assert_eq!(lacks("dpdk:net_null0,huge=off"), "");
    files.huge(2048, 0, 0);
    assert!(lacks("dpdk:net_null0").contains("echo 256 > /proc/sys/vm/nr_hugepages"), "{}", lacks("dpdk:net_null0"));
    files.huge(2048, 512, 100);
    let message = lacks("dpdk:net_null0,memory=1024/1024");
    assert!(message.contains("wants 2048 MB") && message.contains("of 1024 MB there are 200 MB free"), "{message}");
    assert!(message.contains("echo 1436 > "), "what is in use, and what is wanted: {message}");
    assert_eq!(lacks("dpdk:net_null0,memory=128"), "");
    let shared = lacks("dpdk:net_null0,memory=128,file-prefix=x");
    assert!(shared.contains("mount -t hugetlbfs"), "{shared}");
    files.file("proc/mounts", "nodev /dev/hugepages hugetlbfs rw 0 0\n");
    assert_eq!(lacks("dpdk:net_null0,memory=128,file-prefix=x"), "");
}
