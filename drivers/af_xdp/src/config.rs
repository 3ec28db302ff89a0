//! What an AF_XDP link is made of, and its one-line form.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use driver::BadConfig;
use driver::text::{choice, number, switch};

/// The longest name that Linux takes (IFNAMSIZ without its NUL).
const NAME_LIMIT: usize = 15;

/// Most queues of one link.
pub const QUEUES_LIMIT: u16 = 256;

/// Slots of each ring, in bounds: two bursts, and what no driver exceeds.
const RING_RANGE: core::ops::RangeInclusive<u32> = 64..=16_384;

/// Longest busy poll: beyond, the kernel would keep the core for itself.
const BUSY_POLL_LIMIT: Duration = Duration::from_millis(10);

/// Bytes that the kernel keeps free before each frame (`XDP_PACKET_HEADROOM`).
pub(crate) const HEADROOM: u32 = 256;

/// Ethernet header with one VLAN tag: what a slot holds beside the packet.
pub(crate) const HEADER_ROOM: u32 = 18;

/// Bytes of a frame's room in umem. A page is the kernel's limit for frames
/// that are aligned.
pub(crate) const FRAME_SIZES: [u32; 2] = [2_048, 4_096];

/// Where the XDP program is to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModeChoice {
    /// In the driver where it can, else generic.
    Auto,
    /// In the driver.
    Native,
    /// After the driver, for all interfaces.
    Generic,
}

/// How frames get into the umem and out of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyChoice {
    /// Without a copy where the driver can.
    Auto,
    /// By the device itself; refused where the driver cannot.
    ZeroCopy,
    /// By the kernel.
    Copy,
}

/// Whether received transport checksums are verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChecksumChoice {
    /// Always verified, but for those that hardware was to complete, where
    /// frames come from this machine's own kernel (veth, virtio_net in generic
    /// mode).
    Auto,
    /// Always verified: drops what a local kernel left to hardware.
    Verify,
    /// Never verified.
    Trust,
}

/// Which frames are to be stamped: those that come (Linux 6.3) and those that
/// leave (Linux 6.8), by a NIC whose driver can.
///
/// In copy mode a departure has a stamp of the kernel, which says when it was done
/// with the frame, and not when that left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamps {
    /// Each frame that comes.
    pub arrivals: bool,
    /// Frames that leave, where that is asked for.
    pub departures: bool,
    /// The NIC is to stamp them only while the port is open.
    pub switch_on: bool,
}

/// How an AF_XDP link is opened.
///
/// Reads from `af_xdp:INTERFACE[,key=value]…`:
///
/// | key | meaning | default |
/// | --- | --- | --- |
/// | `queues` | receive queues taken, or `auto` for all from the first on | auto |
/// | `first-queue` | the first of them | 0 |
/// | `mode` | `native` (in the driver), `generic`, or `auto` | auto |
/// | `copy` | `zero-copy`, `copy`, or `auto` | auto |
/// | `ring` | slots of each ring, a power of two, and frames each way | 512 |
/// | `frame` | bytes of a frame's room: 2048 or 4096 | by the MTU |
/// | `umem` | `queue`: memory for each queue; `shared`: one for all | queue |
/// | `hugepages` | `on` or `off`: frames in huge pages | on |
/// | `busy-poll` | time that a system call polls the driver, as `20us` | none |
/// | `budget` | most frames of one such poll | 64 |
/// | `checksum` | `verify`, `trust`, or `auto` | auto |
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The interface's name, 1 to 15 characters.
    pub interface: String,
    /// Receive queues taken, each a link of its own; `None` for all from the
    /// first on. Frames of the interface's other queues stay with the kernel.
    pub queues: Option<u16>,
    /// The first queue taken.
    pub first_queue: u16,
    /// Where the program runs.
    pub mode: ModeChoice,
    /// How frames get into the umem.
    pub copy: CopyChoice,
    /// Slots of each of the four rings, and frames for each direction: a power
    /// of two from 64 to 16,384. Too few drop frames that come while the silo
    /// is away, and make the stack stop and go within a turn (`tx_full`); more
    /// spread the frames over more cache than the core has.
    pub ring: u32,
    /// Bytes of a frame's room, of which the kernel keeps 256 free: 2,048 or
    /// 4,096. `None` takes the smallest that holds the interface's MTU.
    pub frame: Option<u32>,
    /// One umem for all queues rather than one for each. Each queue has frames
    /// of its own either way; shared, all memory comes from the domain of the
    /// silo that starts first, and the kernel pins it once.
    pub shared_umem: bool,
    /// Tries huge pages for the frames.
    pub hugepages: bool,
    /// How long a system call polls the driver (SO_BUSY_POLL) instead of
    /// leaving it to interrupts. Needs a core that polls anyway.
    pub busy_poll: Option<Duration>,
    /// Most frames of one busy poll (SO_BUSY_POLL_BUDGET), 1 to 1,024.
    pub budget: u16,
    /// Whether checksums are verified.
    pub checksum: ChecksumChoice,
    /// Which frames are to be stamped. It is not part of a link's text, and takes
    /// every frame of the interface ([`driver::Claim::Whole`]).
    pub stamps: Stamps,
}

/// The keys that a configuration takes.
const KEYS: &str = "queues, first-queue, mode, copy, ring, frame, umem, hugepages, busy-poll, budget and checksum";

impl Config {
    /// The defaults, for the interface called `name`.
    ///
    /// # Errors
    /// If Linux would not take the name.
    pub fn new(name: &str) -> Result<Self, BadConfig> {
        if !is_interface_name(name) {
            return Err(BadConfig(format!(
                "'{name}' names no interface: 1 to {NAME_LIMIT} characters, no blank, slash, colon or comma"
            )));
        }
        Ok(Self {
            interface: name.to_owned(),
            queues: None,
            first_queue: 0,
            mode: ModeChoice::Auto,
            copy: CopyChoice::Auto,
            ring: 512,
            frame: None,
            shared_umem: false,
            hugepages: true,
            busy_poll: None,
            budget: 64,
            checksum: ChecksumChoice::Auto,
            stamps: Stamps::default(),
        })
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), BadConfig> {
        match key {
            "queues" if value == "auto" => self.queues = None,
            "queues" => self.queues = Some(number(key, value, 1..=QUEUES_LIMIT)?),
            "first-queue" => self.first_queue = number(key, value, 0..=u16::MAX)?,
            "mode" => {
                self.mode = choice(
                    key,
                    value,
                    &[("auto", ModeChoice::Auto), ("native", ModeChoice::Native), ("generic", ModeChoice::Generic)],
                )?;
            }
            "copy" => {
                self.copy = choice(
                    key,
                    value,
                    &[("auto", CopyChoice::Auto), ("zero-copy", CopyChoice::ZeroCopy), ("copy", CopyChoice::Copy)],
                )?;
            }
            "ring" => {
                self.ring = number(key, value, RING_RANGE)?;
                if !self.ring.is_power_of_two() {
                    return Err(BadConfig(format!("ring '{value}': expected a power of two")));
                }
            }
            "frame" => self.frame = Some(choice(key, value, &[("2048", 2_048), ("4096", 4_096)])?),
            "umem" => self.shared_umem = choice(key, value, &[("queue", false), ("shared", true)])?,
            "hugepages" => self.hugepages = switch(key, value)?,
            "busy-poll" => self.busy_poll = Some(time(key, value)?),
            "budget" => self.budget = number(key, value, 1..=1_024)?,
            "checksum" => {
                self.checksum = choice(
                    key,
                    value,
                    &[
                        ("auto", ChecksumChoice::Auto),
                        ("verify", ChecksumChoice::Verify),
                        ("trust", ChecksumChoice::Trust),
                    ],
                )?;
            }
            _ => return Err(BadConfig(format!("an af_xdp link has no '{key}': it takes {KEYS}"))),
        }
        Ok(())
    }
}

impl FromStr for Config {
    type Err = BadConfig;

    fn from_str(text: &str) -> Result<Self, BadConfig> {
        let Some(rest) = text.strip_prefix("af_xdp:") else {
            return Err(BadConfig(format!("'{text}' is no af_xdp link; write af_xdp:INTERFACE[,key=value]…")));
        };
        let mut parts = rest.split(',');
        let mut config = Self::new(parts.next().unwrap_or(""))?;
        let mut seen = Vec::new();
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return Err(BadConfig(format!("'{part}': expected key=value")));
            };
            if seen.contains(&key) {
                return Err(BadConfig(format!("{key} is given twice")));
            }
            seen.push(key);
            config.set(key, value)?;
        }
        Ok(config)
    }
}

/// The same form that is read, with what differs from the defaults.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "af_xdp:{}", self.interface)?;
        if let Some(queues) = self.queues {
            write!(f, ",queues={queues}")?;
        }
        if self.first_queue != 0 {
            write!(f, ",first-queue={}", self.first_queue)?;
        }
        f.write_str(match self.mode {
            ModeChoice::Auto => "",
            ModeChoice::Native => ",mode=native",
            ModeChoice::Generic => ",mode=generic",
        })?;
        f.write_str(match self.copy {
            CopyChoice::Auto => "",
            CopyChoice::ZeroCopy => ",copy=zero-copy",
            CopyChoice::Copy => ",copy=copy",
        })?;
        if self.ring != 512 {
            write!(f, ",ring={}", self.ring)?;
        }
        if let Some(frame) = self.frame {
            write!(f, ",frame={frame}")?;
        }
        if self.shared_umem {
            f.write_str(",umem=shared")?;
        }
        if !self.hugepages {
            f.write_str(",hugepages=off")?;
        }
        if let Some(time) = self.busy_poll {
            write!(f, ",busy-poll={}us", time.as_micros())?;
        }
        if self.budget != 64 {
            write!(f, ",budget={}", self.budget)?;
        }
        f.write_str(match self.checksum {
            ChecksumChoice::Auto => "",
            ChecksumChoice::Verify => ",checksum=verify",
            ChecksumChoice::Trust => ",checksum=trust",
        })
    }
}

/// What Linux takes (`dev_valid_name`), without the comma, which ends the name
/// here.
fn is_interface_name(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_graphic() && !b"/:,".contains(&b));
    (1..=NAME_LIMIT).contains(&name.len()) && plain && name != "." && name != ".."
}

/// A time as `20us` or `1ms`.
fn time(key: &str, value: &str) -> Result<Duration, BadConfig> {
    let micros = value.strip_suffix("us").and_then(|text| text.parse::<u64>().ok());
    let millis = value.strip_suffix("ms").and_then(|text| text.parse::<u64>().ok()?.checked_mul(1_000));
    micros
        .or(millis)
        .map(Duration::from_micros)
        .filter(|time| !time.is_zero() && *time <= BUSY_POLL_LIMIT)
        .ok_or_else(|| BadConfig(format!("{key} '{value}': expected a time from 1us to 10ms, as 20us")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_gives_the_defaults() {
        let config: Config = "af_xdp:eth0".parse().unwrap();
        assert_eq!(config, Config::new("eth0").unwrap());
        assert_eq!((config.queues, config.mode, config.ring), (None, ModeChoice::Auto, 512));
    }

    #[test]
    fn what_is_printed_reads_back() {
        for text in [
            "af_xdp:eth0",
            "af_xdp:enp1s0f0,queues=4,first-queue=2,mode=native,copy=zero-copy,ring=2048,frame=4096,umem=shared,\
             hugepages=off,busy-poll=20us,budget=8,checksum=verify",
            "af_xdp:veth1,mode=generic,copy=copy,checksum=trust",
        ] {
            assert_eq!(text.parse::<Config>().unwrap().to_string(), text);
        }
        assert_eq!("af_xdp:e,busy-poll=1ms".parse::<Config>().unwrap().busy_poll, Some(Duration::from_millis(1)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("tap:eth0", "no af_xdp link"),
            ("af_xdp:", "1 to 15 characters"),
            ("af_xdp:a/b", "1 to 15 characters"),
            ("af_xdp:sixteen-letters-", "1 to 15 characters"),
            ("af_xdp:e,", "expected key=value"),
            ("af_xdp:e,speed=1", "has no 'speed'"),
            ("af_xdp:e,queues=0", "1 to 256"),
            ("af_xdp:e,queues=all", "1 to 256"),
            ("af_xdp:e,ring=100", "power of two"),
            ("af_xdp:e,ring=32", "64 to 16384"),
            ("af_xdp:e,ring=64,ring=64", "given twice"),
            ("af_xdp:e,mode=fast", "auto or native or generic"),
            ("af_xdp:e,copy=no", "zero-copy"),
            ("af_xdp:e,frame=9000", "2048 or 4096"),
            ("af_xdp:e,umem=one", "queue or shared"),
            ("af_xdp:e,hugepages=yes", "on or off"),
            ("af_xdp:e,busy-poll=0us", "1us to 10ms"),
            ("af_xdp:e,busy-poll=5", "1us to 10ms"),
            ("af_xdp:e,busy-poll=99999999999999999999ms", "1us to 10ms"),
            ("af_xdp:e,budget=0", "1 to 1024"),
            ("af_xdp:e,checksum=off", "verify"),
        ] {
            let message = text.parse::<Config>().unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
