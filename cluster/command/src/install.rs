//! The objects of Kubernetes that install the operator.

use crate::args::InstallArgs;
use manifests::{ClusterRights, InstallSetting, install, install_audits, yaml};
use say::{Failure, print};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Prints them.
///
/// # Errors
/// If they cannot be printed.
pub fn print_objects(asked: &InstallArgs) -> Result<ExitCode, Failure> {
    let setting = InstallSetting { namespace: &asked.namespace, image: &asked.image };
    let rights = if asked.explain { ClusterRights::NodesAndTuning } else { ClusterRights::Nodes };
    let all = if asked.audits { install_audits(setting, rights) } else { install(setting) };
    if asked.json {
        print!("{:#}\n", json!({ "apiVersion": "v1", "kind": "List", "items": all }));
    } else {
        print!("{}", yaml(&all.iter().collect::<Vec<&Value>>()));
    }
    Ok(ExitCode::SUCCESS)
}
