//! The keys as JSON Schema (draft 2020-12), for editors.

use crate::keys;
use features::SiteKey;
use features::key::{KeyPlace, KeyValue};
use serde_json::{Map, Value, json};

/// The schema of a site.
#[must_use]
pub fn schema() -> Value {
    let mut schema = table(KeyPlace::Site);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("A site of nearside serve --site");
    schema["required"] = json!(["host"]);
    schema
}

fn table(place: KeyPlace) -> Value {
    let properties: Map<String, Value> = keys::of(place).map(|key| (key.name.to_owned(), property(key))).collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn property(key: &SiteKey) -> Value {
    let mut property = of(key.value);
    property["description"] = json!(key.about);
    property
}

fn of(value: KeyValue) -> Value {
    let text = || json!({ "type": ["string", "integer"] });
    let texts = || json!({ "anyOf": [text(), { "type": "array", "items": text() }] });
    match value {
        KeyValue::Text => text(),
        KeyValue::Texts => texts(),
        KeyValue::Number(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        KeyValue::NumberOr(least, most, words) => {
            json!({ "anyOf": [{ "type": "integer", "minimum": least, "maximum": most }, { "enum": words }] })
        }
        KeyValue::Switch => json!({ "type": "boolean" }),
        KeyValue::SwitchOr(words) => json!({ "anyOf": [{ "type": "boolean" }, { "enum": words }] }),
        KeyValue::OneOf(words) => json!({ "enum": words }),
        KeyValue::Table(place) => table(place),
        KeyValue::TableOrOff(place) => json!({ "anyOf": [table(place), { "const": false }] }),
        KeyValue::TableOrText(place) => json!({ "anyOf": [{ "type": "string" }, table(place)] }),
        KeyValue::Tables(place) => json!({ "type": "array", "items": table(place) }),
        KeyValue::Named(place) => json!({ "type": "object", "additionalProperties": table(place) }),
        KeyValue::NamedOrText(place) => {
            json!({ "type": "object", "additionalProperties": { "anyOf": [text(), table(place)] } })
        }
        KeyValue::NamedTexts => json!({ "type": "object", "additionalProperties": texts() }),
    }
}
