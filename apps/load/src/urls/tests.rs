use super::*;

fn like() -> Request {
    let mut like = Request::get("10.0.0.2:8080", "/");
    like.headers = vec![("Accept".into(), "*/*".into())];
    like
}

fn parsed(text: &str, secured: bool) -> Result<Vec<Weighted<Request>>, String> {
    let mut read = |file: &str| if file == "body.bin" { Ok(b"content".to_vec()) } else { Err(format!("no {file}")) };
    parse_requests(text, &like(), secured, &mut read).map_err(|why| why.to_string())
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
