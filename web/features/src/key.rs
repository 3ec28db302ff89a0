//! Keys of a site in TOML: where one may stand, what its value is, what it means, and the
//! directives that it comes to.

use std::collections::BTreeMap;

/// A key.
#[derive(Clone, Copy, Debug)]
pub struct SiteKey {
    /// Its name.
    pub name: &'static str,
    /// In which tables it may stand.
    pub places: &'static [KeyPlace],
    /// What its value is.
    pub value: KeyValue,
    /// What it means, for people.
    pub about: &'static str,
    /// The directives that it comes to.
    pub written: KeyWritten,
}

/// The directives that a key comes to.
#[derive(Clone, Copy, Debug)]
pub enum KeyWritten {
    /// It is read with another, or by who reads the site.
    Elsewhere,
    /// One of this name, with the same value.
    As(&'static str),
    /// What a function writes of the table that the key stands in.
    By(fn(&dyn SiteTable, &mut dyn SiteWriter) -> Result<(), KeyError>),
}

/// What cannot be meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyError {
    /// The byte of the file at which it stands.
    pub at: usize,
    /// What is wrong.
    pub text: String,
}

/// A table, whose values are of their kinds: that was checked.
pub trait SiteTable {
    /// Where the value of a key stands, if there is one.
    fn place(&self, key: &str) -> Option<usize>;
    /// Text, or a number as text.
    fn text(&self, key: &str) -> Option<(usize, String)>;
    /// One text or several, each with its place.
    fn texts(&self, key: &str) -> Vec<(usize, String)>;
    /// True or false.
    fn switch(&self, key: &str) -> Option<(usize, bool)>;
    /// A table.
    fn table(&self, key: &str) -> Option<(usize, Box<dyn SiteTable + '_>)>;
    /// Tables by name, each with the place of its name.
    fn named(&self, key: &str) -> Vec<(usize, String, Box<dyn SiteTable + '_>)>;
    /// Tables in a list.
    fn tables(&self, key: &str) -> Vec<(usize, Box<dyn SiteTable + '_>)>;
}

/// Who writes directives.
pub trait SiteWriter {
    /// A directive, of the key that stands there.
    fn put(&mut self, at: (usize, &str), name: &str, words: &[&str]);
    /// Names in `limits`, and whether what is counted by them is requests.
    fn limits(&mut self) -> &mut BTreeMap<String, bool>;
}

/// Text that a table is to have.
///
/// # Errors
/// It has none.
pub fn needed(table: &dyn SiteTable, at: usize, key: &str, of: &str) -> Result<String, KeyError> {
    let found = table.text(key).map(|(_, text)| text);
    found.ok_or_else(|| KeyError { at, text: format!("{of} needs {key}") })
}

/// The word of a directive that is `on` or `off`.
#[must_use]
pub const fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// A key that is read elsewhere.
#[must_use]
pub const fn key(name: &'static str, places: &'static [KeyPlace], value: KeyValue, about: &'static str) -> SiteKey {
    SiteKey { name, places, value, about, written: KeyWritten::Elsewhere }
}

impl SiteKey {
    /// The same, as a directive by another name.
    #[must_use]
    pub const fn is(self, directive: &'static str) -> Self {
        Self { written: KeyWritten::As(directive), ..self }
    }

    /// The same, as what a function writes.
    #[must_use]
    pub const fn by(self, write: fn(&dyn SiteTable, &mut dyn SiteWriter) -> Result<(), KeyError>) -> Self {
        Self { written: KeyWritten::By(write), ..self }
    }
}

/// A table that keys stand in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyPlace {
    /// The whole file.
    Site,
    /// `[[host]]`
    Host,
    /// `[[host.location]]`
    Location,
    /// `[[host.rewrite]]`
    Rewrite,
    /// `[limits.NAME]`
    Limit,
    /// `log`
    Log,
    /// `compression`
    Compression,
    /// `password`
    Password,
    /// `redirect`
    Redirect,
    /// `respond`
    Respond,
    /// A value of `headers`
    Header,
    /// A value of `error-pages`
    ErrorPage,
    /// `limit`
    LimitUse,
    /// `connection-limit`
    ConnectionLimit,
    /// `client-address`
    ClientAddress,
}

/// What a key's value is.
#[derive(Clone, Copy, Debug)]
pub enum KeyValue {
    /// Text, or a number that is written as such.
    Text,
    /// One text or several.
    Texts,
    /// A whole number from one to another.
    Number(i64, i64),
    /// A number as above, or one of these words.
    NumberOr(i64, i64, &'static [&'static str]),
    /// True or false.
    Switch,
    /// True, false, or one of these words.
    SwitchOr(&'static [&'static str]),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A table of these keys.
    Table(KeyPlace),
    /// A table of these keys, or false for none.
    TableOrOff(KeyPlace),
    /// A table of these keys, or text in place of its first.
    TableOrText(KeyPlace),
    /// Tables of these keys.
    Tables(KeyPlace),
    /// A table of names, each with such a table.
    Named(KeyPlace),
    /// A table of names, each with text or such a table.
    NamedOrText(KeyPlace),
    /// A table of names, each with one text or several.
    NamedTexts,
}

impl KeyPlace {
    /// The whole file, a host, and a location: what locations inherit from their host, and
    /// hosts from the site.
    pub const ALL: &[Self] = &[Self::Site, Self::Host, Self::Location];
}
