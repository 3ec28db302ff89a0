use super::Prr;
use random::SplitMix64;

const MSS: u32 = 1_460;

fn segments(count: u32) -> u32 {
    count * MSS
}

/// Draws numbers of bytes and the like.
struct Rng(SplitMix64);

impl Rng {
    fn below(&mut self, bound: u32) -> u32 {
        self.0.below(bound as usize) as u32
    }
}

/// RFC 9937 section 8, one loss: of 20 segments in flight the first is
/// lost, ssthresh is half. One segment leaves for every two ACKs, evenly,
/// and the flight ends at ssthresh.
#[test]
fn one_loss() {
    let mut prr = Prr::new(segments(20), segments(10), MSS);
    let mut pipe = segments(19); // The lost one left it.
    let mut credit = Vec::new();
    let mut sent = 0;
    for _ in 0..19 {
        pipe -= MSS;
        let may = prr.on_ack(MSS, pipe, false);
        let now = may / MSS * MSS;
        prr.on_sent(now);
        pipe += now;
        sent += now;
        credit.push(now / MSS);
    }
    assert!(credit.iter().all(|&now| now <= 1), "{credit:?}");
    assert_eq!(sent, segments(10));
    assert_eq!(pipe, segments(10));
}

/// RFC 9937 section 8, a burst of losses: of 20 segments the first 15 are
/// lost. Sending follows delivery, one more per ACK that is safe, never
/// above ssthresh.
#[test]
fn burst_of_losses() {
    let mut prr = Prr::new(segments(20), segments(10), MSS);
    let mut pipe = segments(2);
    assert_eq!(prr.on_ack(segments(3), pipe, false), segments(3));
    prr.on_sent(segments(3));
    pipe += segments(3);
    // Not safe: as much as was delivered.
    pipe -= MSS;
    assert_eq!(prr.on_ack(MSS, pipe, false), MSS);
    prr.on_sent(MSS);
    pipe += MSS;
    // Safe: one more, until the flight is back at ssthresh.
    for _ in 0..20 {
        pipe -= MSS;
        let may = prr.on_ack(MSS, pipe, true);
        assert!(may <= 2 * MSS && pipe + may <= segments(10));
        prr.on_sent(may);
        pipe += may;
    }
    assert_eq!(pipe, segments(10));
}

/// The first retransmission is sent even if the reduction allows nothing.
#[test]
fn first_retransmission_is_not_held_back() {
    let mut prr = Prr::new(segments(1_000), segments(2), MSS);
    assert_eq!(prr.on_ack(1, segments(999), false), MSS);
}

/// Half a segment owed is a segment: division rounds up.
#[test]
fn shares_round_up() {
    let mut prr = Prr::new(1_000, 500, 1);
    let mut sent = Vec::new();
    for pipe in (990..1_000).rev() {
        let may = prr.on_ack(1, pipe, false);
        prr.on_sent(may);
        sent.push(may);
    }
    assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
}

/// An ACK that delivers nothing lets nothing be sent.
#[test]
fn nothing_delivered() {
    let mut prr = Prr::new(segments(10), segments(7), MSS);
    assert_eq!(prr.on_ack(0, segments(9), true), 0);
}

/// Whatever arrives: no more is sent than delivered plus a segment per
/// ACK, and the flight does not pass ssthresh once below it.
#[test]
fn bounds() {
    for seed in 0..500 {
        let mut rng = Rng(SplitMix64::new(seed));
        let flight = segments(2 + rng.below(100));
        let ssthresh = (flight / 10 * (1 + rng.below(9))).max(2 * MSS);
        let mut prr = Prr::new(flight, ssthresh, MSS);
        let (mut pipe, mut delivered, mut out, mut acks) = (flight, 0u32, 0u32, 0u32);
        for _ in 0..300 {
            let got = rng.below(3 * MSS).min(pipe);
            let lost = if rng.below(10) == 0 { rng.below(5 * MSS).min(pipe - got) } else { 0 };
            pipe -= got + lost;
            let may = prr.on_ack(got, pipe, rng.below(2) == 0);
            acks += u32::from(got > 0);
            delivered += got;
            let first = out == 0 && may <= MSS;
            assert!(first || pipe > ssthresh || pipe + may <= ssthresh);
            prr.on_sent(may);
            out += may;
            pipe += may;
            assert!(out <= delivered + acks * MSS);
        }
    }
}
