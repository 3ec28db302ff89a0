//! Debian's kernel: downloaded and unpacked, never installed.

use crate::Failure;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages that lead to a kernel, the best first. 6.12 is the first with a
/// long life whose virtio driver has all of AF_XDP.
const PACKAGES: [&str; 2] = ["linux-image-6.12-amd64", "linux-image-amd64"];
/// The same for the kernel that is real-time.
const REAL_TIME: [&str; 2] = ["linux-image-6.12-rt-amd64", "linux-image-rt-amd64"];

/// An unpacked kernel.
pub struct Kernel {
    /// Its release, as `uname -r` says it.
    pub release: String,
    /// What is booted.
    pub image: PathBuf,
    /// By name with underscores: the file, or nothing if it is built in.
    modules: BTreeMap<String, Option<PathBuf>>,
}

impl Kernel {
    /// The newest kernel that the package lists know, from `folder` or else
    /// from Debian; without lists the newest that is in `folder`.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(folder: &Path, real_time: bool) -> Result<Self, Failure> {
        let packages = if real_time { REAL_TIME } else { PACKAGES };
        let folder = folder.join(if real_time { "kernel-rt" } else { "kernel" });
        fs::create_dir_all(&folder)?;
        let unpacked = match newest_package(packages) {
            Some(package) => {
                let unpacked = folder.join(&package);
                if !unpacked.is_dir() {
                    download(&folder, &package, &unpacked)?;
                }
                unpacked
            }
            None => newest_in(&folder)?
                .ok_or_else(|| format!("apt knows no package {}; run: apt-get update", packages.join(" or ")))?,
        };
        Self::open(&unpacked)
    }

    fn open(unpacked: &Path) -> Result<Self, Failure> {
        let image = fs::read_dir(unpacked.join("boot"))?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| name_of(path).starts_with("vmlinuz-"))
            .ok_or_else(|| format!("{}: a kernel package without a kernel", unpacked.display()))?;
        let release = name_of(&image).trim_start_matches("vmlinuz-").to_owned();
        let folder = unpacked.join("lib/modules").join(&release);
        let mut modules = BTreeMap::new();
        for line in fs::read_to_string(folder.join("modules.builtin"))?.lines() {
            modules.insert(module_name(Path::new(line)), None);
        }
        let mut folders = vec![folder.join("kernel")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    modules.insert(module_name(&path), Some(path));
                }
            }
        }
        Ok(Self { release, image, modules })
    }

    /// Takes modules that were built for this kernel, in the place of what it
    /// has of them.
    pub fn add(&mut self, built: Vec<PathBuf>) {
        self.modules.extend(built.into_iter().map(|path| (module_name(&path), Some(path))));
    }

    /// Whether there is such a module, or it is built in.
    pub fn has(&self, name: &str) -> bool {
        self.modules.contains_key(&name.replace('-', "_"))
    }

    /// The module `name` and all that it needs, each after what it needs.
    /// What is built in is left out.
    ///
    /// # Errors
    /// If the kernel has no such module, or the file is damaged.
    pub fn module(&self, name: &str) -> Result<Vec<Module>, Failure> {
        let mut found = Vec::new();
        self.collect(name, &mut found)?;
        Ok(found)
    }

    fn collect(&self, name: &str, found: &mut Vec<Module>) -> Result<(), Failure> {
        let name = name.replace('-', "_");
        if found.iter().any(|module| module.name == name) {
            return Ok(());
        }
        let Some(file) = self.modules.get(&name) else {
            return Err(format!("kernel {} has no module {name}", self.release).into());
        };
        let Some(file) = file else { return Ok(()) };
        let bytes = unpack(file)?;
        for needed in depends(&bytes) {
            self.collect(&needed, found)?;
        }
        found.push(Module { name, bytes });
        Ok(())
    }
}

/// A kernel module, as it is loaded.
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// The file, unpacked.
    pub bytes: Vec<u8>,
}

/// What a module says that it needs, in its section `.modinfo`.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = module[at + KEY.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(value).split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// A module's file without its compression.
fn unpack(file: &Path) -> Result<Vec<u8>, Failure> {
    let program = match file.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return Ok(fs::read(file)?),
    };
    let output = Command::new(program).arg("-dc").arg(file).output();
    let output = output.map_err(|why| format!("{program} does not start: {why}"))?;
    if !output.status.success() {
        return Err(format!("{program} -dc {}: {}", file.display(), output.status).into());
    }
    Ok(output.stdout)
}

fn module_name(path: &Path) -> String {
    name_of(path).split('.').next().unwrap_or_default().replace('-', "_")
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The package with the kernel that one of these depends on.
fn newest_package(packages: [&str; 2]) -> Option<String> {
    packages.iter().find_map(|package| {
        let output = Command::new("apt-cache").args(["depends", "--important", package]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"))?;
        Some(format!("linux-image-{}", line.trim()))
    })
}

fn newest_in(folder: &Path) -> Result<Option<PathBuf>, Failure> {
    let mut there = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if name_of(&entry.path()).starts_with("linux-image-") {
            there.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    Ok(there.into_iter().max().map(|(_, path)| path))
}

fn download(folder: &Path, package: &str, unpacked: &Path) -> Result<(), Failure> {
    println!("downloading {package}");
    // Of this process alone, and renamed when it is whole.
    let work = folder.join(format!("part-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let fetched = Command::new("apt-get").args(["download", "-q", package]).current_dir(&work).output();
    let fetched = fetched.map_err(|why| format!("apt-get does not start: {why}"))?;
    let archive = fs::read_dir(&work)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let Some(archive) = archive.filter(|_| fetched.status.success()) else {
        let said = String::from_utf8_lossy(&fetched.stderr).into_owned();
        fs::remove_dir_all(&work)?;
        return Err(format!("apt-get download {package}: {}", said.trim()).into());
    };
    let opened = work.join("unpacked");
    let status = Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&opened).status()?;
    if !status.success() {
        fs::remove_dir_all(&work)?;
        return Err(format!("dpkg-deb -x {}: {status}", archive.display()).into());
    }
    if let Err(why) = fs::rename(&opened, unpacked)
        && !unpacked.is_dir()
    {
        return Err(why.into());
    }
    fs::remove_dir_all(&work)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_needs_is_read_from_it() {
        let module = b"\x7fELF..\0license=GPL\0depends=net_failover,failover\0name=virtio_net\0";
        assert_eq!(depends(module), ["net_failover", "failover"]);
        assert_eq!(depends(b"\0depends=\0retpoline=Y\0"), Vec::<String>::new());
        assert_eq!(depends(b"nothing of the kind"), Vec::<String>::new());
    }

    #[test]
    fn names_of_modules_have_underscores() {
        assert_eq!(module_name(Path::new("kernel/net/8021q/8021q.ko.xz")), "8021q");
        assert_eq!(module_name(Path::new("kernel/drivers/net/virtio-net.ko")), "virtio_net");
    }
}
