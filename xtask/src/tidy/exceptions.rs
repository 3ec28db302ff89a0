//! What does not keep a rule yet: lists that may only shrink.
//!
//! A list is a text of lines, each of words; `#` begins a comment. Whoever
//! applies a rule takes the lines that it needs. A line that nobody took is
//! complained of, so that a list never allows more than there is.

use super::Complaint;
use crate::workspace::Workspace;

/// The lines of a list that were not taken yet.
#[derive(Debug)]
pub(super) struct Exceptions {
    file: &'static str,
    left: Vec<(usize, Vec<String>)>,
}

impl Exceptions {
    /// A list; one that is not there is empty.
    pub(super) fn read(workspace: &Workspace, file: &'static str) -> Self {
        let lines = workspace.source(file).into_iter().flat_map(|source| source.numbered());
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let left = lines.map(|(number, line)| (number, line.split_whitespace().map(str::to_owned).collect())).collect();
        Self { file, left }
    }

    /// The words of the first line that is meant, if there is one; it is not
    /// given again.
    pub(super) fn take(&mut self, is_meant: impl Fn(&[String]) -> bool) -> Option<Vec<String>> {
        let index = self.left.iter().position(|(_, words)| is_meant(words))?;
        Some(self.left.remove(index).1)
    }

    /// What nobody took.
    pub(super) fn stale(self) -> impl Iterator<Item = Complaint> {
        let file = self.file;
        self.left.into_iter().map(move |(line, words)| {
            Complaint::at(file, line, format!("{} needs no exception any more: remove the line", words.join(" ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    #[test]
    fn what_nobody_took_is_complained_of() {
        let sources = vec![Source::new("list.txt", "# why\n\na 1\nb 2\n")];
        let workspace = Workspace { root: "nowhere".into(), files: Vec::new(), sources, members: Vec::new() };
        let mut exceptions = Exceptions::read(&workspace, "list.txt");
        assert_eq!(exceptions.take(|words| words[0] == "b"), Some(vec!["b".to_owned(), "2".to_owned()]));
        assert_eq!(exceptions.take(|words| words[0] == "b"), None);
        assert_eq!(exceptions.stale().map(|complaint| complaint.line).collect::<Vec<_>>(), [3]);
    }
}
