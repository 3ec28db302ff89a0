//! A pod, as what it asks of its node.

use super::objects::Manifest;
use crate::yaml::Node;

/// Templates of pods within an object that makes them.
pub(super) fn pods_of(object: &Node) -> Vec<&Node> {
    ["spec.template", "spec.jobTemplate.spec.template"].iter().filter_map(|path| object.at(path)).collect()
}

/// Annotations that CRI-O acts upon.
const ANNOTATIONS: &[&str] = &[
    "cpu-quota.crio.io",
    "cpu-load-balancing.crio.io",
    "irq-load-balancing.crio.io",
    "cpu-c-states.crio.io",
    "cpu-freq-governor.crio.io",
];

pub(super) fn pod(manifest: &mut Manifest<'_>, name: &str, pod: &Node) {
    let subject = format!("pod {name}");
    let Some(spec) = pod.get("spec") else { return };
    let class = spec.get("runtimeClassName");
    let at = class.unwrap_or(spec);
    manifest.add("Pod runtimeClassName", &subject, at, class.and_then(Node::text).unwrap_or_default());
    manifest.add("Pod quality of service", &subject, spec, quality(spec));
    for (key, node) in pod.at("metadata.annotations").map_or(&[][..], Node::map) {
        // An annotation may be of one container: NAME/CONTAINER.
        let key = key.split('/').next().unwrap_or(key);
        if ANNOTATIONS.contains(&key) {
            manifest.add(&format!("Pod {key}"), &subject, node, node.text().unwrap_or_default());
        }
    }
    let containers =
        || ["initContainers", "containers"].into_iter().filter_map(|key| spec.get(key)).flat_map(Node::list);
    for container in containers() {
        for (resource, node) in container.at("resources.limits").map_or(&[][..], Node::map) {
            match resource.as_str() {
                "cpu" => manifest.add("Pod cpu", &subject, node, node.text().unwrap_or_default()),
                "memory" => manifest.add("Pod memory", &subject, node, node.text().unwrap_or_default()),
                _ if resource.starts_with("hugepages-") => {
                    manifest.add(&format!("Pod {resource}"), &subject, node, node.text().unwrap_or_default());
                }
                _ => {}
            }
        }
        for key in ["command", "args"] {
            let words: Vec<&str> =
                container.get(key).map_or(&[][..], Node::list).iter().filter_map(Node::text).collect();
            let line = container.get(key).map_or(container.line, |node| node.line);
            manifest.advice.settings.extend(super::script::command(manifest.file, line, &words.join(" ")));
        }
    }
}

/// The class of quality of service that the kubelet gives a pod, and whether
/// its cores are whole: what the static CPU manager goes by.
fn quality(spec: &Node) -> &'static str {
    let containers: Vec<&Node> =
        ["initContainers", "containers"].into_iter().filter_map(|key| spec.get(key)).flat_map(Node::list).collect();
    let of = |container: &Node, kind: &str, resource: &str| {
        container
            .at(&format!("resources.{kind}"))
            .and_then(|map| map.get(resource))
            .and_then(Node::text)
            .map(str::to_owned)
    };
    let both = ["cpu", "memory"];
    let none = |container: &&Node| {
        both.iter().all(|resource| {
            of(container, "limits", resource).is_none() && of(container, "requests", resource).is_none()
        })
    };
    if containers.iter().all(none) {
        return "BestEffort";
    }
    let guaranteed = |container: &&Node| {
        both.iter().all(|resource| match (of(container, "limits", resource), of(container, "requests", resource)) {
            // A request that is not there is the limit.
            (Some(limit), request) => request.is_none_or(|request| quantity(&request) == quantity(&limit)),
            (None, _) => false,
        })
    };
    if !containers.iter().all(guaranteed) {
        return "Burstable";
    }
    let whole = |container: &&Node| {
        of(container, "limits", "cpu").and_then(|cpu| quantity(&cpu)).is_some_and(|milli| milli % 1_000 == 0)
    };
    match containers.iter().any(whole) {
        true => "Guaranteed, whole cores",
        false => "Guaranteed, parts of cores",
    }
}

/// A quantity of Kubernetes in thousandths: `2`, `1500m`, `12Gi`, `1e3`.
pub(crate) fn quantity(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: u64 = match unit {
        "m" => 1,
        "" => 1_000,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "T" => 1_000_000_000_000_000,
        "Ki" => 1_000 << 10,
        "Mi" => 1_000 << 20,
        "Gi" => 1_000 << 30,
        "Ti" => 1_000 << 40,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.len() > 6 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let tenths = 10_u64.pow(u32::try_from(part.len()).ok()?);
    let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()?.checked_mul(factor)? / tenths };
    whole.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_compared_by_what_they_are() {
        assert_eq!(quantity("2"), quantity("2000m"));
        assert_eq!(quantity("1.5"), Some(1_500));
        assert_eq!(quantity("1000Mi"), Some(1_000 * (1_000 << 20)));
        assert_eq!(quantity("1Gi"), quantity("1024Mi"));
        for odd in ["", "x", "1e3", "99999999999999999999", "1.12345678", "-1", "99999999Ti"] {
            assert_eq!(quantity(odd), None, "{odd}");
        }
    }
}
