//! Which kind of file a text is, and its settings if it is no manifest.

use super::grub::is_grub;
use super::lines::Advice;
use super::plain::{ITEMS, command_lines, limits, sysctl, tmpfiles, tuned};
use super::setting::{AdviceError, FileForm};
use super::tuned::is_section;
use super::{nginx, script};

pub(super) fn form(file: &str, text: &str) -> Option<FileForm> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    match name {
        "cmdline" => return Some(FileForm::CommandLine),
        "limits.conf" => return Some(FileForm::Limits),
        "sysctl.conf" => return Some(FileForm::Sysctl),
        "nginx.conf" => return Some(FileForm::Nginx),
        _ if name.ends_with(".yaml") || name.ends_with(".yml") => return Some(FileForm::Manifest),
        _ if name.ends_with(".sh") => return Some(FileForm::Script),
        _ => {}
    }
    // The folder says what a file is, also of one that is all comments.
    let folders = [
        ("sysctl.d", FileForm::Sysctl),
        ("limits.d", FileForm::Limits),
        ("tmpfiles.d", FileForm::Tmpfiles),
        ("cmdline.d", FileForm::CommandLine),
    ];
    let folder = file.rsplit('/').nth(1).unwrap_or_default();
    if let Some((_, form)) = folders.iter().find(|(name, _)| *name == folder) {
        return Some(*form);
    }
    if lines().any(is_grub) {
        return Some(FileForm::CommandLine);
    }
    if lines().all(|line| line.starts_with("w ") || line.starts_with("w+ ")) && lines().next().is_some() {
        return Some(FileForm::Tmpfiles);
    }
    if is_manifest(text) {
        return Some(FileForm::Manifest);
    }
    if script::looks_like_one(text) {
        return Some(FileForm::Script);
    }
    if nginx::looks_like_one(text) {
        return Some(FileForm::Nginx);
    }
    let first = lines().next()?;
    if lines().any(is_section) {
        return Some(FileForm::Tuned);
    }
    // One line of words, of which some are arguments that kernels know.
    let words = [
        "BOOT_IMAGE=",
        "root=",
        "isolcpus=",
        "nohz_full=",
        "rcu_nocbs=",
        "idle=",
        "intel_idle.",
        "mitigations=",
        "quiet",
    ];
    if lines().count() == 1 && first.split_whitespace().any(|word| words.iter().any(|start| word.starts_with(start))) {
        return Some(FileForm::CommandLine);
    }
    if lines().all(|line| line.contains('=') || line.starts_with('-')) {
        return Some(FileForm::Sysctl);
    }
    match looks_like(text) {
        // One bad line costs one line, not the file.
        Some(like) if like.fitting * 2 > like.all => Some(like.form),
        _ => None,
    }
}

/// What a text of lines looks like most, and the first line that is otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Likeness<'a> {
    pub form: FileForm,
    /// How many lines are of that form, of how many.
    pub fitting: usize,
    pub all: usize,
    /// From 1, and what stands there.
    pub other: Option<(usize, &'a str)>,
}

pub(super) fn looks_like(text: &str) -> Option<Likeness<'_>> {
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(['#', ';']))
        .collect();
    let of = |form: FileForm, fits: &dyn Fn(&str) -> bool| Likeness {
        form,
        fitting: lines.iter().filter(|(_, line)| fits(line)).count(),
        all: lines.len(),
        other: lines.iter().find(|(_, line)| !fits(line)).copied(),
    };
    let is_key = |key: &str| !key.is_empty() && !key.contains(char::is_whitespace);
    let sysctl = |line: &str| match line.split_once('=') {
        Some((key, _)) => is_key(key.trim()),
        None => line.starts_with('-') && is_key(line),
    };
    let item = |line: &str| {
        let fields: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        matches!(fields.as_slice(), [_, "soft" | "hard" | "-", ..])
            || fields.get(2).is_some_and(|item| ITEMS.contains(item))
    };
    let command = |line: &str| script::looks_like_one(line);
    let all = [of(FileForm::Sysctl, &sysctl), of(FileForm::Limits, &item), of(FileForm::Script, &command)];
    all.into_iter().filter(|like| like.fitting > 0).max_by_key(|like| like.fitting)
}

/// Whether a text looks like a manifest: a document with a kind.
fn is_manifest(text: &str) -> bool {
    let kind = |line: &str| line.starts_with("kind:") || line.trim_start().starts_with("\"kind\"");
    text.lines().any(kind) || text.trim_start().starts_with('{') && text.contains("\"kind\"")
}

/// Reads a file of a kind that is known, and that has no other files in it.
pub(super) fn of_form(form: FileForm, file: &str, text: &str) -> Result<Advice, AdviceError> {
    Ok(match form {
        FileForm::Sysctl => sysctl(file, text),
        FileForm::Tuned => tuned(file, text),
        FileForm::Limits => limits(file, text),
        FileForm::CommandLine => command_lines(file, text),
        FileForm::Tmpfiles => tmpfiles(file, text),
        FileForm::Script => script::script(file, text, written).into(),
        FileForm::Nginx => nginx::nginx(file, text)?.into(),
        // Its files are for whoever reads it.
        FileForm::Manifest => Advice::default(),
    })
}

/// What a script's text is that it writes to a path: by its folder, else as any
/// other file.
fn written(path: &str, file: &str, text: &str) -> Advice {
    let within = |folder: &str| path.contains(folder);
    let form = match path {
        _ if within("/sysctl.d/") || path.ends_with("/sysctl.conf") => Some(FileForm::Sysctl),
        _ if within("/limits.d/") || path.ends_with("/limits.conf") => Some(FileForm::Limits),
        _ if within("/tmpfiles.d/") => Some(FileForm::Tmpfiles),
        _ if path.starts_with("/dev/") || within("/etc/cron") => None,
        path => form(path, text).filter(|form| !matches!(form, FileForm::Script | FileForm::Manifest)),
    };
    form.and_then(|form| of_form(form, file, text).ok()).unwrap_or_default()
}
