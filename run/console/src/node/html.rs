//! A report of the audit as a page: one file, no script, nothing fetched.

use audit::{Report, Row, Verdict};
use core::fmt::Write as _;

/// Verdicts from the worst on, with the class that colours them.
const VERDICTS: [(Verdict, &str); 12] = [
    (Verdict::Dangerous, "bad"),
    (Verdict::WorseThanDefault, "bad"),
    (Verdict::Conflicts, "bad"),
    (Verdict::Refused, "bad"),
    (Verdict::Removed, "bad"),
    (Verdict::Improvable, "mind"),
    (Verdict::Unreadable, "mind"),
    (Verdict::Unknown, "mind"),
    (Verdict::Unnecessary, "quiet"),
    (Verdict::NoEffect, "quiet"),
    (Verdict::Ok, "good"),
    (Verdict::NotApplicable, "quiet"),
];

/// Light or dark as the reader has it, and narrow enough for a telephone.
const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
details{border-top:1px solid #8884;padding:.4rem 0}summary{cursor:pointer}
code{font-family:ui-monospace,monospace}dl{margin:.4rem 0 .4rem 1rem;display:grid;grid-template-columns:6rem \
1fr;gap:.2rem .8rem}
dt{opacity:.7}dd{margin:0;overflow-wrap:anywhere}
.tag{display:inline-block;min-width:9rem;font-weight:600}
.bad{color:#c62828}.mind{color:#b26a00}.good{color:#2e7d32}.quiet{opacity:.75}
";

/// The page. What a row says is text of files and of a kernel: nothing of it
/// is markup here.
pub fn page(report: &Report, advice: bool) -> String {
    let kernel = report.kernel.as_deref().unwrap_or("of an unknown version");
    let what = if advice { "Settings of files" } else { "Settings in force" };
    let machine = if report.virtual_machine { ", a virtual machine" } else { "" };
    let title = format!("{what}, for the role {}, on Linux {kernel}{machine}", report.role.name());
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{0}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<p>",
        escaped(&title)
    );
    let counts: Vec<String> = VERDICTS
        .iter()
        .filter(|(verdict, _)| report.count(*verdict) > 0)
        .map(|(verdict, class)| {
            format!(
                "<span class=\"{class}\">{} \
            {}</span>",
                report.count(*verdict),
                verdict.name()
            )
        })
        .collect();
    text.push_str(&counts.join(", "));
    text.push_str("</p>\n");
    let mut rows: Vec<&Row> = report.rows.iter().collect();
    if !advice {
        rows.sort_by_key(|row| (row.area, core::cmp::Reverse(row.verdict)));
    }
    let mut area = None;
    for row in rows {
        if !advice && area != Some(row.area) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "<h2>{}</h2>", escaped(row.area.name()));
            area = Some(row.area);
        }
        one(&mut text, row);
    }
    text.push_str("</body>\n</html>\n");
    text
}

fn one(text: &mut String, row: &Row) {
    let class = VERDICTS.iter().find(|(verdict, _)| *verdict == row.verdict).map_or("quiet", |(_, class)| class);
    let subject = if row.subject.is_empty() { String::new() } else { format!(" [{}]", row.subject) };
    let value = if row.value.is_empty() { String::new() } else { format!(" = {}", row.value) };
    // What asks for something is open at first sight.
    let open = if row.verdict >= Verdict::Improvable { " open" } else { "" };
    let _ = writeln!(
        text,
        "<details{open}><summary><span class=\"tag {class}\">{}</span> <code>{}</code></summary>\n<dl>",
        row.verdict.name(),
        escaped(&format!("{}{subject}{value}", row.key))
    );
    let counters: Vec<String> = row.counters.iter().map(|one| format!("{} {}", one.name, one.value)).collect();
    let overruled: Vec<String> = row.overruled.iter().map(|one| format!("{} ({})", one.value, one.place)).collect();
    let facts = [
        ("why", row.why.as_str()),
        ("better", row.want.as_deref().unwrap_or_default()),
        ("set by", &row.set_by),
        ("overruling", &overruled.join(", ")),
        ("see", &counters.join(", ")),
        ("gain", &row.gain),
        ("risk", &row.risk),
        ("undo", &row.undo),
        ("source", &row.source),
    ];
    for (name, fact) in facts.into_iter().filter(|(_, fact)| !fact.is_empty()) {
        let _ = writeln!(text, "<dt>{name}</dt><dd>{}</dd>", escaped(fact));
    }
    text.push_str("</dl></details>\n");
}

/// Text that is no markup, and no control.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            char if char.is_control() => safe.push(' '),
            char => safe.push(char),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use audit::advice::parse;
    use audit::judge;
    use audit::{Evidence, Role};

    #[test]
    fn a_page_has_every_row_and_no_markup_of_others() {
        let settings = parse("sysctl.conf", "net.ipv4.tcp_tw_recycle = <script>\nvm.swappiness = 1\u{7}&\n");
        let report = judge(&Evidence::default(), Role::WebKernel, &settings.expect("settings"));
        let page = page(&report, true);
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script>") && !page.contains('\u{7}'));
        assert_eq!(page.matches("<details").count(), 2);
        assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
        assert!(page.contains("tcp_tw_recycle") && page.ends_with("</html>\n"));
    }
}
