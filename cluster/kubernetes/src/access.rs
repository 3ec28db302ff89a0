//! Where a cluster is, and by what right it is asked.

use audit::yaml::{Node, documents};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Files that are named, as whoever has them reads them.
pub trait FilesOfAccess {
    /// What a file holds.
    ///
    /// # Errors
    /// Why it cannot be had.
    fn read(&mut self, path: &Path) -> Result<Vec<u8>, String>;
}

/// Where a cluster is, and by what right it is asked.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// The API server.
    pub server: Server,
    /// Certificates of who may vouch for it, in PEM; none for those that the machine has.
    pub roots: Option<Vec<u8>>,
    /// By what right it is asked.
    pub credentials: Credentials,
    /// The namespace, where one is said.
    pub namespace: Option<String>,
}

/// An API server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Whether it is asked over TLS.
    pub tls: bool,
    /// Its name or address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What stands before each path; nothing or `/…` without a slash at its end.
    pub prefix: String,
}

/// By what right a server is asked.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// None: whoever is asked, as `kubectl proxy`, has some.
    None,
    /// A token.
    Token(String),
    /// A file with a token, which is written anew from time to time.
    TokenFile(PathBuf),
    /// A certificate and its key, in PEM.
    Certificate {
        /// The chain.
        chain: Vec<u8>,
        /// The key.
        key: Vec<u8>,
    },
    /// What a program says when it is run.
    Program {
        /// The program and its arguments.
        words: Vec<String>,
        /// Variables for its environment.
        variables: Vec<(String, String)>,
    },
}

/// Of credentials nothing is shown but their kind.
impl core::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Token(_) => "Token",
            Self::TokenFile(_) => "TokenFile",
            Self::Certificate { .. } => "Certificate",
            Self::Program { .. } => "Program",
        })
    }
}

/// What a pod finds of its own account.
#[derive(Clone, Copy, Debug)]
pub struct ServiceAccount<'a> {
    /// `KUBERNETES_SERVICE_HOST`.
    pub host: &'a str,
    /// `KUBERNETES_SERVICE_PORT`.
    pub port: &'a str,
    /// The folder with `token`, `ca.crt` and `namespace`.
    pub folder: &'a Path,
}

impl Access {
    /// Reads a kubeconfig file, which lies in `folder`: its current context, or the one that is named.
    ///
    /// # Errors
    /// What of it is wrong or missing, in words for the user.
    pub fn read(
        text: &str,
        context: Option<&str>,
        folder: &Path,
        files: &mut dyn FilesOfAccess,
    ) -> Result<Self, String> {
        let documents = documents(text).map_err(|why| why.to_string())?;
        let [document] = &documents[..] else { return Err("this is no kubeconfig file".to_owned()) };
        let context = context.or_else(|| document.text_at("current-context"));
        let context = context.ok_or("it has no current context: --context NAME says which to take")?;
        let place = named(document, "contexts", context)?;
        let context = place.get("context").ok_or_else(|| format!("the context {context} says nothing"))?;
        let cluster = context.text_at("cluster").ok_or("the context names no cluster")?;
        let cluster = named(document, "clusters", cluster)?;
        let cluster = cluster.get("cluster").ok_or("the cluster says nothing")?;
        let url = cluster.text_at("server").ok_or("the cluster has no server")?;
        if cluster.text_at("insecure-skip-tls-verify") == Some("true") {
            let why = "insecure-skip-tls-verify: whoever answered would get the credentials: give \
                       certificate-authority, or have `kubectl proxy` ask";
            return Err(why.to_owned());
        }
        let roots = read_field(cluster, "certificate-authority", folder, files)?;
        let credentials = match context.text_at("user") {
            None => Credentials::None,
            Some(user) => {
                let place = named(document, "users", user)?;
                place.get("user").map_or(Ok(Credentials::None), |user| credentials(user, folder, files))?
            }
        };
        let namespace = context.text_at("namespace").map(str::to_owned);
        Ok(Self { server: Server::read(url)?, roots, credentials, namespace })
    }

    /// That of a pod's own account.
    ///
    /// # Errors
    /// What of it is missing.
    pub fn of_account(account: ServiceAccount<'_>, files: &mut dyn FilesOfAccess) -> Result<Self, String> {
        let port = account.port.parse().map_err(|_| format!("KUBERNETES_SERVICE_PORT: {} is no port", account.port))?;
        let roots = files.read(&account.folder.join("ca.crt"))?;
        let namespace = files.read(&account.folder.join("namespace"))?;
        let namespace = String::from_utf8_lossy(&namespace).trim().to_owned();
        let host = account.host.trim_matches(['[', ']']).to_owned();
        Ok(Self {
            server: Server { tls: true, host, port, prefix: String::new() },
            roots: Some(roots),
            credentials: Credentials::TokenFile(account.folder.join("token")),
            namespace: Some(namespace).filter(|name| !name.is_empty()),
        })
    }
}

impl Server {
    /// Reads a URL of `https://`, or `http://` as `kubectl proxy` has it.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(url: &str) -> Result<Self, String> {
        let wrong = || format!("{url:?} is no URL as in https://10.0.0.1:6443");
        let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong()),
        };
        let fits = rest.bytes().all(|byte| byte.is_ascii_graphic()) && !rest.contains(['@', '?', '#']);
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let usual = if tls { 443 } else { 80 };
        let port = port.map_or(Some(usual), |text| text.parse().ok().filter(|port| *port > 0));
        match port.filter(|_| fits && !host.is_empty()) {
            Some(port) => {
                Ok(Self { tls, host: host.to_owned(), port, prefix: prefix.trim_end_matches('/').to_owned() })
            }
            None => Err(wrong()),
        }
    }

    /// What the field Host says.
    #[must_use]
    pub fn authority(&self) -> String {
        let brackets = self.host.contains(':');
        if brackets { format!("[{}]:{}", self.host, self.port) } else { format!("{}:{}", self.host, self.port) }
    }
}

/// The place of this name in a list of a kubeconfig file.
fn named<'a>(document: &'a Node, list: &str, name: &str) -> Result<&'a Node, String> {
    let places = document.get(list).map(Node::list).unwrap_or_default();
    let found = places.iter().find(|place| place.text_at("name") == Some(name));
    found.ok_or_else(|| format!("there is no {name} among its {list}"))
}

/// What a field holds in base64 (`…-data`), or names as a file.
fn read_field(
    node: &Node,
    field: &str,
    folder: &Path,
    files: &mut dyn FilesOfAccess,
) -> Result<Option<Vec<u8>>, String> {
    if let Some(text) = node.text_at(&format!("{field}-data")) {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| format!("{field}-data is no base64"))?;
        return Ok(Some(bytes));
    }
    node.text_at(field).map(|file| files.read(&folder.join(file))).transpose()
}

fn credentials(user: &Node, folder: &Path, files: &mut dyn FilesOfAccess) -> Result<Credentials, String> {
    let chain = read_field(user, "client-certificate", folder, files)?;
    let key = read_field(user, "client-key", folder, files)?;
    match (chain, key) {
        (Some(chain), Some(key)) => return Ok(Credentials::Certificate { chain, key }),
        (None, None) => {}
        _ => return Err("a client's certificate and its key belong together, and one is missing".to_owned()),
    }
    if let Some(token) = user.text_at("token") {
        return Ok(Credentials::Token(token.to_owned()));
    }
    if let Some(file) = user.text_at("tokenFile") {
        return Ok(Credentials::TokenFile(folder.join(file)));
    }
    let Some(exec) = user.get("exec") else {
        let known = user.map().is_empty();
        let why =
            "its user is known by none of client-certificate, token, tokenFile and exec: have `kubectl proxy` ask";
        return if known { Ok(Credentials::None) } else { Err(why.to_owned()) };
    };
    let command = exec.text_at("command").ok_or("exec has no command")?;
    let arguments = exec.get("args").map(Node::list).unwrap_or_default();
    let words = core::iter::once(command).chain(arguments.iter().filter_map(Node::text)).map(str::to_owned).collect();
    let variables = exec.get("env").map(Node::list).unwrap_or_default();
    let variable = |place: &Node| Some((place.text_at("name")?.to_owned(), place.text_at("value")?.to_owned()));
    let mut variables: Vec<(String, String)> = variables.iter().filter_map(variable).collect();
    let version = exec.text_at("apiVersion").unwrap_or("client.authentication.k8s.io/v1");
    let asked = json!({ "apiVersion": version, "kind": "ExecCredential", "spec": { "interactive": false } });
    variables.push(("KUBERNETES_EXEC_INFO".to_owned(), asked.to_string()));
    Ok(Credentials::Program { words, variables })
}
