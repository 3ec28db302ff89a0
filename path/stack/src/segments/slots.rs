//! The connections, by slot and generation.

use crate::flow::Flow;
use crate::ip::NeighbourId;
use app::ConnId;
use tcp::Connection;

/// A connection with its key: two cache lines, aligned. The key's fields stand
/// apart, because a [`Flow`] of its own would be padded.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub struct Slot {
    remote_high: u64,
    remote_low: u64,
    remote_port: u16,
    local_port: u16,
    local: u16,
    pub(crate) neighbour: NeighbourId,
    /// Generation and state, see the masks below.
    mark: u32,
    /// The application's timer in milliseconds; 0 is none.
    app_at: u32,
    pub(crate) tcp: Connection,
}

/// The application is still to hear that the connection is over.
const OVER: u32 = 1;
/// The network is done with the connection, but the application has bytes to
/// read still: nothing finds it by its flow any more.
const LINGERS: u32 = 4;
/// The slot is in use; part of the generation that ids carry, so that an id
/// never fits a free slot.
const USED: u32 = 2;
const GENERATION_STEP: u32 = 8;

const _: () = assert!(size_of::<Slot>() == 128, "two cache lines");

impl Slot {
    fn new(flow: Flow, neighbour: NeighbourId, tcp: Connection, mark: u32) -> Self {
        let Flow { remote_high, remote_low, remote_port, local_port, local } = flow;
        Self { remote_high, remote_low, remote_port, local_port, local, neighbour, mark, app_at: 0, tcp }
    }

    #[inline]
    pub(crate) const fn flow(&self) -> Flow {
        Flow {
            remote_high: self.remote_high,
            remote_low: self.remote_low,
            remote_port: self.remote_port,
            local_port: self.local_port,
            local: self.local,
        }
    }

    /// Where its two cache lines are.
    #[inline]
    pub(crate) const fn lines(&self) -> [*const u8; 2] {
        let first = core::ptr::from_ref(self).cast::<u8>();
        [first, first.wrapping_add(64)]
    }

    /// Whether this is the flow's connection.
    #[inline]
    pub(crate) const fn is(&self, flow: &Flow) -> bool {
        self.remote_low == flow.remote_low
            && self.remote_high == flow.remote_high
            && self.remote_port == flow.remote_port
            && self.local_port == flow.local_port
            && self.local == flow.local
    }

    /// Whether all but the connection is the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let Self { neighbour, mark, app_at, .. } = self;
        self.is(&other.flow()) && (*neighbour, *mark, *app_at) == (other.neighbour, other.mark, other.app_at)
    }

    /// Notes that the connection is over; whether that is news.
    #[inline]
    pub(crate) const fn set_over(&mut self) -> bool {
        let news = self.mark & OVER == 0;
        self.mark |= OVER;
        news
    }

    #[inline]
    pub(crate) const fn is_over(&self) -> bool {
        self.mark & OVER != 0
    }

    /// The application reads what is left; it hears of the end after.
    pub(crate) const fn linger(&mut self) {
        self.mark = (self.mark & !OVER) | LINGERS;
    }

    #[inline]
    pub(crate) const fn lingers(&self) -> bool {
        self.mark & LINGERS != 0
    }

    #[inline]
    pub(crate) const fn id(&self, index: u32) -> ConnId {
        ConnId::new(index, self.generation())
    }

    #[inline]
    const fn generation(&self) -> u32 {
        self.mark & !(OVER | LINGERS)
    }

    #[inline]
    pub(crate) const fn app_timer(&self) -> Option<u32> {
        if self.app_at == 0 { None } else { Some(self.app_at) }
    }

    #[inline]
    pub(crate) const fn set_app_timer(&mut self, at: Option<u32>) {
        self.app_at = match at {
            None => 0,
            Some(0) => 1,
            Some(at) => at,
        };
    }
}

/// A table of slots that never shrinks and never moves: its address space is
/// reserved at start, memory is taken as slots are first used.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    limit: usize,
}

impl Slots {
    pub fn new(limit: usize) -> Self {
        Self { slots: Vec::with_capacity(limit), free: Vec::new(), limit }
    }

    /// Where the table is.
    pub fn memory(&self) -> core::ops::Range<usize> {
        crate::memory::reserved(&self.slots)
    }

    /// Slots that there will ever be.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Slots that were ever in use.
    pub fn used(&self) -> usize {
        self.slots.len()
    }

    pub fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// At most so many from now on; never more than there is room for.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(self.slots.capacity());
    }

    /// Takes a slot; the caller has checked that there is one.
    #[inline(always)]
    pub fn insert(&mut self, flow: Flow, neighbour: NeighbourId, tcp: Connection) -> ConnId {
        let index = match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                // Its entries in the timer wheel are still there, and as good
                // for the new connection: it needs no others, so that
                // connections that come and go do not fill the wheel.
                let wheel = slot.tcp.wheel;
                *slot = Slot::new(flow, neighbour, tcp, slot.mark | USED);
                slot.tcp.wheel = wheel;
                index
            }
            None => {
                self.slots.push(Slot::new(flow, neighbour, tcp, USED));
                (self.slots.len() - 1) as u32
            }
        };
        self.id(index)
    }

    /// Gives the slot back; ids of it name nothing from now on.
    pub fn remove(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        // What is left of it on the ready list is passed over.
        slot.tcp.set_ready(false);
        slot.mark = (slot.mark & !(USED | OVER | LINGERS)).wrapping_add(GENERATION_STEP);
        self.free.push(index);
    }

    #[inline]
    pub fn at(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }

    #[inline]
    pub fn at_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    #[inline]
    pub fn get(&self, id: ConnId) -> Option<&Slot> {
        self.slots.get(id.index()).filter(|slot| slot.generation() == id.generation())
    }

    #[inline]
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut Slot> {
        self.slots.get_mut(id.index()).filter(|slot| slot.generation() == id.generation())
    }

    #[inline]
    pub fn id(&self, index: u32) -> ConnId {
        ConnId::new(index, self.slots[index as usize].generation())
    }

    pub fn is_used(&self, index: u32) -> bool {
        self.slots[index as usize].mark & USED != 0
    }

    pub fn ids(&self) -> impl Iterator<Item = ConnId> {
        (0..self.slots.len() as u32).filter(|index| self.is_used(*index)).map(|index| self.id(index))
    }
}
