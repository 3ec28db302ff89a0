//! Audits of nodes, from a folder or as the operator of audits keeps them.

use crate::args::NodesArgs;
use crate::audits::read_text;
use crate::cluster::reach;
use crate::opened::NAMESPACE;
use kubernetes::Method;
use manifests::{NODE, audit_selector};
use say::Failure;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tuning::NodeFacts;

/// Audits of nodes in one answer: each has up to a mebibyte.
const RECORDS_EACH: u32 = 20;

/// What is known of the nodes that are asked for; none where none are.
///
/// # Errors
/// If something cannot be read, or there is none of what is asked for.
pub fn nodes(asked: &NodesArgs) -> Result<Vec<NodeFacts>, Failure> {
    match (&asked.reports, &asked.audit) {
        (Some(folder), _) => reports(folder),
        (None, Some(audit)) => kept(asked, audit),
        (None, None) => Ok(Vec::new()),
    }
}

/// The audits in a folder, by the names of their files.
fn reports(folder: &Path) -> Result<Vec<NodeFacts>, Failure> {
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", folder.display());
    let entries = fs::read_dir(folder).map_err(|why| told(&why))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort_unstable();
    let mut nodes = Vec::new();
    for path in paths {
        let (node, text) = read_text(&path)?;
        let result: Value = serde_json::from_str(&text).map_err(|why| format!("{}: {why}", path.display()))?;
        nodes.push(NodeFacts::read(&node, &result).map_err(|why| format!("{}: {why}", path.display()))?);
    }
    if nodes.is_empty() {
        return Err(told(&"there is no audit in it (NODE.json)").into());
    }
    Ok(nodes)
}

/// What the operator of audits keeps of each node of this one.
fn kept(asked: &NodesArgs, audit: &str) -> Result<Vec<NodeFacts>, Failure> {
    let (client, theirs) = reach(asked.kubeconfig.as_deref(), asked.context.as_deref())?;
    let namespace = asked.namespace.clone().or(theirs).unwrap_or_else(|| NAMESPACE.to_owned());
    let selector = audit_selector(audit);
    let (mut nodes, mut from) = (Vec::new(), String::new());
    loop {
        let path =
            format!("/api/v1/namespaces/{namespace}/configmaps?labelSelector={selector}&limit={RECORDS_EACH}{from}");
        let list = client.call(Method::Get, &path, None).map_err(|why| format!("{path}: {why}"))?;
        for item in list["items"].as_array().into_iter().flatten() {
            let Some(node) = item["metadata"]["annotations"][NODE].as_str() else { continue };
            let text = item["data"]["audit.json"].as_str().unwrap_or_default();
            let result: Value = serde_json::from_str(text).map_err(|why| format!("{node}: {why}"))?;
            nodes.push(NodeFacts::read(node, &result).map_err(|why| format!("{node}: {why}"))?);
        }
        match list["metadata"]["continue"].as_str() {
            // As servers write it: letters, digits, and signs that end no parameter.
            Some(rest) if !rest.is_empty() => from = format!("&continue={}", rest.replace('+', "%2B")),
            _ => break,
        }
    }
    if nodes.is_empty() {
        return Err(format!("nothing is kept of nodes of the audit {audit} in {namespace}").into());
    }
    Ok(nodes)
}
