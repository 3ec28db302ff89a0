//! Connections that nobody accepts here any more.

use super::SeatedWorker;
use posix::{Bequest, Calls};
use sharing::LONGEST_PARKED;
use silo::Silo;
use wire::Time;

impl SeatedWorker {
    /// Connections that nobody accepted before their listener was closed go to a worker whose is
    /// not. Where there is none yet, and a process listens that has no seat so far, they wait as SYNs
    /// do.
    #[cold]
    pub fn give_unclaimed(&mut self, now: Time) {
        let since = *self.unclaimed_since.get_or_insert(now);
        let may_wait = now.since(since) < LONGEST_PARKED;
        let Silo { link, stack, app } = &mut self.silo;
        Calls { stack, table: app }.give_unclaimed(|moved| {
            let (remote, local) = (moved.migrant.remote, moved.migrant.local);
            match link.successor(remote, local) {
                Some(to) if link.leave_to(to, remote, local, &moved.to_bytes()) => Bequest::Taken,
                Some(_) if may_wait => Bequest::Waits,
                None if may_wait && link.awaits(local.port()) => Bequest::Waits,
                _ => Bequest::Refused,
            }
        });
        if self.silo.app.unclaimed() == 0 {
            self.unclaimed_since = None;
        }
    }
}
