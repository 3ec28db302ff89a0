//! Sets of cores, as kernels and people write them.

use core::fmt::Write as _;

/// Cores as a list with ranges: `0-1,16-17`.
#[must_use]
pub fn list(cores: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = cores;
    while let [first, ..] = rest {
        let length = rest.iter().zip(*first..).take_while(|(core, expected)| **core == *expected).count();
        let last = first + u32::try_from(length).unwrap_or(1) - 1;
        if !text.is_empty() {
            text.push(',');
        }
        // Writing to a string cannot fail.
        let _ = if last > *first { write!(text, "{first}-{last}") } else { write!(text, "{first}") };
        rest = rest.get(length..).unwrap_or_default();
    }
    text
}

/// Cores as a mask of the kernel's: groups of 32 bits, the highest first.
#[must_use]
pub fn mask(cores: &[u32]) -> String {
    let highest = cores.iter().max().copied().unwrap_or(0);
    let mut words = vec![0_u32; (highest / 32 + 1) as usize];
    for core in cores {
        if let Some(word) = words.get_mut((core / 32) as usize) {
            *word |= 1 << (core % 32);
        }
    }
    let words: Vec<String> = words.iter().rev().map(|word| format!("{word:08x}")).collect();
    words.join(",")
}
