//! How two programs were built, by what they say of it themselves (`nginx -V`), and what of that
//! differs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What a program says of its build.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Build {
    /// Lines by what stands before their value: `nginx version`, `built by`.
    lines: BTreeMap<String, String>,
    /// Options of its configure, with their values as words.
    options: BTreeMap<String, Vec<String>>,
}

/// Before the options, in nginx and what came of it.
const OPTIONS: &str = "configure arguments:";

/// Lines that say who made the program of its source, and with which libraries.
const KEYS: [&str; 4] = ["built by", "built with", "running with", "built on"];

/// Options that say where files are, and nothing of the program itself.
const PLACES: [&str; 5] = ["prefix", "path", "user", "group", "build"];

/// Options of which it is known what they do to the program's speed.
const KNOWN: [(&str, &str); 6] = [
    (
        "--with-debug",
        "its places for the debugging log are in the program, and each is asked whether to write, at any level of \
         error_log",
    ),
    ("--with-pcre-jit", "regular expressions are compiled"),
    ("--with-threads", "files can be read by threads (aio threads)"),
    ("--with-file-aio", "files can be read by the kernel meanwhile (aio on)"),
    ("--with-ipv6", "no effect since nginx 1.11.5"),
    ("--without-pcre", "there are no regular expressions"),
];

impl Build {
    /// Reads what a program printed; nothing of what is empty.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut build = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(options) = line.strip_prefix(OPTIONS) {
                for word in words(options) {
                    let (name, value) = word.split_once('=').unwrap_or((&word, ""));
                    let value = value.split_whitespace().map(str::to_owned);
                    // An option that may stand several times, as those of modules.
                    build.options.entry(name.to_owned()).or_default().extend(value);
                }
                continue;
            }
            let key = KEYS.iter().find(|key| line.starts_with(**key)).map(|key| (*key, &line[key.len()..]));
            let (key, value) = key.or_else(|| line.split_once(": ")).unwrap_or((line, ""));
            build.lines.insert(key.to_owned(), value.trim().to_owned());
        }
        (build != Self::default()).then_some(build)
    }

    /// In a line, for a list of tools.
    pub(crate) fn told(&self) -> String {
        let version = self.lines.iter().find(|(key, _)| key.ends_with("version"));
        let version = version.map_or_else(|| "of no known version".to_owned(), |(_, version)| version.clone());
        format!("{version}, {} options of configure", self.options.len())
    }
}

/// Words as a shell splits them: quotes hold what stands between them together.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for char in text.chars() {
        match (quote, char) {
            (Some(open), char) if open == char => quote = None,
            (None, '\'' | '"') => (quote, begun) = (Some(char), true),
            (None, char) if char.is_whitespace() => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, char) => {
                word.push(char);
                begun = true;
            }
        }
    }
    words.extend(begun.then_some(word));
    words
}

/// What differs between two sides' builds, a sentence each; nothing if they say the same of
/// themselves.
pub(crate) fn differences(one: (&str, &Build), other: (&str, &Build)) -> Vec<String> {
    let mut found = Vec::new();
    let keys: BTreeSet<&String> = one.1.lines.keys().chain(other.1.lines.keys()).collect();
    for key in keys {
        let of = |build: &Build| build.lines.get(key).cloned();
        let (here, there) = (of(one.1), of(other.1));
        if here != there {
            let more =
                if key.ends_with("version") { ": two versions are compared, and not their options alone" } else { "" };
            let told = |value: Option<String>| value.unwrap_or_else(|| "not said".to_owned());
            found.push(format!("{key}: {} {}, {} {}{more}", one.0, told(here), other.0, told(there)));
        }
    }
    let mut places = Vec::new();
    let names: BTreeSet<&String> = one.1.options.keys().chain(other.1.options.keys()).collect();
    for name in names {
        let is_place = PLACES.iter().any(|place| name.ends_with(place)) && !name.contains("module");
        match (one.1.options.get(name), other.1.options.get(name)) {
            (Some(here), Some(there)) if here == there => {}
            (_, _) if is_place => places.push(name.as_str()),
            (Some(here), Some(there)) => found.push(unlike(name, (one.0, here), (other.0, there))),
            (Some(words), None) => found.push(only(name, words, one.0)),
            (_, there) => found.push(only(name, there.map_or(&[], Vec::as_slice), other.0)),
        }
    }
    if !places.is_empty() {
        found.push(format!(
            "{}: places differ, which cost nothing by themselves; which configuration is read may",
            places.join(", ")
        ));
    }
    found
}

fn only(name: &str, words: &[String], side: &str) -> String {
    let value = if words.is_empty() { String::new() } else { format!("={}", words.join(" ")) };
    let mut text = format!("{name}{value}: {side} alone");
    if let Some((_, what)) = KNOWN.iter().find(|(known, _)| *known == name) {
        let _ = write!(text, " ({what})");
    }
    text
}

fn unlike(name: &str, one: (&str, &Vec<String>), other: (&str, &Vec<String>)) -> String {
    let beside = |words: &[String], others: &[String]| -> Vec<String> {
        words.iter().filter(|word| !others.contains(word)).cloned().collect()
    };
    let parts: Vec<String> = [(one, other), (other, one)]
        .iter()
        .filter_map(|((side, words), (_, others))| {
            let alone = beside(words, others);
            (!alone.is_empty()).then(|| format!("{side} alone has {}", alone.join(" ")))
        })
        .collect();
    match parts.is_empty() {
        true => format!("{name}: the same words in another order"),
        false => format!("{name}: {}", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "nginx version: nginx/1.28.0\nbuilt by gcc 14.2.0 (Debian 14.2.0-19)\n\
                         built with OpenSSL 3.5.0 8 Apr 2025\nTLS SNI support enabled\n\
                         configure arguments: --prefix=/opt/a --with-cc-opt='-O2 -g' --with-threads --add-module=m1\n";

    fn between(other: &str) -> Vec<String> {
        let (one, other) = (Build::parse(PLAIN).expect("a build"), Build::parse(other).expect("a build"));
        differences(("a", &one), ("b", &other))
    }

    #[test]
    fn a_build_is_the_same_as_itself_and_an_option_more_is_named_with_what_it_does() {
        assert_eq!(between(PLAIN), [""; 0]);
        let debug = PLAIN.replace(" --with-threads", " --with-threads --with-debug");
        let found = between(&debug);
        assert!(found.len() == 1 && found[0].starts_with("--with-debug: b alone (its places for the debugging log"));
        assert_eq!(Build::parse("\n \n"), None);
    }

    #[test]
    fn versions_compilers_values_and_places_are_told_apart() {
        let other = "nginx version: nginx/1.29.1\nbuilt by clang 19.1.7\nbuilt with OpenSSL 3.5.0 8 Apr 2025\n\
                     TLS SNI support enabled\nconfigure arguments: --with-cc-opt='-g -O0' --prefix='/opt/b c' \
                     --add-module=m1 --add-module=m2\n";
        let found = between(other);
        assert_eq!(
            found,
            [
                "built by: a gcc 14.2.0 (Debian 14.2.0-19), b clang 19.1.7",
                "nginx version: a nginx/1.28.0, b nginx/1.29.1: two versions are compared, and not their options alone",
                "--add-module: b alone has m2",
                "--with-cc-opt: a alone has -O2, b alone has -O0",
                "--with-threads: a alone (files can be read by threads (aio threads))",
                "--prefix: places differ, which cost nothing by themselves; which configuration is read may",
            ]
        );
    }

    #[test]
    fn another_programs_words_are_compared_line_by_line() {
        let (one, other) =
            (Build::parse("tool 1.0\nTLS: yes").expect("a text"), Build::parse("tool 1.1").expect("a text"));
        let found = differences(("a", &one), ("b", &other));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("TLS: a yes, b not said"), "{found:?}");
    }

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(words(" a='b c' \"d e\"f '' g"), ["a=b c", "d ef", "", "g"]);
    }
}
