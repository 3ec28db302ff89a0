//! Names of hosts: which are refused, and what each name finds.

use crate::process::{Folder, ask};
use configuration::{NameError, Names};
use pcre::{Matcher, Regex, RegexOptions};
use random::SplitMix64;
use std::fmt::Write as _;

const PORT: u16 = 18_714;

#[test]
fn random_names_are_found_as_nginx_finds_them() {
    const LABELS: [&str; 5] = ["a", "b", "x", "example", "org"];
    const HOSTS: u16 = 40;
    let Some(folder) = Folder::new("names") else { return };
    let mut random = SplitMix64::new(0x9e37_79b9_7f4a_7c15);
    let labels = |random: &mut SplitMix64| {
        let count = 1 + random.below(4);
        (0..count).map(|_| LABELS[random.below(LABELS.len())]).collect::<Vec<_>>().join(".")
    };
    let (mut names, mut servers) = (Names::default(), String::new());
    // The first is for everybody else.
    let _ = writeln!(servers, "server {{ listen 127.0.0.1:{PORT}; return 200 0; }}");
    for place in 1..=HOSTS {
        let name = match random.below(5) {
            0 => format!("*.{}", labels(&mut random)),
            1 => format!("{}.*", labels(&mut random)),
            2 => format!(".{}", labels(&mut random)),
            _ => labels(&mut random),
        };
        // nginx leaves the second of two out, with a warning.
        match names.add(&name, place) {
            Ok(()) => {}
            Err(NameError::Twice(_)) => continue,
            Err(why) => panic!("{why}"),
        }
        let _ = writeln!(servers, "server {{ listen 127.0.0.1:{PORT}; server_name {name}; return 200 {place}; }}");
    }
    let _ = writeln!(servers, "server {{ listen 127.0.0.1:{PORT}; server_name ~x; return 200 99; }}");
    names.add_expression(0, 99);
    let nginx = folder.start(&servers, PORT);
    let (x, mut matcher) = (Regex::new(b"x", RegexOptions::default()).unwrap(), Matcher::new().unwrap());
    let mut found = 0;
    let mut stream = nginx.connect();
    for _ in 0..900 {
        let mut host = labels(&mut random);
        match random.below(4) {
            0 => host.make_ascii_uppercase(),
            1 => host.push_str(":80"),
            2 => host.push('.'),
            _ => {}
        }
        let place = names.find(host.as_bytes(), |_, name| matcher.find(&x, name).unwrap().is_some());
        assert_eq!(Some(u32::from(place)), ask(&mut stream, &host, b"/"), "{host}\n{servers}");
        found += usize::from(place != 0 && place != 99);
    }
    assert!(found > 200, "{found} found");
}
