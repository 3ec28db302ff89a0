//! The host that was asked for last, by its place among those of a listener.

use exchange::Names;
use std::cell::{Cell, RefCell};

/// So many look-ups go by until one is remembered: where hosts change with each request,
/// remembering them costs more than it saves.
const REMEMBERED: u8 = 16;

/// A host that was lately asked for: most requests name the same as one before, and names
/// are sooner compared than looked up.
#[derive(Debug, Default)]
pub(crate) struct LastHost {
    last: RefCell<Option<KnownHost>>,
    looked_up: Cell<u8>,
}

#[derive(Debug)]
struct KnownHost {
    listener: u16,
    authority: Box<[u8]>,
    place: u16,
}

impl LastHost {
    /// What [`Names::whole`] finds among the names of a listener.
    #[inline]
    pub fn place(&self, listener: u16, authority: &[u8], names: &Names) -> Option<u16> {
        if let Some(last) = &*self.last.borrow()
            && *last.authority == *authority
            && last.listener == listener
        {
            return Some(last.place);
        }
        let place = names.whole(authority)?;
        let looked_up = self.looked_up.get();
        self.looked_up.set((looked_up + 1) % REMEMBERED);
        if looked_up == 0 {
            self.last.replace(Some(KnownHost { listener, authority: authority.into(), place }));
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever was asked for before, and at whichever listener.
    #[test]
    fn what_is_remembered_of_a_host_is_what_is_found() {
        let listeners = [1, 2].map(|first| {
            let mut names = Names::default();
            for (at, name) in ["a.example", "b.example", "c.example"].iter().enumerate() {
                assert_eq!(names.add(name, first + at as u16), Ok(()));
            }
            names
        });
        let (host, mut random) = (LastHost::default(), random::SplitMix64::new(3));
        for _ in 0..2_000 {
            let listener = random.below(2);
            // Most ask for the same.
            let names: [&[u8]; 8] =
                [b"a.example", b"a.example", b"a.example", b"b.example", b"c.example", b"A.example", b"", b"d"];
            let name = names[random.below(8)];
            assert_eq!(host.place(listener as u16, name, &listeners[listener]), listeners[listener].whole(name));
        }
    }
}
