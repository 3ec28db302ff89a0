//! Kubernetes' and OpenShift's manifests, as settings: each line that says
//! something of the node, with its place.

use super::keys::command_line;
use super::lines::Advice;
use super::machine_config::machine_config;
use super::objects::Manifest;
use super::plain::tuned;
use super::pod::{pod, pods_of};
use super::setting::AdviceError;
use super::webhook::{refusals, without_spec};
use crate::yaml::{Node, Value, documents};

/// The most documents and items of lists of a file; a cluster's dump has more.
const MOST_DOCUMENTS: usize = 1_000;

/// The settings of a file's documents.
pub(super) fn manifest(file: &str, text: &str) -> Result<Advice, AdviceError> {
    let documents = documents(text).map_err(|why| AdviceError::Yaml { file: file.to_owned(), why })?;
    let mut manifest = Manifest { file, advice: Advice::default() };
    let mut count = 0;
    for document in &documents {
        let items = match document.text_at("kind") {
            Some("List") => document.at("items").map_or(&[][..], Node::list),
            _ => core::slice::from_ref(document),
        };
        for item in items {
            count += 1;
            if count > MOST_DOCUMENTS {
                return Err(manifest.wrong(item, "more documents than are judged at once"));
            }
            manifest.object(item)?;
        }
    }
    Ok(manifest.advice)
}

/// The pool of machines that an object is for, where its labels tell.
fn pool<'a>(kind: &str, object: &'a Node) -> Option<&'a str> {
    const POOL: &str = "pools.operator.machineconfiguration.openshift.io/";
    let role = |label: &'a str| label.rsplit('/').next().filter(|role| !role.is_empty());
    match kind {
        "PerformanceProfile" => role(&object.at("spec.nodeSelector")?.map().first()?.0),
        "MachineConfig" => {
            let labels = object.at("metadata.labels")?.map();
            labels.iter().find(|(key, _)| key == ROLE).and_then(|(_, node)| node.text())
        }
        "KubeletConfig" => {
            let labels = object.at("spec.machineConfigPoolSelector.matchLabels")?.map();
            labels.iter().find_map(|(key, _)| key.strip_prefix(POOL))
        }
        _ => None,
    }
}

/// The label of a MachineConfig by which a pool takes it.
const ROLE: &str = "machineconfiguration.openshift.io/role";

/// How the names begin of the profiles that the operator makes, each of the
/// PerformanceProfile whose name follows.
pub(crate) const OF_THE_OPERATOR: &str = "openshift-node-performance-";

/// The profiles that the text of one includes.
fn included(data: &str) -> impl Iterator<Item = &str> {
    let list = |line| str::trim(line).strip_prefix("include")?.trim_start().strip_prefix('=');
    data.lines().filter_map(list).flat_map(|list| list.split([',', ';'])).map(str::trim)
}

/// The profiles that a profile of a Tuned acts in: itself, and each that has
/// it by include; and the pools that one of these is recommended for.
fn acting_profiles(profiles: &[Node], recommended: &[Node], own: &str) -> Vec<String> {
    let mut names = vec![own.to_owned()];
    let mut at = 0;
    while let Some(name) = names.get(at).cloned() {
        at += 1;
        for profile in profiles {
            let other = profile.text_at("name").unwrap_or_default();
            let data = profile.text_at("data").unwrap_or_default();
            if !names.iter().any(|name| name == other) && included(data).any(|one| one == name) {
                names.push(other.to_owned());
            }
        }
    }
    let for_pool = |one: &Node| {
        let profile = one.text_at("profile")?;
        let labels = one.get("machineConfigLabels")?.map();
        let (_, role) = labels.iter().find(|(key, _)| key == ROLE && names.iter().any(|name| name == profile))?;
        role.text().map(|role| format!("pool {role}"))
    };
    let pools: Vec<String> = recommended.iter().filter_map(for_pool).collect();
    let of_operator = profiles.iter().filter(|profile| {
        let name = profile.text_at("name").unwrap_or_default();
        names.iter().any(|one| one == name)
    });
    let data = of_operator.filter_map(|profile| profile.text_at("data"));
    let performance: Vec<String> = data
        .flat_map(included)
        .filter_map(|name| name.strip_prefix(OF_THE_OPERATOR).map(|name| format!("performance profile {name}")))
        .collect();
    let own = names.iter().map(|name| format!("profile {name}"));
    own.chain(performance).chain(pools).collect()
}

impl Manifest<'_> {
    fn object(&mut self, object: &Node) -> Result<(), AdviceError> {
        let Some(kind) = object.text_at("kind") else {
            return Err(self.wrong(object, "is no manifest: it has no kind"));
        };
        let name = object.text_at("metadata.name").unwrap_or("without a name").to_owned();
        let spec = object.get("spec");
        let first = self.advice.settings.len();
        match (kind, spec) {
            ("PerformanceProfile", Some(spec)) => {
                refusals(self, &name, spec);
                self.performance_profile(&name, spec);
            }
            ("PerformanceProfile", None) => without_spec(self, &name, object),
            ("Tuned", Some(spec)) => self.tuned_object(&name, spec),
            ("MachineConfig", Some(spec)) => machine_config(self, &name, spec),
            ("KubeletConfig", Some(spec)) => self.kubelet_config(&name, spec),
            ("KubeletConfiguration", _) => self.leaves("KubeletConfig", &name, object, &["apiVersion", "kind"]),
            ("Pod", Some(_)) => pod(self, &name, object),
            ("ConfigMap", _) => self.config_map(&name, object)?,
            ("RuntimeClass", _) => {
                let handler = object.get("handler").unwrap_or(object);
                self.add("RuntimeClass handler", &name, handler, handler.text().unwrap_or_default());
            }
            ("Network" | "Console" | "Infrastructure", Some(spec)) => self.leaves(kind, &name, spec, &[]),
            // Of an install-config, which has no kind of its own.
            (_, Some(_)) if !pods_of(object).is_empty() => {
                for template in pods_of(object) {
                    pod(self, &name, template);
                }
            }
            (kind, _) => self.add("another kind", &name, object, kind),
        }
        let mut within = pool(kind, object).map(|pool| vec![format!("pool {pool}")]).unwrap_or_default();
        if kind == "PerformanceProfile" && !within.is_empty() {
            within.push(format!("performance profile {name}"));
        }
        for setting in self.advice.settings.iter_mut().skip(first).filter(|setting| setting.within.is_empty()) {
            setting.within.clone_from(&within);
        }
        Ok(())
    }

    /// Each text under a node, by its path below it.
    pub(super) fn leaves(&mut self, kind: &str, subject: &str, node: &Node, but: &[&str]) {
        let mut open: Vec<(String, &Node)> = vec![(String::new(), node)];
        while let Some((path, node)) = open.pop() {
            match &node.value {
                Value::Scalar(text) | Value::Block(text) => {
                    self.add(&format!("{kind} {path}"), subject, node, text.trim())
                }
                Value::List(list) if list.iter().all(|item| item.text().is_some()) => {
                    let words: Vec<&str> = list.iter().filter_map(Node::text).collect();
                    self.add(&format!("{kind} {path}"), subject, node, words.join(","));
                }
                Value::List(list) => open.extend(list.iter().rev().map(|item| (path.clone(), item))),
                Value::Map(map) => open.extend(
                    map.iter()
                        .rev()
                        .filter(|(key, _)| !but.contains(&key.as_str()))
                        .map(|(key, node)| (if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, node)),
                ),
            }
        }
    }

    fn performance_profile(&mut self, name: &str, spec: &Node) {
        const KIND: &str = "PerformanceProfile";
        self.leaves(
            KIND,
            name,
            spec,
            &["additionalKernelArgs", "hugepages", "nodeSelector", "machineConfigLabel", "machineConfigPoolSelector"],
        );
        for word in spec.get("additionalKernelArgs").map_or(&[][..], Node::list) {
            let text = word.text().unwrap_or_default();
            self.advice.extend(command_line(self.file, word.line, text));
        }
        if let Some(size) = spec.at("hugepages.defaultHugepagesSize") {
            self.add(
                "PerformanceProfile \
                hugepages.defaultHugepagesSize",
                name,
                size,
                size.text().unwrap_or_default(),
            );
        }
        for pages in spec.at("hugepages.pages").map_or(&[][..], Node::list) {
            let (size, count) = (pages.text_at("size").unwrap_or("?"), pages.text_at("count").unwrap_or("0"));
            let domain = pages.text_at("node").map_or_else(String::new, |domain| format!("@{domain}"));
            self.add("PerformanceProfile hugepages.pages", name, pages, format!("{size}:{count}{domain}"));
        }
        if let Some((role, node)) = spec.get("nodeSelector").and_then(|selector| selector.map().first()) {
            self.add("PerformanceProfile nodeSelector", name, node, role.rsplit('/').next().unwrap_or(role));
        }
    }

    /// A Tuned's profiles are texts of their own.
    fn tuned_object(&mut self, name: &str, spec: &Node) {
        let profiles = spec.get("profile").map_or(&[][..], Node::list);
        let recommended = spec.get("recommend").map_or(&[][..], Node::list);
        let acting = |own: &str| acting_profiles(profiles, recommended, own);
        for profile in spec.get("profile").map_or(&[][..], Node::list) {
            let Some(data) = profile.get("data") else { continue };
            let mut advice = tuned(self.file, data.text().unwrap_or_default());
            // Lines are known only where the text stands as it is.
            advice.place(|line| match data.value {
                Value::Block(_) => line.saturating_add(data.line - 1),
                _ => data.line,
            });
            let own = profile.text_at("name").unwrap_or_default();
            let within = acting(own);
            for setting in &mut advice.settings {
                match setting.key.as_str() {
                    // Which is held against the profiles of every pool.
                    "tuned include" => own.clone_into(&mut setting.subject),
                    _ => setting.within.clone_from(&within),
                }
            }
            self.advice.extend(advice);
        }
        if let Some(recommend) = spec.get("recommend") {
            self.leaves("Tuned recommend", name, recommend, &["machineConfigLabels", "match", "operand"]);
        }
    }

    fn kubelet_config(&mut self, name: &str, spec: &Node) {
        if let Some(kubelet) = spec.get("kubeletConfig") {
            self.leaves("KubeletConfig", name, kubelet, &["apiVersion", "kind"]);
        }
        let labels = spec.at("machineConfigPoolSelector.matchLabels").map_or(&[][..], Node::map);
        for (key, value) in labels {
            let role = match value.text() {
                Some(text) if !text.is_empty() => text,
                _ => key.rsplit('/').next().unwrap_or(key),
            };
            self.add("KubeletConfig machineConfigPoolSelector", name, value, role);
        }
    }

    /// Of all ConfigMaps, that of the cluster's monitoring: YAML within YAML.
    fn config_map(&mut self, name: &str, object: &Node) -> Result<(), AdviceError> {
        let Some(config) = object.get("data").and_then(|data| data.get("config.yaml")) else {
            self.add("another kind", name, object, "ConfigMap");
            return Ok(());
        };
        let before = config.line - 1;
        let inner = documents(config.text().unwrap_or_default()).map_err(|mut why| {
            why.line += before;
            AdviceError::Yaml { file: self.file.to_owned(), why }
        })?;
        for document in &inner {
            let first = self.advice.settings.len();
            self.leaves("monitoring", name, document, &[]);
            for setting in self.advice.settings.iter_mut().skip(first) {
                setting.line += before;
            }
        }
        Ok(())
    }
}
