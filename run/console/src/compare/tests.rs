use super::answer::{PlainAnswer, Target};
use super::*;

fn plan(urls: [&str; 2]) -> ServersPlan {
    ServersPlan {
        urls: urls.map(str::to_owned),
        starts: [None, None],
        rounds: 5,
        connections: 8,
        duration: Duration::from_millis(500),
        load: vec!["--heads".to_owned(), "browser \"x\"".to_owned()],
        force: false,
        out: None,
        json: false,
    }
}

#[test]
fn an_experiment_is_made_of_any_two_addresses() {
    for urls in [["http://a/", "http://b/\"x\\"], ["http://a/", "http://a/"]] {
        let experiment = Experiment::parse("x", &text(&plan(urls), Path::new("/usr/bin/nearside")).expect("text"), &[])
            .expect("good");
        let arms = experiment.command.expect("commands").arms;
        assert_eq!(arms[1].command[2], urls[1], "the address is not changed by quoting");
        assert_eq!(arms[0].command.last().map(String::as_str), Some("browser \"x\""));
        assert_ne!(arms[0].name, arms[1].name);
    }
}

#[test]
fn answers_are_read_and_what_is_unlike_is_named() {
    let of = |text: &str| PlainAnswer::parse(text.as_bytes());
    let plain = of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").expect("an answer");
    let chunked = of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=1\r\nllo\r\n0\r\n\r\n");
    assert!(plain.unlike(&chunked.expect("chunks")).is_empty(), "the framing is no difference");
    let other = of("HTTP/1.1 404 Not Found\r\nContent-Encoding: gzip\r\n\r\nhi").expect("an answer");
    assert_eq!(
        plain.unlike(&other),
        ["status: 200 and 404", "content coding: none and gzip", "content: 5 bytes and 2"]
    );
    let byte = of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhellO").expect("an answer");
    assert_eq!(plain.unlike(&byte), ["content: 5 bytes each, the first other one at 4"]);
    for wrong in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "SSH-2.0\r\n\r\n",
        "HTTP/1.1 2",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
    ] {
        assert!(of(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn addresses_that_cannot_be_asked_are_refused() {
    for wrong in ["", "localhost:80", "ftp://a/", "http:///x", "http://a/b c", "http://a/\r\nX: y", "http://u@a/"] {
        assert!(Target::parse(wrong).is_err(), "{wrong:?}");
    }
    for right in ["http://localhost", "http://[::1]:80/", "http://a:8080/x?y=z", "https://a/"] {
        assert!(Target::parse(right).is_ok(), "{right}");
    }
}

#[test]
fn a_plain_command_takes_the_shells_place() {
    assert_eq!(words("nginx -c x"), ["sh", "-c", "exec nginx -c x"]);
    assert_eq!(words("cd x && ./serve"), ["sh", "-c", "cd x && ./serve"]);
}

/// Two builds of nginx say how each was built; one with two configurations is one build, and of
/// what is no nginx nothing is asked.
#[test]
fn two_builds_of_nginx_are_asked_how_they_were_built() {
    let of = |first: &str, second: &str| {
        let plan = ServersPlan {
            starts: [first, second].map(|start| Some(start.to_owned())),
            ..plan(["http://a/", "http://b/"])
        };
        let experiment =
            Experiment::parse("x", &text(&plan, Path::new("/usr/bin/nearside")).expect("text"), &[]).expect("good");
        experiment.command.expect("commands").arms.into_iter().map(|arm| arm.build).collect::<Vec<_>>()
    };
    let built = |program: &str| Some([program, "-V"].map(str::to_owned).to_vec());
    assert_eq!(of("/a/nginx -c x", "exec /b/nginx -c y"), [built("/a/nginx"), built("/b/nginx")]);
    assert_eq!(of("/a/nginx -c x", "/a/nginx -c y"), [None, None]);
    assert_eq!(of("/a/nginx", "nearside serve /srv"), [None, None]);
}
