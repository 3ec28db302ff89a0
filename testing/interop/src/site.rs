//! The files that the tests fetch.

use random::SplitMix64;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The small file: its name and size.
pub const SITE_SMALL: (&str, usize) = ("small.html", 2_649);
/// The large file: its name and size.
pub const SITE_LARGE: (&str, usize) = ("large.bin", 32_000_000);

/// A folder with the files, made once below the build folder, with contents
/// that neither compression nor repetition can hide an error in.
///
/// # Panics
/// If it cannot be made.
pub fn site() -> &'static Path {
    static SITE: OnceLock<PathBuf> = OnceLock::new();
    SITE.get_or_init(|| {
        let folder = build_folder().join("interop-site");
        fs::create_dir_all(&folder).expect("a folder below the build folder");
        for (name, size) in [SITE_SMALL, SITE_LARGE] {
            let path = folder.join(name);
            if fs::metadata(&path).is_ok_and(|m| m.len() == size as u64) {
                continue;
            }
            // Moved into place whole: other test programs may run beside.
            let draft = folder.join(format!("{name}.{}", std::process::id()));
            write(&draft, size).and_then(|()| fs::rename(&draft, &path)).expect("room for the files");
        }
        folder
    })
}

/// A folder for files that the test called `name` writes.
///
/// # Panics
/// If it cannot be made.
#[must_use]
pub fn scratch(name: &str) -> PathBuf {
    let folder = build_folder().join("interop-scratch").join(name);
    fs::create_dir_all(&folder).expect("a folder below the build folder");
    folder
}

/// Copies a program that is to be run. Another process does: a file that this one had open
/// to write would be open in whatever another test forks just then, and the kernel does not
/// execute what somebody may write (`execve(2)`, ETXTBSY).
///
/// # Panics
/// If it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status().expect("cp starts");
    assert!(copied.success(), "{} to {}: {copied}", from.display(), to.display());
}

/// The folder of the profile that the tests are built in.
pub(crate) fn build_folder() -> PathBuf {
    // …/target/PROFILE/deps/this-test
    let test = std::env::current_exe().expect("a test knows its own file");
    test.ancestors().nth(2).expect("a test lies below its profile's folder").to_owned()
}

/// Writes `size` random bytes, the same each time.
fn write(path: &Path, size: usize) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut random = SplitMix64::new(size as u64);
    let mut left = size;
    while left > 0 {
        let bytes = random.bits().to_le_bytes();
        let take = left.min(bytes.len());
        out.write_all(&bytes[..take])?;
        left -= take;
    }
    out.into_inner()?.flush()
}

/// The SHA-256 of what `from` reads, by `sha256sum`, and so by code that
/// nobody here wrote.
///
/// # Panics
/// If `sha256sum` fails.
pub fn sha256(from: impl Into<Stdio>) -> String {
    let mut sum = Command::new("sha256sum").stdin(from).stdout(Stdio::piped()).spawn();
    let sum = sum.as_mut().expect("sha256sum (package coreutils) starts");
    let mut text = String::new();
    sum.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
    assert!(sum.wait().expect("a child can be waited for").success());
    text.split(' ').next().unwrap_or_default().to_owned()
}
