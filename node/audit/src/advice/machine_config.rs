//! A MachineConfig: Ignition's files, which stand there as URLs of data, and
//! units.

use super::form::{form, of_form};
use super::keys::command_line;
use super::lines::Advice;
use super::objects::Manifest;
use super::setting::{AdviceError, FileForm, Setting};
use crate::yaml::{Node, documents};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const KIND: &str = "MachineConfig";

pub(super) fn machine_config(manifest: &mut Manifest<'_>, name: &str, spec: &Node) {
    for word in spec.get("kernelArguments").map_or(&[][..], Node::list) {
        manifest.advice.extend(command_line(manifest.file, word.line, word.text().unwrap_or_default()));
    }
    for key in ["kernelType", "fips", "config.ignition.version"] {
        if let Some(node) = spec.at(key) {
            manifest.add(&format!("{KIND} {key}"), name, node, node.text().unwrap_or_default());
        }
    }
    let version = spec.text_at("config.ignition.version").unwrap_or_default();
    for file in spec.at("config.storage.files").map_or(&[][..], Node::list) {
        one_file(manifest, name, version, file);
    }
    for unit in spec.at("config.systemd.units").map_or(&[][..], Node::list) {
        one_unit(manifest, unit);
    }
}

fn one_file(manifest: &mut Manifest<'_>, name: &str, version: &str, file: &Node) {
    let path = file.text_at("path").unwrap_or_default().to_owned();
    // One bad file costs that file.
    let mut wrong = |node: &Node, why: &str| manifest.advice.fault(manifest.file, node.line, &path, why, None);
    if !path.starts_with('/') {
        wrong(file, "a file without an absolute path");
        return;
    }
    match file.get("filesystem") {
        Some(filesystem) => {
            manifest.add("MachineConfig filesystem", name, filesystem, filesystem.text().unwrap_or_default());
        }
        // Which the older version requires.
        None if version.starts_with("2.") => manifest.add("MachineConfig filesystem", name, file, ""),
        None => {}
    }
    if let Some(mode) = file.get("mode") {
        manifest.add("MachineConfig mode", &path, mode, mode.text().unwrap_or_default());
    }
    let Some(source) = file.at("contents.source") else {
        manifest.add("MachineConfig file", &path, file, "without content");
        return;
    };
    let url = source.text().unwrap_or_default();
    if file.text_at("contents.compression").is_some_and(|kind| kind != "null") {
        manifest.add("MachineConfig file", &path, source, "compressed: not looked into");
        return;
    }
    if ["http://", "https://", "s3://", "gs://", "tftp://", "arn:"].iter().any(|scheme| url.starts_with(scheme)) {
        manifest.add("MachineConfig file", &path, source, "is elsewhere, and not fetched: not looked into");
        return;
    }
    let (kind, text) = match decoded(url) {
        Ok(decoded) => decoded,
        Err(why) => return manifest.advice.fault(manifest.file, source.line, &path, why, None),
    };
    if let Some((_, charset)) = kind.split_once("charset=") {
        let charset = charset.split(';').next().unwrap_or_default();
        manifest.add("MachineConfig charset", &path, source, charset);
    }
    let Some(text) = text else {
        manifest.add("MachineConfig file", &path, source, "no text: not looked into");
        return;
    };
    if let Err(why) = content(manifest, &path, source, &text) {
        manifest.advice.fault(manifest.file, source.line, &path, &why.to_string(), None);
    }
}

/// What a decoded file says: as a file of settings if it is one; its place is
/// the line of its URL, and its own.
fn content(manifest: &mut Manifest<'_>, path: &str, source: &Node, text: &str) -> Result<(), AdviceError> {
    let place = format!("{}:{} ({path})", manifest.file, source.line);
    if path.ends_with("openshift-workload-pinning") {
        let inner = documents(text).map_err(|why| AdviceError::Yaml { file: place, why })?;
        let cores = inner.first().and_then(|document| document.at("management.cpuset")).and_then(Node::text);
        manifest.add("workload partitioning", path, source, cores.unwrap_or("no cpuset"));
        return Ok(());
    }
    if path.contains("/crio.conf.d/") {
        let cores = text.lines().filter(|line| line.trim_start().starts_with("resources")).find_map(cpuset);
        match cores {
            Some(cores) => manifest.add("workload partitioning", path, source, cores),
            None => manifest.add("MachineConfig file", path, source, "CRI-O's"),
        }
        return Ok(());
    }
    let advice: Advice = match form(path, text) {
        // Units and scripts have lines with = too; a folder says what is what.
        Some(FileForm::Sysctl) if !path.contains("sysctl") => Advice::default(),
        Some(FileForm::Tuned) if !path.contains("tuned") => {
            let settings = environment(path, text).into_iter();
            settings.map(|setting| Setting { file: place.clone(), ..setting }).collect::<Vec<_>>().into()
        }
        Some(
            form @ (FileForm::Sysctl
            | FileForm::Tuned
            | FileForm::Limits
            | FileForm::Tmpfiles
            | FileForm::CommandLine
            | FileForm::Script
            | FileForm::Nginx),
        ) => of_form(form, &place, text)?,
        _ => Advice::default(),
    };
    if advice.settings.is_empty() && advice.faults.is_empty() {
        manifest.add("MachineConfig file", path, source, "says nothing that is judged");
    }
    manifest.advice.extend(advice);
    Ok(())
}

/// The value of `"cpuset" = "…"` on a line of TOML.
fn cpuset(line: &str) -> Option<String> {
    let rest = line.split_once("cpuset\"")?.1.split_once('"')?.1;
    Some(rest.split('"').next()?.to_owned())
}

fn one_unit(manifest: &mut Manifest<'_>, unit: &Node) {
    let name = unit.text_at("name").unwrap_or("a unit without a name").to_owned();
    let switched = ["enabled", "mask"].iter().find_map(|key| unit.get(key).map(|node| (*key, node)));
    if let Some((key, node)) = switched {
        manifest.add("MachineConfig unit", &name, node, format!("{key} {}", node.text().unwrap_or_default()));
    }
    let dropins = unit.get("dropins").map_or(&[][..], Node::list).iter();
    for contents in dropins.chain([unit]).filter_map(|node| node.get("contents")) {
        let text = contents.text().unwrap_or_default();
        for mut setting in environment(&name, text) {
            setting.line += contents.line - 1;
            manifest.file.clone_into(&mut setting.file);
            manifest.advice.settings.push(setting);
        }
    }
}

/// Environment and commands of a unit that are about noise.
fn environment(unit: &str, text: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut add = |key: &str, value: &str| {
            settings.push(Setting {
                key: key.to_owned(),
                value: value.trim_matches('"').to_owned(),
                subject: unit.to_owned(),
                file: unit.to_owned(),
                line: at + 1,
                form: FileForm::Manifest,
                within: Vec::new(),
            });
        };
        let line = line.trim();
        if let Some(words) = line.strip_prefix("Environment=") {
            for word in words.trim_matches('"').split_whitespace() {
                if let Some((name, value)) =
                    word.trim_matches('"').split_once('=').filter(|(name, _)| name.starts_with("OPENSHIFT_"))
                {
                    add(name, value);
                }
            }
        } else if let Some((name, value)) = line.split_once('=').filter(|(name, _)| {
            matches!(
                *name,
                "CPUAffinity" | "CPUSchedulingPolicy" | "CPUSchedulingPriority" | "LimitNOFILE" | "AllowedCPUs"
            )
        }) {
            add(&format!("unit {name}"), value.trim());
        } else if let Some(value) = line.split("--housekeeping-interval=").nth(1) {
            add("kubelet housekeeping-interval", value.split_whitespace().next().unwrap_or_default());
        }
        if line.starts_with("Exec") {
            settings.extend(super::script::command(unit, at + 1, line.split_once('=').map_or(line, |(_, rest)| rest)));
        }
    }
    settings
}

/// The media type of a URL of data (RFC 2397), and its content where that is
/// text.
fn decoded(url: &str) -> Result<(String, Option<String>), &'static str> {
    let Some(rest) = url.strip_prefix("data:") else {
        return match url.is_empty() {
            true => Ok((String::new(), Some(String::new()))),
            false => Err("a source that is no data: URL; what it names is not fetched"),
        };
    };
    let (head, data) = rest.split_once(',').ok_or("a data: URL without a comma")?;
    let bytes = unescaped(data).ok_or("a data: URL with a % that two digits do not follow")?;
    let (kind, bytes) = match head.strip_suffix(";base64") {
        Some(kind) => {
            let dense: Vec<u8> = bytes.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
            (kind, STANDARD.decode(dense).map_err(|_| "base64 that is none")?)
        }
        None => (head, bytes),
    };
    Ok((kind.to_owned(), String::from_utf8(bytes).ok()))
}

/// Bytes with `%xx` resolved (RFC 3986 section 2.1).
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_data_are_decoded_or_refused() {
        let text = |url: &str| decoded(url).map(|(_, text)| text.unwrap_or_default());
        assert_eq!(text("data:,a%3Db%0A"), Ok("a=b\n".to_owned()));
        assert_eq!(text("data:text/plain;charset=utf-8;base64,YT1i"), Ok("a=b".to_owned()));
        assert_eq!(text("data:;base64,%59T1i"), Ok("a=b".to_owned()));
        assert!(text("data:;base64,***").is_err());
        assert!(text("data:,a%3").is_err());
        assert!(text("data:none").is_err());
        assert!(text("https://example.com/x").is_err());
        // Bytes that are no text are not looked into.
        assert_eq!(decoded("data:,%ff%00"), Ok((String::new(), None)));
    }
}
