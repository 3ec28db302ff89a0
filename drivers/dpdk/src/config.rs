//! What a DPDK link is made of, and its one-line form.

use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;
use driver::BadConfig;
use driver::text::{number, switch};
use wire::Mac;

/// Most queue pairs of one port: as many as DPDK's ethdev has room for
/// (RTE_MAX_QUEUES_PER_PORT).
pub const QUEUES_LIMIT: u16 = 1024;

/// Descriptors of a ring. The port's own bounds may be narrower; then it is
/// rounded into them, and [`crate::Facts`] says so.
const RING_RANGE: RangeInclusive<u16> = 32..=16_384;

/// Smallest MTU that IPv4 works with (RFC 791: 68), and the largest frame
/// that an mbuf of one segment holds beside its headroom.
const MTU_RANGE: RangeInclusive<u16> = 68..=16_000;

/// Megabytes of packet memory.
const MEMORY_RANGE: RangeInclusive<u32> = 16..=1_048_576;

/// Bytes of a key for receive-side scaling: 40 hold IPv6 addresses and ports,
/// and the largest that drivers take is 52.
const KEY_RANGE: RangeInclusive<usize> = 40..=52;

/// NUMA domains that are told apart (RTE_MAX_NUMA_NODES).
const DOMAINS: RangeInclusive<u32> = 0..=31;

/// How a DPDK port is opened.
///
/// Reads from `dpdk:DEVICE[,key=value]…`, where DEVICE is a PCI address
/// (`0000:3b:00.0`) or a virtual device by its driver and a number
/// (`net_memif0`, `net_af_packet0`, `net_tap0`, `net_ring0`, `net_null0`,
/// `net_virtio_user0`):
///
/// | key | meaning | default |
/// | --- | --- | --- |
/// | `dev.NAME` | an argument of the device's own driver, as `dev.role=client`; any number of them | none |
/// | `queues` | queue pairs, one for each silo | 1 |
/// | `rxd`, `txd` | descriptors of each receive and transmit ring | 512 |
/// | `mtu` | largest IP packet in bytes; above 1500 jumbo frames | 1500 |
/// | `rss` | `symmetric`, `default` (the driver's key), or a key of 40 to 52 bytes in hexadecimal | symmetric |
/// | `promiscuous` | `on` or `off`: receive what is for others | off |
/// | `vlan-strip` | `on` or `off`: the port takes VLAN tags off received frames | off |
/// | `checksum` | `on` or `off`: leave checksums to the port, where it has them | on |
/// | `segmentation` | `on` or `off`: leave cutting of TCP to the port, where it can | on |
/// | `interrupts` | `on` or `off`: sleep until an interrupt of the port, not in naps | on for PCI devices |
/// | `domain` | NUMA domain of packet memory, where the port tells none | the opening thread's |
/// | `huge` | `on` or `off`: huge pages for packet memory | on |
/// | `memory` | megabytes of packet memory in all; `512/512` for each domain | on demand; 256 without huge pages |
/// | `file-prefix` | shares memory with secondary DPDK processes (dpdk-proc-info) under this name | not shared |
/// | `eal` | further arguments for DPDK's start, separated by blanks; takes the rest of the text | none |
///
/// `huge`, `memory`, `file-prefix` and `eal` are the process's: ports opened
/// later must have the same, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// PCI address or virtual device.
    pub device: Device,
    /// Arguments of the device's driver, in order.
    pub arguments: Vec<(String, String)>,
    /// Queue pairs; each is a link of its own.
    pub queues: u16,
    /// Descriptors of each receive ring. Too few drops bursts (`rx_dropped`);
    /// each costs a buffer of the MTU's size, and cache.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit ring. Too few makes the stack stop and go
    /// (`tx_full`).
    pub tx_descriptors: u16,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// What spreads flows over queues.
    pub rss: RssKey,
    /// Receives what is addressed to others too. Off by default: it is noise,
    /// and on a shared port other people's.
    pub promiscuous: bool,
    /// The port takes VLAN tags off. Frames are answered without a tag.
    pub vlan_strip: bool,
    /// Checksums by the port.
    pub checksum: bool,
    /// Segmentation by the port; needs `checksum`.
    pub segmentation: bool,
    /// Receive interrupts while waiting. Of virtual devices few have them
    /// (net_tap), and some do not take the attempt well (net_memif).
    pub interrupts: bool,
    /// NUMA domain of packet memory for a port that tells none.
    pub domain: Option<u32>,
    /// The port's Ethernet address; `None`: its own. Not part of the text: it
    /// is the stack's, too.
    pub mac: Option<Mac>,
    /// Frames are stamped by the port's clock, where it has one. Not part of the
    /// text: who measures asks for it.
    pub stamps: bool,
    /// What the whole process is started with.
    pub eal: EalOptions,
}

impl Config {
    /// The defaults, for this device.
    ///
    /// # Errors
    /// If it is neither a PCI address nor a virtual device's name.
    pub fn new(device: &str) -> Result<Self, BadConfig> {
        let device: Device = device.parse()?;
        Ok(Self {
            interrupts: matches!(device, Device::Pci(_)),
            device,
            arguments: Vec::new(),
            queues: 1,
            rx_descriptors: 512,
            tx_descriptors: 512,
            mtu: 1500,
            rss: RssKey::Symmetric,
            promiscuous: false,
            vlan_strip: false,
            checksum: true,
            segmentation: true,
            domain: None,
            mac: None,
            stamps: false,
            eal: EalOptions::default(),
        })
    }

    /// The device and its driver's arguments as DPDK takes them: `net_memif0,role=client`.
    #[must_use]
    pub fn device_arguments(&self) -> String {
        let mut text = self.device.to_string();
        for (name, value) in &self.arguments {
            text.push_str(&format!(",{name}={value}"));
        }
        text
    }

    /// Queue pairs that the device may have, as far as its name tells: for
    /// planning. A PCI device tells when it is opened.
    #[must_use]
    pub fn most_queues(&self) -> u16 {
        let given = |key: &str| {
            let argument = self.arguments.iter().find(|(name, _)| name == key);
            argument.and_then(|(_, value)| value.parse().ok()).unwrap_or(1)
        };
        match &self.device {
            Device::Pci(_) => QUEUES_LIMIT,
            Device::Virtual(name) if name.starts_with("net_memif") => 255,
            Device::Virtual(name) if name.starts_with("net_tap") => 16,
            Device::Virtual(name) if name.starts_with("net_af_packet") => given("qpairs"),
            Device::Virtual(name) if name.contains("virtio_user") => given("queues"),
            Device::Virtual(_) => 1,
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), BadConfig> {
        match key {
            "queues" => self.queues = number(key, value, 1..=QUEUES_LIMIT)?,
            "rxd" => self.rx_descriptors = number(key, value, RING_RANGE)?,
            "txd" => self.tx_descriptors = number(key, value, RING_RANGE)?,
            "mtu" => self.mtu = number(key, value, MTU_RANGE)?,
            "rss" => self.rss = value.parse()?,
            "promiscuous" => self.promiscuous = switch(key, value)?,
            "vlan-strip" => self.vlan_strip = switch(key, value)?,
            "checksum" => self.checksum = switch(key, value)?,
            "segmentation" => self.segmentation = switch(key, value)?,
            "interrupts" => self.interrupts = switch(key, value)?,
            "domain" => self.domain = Some(number(key, value, DOMAINS)?),
            "huge" => self.eal.huge = switch(key, value)?,
            "memory" => self.eal.memory = memory(value)?,
            "file-prefix" => self.eal.file_prefix = Some(file_prefix(value)?),
            _ => return Err(BadConfig(format!("a dpdk link has no '{key}': it takes {KEYS}"))),
        }
        Ok(())
    }
}

const KEYS: &str = "dev.NAME, queues, rxd, txd, mtu, rss, promiscuous, vlan-strip, checksum, segmentation, \
                    interrupts, domain, huge, memory, file-prefix and eal";

impl FromStr for Config {
    type Err = BadConfig;

    fn from_str(text: &str) -> Result<Self, BadConfig> {
        let Some(rest) = text.strip_prefix("dpdk:") else {
            return Err(BadConfig(format!("'{text}' is no dpdk link; write dpdk:DEVICE[,key=value]…")));
        };
        // The arguments of DPDK's own start may hold commas.
        let (rest, further) = match rest.split_once(",eal=") {
            Some((rest, further)) => (rest, Some(further)),
            None => (rest, None),
        };
        let mut parts = rest.split(',');
        let mut config = Self::new(parts.next().unwrap_or_default())?;
        let mut seen = Vec::new();
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return Err(BadConfig(format!("'{part}': expected key=value")));
            };
            if seen.contains(&key) && !key.starts_with("dev.") {
                return Err(BadConfig(format!("{key} is given twice")));
            }
            seen.push(key);
            match key.strip_prefix("dev.") {
                Some(name) if !name.is_empty() => config.arguments.push((name.to_owned(), value.to_owned())),
                _ => config.set(key, value)?,
            }
        }
        if let Some(further) = further {
            config.eal.further = further.split_whitespace().map(str::to_owned).collect();
        }
        if text.contains('\0') {
            return Err(BadConfig("a NUL byte has no place here".to_owned()));
        }
        // Segmentation is of no use without; who switches checksums off means both.
        config.segmentation &= config.checksum;
        Ok(config)
    }
}

/// The same form that is read, with what differs from the defaults.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dpdk:{}", self.device)?;
        for (name, value) in &self.arguments {
            write!(f, ",dev.{name}={value}")?;
        }
        let numbers = [
            ("queues", self.queues, 1),
            ("rxd", self.rx_descriptors, 512),
            ("txd", self.tx_descriptors, 512),
            ("mtu", self.mtu, 1500),
        ];
        for (key, value, _) in numbers.iter().filter(|(_, value, usual)| value != usual) {
            write!(f, ",{key}={value}")?;
        }
        if self.rss != RssKey::Symmetric {
            write!(f, ",rss={}", self.rss)?;
        }
        let switches = [
            ("promiscuous", self.promiscuous, false),
            ("vlan-strip", self.vlan_strip, false),
            ("checksum", self.checksum, true),
            ("segmentation", self.segmentation, self.checksum),
            ("interrupts", self.interrupts, matches!(self.device, Device::Pci(_))),
            ("huge", self.eal.huge, true),
        ];
        for (key, value, _) in switches.iter().filter(|(_, value, usual)| value != usual) {
            write!(f, ",{key}={}", if *value { "on" } else { "off" })?;
        }
        if let Some(domain) = self.domain {
            write!(f, ",domain={domain}")?;
        }
        if !self.eal.memory.is_empty() {
            let each: Vec<String> = self.eal.memory.iter().map(u32::to_string).collect();
            write!(f, ",memory={}", each.join("/"))?;
        }
        if let Some(prefix) = &self.eal.file_prefix {
            write!(f, ",file-prefix={prefix}")?;
        }
        if !self.eal.further.is_empty() {
            write!(f, ",eal={}", self.eal.further.join(" "))?;
        }
        Ok(())
    }
}

/// What DPDK's environment (EAL) is started with: once for the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EalOptions {
    /// Packet memory on huge pages.
    pub huge: bool,
    /// Megabytes of packet memory: one number for all, or one for each NUMA
    /// domain; empty: as ports need it.
    pub memory: Vec<u32>,
    /// Shares memory with secondary processes under this name; `None`: the
    /// memory is this process's own and leaves no files behind.
    pub file_prefix: Option<String>,
    /// Arguments passed through as they are.
    pub further: Vec<String>,
}

impl Default for EalOptions {
    fn default() -> Self {
        Self { huge: true, memory: Vec::new(), file_prefix: None, further: Vec::new() }
    }
}

/// Megabytes taken where there are no huge pages to grow by.
const MEMORY_WITHOUT_HUGE_PAGES: u32 = 256;

impl EalOptions {
    /// DPDK's command line, for a main thread that runs on `core`. That
    /// thread does no work for us: silos are threads of our own.
    #[must_use]
    pub fn command_line(&self, core: usize) -> Vec<String> {
        let mut line = vec!["nearside".to_owned(), "--lcores".to_owned(), format!("0@{core}")];
        // Our statistics page tells what is to be told; and no device is
        // taken but those that are opened: this address is nobody's.
        line.extend(["--no-telemetry", "-a", "0000:00:00.0"].map(str::to_owned));
        match &self.file_prefix {
            Some(prefix) => line.push(format!("--file-prefix={prefix}")),
            None if self.huge => line.push("--in-memory".to_owned()),
            // What --in-memory is made of, as far as there can be without huge pages.
            None => line.push("--no-shconf".to_owned()),
        }
        // Whole segments in one file each: memif's zero-copy and vhost-user share memory by descriptors.
        line.push("--single-file-segments".to_owned());
        match (&self.memory[..], self.huge) {
            ([], true) => {}
            ([], false) => line.extend(["-m".to_owned(), MEMORY_WITHOUT_HUGE_PAGES.to_string()]),
            ([all], _) => line.extend(["-m".to_owned(), all.to_string()]),
            (each, _) => {
                let each: Vec<String> = each.iter().map(u32::to_string).collect();
                line.push(format!("--socket-mem={}", each.join(",")));
            }
        }
        if !self.huge {
            line.push("--no-huge".to_owned());
        }
        line.extend(self.further.iter().cloned());
        line
    }
}

/// A port's device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Device {
    /// A PCI device by its address in full, `0000:3b:00.0`.
    Pci(String),
    /// A virtual device: its driver's name and a number.
    Virtual(String),
}

impl Device {
    /// Whether it is DPDK's own TAP.
    #[cfg(feature = "libdpdk")]
    pub(crate) fn is_tap(&self) -> bool {
        matches!(self, Self::Virtual(name) if name.starts_with("net_tap"))
    }
}

impl FromStr for Device {
    type Err = BadConfig;

    fn from_str(text: &str) -> Result<Self, BadConfig> {
        if let Some(address) = pci_address(text) {
            return Ok(Self::Pci(address));
        }
        let driver = text.starts_with("net_") || text.starts_with("virtio_user") || text.starts_with("eth_");
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if driver && plain && text.len() <= 60 {
            return Ok(Self::Virtual(text.to_owned()));
        }
        Err(BadConfig(format!(
            "'{text}' is neither a PCI address, as 0000:3b:00.0, nor a virtual device, as net_memif0, net_af_packet0, \
             net_tap0 or net_virtio_user0"
        )))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(text) | Self::Virtual(text) => f.write_str(text),
        }
    }
}

/// `DDDD:BB:DD.F`, or without the domain `BB:DD.F`; given back in full.
fn pci_address(text: &str) -> Option<String> {
    let hex = |part: &str, digits: usize| {
        (part.len() == digits).then(|| u32::from_str_radix(part, 16).ok().filter(|_| !part.starts_with('+'))).flatten()
    };
    let (front, function) = text.rsplit_once('.')?;
    let mut parts = front.split(':').rev();
    let device = hex(parts.next()?, 2).filter(|device| *device < 32)?;
    let bus = hex(parts.next()?, 2)?;
    let domain = parts.next().map_or(Some(0), |domain| hex(domain, 4))?;
    let function = hex(function, 1).filter(|function| *function < 8)?;
    parts.next().is_none().then(|| format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
}

/// The key of receive-side scaling: what of it decides a flow's queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RssKey {
    /// `6d5a` repeated: both directions of a flow have the same hash (Woo and
    /// Park, "Scalable TCP Session Monitoring with Symmetric Receive-side
    /// Scaling").
    Symmetric,
    /// What the driver has.
    Driver,
    /// This one.
    Given(Vec<u8>),
}

impl FromStr for RssKey {
    type Err = BadConfig;

    fn from_str(text: &str) -> Result<Self, BadConfig> {
        match text {
            "symmetric" => return Ok(Self::Symmetric),
            "default" => return Ok(Self::Driver),
            _ => {}
        }
        let bad = || BadConfig(format!("rss '{text}': expected symmetric, default, or 40 to 52 bytes in hexadecimal"));
        if !text.bytes().all(|b| b.is_ascii_hexdigit())
            || !text.len().is_multiple_of(2)
            || !KEY_RANGE.contains(&(text.len() / 2))
        {
            return Err(bad());
        }
        let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| bad());
        (0..text.len()).step_by(2).map(byte).collect::<Result<_, _>>().map(Self::Given)
    }
}

impl fmt::Display for RssKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symmetric => f.write_str("symmetric"),
            Self::Driver => f.write_str("default"),
            Self::Given(key) => key.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

fn memory(value: &str) -> Result<Vec<u32>, BadConfig> {
    let each = value.split('/').map(|part| {
        let number = part.parse().ok();
        // A domain may have none; all of them may not.
        number.filter(|n| MEMORY_RANGE.contains(n) || (*n == 0 && part != value)).ok_or_else(|| {
            let (least, most) = (MEMORY_RANGE.start(), MEMORY_RANGE.end());
            BadConfig(format!("memory '{value}': expected {least} to {most} megabytes, for each domain as 512/512"))
        })
    });
    each.collect()
}

fn file_prefix(value: &str) -> Result<String, BadConfig> {
    let plain = value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if plain && (1..=32).contains(&value.len()) {
        return Ok(value.to_owned());
    }
    Err(BadConfig(format!("file-prefix '{value}': expected 1 to 32 letters, digits, - or _")))
}

#[cfg(test)]
mod tests;
