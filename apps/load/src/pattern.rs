//! Paths by the hundred: `/f/[000-099].html`.

use crate::plan::REQUESTS_LIMIT;

/// The paths that a pattern stands for: each range of whole numbers in square
/// brackets is counted through, with as many digits as its first number has
/// (as curl expands URLs). Other brackets stand for themselves.
///
/// # Errors
/// If a range counts backwards, or there are more than 65,536 paths.
pub fn expand(pattern: &str) -> Result<Vec<String>, &'static str> {
    let mut paths = vec![String::new()];
    let mut rest = pattern;
    while let Some((before, range, after)) = first_range(rest) {
        let (first, last, width) = range;
        if last < first {
            return Err("a range of paths counts upwards, as in [00-99]");
        }
        let count = usize::try_from(last - first).ok().and_then(|span| span.checked_add(1)).unwrap_or(usize::MAX);
        if count.saturating_mul(paths.len()) > REQUESTS_LIMIT {
            return Err("ranges may stand for 65,536 paths");
        }
        let with = |path: &String| -> Vec<String> {
            (first..=last).map(|number| format!("{path}{before}{number:0width$}")).collect()
        };
        paths = paths.iter().flat_map(with).collect();
        rest = after;
    }
    paths.iter_mut().for_each(|path| path.push_str(rest));
    Ok(paths)
}

type Range = (u64, u64, usize);

/// The first range: what stands before it, its numbers and the digits of the
/// first, and what stands behind it.
fn first_range(text: &str) -> Option<(&str, Range, &str)> {
    let mut from = 0;
    loop {
        let open = from + text.get(from..)?.find('[')?;
        let inside = text.get(open + 1..)?;
        if let Some((range, after)) = inside.split_once(']')
            && let Some(range) = range_of(range)
        {
            return Some((text.get(..open)?, range, after));
        }
        from = open + 1;
    }
}

fn range_of(text: &str) -> Option<Range> {
    let (first, last) = text.split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten()
    };
    Some((number(first)?, number(last)?, first.len()))
}

const _: () = assert!(REQUESTS_LIMIT == 65_536, "the error above says how much it is");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted_through() {
        assert_eq!(expand("/a").unwrap(), ["/a"]);
        assert_eq!(expand("/f/[08-10].html").unwrap(), ["/f/08.html", "/f/09.html", "/f/10.html"]);
        assert_eq!(expand("/[1-2]/[8-10]").unwrap(), ["/1/8", "/1/9", "/1/10", "/2/8", "/2/9", "/2/10"]);
        assert_eq!(expand("/[a]?x[]=[0-1]").unwrap(), ["/[a]?x[]=0", "/[a]?x[]=1"]);
        assert_eq!(expand("/[1-").unwrap(), ["/[1-"]);
        assert_eq!(expand("/[00000-65535]").unwrap().len(), 65_536);
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        assert!(expand("/[9-0]").unwrap_err().contains("upwards"));
        for many in ["/[0-65536]", "/[0-999]/[0-999]", "/[0-18446744073709551615]"] {
            assert!(expand(many).unwrap_err().contains("65,536"), "{many}");
        }
    }
}
