//! The demo from end to end, as short as it can be: whether it works, not
//! what it measures.

use std::path::Path;
use std::process::Command;

#[test]
fn the_demo_measures_everything_it_finds_and_leaves_nothing_behind() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("demo");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_nearside"))
        .args(["demo", "--quick", "--duration", "100ms", "--json", "--out"])
        .arg(&out)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    let id = demo.id();
    let status = demo.wait().expect("it was started here");
    if !status.success() && two_cores().is_none() {
        eprintln!("left out: the demo needs two cores");
        return;
    }
    assert!(status.success(), "{status}");

    let read = |name: &str| std::fs::read_to_string(out.join(name)).expect(name);
    let results: demo::DemoResults = serde_json::from_str(&read("results.json")).expect("its own form");
    // All contenders in all scenarios, or what is missing is named.
    use demo::measure::{Contender, SCENARIOS};
    let nginx = results.nginx.len();
    let measured = |who: &Contender| match who {
        Contender::Nginx | Contender::OtherNginx => who.nginx().is_some_and(|at| at < nginx),
        Contender::Sockets => nginx > 0,
        Contender::AfXdp => nginx > 0 && !left_out(&results, "AF_XDP"),
        Contender::Memif => true,
    };
    let expected = SCENARIOS.iter().map(|s| s.stage.contenders().iter().filter(|who| measured(who)).count());
    assert_eq!(results.seconds, 0.1);
    assert_eq!(results.rows.len(), expected.sum::<usize>(), "{:?}", results.left_out);
    assert!(nginx > 0 || left_out(&results, "nginx"), "{:?}", results.left_out);
    if nginx > 0 {
        assert!(read("nginx.conf").contains("open_file_cache"));
    }
    for row in &results.rows {
        let what = format!("{:?}: {:?}", row.scenario, row.contender);
        assert_eq!(row.rounds.len(), 1, "{what}");
        for round in &row.rounds {
            assert!(round.requests_per_second > 0.0 && round.response_bytes > 13.0, "{what}: {round:?}");
            assert!(round.latency.curve.is_sorted() && round.latency.max > 0.0, "{what}: {round:?}");
            assert_eq!(round.errors, 0, "{what}");
        }
    }
    assert!(read("report.html").contains("</html>"));

    let gone = |path: String| assert!(!Path::new(&path).exists(), "{path} was left behind");
    gone(std::env::temp_dir().join(format!("nearside-demo-{id}")).display().to_string());
    gone(format!("/run/netns/nearside-demo-{id}-server"));
    gone(format!("/run/netns/nearside-demo-{id}-client"));
}

fn left_out(results: &demo::DemoResults, what: &str) -> bool {
    results.left_out.iter().any(|line| line.contains(what))
}

#[test]
fn an_nginx_that_cannot_be_run_is_refused_before_anything_is_measured() {
    if two_cores().is_none() {
        eprintln!("left out: the demo needs two cores");
        return;
    }
    let demo = Command::new(env!("CARGO_BIN_EXE_nearside"))
        .args(["demo", "--quick", "--nginx", "/nonexistent/nginx", "--out"])
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-nginx"))
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&demo.stderr).into_owned();
    assert!(!demo.status.success() && said.contains("/nonexistent/nginx"), "{said}");
    assert!(demo.stdout.is_empty() && said.lines().count() < 4, "{said}");
}

/// As short as it can be: a store of 16 MiB, two streams over shared memory, two seconds.
const FILMS: [&str; 8] = [
    "media.servers=[\"memif\"]",
    "media.transports=[\"plain\"]",
    "media.streams=[2]",
    "media.lead-seconds=2",
    "media.seconds=2",
    "media.memory-mib=8",
    "media.times=2",
    "rounds=1",
];

#[test]
fn films_are_played_and_the_result_has_its_steps_and_their_curve() {
    if two_cores().is_none() {
        eprintln!("left out: films are played on a core beside the server's");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("films");
    let _ = std::fs::remove_dir_all(&folder);
    let mut lab = Command::new(env!("CARGO_BIN_EXE_nearside"));
    lab.args(["lab", "run", "media", "--set", "control=false", "--out"]).arg(folder.join("out"));
    lab.args(FILMS.iter().flat_map(|set| ["--set", set]));
    lab.arg("--set").arg(format!("media.folder={}", folder.join("store").display()));
    let output = lab.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("cannot read films by io_uring") || said.contains("past the page cache") {
        eprintln!("left out: {said}");
        return;
    }
    // A machine that does other things meanwhile may have streams run dry, and no more than that.
    assert!([Some(0), Some(2)].contains(&output.status.code()), "{}: {said}", output.status);
    let text = std::fs::read_to_string(folder.join("out/results.json")).expect("results");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let run = results.pointer("/arms/0/runs/0").unwrap_or_else(|| panic!("{said}\n{text}"));
    assert_eq!(
        (results["arms"][0]["name"].as_str(), run["errors"].as_u64()),
        (Some("Nearside, memif, plain"), Some(0))
    );
    let figure = |name: &str| run["figures"][name].as_f64();
    assert!(figure("disk alone").is_some_and(|rate| rate > 0.0), "{run}");
    assert!(figure("2 streams ran dry").is_some_and(|dry| dry <= 4.0), "{run}");
    assert!(run["details"]["knee"].as_str().is_some_and(|knee| !knee.is_empty()), "{run}");
    if figure("2 streams ran dry") == Some(0.0) && figure("kept").is_some() {
        assert!(figure("kept").is_some_and(|gbit| (0.005..0.02).contains(&gbit)), "{run}");
        assert!(figure("CPU").is_some_and(|cpu| (0.0..=110.0).contains(&cpu)), "{run}");
        assert!(figure("moved, by the model").is_none_or(|moved| (1.0..=4.0).contains(&moved)), "{run}");
    }
    let page = std::fs::read_to_string(folder.join("out/report.html")).expect("a page");
    assert_eq!(figure("2 streams CPU").is_some(), page.contains("Processor time by content sent, in the clear"));
    std::fs::remove_dir_all(&folder).expect("ours");
}

fn two_cores() -> Option<()> {
    std::thread::available_parallelism().ok().filter(|cores| cores.get() >= 2).map(|_| ())
}
