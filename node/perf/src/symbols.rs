//! Names of the kernel's functions.

use std::fs;

/// The kernel's functions by address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Symbols(Vec<(u64, Box<str>)>);

impl Symbols {
    /// This kernel's; none where addresses are hidden (kernel.kptr_restrict).
    #[must_use]
    pub fn kernel() -> Self {
        Self::parse(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    /// `ffffffff81000000 T _text`, a line each.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok().filter(|at| *at != 0)?;
            let kind = words.next()?;
            matches!(kind, "t" | "T" | "w" | "W").then_some(())?;
            Some((address, words.next()?.into()))
        };
        let mut all: Vec<(u64, Box<str>)> = text.lines().filter_map(line).collect();
        // The first name of an address stays.
        all.sort_by_key(|(address, _)| *address);
        all.dedup_by_key(|(address, _)| *address);
        Self(all)
    }

    /// Whether names are known at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The function that an address is in.
    #[must_use]
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        let (_, name) = self.0.get(after.checked_sub(1)?)?;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_before_it() {
        let text = "ffffffff81000100 t two\nffffffff81000000 T one\n0000000000000000 T hidden\nx y z\n\
                    ffffffff81000100 W also_two\nffffffff81000080 D data\n";
        let symbols = Symbols::parse(text);
        assert_eq!(symbols.name(0xffff_ffff_8100_00ff), Some("one"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0100), Some("two"));
        assert_eq!(symbols.name(5), None);
        assert!(Symbols::parse("0000000000000000 T hidden\n").is_empty());
    }
}
