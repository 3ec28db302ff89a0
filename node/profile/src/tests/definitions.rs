//! Manifests before the definitions of their kinds, as an API server reads them
//! under strict validation: no field that the definition does not have, none missing
//! that it requires, and of each the type, the values and the bounds that it allows.
//! What servers beyond that do (patterns, rules in CEL, kinds of their own) is for the
//! test before a real one. `NEARSIDE_CRDS` names the folder that it takes, too;
//! without it this is left out.

use super::{definition_sets, definitions_in, each_manifest};
use audit::yaml::{Node, Value, documents};
use std::collections::BTreeMap;
use std::path::Path;

/// Of an object: its group, version and kind.
type Kind = (String, String);

/// The schemas of all kinds, by version.
fn schemas(folder: &Path) -> BTreeMap<Kind, Node> {
    let mut schemas = BTreeMap::new();
    for (definition, _) in definitions_in(folder) {
        let at = |node: &Node, path: &str| node.text_at(path).unwrap_or_default().to_owned();
        for version in definition.at("spec.versions").map_or(&[][..], Node::list) {
            let group = format!("{}/{}", at(&definition, "spec.group"), at(version, "name"));
            let schema = version.at("schema.openAPIV3Schema").expect("a schema").clone();
            schemas.insert((group, at(&definition, "spec.names.kind")), schema);
        }
    }
    schemas
}

/// An object's text, and what is wrong with it.
struct Held<'a> {
    lines: Vec<&'a str>,
    wrong: Vec<String>,
}

impl Held<'_> {
    fn complain(&mut self, path: &str, why: impl std::fmt::Display) {
        self.wrong.push(format!("{path}: {why}"));
    }

    fn hold(&mut self, schema: &Node, node: &Node, path: &str) {
        let is = |key: &str| schema.text_at(key) == Some("true");
        let kind = schema.text_at("type").unwrap_or_default();
        match (&node.value, kind) {
            (Value::Map(fields), "object") => self.hold_fields(schema, fields, path),
            (Value::List(all), "array") => {
                let Some(items) = schema.get("items") else { return self.complain(path, "items of no type") };
                for (at, one) in all.iter().enumerate() {
                    self.hold(items, one, &format!("{path}[{at}]"));
                }
            }
            (Value::Scalar(_) | Value::Block(_), "") if is("x-kubernetes-int-or-string") => {}
            (_, "") if is("x-kubernetes-preserve-unknown-fields") => {}
            (Value::Block(_), "string") => {}
            (Value::Scalar(text), _) => self.hold_scalar(schema, (text, node.line), kind, path),
            _ => self.complain(path, format!("it is to be of type {kind:?}")),
        }
    }

    fn hold_fields(&mut self, schema: &Node, fields: &[(String, Node)], path: &str) {
        let known = schema.get("properties");
        let others = schema.get("additionalProperties");
        let keeps = schema.text_at("x-kubernetes-preserve-unknown-fields") == Some("true");
        for (name, value) in fields {
            let path = format!("{path}.{name}");
            // What every object has is no matter of its definition.
            let of_all = path == ".metadata" || path == ".apiVersion" || path == ".kind";
            match (known.and_then(|known| known.get(name)), others) {
                _ if of_all => {}
                (Some(schema), _) => self.hold(schema, value, &path),
                (None, Some(schema)) if schema.get("type").is_some() => self.hold(schema, value, &path),
                (None, Some(_)) => {}
                (None, None) if keeps => {}
                (None, None) => self.complain(&path, "an unknown field"),
            }
        }
        for name in schema.get("required").map_or(&[][..], Node::list).iter().filter_map(Node::text) {
            if !fields.iter().any(|(field, _)| field == name) {
                self.complain(path, format!("{name} is required"));
            }
        }
    }

    fn hold_scalar(&mut self, schema: &Node, (text, line): (&str, usize), kind: &str, path: &str) {
        let number = text.parse::<f64>().ok();
        let right = match kind {
            "string" => self.is_quoted(text, line) || !is_other(text),
            _ if self.is_quoted(text, line) => false,
            "integer" => text.parse::<i64>().is_ok(),
            "number" => number.is_some(),
            "boolean" => text == "true" || text == "false",
            _ => false,
        };
        if !right {
            self.complain(path, format!("{text} is not of type {kind:?}"));
        }
        let allowed = schema.get("enum").map_or(&[][..], Node::list);
        if !allowed.is_empty() && !allowed.iter().any(|one| one.text() == Some(text)) {
            self.complain(path, format!("{text} is none of the values"));
        }
        let bound = |key: &str| schema.text_at(key).and_then(|bound| bound.parse::<f64>().ok());
        if let Some(number) = number
            && (bound("minimum").is_some_and(|least| number < least)
                || bound("maximum").is_some_and(|most| number > most))
        {
            self.complain(path, format!("{text} is out of bounds"));
        }
    }

    fn is_quoted(&self, text: &str, line: usize) -> bool {
        ['"', '\''].iter().any(|quote| self.lines[line - 1].contains(&format!("{quote}{text}{quote}")))
    }
}

/// Whether YAML reads it as a number, a truth or nothing, where it is not quoted.
fn is_other(text: &str) -> bool {
    text.parse::<f64>().is_ok() || matches!(text, "" | "~" | "null" | "true" | "false")
}

/// What is wrong with an object; `None`: its kind is none of these.
fn held(schemas: &BTreeMap<Kind, Node>, text: &str) -> Option<Vec<String>> {
    let object = documents(text).expect("YAML").remove(0);
    let at = |path: &str| object.text_at(path).unwrap_or_default().to_owned();
    let schema = schemas.get(&(at("apiVersion"), at("kind")))?;
    let mut held = Held { lines: text.lines().collect(), wrong: Vec::new() };
    held.hold(schema, &object, "");
    Some(held.wrong)
}

#[test]
fn every_manifest_fits_the_definition_of_its_kind() {
    let Some(sets) = definition_sets() else {
        return println!("left out: NEARSIDE_CRDS names no folder with the definitions of OpenShift's kinds");
    };
    for (version, folder) in &sets {
        let schemas = schemas(folder);
        let mut fit = BTreeMap::<String, usize>::new();
        each_manifest(*version, |told, path, text| {
            let Some(wrong) = held(&schemas, text) else { return };
            assert_eq!(wrong, [""; 0], "{told}, by {}", folder.display());
            *fit.entry(path.to_owned()).or_default() += 1;
        });
        println!("{}: {} objects fit: {fit:?}", folder.display(), fit.values().sum::<usize>());
        assert!(fit.len() >= 6, "definitions are missing: {fit:?}");
    }
    let schemas = schemas(&sets[0].1);
    let odd = "apiVersion: performance.openshift.io/v2\nkind: PerformanceProfile\nmetadata: {name: odd}\nspec:\n  \
               cpu:\n    isolated: 1\n    isolate: \"2\"\n  realTimeKernel:\n    enabled: \"true\"\n";
    assert_eq!(
        held(&schemas, odd).expect("a kind that is known"),
        [
            ".spec.cpu.isolated: 1 is not of type \"string\"",
            ".spec.cpu.isolate: an unknown field",
            ".spec.cpu: reserved is required",
            ".spec.realTimeKernel.enabled: true is not of type \"boolean\"",
            ".spec: nodeSelector is required",
        ]
    );
}
