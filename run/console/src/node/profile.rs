//! `nearside node profile`: a low-latency node's files, and what is true of
//! somebody's.

use super::{LONGEST_FILE, WORSE, evidence, read, show, status};
use crate::plan::{Intended, NodePlan, ProfileTask, Strictness};
use audit::advice::{Advice, AdviceError, read as read_advice};
use audit::{Report, Role, Verdict, judge_lines};
use profile::{Check, Checked, Profile, Rendered, Shape, Version, Wanted, check, render};
use say::Failure;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The most files of a folder; a cluster's dump is no profile.
const MOST_FILES: usize = 500;
/// The deepest folder below the one that was named.
const DEEPEST: usize = 8;

/// Does a task of profiles.
pub(super) fn task(out: &mut impl Write, plan: &NodePlan, task: &ProfileTask) -> Result<ExitCode, Failure> {
    let root = plan.root.as_deref();
    match task {
        ProfileTask::Render { wanted, target, out: folder } => {
            let shape = Shape::of(&evidence(root)?).ok_or(profile::ProfileError::NoCores)?;
            let profile = Profile::new(shape, Wanted::clone(wanted))?;
            let files = render(&profile, *target);
            match folder {
                Some(folder) => write(out, folder, &files)?,
                None => print(out, &files)?,
            }
            Ok(ExitCode::SUCCESS)
        }
        ProfileTask::Explain(files, intended, strictness) => {
            explain(out, plan, files, (*intended, *strictness), |_| true)
        }
        ProfileTask::Pod(files, intended, strictness) => {
            explain(out, plan, files, (*intended, *strictness), |row| row.key.starts_with("Pod "))
        }
        ProfileTask::Check { files, version, strictness } => held(out, plan, files, (*version, *strictness)),
    }
}

fn print(out: &mut impl Write, files: &[Rendered]) -> Result<(), Failure> {
    for file in files {
        writeln!(out, "# ---- {}: {}\n{}", file.path, file.what, file.text)?;
    }
    Ok(())
}

/// Writes into a folder that has nothing yet: no file of somebody's is lost.
fn write(out: &mut impl Write, folder: &Path, files: &[Rendered]) -> Result<(), Failure> {
    let say = |path: &Path, why: std::io::Error| format!("{}: {why}", path.display());
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(format!("{}: is not empty; nothing was written", folder.display()).into());
            }
        }
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
        Err(why) => return Err(say(folder, why).into()),
    }
    for file in files {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|why| say(parent, why))?;
        fs::write(&path, &file.text).map_err(|why| say(&path, why))?;
        writeln!(out, "{}: {}", path.display(), file.what)?;
    }
    Ok(())
}

/// Every file that is named, or lies in a folder that is.
fn files_of(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut open: Vec<(PathBuf, usize)> = named.iter().rev().map(|path| (path.clone(), 0)).collect();
    while let Some((path, depth)) = open.pop() {
        if !path.is_dir() {
            files.push(path);
        } else if depth < DEEPEST {
            let entries = fs::read_dir(&path).map_err(|why| format!("{}: {why}", path.display()))?;
            let mut inner: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            inner.sort_unstable_by(|a, b| b.cmp(a));
            // Links in a folder are not followed: they may lead round.
            inner.retain(|path| fs::symlink_metadata(path).is_ok_and(|about| !about.is_symlink()));
            open.extend(inner.into_iter().map(|path| (path, depth + 1)));
        }
        if files.len() > MOST_FILES || open.len() > MOST_FILES {
            return Err(format!("more than {MOST_FILES} files: which ones are the profile?").into());
        }
    }
    Ok(files)
}

/// What all files say; files of a folder that are none are left out.
fn advice(out: &mut impl Write, named: &[PathBuf]) -> Result<Advice, Failure> {
    let mut advice = Advice::default();
    for file in files_of(named)? {
        let text = read(&file, LONGEST_FILE)?;
        match read_advice(&file.display().to_string(), &text) {
            Ok(found) => advice.extend(found),
            Err(AdviceError::UnknownForm { .. }) if !named.contains(&file) => {
                writeln!(out, "# {}: no file of settings; left out", file.display())?;
            }
            Err(why) => return Err(why.into()),
        }
    }
    if advice.settings.len() + advice.faults.len() > MOST_SETTINGS {
        return Err(format!("more than {MOST_SETTINGS} settings at once").into());
    }
    Ok(advice)
}

/// Each setting is compared with all others.
const MOST_SETTINGS: usize = 20_000;

fn explain(
    out: &mut impl Write,
    plan: &NodePlan,
    files: &[PathBuf],
    (intended, strictness): (Intended, Strictness),
    shown: impl Fn(&audit::Row) -> bool,
) -> Result<ExitCode, Failure> {
    let advice = match plan.json {
        true => advice(&mut std::io::sink(), files)?,
        false => advice(out, files)?,
    };
    let mut node = evidence(plan.root.as_deref())?;
    // A profile is for the machine that was named, and only then for this one.
    if plan.root.as_deref().is_some_and(|root| root != Path::new("/")) {
        node = node.of_named_node();
    }
    if let Some(kernel) = intended.kernel {
        node = node.of_kernel(kernel);
    }
    if let Some(Version(major, minor)) = intended.cluster {
        node = node.of_cluster(major.into(), minor.into());
    }
    let mut report: Report = judge_lines(&node, Role::Forwarder, &advice);
    report.rows.retain(|row| shown(row));
    if report.rows.is_empty() {
        return Err("there is nothing of this kind in the files".into());
    }
    if plan.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(out, "{}", show::Table { report: &report, all: true, advice: true })?;
    }
    let unknown = strictness == Strictness::Strict && report.count(Verdict::Unknown) > 0;
    Ok(ExitCode::from(status(report.worst()).max(if unknown { WORSE } else { 0 })))
}

fn held(
    out: &mut impl Write,
    plan: &NodePlan,
    files: &[PathBuf],
    (version, strictness): (Version, Strictness),
) -> Result<ExitCode, Failure> {
    let advice = match plan.json {
        true => advice(&mut std::io::sink(), files)?,
        false => advice(out, files)?,
    };
    let rows = check(&advice.settings, &evidence(plan.root.as_deref())?, version);
    if rows.is_empty() {
        return Err("the files want nothing that can be seen of a node".into());
    }
    if plan.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    } else {
        for row in &rows {
            writeln!(out, "{}", line(row))?;
        }
        let count = |check: Check| rows.iter().filter(|row| row.check == check).count();
        writeln!(
            out,
            "{} as wanted, {} otherwise, {} not told by the node",
            count(Check::AsWanted),
            count(Check::Otherwise),
            count(Check::Unseen)
        )?;
    }
    let strict = strictness == Strictness::Strict;
    let otherwise = rows.iter().any(|row| row.check == Check::Otherwise || strict && row.check == Check::Unseen);
    Ok(if otherwise { ExitCode::from(WORSE) } else { ExitCode::SUCCESS })
}

fn line(row: &Checked) -> String {
    let text = match row.check {
        Check::AsWanted => format!("  ok         {}: {}", row.what, row.wanted),
        Check::Otherwise => {
            format!("  otherwise  {}: {}, and {} is wanted ({})", row.what, row.found, row.wanted, row.place)
        }
        Check::Unseen => format!("  not told   {}: {} is wanted ({})", row.what, row.wanted, row.place),
    };
    // Nothing of a file or a recording speaks to the terminal.
    text.chars().filter(|char| !char.is_control()).collect()
}
