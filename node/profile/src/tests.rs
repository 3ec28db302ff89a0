//! Profiles for recorded machines: what is rendered is taken, says what was
//! asked for, and is found again on a node that is so.

mod cluster;
mod definitions;
mod operator;

use crate::{
    Check, Hints, Huge, Profile, ProfileError, Shape, Target, Vendor, Version, Wanted, check, list, mask,
    operator_arguments, render,
};
use audit::advice::{Setting, parse};
use audit::yaml::{Node, documents};
use audit::{Evidence, Role, Verdict, cpu_list, judge};
use std::fs;
use std::path::{Path, PathBuf};

const FIXTURES: [(&str, &str); 4] = [
    ("single", include_str!("../../topology/fixtures/single.txt")),
    ("two sockets", include_str!("../../topology/fixtures/two-sockets.txt")),
    ("four domains", include_str!("../../topology/fixtures/epyc-nps4.txt")),
    ("memoryless", include_str!("../../topology/fixtures/memoryless.txt")),
];

fn wanted(version: Version) -> Wanted {
    Wanted {
        name: "fast".to_owned(),
        pool: "worker-cnf".to_owned(),
        isolated: Vec::new(),
        reserved: Vec::new(),
        huge: Vec::new(),
        version,
        realtime_kernel: false,
        machine_checks: false,
        laboratory: false,
        sriov: None,
        ptp: None,
    }
}

/// Folders with definitions of kinds: what `NEARSIDE_CRDS` names, for manifests of each version, and what
/// lies in it by a version's name, as `4.16`, for those of this one.
fn definition_sets() -> Option<Vec<(Option<Version>, PathBuf)>> {
    let folder = std::env::var_os("NEARSIDE_CRDS").map(PathBuf::from)?;
    let version = |path: PathBuf| Some((Some(path.file_name()?.to_str()?.parse::<Version>().ok()?), path));
    let entries = fs::read_dir(&folder).expect("the folder of NEARSIDE_CRDS").flatten();
    let mut sets: Vec<_> = entries.filter_map(|entry| version(entry.path())).collect();
    sets.sort_unstable();
    sets.insert(0, (None, folder));
    Some(sets)
}

/// The definitions of a folder, each with its text.
fn definitions_in(folder: &Path) -> Vec<(Node, String)> {
    let paths = fs::read_dir(folder).expect("a folder of definitions").flatten().map(|entry| entry.path());
    let texts = paths.filter(|path| path.is_file()).map(|path| fs::read_to_string(path).expect("a definition"));
    texts.map(|text| (documents(&text).expect("YAML").remove(0), text)).collect()
}

/// Every manifest for OpenShift, of each topology and of one version or all, with all that may be asked
/// for and with none of it: which it is, its file and its text.
fn each_manifest(only: Option<Version>, mut act: impl FnMut(&str, &str, &str)) {
    let all = (10..=23).map(|minor| Version(4, minor)).chain([Version::CURRENT]);
    for (name, text) in FIXTURES {
        let shape = Shape::of(&machine(text)).expect(name);
        let pages = shape.domains.len() as u64 * 2;
        for version in all.clone().filter(|version| only.is_none_or(|only| only == *version)) {
            for extras in [false, true] {
                let asked = Wanted {
                    huge: vec![format!("1G:{pages}").parse().expect("pages")],
                    machine_checks: extras,
                    realtime_kernel: !extras,
                    laboratory: extras,
                    sriov: extras.then(|| "ens1f0".to_owned()),
                    ptp: extras.then(|| "ens1f0".to_owned()),
                    ..wanted(version)
                };
                let profile = Profile::new(shape.clone(), asked).expect(name);
                for file in render(&profile, Target::OpenShift).iter().filter(|file| file.path.ends_with(".yaml")) {
                    let told = format!("{name}, {version}: {}", file.path);
                    file.text.split("\n---\n").for_each(|one| act(&told, &file.path, one));
                }
            }
        }
    }
}

fn machine(text: &str) -> Evidence {
    Evidence::parse(text).expect("a recording").with("proc/cpuinfo", "vendor_id : GenuineIntel")
}

fn settings(files: &[crate::Rendered]) -> Vec<Setting> {
    let of = |file: &crate::Rendered| match parse(&file.path, &file.text) {
        Ok(settings) => settings,
        Err(audit::advice::AdviceError::UnknownForm { .. }) => Vec::new(),
        Err(why) => panic!("{why}\n{}", file.text),
    };
    files.iter().flat_map(of).collect()
}

fn value(settings: &[Setting], key: &str) -> Option<String> {
    settings.iter().rfind(|setting| setting.key == key).map(|setting| setting.value.clone())
}

/// For four topologies, every version and every option: what is rendered is
/// read back, covers all cores, and our own judgement finds nothing worse in it
/// than the default, but for what is there for laboratories.
#[test]
fn every_rendered_profile_stands_before_the_catalogue() {
    let versions = [
        Version(4, 10),
        Version(4, 11),
        Version(4, 12),
        Version(4, 13),
        Version(4, 16),
        Version(4, 23),
        Version::CURRENT,
    ];
    for (name, text) in FIXTURES {
        let evidence = machine(text);
        let shape = Shape::of(&evidence).expect(name);
        let all = shape.cores.len();
        let pages = shape.domains.len() as u64 * 2;
        for version in versions {
            for bits in 0..8_u8 {
                let asked = Wanted {
                    huge: vec![format!("1G:{pages}").parse().expect("pages")],
                    realtime_kernel: bits & 1 != 0,
                    machine_checks: bits & 2 != 0,
                    ptp: (bits & 4 != 0).then(|| "ens1f0".to_owned()),
                    sriov: (bits & 4 != 0).then(|| "ens1f0".to_owned()),
                    ..wanted(version)
                };
                if bits & 3 == 3 {
                    // The operator's webhook takes one of the two.
                    assert_eq!(Profile::new(shape.clone(), asked), Err(ProfileError::Hint));
                    continue;
                }
                let profile = Profile::new(shape.clone(), asked).expect(name);
                let found = settings(&render(&profile, Target::OpenShift));
                let cores = |key: &str| value(&found, key).and_then(|text| cpu_list(&text)).unwrap_or_default();
                assert_eq!(cores("PerformanceProfile cpu.isolated"), profile.isolated());
                assert_eq!(cores("PerformanceProfile cpu.reserved"), profile.reserved());
                assert_eq!(profile.isolated().len() + profile.reserved().len(), all, "{name}");
                let allowed = |key: &str| key == "cmdline mce" || key.starts_with("tuned cmdline_crash");
                for row in judge(&evidence, Role::Forwarder, &found).rows {
                    assert!(
                        row.verdict <= Verdict::Improvable || allowed(&row.key),
                        "{name} {version}: {}: {}",
                        row.key,
                        row.why
                    );
                }
            }
        }
        for target in [Target::Tuned, Target::Systemd, Target::Grub] {
            let profile = Profile::new(shape.clone(), wanted(Version::CURRENT)).expect(name);
            for row in judge(&evidence, Role::Forwarder, &settings(&render(&profile, target))).rows {
                assert!(row.verdict <= Verdict::Removed, "{name}: {}: {}", row.key, row.why);
            }
        }
    }
}

/// Every line that says something has a reason above it, or is part of what
/// has one.
#[test]
fn lines_have_reasons() {
    let evidence = machine(FIXTURES[1].1);
    let profile = Profile::new(Shape::of(&evidence).expect("cores"), wanted(Version(4, 12))).expect("a profile");
    for target in [Target::OpenShift, Target::Tuned, Target::Systemd, Target::Grub] {
        for file in render(&profile, target) {
            let reasons = file.text.lines().filter(|line| line.trim_start().starts_with("# ")).count();
            assert!(reasons > 0 && !file.what.is_empty(), "{}", file.path);
            assert!(file.text.lines().all(|line| line.trim_end() == line), "{}", file.path);
        }
    }
}

#[test]
fn what_a_node_would_suffer_from_is_refused() {
    let evidence = machine(FIXTURES[1].1);
    let shape = Shape::of(&evidence).expect("cores");
    let new = |change: &dyn Fn(&mut Wanted)| {
        let mut asked = wanted(Version::CURRENT);
        change(&mut asked);
        Profile::new(shape.clone(), asked)
    };
    let cores = |text: &str| cpu_list(text).expect("cores");
    assert_eq!(new(&|w| (w.isolated, w.reserved) = (cores("0-9"), cores("8-15"))), Err(ProfileError::Both(8)));
    assert_eq!(
        new(&|w| (w.isolated, w.reserved) = (cores("1-7,9-15"), cores("0"))),
        Err(ProfileError::Neither(vec![8]))
    );
    assert_eq!(new(&|w| (w.isolated, w.reserved) = (cores("1-15"), cores("0"))), Err(ProfileError::Siblings(8, 0)));
    assert_eq!(new(&|w| w.isolated = cores("2-99")), Err(ProfileError::NotThere(16)));
    assert_eq!(new(&|w| w.isolated = cores("0-15")), Err(ProfileError::Empty("for the kernel and everything else")));
    assert!(matches!(new(&|w| w.huge = vec!["1G:5".parse().expect("pages")]), Err(ProfileError::Uneven(..))));
    assert!(matches!(new(&|w| w.huge = vec!["1G:5@7".parse().expect("pages")]), Err(ProfileError::NoDomain(7))));
    assert!(matches!(new(&|w| w.name = "a: b\n".to_owned()), Err(ProfileError::Name(_))));
    let small = evidence.clone().with("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 8388608 kB");
    let asked = Wanted { huge: vec!["1G:20".parse().expect("pages")], ..wanted(Version::CURRENT) };
    let refused = Profile::new(Shape::of(&small).expect("cores"), asked);
    assert!(matches!(refused, Err(ProfileError::Memory(0, ..))), "{refused:?}");
    for odd in ["1G", "1G:x", "3M:1", "1G:1@", ":", "1G:-1", "1G:1@x"] {
        assert!(odd.parse::<Huge>().is_err(), "{odd}");
    }
    for odd in ["4.9", "5.3", "4.24", "4", "x.y", "4.10.1", ""] {
        assert!(odd.parse::<Version>().is_err(), "{odd}");
    }
}

#[test]
fn sets_of_cores_are_written_as_the_kernel_does() {
    assert_eq!(list(&[0, 1, 2, 16, 17, 20]), "0-2,16-17,20");
    assert_eq!((list(&[]), list(&[7])), (String::new(), "7".to_owned()));
    assert_eq!(mask(&[0, 1, 16, 17]), "00030003");
    assert_eq!(mask(&[0, 33]), "00000002,00000001");
}

/// Versions differ in what is left to us: the trick of 4.10, partitioning by
/// file or by the installer, ticks, the unit for mounts.
#[test]
fn each_version_gets_what_it_needs() {
    let evidence = machine(FIXTURES[1].1);
    let files = |version: Version, machine_checks: bool| {
        let asked = Wanted { machine_checks, ..wanted(version) };
        render(&Profile::new(Shape::of(&evidence).expect("cores"), asked).expect("a profile"), Target::OpenShift)
    };
    let has = |version: Version, checks: bool, words: &str| {
        files(version, checks).iter().any(|file| file.text.contains(words))
    };
    assert!(has(Version(4, 10), false, "cmdline_crash") && !has(Version(4, 11), false, "cmdline_crash"));
    assert!(
        has(Version(4, 13), false, "openshift-workload-pinning")
            && !has(Version(4, 14), false, "openshift-workload-pinning")
    );
    assert!(has(Version(4, 14), false, "cpuPartitioningMode: AllNodes"));
    assert!(!has(Version(4, 12), false, "kubens.service") && has(Version(4, 13), false, "kubens.service"));
    assert!(
        !has(Version(4, 11), false, "perPodPowerManagement") && has(Version(4, 12), false, "perPodPowerManagement")
    );
    // Without the hint its arguments are written out, but for those that the
    // operator has learned to write for all.
    assert!(has(Version(4, 22), true, "nohz_full=") && !has(Version(4, 23), true, "nohz_full="));
    assert!(has(Version::CURRENT, true, "mce=ignore_ce") && has(Version::CURRENT, true, "service.stalld=start,enable"));
}

/// Of 4.16 to 4.18 only: before them Arm had the template of Intel, and later ones leave
/// it to the kernel.
#[test]
fn arm_has_its_own_arguments_between_two_versions() {
    let hints = Hints {
        isolated: vec![2, 3],
        others: vec![0, 1],
        static_isolation: false,
        real_time: true,
        high_power: true,
        power_by_pod: false,
        default_pages: None,
        pages: Vec::new(),
        additional: Vec::new(),
    };
    let iommu = |version: Version| {
        let all = operator_arguments(version, Vendor::Arm, &hints);
        all.into_iter().filter(|one| one.contains("iommu")).collect::<Vec<_>>()
    };
    assert_eq!(iommu(Version(4, 15)), ["intel_iommu=on", "iommu=pt"]);
    for minor in 16..=18 {
        assert_eq!(iommu(Version(4, minor)), ["iommu.passthrough=1"], "4.{minor}");
    }
    assert!(iommu(Version(4, 19)).is_empty() && iommu(Version::CURRENT).is_empty());
}

/// The two files of partitioning, taken out of their URLs, name the same cores.
#[test]
fn partitioning_names_the_reserved_cores_twice() {
    let evidence = machine(FIXTURES[1].1);
    let profile = Profile::new(Shape::of(&evidence).expect("cores"), wanted(Version(4, 12))).expect("a profile");
    let found = settings(&render(&profile, Target::OpenShift));
    let sets: Vec<&str> =
        found.iter().filter(|one| one.key == "workload partitioning").map(|one| one.value.as_str()).collect();
    assert_eq!(sets, [list(profile.reserved()), list(profile.reserved())]);
}

/// A node that is as the operator makes it, and one that is not.
#[test]
fn a_node_is_held_against_its_files() {
    let before = machine(FIXTURES[1].1).with("proc/cmdline", "ro quiet");
    let asked = Wanted { huge: vec!["1G:4".parse().expect("pages")], ..wanted(Version(4, 18)) };
    let profile = Profile::new(Shape::of(&before).expect("cores"), asked).expect("a profile");
    let (isolated, reserved) = (list(profile.isolated()), profile.reserved().to_vec());
    let found = settings(&render(&profile, Target::OpenShift));
    let rows = check(&found, &before, Version(4, 18));
    let of = |rows: &[crate::Checked], what: &str| rows.iter().find(|row| row.what == what).map(|row| row.check);
    assert_eq!(of(&rows, "argument nohz_full"), Some(Check::Otherwise));
    assert_eq!(of(&rows, "pages of 1G on domain 0"), Some(Check::Unseen));
    let plain: Vec<String> = reserved.iter().map(u32::to_string).collect();
    let line = format!(
        "ro skew_tick=1 tsc=reliable rcupdate.rcu_normal_after_boot=1 nohz=on rcu_nocbs={isolated} \
            tuned.non_isolcpus={} \
         systemd.cpu_affinity={} intel_iommu=on iommu=pt isolcpus=managed_irq,{isolated} nohz_full={isolated} \
         nosoftlockup \
         nmi_watchdog=0 mce=off rcutree.kthread_prio=11 intel_pstate=passive default_hugepagesz=1G",
        mask(&reserved),
        plain.join(",")
    );
    let huge = |domain: u32| format!("sys/devices/system/node/node{domain}/hugepages/hugepages-1048576kB/nr_hugepages");
    let after = before
        .with("proc/cmdline", &line)
        .with(&huge(0), "2")
        .with(&huge(1), "1")
        .with("sys/devices/virtual/workqueue/cpumask", &mask(&reserved));
    let rows = check(&found, &after, Version(4, 18));
    let wrong: Vec<&str> =
        rows.iter().filter(|row| row.check == Check::Otherwise).map(|row| row.what.as_str()).collect();
    assert_eq!(wrong, ["pages of 1G on domain 1"], "{rows:#?}");
    assert_eq!(of(&rows, "argument isolcpus"), Some(Check::AsWanted));
    assert_eq!(of(&rows, "pages of 1G on domain 0"), Some(Check::AsWanted));
}

/// What the operator has the kubelet do, on the node itself.
#[test]
fn a_nodes_kubelet_is_held_against_the_operators_policies() {
    let before = machine(FIXTURES[1].1).with("proc/cmdline", "ro quiet");
    let profile = Profile::new(Shape::of(&before).expect("cores"), wanted(Version(4, 18))).expect("a profile");
    let found = settings(&render(&profile, Target::OpenShift));
    let kubelet = |text: Option<&str>| {
        let evidence = text.iter().fold(before.clone(), |all, text| all.with("etc/kubernetes/kubelet.conf", text));
        let rows = check(&found, &evidence, Version(4, 18));
        let own = rows.into_iter().filter(|row| row.what.starts_with("kubelet "));
        own.map(|row| (row.what, row.check)).collect::<Vec<_>>()
    };
    assert!(kubelet(None).iter().all(|(_, check)| *check == Check::Unseen));
    let text = format!(
        "{{\"kind\": \"KubeletConfiguration\", \"cpuManagerPolicy\": \"none\", \"topologyManagerPolicy\": \
         \"single-numa-node\", \"reservedSystemCPUs\": \"{}\", \"evictionHard\": {{\"memory.available\": \"100Mi\"}}}}",
        list(profile.reserved())
    );
    let rows = kubelet(Some(&text));
    let of = |what: &str| rows.iter().find(|(own, _)| own == what).map(|(_, check)| *check);
    assert_eq!(of("kubelet cpuManagerPolicy"), Some(Check::Otherwise), "{rows:?}");
    assert_eq!(of("kubelet topologyManagerPolicy"), Some(Check::AsWanted), "{rows:?}");
    assert_eq!(of("kubelet reservedSystemCPUs"), Some(Check::AsWanted), "{rows:?}");
    assert_eq!(of("kubelet evictionHard.memory.available"), Some(Check::AsWanted), "{rows:?}");
    assert_eq!(of("kubelet memoryManagerPolicy"), Some(Check::Otherwise), "{rows:?}");
}

/// The same, of files for a machine without a cluster.
#[test]
fn a_machine_is_held_against_grub_and_tmpfiles() {
    let evidence = machine(FIXTURES[1].1).with("proc/cmdline", "ro");
    let profile = Profile::new(Shape::of(&evidence).expect("cores"), wanted(Version::CURRENT)).expect("a profile");
    let grub = settings(&render(&profile, Target::Grub));
    let rows = check(&grub, &evidence, Version::CURRENT);
    assert!(rows.iter().all(|row| row.check != Check::AsWanted), "{rows:#?}");
    let words: Vec<String> =
        grub.iter().filter_map(|one| Some(format!("{}={}", one.key.strip_prefix("cmdline ")?, one.value))).collect();
    let after = evidence
        .with("proc/cmdline", &words.join(" "))
        .with("sys/devices/system/cpu/nohz_full", &list(profile.isolated()));
    let rows = check(&grub, &after, Version::CURRENT);
    assert!(rows.iter().all(|row| row.check != Check::Otherwise), "{rows:#?}");
    let units = settings(&render(&profile, Target::Systemd));
    let own = after.with("sys/devices/virtual/workqueue/cpumask", &mask(profile.reserved()));
    let rows = check(&units, &own, Version::CURRENT);
    let cpumask = rows.iter().find(|row| row.what == "workqueue cores").expect("the mask");
    assert_eq!(cpumask.check, Check::AsWanted);
}

#[test]
fn processors_without_x86_get_no_arguments_of_it() {
    let evidence = Evidence::parse(FIXTURES[0].1).expect("a recording").with(
        "proc/cpuinfo",
        "CPU implementer : \
        0x41",
    );
    let shape = Shape::of(&evidence).expect("cores");
    assert_eq!(shape.vendor, Vendor::Arm);
    let profile = Profile::new(shape, wanted(Version::CURRENT)).expect("a profile");
    let text = &render(&profile, Target::Grub)[0].text;
    assert!(!text.contains("mce=") && !text.contains("tsc=") && !text.contains("iommu"));
}
