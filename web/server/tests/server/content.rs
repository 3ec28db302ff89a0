//! Responses for content: RFC 9110 sections 8, 9, 13, 14, 15.

use crate::support::{Response, START, Site, World, directory};
use server::{Config, Respond};

fn site() -> (Site, World) {
    let site = Site::new();
    site.write("index.html", "<p>home</p>");
    site.write("a.txt", "0123456789");
    site.write("empty.css", "");
    site.write("big.bin", (0..100_000_u32).map(|at| at as u8).collect::<Vec<_>>());
    site.write("sub/index.html", "<p>sub</p>");
    site.write("bare/x.png", "png");
    for file in ["index.html", "a.txt", "empty.css", "big.bin", "sub/index.html", "bare/x.png"] {
        site.touch(file, START - 1000);
    }
    let world = World::new(site.config());
    (site, world)
}

#[test]
fn a_file_is_served_with_its_metadata() {
    let (_site, mut world) = site();
    let response = world.get("/a.txt");
    assert_eq!((response.status, response.text()), (200, "0123456789"));
    let names: Vec<_> = response.fields.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["Date", "Server", "Content-Type", "Content-Length", "Last-Modified", "ETag", "Accept-Ranges"];
    assert_eq!(names, expected);
    // RFC 9110 §6.6.1, §8.8.2: the clock of the runtime, the time of the file.
    assert_eq!(response.field("Date"), Some("Wed, 21 Oct 2015 07:28:00 GMT"));
    assert_eq!(response.field("Last-Modified"), Some("Wed, 21 Oct 2015 07:11:20 GMT"));
    assert_eq!(response.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(response.field("Server"), Some("nearside"));
}

#[test]
fn the_same_content_has_the_same_strong_tag_and_other_content_another() {
    let (site, mut world) = site();
    site.write("b.txt", "0123456789");
    site.write("c.txt", "012345678_");
    let tags = ["/a.txt", "/b.txt", "/c.txt"].map(|path| world.get(path).field("ETag").expect("a tag").to_string());
    assert_eq!(tags[0], tags[1]);
    assert_ne!(tags[0], tags[2]);
    // RFC 9110 §8.8.3: quoted, strong without `W/`.
    assert!(tags[0].starts_with('"') && tags[0].ends_with('"'));
}

#[test]
fn short_long_and_empty_files_are_served_whole() {
    let (_site, mut world) = site();
    for _ in 0..2 {
        assert_eq!(world.get("/empty.css").body, b"");
        let big = world.get("/big.bin");
        assert_eq!(big.body.len(), 100_000);
        assert!(big.body.iter().enumerate().all(|(at, &byte)| byte == at as u8));
    }
}

#[test]
fn head_gives_the_head_of_get() {
    let (_site, mut world) = site();
    for path in ["/a.txt", "/big.bin", "/none", "/sub", "/bare/"] {
        let get = world.get(path);
        let head = world.fetch(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        // RFC 9110 §9.3.2
        assert_eq!((head.status, &head.fields), (get.status, &get.fields), "{path}");
        assert_eq!(head.body, b"");
    }
}

#[test]
fn directories_have_index_files_or_are_forbidden_and_want_their_slash() {
    let (_site, mut world) = site();
    assert_eq!(world.get("/").text(), "<p>home</p>");
    assert_eq!(world.get("/").field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(world.get("/sub/").text(), "<p>sub</p>");
    assert_eq!(world.get("/bare/").status, 403);
    for (target, location) in [
        ("/sub", "/sub/"),
        ("/bare?x=/../&y", "/bare/?x=/../&y"),
        ("//sub", "/sub/"),
        ("/./sub/../sub", "/sub/"),
        ("http://elsewhere//sub", "/sub/"),
    ] {
        // RFC 9110 §15.4.2
        let response = world.get(target);
        assert_eq!((response.status, response.field("Location")), (301, Some(location)), "{target}");
    }
}

#[test]
fn index_files_are_tried_in_order() {
    let (site, _) = site();
    site.write("sub/index.htm", "htm");
    let mut config = site.config();
    directory(&mut config).index = vec!["index.php".into(), "index.htm".into(), "index.html".into()];
    assert_eq!(World::new(config).get("/sub/").text(), "htm");
}

#[test]
fn what_is_not_there_is_not_found() {
    let (_site, mut world) = site();
    for path in ["/none", "/none/", "/a.txt/", "/a.txt/b", "/sub/none", &format!("/{}", "n".repeat(300))] {
        let response = world.get(path);
        assert_eq!(response.status, 404, "{path}");
        assert!(response.text().contains("404 Not Found"));
        assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
    }
}

#[test]
fn other_methods_are_refused_and_options_says_which_are_not() {
    let (_site, mut world) = site();
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
        // RFC 9110 §15.5.6: with the methods that are allowed.
        let response = world.fetch(format!("{method} /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!((response.status, response.field("Allow")), (405, Some("GET, HEAD, OPTIONS")), "{method}");
    }
    // RFC 9110 §9.3.7
    for target in ["/a.txt", "*"] {
        let response = world.fetch(format!("OPTIONS {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!((response.status, response.field("Allow")), (204, Some("GET, HEAD, OPTIONS")));
        assert_eq!(response.field("Content-Length"), None, "RFC 9110 §8.6: not with a 204");
    }
    // RFC 9110 §15.6.2
    assert_eq!(world.fetch("BREW /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").status, 501);
    assert_eq!(world.fetch("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n").status, 405);
}

#[test]
fn conditions_are_evaluated_in_the_order_of_the_rfc() {
    let (_site, mut world) = site();
    let etag = world.get("/a.txt").field("ETag").expect("a tag").to_string();
    let then = "Wed, 21 Oct 2015 07:11:20 GMT";
    let before = "Wed, 21 Oct 2015 07:11:19 GMT";
    for (fields, status) in [
        // RFC 9110 §13.1.2
        (format!("If-None-Match: {etag}\r\n"), 304),
        (format!("If-None-Match: W/{etag}\r\n"), 304),
        (format!("If-None-Match: \"x\", {etag}\r\n"), 304),
        ("If-None-Match: *\r\n".into(), 304),
        ("If-None-Match: \"x\"\r\n".into(), 200),
        // RFC 9110 §13.1.3: not looked at beside If-None-Match.
        (format!("If-Modified-Since: {then}\r\n"), 304),
        (format!("If-Modified-Since: {before}\r\n"), 200),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {then}\r\n"), 200),
        ("If-Modified-Since: yesterday\r\n".into(), 200),
        // RFC 9110 §13.1.1, §13.1.4
        (format!("If-Match: {etag}\r\n"), 200),
        (format!("If-Match: W/{etag}\r\n"), 412),
        ("If-Match: \"x\"\r\n".into(), 412),
        (format!("If-Unmodified-Since: {then}\r\n"), 200),
        (format!("If-Unmodified-Since: {before}\r\n"), 412),
        (format!("If-Match: {etag}\r\nIf-Unmodified-Since: {before}\r\n"), 200),
    ] {
        let response = world.get_with("/a.txt", &fields);
        assert_eq!(response.status, status, "{fields}");
        if status == 304 {
            // RFC 9110 §15.4.5: what a 200 would have said to a cache.
            assert_eq!(response.field("ETag"), Some(etag.as_str()));
            assert_eq!(response.field("Date"), Some("Wed, 21 Oct 2015 07:28:00 GMT"));
            assert_eq!(response.body, b"");
        }
    }
    assert_eq!(world.get_with("/none", "If-None-Match: *\r\n").status, 404, "there is nothing to compare");
}

#[test]
fn one_range_is_one_part() {
    let (_site, mut world) = site();
    for path in ["/a.txt", "/big.bin"] {
        let whole = world.get(path).body;
        let size = whole.len();
        for (asked, got) in [
            ("0-0", 0..1),
            ("2-5", 2..6),
            ("4-", 4..size),
            ("-3", size - 3..size),
            ("-999999", 0..size),
            ("8-999999", 8..size),
        ] {
            // RFC 9110 §14.4, §15.3.7
            let response = world.get_with(path, &format!("Range: bytes={asked}\r\n"));
            assert_eq!(response.status, 206, "{asked}");
            assert_eq!(response.body, &whole[got.clone()], "{asked}");
            let field = format!("bytes {}-{}/{size}", got.start, got.end - 1);
            assert_eq!(response.field("Content-Range"), Some(field.as_str()));
            assert!(response.field("ETag").is_some() && response.field("Last-Modified").is_some());
        }
    }
}

#[test]
fn several_ranges_are_parts_of_a_multipart_body() {
    let (_site, mut world) = site();
    for (path, kind, size) in
        [("/a.txt", "text/plain; charset=utf-8", 10), ("/big.bin", "application/octet-stream", 100_000)]
    {
        let whole = world.get(path).body;
        let response = world.get_with(path, "Range: bytes=0-1, 4-5,-1\r\n");
        assert_eq!((response.status, response.field("Content-Range")), (206, None));
        let boundary = response.field("Content-Type").expect("a type").strip_prefix("multipart/byteranges; boundary=");
        let boundary = boundary.expect("RFC 9110 §14.6");
        let mut expected = Vec::new();
        for range in [0..2, 4..6, size - 1..size] {
            let (first, last) = (range.start, range.end - 1);
            let part = format!(
                "\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: bytes {first}-{last}/{size}\r\n\r\n"
            );
            expected.extend_from_slice(part.as_bytes());
            expected.extend_from_slice(&whole[range]);
        }
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert_eq!(response.body, expected);
    }
}

#[test]
fn ranges_outside_are_not_satisfiable_and_odd_ones_ignored() {
    let (_site, mut world) = site();
    for asked in ["bytes=10-", "bytes=10-20,99-", "bytes=-0"] {
        // RFC 9110 §15.5.17
        let response = world.get_with("/a.txt", &format!("Range: {asked}\r\n"));
        assert_eq!((response.status, response.field("Content-Range")), (416, Some("bytes */10")), "{asked}");
    }
    for asked in ["lines=1-2", "bytes=5-2", "bytes=x", "bytes"] {
        // RFC 9110 §14.2: what is not understood is ignored.
        assert_eq!(world.get_with("/a.txt", &format!("Range: {asked}\r\n")).status, 200, "{asked}");
    }
    let response = world.fetch("HEAD /a.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n");
    assert_eq!(response.status, 200, "RFC 9110 §14.2: for GET only");
}

#[test]
fn if_range_lets_only_the_same_content_be_continued() {
    let (_site, mut world) = site();
    let etag = world.get("/a.txt").field("ETag").expect("a tag").to_string();
    for (condition, status) in [
        (etag.as_str(), 206),
        ("\"x\"", 200),
        ("Wed, 21 Oct 2015 07:11:20 GMT", 206),
        ("Wed, 21 Oct 2015 07:11:21 GMT", 200),
    ] {
        // RFC 9110 §13.1.5
        let response = world.get_with("/a.txt", &format!("Range: bytes=5-\r\nIf-Range: {condition}\r\n"));
        assert_eq!(response.status, status, "{condition}");
    }
}

#[test]
fn a_fixed_response_answers_everything_alike() {
    let mut world = World::new(Config::respond(Respond::Text("hello\n".into())));
    for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "DELETE /x?y HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let response = world.fetch(request);
        assert_eq!((response.status, response.text()), (200, "hello\n"));
        assert_eq!(response.field("Content-Type"), Some("text/plain; charset=utf-8"));
        assert_eq!(response.field("ETag"), None);
    }
    assert_eq!(world.get_with("/", "Range: bytes=0-1\r\nIf-None-Match: \"x\"\r\n").text(), "hello\n");
    assert_eq!(world.fetch("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").field("Content-Length"), Some("6"));
    assert_eq!(world.fetch("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n").status, 405);
}

#[test]
fn a_fixed_response_can_be_so_many_bytes() {
    for size in [0, 1, 200, 16_384, 16_385, 1_000_000] {
        let mut world = World::new(Config::respond(Respond::Size(size)));
        let response = world.get("/");
        assert_eq!(response.body.len() as u64, size);
        assert!(response.body.iter().all(|byte| byte.is_ascii_graphic() || *byte == b'\n'));
    }
    let config = Config::respond(Respond::Size(server::RESPOND_SIZE_MAX + 1));
    let clock = server::WallClock::new(wire::Time::ZERO, core::time::Duration::ZERO);
    assert!(matches!(server::Server::new(config, clock), Err(server::ConfigError::RespondTooLarge(_))));
}

#[test]
fn the_server_field_can_be_left_out() {
    let (site, _) = site();
    let mut config = site.config();
    config.server_header = false;
    let mut world = World::new(config);
    for path in ["/a.txt", "/none", "/sub"] {
        assert_eq!(world.get(path).field("Server"), None);
    }
}

#[test]
fn the_date_moves_on_each_second_in_every_kind_of_response() {
    let (_site, mut world) = site();
    for (second, path) in [(0, "/a.txt"), (1, "/a.txt"), (2, "/none"), (3, "/big.bin"), (61, "/a.txt")] {
        let now = core::time::Duration::from_secs(second) + core::time::Duration::from_millis(500);
        world.advance(now.saturating_sub(world.net.now.since(wire::Time::ZERO)));
        let date = format!("Wed, 21 Oct 2015 07:2{}:{:02} GMT", 8 + second / 60, second % 60);
        for _ in 0..3 {
            assert_eq!(world.get(path).field("Date"), Some(date.as_str()));
        }
    }
}

#[test]
fn a_message_on_its_way_keeps_its_date_when_the_next_second_begins() {
    let (_site, mut world) = site();
    let slow = world.open();
    world.conn(slow).acks = false;
    for _ in 0..2 {
        world.send(slow, "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    world.advance(core::time::Duration::from_secs(1));
    world.send(slow, "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    world.ack(slow, usize::MAX);
    let got = world.got(slow);
    let mut rest = got.as_slice();
    for second in ["00", "00", "01"] {
        let (response, after) = Response::parse(rest, false);
        assert_eq!(response.field("Date"), Some(format!("Wed, 21 Oct 2015 07:28:{second} GMT").as_str()));
        rest = after;
    }
}
