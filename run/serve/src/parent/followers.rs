//! Processes that follow this parent and that others started: by hand, or with a parent
//! of their own. The one to be signalled from then on says so itself, here, and the
//! kernel says which process it is (SO_PEERCRED of unix(7)): what a child says of other
//! processes is no more than a claim.
//!
//! ```text
//!  its child            our child            here
//!   │ ── Hello ──────────► │                   │
//!   │ ◄─ Main { at } ───── │                   │
//!   │ ── Follows ─► its parent ── Greeting ──► │   who: the kernel says
//!   │ ── Ready ──────────► │ ── Followed ────► │   the claim
//! ```
//!
//! The greeting is the wish, and the claim must come within a minute of it.

use super::super::control::{Channel, Listener};
use super::super::ward::Greeting;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::{Path, PathBuf};
use wire::Time;

/// How long a greeting counts, and a claim waits for it.
const COUNTS: Duration = Duration::from_secs(60);

/// How long the parent stays for a claim whose proof is on its way, where nobody else is
/// left: the two come by different sockets.
const PATIENCE: Duration = Duration::from_secs(2);

/// Processes that may be about to greet.
const COMING: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub struct Followers {
    listener: Option<Listener>,
    /// Connected, and silent yet.
    coming: Vec<(Channel, Time)>,
    /// Whoever greeted last, which keeps its end while it lives.
    greeted: Option<(u32, Time, Channel)>,
    /// What a child claims.
    claimed: Option<(u32, Time)>,
}

impl Followers {
    /// Listens in the usual folder.
    ///
    /// # Errors
    /// If there is no folder, or it cannot be listened there: nobody who is started by
    /// hand can be told of then.
    pub fn new() -> std::io::Result<Self> {
        let path = ::page::usual_folder()?.join(format!("{}.main", std::process::id()));
        Self::at(&path)
    }

    fn at(path: &Path) -> std::io::Result<Self> {
        Ok(Self { listener: Some(Listener::bind(path, false)?), ..Self::default() })
    }

    /// Where greetings are taken.
    pub fn path(&self) -> Option<PathBuf> {
        self.listener.as_ref().map(|listener| listener.path().to_owned())
    }

    /// What to wait for.
    pub fn poll_fds<'f>(&'f self, fds: &mut Vec<PollFd<'f>>, now: Time) {
        fds.extend(self.listener.as_ref().and_then(|listener| listener.poll_fd(now)));
        fds.extend(self.coming.iter().map(|(channel, _)| PollFd::new(channel, PollFlags::IN)));
    }

    /// A child says that this process follows it.
    pub fn on_claim(&mut self, pid: u32, now: Time) {
        self.claimed = Some((pid, now));
    }

    /// Takes greetings in. The process that follows, once, as soon as it is both
    /// claimed and proven.
    pub fn look(&mut self, now: Time) -> Option<u32> {
        if self.coming.len() < COMING
            && let Some(channel) = self.listener.as_mut().and_then(|listener| listener.next(now))
        {
            self.coming.push((channel, now));
        }
        for (channel, since) in core::mem::take(&mut self.coming) {
            match channel.hear::<Greeting>() {
                Ok(None) if now.since(since) < PATIENCE => self.coming.push((channel, since)),
                Ok(None) | Err(_) => {}
                Ok(Some(_)) => {
                    self.greeted = channel.peer().ok().map(|pid| (pid, now, channel));
                }
            }
        }
        let (claimed, claimed_at) = self.claimed?;
        let (greeted, greeted_at, channel) = self.greeted.as_ref()?;
        let apart = if claimed_at > *greeted_at { claimed_at.since(*greeted_at) } else { greeted_at.since(claimed_at) };
        if *greeted != claimed || apart > COUNTS || !is_there(channel) {
            return None;
        }
        (self.claimed, self.greeted) = (None, None);
        Some(claimed)
    }

    /// Until when somebody is waited for.
    pub fn waits_until(&self, now: Time) -> Option<Time> {
        self.claimed.map(|(_, at)| at + PATIENCE).filter(|until| now < *until)
    }

    /// What was claimed and not proven, once.
    pub fn take_unproven(&mut self, now: Time) -> Option<u32> {
        self.claimed.take_if(|(_, at)| now >= *at + PATIENCE).map(|(pid, _)| pid)
    }
}

/// Whether the process at the other end lives: its number may be another's else.
fn is_there(channel: &Channel) -> bool {
    let mut fds = [PollFd::new(channel, PollFlags::empty())];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::super::super::scratch::Folder;
    use super::*;

    const fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1_000)
    }

    /// A greeting, and who follows by it.
    fn greeted(followers: &mut Followers, now: Time) -> (Channel, Option<u32>) {
        let channel = Channel::connect(&followers.path().expect("a place")).expect("connected");
        channel.send(&Greeting {}, &[]).expect("said");
        let follows = followers.look(now);
        (channel, follows)
    }

    #[test]
    fn a_process_counts_by_its_own_message_and_a_claim() {
        let folder = Folder::new("followers");
        let own = std::process::id();
        let mut followers = Followers::at(&folder.0.join("main")).expect("bound");
        // By the claim alone, whatever number.
        for pid in [0, 1, own, 4_321, u32::MAX] {
            followers.on_claim(pid, at(1));
            assert_eq!(followers.look(at(1)), None);
        }
        assert_eq!(followers.waits_until(at(1)), Some(at(3)));
        assert_eq!((followers.take_unproven(at(2)), followers.take_unproven(at(3))), (None, Some(u32::MAX)));
        // The greeting first, then a claim that names another, then the right one; once.
        let (kept, follows) = greeted(&mut followers, at(10));
        assert_eq!(follows, None);
        for (claim, proven) in [(1, None), (own, Some(own))] {
            followers.on_claim(claim, at(11));
            assert_eq!(followers.look(at(11)), proven);
        }
        followers.on_claim(own, at(12));
        assert_eq!(followers.look(at(12)), None, "a greeting counts once");
        drop(kept);
        // The claim first.
        let (_kept, follows) = greeted(&mut followers, at(13));
        assert_eq!((follows, followers.waits_until(at(13))), (Some(own), None));
    }

    #[test]
    fn what_was_long_ago_or_has_ended_proves_nothing() {
        let folder = Folder::new("followers-late");
        let own = std::process::id();
        let mut followers = Followers::at(&folder.0.join("main")).expect("bound");
        let (kept, _) = greeted(&mut followers, at(10));
        followers.on_claim(own, at(71));
        assert_eq!(followers.look(at(71)), None, "more than a minute later");
        drop(kept);
        assert_eq!(followers.take_unproven(at(73)), Some(own));
        let (gone, _) = greeted(&mut followers, at(80));
        drop(gone);
        followers.on_claim(own, at(81));
        assert_eq!(followers.look(at(81)), None, "its number may be another's by now");
        // Whoever connects and says nothing holds up nobody.
        let path = followers.path().expect("a place");
        let silent: Vec<_> = (0..COMING).map(|_| Channel::connect(&path).expect("connected")).collect();
        for _ in 0..COMING {
            assert_eq!(followers.look(at(90)), None);
        }
        assert_eq!(followers.look(at(93)), None);
        let kept = Channel::connect(&path).expect("connected");
        kept.send(&Greeting {}, &[]).expect("said");
        followers.on_claim(own, at(94));
        assert_eq!(followers.look(at(94)), Some(own));
        drop(silent);
    }
}
