//! Manifests of OpenShift's Node Tuning Operator, explained line by line, and what of them is in force on nodes.

use crate::args::ExplainArgs;
use crate::cluster::reach;
use crate::node_facts::nodes;
use kubernetes::{ApiError, Method};
use manifests::yaml;
use say::{Failure, eprintln, print};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use tuning::{InForce, Line, NodeFacts};

/// Something is not in force on a node.
const OTHERWISE: u8 = 3;

/// Something is not known.
const UNKNOWN: u8 = 4;

/// A file of manifests is no longer than this.
const FILE_LIMIT: u64 = 16 << 20;

/// Names of nodes in a line.
const NAMES_SHOWN: usize = 8;

/// Letters of a value in a line.
const VALUE_SHOWN: usize = 160;

/// What is read of a cluster: the kinds' names and places.
const KINDS: [(&str, &str); 4] = [
    ("PerformanceProfile", "/apis/performance.openshift.io/v2/performanceprofiles"),
    ("Tuned", "/apis/tuned.openshift.io/v1/tuneds"),
    ("KubeletConfig", "/apis/machineconfiguration.openshift.io/v1/kubeletconfigs"),
    ("MachineConfig", "/apis/machineconfiguration.openshift.io/v1/machineconfigs"),
];

/// Explains manifests.
///
/// # Errors
/// If a file, or the cluster, cannot be read.
pub fn explain(asked: &ExplainArgs) -> Result<ExitCode, Failure> {
    let mut lines = Vec::new();
    if asked.files.is_empty() {
        for (name, text) in of_cluster(asked)? {
            lines.append(&mut tuning::explain(&name, &text).map_err(|why| format!("{name}: {why}"))?);
        }
    }
    for path in &asked.files {
        let (name, text) = (path.display().to_string(), manifest(path)?);
        lines.append(&mut tuning::explain(&name, &text).map_err(|why| format!("{name}: {why}"))?);
    }
    if lines.is_empty() {
        return Err("there is nothing to explain".into());
    }
    let nodes = nodes(&asked.nodes)?;
    let found: Vec<Found<'_>> = lines.iter().map(|line| Found::of(line, &nodes)).collect();
    if asked.json {
        print!("{:#}\n", found.iter().map(|one| one.json(&nodes)).collect::<Value>());
    } else {
        print!("{}", shown(&found, &nodes, asked.differing));
    }
    let is_unknown = asked.strict && lines.iter().any(|line| line.what.is_none());
    let is_otherwise = found.iter().any(|one| one.on.iter().any(|on| matches!(on, InForce::No(_))));
    Ok(match (is_otherwise, is_unknown) {
        (true, _) => ExitCode::from(OTHERWISE),
        (false, true) => ExitCode::from(UNKNOWN),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// A line, and what came of it on each node.
struct Found<'a> {
    line: &'a Line,
    on: Vec<InForce>,
}

impl<'a> Found<'a> {
    fn of(line: &'a Line, nodes: &[NodeFacts]) -> Self {
        Self { line, on: nodes.iter().map(|node| line.in_force(node)).collect() }
    }

    fn is_otherwise(&self) -> bool {
        self.on.iter().any(|on| matches!(on, InForce::No(_)))
    }

    fn json(&self, nodes: &[NodeFacts]) -> Value {
        let on = nodes.iter().zip(&self.on).map(|(node, on)| {
            let words = match on {
                InForce::Yes(words) | InForce::No(words) | InForce::Unseen(words) => words.as_str(),
                InForce::NotMeant => "",
            };
            json!({ "node": node.node, "is": on.word(), "found": words })
        });
        let Line { file, line, object, place, value, what, input, .. } = self.line;
        json!({
            "file": file, "line": line, "object": object, "place": place, "value": value, "what": what, "input": input,
            "on": on.collect::<Vec<Value>>(),
        })
    }
}

fn manifest(path: &Path) -> Result<String, Failure> {
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    if fs::metadata(path).map_err(|why| told(&why))?.len() > FILE_LIMIT {
        return Err(told(&format!("it is longer than {} MiB, and no manifest is", FILE_LIMIT >> 20)).into());
    }
    fs::read_to_string(path).map_err(|why| told(&why).into())
}

/// The manifests of a cluster, as far as it has them.
fn of_cluster(asked: &ExplainArgs) -> Result<Vec<(String, String)>, Failure> {
    let (client, _) = reach(asked.nodes.kubeconfig.as_deref(), asked.nodes.context.as_deref())?;
    let mut texts = Vec::new();
    for (kind, path) in KINDS {
        match client.call(Method::Get, path, None) {
            Ok(mut list) => {
                let items = list["items"].as_array_mut().map(core::mem::take).unwrap_or_default();
                for mut item in items {
                    // A list says what it is of once.
                    if let Some(map) = item.as_object_mut() {
                        map.entry("kind").or_insert_with(|| json!(kind));
                        map.remove("status");
                    }
                    if let Some(metadata) = item["metadata"].as_object_mut() {
                        metadata.remove("managedFields");
                    }
                    let name = item["metadata"]["name"].as_str().unwrap_or_default();
                    texts.push((format!("{kind}/{name}"), yaml(&[&item])));
                }
            }
            Err(why @ ApiError::Refused { .. }) if why.is_missing() => {
                eprintln!("explain    the cluster has no kind {kind}");
            }
            Err(why) => return Err(format!("{path}: {why}").into()),
        }
    }
    Ok(texts)
}

/// What is found, for people: by object, each line with what it does, and what came of it.
fn shown(found: &[Found<'_>], nodes: &[NodeFacts], is_short: bool) -> String {
    let (mut text, mut object) = (String::new(), None);
    for one in found {
        let Line { file, line: at, object: of, place, value, what, input, .. } = one.line;
        if is_short && what.is_some() && !one.is_otherwise() {
            continue;
        }
        if object != Some((file, of)) {
            object = Some((file, of));
            let _ = writeln!(text, "{}{of} ({file})", if text.is_empty() { "" } else { "\n" });
        }
        let end = value.floor_char_boundary(VALUE_SHOWN);
        let more = if end < value.len() { "…" } else { "" };
        let _ = writeln!(text, "  {at}: {place} = {}{more}", value.get(..end).unwrap_or_default());
        let from = if input.is_empty() { String::new() } else { format!(" (from {input})") };
        let _ = match what {
            Some(what) => writeln!(text, "    {what}{from}"),
            None => writeln!(text, "    NOT KNOWN"),
        };
        text.push_str(&on_nodes(one, nodes));
    }
    let unknown = found.iter().filter(|one| one.line.what.is_none()).count();
    let _ = write!(text, "\n{} lines, {unknown} not known", found.len());
    if !nodes.is_empty() {
        let count = |fits: &dyn Fn(&InForce) -> bool| found.iter().filter(|one| one.on.iter().any(fits)).count();
        let all = |one: &&Found<'_>| one.on.iter().all(|on| matches!(on, InForce::Yes(_)));
        let _ = write!(
            text,
            "; on {} node{}: {} in force, {} otherwise, {} cannot be seen",
            nodes.len(),
            if nodes.len() == 1 { "" } else { "s" },
            found.iter().filter(all).count(),
            count(&|on| matches!(on, InForce::No(_))),
            count(&|on| matches!(on, InForce::Unseen(_))),
        );
    }
    text.push('\n');
    // Nothing of a file speaks to the terminal.
    text.chars().filter(|letter| *letter == '\n' || !letter.is_control()).collect()
}

/// What came of a line: nodes of which the same is found are one row.
fn on_nodes(one: &Found<'_>, nodes: &[NodeFacts]) -> String {
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    for (node, on) in nodes.iter().zip(&one.on) {
        let words = match on {
            InForce::Yes(found) => format!("in force: {found}"),
            InForce::No(found) => format!("OTHERWISE: {found}"),
            InForce::Unseen(why) => format!("cannot be seen: {why}"),
            InForce::NotMeant => continue,
        };
        match rows.iter_mut().find(|(other, _)| *other == words) {
            Some((_, names)) => names.push(&node.node),
            None => rows.push((words, vec![&node.node])),
        }
    }
    rows.iter().fold(String::new(), |mut text, (words, names)| {
        let shown = names.iter().take(NAMES_SHOWN).copied().collect::<Vec<&str>>().join(", ");
        let more = match names.len().saturating_sub(NAMES_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = writeln!(text, "    {words} ({shown}{more})");
        text
    })
}
