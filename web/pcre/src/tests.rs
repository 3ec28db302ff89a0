use super::*;
use std::sync::Arc;

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern.as_bytes(), RegexOptions::default()).expect(pattern)
}

fn matcher() -> Matcher {
    Matcher::new().expect("memory")
}

#[test]
fn groups_are_told_by_number_and_name() {
    let regex = regex(r"^/(?<kind>\w+)/(\d+)(?:-(\d+))?$");
    assert_eq!(regex.groups(), 3);
    assert_eq!(regex.names(), [("kind".into(), 1)]);
    let mut matcher = matcher();
    let groups = matcher.find(&regex, b"/a/12").unwrap().expect("it matches");
    assert_eq!([0, 1, 2, 3, 4].map(|group| groups.get(group)), [Some(0..5), Some(1..2), Some(3..5), None, None]);
    let groups = matcher.find(&regex, b"/b/1-2").unwrap().expect("it matches");
    assert_eq!(groups.get(3), Some(5..6));
    assert!(matcher.find(&regex, b"/b/").unwrap().is_none());
}

#[test]
fn case_matters_unless_told() {
    let mut matcher = matcher();
    assert!(matcher.find(&regex("a"), b"A").unwrap().is_none());
    let caseless = Regex::new(b"a", RegexOptions { caseless: true }).unwrap();
    assert!(matcher.find(&caseless, b"A").unwrap().is_some());
}

#[test]
fn bytes_are_matched_as_they_are() {
    let mut matcher = matcher();
    assert!(matcher.find(&regex("^.\\x00.$"), b"\xff\0\xfe").unwrap().is_some());
    assert!(matcher.find(&regex("^$"), b"").unwrap().is_some());
    // Where text is wanted, other bytes are an error and no match.
    assert!(matches!(matcher.find(&regex("(*UTF8)^.$"), b"\xff"), Err(MatchError::Other(_))));
    assert!(matcher.find(&regex("(*UTF8)^.$"), "ö".as_bytes()).unwrap().is_some());
}

#[test]
fn what_is_no_expression_is_refused_in_pcres_words() {
    let refused = |pattern: &str| Regex::new(pattern.as_bytes(), RegexOptions::default()).unwrap_err().to_string();
    assert_eq!(refused("("), "missing closing parenthesis at offset 1");
    assert_eq!(refused("a{2,1}"), "numbers out of order in {} quantifier at offset 5");
    assert_eq!(refused("[b-a]"), "range out of order in character class at offset 3");
}

/// Each of these takes a time that doubles with each letter.
#[test]
fn expressions_that_go_astray_end() {
    let mut matcher = matcher();
    let subject = [vec![b'a'; 5_000], vec![b'!']].concat();
    for pattern in ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(x+x+)+y|^(([a-z])+.)+[A-Z]([a-z])+$"] {
        assert_eq!(matcher.find(&regex(pattern), &subject).unwrap_err(), MatchError::Limit, "{pattern}");
    }
    // And the next one is none the worse for it.
    assert!(matcher.find(&regex("^a+!$"), &subject).unwrap().is_some());
    let deep = regex("^(((((((((a)*)*)*)*)*)*)*)*)*$");
    assert!(matcher.find(&deep, &subject).is_err() || matcher.find(&deep, &subject).unwrap().is_none());
}

#[test]
fn more_groups_than_there_is_room_for_are_left_out() {
    let regex = regex(&"(a)?".repeat(100));
    let mut matcher = matcher();
    let groups = matcher.find(&regex, &[b'a'; 100]).unwrap().expect("it matches");
    assert_eq!(groups.get(GROUPS_MAX as usize), Some(63..64));
    assert_eq!(groups.get(GROUPS_MAX as usize + 1), None);
}

#[test]
fn an_expression_is_shared_by_threads() {
    let regex = Arc::new(regex("^(\\w+)-(\\d+)$"));
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let regex = Arc::clone(&regex);
            std::thread::spawn(move || {
                let mut matcher = matcher();
                let subject = format!("thread-{number}");
                (0..10_000).all(|_| {
                    let groups = matcher.find(&regex, subject.as_bytes()).unwrap().expect("it matches");
                    groups.get(1) == Some(0..6) && groups.get(2) == Some(7..8)
                })
            })
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
}
