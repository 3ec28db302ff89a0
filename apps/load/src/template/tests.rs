use super::*;
use crate::plan::{REQUEST_LIMIT, Request};
use std::collections::BTreeSet;

fn feed(order: FeedOrder) -> Feed {
    Feed::read("user,item\nada,1 2\nb\u{f6}b,/&?\nc,\n".as_bytes(), order).expect("right")
}

fn request(path: &str, header: &str, body: &str) -> Request {
    let mut request = Request::get("a", path);
    request.headers = vec![("X".into(), header.into())];
    request.body = body.into();
    request
}

fn read(request: &Request, feed: Option<&Feed>) -> Result<Option<Script>, TemplateError> {
    Script::read((&request.path, &request.headers, &request.body), feed, REQUEST_LIMIT)
}

/// What a script comes to, `times` in a row.
fn filled(request: &Request, feed: Option<Feed>, lane: (u32, u32), times: usize) -> Vec<[String; 3]> {
    let script = read(request, feed.as_ref()).expect("right").expect("there is something to fill in");
    let source = Source { feed: feed.map(Arc::new), epoch: Duration::from_secs(1_700_000_000) };
    let mut filler = Filler::new(source, 1, lane);
    let one = |_| {
        let fill = filler.begin(Time::from_nanos(1_234_567_890));
        let mut parts = [Vec::new(), Vec::new(), Vec::new()];
        filler.path(&script, &fill, &mut parts[0]);
        filler.fields(&script, &fill, true, &mut parts[1]);
        filler.body(&script, &fill, &mut parts[2]);
        parts.map(|part| String::from_utf8(part).expect("UTF-8"))
    };
    (0..times).map(one).collect()
}

#[test]
fn each_word_is_filled_in() {
    let all =
        request("/{{counter}}?u={{csv:user}}&i={{csv:item}}", "{{counter:100}} {{time:ms}}", "{\"{{{{\":{{time}}}");
    let seen = filled(&all, Some(feed(FeedOrder::InTurn)), (0, 1), 4);
    assert_eq!(seen[0], ["/1?u=ada&i=1%202", "X: 100 1700000001234\r\n", "{\"{{\":1700000001}"].map(str::to_owned));
    assert_eq!(seen[1][0], "/2?u=b%C3%B6b&i=%2F%26%3F");
    assert_eq!((&*seen[2][0], &*seen[3][0]), ("/3?u=c&i=", "/4?u=ada&i=1%202"));
    // Elsewhere than in a path cells are as they are.
    let seen = filled(&request("/", "{{csv:user}}", "{{csv:item}}"), Some(feed(FeedOrder::InTurn)), (0, 1), 2);
    assert_eq!((&*seen[1][1], &*seen[1][2]), ("X: b\u{f6}b\r\n", "/&?"));
}

#[test]
fn silos_share_the_numbers_and_the_rows() {
    let both = [0, 1]
        .map(|lane| filled(&request("/{{counter}}", "{{csv:user}}", ""), Some(feed(FeedOrder::InTurn)), (lane, 2), 3));
    let paths: BTreeSet<&str> = both.iter().flatten().map(|parts| &*parts[0]).collect();
    assert_eq!(paths, BTreeSet::from(["/1", "/2", "/3", "/4", "/5", "/6"]));
    let users: Vec<&str> = both.iter().flatten().map(|parts| &*parts[1]).collect();
    assert_eq!(users.iter().filter(|user| **user == "X: ada\r\n").count(), 2, "each row twice: {users:?}");
}

#[test]
fn what_is_drawn_is_in_its_range_and_differs() {
    let seen = filled(
        &request("/{{random:5..7}}/{{choice:a|b|}}", "{{uuid}}", "{{random:0..18446744073709551615}}"),
        None,
        (0, 1),
        400,
    );
    let of = |part: usize| seen.iter().map(move |parts| parts[part].as_str()).collect::<BTreeSet<&str>>();
    let paths: BTreeSet<String> = (5..=7).flat_map(|n| ["a", "b", ""].map(|word| format!("/{n}/{word}"))).collect();
    assert_eq!(of(0), paths.iter().map(String::as_str).collect());
    assert_eq!((of(1).len(), of(2).len()), (400, 400));
    for text in of(1) {
        let text = text.strip_prefix("X: ").and_then(|text| text.strip_suffix("\r\n")).expect("a line");
        let groups: Vec<&str> = text.split('-').collect();
        assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{text}");
        assert!(groups[2].starts_with('4') && groups[3].starts_with(['8', '9', 'a', 'b']), "{text}");
        assert!(text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{text}");
    }
    let rows = filled(&request("/", "{{csv:user}}", ""), Some(feed(FeedOrder::Random)), (0, 1), 300);
    let ada = rows.iter().filter(|parts| parts[1] == "X: ada\r\n").count();
    assert!((60..140).contains(&ada), "{ada} of 300");
}

#[test]
fn what_is_no_template_is_told() {
    let feed = feed(FeedOrder::InTurn);
    for (path, told) in [
        ("/{{counter", "has no }}"),
        ("/{{none}}", "{{none}} is not known: there is counter"),
        ("/{{random:7..5}}", "is not known"),
        ("/{{random:-1..5}}", "is not known"),
        ("/{{counter:+5}}", "is not known"),
        ("/{{csv:nobody}}", "no column 'nobody': there is user, item"),
        (&format!("/{}", "{{uuid}}".repeat(1_025)), "1,024 words"),
        (&format!("/{{{{choice:{}}}}}", "|".repeat(5_000)), "4,096 words"),
    ] {
        let why = read(&request(path, "", ""), Some(&feed)).expect_err(told).to_string();
        assert!(why.contains(told), "{why}");
    }
    let why = read(&request("/{{csv:user}}", "", ""), None).expect_err("no feed").to_string();
    assert!(why.contains("needs a feed"), "{why}");
    assert_eq!(read(&request("/{a}", "}}", "{ {"), None), Ok(None), "the same each time");
    // A cell must not end its line, nor begin another.
    let breaks = Feed::read(b"a\nfine\n\"b\r\nEvil: yes\"\n", FeedOrder::InTurn).expect("right");
    let why = read(&request("/", "{{csv:a}}", ""), Some(&breaks)).expect_err("it breaks out").to_string();
    assert_eq!(why, "X: row 2 of the feed has a control character there");
    assert!(read(&request("/{{csv:a}}", "", "{{csv:a}}"), Some(&breaks)).is_ok(), "there it is harmless");
    let long = Feed::read(format!("a\n{}\n", "x".repeat(900_000)).as_bytes(), FeedOrder::InTurn).expect("right");
    let why = read(&request("/", "", &"{{csv:a}}".repeat(20)), Some(&long)).expect_err("18 MB").to_string();
    assert!(why.contains("16 MiB"), "{why}");
}
