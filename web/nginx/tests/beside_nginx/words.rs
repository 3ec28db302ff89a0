//! What is said of wrong configurations, beside what nginx says of the same.

use crate::process::Folder;
use nginx::{Configuration, Disk, ValueForm, rules};
use random::SplitMix64;

/// What both say of a configuration: the first reason to refuse it.
fn asked(folder: &Folder, text: &[u8]) -> (Option<String>, Option<String>) {
    let theirs = folder.refusal(text).map(|said| format!("[emerg] {said}"));
    let ours = Configuration::read(&mut Disk, &folder.configuration(), b"").err().map(|why| why.to_string());
    (ours, theirs)
}

/// Starts of reasons that belong to the language.
const OURS: [&str; 9] = [
    "unexpected ",
    "unknown directive",
    "invalid number of arguments",
    "too long parameter",
    "\"include\"",
    "open()",
    "pread()",
    "directive \"",
    "block directives",
];

/// Ends, before the place.
const OUR_ENDS: [&str; 6] = [
    "directive is not allowed here",
    "directive is duplicate",
    "directive invalid value",
    "directive invalid number",
    "it must be \"on\" or \"off\"",
    "value must be between 1 and 9",
];

fn is_ours(said: &str) -> bool {
    let text = said.trim_start_matches("[emerg] ");
    let text = text.rsplit_once(" in ").map_or(text, |(text, _)| text);
    let ends = || OUR_ENDS.iter().any(|end| text.ends_with(end));
    OURS.iter().any(|start| text.starts_with(start)) || ends() && !is_of_meaning(text)
}

/// Whether it is of the value of a directive that, in some context, has rules of its
/// own for it.
fn is_of_meaning(text: &str) -> bool {
    let named = text.strip_suffix("\" directive invalid value").and_then(|text| text.strip_prefix('"'));
    let found = named.and_then(|name| rules().get(name.as_bytes()));
    found.is_some_and(|rules| rules.iter().any(|rule| matches!(rule.form, ValueForm::Own | ValueForm::OwnOnce)))
}

#[test]
fn wrong_configurations_are_refused_in_the_same_words() {
    let Some(folder) = Folder::new("words") else { return };
    folder.write("sites/a.conf", b"server {\n  listen 127.0.0.1:18080;\n  root\n}\n");
    let long = format!("http {{ log_format a \"{}\"; }}", "x".repeat(5000));
    for text in [
        "evnets {}",
        "events { }\nhttp { server { listen 80 } }",
        "events { worker_connections 1; worker_connections 2; }",
        "events {}\nhttp {\n  sendfile maybe;\n}",
        "events {}\nhttp {\n  client_header_timeout 1s1m;\n}",
        "events {}\nhttp {\n  client_header_timeout 1x;\n}",
        "events {}\nhttp {\n  client_max_body_size 1t;\n}",
        "events {}\nhttp {\n  client_max_body_size 1g;\n client_max_body_size 1g; }",
        "events {}\nhttp {\n  large_client_header_buffers 0 1k;\n}",
        "events {}\nhttp {\n  gzip_comp_level 0;\n}",
        "events {}\nhttp {\n  gzip_comp_level x;\n}",
        "events {}\nhttp {\n  keepalive_disable opera;\n}",
        "events {}\nhttp {\n  limit_rate 1x;\n}",
        "events {}\nhttp {\n  dav_access world:rw;\n}",
        "events {}\nhttp {\n  client_body_temp_path /tmp/x 0;\n}",
        "events {}\nhttp {\n  etag on off;\n}",
        "events {}\nhttp { location / {} }",
        "events {}\nhttp { server { location / { server_name x; } } }",
        "events {}\nhttp { server { if ($host) { root /x; } } }",
        "events {}\nhttp { server { location / { if ($host) { alias /x; } } } }",
        "events {}\nhttp { server { location / { limit_except GET { gzip on; } } } }",
        "events {}\nhttp { upstream a { listen 80; } }",
        "events {}\nhttp { types { text/html html; include; } }",
        "events {}\nhttp { map $a $b { x { } } }",
        "events {}\nhttp { include sites/*.conf; }",
        "events {}\nhttp { include gone/*.conf; include gone.conf; }",
        "events {}\nhttp {\n",
        "events {}\n}\n",
        "events {}; http {}",
        "events {} http \"{}\";",
        "events {} pid \"a\"b;",
        "events {} pid \"a",
        "events {} pid 'a;\n\n",
        "# only this",
        "events {}\nhttp {\n  set_real_ip_from;\n}",
        "events {}\nhttp { server { return; } }",
        "events {}\nhttp { server { return 200 ${a b}; } }",
        "daemon on;\ndaemon off;",
        "http",
        &long,
    ] {
        let (ours, theirs) = asked(&folder, text.as_bytes());
        match (&ours, &theirs) {
            // What directives mean together is not of the language.
            (None, Some(theirs)) => assert!(!is_ours(theirs), "{text}\n{theirs}"),
            _ => assert_eq!(ours, theirs, "{text}"),
        }
    }
}

/// A configuration of everyday, with something taken out, put in or doubled.
#[test]
fn what_is_spoilt_at_random_is_refused_in_the_same_words() {
    const WHOLE: &str = include_str!("everyday.conf");
    const PIECES: [&str; 16] =
        ["{", "}", ";", "\"", "'", "\\", "$", "${", "#", "\n", " ", "on", "x", ")", "1", "server {"];
    let Some(folder) = Folder::new("spoilt") else { return };
    let mut random = SplitMix64::new(0x9e37_79b9_7f4a_7c15);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..200 {
        let mut text = WHOLE.to_owned();
        for _ in 0..=random.below(2) {
            let at = random.below(text.len());
            match random.below(3) {
                0 => text.insert_str(at, PIECES[random.below(PIECES.len())]),
                1 => _ = text.remove(at),
                _ => {
                    let lines: Vec<&str> = text.lines().collect();
                    let from = random.below(lines.len());
                    let line = lines[from].to_owned();
                    let to = random.below(lines.len());
                    let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
                    lines.insert(to, line);
                    text = lines.join("\n");
                }
            }
        }
        let (ours, theirs) = asked(&folder, text.as_bytes());
        match (&ours, &theirs) {
            (None, None) => taken += 1,
            (Some(ours), Some(theirs)) if is_ours(theirs) => {
                assert_eq!(ours, theirs, "{text}");
                refused += 1;
            }
            // Something that is not of the language came first, or alone.
            (_, Some(theirs)) => assert!(!is_ours(theirs), "{theirs}\n{text}"),
            (Some(ours), None) => panic!("nginx takes it: {ours}\n{text}"),
        }
    }
    assert!(refused > 50 && taken > 10, "{refused} refused, {taken} taken");
}
