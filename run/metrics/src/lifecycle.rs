//! Whether a process lives, and is ready to be sent clients.

use core::sync::atomic::{AtomicU8, Ordering};
use core::time::Duration;
use cpu::Clock;
use page::Snapshot;

/// How far a process has come; only ever further down this list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Readiness {
    /// Not all of its workers are at work, or it is not its turn yet.
    Starting,
    /// It accepts clients.
    Serving,
    /// A successor accepts them in its place.
    Followed,
    /// It was told to stop, and finishes what is under way.
    Stopping,
}

/// What the main thread has said of that.
#[derive(Debug)]
pub struct Lifecycle(AtomicU8);

/// Seconds for which a file system may answer nothing before nobody is to be sent to who waits for it.
const FILES_SILENT: u64 = 5;

/// A silo or worker that publishes nothing for so long does not look up any more.
/// Those that sleep do every ten seconds.
const SILENT: Duration = Duration::from_secs(30);

impl Default for Lifecycle {
    fn default() -> Self {
        Self(AtomicU8::new(Readiness::Starting as u8))
    }
}

impl Lifecycle {
    const STAGES: [Readiness; 4] = [Readiness::Starting, Readiness::Serving, Readiness::Followed, Readiness::Stopping];

    /// From now on `stage`, unless it is already later.
    pub fn advance(&self, stage: Readiness) {
        self.0.fetch_max(stage as u8, Ordering::AcqRel);
    }

    /// How far it has come.
    #[must_use]
    pub fn stage(&self) -> Readiness {
        let stage = usize::from(self.0.load(Ordering::Acquire));
        Self::STAGES.get(stage).copied().unwrap_or(Readiness::Stopping)
    }

    /// Why the process is not to be sent clients, if it is not. `up` tells of each
    /// silo whether its link is; nothing over kernel sockets. `silence` tells of each for how many seconds the
    /// file system has answered it nothing: one path that hangs beside others that do not is no such silence.
    ///
    /// # Errors
    /// Why; for people.
    pub fn ready(
        &self,
        snapshot: &Snapshot,
        mut up: impl Iterator<Item = bool>,
        silence: impl Iterator<Item = u64>,
    ) -> Result<(), String> {
        match self.stage() {
            Readiness::Starting => return Err("it is starting".to_owned()),
            Readiness::Stopping => return Err("it is stopping".to_owned()),
            // Who asks asks for the address: another process serves there in this one's place.
            Readiness::Followed => return Ok(()),
            Readiness::Serving => {}
        }
        alive(snapshot)?;
        if let Some(longest) = silence.max().filter(|longest| *longest >= FILES_SILENT) {
            return Err(format!("the file system has answered nothing for {longest} s"));
        }
        match up.next() {
            Some(false) if !up.any(|up| up) => Err("no link is up".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Why the process is no more at work, if it is not: a silo has hung for long. One
/// that has not begun yet does not count.
///
/// # Errors
/// Which, and for how long; for people.
pub fn alive(snapshot: &Snapshot) -> Result<(), String> {
    let now = Clock.now();
    let silent = |(silo, time): (usize, Option<wire::Time>)| {
        let silent = now.since(time?);
        (silent >= SILENT).then(|| format!("silo {silo} has not looked up for {} s", silent.as_secs()))
    };
    let silos = snapshot.silos.iter().map(|silo| silo.time).enumerate();
    silos.filter_map(silent).next().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use page::SiloSnapshot;

    fn snapshot(times: &[Option<wire::Time>]) -> Snapshot {
        let silo = |time: &Option<wire::Time>| SiloSnapshot { time: *time, values: Vec::new(), consistent: true };
        Snapshot { silos: times.iter().map(silo).collect() }
    }

    #[test]
    fn ready_is_who_serves_and_no_other() {
        let lifecycle = Lifecycle::default();
        let fresh = snapshot(&[Some(Clock.now()), None]);
        let asked = |up: &[bool]| lifecycle.ready(&fresh, up.iter().copied(), [0, FILES_SILENT - 1].into_iter());
        assert!(asked(&[]).unwrap_err().contains("starting"));
        lifecycle.advance(Readiness::Serving);
        assert_eq!((asked(&[]), asked(&[false, true])), (Ok(()), Ok(())));
        assert!(asked(&[false, false]).unwrap_err().contains("link"));
        let silent = lifecycle.ready(&fresh, [true].into_iter(), [0, 7].into_iter());
        assert_eq!(silent.unwrap_err(), "the file system has answered nothing for 7 s");
        lifecycle.advance(Readiness::Followed);
        assert_eq!(asked(&[false]), Ok(()), "another serves at the address");
        lifecycle.advance(Readiness::Stopping);
        // There is no way back.
        lifecycle.advance(Readiness::Serving);
        assert!(asked(&[]).unwrap_err().contains("stopping"));
    }

    #[test]
    fn who_has_hung_is_named() {
        let long_ago = wire::Time::from_nanos(Clock.now().as_nanos().saturating_sub(31_000_000_000));
        assert_eq!(alive(&snapshot(&[None, Some(Clock.now())])), Ok(()));
        let told = alive(&snapshot(&[Some(Clock.now()), Some(long_ago)])).unwrap_err();
        assert!(told.starts_with("silo 1 has not looked up for 3"), "{told}");
        let lifecycle = Lifecycle::default();
        lifecycle.advance(Readiness::Serving);
        assert!(lifecycle.ready(&snapshot(&[Some(long_ago)]), core::iter::empty(), core::iter::empty()).is_err());
    }
}
