//! Modules that Debian has as source only: netdevsim, an interface without
//! hardware whose rings, channels, coalescing and pause frames are settings
//! like any other's, and the running clock that it may have.

use crate::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Modules that are built, and where their source lies.
pub const MODULES: [(&str, &str); 2] =
    [("netdevsim", "drivers/net/netdevsim/netdevsim.ko"), ("ptp_mock", "drivers/ptp/ptp_mock.ko")];
/// Scenarios that load one of them.
pub const WANTED_BY: [&str; 1] = ["node"];

/// What kbuild is told: neither is in the kernel's own configuration.
const CONFIGURED: [&str; 2] =
    ["CONFIG_NETDEVSIM=m", "KCFLAGS=-DCONFIG_NETDEVSIM_MODULE=1 -DCONFIG_PTP_1588_CLOCK_MOCK_MODULE=1"];

/// The modules of a release, from `folder` or else built there: a minute, once
/// for each release.
///
/// # Errors
/// If packages or tools are missing, or the source does not compile.
pub fn get(folder: &Path, release: &str) -> Result<Vec<PathBuf>, Failure> {
    let done = folder.join(format!("built-{release}"));
    if !done.is_dir() {
        println!("building {} for {release}", MODULES.map(|(name, _)| name).join(" and "));
        // Of this process alone, and renamed when it is whole.
        let work = std::path::absolute(folder.join(format!("building-{}", std::process::id())))?;
        fs::create_dir_all(&work)?;
        let built = build(&work, release);
        if built.is_ok() && !done.is_dir() {
            fs::rename(work.join("done"), &done)?;
        }
        fs::remove_dir_all(&work)?;
        built?;
    }
    Ok(MODULES.map(|(name, _)| done.join(format!("{name}.ko"))).to_vec())
}

fn build(work: &Path, release: &str) -> Result<(), Failure> {
    let headers = format!("linux-headers-{release}");
    let mut packages = vec![headers.clone(), format!("linux-source-{}", series(release).ok_or("an odd release")?)];
    let said = output(Command::new("apt-cache").args(["depends", "--important", &headers]))?;
    let mut compiler = "gcc".to_owned();
    for needed in said.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")) {
        match needed {
            needed if needed.starts_with("linux-") => packages.push(needed.to_owned()),
            needed if needed.starts_with("gcc-") => needed.clone_into(&mut compiler),
            _ => {}
        }
    }
    output(Command::new("apt-get").args(["download", "-q"]).args(&packages).current_dir(work))?;
    let root = work.join("root");
    for entry in fs::read_dir(work)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            output(Command::new("dpkg-deb").arg("-x").arg(&path).arg(&root))?;
        }
    }
    let sources = root.join("usr/src");
    let archive = find(&sources, |name| name.starts_with("linux-source-") && name.contains(".tar."))?;
    let folders = ["*/drivers/net/netdevsim", "*/drivers/ptp/ptp_mock.c"];
    output(
        Command::new("tar")
            .arg("-C")
            .arg(work)
            .arg("-xf")
            .arg(archive)
            .args(["--strip-components=1", "--wildcards"])
            .args(folders),
    )?;
    let modules = work.join("drivers");
    fs::write(modules.join("Makefile"), "obj-m += net/netdevsim/ ptp/\n")?;
    fs::write(modules.join("ptp/Makefile"), "obj-m += ptp_mock.o\n")?;
    let own = sources.join(&headers);
    // With it, and pahole, types of the modules would be written down, which
    // nobody here reads.
    let _ = fs::remove_file(own.join("vmlinux"));
    let common = find(&sources, |name| name.starts_with("linux-headers-") && name.ends_with("-common"))?;
    let mut make = Command::new("make");
    make.arg("-C").arg(common).arg(format!("O={}", own.display())).arg(format!("M={}", modules.display()));
    output(make.arg(format!("CC={compiler}")).args(CONFIGURED).arg("modules"))?;
    fs::create_dir(work.join("done"))?;
    for (name, path) in MODULES {
        fs::copy(work.join(path), work.join("done").join(format!("{name}.ko")))?;
    }
    Ok(())
}

/// `6.12` of `6.12.117+deb12-amd64`.
fn series(release: &str) -> Option<String> {
    let mut numbers = release.split(|char: char| !char.is_ascii_digit());
    Some(format!("{}.{}", numbers.next().filter(|number| !number.is_empty())?, numbers.next()?))
}

fn find(folder: &Path, fits: impl Fn(&str) -> bool) -> Result<PathBuf, Failure> {
    let names = fs::read_dir(folder)?.filter_map(Result::ok);
    let found =
        names.map(|entry| entry.path()).find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&fits));
    found.ok_or_else(|| format!("{}: a package without what it is for", folder.display()).into())
}

/// Runs a command to its end; what it writes, and of one that fails the end of
/// what it complains of.
///
/// # Errors
/// If it fails, or does not start.
pub fn output(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|why| format!("{name} does not start: {why}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        return Err(format!("{name}: {}", last.into_iter().rev().collect::<Vec<_>>().join("; ")).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_of_a_releases_series() {
        assert_eq!(series("6.12.117+deb12-amd64").as_deref(), Some("6.12"));
        assert_eq!(series("6.1.0-44-amd64").as_deref(), Some("6.1"));
        assert_eq!(series("linux"), None);
    }
}
