//! Keys of limits in a site.

use crate::key::KeyPlace::{self, ConnectionLimit, Limit, LimitUse, Site};
use crate::key::KeyValue::{Named, Number, NumberOr, Tables, Text};
use crate::key::{KeyError, SiteKey, SiteTable, SiteWriter, key, needed};

pub(super) const KEYS: &[SiteKey] = &[
    key("limits", &[Site], Named(Limit), "What requests or connections are counted by, under a name of its own")
        .by(write_zones),
    key("limit", KeyPlace::ALL, Tables(LimitUse), "How often the same may ask").by(write_requests),
    key("connection-limit", KeyPlace::ALL, Tables(ConnectionLimit), "How many connections the same may have")
        .by(write_connections),
    key("key", &[Limit], Text, "What is counted together [default: $binary_remote_addr]"),
    key("rate", &[Limit], Text, "Requests: 10r/s or 30r/m; without it connections are counted"),
    key("memory", &[Limit], Text, "What is kept of it, at most [default: 10m]"),
    key("by", &[LimitUse, ConnectionLimit], Text, "The name in limits"),
    key("burst", &[LimitUse], Number(0, 1_000_000), "So many may come at once"),
    key(
        "delay",
        &[LimitUse],
        NumberOr(0, 1_000_000, &["none"]),
        "So many of these are served at once, the others in time; none: all at once",
    ),
    key("most", &[ConnectionLimit], Number(1, 65_535), "So many connections"),
];

/// `[limits.NAME]`: a zone of that name.
fn write_zones(site: &dyn SiteTable, out: &mut dyn SiteWriter) -> Result<(), KeyError> {
    for (at, name, limit) in site.named("limits") {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            return Err(KeyError { at, text: format!("{name:?} is no name: letters, digits, - and _ are") });
        }
        let text_or = |key, otherwise: &str| limit.text(key).map_or_else(|| otherwise.to_owned(), |(_, text)| text);
        let (key, zone) = (text_or("key", "$binary_remote_addr"), format!("zone={name}:{}", text_or("memory", "10m")));
        match limit.text("rate") {
            Some((at, rate)) => {
                out.put((at, "limits.rate"), "limit_req_zone", &[&key, &zone, &format!("rate={rate}")]);
                out.limits().insert(name, true);
            }
            None => {
                out.put((at, "limits"), "limit_conn_zone", &[&key, &zone]);
                out.limits().insert(name, false);
            }
        }
    }
    Ok(())
}

/// `limit`
fn write_requests(site: &dyn SiteTable, out: &mut dyn SiteWriter) -> Result<(), KeyError> {
    for (at, limit) in site.tables("limit") {
        let mut words = vec![format!("zone={}", by(&*limit, at, ("limit", true), out)?)];
        words.extend(limit.text("burst").map(|(_, burst)| format!("burst={burst}")));
        words.extend(limit.text("delay").map(|(_, delay)| match delay.as_str() {
            "none" => "nodelay".to_owned(),
            delay => format!("delay={delay}"),
        }));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        out.put((at, "limit"), "limit_req", &words);
    }
    Ok(())
}

/// `connection-limit`
fn write_connections(site: &dyn SiteTable, out: &mut dyn SiteWriter) -> Result<(), KeyError> {
    for (at, limit) in site.tables("connection-limit") {
        let by = by(&*limit, at, ("connection-limit", false), out)?;
        let most = needed(&*limit, at, "most", "connection-limit")?;
        out.put((at, "connection-limit"), "limit_conn", &[&by, &most]);
    }
    Ok(())
}

/// What is counted by, which is of the right kind.
fn by(
    limit: &dyn SiteTable,
    at: usize,
    (key, requests): (&str, bool),
    out: &mut dyn SiteWriter,
) -> Result<String, KeyError> {
    let by = needed(limit, at, "by", key)?;
    let what = match out.limits().get(&by) {
        Some(counts) if *counts == requests => return Ok(by),
        Some(true) => "counts requests: it has a rate",
        Some(false) => "counts connections: it has no rate",
        None => "is not in limits",
    };
    Err(KeyError { at: limit.place("by").unwrap_or(at), text: format!("{key}: {by:?} {what}") })
}
