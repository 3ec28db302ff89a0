//! Random locations: which are refused, and what each path finds.

use crate::process::{Folder, ask};
use configuration::{Location, Locations, Pattern};
use pcre::{Matcher, Regex, RegexOptions};
use random::SplitMix64;
use std::fmt::Write as _;

const PORT: u16 = 18_713;
const TREES: usize = 120;
const PATHS: usize = 40;

const EXPRESSIONS: [&str; 7] =
    ["~ \\.css$", "~* \\.CSS$", "~ ^/a/", "~ b", "~ /$", "~ ^/(?<first>[^/]+)/(?!\\k<first>)", "~* (a|B)\\1"];

/// The expressions, compiled.
fn compiled() -> Vec<Regex> {
    let one = |written: &&str| {
        let (modifier, pattern) = written.split_once(' ').unwrap();
        Regex::new(pattern.as_bytes(), RegexOptions { caseless: modifier == "~*" }).unwrap()
    };
    EXPRESSIONS.iter().map(one).collect()
}

fn random_path(random: &mut SplitMix64) -> Vec<u8> {
    const PIECES: [&str; 6] = ["/", "a", "b", "/a", ".css", "/b/"];
    let mut path = b"/".to_vec();
    for _ in 0..random.below(5) {
        path.extend_from_slice(PIECES[random.below(PIECES.len())].as_bytes());
    }
    // nginx makes one slash of several before it looks.
    path.dedup_by(|one, other| (*one, *other) == (b'/', b'/'));
    path
}

fn random_locations(random: &mut SplitMix64, depth: usize, outer: &[u8], next: &mut u32) -> Vec<Location> {
    let count = random.below(5) + usize::from(depth == 0);
    let mut one = || {
        let place = *next;
        *next += 1;
        let mut path = random_path(random);
        // Most of what is held begins as what holds it.
        if random.below(8) > 0 && outer.len() > 1 {
            path.splice(..1, outer.iter().copied());
        }
        let pattern = match random.below(6) {
            0 => Pattern::Exact(path.clone()),
            1 => Pattern::FirmPrefix(path.clone()),
            2 => {
                let number = random.below(EXPRESSIONS.len());
                let text = EXPRESSIONS[number].split(' ').next_back().unwrap_or_default();
                Pattern::Expression(number as u32, text.into())
            }
            _ => Pattern::Prefix(path.clone()),
        };
        let holds = depth < 2 && random.below(4) == 0;
        let inner = if holds { random_locations(random, depth + 1, &path, next) } else { Vec::new() };
        Location { pattern, place, slashless: false, inner }
    };
    (0..count).map(|_| one()).collect()
}

/// As nginx writes them; each answers with its place.
fn written(locations: &[Location], text: &mut String) {
    for location in locations {
        let pattern = match &location.pattern {
            Pattern::Exact(path) => format!("= {}", String::from_utf8_lossy(path)),
            Pattern::Prefix(path) => String::from_utf8_lossy(path).into_owned(),
            Pattern::FirmPrefix(path) => format!("^~ {}", String::from_utf8_lossy(path)),
            Pattern::Expression(number, _) => EXPRESSIONS[*number as usize].to_owned(),
            Pattern::Named(name) => format!("@{}", String::from_utf8_lossy(name)),
        };
        let _ = write!(text, "location {pattern} {{ return 200 \"{}\"; ", location.place);
        written(&location.inner, text);
        text.push_str("}\n");
    }
}

#[test]
fn random_locations_are_found_as_nginx_finds_them() {
    let Some(folder) = Folder::new("locations") else { return };
    let mut random = SplitMix64::new(0x2545_f491_4f6c_dd1d);
    let (mut servers, mut trees) = (String::new(), Vec::new());
    let mut refused = 0;
    for _ in 0..TREES {
        let tree = random_locations(&mut random, 0, b"", &mut 0);
        let mut text = String::new();
        written(&tree, &mut text);
        let ours = Locations::compile(&tree);
        let theirs = folder.refusal_of_servers(&format!("server {{ listen 127.0.0.1:{PORT};\n{text}}}\n"));
        assert_eq!(ours.is_ok(), theirs.is_none(), "{ours:?}\n{text}");
        match ours {
            Err(_) => refused += 1,
            Ok(ours) => {
                let name = trees.len();
                let _ = writeln!(servers, "server {{ listen 127.0.0.1:{PORT}; server_name t{name};\n{text}}}");
                trees.push((ours, text));
            }
        }
    }
    assert!(refused > 5 && trees.len() > 50, "{refused} refused, {} taken", trees.len());
    let nginx = folder.start(&servers, PORT);
    let (regexes, mut matcher) = (compiled(), Matcher::new().unwrap());
    let mut found = 0;
    for (name, (ours, text)) in trees.iter().enumerate() {
        let mut stream = nginx.connect();
        for _ in 0..PATHS {
            let path = random_path(&mut random);
            let place = ours.find(&path, |number| matcher.find(&regexes[number as usize], &path).unwrap().is_some());
            let theirs = ask(&mut stream, &format!("t{name}"), &path);
            assert_eq!(place, theirs, "{}\n{text}", String::from_utf8_lossy(&path));
            found += usize::from(place.is_some());
        }
    }
    assert!(found > trees.len() * PATHS / 4, "{found} found");
}
