//! `nearside man`: the manual, a page for each command, from the definition of
//! the command line.

use crate::args;
use clap::Command;
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
        assert!(pages.len() > 20 && !pages.iter().any(|(name, _)| name.contains("guard")));
    }
}
