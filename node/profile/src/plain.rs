//! The same node without a cluster: tuned, systemd, or the kernel's command
//! line alone.

use crate::Rendered;
use crate::cores::{list, mask};
use crate::shape::Vendor;
use crate::text::Text;
use crate::wanted::{PageSize, Profile};

/// Arguments of the kernel's command line, each with its reason.
pub(crate) fn arguments(profile: &Profile) -> Vec<(String, String)> {
    let (isolated, reserved) = (list(profile.isolated()), list(profile.reserved()));
    let mut all: Vec<(String, String)> = Vec::new();
    let mut add = |argument: String, why: &str| all.push((argument, why.to_owned()));
    add(
        format!("isolcpus=managed_irq,domain,{isolated}"),
        "The scheduler puts nothing on these cores by itself, and devices keep their managed interrupts off them.",
    );
    add(
        format!("nohz_full={isolated}"),
        "No tick where one thread runs alone; RCU's callbacks run elsewhere (it implies rcu_nocbs).",
    );
    add(format!("irqaffinity={reserved}"), "Interrupts of all devices begin on reserved cores.");
    add(
        format!("systemd.cpu_affinity={}", plain_list(profile.reserved())),
        "Services begin on reserved cores; units of pollers say CPUAffinity= themselves.",
    );
    add(
        "rcutree.kthread_prio=11".to_owned(),
        "RCU's threads rank above pollers at FIFO:2; below them they would not run, and grace periods would stall.",
    );
    add("skew_tick=1".to_owned(), "Ticks of cores one after another: less contention.");
    add("nmi_watchdog=0".to_owned(), "No interrupt of the hardware watchdog.");
    if profile.x86() {
        add("mce=ignore_ce".to_owned(), "No interruptions for corrected errors; all other machine checks stay on.");
        if profile.shape.tsc == Some(true) {
            add(
                "tsc=reliable".to_owned(),
                "The TSC is the clock here, and is not compared with a slower one any more.",
            );
        }
        if profile.shape.vendor == Vendor::Intel {
            add("intel_iommu=on".to_owned(), "vfio guards memory with it.");
        }
        add("iommu=pt".to_owned(), "The kernel's own devices are not translated.");
    }
    if let Some(largest) = profile.sizes().first() {
        add(format!("default_hugepagesz={}", largest.name()), "The size that programs get which name none.");
    }
    for size in profile.sizes() {
        let of_size: Vec<String> = profile
            .pages
            .iter()
            .filter(|(other, ..)| *other == size)
            .map(|(_, domain, count)| format!("{domain}:{count}"))
            .collect();
        add(format!("hugepagesz={}", size.name()), "The size that the next argument is about.");
        add(
            format!("hugepages={}", of_size.join(",")),
            "By domain (Linux 5.16), at boot, while memory is in one piece.",
        );
    }
    all
}

/// Cores with commas only, as systemd's argument wants them.
fn plain_list(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Sysctls, each with its reason.
const SYSCTLS: &[(&str, &str, &str)] = &[
    ("kernel.timer_migration", "0", "Timers stay where they were set: none comes to a polling core."),
    (
        "vm.stat_interval",
        "10",
        "Counters of memory are folded together every 10 s instead of every second, on each core.",
    ),
    ("kernel.numa_balancing", "0", "Pages are not taken away to see who uses them: pollers' memory is placed."),
    (
        "kernel.hung_task_timeout_secs",
        "600",
        "Threads behind a poller may wait long; the default of 120 s would fill the log.",
    ),
    ("vm.swappiness", "10", "Memory of programs goes to swap only when there is nothing else."),
];

pub(crate) fn tuned(profile: &Profile) -> Vec<Rendered> {
    let mut text = Text::new();
    text.line("[main]")
        .line(format!("summary=Low latency on cores {}", list(profile.isolated())))
        .line("")
        .line("[sysctl]");
    for (key, value, why) in SYSCTLS {
        text.because(format!("{key}={value}"), why);
    }
    text.line("").line("[cpu]").because("governor=performance", "Frequencies do not wait for load.");
    if profile.x86() {
        text.because("energy_perf_bias=performance|0", "The same, for older processors and their uncore.");
    }
    text.because("force_latency=10", "Idle cores wake up within 10 us: C1, not C6.");
    text.line("").line("[vm]").because(
        "transparent_hugepages=madvise",
        "Only where a program asks: joining pages stops whoever touches them.",
    );
    text.line("").line("[bootloader]");
    let words: Vec<String> = arguments(profile).into_iter().map(|(argument, _)| argument).collect();
    for (argument, why) in arguments(profile) {
        text.comment("", &format!("{argument}: {why}"));
    }
    text.line(format!("cmdline_nearside=+{}", words.join(" ")));
    let path = format!("etc/tuned/{}/tuned.conf", profile.wanted.name);
    let what = format!("tuned-adm profile {}, and boot", profile.wanted.name);
    vec![Rendered { path, what, text: text.done() }]
}

pub(crate) fn grub(profile: &Profile) -> Vec<Rendered> {
    let mut text = Text::new();
    text.comment(
        "",
        "Read by update-grub, behind /etc/default/grub. What is there already on the line stays before it.",
    );
    for (argument, why) in arguments(profile) {
        text.comment("", &format!("{argument}: {why}"));
    }
    let words: Vec<String> = arguments(profile).into_iter().map(|(argument, _)| argument).collect();
    text.line(format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {}\"", words.join(" ")));
    let what = "update-grub, and boot".to_owned();
    vec![Rendered { path: "etc/default/grub.d/90-nearside.cfg".to_owned(), what, text: text.done() }]
}

pub(crate) fn systemd(profile: &Profile) -> Vec<Rendered> {
    let (isolated, reserved) = (list(profile.isolated()), list(profile.reserved()));
    let file = |path: &str, what: &str, text: Text| Rendered {
        path: path.to_owned(),
        what: what.to_owned(),
        text: text.done(),
    };
    let mut manager = Text::new();
    manager.line("[Manager]").because(
        format!("CPUAffinity={reserved}"),
        "Services run on reserved cores, unless their unit says otherwise.",
    );
    let mut slice = Text::new();
    slice.line("[Unit]").line("Description=Cores for pollers").line("[Slice]").because(
        format!("AllowedCPUs={isolated}"),
        "Units with Slice=pollers.slice have these cores, and nothing else has.",
    );
    let mut partition = Text::new();
    partition
        .line("[Unit]")
        .line("Description=Cores for pollers out of the scheduler's balancing")
        .line("Requires=pollers.slice")
        .line("After=pollers.slice")
        .line("[Service]")
        .line("Type=oneshot")
        .line("RemainAfterExit=yes")
        .because(
            "ExecStart=/bin/sh -c 'echo isolated > /sys/fs/cgroup/pollers.slice/cpuset.cpus.partition'",
            "isolcpus=domain at run time (cgroup v2; isolated since Linux 6.1).",
        )
        .line("ExecStop=/bin/sh -c 'echo member > /sys/fs/cgroup/pollers.slice/cpuset.cpus.partition'")
        .line("[Install]")
        .line("WantedBy=multi-user.target");
    let mut sysctls = Text::new();
    for (key, value, why) in SYSCTLS {
        sysctls.because(format!("{key} = {value}"), why);
    }
    let writes = writes(profile);
    let mut balancer = Text::new();
    balancer.because(
        format!("IRQBALANCE_BANNED_CPULIST={isolated}"),
        "irqbalance gives these cores no interrupts; without it it knows isolated cores from the command line only.",
    );
    vec![
        file("etc/systemd/system.conf.d/90-nearside.conf", "services on reserved cores, from the next boot", manager),
        file("etc/systemd/system/pollers.slice", "the cores of pollers", slice),
        file("etc/systemd/system/pollers-isolated.service", "systemctl enable --now pollers-isolated", partition),
        file("etc/sysctl.d/90-nearside-latency.conf", "sysctl --system", sysctls),
        file("etc/tmpfiles.d/90-nearside-latency.conf", "systemd-tmpfiles --create", writes),
        file("etc/default/irqbalance", "systemctl restart irqbalance", balancer),
    ]
}

/// What systemd-tmpfiles writes at boot.
fn writes(profile: &Profile) -> Text {
    let mut writes = Text::new();
    let own = mask(profile.reserved());
    writes
        .because(
            format!("w /proc/irq/default_smp_affinity - - - - {own}"),
            "Interrupts that come into being from now on.",
        )
        .because(format!("w /sys/devices/virtual/workqueue/cpumask - - - - {own}"), "The kernel's unbound work.")
        .because("w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise", "Only where a program asks.");
    for (size, domain, count) in &profile.pages {
        let kilobytes = size.bytes() >> 10;
        let why = match size {
            PageSize::G1 => {
                "At run time there may be fewer than asked for: memory is in pieces. At boot all are there \
                    (--for grub)."
            }
            PageSize::M2 => "Of this domain.",
        };
        writes.because(
            format!(
                "w /sys/devices/system/node/node{domain}/hugepages/hugepages-{kilobytes}kB/nr_hugepages - - - - \
                    {count}"
            ),
            why,
        );
    }
    writes
}
