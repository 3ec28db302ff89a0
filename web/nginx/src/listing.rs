//! The directives as a document: those that are refused with the way out, those without
//! effect with the reason, and those that work by their modules. `docs/nginx-directives.md`
//! is this text, and `nearside nginx --directives` prints it.

use crate::compile::DirectiveClass;
use crate::instead;
use crate::rules::{Rule, rules};
use core::fmt::Write;
use std::collections::{BTreeMap, BTreeSet};

const HEAD: &str = "\
# Directives of an nginx.conf

You have an nginx.conf and want to know what becomes of a directive: look for its name. To see it of
your own file, with file and line, all at once: `nearside nginx -t --explain`. A directive that is refused
stops the start, as an unknown one stops nginx; one without effect is taken, and `--explain` lists it.
Values and options that differ from nginx's stand in [differences.md](differences.md).

This file is made by `nearside nginx --directives`; a test holds it against the program.
";

/// The document, in Markdown: the same text whenever the same program makes it.
#[must_use]
pub fn listing() -> String {
    let listed = Listed::read();
    let mut out = HEAD.to_owned();
    // Writing to a text does not fail.
    let _ = listed.write(&mut out);
    out
}

/// Directives by what becomes of them.
#[derive(Default)]
struct Listed {
    /// By name: the value that is taken for all that, if there is one, and why others are not.
    refused: BTreeMap<&'static str, (Option<&'static str>, &'static str)>,
    /// Names by the reason.
    idle: BTreeMap<&'static str, BTreeSet<&'static str>>,
    /// Names by their modules.
    working: BTreeMap<&'static str, BTreeSet<&'static str>>,
}

impl Listed {
    fn read() -> Self {
        let mut listed = Self::default();
        for rule in rules().values().flatten() {
            listed.add(rule);
        }
        listed
    }

    fn add(&mut self, rule: &Rule) {
        let name = rule.name;
        match DirectiveClass::of(rule) {
            DirectiveClass::Compiled => {
                self.working.entry(rule.module).or_default().insert(name);
            }
            DirectiveClass::Idle(why) | DirectiveClass::Offered(why) => {
                self.idle.entry(why).or_default().insert(name);
            }
            DirectiveClass::Obsolete(instead) => {
                let why = match instead {
                    Some(_) => "it is obsolete: the warning names what stands in its place",
                    None => "it is obsolete, and warned of: nothing is pushed",
                };
                self.idle.entry(why).or_default().insert(name);
            }
            DirectiveClass::Refused(why) => {
                self.refused.insert(name, (None, why));
            }
            DirectiveClass::RefusedUnless(word, why) => {
                self.refused.insert(name, (Some(word), why));
            }
        }
    }

    fn write(&self, out: &mut String) -> core::fmt::Result {
        let count = |table: &BTreeMap<_, BTreeSet<_>>| table.values().map(BTreeSet::len).sum::<usize>();
        let (working, idle, refused) = (count(&self.working), count(&self.idle), self.refused.len());
        writeln!(out, "\n| what becomes of it | directives |\n| --- | --- |")?;
        writeln!(out, "| [works](#works) | {working} |")?;
        writeln!(out, "| [has no effect](#no-effect) | {idle} |")?;
        writeln!(out, "| [is refused](#refused) | {refused} |")?;

        writeln!(out, "\n## Refused\n\n| directive | why | what to write instead |\n| --- | --- | --- |")?;
        for (name, (taken, why)) in &self.refused {
            let taken = taken.map(|word| format!(", but for `{word}`")).unwrap_or_default();
            let instead =
                instead::of_directive(name).unwrap_or("the line goes, or nginx serves that part, behind proxy_pass");
            writeln!(out, "| `{name}`{taken} | {why} | {instead} |")?;
        }

        writeln!(out, "\n## Of modules that do not come with nginx\n")?;
        writeln!(out, "They are refused as unknown. A `*` stands for whatever comes there.\n")?;
        writeln!(out, "| directive | what to write instead |\n| --- | --- |")?;
        let names: BTreeSet<&str> = rules().values().flatten().map(|rule| rule.name).collect();
        let is_ours = |row: &str| names.iter().any(|name| instead::fits(row, name));
        for (row, instead) in instead::rows().filter(|(row, _)| !is_ours(row) && !row.contains(' ')) {
            writeln!(out, "| `{row}` | {instead} |")?;
        }

        writeln!(out, "\n## No effect\n\n| directives | why |\n| --- | --- |")?;
        for (why, names) in &self.idle {
            writeln!(out, "| {} | {why} |", quoted(names))?;
        }

        writeln!(out, "\n## Works\n\n| module | directives |\n| --- | --- |")?;
        for (module, names) in &self.working {
            writeln!(out, "| {module} | {} |", quoted(names))?;
        }
        Ok(())
    }
}

/// Names as code, with commas.
fn quoted(names: &BTreeSet<&'static str>) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_documentation_has_every_directive() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nginx-directives.md");
        let made = listing();
        if std::env::var_os("NEARSIDE_BLESS").is_some() {
            std::fs::write(&path, &made).unwrap();
            return;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            text == made,
            "docs/nginx-directives.md is stale: nearside nginx --directives > docs/nginx-directives.md"
        );
        for name in rules().keys() {
            let name = String::from_utf8_lossy(name);
            assert!(made.contains(&format!("`{name}`")), "{name} is missing");
        }
    }
}
