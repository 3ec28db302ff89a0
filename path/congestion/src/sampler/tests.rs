use super::*;

const SEGMENT: u32 = 1_000;
const RTT: Duration = Duration::from_millis(100);

/// A flight of segments over a path of this rate, each acknowledged by itself;
/// what is sampled last.
fn flight(sampler: &mut Sampler, start: Time, segments: u32, rate: u64) -> Time {
    let sent: Vec<_> = (0..segments).map(|index| (start, sampler.on_sent(start, index == 0))).collect();
    let each = Duration::from_nanos(u64::from(SEGMENT) * 1_000_000_000 / rate);
    let mut now = start + RTT;
    for state in sent {
        now = now + each;
        sampler.on_delivered(now, SEGMENT, Some(state), RTT);
    }
    now
}

/// Section 2: a flight that leaves at once is delivered at the path's rate.
#[test]
fn the_rate_of_acknowledgements() {
    let mut sampler = Sampler::default();
    let end = flight(&mut sampler, Time::from_millis(1), 100, 1_000_000);
    let sample = sampler.latest().expect("there is one");
    // 100 segments in the round trip and 100 ms.
    assert_eq!((sample.delivered, sample.interval), (100_000, 2 * RTT));
    assert_eq!(sample.rate(), 500_000);
    // With the path full: a round trip's worth in a round trip.
    let mut now = end;
    let mut under_way = std::collections::VecDeque::new();
    for step in 0..400 {
        under_way.push_back((now, sampler.on_sent(now, step == 0)));
        now = now + Duration::from_millis(1);
        if step >= 100
            && let Some(first) = under_way.pop_front()
        {
            sampler.on_delivered(now, SEGMENT, Some(first), RTT);
        }
    }
    let rate = sampler.latest().map_or(0, |sample| sample.rate());
    assert!((980_000..=1_020_000).contains(&rate), "{rate}");
}

/// Section 3.3: acknowledgements that stood in a queue and came at once tell of
/// no rate above the one that was sent at.
#[test]
fn compressed_acknowledgements() {
    let mut sampler = Sampler::default();
    let start = Time::from_millis(1);
    let sent: Vec<_> = (0..50)
        .map(|index| {
            let at = start + Duration::from_millis(2 * index);
            (at, sampler.on_sent(at, index == 0))
        })
        .collect();
    let now = start + 2 * RTT;
    for state in sent {
        sampler.on_delivered(now, SEGMENT, Some(state), RTT);
    }
    let sample = sampler.latest().expect("there is one");
    assert!(sample.rate() <= 500_000, "{sample:?}");
    // An interval shorter than any round trip is none.
    let at = now + Duration::from_micros(1);
    let state = sampler.on_sent(at, true);
    sampler.on_delivered(at + Duration::from_millis(1), SEGMENT, Some((at, state)), RTT);
    assert_eq!(sampler.latest(), Some(sample));
}

/// Section 3.4: what the application kept small is marked, and takes nothing
/// back that is known.
#[test]
fn an_application_with_little_to_send() {
    let mut sampler = Sampler::default();
    let end = flight(&mut sampler, Time::from_millis(1), 100, 1_000_000);
    let known = sampler.latest();
    sampler.on_app_limited(0);
    let end = flight(&mut sampler, end, 2, 1_000_000);
    assert_eq!(sampler.latest(), known);
    // The mark ends with what was under way under it.
    flight(&mut sampler, end, 10, 1_000_000);
    assert_ne!(sampler.latest(), known);
    assert!(sampler.latest().is_some_and(|sample| !sample.app_limited));
}

/// What left before anybody took notes gives no rate.
#[test]
fn untimed() {
    let mut sampler = Sampler::default();
    sampler.on_delivered(Time::from_millis(1), SEGMENT, None, Duration::ZERO);
    assert_eq!(sampler.latest(), None);
    // Nor what took no time.
    let state = sampler.on_sent(Time::from_millis(1), true);
    sampler.on_delivered(Time::from_millis(1), SEGMENT, Some((Time::from_millis(1), state)), Duration::ZERO);
    assert_eq!(sampler.latest(), None);
}
