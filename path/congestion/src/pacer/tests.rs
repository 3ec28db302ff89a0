use super::*;
use random::SplitMix64;

const SEGMENT: u32 = 1_448;

/// What a flow with enough to send sends until `end`, by a calendar that is up
/// to `late` nanoseconds late, a segment at a time: when and how much.
fn drive(pacer: &mut Pacer, from: Time, end: Time, late: u64, seed: u64) -> Vec<(Time, u32)> {
    let mut rng = SplitMix64::new(seed);
    let mut sent = Vec::new();
    let mut now = from;
    while now < end {
        match pacer.may_send(now, 1 << 20) {
            Ok(bytes) => {
                assert!(bytes >= SEGMENT && bytes.is_multiple_of(SEGMENT), "{bytes}");
                pacer.on_sent(now, SEGMENT);
                sent.push((now, SEGMENT));
            }
            Err(at) => {
                assert!(at >= now, "{at:?} {now:?}");
                now = at + Duration::from_nanos(1 + rng.below(late.max(1) as usize) as u64);
            }
        }
    }
    sent
}

fn total(sent: &[(Time, u32)]) -> u64 {
    sent.iter().map(|(_, bytes)| u64::from(*bytes)).sum()
}

/// A flow's rate over ten seconds is what was asked for, to 0.2 % and a
/// quantum, however late each of its turns is, up to half a quantum's time.
#[test]
fn the_rate_is_kept() {
    for rate in [12_500, 125_000, 1_250_000, 12_500_000, 125_000_000, 1_250_000_000] {
        for part in [u64::MAX, 10, 2] {
            let mut pacer = Pacer::new(rate, SEGMENT, 0);
            let quantum_ns = u64::from(pacer.quantum()) * 1_000_000_000 / rate;
            let late = quantum_ns / part;
            let start = Time::from_millis(7);
            // As many segments at each rate, or ten seconds.
            let nanos = (100_000 * u64::from(SEGMENT) * 1_000_000_000 / rate).min(10_000_000_000);
            let sent = drive(&mut pacer, start, start + Duration::from_nanos(nanos), late, rate);
            let wanted = rate * nanos / 1_000_000_000;
            let slack = wanted / 500 + u64::from(pacer.quantum());
            assert!(total(&sent).abs_diff(wanted) <= slack, "{rate} {part}: {} not {wanted}", total(&sent));
        }
    }
}

/// At no time does more than a quantum leave, and in none of its times more
/// than two.
#[test]
fn bursts_are_quanta() {
    for (rate, quantum) in [(125_000, 1_448), (12_500_000, 11_584), (125_000_000, 65_160)] {
        let mut pacer = Pacer::new(rate, SEGMENT, 0);
        assert_eq!(pacer.quantum(), quantum);
        let quantum_ns = u64::from(quantum) * 1_000_000_000 / rate;
        let sent = drive(&mut pacer, Time::ZERO, Time::from_millis(500), quantum_ns / 2, 3);
        let span = Duration::from_nanos(quantum_ns);
        let (mut first, mut at_once) = (0, 0);
        for (index, &(at, bytes)) in sent.iter().enumerate() {
            at_once = if index > 0 && sent[index - 1].0 == at { at_once + bytes } else { bytes };
            assert!(at_once <= quantum, "{rate}: {at_once} at {at:?}");
            while at.since(sent[first].0) >= span {
                first += 1;
            }
            assert!(total(&sent[first..=index]) <= 2 * u64::from(quantum), "{rate} at {at:?}");
        }
    }
}

/// What leaves by `now` without another nanosecond.
fn burst(pacer: &mut Pacer, now: Time) -> u32 {
    let mut burst = 0;
    while pacer.may_send(now, 1 << 20).is_ok() {
        pacer.on_sent(now, SEGMENT);
        burst += SEGMENT;
    }
    burst
}

/// Nothing is saved up by having nothing to send; by being called late, a
/// quantum at most, whatever the clock does.
#[test]
fn silence_earns_nothing() {
    for pause in [Duration::from_millis(2), Duration::from_secs(3_600), Duration::from_secs(1 << 33)] {
        let mut pacer = Pacer::new(12_500_000, SEGMENT, 0);
        pacer.on_sent(Time::from_millis(1), SEGMENT);
        let now = Time::from_millis(1) + pause;
        assert_eq!(burst(&mut pacer, now), pacer.quantum(), "{pause:?}");
        let at = pacer.may_send(now, 1 << 20).expect_err("it is spent");
        assert!(at.since(now) > Duration::from_micros(900), "{at:?} {now:?}");
        // Refused, and called long after it was due.
        let now = at + pause;
        assert_eq!(burst(&mut pacer, now), pacer.quantum(), "{pause:?}");
        let soon = now + Duration::from_nanos(1);
        assert_eq!(burst(&mut pacer, soon), pacer.quantum(), "{pause:?}");
        let at = pacer.may_send(soon, 1 << 20).expect_err("it is spent");
        assert!(at.since(soon) > Duration::from_micros(900), "{at:?} {soon:?}");
        // A clock that goes back stands.
        assert!(pacer.may_send(Time::ZERO, SEGMENT).is_err());
        assert_eq!(pacer.may_send(soon, SEGMENT), Err(at));
    }
}

/// A flight that starts on an empty path has its initial window at once, and
/// not again.
#[test]
fn the_first_burst_is_once() {
    let mut pacer = Pacer::new(1_000_000, SEGMENT, 10 * SEGMENT);
    let now = Time::from_millis(5_000);
    assert_eq!(burst(&mut pacer, now), 10 * SEGMENT);
    // It is paid for before the next quantum.
    assert_eq!(pacer.may_send(now, SEGMENT), Err(now + Duration::from_micros(14_480)));
    let later = now + Duration::from_secs(9);
    assert_eq!(pacer.may_send(later, 1 << 20), Ok(SEGMENT));
}

/// The end of a queue is no whole segment, and less than a segment is not cut.
#[test]
fn short_pieces_leave_whole() {
    let mut pacer = Pacer::new(12_500_000, SEGMENT, 0);
    let now = Time::from_millis(1);
    assert_eq!(pacer.may_send(now, 100), Ok(100));
    pacer.on_sent(now, 100);
    assert_eq!(pacer.may_send(now, 2_000), Ok(2_000));
    assert_eq!(pacer.may_send(now, 1 << 20), Ok(7 * SEGMENT));
    assert_eq!(pacer.may_send(now, 0), Ok(0));
}

/// What is sent again spends, but waits for no more than a quantum's time.
#[test]
fn retransmissions_wait_for_a_quantum_at_most() {
    let mut pacer = Pacer::new(125_000, SEGMENT, 0);
    let now = Time::from_millis(1);
    assert_eq!(pacer.may_send(now, 1 << 20), Ok(SEGMENT));
    pacer.on_sent(now, SEGMENT);
    assert!(pacer.may_send(now, SEGMENT).is_err());
    let mut at = now;
    for again in 0..20 {
        if let Err(later) = pacer.may_send_again(at) {
            assert!(again > 0, "the first waits for nothing");
            assert!(later.since(at) <= Duration::from_nanos(11_584_001), "{:?}", later.since(at));
            at = later;
        }
        assert_eq!(pacer.may_send_again(at), Ok(()));
        pacer.on_sent(at, SEGMENT);
    }
    // They were paid for: 20 segments in 19 segments' time, and one owed for.
    assert!(at.since(now) >= Duration::from_nanos(18 * 11_584_000), "{:?}", at.since(now));
}

/// Rates of nothing, of a byte and of more than any link; a rate that changes
/// while something is owed.
#[test]
fn any_rate() {
    let now = Time::from_millis(1);
    let mut slow = Pacer::new(0, SEGMENT, 0);
    assert_eq!((slow.rate(), slow.may_send(now, 1 << 20)), (1, Ok(SEGMENT)));
    slow.on_sent(now, SEGMENT);
    assert_eq!(slow.may_send(now, 1), Err(now + Duration::from_secs(1_448)));
    slow.set(now, 1_448_000, SEGMENT);
    assert_eq!(slow.may_send(now, SEGMENT), Err(now + Duration::from_millis(1)), "what is owed stays, in bytes");
    let mut fast = Pacer::new(u64::MAX, 0, 0);
    for _ in 0..1_000 {
        assert_eq!(fast.may_send(now, 1 << 30).map_err(|at| at.since(now)).unwrap_or(1), 65_536);
        fast.on_sent(now, 65_536);
        let Err(at) = fast.may_send(now, 1 << 30) else { panic!("one quantum at a time") };
        assert!(at.since(now) <= Duration::from_nanos(1));
        fast = Pacer::new(u64::MAX, 0, 0);
    }
    let mut owing = Pacer::new(1, SEGMENT, 0);
    for _ in 0..1_000 {
        owing.on_sent(now, u32::MAX);
    }
    let Err(at) = owing.may_send(now, 1) else { panic!("it owes") };
    assert!(at < Time::MAX);
}
