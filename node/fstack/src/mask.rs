//! Sets of cores, both ways: hexadecimal masks and lists.

/// No machine has more cores; DPDK's `RTE_MAX_LCORE` is far below.
const MOST_CORES: usize = 4_096;

/// Cores of a mask, which is hexadecimal whether it begins with `0x` or not:
/// `14` is cores 2 and 4. `None` where it is no mask.
#[must_use]
pub fn cores_of_mask(mask: &str) -> Option<Vec<u16>> {
    let mask = mask.trim();
    let digits = mask.strip_prefix("0x").or_else(|| mask.strip_prefix("0X")).unwrap_or(mask);
    if digits.is_empty() || digits.len() * 4 > MOST_CORES {
        return None;
    }
    let mut cores = Vec::new();
    for (at, char) in digits.chars().rev().enumerate() {
        let bits = char.to_digit(16)?;
        let first = at * 4;
        cores.extend((0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| (first + bit) as u16));
    }
    Some(cores)
}

/// The mask of some cores, without `0x`.
#[must_use]
#[cfg(test)]
pub fn mask_of_cores(cores: &[u16]) -> String {
    let Some(&highest) = cores.iter().max() else { return "0".to_owned() };
    let digit = |at: u16| {
        let bit = |bit: u16| u32::from(cores.contains(&(at * 4 + bit))) << bit;
        char::from_digit((0..4).map(bit).sum(), 16).unwrap_or('0')
    };
    (0..=highest / 4).rev().map(digit).collect()
}

/// `0-3,5` as numbers; `None` where it is no list.
pub(crate) fn list(text: &str) -> Option<Vec<u16>> {
    let mut numbers = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || usize::from(last) >= MOST_CORES {
            return None;
        }
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Some(numbers)
}

/// As our `--silos` takes it: a list with a comma or a dash in it, for a plain
/// number would be how many.
pub(crate) fn text(cores: &[u16]) -> String {
    let mut parts: Vec<(u16, u16)> = Vec::new();
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    match parts.as_slice() {
        [(first, last)] => format!("{first}-{last}"),
        parts => {
            let part =
                |(first, last): &(u16, u16)| if first == last { first.to_string() } else { format!("{first}-{last}") };
            parts.iter().map(part).collect::<Vec<_>>().join(",")
        }
    }
}
