//! The programs that Nearside is: `nearside`, which serves, `nearside-tools`, which
//! measures, tunes and tests, and `nearside-cluster`, which does so on many machines.
//! Each is started by another where a command is that one's; for people there is one
//! command, `nearside`.
//!
//! What serves contains no terminal UI, YAML, D-Bus or capture files, least of all
//! the part of it that starts as root.
//!
//! They lie in one folder, as a build leaves them, or as they are installed:
//! `bin/nearside` beside `lib/nearside/nearside-tools`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The program that serves, and by which the commands of both are called.
pub const SERVING: &str = "nearside";
/// The program with all other commands.
pub const TOOLS: &str = "nearside-tools";
/// The program that has many machines measure together.
pub const CLUSTER: &str = "nearside-cluster";

/// From the folder of any as installed to the others.
const INSTALLED: [(&str, &str); 3] = [(TOOLS, "../lib/nearside"), (CLUSTER, "../lib/nearside"), (SERVING, "../../bin")];

/// The program that this process runs.
///
/// # Errors
/// If nothing tells.
pub fn own() -> io::Result<PathBuf> {
    // Without /proc by the name that it was started by, which is not the program if that
    // was replaced since: as it should be for a successor.
    std::env::current_exe().or_else(|why| {
        let named = rustix::param::linux_execfn();
        let path = Path::new(OsStr::from_bytes(named.to_bytes()));
        if named.is_empty() { Err(why) } else { std::path::absolute(path) }
    })
}

/// The program that serves, and starts the other where a command is that one's.
///
/// # Errors
/// If it is not where it belongs.
pub fn serving() -> io::Result<PathBuf> {
    find(&own()?, SERVING)
}

/// The program with all commands but those that serve.
///
/// # Errors
/// If it is not where it belongs: then there is only the serving program.
pub fn tools() -> io::Result<PathBuf> {
    find(&own()?, TOOLS)
}

/// The program that has many machines measure together.
///
/// # Errors
/// If it is not where it belongs.
pub fn cluster() -> io::Result<PathBuf> {
    find(&own()?, CLUSTER)
}

/// The program of this name, from where `own` is.
fn find(own: &Path, name: &str) -> io::Result<PathBuf> {
    let own = alive(own);
    if own.file_name().is_some_and(|file| file == name) {
        return Ok(own);
    }
    let folder = own.parent().unwrap_or(Path::new("/"));
    let installed = INSTALLED.iter().filter(|(of, _)| *of == name).map(|(_, way)| folder.join(way));
    let places: Vec<PathBuf> =
        std::iter::once(folder.to_owned()).chain(installed).map(|place| place.join(name)).collect();
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        io::Error::new(io::ErrorKind::NotFound, format!("there is no {}", looked.join(" and no ")))
    })
}

/// Without what the kernel writes behind the name of a program that was replaced since.
fn alive(own: &Path) -> PathBuf {
    let bytes = own.as_os_str().as_bytes();
    match bytes.strip_suffix(b" (deleted)") {
        Some(named) if !own.exists() => OsString::from_vec(named.to_vec()).into(),
        _ => own.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn each_finds_the_other_as_built_and_as_installed() {
        let root = std::env::temp_dir().join(format!("near-programs-{}", std::process::id()));
        let file = |path: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a place for tests");
            fs::write(&path, "").expect("a place for tests");
            path
        };
        let found = |own: &str, name| find(&root.join(own), name).ok().and_then(|path| fs::canonicalize(path).ok());
        let root_is = fs::canonicalize(std::env::temp_dir()).expect("there");
        let here = |path: PathBuf| root_is.join(path.strip_prefix(std::env::temp_dir()).expect("below"));

        file("target/nearside");
        assert_eq!(found("target/nearside", TOOLS), None, "alone");
        let tools = here(file("target/nearside-tools"));
        assert_eq!(found("target/nearside", TOOLS), Some(tools.clone()));
        // Under another name, and replaced by an update.
        assert_eq!(found("target/nginx", TOOLS), Some(tools.clone()));
        assert_eq!(found("target/nearside (deleted)", TOOLS), Some(tools));
        assert_eq!(found("target/nearside-tools", SERVING), Some(here(root.join("target/nearside"))));

        let (serving, tools) = (here(file("usr/bin/nearside")), here(file("usr/lib/nearside/nearside-tools")));
        assert_eq!(found("usr/bin/nearside", TOOLS), Some(tools));
        assert_eq!(found("usr/lib/nearside/nearside-tools", SERVING), Some(serving));
        // The third lies beside the second.
        let cluster = here(file("usr/lib/nearside/nearside-cluster"));
        assert_eq!(found("usr/lib/nearside/nearside-tools", CLUSTER), Some(cluster.clone()));
        assert_eq!(found("usr/bin/nearside", CLUSTER), Some(cluster));
        assert_eq!(found("usr/lib/nearside/nearside-cluster", TOOLS), found("usr/bin/nearside", TOOLS));
        let why = find(&root.join("none/nearside"), TOOLS).expect_err("nowhere").to_string();
        assert!(why.contains("none/nearside-tools and no ") && why.contains("lib/nearside/nearside-tools"), "{why}");
        fs::remove_dir_all(&root).expect("made above");
    }
}
