//! Which kind of file a text is, and its settings if it is no manifest.

use super::plain::{GRUB, command_lines, limits, sysctl, tmpfiles, tuned};
use super::setting::{AdviceError, FileForm, Setting};
use super::{nginx, script};

pub(super) fn form(file: &str, text: &str) -> Option<FileForm> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let section = |line: &str| line.starts_with('[') && line.ends_with(']');
    let items = |line: &str| line.split_whitespace().count() == 4 && !line.contains('=');
    match name {
        "cmdline" => return Some(FileForm::CommandLine),
        "limits.conf" => return Some(FileForm::Limits),
        "sysctl.conf" => return Some(FileForm::Sysctl),
        "nginx.conf" => return Some(FileForm::Nginx),
        _ if name.ends_with(".yaml") || name.ends_with(".yml") => return Some(FileForm::Manifest),
        _ if name.ends_with(".sh") => return Some(FileForm::Script),
        _ => {}
    }
    if lines().any(|line| line.starts_with(GRUB)) {
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
    if lines().any(section) {
        return Some(FileForm::Tuned);
    }
    if lines().all(items) {
        return Some(FileForm::Limits);
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
    lines().all(|line| line.contains('=') || line.starts_with('-')).then_some(FileForm::Sysctl)
}

/// Whether a text looks like a manifest: a document with a kind.
fn is_manifest(text: &str) -> bool {
    let kind = |line: &str| line.starts_with("kind:") || line.trim_start().starts_with("\"kind\"");
    text.lines().any(kind) || text.trim_start().starts_with('{') && text.contains("\"kind\"")
}

/// Reads a file of a kind that is known, and that has no other files in it.
pub(super) fn of_form(form: FileForm, file: &str, text: &str) -> Result<Vec<Setting>, AdviceError> {
    match form {
        FileForm::Sysctl => sysctl(file, text),
        FileForm::Tuned => Ok(tuned(file, text)),
        FileForm::Limits => limits(file, text),
        FileForm::CommandLine => Ok(command_lines(file, text)),
        FileForm::Tmpfiles => Ok(tmpfiles(file, text)),
        FileForm::Script => Ok(script::script(file, text)),
        FileForm::Nginx => nginx::nginx(file, text),
        // Its files are for whoever reads it.
        FileForm::Manifest => Ok(Vec::new()),
    }
}
