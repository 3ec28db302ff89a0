//! Where clusters are, what pods' statuses say, and questions to a server that answers well and badly.

use control::Gone;
use kubernetes::{Access, ApiError, Client, Credentials, FilesOfAccess, Method, Server, ServiceAccount, fate};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

struct Files;

impl FilesOfAccess for Files {
    fn read(&mut self, path: &Path) -> Result<Vec<u8>, String> {
        match path.to_str() {
            Some("/known/kube/ca.crt" | "/account/ca.crt") => Ok(b"a root".to_vec()),
            Some("/account/namespace") => Ok(b"load\n".to_vec()),
            other => Err(format!("{other:?} is not there")),
        }
    }
}

const CONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: one
  cluster: {server: 'https://[fd00::1]:6443', certificate-authority: ca.crt}
- name: two
  cluster: {server: 'https://two.example/k8s/', certificate-authority-data: YSByb290}
- name: bad
  cluster: {server: 'https://bad.example', insecure-skip-tls-verify: true}
- name: proxy
  cluster: {server: 'http://127.0.0.1:8001'}
contexts:
- name: dev
  context: {cluster: one, user: token, namespace: load}
- {name: prod, context: {cluster: two, user: certificate}}
- {name: eks, context: {cluster: two, user: program}}
- {name: bad, context: {cluster: bad, user: token}}
- {name: proxy, context: {cluster: proxy}}
- {name: lost, context: {cluster: three, user: token}}
- {name: half, context: {cluster: two, user: half}}
- {name: old, context: {cluster: two, user: old}}
users:
- {name: token, user: {token: secret}}
- {name: certificate, user: {client-certificate-data: Yw==, client-key-data: aw==}}
- {name: half, user: {client-certificate-data: Yw==}}
- {name: old, user: {auth-provider: {name: gcp}}}
- name: program
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: aws
      args: [eks, get-token]
      env: [{name: AWS_PROFILE, value: load}]
";

fn read(context: Option<&str>) -> Result<Access, String> {
    Access::read(CONFIG, context, Path::new("/known/kube"), &mut Files)
}

#[test]
fn a_kubeconfig_says_where_a_cluster_is_and_by_what_right_it_is_asked() {
    let dev = read(None).unwrap_or_else(|why| panic!("{why}"));
    let server = Server { tls: true, host: "fd00::1".to_owned(), port: 6_443, prefix: String::new() };
    assert!(dev.server == server && dev.server.authority() == "[fd00::1]:6443");
    assert!(dev.roots.as_deref() == Some(b"a root") && dev.namespace.as_deref() == Some("load"));
    assert!(dev.credentials == Credentials::Token("secret".to_owned()));
    assert_eq!(format!("{:?}", dev.credentials), "Token");
    let prod = read(Some("prod")).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!((prod.server.port, prod.server.prefix.as_str()), (443, "/k8s"));
    let certificate = Credentials::Certificate { chain: b"c".to_vec(), key: b"k".to_vec() };
    assert!(prod.roots.as_deref() == Some(b"a root") && prod.credentials == certificate);
    let eks = read(Some("eks")).unwrap_or_else(|why| panic!("{why}"));
    let Credentials::Program { words, variables } = eks.credentials else { panic!("no program") };
    assert_eq!(words, ["aws", "eks", "get-token"]);
    assert_eq!(variables[0], ("AWS_PROFILE".to_owned(), "load".to_owned()));
    assert!(variables[1].1.contains("client.authentication.k8s.io/v1beta1"), "{variables:?}");
    assert!(read(Some("proxy")).is_ok_and(|proxy| !proxy.server.tls && proxy.credentials == Credentials::None));
    for (context, told) in [
        ("none", "there is no none among its contexts"),
        ("lost", "there is no three among its clusters"),
        ("bad", "insecure-skip-tls-verify: whoever answered"),
        ("half", "belong together, and one is missing"),
        ("old", "have `kubectl proxy` ask"),
    ] {
        let why = read(Some(context)).err().expect(context);
        assert!(why.contains(told), "{context}: {why}");
    }
    let account = ServiceAccount { host: "10.0.0.1", port: "443", folder: Path::new("/account") };
    let own = Access::of_account(account, &mut Files).unwrap_or_else(|why| panic!("{why}"));
    assert!(own.credentials == Credentials::TokenFile(PathBuf::from("/account/token")));
    assert_eq!((own.namespace.as_deref(), own.server.authority().as_str()), (Some("load"), "10.0.0.1:443"));
    for bad in ["", "- a", "a: [", "contexts: 7\ncurrent-context: x", "current-context: [x]"] {
        assert!(Access::read(bad, None, Path::new("/"), &mut Files).is_err(), "{bad}");
    }
    for bad in ["ftp://a", "https://", "https://a:0", "https://a b", "https://u@a", "https://[::1", "https://a?x"] {
        assert!(Server::read(bad).is_err(), "{bad}");
    }
}

fn pod(status: Value) -> Value {
    json!({ "metadata": { "annotations": { "batch.kubernetes.io/job-completion-index": "7" } }, "status": status })
}

fn ended(state: Value) -> Value {
    pod(json!({ "phase": "Failed", "containerStatuses": [{ "state": state }] }))
}

#[test]
fn a_pods_status_says_how_its_worker_ended_or_why_it_does_not_begin() {
    let unschedulable = json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/2 nodes are available: 2 Insufficient cpu.",
    }] });
    let waits = |reason: &str| {
        pod(json!({ "containerStatuses": [{ "state": { "waiting": { "reason": reason, "message": "m" } } }] }))
    };
    let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler" });
    let disrupted = json!({ "phase": "Failed", "conditions": [condition],
        "containerStatuses": [{ "state": { "terminated": { "exitCode": 143 } } }] });
    for (pod, gone, words) in [
        (ended(json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } })), Gone::OutOfMemory, "OOMKilled"),
        (
            ended(json!({ "terminated": { "exitCode": 137, "reason": "Error", "message": "x" } })),
            Gone::Signal(9),
            "Error: x",
        ),
        (ended(json!({ "terminated": { "exitCode": 0, "signal": 15 } })), Gone::Signal(15), ""),
        (ended(json!({ "terminated": { "exitCode": 2, "reason": "Error" } })), Gone::Code(2), "Error"),
        (
            ended(json!({ "terminated": { "exitCode": 128, "reason": "StartError", "message": "no nearside" } })),
            Gone::NotStarted,
            "StartError: no nearside",
        ),
        (
            pod(json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" })),
            Gone::Evicted,
            "Evicted: low on memory",
        ),
        (
            pod(json!({ "phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough" })),
            Gone::NotStarted,
            "OutOfcpu: Node didn't have enough",
        ),
        (pod(json!({ "phase": "Succeeded" })), Gone::Code(0), ""),
        (pod(disrupted), Gone::Evicted, "PreemptionByScheduler"),
        (pod(unschedulable), Gone::NotStarted, "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu."),
        (waits("ImagePullBackOff"), Gone::NotStarted, "ImagePullBackOff: m"),
        (waits("CreateContainerConfigError"), Gone::NotStarted, "CreateContainerConfigError: m"),
    ] {
        let fate = fate(&pod).unwrap_or_else(|| panic!("{pod}"));
        assert_eq!((fate.worker, fate.gone, fate.words.as_str()), (7, gone, words), "{pod}");
        let waits = ["Unschedulable", "ImagePullBackOff", "CreateContainerConfigError"];
        assert_eq!(fate.may_pass, waits.iter().any(|reason| words.starts_with(reason)), "{pod}");
    }
    let mut deleted = pod(json!({ "phase": "Running" }));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-30T08:00:00Z");
    assert_eq!(fate(&deleted).map(|fate| fate.gone), Some(Gone::Evicted));
    for alive in [
        waits("ContainerCreating"),
        waits("PodInitializing"),
        pod(json!({ "phase": "Running", "containerStatuses": [{ "state": { "running": {} } }] })),
        pod(json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "True" }] })),
        pod(Value::Null),
        pod(json!({ "containerStatuses": 7, "conditions": "x" })),
        json!({ "status": { "phase": "Succeeded" } }),
        json!([]),
    ] {
        assert_eq!(fate(&alive), None, "{alive}");
    }
}

/// A server that answers one question with these bytes; what it was asked.
fn server(answer: &'static [u8]) -> (Client, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let server = Server { tls: false, host: "127.0.0.1".to_owned(), port, prefix: "/p".to_owned() };
    let access = Access { server, roots: None, credentials: Credentials::Token("xyz".to_owned()), namespace: None };
    let serves = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody came");
        let (mut asked, mut bytes) = (Vec::new(), [0; 4_096]);
        loop {
            let text = String::from_utf8_lossy(&asked).into_owned();
            let length =
                text.split("Content-Length: ").nth(1).and_then(|rest| rest.split('\r').next()?.parse::<usize>().ok());
            if text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length.unwrap_or(0)) {
                break;
            }
            let read = stream.read(&mut bytes).expect("open");
            assert!(read > 0, "{text}");
            asked.extend_from_slice(&bytes[..read]);
        }
        stream.write_all(answer).expect("it is open");
        String::from_utf8(asked).expect("text")
    });
    (Client::new(access).unwrap_or_else(|why| panic!("{why}")), serves)
}

#[test]
fn a_question_has_an_answer_or_a_refusal_with_its_reason() {
    let (client, asked) =
        server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{\"a\":1\r\n1\r\n}\r\n0\r\n\r\n");
    assert_eq!(client.call(Method::Patch, "/api/x", Some(&json!({ "b": 2 }))), Ok(json!({ "a": 1 })));
    let asked = asked.join().expect("no panic");
    assert!(asked.starts_with("PATCH /p/api/x HTTP/1.1\r\nHost: 127.0.0.1:"), "{asked}");
    assert!(asked.contains("Authorization: Bearer xyz\r\n") && asked.ends_with("\r\n\r\n{\"b\":2}"), "{asked}");
    assert!(asked.contains("Content-Type: application/merge-patch+json\r\n"), "{asked}");
    let (client, _asked) = server(
        b"HTTP/1.1 409 Conflict\r\nContent-Length: 60\r\n\r\n\
          {\"reason\":\"AlreadyExists\",\"message\":\"jobs a already exists\"}",
    );
    let why = client.call(Method::Post, "/x", Some(&json!({}))).expect_err("refused");
    assert!(
        why.is_conflict() && !why.may_pass() && why.to_string() == "jobs a already exists (409 AlreadyExists)",
        "{why}"
    );
    for (answer, may_pass, told) in [
        (&b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"[..], true, "the API server refuses (503 )"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbusy", true, "its answer is no JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", true, "cannot be asked"),
        (b"SSH-2.0-OpenSSH_9\r\n", true, "it speaks no HTTP"),
        (b"", true, "cannot be asked"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", false, "404"),
    ] {
        let (client, _asked) = server(answer);
        let why = client.call(Method::Get, "/x", None).expect_err(told);
        assert!(why.to_string().contains(told) && why.may_pass() == may_pass, "{told}: {why}");
        assert_eq!(why.is_missing(), told == "404");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
    let server = Server { tls: false, host: "127.0.0.1".to_owned(), port: nobody, prefix: String::new() };
    let access = Access { server, roots: None, credentials: Credentials::None, namespace: None };
    let client = Client::new(access).unwrap_or_else(|why| panic!("{why}"));
    assert!(matches!(client.call(Method::Get, "/x", None), Err(ApiError::Unreachable(_))));
}

#[test]
fn a_program_for_credentials_is_run_and_one_that_says_none_is_refused() {
    let client = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let credentials = Credentials::Program { words, variables: vec![("WORD".to_owned(), "abc".to_owned())] };
        let server = Server { tls: false, host: "127.0.0.1".to_owned(), port: 1, prefix: String::new() };
        Client::new(Access { server, roots: None, credentials, namespace: None }).map(|_| ())
    };
    assert_eq!(client(&["sh", "-c", "echo '{\"status\":{\"token\":\"'$WORD'\"}}'"]), Ok(()));
    for (words, told) in [
        (&["sh", "-c", "echo '{\"status\":{}}'"][..], "said no token"),
        (&["sh", "-c", "echo nonsense"], "it said no credentials"),
        (&["sh", "-c", "echo []"], "said no token"),
        (&["sh", "-c", "exit 3"], "exit status: 3"),
        (&["/nonexistent/program"], "No such file"),
        (&[], "there is no program"),
    ] {
        let why = client(words).expect_err(told);
        assert!(why.contains(told), "{told}: {why}");
    }
}
