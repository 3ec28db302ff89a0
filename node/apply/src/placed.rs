//! What is set by its number alone: the cores of one interrupt, the huge pages of
//! one domain. No role's plan has them, as which interrupt is whose is for a
//! person to know.

use crate::form::Form;
use crate::target::Target;
use audit::{AFFINITY, DOMAIN_PAGES, Evidence};

/// The file of `interrupt affinity@24` or `huge pages of a domain@node0 2048kB`, if
/// the key is one of these; or why there is none.
pub(crate) fn placed(evidence: &Evidence, key: &str, value: &str) -> Option<Result<Target, String>> {
    let (name, subject) = key.split_once('@').map_or((key, ""), |(name, subject)| (name, subject));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let target = |path: String, form| Target { path, form, value: value.to_owned() };
    let found = match name {
        AFFINITY if digits(subject) => {
            let missing: Vec<u32> = audit::cpu_list(value).unwrap_or_default();
            let there = evidence.cores();
            match missing.iter().find(|core| !there.is_empty() && !there.contains(core)) {
                Some(core) => Err(format!("there is no core {core} on line")),
                None => Ok(target(format!("proc/irq/{subject}/smp_affinity_list"), Form::List)),
            }
        }
        AFFINITY => Err("is of one interrupt: @NUMBER, as /proc/interrupts has it".to_owned()),
        DOMAIN_PAGES => {
            let path = subject.split_once(' ').and_then(|(node, size)| {
                let number = node.strip_prefix("node").filter(|number| digits(number))?;
                let kib = size.strip_suffix("kB").filter(|kib| digits(kib))?;
                Some(format!("sys/devices/system/node/node{number}/hugepages/hugepages-{kib}kB/nr_hugepages"))
            });
            path.map(|path| target(path, Form::Words))
                .ok_or_else(|| "is of one domain and one size of pages: @'node0 2048kB'".to_owned())
        }
        _ => return None,
    };
    Some(found)
}
