//! The files of a site, made from its list: the same content and times each time.
//!
//! A line is a path below the prefix and what is there:
//!
//! ```text
//! www/index.html   page 1200          a page of so many bytes
//! www/logo.png     bytes 900          random bytes
//! www/robots.txt   says User-agent: * these words and a line feed
//! www/odd.txt      written \xc1\n these bytes: \xHH, \n, \\ and the like
//! www/index.html.gz gzip              the file without .gz, compressed
//! www/empty/       folder
//! www/current      -> releases/2      a symbolic link
//! ```
//!
//! `@+60` before the path: modified so many seconds after [`EPOCH`]. `\xHH` in a path is
//! this byte.

use crate::requests::unescape;
use random::SplitMix64;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

/// When files were modified that are not said to be modified later: Tuesday,
/// 14 November 2023, 22:13:20 GMT.
pub(crate) const EPOCH: u64 = 1_700_000_000;

/// Makes the files of `list` below `prefix`.
pub(crate) fn make(prefix: &Path, list: &str) {
    let mut times = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (later, line) = match line.strip_prefix("@+").and_then(|rest| rest.split_once(' ')) {
            Some((seconds, rest)) => (seconds.parse().expect("seconds"), rest),
            None => (0, line),
        };
        let (name, what) = line.split_once(' ').expect("a path and what is there");
        let path = prefix.join(OsStr::from_bytes(&unescape(name)));
        make_one(&path, what.trim());
        if !path.is_symlink() {
            times.push((path, EPOCH + later));
        }
    }
    // Folders are modified by what is made in them: all times at the end, those of
    // folders that are not listed too.
    let folders: Vec<_> = times.iter().flat_map(|(path, _)| path.ancestors().skip(1)).collect();
    for folder in folders {
        if folder.starts_with(prefix) {
            modify(folder, EPOCH);
        }
    }
    for (path, time) in &times {
        modify(path, *time);
    }
}

fn make_one(path: &Path, what: &str) {
    let (kind, rest) = what.split_once(' ').unwrap_or((what, ""));
    if kind == "folder" {
        return fs::create_dir_all(path).unwrap();
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let size = || rest.parse().unwrap_or_else(|_| panic!("{}: {what}", path.display()));
    let content = match kind {
        "page" => page(size()),
        "bytes" => bytes(size()),
        "says" => format!("{rest}\n").into_bytes(),
        "written" => unescape(rest),
        "gzip" => gzip(&path.with_extension("")),
        "->" => return std::os::unix::fs::symlink(rest, path).unwrap(),
        _ => panic!("{}: {what}", path.display()),
    };
    fs::write(path, content).unwrap();
}

fn modify(path: &Path, seconds: u64) {
    File::open(path).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

/// Text that compresses as pages do.
pub(crate) fn page(size: usize) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "<p>",
        "</p>\n",
        "the ",
        "server ",
        "of ",
        "pages ",
        "answers ",
        "<b>",
        "</b> ",
        "and ",
        "waits ",
        "\u{fc}ber ",
    ];
    let mut text = Vec::from(&b"<!doctype html>\n"[..]);
    let mut random = SplitMix64::new(size as u64);
    while text.len() < size {
        text.extend_from_slice(WORDS[random.below(WORDS.len())].as_bytes());
    }
    text.truncate(size);
    text
}

fn bytes(size: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(!size as u64);
    (0..size).map(|_| random.bits() as u8).collect()
}

fn gzip(file: &Path) -> Vec<u8> {
    let output = Command::new("gzip").args(["-9nc"]).arg(file).output().expect("gzip (package gzip) starts");
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    output.stdout
}
