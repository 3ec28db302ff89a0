//! Settings from a file: TOML, whose keys are the names of `serve`'s long
//! options, and `folder`. What the file says is put in front of what the
//! command line says, as if it had been typed there, so that both mean the
//! same and are refused alike; an option that the command line has too is
//! left out of the file.

use super::serving_definition as definition;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The longest file that is read: every option with the longest of values is
/// far less.
const FILE_MAX: u64 = 1 << 20;

/// The command that takes a file with settings.
const COMMAND: &str = "serve";

/// What is about one start of the program, and no setting.
const NO_SETTINGS: [&str; 8] = ["settings", "site", "site-schema", "explain", "check", "plan", "json", "take-over"];

/// What is not in the file of `--site`, and may stand beside it; so may what is of
/// links, of rights and of restarts.
const BESIDE_SITE: [&str; 8] =
    ["site", "site-schema", "explain", "check", "metrics", "idle", "congestion", "user-timeout"];
const BESIDE_SITE_HEADINGS: [&str; 4] = ["Links", "Fault injection", "Restart", "Rights"];

/// The served folder, which has no option's name: it is an argument.
const FOLDER: &str = "folder";

/// What excludes each other, and of which the command line's counts whatever
/// the file has of the others.
const ALTERNATIVES: [[&str; 2]; 2] = [[FOLDER, "respond"], ["silos", "core"]];

/// The options of a command line that was understood, by name.
pub(super) fn given(matches: &ArgMatches) -> BTreeMap<String, Vec<String>> {
    let mut given = BTreeMap::new();
    let Some((COMMAND, matches)) = matches.subcommand() else { return given };
    for arg in arguments() {
        let values = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
        let values: Vec<String> = values.map(|value| value.to_string_lossy().into_owned()).collect();
        if !values.is_empty() && !NO_SETTINGS.contains(&name(&arg)) {
            given.insert(name(&arg).to_owned(), values);
        }
    }
    given
}

/// Refuses options that would have no effect beside `--site`.
pub(super) fn beside_site(matches: &ArgMatches) -> Result<(), String> {
    let Some((COMMAND, matches)) = matches.subcommand() else { return Ok(()) };
    for arg in arguments() {
        let typed = matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        let heading = arg.get_help_heading().unwrap_or_default();
        let may = BESIDE_SITE.contains(&name(&arg))
            || name(&arg) == "status-page"
            || BESIDE_SITE_HEADINGS.iter().any(|one| heading.starts_with(one));
        if typed && !may {
            return Err(format!("--{} is not for --site, whose file says it", name(&arg)));
        }
    }
    Ok(())
}

/// A command line with the file's part in it.
#[derive(Debug)]
pub(super) struct Merged {
    /// The whole line, the program's name first.
    pub(super) arguments: Vec<OsString>,
    origin: Option<Origin>,
}

/// What came from a file, for errors to name the place.
#[derive(Debug)]
struct Origin {
    file: PathBuf,
    /// The lines of names.
    lines: BTreeMap<String, usize>,
}

impl Merged {
    /// What an error is to say: with the places in the file of the options
    /// that it speaks of.
    pub(super) fn place(&self, text: &str) -> String {
        let Some(Origin { file, lines }) = &self.origin else { return text.to_owned() };
        let named = |name: &str| {
            let option = format!("--{name}");
            text.match_indices(&option).any(|(at, _)| {
                // Of which no longer name begins like this.
                !text[at + option.len()..].starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-')
            })
        };
        let places: Vec<String> = lines
            .iter()
            .filter(|(name, _)| named(name) || *name == FOLDER && text.contains("[FOLDER]"))
            .map(|(name, line)| format!("{name} is set at {}:{line}", file.display()))
            .collect();
        if places.is_empty() { text.to_owned() } else { format!("{text} ({})", places.join(", ")) }
    }

    /// Whether a file had a part in it.
    pub(super) const fn has_file(&self) -> bool {
        self.origin.is_some()
    }
}

/// Puts the file that `arguments` names, if they do, into them; `opened` is that
/// file, where somebody has opened it.
///
/// # Errors
/// What is wrong with the file, with the line where it is.
pub(super) fn merge(mut arguments: Vec<OsString>, opened: Option<File>) -> Result<Merged, String> {
    // As far as it can be understood; what cannot is told afterwards.
    let first = definition().ignore_errors(true).try_get_matches_from(&arguments);
    let found = first.as_ref().ok().and_then(|matches| matches.subcommand_matches(COMMAND));
    let file = found.and_then(|matches| Some((matches, matches.get_one::<PathBuf>("settings")?)));
    let Some((typed, file)) = file else { return Ok(Merged { arguments, origin: None }) };
    let text = read(file, opened)?;
    let mut lines = BTreeMap::new();
    let mut added = Vec::new();
    for Entry { name, values, line } in entries(&text).map_err(|fault| fault.at(file))? {
        if !is_typed(typed, &name) {
            added.extend(values);
            lines.insert(name, line);
        }
    }
    // Behind the program's name and the command's.
    let place = arguments.len().min(2);
    arguments.splice(place..place, added);
    Ok(Merged { arguments, origin: Some(Origin { file: file.clone(), lines }) })
}

/// What an error says to the user, without the hints that stand behind it.
pub(super) fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let ends = ["\n\nUsage:", "\n\nFor more information"].map(|end| text.find(end).unwrap_or(text.len()));
    let text = &text[..ends[0].min(ends[1])];
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One setting of a file, as arguments.
struct Entry {
    name: String,
    values: Vec<OsString>,
    line: usize,
}

/// What is wrong, and in which line.
struct Fault {
    line: usize,
    why: String,
}

impl Fault {
    fn at(&self, file: &Path) -> String {
        format!("{}:{}: {}", file.display(), self.line, self.why)
    }
}

fn read(file: &Path, opened: Option<File>) -> Result<String, String> {
    let told = |why: &dyn std::fmt::Display| format!("cannot read the settings in {}: {why}", file.display());
    // A pipe without a writer is not waited for.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = match opened {
        Some(opened) => opened,
        None => File::options().read(true).custom_flags(flags).open(file).map_err(|why| told(&why))?,
    };
    if !opened.metadata().map_err(|why| told(&why))?.is_file() {
        return Err(told(&"this is not a plain file, which can be read again"));
    }
    let mut text = String::new();
    opened.take(FILE_MAX + 1).read_to_string(&mut text).map_err(|why| told(&why))?;
    if text.len() as u64 > FILE_MAX {
        return Err(told(&format!("it is longer than {FILE_MAX} bytes")));
    }
    Ok(text)
}

/// The settings of a file, in its order.
fn entries(text: &str) -> Result<Vec<Entry>, Fault> {
    let line_of = |at: usize| text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
    let table = DeTable::parse(text).map_err(|why| {
        let line = line_of(why.span().map_or(0, |span| span.start));
        Fault { line, why: why.message().trim().replace('\n', "; ") }
    })?;
    let known = arguments();
    let mut entries = Vec::new();
    for (key, value) in table.get_ref() {
        let line = line_of(key.span().start);
        let name = key.get_ref().as_ref();
        let fault = |why: String| Fault { line, why };
        let Some(arg) = known.iter().find(|arg| self::name(arg) == name) else { return Err(fault(unknown(name))) };
        if NO_SETTINGS.contains(&name) {
            return Err(fault(format!("{name} is for the command line: it is about one start, and no setting")));
        }
        let values = typed_as(arg, value.get_ref()).map_err(fault)?;
        taken_alone(&values).map_err(fault)?;
        entries.push(Entry { name: name.to_owned(), values, line });
    }
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

/// The value of an option as it would be typed.
fn typed_as(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<OsString>, String> {
    let name = name(arg);
    let one = |value: &DeValue<'_>| match value {
        DeValue::String(text) if text.contains('\0') => Err(format!("{name} has a NUL in it")),
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().replace('_', "")),
        other => Err(format!("{name} is {}, as in {}", wanted(arg), example(arg, other.type_str()))),
    };
    let option = |text: String| OsString::from(format!("--{name}={text}"));
    match (arg.get_action(), value) {
        // Written with its folder where it would be taken for an option.
        _ if name == FOLDER => {
            one(value).map(|text| vec![if text.starts_with('-') { format!("./{text}") } else { text }.into()])
        }
        (ArgAction::SetTrue, DeValue::Boolean(true)) => Ok(vec![format!("--{name}").into()]),
        (ArgAction::SetTrue, DeValue::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, other) => Err(format!("{name} is true or false; this is of type {}", other.type_str())),
        (ArgAction::Append, DeValue::Array(values)) => {
            values.iter().map(|value| Ok(option(one(value.get_ref())?))).collect()
        }
        (_, value) => Ok(vec![option(one(value)?)]),
    }
}

fn wanted(arg: &Arg) -> &'static str {
    match arg.get_action() {
        ArgAction::Append => "text, a number, or a list of them",
        _ => "text or a number",
    }
}

fn example(arg: &Arg, found: &str) -> String {
    let what = arg.get_value_names().and_then(<[_]>::first).map_or("VALUE", |name| name.as_str());
    format!("{} = \"{what}\"; this is of type {found}", name(arg))
}

/// Whether each value is one that the option takes, whatever else is set.
fn taken_alone(values: &[OsString]) -> Result<(), String> {
    let line = ["nearside", COMMAND].map(OsString::from).into_iter().chain(values.iter().cloned());
    match definition().try_get_matches_from(line) {
        Err(error) if !matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict) => {
            Err(sentence(&error))
        }
        _ => Ok(()),
    }
}

/// What to say of a name that is none, with the one that it is most like.
fn unknown(name: &str) -> String {
    let line = ["nearside", COMMAND].map(str::to_owned).into_iter().chain([format!("--{name}")]);
    let error = definition().try_get_matches_from(line).err();
    match error.as_ref().and_then(|error| error.get(ContextKind::SuggestedArg)) {
        Some(ContextValue::String(like)) => {
            format!("there is no setting {name:?}; is it {:?}?", like.trim_start_matches('-'))
        }
        _ => format!("there is no setting {name:?}"),
    }
}

/// Whether the command line has this option, or another that stands for it.
fn is_typed(typed: &ArgMatches, name: &str) -> bool {
    let alternatives = ALTERNATIVES.iter().find(|both| both.contains(&name));
    arguments().iter().any(|arg| {
        let other = self::name(arg);
        let same = other == name || alternatives.is_some_and(|both| both.contains(&other));
        same && typed.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
    })
}

/// All that can be set.
fn arguments() -> Vec<Arg> {
    let definition = definition();
    let command = definition.find_subcommand(COMMAND);
    command.into_iter().flat_map(clap::Command::get_arguments).cloned().collect()
}

fn name(arg: &Arg) -> &str {
    arg.get_long().unwrap_or(arg.get_id().as_str())
}

#[cfg(test)]
mod tests;
