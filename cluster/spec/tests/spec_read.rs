//! Files of tests: read, refused with place and reason, arranged.

use core::net::SocketAddr;
use core::time::Duration;
use load::{Arrival, Schedule};
use spec::{ControllerPlace, Files, LoadTest, SecretKey, Spread, WorkerPlace};
use std::path::Path;

const WHOLE: &str = "\
apiVersion: nearside.dev/v1alpha1
kind: LoadTest
metadata:
  name: checkout
  labels: {team: shop}
spec:
  target: http://10.0.0.2:8080/cart?n=1
  workers: 3
  connections: 96
  arrival: poisson
  rate: 30k
  duration: 30s
  warmUp: 500ms
  timeout: 2s
  threads: 2
  startTolerance: 5ms
  prepareWithin: 20s
  strict: true
  expect: [p99<10ms, 'errors<0.1%']
  request:
    method: POST
    headers:
    - name: Authorization
      valueFrom:
        secretKeyRef: {name: shop, key: token}
    - {name: X-User, value: '{{csv:user}}'}
    body: '{\"n\": {{counter}}}'
    wantStatus: 201
    template: true
    feed: {file: data/users.csv, order: random}
";

struct Folder;

impl Files for Folder {
    fn secret(&mut self, key: &SecretKey) -> Result<String, String> {
        match (key.secret.as_str(), key.key.as_str()) {
            ("shop", "token") => Ok("Bearer xyz".to_owned()),
            ("shop", "lines") => Ok("a\nb".to_owned()),
            _ => Err(format!("there is no key {} of a secret {}", key.key, key.secret)),
        }
    }

    fn data(&mut self, file: &str) -> Result<Vec<u8>, String> {
        if file == "data/users.csv" { Ok(b"user\nann\nbob\n".to_vec()) } else { Err(format!("{file}: no such file")) }
    }
}

fn place() -> SocketAddr {
    ([10, 0, 0, 2], 8080).into()
}

fn minimal(spec: &str) -> String {
    let lines: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!("apiVersion: nearside.dev/v1alpha1\nkind: LoadTest\nmetadata:\n  name: a\nspec:\n{lines}")
}

fn refused(text: &str) -> Vec<String> {
    LoadTest::read(text).expect_err(text).iter().map(ToString::to_string).collect()
}

#[test]
fn a_whole_test_is_read_and_arranged() {
    let test = LoadTest::read(WHOLE).expect("a test");
    assert_eq!((test.name.as_str(), test.workers, test.connections, test.threads), ("checkout", 3, 96, 2));
    assert_eq!(test.arrival, Arrival::Open(Schedule::poisson(30_000.0)));
    assert_eq!(
        (test.target.host.as_str(), test.target.port, test.target.path.as_str()),
        ("10.0.0.2", 8080, "/cart?n=1")
    );
    assert_eq!((test.start_tolerance, test.prepare), (Duration::from_millis(5), Duration::from_secs(20)));
    assert_eq!((test.expect.len(), test.strict), (2, true));
    let arranged = test.arrange(place(), &mut Folder).expect("all is there");
    let plan = &arranged.plan;
    let request = plan.first_request();
    assert_eq!((request.method.as_str(), request.host.as_str()), ("POST", "10.0.0.2:8080"));
    assert!(request.headers.contains(&("Authorization".to_owned(), "Bearer xyz".to_owned())));
    assert!(request.script.is_some() && plan.source.feed.is_some() && plan.warm_up == Duration::from_millis(500));
    assert_eq!(request.expect.and_then(|expect| expect.status), Some(201));
    let mut of_worker = WorkerPlace {
        worker: "2",
        controller: ControllerPlace::Address(place()),
        requests: Path::new("/r"),
        feed: Some(Path::new("/f")),
    };
    let words = test.arguments(&of_worker);
    let words: Vec<String> = words.into_iter().map(|word| word.into_string().expect("text")).collect();
    let line = words.join(" ");
    for part in [
        "load http://10.0.0.2:8080/cart?n=1 ",
        "--rate poisson:30k",
        "--warmup 500ms",
        "--worker 2/3",
        "--controller 10.0.0.2:8080",
        "--feed /f",
        "--template",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!line.contains("xyz"), "a command line is read by everybody: {line}");
    assert!(!format!("{test:?}").contains("xyz"));
    of_worker.controller = ControllerPlace::Folder(Path::new("/c"));
    let words = test.arguments(&of_worker);
    assert!(words.windows(2).any(|two| two == ["--controller-folder", "/c"]), "{words:?}");
    assert!(!words.iter().any(|word| word == "--controller"));
}

#[test]
fn what_is_left_out_is_as_usual() {
    let test = LoadTest::read(&minimal("target: http://localhost\nworkers: 2")).expect("a test");
    assert_eq!((test.connections, &test.arrival, test.threads, test.floor), (128, &Arrival::Closed, 1, true));
    assert_eq!((test.duration.time, test.warm_up.time), (Duration::from_secs(10), Duration::from_secs(1)));
    assert_eq!((test.target.port, test.target.path.as_str()), (80, "/"));
    let test = LoadTest::read(&minimal("target: http://[::1]:81/a\nworkers: 1\nrate: 1.5k")).expect("a test");
    assert_eq!(test.arrival, Arrival::Open(Schedule::constant(1_500.0)));
    assert_eq!((test.target.host.as_str(), test.target.port), ("::1", 81));
}

/// Each is refused with its field, its line, and what to do.
#[test]
fn bad_fields_are_refused_with_place_and_reason() {
    let good = "target: http://a/\nworkers: 2\n";
    for (spec, told) in [
        ("workers: 2", "line 6: spec.target: this is missing"),
        ("target: https://a/\nworkers: 2", "spec.target: 'https://a/': a load on many machines speaks http://"),
        ("target: http://10.0.0.256/\nworkers: 2", "neither an address nor a name"),
        ("target: http://a:0/\nworkers: 2", "a port is from 1 to 65535"),
        (&format!("target: http://a/{}\nworkers: 2", "x".repeat(8_000)), "a URL has 8000 letters at most"),
        ("target: http://[::1]x/\nworkers: 2", "no port"),
        ("target: http://a/[0-9]\nworkers: 2", "brackets"),
        ("target: [http://a/]\nworkers: 2", "spec.target: this is to be one text"),
        ("target: http://a/\nworkers: 0", "line 7: spec.workers: '0': write a whole number above 0"),
        ("target: http://a/\nworkers: 1001", "spec.workers: '1001': a test has 1000 workers at most"),
        ("target: http://a/\nworkers: 1.5", "whole number"),
        ("target: http://a/\nworkers: 10\nconnections: 9", "spec.connections: 10 workers need a connection each"),
        ("target: http://a/\nworkers: 10\nrate: 9", "spec.rate: 9 a second over 10 workers are less than one a second"),
        ("target: http://a/\nworkers: 2\nrate: -5", "spec.rate: '-5': write a number above 0"),
        ("target: http://a/\nworkers: 2\nrate: 1e3", "spec.rate"),
        ("target: http://a/\nworkers: 2\narrival: poisson", "spec.rate: this is missing: arrival poisson"),
        ("target: http://a/\nworkers: 2\narrival: closed\nrate: 5", "spec.rate: in a closed loop"),
        ("target: http://a/\nworkers: 2\narrival: bursts\nrate: 5", "spec.arrival: 'bursts': write constant"),
        ("target: http://a/\nworkers: 2\nduration: 30", "spec.duration: '30': write a time with its unit"),
        ("target: http://a/\nworkers: 2\nduration: 0s", "spec.duration: '0s': this is to be longer than zero"),
        ("target: http://a/\nworkers: 2\ntimeout: 2000s", "spec.timeout: '2000s': this is from 1ms to 1000s"),
        ("target: http://a/\nworkers: 2\nworkerz: 3", "line 8: spec.workerz: there is no such field here; there are"),
        ("target: http://a/\nworkers: 2\nexpect: [p99<]", "spec.expect: 'p99<' is no objective"),
        ("target: http://a/\nworkers: 2\nexpect: [start99<1s]", "that is a figure of streams"),
        ("target: http://a/\nworkers: 2\nstrict: yes", "spec.strict: 'yes': write true or false"),
        ("target: http://a/\nworkers: 2\nrequest: {method: get}", "spec.request.method: 'get'"),
        (
            "target: http://a/\nworkers: 2\nrequest: {headers: [{name: 'a b', value: x}]}",
            "spec.request.headers[0].name",
        ),
        (
            "target: http://a/\nworkers: 2\nrequest: {headers: [{name: a}]}",
            "spec.request.headers[0].value: this is missing",
        ),
        ("target: http://a/\nworkers: 2\nrequest: {headers: [{name: a, value: \"x\\ny\"}]}", "control characters"),
        (
            "target: http://a/\nworkers: 2\nrequest: {headers: [{name: a, valueFrom: {secretKeyRef: {name: s}}}]}",
            "spec.request.headers[0].valueFrom.secretKeyRef.key: this is missing",
        ),
        ("target: http://a/\nworkers: 2\nrequest: {feed: {file: ../x}, template: true}", "spec.request.feed.file"),
        ("target: http://a/\nworkers: 2\nrequest: {feed: {file: x}}", "spec.request.feed: rows are for templates"),
    ] {
        let all = refused(&minimal(spec));
        assert!(all.iter().any(|one| one.contains(told)), "{spec}\n{told}\n{all:?}");
    }
    assert!(LoadTest::read(&minimal(good)).is_ok());
    for (text, told) in [
        ("", "there are 0"),
        ("a: &a 1\nb: *a\n", "line 2: an alias"),
        ("- x\n", "this is to be a map"),
        ("apiVersion: v1\nkind: Pod\n", "apiVersion: 'v1': write nearside.dev/v1alpha1"),
        ("apiVersion: v1\nkind: Pod\n", "kind: 'Pod': write LoadTest"),
        ("apiVersion: v1\nkind: Pod\n", "metadata: this is missing"),
        (&format!("{}---\n{}", minimal(good), minimal(good)), "there are 2"),
        (&minimal(good).replace("name: a", "name: A_b"), "metadata.name: 'A_b': a name has 1 to 63 small letters"),
        (&minimal(good).replace("name: a", "nam: a"), "metadata.nam: there is no such field"),
    ] {
        let all = refused(text);
        assert!(all.iter().any(|one| one.contains(told)), "{text}\n{told}\n{all:?}");
    }
}

#[test]
fn what_a_test_names_and_is_not_there_is_refused() {
    for (from, to, told) in [
        ("key: token", "key: word", "spec.request.headers[0]: there is no key word of a secret shop"),
        ("key: token", "key: lines", "spec.request.headers[0]: its secret holds line ends"),
        ("data/users.csv", "users.csv", "spec.request.feed.file: users.csv: no such file"),
        ("csv:user", "csv:name", "spec.request: "),
        ("{{counter}}", "{{count}}", "spec.request: "),
    ] {
        let test = LoadTest::read(&WHOLE.replace(from, to)).expect("it can be read");
        let all = test.arrange(place(), &mut Folder).expect_err(told);
        let found = all.iter().find(|one| one.to_string().contains(told));
        let found = found.unwrap_or_else(|| panic!("{told}: {all:?}"));
        let line = WHOLE.lines().nth(found.line.checked_sub(1).expect("it has a line")).unwrap_or_default();
        let part = if found.field.ends_with("file") { "feed:" } else { "method:" };
        assert!(line.contains(part) || line.contains("name: Authorization"), "{found}: {line}");
    }
}

const PODS: &str = "target: http://a/\nworkers: 2\nconnections: 4\nthreads: 2\npods:\n";

#[test]
fn what_workers_are_as_pods_is_read_and_completed() {
    let test =
        LoadTest::read(&minimal("target: http://a/\nworkers: 2\nconnections: 2048\nthreads: 2")).expect("a test");
    let asked = test.pods.resources;
    assert_eq!((asked.requests.cpu_milli, asked.limits.cpu_milli), (Some(2_000), None), "a limit would be a quota");
    assert_eq!((asked.requests.memory, asked.limits.memory), (Some(64 << 20), Some(64 << 20)));
    let pods = format!(
        "{PODS}  image: r.example:5000/n@sha256:ab\n  imagePullPolicy: Always\n  imagePullSecrets: [{{name: reg}}]\n  \
         resources: {{requests: {{cpu: 500m, memory: 1Gi}}, limits: {{cpu: 1.5, memory: 2G}}}}\n  \
         nodeSelector: {{example.org/pool: load}}\n  spread: required\n  runAsUser: 1000\n  \
         tolerations: [{{key: a, operator: Exists, effect: NoSchedule}}, {{key: b, value: c}}, {{operator: Exists}}]"
    );
    let found = LoadTest::read(&minimal(&pods)).expect("a test").pods;
    let (asked, most) = (found.resources.requests, found.resources.limits);
    assert_eq!((asked.cpu_milli, asked.memory), (Some(500), Some(1 << 30)));
    assert_eq!((most.cpu_milli, most.memory), (Some(1_500), Some(2_000_000_000)));
    assert_eq!((found.spread, found.user, found.pull.as_deref()), (Spread::Required, Some(1_000), Some("Always")));
    assert_eq!(found.node_selector, [("example.org/pool".to_owned(), "load".to_owned())]);
    let keys: Vec<_> = found.tolerations.iter().map(|one| (one.key.as_deref(), one.value.as_deref())).collect();
    assert_eq!(keys, [(Some("a"), None), (Some("b"), Some("c")), (None, None)]);
}

#[test]
fn bad_fields_of_pods_are_refused_with_place_and_reason() {
    for (pods, told) in [
        ("image: 'a b'", "line 11: spec.pods.image: 'a b': write an image"),
        ("image: [a]", "spec.pods.image: this is to be one text"),
        ("imagePullPolicy: Sometimes", "write one of Always, IfNotPresent, Never"),
        ("imagePullSecrets: reg", "spec.pods.imagePullSecrets: this is to be a list"),
        ("imagePullSecrets: [{nam: reg}]", "spec.pods.imagePullSecrets[0].name: this is missing"),
        ("privileged: true", "spec.pods.privileged: there is no such field"),
        ("runAsUser: 0", "spec.pods.runAsUser: '0': such a pod needs no rights"),
        ("spread: wide", "spec.pods.spread: 'wide': write preferred"),
        ("resources: {requests: {cpu: 0}}", "line 11: spec.pods.resources.requests.cpu: '0': write cores"),
        ("resources: {requests: {cpu: 0.5m}}", "requests.cpu: '0.5m'"),
        (
            "resources: {requests: {cpu: 2}, limits: {cpu: 1}}",
            "line 11: spec.pods.resources.requests.cpu: this is more",
        ),
        ("resources: {limits: {memory: 10Mi}}", "limits.memory: '10Mi': such a pod takes 49 Mi"),
        ("resources: {limits: {memory: 10Zi}}", "limits.memory: '10Zi': write bytes"),
        ("resources: {limits: {gpu: 1}}", "spec.pods.resources.limits.gpu: there is no such field"),
        ("nodeSelector: {}", "spec.pods.nodeSelector: this is to be a map"),
        ("nodeSelector: {a b: c}", "spec.pods.nodeSelector.a b: this is no key of a label"),
        ("nodeSelector: {a: 'x y'}", "line 11: spec.pods.nodeSelector.a: a label has letters"),
        ("tolerations: [{key: a}]", "spec.pods.tolerations[0].value: this is missing"),
        ("tolerations: [{key: a, operator: Exists, value: b}]", "tolerations[0].value: Exists takes each value"),
        ("tolerations: [{value: b}]", "tolerations[0].key: this is missing"),
        ("tolerations: [{operator: Exists, effect: Never}]", "tolerations[0].effect: 'Never': write one of"),
    ] {
        let all = refused(&minimal(&format!("{PODS}  {pods}")));
        assert!(all.iter().any(|one| one.contains(told)), "{pods}\n{told}\n{all:?}");
    }
    let long = |letters: usize, workers: u32| {
        let spec = format!("target: http://a/\nworkers: {workers}");
        LoadTest::read(&minimal(&spec).replace("name: a", &format!("name: {}", "a".repeat(letters))))
    };
    assert!(long(52, 10).is_ok() && long(51, 100).is_ok() && long(50, 1_000).is_ok());
    for (letters, workers) in [(53, 10), (52, 100), (52, 11), (51, 1_000)] {
        let why = long(letters, workers).expect_err("too long")[0].to_string();
        assert!(why.starts_with("line 4: metadata.name: the last of its pods is nearside-aaa"), "{why}");
        assert!(why.ends_with(&format!("take {} at most", letters - 1)), "{why}");
    }
}

/// Lines changed, left out and doubled: read or refused, with a place.
#[test]
fn whatever_a_file_holds_is_read_or_refused() {
    let mut random = random::SplitMix64::new(11);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..3_000 {
        let mut bytes = WHOLE.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = b"\n:{}[]#&*!|>'\"%@ az09-"[random.below(22)],
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b' '),
                _ => {
                    let from = at.min(bytes.len() - 1);
                    let until = (from + random.below(60)).min(bytes.len());
                    let piece: Vec<u8> = bytes[from..until].to_vec();
                    bytes.splice(from..from, piece);
                }
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match LoadTest::read(&text) {
            Ok(test) => {
                read += 1;
                let _ = test.arrange(place(), &mut Folder);
            }
            Err(wrong) => {
                refused += 1;
                assert!(!wrong.is_empty() && wrong.iter().all(|one| !one.to_string().chars().any(char::is_control)));
            }
        }
    }
    assert!(read > 100 && refused > 300, "{read} {refused}");
}
