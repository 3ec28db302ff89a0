use super::ethtool::Abilities;
use super::interfaces;
use super::list::{Entry, Survey};
use super::rights::Rights;
use super::{row, table};
use ::ethtool::TlsOffloads;
use dpdk::Machine;
use stamping::Features;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const ALL: Rights = Rights { net_admin: true, net_raw: true, bpf: true, xdp_sockets: true, tun: true, tun_opens: true };

/// A machine in files: two ports of a NIC, one of them in a bond; a veth; a
/// NIC that was handed over; loopback.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let files = Self(std::env::temp_dir().join(format!("nearside-links-{}-{name}", std::process::id())));
        let _ = fs::remove_dir_all(&files.0);
        for (name, index, queues) in [("eth0", 2, 8), ("eth1", 3, 8), ("veth0", 4, 1)] {
            let folder = format!("sys/class/net/{name}");
            files.file(&format!("{folder}/type"), "1\n");
            files.file(&format!("{folder}/ifindex"), &format!("{index}\n"));
            files.file(&format!("{folder}/mtu"), "9000\n");
            (0..queues).for_each(|n| files.file(&format!("{folder}/queues/rx-{n}/rps_cpus"), "0\n"));
            files.file(&format!("{folder}/queues/tx-0/xps_cpus"), "0\n");
        }
        files.file("sys/class/net/eth0/operstate", "up\n");
        files.file("sys/class/net/eth0/speed", "25000\n");
        files.file("sys/class/net/eth0/device/numa_node", "1\n");
        files.link("sys/class/net/eth0/device/driver", "../../../bus/pci/drivers/ice");
        files.file("sys/class/net/eth1/operstate", "down\n");
        files.file("sys/class/net/eth1/speed", "-1\n");
        files.link("sys/class/net/eth1/master", "../bond0");
        files.file("sys/class/net/veth0/operstate", "up\n");
        files.file("sys/class/net/veth0/device/numa_node", "-1\n");
        files.file("sys/class/net/lo/type", "772\n");
        let nic = "sys/bus/pci/devices/0000:86:00.0";
        for (file, text) in [("class", "0x020000"), ("vendor", "0x8086"), ("device", "0x1593"), ("numa_node", "1")] {
            files.file(&format!("{nic}/{file}"), text);
        }
        files.link(&format!("{nic}/driver"), "../../../bus/pci/drivers/vfio-pci");
        files
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        symlink(target, path).unwrap();
    }

    fn huge_pages(&self) {
        self.file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512");
        self.file("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "512");
    }

    fn survey(&self, rights: Rights, dpdk: Option<&str>) -> Survey {
        let mut interfaces = interfaces::read(&self.0);
        interfaces[0].xdp =
            Some(Features { native: true, zero_copy: true, stamps_arrivals: true, stamps_departures: true });
        interfaces[0].abilities = Abilities {
            channels: Some(8),
            channels_limit: Some(64),
            transmit_checksum: true,
            rss_key: Some(52),
            rss_table: Some(2048),
            tls: TlsOffloads { transmit: Some(true), receive: Some(false), record: None },
            ..Abilities::default()
        };
        Survey { interfaces, machine: Machine::at(&self.0), rights, dpdk: dpdk.map(str::to_owned) }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn missing(entry: &Entry) -> String {
    entry.missing.iter().map(|remedy| remedy.to_string() + "\n").collect()
}

#[test]
fn every_link_is_listed_with_what_is_known_of_it() {
    let files = Files::new("all");
    files.huge_pages();
    files.file("sys/bus/pci/devices/0000:86:00.0/iommu_group/type", "DMA");
    let entries = files.survey(ALL, Some("DPDK 22.11")).entries();
    let names: Vec<&str> = entries.iter().map(|entry| entry.link.as_str()).collect();
    let expected = [
        "memif:SOCKET",
        "tap:NAME",
        "af_packet:INTERFACE",
        "af_xdp:eth0",
        "af_xdp:eth1",
        "af_xdp:veth0",
        "dpdk:0000:86:00.0",
        "dpdk:DRIVER",
    ];
    assert_eq!(names, expected);
    assert!(entries[0].missing.is_empty() && entries[1].missing.is_empty() && entries[7].missing.is_empty());
    assert_eq!(
        row(&entries[3]).join("|"),
        "af_xdp:eth0|ice|up 25G|1|8|native zero-copy rx-stamps tx-stamps tx-checksum rss tls-tx tls-rx:off|yes"
    );
    assert_eq!(row(&entries[5]).join("|"), "af_xdp:veth0|-|up|-|1|-|yes");
    assert_eq!(entries[3].queues_limit, Some(64));
    assert!(missing(&entries[4]).contains("nomaster") && missing(&entries[4]).contains("ip link set eth1 up"));
    assert_eq!(row(&entries[6])[..4].join("|"), "dpdk:0000:86:00.0|vfio-pci|handed over|1");
}

#[test]
fn what_is_missing_comes_with_the_command_that_mends_it() {
    let files = Files::new("missing");
    let nothing =
        Rights { net_admin: false, net_raw: false, bpf: false, xdp_sockets: true, tun: true, tun_opens: false };
    let entries = files.survey(nothing, None).entries();
    assert!(missing(&entries[1]).contains("--ambient-caps +net_admin $(command"), "{}", missing(&entries[1]));
    assert!(missing(&entries[3]).contains("--ambient-caps +net_admin,+net_raw,+bpf "), "{}", missing(&entries[3]));
    let dpdk = missing(&entries[6]);
    for wanted in ["make build DPDK=1", "no huge pages", "intel_iommu=on"] {
        assert!(dpdk.contains(wanted), "{wanted} in {dpdk}");
    }
    let old = Rights { xdp_sockets: false, tun: false, ..ALL };
    let entries = files.survey(old, None).entries();
    assert!(missing(&entries[1]).contains("modprobe tun"));
    assert!(missing(&entries[3]).contains("CONFIG_XDP_SOCKETS"));
    // What several need is said once, with all of their names.
    let text = table(&entries);
    assert_eq!(text.matches("make build DPDK=1").count(), 1, "{text}");
    assert!(text.contains("dpdk:0000:86:00.0, dpdk:DRIVER: this program was built without DPDK"), "{text}");
}

#[test]
fn programs_read_the_same_as_json() {
    let files = Files::new("json");
    let entries = serde_json::to_value(files.survey(ALL, None).entries()).unwrap();
    assert_eq!(entries[3]["link"], "af_xdp:eth0");
    assert_eq!(entries[3]["rss_key"], 52);
    let can = entries[3]["can"].as_array().unwrap();
    assert!(can.iter().any(|word| word == "tls-tx") && can.iter().any(|word| word == "tls-rx:off"), "{can:?}");
    assert_eq!(entries[3]["missing"], serde_json::json!([]));
    assert_eq!(entries[6]["missing"][0]["what"], "this program was built without DPDK");
}

#[test]
fn a_machine_without_anything_has_the_links_in_memory() {
    let survey = Survey {
        interfaces: interfaces::read(Path::new("/nonexistent")),
        machine: Machine::at("/nonexistent"),
        rights: ALL,
        dpdk: None,
    };
    assert_eq!(survey.entries().len(), 4);
}
