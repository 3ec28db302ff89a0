//! A silo's link as the statistics page and the stack see it.

use crate::aggregation;
use crate::published::Take;
use bond::Bond;
use link::{Counters, Link};
use stack::ReturnPath;
use std::sync::OnceLock;
use steer::{ReturnQueue, Rss, Steered};

/// A silo's link, and what it counts beyond what every link does.
pub trait Port: Link {
    /// Whether there is a copy of the stack for such links with kernel sockets
    /// beside it ([`sockets::Composite`]).
    const BESIDE: bool = false;

    /// Tells each value with its name.
    fn counts(&self, take: Take<'_>) {
        let _ = take;
    }

    /// Tells what passed by each port, with the port's index in the layout;
    /// `None`: by the one port that there is.
    fn traffic(&self, each: &mut dyn FnMut(Option<u16>, Counters)) {
        each(None, self.counters());
    }

    /// Tells whether the interface of each port was deleted, of those that have
    /// one, with the port's index in the layout; `None`: of the one port that
    /// there is.
    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        let _ = each;
    }

    /// How its port spreads flows over queues, and which of them this is;
    /// `None`: not as it would tell.
    fn rss(&self) -> Option<(Rss, u16)> {
        None
    }

    /// Which local ports' answers come back to this silo; `None`: all, or the
    /// link's other side sees to it.
    fn return_path(&self) -> Option<Box<dyn ReturnPath>> {
        let (rss, queue) = self.rss()?;
        Some(Box::new(ReturnQueue::rss(&rss, &[queue])?))
    }
}

impl<L: Port> Port for Bond<L> {
    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        self.members().for_each(|member| member.link.gone(&mut |_, gone| each(Some(member.port), gone)));
    }

    fn counts(&self, take: Take<'_>) {
        aggregation::counts(self, take);
        let counts = self.bond_counters();
        let ports = self.aggregator().distributing().count_ones();
        for (name, value) in
            BOND.into_iter().zip([u64::from(ports), counts.changes, counts.copied, counts.lent, counts.no_member])
        {
            take(name, value);
        }
        // Its members' together: they count the same.
        let mut place = 0;
        self.members().take(1).for_each(|first| {
            first.link.counts(&mut |name, value| {
                let others = self.members().skip(1).map(|other| nth_count(&other.link, place));
                take(name, value + others.sum::<u64>());
                place += 1;
            });
        });
    }

    fn traffic(&self, each: &mut dyn FnMut(Option<u16>, Counters)) {
        self.members().for_each(|member| each(Some(member.port), member.link.counters()));
    }

    /// For the queues of one port: by which of several ports an answer comes
    /// is for the other side to choose.
    fn return_path(&self) -> Option<Box<dyn ReturnPath>> {
        let port = self.members().next()?.port;
        if self.members().any(|member| member.port != port) {
            return None;
        }
        let (all, queues): (Vec<Rss>, Vec<u16>) = self.members().filter_map(|member| member.link.rss()).unzip();
        Some(Box::new(ReturnQueue::rss(all.first()?, &queues)?))
    }
}

impl<L: Port> Port for Steered<L> {
    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        self.inner().gone(each);
    }

    fn counts(&self, take: Take<'_>) {
        for ((_, value), name) in self.steering().iter().zip(steer_names()) {
            take(name, value);
        }
        self.inner().counts(take);
    }

    fn traffic(&self, each: &mut dyn FnMut(Option<u16>, Counters)) {
        self.inner().traffic(each);
    }

    fn return_path(&self) -> Option<Box<dyn ReturnPath>> {
        let software = self.return_queue().map(|queue| Box::new(queue) as Box<dyn ReturnPath>);
        software.or_else(|| self.inner().return_path())
    }
}

/// The value that a link tells at this place.
fn nth_count(link: &impl Port, place: usize) -> u64 {
    let (mut at, mut found) = (0, 0);
    link.counts(&mut |_, value| {
        found += if at == place { value } else { 0 };
        at += 1;
    });
    found
}

/// What a bond counts, and the ports that take part.
pub const BOND: [&str; 5] = ["bond.ports", "bond.changes", "bond.copied", "bond.lent", "bond.no_member"];

/// What steering counts, named as on the statistics page.
pub fn steer_names() -> impl Iterator<Item = &'static str> {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    let names = || steer::Counters::default().iter().map(|(name, _)| &*format!("steer.{name}").leak()).collect();
    NAMES.get_or_init(names).iter().copied()
}
