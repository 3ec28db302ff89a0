//! What help shows at first, and what it shows when it is asked for by its topic:
//! `serve --help` has what is common, `serve --help links` the options of links.

use clap::{Arg, ArgAction, Command};
use std::ffi::OsString;

/// Commands whose help has topics.
const COMMANDS: [&str; 3] = ["serve", "nginx", "load"];

/// Options that have a topic and stand in the help without one, too.
const FIRST: [&str; 5] = ["link", "addr", "workers", "cores", "accept"];

/// Options for both data paths, which follow those of links in the definition: a heading
/// holds for all that comes after it.
const OF_BOTH: [&str; 5] = ["idle", "congestion", "max_pacing_rate", "user_timeout", "status_page"];

/// The heading of [`OF_BOTH`].
pub(super) const BOTH: &str = "Kernel sockets and links";

/// What help is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Topic {
    /// Links, their silos and addresses.
    Links,
    /// Sockets of the kernel and their options.
    Sockets,
    /// Harm done to frames on purpose.
    Faults,
    /// All options.
    All,
}

impl Topic {
    const NAMES: [(&str, Self); 4] =
        [("links", Self::Links), ("sockets", Self::Sockets), ("faults", Self::Faults), ("all", Self::All)];

    fn named(word: &OsString) -> Option<Self> {
        Self::NAMES.iter().find(|(name, _)| word == name).map(|(_, topic)| *topic)
    }

    /// What the headings of its options begin with.
    const fn heading(self) -> &'static str {
        match self {
            Self::Links => "Links",
            Self::Sockets => "Kernel sockets (",
            Self::Faults => "Fault injection",
            Self::All => "",
        }
    }
}

/// Takes the topic out of a command line that asks for help: `serve --help links`. What
/// is left asks for help alone.
pub(super) fn topic(mut arguments: Vec<OsString>) -> (Vec<OsString>, Option<Topic>) {
    let has_topics = arguments.get(1).is_some_and(|name| COMMANDS.iter().any(|known| name == known));
    let asked = arguments.windows(2).position(|pair| pair[0] == "--help" && Topic::named(&pair[1]).is_some());
    match asked.filter(|_| has_topics) {
        Some(at) => {
            let topic = Topic::named(&arguments[at + 1]);
            arguments.truncate(2);
            arguments.push("--help".into());
            (arguments, topic)
        }
        None => (arguments, None),
    }
}

/// The definition with headings for what links and kernel sockets have in common.
pub(super) fn grouped(definition: Command) -> Command {
    each(definition, |command| {
        OF_BOTH.into_iter().fold(command, |command, name| command.mut_arg(name, |arg| arg.help_heading(BOTH)))
    })
}

/// The definition whose help leaves out what has a topic, and names the topics; with a
/// topic, whose help has that alone.
pub(super) fn shown(definition: Command, topic: Option<Topic>) -> Command {
    let Some(topic) = topic else { return each(definition, summary) };
    each(definition, |command| {
        let command = command.mut_args(|arg| {
            let hidden = !arg.get_help_heading().unwrap_or_default().starts_with(topic.heading());
            arg.hide(hidden)
        });
        // What is asked of help is no option of links.
        command.disable_help_flag(true).arg(Arg::new("help").long("help").action(ArgAction::HelpLong).hide(true))
    })
}

/// Without what has a topic of its own; the topics are named in its place.
fn summary(command: Command) -> Command {
    const TOPICS: [(Topic, &str, &str); 3] = [
        (Topic::Links, "links", "addresses of links, silos, steering, bonds"),
        (Topic::Sockets, "sockets", "queues, buffers and polling of kernel sockets"),
        (Topic::Faults, "faults", "loss, reordering and delay on purpose"),
    ];
    let is_of = |arg: &Arg, topic: Topic| arg.get_help_heading().unwrap_or_default().starts_with(topic.heading());
    let said = command.get_after_help().map(|said| format!("{said}\n\n")).unwrap_or_default();
    let there = TOPICS.iter().filter(|(topic, ..)| command.get_arguments().any(|arg| is_of(arg, *topic)));
    let name = command.get_name();
    let line = |topic: &str, about: &str| format!("\n  nearside {name} --help {topic:<8} {about}");
    let lines: String = there.map(|(_, topic, about)| line(topic, about)).collect();
    let more = format!("{said}MORE OPTIONS{lines}{}", line("all", "all options"));
    command.after_help(more).mut_args(|arg| {
        let is_first = arg.get_long().is_some_and(|name| FIRST.contains(&name));
        let hidden = !is_first && TOPICS.iter().any(|(topic, ..)| is_of(&arg, *topic));
        arg.hide_short_help(hidden).hide_long_help(hidden)
    })
}

fn each(definition: Command, change: impl Fn(Command) -> Command) -> Command {
    // One of the two programs has them all.
    let there: Vec<&str> = COMMANDS.into_iter().filter(|name| definition.find_subcommand(name).is_some()).collect();
    there.into_iter().fold(definition, |definition, name| definition.mut_subcommand(name, &change))
}

#[cfg(test)]
mod tests {
    use crate::args::parse;

    /// What the program prints for these words.
    fn help(line: &str) -> String {
        let error = parse(line.split(' ')).expect_err("help is no command");
        assert_eq!(error.exit_code(), 0, "{line}");
        error.to_string()
    }

    #[test]
    fn help_begins_with_what_is_common() {
        for (command, most) in [("serve", 250), ("nginx", 135)] {
            let text = help(&format!("nearside {command} --help"));
            assert!(text.lines().count() <= most, "{command}: {} lines", text.lines().count());
            assert!(text.contains("--link <LINK>") && text.contains("--help links"), "{text}");
            assert!(!text.contains("--steer") && !text.contains("--reorder"), "{text}");
        }
        let text = help("nearside serve --help");
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(place("--listen") < place("Limits and times:"));
        assert!(place("--metrics") < place("Limits and times:"));
        assert!(place("Limits and times:") < place("Experiments:"));
    }

    #[test]
    fn a_topic_has_its_options_alone() {
        for command in ["serve", "nginx", "load"] {
            let links = help(&format!("nearside {command} --help links"));
            assert!(links.contains("--steer") && links.contains("--addr"), "{links}");
            assert!(!links.contains("--reorder") && !links.contains("--idle <") && !links.contains("\n  -"), "{links}");
            let sockets = help(&format!("nearside {command} --help sockets"));
            assert_eq!(sockets.contains("--busy-poll"), command == "serve", "{sockets}");
            assert!(!sockets.contains("--idle <"), "{sockets}");
            let faults = help(&format!("nearside {command} --help faults"));
            assert!(faults.contains("--reorder") && !faults.contains("--steer"), "{faults}");
            let all = help(&format!("nearside {command} --help all"));
            assert!(all.contains("--reorder") && all.contains("--steer") && all.contains("--idle <"), "{all}");
        }
    }
}
