//! A port: opened, configured, started; its state and what it counts.

use crate::config::{Config, Device, RssKey};
use crate::eal::Eal;
use crate::error::{DpdkError, Step};
use crate::facts::{Facts, Rss};
use crate::ffi::{self, KEY_LIMIT, MemoryRange, Pool, PortCounts, RETA_LIMIT, RawFacts, Wish};
use crate::machine::Machine;
use crate::remedy::Remedy;
use crate::{HEADER_ROOM, log, stamping};
use core::ffi::c_int;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use link::LinkState;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError, TryLockError};
use wire::{Mac, Time};

/// The port is asked for its state this often: some drivers make a system
/// call of it.
const STATE_INTERVAL: Duration = Duration::from_millis(100);

/// While it is down, more often, so that its coming is not missed for long.
const DOWN_INTERVAL: Duration = Duration::from_millis(10);

/// Longest packet left to the port for cutting: ten segments of Ethernet's
/// usual size in one buffer. Larger saves little more, and each slot of the
/// transmit ring costs as much.
const SEGMENTATION_LIMIT: u32 = 15_360;

/// Packet buffers of a pool beyond those in the ring: what is borrowed, what
/// is being written, what a thread's cache holds.
const BUFFERS_BESIDE_RING: u32 = 1023;

/// Rings of virtual devices have sizes of their own, up to this usually.
const RING_AT_LEAST: u32 = 1024;

/// Chunks of memory that one pool is expected to be in, at most.
const MEMORY_CHUNKS: usize = 256;

/// RTE_ETH_RSS_NONFRAG_IPV4_TCP and _IPV6_TCP of rte_ethdev.h.
const HASH_TCP_V4: u64 = 1 << 4;
const HASH_TCP_V6: u64 = 1 << 10;

const _: () = assert!(SEGMENTATION_LIMIT + HEADER_ROOM < u16::MAX as u32, "a slot's length has 16 bits");

/// Open ports: their devices, numbers, and what they are like.
static OPEN: Mutex<Vec<(Device, u16, Facts)>> = Mutex::new(Vec::new());

/// What the port of this device is like; `None` if it is not open.
#[must_use]
pub fn facts(device: &Device) -> Option<Facts> {
    with_open(device, |_, facts| facts.clone())
}

/// Does something with an open port, which is not closed meanwhile; `None` if it
/// is not open.
pub(crate) fn with_open<T>(device: &Device, with: impl FnOnce(u16, &Facts) -> T) -> Option<T> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.iter().rev().find(|(known, ..)| known == device).map(|(_, id, facts)| with(*id, facts))
}

/// The Ethernet address that a stack over this port is to have: the port's
/// own, because it drops what is for others. `None` where that is no matter or
/// no address: the device is not open, has none, or is a net_tap, whose
/// address is that of the kernel's end.
#[must_use]
pub fn mac(device: &Device) -> Option<Mac> {
    let found = facts(device).map(|facts| facts.mac);
    found.filter(|mac| mac.is_unicast() && *mac != Mac([0; 6]) && !device.is_tap())
}

/// A started port. Closed when the last of its queues goes.
pub(crate) struct Port {
    pub(crate) id: u16,
    pub(crate) facts: Facts,
    pub(crate) mtu: u16,
    device: Device,
    pools: Vec<Pools>,
    up: AtomicBool,
    downs: AtomicU64,
    /// Frames that the port itself lost, as last asked.
    lost: AtomicU64,
    control: Mutex<Control>,
}

/// A queue pair's packet buffers.
#[derive(Clone, Copy)]
pub(crate) struct Pools {
    pub(crate) rx: NonNull<Pool>,
    pub(crate) tx: NonNull<Pool>,
}

// SAFETY: pools are made for use by several threads; they are freed when the port is dropped, once.
unsafe impl Send for Pools {}
// SAFETY: as above.
unsafe impl Sync for Pools {}

#[derive(Debug, Default)]
struct Control {
    asked: Option<Time>,
}

impl Port {
    /// Gives the device to DPDK and starts it as configured.
    pub(crate) fn open(config: &Config) -> Result<Self, DpdkError> {
        let machine = Machine::here();
        let fail = |why: DpdkError| why.on(&config.device);
        let lacking = |remedy: Option<_>| remedy.map_or(Ok(()), |remedy| Err(DpdkError::lacking(remedy)));
        lacking(machine.lacks_device(&config.device)).map_err(fail)?;
        let eal = match Eal::start(&config.eal) {
            Ok(eal) => eal,
            Err(why) => return Err(fail(why.with_remedy(machine.lacks_memory(&config.eal)))),
        };
        let (id, said) = log::kept(|| attach(config));
        let id = id.map_err(|code| fail(DpdkError::said(Step::Attach, code, said)))?;
        Self::start(&eal, config, id).map_err(|why| {
            // A virtual device ends with the process; net_memif, closed before it ran, would free things twice.
            if matches!(config.device, Device::Pci(_)) {
                ffi::near_close(id);
            }
            let remedy =
                if why.is_memory() && eal.is_huge() { machine.lacks_memory(&config.eal) } else { lacks_peer(config) };
            fail(why.with_remedy(remedy))
        })
    }

    /// With interrupts first, if they are wanted: which drivers have them
    /// shows only when the port starts.
    fn start(eal: &Eal, config: &Config, id: u16) -> Result<Self, DpdkError> {
        if config.interrupts
            && let Ok(port) = Self::start_with(eal, config, id, true)
        {
            return Ok(port);
        }
        Self::start_with(eal, config, id, false)
    }

    fn start_with(_eal: &Eal, config: &Config, id: u16, interrupts: bool) -> Result<Self, DpdkError> {
        let wish = wish(config, interrupts);
        let mut raw = NO_FACTS;
        let mut pools = Vec::new();
        let mut stamping = None;
        let (started, said) = log::kept(|| -> Result<(), Failed> {
            if config.stamps {
                done(ffi::near_expect_stamps())?;
            }
            // SAFETY: both structures are the shim's, and live during the call.
            done(unsafe { ffi::near_configure(id, &raw const wish, &raw mut raw) })?;
            if let Some(mac) = config.mac {
                // SAFETY: six bytes are read.
                let set = unsafe { ffi::near_set_mac(id, mac.0.as_ptr()) };
                // A virtual device that has no address of its own receives whatever comes.
                if set < 0 && matches!(config.device, Device::Pci(_)) {
                    return Err(Failed::Mac(set));
                }
                raw.mac = mac.0;
            }
            for queue in 0..config.queues {
                let made = make_pools(config, &raw).ok_or(Failed::Memory)?;
                pools.push(made);
                // SAFETY: the pool was just made; it is freed after the port is closed.
                done(unsafe { ffi::near_queue(id, queue, &raw mut raw, made.rx.as_ptr()) })?;
            }
            // SAFETY: as at near_configure.
            done(unsafe { ffi::near_begin(id, &raw const wish, &raw mut raw) })?;
            if config.stamps {
                stamping = pools.first().map(|pools| stamping::ask(id, pools.tx, &raw));
            }
            if interrupts { done(probe_interrupts(id)) } else { Ok(()) }
        });
        if let Err(failed) = started {
            ffi::near_end(id);
            free(&pools);
            return Err(failed.error(&raw, said));
        }
        let facts = Facts { stamps: stamping, ..read_facts(&raw, &wish) };
        let control = Mutex::new(Control::default());
        let (up, downs, lost) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let device = config.device.clone();
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).push((device.clone(), id, facts.clone()));
        Ok(Self { id, facts, mtu: raw.mtu, device, pools, up, downs, lost, control })
    }

    /// Whether frames are stamped as they leave.
    pub(crate) const fn stamps_departures(&self) -> bool {
        matches!(self.facts.stamps, Some(Ok(_)))
    }

    /// The packet buffers of queue pair `queue`.
    pub(crate) fn pools(&self, queue: u16) -> Option<Pools> {
        self.pools.get(usize::from(queue)).copied()
    }

    /// Asks the port for its state and counts when it is time; by one thread
    /// at once, and the others take what it found.
    pub(crate) fn poll(&self, now: Time) -> LinkState {
        let mut control = match self.control.try_lock() {
            Ok(control) => control,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.state(),
        };
        let interval = if self.is_up() { STATE_INTERVAL } else { DOWN_INTERVAL };
        if control.asked.is_none_or(|asked| now.since(asked) >= interval) {
            control.asked = Some(now);
            let up = ffi::near_is_up(self.id) != 0;
            if self.up.swap(up, Ordering::Relaxed) && !up {
                self.downs.fetch_add(1, Ordering::Relaxed);
            }
            let mut counts = PortCounts::default();
            // SAFETY: the shim fills the structure, which lives during the call.
            if unsafe { ffi::near_counts(self.id, &raw mut counts) } == 0 {
                self.lost.store(counts.missed + counts.errors + counts.no_buffer, Ordering::Relaxed);
            }
        }
        self.state()
    }

    /// Whether frames can pass, as last asked.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    fn state(&self) -> LinkState {
        if self.is_up() { LinkState::Up } else { LinkState::Down }
    }

    /// Times that the port went down.
    pub(crate) fn downs(&self) -> u64 {
        self.downs.load(Ordering::Relaxed)
    }

    /// Frames that the port lost before anybody saw them.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Packet buffers of a queue pair that are not in its pools: in the
    /// rings, borrowed, or lost.
    pub(crate) fn buffers_in_use(&self, queue: u16) -> u32 {
        let pools = self.pools(queue).map(|pools| [pools.rx, pools.tx]);
        // SAFETY: pools live as long as the port.
        pools.into_iter().flatten().map(|pool| unsafe { ffi::near_pool_in_use(pool.as_ptr()) }).sum()
    }

    /// Where the packet buffers of a queue pair are.
    pub(crate) fn memory(&self, queue: u16, each: &mut dyn FnMut(Range<usize>)) {
        let Some(pools) = self.pools(queue) else { return };
        for pool in [pools.rx, pools.tx] {
            let mut ranges = [MemoryRange::default(); MEMORY_CHUNKS];
            // SAFETY: the pool lives as long as the port; as many ranges are written as there is room for.
            let count = unsafe { ffi::near_pool_memory(pool.as_ptr(), ranges.as_mut_ptr(), MEMORY_CHUNKS as u32) };
            ranges.iter().take(count as usize).for_each(|range| each(range.start..range.start + range.len));
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _alone = Eal::running();
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|(device, ..)| *device != self.device);
        let ((), _) = log::kept(|| {
            if self.stamps_departures() {
                ffi::near_stamp_no_more(self.id);
            }
            ffi::near_end(self.id);
            ffi::near_close(self.id);
        });
        free(&self.pools);
    }
}

/// What went wrong while a port was started.
enum Failed {
    Step(c_int),
    Mac(c_int),
    Memory,
}

impl Failed {
    fn error(self, raw: &RawFacts, said: Vec<String>) -> DpdkError {
        match self {
            Self::Step(code) => DpdkError::said(Step::Port(ffi::text(raw.step)), code, said),
            Self::Mac(code) => DpdkError::said(Step::Port("take the address given with --mac".to_owned()), code, said),
            Self::Memory => DpdkError::said(Step::Memory, -12, said),
        }
    }
}

fn done(code: c_int) -> Result<(), Failed> {
    if code < 0 { Err(Failed::Step(code)) } else { Ok(()) }
}

/// Whether the first queue raises interrupts.
fn probe_interrupts(port: u16) -> c_int {
    use std::os::fd::{FromRawFd, OwnedFd};
    let epoll = ffi::near_interrupts(port, 0);
    if epoll >= 0 {
        // SAFETY: the shim has just made this descriptor for us.
        drop(unsafe { OwnedFd::from_raw_fd(epoll) });
    }
    epoll
}

/// DPDK's memif as a client tries once, when it starts.
fn lacks_peer(config: &Config) -> Option<Remedy> {
    let argument = |key: &str| config.arguments.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let memif = matches!(&config.device, Device::Virtual(name) if name.starts_with("net_memif"));
    (memif && argument("role") != Some("server")).then(|| {
        Remedy::new("as memif's client DPDK needs its peer to listen already")
            .or("start the other side first, with role=server; or give dev.role=server here")
    })
}

fn attach(config: &Config) -> Result<u16, c_int> {
    let c = |text: String| CString::new(text).unwrap_or_default();
    let (device, arguments) = (c(config.device.to_string()), c(config.device_arguments()));
    let mut id = 0;
    // SAFETY: two NUL-terminated texts and a place for the number, alive
    // during the call.
    let failed = unsafe { ffi::near_attach(device.as_ptr(), arguments.as_ptr(), &raw mut id) };
    if failed == 0 { Ok(id) } else { Err(failed) }
}

fn wish(config: &Config, interrupts: bool) -> Wish {
    let mut key = [0; KEY_LIMIT];
    let key_len = match &config.rss {
        RssKey::Symmetric => {
            key.chunks_exact_mut(2).for_each(|pair| pair.copy_from_slice(&[0x6d, 0x5a]));
            KEY_LIMIT
        }
        RssKey::Driver => 0,
        RssKey::Given(given) => {
            let len = given.len().min(KEY_LIMIT);
            key[..len].copy_from_slice(&given[..len]);
            len
        }
    };
    Wish {
        queues: config.queues,
        rx_descriptors: config.rx_descriptors,
        tx_descriptors: config.tx_descriptors,
        mtu: config.mtu,
        domain: config.domain.map_or(-1, |domain| domain as i32),
        segmentation_limit: if config.segmentation { SEGMENTATION_LIMIT } else { 0 },
        checksum: config.checksum.into(),
        vlan_strip: config.vlan_strip.into(),
        promiscuous: config.promiscuous.into(),
        interrupts: interrupts.into(),
        stamps: config.stamps.into(),
        key_len: key_len as u8,
        key,
    }
}

const NO_FACTS: RawFacts = RawFacts {
    queues: 0,
    rx_descriptors: 0,
    tx_descriptors: 0,
    mtu: 0,
    domain: -1,
    segmentation_limit: 0,
    rx_checksum: 0,
    tx_checksum: 0,
    vlan_strip: 0,
    promiscuous: 0,
    interrupts: 0,
    stamps_all: 0,
    mac: [0; 6],
    key_len: 0,
    key: [0; KEY_LIMIT],
    reta_len: 0,
    reta: [0; RETA_LIMIT],
    rss_fields: 0,
    driver: [0; 32],
    step: core::ptr::null(),
};

fn read_facts(raw: &RawFacts, wish: &Wish) -> Facts {
    let key = &raw.key[..usize::from(raw.key_len).min(KEY_LIMIT)];
    let wanted = &wish.key[..usize::from(wish.key_len).min(KEY_LIMIT)];
    let rss = (raw.key_len > 0).then(|| Rss {
        key: key.to_vec(),
        // One longer than the driver's was cut to it.
        ours: wanted.starts_with(key),
        reta: raw.reta[..usize::from(raw.reta_len).min(RETA_LIMIT)].to_vec(),
        tcp_v4: raw.rss_fields & HASH_TCP_V4 != 0,
        tcp_v6: raw.rss_fields & HASH_TCP_V6 != 0,
    });
    Facts {
        driver: ffi::text(raw.driver.as_ptr()),
        mac: Mac(raw.mac),
        queues: raw.queues,
        rx_descriptors: raw.rx_descriptors,
        tx_descriptors: raw.tx_descriptors,
        domain: u32::try_from(raw.domain).ok(),
        receive_checksum: raw.rx_checksum != 0,
        transmit_checksum: raw.tx_checksum != 0,
        segmentation: (raw.segmentation_limit != 0).then_some(raw.segmentation_limit),
        vlan_strip: raw.vlan_strip != 0,
        promiscuous: raw.promiscuous != 0,
        interrupts: raw.interrupts != 0,
        rss,
        stamps: None,
    }
}

/// A slot's bytes: what the link promises, and what the port cuts.
pub(crate) fn slot_len(mtu: u16, segmentation: Option<u32>) -> u32 {
    segmentation.unwrap_or(0).max(mtu.into()) + HEADER_ROOM
}

fn make_pools(config: &Config, raw: &RawFacts) -> Option<Pools> {
    /// Pools have names of their own; a port's number comes again.
    static MADE: AtomicU64 = AtomicU64::new(0);
    let pool = |ring: u16, room: u32| {
        let name = CString::new(format!("nearside_{}", MADE.fetch_add(1, Ordering::Relaxed))).ok()?;
        let count = u32::from(ring).max(RING_AT_LEAST) + BUFFERS_BESIDE_RING;
        // SAFETY: the name lives during the call.
        NonNull::new(unsafe { ffi::near_pool(name.as_ptr(), count, room, raw.domain) })
    };
    // Drivers that take buffers of one size only take this one.
    let rx = pool(raw.rx_descriptors, slot_len(config.mtu, None).max(2048))?;
    let segmentation = (raw.segmentation_limit != 0).then_some(raw.segmentation_limit);
    match pool(raw.tx_descriptors, slot_len(config.mtu, segmentation).max(2048)) {
        Some(tx) => Some(Pools { rx, tx }),
        None => {
            // SAFETY: nobody has it yet.
            unsafe { ffi::near_pool_free(rx.as_ptr()) };
            None
        }
    }
}

/// Frees pools that no port uses any more.
fn free(pools: &[Pools]) {
    for pool in pools.iter().flat_map(|pools| [pools.rx, pools.tx]) {
        // SAFETY: they were made for a port that is closed, and are not used again. A pool whose buffers some
        // driver still has stays: net_memif forgets those in its rings where zero-copy=yes.
        unsafe {
            if ffi::near_pool_in_use(pool.as_ptr()) == 0 {
                ffi::near_pool_free(pool.as_ptr());
            }
        }
    }
}
