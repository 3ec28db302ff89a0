//! The rules that a site, a host and a location may have.

use super::{Lowering, get, is_true, needed, number, text, texts, texts_of};
use crate::Wrong;
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

/// Media types that are known: one on a line, with its extensions.
const TYPES: &str = include_str!("../types.txt");

/// What tables within add to, and do not replace.
#[derive(Clone, Debug)]
pub struct Inherited {
    /// By name in lower case: name, value, and whether it is added always.
    headers: BTreeMap<String, (String, String, bool)>,
    /// Media types by extension.
    types: BTreeMap<String, String>,
    /// Nothing is around it.
    outermost: bool,
}

impl Inherited {
    /// What the site itself is in.
    pub fn of_nothing() -> Self {
        let mut types = BTreeMap::new();
        for line in TYPES.lines() {
            let mut words = line.split(' ');
            let media_type = words.next().unwrap_or_default();
            types.extend(words.map(|extension| (extension.to_owned(), media_type.to_owned())));
        }
        Self { headers: BTreeMap::new(), types, outermost: true }
    }
}

/// Writes the rules in a table; what tables in it inherit.
///
/// # Errors
/// What cannot be meant.
pub fn rules(out: &mut Lowering, table: &DeTable<'_>, of: &str, outer: &Inherited) -> Result<Inherited, Wrong> {
    let mut rules = Rules { out, table, of };
    let mut inner = Inherited { outermost: false, ..outer.clone() };
    rules.types(outer.outermost, &mut inner);
    rules.plain();
    rules.files(outer.outermost);
    rules.headers(&mut inner)?;
    rules.errors()?;
    rules.access()?;
    rules.features()?;
    rules.log(outer.outermost)?;
    rules.clients();
    rules.answer()?;
    Ok(inner)
}

/// A table, and where its rules go.
pub(super) struct Rules<'r, 't> {
    pub out: &'r mut Lowering,
    pub table: &'t DeTable<'t>,
    /// What its keys stand in.
    pub of: &'r str,
}

impl Rules<'_, '_> {
    pub fn put(&mut self, (at, key): (usize, &str), name: &str, words: &[&str]) {
        let key = format!("{}{key}", self.of);
        self.out.put((at, &key), name, words);
    }

    /// A key that is a directive by another name.
    pub fn same(&mut self, key: &str, name: &str) {
        if let Some((at, value)) = get(self.table, key) {
            let word = match value {
                DeValue::Boolean(on) => switch(*on).to_owned(),
                other => text(other),
            };
            self.put((at, key), name, &[&word]);
        }
    }

    fn plain(&mut self) {
        for (key, name) in [
            ("root", "root"),
            ("charset", "charset"),
            ("body-max", "client_max_body_size"),
            ("rate", "limit_rate"),
            ("rate-after", "limit_rate_after"),
            ("keep-alive", "keepalive_timeout"),
            ("keep-alive-requests", "keepalive_requests"),
            ("send-timeout", "send_timeout"),
            ("body-timeout", "client_body_timeout"),
            ("header-timeout", "client_header_timeout"),
            ("etag", "etag"),
            ("max-ranges", "max_ranges"),
        ] {
            self.same(key, name);
        }
    }

    fn types(&mut self, outermost: bool, inner: &mut Inherited) {
        let own = get(self.table, "types");
        if let Some((_, DeValue::Table(types))) = own {
            for (media_type, extensions) in types {
                for (_, extension) in texts_of(0, extensions.get_ref()) {
                    inner.types.insert(extension, media_type.get_ref().to_string());
                }
            }
        }
        if !outermost && own.is_none() {
            return;
        }
        let at = own.map_or(0, |(at, _)| at);
        let mut by_type: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (extension, media_type) in &inner.types {
            by_type.entry(media_type).or_default().push(extension);
        }
        let key = format!("{}types", self.of);
        self.out.statements.open((at, &key), "types", &[]);
        for (media_type, extensions) in by_type {
            self.out.statements.line_of((at, &key), media_type, &extensions);
        }
        self.out.statements.close(at);
    }

    fn files(&mut self, outermost: bool) {
        let index = texts(self.table, "index");
        if let Some((at, _)) = index.first() {
            let names: Vec<&str> = index.iter().map(|(_, name)| name.as_str()).collect();
            self.put((*at, "index"), "index", &names);
        }
        let tried = texts(self.table, "try");
        if let Some((at, _)) = tried.first() {
            let names: Vec<&str> = tried.iter().map(|(_, name)| name.as_str()).collect();
            self.put((*at, "try"), "try_files", &names);
        }
        if outermost && get(self.table, "default-type").is_none() {
            self.put((0, "default-type"), "default_type", &["application/octet-stream"]);
        }
        self.same("default-type", "default_type");
        match get(self.table, "listing") {
            Some((at, DeValue::Boolean(on))) => self.put((at, "listing"), "autoindex", &[switch(*on)]),
            Some((at, form)) => {
                self.put((at, "listing"), "autoindex", &["on"]);
                self.put((at, "listing"), "autoindex_format", &[&text(form)]);
            }
            None => {}
        }
    }

    fn headers(&mut self, inner: &mut Inherited) -> Result<(), Wrong> {
        let Some((at, DeValue::Table(headers))) = get(self.table, "headers") else { return Ok(()) };
        for (name, value) in headers {
            let (from, name) = (name.span().start, name.get_ref());
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(token) {
                return Err(Wrong { at: from, text: format!("{name:?} is no field's name") });
            }
            let (value, always) = match value.get_ref() {
                DeValue::Table(value) => (needed(value, from, "value", "headers")?, is_true(value, "always")),
                value => (text(value), false),
            };
            inner.headers.insert(name.to_ascii_lowercase(), (name.to_string(), value, always));
        }
        if inner.headers.values().all(|(_, value, _)| value.is_empty()) {
            // All are taken away: as nothing else would.
            self.put((at, "headers"), "add_header", &["X-None", ""]);
        }
        for (name, value, always) in inner.headers.values().filter(|(_, value, _)| !value.is_empty()) {
            let mut words = vec![name.as_str(), value.as_str()];
            words.extend(always.then_some("always"));
            self.put((at, "headers"), "add_header", &words);
        }
        Ok(())
    }

    fn errors(&mut self) -> Result<(), Wrong> {
        let Some((_, DeValue::Table(pages))) = get(self.table, "error-pages") else { return Ok(()) };
        for (statuses, page) in pages {
            let (at, statuses) = (statuses.span().start, statuses.get_ref());
            let number = |word: &str| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
            if !statuses.split(' ').all(number) {
                return Err(Wrong {
                    at,
                    text: format!("{statuses:?} is no status, as \"404\" or \"500 502 503\" are"),
                });
            }
            let (page, told) = match page.get_ref() {
                DeValue::Table(page) => {
                    let told = get(page, "status").map(|(_, status)| format!("={}", self::number(status)));
                    (needed(page, at, "page", "error-pages")?, told)
                }
                page => (text(page), None),
            };
            let mut words: Vec<&str> = statuses.split(' ').collect();
            words.extend(told.as_deref());
            words.push(&page);
            self.put((at, "error-pages"), "error_page", &words);
        }
        Ok(())
    }

    fn access(&mut self) -> Result<(), Wrong> {
        let (deny, allow) = (texts(self.table, "deny"), texts(self.table, "allow"));
        for (at, address) in &deny {
            self.put((*at, "deny"), "deny", &[address]);
        }
        for (at, address) in &allow {
            self.put((*at, "allow"), "allow", &[address]);
        }
        if let Some((at, _)) = get(self.table, "allow").filter(|_| !allow.iter().any(|(_, address)| address == "all")) {
            self.put((at, "allow"), "deny", &["all"]);
        }
        if let Some((at, _)) = get(self.table, "any-of-both") {
            let word = if is_true(self.table, "any-of-both") { "any" } else { "all" };
            self.put((at, "any-of-both"), "satisfy", &[word]);
        }
        Ok(())
    }

    fn log(&mut self, outermost: bool) -> Result<(), Wrong> {
        let (at, value) = match get(self.table, "log") {
            Some(found) => found,
            None if outermost => {
                self.put((0, "log"), "access_log", &["off"]);
                return Ok(());
            }
            None => return Ok(()),
        };
        let DeValue::Table(log) = value else {
            let place = place_of_log(&text(value));
            self.put((at, "log"), "access_log", &[&place]);
            return Ok(());
        };
        let mut words = vec![place_of_log(&needed(log, at, "to", "log")?)];
        words.push(match get(log, "format").map(|(at, line)| (at, text(line))) {
            None => "combined".to_owned(),
            Some((_, line)) if line == "combined" => line,
            Some((at, line)) => self.out.format(at, &line),
        });
        for (key, word) in [("buffer", "buffer"), ("flush", "flush"), ("when", "if")] {
            words.extend(get(log, key).map(|(_, value)| format!("{word}={}", text(value))));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.put((at, "log"), "access_log", &words);
        Ok(())
    }

    fn clients(&mut self) {
        let Some((at, DeValue::Table(rules))) = get(self.table, "client-address") else { return };
        for (at, proxy) in texts(rules, "proxies") {
            self.put((at, "client-address.proxies"), "set_real_ip_from", &[&proxy]);
        }
        let field = get(rules, "field").map_or_else(|| "X-Forwarded-For".to_owned(), |(_, field)| text(field));
        self.put((at, "client-address.field"), "real_ip_header", &[&field]);
        if let Some((at, DeValue::Boolean(on))) = get(rules, "recursive") {
            self.put((at, "client-address.recursive"), "real_ip_recursive", &[switch(*on)]);
        }
    }

    /// A redirect, or text.
    fn answer(&mut self) -> Result<(), Wrong> {
        if let Some((at, value)) = get(self.table, "redirect") {
            let (to, status) = match value {
                DeValue::Table(redirect) => {
                    let status = get(redirect, "status").map(|(_, status)| number(status));
                    (needed(redirect, at, "to", "redirect")?, status)
                }
                value => (text(value), None),
            };
            self.put((at, "redirect"), "return", &[status.as_deref().unwrap_or("302"), &to]);
        }
        if let Some((at, DeValue::Table(respond))) = get(self.table, "respond") {
            if let Some((at, media_type)) = get(respond, "type") {
                self.put((at, "respond.type"), "default_type", &[&text(media_type)]);
            }
            let status = get(respond, "status").map_or_else(|| "200".to_owned(), |(_, status)| number(status));
            let body = get(respond, "text").map(|(_, body)| text(body));
            let mut words = vec![status.as_str()];
            words.extend(body.as_deref());
            self.put((at, "respond"), "return", &words);
        }
        Ok(())
    }
}

/// Where lines go, as an `access_log` has it.
fn place_of_log(to: &str) -> String {
    match to {
        "stdout" => "/dev/stdout".to_owned(),
        "stderr" => "/dev/stderr".to_owned(),
        other => other.to_owned(),
    }
}

const fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
