//! A limit on resets that segments of unknown connections ask for.

use crate::limit::{Random, spread};
use app::SourceKey;
use core::net::IpAddr;
use siphasher::sip::SipHasher24;
use wire::Time;

/// How many resets there may be: a depth for those who learn all at once that a server was
/// started anew, and what grows back of it in a second.
///
/// A reset is no larger than the segment that asked for it, so that it is worth nothing to one
/// who forges sources to flood others. The limit is for our own link, and for the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetRate {
    /// Resets that grow back in a second, on average; none at all for 0.
    pub per_second: u32,
    /// Resets that there may be at once, at least: up to a quarter more, by chance.
    pub depth: u32,
}

impl ResetRate {
    /// Unless this gives none at all.
    const fn gives(self) -> bool {
        self.per_second > 0 && self.depth > 0
    }
}

/// A bucket of which in each second another number grows back, to another depth: who provokes
/// resets for a connection of somebody else's and counts what is left for their own cannot tell
/// those few from what the next second gives (CVE-2016-5696).
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    second: u32,
}

impl Bucket {
    /// What is in it in this second. `growth` is what the last second gave, by chance; those
    /// before gave the rate.
    const fn refill(&mut self, second: u32, growth: u64, rate: ResetRate, most: u32) {
        let seconds = second.wrapping_sub(self.second) as u64;
        if seconds > 0 {
            let before = (rate.per_second as u64).saturating_mul(seconds - 1);
            let left = (self.left as u64).saturating_add(growth).saturating_add(before);
            self.left = if left < most as u64 { left as u32 } else { most };
            self.second = second;
        }
    }
}

/// What a source was given: an IPv4 address or an IPv6 /64.
#[derive(Clone, Copy, Debug)]
struct Source {
    /// Of its hash, what the place does not tell; 0 is nobody.
    tag: u32,
    bucket: Bucket,
}

/// Places in which a source may stand.
const WAYS: usize = 4;
/// Sets of places: 12 KiB in all.
const SETS: usize = 256;

/// The limit, for each source and for all together.
///
/// A source has a place of its own for as long as it was given more than has grown back, so
/// that what one is answered says nothing of another, whose address may be forged. Only where
/// all four places of a set are such, which takes a flood from many sources in one second, two
/// share one; which do is decided by a keyed hash.
#[derive(Debug)]
pub(crate) struct ResetLimit {
    each: ResetRate,
    all: ResetRate,
    together: Bucket,
    key: SipHasher24,
    random: Random,
    sources: Vec<[Source; WAYS]>,
}

impl ResetLimit {
    /// No source is given more at once than half of what there is for `all`.
    pub fn new(each: ResetRate, all: ResetRate, seed: [u64; 2]) -> Self {
        let nobody = Source { tag: 0, bucket: Bucket { left: 0, second: 0 } };
        Self {
            each,
            all,
            together: Bucket { left: all.depth, second: 0 },
            key: SipHasher24::new_with_keys(seed[0], seed[1]),
            random: Random::new(seed[0].rotate_left(32) ^ seed[1]),
            sources: vec![[nobody; WAYS]; SETS],
        }
    }

    /// Takes a reset to `source`; whether there was one.
    pub fn take(&mut self, source: IpAddr, now: Time) -> bool {
        if !self.each.gives() || !self.all.gives() {
            return false;
        }
        let second = (now.as_nanos() / 1_000_000_000) as u32;
        if second != self.together.second {
            let (growth, more) = (self.random.around(u64::from(self.all.per_second)), self.random.bits());
            self.together.refill(second, growth, self.all, deeper(self.all.depth, more));
        }
        let half = self.all.depth / 2;
        let together = self.together.left;
        let Some(bucket) = self.bucket(source, second, half) else { return false };
        if bucket.left == 0 || together == 0 {
            return false;
        }
        bucket.left -= 1;
        self.together.left -= 1;
        true
    }

    /// The bucket of a source, as it is in this second.
    fn bucket(&mut self, source: IpAddr, second: u32, most: u32) -> Option<&mut Bucket> {
        let hash = self.key.hash(SourceKey::of(source).words().map(u64::to_le_bytes).as_flattened());
        let (tag, each, key) = ((hash >> 32) as u32 | 1, self.each, self.key);
        // Another number for each source and second, which nobody can foretell.
        let chance =
            |tag: u32| key.hash([u64::from(second) << 32 | u64::from(tag)].map(u64::to_le_bytes).as_flattened());
        let set = self.sources.get_mut(hash as usize % SETS)?;
        let depth = |tag| deeper(each.depth, chance(tag) >> 32).min(most);
        for source in set.iter_mut().filter(|source| source.tag != 0 && source.bucket.second != second) {
            let growth = spread(u64::from(each.per_second), chance(source.tag));
            source.bucket.refill(second, growth, each, depth(source.tag));
            // Who has all again need not be told from who never came.
            if source.bucket.left >= depth(source.tag) {
                source.tag = 0;
            }
        }
        let place = set.iter().position(|source| source.tag == tag).or_else(|| {
            let free = set.iter().position(|source| source.tag == 0)?;
            if let Some(source) = set.get_mut(free) {
                *source = Source { tag, bucket: Bucket { left: depth(tag), second } };
            }
            Some(free)
        });
        // With the one that has most left.
        let place = place.or_else(|| (0..WAYS).max_by_key(|at| set.get(*at).map(|source| source.bucket.left)))?;
        set.get_mut(place).map(|source| &mut source.bucket)
    }
}

/// A depth, and up to a quarter more.
const fn deeper(depth: u32, random: u64) -> u32 {
    depth.saturating_add((random % (depth as u64 / 4 + 1)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    const EACH: ResetRate = ResetRate { per_second: 1_000, depth: 10_000 };
    const ALL: ResetRate = ResetRate { per_second: 10_000, depth: 100_000 };

    fn ip(n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n))
    }

    fn given(limit: &mut ResetLimit, source: IpAddr, ms: u64, asked: usize) -> usize {
        (0..asked).filter(|_| limit.take(source, Time::from_millis(ms))).count()
    }

    /// Two fronts with 10,000 connections each learn of it at once when a server was started
    /// anew, and of the next restart ten seconds later.
    #[test]
    fn fronts_learn_at_once_that_a_server_was_started_anew() {
        let mut limit = ResetLimit::new(EACH, ALL, [1, 2]);
        for (start, least) in [(5_000, 10_000), (20_000, 10_000), (23_000, 2_500)] {
            for front in [ip(1), ip(2)] {
                let given = given(&mut limit, front, start, 20_000);
                assert!((least..=12_500).contains(&given), "{given} from {start} ms on");
            }
        }
    }

    /// One that asks without end is given the rate, however long.
    #[test]
    fn a_source_is_given_no_more_than_its_rate() {
        let mut limit = ResetLimit::new(EACH, ALL, [3, 4]);
        let given: usize = (0..1_000).map(|second| given(&mut limit, ip(7), second * 1_000, 3_000)).sum();
        assert!((950_000..=1_100_000).contains(&given), "{given} in 1,000 s");
    }

    /// However deep its own bucket is.
    #[test]
    fn no_source_is_given_more_than_half_of_what_there_is() {
        let deep = ResetRate { per_second: 1_000_000, depth: 1_000_000 };
        let mut limit = ResetLimit::new(deep, ResetRate { per_second: 1_000, depth: 2_000 }, [5, 6]);
        assert_eq!(given(&mut limit, ip(1), 1_000, 5_000), 1_000);
        // Others are there for the rest.
        assert!((1_000..=1_500).contains(&given(&mut limit, ip(2), 1_000, 5_000)));
    }

    /// What a source is given does not depend on others, even while 200 of them ask.
    #[test]
    fn sources_do_not_take_from_each_other() {
        let (mut alone, mut beside) = (ResetLimit::new(EACH, ALL, [1, 2]), ResetLimit::new(EACH, ALL, [1, 2]));
        let mut differ = 0;
        for second in 1..=200 {
            for other in 2..=200 {
                given(&mut beside, ip(other), second * 1_000, 20);
            }
            let asked = if second % 20 == 0 { 15_000 } else { 900 };
            let ms = second * 1_000 + 500;
            differ += usize::from(given(&mut alone, ip(1), ms, asked) != given(&mut beside, ip(1), ms, asked));
        }
        assert_eq!(differ, 0, "of 200 seconds");
    }

    /// A network of IPv6 is one source, however many addresses it has.
    #[test]
    fn a_network_is_one_source() {
        let mut limit = ResetLimit::new(EACH, ALL, [1, 2]);
        let ip = |net: u16, host: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, 0, host));
        let first: usize = (0..1_000).map(|host| given(&mut limit, ip(1, host), 5_000, 30)).sum();
        assert!((10_000..=12_500).contains(&first), "{first}");
        assert!(limit.take(ip(2, 0), Time::from_millis(5_000)));
    }

    /// However many sources are forged, and none where there is to be none.
    #[test]
    fn all_sources_have_a_limit_together() {
        let mut limit = ResetLimit::new(EACH, ALL, [7, 8]);
        let mut random = Random::new(9);
        let mut flood = |limit: &mut ResetLimit, ms: u64| -> usize {
            (0..300_000).filter(|_| limit.take(ip(random.bits() as u32 >> 8), Time::from_millis(ms))).count()
        };
        let first = flood(&mut limit, 1_000);
        assert!((90_000..=125_000).contains(&first), "{first}");
        let next = flood(&mut limit, 2_000);
        assert!((5_000..=15_000).contains(&next), "{next}");
        for (each, all) in [(ResetRate { per_second: 0, ..EACH }, ALL), (EACH, ResetRate { depth: 0, ..ALL })] {
            assert!(!ResetLimit::new(each, all, [1, 2]).take(ip(1), Time::from_millis(9)));
        }
    }

    /// However long nobody asked, and whoever asked before.
    #[test]
    fn no_more_is_saved_up_than_the_depth() {
        let mut limit = ResetLimit::new(EACH, ALL, [7, 8]);
        limit.take(ip(1), Time::from_millis(1_000));
        let late = Time::from_millis(1_000_000);
        let flood = (0..300_000).filter(|n| limit.take(ip(*n), late)).count();
        assert!((100_000..=125_000).contains(&flood), "{flood}");
    }

    /// Where all places are taken, a newcomer is with the one who has most left: sources that
    /// have used theirs up take nothing from it.
    #[test]
    fn a_newcomer_shares_with_who_has_most_left() {
        let few = ResetRate { per_second: 10, depth: 1_000 };
        let mut limit = ResetLimit::new(few, ResetRate { per_second: 1 << 24, depth: 1 << 24 }, [1, 2]);
        for heavy in 0..SETS as u32 {
            given(&mut limit, ip(heavy), 1_000, 2_000);
        }
        let refused = (1_000..5_000).filter(|n| !limit.take(ip(*n), Time::from_millis(1_000))).count();
        assert!(refused < 400, "{refused} of 4,000, where one in a hundred sets has only heavy ones");
    }

    /// Who has all again is forgotten: its place goes to a newcomer, and if it comes again it has
    /// another. Where it kept its place, newcomers would use up what is in there.
    #[test]
    fn who_has_all_again_leaves_its_place() {
        let mut limit = ResetLimit::new(EACH, ResetRate { per_second: 1 << 24, depth: 1 << 24 }, [1, 2]);
        let (former, newcomers) = (|| 1_000..6_000, || 0..64);
        // They have all places, and each has soon all again.
        former().for_each(|n| _ = limit.take(ip(n), Time::from_millis(1_000)));
        for newcomer in newcomers() {
            let given = given(&mut limit, ip(newcomer), 100_000, 20_000);
            assert!((10_000..=12_500).contains(&given), "{given} for {newcomer}");
        }
        let refused = former().filter(|n| !limit.take(ip(*n), Time::from_millis(100_000))).count();
        assert_eq!(refused, 0, "of 5,000 who have taken one, long ago");
    }

    /// What is left of a bucket cannot be told from the second before: neither its depth nor
    /// what grows back is a number that anybody knows.
    #[test]
    fn what_a_second_gives_is_secret() {
        let mut limit = ResetLimit::new(EACH, ALL, [1, 2]);
        given(&mut limit, ip(1), 0, 20_000);
        let growth: std::collections::BTreeSet<usize> =
            (1..=500).map(|second| given(&mut limit, ip(1), second * 1_000, 5_000)).collect();
        assert!(growth.len() > 300 && growth.iter().all(|given| (500..=1_500).contains(given)), "{}", growth.len());
        let depths: std::collections::BTreeSet<usize> =
            (0..100).map(|round| given(&mut limit, ip(2), 1_000_000 + round * 60_000, 20_000)).collect();
        assert!(depths.len() > 80 && depths.iter().all(|given| (10_000..=12_500).contains(given)), "{}", depths.len());
    }
}
