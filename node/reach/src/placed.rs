//! In which domain memory of this process lies, by the kernel's own account (numa_maps).

/// The share of the pages of what lies here that is in a domain; `None` where the kernel does not
/// tell, as one without NUMA.
pub fn share(memory: &[u64], domain: u16) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/numa_maps").ok()?;
    share_of(&text, memory.as_ptr() as usize, domain)
}

/// The same of the mapping that has `address`: `7f1200000000 default anon=9 N0=8 N1=1 …`.
fn share_of(text: &str, address: usize, domain: u16) -> Option<f64> {
    let begin = |line: &&str| usize::from_str_radix(line.split(' ').next()?, 16).ok();
    let line =
        text.lines().filter(|line| begin(line).is_some_and(|begin| begin <= address)).max_by_key(|line| begin(line))?;
    let pages = line.split(' ').filter_map(|word| {
        let (number, pages) = word.strip_prefix('N')?.split_once('=')?;
        Some((number.parse::<u16>().ok()?, pages.parse::<f64>().ok()?))
    });
    let (mut here, mut all) = (0.0, 0.0);
    for (number, count) in pages {
        here += if number == domain { count } else { 0.0 };
        all += count;
    }
    (all > 0.0).then(|| here / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_those_of_the_mapping_that_has_the_address() {
        let text =
            "1000 default file=/x N0=7\n2000 default anon=4 dirty=4 N0=1 N1=3 kernelpagesize_kB=4\nx\n9000 default\n";
        assert_eq!(share_of(text, 0x2fff, 1), Some(0.75));
        assert_eq!(share_of(text, 0x1000, 1), Some(0.0));
        assert_eq!(share_of(text, 0x9000, 0), None, "nothing is touched");
        assert_eq!((share_of(text, 0x10, 0), share_of("", 5, 0)), (None, None));
    }
}
