//! `cargo xtask docs`: the documents as a site of pages, which `nearside serve` serves.
//!
//! Each document is a page beside which it lies in the repository, README.md the first;
//! files that documents lead to are there as they are. Nothing of a page is loaded from
//! elsewhere.

use crate::markdown::Anchors;
use crate::source::resolve;
use crate::workspace::Workspace;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::ExitCode;

/// Where the site is written.
pub const FOLDER: &str = "out/docs";

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:62rem;padding:1rem;display:grid;\
grid-template-columns:13rem minmax(0,1fr);gap:2rem;color:#222;background:#fff}
nav{font-size:.9rem;border-right:1px solid #ddd}nav a{display:block;padding:.1rem 0}
nav a[aria-current]{font-weight:bold}a{color:#05a}
pre{overflow-x:auto;background:#f4f4f4;padding:.7rem;font-size:.85rem;line-height:1.35}
code{font-family:ui-monospace,monospace}table{border-collapse:collapse;display:block;overflow-x:auto}
td,th{border:1px solid #ddd;padding:.2rem .5rem;text-align:left;vertical-align:top}
@media(max-width:50rem){body{display:block}nav{border:0}}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#262626}a{color:#8bf}\
td,th,nav{border-color:#444}}
";

/// Writes the site and says where it is.
///
/// # Errors
/// If a file cannot be read or written.
pub fn run(workspace: &Workspace) -> Result<ExitCode, String> {
    let site = Site::make(workspace)?;
    let folder = workspace.root.join(FOLDER);
    for (path, content) in &site.files {
        let place = folder.join(path);
        let made = place.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&place, content)).map_err(|why| format!("{}: {why}", place.display()))?;
    }
    println!("{} pages and files in {FOLDER}; to read them: nearside serve {FOLDER} --listen 8080", site.files.len());
    Ok(ExitCode::SUCCESS)
}

/// The pages and files of the site by their paths.
#[derive(Debug)]
struct Site {
    files: BTreeMap<String, Vec<u8>>,
}

/// A document that becomes a page.
#[derive(Debug)]
struct Document {
    /// Its path in the repository.
    path: String,
    title: String,
    text: String,
}

impl Site {
    fn make(workspace: &Workspace) -> Result<Self, String> {
        let documents = documents(workspace);
        let pages: BTreeSet<&str> = documents.iter().map(|document| document.path.as_str()).collect();
        let mut files = BTreeMap::new();
        let mut given = BTreeSet::new();
        for document in &documents {
            let body = body(workspace, document, &pages, &mut given);
            files.insert(page(&document.path), framed(document, &documents, &body).into_bytes());
        }
        for path in given {
            let read = std::fs::read(workspace.root.join(&path)).map_err(|why| format!("{path}: {why}"))?;
            files.insert(path, read);
        }
        Ok(Self { files })
    }
}

/// The documents: those at the root, README.md first, and those in docs/.
fn documents(workspace: &Workspace) -> Vec<Document> {
    let is_one = |path: &str| {
        path.strip_suffix(".md").is_some_and(|name| !name.strip_prefix("docs/").unwrap_or(name).contains('/'))
    };
    let sources = workspace.sources.iter().filter(|source| is_one(&source.path));
    let mut documents: Vec<Document> = sources
        .map(|source| {
            let title = source.lines.first().map(|line| line.trim_start_matches(['#', ' '])).unwrap_or_default();
            Document { path: source.path.clone(), title: title.to_owned(), text: source.lines.join("\n") }
        })
        .collect();
    documents.sort_by_key(|document| {
        (document.path != "README.md", document.path.starts_with("docs/"), document.path.clone())
    });
    documents
}

/// The page of a document.
fn page(path: &str) -> String {
    match path {
        "README.md" => "index.html".to_owned(),
        _ => path.trim_end_matches(".md").to_owned() + ".html",
    }
}

/// A document's content as HTML. Links to other documents lead to their pages; `given`
/// gets other files that it leads to.
fn body(workspace: &Workspace, document: &Document, pages: &BTreeSet<&str>, given: &mut BTreeSet<String>) -> String {
    let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut led = |target: CowStr<'_>| -> Option<String> {
        let (path, anchor) = target.split_once('#').map_or((&*target, None), |(path, anchor)| (path, Some(anchor)));
        if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
            return Some(target.to_string());
        }
        let resolved = resolve(folder, path);
        if pages.contains(resolved.as_str()) {
            let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
            return Some(relative(folder, &page(&resolved)) + &anchor);
        }
        // A folder has no page.
        workspace.files.iter().any(|(file, _)| *file == resolved).then(|| {
            given.insert(resolved.clone());
            relative(folder, &resolved)
        })
    };
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut anchors = Anchors::default();
    let mut heading: Option<(usize, String)> = None;
    let mut dropped = false;
    for event in Parser::new_ext(&document.text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some((events.len(), String::new())),
            Event::Text(ref text) | Event::Code(ref text) => {
                if let Some((_, said)) = &mut heading {
                    said.push_str(text);
                }
            }
            _ => {}
        }
        match event {
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match led(dest_url) {
                Some(place) => {
                    events.push(Event::Start(Tag::Link { link_type, dest_url: place.into(), title, id }));
                }
                None => dropped = true,
            },
            Event::End(TagEnd::Link) if dropped => dropped = false,
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let place = led(dest_url).unwrap_or_default();
                events.push(Event::Start(Tag::Image { link_type, dest_url: place.into(), title, id }));
            }
            Event::End(TagEnd::Heading(_)) => {
                if let Some((at, said)) = heading.take()
                    && let Some(Event::Start(Tag::Heading { id, .. })) = events.get_mut(at)
                {
                    *id = Some(anchors.next(&said).into());
                }
                events.push(event);
            }
            other => events.push(other),
        }
    }
    let mut out = String::new();
    html::push_html(&mut out, events.into_iter());
    out
}

/// `to` as a page in `folder` says it.
fn relative(folder: &str, to: &str) -> String {
    match (folder.is_empty(), to.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'))) {
        (false, Some(rest)) => rest.to_owned(),
        _ => "../".repeat(folder.split('/').filter(|part| !part.is_empty()).count()) + to,
    }
}

/// A whole page: what is in it, with a way to all others.
fn framed(document: &Document, all: &[Document], body: &str) -> String {
    let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut list = String::new();
    for other in all {
        let current = if other.path == document.path { " aria-current=\"page\"" } else { "" };
        let (place, title) = (relative(folder, &page(&other.path)), escaped(&other.title));
        // Writing to a text does not fail.
        let _ = writeln!(list, "<a href=\"{place}\"{current}>{title}</a>");
    }
    let title = escaped(&document.title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\"><style>\n{STYLE}</style></head>\n\
         <body><nav>\n{list}</nav>\n<main>\n{body}</main></body></html>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('`', "").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn site(sources: Vec<Source>) -> Site {
        let root = std::env::temp_dir().join(format!("nearside-docs-{}", std::process::id()));
        let files = sources.iter().map(|source| (source.path.clone(), 1)).collect();
        for source in &sources {
            let place = root.join(&source.path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, source.lines.join("\n")).unwrap();
        }
        let site = Site::make(&Workspace { root: root.clone(), files, sources, members: Vec::new() }).unwrap();
        std::fs::remove_dir_all(root).unwrap();
        site
    }

    #[test]
    fn links_lead_to_pages_and_files_of_the_site() {
        let site = site(vec![
            Source::new(
                "README.md",
                "# Top\n[a](docs/a.md#two-words) [code](lib/x.rs) [folder](lib) [out](https://x/)\n",
            ),
            Source::new("docs/a.md", "# `A` & b\n## Two words\n[top](../README.md) [self](#two-words) [b](b.md)\n"),
            Source::new("docs/b.md", "# B\n| x |\n| --- |\n| 1 |\n"),
            Source::new("lib/x.rs", "fn x() {}"),
            Source::new("lib/deep/c.md", "# No page\n"),
        ]);
        let names: Vec<&str> = site.files.keys().map(String::as_str).collect();
        assert_eq!(names, ["docs/a.html", "docs/b.html", "index.html", "lib/x.rs"]);
        let text = |name: &str| String::from_utf8_lossy(&site.files[name]).into_owned();
        let index = text("index.html");
        for part in ["href=\"docs/a.html#two-words\"", "href=\"lib/x.rs\"", "href=\"https://x/\"", " folder "] {
            assert!(index.contains(part), "{part}: {index}");
        }
        let a = text("docs/a.html");
        for part in [
            "href=\"../index.html\"",
            "href=\"#two-words\"",
            "href=\"b.html\"",
            "id=\"two-words\"",
            "<title>A &amp; b<",
        ] {
            assert!(a.contains(part), "{part}: {a}");
        }
        assert!(text("docs/b.html").contains("<td>1</td>"));
    }
    /// The places that a page leads to.
    fn led(page: &str) -> impl Iterator<Item = &str> {
        page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn our_documents_lead_to_nothing_that_their_site_has_not() {
        let site = Site::make(&Workspace::read().unwrap()).unwrap();
        let mut count = 0;
        for (name, content) in site.files.iter().filter(|(name, _)| name.ends_with(".html")) {
            let page = String::from_utf8_lossy(content);
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            for target in led(&page).filter(|target| !target.contains("://") && !target.starts_with("mailto:")) {
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let path = if path.is_empty() { name.clone() } else { resolve(folder, path) };
                let there = site.files.get(&path).unwrap_or_else(|| panic!("{name}: {target} is not in the site"));
                let id = format!("id=\"{anchor}\"");
                assert!(anchor.is_empty() || String::from_utf8_lossy(there).contains(&id), "{name}: {target}");
                count += 1;
            }
        }
        assert!(count > 300, "{count}");
    }
}
