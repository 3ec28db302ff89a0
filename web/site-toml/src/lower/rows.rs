//! The keys of features, as their rows have them written.

use super::rules::Rules;
use super::{get, tables, text, texts};
use crate::Wrong;
use features::key::{KeyWritten, SiteTable, SiteWriter};
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

/// A table of the file.
struct Table<'t>(&'t DeTable<'t>);

impl SiteTable for Table<'_> {
    fn place(&self, key: &str) -> Option<usize> {
        get(self.0, key).map(|(at, _)| at)
    }

    fn text(&self, key: &str) -> Option<(usize, String)> {
        get(self.0, key).map(|(at, value)| (at, text(value)))
    }

    fn texts(&self, key: &str) -> Vec<(usize, String)> {
        texts(self.0, key)
    }

    fn switch(&self, key: &str) -> Option<(usize, bool)> {
        match get(self.0, key)? {
            (at, DeValue::Boolean(on)) => Some((at, *on)),
            _ => None,
        }
    }

    fn table(&self, key: &str) -> Option<(usize, Box<dyn SiteTable + '_>)> {
        match get(self.0, key)? {
            (at, DeValue::Table(table)) => Some((at, Box::new(Table(table)))),
            _ => None,
        }
    }

    fn named(&self, key: &str) -> Vec<(usize, String, Box<dyn SiteTable + '_>)> {
        let Some((_, DeValue::Table(named))) = get(self.0, key) else { return Vec::new() };
        let mut found: Vec<(usize, String, Box<dyn SiteTable + '_>)> = Vec::new();
        for (name, value) in named {
            if let DeValue::Table(table) = value.get_ref() {
                found.push((name.span().start, name.get_ref().to_string(), Box::new(Table(table))));
            }
        }
        found
    }

    fn tables(&self, key: &str) -> Vec<(usize, Box<dyn SiteTable + '_>)> {
        let boxed = |(at, table)| (at, Box::new(Table(table)) as Box<dyn SiteTable>);
        tables(self.0, key).into_iter().map(boxed).collect()
    }
}

impl SiteWriter for Rules<'_, '_> {
    fn put(&mut self, at: (usize, &str), name: &str, words: &[&str]) {
        Rules::put(self, at, name, words);
    }

    fn limits(&mut self) -> &mut BTreeMap<String, bool> {
        &mut self.out.limits
    }
}

impl Rules<'_, '_> {
    /// What features make of the table.
    pub fn features(&mut self) -> Result<(), Wrong> {
        let table = Table(self.table);
        for key in features::keys() {
            match key.written {
                KeyWritten::As(directive) => self.same(key.name, directive),
                KeyWritten::By(write) if table.place(key.name).is_some() => write(&table, self)?,
                KeyWritten::By(_) | KeyWritten::Elsewhere => {}
            }
        }
        Ok(())
    }
}
