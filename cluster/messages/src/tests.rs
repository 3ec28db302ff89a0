use super::*;
use wire::Time;

type Message = FromWorker<u64, u64>;

fn hello() -> Hello {
    Hello { token: Token::new(7), worker: 3, instance: 9, version: version() }
}

fn all() -> Vec<Message> {
    vec![
        FromWorker::Hello(hello()),
        FromWorker::Ready(Readiness { open: 4, silos: 1, setup: "{}".to_owned() }),
        FromWorker::Echo(Echo { number: 1, received_ns: 2, sent_ns: 3 }),
        FromWorker::Beat(Beat { standing: Standing::Loading, start_ns: Some(5), ..Beat::default() }),
        FromWorker::Interval(Counted { number: 6, place: 5, interval: 17 }),
        FromWorker::Measured(18),
        FromWorker::Failed("no route".to_owned()),
    ]
}

#[test]
fn each_message_is_a_line_and_comes_back_from_it() {
    for message in all() {
        let line = message.line();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(Message::read(&line[..line.len() - 1]).as_ref(), Ok(&message));
    }
    for order in [
        ToWorker::Probe { number: 4 },
        ToWorker::Start { at_ns: 7 },
        ToWorker::Have { intervals: u64::MAX },
        ToWorker::Stop,
        ToWorker::Bye,
    ] {
        let line = order.line();
        assert!(line.len() <= ORDER_LIMIT && line.ends_with(b"\n"));
        assert_eq!(ToWorker::read(&line[..line.len() - 1]), Ok(order));
    }
}

/// Bytes of messages changed, cut and doubled: each is read or refused.
#[test]
fn whatever_comes_is_a_message_or_an_error_in_words_that_may_be_shown() {
    let mut random = random::SplitMix64::new(47);
    let lines: Vec<Vec<u8>> = all().iter().map(Message::line).collect();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut line = lines[random.below(lines.len())].clone();
        for _ in 0..=random.below(4) {
            let at = random.below(line.len().max(1)).min(line.len().saturating_sub(1));
            match random.below(4) {
                0 if !line.is_empty() => line[at] = random.bits() as u8,
                1 => line.truncate(at),
                2 => line.extend_from_within(at..),
                _ => line.insert(at, b"0123456789{}[]\",:-e."[random.below(20)]),
            }
        }
        match Message::read(&line) {
            Ok(Message::Failed(words)) => assert!(!words.chars().any(char::is_control)),
            Ok(_) => read += 1,
            Err(why) => {
                refused += 1;
                assert!(why.0.is_ascii() && why.0.len() < 100, "{why}");
            }
        }
        let _ = ToWorker::read(&line);
    }
    assert!(read > 100 && refused > 10_000, "{read} {refused}");
}

#[test]
fn words_of_a_worker_are_shown_in_one_short_line() {
    let Ok(Message::Failed(why)) = Message::read(br#"{"failed":"a\u001b[2J\nb\n"}"#) else { panic!("no failure") };
    assert_eq!(why, "a [2J b");
    assert_eq!(shown(&"x".repeat(10_000)).len(), WORDS_LIMIT);
    assert!(Message::read(br#"{"hello":{"token":"x","worker":0,"instance":0,"version":"1","more":1}}"#).is_err());
}

#[test]
fn a_token_is_32_digits_and_is_not_printed() {
    let token = Token::new(0xabc);
    assert_eq!(Token::read(token.text()), Some(token.clone()));
    assert_eq!([token == Token::new(0xabd), token == Token::new(0xabc)], [false, true]);
    assert!(Token::read("abc").is_none() && Token::read(&"g".repeat(32)).is_none());
    // Those that come of one are as many as there are names, and others of another.
    let names = ["node-1", "node-2", "", "node-1 "];
    let all: Vec<String> = names.iter().map(|name| token.derived(name).text().to_owned()).collect();
    assert!(all.iter().all(|text| Token::read(text).is_some() && text != token.text()), "{all:?}");
    let kinds: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(kinds.len(), names.len());
    assert!(
        Token::new(0xabc).derived("node-1").text() == all[0] && Token::new(0xabd).derived("node-1").text() != all[0]
    );
    assert!(!format!("{:?}", hello()).contains(token.text()));
    let short: Token = serde_json::from_str("\"abc\"").expect("a text");
    assert!(short != token);
}

#[test]
fn lines_are_put_together_from_any_pieces_and_have_a_limit() {
    let text = b"one\n\nthree is longer\nrest";
    for step in 1..=text.len() {
        let mut lines = Lines::new(16);
        let mut seen = Vec::new();
        for piece in text.chunks(step) {
            lines.push(piece);
            while let Some(line) = lines.next().expect("short") {
                seen.push(line.to_vec());
            }
        }
        assert_eq!(seen, [&b"one"[..], b"", b"three is longer"], "{step}");
    }
    let mut lines = Lines::new(4);
    lines.push(b"12345");
    assert_eq!(lines.next(), Err(LineTooLong));
    let mut lines = Lines::new(4);
    lines.push(b"1234\n12345\n");
    assert_eq!(lines.next(), Ok(Some(&b"1234"[..])));
    assert_eq!(lines.next(), Err(LineTooLong));
    let mut lines = Lines::new(4);
    lines.push(b"1234\n");
    lines.limit(5);
    assert_eq!(lines.next(), Ok(Some(&b"1234"[..])));
    lines.push(b"12345\n");
    assert_eq!(lines.next(), Ok(Some(&b"12345"[..])));
}

#[test]
fn a_worker_says_again_what_was_not_answered_and_begins_once() {
    let at = Time::from_millis;
    let mut worker: Reporter<u64, u64> = Reporter::new(hello(), at(0));
    let sent = |worker: &mut Reporter<u64, u64>, now| -> Vec<Message> {
        core::iter::from_fn(|| worker.poll_send(at(now))).collect()
    };
    assert!(matches!(sent(&mut worker, 0)[..], [FromWorker::Hello(_), FromWorker::Beat(_)]));
    assert_eq!(worker.next_deadline(), at(0) + BEAT_EVERY);
    worker.on_message(ToWorker::Start { at_ns: 1 }, at(1), at(1));
    assert_eq!(worker.start(), None, "it is not ready");
    worker.on_message(ToWorker::Probe { number: 5 }, at(2), at(3));
    let echo = Echo { number: 5, received_ns: 2_000_000, sent_ns: 3_000_000 };
    assert_eq!(sent(&mut worker, 3), [FromWorker::Echo(echo)]);
    worker.on_ready(Readiness::default(), at(10));
    assert!(matches!(sent(&mut worker, 10)[..], [FromWorker::Ready(_)]));
    assert!(matches!(sent(&mut worker, 2_010)[..], [FromWorker::Beat(_), FromWorker::Ready(_)]), "not answered");
    for at_ns in [5_000, 6_000] {
        worker.on_message(ToWorker::Start { at_ns }, at(2_020), at(2_020));
    }
    assert_eq!(worker.start(), Some(Time::from_nanos(5_000)), "the first time counts");
    let beats = sent(&mut worker, 2_020);
    let [FromWorker::Beat(beat)] = &beats[..] else { panic!("{beats:?}") };
    assert_eq!((beat.standing, beat.start_ns), (Standing::Loading, Some(5_000)));
    worker.on_measured(77, at(3_000));
    assert!(matches!(sent(&mut worker, 3_000)[..], [FromWorker::Beat(_), FromWorker::Measured(77)]));
    worker.on_connected(at(3_100));
    let again = sent(&mut worker, 3_100);
    // Another controller does not know what it was ready for.
    let [FromWorker::Hello(_), FromWorker::Beat(_), FromWorker::Ready(_), FromWorker::Measured(77)] = again[..] else {
        panic!("{again:?}")
    };
    assert!(matches!(sent(&mut worker, 5_100)[..], [FromWorker::Beat(_), FromWorker::Measured(77)]), "not answered");
    worker.on_message(ToWorker::Kept, at(5_200), at(5_200));
    assert!(matches!(sent(&mut worker, 9_000)[..], [FromWorker::Beat(_)]), "it is there");
    worker.on_connected(at(9_100));
    let again = sent(&mut worker, 9_100);
    assert!(matches!(again.last(), Some(FromWorker::Measured(77))), "another controller may want it: {again:?}");
    assert!(!worker.is_over() && !worker.is_stopped());
    worker.on_message(ToWorker::Bye, at(9_200), at(9_200));
    assert!(worker.is_over() && worker.is_stopped());
    assert!(worker.next_deadline() <= at(9_100) + BEAT_EVERY);
}

#[test]
fn intervals_are_said_again_on_another_connection_until_the_controller_has_them() {
    let at = Time::from_millis;
    let mut worker: Reporter<u64, u64> = Reporter::new(hello(), at(0));
    let sent = |worker: &mut Reporter<u64, u64>, now| -> Vec<Message> {
        core::iter::from_fn(|| worker.poll_send(at(now))).filter(|word| !matches!(word, FromWorker::Beat(_))).collect()
    };
    let interval = |number, interval| FromWorker::Interval(Counted { number, place: number + 10, interval });
    sent(&mut worker, 0);
    for n in 0..4 {
        assert_eq!(worker.next_interval(), n);
        worker.on_interval(n + 10, 100 + n, 50);
    }
    assert_eq!(sent(&mut worker, 1), [interval(0, 100), interval(1, 101), interval(2, 102), interval(3, 103)]);
    assert_eq!(sent(&mut worker, 1), [], "each once");
    worker.on_message(ToWorker::Have { intervals: 2 }, at(2), at(2));
    worker.on_failed("no route");
    worker.on_measured(77, at(2));
    let all = || [interval(2, 102), interval(3, 103), FromWorker::Measured(77)];
    assert_eq!(sent(&mut worker, 2), [FromWorker::Failed("no route".to_owned()), FromWorker::Measured(77)]);
    // What was said before the way broke may not have come; and what was measured comes after all of it.
    worker.on_connected(at(3));
    let again = sent(&mut worker, 3);
    assert_eq!(again[..2], [FromWorker::Hello(hello()), FromWorker::Failed("no route".to_owned())]);
    assert_eq!(again[2..], all());
    // Another controller may say that it has fewer, or more than there are.
    worker.on_message(ToWorker::Have { intervals: 0 }, at(4), at(4));
    worker.on_connected(at(5));
    assert_eq!(sent(&mut worker, 5)[2..], all());
    worker.on_message(ToWorker::Have { intervals: u64::MAX }, at(6), at(6));
    worker.on_connected(at(7));
    assert_eq!(sent(&mut worker, 7)[2..], [FromWorker::Measured(77)]);
    worker.on_interval(14, 104, 50);
    assert_eq!(sent(&mut worker, 7), [interval(4, 104)]);
}

#[test]
fn intervals_that_nobody_takes_have_a_limit_and_the_latest_are_kept() {
    let at = Time::from_millis;
    let mut worker: Reporter<u64, u64> = Reporter::new(hello(), at(0));
    let mut kept = |count: u64, bytes: usize| -> Vec<u64> {
        (0..count).for_each(|n| worker.on_interval(n, n, bytes));
        worker.on_connected(at(1));
        let all = core::iter::from_fn(|| worker.poll_send(at(1)));
        all.filter_map(|word| if let FromWorker::Interval(one) = word { Some(one.number) } else { None }).collect()
    };
    assert_eq!(kept(20, 1 << 20), [16, 17, 18, 19]);
    assert_eq!(kept(1, usize::MAX), [20], "the last, however long");
    let many = kept(5_000, 1);
    assert_eq!((many.len(), many.last()), (4_096, Some(&5_020)));
}
