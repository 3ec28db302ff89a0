//! What every page promises, looked at without a browser.

use quick_xml::events::Event;

/// A line of text in a drawing: where it is, and how it is set there.
struct Line {
    x: f64,
    y: f64,
    class: String,
    text: String,
}

/// About the width of a character, for the size of 12.
const WIDE: f64 = 6.2;

/// Looks at a page.
///
/// # Panics
/// If something of it is not as promised.
pub fn page(name: &str, text: &str) {
    let without_names = text.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "//", "src=", "url(", "@import", "<script", "<iframe", "onload", "onclick"] {
        let mut inside = without_names.split('<').filter_map(|part| part.split('>').next());
        let found = inside.find(|markup| markup.contains(outside));
        assert!(found.is_none(), "{name}: {outside} in its markup: {found:?}");
    }
    let found = elements(name, text);
    let at = |wanted: &str| found.iter().position(|(element, _)| element == wanted);
    let verdict = at("strong").unwrap_or_else(|| panic!("{name}: no verdict"));
    assert!(at("table").is_none_or(|table| verdict < table) && at("svg").is_none_or(|svg| verdict < svg), "{name}");
    for part in ["<dt>Of</dt>", "<dt>When</dt>", "<dt>Again</dt>", "<dt>Machine</dt>", "<h2>How it was measured</h2>"] {
        assert_eq!(text.matches(part).count(), 1, "{name}: {part}");
    }
    assert_eq!(at("h1"), found.iter().rposition(|(element, _)| element == "h1"), "{name}: one title");
    assert!(!pages::results_in(text).is_empty(), "{name}: its result is in it");
    assert!(!text.contains("NaN") && !text.contains(">inf"), "{name}: no numbers");
    // A table behind each drawing, and a name for who cannot see it.
    let count = |wanted: &str| found.iter().filter(|(element, _)| element == wanted).count();
    assert_eq!(
        (count("svg"), text.matches(" role=\"img\" aria-label=\"").count()),
        (2 * count("figure"), 2 * count("figure"))
    );
    assert!(text.matches("The figures of this chart").count() == count("figure"), "{name}");
    for drawing in text.split("<svg ").skip(1) {
        lines_are_whole(name, drawing.split("</svg>").next().unwrap_or_default());
    }
}

/// The elements, in order: the page is XML, and each attribute quoted.
fn elements(name: &str, text: &str) -> Vec<(String, usize)> {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut found = Vec::new();
    loop {
        match reader.read_event().unwrap_or_else(|why| panic!("{name}: {why}")) {
            Event::Start(element) | Event::Empty(element) => {
                let attributes = element.attributes().map(|one| one.unwrap_or_else(|why| panic!("{name}: {why}")));
                let count = attributes.count();
                found.push((element.name().as_ref().to_owned(), count));
            }
            Event::Eof => return found,
            _ => {}
        }
    }
}

/// Every line of a drawing is within it, and none lies on another.
fn lines_are_whole(name: &str, drawing: &str) {
    let attribute = |markup: &str, key: &str| -> String {
        markup.split(&format!("{key}=\"")).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
    };
    let size: Vec<f64> = attribute(drawing, "viewBox").split(' ').filter_map(|part| part.parse().ok()).collect();
    let lines = drawing.split("<text ").skip(1).map(|markup| Line {
        x: attribute(markup, " x").parse().expect("a place"),
        y: attribute(markup, " y").parse().expect("a place"),
        class: attribute(markup, "class"),
        text: unescaped(markup.split('>').nth(1).and_then(|rest| rest.split('<').next()).unwrap_or_default()),
    });
    let lines: Vec<(f64, f64, f64, String)> = lines
        .map(|line| {
            let wide = WIDE * line.text.chars().count() as f64;
            let left = match line.class.split(' ').next() {
                Some("end") => line.x - wide,
                Some("middle") => line.x - 0.5 * wide,
                _ => line.x,
            };
            (left, left + wide, line.y, line.text)
        })
        .collect();
    for (at, (left, right, y, text)) in lines.iter().enumerate() {
        let within = *left >= -3.0 && *right <= size[2] + 3.0 && *y >= 10.0 && *y <= size[3];
        assert!(within, "{name}: {text:?} is cut: {left:.0} to {right:.0}, {y:.0} of {size:?}");
        for (other_left, other_right, other_y, other) in &lines[..at] {
            let apart = right <= other_left || other_right <= left || (y - other_y).abs() >= 11.0;
            assert!(apart, "{name}: {text:?} lies on {other:?}");
        }
    }
}

/// Text as it is read.
pub fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    text.replace("&amp;", "&")
}
