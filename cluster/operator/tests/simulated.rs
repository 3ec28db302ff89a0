//! Operators in virtual time: an API server that conflicts, forgets, does twice and delays; watches that break and are
//! too late; operators that die at any question, two of them at once; tests that are deleted, made anew and changed.
//!
//! A seed reproduces a run: `NEARSIDE_SEED=N cargo test -p operator --test simulated`. `NEARSIDE_SEEDS=N` runs more of
//! them.

mod world;

use core::time::Duration;
use operator::Verdict;
use random::SplitMix64;
use serde_json::Value;
use world::{Setting, TestSetting, World};

fn seeds(usual: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("NEARSIDE_SEED") {
        Some(one) => vec![one],
        // Beyond those that are usual, two that found something.
        None => (0..number("NEARSIDE_SEEDS").unwrap_or(usual)).chain([511, 2822]).collect(),
    }
}

fn test(name: &str) -> TestSetting {
    TestSetting {
        name: name.to_owned(),
        made: Duration::from_millis(500),
        makes_sense: true,
        verdict: Verdict::Pass,
        ttl: None,
        deleted: None,
        wiped: None,
    }
}

fn quiet(tests: Vec<TestSetting>) -> Setting {
    Setting { tests, operators: 1, trouble: 0, delay: 8, breaks: 0, deaths: Vec::new(), stall: None }
}

fn wild(seed: u64) -> Setting {
    let mut random = SplitMix64::new(seed ^ 0x0e7a);
    let mut setting = quiet(Vec::new());
    for number in 0..1 + random.below(6) {
        let mut one = test(&format!("t{number}"));
        one.made = Duration::from_millis(random.up_to(20_000));
        one.makes_sense = random.below(6) > 0;
        one.verdict = [Verdict::Pass, Verdict::Fail, Verdict::Invalid][random.below(3)];
        one.ttl = [None, None, Some(0), Some(5), Some(120)][random.below(5)];
        if random.below(4) == 0 {
            let at = one.made + Duration::from_millis(random.up_to(15_000));
            one.deleted = Some((at, random.below(2) == 0));
        }
        setting.tests.push(one);
    }
    setting.operators = 1 + random.below(2);
    setting.trouble = [0, 20, 80][random.below(3)];
    setting.delay = [8, 100, 1_000][random.below(3)];
    setting.breaks = [0, 50, 300][random.below(3)];
    if setting.operators == 2 && random.below(3) == 0 {
        let from = Duration::from_millis(3_000 + random.up_to(15_000));
        setting.stall = Some((from, Duration::from_millis(random.up_to(40_000))));
    }
    for _ in 0..[0, 0, 1, 2][random.below(4)] {
        let again = Duration::from_millis(50 + random.up_to(20_000));
        setting.deaths.push((random.below(60) as u32, random.below(2) == 0, again));
    }
    if setting.deaths.is_empty() && setting.operators == 1 && random.below(3) == 0 {
        let one = &mut setting.tests[0];
        one.wiped = Some(one.made + Duration::from_millis(random.up_to(15_000)));
    }
    setting
}

/// Runs a world until nothing happens any more.
fn run(seed: u64, setting: &Setting) -> World {
    let mut world = World::new(seed, setting.clone());
    world.run(Duration::from_secs(400));
    let (calls, version) = (world.calls, world.store.version());
    // A lease is renewed and looked at, of which a third may be in vain, and nothing else is asked.
    world.run(Duration::from_secs(60));
    let leases = 50 * setting.operators as u32 + 20;
    assert!(world.calls - calls <= leases, "{seed}: {} calls in a quiet minute", world.calls - calls);
    assert!(world.store.version() - version <= u64::from(leases), "{seed}: what is quiet changes");
    assert_eq!(world.runs(), 0, "{seed}: somebody runs a test yet");
    world
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

#[test]
fn a_test_is_accepted_run_and_told_of_with_its_result_and_events_on_changes_alone() {
    let mut setting = quiet(vec![test("a"), test("b"), test("c")]);
    setting.tests[1].makes_sense = false;
    (setting.tests[2].ttl, setting.tests[2].verdict) = (Some(30), Verdict::Fail);
    let world = run(1, &setting);
    let objects = &world.store.objects;
    let a = &objects["loadtests/a"];
    assert_eq!(a["status"]["verdict"], "pass");
    assert_eq!((&a["status"]["p99"], &a["status"]["result"]), (&"1 ms".into(), &"nearside-a-result".into()));
    for (kind, status, reason) in [
        ("Accepted", "True", "Accepted"),
        ("Prepared", "True", "WorkersReady"),
        ("Running", "False", "Ended"),
        ("Complete", "True", "Measured"),
    ] {
        let found = condition(a, kind).expect(kind);
        assert_eq!((found["status"].as_str(), found["reason"].as_str()), (Some(status), Some(reason)), "{kind}");
    }
    assert_eq!(objects["configmaps/nearside-a-result"]["data"]["result.json"], "{}");
    let b = &objects["loadtests/b"];
    assert_eq!(
        (&b["status"]["verdict"], &condition(b, "Accepted").expect("it")["status"]),
        (&"invalid".into(), &"False".into())
    );
    let why = condition(b, "Accepted").expect("it")["message"].as_str().expect("text");
    assert!(why.starts_with("spec.rate: 1 a second over 2 workers"), "{why}");
    assert!(!objects.contains_key("loadtests/c"), "its time is over");
    let reasons = |test: &str| -> Vec<String> {
        let of = |one: &&Value| one["involvedObject"]["name"] == test;
        let events = objects.iter().filter(|(path, _)| path.starts_with("events/")).map(|(_, one)| one);
        events.filter(of).map(|one| one["reason"].as_str().expect("text").to_owned()).collect()
    };
    assert_eq!(reasons("a"), ["Accepted", "Loading", "Measured", "WorkersReady"]);
    assert_eq!(reasons("b"), ["InvalidSpec"]);
    assert!(!objects.keys().any(|path| path.starts_with("jobs/")), "nothing is left");
}

#[test]
fn an_operator_that_dies_at_any_question_is_followed_by_one_that_goes_on() {
    let mut deaths = 0;
    for at in 0..45 {
        for sent in [false, true] {
            let mut setting = quiet(vec![test("a"), test("b")]);
            setting.tests[1].made = Duration::from_secs(4);
            setting.deaths = vec![(at, sent, Duration::from_millis(400))];
            let world = run(u64::from(at), &setting);
            deaths += world.deaths;
            check(u64::from(at), &setting, &world);
        }
    }
    assert!(deaths > 60, "{deaths}");
}

/// It finds that it is the one no more only when the next has told what the test came to.
#[test]
fn a_job_goes_that_an_operator_made_which_stood_still_until_its_test_was_over() {
    let mut late = 0;
    for ms in (4_000..4_100).step_by(2) {
        let mut setting = quiet(vec![test("a")]);
        setting.tests[0].made = Duration::from_secs(4);
        (setting.operators, setting.stall) = (2, Some((Duration::from_millis(ms), Duration::from_secs(40))));
        let world = run(ms, &setting);
        late += world.late_jobs;
        check(ms, &setting, &world);
    }
    assert!(late > 3, "{late}");
}

/// Everything that can go wrong does at some time.
#[test]
fn every_test_comes_to_its_one_verdict_and_leaves_nothing_behind() {
    let (mut told, mut refused, mut deleted, mut died, mut again, mut yields) = (0, 0, 0, 0, 0, 0);
    for seed in seeds(150) {
        let setting = wild(seed);
        let world = run(seed, &setting);
        died += world.deaths;
        yields += world.yields;
        for (uid, seen) in &world.seen {
            let test = &setting.tests[world.settings[uid]];
            told += u32::from(!seen.verdicts.is_empty());
            refused += u32::from(!test.makes_sense);
            deleted += u32::from(test.deleted.is_some());
            again += u32::from(seen.runs > 1);
        }
        check(seed, &setting, &world);
    }
    let each = told > 200 && refused > 30 && deleted > 50 && died > 20 && again > 5 && yields > 2;
    assert!(seeds(150).len() < 150 || each, "{told} {refused} {deleted} {died} {again} {yields}");
}

fn check(seed: u64, setting: &Setting, world: &World) {
    for (uid, seen) in &world.seen {
        let test = &setting.tests[world.settings[uid]];
        let path = format!("loadtests/{}", test.name);
        let object = world.store.objects.get(&path).filter(|one| one["metadata"]["uid"] == uid.as_str());
        let what = format!("{seed}: {test:?} {seen:?} {object:?}");
        assert!(seen.faults.is_empty(), "{what}");
        let verdict = match (test.makes_sense, test.verdict) {
            (false, _) | (true, Verdict::Invalid) => "invalid",
            (true, Verdict::Pass) => "pass",
            (true, Verdict::Fail) => "fail",
        };
        assert!(seen.verdicts.iter().all(|one| one == verdict), "another verdict: {what}");
        assert!(test.makes_sense || seen.runs == 0, "run without sense: {what}");
        let most = setting.operators as u32 + (world.deaths + world.yields) as u32;
        assert!(seen.runs <= most, "run too often: {what}");
        let is_kept = object.is_some();
        let may_be_deleted = test.deleted.is_some();
        match test.ttl {
            Some(ttl) if ttl < 300 => assert!(!is_kept, "its time is over: {what}"),
            _ => assert!(is_kept || may_be_deleted, "nobody deleted it: {what}"),
        }
        let Some(object) = object else { continue };
        let complete = condition(object, "Complete").unwrap_or_else(|| panic!("without an end: {what}"));
        assert_eq!(complete["status"], "True", "{what}");
        if let Some(result) = object["status"]["result"].as_str() {
            let kept = world.store.objects.get(&format!("configmaps/{result}"));
            assert!(kept.is_some_and(|one| one["metadata"]["ownerReferences"][0]["uid"] == uid.as_str()), "{what}");
        }
    }
    // What belongs to nobody any more a cluster deletes by itself.
    let objects = &world.store.objects;
    let has_owner = |job: &Value| {
        let owner = &job["metadata"]["ownerReferences"][0]["uid"];
        objects.values().any(|one| one["metadata"]["uid"] == *owner)
    };
    let jobs = objects.iter().filter(|(path, _)| path.starts_with("jobs/"));
    let left: Vec<&String> = jobs.filter(|(_, job)| has_owner(job)).map(|(path, _)| path).collect();
    assert!(left.is_empty(), "{seed}: {left:?}");
}
