//! DPDK in a machine: the drivers that a program loads when it starts, and one that
//! Debian builds without what is to be shown.

use crate::Failure;
use crate::built::output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Leads to where the program looks for drivers.
pub const DRIVERS: &str = "/drivers";
/// The driver of igb that has frames stamped as they leave, if it could be built.
pub const STAMPING: &str = "/stamping/librte_net_e1000.so";
/// The scenario that needs it.
pub const WANTED_BY: &str = "dpdk-stamps";

/// Drivers, and what they need, that are loaded there.
pub const NAMES: [&str; 3] = ["librte_bus_pci", "librte_mempool_ring", "librte_net_e1000"];

/// Where the libraries of a program that is built with DPDK look for drivers.
pub fn folder_of(libraries: &[PathBuf]) -> Option<PathBuf> {
    let eal = libraries.iter().find(|path| name_of(path).starts_with("librte_eal.so."))?;
    let eal = fs::canonicalize(eal).ok()?;
    let inside = fs::read_dir(eal.parent()?.join("dpdk")).ok()?;
    inside.filter_map(Result::ok).map(|entry| entry.path()).find(|path| name_of(path).starts_with("pmds-"))
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The driver with stamps of what leaves, from `folder` or else built there from
/// Debian's source.
///
/// # Errors
/// If packages or tools are missing, or the source does not compile.
pub fn stamping(folder: &Path) -> Result<PathBuf, Failure> {
    let version = output(Command::new("dpkg-query").args(["-W", "-f", "${source:Version}", "libdpdk-dev"]))?;
    let done = folder.join(format!("stamping-{}.so", version.trim()));
    if !done.is_file() {
        println!("building DPDK's driver of igb with RTE_LIBRTE_IEEE1588, {}", version.trim());
        let work = std::path::absolute(folder.join(format!("stamping-{}", std::process::id())))?;
        fs::create_dir_all(&work)?;
        let built = build(&work, version.trim());
        if built.is_ok() {
            fs::rename(work.join("driver.so"), &done)?;
        }
        fs::remove_dir_all(&work)?;
        built?;
    }
    Ok(done)
}

fn build(work: &Path, version: &str) -> Result<(), Failure> {
    let release = fs::read_to_string("/etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).ok_or("an odd release")?;
    // Of its own: a machine need not have sources in its list.
    let list = work.join("sources.list");
    let security = "http://deb.debian.org/debian-security";
    fs::write(
        &list,
        format!("deb-src http://deb.debian.org/debian {name} main\ndeb-src {security} {name}-security main\n"),
    )?;
    for folder in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(work.join(folder))?;
    }
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        for (key, value) in [
            ("Dir::Etc::sourcelist", list.as_path()),
            ("Dir::Etc::sourceparts", Path::new("-")),
            ("Dir::State::lists", &work.join("lists")),
            ("Dir::Cache", &work.join("cache")),
        ] {
            command.arg("-o").arg(format!("{key}={}", value.display()));
        }
        output(command.args(["-q", "-o", "APT::Sandbox::User=root"]).args(words).current_dir(work))
    };
    apt(&["update"])?;
    apt(&["source", "--download-only", &format!("dpdk={version}")])?;
    let archive = fs::read_dir(work)?.filter_map(Result::ok).map(|entry| entry.path());
    let archive = archive.into_iter().find(|path| name_of(path).contains(".orig.tar.")).ok_or("no source came")?;
    output(Command::new("tar").arg("-C").arg(work).arg("-xf").arg(archive).arg("--strip-components=1"))?;
    let flags = output(Command::new("pkg-config").args(["--cflags", "libdpdk"]))?;
    let sources = ["drivers/net/e1000", "drivers/net/e1000/base"];
    let mut compile = Command::new("gcc");
    compile.args(["-shared", "-fPIC", "-O2", "-w", "-include", "rte_config.h", "-o", "driver.so"]);
    compile.args(
        [
            "ALLOW_EXPERIMENTAL_API",
            "ALLOW_INTERNAL_API",
            "RTE_LIBRTE_IEEE1588",
            "_GNU_SOURCE",
            "RTE_LOG_DEFAULT_LOGTYPE=pmd.net.e1000",
        ]
        .map(|it| format!("-D{it}")),
    );
    for folder in sources.iter().chain(&INCLUDED) {
        compile.arg(format!("-I{folder}"));
    }
    compile.args(flags.split_whitespace());
    for folder in sources {
        let files = fs::read_dir(work.join(folder))?.filter_map(Result::ok).map(|entry| entry.path());
        compile.args(files.filter(|file| file.extension().is_some_and(|kind| kind == "c")));
    }
    let libraries = ["ethdev", "mbuf", "mempool", "ring", "net", "eal", "kvargs", "pci", "bus_pci"];
    output(compile.args(libraries.map(|name| format!("-lrte_{name}"))).current_dir(work)).map(drop)
}

/// Headers for drivers, which no package has.
const INCLUDED: [&str; 9] = [
    "lib/ethdev",
    "lib/eal/include",
    "lib/eal/linux/include",
    "lib/eal/x86/include",
    "lib/mempool",
    "lib/ring",
    "lib/mbuf",
    "drivers/bus/pci",
    "drivers/bus/pci/linux",
];
