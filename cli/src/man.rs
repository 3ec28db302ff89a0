//! `nearside man`: the manual, a page for each command, from the definition of
//! the command line.

use crate::args;
use clap::{Arg, Command};
use clap_mangen::Man;
use say::Failure;
use std::io::Write;
use std::path::Path;

/// Prints the program's page, or writes one for each command into a folder.
///
/// # Errors
/// If it cannot be written.
pub fn man(folder: Option<&Path>) -> Result<(), Failure> {
    let definition = args::definition_alone().disable_help_subcommand(true);
    let Some(folder) = folder else {
        std::io::stdout().write_all(&page(&definition, "")?)?;
        return Ok(());
    };
    let told = |why: std::io::Error| format!("cannot write the manual into {}: {why}", folder.display());
    std::fs::create_dir_all(folder).map_err(told)?;
    for (name, page) in pages(definition)? {
        std::fs::write(folder.join(name), page).map_err(told)?;
    }
    Ok(())
}

/// Every command's page, with its file's name.
fn pages(mut definition: Command) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    definition.build();
    let mut pages = Vec::new();
    let mut open = vec![(definition, String::new())];
    while let Some((command, words)) = open.pop() {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let name = below.get_name();
            let words = if words.is_empty() { name.to_owned() } else { format!("{words} {name}") };
            open.push((below.clone(), words));
        }
        pages.push((Man::new(command.clone()).get_filename(), page(&command, &words)?));
    }
    Ok(pages)
}

/// The page of the command with these words.
fn page(command: &Command, words: &str) -> Result<Vec<u8>, Failure> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    page = with_synopsis(page, &synopsis(command, words));
    let examples = args::examples(words);
    if !examples.is_empty() {
        writeln!(page, ".SH EXAMPLES\n.nf")?;
        for example in examples {
            // A backslash, a dash that is typed, and what would be a request:
            // groff(7).
            let example = example.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
            writeln!(page, "{example}")?;
        }
        writeln!(page, ".fi")?;
    }
    Ok(page)
}

/// A page with this text under SYNOPSIS, in the place of what stands there.
fn with_synopsis(page: Vec<u8>, synopsis: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(&page);
    let parts = text.split_once(".SH SYNOPSIS\n").and_then(|(before, rest)| {
        let (_, after) = rest.split_once("\n.SH ")?;
        Some(format!("{before}.SH SYNOPSIS\n{synopsis}\n.SH {after}"))
    });
    parts.map_or(page.clone(), String::into_bytes)
}

/// The command's words, and its options with the names of their values (man(7)).
fn synopsis(command: &Command, words: &str) -> String {
    let name = if words.is_empty() { "nearside".to_owned() } else { format!("nearside {words}") };
    let mut parts = vec![format!("\\fB{}\\fR", typed(&name))];
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional()) {
        let option = match (arg.get_short(), arg.get_long()) {
            (_, Some(long)) => format!("--{long}"),
            (short, None) => short.map(|short| format!("-{short}")).unwrap_or_default(),
        };
        parts.push(match values(arg) {
            Some(values) => format!("[\\fB{}\\fR {values}]", typed(&option)),
            None => format!("[\\fB{}\\fR]", typed(&option)),
        });
    }
    for arg in command.get_positionals().filter(|arg| !arg.is_hide_set()) {
        let value = values(arg).unwrap_or_default();
        parts.push(if arg.is_required_set() { value } else { format!("[{value}]") });
    }
    if command.has_subcommands() {
        parts.push("\\fICOMMAND\\fR".to_owned());
    }
    parts.join(" ")
}

/// The names of what an option or argument takes, if it takes something.
fn values(arg: &Arg) -> Option<String> {
    let range = arg.get_num_args()?;
    let names = arg.get_value_names().filter(|_| range.takes_values())?;
    let names = names.iter().map(|name| typed(name)).collect::<Vec<_>>().join(" ");
    let more = if range.max_values() > 1 { "..." } else { "" };
    let names = format!("\\fI{names}\\fR{more}");
    Some(if range.min_values() == 0 && !arg.is_positional() { format!("[{names}]") } else { names })
}

/// A dash that is typed, groff(7).
fn typed(text: &str) -> String {
    text.replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_examples() {
        let pages = pages(args::definition_alone().disable_help_subcommand(true)).unwrap();
        let find = |name: &str| {
            let page = pages.iter().find(|(file, _)| file == name).unwrap_or_else(|| panic!("{name} is missing"));
            String::from_utf8(page.1.clone()).unwrap()
        };
        assert!(find("nearside-node-apply.1").contains("nearside node apply 3f2a90c51be7d604 \\-\\-persist systemd"));
        assert!(find("nearside-load.1").contains("\\-\\-find\\-max \\(aqp99<1ms\\(aq"));
        for (name, page) in &pages {
            let page = String::from_utf8_lossy(page);
            assert_eq!(page.matches(".SH EXAMPLES").count(), 1, "{name}");
            assert!(!page.contains("EXAMPLES\n  nearside"), "{name}: those of the help");
        }
        let serve = find("nearside-serve.1");
        assert!(serve.contains("[\\fB\\-\\-listen\\fR \\fIENDPOINT\\fR]"), "{serve}");
        assert!(serve.contains("[\\fB\\-\\-take\\-over\\fR [\\fISOCKET\\fR]]"), "{serve}");
        assert!(find("nearside-nginx.1").contains("[\\fB\\-c\\fR \\fIFILE\\fR]"));
        assert!(pages.len() > 20 && !pages.iter().any(|(name, _)| name.contains("guard")));
    }
}
