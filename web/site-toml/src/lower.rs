//! What a site means, as directives, each with the place that it came from. Values
//! are of their kinds: that was checked.

mod rows;
mod rules;

use crate::Wrong;
use crate::statement::Statements;
use rules::{Inherited, rules};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A line of `format = "json"`.
const JSON: &str = concat!(
    r#"{"time":"$time_iso8601","client":"$remote_addr","user":"$remote_user","host":"$host","#,
    r#""method":"$request_method","target":"$request_uri","protocol":"$server_protocol","status":$status,"#,
    r#""bytes":$body_bytes_sent,"seconds":$request_time,"referer":"$http_referer","agent":"$http_user_agent"}"#
);

/// A value, and the byte that it begins at.
type Found<'t> = (usize, &'t DeValue<'t>);

/// What the whole file comes to.
///
/// # Errors
/// What cannot be meant.
pub fn site(table: &DeTable<'_>) -> Result<Statements, Wrong> {
    let mut out = Lowering::default();
    let start = (0, "");
    let workers = get(table, "workers").map_or((0, "auto".to_owned()), |(at, value)| (at, number(value)));
    out.statements.put((workers.0, "workers"), "worker_processes", &[&workers.1]);
    out.statements.open(start, "events", &[]);
    if let Some((at, value)) = get(table, "connections") {
        out.statements.put((at, "connections"), "worker_connections", &[&number(value)]);
    }
    out.statements.close(0);
    out.statements.open(start, "http", &[]);
    let inherited = rules(&mut out, table, "", &Inherited::of_nothing())?;
    let hosts = tables(table, "host");
    if hosts.is_empty() {
        return Err(Wrong { at: 0, text: "there is no [[host]]: nothing would be served".to_owned() });
    }
    for (at, host) in hosts {
        out.host(at, host, &inherited)?;
    }
    for (number, (at, format)) in core::mem::take(&mut out.formats).into_iter().enumerate() {
        let name = format!("site_{number}");
        let escape = if format == JSON { "escape=json" } else { "escape=default" };
        out.statements.put((at, "log.format"), "log_format", &[&name, escape, &format]);
    }
    out.statements.close(0);
    Ok(out.statements)
}

/// A site on its way to directives.
#[derive(Debug, Default)]
struct Lowering {
    statements: Statements,
    /// Lines of logs, and where they stand.
    formats: Vec<(usize, String)>,
    /// Names in `limits`, and whether they count requests.
    limits: BTreeMap<String, bool>,
    /// What is listened on.
    listened: BTreeSet<String>,
}

/// An endpoint by the one name that stands for all of its.
fn whole(endpoint: &str) -> String {
    let (host, port) = match endpoint.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        None if endpoint.bytes().all(|byte| byte.is_ascii_digit()) => ("*", endpoint),
        _ => (endpoint, "80"),
    };
    let host = if host == "*" { "0.0.0.0" } else { host };
    format!("{host}:{port}")
}

impl Lowering {
    fn put(&mut self, at: (usize, &str), name: &str, words: &[&str]) {
        self.statements.put(at, name, words);
    }

    fn host(&mut self, at: usize, host: &DeTable<'_>, outer: &Inherited) -> Result<(), Wrong> {
        self.statements.open((at, "host"), "server", &[]);
        let is_default = is_true(host, "default");
        let words = |endpoint: &str, is_first: bool| {
            let mut words = vec![endpoint.to_owned()];
            // A queue for each worker, as `serve` has it: said once of each address.
            words.extend((is_first && !endpoint.starts_with("unix:")).then(|| "reuseport".to_owned()));
            words.extend(is_default.then(|| "default_server".to_owned()));
            words
        };
        let mut listen = texts(host, "listen");
        if listen.is_empty() {
            listen.push((at, "80".to_owned()));
        }
        for (at, endpoint) in listen {
            let is_first = self.listened.insert(whole(&endpoint));
            let words = words(&endpoint, is_first);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            self.put((at, "host.listen"), "listen", &words);
        }
        for (at, name) in texts(host, "names") {
            self.put((at, "host.names"), "server_name", &[&name]);
        }
        for (at, rewrite) in tables(host, "rewrite") {
            self.rewrite(at, rewrite)?;
        }
        let inherited = rules(self, host, "host.", outer)?;
        for (at, location) in tables(host, "location") {
            self.location(at, location, &inherited)?;
        }
        self.statements.close(at);
        Ok(())
    }

    fn rewrite(&mut self, at: usize, rewrite: &DeTable<'_>) -> Result<(), Wrong> {
        let [from, to] = ["from", "to"].map(|key| needed(rewrite, at, key, "host.rewrite"));
        let (from, to) = (from?, to?);
        let mut words = vec![from.as_str(), to.as_str()];
        let then = get(rewrite, "then").map(|(_, value)| text(value));
        words.extend(then.as_deref());
        self.put((at, "host.rewrite"), "rewrite", &words);
        Ok(())
    }

    fn location(&mut self, at: usize, location: &DeTable<'_>, outer: &Inherited) -> Result<(), Wrong> {
        const KINDS: [&str; 5] = ["path", "exact", "match", "match-any-case", "named"];
        let kinds: Vec<(&str, Found<'_>)> =
            KINDS.iter().filter_map(|kind| get(location, kind).map(|found| (*kind, found))).collect();
        let [(kind, (from, value))] = kinds.as_slice() else {
            let text = format!("a location has one of {}", KINDS.join(", "));
            return Err(Wrong { at, text });
        };
        let name = text(value);
        if matches!(*kind, "path" | "exact") && !name.starts_with('/') {
            return Err(Wrong { at: *from, text: format!("{kind} is a path, and begins with a slash") });
        }
        let words = match *kind {
            "path" if is_true(location, "firm") => vec!["^~".to_owned(), name],
            "path" => vec![name],
            "exact" => vec!["=".to_owned(), name],
            "match" => vec!["~".to_owned(), name],
            "match-any-case" => vec!["~*".to_owned(), name],
            _ => vec![format!("@{name}")],
        };
        if *kind != "path"
            && let Some((at, _)) = get(location, "firm")
        {
            return Err(Wrong { at, text: "firm is for a location with path".to_owned() });
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.statements.open((*from, "host.location"), "location", &words);
        if is_true(location, "internal") {
            self.put((at, "host.location.internal"), "internal", &[]);
        }
        if let Some((at, alias)) = get(location, "alias") {
            self.put((at, "host.location.alias"), "alias", &[&text(alias)]);
        }
        if is_true(location, "stub-status") {
            self.put((at, "host.location.stub-status"), "stub_status", &[]);
        }
        rules(self, location, "host.location.", outer)?;
        self.statements.close(at);
        Ok(())
    }

    /// The name of a format, which is defined at the end.
    fn format(&mut self, at: usize, line: &str) -> String {
        let line = if line == "json" { JSON } else { line };
        let known = self.formats.iter().position(|(_, known)| known == line);
        let number = known.unwrap_or_else(|| {
            self.formats.push((at, line.to_owned()));
            self.formats.len() - 1
        });
        format!("site_{number}")
    }
}

fn get<'t>(table: &'t DeTable<'_>, key: &str) -> Option<Found<'t>> {
    let found: &Spanned<DeValue<'_>> = table.get(key)?;
    Some((found.span().start, found.get_ref()))
}

/// Text, or a number as text.
fn text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        other => number(other),
    }
}

/// A number in decimal, or the word in its place.
fn number(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or_else(|_| String::new(), |it| it.to_string())
        }
        DeValue::String(text) => text.to_string(),
        _ => String::new(),
    }
}

fn needed(table: &DeTable<'_>, at: usize, key: &str, of: &str) -> Result<String, Wrong> {
    let found = get(table, key).map(|(_, value)| text(value));
    found.ok_or_else(|| Wrong { at, text: format!("{of} needs {key}") })
}

fn is_true(table: &DeTable<'_>, key: &str) -> bool {
    matches!(get(table, key), Some((_, DeValue::Boolean(true))))
}

/// One text or several.
fn texts(table: &DeTable<'_>, key: &str) -> Vec<(usize, String)> {
    get(table, key).map_or_else(Vec::new, |(at, value)| texts_of(at, value))
}

fn texts_of(at: usize, value: &DeValue<'_>) -> Vec<(usize, String)> {
    match value {
        DeValue::Array(all) => all.iter().map(|one| (one.span().start, text(one.get_ref()))).collect(),
        one => vec![(at, text(one))],
    }
}

fn tables<'t>(table: &'t DeTable<'_>, key: &str) -> Vec<(usize, &'t DeTable<'t>)> {
    let Some((_, DeValue::Array(all))) = get(table, key) else { return Vec::new() };
    let table = |one: &'t Spanned<DeValue<'_>>| match one.get_ref() {
        DeValue::Table(inner) => Some((one.span().start, inner)),
        _ => None,
    };
    all.iter().filter_map(table).collect()
}
