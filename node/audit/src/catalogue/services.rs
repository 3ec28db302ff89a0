//! Services, processes and their limits.

use crate::rule::{Area, Judge, Reading, Roles, Rule, Verdict};
use crate::{Case, Evidence, Finding, Role};

use super::groups::{processor_quota, quota, stood_still, throttled_periods};
use super::memory::one;
use Judge::By;
use Verdict::{Improvable, NoEffect as Nothing, WorseThanDefault};

const CGROUP2: &str = "Linux Documentation/admin-guide/cgroup-v2.rst";

const fn each(key: &'static str, probe: fn(&Evidence) -> Vec<Reading>, judge: Judge, explain: &'static str) -> Rule {
    Rule::each(Area::Services, key, probe, judge, explain)
}

pub(super) const RULES: &[Rule] = &[
    each(
        "open files of servers",
        |evidence| limits(evidence, "Max open files"),
        By(open_files),
        "The limit of a running process: that of its unit (LimitNOFILE), or what it asked for itself \
         (worker_rlimit_nofile). /etc/security/limits.conf is for logins by PAM and reaches no unit.",
    )
    .gain("as many connections as there is memory for")
    .risk("some old programs close every number up to the limit at their start")
    .source("man 5 systemd.exec, LimitNOFILE; man 2 getrlimit"),
    each(
        "locked memory of servers",
        |evidence| limits(evidence, "Max locked memory"),
        By(locked_memory),
        "What a process may keep from being swapped: AF_XDP memory of kernels before 5.11 is counted here, \
            io_uring's too.",
    )
    .source("man 5 systemd.exec, LimitMEMLOCK"),
    each(
        "real-time priority of servers",
        |evidence| limits(evidence, "Max realtime priority"),
        By(realtime_priority),
        "The FIFO priority that a process may take without CAP_SYS_NICE.",
    )
    .roles(Roles::POLLING)
    .source("man 5 systemd.exec, LimitRTPRIO"),
    each(
        "limits.conf",
        |evidence| {
            let own = evidence.get("etc/security/limits.conf");
            let lines = own.map(|text| {
                text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).count()
            });
            one("/etc/security/limits.conf", lines.map(|lines| format!("{lines} lines in force")))
        },
        By(limits_conf),
        "Limits of logins by PAM. Services of systemd do not pass through it.",
    )
    .source("man 5 limits.conf; man 5 systemd.exec"),
    each(
        "limit of open files by default",
        |evidence| {
            let file = evidence.get("etc/systemd/system.conf");
            let set = |text: &str| {
                let line = text.lines().rfind(|line| line.trim_start().starts_with("DefaultLimitNOFILE="));
                line.map_or(
                    "1024:524288 (systemd's \
                    own)",
                    |line| line.split_once('=').map_or("", |(_, value)| value.trim()),
                )
                .to_owned()
            };
            one("systemd", file.map(set))
        },
        By(|case| Finding::ok(format!("{} for units that do not say LimitNOFILE", case.value))),
        "What units get that say nothing.",
    )
    .source("man 5 systemd-system.conf"),
    each(
        "processor quota",
        quota,
        By(processor_quota),
        "Processor time of a cgroup for each period: a server in a container that reaches it stands still to the \
         period's end. Polling silos reach any quota.",
    )
    .gain("no stalls of up to 100 ms")
    .risk("neighbours get less")
    .source(CGROUP2),
    each(
        "throttled periods",
        throttled_periods,
        By(stood_still),
        "Periods in which the cgroup stood still, as its quota was used up (cpu.stat).",
    )
    .gain("no stalls of up to 100 ms")
    .source(CGROUP2),
    each(
        "processors of the cgroup",
        |evidence| one("cgroup", evidence.get("sys/fs/cgroup/cpuset.cpus.effective").map(str::to_owned)),
        By(|case| Finding::ok(format!("{} may be used", case.value))),
        "Cores that the cgroup may use.",
    )
    .source(CGROUP2),
    each(
        "memory limit of the cgroup",
        |evidence| one("cgroup", evidence.get("sys/fs/cgroup/memory.max").map(str::to_owned)),
        By(memory_limit),
        "Memory of the cgroup, cached files and socket buffers included.",
    )
    .source(CGROUP2),
    each(
        "processes of the cgroup",
        |evidence| one("cgroup", evidence.get("sys/fs/cgroup/pids.max").map(str::to_owned)),
        By(|case| match case.number() {
            Some(most) if most < 512 => Finding::new(
                Improvable,
                format!(
                    "{most} threads and processes at \
                most"
                ),
            )
            .want("4096"),
            _ => Finding::ok("enough"),
        }),
        "Threads and processes of the cgroup.",
    )
    .source(CGROUP2),
    each(
        "cgroup version",
        |evidence| {
            let two = evidence.get("sys/fs/cgroup/cgroup.controllers").is_some();
            let one_there = evidence.get("sys/fs/cgroup/cpu/cpu.cfs_quota_us").is_some();
            let mounted = evidence.get("proc/mounts").map(|text| text.contains(" cgroup"));
            let text = if two {
                "2"
            } else if one_there {
                "1"
            } else {
                "none"
            };
            one("this machine", (two || one_there || mounted.is_some()).then(|| text.to_owned()))
        },
        By(|case| match case.value {
            "1" => Finding::new(
                Improvable,
                "version 1: no pressure figures by cgroup, no isolated partitions; \
                and removed from systemd 258",
            ),
            "2" => Finding::ok("version 2"),
            _ => Finding::ok("no cgroups are mounted"),
        }),
        "Which form of control groups is in use.",
    )
    .source(CGROUP2),
    each(
        "time service",
        |evidence| {
            let services = ["chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys"];
            let running: Vec<&str> = services.into_iter().filter(|name| evidence.runs(name)).collect();
            let text = if running.is_empty() { "none".to_owned() } else { running.join(" ") };
            one("this machine", evidence.get("proc/1/comm").map(|_| text))
        },
        By(time_service),
        "Who keeps the clock right. Advice that stops chronyd for quiet cores lets the clock drift: only with PTP \
            in its \
         place.",
    )
    .risk("without one certificates, logs and leases go wrong by seconds a day")
    .undo("systemctl start chronyd")
    .source("man 8 chronyd"),
    each(
        "stalld",
        |evidence| one("stalld", evidence.get("proc/1/comm").map(|_| evidence.runs("stalld").to_string())),
        By(stalld),
        "Gives starved threads a moment beside FIFO threads that spin.",
    )
    .roles(Roles::POLLING)
    .source("man 8 stalld"),
    each(
        "tuned",
        |evidence| {
            let profile = evidence.get("etc/tuned/active_profile").filter(|text| !text.is_empty()).unwrap_or("none");
            let state = if evidence.runs("tuned") { "runs" } else { "does not run" };
            one("tuned", evidence.get("proc/1/comm").map(|_| format!("{profile}, {state}")))
        },
        By(tuned),
        "A service that sets a profile's values, and sets them again. It and sysctl.d may disagree: with \
            reapply_sysctl=1, \
         its default, sysctl.d has the last word.",
    )
    .source("man 8 tuned; man 5 tuned-main.conf"),
    each(
        "power profile service",
        |evidence| {
            let running =
                ["power-profiles-", "thermald"].into_iter().filter(|name| evidence.runs(name)).collect::<Vec<_>>();
            let text = if running.is_empty() { "none".to_owned() } else { running.join(" ") };
            one("this machine", evidence.get("proc/1/comm").map(|_| text))
        },
        By(|case| match case.value {
            "none" => Finding::ok("none runs"),
            name => Finding::new(Improvable, format!("{name} changes frequencies by itself")),
        }),
        "Services that change frequencies for power.",
    )
    .source("power-profiles-daemon's README; man 8 thermald"),
    each(
        "container",
        |evidence| {
            let found = crate::container(|path| evidence.get(path).map(str::to_owned));
            let name = found.unwrap_or_else(|| "none".to_owned());
            one("this machine", evidence.get("proc/1/comm").map(|_| name))
        },
        By(|case| match case.value {
            "none" => Finding::ok("no container that can be told"),
            _ => Finding::ok("a container: most settings are the host's, and are seen here but not changed"),
        }),
        "Whether this is a container, where settings belong to the host.",
    )
    .source("man 1 systemd-detect-virt"),
];

/// A line of the limits of each server that runs; equal ones of one name once.
fn limits(evidence: &Evidence, name: &str) -> Vec<Reading> {
    const SERVERS: [&str; 10] =
        ["nearside", "nginx", "haproxy", "envoy", "caddy", "httpd", "apache2", "lighttpd", "varnishd", "trafficserver"];
    let mut readings: Vec<Reading> = Vec::new();
    for (number, comm) in evidence.processes().into_iter().filter(|(_, comm)| SERVERS.contains(comm)) {
        let value = match evidence.read(&format!("proc/{number}/limits")) {
            // It ended between the look at its name and this one.
            None => continue,
            Some(Err(why)) => Err(why.to_owned()),
            Some(Ok(text)) => {
                let line = text.lines().find_map(|line| line.strip_prefix(name));
                let soft = line.and_then(|line| line.split_whitespace().next());
                soft.map(str::to_owned).ok_or_else(|| format!("{name} is not in its limits"))
            }
        };
        let same = |known: &&mut Reading| known.value == value && known.subject.starts_with(comm);
        match readings.iter_mut().find(same) {
            Some(known) => known.subject.push_str(&format!(" {number}")),
            None => readings.push(Reading { subject: format!("{comm} {number}"), value }),
        }
    }
    readings
}

fn open_files(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(limit) if limit < 4_096 => {
            Finding::new(WorseThanDefault, format!("{limit} connections at most, files and listeners included"))
                .want("LimitNOFILE=1048576 in its unit")
        }
        Some(limit) if limit < 65_536 => {
            Finding::new(Improvable, format!("{limit} connections at most")).want("LimitNOFILE=1048576 in its unit")
        }
        Some(limit) => Finding::ok(format!("{limit} connections at most")),
        None => Finding::ok("no limit"),
    }
}

fn locked_memory(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(limit) if limit < 1 << 20 && !case.kernel_from(5, 11) => {
            Finding::new(Improvable, "AF_XDP sockets and eBPF maps need more on this kernel")
                .want("LimitMEMLOCK=infinity in its unit")
        }
        _ => Finding::ok("enough: since Linux 5.11 eBPF is counted by cgroup"),
    }
}

fn realtime_priority(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::ok("none without CAP_SYS_NICE"),
        Some(priority) => Finding::ok(format!("FIFO up to {priority}")),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn limits_conf(case: &Case<'_>) -> Finding {
    if case.value.starts_with("0 ") {
        return Finding::ok("nothing is set there");
    }
    let of_shell = case.subject == "ulimit";
    if of_shell && (case.role == Role::Load || case.number().is_some_and(|number| number < 1_024)) {
        let why = "in force in this shell and for what it starts, the load among it";
        return match case.number() {
            Some(number) if number < 1_024 => {
                Finding::new(WorseThanDefault, format!("{why}: less than the default of 1,024")).want("65536")
            }
            _ => Finding::ok(why),
        };
    }
    if of_shell {
        return Finding::new(Nothing, "for what this shell starts; a unit's limit is LimitNOFILE");
    }
    let (domain, kind) = case.subject.rsplit_once(' ').unwrap_or((case.subject, ""));
    let other = |kind: &str| {
        let subject = format!("{domain} {kind}");
        case.others.iter().any(|other| other.key == "limits.conf" && other.subject == subject)
    };
    let alone = match kind {
        "hard" if case.advised && !other("soft") && !other("-") => {
            ", and hard is the ceiling alone: what is in force is soft, which stays"
        }
        _ => "",
    };
    Finding::new(
        Nothing,
        format!("for logins only{alone}: a unit's limits are LimitNOFILE and its like; see the row on open files"),
    )
}

fn memory_limit(case: &Case<'_>) -> Finding {
    match case.number() {
        None => Finding::ok("no limit"),
        Some(limit) if limit < 256 << 20 => Finding::new(
            Improvable,
            format!("{}: connections and cached files share it", super::tcp_limits::bytes(limit)),
        ),
        Some(limit) => Finding::ok(super::tcp_limits::bytes(limit)),
    }
}

fn time_service(case: &Case<'_>) -> Finding {
    match case.value {
        "none" if case.evidence.virtual_machine() => Finding::ok("none: the host may keep the clock right"),
        "none" => Finding::new(Improvable, "nothing keeps the clock right").want("chronyd, or ptp4l with phc2sys"),
        names => Finding::ok(format!("{names} keeps it")),
    }
}

fn stalld(case: &Case<'_>) -> Finding {
    match case.value {
        "true" => Finding::ok("runs: a FIFO thread that spins cannot starve others for good"),
        _ => Finding::ok("does not run; it is needed only beside FIFO threads that spin"),
    }
}

fn tuned(case: &Case<'_>) -> Finding {
    let (profile, state) = case.value.split_once(", ").unwrap_or((case.value, ""));
    match (profile, state) {
        ("none", _) => Finding::ok("no profile is chosen"),
        (_, "does not run") => {
            Finding::new(Nothing, "a profile is chosen, but tuned does not run: nothing of it is set again")
        }
        ("powersave" | "balanced" | "desktop", _) => {
            Finding::new(Improvable, format!("{profile} saves power")).want("network-latency or cpu-partitioning")
        }
        _ => Finding::ok(format!("{profile} is in force")),
    }
}
