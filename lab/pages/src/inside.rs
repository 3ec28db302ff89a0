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
    let links = page.split(LINK).skip(1).filter_map(|rest| rest.split('"').next());
    links.filter_map(|encoded| String::from_utf8(STANDARD.decode(encoded).ok()?).ok()).collect()
}
