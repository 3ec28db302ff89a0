//! What workers are as pods.

use crate::fields::{FieldError, Fields, excerpt};
use crate::test::{Amounts, PodsSpec, Resources, Spread, Toleration};
use crate::values::{count_or_zero, name};
use audit::yaml::{Node, Value};

/// Labels of nodes, tolerations, and secrets of registries, at most: each of them.
pub(crate) const LIST_LIMIT: usize = 64;

/// The longest name of an image: that of a registry, a path, and a digest.
pub(crate) const IMAGE_LIMIT: usize = 512;

/// Reads `pods` of a test; a worker has so many threads and takes so much memory.
pub(crate) fn pods(outer: &mut Fields<'_>, threads: u32, memory: u64) -> PodsSpec {
    let mut found = PodsSpec::default();
    if let Some(node) = outer.node("pods") {
        let mut fields = Fields::new("spec.pods", node);
        common(&mut found, &mut fields, memory);
        let spread = fields.value("spread", |text| match text {
            "preferred" => Ok(Spread::Preferred),
            "required" => Ok(Spread::Required),
            "none" => Ok(Spread::None),
            _ => Err("write preferred, required or none".to_owned()),
        });
        found.spread = spread.unwrap_or_default();
        outer.take_wrong(fields.end());
    }
    found.complete(u64::from(threads) * 1_000, memory);
    found
}

/// Reads `pods` of an audit, of which each node has one: they are not spread. One takes so much of a core, in
/// thousandths, and so much memory.
pub(crate) fn audit_pods(outer: &mut Fields<'_>, cpu_milli: u64, memory: u64) -> PodsSpec {
    let mut found = PodsSpec::default();
    if let Some(node) = outer.node("pods") {
        let mut fields = Fields::new("spec.pods", node);
        common(&mut found, &mut fields, memory);
        outer.take_wrong(fields.end());
    }
    found.complete(cpu_milli, memory);
    found
}

/// What pods of both kinds have; one takes so much memory.
fn common(found: &mut PodsSpec, fields: &mut Fields<'_>, memory: u64) {
    found.image = fields.value("image", image);
    found.pull = fields.value("imagePullPolicy", |text| one_of(text, &["Always", "IfNotPresent", "Never"]));
    found.pull_secrets = names(fields);
    found.resources = resources(fields, memory);
    found.node_selector = node_selector(fields);
    found.tolerations = tolerations(fields);
    found.user = fields.value("runAsUser", |text| match count_or_zero(text)? {
        0 => Err("such a pod needs no rights: take a user above 0".to_owned()),
        user => Ok(user),
    });
}

fn one_of(text: &str, known: &[&str]) -> Result<String, String> {
    if known.contains(&text) { Ok(text.to_owned()) } else { Err(format!("write one of {}", known.join(", "))) }
}

/// Reads the name of an image: a registry's, a path, a tag or digest.
///
/// # Errors
/// If it is none, with what to write.
pub fn image(text: &str) -> Result<String, String> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@".contains(&byte);
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let fits = text.bytes().all(letter) && ends(bytes.first()) && ends(bytes.last()) && text.len() <= IMAGE_LIMIT;
    if fits { Ok(text.to_owned()) } else { Err("write an image as in registry.example/nearside:1".to_owned()) }
}

/// `imagePullSecrets`, as a pod has them: each with its name.
fn names(outer: &mut Fields<'_>) -> Vec<String> {
    let Some(places) = list(outer, "imagePullSecrets") else { return Vec::new() };
    let mut found = Vec::new();
    for (n, place) in places.iter().enumerate() {
        let mut fields = Fields::new(&format!("spec.pods.imagePullSecrets[{n}]"), place);
        found.extend(fields.needed("name", name));
        outer.take_wrong(fields.end());
    }
    found
}

fn list<'a>(outer: &mut Fields<'a>, field: &'static str) -> Option<&'a [Node]> {
    let node = outer.node(field)?;
    let fits = matches!(&node.value, Value::List(list) if list.len() <= LIST_LIMIT);
    if !fits {
        outer.refuse(field, format!("this is to be a list of {LIST_LIMIT} at most"));
    }
    fits.then(|| node.list())
}

fn resources(outer: &mut Fields<'_>, memory: u64) -> Resources {
    let Some(node) = outer.node("resources") else { return Resources::default() };
    let mut fields = Fields::new("spec.pods.resources", node);
    let mut amounts = |field: &'static str| {
        let Some(node) = fields.node(field) else { return Amounts::default() };
        let mut inner = Fields::new(&format!("spec.pods.resources.{field}"), node);
        let cpu_milli = inner.value("cpu", cpu);
        let memory = inner.value("memory", |text| match bytes(text)? {
            found if found < memory => Err(format!("such a pod takes {} Mi", memory.div_ceil(1 << 20))),
            found => Ok(found),
        });
        fields.take_wrong(inner.end());
        Amounts { cpu_milli, memory }
    };
    let found = Resources { requests: amounts("requests"), limits: amounts("limits") };
    let more = |asked: Option<u64>, most: Option<u64>| asked.zip(most).is_some_and(|(asked, most)| asked > most);
    for (field, more) in [
        ("cpu", more(found.requests.cpu_milli, found.limits.cpu_milli)),
        ("memory", more(found.requests.memory, found.limits.memory)),
    ] {
        if more {
            let line = node.at(&format!("requests.{field}")).map_or(node.line, |node| node.line);
            let why = "this is more than its limit".to_owned();
            let field = format!("spec.pods.resources.requests.{field}");
            fields.take_wrong(vec![FieldError { field, line, why }]);
        }
    }
    outer.take_wrong(fields.end());
    found
}

/// Thousandths of a core: `500m`, `2` or `1.5`.
fn cpu(text: &str) -> Result<u64, String> {
    let wrong = || "write cores, as in 2, 1.5 or 500m".to_owned();
    let (digits, factor) = text.strip_suffix('m').map_or((text, 1e3), |digits| (digits, 1.0));
    let milli = decimal(digits).map(|number| number * factor).filter(|milli| milli.fract() == 0.0);
    milli.filter(|milli| (1.0..=1e7).contains(milli)).map(|milli| milli as u64).ok_or_else(wrong)
}

/// Bytes, as Kubernetes writes them: `256Mi`, `1G`.
fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 7] =
        [("Ki", 1024.0), ("Mi", 1_048_576.0), ("Gi", 1_073_741_824.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)];
    let found = UNITS.iter().find_map(|(unit, factor)| Some(decimal(text.strip_suffix(unit)?)? * factor));
    let found = found.filter(|bytes| bytes.fract() == 0.0 && (1.0..=1e15).contains(bytes));
    found.map(|bytes| bytes as u64).ok_or_else(|| "write bytes with their unit, as in 256Mi or 1Gi".to_owned())
}

/// Digits, and perhaps a point among them.
fn decimal(text: &str) -> Option<f64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if digits && text.len() <= 20 { text.parse().ok() } else { None }
}

fn node_selector(outer: &mut Fields<'_>) -> Vec<(String, String)> {
    let Some(node) = outer.node("nodeSelector") else { return Vec::new() };
    if node.map().is_empty() || node.map().len() > LIST_LIMIT {
        outer.refuse("nodeSelector", format!("this is to be a map of 1 to {LIST_LIMIT} labels, each with its value"));
        return Vec::new();
    }
    let mut found = Vec::new();
    for (key, place) in node.map() {
        let field = format!("spec.pods.nodeSelector.{}", excerpt(key));
        let why = match place.text() {
            None => "this is to be one text".to_owned(),
            Some(value) => match label_key(key).and_then(|key| Ok((key, label_value(value)?))) {
                Ok(label) => {
                    found.push(label);
                    continue;
                }
                Err(why) => why,
            },
        };
        outer.take_wrong(vec![FieldError { field, line: place.line, why }]);
    }
    found
}

fn tolerations(outer: &mut Fields<'_>) -> Vec<Toleration> {
    let Some(places) = list(outer, "tolerations") else { return Vec::new() };
    let mut found = Vec::new();
    for (n, place) in places.iter().enumerate() {
        let mut fields = Fields::new(&format!("spec.pods.tolerations[{n}]"), place);
        let key = fields.value("key", label_key);
        let value = fields.value("value", label_value);
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        let effect = fields.value("effect", |text| one_of(text, &effects));
        let operator = fields.value("operator", |text| one_of(text, &["Exists", "Equal"]));
        match (operator.as_deref(), value.is_some(), key.is_some()) {
            (Some("Exists"), true, _) => fields.refuse("value", "Exists takes each value: leave this out"),
            (None | Some("Equal"), false, _) => {
                fields.refuse("value", "this is missing; operator: Exists takes each value");
            }
            (_, true, false) => fields.refuse("key", "this is missing: a value is of a key"),
            _ => {}
        }
        outer.take_wrong(fields.end());
        found.push(Toleration { key, value, effect });
    }
    found
}

/// The key of a label: a name, and before it perhaps a domain and a slash.
fn label_key(text: &str) -> Result<String, String> {
    let (domain, key) = text.split_once('/').map_or((None, text), |(domain, key)| (Some(domain), key));
    let label = |label: &str| name(label).is_ok();
    let domain_fits = domain.is_none_or(|domain| domain.len() <= 253 && domain.split('.').all(label));
    let fits = domain_fits && !key.is_empty() && label_value(key).is_ok();
    if fits { Ok(text.to_owned()) } else { Err("this is no key of a label, as in pool or example.org/pool".to_owned()) }
}

/// The value of a label.
fn label_value(text: &str) -> Result<String, String> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let fits = text.len() <= 63 && text.bytes().all(letter) && ends(bytes.first()) && ends(bytes.last());
    let why = "a label has letters, digits, - _ and ., 63 at most, and begins and ends with a letter or digit";
    if fits { Ok(text.to_owned()) } else { Err(why.to_owned()) }
}
