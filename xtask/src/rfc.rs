//! Which sections of RFCs the code follows, and which of them tests show.

use crate::workspace::Workspace;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// A section: the RFC's number and the section's, empty for the whole.
type Section = (u32, String);

/// How often a section is cited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Citations {
    code: usize,
    tests: usize,
}

/// Prints the list.
#[must_use]
pub fn run(workspace: &Workspace) -> ExitCode {
    let cited = collect(workspace);
    println!("{:<10} {:<12} {:>5} {:>6}", "RFC", "section", "code", "tests");
    for ((rfc, section), count) in &cited {
        let shown = if section.is_empty() { "(whole)" } else { section };
        println!("{rfc:<10} {shown:<12} {:>5} {:>6}", count.code, count.tests);
    }
    let sections = |wanted: fn(&Citations) -> bool| cited.values().filter(|count| wanted(count)).count();
    println!(
        "\n{} sections of {} RFCs cited at code, {} of these at a test as well",
        sections(|count| count.code > 0),
        cited.keys().map(|(rfc, _)| rfc).collect::<std::collections::BTreeSet<_>>().len(),
        sections(|count| count.code > 0 && count.tests > 0),
    );
    ExitCode::SUCCESS
}

fn collect(workspace: &Workspace) -> BTreeMap<Section, Citations> {
    let mut cited: BTreeMap<Section, Citations> = BTreeMap::new();
    for source in workspace.sources.iter().filter(|source| source.is_rust() && !source.path.starts_with("xtask/")) {
        for (number, line) in source.numbered() {
            for section in citations(line) {
                let count = cited.entry(section).or_default();
                if number > source.tests_from { count.tests += 1 } else { count.code += 1 }
            }
        }
    }
    cited
}

/// `RFC 9293 section 3.10.7.4`, `RFC 9293 §3.8.1`, `RFC 9293, section 3.4`.
fn citations(line: &str) -> Vec<Section> {
    let mut found = Vec::new();
    for rest in line.split("RFC ").skip(1) {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Ok(number) = rest[..digits].parse() else { continue };
        let after = rest[digits..].trim_start_matches([',', ' ']);
        let starts = ["sections ", "section ", "Section ", "§ ", "§"];
        let named = starts.iter().find_map(|start| after.strip_prefix(start));
        let section = named.map_or("", |named| {
            let end = named.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(named.len());
            named[..end].trim_end_matches('.')
        });
        found.push((number, section.to_owned()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_found_in_all_their_forms() {
        let line = "// RFC 9293 section 3.10.7.4. and (RFC 7323, section 5.3), RFC 6298 §2.1; RFC 793 alone, RFC x";
        let expected = [(9293, "3.10.7.4"), (7323, "5.3"), (6298, "2.1"), (793, "")];
        assert_eq!(citations(line), expected.map(|(rfc, section)| (rfc, section.to_owned())));
    }
}
