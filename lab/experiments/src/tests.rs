//! The parts together: files, rounds, results, comparisons, reports.

use crate::compare;
use crate::experiment::{Experiment, Set};
use crate::latencies::Latencies;
use crate::number::number;
use crate::procedure::{Arm, Procedure, Setting};
use crate::results::Results;
use crate::runner::{Outcome, run_procedure};
use crate::runs::{ArmResults, Check, Figure, Run};
use crate::{Failure, builtin, report, table};
use demo::child::Interrupt;
use stats::{Random, Verdict};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of the test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("nearside-lab-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const TEXT: &str = "schema = 1\nname = \"fake\"\ntitle = \"A & B <beside> each other\"\nrounds = 8\n\
                    [command]\nfigures = [{ name = \"rate\", pointer = \"/rate\" }]\n\
                    arms = [{ name = \"a\", command = [\"true\"] }]\n";

fn experiment() -> Experiment {
    Experiment::parse("fake.toml", TEXT, &[]).expect("the text is good")
}

/// Arms with figures that are known: b's rate is 20 % higher, c is as a, d
/// was asked for something else.
struct Fake {
    order: Vec<usize>,
    fail_at: Option<usize>,
}

impl Procedure for Fake {
    fn arms(&self) -> Vec<Arm> {
        let arm = |name: &str, connections: &str, left_out: Option<&str>| Arm {
            name: name.to_owned(),
            conditions: BTreeMap::from([("connections".to_owned(), connections.to_owned())]),
            left_out: left_out.map(str::to_owned),
        };
        vec![
            arm("a", "64", None),
            arm("b", "64", None),
            arm("c", "64", None),
            arm("d", "100", None),
            arm("e", "64", Some("not on this machine")),
        ]
    }

    fn figures(&self) -> Vec<Figure> {
        vec![Figure::higher("rate", "requests/s"), Figure::lower("p99", "µs"), Figure::plain("median", "ms")]
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        if self.fail_at == Some(self.order.len()) {
            return Err("the arm broke".into());
        }
        self.order.push(arm);
        let mut random = Random::new(setting.seed);
        let scale = if arm == 1 { 1.2 } else { 1.0 };
        let noise = 1.0 + 0.002 * (random.unit() - 0.5);
        let mut latencies = Latencies::default();
        for _ in 0..2_000 {
            latencies.add((1e6 * (1.0 + random.exponential())) as u64);
        }
        let figures = [("rate", 1_000.0 * scale * noise), ("p99", 50.0 / scale * noise), ("median", 1.5)];
        Ok(Run {
            figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
            latency: Some(latencies.distribution()),
            ..Run::default()
        })
    }

    fn checks(&self, arms: &[ArmResults]) -> Vec<Check> {
        let kept =
            arms.iter().find(|arm| arm.name == "b").and_then(|arm| arm.median("rate")).map(|rate| rate > 1_100.0);
        vec![Check { what: "b is faster than 1,100".to_owned(), found: "it is".to_owned(), kept }]
    }
}

fn run(fail_at: Option<usize>) -> (Results, Outcome, Vec<usize>, Folder) {
    let folder = Folder::new();
    let mut fake = Fake { order: Vec::new(), fail_at };
    let interrupt = Interrupt::watch().expect("signals");
    let (results, outcome) = run_procedure(&experiment(), &mut fake, &folder.0, &interrupt).expect("it runs");
    (results, outcome, fake.order, folder)
}

#[test]
fn every_builtin_experiment_can_be_read() {
    let all = builtin::all().expect("all are good");
    assert!(!all.is_empty());
    for experiment in all {
        assert_eq!(builtin::find(&experiment.name, &[]).expect("it is known"), experiment);
        assert_eq!(
            Experiment::parse("again", &experiment.to_toml(), &[]).expect("what is written is read"),
            experiment
        );
    }
}

#[test]
fn a_file_that_is_wrong_is_told_where_and_what_is_allowed() {
    let wrong = |text: &str, sets: &[&str]| {
        let sets: Vec<Set> = sets.iter().map(|set| set.parse().expect("a set")).collect();
        Experiment::parse("x.toml", text, &sets).expect_err("it is wrong").to_string()
    };
    let why = wrong(&TEXT.replace("rounds = 8", "round = 8"), &[]);
    assert!(why.contains("line 4") && why.contains("unknown field `round`") && why.contains("`rounds`"), "{why}");
    let why = wrong(&TEXT.replace("rounds = 8", "rounds = \"many\""), &[]);
    assert!(why.contains("line 4") && why.contains("expected u32"), "{why}");
    assert!(wrong(&TEXT.replace("schema = 1", "schema = 9"), &[]).contains("this program reads 1"));
    assert!(wrong(TEXT, &["rounds=0"]).contains("rounds: write 1 to 1000"));
    assert!(wrong(TEXT, &["roundz=1"]).contains("unknown field `roundz`"));
    assert!(wrong(TEXT, &["rounds.more=1"]).contains("rounds is no table"));
    assert!(wrong(&TEXT[..TEXT.find("[command]").expect("a table")], &[]).contains("exactly one of the tables"));
    assert!(wrong(&TEXT.replace("\"fake\"", "\"../etc\""), &[]).contains("name: write"));
    assert!("no equals sign".parse::<Set>().is_err() && "=1".parse::<Set>().is_err());
}

#[test]
fn settings_are_changed_by_path() {
    let sets = ["rounds=3", "baseline=b", "command.timeout-seconds = 7"].map(|set| set.parse().expect("a set"));
    let experiment = Experiment::parse("x", TEXT, &sets).expect("good");
    assert_eq!((experiment.rounds, experiment.baseline.as_deref()), (3, Some("b")));
    assert_eq!(experiment.command.expect("a command").timeout_seconds, 7);
}

#[test]
fn the_schema_names_what_a_file_may_say() {
    let schema: serde_json::Value = serde_json::from_str(&Experiment::schema()).expect("JSON");
    for key in ["rounds", "margin-percent", "command", "allocator"] {
        assert!(schema.pointer(&format!("/properties/{key}")).is_some(), "{key}");
    }
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn rounds_hold_every_arm_once_in_an_order_from_the_seed() {
    let (results, outcome, order, _folder) = run(None);
    assert!(matches!(outcome, Outcome::Complete) && results.complete);
    // Four arms that run, the baseline again; a round of warm-up and eight.
    assert_eq!(order.len(), 5 * 9);
    for round in order.chunks(5) {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 0, 1, 2, 3]);
    }
    assert!(order.chunks(5).any(|round| round != &order[..5]), "the order varies");
    assert_eq!(run(None).2, order, "the seed decides");
    let runs: Vec<(&str, usize)> = results.arms.iter().map(|arm| (arm.name.as_str(), arm.runs.len())).collect();
    assert_eq!(runs, [("a", 8), ("b", 8), ("c", 8), ("d", 8), ("e", 0), ("a again", 8)]);
}

#[test]
fn what_was_kept_is_read_back() {
    let (results, _, _, folder) = run(None);
    assert!(Results::read(&folder.0).expect("results") == results);
    let as_run = std::fs::read_to_string(folder.0.join("experiment.toml")).expect("the file");
    assert_eq!(Experiment::parse("as run", &as_run, &[]).expect("good"), results.experiment);
    let newer = results.to_json().replacen("\"schema\": 1", "\"schema\": 2", 1);
    std::fs::write(folder.0.join("results.json"), newer).expect("written");
    assert!(Results::read(&folder.0).expect_err("another version").to_string().contains("schema 2"));
}

#[test]
fn results_are_not_written_over() {
    let (_, _, _, folder) = run(None);
    let interrupt = Interrupt::watch().expect("signals");
    let mut fake = Fake { order: Vec::new(), fail_at: None };
    let why = run_procedure(&experiment(), &mut fake, &folder.0, &interrupt).expect_err("it is there");
    assert!(why.to_string().contains("holds results already"));
    assert!(fake.order.is_empty());
}

#[test]
fn what_was_measured_before_a_failure_is_kept() {
    let (results, outcome, _, folder) = run(Some(13));
    assert!(matches!(outcome, Outcome::Failed(why) if why.to_string() == "the arm broke"));
    let kept = Results::read(&folder.0).expect("results");
    assert!(kept == results && !kept.complete);
    assert_eq!(kept.arms.iter().map(|arm| arm.runs.len()).sum::<usize>(), 13 - 5);
    assert!(kept.checks.is_empty(), "nothing is said of a part");
    assert!(table::render(&kept).contains("Ended early"));
    assert!(report::page(&kept).render().contains("Ended early"));
}

#[test]
fn arms_are_judged_beside_the_baseline() {
    let (results, _, _, _folder) = run(None);
    let found = compare::within(&results);
    let verdict = |arm: &str, figure: &str| {
        found.iter().find(|c| c.arm == arm && c.figure.name == figure).expect("a comparison").verdict
    };
    assert_eq!(verdict("b", "rate"), Some(Verdict::Faster));
    assert_eq!(verdict("b", "p99"), Some(Verdict::Faster));
    assert_eq!(verdict("c", "rate"), Some(Verdict::Equivalent));
    assert_eq!(verdict("b", "median"), None, "it only describes");
    assert_eq!(verdict("a again", "rate"), None, "the control shows the noise");
    assert!(found.iter().all(|c| c.arm != "d"), "d was asked for something else");
    assert_eq!(compare::unlike_arms(&results), ["connections: 64 (a) and 100 (d)"]);
}

#[test]
fn results_of_different_things_are_told_apart() {
    let (before, _, _, _folder) = run(None);
    let mut after = before.clone();
    let of = |after: &Results| {
        let pairs = compare::pairs((after, None), (&before, None)).expect("pairs");
        (compare::unlike(after, &before, &pairs), compare::differences(after, &before))
    };
    assert_eq!(of(&after), (Vec::new(), Vec::new()));
    after.machine.host.processor = "Another".to_owned();
    after.machine.host.kernel = "9.9".to_owned();
    after.arms[1].conditions.insert("connections".to_owned(), "128".to_owned());
    after.arms[1].conditions.insert("link".to_owned(), "veth".to_owned());
    let (unlike, differences) = of(&after);
    assert_eq!(unlike.len(), 3, "{unlike:?}");
    assert!(unlike[0].starts_with("processor: ") && unlike[0].contains(" and Another ("));
    assert_eq!(unlike[1..], ["connections: 64 (b) and 128 (b)", "link: not said (b) and veth (b)"]);
    assert_eq!(differences, [format!("kernel: {} and 9.9", before.machine.host.kernel)], "may be what is compared");
    let mut after = before.clone();
    let environment = &mut after.machine.host.environment;
    environment.insert("microcode".to_owned(), "0xother".to_owned());
    environment.insert("turbo off".to_owned(), "other".to_owned());
    let (unlike, differences) = of(&after);
    assert!(unlike.len() == 1 && unlike[0].starts_with("microcode: "), "{unlike:?}");
    assert!(differences.len() == 1 && differences[0].starts_with("turbo off: "), "{differences:?}");
    // Memory that a hypervisor plugged in between is no other machine; and it is told.
    let (mut small, mut large) = (before.clone(), before.clone());
    for (results, memory) in [(&mut small, 8_000), (&mut large, 8_128)] {
        results.machine.host.virtual_machine = true;
        results.machine.host.memory_mib = memory;
    }
    assert_eq!(compare::unlike(&large, &small, &[]), Vec::<String>::new());
    assert_eq!(compare::differences(&large, &small), ["memory, MiB: 8000 and 8128"]);
    // Results of versions that had none are compared as they were.
    after.machine.host.environment.clear();
    assert_eq!(of(&after).0, Vec::<String>::new());
}

#[test]
fn results_are_compared_arm_by_arm() {
    let (before, _, _, _folder) = run(None);
    let mut after = before.clone();
    for run in &mut after.arms[0].runs {
        run.figures.entry("rate".to_owned()).and_modify(|rate| *rate *= 0.8);
    }
    let pairs = compare::pairs((&after, None), (&before, None)).expect("pairs");
    assert_eq!(pairs.len(), 4, "those that were measured, without the control");
    let found = compare::between(&after, &before, &pairs);
    let rate = found.iter().find(|c| c.arm == "a" && c.figure.name == "rate").expect("a rate");
    assert_eq!(rate.verdict, Some(Verdict::Slower));
    let (arm, name) = (Some("b"), Some("nobody"));
    assert_eq!(compare::pairs((&after, arm), (&before, Some("a"))).expect("named")[0].1.name, "a");
    assert!(compare::pairs((&after, name), (&before, None)).expect_err("none").contains("those of a, b, c, d"));
    let json: serde_json::Value = serde_json::from_str(&compare::to_json(&found)).expect("JSON");
    assert_eq!(json[0]["verdict"], "slower");
}

#[test]
fn the_table_shows_the_shape_and_the_verdict() {
    let (results, _, _, _folder) = run(None);
    let text = table::render(&results);
    assert!(text.contains("b ÷ a") && text.contains("faster") && text.contains("equivalent"), "{text}");
    assert!(text.contains("a med 1.50 ms count 16000"), "{text}");
    assert!(text.contains("b is faster than 1,100: it is: as expected"));
    assert!(text.contains("left out: e: not on this machine"));
    assert!(text.contains("not compared: connections: 64 (a) and 100 (d)"));
}

/// All elements closed in order, every attribute quoted, every reference
/// known: the page is XML.
fn well_formed(page: &str) -> Vec<String> {
    use quick_xml::events::Event;
    let mut reader = quick_xml::Reader::from_str(page);
    let mut names = Vec::new();
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Start(element) | Event::Empty(element) => {
                names.push(element.name().as_ref().to_owned());
                for attribute in element.attributes() {
                    attribute.expect("a quoted attribute");
                }
            }
            Event::Eof => return names,
            _ => {}
        }
    }
}

#[test]
fn the_report_is_one_page_that_needs_nothing_else() {
    let (results, _, _, _folder) = run(None);
    let page = report::page(&results).render();
    let names = well_formed(&page);
    let drawings = names.iter().filter(|name| *name == "svg").count();
    assert_eq!(drawings, 2, "all arms are on one plot, for a narrow and a wide place");
    assert_eq!(names.iter().filter(|name| *name == "polyline").count(), 8);
    for snippet in [
        "<h1 dir=\"auto\">A &amp; B &lt;beside&gt; each other</h1>",
        "<td role=\"cell\" class=\"text good\" data-head=\"verdict\" dir=\"auto\">as expected</td>",
        "<td role=\"cell\" class=\"text good\" data-head=\"verdict\" dir=\"auto\">faster</td>",
        "<td role=\"cell\" class=\"text\" data-head=\"verdict\" dir=\"auto\">equivalent</td>",
        "Not compared: connections: 64 (a) and 100 (d)",
        "Left out: e: not on this machine",
    ] {
        assert!(page.contains(snippet), "{snippet}\n{page}");
    }
}

#[test]
fn each_pass_has_a_chart_that_says_which_it_is() {
    let (mut results, _, _, _folder) = run(None);
    for run in results.arms.iter_mut().flat_map(|arm| &mut arm.runs) {
        let Some(latency) = run.latency.take() else { continue };
        run.passes = ["one connection", "many <connections>"].map(|pass| (pass.to_owned(), latency.clone())).into();
    }
    let page = report::page(&results).render();
    let names = well_formed(&page);
    assert_eq!(names.iter().filter(|name| *name == "svg").count(), 4);
    for pass in ["one connection", "many &lt;connections&gt;"] {
        let label = format!("aria-label=\"Latency by percentile: {pass}, medians of the runs\"");
        assert_eq!(page.matches(&label).count(), 2, "{label}");
    }
}

#[test]
fn effects_are_drawn_with_their_intervals() {
    let (results, _, _, _folder) = run(None);
    let page = report::page(&results).render();
    let drawn = page.split("class=\"bars\"><caption>Versus a").nth(1).expect("a drawn table");
    let drawn = drawn.split("</table>").next().expect("its end");
    let comparisons = compare::within(&results);
    let judged = comparisons.iter().filter(|c| c.figure.better.is_some() && c.effect.is_some());
    assert_eq!(drawn.matches("class=\"mark").count(), judged.clone().count());
    let with_ends = judged.filter(|c| c.effect.is_some_and(|effect| effect.interval.is_some()));
    assert_eq!(drawn.matches("class=\"interval").count(), with_ends.count());
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
}

#[test]
fn two_results_are_compared_on_a_page_that_has_both_in_it() {
    let (before, _, _, folder) = run(None);
    let mut after = before.clone();
    after.arms[1].conditions.insert("link".to_owned(), "<veth>".to_owned());
    let pairs = compare::pairs((&after, None), (&before, None)).expect("pairs");
    let unlike = compare::unlike(&after, &before, &pairs);
    let found = compare::between(&after, &before, &pairs);
    let page = report::compared((&before, &after), &found, &unlike, environment::ResultOrigin::default()).render();
    well_formed(&page);
    assert!(
        page.contains("<strong>NOT ALIKE</strong>") && page.contains("link: not said (b) and &lt;veth&gt; (b)"),
        "{page}"
    );
    assert!(
        page.contains("No verdict: figures that do not count")
            && !page.contains("<p class=\"answer\" dir=\"auto\">faster")
    );
    assert!(page.contains(">does not count</td>") && !page.contains("class=\"mark s0 d0\""), "{page}");
    let inside: Vec<Results> =
        pages::results_in(&page).iter().map(|text| serde_json::from_str(text).expect("a result")).collect();
    assert_eq!(inside, [before.clone(), after]);
    // A page of one result is read as its folder is.
    let file = folder.0.join("page.html");
    std::fs::write(&file, report::page(&before).render()).expect("written");
    assert_eq!(Results::read(&file).expect("read"), before);
}

#[test]
fn a_machine_that_was_busy_otherwise_is_told_before_any_figure() {
    let (mut results, _, _, _folder) = run(None);
    assert!(results.doubts().is_empty());
    results.arms[1].runs[2].others = Some(0.31);
    for (text, figures) in [(table::render(&results), "b ÷ a"), (report::page(&results).render(), "What was expected")]
    {
        let at = text.find("Not a quiet machine").expect("it is told");
        assert!(text.contains("31 %") && at < text.find(figures).expect("figures"), "{text}");
    }
}

#[test]
fn latencies_survive_being_kept() {
    let mut latencies = Latencies::default();
    for millis in 1..=100_u64 {
        latencies.add(millis * 1_000_000);
    }
    let summary = latencies.milliseconds();
    assert_eq!((summary.min, summary.max, summary.count), (1.0, 100.0, 100));
    assert!((summary.mean - 50.5).abs() < 1e-9 && (summary.median - 50.0).abs() < 0.1);
    assert!((summary.deviation - 28.866).abs() < 0.001);
    let kept = latencies.distribution();
    let histogram = crate::latencies::log2(&[&kept, &kept]).expect("a histogram");
    let counts: Vec<u64> = histogram.buckets().iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [2, 4, 8, 16, 32, 64, 74]);
    assert_eq!(number(1_234_567.0), "1,234,567");
    assert_eq!(
        [0.0, 0.05, 0.5, 12.34, 123.4, 999.9, -5_000.0].map(number).join(" "),
        "0 5.00e-2 0.50 12.3 123 1,000 -5,000"
    );
}

#[test]
fn a_command_is_an_arm() {
    let text = TEXT
        .replace("[\"true\"]", "[\"sh\", \"-c\", \"echo '{\\\"rate\\\": 5}'\"]")
        .replace("rounds = 8", "rounds = 1");
    let experiment = Experiment::parse("x", &text, &[]).expect("good");
    let folder = Folder::new();
    let interrupt = Interrupt::watch().expect("signals");
    let (results, outcome) = crate::runner::run(&experiment, &folder.0, &interrupt).expect("it runs");
    assert!(matches!(outcome, Outcome::Complete));
    assert_eq!(results.arms[0].values("rate"), [5.0]);
    assert_eq!(results.control().expect("a control").values("rate"), [5.0]);
    // Nobody counted what failed, and nobody says that nothing did.
    assert_eq!(results.errors(), None);
    assert!(
        report::page(&results).render().contains("all runs: nobody counted them"),
        "{}",
        report::page(&results).render()
    );
}

/// A result of ours says what it is worth and what failed in it, and ends with another status
/// then: it is kept, counted, and decides the verdict.
#[test]
fn what_an_arm_says_of_itself_decides() {
    let text = r#"
schema = 1
name = "own"
title = "own"
rounds = 2
[command]
figures = [{ name = "rate", pointer = "/rate", better = "higher" }]
[[command.arms]]
name = "a"
command = ["sh", "-c", """echo '{"kind": "load", "schema": 1, "setup": {}, "rate": 5,
  "errors": {"reset": 3, "not_judged": 9},
  "verdict": {"trust": "no", "reasons": [{"sentence": "requests failed"}]}}'; exit 5"""]
[[command.arms]]
name = "b"
command = ["echo", '{"rate": 5}']
"#;
    let experiment = Experiment::parse("x", text, &[]).expect("good");
    let folder = Folder::new();
    let interrupt = Interrupt::watch().expect("signals");
    let (results, outcome) = crate::runner::run(&experiment, &folder.0, &interrupt).expect("it runs");
    assert!(matches!(outcome, Outcome::Complete), "{outcome:?}");
    assert_eq!((results.arms[0].values("rate"), results.errors()), (vec![5.0, 5.0], Some(12)), "a, and a again");
    let verdict = results.verdict();
    assert!(verdict.is_invalid() && !results.is_as_expected(), "{verdict:?}");
    assert_eq!(verdict.reasons[0], "a: 2 of 2 runs say INVALID, its figures are not to be used: requests failed");
    let found = compare::within(&results);
    assert!(!found.is_empty() && found.iter().all(|one| one.verdict.is_none()), "what is invalid is not judged");
    // Nor is it the control, whose rows these would be else; and nothing is drawn as if it counted.
    assert!(found.iter().all(|one| table::word(one) == compare::VOID), "{found:?}");
    let page = report::page(&results).render();
    assert!(page.contains("No verdict: figures that do not count") && !page.contains(">control<"), "{page}");
    assert!(compare::to_json(&found).contains(compare::VOID));
    assert!(table::render(&results).contains("! a: 2 of 2 runs say INVALID"), "{}", table::render(&results));
    let read = results::read(&folder.0).expect("its own").remove(0);
    assert!(read.doubt().is_some_and(|doubt| doubt.contains("requests failed")), "{read:?}");
}

/// What headers say is a secret: in what is kept, in the page, and in what a program complains of.
#[test]
fn no_header_leaves_with_a_result_and_the_page_says_why_it_ended() {
    let text = r#"
schema = 1
name = "own"
title = "own"
warmup = 0
control = false
[command]
figures = [{ name = "rate", pointer = "/rate", better = "higher" }]
[[command.arms]]
name = "a"
command = ["sh", "-c", "echo no answer to $2 >&2; exit 1", "x", "-H", "A: SECRET"]
[[command.arms]]
name = "b"
command = ["sh", "-c", "exec sh -c 'echo no answer to $1 >&2; exit 1' -H 'B: SECRET'"]
"#;
    let experiment = Experiment::parse("x", text, &[]).expect("good");
    let folder = Folder::new();
    let interrupt = Interrupt::watch().expect("signals");
    let (results, outcome) = crate::runner::run(&experiment, &folder.0, &interrupt).expect("it runs");
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    let page = report::page(&results).render();
    let kept =
        [results.to_json(), page.clone(), std::fs::read_to_string(folder.0.join("experiment.toml")).expect("kept")];
    for text in kept {
        assert!(!text.contains("SECRET") && text.contains("..."), "{text}");
    }
    let inside: Vec<String> = pages::results_in(&page);
    assert!(inside.len() == 1 && !inside[0].contains("SECRET"), "{inside:?}");
    // Of nothing there is no verdict but this one, with the reason.
    assert!(results.verdict().is_invalid() && page.contains("INVALID") && page.contains("no answer to"), "{page}");
}

#[test]
fn what_tells_nothing_of_any_difference_is_not_complete() {
    let (mut results, _, _, _folder) = run(None);
    assert_eq!(results.verdict().word, "COMPLETE");
    results.arms.iter_mut().for_each(|arm| arm.runs.truncate(3));
    let verdict = results.verdict();
    assert!(verdict.word == "PARTIAL" && verdict.reasons[0].contains("fewer than 5 runs"), "{verdict:?}");
}

/// The built-in experiment, small, as it is printed: the worker with most connections is
/// told beside an even part, from the connections that each worker took.
#[test]
fn the_largest_share_of_kept_connections_is_printed() {
    let sets =
        ["workers=3", "connections=24", "requests=240", "service=wait:1ms", "models=[\"exclusive\", \"reuseport\"]"];
    let sets = sets.map(|set| format!("accept-queue.{set}")).into_iter().chain(["rounds=1".to_owned()]);
    let sets: Vec<Set> = sets.map(|set| set.parse().expect("a change")).collect();
    let experiment = builtin::find("accept-queue-keep-alive", &sets).expect("it is built in");
    let folder = Folder::new();
    let interrupt = Interrupt::watch().expect("signals");
    let (results, outcome) = crate::runner::run(&experiment, &folder.0, &interrupt).expect("it runs");
    assert!(matches!(outcome, Outcome::Complete));
    let text = table::render(&results);
    let row = text.lines().find(|line| line.starts_with("largest share, of an even one ")).expect(&text);
    let printed: Vec<&str> = row.split_whitespace().skip(6).collect();
    assert_eq!(printed.len(), results.arms.len(), "{text}");
    for (arm, printed) in results.arms.iter().zip(printed) {
        let counts = arm.runs[0].details["connections of each worker"].split(' ');
        let counts: Vec<f64> = counts.map(|count| count.parse().expect("a count")).collect();
        assert_eq!(counts.iter().sum::<f64>(), 24.0, "{counts:?}");
        let most = counts.iter().copied().fold(0.0, f64::max) / 8.0;
        assert!((1.0..=3.0).contains(&most), "{counts:?}");
        assert_eq!(number(most), printed, "{}: {counts:?}\n{text}", arm.name);
    }
}

/// Two builds of a server: what each says of itself is read, what differs is told, and sides that
/// are one build are no comparison.
#[test]
fn what_differs_between_two_builds_is_named_and_the_same_build_twice_is_found() {
    let text = r#"
schema = 1
name = "builds"
title = "builds"
rounds = 2
[command]
figures = [{ name = "rate", pointer = "/rate", better = "higher" }]
[[command.arms]]
name = "plain"
command = ["echo", '{"rate": 5}']
build = ["sh", "-c", "echo 'configure arguments: --with-threads' >&2"]
[[command.arms]]
name = "debug"
command = ["echo", '{"rate": 4}']
build = ["sh", "-c", "echo 'configure arguments: --with-threads --with-debug' >&2"]
"#;
    let run = |text: &str| {
        let experiment = Experiment::parse("x", text, &[]).expect("good");
        let folder = Folder::new();
        let interrupt = Interrupt::watch().expect("signals");
        crate::runner::run(&experiment, &folder.0, &interrupt).map(|(results, _)| results)
    };
    let results = run(text).expect("it runs");
    let told = table::render(&results);
    assert!(told.contains("note: builds: --with-debug: debug alone (its places for the debugging log"), "{told}");
    assert_eq!(results.checks.len(), 1);
    assert!(results.checks[0].kept == Some(true) && results.is_as_expected(), "{:?}", results.checks);

    let same = run(&text.replace(" --with-debug", "")).expect("it runs");
    assert!(same.checks[0].kept == Some(false) && !same.is_as_expected(), "{:?}", same.checks);
    assert!(same.checks[0].found.contains("say the same of themselves"), "{:?}", same.checks);

    let why = run(&text.replace("--with-debug' >&2", "' >&2; echo no such option; exit 3")).expect_err("no build");
    assert!(why.to_string().contains("how debug was built, ended with") && why.to_string().contains("no such option"));
}
