//! How a cluster is reached, and secrets that it has.

use crate::local::{SpecFolder, read_at_most};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubernetes::{Access, ApiError, Client, FilesOfAccess, Method, ServiceAccount};
use spec::{Files, SecretKey};
use std::path::{Path, PathBuf};

/// Where a pod finds its own account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The longest file that says where a cluster is, or a certificate.
const FILE_LIMIT: usize = 4 << 20;

/// A client of the cluster that the user means, and the namespace that goes with it: by `--kubeconfig`, by
/// `KUBECONFIG`, by a pod's own account, or by `~/.kube/config`.
///
/// # Errors
/// What is missing or wrong, in words for the user.
pub fn reach(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<(Client, Option<String>), String> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    // The first of several that is there: they are not made one.
    let listed = variable("KUBECONFIG").map(|value| std::env::split_paths(&value).collect::<Vec<PathBuf>>());
    let listed = listed.and_then(|all| all.iter().find(|file| file.exists()).or(all.first()).cloned());
    let named = kubeconfig.map(Path::to_owned).or(listed);
    let host = std::env::var("KUBERNETES_SERVICE_HOST").unwrap_or_default();
    let access = if named.is_none() && context.is_none() && !host.is_empty() {
        let port = std::env::var("KUBERNETES_SERVICE_PORT").unwrap_or_else(|_| "443".to_owned());
        let account = ServiceAccount { host: &host, port: &port, folder: Path::new(ACCOUNT) };
        Access::of_account(account, &mut Disk)?
    } else {
        let home = variable("HOME").map(|home| Path::new(&home).join(".kube/config"));
        let file = named.or(home).ok_or("no cluster is known: --kubeconfig FILE says where one is")?;
        let told = |why: String| format!("{}: {why}", file.display());
        let text = String::from_utf8(Disk.read(&file)?).map_err(|_| told("it is no UTF-8".to_owned()))?;
        Access::read(&text, context, file.parent().unwrap_or(Path::new("")), &mut Disk).map_err(told)?
    };
    let namespace = access.namespace.clone();
    Ok((Client::new(access)?, namespace))
}

struct Disk;

impl FilesOfAccess for Disk {
    fn read(&mut self, path: &Path) -> Result<Vec<u8>, String> {
        read_at_most(path, FILE_LIMIT).map_err(|why| format!("{}: {why}", path.display()))
    }
}

/// What a test names: data beside it, secrets where the user says, or those of the cluster.
pub struct ClusterFiles<'a> {
    /// The test's folder.
    pub folder: &'a mut SpecFolder,
    /// The cluster.
    pub client: &'a Client,
    /// Where its secrets are.
    pub namespace: &'a str,
}

impl Files for ClusterFiles<'_> {
    fn secret(&mut self, key: &SecretKey) -> Result<String, String> {
        if self.folder.secrets.is_some() {
            return self.folder.secret(key);
        }
        secret_of(self.client, self.namespace, key)
    }

    fn data(&mut self, file: &str) -> Result<Vec<u8>, String> {
        self.folder.data(file)
    }
}

/// The value of a secret's key in a namespace.
///
/// # Errors
/// Why it cannot be had; a sentence without its value.
pub fn secret_of(client: &Client, namespace: &str, key: &SecretKey) -> Result<String, String> {
    let SecretKey { secret, key } = key;
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{secret}");
    let found = client.call(Method::Get, &path, None).map_err(|why| match why {
        ApiError::Refused { status: 404, .. } => format!("there is no secret {secret} in the namespace {namespace}"),
        other => format!("the secret {secret}: {other}"),
    })?;
    let value = found["data"][key].as_str().ok_or_else(|| format!("the secret {secret} has no key {key}"))?;
    let bytes = STANDARD.decode(value).map_err(|_| format!("the key {key} of the secret {secret} is no base64"))?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| format!("the key {key} of the secret {secret} is no UTF-8"))?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}
