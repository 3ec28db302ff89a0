//! Manifests as lines.

use crate::catalogue::{
    ANNOTATIONS, COMMON, KUBELET, Known, MACHINE_CONFIG, OF_CLUSTER, PROFILE, RECOMMEND, RUNTIME_CLASS, find,
};
use crate::contents::{file, unit};
use crate::leaves::{kib, leaf, leaves};
use crate::line::{Line, Only, Sign, Visible, Where};
use crate::tuned::{argument, profile};
use audit::yaml::{Node, Value, YamlError, documents};

/// What each line of a file of manifests does, and what shows it.
///
/// # Errors
/// If it is no YAML.
pub fn explain(file: &str, text: &str) -> Result<Vec<Line>, YamlError> {
    let mut lines = Vec::new();
    for document in documents(text)? {
        object(file, &document, &mut lines);
    }
    Ok(lines)
}

fn object(file: &str, object: &Node, lines: &mut Vec<Line>) {
    let kind = object.text_at("kind").unwrap_or("an object without a kind");
    if kind == "List" {
        return object.get("items").map_or(&[][..], Node::list).iter().for_each(|item| self::object(file, item, lines));
    }
    let name = format!("{kind} {}", object.text_at("metadata.name").unwrap_or("without a name"));
    let mut reader = Reader { file, object: &name, lines };
    let is_of_cluster = object.text_at("apiVersion").is_some_and(|version| version.starts_with("config.openshift.io/"));
    for (key, node) in object.map() {
        match (kind, key.as_str()) {
            ("PerformanceProfile", "spec") => reader.performance_profile(node),
            ("PerformanceProfile", "metadata") => reader.leaves(node, "metadata", &[COMMON, ANNOTATIONS]),
            ("Tuned", "spec") => reader.tuned(node),
            ("KubeletConfig", "spec") => reader.kubelet_config(node),
            ("KubeletConfiguration", key) => reader.leaves(node, key, &[KUBELET, COMMON]),
            ("MachineConfig", "spec") => reader.machine_config(node),
            ("RuntimeClass", key) => reader.leaves(node, key, &[COMMON, RUNTIME_CLASS]),
            ("Node", key) if is_of_cluster => reader.leaves(node, key, &[COMMON, OF_CLUSTER]),
            (_, key) => reader.leaves(node, key, &[COMMON]),
        }
    }
}

/// An object that is read.
struct Reader<'a> {
    file: &'a str,
    object: &'a str,
    lines: &'a mut Vec<Line>,
}

impl Reader<'_> {
    fn at(&self, line: usize) -> Where<'_> {
        Where { file: self.file, line, object: self.object }
    }

    /// Each leaf below a place, by the first of these tables that knows it.
    fn leaves(&mut self, node: &Node, place: &str, tables: &[&'static [Known]]) {
        for (path, line, value) in leaves(node, place) {
            let known = tables.iter().find_map(|table| find(table, &path));
            let line = self.at(line).line(&path, &value, known);
            self.lines.push(line);
        }
    }

    /// The same below a field that is left out of names.
    fn below(&mut self, node: &Node, tables: &[&'static [Known]]) {
        self.leaves(node, "", tables);
    }

    fn performance_profile(&mut self, spec: &Node) {
        for (key, node) in spec.map() {
            match key.as_str() {
                "hugepages" => self.huge_pages(node),
                "additionalKernelArgs" => {
                    for word in node.list() {
                        let line =
                            argument(self.at(word.line), "additionalKernelArgs[]", word.text().unwrap_or_default());
                        self.lines.push(line);
                    }
                }
                key => self.leaves(node, key, &[PROFILE]),
            }
        }
    }

    fn huge_pages(&mut self, node: &Node) {
        for (key, node) in node.map() {
            if key != "pages" {
                self.leaves(node, &format!("hugepages.{key}"), &[PROFILE]);
                continue;
            }
            for page in node.list() {
                let text = |key: &str| page.text_at(key);
                let sign = text("size").and_then(kib).zip(text("count").and_then(|count| count.parse().ok()));
                for (key, node) in page.map() {
                    let what = match key.as_str() {
                        "size" => "the size of the pages",
                        "count" if text("node").is_some() => "so many pages of one domain, by a unit at boot",
                        "count" => "so many pages of all domains together, by the command line",
                        "node" => "the NUMA domain that they are of",
                        _ => "",
                    };
                    let mut line = self.at(node.line).line(&format!("hugepages.pages[].{key}"), leaf(node), None);
                    if !what.is_empty() {
                        (line.what, line.input, line.shown) = (Some(what), "hugepages.pages", Visible::Nothing);
                    }
                    if let (Some((kib, count)), "count") = (sign, key.as_str()) {
                        line.shown = Visible::By(Sign::Pages { kib, count, domain: text("node").map(str::to_owned) });
                    }
                    self.lines.push(line);
                }
            }
        }
    }

    fn tuned(&mut self, spec: &Node) {
        for (key, node) in spec.map() {
            if key != "profile" {
                self.leaves(node, key, &[RECOMMEND]);
                continue;
            }
            for one in node.list() {
                let name = one.text_at("name").unwrap_or_default();
                for (key, node) in one.map() {
                    if key != "data" {
                        self.leaves(node, &format!("profile[].{key}"), &[RECOMMEND]);
                        continue;
                    }
                    let is_block = matches!(node.value, Value::Block(_));
                    let object = format!("{}, profile {name}", self.object);
                    let place = Where { file: self.file, line: node.line, object: &object };
                    let mut found = profile(place, is_block, node.text().unwrap_or_default());
                    found.iter_mut().for_each(|line| line.only = only(name));
                    self.lines.append(&mut found);
                }
            }
        }
    }

    fn kubelet_config(&mut self, spec: &Node) {
        for (key, node) in spec.map() {
            match key.as_str() {
                "kubeletConfig" => self.below(node, &[KUBELET]),
                "machineConfigPoolSelector" => {
                    for (path, line, value) in leaves(node, key) {
                        let mut line = self.at(line).line(&path, &value, None);
                        line.what = Some("nodes of the pool with this label take it");
                        (line.input, line.shown) = ("machineConfigPoolSelector", Visible::Nothing);
                        self.lines.push(line);
                    }
                }
                key => self.leaves(node, key, &[]),
            }
        }
    }

    fn machine_config(&mut self, spec: &Node) {
        for (key, node) in spec.map() {
            if key != "config" {
                self.leaves(node, key, &[MACHINE_CONFIG]);
                continue;
            }
            for (key, node) in node.map() {
                for (inner, node) in node.map() {
                    match (key.as_str(), inner.as_str()) {
                        ("storage", "files") => {
                            node.list().iter().for_each(|one| file(self.file, self.object, one, self.lines));
                        }
                        ("systemd", "units") => {
                            node.list().iter().for_each(|one| unit(self.file, self.object, one, self.lines));
                        }
                        _ => self.leaves(node, &format!("config.{key}.{inner}"), &[MACHINE_CONFIG]),
                    }
                }
                if node.map().is_empty() {
                    self.leaves(node, &format!("config.{key}"), &[MACHINE_CONFIG]);
                }
            }
        }
    }
}

/// For which nodes alone a profile of the operator is, by its name.
fn only(profile: &str) -> Option<Only> {
    let words = [
        ("openshift-node-performance-amd-x86", Only::Amd),
        ("openshift-node-performance-intel-x86", Only::Intel),
        ("openshift-node-performance-arm-aarch64", Only::Arm),
        ("openshift-node-performance-rt-", Only::RealTime),
    ];
    words.into_iter().find(|(word, _)| profile.starts_with(word)).map(|(_, only)| only)
}
