//! The schema that the API server checks tests by, beside the reader that has the last word.

use serde_json::Value;
use spec::{LoadTest, schema};

/// What the reader says that there is, beside a field that is not known.
fn known_to_reader(text: &str, field: &str) -> Vec<String> {
    let wrong = LoadTest::read(text).expect_err("a field is not known");
    let found = wrong.iter().find(|one| one.field == field);
    let why = &found.unwrap_or_else(|| panic!("{field}: {wrong:?}")).why;
    why.split("there are ").nth(1).expect("they are named").split(", ").map(str::to_owned).collect()
}

fn of_schema(place: &Value) -> Vec<String> {
    let fields = place["properties"].as_object().expect("an object");
    let mut names: Vec<String> = fields.keys().cloned().collect();
    names.sort_unstable();
    names
}

#[test]
fn the_schema_has_the_fields_that_are_read_and_no_others() {
    let whole = schema();
    let spec = &whole["properties"]["spec"];
    let (request, pods) = (&spec["properties"]["request"], &spec["properties"]["pods"]);
    let header = &request["properties"]["headers"]["items"];
    let from = &header["properties"]["valueFrom"];
    let resources = &pods["properties"]["resources"];
    for (path, place) in [
        ("spec", spec),
        ("spec.request", request),
        ("spec.request.headers[0]", header),
        ("spec.request.headers[0].valueFrom", from),
        ("spec.request.headers[0].valueFrom.secretKeyRef", &from["properties"]["secretKeyRef"]),
        ("spec.request.feed", &request["properties"]["feed"]),
        ("spec.pods", pods),
        ("spec.pods.resources", resources),
        ("spec.pods.resources.limits", &resources["properties"]["limits"]),
        ("spec.pods.tolerations[0]", &pods["properties"]["tolerations"]["items"]),
        ("spec.pods.imagePullSecrets[0]", &pods["properties"]["imagePullSecrets"]["items"]),
    ] {
        // A field of no schema, at that place.
        let mut text = String::from("nonesuch: 1");
        for part in path.split('.').rev() {
            let (name, is_list) = part.strip_suffix("[0]").map_or((part, false), |name| (name, true));
            text = if is_list { format!("{name}: [{{{text}}}]") } else { format!("{name}: {{{text}}}") };
        }
        assert_eq!(known_to_reader(&text, &format!("{path}.nonesuch")), of_schema(place), "{path}");
    }
}

#[test]
fn each_field_says_what_it_is_and_each_text_and_list_has_a_limit() {
    fn look(path: &str, place: &Value) {
        let is_inner = path.contains(".spec");
        assert!(!is_inner || place["description"].is_string(), "{path}");
        let bounded = match place["type"].as_str() {
            Some("string") if is_inner => place["maxLength"].is_u64() || place["enum"].is_array(),
            Some("array") => place["maxItems"].is_u64(),
            _ => true,
        };
        assert!(bounded, "{path}");
        for (name, below) in place["properties"].as_object().into_iter().flatten() {
            look(&format!("{path}.{name}"), below);
        }
        if place["items"].is_object() {
            look(&format!("{path}[]"), &place["items"]);
        }
    }
    look("", &schema());
}
