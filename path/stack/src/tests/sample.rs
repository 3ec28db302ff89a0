//! A few of many connections.

use super::*;
use crate::{ConnectionSample, SAMPLE_WORDS};
use std::collections::BTreeSet;
use tcp::State;

/// A stack with so many connections that begin, to as many ports of a host.
fn with_connections(count: u16) -> (Stack, Vec<ConnId>) {
    let mut config = Config::new(Mac([2, 0, 0, 0, 0, 1]), 1_500);
    config.addresses = vec![Address { ip: IpAddr::V4(CLIENT), prefix_len: 24 }];
    let seeds = Seeds { table: [1; 4], secret: [2; 4], timestamps: [3; 2] };
    let mut stack = Stack::new(config, LinkOffload::default(), &seeds, Time::ZERO);
    let to = |at: u16| SocketAddr::new(IpAddr::V4(SERVER), 1_000 + at);
    let ids = (0..count).map(|at| stack.connect(None, to(at)).expect("it begins")).collect();
    (stack, ids)
}

fn sampled(stack: &Stack, most: usize, from: usize) -> Vec<ConnectionSample> {
    let mut found = Vec::new();
    stack.sample(most, from, &mut |sample| found.push(*sample));
    found
}

#[test]
fn of_few_connections_all_are_told_once() {
    let (mut stack, ids) = with_connections(50);
    for from in [0, 7, 1_000_003] {
        let found = sampled(&stack, 50, from);
        let ports: BTreeSet<u16> = found.iter().map(|one| one.remote.port()).collect();
        assert_eq!((found.len(), ports.len()), (50, 50));
        assert!(found.iter().all(|one| one.state == State::SynSent && one.local.ip() == IpAddr::V4(CLIENT)));
    }
    // What has gone leaves its place empty.
    ids[5..45].iter().for_each(|id| stack.abort(*id));
    while stack.poll_closed().is_some() {}
    assert_eq!(stack.connections(), 10);
    assert_eq!(sampled(&stack, 20, 13).len(), 10);
    assert_eq!(sampled(&with_connections(0).0, 20, 13), []);
}

#[test]
fn of_many_connections_some_of_all_the_table_are_told() {
    let (stack, _) = with_connections(1_000);
    let first = sampled(&stack, 10, 0);
    let places: Vec<u16> = first.iter().map(|one| (one.remote.port() - 1_000) / 100).collect();
    assert_eq!(places, (0..10).collect::<Vec<u16>>(), "one of each tenth");
    let second = sampled(&stack, 10, 1);
    assert!(first.iter().all(|one| !second.contains(one)), "others the next time");
}

#[test]
fn words_say_the_same_and_others_nothing() {
    let (stack, _) = with_connections(3);
    for sample in sampled(&stack, 3, 0) {
        let other = ConnectionSample {
            remote: "[2001:db8::1]:65535".parse().unwrap(),
            state: State::LastAck,
            congestion_state: tcp::CongestionState::Loss,
            sack: true,
            delivery_rate: Some(7),
            pacing_rate: Some(0),
            retrans: u32::MAX,
            backoff: 255,
            ..sample
        };
        for one in [sample, other] {
            assert_eq!(ConnectionSample::from_words(&one.words()), Some(one));
        }
    }
    assert_eq!(ConnectionSample::from_words(&[u64::MAX; SAMPLE_WORDS]), None);
    assert_eq!(ConnectionSample::from_words(&[0; SAMPLE_WORDS - 1]), None);
}
