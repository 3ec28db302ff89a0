//! `nearside node`: the machine's settings, judged.

mod noise;
mod profile;
mod show;
mod tune;

use crate::plan::{NodePlan, NodeTask};
use audit::advice::{self, Advice};
use audit::{Evidence, Report, Role, Verdict, judge_lines};
use environment::{Fingerprint, ResultKind, ResultOrigin, SCHEMA};
use say::Failure;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Something is worse than the kernel's defaults, contradicts another setting,
/// or is not there any more.
const WORSE: u8 = 4;
/// Something is dangerous.
const DANGEROUS: u8 = 5;

/// A core is not as quiet as was asked for, as where a load run misses an objective.
const NOISY: u8 = 3;

/// Longer recordings and files of settings are cut off or refused.
const LONGEST_RECORDING: u64 = 256 << 20;
const LONGEST_FILE: u64 = 2 << 20;

/// Does what is asked for; the exit status tells the worst verdict.
///
/// # Errors
/// If the machine, a recording or a file cannot be read, or output cannot be
/// written.
pub fn node(plan: &NodePlan) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    match &plan.task {
        NodeTask::Record => {
            write!(out, "{}", evidence(plan.root.as_deref().filter(|root| *root != Path::new("/")))?)?;
            Ok(ExitCode::SUCCESS)
        }
        NodeTask::Explain(None) => {
            write!(out, "{}", if plan.json { show::catalogue_json() } else { show::catalogue() })?;
            Ok(ExitCode::SUCCESS)
        }
        NodeTask::Explain(Some(key)) => {
            let Some(rule) = audit::find(key) else {
                let near = audit::near(key);
                let near = near.map_or_else(String::new, |near| format!(": did you mean {near}?"));
                return Err(format!("there is no rule on {key}{near}; nearside node explain lists all").into());
            };
            let text = if plan.json { format!("{}\n", show::rule_json(rule)) } else { show::rule(rule) };
            write!(out, "{text}")?;
            Ok(ExitCode::SUCCESS)
        }
        NodeTask::Profile(task) => profile::task(&mut out, plan, task),
        NodeTask::Plan(tuning) => tune::plan(&mut out, plan, tuning),
        NodeTask::Apply { id, tuning, trial, persist } => {
            tune::apply_plan(&mut out, plan, (id, tuning), *trial, *persist)
        }
        NodeTask::Noise(asked) => noise::noise(&mut out, asked, plan.json),
        NodeTask::Undo { all, force } => tune::undo_plans(&mut out, plan, *all, *force),
        NodeTask::Confirm => tune::confirm_plan(&mut out, plan),
        NodeTask::Guard { journal, seconds } => tune::guard(&mut out, plan, journal, *seconds),
        NodeTask::Audit { role, of, kernel, all, strict, html } => {
            let mut evidence = evidence(plan.root.as_deref())?;
            if let Some(kernel) = kernel {
                evidence = evidence.of_kernel(*kernel);
            }
            let report = report(&evidence, *role, of)?;
            if let Some(file) = html {
                let page = results::page_of(&audited(&report, plan)?)?;
                results::write_whole(file, &page.render())?;
                writeln!(out, "{}", file.display())?;
            } else if plan.json {
                let value = audited(&report, plan)?;
                writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
            } else {
                write!(
                    out,
                    "{}",
                    show::Table { report: &report, all: *all || !of.is_empty(), advice: !of.is_empty() }
                )?;
            }
            let unknown = *strict && report.count(Verdict::Unknown) > 0;
            Ok(ExitCode::from(status(report.worst()).max(if unknown { WORSE } else { 0 })))
        }
    }
}

/// An audit as JSON: with the machine that it was made on, where it is of no other.
fn audited(report: &Report, plan: &NodePlan) -> Result<serde_json::Value, Failure> {
    let mut value = serde_json::to_value(report)?;
    value["rules_with_evidence"] = report.rules_with_evidence().into();
    origin(&mut value, ResultKind::Audit, plan.root.is_none())?;
    Ok(value)
}

/// Puts at a result's head what it is, by which command it came, when, and this machine.
pub(crate) fn origin(value: &mut serde_json::Value, kind: ResultKind, here: bool) -> Result<(), Failure> {
    let ResultOrigin { command, made } = ResultOrigin::now();
    let head = serde_json::json!({ "kind": kind, "schema": SCHEMA, "command": command, "made": made });
    let value = value.as_object_mut().ok_or("a result is an object")?;
    value.extend(head.as_object().into_iter().flatten().map(|(name, field)| (name.clone(), field.clone())));
    if here {
        value.insert("environment".to_owned(), serde_json::to_value(Fingerprint::read())?);
    }
    Ok(())
}

fn status(worst: Verdict) -> u8 {
    match worst {
        Verdict::Dangerous => DANGEROUS,
        Verdict::WorseThanDefault | Verdict::Conflicts | Verdict::Refused | Verdict::Removed => WORSE,
        _ => 0,
    }
}

/// This machine's evidence, another folder's, or a recorded one.
fn evidence(root: Option<&Path>) -> Result<Evidence, Failure> {
    match root {
        None => {
            let mut evidence = Evidence::take(Path::new("/"))?;
            let interfaces: Vec<String> = evidence.interfaces().into_iter().map(str::to_owned).collect();
            for name in interfaces {
                for (file, text) in links::driver_settings(&name) {
                    evidence = evidence.with(&format!("ethtool/{name}/{file}"), &text);
                }
                // One by one, as plans change them; without netlink there are none to change.
                for (setting, value) in ethtool::settings(&name).unwrap_or_default() {
                    evidence = evidence.with(&format!("ethtool/{name}/{setting}"), &value);
                }
            }
            Ok(evidence)
        }
        Some(root) if root.is_dir() => Ok(Evidence::take(root)?),
        Some(root) => {
            let text = read(root, LONGEST_RECORDING)?;
            Evidence::parse(&text).map_err(|why| format!("{}: {why}", root.display()).into())
        }
    }
}

fn report(evidence: &Evidence, role: Role, of: &[PathBuf]) -> Result<Report, Failure> {
    if of.is_empty() {
        return Ok(audit::machine(evidence, role));
    }
    let mut advice = Advice::default();
    for file in of {
        let text = read(file, LONGEST_FILE)?;
        advice.extend(advice::read(&file.display().to_string(), &text)?);
    }
    Ok(judge_lines(evidence, role, &advice))
}

/// A file's text, as far as the limit goes.
fn read(path: &Path, limit: u64) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    read.map_err(|why| format!("{}: {why}", path.display()))?;
    if bytes.len() as u64 > limit {
        return Err(format!("{}: longer than {} MiB", path.display(), limit >> 20).into());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_tells_the_worst() {
        assert_eq!(status(Verdict::Improvable), 0);
        assert_eq!(status(Verdict::Unreadable), 0);
        assert_eq!(status(Verdict::Unknown), 0);
        assert_eq!(status(Verdict::Conflicts), WORSE);
        assert_eq!(status(Verdict::Removed), WORSE);
        assert_eq!(status(Verdict::Refused), WORSE);
        assert_eq!(status(Verdict::Dangerous), DANGEROUS);
    }

    /// The promise is on rules that had something to look at.
    #[test]
    fn this_machine_is_judged_by_most_rules() {
        let evidence = evidence(None).expect("a machine");
        let report = audit::machine(&evidence, Role::Mixed);
        assert!(report.rules_with_evidence() >= 120, "{}", report.rules_with_evidence());
        // A recording of it says the same.
        let again = Evidence::parse(&evidence.to_string()).expect("a recording");
        assert_eq!(audit::machine(&again, Role::Mixed), report);
    }

    /// Every rule can be asked for by its name, and says all it has to.
    #[test]
    fn every_rule_is_explained() {
        for rule in audit::rules() {
            let found = audit::find(rule.key).unwrap_or_else(|| panic!("{} is not found by its name", rule.key));
            let text = show::rule(found);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let all = words(&text).join(" ");
            for part in [rule.key, rule.explain, rule.gain, rule.risk, rule.undo, rule.source] {
                assert!(all.contains(&words(part).join(" ")), "{}: {part} is missing in {text}", rule.key);
            }
            let value = show::rule_json(found);
            for name in ["key", "area", "roles", "explain", "gain", "risk", "undo", "source"] {
                assert!(!value[name].is_null(), "{}: {name}", rule.key);
            }
            assert!(show::catalogue().lines().any(|line| line.trim() == rule.key), "{}", rule.key);
        }
    }

    #[test]
    fn misspelt_keys_find_a_neighbour() {
        assert_eq!(audit::near("net.ipv4.tcp_tw_resue"), Some("net.ipv4.tcp_tw_reuse"));
        assert_eq!(audit::near("nothing like it at all"), None);
    }
}
