//! A request as a JSON object, as Vegeta has it, and more.

use super::{Arc, Check, Expect, Request, Weighted, path, positive, put_field};
use crate::checks::{CHECKS_LIMIT, Pattern};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    method: Option<String>,
    url: String,
    #[serde(default)]
    header: BTreeMap<String, Several>,
    body: Option<String>,
    text: Option<String>,
    weight: Option<u32>,
    want: Option<Want>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Want {
    status: Option<u16>,
    length: Option<u64>,
    header: Option<Several>,
    body: Option<String>,
    regex: Option<String>,
    sha256: Option<String>,
}

/// One text, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Several {
    One(String),
    All(Vec<String>),
}

impl Several {
    fn each(&self) -> &[String] {
        match self {
            Self::One(one) => core::slice::from_ref(one),
            Self::All(all) => all,
        }
    }
}

/// The request that a line describes; what it leaves out is as in `like`.
pub fn request(line: &str, like: &Request, secured: bool) -> Result<Weighted<Request>, String> {
    let line: Line = serde_json::from_str(line).map_err(|why| why.to_string())?;
    let mut item = like.clone();
    item.path = path(&line.url, &like.host, secured)?;
    if let Some(method) = line.method.filter(|method| !method.is_empty()) {
        item.method = method;
    }
    for (name, values) in &line.header {
        values.each().iter().for_each(|value| put_field(&mut item, name, value));
    }
    match (line.body, line.text) {
        (Some(_), Some(_)) => return Err("a request has a body or a text".to_owned()),
        (Some(body), None) => item.body = STANDARD.decode(body).map_err(|why| format!("body: no Base64: {why}"))?,
        (None, Some(text)) => item.body = text.into_bytes(),
        (None, None) => {}
    }
    if let Some(want) = line.want {
        item.expect = Some(Expect { length: want.length, status: want.status });
        item.checks = Some(checks(&want)?);
    }
    let weight = line.weight.map_or(Ok(1), positive)?;
    Ok(Weighted { weight, item })
}

fn checks(want: &Want) -> Result<Arc<[Check]>, String> {
    let mut checks = Vec::new();
    for header in want.header.as_ref().map_or(&[][..], Several::each) {
        checks.push(Check::header(header).ok_or_else(|| format!("want: '{header}' is no header"))?);
    }
    checks.extend(want.body.as_ref().map(|text| Check::Contains(text.as_bytes().into())));
    if let Some(regex) = &want.regex {
        let pattern = Pattern::new(regex).map_err(|why| format!("want: regex: {why}"))?;
        checks.push(Check::Matches(Arc::new(pattern)));
    }
    if let Some(hash) = &want.sha256 {
        checks.push(Check::sha256(hash).ok_or("want: a SHA-256 has 64 hexadecimal digits")?);
    }
    if checks.len() > CHECKS_LIMIT {
        return Err(format!("want: there may be {CHECKS_LIMIT} checks"));
    }
    Ok(checks.into())
}
