//! What an operator is to hear of links and addresses, each with its time.

use super::{Layout, Port};
use crate::plan::OnLinkLoss;
use core::sync::atomic::{AtomicBool, Ordering};
use silo::Silo;
use stack::Conflict;

/// Which ports' interfaces are gone, as far as it was said: of all silos, so
/// that it is said once.
#[derive(Debug)]
pub struct Losses(Vec<AtomicBool>);

impl Losses {
    /// Of a layout's ports, which are all there.
    pub fn new(layout: &Layout) -> Self {
        Self(layout.ports.iter().map(|_| AtomicBool::new(false)).collect())
    }
}

/// Says what is new about a silo's links and addresses, once.
#[derive(Debug)]
pub struct Notices<'a> {
    layout: &'a Layout,
    losses: &'a Losses,
    then: OnLinkLoss,
    /// Whether this silo's queue of a port is gone.
    gone: Vec<bool>,
    /// All are, and that is the end.
    over: bool,
}

impl<'a> Notices<'a> {
    /// For a silo of a layout, whose losses all silos know.
    pub fn new(layout: &'a Layout, losses: &'a Losses, then: OnLinkLoss) -> Self {
        Self { layout, losses, then, gone: vec![false; layout.ports.len()], over: false }
    }

    /// Looks for news.
    pub fn attend<L: Port, A>(&mut self, silo: &mut Silo<L, A>) {
        while let Some(conflict) = silo.stack.poll_conflict() {
            say::warning(sentence(&conflict));
        }
        let (mut ports, mut lost) = (0, 0);
        silo.link.gone(&mut |port, gone| {
            (ports, lost) = (ports + 1, lost + usize::from(gone));
            self.on_port(usize::from(port.unwrap_or(0)), gone);
        });
        self.over |= ports > 0 && lost == ports && self.then == OnLinkLoss::End;
    }

    fn on_port(&mut self, port: usize, gone: bool) {
        let Some(seen) = self.gone.get_mut(port) else { return };
        if core::mem::replace(seen, gone) == gone {
            return;
        }
        let Some((losses, port)) = self.losses.0.get(port).zip(self.layout.ports.get(port)) else { return };
        if losses.swap(gone, Ordering::Relaxed) == gone {
            return;
        }
        let name = &port.name;
        match (gone, self.then) {
            (true, OnLinkLoss::Wait) => {
                say::warning(format_args!("link lost: {name} was deleted; it is taken up again when it is back"));
            }
            (true, OnLinkLoss::End) => say::warning(format_args!("link lost: {name} was deleted")),
            (false, _) => say::info(format_args!("link back: {name} is there again")),
        }
    }

    /// Why the silo is to end, if it is.
    pub fn end(&self) -> Result<(), String> {
        match self.over {
            true => Err("its link is gone, and --on-link-loss end was asked for".to_owned()),
            false => Ok(()),
        }
    }
}

fn sentence(conflict: &Conflict) -> String {
    let Conflict { ip, mac, unused } = conflict;
    match unused {
        false => format!("address conflict: {mac} says that it has {ip}; this process keeps and announces it"),
        true => format!("address conflict: {mac} has {ip}; it is not used here, and asked for again in a minute"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_names_both_and_what_comes_of_it() {
        let ip = "10.0.0.2".parse().expect("an address");
        let mac = wire::Mac([2, 0, 0, 0, 0, 7]);
        let kept = sentence(&Conflict { ip, mac, unused: false });
        let unused = sentence(&Conflict { ip, mac, unused: true });
        for told in [&kept, &unused] {
            assert!(told.contains("10.0.0.2") && told.contains("02:00:00:00:00:07"), "{told}");
        }
        assert!(kept.contains("keeps") && unused.contains("not used"));
    }
}
