//! What we say that the operator writes, beside what it writes. Nothing of it
//! is in this repository: `NEARSIDE_NTO` names a folder with one for each
//! version, as `4.16`, in which lie `source` (its sources,
//! cluster-node-tuning-operator at that version's branch) and `render` (its
//! command of that name, built from `pkg/performanceprofile/cmd/render` with
//! a main function around it). Without it this is left out.

use super::{FIXTURES, machine, wanted};
use crate::{
    Hints, Profile, Shape, Target, Vendor, Version, Wanted, list, mask, operator_arguments, operator_kubelet, render,
};
use audit::advice::{Setting, parse};
use audit::cpu_list;
use audit::yaml::{Node, documents};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the operator's own examples lie, below its sources.
const EXAMPLES: &str = "test/e2e/performanceprofile/cluster-setup/manual-cluster";
/// The pool that they are for.
const POOL: &str = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfigPool\nmetadata: \
    {name: worker-cnf, \
    labels: {machineconfiguration.openshift.io/role: worker-cnf}}\nspec:\n  machineConfigSelector: {matchExpressions: \
    [{key: machineconfiguration.openshift.io/role, operator: In, values: [worker, worker-cnf]}]}\n  nodeSelector: \
    {matchLabels: {node-role.kubernetes.io/worker-cnf: \"\"}}\n";

/// A folder of its own, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Self(std::env::temp_dir().join(format!("nearside-operator-{name}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir_all(folder.0.join("in")).expect("a temporary folder");
        folder
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.0.join("in").join(name), text).expect("a temporary file");
    }

    /// The operator's render of what lies here; `profile` is the file that has
    /// the profile.
    fn render(&self, version: Version, program: &Path, profile: &str) -> Render {
        let (input, out) = (self.0.join("in"), self.0.join("out"));
        fs::create_dir_all(&out).expect("a temporary folder");
        let mut command = Command::new(program);
        command.arg("--asset-output-dir").arg(&out);
        // Older ones take profiles only, and do not ask whose the objects are.
        match version < Version(4, 14) {
            true => command.arg("--performance-profile-input-files").arg(input.join(profile)),
            false => command.arg("--asset-input-dir").arg(&input).args(["--owner-ref", "none"]),
        };
        let output = command.output().unwrap_or_else(|why| panic!("{}: {why}", program.display()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", program.display());
        let of = |kind: &str| {
            let found = fs::read_dir(&out).expect("a folder").flatten().map(|entry| entry.path());
            let mut found = found.filter(|path| path.to_string_lossy().ends_with(&format!("_{kind}.yaml")));
            let path = found.next().unwrap_or_else(|| panic!("{}: no {kind}: {said}", program.display()));
            fs::read_to_string(path).expect("a file")
        };
        Render { tuned: of("tuned"), kubelet: of("kubeletconfig"), machine: of("machineconfig") }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the operator makes of a profile.
struct Render {
    tuned: String,
    kubelet: String,
    machine: String,
}

/// Versions that are there: their numbers and folders.
fn versions() -> Option<Vec<(Version, PathBuf)>> {
    let folder = std::env::var_os("NEARSIDE_NTO").map(PathBuf::from)?;
    let entries = fs::read_dir(&folder).expect("the folder of NEARSIDE_NTO").flatten();
    let version = |path: PathBuf| Some((path.file_name()?.to_str()?.parse::<Version>().ok()?, path));
    let mut found: Vec<(Version, PathBuf)> = entries.filter_map(|entry| version(entry.path())).collect();
    found.sort_unstable();
    assert!(!found.is_empty(), "NEARSIDE_NTO has no folder such as 4.16");
    Some(found)
}

const LEFT_OUT: &str = "left out: NEARSIDE_NTO names no folder with the operator's versions";

fn document(text: &str) -> Node {
    documents(text).expect("YAML").remove(0)
}

/// A profile of tuned within the render, with its variables resolved.
fn arguments_of(render: &Node, name: &str, hints: &Hints) -> Vec<(String, String)> {
    let profiles = render.at("spec.profile").map_or(&[][..], Node::list);
    let profile = profiles.iter().find(|profile| profile.text_at("name").is_some_and(|own| own.starts_with(name)));
    let Some(data) = profile.and_then(|profile| profile.text_at("data")) else { return Vec::new() };
    let expanded: Vec<String> = hints.others.iter().map(u32::to_string).collect();
    let data = data
        .replace("${isolated_cores}", &list(&hints.isolated))
        .replace("${not_isolated_cpumask}", &mask(&hints.others))
        .replace("${not_isolated_cores_expanded}", &expanded.join(","));
    let settings = parse("tuned.conf", &data).expect("a profile of tuned");
    settings.into_iter().filter_map(|one| Some((one.key.strip_prefix("cmdline ")?.to_owned(), one.value))).collect()
}

/// What of a profile decides arguments, and what of it does not.
fn hints(profile: &Node) -> Hints {
    let text = |path: &str| profile.at("spec").and_then(|spec| spec.text_at(path));
    let cores = |path: &str| text(path).and_then(cpu_list).unwrap_or_default();
    let pages = profile.at("spec.hugepages.pages").map_or(&[][..], Node::list);
    let page = |page: &Node| {
        let count = page.text_at("count").and_then(|count| count.parse().ok()).unwrap_or(0);
        (page.text_at("size").unwrap_or_default().to_owned(), count, page.get("node").is_some())
    };
    let additional = profile.at("spec.additionalKernelArgs").map_or(&[][..], Node::list);
    Hints {
        isolated: cores("cpu.isolated"),
        others: cores("cpu.reserved"),
        static_isolation: text("cpu.balanceIsolated") == Some("false"),
        real_time: text("workloadHints.realTime") != Some("false"),
        high_power: text("workloadHints.highPowerConsumption") == Some("true"),
        power_by_pod: text("workloadHints.perPodPowerManagement") == Some("true"),
        default_pages: text("hugepages.defaultHugepagesSize").map(str::to_owned),
        pages: pages.iter().map(page).collect(),
        additional: additional.iter().filter_map(Node::text).map(str::to_owned).collect(),
    }
}

/// Cores, arguments, pages and policies of both sides, key by key.
fn compare(version: Version, what: &str, profile: &Node, render: &Render) {
    let hints = hints(profile);
    let tuned = document(&render.tuned);
    let name = profile.text_at("metadata.name").expect("a name");
    let data = tuned.at("spec.profile").map_or(&[][..], Node::list).first().and_then(|one| one.text_at("data"));
    let isolated = data.and_then(|data| data.lines().find_map(|line| line.trim().strip_prefix("isolated_cores=")));
    assert_eq!(isolated.and_then(cpu_list).as_ref(), Some(&hints.isolated), "{version}, {what}: isolated cores");
    for (vendor, own) in [(Vendor::Intel, "intel-x86"), (Vendor::Amd, "amd-x86"), (Vendor::Arm, "arm-aarch64")] {
        let mut theirs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let all = [format!("openshift-node-performance-{name}"), format!("openshift-node-performance-{own}")];
        for (name, value) in all.iter().flat_map(|name| arguments_of(&tuned, name, &hints)) {
            theirs.entry(name).or_default().push(value);
        }
        let mut ours: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for argument in operator_arguments(version, vendor, &hints) {
            let (name, value) = argument.split_once('=').unwrap_or((&argument, &argument));
            ours.entry(name.to_owned()).or_default().push(value.to_owned());
        }
        // Chosen on the node by tuned, or by frequencies that an example asks for.
        for side in [&mut ours, &mut theirs] {
            side.retain(|name, _| !name.ends_with("_pstate"));
        }
        assert_eq!(ours, theirs, "{version}, {what}, {own}: arguments");
    }
    policies(version, what, profile, &hints, render);
    pages(version, what, profile, render);
}

/// The kubelet's settings; what Go writes of fields that nobody set is no
/// setting.
fn policies(version: Version, what: &str, profile: &Node, hints: &Hints, render: &Render) {
    let settings = parse("kubelet.yaml", &render.kubelet).expect("a KubeletConfig");
    let of_kubelet =
        |setting: &Setting| Some((setting.key.strip_prefix("KubeletConfig ")?.to_owned(), setting.value.clone()));
    let policy = profile.text_at("spec.numa.topologyPolicy");
    let ours: BTreeMap<String, String> = operator_kubelet(version, &hints.others, policy).into_iter().collect();
    let mut theirs: BTreeMap<String, String> = settings.iter().filter_map(of_kubelet).collect();
    theirs.retain(|key, value| {
        let unset = matches!(value.as_str(), "" | "0" | "0s" | "{}") || key.starts_with("logging");
        let ours = ours.contains_key(key);
        ours || !unset && key != "machineConfigPoolSelector"
    });
    assert_eq!(ours, theirs, "{version}, {what}: the kubelet's policies");
}

/// Pages by domain: units of the operator, with size, number and domain.
fn pages(version: Version, what: &str, profile: &Node, render: &Render) {
    let kilobytes = |size: &str| match size {
        "1G" => 1 << 20,
        "2M" => 2 << 10,
        "512M" => 512 << 10,
        "64k" => 64,
        "32M" => 32 << 10,
        _ => 0,
    };
    let asked = profile.at("spec.hugepages.pages").map_or(&[][..], Node::list).iter();
    let asked = asked.filter_map(|page| {
        Some((
            kilobytes(page.text_at("size")?).to_string(),
            page.text_at("count")?.to_owned(),
            page.text_at("node")?.to_owned(),
        ))
    });
    let mut asked: Vec<(String, String, String)> = asked.collect();
    let machine = document(&render.machine);
    let units = machine.at("spec.config.systemd.units").map_or(&[][..], Node::list).iter();
    let units = units.filter(|unit| unit.text_at("name").is_some_and(|name| name.starts_with("hugepages-allocation")));
    let of_unit = |unit: &Node| {
        let text = unit.text_at("contents").unwrap_or_default();
        let value = |name: &str| {
            let start = format!("Environment={name}=");
            text.lines().find_map(|line| line.trim().strip_prefix(&start)).unwrap_or_default().to_owned()
        };
        (value("HUGEPAGES_SIZE"), value("HUGEPAGES_COUNT"), value("NUMA_NODE"))
    };
    let mut made: Vec<(String, String, String)> = units.map(of_unit).collect();
    asked.sort_unstable();
    made.sort_unstable();
    assert_eq!(asked, made, "{version}, {what}: pages by domain");
}

/// For its own examples' input.
#[test]
fn what_the_operator_makes_of_its_own_examples_is_what_we_say() {
    let Some(versions) = versions() else { return println!("{LEFT_OUT}") };
    for (version, folder) in versions {
        let examples = fs::read_dir(folder.join("source").join(EXAMPLES)).expect("its examples").flatten();
        for example in examples.map(|entry| entry.path()) {
            let files = fs::read_dir(&example).expect("an example").flatten().map(|entry| entry.path());
            let input =
                files.into_iter().find(|path| path.to_string_lossy().contains("profile.yaml")).expect("a profile");
            let text = fs::read_to_string(&input).expect("a file");
            let what = example.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let own = Folder::new(&format!("example-{version}-{what}"));
            own.put("profile.yaml", &text);
            own.put("pool.yaml", POOL);
            compare(version, &what, &document(&text), &own.render(version, &folder.join("render"), "profile.yaml"));
            println!("{version}: {what}: cores, arguments, pages and policies are the same");
        }
    }
}

/// For ours, of four topologies.
#[test]
fn the_operator_takes_what_we_render() {
    let Some(versions) = versions() else { return println!("{LEFT_OUT}") };
    for (version, folder) in versions {
        for (name, text) in FIXTURES {
            let shape = Shape::of(&machine(text)).expect(name);
            let pages = shape.domains.len() as u64 * 2;
            for machine_checks in [false, true] {
                let asked = Wanted {
                    huge: vec![
                        format!("1G:{pages}").parse().expect("pages"),
                        format!("2M:{pages}").parse().expect("pages"),
                    ],
                    machine_checks,
                    ..wanted(version)
                };
                let profile = Profile::new(shape.clone(), asked).expect(name);
                let own = Folder::new(&format!("ours-{version}-{}", name.replace(' ', "-")));
                let files = render(&profile, Target::OpenShift);
                for file in files.iter().filter(|file| file.path.ends_with(".yaml")) {
                    own.put(&file.path.replace('/', "-"), &file.text);
                }
                let ours = files.iter().find(|file| file.path.contains("performance-profile")).expect("the profile");
                compare(version, name, &document(&ours.text), &own.render(version, &folder.join("render"), &ours.path));
            }
        }
        println!("{version}: the operator's render takes ours of {} topologies", FIXTURES.len());
    }
}
