//! The files that the tests fetch.

use random::SplitMix64;
use std::fs::{self, DirBuilder, File};
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The small file: its name and size.
pub const SITE_SMALL: (&str, usize) = ("small.html", 2_649);
/// The large file: its name and size.
pub const SITE_LARGE: (&str, usize) = ("large.bin", 32_000_000);

/// A folder with the files, made once for each checkout, with contents
/// that neither compression nor repetition can hide an error in.
///
/// # Panics
/// If it cannot be made.
pub fn site() -> &'static Path {
    static SITE: OnceLock<PathBuf> = OnceLock::new();
    SITE.get_or_init(|| {
        let folder = scratch("site");
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
/// Its path depends on the checkout's only by a number: what a checkout's folder is
/// called, how long its path is (a socket's ends at 107 bytes, `unix(7)`) and what blanks
/// it has, no test that writes paths into a configuration needs to know.
///
/// # Panics
/// If it cannot be made, or somebody else made it.
#[must_use]
pub fn scratch(name: &str) -> PathBuf {
    let folder = scratch_of(&build_folder(), &std::env::temp_dir());
    // Workers without rights read below it.
    match DirBuilder::new().mode(0o755).create(&folder) {
        Err(why) if why.kind() != ErrorKind::AlreadyExists => panic!("{}: {why}", folder.display()),
        _ => {}
    }
    let found = fs::symlink_metadata(&folder).expect("a folder that was just made");
    let own = rustix::process::geteuid().as_raw();
    assert!(found.is_dir() && found.uid() == own, "{}: somebody else made it", folder.display());
    let folder = folder.join(name);
    fs::create_dir_all(&folder).expect("a folder below one of ours");
    folder
}

/// The longest folder for temporary files below which tests make theirs, in bytes.
const LONGEST_PLACE: usize = 32;

/// Where the tests of a checkout that is built in `build` have their files.
#[must_use]
pub fn scratch_of(build: &Path, temporary: &Path) -> PathBuf {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(byte);
    let place = temporary.as_os_str().as_encoded_bytes();
    let fits = place.len() <= LONGEST_PLACE && place.iter().all(plain);
    let place = if fits { temporary } else { Path::new("/tmp") };
    let name = build.as_os_str().as_encoded_bytes();
    let number = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3) // FNV-1a
    });
    place.join(format!("near-tests-{number:016x}"))
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
