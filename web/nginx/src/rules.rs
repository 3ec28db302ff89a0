//! The rules of directives: those of features stand in their rooms, the others' in a table
//! of text, which only shrinks.

use features::{Arguments, Context, DirectiveRow, ValueForm};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The table.
const TABLE: &str = include_str!("directives.txt");

/// What a directive takes, and where it may stand.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The directive's name.
    pub name: &'static str,
    /// The module that has it, by nginx's name for it.
    pub module: &'static str,
    /// Where it may stand.
    pub contexts: Context,
    /// How many arguments it takes.
    pub arguments: Arguments,
    /// Whether a block follows.
    pub block: bool,
    /// The form of the value.
    pub form: ValueForm,
    /// Its row, if a feature has it.
    pub row: Option<&'static DirectiveRow>,
}

/// Two are the same if they are of one name and stand in the same places.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.module, self.contexts) == (other.name, other.module, other.contexts)
    }
}

impl Eq for Rule {}

impl Rule {
    /// That of a feature's directive.
    const fn of(row: &'static DirectiveRow) -> Self {
        let DirectiveRow { name, module, contexts, arguments, form, .. } = *row;
        Self { name, module, contexts, arguments, block: false, form, row: Some(row) }
    }
}

/// All rules by name: several where one name has more than one meaning.
pub fn rules() -> &'static HashMap<&'static [u8], Vec<Rule>> {
    static RULES: OnceLock<HashMap<&'static [u8], Vec<Rule>>> = OnceLock::new();
    RULES.get_or_init(|| {
        let mut rules: HashMap<&'static [u8], Vec<Rule>> = HashMap::new();
        let mut module = "";
        for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                Some(name) => module = name,
                // A line that is none is found by a test.
                None => {
                    if let Some(rule) = rule(module, line) {
                        rules.entry(rule.name.as_bytes()).or_default().push(rule);
                    }
                }
            }
        }
        for row in features::directives() {
            rules.entry(row.name.as_bytes()).or_default().push(Rule::of(row));
        }
        rules
    })
}

fn rule(module: &'static str, line: &'static str) -> Option<Rule> {
    let mut words = line.split(' ');
    let (name, letters, arguments, form) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (counts, block) = arguments.strip_suffix('{').map_or((arguments, false), |counts| (counts, true));
    let (contexts, arguments) = (Context::read(letters)?, Arguments::read(counts)?);
    let form = ValueForm::read(form)?;
    words.next().is_none().then_some(Rule { name, module, contexts, arguments, block, form, row: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_rule() {
        let mut module = None;
        let mut count = features::directives().count();
        for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if line.starts_with('[') {
                module = Some(line);
            } else {
                assert!(module.is_some() && rule("m", line).is_some(), "{line}");
                count += 1;
            }
        }
        assert_eq!(rules().values().map(Vec::len).sum::<usize>(), count);
        assert!(count > 600, "{count}");
    }

    #[test]
    fn rules_of_one_name_stand_apart() {
        for (name, rules) in rules() {
            for (at, rule) in rules.iter().enumerate() {
                let has = |rule: &Rule, context| rule.contexts.contains(context);
                let meets =
                    |other: &&Rule| (' '..='~').filter_map(Context::of).any(|at| has(rule, at) && has(other, at));
                let others = rules[at + 1..].iter().filter(meets);
                assert_eq!(others.count(), 0, "{}", String::from_utf8_lossy(name));
            }
        }
    }
}
