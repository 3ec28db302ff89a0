//! Manifests before a real API server, which refuses what it does not know.
//!
//! It takes what nothing of is in this repository: `NEARSIDE_APISERVER`, a
//! kube-apiserver (the Go module `k8s.io/kubernetes`, its package
//! `cmd/kube-apiserver`, with each `k8s.io` module that it replaces by
//! `./staging` at the version v0.N.P that goes with its own v1.N.P);
//! `NEARSIDE_CRDS`, a folder with the definitions of OpenShift's kinds
//! (`manifests` of cluster-node-tuning-operator; of machineconfiguration,
//! console and network in `openshift/api`; of the SR-IOV and PTP operators), in
//! which folders by the names of versions, as `4.16`, may have those of each;
//! and on the PATH etcd (or `NEARSIDE_ETCD`), curl and openssl. Without them
//! this is left out.

use super::{definition_sets, definitions_in, each_manifest};
use audit::yaml::documents;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Looks at what comes up, 100 ms apart, before it counts as never coming.
const LOOKS: usize = 1_200;
const TOKEN: &str = "of-this-test-only";

/// The two programs, gone with the value.
struct Server {
    folder: PathBuf,
    programs: Vec<Child>,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        for program in self.programs.iter_mut().rev() {
            let _ = program.kill();
            let _ = program.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port()
}

impl Server {
    fn start(program: &Path, etcd: &Path) -> Self {
        let folder = std::env::temp_dir().join(format!("nearside-apiserver-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a temporary folder");
        let mut server = Self { folder, programs: Vec::new(), port: free_port() };
        let store = format!("http://127.0.0.1:{}", free_port());
        let peer = format!("http://127.0.0.1:{}", free_port());
        let mut command = Command::new(etcd);
        command.arg("--data-dir").arg(server.folder.join("etcd")).args(["--listen-client-urls", &store]);
        command.args(["--advertise-client-urls", &store, "--listen-peer-urls", &peer]);
        server.run(&mut command, "etcd");
        let key = server.folder.join("key");
        let made = Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048").output().expect("openssl");
        assert!(made.status.success(), "openssl genrsa");
        let tokens = server.folder.join("tokens");
        fs::write(&tokens, format!("{TOKEN},admin,admin,\"system:masters\"\n")).expect("a file");
        let mut command = Command::new(program);
        command.args(["--etcd-servers", &store, "--bind-address", "127.0.0.1"]);
        command.args(["--secure-port", &server.port.to_string(), "--service-cluster-ip-range", "10.255.0.0/24"]);
        command.arg("--cert-dir").arg(server.folder.join("certificates")).arg("--token-auth-file").arg(tokens);
        command.arg("--service-account-key-file").arg(&key).arg("--service-account-signing-key-file").arg(&key);
        command.args([
            "--service-account-issuer",
            "https://localhost",
            "--disable-admission-plugins",
            "ServiceAccount",
        ]);
        server.run(&mut command, "kube-apiserver");
        for _ in 0..LOOKS {
            if server.ask("GET", "/readyz", None).0 == "200" {
                return server;
            }
            sleep(Duration::from_millis(100));
        }
        panic!("it does not come up: {}", server.said("kube-apiserver"));
    }

    fn run(&mut self, command: &mut Command, name: &str) {
        let log = File::create(self.folder.join(name).with_extension("log")).expect("a file");
        let other = log.try_clone().expect("a file");
        let child = command.stdin(Stdio::null()).stdout(log).stderr(other).spawn();
        self.programs.push(child.unwrap_or_else(|why| panic!("{name}: {why}")));
    }

    fn said(&self, name: &str) -> String {
        let text = fs::read_to_string(self.folder.join(name).with_extension("log")).unwrap_or_default();
        text.lines().rev().take(10).collect::<Vec<_>>().join("\n")
    }

    /// Status and answer.
    fn ask(&self, method: &str, path: &str, body: Option<&str>) -> (String, String) {
        let file = self.folder.join("body");
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--insecure",
            "--max-time",
            "60",
            "--write-out",
            "\n%{http_code}",
            "--request",
            method,
        ]);
        command.args(["--header", &format!("Authorization: Bearer {TOKEN}")]);
        if let Some(body) = body {
            fs::write(&file, body).expect("a file");
            command.args(["--header", "Content-Type: application/yaml", "--data-binary"]);
            command.arg(format!("@{}", file.display()));
        }
        let output = command.arg(format!("https://127.0.0.1:{}{path}", self.port)).output().expect("curl");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (answer, status) = text.rsplit_once('\n').unwrap_or(("", "000"));
        (status.to_owned(), answer.to_owned())
    }

    /// Makes an object that others need.
    fn make(&self, path: &str, text: &str) {
        let (status, answer) = self.ask("POST", path, Some(text));
        assert_eq!(status, "201", "{path}: {answer}");
    }

    /// Whether an object would be taken, as it is, and why not.
    fn takes(&self, kinds: &BTreeMap<String, String>, text: &str) -> Result<(), String> {
        let document = documents(text).map_err(|why| why.to_string())?.remove(0);
        let text_at = |path: &str| document.text_at(path).unwrap_or_default().to_owned();
        let (version, kind) = (text_at("apiVersion"), text_at("kind"));
        let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let plural = kinds.get(&kind).ok_or_else(|| format!("no definition of {kind}"))?;
        let namespace = match (kind.as_str(), text_at("metadata.namespace")) {
            ("Pod", namespace) if namespace.is_empty() => "/namespaces/default".to_owned(),
            (_, namespace) if namespace.is_empty() => String::new(),
            (_, namespace) => format!("/namespaces/{namespace}"),
        };
        let path = format!("{root}{namespace}/{plural}?dryRun=All&fieldValidation=Strict");
        match self.ask("POST", &path, Some(text)) {
            (status, _) if status == "201" => Ok(()),
            (status, answer) => Err(format!("{status} {path}: {answer}")),
        }
    }
}

/// The definitions, and the plural of each kind.
fn defined(server: &Server, folder: &Path) -> BTreeMap<String, String> {
    let built_in = [("Pod", "pods"), ("ConfigMap", "configmaps"), ("RuntimeClass", "runtimeclasses")];
    let mut kinds: BTreeMap<String, String> =
        built_in.iter().map(|(kind, plural)| ((*kind).to_owned(), (*plural).to_owned())).collect();
    let mut waited = Vec::new();
    for (definition, text) in definitions_in(folder) {
        let at = |path: &str| definition.text_at(path).unwrap_or_default().to_owned();
        let text = text.trim_start_matches("---\n");
        server.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", text);
        kinds.insert(at("spec.names.kind"), at("spec.names.plural"));
        waited.push(at("metadata.name"));
    }
    for name in waited {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let established = |answer: &str| {
            let dense: String = answer.split_whitespace().collect();
            dense.contains("\"type\":\"Established\",\"status\":\"True\"")
        };
        let up = (0..LOOKS).any(|_| {
            let up = established(&server.ask("GET", &path, None).1);
            if !up {
                sleep(Duration::from_millis(100));
            }
            up
        });
        assert!(up, "{name} is not established");
    }
    kinds
}

/// What others need, and the definitions: the plural of each kind.
fn prepare(server: &Server, folder: &Path) -> BTreeMap<String, String> {
    for namespace in [
        "openshift-cluster-node-tuning-operator",
        "openshift-monitoring",
        "openshift-sriov-network-operator",
        "openshift-ptp",
    ] {
        let text = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n");
        server.make("/api/v1/namespaces", &text);
    }
    // The operator makes it; a pod that names it needs it.
    let class = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: performance-fast}\n\
                 handler: high-performance\n";
    server.make("/apis/node.k8s.io/v1/runtimeclasses", class);
    defined(server, folder)
}

/// The object with a field that its kind does not have, in it and in what it is to be.
fn spoilt(text: &str) -> (String, Vec<&'static str>) {
    let spec = text.contains("\nspec:\n");
    let inner = text.replacen("\nspec:\n", "\nspec:\n  unheardOf: 1\n", 1);
    let names = if spec { vec!["\"unheardOf", "\"spec.unheardOf"] } else { vec!["\"unheardOf"] };
    (format!("{}\nunheardOf: 1\n", inner.trim_end()), names)
}

#[test]
fn a_real_api_server_takes_every_manifest_under_strict_validation() {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (Some(program), Some(sets)) = (path("NEARSIDE_APISERVER"), definition_sets()) else {
        return println!("left out: NEARSIDE_APISERVER and NEARSIDE_CRDS name no kube-apiserver and no definitions");
    };
    let etcd = path("NEARSIDE_ETCD").unwrap_or_else(|| "etcd".into());
    for (version, folder) in sets {
        let server = Server::start(&program, &etcd);
        let kinds = prepare(&server, &folder);
        let (mut taken, mut other) = (0, 0);
        let mut refused = BTreeSet::new();
        each_manifest(version, |told, path, text| {
            let kind = documents(text).expect("YAML").remove(0).text_at("kind").unwrap_or_default().to_owned();
            // A version's own folder may lack what was of another operator then.
            if version.is_some() && !kinds.contains_key(&kind) {
                other += 1;
                return;
            }
            assert_eq!(server.takes(&kinds, text), Ok(()), "{told}, by {}", folder.display());
            taken += 1;
            if refused.insert((path.to_owned(), kind)) {
                let (text, names) = spoilt(text);
                let why = server.takes(&kinds, &text).expect_err("an unknown field");
                let named = names.iter().all(|name| why.contains(&name.replace('"', "\\\"")));
                assert!(why.contains("unknown field") && named, "{told}: {why}");
            }
        });
        let (folder, spoilt) = (folder.display(), refused.len());
        println!("{folder}: {taken} objects were taken, {spoilt} with an unknown field refused, {other} of no kind");
        assert!(spoilt >= 8, "definitions are missing: {refused:?}");
    }
}
