//! A page whose silos are other processes, which are not trusted.

use super::reader::Reader;
use super::{Layout, Mapping, Metric, Page, PageError, PageShape, Writer, head, usual_path};
use core::time::Duration;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::mm::{Advice, madvise};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;

impl Page {
    /// As [`Page::create_somewhere`] in the usual place, for silos that are other processes: each gets
    /// the file, which cannot be made shorter (what is stored where there is no file ends a process),
    /// and its [`Writer::given`]. What one of them writes, anywhere, costs wrong figures and nothing
    /// else. The path is a link to this process's descriptor of the file.
    ///
    /// # Errors
    /// The system's, and [`PageError::TooLarge`].
    pub fn create_shared(
        label: &str,
        wall: Duration,
        metrics: &[Metric],
        shape: PageShape,
    ) -> Result<(Self, Vec<Writer>, OwnedFd, Option<PageError>), PageError> {
        let layout = Layout::new(metrics, shape)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("nearside-page", flags).map_err(io::Error::from)?);
        // As a page that is a file: everybody reads who finds it, and its owner asks.
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        let mapping = Self::fill(file.try_clone()?, &layout, &head(label, wall, metrics, &layout))?.0;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(io::Error::from)?;
        let (path, identity, why) = match Self::link(&file) {
            Ok((path, identity)) => (path, Some(identity), None),
            Err(why) => (PathBuf::new(), None, Some(PageError::Io(why))),
        };
        let (page, writers) = Self::of(path, identity, mapping, layout);
        Ok((page, writers, file.into(), why))
    }

    /// Puts a link to a file of this process's in the usual place, where a dead process's page may be.
    fn link(file: &File) -> io::Result<(PathBuf, (u64, u64))> {
        let path = usual_path()?;
        let mut draft = path.as_os_str().to_owned();
        draft.push(".link");
        // One of this name was left by a dead process of our number.
        let _ = fs::remove_file(&draft);
        let target = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        std::os::unix::fs::symlink(target, &draft)?;
        fs::rename(&draft, &path)?;
        let link = fs::symlink_metadata(&path)?;
        Ok((path, (link.dev(), link.ino())))
    }
}

impl Writer {
    /// A silo of a page that another process made by [`Page::create_shared`], and the names of its
    /// values. Children of this process do not have it.
    ///
    /// # Errors
    /// If it is no such page, or has no such silo.
    pub fn given(file: OwnedFd, silo: usize) -> Result<(Self, Vec<String>), PageError> {
        if !fcntl_get_seals(file.as_fd()).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(PageError::NotAPage);
        }
        let file = File::from(file);
        let reader = Reader::of_file(file.try_clone()?)?;
        let layout = *reader.layout();
        if silo >= layout.silos {
            return Err(PageError::NotAPage);
        }
        let mapping = Mapping::new(&file, layout.len())?;
        // SAFETY: the range is the mapping's.
        unsafe { madvise(mapping.start.as_ptr().cast(), mapping.len, Advice::LinuxDontFork) }
            .map_err(io::Error::from)?;
        let names = reader.metrics().iter().map(|(name, _)| name.clone()).collect();
        Ok((Self::new(Arc::new(mapping), &layout, silo), names))
    }
}
