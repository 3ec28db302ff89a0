//! What articles switch off, in a folder of its own: a cluster that serves
//! must not take it by mistake.

use crate::Rendered;
use crate::text::Text;
use crate::wanted::{Profile, Version};

/// Since when there is no Grafana in the cluster.
const WITHOUT_GRAFANA: Version = Version(4, 11);

const WHY: &str = "For laboratories: on a cluster that serves, nobody sees or is told of failures.";

pub(crate) fn laboratory(profile: &Profile) -> Vec<Rendered> {
    let file = |name: &str, what: &str, text: Text| Rendered {
        path: format!("laboratory/{name}"),
        what: what.to_owned(),
        text: text.done(),
    };
    vec![
        file("monitoring.yaml", "for laboratories: no alerts, a day of measurements", monitoring(profile)),
        file(
            "network-diagnostics.yaml",
            "for laboratories: no pods that try connections",
            operator("Network", "disableNetworkDiagnostics: true"),
        ),
        file("console.yaml", "for laboratories: no console", operator("Console", "managementState: Removed")),
    ]
}

fn monitoring(profile: &Profile) -> Text {
    let mut text = Text::new();
    text.comment("", WHY)
        .line("apiVersion: v1")
        .line("kind: ConfigMap")
        .line("metadata:")
        .line("  name: cluster-monitoring-config")
        .line("  namespace: openshift-monitoring")
        .line("data:")
        .line("  config.yaml: |");
    if profile.wanted.version < WITHOUT_GRAFANA {
        text.line("    grafana:").line("      enabled: false");
    }
    text.line("    alertmanagerMain:")
        .line("      enabled: false")
        .line("    prometheusK8s:")
        .line("      retention: 24h");
    text
}

fn operator(kind: &str, line: &str) -> Text {
    let mut text = Text::new();
    text.comment("", WHY)
        .line("apiVersion: operator.openshift.io/v1")
        .line(format!("kind: {kind}"))
        .line("metadata:")
        .line("  name: cluster")
        .line("spec:")
        .line(format!("  {line}"));
    text
}
