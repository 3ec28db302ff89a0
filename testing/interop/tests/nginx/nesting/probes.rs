//! The probes of directives (of features in their rows, of others in
//! `web/nginx/src/probes.txt`), and where directives may stand.

use crate::theirs::Version;
use features::Context;

const PROBES: &str = include_str!("../../../../../web/nginx/src/probes.txt");

/// Where each small program listens (`programs.rs`).
const PROGRAMS: [(&str, &str); 3] = [("fastcgi", "9001"), ("scgi", "9002"), ("uwsgi", "9003")];

/// What shows the value of a directive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    pub(crate) name: String,
    /// Its values, as they are written in a block; the first may be none at all.
    pub(crate) values: Vec<String>,
    /// What the server has beside it.
    pub(crate) beside: String,
    /// What each place has behind it.
    pub(crate) behind: String,
    /// What passes requests on, in each place.
    pub(crate) through: Option<Through>,
    /// What is asked, below a place.
    pub(crate) asks: Vec<String>,
    /// What differs by the value.
    pub(crate) seen: String,
    /// The first nginx that has it.
    since: Option<Version>,
    /// Its answers come late: few are asked for.
    pub(crate) is_slow: bool,
    /// Its places cannot be without it: their server has it.
    pub(crate) is_first: bool,
    /// Nothing else is asked of its servers.
    pub(crate) is_alone: bool,
    /// The letters of the table: where it may stand.
    contexts: Option<Context>,
}

/// How requests are passed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Through {
    /// `proxy`, `tls`, or the protocol of a program.
    protocol: String,
    /// To a group whose first server is not there.
    backed: bool,
}

impl Through {
    fn of(words: &str) -> Self {
        match words.strip_prefix("backed ") {
            Some(protocol) => Self { protocol: protocol.to_owned(), backed: true },
            None => Self { protocol: words.to_owned(), backed: false },
        }
    }

    /// The directive; with `path` as one that replaces the location's.
    pub(crate) fn directive(&self, path: &str) -> String {
        let protocol = &self.protocol;
        match (&**protocol, self.backed) {
            ("proxy", true) => format!("proxy_pass http://backed-proxy{path};"),
            ("proxy", false) => format!("proxy_pass http://172.31.77.1:9000{path};"),
            ("tls", _) => format!("proxy_pass https://172.31.77.1:8443{path};"),
            (_, true) => format!("{protocol}_pass backed-{protocol};"),
            (_, false) => format!("{protocol}_pass 172.31.77.1:{};", port_of(protocol)),
        }
    }

    pub(crate) fn is_proxy(&self) -> bool {
        matches!(&*self.protocol, "proxy" | "tls")
    }
}

pub(crate) fn port_of(protocol: &str) -> &'static str {
    PROGRAMS.iter().find(|(name, _)| *name == protocol).map_or("9000", |(_, port)| port)
}

impl Probe {
    /// Whether it may stand in a block of this letter.
    pub(crate) fn stands_in(&self, letter: char) -> bool {
        self.contexts.zip(Context::of(letter)).is_some_and(|(contexts, one)| contexts.contains(one))
    }

    /// Names of the directives that it needs beside itself, and its own.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let beside = self.beside.split(';').chain(self.behind.split(';'));
        // Of these no block has two.
        let excluded = match &*self.name {
            "alias" => Some("root"),
            "secure_link_secret" => Some("secure_link"),
            _ => None,
        };
        beside.filter_map(|one| one.split_whitespace().next()).chain([&*self.name]).chain(excluded)
    }
}

/// Those that the nginx at hand has.
pub(crate) fn all() -> Vec<Probe> {
    let mut probes: Vec<Probe> = Vec::new();
    let mut open = 0..0;
    let of_features = features::directives().filter(|row| !row.shown.is_empty());
    let of_features = of_features.flat_map(|row| {
        let why = row.shown.strip_prefix("- ").map(|why| format!("{} - {why}", row.name));
        let details = row.shown.lines().filter(|_| why.is_none()).map(|line| format!("    {}", line.trim_start()));
        [why.clone().unwrap_or_else(|| row.name.to_owned())].into_iter().chain(details).collect::<Vec<_>>()
    });
    let others = PROBES.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '[']));
    let lines: Vec<String> = others.map(str::to_owned).chain(of_features).collect();
    for line in &lines {
        let Some(detail) = line.strip_prefix("    ") else {
            open = probes.len()..probes.len();
            if !line.contains(" - ") {
                probes.extend(expanded(line).into_iter().map(|(name, part)| Probe::begin(name, part)));
                open.end = probes.len();
            }
            continue;
        };
        let (key, text) = detail.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        probes[open.clone()].iter_mut().for_each(|probe| probe.take(key, text));
    }
    for probe in &mut probes {
        let part = std::mem::take(&mut probe.seen);
        let (part, seen) = part.split_once('\n').unwrap_or_else(|| panic!("{}: nothing is seen", probe.name));
        let fill = |text: &str| text.replace("{*}", port_of(part)).replace('*', part);
        // Media types and expressions have asterisks of their own.
        if !part.is_empty() {
            probe.values.iter_mut().for_each(|value| *value = fill(value));
            probe.beside = fill(&probe.beside);
            probe.through = probe.through.take().map(|it| Through { protocol: fill(&it.protocol), ..it });
        }
        probe.seen = seen.to_owned();
        let name = &probe.name;
        assert!(!probe.values.is_empty() && !probe.asks.is_empty(), "{name}: no value, or no request");
        let value = |value: &String| match &**value {
            "" => String::new(),
            value => value.split(" & ").map(|one| statement(name, one)).collect::<Vec<_>>().join(" "),
        };
        probe.values = probe.values.iter().map(value).collect();
        if probe.values.len() == 1 {
            probe.values.insert(0, String::new());
        }
    }
    let version = crate::theirs::version();
    probes.retain(|probe| probe.since.is_none_or(|since| version >= since));
    probes
}

fn statement(name: &str, value: &str) -> String {
    match value {
        "-" => format!("{name};"),
        block if block.ends_with('}') => format!("{name} {block}"),
        value => format!("{name} {value};"),
    }
}

/// The names that a heading stands for, and which part of it each has.
fn expanded(heading: &str) -> Vec<(String, String)> {
    let Some((before, rest)) = heading.split_once('{') else { return vec![(heading.to_owned(), String::new())] };
    let (parts, after) = rest.split_once('}').unwrap_or_else(|| panic!("{heading}: no closing brace"));
    parts.split(',').map(|part| (format!("{before}{part}{after}"), part.to_owned())).collect()
}

impl Probe {
    fn begin(name: String, part: String) -> Self {
        // What is of upstreams, the process and its events has a rule of its own.
        let apart = [Context::UPSTREAM, Context::MAIN, Context::EVENTS];
        let rules = nginx::rules().get(name.as_bytes()).unwrap_or_else(|| panic!("{name} is no directive"));
        let contexts = rules.iter().map(|rule| rule.contexts).rfind(|contexts| !apart.contains(contexts));
        assert!(contexts.is_some(), "{name} stands in no place");
        // Which part it is stays in front of what is seen until all is read.
        Self { name, contexts, seen: format!("{part}\n"), ..Self::default() }
    }

    fn take(&mut self, key: &str, text: &str) {
        match key {
            "is" => self.values.push(text.to_owned()),
            "with" => text.clone_into(&mut self.beside),
            "inside" => text.clone_into(&mut self.behind),
            "through" => self.through = Some(Through::of(text)),
            "ask" => self.asks.push(text.to_owned()),
            "alone" => self.is_alone = true,
            "first" => self.is_first = true,
            "slow" => self.is_slow = true,
            "seen" => self.seen += text,
            "since" => {
                let mut numbers = text.split('.').map(|number| number.parse().expect("a number"));
                let mut next = || numbers.next().unwrap_or(0);
                self.since = Some(Version(next(), next(), next()));
            }
            _ => panic!("{}: {key}", self.name),
        }
    }
}
