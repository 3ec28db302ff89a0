//! Every key of a site: where it may stand, what its value is, and what it means. Those of
//! features stand in their rooms, the others here; checks, the schema and the documentation
//! go by all of them.

use features::SiteKey;
use features::key::{KeyPlace, KeyValue, key};

use KeyPlace::{
    ClientAddress, Compression, ConnectionLimit, ErrorPage, Header, Host, Limit, LimitUse, Location, Log, Password,
    Redirect, Respond, Rewrite, Site,
};
use KeyValue::{
    Named, NamedOrText, NamedTexts, Number, NumberOr, OneOf, Switch, SwitchOr, Table, TableOrOff, TableOrText, Tables,
    Text, Texts,
};

const ALL: &[KeyPlace] = KeyPlace::ALL;
const WITHIN: &[KeyPlace] = &[Host, Location];

/// Those of places that no feature has.
const OF_PLACES: &[SiteKey] = &[
    key("workers", &[Site], NumberOr(1, 512, &["auto"]), "Workers, or silos; auto: one for each core"),
    key("connections", &[Site], Number(1, 10_000_000), "Connections of each worker, at most [default: 512]"),
    key("host", &[Site], Tables(Host), "A virtual host"),
    key("names", &[Host], Texts, "Its names: whole, *.example.org, mail.*, or ~ and an expression"),
    key("listen", &[Host], Texts, "Where it is listened: PORT, ADDRESS:PORT, unix:PATH [default: 80]"),
    key("default", &[Host], Switch, "It has the requests that no other host's name is in"),
    key("rewrite", &[Host], Tables(Rewrite), "Paths that become others before a location is looked for"),
    key("location", &[Host], Tables(Location), "What holds for some paths"),
    key("path", &[Location], Text, "Paths that begin so"),
    key("firm", &[Location], Switch, "With path: whatever expressions match"),
    key("exact", &[Location], Text, "This path alone"),
    key("match", &[Location], Text, "Paths that this expression (PCRE) matches, the first that does"),
    key("match-any-case", &[Location], Text, "The same whatever the case"),
    key("named", &[Location], Text, "No path: try and error-pages lead here by @ and this name"),
    key("internal", &[Location], Switch, "Redirects within the host alone lead here"),
    key("alias", &[Location], Text, "A folder in the place of path; with match, the whole path of a file"),
    key("stub-status", &[Location], Switch, "Numbers of connections are the answer"),
    key(
        "root",
        ALL,
        Text,
        "The folder that paths are looked for in; variables as $host stand for what they do in an nginx.conf",
    ),
    key("index", ALL, Texts, "Files that answer for their folder, the first that is there"),
    key("try", WITHIN, Texts, "Paths that are looked for; the last is where it goes on: a path, @named, or =404"),
    key(
        "headers",
        ALL,
        NamedOrText(Header),
        "Fields that answers get, beside those of the table outside with other names; empty text takes one away",
    ),
    key("charset", ALL, Text, "The charset that is told of text, or off"),
    key(
        "error-pages",
        ALL,
        NamedOrText(ErrorPage),
        "What answers in the place of a status: a path, @named, or an address",
    ),
    key("redirect", WITHIN, TableOrText(Redirect), "All requests are sent elsewhere"),
    key("respond", WITHIN, Table(Respond), "Text that is the answer"),
    key("listing", ALL, SwitchOr(&["html", "json", "xml"]), "Folders without an index file are listed"),
    key("allow", ALL, Texts, "Addresses and networks that may ask, and no others"),
    key("deny", ALL, Texts, "Addresses and networks that may not, though allow has them"),
    key("any-of-both", ALL, Switch, "An address that may, or a password: one is enough"),
    key("body-max", ALL, Text, "A request's body, at most: a size as 1m; 0 is any"),
    key("rate", ALL, Text, "Bytes of an answer a second, at most: a size as 500k"),
    key("rate-after", ALL, Text, "How much of an answer is sent before rate holds"),
    key("keep-alive", ALL, Text, "How long an idle connection is kept: a time as 65s; 0 closes"),
    key("keep-alive-requests", ALL, Number(1, 4_294_967_295), "Requests of one connection, at most"),
    key("send-timeout", ALL, Text, "How long a client may take nothing of an answer"),
    key("body-timeout", ALL, Text, "How long a client may send nothing of a body"),
    key("header-timeout", &[Site, Host], Text, "How long the head of a request may take"),
    key("types", ALL, NamedTexts, "Media types, each with its file extensions, beside those that are known"),
    key("default-type", ALL, Text, "The media type of what has no other"),
    key("etag", ALL, Switch, "Answers have an ETag"),
    key("max-ranges", ALL, Number(0, 65_535), "Ranges of one answer, at most"),
    key("log", ALL, TableOrText(Log), "Where requests are logged: a file, stdout, stderr, syslog:…, or off"),
    key("client-address", ALL, Table(ClientAddress), "Proxies that are believed, and how they tell of their clients"),
];

/// Those of tables within them, likewise.
const OF_TABLES: &[SiteKey] = &[
    key("from", &[Rewrite], Text, "The expression (PCRE) that paths match"),
    key("to", &[Rewrite, Redirect], Text, "What takes its place: $1 is its first group; an address redirects"),
    key(
        "then",
        &[Rewrite],
        OneOf(&["last", "break", "redirect", "permanent"]),
        "What follows: last (another search for a location), break, redirect (302), permanent (301)",
    ),
    key("status", &[Redirect, Respond, ErrorPage], Number(200, 599), "The status that is told"),
    key("text", &[Respond], Text, "The text"),
    key("type", &[Respond], Text, "Its media type"),
    key("value", &[Header], Text, "The field's value"),
    key("always", &[Header], Switch, "Whatever the status is"),
    key("page", &[ErrorPage], Text, "A path, @named, or an address"),
    key("to", &[Log], Text, "A file, stdout, stderr, syslog:…, or off"),
    key("format", &[Log], Text, "combined, json, or a line with variables as $request"),
    key("buffer", &[Log], Text, "So much is gathered before it is written: a size"),
    key("flush", &[Log], Text, "And it waits so long, at most: a time"),
    key("when", &[Log], Text, "A variable: not where it is empty or 0"),
    key("proxies", &[ClientAddress], Texts, "Addresses and networks of proxies, or unix:"),
    key("field", &[ClientAddress], Text, "The field in which they tell [default: X-Forwarded-For]"),
    key("recursive", &[ClientAddress], Switch, "The last address that is no proxy's counts"),
];

/// All keys: those of places first.
pub fn all() -> impl Iterator<Item = &'static SiteKey> {
    let of_places = |key: &SiteKey| key.places.iter().any(|place| ALL.contains(place));
    let features = move |of: bool| features::keys().filter(move |key| of_places(key) == of);
    OF_PLACES.iter().chain(features(true)).chain(OF_TABLES).chain(features(false))
}

/// The keys of a table.
pub fn of(place: KeyPlace) -> impl Iterator<Item = &'static SiteKey> {
    all().filter(move |key| key.places.contains(&place))
}

/// All keys for people: a table for each place, as docs/site.md has them.
#[must_use]
pub fn table() -> String {
    const HEADS: [(KeyPlace, &str); 15] = [
        (Site, "the file"),
        (Host, "`[[host]]`"),
        (Location, "`[[host.location]]`"),
        (Rewrite, "`rewrite`"),
        (Limit, "`[limits.NAME]`"),
        (LimitUse, "`limit`"),
        (ConnectionLimit, "`connection-limit`"),
        (Log, "`log`"),
        (Compression, "`compression`"),
        (Password, "`password`"),
        (Redirect, "`redirect`"),
        (Respond, "`respond`"),
        (Header, "a value of `headers`"),
        (ErrorPage, "a value of `error-pages`"),
        (ClientAddress, "`client-address`"),
    ];
    let mut out = String::new();
    let mut line = |words: core::fmt::Arguments<'_>| out.push_str(&format!("{words}\n"));
    line(format_args!("| key | in | value | meaning |"));
    line(format_args!("| --- | --- | --- | --- |"));
    for key in all() {
        let of = |place: &KeyPlace| HEADS.iter().find(|(one, _)| one == place).map_or("", |(_, head)| *head);
        let places: Vec<&str> = key.places.iter().map(of).collect();
        line(format_args!("| `{}` | {} | {} | {} |", key.name, places.join(", "), words(key.value), key.about));
    }
    out
}

fn words(value: KeyValue) -> String {
    let of = |words: &[&str]| words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ");
    match value {
        Text => "text".to_owned(),
        Texts => "text, or texts".to_owned(),
        Number(least, most) => format!("{least} to {most}"),
        NumberOr(least, most, known) => format!("{least} to {most}, {}", of(known)),
        Switch => "true, false".to_owned(),
        SwitchOr(known) => format!("true, false, {}", of(known)),
        OneOf(known) => of(known),
        Table(_) => "table".to_owned(),
        TableOrOff(_) => "table, or false".to_owned(),
        TableOrText(_) => "text, or table".to_owned(),
        Tables(_) => "tables".to_owned(),
        Named(_) => "tables by name".to_owned(),
        NamedOrText(_) => "texts or tables by name".to_owned(),
        NamedTexts => "texts by name".to_owned(),
    }
}
