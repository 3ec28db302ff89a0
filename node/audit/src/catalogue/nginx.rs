//! nginx's directives that ask something of the node.

use crate::rule::{Area, Judge, Probe, Rule, Verdict};
use crate::{Case, Finding};

use Judge::By;
use Verdict::{Conflicts, Dangerous, Improvable, NoEffect, Unnecessary, WorseThanDefault};

const CORE: &str = "nginx, ngx_core_module";
const EVENTS: &str = "nginx, ngx_core_module, events";
const HTTP: &str = "nginx, ngx_http_core_module";

const fn rule(source: &'static str, key: &'static str, judge: fn(&Case<'_>) -> Finding, explain: &'static str) -> Rule {
    let rule = Rule::sysctl(Area::Services, key, By(judge), explain).source(source).undo("take it out, and reload");
    Rule { probe: Probe::Advice, ..rule }
}

/// What is true of a directive where the configuration is that of F-Stack's
/// nginx; `None` where it means what it means with every nginx.
pub(crate) fn with_fstack(key: &str, value: &str) -> Option<Finding> {
    let why = match (key.strip_prefix("nginx ")?, value) {
        ("fstack_conf", _) => return None,
        ("use", "kqueue") => "F-Stack's own imitation of it: events come from its stack, not from the kernel",
        ("use", _) => {
            return Some(
                Finding::new(WorseThanDefault, "F-Stack's nginx gets its events by kqueue alone").want("kqueue"),
            );
        }
        ("sendfile", "off") => "F-Stack has none: files are copied into its stack",
        ("sendfile", _) => {
            return Some(
                Finding::new(Improvable, "F-Stack has no sendfile, and its notes say to turn it off").want("off"),
            );
        }
        ("tcp_nopush" | "aio" | "directio" | "multi_accept" | "accept_mutex", _) => "has no meaning on F-Stack's stack",
        ("worker_cpu_affinity", _) => "processes go by lcore_mask of its configuration",
        ("worker_processes", _) => "must be as many as lcore_mask has cores",
        ("schedule_timeout", _) => "how often F-Stack's loop calls nginx",
        ("kernel_network_stack" | "proxy_kernel_network_stack", "on") => "by the host's own stack",
        ("kernel_network_stack" | "proxy_kernel_network_stack", _) => "by F-Stack's stack",
        (listen, _) if listen.starts_with("listen") => "of F-Stack's stack: the kernel's limits do not concern it",
        _ => return None,
    };
    Some(Finding::new(NoEffect, why))
}

pub(super) const RULES: &[Rule] = &[
    rule(
        "F-Stack, app/nginx",
        "nginx fstack_conf",
        |_| {
            Finding::ok(
                "F-Stack's nginx: kqueue, sendfile and what listen says mean something else there; nearside import \
                 says what becomes of each line",
            )
        },
        "The configuration of F-Stack's stack, on which its nginx runs in the place of the kernel's.",
    ),
    rule(
        CORE,
        "nginx worker_processes",
        processes,
        "Worker processes: one for each core that it may use. auto counts the machine's cores, not a \
            container's quota.",
    ),
    rule(
        EVENTS,
        "nginx worker_connections",
        connections,
        "Connections of a worker, those to upstreams included: 512 by default. Each takes a descriptor, and a \
            proxied request two.",
    ),
    rule(
        CORE,
        "nginx worker_rlimit_nofile",
        files,
        "The workers' limit of open files. It may exceed the unit's LimitNOFILE, if nginx is started by root, \
            but not fs.nr_open.",
    ),
    rule(
        CORE,
        "nginx worker_cpu_affinity",
        affinity,
        "Cores of workers: auto, or a mask for each in binary digits, the rightmost being core 0.",
    ),
    rule(
        CORE,
        "nginx worker_priority",
        |case| match case.value.strip_prefix('-') {
            Some(_) => Finding::new(
                NoEffect,
                "among workers of one kind it changes nothing; others on the same cores wait longer",
            ),
            None => Finding::ok("an ordinary priority, or a lower one"),
        },
        "nice of the workers.",
    ),
    rule(
        EVENTS,
        "nginx multi_accept",
        |case| match case.value {
            "on" => {
                Finding::new(Improvable, "one worker takes all that waits, and requests behind it wait: tails grow")
                    .want("off")
            }
            _ => Finding::ok("one connection at a time, as by default"),
        },
        "Whether a worker accepts all connections that wait, or one at a time.",
    ),
    rule(
        EVENTS,
        "nginx accept_mutex",
        |case| match case.value {
            "on" => Finding::new(
                WorseThanDefault,
                "workers take turns at accepting, up to 500 ms each \
            (accept_mutex_delay); with reuseport or EPOLLEXCLUSIVE nothing is gained",
            )
            .want("off"),
            _ => Finding::ok("off, as by default since 1.11.3"),
        },
        "Whether workers accept by turns.",
    ),
    rule(
        EVENTS,
        "nginx use",
        |case| match case.value {
            "epoll" => Finding::new(Unnecessary, "is what nginx chooses on Linux"),
            "kqueue" | "eventport" | "/dev/poll" => {
                Finding::new(WorseThanDefault, "is another system's: nginx does not start with it on Linux")
                    .want("epoll")
            }
            _ => Finding::new(WorseThanDefault, "looks at all connections each time").want("epoll"),
        },
        "How workers learn what is ready.",
    ),
    rule(
        HTTP,
        "nginx sendfile",
        |case| match case.value {
            "on" => Finding::ok("files are not copied through the worker; nothing for proxied or compressed answers"),
            _ => Finding::new(Improvable, "each file is read into the worker and written again").want("on"),
        },
        "Files by sendfile(2).",
    ),
    rule(
        HTTP,
        "nginx tcp_nopush",
        |case| match (case.value, case.advised("nginx sendfile")) {
            ("on", Some("on")) => Finding::ok("head and file begin in one segment"),
            ("on", _) => Finding::new(NoEffect, "acts with sendfile on only"),
            _ => Finding::ok("as by default"),
        },
        "TCP_CORK while a file is sent.",
    ),
    rule(
        HTTP,
        "nginx tcp_nodelay",
        |case| match case.value {
            "off" => Finding::new(
                WorseThanDefault,
                "small writes wait for acknowledgements: up to 40 ms (RFC 9293 section 3.7.4)",
            )
            .want("on"),
            _ => Finding::new(Unnecessary, "is the default"),
        },
        "TCP_NODELAY on kept connections.",
    ),
    rule(
        HTTP,
        "nginx aio",
        |case| match case.value.split(['=', ' ']).next() {
            Some("threads") => {
                Finding::ok("reads that must wait for a disk do not stop a worker; for files in memory it only costs")
            }
            Some("on") => Finding::new(
                Improvable,
                "needs directio, past the page cache: for files larger than \
                memory",
            )
            .want("threads"),
            _ => Finding::ok("off"),
        },
        "Reading files without waiting.",
    ),
    rule(
        HTTP,
        "nginx directio",
        |_| Finding::ok("files of that size go past the page cache: for those that are larger than memory"),
        "Reading past the page cache.",
    ),
    rule(
        HTTP,
        "nginx keepalive_timeout",
        |case| match case.value.split_whitespace().next() {
            Some("0" | "0s") => Finding::new(
                WorseThanDefault,
                "each request needs a new connection: seven segments and a TIME-WAIT more",
            )
            .want("75s"),
            _ => Finding::ok("connections stay for the next request"),
        },
        "How long an idle connection is kept: 75 s by default.",
    ),
    rule(
        HTTP,
        "nginx keepalive_requests",
        |case| match case.number() {
            Some(few) if few < 1_000 => Finding::new(
                Improvable,
                "busy clients and load generators connect anew all the time; 1,000 is the default since 1.19.10",
            )
            .want("1000"),
            _ => Finding::ok("enough for any client; a load generator's figure depends on it, so name it"),
        },
        "Requests of a connection before it is closed.",
    ),
    rule(
        HTTP,
        "nginx reset_timedout_connection",
        |_| Finding::ok("connections that time out leave no FIN-WAIT behind"),
        "RST instead of FIN for clients that went silent.",
    ),
    rule(
        "nginx, ngx_http_log_module",
        "nginx access_log",
        |case| match case.value {
            "off" => Finding::ok("no line for a request: a comparison with a server that logs is none"),
            value if value.contains("buffer=") => Finding::ok("lines are written together"),
            _ => Finding::new(Improvable, "a write(2) for each request").want("buffer=64k flush=1s"),
        },
        "A line for each request.",
    ),
    rule(
        HTTP,
        "nginx open_file_cache",
        |_| {
            Finding::ok(
                "open and stat are not repeated for each request; a changed file is seen after open_file_cache_valid",
            )
        },
        "Descriptors and facts of files that were served.",
    ),
    rule(
        CORE,
        "nginx timer_resolution",
        |_| {
            Finding::new(
                Unnecessary,
                "the clock is read without a system call (vDSO): it makes times coarser and saves nothing",
            )
        },
        "How often workers read the clock.",
    ),
    rule(CORE, "nginx thread_pool", |_| Finding::ok("threads that wait for disks (aio threads)"), "Threads for aio."),
    rule(
        CORE,
        "nginx pcre_jit",
        |_| Finding::ok("regular expressions of locations are compiled"),
        "Compiled regular expressions.",
    ),
    rule(
        HTTP,
        "nginx listen",
        |_| Finding::ok("a queue of 511 connections for all workers; no connection is lost at a reload"),
        "A listening socket with the kernel's usual settings.",
    ),
    rule(
        HTTP,
        "nginx listen backlog",
        backlog,
        "Connections that may wait for accept(2): 511 by default, and net.core.somaxconn at most.",
    ),
    rule(
        HTTP,
        "nginx listen reuseport",
        |_| {
            Finding::ok(
                "a queue for each worker: fewer wake-ups for nothing, and one slow worker's connections wait; \
                    at a reload to fewer workers, those in a queue are lost",
            )
        },
        "A listening socket for each worker (SO_REUSEPORT).",
    ),
    rule(
        HTTP,
        "nginx listen fastopen",
        fast_open,
        "TCP Fast Open (RFC 7413), with this many requests without a handshake.",
    ),
    rule(
        HTTP,
        "nginx listen deferred",
        |_| Finding::ok("a worker wakes up for the request, not for the connection"),
        "TCP_DEFER_ACCEPT.",
    ),
    rule(HTTP, "nginx listen rcvbuf", buffer, "SO_RCVBUF of connections."),
    rule(HTTP, "nginx listen sndbuf", buffer, "SO_SNDBUF of connections."),
    rule(
        HTTP,
        "nginx listen so_keepalive",
        |_| Finding::ok("peers that went silent are found out by the kernel"),
        "SO_KEEPALIVE of connections.",
    ),
];

fn processes(case: &Case<'_>) -> Finding {
    let cores = case.evidence.cores().len() as u64;
    let quota = super::groups::cores(case.evidence);
    match (case.value, case.number(), quota) {
        ("auto", _, Some(quota)) if quota < cores => Finding::new(
            Improvable,
            format!("{cores} workers, and the cgroup's quota is {quota} cores: they are throttled"),
        )
        .want(quota.to_string()),
        ("auto", ..) => Finding::ok("one for each core"),
        (_, Some(workers), _) if cores > 0 && workers > cores => {
            Finding::new(Improvable, format!("{workers} workers share {cores} cores, and wait for each other"))
                .want("auto")
        }
        (_, Some(1), _) if cores > 1 => Finding::new(
            Improvable,
            format!(
                "one worker, and {cores} \
            cores"
            ),
        )
        .want("auto"),
        (_, Some(workers), _) => Finding::ok(format!("{workers} of {cores} cores")),
        _ => Finding::new(Dangerous, "is no number: nginx does not start"),
    }
}

fn connections(case: &Case<'_>) -> Finding {
    let Some(wanted) = case.number() else { return Finding::new(Dangerous, "is no number: nginx does not start") };
    let limit = case.advised("nginx worker_rlimit_nofile").and_then(|text| text.parse::<u64>().ok());
    match limit {
        Some(limit) if wanted > limit => Finding::new(
            Conflicts,
            format!(
                "worker_rlimit_nofile is {limit}: \
            accept(2) fails before"
            ),
        ),
        None if wanted > 1_024 => Finding::new(
            Improvable,
            "without worker_rlimit_nofile the unit's LimitNOFILE counts, of which 1,024 is the usual soft \
                limit: nginx warns, and accept(2) fails there",
        )
        .want(format!("worker_rlimit_nofile {}", wanted.saturating_mul(2))),
        _ => Finding::ok("each takes some 250 bytes, and a descriptor; a proxied request two"),
    }
}

fn files(case: &Case<'_>) -> Finding {
    let most = case.evidence.sysctl_number("fs.nr_open").unwrap_or(1_048_576);
    match case.number() {
        Some(wanted) if wanted > most => {
            Finding::new(Conflicts, format!("fs.nr_open is {most}: setrlimit(2) fails, and the old limit stays"))
                .want(most.to_string())
        }
        Some(_) => Finding::ok("whatever the unit says"),
        None => Finding::new(Dangerous, "is no number: nginx does not start"),
    }
}

fn affinity(case: &Case<'_>) -> Finding {
    let isolated = case.evidence.isolated();
    let masks: Vec<&str> = case.value.split_whitespace().filter(|word| *word != "auto").collect();
    if masks.is_empty() {
        return Finding::ok("each worker on a core of its own");
    }
    let binary = masks.iter().all(|mask| !mask.is_empty() && mask.bytes().all(|byte| matches!(byte, b'0' | b'1')));
    if !binary {
        return Finding::new(Dangerous, "a mask has digits other than 0 and 1: nginx does not start");
    }
    let cores = case.evidence.cores();
    let of_mask = |mask: &&str| {
        let bits = mask.bytes().rev().enumerate().filter(|(_, byte)| *byte == b'1');
        bits.filter_map(|(at, _)| u32::try_from(at).ok()).collect::<Vec<_>>()
    };
    let named: Vec<u32> = masks.iter().flat_map(of_mask).collect();
    if let Some(none) = named.iter().find(|core| !cores.is_empty() && !cores.contains(core)) {
        return Finding::new(
            Conflicts,
            format!("core {none} is not there: masks are written in binary, core 0 at the right"),
        );
    }
    if let Some(core) = named.iter().find(|core| isolated.contains(core)) {
        return Finding::new(
            Improvable,
            format!(
                "core {core} is isolated: workers that sleep and wake gain nothing there, and the scheduler \
                    does not balance it"
            ),
        );
    }
    let workers = case.advised("nginx worker_processes").and_then(|text| text.parse::<usize>().ok());
    match workers {
        Some(workers) if workers > masks.len() && !case.value.contains("auto") => Finding::new(
            Conflicts,
            format!("{workers} workers and {} masks: the rest of the workers take the last mask", masks.len()),
        ),
        _ => Finding::ok("each worker where it is put"),
    }
}

fn backlog(case: &Case<'_>) -> Finding {
    let most = case.other("net.core.somaxconn").and_then(|text| text.parse::<u64>().ok());
    match (case.number(), most) {
        (None, _) => Finding::new(Dangerous, "is no number: nginx does not start"),
        (Some(wanted), Some(most)) if wanted > most => Finding::new(
            Conflicts,
            format!("net.core.somaxconn is {most}, and listen(2) cuts it to that without a word"),
        )
        .want(most.to_string()),
        (Some(wanted), _) if wanted > 65_535 => {
            Finding::new(Improvable, "whoever is last in such a queue has given up before")
        }
        (Some(_), _) => {
            Finding::ok("acts with as much net.core.somaxconn; whether it is needed, ListenOverflows tells")
        }
    }
}

fn fast_open(case: &Case<'_>) -> Finding {
    match case.other("net.ipv4.tcp_fastopen").and_then(|text| text.parse::<u64>().ok()) {
        Some(bits) if bits & 2 == 0 => {
            Finding::new(Conflicts, format!("net.ipv4.tcp_fastopen is {bits}: servers have it only with 2 in it"))
                .want("net.ipv4.tcp_fastopen=3")
        }
        _ => Finding::ok(
            "a round trip less for clients that come again; requests may arrive twice, and clients that ask for \
                it are few",
        ),
    }
}

fn buffer(_: &Case<'_>) -> Finding {
    Finding::new(
        WorseThanDefault,
        "a fixed buffer: the kernel does not adapt it to the path any more (tcp_rmem, tcp_wmem)",
    )
    .want("nothing")
}
