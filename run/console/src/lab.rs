//! `nearside lab`: experiments run, shown and compared.

mod judge;

use ::experiments::experiment::{Experiment, Set};
use ::experiments::results::Results;
use ::experiments::runner::{self, Outcome};
use ::experiments::{builtin, compare, report, table};
use demo::child::Interrupt;
use environment::ResultOrigin;
use results::{KnownResult, ResultKind};
use say::{Failure, eprintln, print, println};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `lab` is asked to do.
#[derive(Clone, PartialEq, Debug)]
pub enum LabPlan {
    /// List the built-in experiments.
    List,
    /// Print what an experiment's file may say, as JSON Schema; or a built-in
    /// one, as an example.
    Schema(Option<String>),
    /// Run one.
    Run(ExperimentPlan),
    /// Turn results into a page, at this place or beside them.
    Report(PathBuf, Option<PathBuf>),
    /// Compare two results.
    Compare(ComparisonPlan),
    /// Hold published results against what is possible.
    Judge(JudgePlan),
}

/// Which published results.
#[derive(Clone, PartialEq, Debug)]
pub struct JudgePlan {
    /// What tools printed, or claims.
    pub files: Vec<PathBuf>,
    /// The link's rate, in bits per second.
    pub link: Option<f64>,
    /// Print JSON.
    pub json: bool,
}

/// Which experiment, and how.
#[derive(Clone, PartialEq, Debug)]
pub struct ExperimentPlan {
    /// A built-in one's name, or a file.
    pub name: String,
    /// Changes, in their order.
    pub sets: Vec<Set>,
    /// The folder for the results; `None`: a new one below `out/lab`.
    pub out: Option<PathBuf>,
    /// Print the results as JSON in place of the tables.
    pub json: bool,
}

/// Which results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ComparisonPlan {
    /// The earlier: a folder, or an arm of it.
    pub before: ResultsSide,
    /// The later.
    pub after: ResultsSide,
    /// Compare what is not alike.
    pub force: bool,
    /// Where the page goes.
    pub html: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// A folder, and one arm of it if one is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultsSide {
    /// The folder.
    pub folder: PathBuf,
    /// The arm.
    pub arm: Option<String>,
}

impl From<&str> for ResultsSide {
    /// `FOLDER`, or `FOLDER:ARM` where nothing has the whole name. Arms that are URLs have colons, too.
    fn from(text: &str) -> Self {
        let splits = || text.match_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
        let split = splits().find(|(folder, _)| Path::new(folder).exists()).or_else(|| splits().next_back());
        match split.filter(|_| !Path::new(text).exists()) {
            Some((folder, arm)) => Self { folder: folder.into(), arm: Some(arm.to_owned()) },
            None => Self { folder: text.into(), arm: None },
        }
    }
}

/// What the exit status says where an expectation was missed, as opposed to a
/// failure.
const MISSED: u8 = 2;

/// What it says after Ctrl-C, as shells do (128 + SIGINT).
const INTERRUPTED: u8 = 130;

/// Does what was asked.
///
/// # Errors
/// If it cannot be done; what was measured before is kept.
pub fn lab(plan: LabPlan) -> Result<ExitCode, Failure> {
    match plan {
        LabPlan::List => list(),
        LabPlan::Schema(name) => schema(name.as_deref()),
        LabPlan::Run(plan) => run(&plan),
        LabPlan::Report(path, place) => report_of(&path, place.as_deref()),
        LabPlan::Compare(plan) if are_experiments(&plan) => compare_experiments(&plan),
        LabPlan::Compare(plan) => compare_results(&plan),
        LabPlan::Judge(plan) => judge::judge(&plan),
    }
}

fn list() -> Result<ExitCode, Failure> {
    let row = |experiment: Experiment| vec![experiment.name, experiment.title];
    let rows: Vec<Vec<String>> = builtin::all()?.into_iter().map(row).collect();
    let width = rows.iter().map(|row| row[0].len()).max().unwrap_or(0);
    for row in rows {
        println!("{:<width$}  {}", row[0], row[1]);
    }
    Ok(ExitCode::SUCCESS)
}

fn schema(name: Option<&str>) -> Result<ExitCode, Failure> {
    match name {
        None => print!("{}", Experiment::schema()),
        Some(name) => print!("{}", builtin::text(name).ok_or_else(|| format!("no experiment is named {name}"))?),
    }
    Ok(ExitCode::SUCCESS)
}

fn run(plan: &ExperimentPlan) -> Result<ExitCode, Failure> {
    let experiment = builtin::find(&plan.name, &plan.sets)?;
    let interrupt = Interrupt::watch()?;
    let folder = plan.out.clone().unwrap_or_else(|| fresh(&experiment.name));
    let (results, outcome) = runner::run(&experiment, &folder, &interrupt)?;
    if plan.json {
        print!("{}", results.to_json());
    } else {
        print!("{}", table::render(&results));
    }
    write_report(&folder, &results)?;
    match outcome {
        Outcome::Complete if results.is_as_expected() => Ok(ExitCode::SUCCESS),
        Outcome::Complete => Ok(ExitCode::from(MISSED)),
        Outcome::Interrupted => {
            eprintln!("nearside: interrupted; what was measured is kept in {}", folder.display());
            Ok(ExitCode::from(INTERRUPTED))
        }
        Outcome::Failed(why) => Err(format!("{why}\nwhat was measured before is kept in {}", folder.display()).into()),
    }
}

/// The page of a result at this place; without one, of an experiment in its folder, of another beside it.
fn report_of(path: &Path, place: Option<&Path>) -> Result<ExitCode, Failure> {
    // What holds no result is told first.
    results::read(path)?;
    let (shown, is_folder) = (path.display(), path.is_dir());
    let usual = if is_folder { path.join("report.html") } else { path.with_extension("html") };
    if place.is_none() && usual == path {
        return Err(format!("{shown} is a page already: --html FILE makes another of what is in it").into());
    }
    let is_ours = |text: String| !pages::results_in(&text).is_empty();
    let is_strange = usual.exists() && !std::fs::read_to_string(&usual).is_ok_and(is_ours);
    if place.is_none() && is_strange {
        let usual = usual.display();
        return Err(format!("{usual} is no page of ours, and stays: --html FILE writes to another place").into());
    }
    let place = place.unwrap_or(&usual);
    results::refuse_onto(place, &[path])?;
    if results::sides(path)?.is_some() {
        return Err(
            format!("{shown} compares two sides, {shown}:before and {shown}:after: nearside lab compare").into()
        );
    }
    if is_experiment(path) {
        return write_page(place, &report::page(&Results::read(path)?)).map(|()| ExitCode::SUCCESS);
    }
    let texts = results::texts(path)?;
    let page = match (results::read(path)?.first().map(|one| one.kind), texts.first()) {
        (Some(ResultKind::Demo), Some((_, text))) => demo::report::page(&serde_json::from_str(&whole(text))?),
        (Some(ResultKind::Experiment), _) => report::page(&Results::read(path)?),
        _ => results::page_of_files(&texts)?,
    };
    write_page(place, &page).map(|()| ExitCode::SUCCESS)
}

/// A result, or the one in its page.
fn whole(text: &str) -> String {
    pages::results_in(text).pop().unwrap_or_else(|| text.to_owned())
}

/// Whether this is an experiment's folder, its results, or its page.
fn is_experiment(path: &Path) -> bool {
    let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let place = if path.is_dir() { path.join(::experiments::results::RESULTS) } else { path.to_path_buf() };
    let known = results::read_text("", &whole(&text(&place)));
    known.is_ok_and(|known| known.kind == ResultKind::Experiment)
}

/// Whether both sides are experiments, which are compared arm by arm, with the noise that their
/// controls showed.
fn are_experiments(plan: &ComparisonPlan) -> bool {
    let is_one = |side: &ResultsSide| is_experiment(&side.folder) || (side.arm.is_some() && side.folder.is_dir());
    [&plan.before, &plan.after].into_iter().all(is_one)
}

/// Where a comparison's page goes is none of its sides.
fn refuse_onto_a_side(plan: &ComparisonPlan) -> Result<(), Failure> {
    let sides = [plan.before.folder.as_path(), plan.after.folder.as_path()];
    Ok(plan.html.as_ref().map_or(Ok(()), |place| results::refuse_onto(place, &sides))?)
}

/// The results of a side; of a page that compares two, those that are named.
fn side_of(ResultsSide { folder, arm }: &ResultsSide) -> Result<(Vec<KnownResult>, Vec<String>), Failure> {
    let shown = folder.display();
    let parts = match (results::sides(folder)?, arm.as_deref()) {
        (Some([before, _]), Some("before")) => before,
        (Some([_, after]), Some("after")) => after,
        (Some(_), _) => return Err(format!("{shown} has two sides: name {shown}:before or {shown}:after").into()),
        (None, Some(arm)) => return Err(format!("{shown} is no experiment and has no arm {arm}").into()),
        (None, None) => results::parts(folder)?,
    };
    Ok(parts.into_iter().unzip())
}

/// Compares results of any measurement of ours, of one kind.
fn compare_results(plan: &ComparisonPlan) -> Result<ExitCode, Failure> {
    refuse_onto_a_side(plan)?;
    let ((before, old), (after, new)) = (side_of(&plan.before)?, side_of(&plan.after)?);
    let comparison = results::SidesCompared::of(&before, &after)?;
    if let Some(why) = comparison.refusal().filter(|_| !plan.force) {
        return Err(why.into());
    }
    if let Some(place) = &plan.html {
        write_page(place, &results::page_of_sides(&comparison, (&before, &after), ResultOrigin::now(), [old, new]))?;
    }
    if plan.json {
        println!("{:#}", comparison.to_json());
    } else {
        print!("{comparison}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The first folder of this name that is not there yet.
pub(crate) fn fresh(name: &str) -> PathBuf {
    let place = Path::new("out/lab");
    let numbered = |number: u32| place.join(format!("{name}-{number}"));
    (1..u32::MAX).map(numbered).find(|folder| !folder.exists()).unwrap_or_else(|| place.join(name))
}

pub(crate) fn write_report(folder: &Path, results: &Results) -> Result<(), Failure> {
    let place = if folder.is_dir() { folder.join("report.html") } else { folder.with_extension("html") };
    write_page(&place, &report::page(results))
}

/// Writes a page, and says where.
pub(crate) fn write_page(place: &Path, page: &pages::Page) -> Result<(), Failure> {
    results::write_whole(place, &page.render())?;
    eprintln!("wrote {}", place.display());
    Ok(())
}

fn compare_experiments(plan: &ComparisonPlan) -> Result<ExitCode, Failure> {
    refuse_onto_a_side(plan)?;
    for side in [&plan.before.folder, &plan.after.folder] {
        if results::sides(side)?.is_some() {
            let shown = side.display();
            return Err(format!("{shown} compares two experiments: take one of them out of it").into());
        }
    }
    let (before, after) = (Results::read(&plan.before.folder)?, Results::read(&plan.after.folder)?);
    let pairs = compare::pairs((&after, plan.after.arm.as_deref()), (&before, plan.before.arm.as_deref()))?;
    let unlike = compare::unlike(&after, &before, &pairs);
    for (side, results) in [("before", &before), ("after", &after)] {
        for doubt in results.verdict().reasons {
            eprintln!("note: {side}: {doubt}");
        }
    }
    if !unlike.is_empty() && !plan.force {
        let list = unlike.join("\n  ");
        return Err(format!(
            "these are not alike, so that a difference would say nothing (--force compares them \
                            nevertheless):\n  {list}"
        )
        .into());
    }
    let comparisons = compare::between(&after, &before, &pairs);
    if let Some(place) = &plan.html {
        write_page(place, &report::compared((&before, &after), &comparisons, &unlike, ResultOrigin::now()))?;
    }
    if plan.json {
        print!("{}", compare::to_json(&comparisons));
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", table::columns(&table::verdicts(&comparisons, table::SIDES)));
    for line in unlike {
        println!("not alike: {line}");
    }
    for line in compare::differences(&after, &before) {
        println!("differs: {line}");
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_folder_or_an_arm_of_one() {
        let side = ResultsSide::from("out/lab/x-1:least");
        assert_eq!((side.folder.as_path(), side.arm.as_deref()), (Path::new("out/lab/x-1"), Some("least")));
        assert_eq!(ResultsSide::from("out/lab/x-1"), ResultsSide { folder: "out/lab/x-1".into(), arm: None });
        let side = ResultsSide::from("/tmp:http://127.0.0.1:80/");
        assert_eq!((side.folder.as_path(), side.arm.as_deref()), (Path::new("/tmp"), Some("http://127.0.0.1:80/")));
    }
}
