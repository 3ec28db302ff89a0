//! What a machine finds in its memory: an initial RAM disk with programs,
//! their libraries, and kernel modules.

use crate::kernel::Kernel;
use crate::scenarios::{self, Scenario};
use crate::{Failure, built, dpdk};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the modules lie in the machine.
pub const MODULES: &str = "/modules";
/// Each line there: a module, and what it needs, in the order of loading.
pub const ORDER: &str = "/modules/order";

/// Programs beside `nearside` and this one, and Debian's packages of them.
const PROGRAMS: [(&str, &str); 9] = [
    ("busybox", "busybox-static"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("ethtool", "ethtool"),
    ("strace", "strace"),
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("phc_ctl", "linuxptp"),
    ("hwstamp_ctl", "linuxptp"),
];
/// Where root's programs are.
const FOLDERS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];

/// The RAM disk as a file, gone with this value.
pub struct Image {
    /// The file.
    pub file: PathBuf,
}

impl Drop for Image {
    fn drop(&mut self) {
        // It may be left behind; the next build does not use it.
        let _ = fs::remove_file(&self.file);
    }
}

impl Image {
    /// Gathers everything that any scenario needs.
    ///
    /// # Errors
    /// What is missing, and how it is installed.
    pub fn build(
        folder: &Path,
        kernel: &Kernel,
        real_time: bool,
        init: &Path,
        (nearside, stamping): (&Path, Option<&Path>),
    ) -> Result<Self, Failure> {
        let image = Self { file: folder.join(format!("image-{}.cpio", std::process::id())) };
        let root = Root { path: folder.join(format!("root-{}", std::process::id())) };
        for name in ["bin", "dev", "proc", "sys", "run", "tmp", "etc", "modules"] {
            fs::create_dir_all(root.path.join(name))?;
        }
        if !nearside.is_file() {
            return Err(format!("{} is not there; run: make build", nearside.display()).into());
        }
        root.program(init, Path::new("init"))?;
        root.program(nearside, Path::new("bin/nearside"))?;
        let tools = nearside.with_file_name(programs::TOOLS);
        if !tools.is_file() {
            return Err(format!("{} is not there; run: make build", tools.display()).into());
        }
        root.program(&tools, &Path::new("bin").join(programs::TOOLS))?;
        root.dpdk(nearside, stamping)?;
        let (others, programs): (_, &[_]) =
            if real_time { (scenarios::REAL_TIME, &scenarios::PROGRAMS) } else { (scenarios::ALL, &[]) };
        for (name, package) in PROGRAMS.iter().chain(programs) {
            let found = FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
            let found = found.ok_or_else(|| format!("{name} is missing; run: apt-get install {package}"))?;
            root.program(&found, &Path::new("bin").join(name))?;
        }
        symlink("busybox", root.path.join("bin/sh"))?;
        root.modules(kernel, others)?;
        root.pack(&image.file)?;
        Ok(image)
    }
}

/// The tree that becomes the RAM disk, gone with this value.
struct Root {
    path: PathBuf,
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Root {
    /// A program without its symbols, and its libraries where it looks for
    /// them.
    fn program(&self, from: &Path, to: &Path) -> Result<(), Failure> {
        let to = self.path.join(to);
        let stripped = Command::new("strip").arg("-o").arg(&to).arg(from).stderr(Stdio::null()).status();
        if !stripped.is_ok_and(|status| status.success()) {
            fs::copy(from, &to)?;
        }
        for library in libraries(from)? {
            let to = self.path.join(library.strip_prefix("/")?);
            if !to.exists() {
                fs::create_dir_all(to.parent().ok_or("a library lies in a folder")?)?;
                fs::copy(&library, &to)?;
            }
        }
        Ok(())
    }

    /// What a program that is built with DPDK loads when it starts; `stamping` is a
    /// driver in another's place.
    fn dpdk(&self, nearside: &Path, stamping: Option<&Path>) -> Result<(), Failure> {
        let Some(folder) = dpdk::folder_of(&libraries(nearside)?) else { return Ok(()) };
        let inside = self.path.join(folder.strip_prefix("/")?);
        fs::create_dir_all(&inside)?;
        symlink(&folder, self.path.join(dpdk::DRIVERS.trim_start_matches('/')))?;
        for name in dpdk::NAMES {
            let driver = folder.join(format!("{name}.so"));
            for library in libraries(&driver)?.into_iter().chain([driver]) {
                let real = fs::canonicalize(&library)?;
                let (real_to, to) =
                    (self.path.join(real.strip_prefix("/")?), self.path.join(library.strip_prefix("/")?));
                // One file under all its names, or it would be loaded as several.
                let of_driver = real.starts_with(&folder);
                for (to, is_link) in [(if of_driver { &real_to } else { &to }, false), (&to, true)] {
                    if to.symlink_metadata().is_ok() {
                        continue;
                    }
                    fs::create_dir_all(to.parent().ok_or("a library lies in a folder")?)?;
                    if is_link { symlink(&real, to)? } else { fs::copy(&real, to).map(drop)? }
                }
            }
        }
        if let Some(stamping) = stamping {
            let to = self.path.join(dpdk::STAMPING.trim_start_matches('/'));
            fs::create_dir_all(to.parent().ok_or("a driver lies in a folder")?)?;
            fs::copy(stamping, to)?;
        }
        Ok(())
    }

    /// Every module that a scenario names, and the order to load them in.
    fn modules(&self, kernel: &Kernel, all: &[Scenario]) -> Result<(), Failure> {
        let mut names: BTreeSet<&str> = all.iter().flat_map(|scenario| scenario.modules).copied().collect();
        // Those that had to be built are left out where that failed.
        names.extend(built::MODULES.map(|(name, _)| name).into_iter().filter(|name| kernel.has(name)));
        let mut order = String::new();
        for name in names {
            let modules = kernel.module(name)?;
            order += name;
            for module in &modules {
                fs::write(self.path.join("modules").join(&module.name), &module.bytes)?;
                order += " ";
                order += &module.name;
            }
            order += "\n";
        }
        fs::write(self.path.join(ORDER.trim_start_matches('/')), order)?;
        Ok(())
    }

    fn pack(&self, file: &Path) -> Result<(), Failure> {
        let script = "find . | cpio --quiet -o -H newc -R 0:0 > \"$1\"";
        let target = std::path::absolute(file)?;
        let status = Command::new("sh").args(["-c", script, "sh"]).arg(target).current_dir(&self.path).status()?;
        if !status.success() {
            return Err("the RAM disk cannot be packed; is cpio there? Run: apt-get install cpio".into());
        }
        Ok(())
    }
}

/// The shared libraries of a program, its loader included.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, Failure> {
    let output = Command::new("ldd").arg(program).output().map_err(|why| format!("ldd does not start: {why}"))?;
    // It fails for a static program, which has none.
    Ok(library_paths(&String::from_utf8_lossy(&output.stdout)))
}

/// The paths that `ldd` names.
fn library_paths(said: &str) -> Vec<PathBuf> {
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    said.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_what_ldd_says() {
        let said = "\tlinux-vdso.so.1 (0x00007ffe)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f30)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f31)\n";
        let want = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(library_paths(said), want.map(PathBuf::from));
        assert_eq!(library_paths("\tnot a dynamic executable\n"), Vec::<PathBuf>::new());
    }
}
