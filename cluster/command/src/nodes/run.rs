//! One audit of nodes, from its file to its exit code.

use super::call::audited;
use super::drive::{DrivenAudits, Step, moment};
use crate::args::{RenderArgs, RunArgs};
use crate::audits::{named_shown, read_audit, rows_json, rows_shown};
use crate::cluster::{Found, reach};
use crate::opened::{NAMESPACE, Opened};
use crate::random::random;
use audits::{Drift, drift};
use core::time::Duration;
use cpu::Clock;
use manifests::{AuditKeys, AuditPod, AuditSetting, yaml};
use operator::{AuditOutcome, Auditor, NodeFailure, Verdict};
use say::{Failure, eprintln, print};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use spec::{FieldError, NodeAudit};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something that is expected is not so: exit codes are as those of tests.
const MISSED: u8 = 3;

/// There is no node.
const NOTHING: u8 = 4;

/// A node is without an answer.
const INVALID: u8 = 5;

/// Somebody ended it.
const INTERRUPTED: u8 = 130;

/// How often a line says how it goes.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// What was made is deleted within this, at most.
const END_PATIENCE: Duration = Duration::from_secs(60);

/// What nodes said, by their names.
type Texts = BTreeMap<String, String>;

/// Makes an audit.
///
/// # Errors
/// What the user is to know.
pub fn run(asked: &RunArgs, opened: &Opened) -> Result<ExitCode, Failure> {
    let audit = match NodeAudit::read(&opened.text) {
        Ok(audit) => audit,
        Err(wrong) => return Ok(opened.refuse(&wrong)),
    };
    let loads = [("--ndjson", asked.ndjson.is_some()), ("--html", asked.html.is_some())];
    if let Some((option, _)) = loads.into_iter().find(|(_, is_said)| *is_said) {
        return Err(format!("{option} is of tests, and {} is an audit", asked.spec.display()).into());
    }
    if let Some(folder) = &asked.reports {
        fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    }
    let made = if asked.local { here(&audit)? } else { there(asked, opened, &audit)? };
    let Made { outcome, texts, interrupted } = match made {
        Ok(made) => made,
        Err(wrong) => return Ok(opened.refuse(&wrong)),
    };
    keep(asked, &texts)?;
    let drifts = drifts(asked, &texts)?;
    if asked.json {
        print!("{:#}\n", shown_as_json(&audit, &outcome, &drifts));
    } else {
        print!("{}", shown(&outcome, &drifts));
    }
    Ok(match (interrupted, outcome.verdict, outcome.reason) {
        (true, ..) => ExitCode::from(INTERRUPTED),
        (false, Verdict::Pass, _) => ExitCode::SUCCESS,
        (false, Verdict::Fail, _) => ExitCode::from(MISSED),
        (false, Verdict::Invalid, "NoNodes") => ExitCode::from(NOTHING),
        (false, Verdict::Invalid, _) => ExitCode::from(INVALID),
    })
}

/// What was made.
struct Made {
    outcome: AuditOutcome,
    texts: Texts,
    interrupted: bool,
}

/// Audits this machine alone, under its own name.
fn here(audit: &NodeAudit) -> Result<Result<Made, Vec<FieldError>>, Failure> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let name = name.trim().to_owned();
    let said = audited(audit.role.name(), None);
    let (mut texts, mut failures, mut reports) = (Texts::new(), Vec::new(), Vec::new());
    match said.and_then(|text| Ok((read_audit(&name, &text)?, text))) {
        Ok((report, text)) => {
            reports.push(report);
            texts.insert(name, text);
        }
        Err(message) => failures.push(NodeFailure { node: name, reason: "NoAudit".to_owned(), message }),
    }
    let outcome = AuditOutcome::of_reports(audit, &reports, failures);
    Ok(Ok(Made { outcome, texts, interrupted: false }))
}

/// Has a pod on each node audit it.
fn there(asked: &RunArgs, opened: &Opened, audit: &NodeAudit) -> Result<Result<Made, Vec<FieldError>>, Failure> {
    let (client, theirs) = reach(asked.kubeconfig.as_deref(), asked.context.as_deref())?;
    let said = asked.namespace.as_deref().or(audit.namespace.as_deref()).or(theirs.as_deref());
    let namespace = said.unwrap_or(NAMESPACE);
    let mut audit = audit.clone();
    // What the command line says is meant.
    audit.pods.image = asked.image.clone().or(audit.pods.image);
    let wrong = AuditSetting { audit: &audit, namespace, image: None, owner: None }.wrong();
    if !wrong.is_empty() {
        return Ok(Err(wrong));
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let auditor = Auditor::of_one(audit, namespace, None, random()? as u64, moment());
    let mut driven = DrivenAudits::new(auditor, client, asked.address.as_deref().map_or(Found::Own, Found::At))?;
    let (mut texts, mut next_line, mut is_stopped) = (Texts::new(), Clock.now() + LINE_EVERY, false);
    let mut is_displaced = false;
    while !driven.auditor.is_done() && !is_displaced {
        if interrupted.load(Ordering::Relaxed) && !core::mem::replace(&mut is_stopped, true) {
            driven.auditor.stop(moment());
        }
        driven.step(&mut |step| match step {
            Step::Say(words) => eprintln!("audit      {words}"),
            Step::Yield => is_displaced = true,
            Step::Heard(words) => {
                // What it says again is the same.
                if let Ok(text) = words.said {
                    texts.insert(words.node, text);
                }
            }
        });
        if Clock.now() >= next_line && !asked.quiet {
            next_line = Clock.now() + LINE_EVERY;
            let (settled, all) = driven.auditor.progress();
            eprintln!("audit      {settled} of {all} nodes");
        }
    }
    if is_displaced {
        return Err("another took this audit's place: its Lease was taken or deleted".into());
    }
    let until = Clock.now() + END_PATIENCE;
    driven.auditor.leave(Clock.now());
    while !driven.auditor.is_over() && Clock.now() < until {
        driven.step(&mut |_| {});
    }
    texts.retain(|node, _| driven.auditor.records().any(|record| record.report.node == *node));
    let outcome = driven.auditor.outcome().cloned();
    let outcome = outcome.ok_or_else(|| format!("{}: it was ended before it began", opened.name()))?;
    Ok(Ok(Made { outcome, texts, interrupted: is_stopped }))
}

/// Writes what each node said, where that is asked for.
fn keep(asked: &RunArgs, texts: &Texts) -> Result<(), Failure> {
    let Some(folder) = &asked.reports else { return Ok(()) };
    for (node, text) in texts {
        // As Kubernetes has them, names of nodes lead nowhere else.
        let fits = node.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
        let path = folder.join(format!("{node}.json"));
        if !fits || node.starts_with('.') {
            return Err(format!("{node:?} is no name of a node").into());
        }
        fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    Ok(())
}

/// What changed since earlier audits, in files of the same names.
fn drifts(asked: &RunArgs, texts: &Texts) -> Result<BTreeMap<String, Vec<Drift>>, Failure> {
    let mut found = BTreeMap::new();
    let Some(folder) = &asked.before else { return Ok(found) };
    for (node, text) in texts {
        let path = folder.join(format!("{node}.json"));
        if !path.exists() {
            eprintln!("audit      {node}: there is no earlier audit of it");
            continue;
        }
        let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let earlier = fs::read_to_string(&path).map_err(|why| told(&why))?;
        let earlier = read_audit(node, &earlier).map_err(|why| told(&why))?;
        found.insert(node.clone(), drift(&earlier, &read_audit(node, text)?));
    }
    Ok(found)
}

fn shown(outcome: &AuditOutcome, drifts: &BTreeMap<String, Vec<Drift>>) -> String {
    let drifts = drifts.iter().map(|(node, changes)| (node.as_str(), changes.clone())).collect();
    let mut text = rows_shown(&outcome.fleet, &drifts);
    for (title, list) in [("without an answer", &outcome.failures), ("left out", &outcome.left_out)] {
        if !list.is_empty() {
            let _ = write!(text, "\n{} {title}\n{}", list.len(), named_shown(list));
        }
    }
    if outcome.verdict != Verdict::Pass {
        let _ = write!(text, "\n{}: {}\n", outcome.reason, outcome.message);
    }
    text
}

fn shown_as_json(audit: &NodeAudit, outcome: &AuditOutcome, drifts: &BTreeMap<String, Vec<Drift>>) -> Value {
    let drifts = drifts.iter().map(|(node, changes)| (node.as_str(), changes.clone())).collect();
    let mut out = rows_json(&outcome.fleet, &drifts);
    let named = |list: &[NodeFailure]| -> Value {
        let one = |one: &NodeFailure| json!({ "node": one.node, "reason": one.reason, "message": one.message });
        list.iter().map(one).collect()
    };
    for (name, value) in [
        ("name", json!(audit.name)),
        ("role", json!(audit.role.name())),
        ("verdict", json!(outcome.verdict.word())),
        ("reason", json!(outcome.reason)),
        ("message", json!(outcome.message)),
        ("nodes", json!(outcome.nodes())),
        ("failed", named(&outcome.failures)),
        ("left_out", named(&outcome.left_out)),
        ("refused", json!(outcome.refused)),
    ] {
        out[name] = value;
    }
    out
}

/// Prints the objects that an audit would be.
///
/// # Errors
/// If they cannot be printed.
pub fn render(asked: &RenderArgs, opened: &Opened) -> Result<ExitCode, Failure> {
    let mut audit = match NodeAudit::read(&opened.text) {
        Ok(audit) => audit,
        Err(wrong) => return Ok(opened.refuse(&wrong)),
    };
    audit.pods.image = asked.image.clone().or(audit.pods.image);
    let namespace = asked.namespace.clone().or(audit.namespace.clone()).unwrap_or_else(|| NAMESPACE.to_owned());
    let setting = AuditSetting { audit: &audit, namespace: &namespace, image: None, owner: None };
    let wrong = setting.wrong();
    if !wrong.is_empty() {
        return Ok(opened.refuse(&wrong));
    }
    let (key, controller) = ("(the controller's public key)", "(the controller's address)");
    let secret = setting.secret(AuditKeys { token: "(drawn for each round)", key, controller }, 0);
    let of = AuditPod { node: "(each node)", round: 0, secret: "(the Secret's number)" };
    let own = setting.node_secret(of, AuditKeys { token: "(the node's own)", key, controller });
    let pod = setting.pod(of);
    let all = [&secret, &own, &pod];
    if asked.json {
        print!("{:#}\n", json!({ "apiVersion": "v1", "kind": "List", "items": all }));
    } else {
        print!("{}", yaml(&all));
    }
    Ok(ExitCode::SUCCESS)
}
