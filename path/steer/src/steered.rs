//! A silo's own link joined to its end of the mesh.

use crate::counters::Counters as Steering;
use crate::mesh::{Common, MeshEnd, MeshHandle, Rule};
use crate::receive::SteeredRx;
use crate::receiving::RxState;
use crate::region::Region;
use crate::returns::ReturnQueue;
use crate::transmit::{SteeredTx, TxState};
use core::net::SocketAddr;
use core::ops::Range;
use core::sync::atomic::Ordering;
use core::time::Duration;
use link::{Capabilities, Counters, Link, LinkState, Load};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::Time;

/// A link that receives what its own queue and the other silos bring, and
/// sends through its own queue or, without one, through another silo's.
pub struct Steered<L> {
    link: L,
    rx: RxState,
    tx: TxState,
    own: usize,
    common: Arc<Common>,
    inbox: Option<Arc<Region>>,
    /// The doorbell and what else wakes, as one descriptor.
    wakes: Option<OwnedFd>,
    up: bool,
    /// New connections are given by load.
    least: bool,
    /// The load as last told.
    told: (Load, u32),
    /// Where answers to this silo's own connections arrive.
    returns: Option<ReturnQueue>,
}

impl<L: Link> Steered<L> {
    /// Joins a silo's link to its end of the mesh. To be called on the silo's thread:
    /// the memory of its rings is taken here, from the thread's domain. Other
    /// silos' frames for this one are dropped, and counted, before.
    #[must_use]
    pub fn new(link: L, mesh_end: MeshEnd) -> Self {
        let returns = mesh_end.return_queue();
        let MeshEnd { own, queues, common, to, from, lenders: _, send_by, send_for, candidates, inbox } = mesh_end;
        if let Some(inbox) = &inbox {
            inbox.touch();
        }
        let capabilities = link.capabilities();
        let slot = u32::from(capabilities.mtu).max(capabilities.segmentation.unwrap_or(0)) as usize + HEADER_ROOM;
        let rx = RxState::new(own, Arc::clone(&common), to, from, candidates);
        let tx = TxState::new(own, Arc::clone(&common), send_by, send_for, slot, queues > 0);
        common.seats[own].present.store(true, Ordering::Release);
        let least = common.rule == Rule::Least;
        let told = (Load::default(), 0);
        Self { link, rx, tx, own, common, inbox, wakes: None, up: queues > 0, least, told, returns }
    }

    /// The silo's own link.
    pub const fn inner(&self) -> &L {
        &self.link
    }

    /// The silo's own link.
    pub const fn inner_mut(&mut self) -> &mut L {
        &mut self.link
    }

    /// What passed between this silo and the others.
    #[must_use]
    pub fn steering(&self) -> Steering {
        let mut counters = self.rx.counters;
        self.tx.count(&mut counters);
        counters
    }

    /// Which local ports this silo's outgoing connections may have: see
    /// [`MeshEnd::return_queue`].
    #[must_use]
    pub fn return_queue(&self) -> Option<ReturnQueue> {
        self.returns.clone()
    }

    /// The mesh, for whoever watches over ports, on any thread.
    #[must_use]
    pub fn mesh(&self) -> MeshHandle {
        MeshHandle(Arc::clone(&self.common))
    }

    /// Flows whose silo is remembered here.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.rx.flows()
    }

    /// Whether frames from other silos, or for other silos to be sent, wait:
    /// what a simulator asks to see whether this silo has work.
    #[must_use]
    pub fn waiting(&self) -> bool {
        self.rx.waiting() || self.tx.waiting()
    }

    /// Makes the doorbell and `wake` one descriptor to wait for.
    fn watch(&mut self, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if self.wakes.is_none() {
            let fd = epoll::create(CreateFlags::CLOEXEC)?;
            epoll::add(&fd, self.common.seats[self.own].bell.event(), EventData::new_u64(0), EventFlags::IN)?;
            self.wakes = Some(fd);
        }
        if let (Some(fd), Some(wake)) = (&self.wakes, wake) {
            match epoll::add(fd, wake, EventData::new_u64(1), EventFlags::IN) {
                // It is watched already.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    }
}

/// Ethernet header with one VLAN tag: what a slot holds beside the packet.
const HEADER_ROOM: usize = 18;

impl<L: Link> Link for Steered<L> {
    type Rx<'a>
        = SteeredRx<'a, L::Rx<'a>>
    where
        Self: 'a;
    type Tx<'a>
        = SteeredTx<'a, L::Tx<'a>>
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        self.link.capabilities()
    }

    #[inline]
    fn split(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>) {
        let (rx, tx) = self.link.split();
        (SteeredRx { link: rx, state: &mut self.rx }, SteeredTx { link: tx, state: &mut self.tx })
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        let state = self.link.poll_control(now);
        let up = state == LinkState::Up;
        self.rx.look_after(now);
        if up != self.up {
            self.up = up;
            self.common.seats[self.own].up.store(up, Ordering::Relaxed);
        }
        let lent = self.tx.choose_route(up);
        if up || lent { LinkState::Up } else { LinkState::Down }
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        if self.waiting() {
            return Ok(());
        }
        self.watch(wake)?;
        let bell = &self.common.seats[self.own].bell;
        if bell.lie_down() {
            return Ok(());
        }
        let slept = self.link.wait(self.wakes.as_ref().map(AsFd::as_fd), timeout);
        bell.get_up();
        slept
    }

    #[inline]
    fn set_load(&mut self, load: Load) {
        if self.least && (load, self.rx.taken) != self.told {
            self.told = (load, self.rx.taken);
            self.common.seats[self.own].load.tell(load, self.rx.taken);
        }
    }

    fn answer(&mut self, owns: &mut dyn FnMut(SocketAddr, SocketAddr) -> bool) {
        self.rx.answer(owns);
    }

    fn counters(&self) -> Counters {
        self.link.counters()
    }

    fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        self.link.memory(each);
        if let Some(inbox) = &self.inbox {
            each(inbox.range());
        }
    }
}

impl<L> Drop for Steered<L> {
    fn drop(&mut self) {
        self.common.seats[self.own].up.store(false, Ordering::Relaxed);
        self.common.seats[self.own].present.store(false, Ordering::Release);
    }
}
