//! Requests that are not answered at once.

use crate::ids::{EntryId, WorkId};
use crate::stream::Stream;
use exchange::ExchangeId;
use semantics::OwnedRequest;

/// A request that waits for the reader, or whose answer is being sent.
#[derive(Debug)]
pub struct Work {
    pub id: ExchangeId,
    /// Until something was answered.
    pub request: Option<OwnedRequest>,
    /// What it waits for to be looked up.
    pub wait: Option<EntryId>,
    pub stream: Option<Box<Stream>>,
    /// It was tried a second time, with a file looked up anew.
    pub again: bool,
    /// Another handler's: who is told, in place of an answer.
    pub guest: Option<u32>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Works {
    places: Vec<(u32, Option<Work>)>,
    free: Vec<u32>,
}

impl Works {
    pub fn add(&mut self, work: Work) -> WorkId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let (serial, vacant) = &mut self.places[place as usize];
        *serial = serial.wrapping_add(1);
        *vacant = Some(work);
        WorkId { place, serial: *serial }
    }

    #[inline]
    pub fn get(&mut self, id: WorkId) -> Option<&mut Work> {
        let (serial, work) = self.places.get_mut(id.place as usize)?;
        if *serial == id.serial { work.as_mut() } else { None }
    }

    /// The one in `place`, if it is that of `exchange`.
    pub fn at(&mut self, place: u32, exchange: ExchangeId) -> Option<WorkId> {
        let (serial, work) = self.places.get(place as usize)?;
        work.as_ref().filter(|work| work.id == exchange).map(|_| WorkId { place, serial: *serial })
    }

    pub fn take(&mut self, id: WorkId) -> Option<Work> {
        let (serial, work) = self.places.get_mut(id.place as usize)?;
        if *serial != id.serial {
            return None;
        }
        let work = work.take()?;
        self.free.push(id.place);
        Some(work)
    }
}
