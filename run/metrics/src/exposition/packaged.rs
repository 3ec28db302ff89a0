//! What is packaged for those who collect metrics names none that is not told.

use super::Exposition;
use crate::lifecycle::Lifecycle;
use core::time::Duration;
use driver::Role;
use host::drivers::LinkSpec;
use host::figures::{Board, Figures};
use host::{HostPlan, Layout};
use latency::{OTHER, Pace, Recorder, SeriesTable};
use page::Page;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use wire::Time;

/// What stands in `text` of names that begin as ours do.
fn names(text: &str) -> BTreeSet<String> {
    let part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let words =
        text.split(|char| !part(char)).filter(|word| word.starts_with("nearside_") || word.starts_with("process_"));
    words.map(str::to_owned).collect()
}

/// The samples that a page has, and one of each series.
fn samples(page: &mut Page, table: &Arc<SeriesTable>) -> BTreeSet<String> {
    let mut recorder = Recorder::new(table.board(0));
    recorder.on_end(Pace { series: OTHER, status: 200, bytes: 1, began: Time::ZERO }, Time::ZERO);
    recorder.on_turn_over(Time::ZERO);
    page.tell(Duration::ZERO, true, "");
    let exposition = Exposition::new(page.reader().expect("our own"), Arc::new(Lifecycle::default()));
    let text = exposition.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
}

fn packaged(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

#[test]
fn what_is_packaged_names_what_is_told() {
    let folder = std::env::temp_dir().join(format!("nearside-packaged-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut board = Board::new(Some(&folder.join("workers")), "serve", &[None], true).expect("a page");
    let table = board.latencies();
    let mut told = samples(board.page(), &table);
    let link = LinkSpec::parse("memif:/tmp/none.sock", Role::Server).expect("a link");
    let host = HostPlan { status_page: Some(folder.join("silos")), ..HostPlan::new(vec![link]) };
    let layout = Layout::new(&host).expect("one silo");
    let app = server::Counters::default().iter();
    let mut figures = Figures::new(&host, &layout, ("serve", true), app).expect("a page");
    let table = figures.latencies();
    told.extend(samples(figures.page(), &table));
    drop((board, figures));
    let _ = std::fs::remove_dir_all(&folder);
    let told: BTreeSet<String> = told.into_iter().collect();
    for file in ["alerts/nearside.rules.yml", "alerts/nearside.test.yml", "dashboard/nearside.json"] {
        let text = packaged(file);
        let named = names(&text);
        let missing: Vec<&String> = named.difference(&told).collect();
        assert!(missing.is_empty() && named.len() > 5, "{file}: {missing:?} of {named:?}");
    }
    let dashboard: serde_json::Value = serde_json::from_str(&packaged("dashboard/nearside.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let bare = panels.iter().filter(|panel| panel["type"] != "row" && panel["targets"][0]["expr"].as_str().is_none());
    assert_eq!((panels.len() > 20, bare.count()), (true, 0), "each panel asks for something");
}
