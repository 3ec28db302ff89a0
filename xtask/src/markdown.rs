//! What can be told of a Markdown document by its lines: its headings, and the names by
//! which links lead to them.

use crate::source::Source;
use std::collections::BTreeMap;

/// Names of headings as GitHub makes them: lower case, without punctuation, a dash for a
/// blank, and a number where a name comes again.
#[derive(Debug, Default)]
pub struct Anchors(BTreeMap<String, usize>);

impl Anchors {
    /// The next heading's name.
    pub fn next(&mut self, heading: &str) -> String {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let slug: String = kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let seen = self.0.entry(slug.clone()).or_default();
        *seen += 1;
        if *seen == 1 { slug } else { format!("{slug}-{}", *seen - 1) }
    }
}

/// The lines of a document that are no code, with their numbers.
pub fn prose(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    source.numbered().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The names of all headings of a document.
#[must_use]
pub fn anchors(source: &Source) -> Vec<String> {
    let mut anchors = Anchors::default();
    let headings = prose(source).filter_map(|(_, line)| {
        let text = line.trim_start_matches('#');
        (1..=6).contains(&(line.len() - text.len())).then_some(text).filter(|text| text.starts_with(' '))
    });
    headings.map(|heading| anchors.next(&shown(heading))).collect()
}

/// A heading as it is read: of a link its text alone.
fn shown(heading: &str) -> String {
    let mut parts = heading.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_names_as_on_github() {
        let source = Source::new(
            "a.md",
            "# `SND.NXT` never moves back\n## Twice\n```\n# no heading\n```\n## Twice\n#hash\n## A [link](x.md), too\n",
        );
        assert_eq!(anchors(&source), ["sndnxt-never-moves-back", "twice", "twice-1", "a-link-too"]);
    }
}
