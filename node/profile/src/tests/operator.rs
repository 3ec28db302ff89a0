//! What we say that the operator writes, beside what it wrote for its own
//! examples. Nothing of it is in this repository: `NEARSIDE_NTO` names a folder
//! with its sources (cluster-node-tuning-operator), and without it this is left
//! out.

use crate::{Hints, Vendor, Version, list, mask, operator_arguments};
use audit::advice::parse;
use audit::cpu_list;
use audit::yaml::{Node, documents};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Examples, and the folders of their renders.
const EXAMPLES: [(&str, &str); 2] = [("performance", "default"), ("cpuFrequency", "default/cpuFrequency")];

fn document(path: &Path) -> Node {
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    documents(&text).expect("YAML").remove(0)
}

/// A profile of tuned within the render, with its variables resolved.
fn arguments_of(render: &Node, name: &str, hints: &Hints) -> Vec<(String, String)> {
    let profiles = render.at("spec.profile").map_or(&[][..], Node::list);
    let profile = profiles.iter().find(|profile| profile.text_at("name").is_some_and(|own| own.starts_with(name)));
    let data = profile.and_then(|profile| profile.text_at("data")).unwrap_or_else(|| panic!("no profile {name}"));
    let expanded: Vec<String> = hints.others.iter().map(u32::to_string).collect();
    let data = data
        .replace("${isolated_cores}", &list(&hints.isolated))
        .replace("${not_isolated_cpumask}", &mask(&hints.others))
        .replace("${not_isolated_cores_expanded}", &expanded.join(","));
    let settings = parse("tuned.conf", &data).expect("a profile of tuned");
    settings.into_iter().filter_map(|one| Some((one.key.strip_prefix("cmdline ")?.to_owned(), one.value))).collect()
}

fn hints(profile: &Node) -> Hints {
    let text = |path: &str| profile.at("spec").and_then(|spec| spec.text_at(path));
    let cores = |path: &str| text(path).and_then(cpu_list).unwrap_or_default();
    let pages = profile.at("spec.hugepages.pages").map_or(&[][..], Node::list);
    let page = |page: &Node| {
        let count = page.text_at("count").and_then(|count| count.parse().ok()).unwrap_or(0);
        (page.text_at("size").unwrap_or_default().to_owned(), count, page.get("node").is_some())
    };
    Hints {
        isolated: cores("cpu.isolated"),
        others: cores("cpu.reserved"),
        static_isolation: text("cpu.balanceIsolated") == Some("false"),
        real_time: text("workloadHints.realTime") != Some("false"),
        high_power: text("workloadHints.highPowerConsumption") == Some("true"),
        power_by_pod: text("workloadHints.perPodPowerManagement") == Some("true"),
        default_pages: text("hugepages.defaultHugepagesSize").map(str::to_owned),
        pages: pages.iter().map(page).collect(),
        additional: Vec::new(),
    }
}

#[test]
fn arguments_are_those_of_the_operators_own_renders() {
    let Some(folder) = std::env::var_os("NEARSIDE_NTO").map(PathBuf::from) else {
        println!("left out: NEARSIDE_NTO names no folder with the operator's sources");
        return;
    };
    let base = folder.join("test/e2e/performanceprofile");
    for (example, render) in EXAMPLES {
        let inputs = base.join("cluster-setup/manual-cluster").join(example);
        let input = std::fs::read_dir(&inputs).expect("the example's folder").flatten().map(|entry| entry.path());
        let input = input.into_iter().find(|path| path.to_string_lossy().contains("profile")).expect("a profile");
        let hints = hints(&document(&input));
        let render = document(&base.join("testdata/render-expected-output").join(render).join("manual_tuned.yaml"));
        for (vendor, own) in [(Vendor::Intel, "intel-x86"), (Vendor::Amd, "amd-x86"), (Vendor::Arm, "arm-aarch64")] {
            let mut theirs: BTreeMap<String, Vec<String>> = BTreeMap::new();
            let all = ["openshift-node-performance-manual".to_owned(), format!("openshift-node-performance-{own}")];
            for (name, value) in all.iter().flat_map(|name| arguments_of(&render, name, &hints)) {
                theirs.entry(name).or_default().push(value);
            }
            // Chosen on the node by tuned, or by frequencies that an example asks for.
            theirs.retain(|name, _| !name.ends_with("_pstate"));
            let mut ours: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for argument in operator_arguments(Version::CURRENT, vendor, &hints) {
                let (name, value) = argument.split_once('=').unwrap_or((&argument, &argument));
                ours.entry(name.to_owned()).or_default().push(value.to_owned());
            }
            ours.retain(|name, _| !name.ends_with("_pstate"));
            assert_eq!(ours, theirs, "{example}, {own}");
        }
    }
}
