//! Servers of places within each other, put together by chance: at each place a directive
//! stands or does not.

use super::probes::{Probe, Through};
use random::SplitMix64;
use std::fmt::Write as _;

/// How deep locations stand in each other.
const DEPTH: usize = 3;

/// How many requests are sent where answers come late.
const SLOW: usize = 5;

/// A server, and what is asked of it.
pub(crate) struct Made {
    pub(crate) text: String,
    /// Lines of requests, as lists have them.
    pub(crate) lines: Vec<String>,
}

/// Puts a server together.
struct Maker<'a> {
    random: &'a mut SplitMix64,
    probes: &'a [&'a Probe],
    text: String,
    /// Paths that are asked for, and whether other methods are, too.
    asked: Vec<(String, bool)>,
    /// How many locations with an expression are open.
    expressions: usize,
}

/// One named `host`, with these directives.
pub(crate) fn server(random: &mut SplitMix64, host: &str, probes: &[&Probe], most: usize) -> Made {
    let mut maker = Maker { random, probes, text: String::new(), asked: Vec::new(), expressions: 0 };
    maker.server(host);
    let lines = maker.requests(host, most);
    Made { text: maker.text, lines }
}

/// One whose location has the value of this number; its server, where no location may.
pub(crate) fn plain(host: &str, probe: &Probe, value: usize) -> Made {
    let Probe { beside, behind, .. } = probe;
    let value = &probe.values[value];
    let in_server = !probe.stands_in('l');
    let (outer, inner) = if in_server { (&**value, "") } else { ("", &**value) };
    let pass = match &probe.through {
        Some(through) => through.directive(""),
        None => String::new(),
    };
    let behind = if in_server { (&**behind, "") } else { ("", &**behind) };
    let text = format!(
        "server {{\n listen {{address}}:8080;\n server_name {host} other.{host};\n {beside}\n {outer} {}\n {COMMON}\n \
         location / {{ {inner} {} {pass} }}\n}}\n",
        behind.0, behind.1
    );
    let lines = probe.asks.iter().map(|ask| line(ask, host, "/", "", "")).collect();
    Made { text, lines }
}

/// Places that each server has.
const COMMON: &str = "location = /auth/yes { return 204; } location = /auth/no { return 403; } \
                      location = /auth/who { return 401; } location /shut/ { deny all; } location /kept/ { return 200 kept; }";

/// A line of a list: what is asked below `place`, with `more` in its query, by `method` if
/// it is told.
fn line(ask: &str, host: &str, place: &str, more: &str, method: &str) -> String {
    let ask = ask.replace("{host}", host);
    let (first, fields) =
        ask.split_once(" | ").map_or((&*ask, String::new()), |(first, rest)| (first, format!(" | {rest}")));
    let mut words = first.split(' ');
    let (own, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let version = words.next().map_or(String::new(), |version| format!(" {version}"));
    let (path, query) = name.split_once('?').map_or((name, ""), |(path, query)| (path, query));
    let query = [query, more].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&");
    let query = if query.is_empty() { query } else { format!("?{query}") };
    let method = if method.is_empty() { own } else { method };
    format!("{method} {place}{path}{query}{version}{fields}")
}

impl Maker<'_> {
    fn chance(&mut self, percent: usize) -> bool {
        self.random.below(100) < percent
    }

    fn has(&self, name: &str) -> bool {
        self.probes.iter().any(|probe| probe.names().any(|known| known == name))
    }

    fn through(&mut self) -> Option<Through> {
        let all: Vec<&Through> = self.probes.iter().filter_map(|probe| probe.through.as_ref()).collect();
        (!all.is_empty()).then(|| all[self.random.below(all.len())].clone())
    }

    /// Directives of a block of this letter: each with a chance of `percent`.
    fn directives(&mut self, letter: char, percent: usize) -> String {
        let (mut out, mut behind) = (String::new(), String::new());
        for probe in self.probes {
            // A named location is one, but for what a path is needed for; a first `if` has no
            // handler of its own.
            let stands = match letter {
                'i' => probe.stands_in('L') && !probe.name.ends_with("_pass"),
                'n' => probe.stands_in('l') && probe.name != "alias",
                letter => probe.stands_in(letter),
            };
            let always = probe.is_first && letter == 's';
            if stands && (always || self.chance(percent)) {
                let value = &probe.values[self.random.below(probe.values.len())];
                let _ = write!(out, " {value}");
                if !probe.behind.is_empty() {
                    let _ = write!(behind, " {}", probe.behind);
                }
            }
        }
        out + &behind
    }

    fn server(&mut self, host: &str) {
        let beside: Vec<&str> = self.probes.iter().map(|probe| &*probe.beside).collect();
        let own = self.directives('s', 50);
        let _ = writeln!(
            self.text,
            "server {{\n listen {{address}}:8080;\n server_name {host} other.{host};\n {}\n {own}\n {COMMON}",
            beside.join(" ")
        );
        self.asked.push(("/".to_owned(), false));
        if self.chance(60) {
            self.location("/", 0);
        }
        for part in ["a/", "b/"] {
            let path = format!("/{part}");
            if self.chance(85) {
                self.location(&path, 1);
            }
        }
        let own = self.directives('n', 50);
        let pass = self.pass("", false);
        let _ = writeln!(self.text, " location @other {{ {own} {pass} }}");
        // A body goes into a file by any place that the request was in (docs/differences.md).
        if !["try_files", "alias", "client_body_in_file_only"].iter().any(|name| self.has(name)) {
            let own = self.directives('l', 30);
            let _ = writeln!(self.text, " location /named/ {{ {own} try_files /none @other; }}");
            self.asked.push(("/named/".to_owned(), false));
        }
        self.text.push_str("}\n");
    }

    /// What passes on, in most places; `path` of the location, where one may be replaced.
    fn pass(&mut self, path: &str, block: bool) -> String {
        let Some(through) = self.through() else { return String::new() };
        let own = self.has("proxy_pass") || self.has("fastcgi_pass") || self.has("uwsgi_pass") || self.has("scgi_pass");
        if own || !self.chance(if block { 30 } else { 85 }) {
            return String::new();
        }
        let replaces = !path.is_empty() && through.is_proxy() && self.chance(30);
        through.directive(if replaces { "/up/" } else { "" })
    }

    fn location(&mut self, path: &str, depth: usize) {
        // In one with an expression stand others of the kind alone.
        let kind = if self.expressions > 0 { 3 } else { self.random.below(5) };
        self.expressions += usize::from(kind == 3);
        let opening = match kind {
            2 => format!("location ^~ {path} {{"),
            3 => format!("location ~ ^{path} {{"),
            _ => format!("location {path} {{"),
        };
        let _ = writeln!(self.text, "{:1$}{opening}", "", depth + 1);
        let own = self.directives('l', 50);
        let fixed = if kind == 3 { "" } else { path };
        let pass = self.pass(fixed, false);
        let indent = depth + 2;
        let _ = writeln!(self.text, "{:indent$}{own} {pass}", "");
        let mut other_methods = self.has("limit_except");
        if !self.has("limit_except") && self.chance(30) {
            let method = ["GET", "POST"][self.random.below(2)];
            let own = self.directives('x', 60);
            let through = self.through().filter(Through::is_proxy);
            let pass = if through.is_some() { self.pass("", true) } else { String::new() };
            let pass = if pass.starts_with("proxy_pass") { pass } else { String::new() };
            let _ = writeln!(self.text, "{:indent$}limit_except {method} {{ {own} {pass} }}", "");
            other_methods = true;
        }
        for condition in ["$arg_i", "$arg_j"] {
            if self.chance(40) {
                // Of two that hold nginx takes the handler of the first, with the settings of
                // the second (docs/differences.md).
                let own = self.directives(if condition == "$arg_j" { 'L' } else { 'i' }, 60);
                let pass = if condition == "$arg_j" { self.pass("", true) } else { String::new() };
                let set = if self.chance(30) { "set $told_set $told_set+;" } else { "" };
                let _ = writeln!(self.text, "{:indent$}if ({condition}) {{ {own} {set} {pass} }}", "");
            }
        }
        self.asked.push((path.to_owned(), other_methods));
        if depth < DEPTH {
            for part in ["a/", "b/"] {
                if depth > 0 && self.chance(45) {
                    self.location(&format!("{path}{part}"), depth + 1);
                }
            }
            if depth > 0 && self.chance(25) {
                let own = self.directives('l', 50);
                let pass = self.pass("", false);
                let _ = writeln!(self.text, "{:indent$}location ~ \\.(txt|css)$ {{ {own} {pass} }}", "");
            }
            if depth > 0 && kind != 3 && self.chance(15) {
                let own = self.directives('l', 50);
                let pass = self.pass("", false);
                let _ = writeln!(self.text, "{:indent$}location = {path}text.txt {{ {own} {pass} }}", "");
            }
        }
        let _ = writeln!(self.text, "{:1$}}}", "", depth + 1);
        self.expressions -= usize::from(kind == 3);
    }

    fn requests(&mut self, host: &str, most: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let asked = std::mem::take(&mut self.asked);
        for (place, other_methods) in &asked {
            for ask in self.probes.iter().flat_map(|probe| &probe.asks) {
                lines.push(line(ask, host, place, "", ""));
                lines.push(line(ask, host, place, ["i=1", "j=1", "i=1&j=1"][self.random.below(3)], ""));
                // nginx keeps no connection on which MSIE has posted, and ranges are of GET.
                if *other_methods && !["MSIE", "Range: "].iter().any(|word| ask.contains(word)) {
                    lines.push(line(ask, host, place, "", ["POST", "HEAD", "PUT"][self.random.below(3)]));
                }
            }
        }
        let most = if self.probes.iter().any(|probe| probe.is_slow) { most.min(SLOW) } else { most };
        while lines.len() > most {
            lines.remove(self.random.below(lines.len()));
        }
        lines
    }
}
