use super::*;
use crate::message::tests::{answer, record};
use random::SplitMix64;

const SECOND: Duration = Duration::from_secs(1);

fn rules(servers: usize, change: impl FnOnce(&mut ResolverRules)) -> Arc<ResolverRules> {
    let servers = (1..=servers).map(|last| SocketAddr::new([127, 0, 0, last as u8].into(), 53)).collect();
    let mut rules = ResolverRules { servers, valid: None, v4: true, v6: false, timeout: 30 * SECOND };
    change(&mut rules);
    Arc::new(rules)
}

fn lookups(rules: Arc<ResolverRules>, limits: LookupLimits) -> Lookups {
    let mut random = SplitMix64::new(9);
    Lookups::new(rules, limits, Box::new(move || random.bits()))
}

/// The one question that is to be sent.
fn sent(lookups: &mut Lookups) -> Outgoing {
    let question = lookups.poll_question().expect("a question");
    assert_eq!(lookups.poll_question(), None);
    question
}

fn told(lookups: &mut Lookups) -> Vec<(u64, Result<Vec<String>, ResolveError>)> {
    let text = |answer: Resolution| match answer {
        Resolution::Addresses(addresses) => addresses.iter().map(ToString::to_string).collect(),
        Resolution::Service(all) => all.iter().map(described).collect(),
    };
    core::iter::from_fn(|| lookups.poll_answer()).map(|(ticket, answer)| (ticket, answer.found.map(text))).collect()
}

fn described(one: &ServiceAddress) -> String {
    let host = String::from_utf8_lossy(one.host.text()).into_owned();
    format!("{} {host} {} {}", one.address, one.priority, one.weight)
}

/// That this address is the answer.
fn address(question: &Outgoing, last: u8, seconds: u32) -> Vec<u8> {
    answer(&question.message, 0, &[record(b"\xc0\x0c", 1, seconds, &[10, 0, 0, last])], &[])
}

fn found(ticket: u64, last: u8) -> (u64, Result<Vec<String>, ResolveError>) {
    (ticket, Ok(vec![format!("10.0.0.{last}")]))
}

#[test]
fn what_is_known_is_not_asked_for_until_it_ends() {
    let mut lookups = lookups(rules(1, |_| {}), LookupLimits::default());
    let now = Time::from_millis(1_000);
    lookups.ask(1, b"Host.Example.", now);
    lookups.ask(2, b"host.example", now);
    let question = sent(&mut lookups);
    assert!(told(&mut lookups).is_empty());
    assert!(lookups.on_message(question.id, &address(&question, 1, 60), now));
    assert_eq!(told(&mut lookups), [found(1, 1), found(2, 1)]);
    assert_eq!((lookups.poll_over(), lookups.next_deadline()), (Some(question.id), None));
    lookups.ask(3, b"host.example", now + 59 * SECOND);
    assert_eq!(told(&mut lookups), [found(3, 1)]);
    let later = now + 60 * SECOND;
    lookups.ask(4, b"host.example", later);
    let again = sent(&mut lookups);
    assert!(lookups.on_message(again.id, &address(&again, 2, 0), later));
    assert_eq!(told(&mut lookups), [found(4, 2)]);
    lookups.ask(5, b"host.example", later);
    sent(&mut lookups);
}

#[test]
fn valid_replaces_what_answers_say_of_time() {
    let mut lookups = lookups(rules(1, |rules| rules.valid = Some(2 * SECOND)), LookupLimits::default());
    let now = Time::ZERO;
    lookups.ask(1, b"a", now);
    let question = sent(&mut lookups);
    assert!(lookups.on_message(question.id, &address(&question, 1, 9_999), now));
    lookups.ask(2, b"a", now + SECOND);
    lookups.ask(3, b"a", now + 2 * SECOND);
    assert_eq!(told(&mut lookups), [found(1, 1), found(2, 1)]);
    sent(&mut lookups);
}

#[test]
fn servers_take_turns_and_the_next_is_asked_when_one_is_silent() {
    let mut lookups = lookups(rules(2, |rules| rules.timeout = 12 * SECOND), LookupLimits::default());
    let now = Time::ZERO;
    lookups.ask(1, b"a", now);
    let first = sent(&mut lookups);
    assert_eq!(first.server.ip().to_string(), "127.0.0.1");
    assert_eq!(lookups.next_deadline(), Some(now + 5 * SECOND));
    lookups.on_time(now + 5 * SECOND);
    let second = sent(&mut lookups);
    assert_eq!((second.server.ip().to_string(), second.id), ("127.0.0.2".to_owned(), first.id));
    // The answer to the first is late: its number is another by now.
    assert!(!lookups.on_message(first.id, &address(&first, 1, 60), now));
    lookups.on_time(now + 10 * SECOND);
    sent(&mut lookups);
    lookups.on_time(now + 12 * SECOND);
    assert_eq!(told(&mut lookups), [(1, Err(ResolveError::Timeout))]);
    assert!(lookups.poll_over().is_some() && lookups.next_deadline().is_none());
    lookups.ask(2, b"b", now);
    assert_eq!(sent(&mut lookups).server.ip().to_string(), "127.0.0.2", "the next in turn");
}

#[test]
fn a_server_that_cannot_is_followed_by_the_others_once_each() {
    let mut lookups = lookups(rules(3, |_| {}), LookupLimits::default());
    let now = Time::ZERO;
    lookups.ask(1, b"a", now);
    for code in [2, 5] {
        let question = sent(&mut lookups);
        assert!(lookups.on_message(question.id, &answer(&question.message, code, &[], &[]), now));
    }
    let last = sent(&mut lookups);
    lookups.on_failure(last.id, now);
    assert_eq!(told(&mut lookups), [(1, Err(ResolveError::Server(2)))]);
    lookups.ask(2, b"a", now);
    sent(&mut lookups);
}

#[test]
fn names_without_addresses_are_known_for_a_while() {
    let mut lookups = lookups(rules(1, |_| {}), LookupLimits::default());
    let now = Time::ZERO;
    // The authority's record: two names, then five numbers, the last of them the time.
    let soa = |minimum: u32| {
        let numbers: Vec<u8> = [1, 2, 3, 4, minimum].iter().flat_map(|number: &u32| number.to_be_bytes()).collect();
        record(b"\0", 6, 3_600, &[b"\0\0", &numbers[..]].concat())
    };
    lookups.ask(1, b"none", now);
    let question = sent(&mut lookups);
    assert!(lookups.on_message(question.id, &answer(&question.message, 3, &[], &[soa(10)]), now));
    lookups.ask(2, b"none", now + 9 * SECOND);
    let not_found = |ticket| (ticket, Err(ResolveError::NotFound));
    assert_eq!(told(&mut lookups), [not_found(1), not_found(2)]);
    lookups.ask(3, b"none", now + 10 * SECOND);
    let question = sent(&mut lookups);
    assert!(lookups.on_message(question.id, &answer(&question.message, 0, &[], &[soa(9_999)]), now));
    lookups.ask(4, b"none", now + 29 * SECOND);
    lookups.ask(5, b"none", now + 30 * SECOND);
    assert_eq!(told(&mut lookups), [not_found(3), not_found(4)]);
}

#[test]
fn both_versions_are_told_together() {
    let mut lookups = lookups(rules(1, |rules| rules.v6 = true), LookupLimits::default());
    let now = Time::ZERO;
    lookups.ask(1, b"a", now);
    let (v4, v6) = (lookups.poll_question().unwrap(), lookups.poll_question().unwrap());
    assert!(lookups.on_message(v4.id, &address(&v4, 1, 60), now));
    assert!(told(&mut lookups).is_empty());
    let loopback = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    assert!(lookups.on_message(v6.id, &answer(&v6.message, 0, &[record(b"\xc0\x0c", 28, 5, &loopback)], &[]), now));
    let mut addresses = told(&mut lookups)[0].1.clone().unwrap();
    addresses.sort();
    assert_eq!(addresses, ["10.0.0.1", "::1"]);
    // One version has to do where the other is not answered, and is not kept.
    lookups.ask(2, b"b", now);
    let v4 = lookups.poll_question().unwrap();
    assert!(lookups.on_message(v4.id, &address(&v4, 2, 60), now));
    lookups.on_time(now + 30 * SECOND);
    assert_eq!(told(&mut lookups), [found(2, 2)]);
    lookups.ask(3, b"b", now);
    assert!(told(&mut lookups).is_empty());
}

/// A resolver that has no addresses of one version, and no authority's record to say for how
/// long, as those of container engines.
#[test]
fn none_of_one_version_says_nothing_of_how_long_the_others_count() {
    for first in [0, 1] {
        let mut lookups = lookups(rules(1, |rules| rules.v6 = true), LookupLimits::default());
        let now = Time::ZERO;
        lookups.ask(1, b"a", now);
        let mut both = vec![lookups.poll_question().unwrap(), lookups.poll_question().unwrap()];
        let replies = [address(&both[0], 1, 60), answer(&both[1].message, 0, &[], &[])];
        for at in [first, 1 - first] {
            assert!(lookups.on_message(both[at].id, &replies[at], now));
        }
        both.clear();
        lookups.ask(2, b"a", now + 59 * SECOND);
        assert_eq!(told(&mut lookups), [found(1, 1), found(2, 1)]);
        assert!(lookups.poll_question().is_none(), "it is known");
        lookups.ask(3, b"a", now + 60 * SECOND);
        assert!(lookups.poll_question().is_some());
        // Of neither version: it is asked again.
        lookups.ask(4, b"none", now);
        while let Some(question) = lookups.poll_question() {
            let _ = lookups.on_message(question.id, &answer(&question.message, 0, &[], &[]), now);
        }
        lookups.ask(5, b"none", now + SECOND);
        assert!(lookups.poll_question().is_some());
    }
}

#[test]
fn long_answers_come_over_tcp_and_aliases_are_followed() {
    let mut lookups = lookups(rules(1, |_| {}), LookupLimits::default());
    let now = Time::ZERO;
    lookups.ask(1, b"a", now);
    let question = sent(&mut lookups);
    let mut cut = answer(&question.message, 0, &[], &[]);
    cut[2] |= 2;
    assert!(lookups.on_message(question.id, &cut, now));
    let question = sent(&mut lookups);
    assert!(question.tcp);
    // An alias of which the answer says no more is asked for, over a datagram.
    let alias = answer(&question.message, 0, &[record(b"\xc0\x0c", 5, 7, b"\x01b\x01c\0")], &[]);
    assert!(lookups.on_message(question.id, &alias, now));
    let other = sent(&mut lookups);
    assert!(!other.tcp && other.id != question.id);
    assert!(other.message[12..].starts_with(b"\x01b\x01c\0"));
    assert_eq!(lookups.poll_over(), Some(question.id));
    assert!(lookups.on_message(other.id, &address(&other, 4, 60), now));
    assert_eq!(told(&mut lookups), [found(1, 4)]);
    lookups.ask(2, b"a", now + 6 * SECOND);
    assert_eq!(told(&mut lookups), [found(2, 4)]);
    lookups.ask(3, b"a", now + 7 * SECOND);
    assert!(told(&mut lookups).is_empty(), "the alias is good for seven seconds");
}

#[test]
fn aliases_end() {
    let mut lookups = lookups(rules(1, |_| {}), LookupLimits::default());
    lookups.ask(1, b"a", Time::ZERO);
    let mut asked = 0;
    while let Some(question) = lookups.poll_question() {
        asked += 1;
        let next = [b"\x01", &[b'a' + asked][..], b"\0"].concat();
        let alias = answer(&question.message, 0, &[record(b"\xc0\x0c", 5, 7, &next)], &[]);
        assert!(lookups.on_message(question.id, &alias, Time::ZERO));
    }
    assert_eq!((asked, told(&mut lookups)), (9, vec![(1, Err(ResolveError::NotFound))]));
}

#[test]
fn what_is_kept_and_asked_is_bounded() {
    let limits = LookupLimits { known: 3, asked: 2, waiting: 3 };
    let mut lookups = lookups(rules(1, |_| {}), limits);
    let now = Time::ZERO;
    for (ticket, name) in [b"a", b"b", b"c", b"a", b"a"].iter().enumerate() {
        lookups.ask(ticket as u64, *name, now);
    }
    let busy = |ticket| (ticket, Err(ResolveError::Busy));
    assert_eq!(told(&mut lookups), [busy(2), busy(4)]);
    while let Some(question) = lookups.poll_question() {
        assert!(lookups.on_message(question.id, &address(&question, 1, 60), now));
    }
    for (ticket, name) in [b"d", b"e", b"f"].iter().enumerate() {
        lookups.ask(ticket as u64, *name, now);
        let question = sent(&mut lookups);
        assert!(lookups.on_message(question.id, &address(&question, 1, 60), now));
    }
    assert_eq!((lookups.known.len(), lookups.order.len(), lookups.waiting), (3, 3, 0));
    assert!(lookups.questions.is_empty() && lookups.lookups.is_empty());
    lookups.ask(9, b"bad..name", now);
    lookups.ask(10, b"", now);
    let bad: Vec<_> = told(&mut lookups).into_iter().filter(|(ticket, _)| *ticket > 8).collect();
    assert_eq!(bad, [(9, Err(ResolveError::BadName)), (10, Err(ResolveError::BadName))]);
}

/// A host of a service, as a record of the answer to a question.
fn host(priority: u16, weight: u16, port: u16, name: &[u8]) -> Vec<u8> {
    let numbers: Vec<u8> = [priority, weight, port].iter().flat_map(|number| number.to_be_bytes()).collect();
    record(b"\xc0\x0c", 33, 20, &[&numbers, name].concat())
}

#[test]
fn hosts_of_a_service_are_resolved_and_told_by_priority() {
    let mut lookups = lookups(rules(1, |_| {}), LookupLimits::default());
    let now = Time::ZERO;
    lookups.ask_service(1, b"http", b"Example", now);
    lookups.ask_service(2, b"_http._tcp", b"example", now);
    let question = sent(&mut lookups);
    assert!(question.message[12..].starts_with(b"\x05_http\x04_tcp\x07example\0\0\x21"));
    let hosts =
        [host(20, 0, 81, b"\x01b\0"), host(10, 5, 82, b"\x01a\0"), host(1, 1, 1, b"\0"), host(30, 1, 83, b"\x01c\0")];
    assert!(lookups.on_message(question.id, &answer(&question.message, 0, &hosts, &[]), now));
    assert!(told(&mut lookups).is_empty());
    while let Some(question) = lookups.poll_question() {
        let told = match question.message[13] {
            b'c' => answer(&question.message, 3, &[], &[]),
            name => address(&question, name, 10),
        };
        assert!(lookups.on_message(question.id, &told, now));
    }
    let answers: Vec<(u64, NameAnswer)> = core::iter::from_fn(|| lookups.poll_answer()).collect();
    assert_eq!(answers.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(), [1, 2]);
    for (_, answer) in answers {
        let Ok(Resolution::Service(all)) = &answer.found else { panic!("{answer:?}") };
        let all: Vec<String> = all.iter().map(described).collect();
        assert_eq!(all, ["10.0.0.97:82 a 10 5", "10.0.0.98:81 b 20 1"]);
        assert_eq!((answer.valid, answer.failed.len()), (10 * SECOND, 1), "as long as the least of them");
        assert_eq!(answer.failed[0], (HostName::parse(b"c").unwrap(), ResolveError::NotFound));
    }
    assert!(lookups.questions.is_empty() && lookups.waiting == 0 && lookups.next_deadline().is_none());
}

#[test]
fn of_one_priority_any_host_is_first_by_weight() {
    let mut lookups = lookups(rules(1, |_| {}), LookupLimits::default());
    let mut first = [0; 2];
    for ticket in 0..400 {
        lookups.ask_service(ticket, b"http", b"example", Time::ZERO);
        let question = lookups.poll_question().unwrap();
        let hosts = [host(1, 3, 1, b"\x01a\0"), host(1, 1, 2, b"\x01b\0")];
        assert!(lookups.on_message(question.id, &answer(&question.message, 0, &hosts, &[]), Time::ZERO));
        while let Some(question) = lookups.poll_question() {
            assert!(lookups.on_message(question.id, &address(&question, question.message[13], 60), Time::ZERO));
        }
        let all = told(&mut lookups)[0].1.clone().unwrap();
        assert_eq!(all.len(), 2);
        first[usize::from(all[0].starts_with("10.0.0.98"))] += 1;
    }
    assert!((250..350).contains(&first[0]), "{first:?}");
}

#[test]
fn a_service_that_is_not_there_fails_like_a_name() {
    let mut lookups = lookups(rules(1, |rules| rules.timeout = 7 * SECOND), LookupLimits::default());
    let now = Time::ZERO;
    let missing = |ticket| (ticket, Err(ResolveError::NotFound));
    for (ticket, code) in [(1, 3), (2, 0)] {
        lookups.ask_service(ticket, b"http", b"example", now);
        let question = sent(&mut lookups);
        assert!(lookups.on_message(question.id, &answer(&question.message, code, &[], &[]), now));
        assert_eq!(told(&mut lookups), [missing(ticket)]);
    }
    // All of its hosts are missing.
    lookups.ask_service(3, b"http", b"example", now);
    let question = sent(&mut lookups);
    assert!(lookups.on_message(question.id, &answer(&question.message, 0, &[host(1, 1, 1, b"\x01a\0")], &[]), now));
    let question = sent(&mut lookups);
    assert!(lookups.on_message(question.id, &answer(&question.message, 3, &[], &[]), now));
    assert_eq!(told(&mut lookups), [missing(3)]);
    // Nobody answers.
    lookups.ask_service(4, b"http", b"example", now);
    sent(&mut lookups);
    lookups.on_time(now + 5 * SECOND);
    sent(&mut lookups);
    lookups.on_time(now + 7 * SECOND);
    assert_eq!(told(&mut lookups), [(4, Err(ResolveError::Timeout))]);
    lookups.ask_service(5, b"no service", b"example", now);
    assert_eq!(told(&mut lookups), [(5, Err(ResolveError::BadName))]);
    assert!(lookups.questions.is_empty() && lookups.waiting == 0 && lookups.next_deadline().is_none());
}

#[test]
fn guesses_lead_to_tcp() {
    let mut lookups = lookups(rules(1, |_| {}), LookupLimits::default());
    lookups.ask(1, b"a", Time::ZERO);
    let question = sent(&mut lookups);
    lookups.on_guesses(question.id, Time::ZERO);
    let again = sent(&mut lookups);
    assert!(again.tcp && again.id == question.id && again.message[..2] != question.message[..2]);
}
