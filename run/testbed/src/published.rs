//! What a forwarder or tester tells while it runs, for `nearside watch` and
//! `nearside status`: the page that every program of ours with links has.

use cpu::Clock;
use link::{Counters, Link};
use page::{Metric, MetricKind, Page, SeriesShape, Writer};
use say::eprintln;
use wire::Time;

/// Names that `watch` knows of servers, and the cycles that testpmd's users ask
/// for.
const METRICS: [Metric; 10] = [
    counter("link.rx_frames"),
    counter("link.tx_frames"),
    counter("link.rx_bytes"),
    counter("link.tx_bytes"),
    counter("link.rx_dropped"),
    counter("link.tx_dropped"),
    counter("link.tx_full"),
    counter("silo.busy_ns"),
    counter("packet.busy_cycles"),
    counter("packet.total_cycles"),
];

/// A tester's thread is always busy, and says nothing of it.
const OF_LINKS: usize = 7;

const fn counter(name: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter }
}

/// The page, and a writer for each thread. Without a place for it nobody can
/// look, and nothing else is lost.
pub fn publish(label: &str, threads: usize, of_cycles: bool) -> Option<(Page, Vec<Writer>)> {
    let metrics = if of_cycles { &METRICS[..] } else { &METRICS[..OF_LINKS] };
    let shape = (threads, SeriesShape::default());
    match Page::create_somewhere(None, label, Clock.unix(), metrics, shape) {
        Ok((page, writers, None)) => Some((page, writers)),
        Ok((.., Some(why))) | Err(why) => {
            eprintln!("nearside: nearside watch will not show this: {why}");
            None
        }
    }
}

/// What a thread tells beside what its links count.
#[derive(Clone, Copy, Default)]
pub struct ThreadCycles {
    pub busy_ns: u64,
    pub busy_cycles: u64,
    pub total_cycles: u64,
}

/// Stores what a thread's links have counted.
pub fn tell<L: Link>(writer: &mut Writer, now: Time, links: &[L], dropped: (u64, u64), spent: ThreadCycles) {
    let sum = |each: fn(&Counters) -> u64| links.iter().map(|link| each(&link.counters())).sum::<u64>();
    let values = [
        sum(|counters| counters.rx_frames),
        sum(|counters| counters.tx_frames),
        sum(|counters| counters.rx_bytes),
        sum(|counters| counters.tx_bytes),
        sum(|counters| counters.rx_dropped) + dropped.0,
        sum(|counters| counters.tx_dropped) + dropped.1,
        sum(|counters| counters.tx_full),
        spent.busy_ns,
        spent.busy_cycles,
        spent.total_cycles,
    ];
    writer.publish(now, &values);
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::{Pair, PairConfig, Receive, Transmit};
    use wire::Offload;

    #[test]
    fn what_links_count_is_what_a_reader_finds() {
        let path = std::env::temp_dir().join(format!("nearside-published-{}.page", std::process::id()));
        let shape = (1, SeriesShape::default());
        let (page, mut writers) = Page::create(&path, "packet forward, io", Clock.unix(), &METRICS, shape).expect("it");
        let (mut near, mut far) = Pair::new(PairConfig::default());
        let now = Clock.now();
        near.poll_control(now);
        far.poll_control(now);
        for _ in 0..3 {
            let (_, tx) = near.split();
            tx.slot().expect("room")[..60].fill(1);
            tx.commit(60, Offload::NONE);
            tx.flush(now);
        }
        let (rx, _) = far.split();
        assert_eq!(rx.receive(now, 8), 3);
        rx.release();
        let spent = ThreadCycles { busy_ns: 5, busy_cycles: 6, total_cycles: 7 };
        tell(&mut writers[0], now, &[near, far], (1, 2), spent);
        let reader = page.reader().expect("a page");
        let values = reader.snapshot().expect("whole").silos.swap_remove(0).values;
        let of = |name: &str| {
            let at = reader.metrics().iter().position(|metric| metric.0 == name).expect(name);
            values[at]
        };
        assert_eq!((of("link.tx_frames"), of("link.rx_frames"), of("link.rx_bytes")), (3, 3, 180));
        assert_eq!((of("link.rx_dropped"), of("link.tx_dropped"), of("silo.busy_ns")), (1, 2, 5));
        assert_eq!((of("packet.busy_cycles"), of("packet.total_cycles"), reader.label()), (6, 7, "packet forward, io"));
    }
}
