//! Processor time of control groups: quotas, and how often they were reached.
//! A group has no more than each group above it, so all of them count.

use crate::rule::{Reading, Verdict};
use crate::{Case, Evidence, Finding};

use Verdict::{Improvable, WorseThanDefault};

const TOP: &str = "sys/fs/cgroup";

/// Folders of the groups that have a file of this name.
fn folders<'a>(evidence: &'a Evidence, file: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let of_file = move |(path, text): (&'a str, Result<&'a str, &'a str>)| {
        let folder = path.strip_suffix(file)?.strip_suffix('/')?;
        (folder.starts_with(TOP)).then_some((folder, text.ok()?.trim()))
    };
    evidence.files().filter_map(of_file)
}

/// A group's name, as people call it.
fn named(folder: &str) -> String {
    match folder.strip_prefix(TOP).unwrap_or(folder) {
        "" => "cgroup".to_owned(),
        group => format!("cgroup {group}"),
    }
}

/// Microseconds of each period, by group; of those that have a quota.
fn quotas(evidence: &Evidence) -> Vec<(&str, u64, u64)> {
    let two = folders(evidence, "cpu.max").filter_map(|(folder, text)| {
        let (quota, period) = text.split_once(' ')?;
        Some((folder, quota.parse().ok()?, period.trim().parse().ok()?))
    });
    let one = folders(evidence, "cpu.cfs_quota_us").filter_map(|(folder, quota)| {
        let period = evidence.get(&format!("{folder}/cpu.cfs_period_us")).and_then(|period| period.parse().ok());
        // -1 is none.
        Some((folder, quota.parse().ok()?, period.unwrap_or(100_000)))
    });
    two.chain(one).filter(|(_, _, period)| *period > 0).collect()
}

/// Whole cores of the tightest quota there is.
pub(super) fn cores(evidence: &Evidence) -> Option<u64> {
    quotas(evidence).into_iter().map(|(_, quota, period)| quota.div_ceil(period)).min()
}

/// Each quota, or that there is none.
pub(super) fn quota(evidence: &Evidence) -> Vec<Reading> {
    let known = folders(evidence, "cpu.max").next().or_else(|| folders(evidence, "cpu.cfs_quota_us").next()).is_some();
    let readings: Vec<Reading> = quotas(evidence)
        .into_iter()
        .map(|(folder, quota, period)| Reading { subject: named(folder), value: Ok(format!("{quota} {period}")) })
        .collect();
    match readings.is_empty() && known {
        true => vec![Reading { subject: "cgroup".to_owned(), value: Ok("max".to_owned()) }],
        false => readings,
    }
}

pub(super) fn processor_quota(case: &Case<'_>) -> Finding {
    let mut words = case.value.split_whitespace();
    let (quota, period) = (words.next().unwrap_or("max"), words.next().unwrap_or("100000"));
    match (quota.parse::<f64>(), period.parse::<f64>()) {
        _ if quota == "max" => Finding::ok("no quota"),
        (Ok(quota), Ok(period)) if period > 0.0 => Finding::new(
            if case.role.polls() { WorseThanDefault } else { Improvable },
            format!("{:.2} cores; beyond that the server stands still to the end of each period", quota / period),
        )
        .want("whole cores by cpuset (Guaranteed pods with the static CPU manager)"),
        _ => Finding::new(Verdict::Unreadable, "is no quota and period"),
    }
}

/// Periods in which a group was throttled, and all of its periods; of those
/// that were.
fn stopped(evidence: &Evidence) -> Vec<(&str, u64, u64)> {
    let field = |text: &str, name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.trim().parse().ok()
    };
    let of = |(folder, text)| {
        let throttled = field(text, "nr_throttled")?;
        Some((folder, throttled, field(text, "nr_periods").unwrap_or(throttled)))
    };
    folders(evidence, "cpu.stat").filter_map(of).collect()
}

/// The most that any group was throttled since it is there.
pub(super) fn throttled(evidence: &Evidence) -> u64 {
    stopped(evidence).into_iter().map(|(_, throttled, _)| throttled).max().unwrap_or(0)
}

/// Each group that was throttled, or that none was.
pub(super) fn throttled_periods(evidence: &Evidence) -> Vec<Reading> {
    let all = stopped(evidence);
    let reading = |(folder, throttled, periods): &(&str, u64, u64)| {
        (*throttled > 0).then(|| Reading { subject: named(folder), value: Ok(format!("{throttled} of {periods}")) })
    };
    let readings: Vec<Reading> = all.iter().filter_map(reading).collect();
    match readings.is_empty() && !all.is_empty() {
        true => vec![Reading { subject: "cgroup".to_owned(), value: Ok("0".to_owned()) }],
        false => readings,
    }
}

pub(super) fn stood_still(case: &Case<'_>) -> Finding {
    let (throttled, periods) = case.value.split_once(" of ").unwrap_or((case.value, ""));
    match (throttled.parse::<u64>(), periods.parse::<u64>()) {
        (Ok(0), _) => Finding::ok("none"),
        // One in ten, and so in each percentile that anybody looks at.
        (Ok(count), Ok(all)) if count.saturating_mul(10) >= all => Finding::new(
            if case.role.polls() { WorseThanDefault } else { Improvable },
            format!("it stood still in {count} of {all} periods: the quota is what limits it"),
        )
        .want("a larger quota, or whole cores by cpuset"),
        (Ok(count), _) => Finding::new(Improvable, format!("{count} periods in which it stood still")),
        _ => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Role, machine};

    fn rows(files: &[(&str, &str)], key: &str) -> Vec<(String, String, Verdict)> {
        let report = machine(&Evidence::of(files), Role::Web);
        let rows = report.rows.into_iter().filter(|row| row.key == key);
        rows.map(|row| (row.subject, row.value, row.verdict)).collect()
    }

    #[test]
    fn the_own_group_and_those_above_count_in_both_versions() {
        let two = [
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 5"),
            ("sys/fs/cgroup/a/cpu.stat", "usage_usec 1\nnr_periods 31\nnr_throttled 30\nthrottled_usec 9"),
        ];
        let one = |subject: &str, value: &str, verdict| vec![(subject.to_owned(), value.to_owned(), verdict)];
        assert_eq!(rows(&two, "processor quota"), one("cgroup /a", "150000 100000", WorseThanDefault));
        assert_eq!(rows(&two, "throttled periods"), one("cgroup /a", "30 of 31", WorseThanDefault));
        assert_eq!(cores(&Evidence::of(&two)), Some(2));
        let first = [
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "25000"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "50000"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.stat", "nr_periods 1000\nnr_throttled 1\nthrottled_time 9"),
        ];
        assert_eq!(rows(&first, "processor quota"), one("cgroup /cpu,cpuacct/a", "25000 50000", WorseThanDefault));
        assert_eq!(rows(&first, "throttled periods"), one("cgroup /cpu,cpuacct/a", "1 of 1000", Improvable));
        let none = [("sys/fs/cgroup/cpu.max", "max 100000"), ("sys/fs/cgroup/cpu.stat", "nr_throttled 0")];
        assert_eq!(rows(&none, "processor quota"), one("cgroup", "max", Verdict::Ok));
        assert_eq!(rows(&none, "throttled periods"), one("cgroup", "0", Verdict::Ok));
    }
}
