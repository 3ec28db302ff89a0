//! Links opened for who measures or forwards: every frame, whoever it is for.

use driver::{Claim, Opening};
use host::AnyLink;
use host::drivers::{DriverUser, LinkSpec, Row};
use link::Link;
use say::Failure;

/// What is done over links of whatever kind.
pub trait OverLinks {
    /// What comes of it.
    type Outcome;

    /// Does it, with the links of each thread.
    ///
    /// # Errors
    /// A sentence for the user.
    fn run<L: Link + Send>(self, links: Vec<Vec<L>>) -> Result<Self::Outcome, Failure>;
}

/// Opens every link, one or two, with a queue for each of `threads`: of one kind,
/// as they are; of two, by a call more for each frame.
///
/// # Errors
/// The driver's, and those of `user`.
pub fn over<U: OverLinks>(links: &[LinkSpec], threads: usize, user: U) -> Result<U::Outcome, Failure> {
    let queues = u16::try_from(threads).map_err(|_| "there are too many threads")?;
    for link in links {
        if link.queues.is_some_and(|asked| asked != queues) {
            return Err(format!("{}: there is one queue for each thread of --cores", link.name()).into());
        }
    }
    let first = links.first().ok_or("there is no link")?;
    first.driver.with(Opener { links, queues, user })
}

struct Opener<'a, U> {
    links: &'a [LinkSpec],
    queues: u16,
    user: U,
}

impl<U: OverLinks> DriverUser for Opener<'_, U> {
    type Outcome = Result<U::Outcome, Failure>;

    fn with<D: Row>(self) -> Self::Outcome {
        let of_kind: Option<Vec<&D>> = self.links.iter().map(|link| D::of(&link.driver)).collect();
        // A constant, so that no loop is built for what never runs it.
        if D::HAS_LOOPS
            && let Some(drivers) = of_kind
        {
            let opened = drivers.into_iter().map(|driver| Ok(driver.open(whole(self.queues))?.queues));
            let dealt = deal(self.links, self.queues, opened)?;
            return self.user.run(dealt);
        }
        let opened = self.links.iter().map(|link| link.driver.open_any(whole(self.queues)));
        let dealt: Vec<Vec<AnyLink>> = deal(self.links, self.queues, opened)?;
        self.user.run(dealt)
    }
}

const fn whole(queues: u16) -> Opening<'static> {
    Opening { queues, claim: &Claim::Whole, mac: None, offer: None }
}

/// Gives every thread a queue of each link.
fn deal<L>(
    links: &[LinkSpec],
    queues: u16,
    opened: impl Iterator<Item = Result<Vec<L>, Failure>>,
) -> Result<Vec<Vec<L>>, Failure> {
    let mut threads: Vec<Vec<L>> = (0..queues).map(|_| Vec::new()).collect();
    for (link, opened) in links.iter().zip(opened) {
        let opened = opened?;
        if opened.len() != threads.len() {
            return Err(format!("{} has {} queues, and {queues} are needed", link.name(), opened.len()).into());
        }
        threads.iter_mut().zip(opened).for_each(|(thread, queue)| thread.push(queue));
    }
    Ok(threads)
}
