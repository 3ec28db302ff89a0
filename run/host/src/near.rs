//! How near a running silo's memory, ports and content are: placed at the
//! start, looked at now and then, published.

use crate::published::Take;
use crate::{Layout, Port, SiloPlace};
use link::{Link, LinkState};
use server::{Content, Server, SharedContent};
use silo::placement::{self, Far, Inspector, MemoryPolicy, Watch};
use silo::{Silo, Usage};
use std::sync::Arc;
use topology::{Memory, Topology};
use wire::Time;

/// More domains than this are not told apart on the statistics page: they
/// would fill it.
pub const TOLD_MAX: usize = 16;

/// The machine as far as silos are placed on it, and who looks where their
/// pages are.
pub struct Domains {
    topology: Topology,
    inspector: Option<Inspector>,
    /// Each port's domain, by the layout's order.
    ports: Vec<Option<u16>>,
    names: Arc<Names>,
    shared_content: Option<Arc<SharedContent>>,
}

/// One silo's part of it.
pub struct Near {
    watch: Option<Watch>,
    /// As last heard.
    link: LinkState,
    interleaved: bool,
    ports: Vec<Option<u16>>,
    /// The port of its queues, where these are of one.
    port: Option<u16>,
    names: Arc<Names>,
    /// The account of frames that lie elsewhere, once any can.
    far: Option<Far>,
    /// Room for one round of traffic.
    counted: Vec<[u64; 4]>,
    told: bool,
    /// [`Usage::busy_turns`] at the last look.
    looked: Option<u64>,
    index: usize,
}

impl Domains {
    /// For the silos of a layout. To be made before any of them is pinned:
    /// the thread that looks runs where the caller may.
    pub fn new(layout: &Layout) -> Self {
        // Without sysfs, everything is in one place as far as anyone knows.
        let topology = Topology::here().unwrap_or_default();
        let names = Arc::new(Names::of(&topology));
        let inspector = Inspector::start(layout.seats.len()).ok();
        let ports = layout.ports.iter().map(|port| port.domain).collect();
        Self { topology, inspector, ports, names, shared_content: None }
    }

    /// Has the silos share content: half of what `asked` has for all of them
    /// is for what they have in common, of which at most `copies` bytes for
    /// second copies, and half for what each has of its own, as `content`
    /// then says. One silo shares with nobody.
    pub fn share_content(&mut self, layout: &Layout, asked: &Content, content: &mut Content, copies: Option<usize>) {
        let Some(directory) = content.directory().filter(|_| layout.seats.len() > 1) else { return };
        let revalidate = directory.revalidate;
        // Memory that is spread on purpose is in no domain.
        let placed = |seat: &&SiloPlace| seat.memory != Some(Memory::Interleave);
        let domains: Vec<u16> = layout.seats.iter().filter(placed).filter_map(|seat| seat.domain).collect();
        let (common, copies) = in_common(asked, copies);
        self.shared_content = Some(SharedContent::new(&domains, common, copies, revalidate));
        self.divide(layout, asked, content);
    }

    /// Each silo's own part of the content that is held for all of them, as
    /// [`Domains::share_content`].
    pub fn divide(&self, layout: &Layout, asked: &Content, content: &mut Content) {
        let (Some(asked), Some(directory)) = (asked.directory(), content.directory_mut()) else { return };
        let silos = layout.seats.len();
        if silos > 1 {
            directory.cache_bytes = (asked.cache_bytes - asked.cache_bytes / 2) / silos;
        }
    }

    /// From now on the silos have so much in common.
    pub fn set_limits(&self, asked: &Content, copies: Option<usize>) {
        if let Some(shared_content) = &self.shared_content {
            let (common, copies) = in_common(asked, copies);
            shared_content.set_limits(common, copies);
        }
    }

    /// Places the calling thread's memory and its link's for a silo, and
    /// returns its part. What cannot be had is told, and counted in the
    /// pages that are elsewhere.
    pub fn settle<L: Link>(&self, seat: &SiloPlace, link: &L) -> Near {
        let several = self.topology.domains.len() > 1;
        let outcome = match seat.memory {
            Some(Memory::Domain(domain)) if several => self.bring(domain, link),
            Some(Memory::Interleave) if several => self.spread(),
            _ => Ok(()),
        };
        if let Err(why) = outcome {
            say::warning(format_args!("silo {}: {why}", seat.index));
        }
        let only = match self.topology.domains.as_slice() {
            [only] => Some(only.number),
            _ => None,
        };
        // What is bound to the nearest domain that has memory is where it is
        // to be.
        let domain = match seat.memory {
            Some(Memory::Domain(domain)) => Some(domain),
            _ => seat.domain.or(only),
        };
        let first = seat.queues.first().map(|queue| queue.port);
        Near {
            watch: self.inspector.as_ref().zip(domain).map(|(inspector, domain)| {
                inspector.watch(domain, several && matches!(seat.memory, Some(Memory::Domain(_))))
            }),
            link: LinkState::Down,
            interleaved: several && seat.memory == Some(Memory::Interleave),
            ports: self.ports.clone(),
            port: first.filter(|first| seat.queues.iter().all(|queue| queue.port == *first)),
            names: Arc::clone(&self.names),
            far: None,
            counted: Vec::with_capacity(self.names.traffic.len()),
            told: false,
            looked: None,
            index: seat.index,
        }
    }

    /// The server's settings for a silo: its place among those that share,
    /// and helper threads on its own domain's cores.
    pub fn server(&self, layout: &Layout, seat: &SiloPlace, config: &server::Config) -> server::Config {
        let mut config = config.clone();
        if let (Some(directory), Some(shared_content)) = (config.content.directory_mut(), &self.shared_content) {
            let placed = seat.domain.filter(|_| seat.memory != Some(Memory::Interleave));
            directory.shared_content = Some(shared_content.member(placed.unwrap_or(0)));
        }
        let Some(domain) = seat.domain.and_then(|domain| self.topology.domain(domain)) else { return config };
        if self.topology.domains.len() > 1 && seat.memory != Some(Memory::Interleave) {
            // Beside the silos if there is room, else among them.
            let spare = |core: &&u16| !layout.seats.iter().any(|seat| seat.core == Some(**core));
            let mut cores: Vec<u16> = domain.cores.iter().filter(spare).copied().collect();
            if cores.is_empty() {
                cores.clone_from(&domain.cores);
            }
            config.helper_cpus = cores.into_iter().map(usize::from).collect();
        }
        config
    }

    fn bring<L: Link>(&self, domain: u16, link: &L) -> Result<(), placement::PlacementError> {
        placement::bind(MemoryPolicy::Domain(domain))?;
        // The link was opened by another thread. What a peer or a device has
        // hold of stays, and shows among the pages.
        link.memory(&mut |range| {
            let _ = placement::move_to(range, domain);
        });
        Ok(())
    }

    fn spread(&self) -> Result<(), placement::PlacementError> {
        let with_memory = self.topology.domains.iter().filter(|domain| domain.memory_total > 0);
        let domains: Vec<u16> = with_memory.map(|domain| domain.number).collect();
        placement::bind(MemoryPolicy::Interleave(&domains))
    }
}

/// How much content silos have in common, and how much of that may be second
/// copies.
fn in_common(asked: &Content, copies: Option<usize>) -> (usize, usize) {
    let common = asked.directory().map_or(0, |directory| directory.cache_bytes / 2);
    (common, copies.unwrap_or(common / 2))
}

impl Near {
    /// Has the silo's pages looked at, if it is time, and tells once if some
    /// are elsewhere.
    pub fn attend<L: Link, A>(
        &mut self,
        (silo, server): (&Silo<L, A>, &Server),
        now: Time,
        usage: &Usage,
        link: LinkState,
    ) {
        let Some(watch) = &mut self.watch else { return };
        if core::mem::replace(&mut self.link, link) != link && link == LinkState::Down {
            // The memory of a peer that has gone concerns nobody.
            watch.call_off();
        }
        match (watch.far(), &mut self.far) {
            (Some(pages), Some(far)) => far.look_for(pages),
            (Some(pages), far @ None) if !pages.is_empty() => *far = Some(Far::new(pages)),
            _ => {}
        }
        // Of a silo that did nothing since, nothing is elsewhere now.
        if !watch.is_due(now) || self.looked.replace(usage.busy_turns) == Some(usage.busy_turns) {
            return;
        }
        let pages = watch.pages();
        if !self.told && !self.interleaved && pages.remote > 0 && usage.turns > 0 {
            self.told = true;
            let (remote, all) = (pages.remote, pages.remote + pages.local);
            let silo = self.index;
            say::warning(format_args!("silo {silo}: {remote} of {all} pages are in another NUMA domain"));
        }
        let others = |each: &mut dyn FnMut(core::ops::Range<usize>)| {
            silo.stack.memory(each);
            server.memory(each);
        };
        watch.look(now, |each| silo.link.memory(each), others);
    }

    /// The account of frames that lie in another domain, while any can.
    #[inline]
    pub fn far(&mut self) -> Option<&mut Far> {
        self.far.as_mut().filter(|far| far.has_pages())
    }

    /// Tells every value with its name, in the order of [`names`].
    pub fn values<L: Port>(&mut self, link: &L, server: &Server, take: Take<'_>) {
        let pages = self.watch.as_ref().map(Watch::pages).unwrap_or_default();
        let values = [pages.local, pages.remote, pages.absent, pages.looks, u64::from(self.interleaved)];
        PAGES.into_iter().zip(values).for_each(|(name, value)| take(name, value));
        let Self { names, counted, ports, port: own, .. } = self;
        counted.clear();
        counted.resize(names.traffic.len(), [0; 4]);
        link.traffic(&mut |port, counters| {
            let domain = port.or(*own).and_then(|port| *ports.get(usize::from(port))?);
            let place = domain.and_then(|domain| names.domains.binary_search(&domain).ok());
            // The last is for ports that are nowhere in particular.
            let place = place.unwrap_or(counted.len().saturating_sub(1));
            let Some(sums) = counted.get_mut(place) else { return };
            let values = [counters.rx_frames, counters.rx_bytes, counters.tx_frames, counters.tx_bytes];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        });
        for (names, values) in names.traffic.iter().zip(&*counted) {
            names.iter().zip(values).for_each(|(name, value)| take(name, *value));
        }
        for (domain, names) in names.domains.iter().zip(&names.far) {
            let content = server.far_reads().find(|(other, _)| other == domain);
            let content = content.map_or([0; 2], |(_, reads)| [reads.frames(), reads.bytes()]);
            let frames = self.far.as_ref().and_then(|far| far.counted().find(|(other, _)| other == domain));
            let frames = frames.map_or([0; 4], |(_, sum)| [sum.rx_frames, sum.rx_bytes, sum.tx_frames, sum.tx_bytes]);
            names.iter().zip(content.into_iter().chain(frames)).for_each(|(name, value)| take(name, value));
        }
    }
}

/// What is known of a silo's pages; the last says that they are spread on
/// purpose.
const PAGES: [&str; 5] =
    ["silo.pages_local", "silo.pages_remote", "silo.pages_absent", "silo.looks", "silo.interleaved"];

/// Those of [`names`] that go up and down.
pub fn is_gauge(name: &str) -> bool {
    PAGES.contains(&name) && name != "silo.looks"
}

/// The names of all values, in their order.
pub fn names(take: Take<'_>) {
    let names = Names::of(&Topology::here().unwrap_or_default());
    let traffic = names.traffic.iter().flatten();
    PAGES.iter().chain(traffic).chain(names.far.iter().flatten()).for_each(|name| take(name, 0));
}

/// What frames and bytes of a domain's ports are called.
pub const TRAFFIC: [&str; 4] = ["numa.rx_frames", "numa.rx_bytes", "numa.tx_frames", "numa.tx_bytes"];
/// What passed through memory of a domain for a silo of another is called:
/// frames sent with content that lies there, and its bytes; frames that lay
/// there themselves.
pub const FAR: [&str; 6] = [
    "numa.far_content_frames",
    "numa.far_content_bytes",
    "numa.far_rx_frames",
    "numa.far_rx_bytes",
    "numa.far_tx_frames",
    "numa.far_tx_bytes",
];
/// The place of ports that are nowhere in particular.
pub const NOWHERE: &str = "nowhere";

/// Names by domain, made once.
struct Names {
    domains: Vec<u16>,
    /// For each domain, and for nowhere; nothing in a machine of one domain.
    traffic: Vec<[&'static str; 4]>,
    far: Vec<[&'static str; 6]>,
}

impl Names {
    fn of(topology: &Topology) -> Self {
        let domains: Vec<u16> = topology.domains.iter().map(|domain| domain.number).take(TOLD_MAX).collect();
        if domains.len() < 2 {
            return Self { domains, traffic: Vec::new(), far: Vec::new() };
        }
        // The page keeps them for as long as the process lives.
        let name = |what: &str, place: &str| &*format!("{what}.{place}").leak();
        let places = domains.iter().map(ToString::to_string).chain([NOWHERE.to_owned()]);
        let traffic = places.map(|place| TRAFFIC.map(|what| name(what, &place))).collect();
        let far = domains.iter().map(|domain| FAR.map(|what| name(what, &domain.to_string()))).collect();
        Self { domains, traffic, far }
    }
}
