//! `access_log` and `open_log_file_cache`.

use super::LogTarget;
use super::syslog::syslog_place;
use access_log::{Buffering, LogPlace, OpenFiles};
use core::net::IpAddr;
use core::time::Duration;
use features::Compiling;
use features::Value;
use features::units::{size, time};
use std::path::Path;

/// `access_log`: one line of each request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogUse {
    /// The place's number in [`crate::Program::logs`].
    pub log: u16,
    /// The format's number in [`crate::Program::formats`].
    pub format: u16,
    /// `if=`: not where this is empty or `0`.
    pub condition: Option<Value>,
}

/// What an `access_log` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessLogLine {
    /// Where lines go. Places that are the same are one.
    pub target: LogTarget,
    /// The format's name, which is found whatever its case.
    pub format: Vec<u8>,
    /// `if=`: not where this is empty or `0`.
    pub condition: Option<Value>,
}

/// What buffers hold where only `gzip` is said.
const GZIP_BUFFER: u64 = 64 << 10;

impl AccessLogLine {
    /// Reads a directive from what follows its name; `None`: `off`. Paths are
    /// looked for in `prefix`; `resolve` finds the address of a name.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn parse(
        words: &[&[u8]],
        prefix: &Path,
        compiling: &mut dyn Compiling,
        resolve: &mut dyn FnMut(&str) -> Option<IpAddr>,
    ) -> Result<Option<Self>, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let [path, options @ ..] = words else { return Err("invalid number of arguments".into()) };
        match (*path, options) {
            (b"off", []) => return Ok(None),
            (b"off", [other, ..]) => return Err(format!("invalid parameter \"{}\"", text(other))),
            _ => {}
        }
        let (mut place, named) = match path.strip_prefix(b"syslog:") {
            Some(rest) => (LogPlace::Syslog(syslog_place(rest, resolve)?), None),
            None => place(path, prefix, compiling)?,
        };
        let format = options.first().map_or_else(|| b"combined".to_vec(), |name| name.to_vec());
        let (mut bytes, mut flush, mut gzip, mut condition) = (0, None, None, None);
        for option in options.iter().skip(1) {
            if let Some(value) = option.strip_prefix(b"buffer=") {
                let read = size(value).ok().filter(|bytes| *bytes > 0);
                bytes = read.ok_or_else(|| format!("invalid buffer size \"{}\"", text(value)))?;
            } else if let Some(value) = option.strip_prefix(b"flush=") {
                let read = time(value, false).ok().filter(|time| *time > 0);
                let read = read.ok_or_else(|| format!("invalid flush time \"{}\"", text(value)))?;
                flush = Some(Duration::from_millis(read));
            } else if *option == b"gzip" {
                gzip = Some(1);
            } else if let Some(value) = option.strip_prefix(b"gzip=") {
                let level = core::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                let level = level.filter(|level| (1..=9).contains(level));
                gzip = Some(level.ok_or_else(|| format!("invalid compression level \"{}\"", text(value)))?);
            } else if let Some(value) = option.strip_prefix(b"if=") {
                condition = Some(compiling.value(value)?);
            } else {
                return Err(format!("invalid parameter \"{}\"", text(option)));
            }
        }
        if gzip.is_some() && bytes == 0 {
            bytes = GZIP_BUFFER;
        }
        if bytes == 0 && flush.is_some() {
            return Err(format!("no buffer is defined for access_log \"{}\"", text(path)));
        }
        if bytes > 0 {
            let buffering = Buffering { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), flush, gzip };
            match &mut place {
                LogPlace::File { buffering: kept, .. } => *kept = Some(buffering),
                LogPlace::Named { .. } => return Err("buffered logs cannot have variables in name".into()),
                LogPlace::Syslog(_) => return Err("logs to syslog cannot be buffered".into()),
                // A stream has a buffer as it is.
                LogPlace::Stdout | LogPlace::Stderr => {}
            }
        }
        Ok(Some(Self { target: LogTarget { place, path: named }, format, condition }))
    }
}

/// Where a path leads: a standard stream, a file, or one for each request.
fn place(path: &[u8], prefix: &Path, compiling: &mut dyn Compiling) -> Result<(LogPlace, Option<Value>), String> {
    match path {
        b"/dev/stdout" => return Ok((LogPlace::Stdout, None)),
        b"/dev/stderr" => return Ok((LogPlace::Stderr, None)),
        _ => {}
    }
    use std::os::unix::ffi::OsStrExt;
    let whole = prefix.join(std::ffi::OsStr::from_bytes(path));
    if path.contains(&b'$') {
        let value = compiling.value(whole.as_os_str().as_bytes())?;
        return Ok((LogPlace::Named { open: None, symlinks: true }, Some(value)));
    }
    Ok((LogPlace::File { path: whole, buffering: None }, None))
}

/// What an `open_log_file_cache` says, from what follows its name: for places
/// that are [`LogPlace::Named`]; `None`: `off`.
///
/// # Errors
/// What is wrong with it, in nginx's words.
pub fn open_log_file_cache(words: &[&[u8]]) -> Result<Option<OpenFiles>, String> {
    let mut files = OpenFiles { most: 0, inactive: Duration::from_secs(10), valid: Duration::from_secs(60), uses: 1 };
    let mut off = false;
    for word in words {
        let number = |digits: &[u8]| features::units::number(digits).ok();
        let seconds = |text: &[u8]| time(text, true).ok().map(Duration::from_millis);
        let taken = if let Some(value) = word.strip_prefix(b"max=") {
            number(value).map(|most| files.most = usize::try_from(most).unwrap_or(usize::MAX))
        } else if let Some(value) = word.strip_prefix(b"inactive=") {
            seconds(value).map(|inactive| files.inactive = inactive)
        } else if let Some(value) = word.strip_prefix(b"min_uses=") {
            number(value).map(|uses| files.uses = u32::try_from(uses).unwrap_or(u32::MAX))
        } else if let Some(value) = word.strip_prefix(b"valid=") {
            seconds(value).map(|valid| files.valid = valid)
        } else if *word == b"off" {
            off = true;
            Some(())
        } else {
            None
        };
        if taken.is_none() {
            let word = String::from_utf8_lossy(word);
            return Err(format!("invalid \"open_log_file_cache\" parameter \"{word}\""));
        }
    }
    if off {
        return Ok(None);
    }
    if files.most == 0 {
        return Err("\"open_log_file_cache\" must have \"max\" parameter".into());
    }
    Ok(Some(files))
}
