//! What the Node Tuning Operator's admission webhook refuses of a
//! PerformanceProfile: nothing of such a one reaches a node.
//! Source: `performance.openshift.io/v2`, its schema and validation.

use super::objects::Manifest;
use crate::evidence::cpu_list;
use crate::yaml::{Node, Value};

/// Sizes of pages that nodes of any processor may have.
const SIZES: [&str; 6] = ["2M", "1G", "64k", "32M", "512M", "16G"];
const POLICIES: [&str; 4] = ["none", "best-effort", "restricted", "single-numa-node"];

/// What a field of the profile's schema holds.
#[derive(Clone, Copy)]
enum Form {
    /// Fields of its own.
    Map,
    List,
    /// A list of texts.
    Texts,
    Text,
    /// `true` or `false`.
    Truth,
}

/// The schema's fields, by the path below `spec`.
const FORMS: [(&str, Form); 31] = [
    ("cpu", Form::Map),
    ("cpu.reserved", Form::Text),
    ("cpu.isolated", Form::Text),
    ("cpu.offlined", Form::Text),
    ("cpu.shared", Form::Text),
    ("cpu.ovsDpdk", Form::Text),
    ("cpu.balanceIsolated", Form::Truth),
    ("hardwareTuning", Form::Map),
    ("hugepages", Form::Map),
    ("hugepages.defaultHugepagesSize", Form::Text),
    ("hugepages.pages", Form::List),
    ("machineConfigLabel", Form::Map),
    ("machineConfigPoolSelector", Form::Map),
    ("nodeSelector", Form::Map),
    ("realTimeKernel", Form::Map),
    ("realTimeKernel.enabled", Form::Truth),
    ("kernelPageSize", Form::Text),
    ("additionalKernelArgs", Form::Texts),
    ("numa", Form::Map),
    ("numa.topologyPolicy", Form::Text),
    ("net", Form::Map),
    ("net.userLevelNetworking", Form::Truth),
    ("net.devices", Form::List),
    ("globallyDisableIrqLoadBalancing", Form::Truth),
    ("workloadHints", Form::Map),
    ("workloadHints.highPowerConsumption", Form::Truth),
    ("workloadHints.realTime", Form::Truth),
    ("workloadHints.perPodPowerManagement", Form::Truth),
    ("workloadHints.mixedCpus", Form::Truth),
    ("hardwareTuning.isolatedCpuFreq", Form::Text),
    ("hardwareTuning.reservedCpuFreq", Form::Text),
];

impl Form {
    fn fits(self, node: &Node) -> bool {
        match (self, &node.value) {
            // What is empty is not there.
            (_, Value::Scalar(text)) if text.is_empty() => true,
            (Self::Map, Value::Map(_)) | (Self::List, Value::List(_)) => true,
            (Self::Texts, Value::List(list)) => list.iter().all(|one| one.text().is_some()),
            (Self::Text, Value::Scalar(_) | Value::Block(_)) => true,
            (Self::Truth, Value::Scalar(text)) => matches!(text.as_str(), "true" | "false"),
            _ => false,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Map => "fields of its own",
            Self::List => "a list",
            Self::Texts => "a list of texts",
            Self::Text => "a text",
            Self::Truth => "true or false",
        }
    }
}

fn forms(spec: &Node, found: &mut Found<'_>) {
    if !Form::Map.fits(spec) {
        found.push((spec.line, "spec", format!("it is not {}", Form::Map.name())));
    }
    for (path, form) in FORMS {
        if let Some(node) = spec.at(path).filter(|node| !form.fits(node)) {
            found.push((node.line, path, format!("it is not {}", form.name())));
        }
    }
    for (path, item) in [("hugepages.pages", "a page"), ("net.devices", "a device")] {
        for node in spec.at(path).map_or(&[][..], Node::list) {
            if !Form::Map.fits(node) {
                found.push((node.line, path, format!("{item} is not {}", Form::Map.name())));
            }
        }
    }
}

/// Adds a fault for a profile that says nothing.
pub(super) fn without_spec(manifest: &mut Manifest<'_>, name: &str, object: &Node) {
    let text = format!("PerformanceProfile {name}: spec");
    let why = "the operator refuses the profile: spec, with cpu and nodeSelector, is required";
    manifest.advice.fault(manifest.file, object.line, &text, why, None);
}

/// Adds a fault for each reason for which the profile is refused.
pub(super) fn refusals(manifest: &mut Manifest<'_>, name: &str, spec: &Node) {
    let mut found: Vec<(usize, &str, String)> = Vec::new();
    forms(spec, &mut found);
    cores(spec, &mut found);
    selectors(spec, &mut found);
    pages(spec, &mut found);
    hints(spec, &mut found);
    devices(spec, &mut found);
    for (line, field, why) in found {
        let text = format!("PerformanceProfile {name}: {field}");
        manifest.advice.fault(manifest.file, line, &text, &format!("the operator refuses the profile: {why}"), None);
    }
}

type Found<'a> = Vec<(usize, &'a str, String)>;

fn cores(spec: &Node, found: &mut Found<'_>) {
    let Some(cpu) = spec.get("cpu") else {
        return found.push((spec.line, "cpu", "spec.cpu is required".to_owned()));
    };
    let mut sets: Vec<(&str, Vec<u32>)> = Vec::new();
    for (field, side, required) in [
        ("cpu.reserved", "reserved", true),
        ("cpu.isolated", "isolated", true),
        ("cpu.offlined", "offlined", false),
        ("cpu.shared", "shared", false),
        ("cpu.ovsDpdk", "ovsDpdk", false),
    ] {
        let Some(node) = cpu.get(side) else {
            if required {
                found.push((cpu.line, field, format!("{field} is required")));
            }
            continue;
        };
        match node.text().and_then(cpu_list) {
            Some(cores) if cores.is_empty() && required => {
                found.push((node.line, field, format!("{field} must not be empty")));
            }
            Some(cores) => {
                for (other, others) in &sets {
                    let both: Vec<u32> = cores.iter().copied().filter(|core| others.contains(core)).collect();
                    if let Some(core) = both.first() {
                        found.push((node.line, field, format!("core {core} is in cpu.{other} as well")));
                    }
                }
                sets.push((side, cores));
            }
            None => found.push((node.line, field, "is no list of cores as 2-15,18-31".to_owned())),
        }
    }
}

fn selectors(spec: &Node, found: &mut Found<'_>) {
    for field in ["machineConfigLabel", "machineConfigPoolSelector"] {
        if let Some(node) = spec.get(field).filter(|node| node.map().len() > 1) {
            found.push((node.line, field, "one label alone".to_owned()));
        }
    }
    let Some(selector) = spec.get("nodeSelector") else {
        return found.push((spec.line, "nodeSelector", "spec.nodeSelector is required".to_owned()));
    };
    let named = ["machineConfigLabel", "machineConfigPoolSelector"].iter().all(|field| spec.get(field).is_some());
    match selector.map() {
        [] if !named => found.push((selector.line, "nodeSelector", "a label is required".to_owned())),
        [_, _, ..] => found.push((selector.line, "nodeSelector", "one label alone".to_owned())),
        // The pool's labels are made of it.
        [(key, node)] if !named && key.split('/').count() != 2 => {
            let why = "the label is not of the form domain/role, and machineConfigLabel and machineConfigPoolSelector \
                       are not both there";
            found.push((node.line, "nodeSelector", why.to_owned()));
        }
        _ => {}
    }
}

fn pages(spec: &Node, found: &mut Found<'_>) {
    let Some(huge) = spec.get("hugepages") else { return };
    let default = huge.get("defaultHugepagesSize");
    let pages = huge.get("pages").map_or(&[][..], Node::list);
    let size_of = |node: &Node| node.text().filter(|size| SIZES.contains(size)).is_some();
    match default {
        None if !pages.is_empty() => {
            let why = "hugepages.defaultHugepagesSize is required with pages".to_owned();
            found.push((huge.line, "hugepages.defaultHugepagesSize", why));
        }
        Some(node) if !size_of(node) => {
            let why = format!("a size is one of {}", SIZES.join(", "));
            found.push((node.line, "hugepages.defaultHugepagesSize", why));
        }
        _ => {}
    }
    // The node may be absent, and that is a place of its own.
    let place = |page: &Node| (page.text_at("size").map(str::to_owned), page.text_at("node").map(str::to_owned));
    for (at, page) in pages.iter().enumerate() {
        if !page.get("size").is_some_and(size_of) {
            found.push((page.line, "hugepages.pages", format!("a size is one of {}", SIZES.join(", "))));
        }
        for field in ["count", "node"] {
            // What is empty is not there.
            let wrong = |node: &Node| node.text().is_none_or(|text| !text.is_empty() && text.parse::<i32>().is_err());
            if page.get(field).is_some_and(wrong) {
                found.push((page.line, "hugepages.pages", format!("{field} is no number")));
            }
        }
        let (size, node) = place(page);
        if pages.iter().take(at).any(|before| place(before) == (size.clone(), node.clone())) {
            let of_node = node.map_or_else(|| "without a node".to_owned(), |node| format!("on node {node}"));
            let why = format!("pages of {} {of_node} are there twice", size.unwrap_or_default());
            found.push((page.line, "hugepages.pages", why));
        }
    }
}

fn hints(spec: &Node, found: &mut Found<'_>) {
    let is = |path: &str, word: &str| spec.text_at(path) == Some(word);
    let line = |path: &str| spec.at(path).map_or(spec.line, |node| node.line);
    let mut add = |path: &'static str, why: &str| found.push((line(path), path, why.to_owned()));
    if spec.text_at("numa.topologyPolicy").is_some_and(|policy| !POLICIES.contains(&policy)) {
        add("numa.topologyPolicy", "none, best-effort, restricted and single-numa-node are all there is");
    }
    if is("workloadHints.realTime", "false") && is("realTimeKernel.enabled", "true") {
        add("workloadHints.realTime", "false, beside realTimeKernel.enabled");
    }
    if is("workloadHints.highPowerConsumption", "true") && is("workloadHints.perPodPowerManagement", "true") {
        add("workloadHints.highPowerConsumption", "true, beside workloadHints.perPodPowerManagement");
    }
    if is("workloadHints.mixedCpus", "true") && spec.text_at("cpu.shared").is_none() {
        add("workloadHints.mixedCpus", "true, and cpu.shared has no core");
    }
    if let Some(size) = spec.text_at("kernelPageSize") {
        match size {
            "4k" => {}
            "64k" if is("realTimeKernel.enabled", "true") => {
                add("kernelPageSize", "there is no real-time kernel with pages of 64k");
            }
            "64k" => {}
            _ => add("kernelPageSize", "4k, or 64k on arm64"),
        }
    }
    if let Some(tuning) = spec.get("hardwareTuning") {
        let of = |field: &str| tuning.text_at(field).map(|text| text.parse::<u64>().unwrap_or(0));
        match (of("isolatedCpuFreq"), of("reservedCpuFreq")) {
            (Some(1..), Some(1..)) | (None, None) => {}
            _ => add("hardwareTuning", "isolatedCpuFreq and reservedCpuFreq go together, and neither is 0"),
        }
    }
}

fn devices(spec: &Node, found: &mut Found<'_>) {
    for device in spec.at("net.devices").map_or(&[][..], Node::list) {
        let hexadecimal = |id: &str| {
            id.strip_prefix("0x").is_some_and(|digits| {
                (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        };
        if device.get("interfaceName").is_some_and(|name| name.text().is_none_or(str::is_empty)) {
            found.push((device.line, "net.devices", "an interface without a name".to_owned()));
        }
        for id in ["vendorID", "deviceID"] {
            if device.get(id).is_some_and(|node| !node.text().is_some_and(hexadecimal)) {
                found.push((device.line, "net.devices", format!("{id} is not 0x and up to four hexadecimal digits")));
            }
        }
        if device.get("deviceID").is_some() && device.get("vendorID").is_none() {
            found.push((device.line, "net.devices", "deviceID without vendorID".to_owned()));
        }
    }
}
