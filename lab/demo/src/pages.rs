//! Huge pages, taken from the machine for a while.

use crate::child::call;
use crate::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Huge pages of 2 MiB that two testpmd need: 256 MiB each.
const PAGES: u64 = 256;
const MOUNT: &str = "hugepages";
const ADDED: &str = "hugepages-added";
const PAGES_FILE: &str = "/proc/sys/vm/nr_hugepages";

/// Huge pages of the demo's own: taken when made, given back when dropped.
#[derive(Debug)]
pub struct HugePages {
    pub(crate) mount: PathBuf,
    added: u64,
}

impl HugePages {
    /// Takes as many pages as are missing, and mounts a folder for them.
    ///
    /// # Errors
    /// If the machine has not so many.
    pub fn take(dir: &Path) -> Result<Self, Error> {
        let free = meminfo("HugePages_Free");
        let added = PAGES.saturating_sub(free);
        let mount = dir.join(MOUNT);
        fs::create_dir(&mount).map_err(Error::io("cannot make a folder for huge pages"))?;
        // Should this process be killed, the next demo gives them back.
        fs::write(dir.join(ADDED), added.to_string()).map_err(Error::io("cannot note the huge pages taken"))?;
        change_pages(|pages| pages + added)?;
        let this = Self { mount, added };
        if meminfo("HugePages_Free") < PAGES {
            return Err(Error::Machine(format!("fewer than {PAGES} huge pages of 2 MiB are free")));
        }
        call(&["mount", "-t", "hugetlbfs", "-o", "pagesize=2M", "none", &this.mount.to_string_lossy()])?;
        Ok(this)
    }
}

impl HugePages {
    /// The folder that they are mounted in.
    #[must_use]
    pub fn mount(&self) -> &Path {
        &self.mount
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        give_back(&self.mount, self.added);
    }
}

fn give_back(mount: &Path, added: u64) {
    // Fails only if it was never mounted.
    let _ = call(&["umount", &mount.to_string_lossy()]);
    // So that they can be taken again for the same folder.
    let _ = fs::remove_dir(mount);
    let _ = change_pages(|pages| pages.saturating_sub(added));
}

/// Gives back what a demo that was killed had taken, by its folder.
pub(crate) fn give_back_stale(dir: &Path) {
    let added = fs::read_to_string(dir.join(ADDED)).ok().and_then(|text| text.trim().parse().ok());
    if let Some(added) = added {
        give_back(&dir.join(MOUNT), added);
    }
}

fn change_pages(change: impl FnOnce(u64) -> u64) -> Result<(), Error> {
    let now = fs::read_to_string(PAGES_FILE).map_err(Error::io(format!("cannot read {PAGES_FILE}")))?;
    let pages = change(now.trim().parse().unwrap_or(0));
    fs::write(PAGES_FILE, pages.to_string()).map_err(Error::io(format!("cannot write {PAGES_FILE}")))
}

fn meminfo(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}
