//! Files that a command names twice: what it would write onto what it reads, or onto what else it writes.

use clap::{Arg, ArgMatches, Command, ValueHint};
use std::path::{Path, PathBuf};

/// Options whose files are written, whichever command has them.
const WRITTEN: [&str; 10] = ["html", "svg", "out", "record", "csv", "ndjson", "hdr-log", "hgrm", "gaps", "capture"];

/// What is wrong with the files that are named, if something is.
pub(super) fn named_twice(definition: &Command, matches: &ArgMatches) -> Option<String> {
    if let Some((name, matches)) = matches.subcommand() {
        return named_twice(definition.find_subcommand(name)?, matches);
    }
    let given: Vec<(&Arg, PathBuf)> = definition.get_arguments().flat_map(|arg| paths(arg, matches)).collect();
    let is_written = |arg: &Arg| arg.get_long().is_some_and(|long| WRITTEN.contains(&long));
    for (at, (arg, path)) in given.iter().enumerate().filter(|(_, (arg, _))| is_written(arg)) {
        let is_same = |(other, (_, named)): &(usize, &(&Arg, PathBuf))| *other != at && is_one(path, named);
        if let Some((_, (other, _))) = given.iter().enumerate().find(is_same) {
            return Some(format!(
                "{} is named by {} and by {}: one would be lost",
                path.display(),
                told(arg),
                told(other)
            ));
        }
    }
    None
}

/// The paths that an argument has.
fn paths<'a>(arg: &'a Arg, matches: &ArgMatches) -> Vec<(&'a Arg, PathBuf)> {
    let is_path = matches!(arg.get_value_hint(), ValueHint::FilePath | ValueHint::AnyPath);
    let raw = matches.get_raw(arg.get_id().as_str()).filter(|_| is_path || arg.get_id() == "body");
    let file = |raw: &std::ffi::OsStr| match raw.to_str().map(|text| text.strip_prefix('@')) {
        // A text, and no file.
        Some(None) if !is_path => None,
        Some(Some(file)) => Some(PathBuf::from(file)),
        _ => Some(PathBuf::from(raw)),
    };
    raw.into_iter().flatten().filter_map(file).map(|path| (arg, path)).collect()
}

/// Whether both lead to one file, or would. Devices and pipes take what several write.
fn is_one(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        path.canonicalize().or_else(|_| {
            let folder =
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
            Ok::<_, std::io::Error>(folder.canonicalize()?.join(path.file_name().unwrap_or_default()))
        })
    };
    let is_other = |path: &Path| path.metadata().is_ok_and(|found| !found.is_file());
    !is_other(one) && place(one).is_ok_and(|one| place(other).is_ok_and(|other| one == other))
}

fn told(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_value_names()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some([name, ..])) => name.to_string(),
        _ => arg.get_id().to_string(),
    }
}
