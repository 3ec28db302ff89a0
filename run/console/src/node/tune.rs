//! `nearside node plan`, `apply`, `undo` and `confirm`.

use super::show::hung;
use super::{WORSE, evidence};
use crate::plan::{NodePlan, Trial, Tuning};
use apply::{Machine as _, Outcome, PersistTo, Refusal, Restored, Step, Tree, TuningPlan, Which};
use audit::{Evidence, Role};
use rustix::process::setsid;
use say::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// How long a plan that may cut the connection waits for its confirmation.
const USUAL_TRIAL: u64 = 120;
/// How often the guard looks.
const LOOKS_A_SECOND: u64 = 5;
/// How often the guard asks for the lock once the time is over, a minute's
/// worth: whoever has it longer hangs.
const MOST_TRIES: u64 = 60 * LOOKS_A_SECOND;
/// What the guard says when it is there.
const READY: &str = "ready";

fn root(plan: &NodePlan) -> &Path {
    plan.root.as_deref().unwrap_or(Path::new("/"))
}

/// The folder or machine that is changed; a recording cannot be.
fn tree(plan: &NodePlan) -> Result<Tree, Failure> {
    match root(plan) {
        root if root.is_dir() => Ok(Tree::at(root)),
        root => Err(format!("{}: is no folder, and only a machine's files can be changed", root.display()).into()),
    }
}

fn tuned(evidence: &Evidence, tree: &Tree, role: Role, tuning: &Tuning) -> Result<TuningPlan, Failure> {
    let plan = match tuning.only.as_slice() {
        [] => TuningPlan::for_role(evidence, role, &tuning.except),
        only => TuningPlan::of(tree, evidence, role, only)?,
    };
    Ok(TuningPlan { no_container: tuning.no_container, ..plan })
}

/// Prints what would change.
pub(super) fn plan(out: &mut impl Write, node: &NodePlan, tuning: &Tuning) -> Result<ExitCode, Failure> {
    let evidence = evidence(node.root.as_deref())?;
    // A recording's files are in the evidence; the folder has nothing to add.
    let machine = Tree::at(root(node));
    let plan = tuned(&evidence, &machine, tuning.role.unwrap_or(Role::WebKernel), tuning)?;
    if node.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&plan)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    show(out, &plan)?;
    let mut obstacles = Vec::new();
    if root(node).is_dir() {
        obstacles = apply::obstacles(&machine, &evidence, &plan);
        for obstacle in &obstacles {
            writeln!(out, "\napply would refuse: {obstacle}")?;
        }
    }
    if !plan.steps.is_empty() || !plan.arguments.is_empty() {
        let only: String = tuning.only.iter().map(|(key, value)| format!(" --only '{key}={value}'")).collect();
        // In a container the bare command would be refused: whoever knows better says so with it.
        let contained = obstacles.iter().any(|obstacle| matches!(obstacle, Refusal::Container(_)));
        let known = if tuning.no_container || contained { " --not-a-container" } else { "" };
        let only_if = if contained { "if this is no container: " } else { "" };
        let except: String = tuning.except.iter().map(|key| format!(" --except '{key}'")).collect();
        let trial = if plan.may_cut() { "  (undoes itself after 120 s unless confirmed)" } else { "" };
        writeln!(out, "\n{only_if}nearside node apply {}{only}{except}{known}{trial}", plan.id)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(out: &mut impl Write, plan: &TuningPlan) -> Result<(), Failure> {
    writeln!(out, "plan {} for the role {}: {} steps", plan.id, plan.role.name(), plan.steps.len())?;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let below = |text: &mut String, name: &str, of: &str| _ = hung(text, name, name.chars().count(), of);
    for (at, step) in plan.steps.iter().enumerate() {
        let Step { key, path, found, wanted, why, command, risk, undo, .. } = step;
        let cut = if step.may_cut { "; may drop the connection by which you work here" } else { "" };
        text.push('\n');
        below(&mut text, &format!("{:3}. ", at + 1), &format!("{key}: {found} -> {wanted}"));
        below(&mut text, "     why      ", why);
        below(&mut text, "     file     ", &format!("/{path}"));
        below(&mut text, "     by hand  ", command);
        below(&mut text, "     risk     ", &format!("{risk}{cut}"));
        below(&mut text, "     undo     ", undo);
    }
    if !plan.arguments.is_empty() {
        text.push_str("\nof the kernel's command line (apply --persist grub boots them once):\n");
    }
    for argument in &plan.arguments {
        let word = argument.value.as_ref().map_or_else(|| "goes".to_owned(), |value| format!("= {value}"));
        below(&mut text, "  ", &format!("{} {word}; {}", argument.name, argument.why));
    }
    if !plan.left.is_empty() {
        text.push_str("\nnot in the plan:\n");
    }
    for left in &plan.left {
        below(&mut text, "  ", &format!("{}: better {}; {}", left.key, left.want, left.why));
    }
    write!(out, "{text}")?;
    Ok(())
}

/// On one line, and nothing that a terminal would obey.
fn line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|char| !char.is_control()).collect()
}

/// Makes a plan true that was printed.
pub(super) fn apply_plan(
    out: &mut impl Write,
    node: &NodePlan,
    (id, tuning): (&str, &Tuning),
    trial: Trial,
    persist: Option<PersistTo>,
) -> Result<ExitCode, Failure> {
    let mut machine = tree(node)?;
    let evidence = evidence(node.root.as_deref())?;
    let plan = of_id(&evidence, &machine, id, tuning)?;
    if let Some(to) = persist {
        let (mut files, left) = apply::files(&evidence, &plan, to);
        if to == PersistTo::Grub {
            files = apply::boot_once(&machine, &evidence, &plan)?;
        }
        let applied = apply::write_files(&mut machine, &plan, &files)?;
        for file in &files {
            writeln!(out, "/{}\n{}", file.path, file.added())?;
        }
        for left in &left {
            writeln!(out, "not in a file: {} = {}; it {}", left.key, left.want, left.why)?;
        }
        let when = match to {
            PersistTo::Tuned => "act with tuned-adm profile nearside",
            PersistTo::Grub => "act at the next boot, and only then",
            PersistTo::SysctlD | PersistTo::Systemd => "act from the next boot",
        };
        writeln!(out, "{} files are written and {when}; nearside node undo", applied.changes)?;
        return Ok(ExitCode::SUCCESS);
    }
    let seconds = match trial {
        Trial::Seconds(seconds) => Some(seconds),
        Trial::Default if plan.may_cut() => Some(USUAL_TRIAL),
        Trial::Default | Trial::No => None,
    };
    let applied = apply::apply(&mut machine, &evidence, &plan, seconds, |journal| {
        start_guard(root(node), journal, seconds.unwrap_or(USUAL_TRIAL)).map_err(|why| why.to_string())
    });
    let applied = match applied {
        Err(why @ apply::ApplyError::Failed { .. }) if tuning.only.is_empty() => {
            return Err(format!("{why}; a plan with --except KEY does without it").into());
        }
        Err(apply::ApplyError::Refused(Refusal::Managed(by))) => {
            instead(out, &evidence, &plan, &by)?;
            return Err(Refusal::Managed(by).into());
        }
        applied => applied?,
    };
    writeln!(out, "plan {id} is in force: {} settings were written and read back", applied.changes)?;
    match seconds {
        Some(seconds) => writeln!(out, "it undoes itself in {seconds} s, unless: nearside node confirm")?,
        None => writeln!(out, "until the next boot, or: nearside node undo")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The plan in the form that a node's manager takes.
fn instead(out: &mut impl Write, evidence: &Evidence, plan: &TuningPlan, by: &str) -> Result<(), Failure> {
    let (files, left) = apply::for_manager(evidence, plan, by);
    for file in &files {
        writeln!(out, "# what {by} takes instead: {}\n{}", file.path, file.text())?;
    }
    for left in &left {
        writeln!(out, "# not in it: {} = {}; it {}", left.key, left.want, left.why)?;
    }
    Ok(())
}

/// The plan that has this id now.
fn of_id(evidence: &Evidence, machine: &Tree, id: &str, tuning: &Tuning) -> Result<TuningPlan, Failure> {
    // The one that plan takes where none is said comes first: each takes time.
    let roles = core::iter::once(Role::WebKernel).chain(Role::ALL.into_iter().filter(|role| *role != Role::WebKernel));
    for role in roles.filter(|role| tuning.role.is_none_or(|chosen| chosen == *role)) {
        let plan = tuned(evidence, machine, role, tuning)?;
        if plan.id == id {
            return Ok(plan);
        }
    }
    Err(format!(
        "no plan has the id {id} now: a value changed since it was made, it was made by a user who may read less, or \
         --role, --only and --except are other ones; nearside node plan makes it anew"
    )
    .into())
}

/// Starts the process that undoes a plan which nobody confirms, and waits
/// until it is out of this session's reach.
fn start_guard(root: &Path, journal: &str, seconds: u64) -> Result<(), Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["node", "guard", "--journal", journal, "--seconds"]).arg(seconds.to_string());
    command.arg("--root").arg(std::path::absolute(root)?).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut said)?;
    }
    match said.trim() {
        READY => Ok(()),
        _ => Err("it ended at once".into()),
    }
}

/// Waits for a confirmation; undoes the plan if none comes, or if somebody
/// ends this process before.
pub(super) fn guard(out: &mut impl Write, node: &NodePlan, journal: &str, seconds: u64) -> Result<ExitCode, Failure> {
    let mut machine = tree(node)?;
    // A session of its own: the end of the one that it comes from does not
    // reach it. That it leads one already is as good.
    let _ = setsid();
    let ended = Arc::new(AtomicBool::new(false));
    // A hang-up is what the trial is for, and means nothing.
    signal_hook::flag::register(SIGHUP, Arc::new(AtomicBool::new(false)))?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    writeln!(out, "{READY}")?;
    out.flush()?;
    let pause = Duration::from_millis(1_000 / LOOKS_A_SECOND);
    for _ in 0..seconds.saturating_mul(LOOKS_A_SECOND) {
        if !apply::waits(&machine, journal) {
            return Ok(ExitCode::SUCCESS);
        }
        if ended.load(Ordering::Relaxed) {
            break;
        }
        sleep(pause);
    }
    for _ in 0..MOST_TRIES {
        match apply::undo(&mut machine, Which::Unconfirmed(journal), false) {
            // Whoever applies or confirms has it for a moment.
            Err(Refusal::Locked) => sleep(pause),
            // Confirmed or undone meanwhile.
            Err(Refusal::NoJournal(_)) => return Ok(ExitCode::SUCCESS),
            Err(why) => return Err(why.into()),
            Ok(_) => return Ok(ExitCode::SUCCESS),
        }
    }
    Err(Refusal::Locked.into())
}

/// Puts back what was changed.
pub(super) fn undo_plans(out: &mut impl Write, node: &NodePlan, all: bool, force: bool) -> Result<ExitCode, Failure> {
    let mut machine = tree(node)?;
    unreadable(&machine)?;
    let which = if all { Which::All } else { Which::Last };
    let restored = apply::undo(&mut machine, which, force)?;
    for one in &restored {
        writeln!(out, "/{}: {}", one.path, told(one))?;
    }
    let open =
        |one: &&Restored| matches!(one.outcome, Outcome::Foreign(_) | Outcome::Failed(_) | Outcome::OtherNetwork);
    match restored.iter().filter(open).count() {
        0 => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::from(WORSE)),
    }
}

/// Says which right is missing, rather than that there is no journal.
fn unreadable(machine: &Tree) -> Result<(), Failure> {
    machine.journals().map(|_| ()).map_err(|why| format!("/{}: {why}: it takes root", apply::STATE).into())
}

fn told(one: &Restored) -> String {
    match &one.outcome {
        Outcome::Restored => format!("{} again", line(&one.value)),
        Outcome::AsBefore => format!("{}, as before the plan", line(&one.value)),
        Outcome::Foreign(now) => {
            format!(
                "{} was written by somebody else meanwhile: left alone (--force puts {} back)",
                line(now),
                line(&one.value)
            )
        }
        Outcome::Failed(why) => format!("not put back: {}", line(why)),
        Outcome::Gone => "is not there any more".to_owned(),
        Outcome::OtherNetwork => "was written in another network namespace: undo it there".to_owned(),
        Outcome::OtherBoot => "was written in a boot that is over, and ended with it: left alone".to_owned(),
    }
}

/// Lets a plan stay.
pub(super) fn confirm_plan(out: &mut impl Write, node: &NodePlan) -> Result<ExitCode, Failure> {
    let mut machine = tree(node)?;
    unreadable(&machine)?;
    let id = apply::confirm(&mut machine)?;
    writeln!(out, "plan {id} stays until the next boot, or: nearside node undo")?;
    Ok(ExitCode::SUCCESS)
}
