//! Looks that take too long, and the devices that hold them up.

use super::{Kind, Store};
use crate::ids::EntryId;
use core::time::Duration;
use std::collections::VecDeque;
use wire::Time;

/// Entries that are looked at for one that is probed.
const LOOKS: usize = 64;

/// Looks that are under way.
#[derive(Debug, Default)]
pub struct Looking {
    /// The last of them.
    number: u32,
    /// In the order in which they began, and some that are over: which look of which entry, and since when.
    since: VecDeque<(EntryId, u32, Time)>,
    /// How many take too long.
    late: usize,
    /// How many those are of a device, where it is known.
    devices: Vec<(u64, usize)>,
    /// The next that is probed.
    probed: usize,
}

impl Looking {
    /// A look at `id` begins: its number.
    pub fn begin(&mut self, id: EntryId, now: Time) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.since.push_back((id, self.number, now));
        self.number
    }

    fn count(&mut self, device: Option<u64>) {
        self.late += 1;
        let Some(device) = device else { return };
        match self.devices.iter_mut().find(|(other, _)| *other == device) {
            Some((_, looks)) => *looks += 1,
            None => self.devices.push((device, 1)),
        }
    }

    fn discount(&mut self, device: Option<u64>) {
        self.late -= 1;
        let at = self.devices.iter().position(|(other, _)| Some(*other) == device);
        let Some(at) = at else { return };
        self.devices[at].1 -= 1;
        if self.devices[at].1 == 0 {
            self.devices.swap_remove(at);
        }
    }

    fn holds_up(&self, device: u64) -> bool {
        self.devices.iter().any(|(other, _)| *other == device)
    }
}

impl Store {
    /// The next entry whose look has taken `span` by now; each look once.
    pub fn next_late(&mut self, now: Time, span: Duration) -> Option<EntryId> {
        while let Some(&(id, look, since)) = self.looking.since.front() {
            let entry = &mut self.entries[id.slot as usize];
            let is_under_way = entry.asked && entry.look == look;
            if is_under_way && now.since(since) < span {
                return None;
            }
            self.looking.since.pop_front();
            if is_under_way {
                let device = entry.known.as_ref().map(|known| known.identity.device);
                entry.late = Some(device);
                self.looking.count(device);
                return Some(id);
            }
        }
        None
    }

    /// The look at `id` is over.
    pub(super) fn end_look(&mut self, id: EntryId) {
        if let Some(device) = core::mem::take(&mut self.entries[id.slot as usize].late) {
            self.looking.discount(device);
        }
        if self.asked == 0 {
            self.looking.since.clear();
        }
    }

    /// How many looks take too long.
    pub fn late_looks(&self) -> usize {
        self.looking.late
    }

    /// Whether the look at `id`, or another at the device that it was found on, takes too long.
    pub fn is_late(&self, id: EntryId) -> bool {
        let entry = &self.entries[id.slot as usize];
        let device = entry.known.as_ref().map(|known| known.identity.device);
        self.looking.late > 0 && (entry.late.is_some() || device.is_some_and(|device| self.looking.holds_up(device)))
    }

    /// An entry that nobody looks at now, of those that were found: on another device than those that hold looks
    /// up, if there is one.
    pub fn next_probed(&mut self) -> Option<EntryId> {
        let mut second = None;
        for _ in 0..LOOKS.min(self.entries.len()) {
            let at = self.looking.probed % self.entries.len();
            self.looking.probed = at + 1;
            let entry = &self.entries[at];
            if entry.asked || entry.key.is_none() || matches!(entry.kind, Kind::Unknown) {
                continue;
            }
            let id = EntryId { slot: at as u32, generation: entry.generation };
            if !self.is_late(id) {
                return Some(id);
            }
            second = Some(id);
        }
        second
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;
    use crate::identity::Identity;
    use crate::worker::Found;
    use exchange::Meta;

    const SPAN: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// A file on this device.
    fn found(device: u64) -> Found {
        let mut identity = Identity::of(&rustix::fs::stat("/").unwrap());
        identity.device = device;
        let meta = Meta { size: 1, content_type: "text/html".into(), file: None };
        Found::Large { meta, identity, path: b"path".as_slice().into() }
    }

    fn store(devices: &[u64]) -> (Store, Vec<EntryId>) {
        let mut store = Store::new(&Directory::everything());
        let ids: Vec<_> = (0..devices.len()).map(|at| store.find_exact(&[at as u8 + b'a']).unwrap()).collect();
        for (id, device) in ids.iter().zip(devices) {
            store.ask(*id, Time::ZERO).unwrap();
            store.on_found(*id, found(*device));
        }
        (store, ids)
    }

    #[test]
    fn each_look_is_late_once_and_its_device_as_long_as_any_is() {
        let (mut store, ids) = store(&[1, 1, 1, 2]);
        for (look, id) in ids[..2].iter().enumerate() {
            store.ask(*id, at(1_000 + look as u64)).unwrap();
        }
        assert_eq!(store.next_late(at(1_999), SPAN), None);
        assert_eq!([0, 1].map(|_| store.next_late(at(2_000), SPAN)), [Some(ids[0]), None]);
        assert_eq!([0, 1].map(|_| store.next_late(at(2_001), SPAN)), [Some(ids[1]), None]);
        let late = |store: &Store| ids.iter().map(|id| store.is_late(*id)).collect::<Vec<_>>();
        assert_eq!((late(&store), store.late_looks()), (vec![true, true, true, false], 2));
        store.on_found(ids[0], Found::Missing);
        assert_eq!((late(&store), store.late_looks()), (vec![false, true, true, false], 1));
        store.on_found(ids[1], found(2));
        assert_eq!((late(&store), store.late_looks()), (vec![false; 4], 0));
    }

    /// Others are looked for, and found, meanwhile.
    #[test]
    fn looks_that_are_over_hide_none_that_is_not() {
        let (mut store, ids) = store(&[1, 2]);
        store.ask(ids[0], at(0)).unwrap();
        for look in 0..50 {
            store.ask(ids[1], at(look)).unwrap();
            store.on_found(ids[1], found(2));
        }
        store.ask(ids[1], at(900)).unwrap();
        assert_eq!([0, 1].map(|_| store.next_late(at(1_000), SPAN)), [Some(ids[0]), None]);
        assert_eq!([0, 1].map(|_| store.next_late(at(1_900), SPAN)), [Some(ids[1]), None]);
        store.on_found(ids[0], found(1));
        store.on_found(ids[1], found(2));
        assert!(store.looking.since.is_empty() && store.looking.devices.is_empty());
    }

    #[test]
    fn what_is_probed_lies_elsewhere_if_anything_does() {
        let (mut store, ids) = store(&[1, 1, 2, 1]);
        store.ask(ids[0], at(0)).unwrap();
        assert_eq!(store.next_late(at(1_000), SPAN), Some(ids[0]));
        assert_eq!([0, 1].map(|_| store.next_probed()), [Some(ids[2]); 2]);
        store.ask(ids[2], at(1_000)).unwrap();
        // Nothing else is known; one of the same device may answer.
        assert!(store.next_probed().is_some_and(|id| id == ids[1] || id == ids[3]));
        let (mut none, _) = super::tests::store(&[]);
        assert_eq!(none.next_probed(), None);
    }
}
