//! The command line, in two steps: as typed ([`flags`]) and as meant (the
//! plans here). Help, man pages and completions come from the same
//! definitions; the rest of the program sees plans only.

mod examples;
mod flags;
mod habits;
mod help;
mod kernel;
mod places;
mod rates;
mod settings;
mod target;
#[cfg(test)]
mod tests;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Subcommand};
use console::{LabPlan, NodePlan, NumaPlan, ServersPlan, WatchPlan};
use demo::DemoPlan;
use generator::LoadPlan;
use import::ImportPlan;
use keeper::RunPlan;
use nginx_command::{NginxPlan, SitePlan};
use say::eprintln;
use serve::ServePlan;
use status::StatusPlan;
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use testbed::PacketPlan;

/// One call of the program.
#[derive(Clone, Debug)]
pub enum Command {
    /// Serve a website.
    Serve(Box<ServePlan>),
    /// Serve a site in TOML.
    Site(Box<SitePlan>),
    /// Do what an nginx.conf says.
    Nginx(NginxPlan),
    /// Run a program on our stack.
    Run(RunPlan),
    /// Load a server and measure its latency.
    Load(Box<LoadPlan>),
    /// Measure Nearside versus nginx, on one veth pair and over shared memory.
    Demo(DemoPlan),
    /// Compare two servers.
    Compare(ServersPlan),
    /// Run experiments.
    Lab(LabPlan),
    /// Forward and measure frames.
    Packet(PacketPlan),
    /// List the links of this machine.
    Links(LinksPlan),
    /// Print the statistics of running processes.
    Status(StatusPlan),
    /// Show what the machine does.
    Watch(Box<WatchPlan>),
    /// Print what crosses between NUMA domains.
    Numa(NumaPlan),
    /// Judge the machine's settings.
    Node(NodePlan),
    /// Measure on many machines: another program's words.
    Cluster,
    /// Turn another stack's configuration into ours.
    Import(ImportPlan),
    /// Print a shell's completion script.
    Completions(clap_complete::Shell),
    /// Print the manual, or write a page per command into a folder.
    Man(Option<PathBuf>),
}

/// What `links` is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinksPlan {
    /// Print JSON.
    pub json: bool,
}

/// What a program knows of the command line.
struct Known {
    /// Its definition.
    definition: fn() -> clap::Command,
    /// What is meant by words that the definition takes.
    plan: fn(&ArgMatches) -> Result<Result<Command, String>, clap::Error>,
}

/// All of it.
const ALL: Known = Known { definition, plan: |matches| Ok(flags::Cli::from_arg_matches(matches)?.command.plan()) };

/// What the program that serves knows of it.
const SERVING: Known = Known {
    definition: serving_definition,
    plan: |matches| Ok(flags::ServingCli::from_arg_matches(matches)?.command.plan()),
};

/// Reads the process's own command line. Where it asks for help, or makes no
/// sense, this says so and ends the process, as is usual.
#[must_use]
pub fn from_env() -> Command {
    parse(std::env::args_os()).unwrap_or_else(|error| error.exit())
}

/// The same in the program that serves, which links no other command.
#[must_use]
pub fn serving_from_env() -> Command {
    parse_with(std::env::args_os(), None, &SERVING).unwrap_or_else(|error| error.exit())
}

/// Whether the process's own command line is one of the program that serves.
#[must_use]
pub fn is_of_serving() -> bool {
    let words = named(std::env::args_os().take(2).collect());
    let word = words.get(1).and_then(|word| word.to_str());
    word.is_some_and(flags::Serving::has_subcommand)
}

/// What the program that serves says of a command line that is not its own, where the
/// second program cannot be had, and why it cannot.
#[must_use]
pub fn without_tools(why: &std::io::Error) -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let asks = |word: &OsString| ["-h", "--help", "help", "-V", "--version"].iter().any(|known| word == known);
    match words.get(1) {
        Some(word) if !asks(word) => {
            eprintln!("nearside: {} is a command of {}: {why}", word.display(), programs::TOOLS);
            ExitCode::FAILURE
        }
        // Help and version of what there is.
        _ => match serving_definition().try_get_matches_from(&words) {
            Err(error) => error.exit(),
            Ok(_) => ExitCode::SUCCESS,
        },
    }
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// With clap's message for the user, which is also how help comes out.
pub fn parse<I, T>(arguments: I) -> Result<Command, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    parse_with(arguments, None, &ALL)
}

/// The same, with the file of settings already open, if it is.
fn parse_with<I, T>(arguments: I, settings: Option<File>, known: &Known) -> Result<Command, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let (arguments, topic) = help::topic(joined(named(arguments.into_iter().map(Into::into).collect())));
    let refusal = |name: &str, why: &str| refusal(known, name, why);
    let merged = settings::merge(arguments, settings).map_err(|why| refusal("serve", &why))?;
    let mut definition = help::shown((known.definition)(), topic);
    let matches = definition.try_get_matches_from_mut(&merged.arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error,
        _ if !merged.has_file() => match habits::answer(&error, &merged.arguments) {
            Some((name, told)) => refusal(name, &told),
            None => error,
        },
        _ => refusal("serve", &merged.place(&settings::sentence(&error))),
    })?;
    if let Some(why) = places::named_twice(&definition, &matches) {
        return Err(refusal(matches.subcommand_name().unwrap_or_default(), &why));
    }
    let mut command = (known.plan)(&matches)?.map_err(|why| {
        let name = matches.subcommand_name().unwrap_or_default();
        refusal(name, &merged.place(&why))
    })?;
    match &mut command {
        Command::Serve(plan) => plan.settings.given = settings::given(&matches),
        Command::Site(_) => settings::beside_site(&matches).map_err(|why| refusal("serve", &why))?,
        _ => {}
    }
    Ok(command)
}

/// What `serve` is asked to do by this process's command line and the file
/// that it names, as that is now, or `settings` in its place.
///
/// # Errors
/// What is wrong with them; a sentence for the user.
pub fn serve_again(settings: Option<File>) -> Result<ServePlan, String> {
    match parse_with(std::env::args_os(), settings, &SERVING) {
        Ok(Command::Serve(plan)) => Ok(*plan),
        Ok(_) => Err("the command line is not that of serve".to_owned()),
        Err(error) => Err(settings::sentence(&error)),
    }
}

/// The same of a command line of nginx's.
///
/// # Errors
/// As [`serve_again`].
pub fn nginx_again(_: Option<File>) -> Result<ServePlan, String> {
    match parse_with(std::env::args_os(), None, &SERVING) {
        Ok(Command::Nginx(plan)) => nginx_command::served(&plan, nginx_again),
        Ok(_) => Err("the command line is not that of nginx".to_owned()),
        Err(error) => Err(settings::sentence(&error)),
    }
}

/// The same of a site in TOML, whose file may be open already.
///
/// # Errors
/// As [`serve_again`].
pub fn site_again(opened: Option<File>) -> Result<ServePlan, String> {
    match parse_with(std::env::args_os(), None, &SERVING) {
        Ok(Command::Site(plan)) => nginx_command::site_served(&plan, opened, site_again),
        Ok(_) => Err("the command line is not that of serve --site".to_owned()),
        Err(error) => Err(settings::sentence(&error)),
    }
}

/// The command line of the program under the name `nginx` is that of this command.
fn named(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().map(std::path::Path::new).and_then(std::path::Path::file_name);
    if name.is_some_and(|name| name == "nginx") {
        arguments.insert(1, "nginx".into());
    }
    arguments
}

/// The message that a command line makes no sense.
fn refusal(known: &Known, name: &str, why: &str) -> clap::Error {
    let mut definition = (known.definition)();
    definition.build();
    match definition.find_subcommand_mut(name) {
        Some(command) => command.error(ErrorKind::ValueValidation, why),
        None => clap::Error::raw(ErrorKind::ValueValidation, why),
    }
}

/// A number below zero after an option is its value, to be refused as such: for
/// clap alone it would be another option. Words behind `--` are another program's.
fn joined(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::with_capacity(arguments.len());
    let mut is_ours = true;
    for argument in arguments {
        let bytes = argument.as_encoded_bytes();
        is_ours &= bytes != b"--";
        let negative = is_ours && matches!(bytes, [b'-', b'0'..=b'9' | b'.', ..]);
        match joined.last_mut().filter(|last| negative && awaits_value(last.as_encoded_bytes())) {
            Some(last) => {
                last.push("=");
                last.push(argument);
            }
            None => joined.push(argument),
        }
    }
    joined
}

/// Whether this is an option without a value in it.
const fn awaits_value(argument: &[u8]) -> bool {
    match argument {
        [b'-', b'-', rest @ ..] => {
            let mut at = 0;
            while at < rest.len() && rest[at] != b'=' {
                at += 1;
            }
            at > 0 && at == rest.len()
        }
        [b'-', letter] => letter.is_ascii_alphabetic(),
        _ => false,
    }
}

/// The whole command line's definition: for completions.
#[must_use]
pub fn definition() -> clap::Command {
    examples::add(definition_alone(), "")
}

/// The same without examples, which a manual page has in a section of its own.
#[must_use]
pub fn definition_alone() -> clap::Command {
    help::grouped(flags::Cli::command())
}

/// What the program that serves knows of it.
fn serving_definition() -> clap::Command {
    examples::add(help::grouped(flags::ServingCli::command()), "")
}

/// Examples of the command with these words, as in `lab run`.
#[must_use]
pub fn examples(words: &str) -> &'static [&'static str] {
    examples::of(words)
}
