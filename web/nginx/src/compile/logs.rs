//! `log_format`, `access_log` and `open_log_file_cache`.

use super::arguments::{argument, inside, told};
use super::layer::Layer;
use super::process::ErrorLogTarget;
use super::tables::Lines;
use super::{Compiler, Step};
use crate::message::Place;
use crate::reader::Directive;
use access_log::LogPlace;
use configuration::logging::{AccessLogLine, ErrorLogUse, LogFormat, LogTarget, LogUse, open_log_file_cache};
use features::ErrorLevel;
use std::sync::Arc;

/// Where requests are logged if nothing is said: nginx's `--http-log-path`, as Debian has it.
pub const ACCESS_LOG: &str = "/var/log/nginx/access.log";

impl Compiler<'_> {
    /// All formats: servers that stand before them may name them.
    pub(super) fn log_formats(&mut self, directives: &[Directive], place: Place) -> Step {
        let mut variables = core::mem::take(&mut self.program.variables);
        let mut number = |name: &[u8]| variables.reserve(&name.to_ascii_lowercase()).ok();
        let mut formats = vec![LogFormat::combined(&mut number).map_err(|why| self.refused(place, why))?];
        for directive in directives.iter().filter(|one| one.name == b"log_format") {
            let name = argument(directive, 0);
            if formats.iter().any(|format| *format.name == *name) {
                let what = format!("duplicate \"log_format\" name \"{}\"", told(name));
                return Err(self.refused(directive.place, what));
            }
            let words: Vec<&[u8]> = directive.arguments[1..].iter().map(Vec::as_slice).collect();
            let format = LogFormat::parse(name, &words, &mut number);
            formats.push(format.map_err(|why| self.refused(directive.place, why))?);
        }
        self.program.variables = variables;
        self.program.formats = formats;
        Ok(())
    }

    /// What is logged where nothing is said, if there is such a place among the blocks of
    /// `http`.
    pub(super) fn usual_log(&mut self, layer: &mut Layer, directives: &[Directive]) {
        let says = |one: &Directive| inside(one).iter().any(|one| one.name == b"access_log");
        let all_say = directives.iter().filter(|one| one.name == b"server").all(says);
        if !layer.has("access_log") && !all_say {
            self.unsaid_log = true;
            let place = LogPlace::File { path: ACCESS_LOG.into(), buffering: None };
            let log = self.log(LogTarget { place, path: None }).unwrap_or_default();
            layer.block.logs = [LogUse { log, format: 0, condition: None }].into();
        }
    }

    /// The number of a place; the same file is one, and one that is buffered is for
    /// all. None: its buffer is another than before.
    fn log(&mut self, target: LogTarget) -> Option<u16> {
        let logs = &mut self.program.logs;
        let is_same = |known: &LogTarget| match (&known.place, &target.place) {
            (LogPlace::File { path: known, .. }, LogPlace::File { path, .. }) => known == path,
            _ => *known == target,
        };
        let Some(at) = logs.iter().position(is_same) else {
            logs.push(target);
            return u16::try_from(logs.len() - 1).ok();
        };
        if let (LogPlace::File { buffering: known, .. }, LogPlace::File { buffering: Some(now), .. }) =
            (&mut logs[at].place, target.place)
            && *known.get_or_insert_with(|| now.clone()) != now
        {
            return None;
        }
        u16::try_from(at).ok()
    }

    pub(super) fn access_log(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        if layer.first("access_log") {
            layer.block.logs = [].into();
        }
        let words: Vec<&[u8]> = directive.arguments.iter().map(Vec::as_slice).collect();
        let around = self.around;
        let mut resolve = |host: &str| (around.resolve)(host).first().copied();
        let mut lines = Lines { compiler: self, place };
        let line = AccessLogLine::parse(&words, around.prefix, &mut lines, &mut resolve);
        let line = line.map_err(|why| self.refused(place, why))?;
        // One `off` beside others does not count.
        let Some(line) = line else { return Ok(()) };
        let format = self.program.formats.iter().position(|format| format.name.eq_ignore_ascii_case(&line.format));
        let Some(format) = format.and_then(|format| u16::try_from(format).ok()) else {
            return Err(self.refused(place, format!("unknown log format \"{}\"", told(&line.format))));
        };
        layer.lines.push((line, format, directive.clone()));
        Ok(())
    }

    /// `error_log` in a block.
    pub(super) fn block_error_log(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let log = self.error_log(directive)?;
        let place = match log.target {
            ErrorLogTarget::Stderr => LogPlace::Stderr,
            ErrorLogTarget::File(path) => LogPlace::File { path, buffering: None },
            ErrorLogTarget::Syslog(server) => LogPlace::Syslog(server),
        };
        let mut logs = if layer.first("error_log") { Vec::new() } else { layer.block.error_logs.to_vec() };
        logs.push(self.error_log_use(place, log.level));
        layer.block.error_logs = logs.into();
        Ok(())
    }

    /// The error logs of blocks that have none of their own: those of the process, of
    /// which the first that is no syslog server is its standard error. There is one
    /// always.
    pub(super) fn usual_error_logs(&mut self, layer: &mut Layer) -> Step {
        let configuration = self.configuration;
        let (mut logs, mut is_led) = (Vec::new(), false);
        for directive in configuration.directives.iter().filter(|one| one.name == b"error_log") {
            let log = self.error_log(directive)?;
            let place = match log.target {
                ErrorLogTarget::Syslog(server) => LogPlace::Syslog(server),
                ErrorLogTarget::File(path) if is_led => LogPlace::File { path, buffering: None },
                ErrorLogTarget::File(_) | ErrorLogTarget::Stderr => {
                    is_led = true;
                    LogPlace::Stderr
                }
            };
            logs.push(self.error_log_use(place, log.level));
        }
        if !is_led {
            logs.push(self.error_log_use(LogPlace::Stderr, ErrorLevel::ERROR.0));
        }
        layer.block.error_logs = logs.into();
        self.program.error_logs = Arc::clone(&layer.block.error_logs);
        Ok(())
    }

    fn error_log_use(&mut self, place: LogPlace, level: u8) -> ErrorLogUse {
        let log = self.log(LogTarget { place, path: None }).unwrap_or_default();
        ErrorLogUse { log, level: ErrorLevel(level) }
    }

    pub(super) fn open_log_files(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let words: Vec<&[u8]> = directive.arguments.iter().map(Vec::as_slice).collect();
        let files = open_log_file_cache(&words);
        layer.open_logs = files.map_err(|why| self.refused(directive.place, why))?;
        Ok(())
    }

    /// The logs of a block, now that all of it is known.
    pub(super) fn finish_logs(&mut self, layer: &mut Layer) -> Step {
        let mut uses = Vec::new();
        for (AccessLogLine { mut target, condition, .. }, format, directive) in core::mem::take(&mut layer.lines) {
            if let LogPlace::Named { open, symlinks } = &mut target.place {
                open.clone_from(&layer.open_logs);
                *symlinks = layer.block.symlinks.kind == configuration::program::SymlinkKind::Followed;
            }
            let log = self.log(target).ok_or_else(|| {
                let name = told(argument(&directive, 0));
                let what = format!("access_log \"{name}\" already defined with conflicting parameters");
                self.refused(directive.place, what)
            })?;
            uses.push(LogUse { log, format, condition });
        }
        if !uses.is_empty() {
            layer.block.logs = uses.into();
        }
        Ok(())
    }
}
