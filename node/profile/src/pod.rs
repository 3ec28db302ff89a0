//! The example of a pod that gets what a profile sets aside.

use crate::text::Text;
use crate::wanted::{PageSize, Profile, Version};

/// Since when pods choose idle states and governor.
pub(crate) const POWER_BY_POD: Version = Version(4, 12);

/// A pod of half of the cores of the domain with the most, in whole cores.
pub(crate) fn pod(profile: &Profile) -> String {
    let wanted = &profile.wanted;
    let of_domain =
        |domain: &crate::NumaNode| domain.cores.iter().filter(|core| profile.isolated().contains(core)).count();
    let best = profile.shape.domains.iter().max_by_key(|domain| of_domain(domain));
    let (number, most) = best.map_or((0, 1), |domain| (domain.number, of_domain(domain)));
    let threads = profile.isolated().first().map_or(1, |core| profile.shape.siblings_of(*core).len().max(1));
    let cores = (most / 2 / threads * threads).max(threads);
    let mut text = Text::new();
    text.comment(
        "",
        "requests = limits in each container, and whole cores: otherwise the pod is not Guaranteed, or shares \
            cores, and \
         the annotations are for nothing.",
    )
    .line("apiVersion: v1")
    .line("kind: Pod")
    .line("metadata:")
    .line(format!("  name: {}-example", wanted.name))
    .line("  annotations:")
    .because("    cpu-quota.crio.io: \"disable\"", "No quota, so it is never throttled.")
    .because(
        "    cpu-load-balancing.crio.io: \"disable\"",
        "The scheduler moves no thread among its cores: pin \
        each.",
    )
    .because("    irq-load-balancing.crio.io: \"disable\"", "Device interrupts keep off its cores while it runs.");
    if wanted.version >= POWER_BY_POD {
        text.because("    cpu-c-states.crio.io: \"disable\"", "Its cores do not sleep; the rest of the node may.");
    }
    text.line("spec:")
        .because(
            format!("  runtimeClassName: performance-{}", wanted.name),
            "Without it CRI-O acts upon none of the annotations. The operator makes the class.",
        )
        .line("  nodeSelector:")
        .line(format!("    node-role.kubernetes.io/{}: \"\"", wanted.pool))
        .line("  containers:")
        .line("    - name: poller")
        .because("      image: registry.example/poller:1", "Yours.")
        .line("      resources:");
    resources(&mut text, profile, number, cores);
    volumes(&mut text, profile);
    text.done()
}

/// Requests and limits, which are the same.
fn resources(text: &mut Text, profile: &Profile, number: u32, cores: usize) {
    for kind in ["requests", "limits"] {
        text.line(format!("        {kind}:"));
        if kind == "requests" {
            text.because(
                format!("          cpu: {cores}"),
                "Whole cores with both siblings (full-pcpus-only), of one domain.",
            );
        } else {
            text.line(format!("          cpu: {cores}"));
        }
        text.line("          memory: 1000Mi");
        for (size, domain, count) in profile.pages.iter().filter(|(_, domain, count)| *domain == number && *count > 1) {
            let half = (count / 2).max(1);
            let (unit, amount) = match size {
                PageSize::G1 => ("hugepages-1Gi", format!("{half}Gi")),
                PageSize::M2 => ("hugepages-2Mi", format!("{}Mi", half * 2)),
            };
            let line = format!("          {unit}: {amount}");
            match kind {
                "requests" => text.because(line, &format!("Of the {count} of domain {domain}.")),
                _ => text.line(line),
            };
        }
        if profile.wanted.sriov.is_some() {
            text.line("          openshift.io/low_latency: 1");
        }
    }
}

/// Huge pages as a file system.
fn volumes(text: &mut Text, profile: &Profile) {
    if !profile.pages.is_empty() {
        text.line("      volumeMounts:").line("        - name: huge").line("          mountPath: /dev/hugepages");
        text.line("  volumes:")
            .line("    - name: huge")
            .because("      emptyDir:", "hugetlbfs, of the pod's own limit.");
        let medium = match profile.sizes().as_slice() {
            [_] => "HugePages".to_owned(),
            sizes => format!("HugePages-{}i", sizes.first().map_or("1G", |size| size.name())),
        };
        text.line(format!("        medium: {medium}"));
    }
}
