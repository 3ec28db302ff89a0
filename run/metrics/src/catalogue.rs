//! What values of a statistics page are called as metrics.
//!
//! The page's name says it: `tcp.retransmits` is `nearside_tcp_retransmits`. What
//! differs:
//!
//! | on the page | here |
//! | --- | --- |
//! | `app.…` | `http`, for that is what the application does |
//! | `…_ns` | seconds, with their unit |
//! | `…_bytes`, `bytes_…` | the unit last |
//! | `responses_2xx` | one family, with `class` |
//! | `timeouts_header` | one family, with `waiting_for` |
//! | `bond.1.…`, `numa.….0` | with `port`, with `domain` |

use host::help::help;
use page::MetricKind;

/// The unit of times.
const SECONDS: &str = "seconds";

/// What a value means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// Values of one name, that differ in labels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Family {
    /// Without its unit.
    pub name: String,
    /// What it is counted in, if it is no mere number.
    pub unit: Option<&'static str>,
    /// What it means.
    pub help: String,
    /// How it changes.
    pub sort: Sort,
    /// Its values are nanoseconds, and told as seconds.
    pub nanos: bool,
    /// Its values: their places among a silo's, and their labels.
    pub members: Vec<(usize, Option<(&'static str, String)>)>,
}

/// All families of a page, in the order of its values.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Catalogue {
    /// The families.
    pub families: Vec<Family>,
}

impl Catalogue {
    /// Of a page with these values.
    #[must_use]
    pub fn of(values: &[(String, MetricKind)]) -> Self {
        let mut families: Vec<Family> = Vec::new();
        for (place, (value, kind)) in values.iter().enumerate() {
            let Name { name, unit, label } = named(value);
            let nanos = unit == Some(SECONDS);
            let sort = match kind {
                MetricKind::Counter => Sort::Counter,
                MetricKind::Gauge => Sort::Gauge,
            };
            let known = families.iter_mut().find(|family| family.name == name && family.unit == unit);
            match known {
                Some(family) if family.sort == sort => family.members.push((place, label)),
                // A name that two values of different kinds would have is no name.
                Some(_) => {}
                None => {
                    let help = describe(value, label.is_some());
                    families.push(Family { name, unit, help, sort, nanos, members: vec![(place, label)] });
                }
            }
        }
        Self { families }
    }
}

impl Family {}

struct Name {
    name: String,
    unit: Option<&'static str>,
    label: Option<(&'static str, String)>,
}

fn named(value: &str) -> Name {
    let (group, rest) = value.split_once('.').unwrap_or(("process", value));
    let (rest, label) = labelled(group, rest);
    let (rest, unit) = if let Some(rest) = rest.strip_suffix("_ns") {
        (rest, Some(SECONDS))
    } else if let Some(rest) = rest.strip_suffix("_bytes").or_else(|| rest.strip_prefix("bytes_")) {
        (rest, Some("bytes"))
    } else {
        (&*rest, None)
    };
    let group = if group == "app" { "http" } else { group };
    Name { name: plain(&format!("nearside_{group}_{rest}")), unit, label }
}

/// What of a value's name is a label.
fn labelled(group: &str, rest: &str) -> (String, Option<(&'static str, String)>) {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match (group, rest.split_once('.')) {
        ("bond", Some((port, field))) if is_number(port) => {
            return (format!("port_{field}"), Some(("port", port.to_owned())));
        }
        (_, Some((field, domain))) => return (field.to_owned(), Some(("domain", domain.to_owned()))),
        _ => {}
    }
    if let Some(class) = rest.strip_prefix("responses_") {
        return ("responses".to_owned(), Some(("class", class.to_owned())));
    }
    if let Some(what) = rest.strip_prefix("timeouts_") {
        return ("timeouts".to_owned(), Some(("waiting_for", what.to_owned())));
    }
    (rest.to_owned(), None)
}

/// What stands in a name: OpenMetrics has letters, digits and underscores.
fn plain(name: &str) -> String {
    name.chars().map(|char| if char.is_ascii_alphanumeric() || char == '_' { char } else { '_' }).collect()
}

/// One line on what a family is; `apart` if its members differ in more than silos.
fn describe(value: &str, apart: bool) -> String {
    if value.starts_with("app.responses_") {
        return "Responses by the class of their status.".to_owned();
    }
    if value.starts_with("app.timeouts_") {
        return "Waits for a client or for the file system that came to an end, by what was waited for.".to_owned();
    }
    let known = help(value).or_else(|| help(value.rsplit_once('.').filter(|_| apart)?.0));
    let text = known.map_or_else(|| format!("{value} of the statistics page"), links_as_words);
    format!("{}.", text.trim_end_matches('.'))
}

/// Without the marks that documentation has, and in one line.
fn links_as_words(text: &str) -> String {
    let text = text.trim_start_matches("Gauge: ").replace(['`', '[', ']'], "");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(value: &str) -> (String, Option<&'static str>, Option<(&'static str, String)>) {
        let Name { name, unit, label, .. } = named(value);
        (name, unit, label)
    }

    #[test]
    fn names_follow_the_page() {
        let with = |label: &'static str, value: &str| Some((label, value.to_owned()));
        for (value, name, unit, label) in [
            ("tcp.retransmits", "nearside_tcp_retransmits", None, None),
            ("app.requests", "nearside_http_requests", None, None),
            ("app.bytes_queued", "nearside_http_queued", Some("bytes"), None),
            ("link.rx_bytes", "nearside_link_rx", Some("bytes"), None),
            ("silo.busy_ns", "nearside_silo_busy", Some("seconds"), None),
            ("app.responses_4xx", "nearside_http_responses", None, with("class", "4xx")),
            ("app.timeouts_header", "nearside_http_timeouts", None, with("waiting_for", "header")),
            ("bond.2.rx_frames", "nearside_bond_port_rx_frames", None, with("port", "2")),
            ("bond.ports", "nearside_bond_ports", None, None),
            ("numa.rx_bytes.nowhere", "nearside_numa_rx", Some("bytes"), with("domain", "nowhere")),
            ("x.a-b c", "nearside_x_a_b_c", None, None),
            ("alone", "nearside_process_alone", None, None),
        ] {
            assert_eq!(full(value), (name.to_owned(), unit, label), "{value}");
        }
    }

    #[test]
    fn a_family_has_its_members_and_a_help() {
        let values = ["app.responses_2xx", "app.requests", "app.responses_5xx", "app.connections_open", "q.unknown"];
        let kind = |name: &str| if name.ends_with("open") { MetricKind::Gauge } else { MetricKind::Counter };
        let values: Vec<(String, MetricKind)> = values.iter().map(|name| ((*name).to_owned(), kind(name))).collect();
        let catalogue = Catalogue::of(&values);
        let names: Vec<&str> = catalogue.families.iter().map(|family| family.name.as_str()).collect();
        let expected = [
            "nearside_http_responses",
            "nearside_http_requests",
            "nearside_http_connections_open",
            "nearside_q_unknown",
        ];
        assert_eq!(names, expected);
        let places: Vec<usize> = catalogue.families[0].members.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, [0, 2]);
        assert_eq!(catalogue.families[1].help, "Request heads accepted.");
        assert_eq!((catalogue.families[2].sort, &*catalogue.families[2].help), (Sort::Gauge, "Connections open."));
        assert_eq!(catalogue.families[3].help, "q.unknown of the statistics page.");
    }
}
