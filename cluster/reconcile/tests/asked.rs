//! What is asked of an API server, in its order, where all goes well and where something is in the way.

use core::time::Duration;
use kubernetes::{ApiError, Method};
use manifests::{Contents, Manifests, Setting, objects};
use reconcile::{Call, ClusterEvent, Reconciler, Stage};
use serde_json::{Value, json};
use spec::LoadTest;
use wire::Time;

const TEST: &str = "apiVersion: nearside.dev/v1alpha1\nkind: LoadTest\nmetadata: {name: a}\nspec:\n  \
                    target: http://10.0.0.2:8080/\n  workers: 2\n  pods: {image: nearside}\n";

fn manifests(text: &str) -> Manifests {
    let test = LoadTest::read(text).expect("a test");
    let contents = Contents { token: "t", key: "k", tokens: &[], controller: "c:1", request: "{}\n", feed: None };
    objects(&Setting { test: &test, source: text, namespace: "load", image: None, owner: None, contents })
        .expect("it can be")
}

fn refused(status: u16) -> Result<Value, ApiError> {
    Err(ApiError::Refused { status, reason: String::new(), message: "no".to_owned() })
}

/// An object with this number, as it would be stored.
fn stored(object: &Value, uid: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["uid"] = json!(uid);
    object
}

/// A test's objects, and what was asked for them.
struct Asked {
    objects: Reconciler,
    now: Time,
    calls: Vec<String>,
    events: Vec<ClusterEvent>,
}

impl Asked {
    fn new() -> Self {
        let now = Time::from_millis(1_000);
        let objects = Reconciler::new("load", manifests(TEST), 7, 2, now);
        Self { objects, now, calls: Vec::new(), events: Vec::new() }
    }

    /// Answers so many questions.
    fn answer(&mut self, count: usize, answers: impl Fn(&Call) -> Result<Value, ApiError>) {
        for _ in 0..count {
            if self.objects.stage() == Stage::Over {
                break;
            }
            self.now = self.now.max(self.objects.next_deadline());
            let call = self.objects.poll_call(self.now).expect("it is time for one");
            let path: Vec<&str> = call.path.split('/').skip_while(|part| *part != "load").skip(1).collect();
            let path = path.join("/");
            self.calls.push(format!("{:?} {}", call.method, path.split_once('?').map_or(&*path, |(path, _)| path)));
            self.objects.on_answer(answers(&call), self.now);
            while let Some(event) = self.objects.poll_event() {
                if let ClusterEvent::Holds { .. } = event {
                    self.objects.make(manifests(TEST), self.now);
                }
                self.events.push(event);
            }
        }
    }
}

/// What is there is not, and what is asked for is done.
fn empty(call: &Call) -> Result<Value, ApiError> {
    match call.method {
        Method::Get if call.path.contains("/pods?") => Ok(json!({ "items": [] })),
        Method::Get => refused(404),
        _ => Ok(stored(call.object.as_ref().expect("an object"), "u-1")),
    }
}

#[test]
fn objects_are_made_and_deleted_by_their_numbers_one_question_after_the_other() {
    let mut asked = Asked::new();
    asked.answer(6, empty);
    let lease = asked.calls[0].strip_prefix("Get ").expect("it is read").to_owned();
    let made = [
        format!("Get {lease}"),
        "Post leases".to_owned(),
        "Get jobs/nearside-a".to_owned(),
        "Post jobs".to_owned(),
        "Post secrets".to_owned(),
        "Patch jobs/nearside-a".to_owned(),
    ];
    assert_eq!(asked.calls, made);
    assert!(lease.starts_with("leases/nearside-target-"), "{lease}");
    assert_eq!(asked.events, [ClusterEvent::Holds { known: None }, ClusterEvent::Begun]);
    asked.calls.clear();
    asked.answer(2, empty);
    assert_eq!(
        (&asked.calls[..], asked.objects.stage()),
        (&["Get pods".to_owned(), "Get pods".to_owned()][..], Stage::Running)
    );
    asked.calls.clear();
    asked.objects.end(asked.now);
    asked.answer(9, |call| {
        if call.method == Method::Delete {
            let uid = &call.object.as_ref().expect("options")["preconditions"]["uid"];
            assert_eq!(uid, "u-1", "another of its name is left alone");
        }
        empty(call)
    });
    assert_eq!(
        asked.calls,
        ["Delete jobs/nearside-a".to_owned(), "Delete secrets/nearside-a".to_owned(), format!("Get {lease}")]
    );
    assert_eq!((asked.objects.stage(), asked.objects.failure(), asked.objects.remains()), (Stage::Over, None, None));
}

#[test]
fn a_job_whose_making_had_no_answer_is_found_and_deleted_when_the_test_is_not_to_be() {
    let mut asked = Asked::new();
    asked.answer(3, empty);
    asked.calls.clear();
    // It is made, and nobody is told.
    asked.answer(2, |_| Err(ApiError::Unreachable("no answer".to_owned())));
    asked.objects.end(asked.now);
    let job = stored(&manifests(TEST).job, "u-9");
    asked.answer(9, |call| {
        if call.method == Method::Get && call.path.contains("/jobs/") { Ok(job.clone()) } else { empty(call) }
    });
    let jobs: Vec<&str> = asked.calls.iter().map(String::as_str).filter(|call| call.contains("jobs")).collect();
    assert_eq!(jobs, ["Post jobs", "Post jobs", "Get jobs/nearside-a", "Delete jobs/nearside-a"]);
    assert_eq!((asked.objects.stage(), asked.objects.failure()), (Stage::Over, None), "it was to end");
}

#[test]
fn the_job_of_another_test_is_left_alone_and_so_is_one_that_comes_between() {
    let other = stored(&manifests(&TEST.replace("workers: 2", "workers: 3")).job, "u-5");
    for comes_between in [false, true] {
        let mut asked = Asked::new();
        asked.answer(2, empty);
        if comes_between {
            asked.answer(1, empty);
        }
        asked.answer(20, |call| match call.method {
            Method::Post if call.path.ends_with("/jobs") => refused(409),
            Method::Get if call.path.contains("/jobs/") => Ok(other.clone()),
            _ => empty(call),
        });
        assert!(
            !asked.calls.iter().any(|call| call.starts_with("Delete") || call.starts_with("Patch")),
            "{:?}",
            asked.calls
        );
        let why = asked.objects.failure().expect("it cannot be");
        assert!(why.contains("of another test or another version of this one"), "{why}");
        assert_eq!((asked.objects.stage(), asked.objects.remains()), (Stage::Over, None));
    }
}

#[test]
fn a_target_is_held_while_an_earlier_job_goes_and_an_api_server_that_is_away_is_given_up() {
    let mut asked = Asked::new();
    let mut old = stored(&manifests(TEST).job, "u-3");
    old["metadata"]["deletionTimestamp"] = json!("2026-11-30T08:00:00Z");
    asked.answer(3, empty);
    let lease = json!({ "metadata": {}, "spec": { "holderIdentity": "load/nearside-a/0000000000000007" } });
    let began = asked.now;
    asked.answer(1_000, |call| match call.method {
        Method::Get if call.path.contains("/leases/") => Ok(lease.clone()),
        Method::Post if call.path.ends_with("/jobs") => refused(409),
        Method::Get if call.path.contains("/jobs/") => Ok(old.clone()),
        _ => empty(call),
    });
    let renewals = asked.calls.iter().filter(|call| call.starts_with("Put leases")).count();
    assert!((13..=16).contains(&renewals), "every 4 s of 60, and once when it is left: {renewals}");
    assert!(asked.objects.failure().is_some_and(|why| why.contains("that of an earlier test does not go")));
    assert!(asked.now.since(began) < Duration::from_secs(70));

    let mut asked = Asked::new();
    let began = asked.now;
    asked.answer(1_000, |_| refused(503));
    assert!(asked.objects.failure().is_some_and(|why| why.contains("503")) && asked.objects.remains().is_some());
    let took = asked.now.since(began);
    assert!((Duration::from_secs(60)..Duration::from_secs(64)).contains(&took), "half a minute each: {took:?}");
}
