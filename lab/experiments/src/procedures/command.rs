//! Programs of the user's that print their figures as JSON: each arm is a
//! command, each figure a place in what it prints.

use crate::Failure;
use crate::builds::{self, Build};
use crate::procedure::{Arm, Procedure, ProcedureSettings, Setting};
use crate::runs::{ArmResults, Check, Direction, Figure, Run, RunVerdict};
use demo::child::{Interrupt, Program};
use demo::scratch::Scratch;
use environment::without_secrets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The most that a program may print, so that one that does not end its
/// output does not fill the memory.
const MAX_OUTPUT: usize = 16 * 1024 * 1024;

/// Which programs, and which of their figures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// A program that runs longer than so many seconds has failed.
    #[serde(default = "default_timeout")]
    pub timeout_seconds: u64,
    /// What is read from the JSON that a program prints.
    pub figures: Vec<Reading>,
    /// The programs.
    pub arms: Vec<CommandSide>,
}

const fn default_timeout() -> u64 {
    600
}

/// A figure, and where it is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Reading {
    /// Its name in tables and results.
    pub name: String,
    /// Where it is: a JSON Pointer (RFC 6901), as in /latency/p99.
    pub pointer: String,
    /// Its unit.
    #[serde(default)]
    pub unit: String,
    /// Which way is better; left out for a figure that only describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better: Option<Direction>,
}

/// One side of the comparison.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CommandSide {
    /// Its name in tables and results.
    pub name: String,
    /// The program and its arguments. NEARSIDE_LAB_SEED is in its environment.
    pub command: Vec<String>,
    /// What prints how the program was built that is measured, as in
    /// ["/opt/one/sbin/nginx", "-V"]: what differs between the arms is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Vec<String>>,
    /// What must be alike in a comparison, such as connections and the
    /// response's size.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, String>,
}

/// The experiment.
#[derive(Debug)]
pub struct Command {
    settings: Settings,
    scratch: Scratch,
    /// Of the arms that name one, by their names.
    builds: Vec<(String, Build)>,
}

/// What prints how a program was built does so at once.
const BUILD_LIMIT: Duration = Duration::from_secs(30);

impl Command {
    /// # Errors
    /// If there is nothing to run or to read, or no folder for its output.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        if settings.arms.is_empty() || settings.figures.is_empty() {
            return Err("command: write at least one of [[command.arms]] and of [[command.figures]]".into());
        }
        if let Some(side) = settings.arms.iter().find(|side| side.command.is_empty()) {
            return Err(format!("command: the arm {} has no command", side.name).into());
        }
        if let Some(reading) = settings.figures.iter().find(|reading| !reading.pointer.starts_with('/')) {
            return Err(format!("command: the pointer of {} begins with /, as in /latency/p99", reading.name).into());
        }
        let scratch = Scratch::make()?;
        let mut builds = Vec::new();
        for side in &settings.arms {
            if let Some(words) = &side.build {
                builds.push((side.name.clone(), build(side, words, &scratch)?));
            }
        }
        Ok(Self { settings: settings.clone(), scratch, builds })
    }

    /// What differs between the first arm's build and each other's.
    fn differences(&self) -> Vec<Vec<String>> {
        let Some(((name, first), others)) = self.builds.split_first() else { return Vec::new() };
        others.iter().map(|(other, build)| builds::differences((name, first), (other, build))).collect()
    }
}

/// What an arm's program says of its build, on either output: nginx says it on the second.
fn build(side: &CommandSide, words: &[String], scratch: &Scratch) -> Result<Build, Failure> {
    let Some(program) = words.first() else {
        return Err(format!("command: the build of {} names no program", side.name).into());
    };
    let mut line = ["sh", "-c", "exec \"$0\" \"$@\" 2>&1"].map(str::to_owned).to_vec();
    line.extend(words.iter().cloned());
    let interrupt = Interrupt::watch()?;
    let mut running = Program { name: "build", netns: None, core: None, words: line }.start(scratch.path())?;
    let status = running.ended(BUILD_LIMIT, &interrupt)?;
    let printed = running.output();
    if !status.success() {
        let last = printed.trim().lines().next_back().unwrap_or("nothing");
        return Err(
            format!("{program}, which is to say how {} was built, ended with {status}: {last}", side.name).into()
        );
    }
    if printed.len() > MAX_OUTPUT {
        return Err(format!("{program} printed more than {MAX_OUTPUT} bytes").into());
    }
    let found = Build::parse(&printed);
    found.ok_or_else(|| format!("{program}, which is to say how {} was built, printed nothing", side.name).into())
}

impl ProcedureSettings for Settings {
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        Ok(Box::new(Command::new(self)?))
    }
}

impl Procedure for Command {
    fn arms(&self) -> Vec<Arm> {
        let arm = |side: &CommandSide| {
            let missing = demo::machine::find_program(&side.command[0]).is_none() && !side.command[0].contains('/');
            let left_out = missing.then(|| format!("{} is not installed", side.command[0]));
            Arm { name: side.name.clone(), conditions: side.conditions.clone(), left_out }
        };
        self.settings.arms.iter().map(arm).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |r: &Reading| Figure { name: r.name.clone(), unit: r.unit.clone(), better: r.better };
        self.settings.figures.iter().map(figure).collect()
    }

    fn tools(&self) -> BTreeMap<String, String> {
        self.builds.iter().map(|(name, build)| (name.clone(), build.told())).collect()
    }

    fn notes(&self) -> Vec<String> {
        self.differences().into_iter().flatten().map(|one| format!("builds: {one}")).collect()
    }

    /// Whether there is another build to be compared at all.
    fn checks(&self, _: &[ArmResults]) -> Vec<Check> {
        let found = self.differences().into_iter().zip(self.builds.iter().skip(1)).map(|(differences, (name, _))| {
            let count = differences.len();
            let found = match count {
                0 => "they say the same of themselves: what is measured between them is their configuration, or noise"
                    .to_owned(),
                1 => "in one thing".to_owned(),
                _ => format!("in {count} things"),
            };
            Check {
                what: format!("the build of {name} differs from {}'s", self.builds[0].0),
                found,
                kept: Some(count > 0),
            }
        });
        found.collect()
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        let side = &self.settings.arms[arm];
        // It is kept, and a program that complains may repeat what it was given.
        self.measure(side, setting).map_err(|why| without_secrets(&why.to_string(), &side.command).into())
    }
}

impl Command {
    /// Runs one side once.
    fn measure(&self, side: &CommandSide, setting: &Setting) -> Result<Run, Failure> {
        let mut words = vec!["env".to_owned(), format!("NEARSIDE_LAB_SEED={}", setting.seed)];
        words.extend(side.command.iter().cloned());
        let program = Program { name: &side.command[0].replace('/', "-"), netns: None, core: None, words };
        let mut running = program.start(self.scratch.path())?;
        let status = running.ended(Duration::from_secs(self.settings.timeout_seconds), setting.interrupt)?;
        let printed = running.output();
        let value = json(&side.name, &printed);
        let own = value.as_ref().ok().and_then(own_word);
        // Tools of ours end with another status where they doubt their figures, and say so in
        // what they print; of another program nobody knows what its figures are then.
        if !status.success() && own.is_none() {
            let said = running.complaint();
            return Err(format!("{} ended with {status}; it said:\n{said}", side.name).into());
        }
        let figures = read(&side.name, &value?, &self.settings.figures, own.is_some())?;
        let (verdict, errors) = own.map_or((None, None), |own| (own.verdict, own.errors));
        let (errors, errors_unknown) = (errors.unwrap_or(0), errors.is_none());
        Ok(Run { figures, verdict, errors, errors_unknown, ..Run::default() })
    }
}

/// What a result of ours says of itself.
struct OwnWord {
    verdict: Option<RunVerdict>,
    /// Requests and connections that failed, where it counts them.
    errors: Option<u64>,
}

/// The word of a result of ours; nothing of what is none.
fn own_word(value: &Value) -> Option<OwnWord> {
    let found = results::of_value("", value).ok()?;
    let verdict = found.verdict.map(|own| RunVerdict { word: own.worth.word().to_owned(), reasons: own.reasons });
    // What was not judged did not fail.
    let counts = value.get("errors").and_then(Value::as_object);
    let counts = counts.map(|all| all.iter().filter(|(name, _)| *name != "not_judged").filter_map(|(_, n)| n.as_u64()));
    let row_errors = value.get("rows").and_then(Value::as_array);
    let rows = row_errors.map(|rows| rows.iter().filter_map(|row| row.get("errors").and_then(Value::as_u64)).sum());
    Some(OwnWord { verdict, errors: counts.map(Iterator::sum).or(rows) })
}

/// What a program printed, as JSON: its last line that is JSON, or all of it.
fn json(name: &str, printed: &str) -> Result<Value, Failure> {
    if printed.len() > MAX_OUTPUT {
        return Err(format!("{name} printed more than {MAX_OUTPUT} bytes").into());
    }
    let whole = || serde_json::from_str(printed).ok();
    let line = || printed.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    Ok(whole().or_else(line).ok_or_else(|| format!("{name} printed no JSON"))?)
}

/// The figures in it. A result of ours may lack one that it could not measure, which it says
/// (`is_own`): the run has none then, and the others are kept.
fn read(name: &str, value: &Value, readings: &[Reading], is_own: bool) -> Result<BTreeMap<String, f64>, Failure> {
    let mut found = BTreeMap::new();
    for reading in readings {
        match value.pointer(&reading.pointer) {
            Some(Value::Null) if is_own => {}
            place => {
                let value = place.and_then(Value::as_f64);
                let value = value.ok_or_else(|| format!("{name} printed no number at {}", reading.pointer))?;
                found.insert(reading.name.clone(), value);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(pointer: &str) -> Vec<Reading> {
        vec![Reading { name: "rate".to_owned(), pointer: pointer.to_owned(), unit: String::new(), better: None }]
    }

    #[test]
    fn figures_are_found_in_what_is_printed() {
        for printed in ["{\"a\": {\"b\": 3}}", "starting\n{\"a\": {\"b\": 3}}\n", "{\n \"a\": {\"b\": 3.0}\n}\n"] {
            assert_eq!(
                read("x", &json("x", printed).expect(printed), &reading("/a/b"), false).expect(printed)["rate"],
                3.0
            );
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        for (printed, pointer, why) in [
            ("nothing", "/a", "x printed no JSON"),
            ("{\"a\": \"text\"}", "/a", "x printed no number at /a"),
            ("{\"a\": 1}", "/b", "x printed no number at /b"),
        ] {
            let read = || read("x", &json("x", printed)?, &reading(pointer), false);
            assert_eq!(read().expect_err(printed).to_string(), why);
        }
    }
}
