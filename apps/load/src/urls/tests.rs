use super::*;

fn like() -> Request {
    let mut like = Request::get("10.0.0.2:8080", "/");
    like.headers = vec![("Accept".into(), "*/*".into())];
    like
}

fn parsed(text: &str, secured: bool) -> Result<Vec<Weighted<Request>>, String> {
    let mut read = |file: &str| if file == "body.bin" { Ok(b"content".to_vec()) } else { Err(format!("no {file}")) };
    let requests = parse_requests(text, (&like(), "10.0.0.2:8080"), secured, &mut read);
    requests.map(|requests| requests.list).map_err(|why| why.to_string())
}

#[test]
fn each_line_is_a_request() {
    let text =
        "# a list\n\n/a\r\n  3 /b?c=d\n2 HEAD /e#part\nPOST http://10.0.0.2:8080\n7 http://10.0.0.2:8080?q\n4 /[8-9]\n";
    let all = parsed(text, false).expect("right");
    let seen: Vec<_> = all.iter().map(|one| (one.weight, &*one.item.method, &*one.item.path)).collect();
    let expected = [
        (1, "GET", "/a"),
        (3, "GET", "/b?c=d"),
        (2, "HEAD", "/e"),
        (1, "POST", "/"),
        (7, "GET", "/?q"),
        (4, "GET", "/8"),
        (4, "GET", "/9"),
    ];
    assert_eq!(seen, expected);
    assert!(all.iter().all(|request| request.item.headers == like().headers));
    assert_eq!(parsed("https://10.0.0.2:8080/x", true).expect("right")[0].item.path, "/x");
}

#[test]
fn targets_of_vegeta_are_taken() {
    let text = "POST http://10.0.0.2:8080/a\nX-Id: 7:8\nContent-Type: text/plain\n@body.bin\n\nGET http://10.0.0.2:8080/b\nHost: other.example\nGET /c\n";
    let all = parsed(text, false).expect("right");
    let seen: Vec<_> =
        all.iter().map(|one| (&*one.item.path, &*one.item.host, one.item.headers.len(), one.item.body.len())).collect();
    assert_eq!(seen, [("/a", "10.0.0.2:8080", 3, 7), ("/b", "other.example", 1, 0), ("/c", "10.0.0.2:8080", 1, 0)]);
    assert_eq!(all[0].item.headers[1], ("X-Id".into(), "7:8".into()));
}

#[test]
fn objects_are_requests_with_what_their_answers_are_to_be() {
    let text = r#"{"method":"PUT","url":"/a/[1-2]","header":{"X":["1","2"],"Y":"3"},"body":"aGk=","weight":5}
{"url":"/b","text":"plain","want":{"status":201,"header":["X-A","X-B: c"],"body":"ok","regex":"^o.$","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}"#;
    let all = parsed(text, false).expect("right");
    let seen: Vec<_> =
        all.iter().map(|one| (one.weight, &*one.item.path, one.item.headers.len(), &*one.item.body)).collect();
    assert_eq!(seen, [(5, "/a/1", 4, &b"hi"[..]), (5, "/a/2", 4, b"hi"), (1, "/b", 1, b"plain")]);
    assert_eq!(all[2].item.expect, Some(Expect { length: None, status: Some(201) }));
    assert_eq!(all[2].item.checks.as_ref().map(|checks| checks.len()), Some(5));
    assert!(all[0].item.checks.is_none());
}

#[test]
fn what_cannot_be_read_is_refused_by_line() {
    for (text, told) in [
        ("", "line 1: there is no request"),
        ("# none\n", "line 1: there is no request"),
        ("/a\nb", "line 2: 'b' is neither a path nor a URL"),
        ("/a\n\n1 2 3 /c", "line 3: write WEIGHT"),
        ("/\n0 /", "line 2: a weight"),
        ("5", "neither a path"),
        ("CONNECT /a", "the method"),
        ("http:///a", "another server"),
        ("http://b/", "another server than 10.0.0.2:8080"),
        ("https://10.0.0.2:8080/", "asked over HTTPS, and the server over HTTP"),
        ("/\u{e4}", "non-ASCII"),
        ("ftp://h/a", "neither a path"),
        ("X: y", "neither a path"),
        ("@body.bin", "no request stands above"),
        ("/a\n@other", "line 2: no other"),
        ("/a\nContent-Length: 5", "line 2: Connection, Content-Length"),
        ("/a\n\nX: y", "line 3: "),
        ("/[9-1]", "upwards"),
        ("{\"url\":\"/a\",\"nothing\":1}", "unknown field"),
        ("{\"url\":\"/a\",\"body\":\"?\"}", "no Base64"),
        ("{\"url\":\"/a\",\"body\":\"\",\"text\":\"\"}", "a body or a text"),
        ("{\"url\":\"/a\",\"want\":{\"regex\":\"(\"}}", "want: regex"),
        ("{\"url\":\"/a\",\"want\":{\"sha256\":\"1\"}}", "64 hexadecimal"),
        ("{\"url\":\"/a\",\"header\":{\"A\":\"b\\r\\nC: d\"}}", "control characters"),
        ("{\"url\":\"/a\"", "line 1: EOF"),
    ] {
        let why = parsed(text, false).expect_err(text);
        assert!(why.contains(told), "{text}: {why}");
    }
    assert!(parsed("http://10.0.0.2:8080/", true).is_err_and(|why| why.contains("over HTTP,")));
    assert!(parsed(&"/a\n".repeat(65_537), false).is_err_and(|why| why.contains("line 65537: there may be 65536")));
}

/// Weight, method, path and what is said, of a record asked of another name.
fn recorded(text: &str, named: &str) -> (Vec<(u32, String, String)>, String) {
    let mut none = |_: &str| Err("nothing is read".to_owned());
    let requests = parse_requests(text, (&like(), named), false, &mut none).expect("a record");
    let each = |one: &Weighted<Request>| (one.weight, one.item.method.clone(), one.item.path.clone());
    (requests.list.iter().map(each).collect(), requests.told.expect("of a record it is said"))
}

fn weighed(all: &[(u32, &str, &str)]) -> Vec<(u32, String, String)> {
    all.iter().map(|(weight, method, path)| (*weight, (*method).to_owned(), (*path).to_owned())).collect()
}

#[test]
fn access_logs_are_lists_of_what_they_can_say() {
    let text = r#"10.1.0.1 - - [10/Oct/2025:13:55:36 +0000] "GET /a?b=[1-2] HTTP/1.1" 200 2326
www.example:80 10.1.0.1 - bob [10/Oct/2025:13:55:36 +0000] "HEAD /h HTTP/1.0" 200 0 "-" "agent \"x\""
2025-10-10T13:55:36+00:00 0.003 10.1.0.2 "GET /a?b=[1-2] HTTP/2.0" 304 0 "https://from.example/" "GET the agent"
10.1.0.3 - - [10/Oct/2025:13:55:37 +0000] "POST /form HTTP/1.1" 302 0 "-" "x"
10.1.0.3 - - [10/Oct/2025:13:55:37 +0000] "POST /form2 HTTP/1.1" 302 0 "-" "x"
10.1.0.4 - - [10/Oct/2025:13:55:38 +0000] "\x16\x03\x01" 400 150 "-" "-"
10.1.0.4 - - [10/Oct/2025:13:55:38 +0000] "-" 400 0 "-" "-"
10.1.0.5 - - [10/Oct/2025:13:55:39 +0000] "GET /q\x22 HTTP/1.1" 404 5 "-" "-"
10.1.0.5 - - [10/Oct/2025:13:55:39 +0000] "GET /\xE4 HTTP/1.1" 404 5 "-" "-"
10.1.0.6 - - [10/Oct/2025:13:55:40 +0000] "GET http://other.example/ HTTP/1.1" 400 5 "-" "-"
10.1.0.6 - - [10/Oct/2025:13:55:40 +0000] "PROPFIND / HTTP/1.1" 405 5 "-" "-"
cut off in the mid
"#;
    let (all, told) = recorded(text, "10.0.0.2:8080");
    assert_eq!(all, weighed(&[(2, "GET", "/a?b=[1-2]"), (1, "HEAD", "/h"), (1, "GET", "/q\"")]));
    for part in [
        "4 of 12 lines are taken, as 3 different requests",
        "no request in it: 3 (the first: line 6)",
        "POST, whose content no log has: 2 (the first: line 4)",
        "a target that is no path: 1 (line 10)",
        "a method other than GET, HEAD and OPTIONS: 1 (line 11)",
        "a path with bytes that none may have: 1 (line 9)",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn logs_of_objects_are_read_as_nginx_and_caddy_write_them() {
    let text = r#"{"time":"t","request":"GET /a HTTP/1.1","status":"200"}
{"request_method":"GET","request_uri":"/b?c=1","args":"c=1"}
{"request_method":"HEAD","uri":"/d","args":"e=2"}
{"level":"info","request":{"method":"GET","host":"h","uri":"/a","headers":{}},"status":200}
{"level":"info","msg":"started"}
"#;
    let (all, told) = recorded(text, "h");
    assert_eq!(all, weighed(&[(2, "GET", "/a"), (1, "GET", "/b?c=1"), (1, "HEAD", "/d?e=2")]));
    assert!(told.ends_with("; left out: no request in it: 1 (line 5)"), "{told}");
}

#[test]
fn archives_have_headers_and_content_as_they_were_sent() {
    let entry = |method: &str, url: &str, more: &str| {
        format!(
            r#"{{"startedDateTime":"t","request":{{"method":"{method}","url":"{url}","headers":[{{"name":":authority","value":"w"}},{{"name":"Host","value":"w"}},{{"name":"X-A","value":"1"}},{{"name":"accept","value":"text/html"}}]{more}}},"response":{{}}}}"#
        )
    };
    let entries = [
        entry("GET", "https://www.example/a?b#c", ""),
        entry("GET", "https://www.example:443/a?b", ""),
        entry("POST", "http://10.0.0.2:8080", r#","postData":{"mimeType":"text/plain","text":"hi"}"#),
        entry("POST", "https://www.example/f", r#","postData":{"mimeType":"multipart/form-data","params":[]}"#),
        entry("GET", "https://cdn.example/x.js", ""),
        entry("GET", "wss://www.example/socket", ""),
        entry("GET", "data:image/png;base64,AA", ""),
    ];
    let text = format!("\u{feff}{{\n \"log\": {{\"version\":\"1.2\",\"entries\": [{}]}}}}", entries.join(",\n"));
    let (all, told) = recorded(&text, "www.example");
    assert_eq!(all, weighed(&[(2, "GET", "/a?b"), (1, "POST", "/")]));
    for part in [
        "3 of 7 entries are taken, as 2 different requests",
        "of cdn.example (--header 'Host: cdn.example' takes these): 1 (entry 5)",
        "content that was not recorded: 1 (entry 4)",
        "of wss: 1 (entry 6)",
        "of no server: 1 (entry 7)",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let mut none = |_: &str| Err(String::new());
    let list = parse_requests(&text, (&like(), "www.example"), false, &mut none).expect("an archive").list;
    // The command line's Accept stands in the place of the recorded one.
    assert_eq!(list[1].item.headers, [("Accept".into(), "*/*".into()), ("X-A".into(), "1".into())]);
    assert_eq!((&*list[1].item.body, &*list[1].item.host), (&b"hi"[..], "10.0.0.2:8080"));
    let elsewhere = parse_requests(&text.replace("10.0.0.2:8080", "h"), (&like(), "h2"), false, &mut none);
    let why = elsewhere.expect_err("of other servers").to_string();
    assert!(why.contains("of 7 entries none is a request to 10.0.0.2:8080: of www.example"), "{why}");
    let cut = parse_requests(&text[..text.len() - 9], (&like(), "h"), false, &mut none).expect_err("cut off");
    assert!(cut.to_string().contains("begins as an HTTP archive"), "{cut}");
}

#[test]
fn of_more_requests_than_there_may_be_the_most_frequent_are_taken() {
    let mut text: String = (0..65_540).map(|at| format!("- \"GET /{at} HTTP/1.1\" 200\n")).collect();
    text += "- \"GET /65539 HTTP/1.1\" 200\n";
    let (all, told) = recorded(&text, "h");
    assert_eq!((all.len(), &all[0]), (65_536, &(2, "GET".to_owned(), "/65539".to_owned())));
    assert!(told.contains("65537 of 65541 lines") && told.contains("asked for most: 4"), "{told}");
}
