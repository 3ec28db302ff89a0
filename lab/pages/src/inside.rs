//! Results inside their page: a reader takes them out with a click, and a program reads the page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What begins a link to a result that the page has in it.
const LINK: &str = "href=\"data:application/json;base64,";

/// A link that holds a result: nothing of it is markup.
pub(crate) fn link(name: &str, result: &str) -> String {
    let name = crate::escaped(name);
    format!("<a download=\"{name}\" {LINK}{}\">{name}</a>", STANDARD.encode(result))
}

/// The results in a page of ours, in their order; none where it is no page, or has none.
#[must_use]
pub fn results_in(page: &str) -> Vec<String> {
    named_results_in(page).into_iter().map(|(_, result)| result).collect()
}

/// The same with the names of their files, as the page has them.
#[must_use]
pub fn named_results_in(page: &str) -> Vec<(String, String)> {
    let one = |(before, rest): (&str, &str)| {
        let name = before.rsplit("download=\"").next()?.split('"').next()?;
        let result = String::from_utf8(STANDARD.decode(rest.split('"').next()?).ok()?).ok()?;
        Some((name.to_owned(), result))
    };
    let parts: Vec<&str> = page.split(LINK).collect();
    parts.windows(2).filter_map(|two| one((two[0], two[1]))).collect()
}
