//! Audits of many nodes, read from files and compared.

use crate::args::AuditsArgs;
use audits::{Drift, Fleet, Kin, NodeReport, SettingState, drift};
use operator::NodeFailure;
use say::{Failure, eprintln, print};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

/// An audit of a node is no longer than this: those of large machines have a megabyte.
const FILE_LIMIT: u64 = 64 << 20;

/// Names of nodes in a line: of more it is said how many.
const NAMES_SHOWN: usize = 8;

/// Compares audits, and says which nodes differ, in what, and what changed.
///
/// # Errors
/// If a file cannot be read, or is no audit.
pub fn compare(asked: &AuditsArgs) -> Result<ExitCode, Failure> {
    let mut reports = Vec::new();
    for path in &asked.audits {
        reports.push(read(path)?);
    }
    if let Some(other) = reports.iter().find(|report| report.role != reports[0].role) {
        let (first, role) = (&reports[0], &other.role);
        return Err(format!("{} was judged as {}, and {} as {role}", first.node, first.role, other.node).into());
    }
    let mut drifts = BTreeMap::new();
    if let Some(folder) = &asked.before {
        for (path, now) in asked.audits.iter().zip(&reports) {
            let Some(earlier) = path.file_name().map(|name| folder.join(name)).filter(|path| path.exists()) else {
                eprintln!("audits     {}: there is no earlier audit of it", now.node);
                continue;
            };
            drifts.insert(now.node.as_str(), drift(&read(&earlier)?, now));
        }
    }
    let fleet = Fleet::of(&reports);
    if asked.json {
        print!("{:#}\n", rows_json(&fleet, &drifts));
    } else {
        print!("{}", rows_shown(&fleet, &drifts));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the audit of the node that a file is named after.
fn read(path: &Path) -> Result<NodeReport, Failure> {
    let (node, text) = read_text(path)?;
    read_audit(&node, &text).map_err(|why| format!("{}: {why}", path.display()).into())
}

/// The node that a file is named after, and what stands in it.
///
/// # Errors
/// If it cannot be read, or is longer than an audit is.
pub fn read_text(path: &Path) -> Result<(String, String), Failure> {
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let node = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut text = String::new();
    let file = File::open(path).map_err(|why| told(&why))?;
    if file.take(FILE_LIMIT + 1).read_to_string(&mut text).map_err(|why| told(&why))? as u64 > FILE_LIMIT {
        return Err(told(&format!("it is longer than {} MiB, and no audit is", FILE_LIMIT >> 20)).into());
    }
    Ok((node, text))
}

/// Reads what `nearside node audit --json` said of a node.
///
/// # Errors
/// If it is no audit.
pub fn read_audit(node: &str, text: &str) -> Result<NodeReport, String> {
    let result: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
    NodeReport::read(node, &result).map_err(|why| why.to_string())
}

/// Nodes that are told with a reason, a line each.
pub fn named_shown(nodes: &[NodeFailure]) -> String {
    nodes.iter().map(|one| format!("  {one}\n")).collect()
}

/// Nodes that are alike, those that are not and in what, and what changed.
pub fn rows_shown(fleet: &Fleet, drifts: &BTreeMap<&str, Vec<Drift>>) -> String {
    let (alike, differing) = (fleet.alike.nodes.len(), fleet.differing());
    let nodes = alike + differing;
    let mut text = format!("{nodes} node{}: {alike} alike, {differing} differ\n", if nodes == 1 { "" } else { "s" });
    for kin in &fleet.others {
        let verb = if kin.nodes.len() == 1 { "differs" } else { "differ" };
        let _ = write!(text, "\n{} {verb} in this: {}\n", kin.nodes.len(), names(kin));
        for difference in &kin.differences {
            let _ = writeln!(text, "  {difference}");
            if let Some(want) = difference.here.as_ref().and_then(|here| here.want.as_ref()) {
                let _ = writeln!(text, "    better: {want}");
            }
        }
    }
    for (node, changes) in drifts.iter().filter(|(_, changes)| !changes.is_empty()) {
        let _ = write!(text, "\n{node} changed since its earlier audit\n");
        for one in changes {
            let _ = writeln!(text, "  {one}");
        }
    }
    text
}

fn names(kin: &Kin) -> String {
    let shown = kin.nodes.iter().take(NAMES_SHOWN).map(String::as_str).collect::<Vec<&str>>().join(", ");
    match kin.nodes.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The same as JSON.
pub fn rows_json(fleet: &Fleet, drifts: &BTreeMap<&str, Vec<Drift>>) -> Value {
    let state = |state: &Option<SettingState>| {
        state.as_ref().map(|one| json!({ "value": one.value, "verdict": one.verdict, "want": one.want }))
    };
    let others = fleet.others.iter().map(|kin| {
        let differences = kin.differences.iter().map(|one| {
            json!({
                "key": one.setting.key, "subject": one.setting.subject,
                "here": state(&one.here), "usual": state(&one.usual),
            })
        });
        json!({ "nodes": kin.nodes, "differences": differences.collect::<Vec<Value>>() })
    });
    let changed = drifts.iter().filter(|(_, changes)| !changes.is_empty()).map(|(node, changes)| {
        let changes = changes.iter().map(|one| {
            json!({
                "key": one.setting.key, "subject": one.setting.subject,
                "was": state(&one.was), "is": state(&one.is), "seen": one.seen,
            })
        });
        json!({ "node": node, "changes": changes.collect::<Vec<Value>>() })
    });
    json!({
        "alike": fleet.alike.nodes,
        "others": others.collect::<Vec<Value>>(),
        "changed": changed.collect::<Vec<Value>>(),
    })
}
