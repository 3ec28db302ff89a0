use super::*;
use crate::sample::DomainCounters;

fn sample(at: u64) -> Sample {
    Sample { at, unix_ms: at / 1_000_000, ticks_per_second: 100, ..Sample::default() }
}

/// A machine at two moments, two seconds apart.
fn two(change: impl Fn(&mut Sample, bool)) -> Change {
    let (mut before, mut now) = (sample(1_000_000_000), sample(3_000_000_000));
    change(&mut before, false);
    change(&mut now, true);
    Change::between(&before, &now).expect("time passed")
}

#[test]
fn rates_are_growth_by_time() {
    let change = two(|sample, later| {
        let n = |before: u64, now: u64| if later { now } else { before };
        sample.counts.insert("interrupts".into(), n(100, 300));
        sample.counts.insert("tcp.RetransSegs".into(), n(u64::from(u32::MAX) - 1, 8));
        sample.counts.insert("switches".into(), n(5_000, 10));
        sample.levels.insert("tcp.CurrEstab".into(), 7);
        let port = PortCounters {
            bytes: [n(0, 1_000), n(0, 500)],
            speed: Some(8_000),
            device: true,
            ..PortCounters::default()
        };
        sample.ports.insert("eth0".into(), port);
        sample.ports.insert("lo".into(), PortCounters { bytes: [n(0, 1 << 30); 2], ..PortCounters::default() });
        sample.missing.insert("syscalls".into(), "not permitted".into());
    });
    let figure = |key: &str| change.machine[key].clone();
    assert_eq!(figure("interrupts"), Figure::Is(100.0));
    assert_eq!(figure("retransmissions"), Figure::Is(5.0), "ten, across the wrap");
    assert_eq!(figure("switches"), Figure::Missing("the counter began again".into()));
    assert_eq!(figure("syscalls"), Figure::Missing("not permitted".into()));
    assert_eq!((figure("in_bits"), figure("out_bits")), (Figure::Is(4_000.0), Figure::Is(2_000.0)), "no loopback");
    assert_eq!(figure("overflows"), Figure::Missing("this kernel does not count it".into()));
    assert_eq!(change.ports[0].used, Figure::Is(0.5));
    assert_eq!(change.ports[1].used, Figure::Missing("the interface tells no speed".into()));
    assert!(Change::between(&sample(5), &sample(5)).is_err() && Change::between(&sample(6), &sample(5)).is_err());
}

#[test]
fn nothing_at_all_is_no_negative_zero() {
    let change = two(|_, _| {});
    let figures = change.machine.values().filter_map(Figure::value);
    assert!(
        figures.clone().count() > 3 && figures.clone().all(|value| value.is_sign_positive()),
        "{:?}",
        change.machine
    );
}

#[test]
fn cores_and_ports_that_come_and_go_say_so() {
    let change = two(|sample, later| {
        let core =
            |busy: u64| CoreCounters { ticks: [busy, 0, 0, 200 - busy, 0, 0, 0, 0, 0, 0], ..CoreCounters::default() };
        if later {
            sample.cores.insert(0, core(150));
            sample.cores.insert(2, core(0));
            sample.ports.insert("veth0".into(), PortCounters::default());
        } else {
            sample.cores.insert(0, core(0));
            sample.cores.insert(1, core(0));
            sample.ports.insert("tap0".into(), PortCounters::default());
        }
    });
    let cores: Vec<(u16, Presence)> = change.cores.iter().map(|row| (row.core, row.presence)).collect();
    assert_eq!(cores, [(0, Presence::Here), (1, Presence::Gone), (2, Presence::Came)]);
    assert!((change.cores[0].busy() - 1.0).abs() < 1e-9, "{:?}", change.cores[0]);
    assert_eq!(change.machine["cpu"], Figure::Is(100.0), "of cores that were there at both looks");
    let ports: Vec<(&str, Presence)> = change.ports.iter().map(|row| (row.name.as_str(), row.presence)).collect();
    assert_eq!(ports, [("tap0", Presence::Gone), ("veth0", Presence::Came)]);
    assert_eq!(change.ports[0].bits[0], Figure::Missing("it is not there any more".into()));
}

#[test]
fn times_are_shares_without_guests_twice() {
    let now = [30, 10, 20, 40, 0, 0, 0, 0, 10, 10];
    assert_eq!(times(&[0; 10], &now), [0.2, 0.0, 0.2, 0.0, 0.0, 0.0, 0.0, 0.2, 0.4]);
    assert_eq!(times(&now, &now)[8], 1.0);
    // Time waiting for disks goes back now and then.
    let times = times(&[0, 0, 0, 0, 50, 0, 0, 0, 0, 0], &[0, 0, 0, 100, 40, 0, 0, 0, 0, 0]);
    assert_eq!((times[3], times[8]), (0.0, 1.0));
}

#[test]
fn what_is_remote_is_told_by_domain_and_together() {
    let change = two(|sample, later| {
        for (number, own) in [(0, 3_000_u64), (1, 500)] {
            let traffic = if later { Some([4_000, own]) } else { Some([0, 0]) };
            sample.domains.insert(number, DomainCounters { traffic, ..DomainCounters::default() });
        }
    });
    assert_eq!(change.domains[0].remote, Figure::Is(0.25));
    assert_eq!(
        (&change.machine["memory_traffic"], &change.machine["remote"]),
        (&Figure::Is(4_000.0), &Figure::Is(56.25))
    );
    let one = two(|sample, _| drop(sample.domains.insert(0, DomainCounters::default())));
    assert_eq!(one.machine["remote"], Figure::Missing("one domain: there is nothing remote".into()));
    let why = "nothing asked its memory's controllers; no resctrl counts it";
    assert_eq!(one.machine["memory_traffic"], Figure::Missing(why.into()));
    // What controllers count has everybody's part, the cards' too.
    let both = two(|sample, later| {
        for number in [0, 1] {
            let (traffic, channels) = if later { ([4_000, 3_000], 5_000) } else { ([0, 0], 0) };
            let domain =
                DomainCounters { traffic: Some(traffic), channels: Some(channels), ..DomainCounters::default() };
            sample.domains.insert(number, domain);
        }
    });
    assert_eq!(both.domains[1].channels, Figure::Is(2_500.0));
    let machine = |key: &str| both.machine[key].value();
    assert_eq!((machine("memory_traffic"), machine("remote")), (Some(5_000.0), Some(25.0)));
}

#[test]
fn ours_are_added_to_the_kernels() {
    let change = two(|sample, later| {
        let n = |now: u64| if later { now } else { 0 };
        sample.levels.insert("tcp.CurrEstab".into(), 5);
        let silo = |busy: u64| {
            BTreeMap::from([
                ("link.rx_bytes".to_owned(), n(250)),
                ("link.tx_bytes".to_owned(), n(500)),
                ("link.rx_frames".to_owned(), n(2)),
                ("stack.connections".to_owned(), 64),
                ("silo.busy_ns".to_owned(), n(busy)),
            ])
        };
        let silos = vec![silo(1_000_000_000), silo(1_900_000_000)];
        sample.bypass.insert(9, Bypass { label: "serve".into(), silos });
        let workers = vec![BTreeMap::from([("sockets.connections".to_owned(), 5)])];
        sample.bypass.insert(10, Bypass { label: "serve".into(), silos: workers });
    });
    assert_eq!(
        (&change.machine["in_bits"], &change.machine["connections"]),
        (&Figure::Is(2_000.0), &Figure::Is(133.0))
    );
    assert_eq!(change.bypass[0].busiest, Figure::Is(0.95));
    assert!(!change.bypass[1].links, "the kernel counts its connections");
    assert_eq!(change.bypass[1].bits[0], Figure::Missing("it does not count this".into()));
}

#[test]
fn a_process_that_ended_is_told_and_another_of_its_number_is_another() {
    let process = |began: u64, faults: u64| Process {
        pid: 7,
        name: "web".into(),
        began,
        counts: [("page faults".to_owned(), faults)].into(),
        symbols: [("a".to_owned(), faults), ("b".to_owned(), 3)].into(),
        placed: [(0, 300), (1, 100)].into(),
        ..Process::default()
    };
    let with = |before: Option<Process>, now: Option<Process>| {
        two(move |sample, later| sample.process = if later { now.clone() } else { before.clone() }).process
    };
    let here = with(Some(process(1, 10)), Some(process(1, 30))).expect("a row");
    assert_eq!((here.presence, &here.figures["page faults/s"]), (Presence::Here, &Figure::Is(10.0)));
    assert_eq!((here.symbols, here.placed[&0]), (vec![("a".to_owned(), 1.0)], 0.75));
    let gone = with(Some(process(1, 10)), None).expect("a row");
    assert_eq!(
        (gone.presence, &gone.figures["page faults/s"]),
        (Presence::Gone, &Figure::Missing("it is not there any more".into()))
    );
    let other = with(Some(process(1, 10)), Some(process(2, 30))).expect("a row");
    assert_eq!(other.presence, Presence::Came);
    assert_eq!(with(None, None), None);
}

#[test]
fn figures_are_numbers_or_reasons_in_json() {
    let both = [Figure::Is(1.5), Figure::Missing("no PMU".into())];
    assert_eq!(serde_json::to_string(&both).expect("JSON"), r#"[1.5,{"missing":"no PMU"}]"#);
}

/// A recording as a machine of two sockets would write it whose memory's
/// controllers and resctrl count. It was made by hand: no such machine was seen.
#[test]
fn a_recording_of_two_sockets_shows_what_is_remote() {
    let mut recording = crate::SampleReader::new(&include_bytes!("../../fixtures/two-sockets.ndjson")[..]);
    let mut samples = Vec::new();
    while let Some(sample) = recording.read().expect("samples") {
        assert_eq!(sample.line().parse::<serde_json::Value>().ok(), serde_json::to_value(&sample).ok());
        samples.push(sample);
    }
    assert_eq!(samples.len(), 3);
    for pair in samples.windows(2) {
        let change = Change::between(&pair[0], &pair[1]).expect("time passed");
        let row = |row: &DomainRow| [&row.channels, &row.traffic, &row.remote, &row.cache].map(Figure::value);
        assert_eq!(row(&change.domains[0]), [Some(9e9), Some(1e10), Some(0.6), Some(25_165_824.0)]);
        assert_eq!(row(&change.domains[1]), [Some(1.3e10), Some(1e10), Some(0.05), Some(20_971_520.0)]);
        let machine = |key: &str| change.machine[key].value().expect("it is there");
        // Of all that cores moved a third was remote, and the cards moved some more.
        assert!((machine("remote") - 32.5).abs() < 1e-9 && machine("memory_traffic") == 2.2e10);
        let text = crate::show::domains(&change.domains);
        assert!(text.lines().nth(1).is_some_and(|row| row.ends_with("9.00       10.00      60.0    24.0")), "{text}");
        assert!(crate::show::line(&change).contains("  32.5   22.0 "), "{}", crate::show::line(&change));
        assert!(crate::show::totals(&change).contains("3 running"), "{}", crate::show::totals(&change));
    }
}

/// Who began meanwhile has counted from nothing; who asked for nothing, or has ended, has no row.
#[test]
fn calls_of_malloc_by_process_are_rates_and_the_most_comes_first() {
    let mallocs = |count| Mallocs { name: "web".into(), count };
    let change = two(|sample, later| {
        sample.mallocs.insert(7, mallocs(if later { 30 } else { 10 }));
        sample.mallocs.insert(8, mallocs(5));
        if later {
            sample.mallocs.insert(9, mallocs(1_000));
            sample.mallocs.insert(10, Mallocs { name: "other".into(), count: 8 });
        } else {
            sample.mallocs.insert(10, mallocs(90));
            sample.mallocs.insert(11, mallocs(90));
        }
        sample.missing.insert("mallocs".into(), "2 calls were lost".into());
    });
    let rows: Vec<(u32, f64)> =
        change.mallocs.iter().filter_map(|row| Some((row.pid, row.per_second.value()?))).collect();
    assert_eq!(rows, [(9, 500.0), (7, 10.0), (10, 4.0)]);
    assert_eq!(change.notes, ["mallocs: 2 calls were lost"]);
    // Of the first look nothing is known before it.
    let first = two(|sample, later| {
        if later {
            sample.mallocs.insert(7, mallocs(30));
        }
    });
    assert!(first.mallocs[0].per_second.value().is_none() && first.mallocs.len() == 1, "{:?}", first.mallocs);
}

#[test]
fn chains_are_shares_of_what_was_found_meanwhile() {
    let process = |hits: &[(&str, u64)]| Process {
        pid: 7,
        chains: hits.iter().map(|(name, hits)| ((*name).to_owned(), *hits)).collect(),
        notes: vec!["a child serves".into()],
        ..Process::default()
    };
    let change = two(|sample, later| {
        sample.process = Some(process(if later { &[("a;b", 10), ("a;c", 9)] } else { &[("a;b", 9), ("a;c", 6)] }));
    });
    let row = change.process.expect("a row");
    assert_eq!(row.chains, [("a;c".to_owned(), 0.75), ("a;b".to_owned(), 0.25)]);
    assert_eq!(change.notes, ["a child serves"]);
}
