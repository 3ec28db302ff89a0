//! A look at a program before it is started: what cannot run on our stack is refused.

use crate::elf::{self, Elf};
use core::fmt;
use say::Failure;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why a program cannot run on our stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It is linked statically.
    Static,
    /// It has the set-user-ID or set-group-ID bit.
    SetId,
    /// It has file capabilities.
    Capabilities,
    /// It was compiled by Go.
    Go,
    /// It is started by another dynamic linker.
    Interpreter(String),
    /// It is for another machine.
    Foreign,
    /// It is neither a program nor a script.
    NoProgram,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("it is linked statically, so that no library can be preloaded"),
            Self::SetId => f.write_str(
                "it has the set-user-ID or set-group-ID bit, with which the system preloads nothing: run it as the \
                 user that it is for",
            ),
            Self::Capabilities => f.write_str(
                "it has file capabilities, with which the system preloads nothing: take them away (setcap -r), and \
                 give them by the service manager (AmbientCapabilities=)",
            ),
            Self::Go => f.write_str("Go's programs make system calls by themselves, and no library can take them"),
            Self::Interpreter(which) => {
                write!(f, "it is started by {which}, and the library is for {}", own_interpreter().unwrap_or_default())
            }
            Self::Foreign => f.write_str("it is not a program for this machine"),
            Self::NoProgram => f.write_str("it is neither a program nor a script"),
        }
    }
}

impl core::error::Error for Refused {}

/// Scripts whose interpreter is a script, and so on: the system has four.
const MOST_SCRIPTS: usize = 4;

/// Bytes of a program's beginning: its segments' headers and notes stand in its first pages, the
/// rest is read where they are.
const MOST_READ: u64 = 64 << 20;

/// Finds a program as a shell does: in PATH unless its name has a slash.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&path).map(|folder| folder.join(name));
    let runs =
        |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    let mut found = candidates.filter(runs);
    found.next().ok_or_else(|| format!("there is no program {} in PATH", name.display()).into())
}

/// Looks at a program, and at a script's interpreter.
///
/// # Errors
/// If it cannot be read, or why it cannot run on our stack.
pub(crate) fn judge(program: &Path) -> Result<(), Failure> {
    let mut at = program.to_owned();
    for _ in 0..=MOST_SCRIPTS {
        match look(&at)? {
            Looked::Program => return Ok(()),
            Looked::Script(interpreter) => at = interpreter,
            Looked::Refused(why) => return Err(format!("{} cannot run on our stack: {why}", at.display()).into()),
        }
    }
    Err(format!("{}: too many scripts in a row", program.display()).into())
}

enum Looked {
    Program,
    Script(PathBuf),
    Refused(Refused),
}

fn look(program: &Path) -> Result<Looked, Failure> {
    let fail = |why: std::io::Error| Failure::from(format!("{}: {why}", program.display()));
    let file = File::open(program).map_err(fail)?;
    let mode = file.metadata().map_err(fail)?.permissions().mode();
    let mut bytes = Vec::new();
    file.take(MOST_READ).read_to_end(&mut bytes).map_err(fail)?;
    if let Some(line) = bytes.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let interpreter = words.next().map(|word| PathBuf::from(OsStr::from_bytes(word)));
        // The one that env finds is the program's.
        let of_env = interpreter.as_ref().is_some_and(|path| path.file_name() == Some(OsStr::new("env")));
        let named = words.next().filter(|word| of_env && !word.starts_with(b"-"));
        return Ok(match (named, interpreter) {
            (Some(name), _) => Looked::Script(find(OsStr::from_bytes(name))?),
            (None, Some(interpreter)) => Looked::Script(interpreter),
            (None, None) => Looked::Refused(Refused::NoProgram),
        });
    }
    let Some(elf) = elf::read(&bytes) else { return Ok(Looked::Refused(Refused::NoProgram)) };
    Ok(refusal(&elf, mode, has_capabilities(program)).map_or(Looked::Program, Looked::Refused))
}

/// Why a program is refused, if it is.
fn refusal(elf: &Elf, mode: u32, capabilities: bool) -> Option<Refused> {
    let own = own_interpreter();
    match &elf.interpreter {
        _ if !elf.is_native => Some(Refused::Foreign),
        _ if mode & 0o6000 != 0 => Some(Refused::SetId),
        _ if capabilities => Some(Refused::Capabilities),
        _ if elf.is_go => Some(Refused::Go),
        None => Some(Refused::Static),
        Some(other) if own.as_ref().is_some_and(|own| own != other) => Some(Refused::Interpreter(other.clone())),
        Some(_) => None,
    }
}

/// Whether a file has capabilities (capabilities(7)).
fn has_capabilities(program: &Path) -> bool {
    let mut value = [0u8; 64];
    rustix::fs::getxattr(program, "security.capability", &mut value[..]).is_ok()
}

/// The dynamic linker that this program is started by, and so the library is for.
fn own_interpreter() -> Option<String> {
    let own = std::fs::read("/proc/self/exe").ok()?;
    elf::read(&own)?.interpreter
}

/// What the library is called.
const LIBRARY: &str = "libnearside_preload.so";

/// Finds the library: as said, beside this program, or where a distribution puts it.
pub(crate) fn library(said: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(said) = said {
        return judge_library(said);
    }
    let program = std::env::current_exe().map_err(|why| Failure::from(format!("where this program is: {why}")))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib/nearside").join(LIBRARY)];
    match places.iter().find(|place| place.is_file()) {
        Some(found) => judge_library(found),
        None => {
            let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            Err(format!("{LIBRARY} is neither {}: say where by --library", places.join(" nor ")).into())
        }
    }
}

/// Looks at a file that is to be preloaded: the system would only warn of what is none of ours, and the
/// program would run on the kernel's sockets.
fn judge_library(file: &Path) -> Result<PathBuf, Failure> {
    let fail = |why: std::io::Error| Failure::from(format!("{}: {why}", file.display()));
    let found = file.canonicalize().map_err(fail)?;
    let bytes = std::fs::read(&found).map_err(fail)?;
    match library_version(&bytes) {
        Some(version) if version == seats::VERSION => Ok(found),
        Some(version) => {
            let (file, own) = (file.display(), seats::VERSION);
            Err(format!("{file} is nearside's library of version {version}, and this program is of version {own}")
                .into())
        }
        None => Err(format!("{} is not nearside's library to preload ({LIBRARY})", file.display()).into()),
    }
}

/// The version of a library of ours for this machine, by its symbol and what stands there.
fn library_version(bytes: &[u8]) -> Option<String> {
    if !elf::read(bytes)?.is_native {
        return None;
    }
    let mut words = bytes.split(|byte| *byte == 0);
    let version = |word: &[u8]| word.strip_prefix(seats::LIBRARY_WORDS.as_bytes()).map(<[u8]>::to_vec);
    let has_symbol = words.clone().any(|word| word == seats::LIBRARY_SYMBOL.as_bytes());
    let found = words.find_map(version).filter(|_| has_symbol)?;
    String::from_utf8(found).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Elf {
        Elf { interpreter: own_interpreter(), is_go: false, is_native: true }
    }

    #[test]
    fn what_cannot_be_preloaded_is_refused_by_its_reason() {
        let plain = program();
        assert_eq!(refusal(&plain, 0o755, false), None);
        assert_eq!(refusal(&plain, 0o4755, false), Some(Refused::SetId));
        assert_eq!(refusal(&plain, 0o2755, false), Some(Refused::SetId));
        assert_eq!(refusal(&plain, 0o755, true), Some(Refused::Capabilities));
        assert_eq!(refusal(&Elf { is_go: true, ..plain.clone() }, 0o755, false), Some(Refused::Go));
        assert_eq!(refusal(&Elf { interpreter: None, ..plain.clone() }, 0o755, false), Some(Refused::Static));
        assert_eq!(refusal(&Elf { is_native: false, ..plain.clone() }, 0o755, false), Some(Refused::Foreign));
        let musl = Some("/lib/ld-musl-x86_64.so.1".to_owned());
        assert!(matches!(refusal(&Elf { interpreter: musl, ..plain }, 0o755, false), Some(Refused::Interpreter(_))));
    }

    #[test]
    fn a_shell_is_a_program_and_a_script_is_by_its_shell() {
        let folder = std::env::temp_dir().join(format!("keeper-look-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let script = folder.join("script");
        std::fs::write(&script, "#!/bin/sh\nexit 0\n").unwrap();
        assert!(judge(&script).is_ok());
        std::fs::write(&script, "#!/usr/bin/env sh\nexit 0\n").unwrap();
        assert!(judge(&script).is_ok());
        std::fs::write(&script, "exit 0\n").unwrap();
        assert!(judge(&script).unwrap_err().to_string().contains("neither a program nor a script"));
        std::fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(judge(&script).unwrap_err().to_string().contains("too many scripts"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_library_is_ours_by_its_symbol_and_version() {
        let library = |symbol: &str, version: &str| {
            let mut bytes = vec![0u8; 64];
            bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
            bytes.extend_from_slice(format!("\0{symbol}\0other\0{}{version}\0", seats::LIBRARY_WORDS).as_bytes());
            bytes
        };
        let ours = library(seats::LIBRARY_SYMBOL, "1.2.3");
        assert_eq!(library_version(&ours).as_deref(), Some("1.2.3"));
        assert_eq!(library_version(&library("printf", "1.2.3")), None);
        assert_eq!(library_version(&ours[1..]), None, "no ELF");
        assert_eq!(library_version(b""), None);
        let folder = std::env::temp_dir().join(format!("keeper-library-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("lib.so");
        let judged = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            judge_library(&file).map_err(|why| why.to_string())
        };
        assert!(judged(&library(seats::LIBRARY_SYMBOL, seats::VERSION)).is_ok());
        assert!(judged(&ours).unwrap_err().contains("is nearside's library of version 1.2.3, and this program is of"));
        assert!(judged(b"root:x:0:0").unwrap_err().contains("is not nearside's library"));
        assert!(super::library(Some(&folder.join("none"))).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_program_is_found_in_path() {
        assert!(find(OsStr::new("sh")).unwrap().is_absolute());
        assert!(find(OsStr::new("no-such-program-here")).is_err());
        assert_eq!(find(OsStr::new("./here")).unwrap(), Path::new("./here"));
    }
}
