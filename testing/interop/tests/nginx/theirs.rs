//! The nginx that ours is compared with.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

/// A version's numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32, pub(crate) u32);

/// Debian's, unless `NEARSIDE_NGINX` names another.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("NEARSIDE_NGINX").map_or_else(|| PathBuf::from("/usr/sbin/nginx"), PathBuf::from)
}

/// What `nginx -v` says.
pub(crate) fn version() -> Version {
    static VERSION: LazyLock<Version> = LazyLock::new(|| {
        let program = program();
        let told = Command::new(&program).arg("-v").output().unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        read(&told).unwrap_or_else(|| panic!("{}: no version in {told:?}", program.display()))
    });
    *VERSION
}

fn read(told: &str) -> Option<Version> {
    let (_, rest) = told.split_once("nginx/")?;
    let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
    let mut numbers = rest[..end].split('.').map(|number| number.parse().ok());
    Some(Version(numbers.next()??, numbers.next()??, numbers.next()??))
}

#[test]
fn versions_are_read_and_in_order() {
    assert_eq!(read("nginx version: nginx/1.22.1\n"), Some(Version(1, 22, 1)));
    assert_eq!(read("nginx version: nginx/1.31.5 (built for tests)\n"), Some(Version(1, 31, 5)));
    assert_eq!(read("nginx: not found"), None);
    assert!(Version(1, 9, 10) < Version(1, 22, 1) && Version(1, 31, 5) < Version(2, 0, 0));
}
