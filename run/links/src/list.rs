//! Links, made of what is known of the machine.

use super::interfaces::Interface;
use super::rights::Rights;
use ::ethtool::TlsOffloads;
use dpdk::{Config, EalOptions, Iommu, Machine, PciDevice, Remedy};
use driver::Kind;
use host::drivers::KINDS;
use serde::Serialize;

/// A link that this machine can have.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Entry {
    /// As `--link` takes it; what is in capitals is to be chosen.
    pub link: String,
    /// By which driver of the kernel, or of DPDK.
    pub driver: Option<String>,
    /// Up, down, or what holds it.
    pub state: Option<String>,
    /// Megabits per second.
    pub speed_mbps: Option<u64>,
    /// NUMA domain.
    pub domain: Option<u32>,
    /// Queue pairs that it has now.
    pub queues: Option<u32>,
    /// Queue pairs that it could have.
    pub queues_limit: Option<u32>,
    /// Largest IP packet.
    pub mtu: Option<u32>,
    /// What the driver does: `rx-checksum`, `tx-checksum`, `segmentation`,
    /// `merging`, `native`, `zero-copy`, `rss`; and of TLS what the kernel's sockets can leave
    /// to it (kTLS): `tls-tx`, `tls-rx`, `tls-record`, or `tls-tx:off` where that is off.
    pub can: Vec<&'static str>,
    /// Bytes of the RSS key.
    pub rss_key: Option<u32>,
    /// Entries of the RSS table.
    pub rss_table: Option<u32>,
    /// What is missing; nothing: it can be used now.
    #[serde(serialize_with = "remedies")]
    pub missing: Vec<Remedy>,
}

impl Entry {
    /// Whether it stands for any link of this kind, or for any other one.
    pub fn is_any(&self, kind: &str) -> bool {
        let place = self.link.strip_prefix(kind).and_then(|rest| rest.strip_prefix(':'));
        place.is_some_and(|place| place.bytes().all(|byte| byte.is_ascii_uppercase()))
    }
}

/// How the remedy of an interface ends that may be waited for.
pub const NO_CARRIER: &str = " is down, or has no carrier";

fn remedies<S: serde::Serializer>(missing: &[Remedy], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(missing.iter().map(|r| serde_json::json!({ "what": r.what, "run": r.run, "or": r.otherwise })))
}

/// Everything that is known of the machine.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The kernel's interfaces.
    pub interfaces: Vec<Interface>,
    /// PCI devices, huge pages, IOMMU.
    pub machine: Machine,
    /// What this process may do.
    pub rights: Rights,
    /// The version of the DPDK that is built in.
    pub dpdk: Option<String>,
}

impl Survey {
    /// The links: first what is always there, then by interface and device.
    pub fn entries(&self) -> Vec<Entry> {
        KINDS.iter().flat_map(|kind| self.of_kind(kind)).collect()
    }

    /// A driver's links. One that needs nothing of the machine has nothing to say.
    fn of_kind(&self, kind: &Kind) -> Vec<Entry> {
        match kind.name {
            "tap" => vec![self.tap(kind)],
            "af_packet" => vec![self.af_packet(kind)],
            "af_xdp" => self.interfaces.iter().map(|interface| self.af_xdp(interface)).collect(),
            "dpdk" => {
                let devices = self.machine.network_devices();
                devices.iter().map(|device| self.physical(device)).chain([self.virtual_device()]).collect()
            }
            _ => vec![entry(kind.form)],
        }
    }

    fn tap(&self, kind: &Kind) -> Entry {
        let mut entry = Entry { can: vec!["rx-checksum", "tx-checksum", "segmentation"], ..entry(kind.form) };
        let Rights { tun, tun_opens, net_admin, .. } = self.rights;
        if !tun {
            entry.missing.push(Remedy::new("this kernel has no /dev/net/tun").run("modprobe tun"));
        } else if !tun_opens || !net_admin {
            entry.missing.push(
                right("cap_net_admin")
                    .or("let an administrator make the device: ip tuntap add dev NAME mode tap user $USER"),
            );
        }
        entry
    }

    fn af_packet(&self, kind: &Kind) -> Entry {
        let mut entry = Entry { can: vec!["measurements", "stamps"], ..entry(kind.form) };
        if !self.rights.net_raw {
            entry.missing.push(right("cap_net_raw"));
        }
        entry
    }

    fn af_xdp(&self, interface: &Interface) -> Entry {
        let abilities = &interface.abilities;
        let mut can = Vec::new();
        let mut note = |is: bool, word| {
            if is {
                can.push(word)
            }
        };
        note(interface.xdp.is_some_and(|xdp| xdp.native), "native");
        note(interface.xdp.is_some_and(|xdp| xdp.zero_copy), "zero-copy");
        note(interface.xdp.is_some_and(|xdp| xdp.stamps_arrivals), "rx-stamps");
        note(interface.xdp.is_some_and(|xdp| xdp.stamps_departures), "tx-stamps");
        note(abilities.receive_checksum, "rx-checksum");
        note(abilities.transmit_checksum, "tx-checksum");
        note(abilities.segmentation, "segmentation");
        note(abilities.merging, "merging");
        note(abilities.rss_table.is_some(), "rss");
        let TlsOffloads { transmit, receive, record } = abilities.tls;
        for (state, [on, off]) in [
            (transmit, ["tls-tx", "tls-tx:off"]),
            (receive, ["tls-rx", "tls-rx:off"]),
            (record, ["tls-record", "tls-record:off"]),
        ] {
            note(state == Some(true), on);
            note(state == Some(false), off);
        }
        let mut missing = Vec::new();
        if !self.rights.xdp_sockets {
            missing.push(Remedy::new("this kernel is built without AF_XDP (CONFIG_XDP_SOCKETS)"));
        } else if !(self.rights.net_admin && self.rights.net_raw && self.rights.bpf) {
            missing.push(right("cap_net_admin,cap_net_raw,cap_bpf"));
        }
        if let Some(master) = &interface.master {
            let what = format!("{} is a member of {master}, which takes its frames", interface.name);
            missing.push(Remedy::new(what).run(format!("ip link set {} nomaster", interface.name)));
        }
        if interface.state == "down" {
            let what = format!("{}{NO_CARRIER}", interface.name);
            missing.push(Remedy::new(what).run(format!("ip link set {} up", interface.name)));
        }
        Entry {
            driver: interface.driver.clone().or_else(|| abilities.driver.clone()),
            state: Some(interface.state.clone()),
            speed_mbps: interface.speed_mbps,
            domain: interface.domain,
            queues: Some(abilities.channels.unwrap_or(interface.queues)),
            queues_limit: abilities.channels_limit,
            mtu: Some(interface.mtu),
            can,
            rss_key: abilities.rss_key,
            rss_table: abilities.rss_table,
            missing,
            ..entry(&format!("af_xdp:{}", interface.name))
        }
    }

    /// A port that DPDK would drive by itself.
    fn physical(&self, device: &PciDevice) -> Entry {
        let mut missing = self.environment();
        if let Ok(config) = Config::new(&device.address) {
            missing.extend(self.machine.lacks_device(&config.device));
        }
        let state = match &device.interfaces[..] {
            _ if device.is_in_user_space() => "handed over".to_owned(),
            _ if device.is_shared() => "shared with the kernel".to_owned(),
            [] => "unbound".to_owned(),
            names => format!("kernel: {}", names.join(",")),
        };
        let unsafe_memory = device.is_in_user_space() && self.machine.iommu() == Iommu::Unsafe;
        Entry {
            driver: device.driver.clone(),
            state: Some(if unsafe_memory { state + ", no IOMMU" } else { state }),
            domain: device.domain,
            missing,
            ..entry(&format!("dpdk:{}", device.address))
        }
    }

    fn virtual_device(&self) -> Entry {
        let driver = self.dpdk.clone();
        Entry { driver, missing: self.environment(), ..entry("dpdk:DRIVER") }
    }

    /// What DPDK needs, whatever the device.
    fn environment(&self) -> Vec<Remedy> {
        let built_in = self.dpdk.is_none().then(|| {
            Remedy::new("this program was built without DPDK")
                .run("apt-get install libdpdk-dev dpdk-dev pkg-config && make build DPDK=1")
        });
        built_in.into_iter().chain(self.machine.lacks_memory(&EalOptions::default())).collect()
    }
}

fn entry(link: &str) -> Entry {
    Entry {
        link: link.to_owned(),
        driver: None,
        state: None,
        speed_mbps: None,
        domain: None,
        queues: None,
        queues_limit: None,
        mtu: None,
        can: Vec::new(),
        rss_key: None,
        rss_table: None,
        missing: Vec::new(),
    }
}

fn right(names: &str) -> Remedy {
    // To the process, and not to the file: whoever may run that would have the network.
    let ambient: Vec<String> = names.split(',').map(|name| name.replacen("cap_", "+", 1)).collect();
    let ambient = ambient.join(",");
    let who = "--reuid $(id -u) --regid $(id -g) --init-groups";
    Remedy::new(format!("this process has not the right to ({names})"))
        .run(format!("sudo setpriv {who} --inh-caps {ambient} --ambient-caps {ambient} $(command -v nearside) ..."))
        .or("run as root, or by systemd with AmbientCapabilities=; setcap only a file that one group may run \
             (chgrp GROUP, chmod 0750)")
}
