use super::*;
use crate::compiling::Compiling;
use std::sync::Arc;

/// Values are text.
struct Compiler;

impl Compiling for Compiler {
    fn value(&mut self, text: &[u8]) -> Result<Value, String> {
        Value::parse(text, &mut |name| (name == b"k").then_some(1)).map_err(|error| error.to_string())
    }

    fn expression(&mut self, _: &[u8], _: bool) -> Result<u32, String> {
        Ok(0)
    }
}

fn words(text: &str) -> Vec<&[u8]> {
    text.split(' ').map(str::as_bytes).collect()
}

fn zone(text: &str) -> Result<Zone, String> {
    Zone::parse(&words(text), true, &mut Compiler)
}

fn connections(text: &str) -> Result<Zone, String> {
    Zone::parse(&words(text), false, &mut Compiler)
}

/// Rules over these two zones.
fn rules(text: &str) -> LimitRules {
    let mut rules = LimitRules::default();
    for limit in text.split(';') {
        let mut zone = |name: &[u8]| [&b"a"[..], b"b"].iter().position(|known| *known == name).map(|at| at as u16);
        rules.requests.push(RequestLimit::parse(&words(limit.trim()), &mut zone).expect("a limit"));
    }
    rules
}

fn ask(rules: &LimitRules, zones: &[Zone], keys: [&str; 2], now: u64) -> (Option<LimitStatus>, LimitDecision) {
    let mut at = 0;
    let mut write = |_: &Value, out: &mut Vec<u8>| {
        out.extend_from_slice(keys[at % 2].as_bytes());
        at += 1;
    };
    let limited = rules.request(zones, &mut write, now);
    (limited.status, limited.decision)
}

/// What nginx 1.22 wrote into its log for six requests at once.
#[test]
fn requests_leak_as_in_nginx() {
    use LimitDecision::{Delay, Pass, Refuse};
    use LimitStatus::{Delayed, Passed, Rejected, RejectedDryRun};
    let seconds = |seconds| Delay(Duration::from_secs(seconds));
    let six = |rules: &LimitRules, keys: [&str; 2]| {
        let zones = [zone("$k zone=a:32k rate=1r/s").expect("a zone"), zone("$k zone=b:32k rate=120r/m").expect("one")];
        let answers: Vec<_> = (0..6).map(|_| ask(rules, &zones, keys, 1_000_000)).collect();
        answers
    };
    let (passed, rejected) = ((Some(Passed), Pass), (Some(Rejected), Refuse));
    let delayed = |time| (Some(Delayed), seconds(time));
    assert_eq!(
        six(&rules("zone=a burst=3 delay=1"), ["p", ""]),
        [passed, passed, delayed(1), delayed(2), rejected, rejected]
    );
    // Nothing in the second zone's key.
    assert_eq!(
        six(&rules("zone=a burst=2 nodelay; zone=b burst=3"), ["p", ""]),
        [passed, passed, passed, rejected, rejected, rejected]
    );
    let dry = LimitRules { requests_dry_run: true, ..rules("zone=a") };
    let refused = (Some(RejectedDryRun), Pass);
    assert_eq!(six(&dry, ["p", ""]), [passed, refused, refused, refused, refused, refused]);
    assert_eq!(six(&rules("zone=a"), ["p", ""]), [passed, rejected, rejected, rejected, rejected, rejected]);
    assert_eq!(six(&rules("zone=a"), ["", ""]), [(None, Pass); 6]);
    // Two a second, and as many behind them as there may be.
    let half = (Some(Delayed), Delay(Duration::from_millis(500)));
    assert_eq!(
        six(&rules("zone=a burst=9 nodelay; zone=b burst=3"), ["p", "q"])[..4],
        [passed, half, delayed(1), (Some(Delayed), Delay(Duration::from_millis(1_500)))]
    );
}

#[test]
fn what_was_too_much_is_forgotten_in_time() {
    let zones = [zone("$k zone=a:32k rate=2r/s").expect("a zone")];
    let rules = rules("zone=a burst=1 nodelay");
    let at = |now| ask(&rules, &zones, ["p", ""], now).1 == LimitDecision::Pass;
    assert!(at(1_000) && at(1_000) && !at(1_000), "one and a burst of one");
    assert!(!at(1_400), "nine tenths of one");
    assert!(at(1_500) && !at(1_500));
    // A clock that is a little behind, and one that was set back.
    assert!(!at(1_400));
    assert!(at(9_000_000) && at(9_000_000) && !at(9_000_000));
    assert!(!at(9_000_000 - 50_000) && !at(9_000_000 - 70_000));
    assert!(at(1_000_000_000));
}

/// However many clients come, a zone stays within its memory; the oldest gives
/// way.
#[test]
fn a_zone_is_bounded() {
    let zones = [zone("$k zone=a:32k rate=1r/m").expect("a zone")];
    let rules = rules("zone=a");
    for client in 0..10_000 {
        let key = format!("client {client}");
        assert_eq!(ask(&rules, &zones, [&key, ""], 1_000).1, LimitDecision::Pass);
        assert_eq!(ask(&rules, &zones, [&key, ""], 1_000).1, LimitDecision::Refuse, "{client} is known");
    }
    // 128 bytes for each.
    assert!((200..=256).contains(&zones[0].table.len()), "{}", zones[0].table.len());
    // What is empty for long makes room before.
    for _ in 0..200 {
        ask(&rules, &zones, ["one", ""], 10_000_000);
        ask(&rules, &zones, [&"long".repeat(100), ""], 10_000_000);
    }
    assert_eq!(ask(&rules, &zones, [&"x".repeat(70_000), ""], 0).0, None, "no key is so long");
}

#[test]
fn connections_count_while_they_are_held() {
    let zones = [connections("$k zone=c:32k").expect("a zone"), connections("$k zone=d:32k").expect("a zone")];
    let limit = |text: &str, zone: u16| ConnectionLimit::parse(&words(text), &mut |_| Some(zone)).expect("a limit");
    let rules = LimitRules { connections: vec![limit("c 2", 0), limit("d 1", 1)], ..LimitRules::default() };
    let ask = |rules: &LimitRules, keys: [&str; 2]| {
        let (mut at, mut held) = (0, Vec::new());
        let mut write = |_: &Value, out: &mut Vec<u8>| {
            out.extend_from_slice(keys[at].as_bytes());
            at += 1;
        };
        let limited = rules.connection(&zones, &mut write, &mut held);
        (limited.status.map(LimitStatus::text), limited.decision, held)
    };
    let (status, decision, one) = ask(&rules, ["a", "x"]);
    assert_eq!((status, decision, one.len()), (Some(&b"PASSED"[..]), LimitDecision::Pass, 2));
    let (status, decision, none) = ask(&rules, ["a", "x"]);
    assert_eq!((status, decision, none.len()), (Some(&b"REJECTED"[..]), LimitDecision::Refuse, 0));
    // What was refused by the second is not counted by the first.
    let (_, decision, two) = ask(&rules, ["a", "y"]);
    assert_eq!(decision, LimitDecision::Pass);
    assert_eq!(ask(&rules, ["a", "z"]).1, LimitDecision::Refuse);
    let dry = LimitRules { connections_dry_run: true, ..rules.clone() };
    let (status, decision, none) = ask(&dry, ["a", "z"]);
    assert_eq!((status, decision, none.len()), (Some(&b"REJECTED_DRY_RUN"[..]), LimitDecision::Pass, 0));
    drop(one);
    let (_, decision, _held) = ask(&rules, ["a", "x"]);
    assert_eq!(decision, LimitDecision::Pass);
    drop((two, _held));
    assert_eq!((zones[0].table.len(), zones[1].table.len()), (0, 0));
    let (status, _, none) = ask(&rules, ["", &"k".repeat(256)]);
    assert_eq!((status, none.len()), (None, 0));
    // A zone that is full refuses: what is held cannot be forgotten.
    let mut all = Vec::new();
    for client in 0..10_000 {
        all.push(ask(&rules, [&client.to_string(), ""]).2);
    }
    let held: usize = all.iter().map(Vec::len).sum();
    assert_eq!((held, zones[0].table.len()), (512, 512));
}

#[test]
fn silos_count_together() {
    let zones = Arc::new([zone("$k zone=a:32k rate=1r/m").expect("a zone"), connections("$k zone=c:1m").expect("one")]);
    let rules = Arc::new(LimitRules {
        connections: vec![ConnectionLimit { zone: 1, most: 3 }],
        ..rules("zone=a burst=99 nodelay")
    });
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (zones, rules) = (Arc::clone(&zones), Arc::clone(&rules));
            std::thread::spawn(move || {
                let mut write = |_: &Value, out: &mut Vec<u8>| out.push(b'k');
                let mut passed = 0;
                for _ in 0..1_000 {
                    let mut held = Vec::new();
                    rules.connection(&*zones, &mut write, &mut held);
                    passed += usize::from(rules.request(&*zones, &mut write, 5).decision == LimitDecision::Pass);
                }
                passed
            })
        })
        .collect();
    let passed: usize = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    assert_eq!((passed, zones[1].table.len()), (100, 0));
}

#[test]
fn a_zone_goes_on_with_what_was_counted() {
    let old = [zone("$k zone=a:32k rate=1r/m").expect("a zone")];
    let rules = rules("zone=a");
    assert_eq!(ask(&rules, &old, ["p", ""], 5).1, LimitDecision::Pass);
    let mut new = [zone("$k zone=a:32k rate=2r/m").expect("a zone")];
    new[0].inherit(&old).expect("the same key");
    assert_eq!(ask(&rules, &new, ["p", ""], 5).1, LimitDecision::Refuse);
    let mut larger = zone("$k zone=a:64k").expect("a zone");
    larger.inherit(&old).expect("another");
    assert!(!Arc::ptr_eq(&larger.table, &old[0].table));
    let said = zone("x$k zone=a:32k").expect("a zone").inherit(&old).expect_err("another key");
    assert_eq!(said, "limit_req \"a\" uses the \"x$k\" key while previously it used the \"$k\" key");
}

#[test]
fn what_is_wrong_is_said_in_nginxs_words() {
    for (text, said) in [
        ("$k zone=a", "invalid zone size \"zone=a\""),
        ("$k zone=a:x", "invalid zone size \"zone=a:x\""),
        ("$k zone=a:31k", "zone \"zone=a:31k\" is too small"),
        ("$k zone=a:32k rate=0r/s", "invalid rate \"rate=0r/s\""),
        ("$k zone=a:32k rate=1r/h", "invalid rate \"rate=1r/h\""),
        ("$k zone=a:32k burst=1", "invalid parameter \"burst=1\""),
        ("$k rate=1r/s", "\"limit_req_zone\" must have \"zone\" parameter"),
        ("$none zone=a:32k", "unknown \"none\" variable"),
    ] {
        assert_eq!(zone(text).expect_err(text), said, "{text}");
    }
    assert_eq!(connections("$k zone=a:32k rate=1r/s").expect_err("none"), "invalid parameter \"rate=1r/s\"");
    assert_eq!(connections("$k").expect_err("none"), "\"limit_conn_zone\" must have \"zone\" parameter");
    assert_eq!(zone("$k zone=a:1m rate=30r/m").map(|zone| zone.kind), Ok(ZoneKind::Requests(500)));
    let mut known = |name: &[u8]| (name == b"a").then_some(0);
    for (text, said) in [
        ("burst=1", "\"limit_req\" must have \"zone\" parameter"),
        ("zone=b", "zero size shared memory zone \"b\""),
        ("zone=a burst=0", "invalid burst value \"burst=0\""),
        ("zone=a delay=x", "invalid delay value \"delay=x\""),
        ("zone=a x", "invalid parameter \"x\""),
    ] {
        assert_eq!(RequestLimit::parse(&words(text), &mut known).expect_err(text), said, "{text}");
    }
    for (text, said) in [
        ("b 1", "zero size shared memory zone \"b\""),
        ("a 0", "invalid number of connections \"0\""),
        ("a 65536", "connection limit must be less 65536"),
    ] {
        assert_eq!(ConnectionLimit::parse(&words(text), &mut known).expect_err(text), said, "{text}");
    }
}
