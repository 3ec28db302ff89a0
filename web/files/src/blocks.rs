//! Blocks of large files, in memory for all streams of a silo that send them.
//!
//! For content that is larger than memory: a block is read once, past the page cache where the file
//! system can (O_DIRECT in open(2)), and as many streams send it from where it was read to as want it. As
//! long as any connection has some of it to send, or to send again, it stays. Else that stays which is
//! asked for again: newcomers go through a short queue, a tenth of all, and only who is asked for
//! in there by another, or soon behind it, comes to the long one (S3-FIFO: Yang et al., "FIFO queues are
//! all you need for cache eviction", SOSP 2023).

use crate::identity::Identity;
use crate::ids::WorkId;
use app::Body;
use std::collections::{HashMap, HashSet, VecDeque};

/// Bytes of a block, but for the last one of a file.
pub const BLOCK: usize = 256 << 10;

/// What memory, place and length of reads past the page cache are multiples of (open(2), "O_DIRECT": the
/// logical block size of devices, which is 512 or 4,096).
pub const ALIGNMENT: usize = 4096;

/// The fewest blocks that are worth it.
const FEWEST: usize = 16;

/// So many are looked at for one that may go.
const LOOKS: usize = 64;

/// A block that is asked for more often is not kept for longer (S3-FIFO has two bits).
const ASKED_MAX: u8 = 3;

/// Which block: of a file in one state, by its number.
type Key = (Identity, u64);

/// A block of a file, by its place and which of those in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockPlace {
    pub place: u32,
    pub serial: u32,
}

/// What there is of a block.
#[derive(Debug)]
pub enum Lookup {
    /// Its bytes, which begin there in the body.
    Ready(Body, u32),
    /// It is being read.
    Reading(BlockPlace),
    /// Nothing.
    Absent,
}

#[derive(Debug)]
struct Place {
    serial: u32,
    key: Key,
    content: Content,
    /// How often it was asked for since it came, or since it was last let stay.
    asked: u8,
}

#[derive(Debug)]
enum Content {
    /// Memory, for the next.
    Vacant(Vec<u8>),
    /// Who waits for it.
    Reading(Vec<WorkId>),
    /// The body, and where in it the block begins.
    Ready(Body, u32),
}

/// The blocks of one silo.
#[derive(Debug)]
pub struct Blocks {
    places: Vec<Place>,
    places_max: usize,
    vacant: Vec<u32>,
    by_key: HashMap<Key, u32>,
    /// Newcomers, the oldest first.
    newcomers: VecDeque<u32>,
    /// Who was asked for again, the oldest first.
    stayers: VecDeque<u32>,
    /// Newcomers that went, the last of them behind.
    gone: VecDeque<Key>,
    gone_keys: HashSet<Key>,
}

impl Blocks {
    /// For at most so many bytes; none where that is too little.
    pub fn new(bytes: usize) -> Option<Self> {
        let places_max = bytes / (BLOCK + ALIGNMENT);
        (places_max >= FEWEST).then(|| Self {
            places: Vec::new(),
            places_max,
            vacant: Vec::new(),
            by_key: HashMap::new(),
            newcomers: VecDeque::new(),
            stayers: VecDeque::new(),
            gone: VecDeque::new(),
            gone_keys: HashSet::new(),
        })
    }

    /// Bytes of memory that it has.
    pub fn bytes(&self) -> usize {
        self.places.len() * (BLOCK + ALIGNMENT)
    }

    /// Whether there is a block in each place: another goes for each that comes.
    pub fn is_full(&self) -> bool {
        self.places.len() == self.places_max && self.vacant.is_empty()
    }

    /// What there is of a block; `anew` where whoever asks was not sending it already.
    pub fn find(&mut self, file: &Identity, number: u64, anew: bool) -> Lookup {
        let Some(&at) = self.by_key.get(&(*file, number)) else { return Lookup::Absent };
        let place = &mut self.places[at as usize];
        place.asked = (place.asked + u8::from(anew)).min(ASKED_MAX);
        match &place.content {
            Content::Ready(body, from) => Lookup::Ready(body.clone(), *from),
            _ => Lookup::Reading(BlockPlace { place: at, serial: place.serial }),
        }
    }

    /// Makes room for a block that is absent: it is being read from now on, into this memory. None where all
    /// are being sent or read.
    pub fn begin(&mut self, file: &Identity, number: u64) -> Option<(BlockPlace, Vec<u8>)> {
        let key = (*file, number);
        let at = self.vacant.pop().or_else(|| self.grow()).or_else(|| self.make_room())?;
        let place = &mut self.places[at as usize];
        let content = core::mem::replace(&mut place.content, Content::Reading(Vec::new()));
        let Content::Vacant(memory) = content else { return None };
        (place.key, place.asked, place.serial) = (key, 0, place.serial.wrapping_add(1));
        let id = BlockPlace { place: at, serial: place.serial };
        self.by_key.insert(key, at);
        // It was wanted again too soon after it had gone.
        let stays = self.gone_keys.remove(&key);
        if stays {
            self.stayers.push_back(at)
        } else {
            self.newcomers.push_back(at)
        }
        Some((id, memory))
    }

    /// Has a work told when the block is read.
    pub fn wait(&mut self, id: BlockPlace, work: WorkId) {
        if let Some(Place { content: Content::Reading(waiting), .. }) = self.place(id) {
            waiting.push(work);
        }
    }

    /// A block was read: it begins at `from` in this memory. Who waited for it.
    pub fn filled(&mut self, id: BlockPlace, memory: Vec<u8>, from: usize) -> Vec<WorkId> {
        let Some(place) = self.place(id) else { return Vec::new() };
        // A block and what aligns it are far below 4 GiB.
        let content = core::mem::replace(&mut place.content, Content::Ready(Body::new(memory), from as u32));
        if let Content::Reading(waiting) = content { waiting } else { Vec::new() }
    }

    /// A block cannot be read, and is absent again. Who waited for it.
    pub fn failed(&mut self, id: BlockPlace, memory: Vec<u8>) -> Vec<WorkId> {
        let Some(place) = self.place(id) else { return Vec::new() };
        let key = place.key;
        let content = core::mem::replace(&mut place.content, Content::Vacant(memory));
        self.by_key.remove(&key);
        self.newcomers.retain(|at| *at != id.place);
        self.stayers.retain(|at| *at != id.place);
        self.vacant.push(id.place);
        if let Content::Reading(waiting) = content { waiting } else { Vec::new() }
    }

    fn place(&mut self, id: BlockPlace) -> Option<&mut Place> {
        self.places.get_mut(id.place as usize).filter(|place| place.serial == id.serial)
    }

    fn grow(&mut self) -> Option<u32> {
        if self.places.len() == self.places_max {
            return None;
        }
        // Touched here first, so it is memory of this silo's domain, whoever reads into it.
        let memory = vec![0; BLOCK + ALIGNMENT];
        self.places.push(Place { serial: 0, key: (Identity::NONE, 0), content: Content::Vacant(memory), asked: 0 });
        Some(self.places.len() as u32 - 1)
    }

    /// A place whose block goes.
    fn make_room(&mut self) -> Option<u32> {
        let newcomers_max = self.places_max / 10;
        for _ in 0..LOOKS {
            let of_newcomers = self.newcomers.len() > newcomers_max || self.stayers.is_empty();
            let queue = if of_newcomers { &mut self.newcomers } else { &mut self.stayers };
            let at = queue.pop_front()?;
            let place = &mut self.places[at as usize];
            let memory = match &mut place.content {
                Content::Ready(body, _) => body.get_mut(),
                _ => None,
            };
            match (memory, place.asked) {
                (Some(memory), 0) => {
                    place.content = Content::Vacant(core::mem::take(memory));
                    let key = place.key;
                    self.by_key.remove(&key);
                    if of_newcomers {
                        self.remember(key);
                    }
                    return Some(at);
                }
                // It was asked for again.
                (Some(_), _) if of_newcomers => {
                    place.asked = 0;
                    self.stayers.push_back(at);
                }
                (Some(_), asked) => {
                    place.asked = asked - 1;
                    self.stayers.push_back(at);
                }
                // It is being sent, or read.
                (None, _) if of_newcomers => self.newcomers.push_back(at),
                (None, _) => self.stayers.push_back(at),
            }
        }
        None
    }

    /// A newcomer has gone: for a while it is known that it was here.
    fn remember(&mut self, key: Key) {
        if self.gone_keys.insert(key) {
            self.gone.push_back(key);
        }
        while self.gone.len() > self.places_max {
            if let Some(key) = self.gone.pop_front() {
                self.gone_keys.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
