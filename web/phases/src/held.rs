//! What an engine holds for requests.

use super::Engine;
use super::loaded::Loaded;
use bodies::BodyStore;
use std::rc::Rc;

impl Engine {
    /// Whether a body that waits for memory may have some.
    pub(super) fn has_room_for_bodies(&self) -> bool {
        let has_room = |loaded: &Rc<Loaded>| loaded.bodies.borrow().as_ref().is_some_and(BodyStore::has_room);
        has_room(&self.loaded) || self.retired.iter().any(has_room)
    }

    /// What is held for requests that are under way, and for connections to upstreams: all
    /// of it is 0 when nothing is.
    #[must_use]
    pub fn held(&self) -> Vec<(&'static str, usize)> {
        let rest = &self.rest;
        let programs = || self.retired.iter().chain([&self.loaded]);
        let of_bodies = |loaded: &Rc<Loaded>| loaded.bodies.borrow().as_ref().map_or((0, 0), BodyStore::held);
        let asked = |loaded: &Rc<Loaded>| loaded.groups.asked();
        vec![
            ("requests", rest.requests.waiting()),
            ("answers that are made", rest.makings.count()),
            ("requests within requests", rest.subs.alive),
            ("idle connections", rest.kept.used()),
            ("connections that are shared", rest.kept.shared.open()),
            ("streams of these", rest.kept.shared.streams_open()),
            ("connections to be closed", rest.kept.hangups()),
            ("requests that upstreams are asked", programs().map(asked).sum()),
            ("bytes of bodies", programs().map(|loaded| of_bodies(loaded).0).sum()),
            ("files of bodies", programs().map(|loaded| of_bodies(loaded).1).sum()),
            ("programs that are over", self.retired.len()),
        ]
    }
}
