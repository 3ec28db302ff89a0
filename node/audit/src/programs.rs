//! Programs that are known to disturb a server: recordings keep them by name, and
//! rules say what each does.

/// Services by the first 15 characters of their processes' names, and what
/// they do to cores.
pub(crate) const SERVICES: &[(&str, &str)] = &[
    ("ksmtuned", "turns KSM on and off by load, and has all memory compared"),
    ("packagekitd", "looks for updates, and unpacks lists of packages"),
    ("snapd", "looks for updates four times a day, and mounts"),
    ("fwupd", "asks devices for their firmware, which stops some of them for milliseconds"),
    ("unattended-upgr", "installs updates and starts services anew"),
    ("dnf-automatic", "installs updates and starts services anew"),
    ("tracker-miner-f", "reads all files"),
    ("updatedb", "reads all names of files"),
    ("updatedb.plocat", "reads all names of files"),
    ("abrtd", "writes memory of programs that ended, gigabytes of it"),
    ("systemd-coredum", "writes memory of programs that ended, gigabytes of it"),
    ("mcelog", "asks for machine checks on all cores"),
    ("smartd", "asks disks for their health, which stops some for milliseconds"),
    ("pcscd", "asks readers of cards"),
    ("multipathd", "asks all paths to disks every few seconds"),
    ("clamd", "reads all files"),
    ("falcon-sensor", "is asked at each start of a program and opening of a file"),
    ("osqueryd", "goes through all processes and files"),
    ("collectd", "reads procfs of all processes every ten seconds"),
    ("telegraf", "reads procfs of all processes every ten seconds"),
    ("node_exporter", "reads procfs and sysfs whenever it is asked, counters of all cores among them"),
    ("cadvisor", "reads cgroups of all containers every second or ten"),
    ("numad", "moves memory and threads of programs between domains"),
    ("atop", "reads procfs of all processes"),
    ("iscsid", "asks its targets"),
    ("auditd", "writes a record for each system call that a rule names"),
];
