//! Directives of the process: those that stand in no block, and in `events`.

use super::arguments::{argument, told};
use super::{Compiler, Step, path_of};
use crate::message::Place;
use crate::reader::Directive;
use access_log::SyslogPlace;
use configuration::logging::syslog_place;
use core::time::Duration;
use features::units::{number, time};
use std::path::PathBuf;

/// How the process is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessRules {
    /// `user`: who serves. Default `nobody`, if we are root.
    pub user: Option<String>,
    /// The group, if it is not the user's own.
    pub group: Option<String>,
    /// `worker_processes`; none is one for each core (`auto`). Default 1.
    pub workers: Option<u32>,
    /// `worker_connections`, of each worker. Default 512.
    pub connections: u32,
    /// `pid`.
    pub pid: Option<PathBuf>,
    /// `error_log`; none: the usual place.
    pub error_log: Vec<ErrorLog>,
    /// `worker_cpu_affinity`; none: nothing is said.
    pub affinity: Option<AffinityRules>,
    /// `worker_priority`, as nice(1) has it; none: nothing is said.
    pub priority: Option<i32>,
    /// `daemon`. Default on.
    pub daemon: bool,
    /// `worker_rlimit_nofile`.
    pub files: Option<u64>,
    /// `worker_shutdown_timeout`; none: connections last as long as they do.
    pub shutdown: Option<Duration>,
    /// Whether there is a block `http`.
    pub http: bool,
}

/// `worker_cpu_affinity`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AffinityRules {
    /// Each on a core of its own, by turns; on these alone, if they are said.
    Auto(Option<Vec<u16>>),
    /// The first worker on the first cores, the second on the second, those that are left
    /// on the last.
    Masks(Vec<Vec<u16>>),
}

/// `error_log`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorLog {
    /// Where lines go.
    pub target: ErrorLogTarget,
    /// The least that is told, by nginx's numbers: 1 `emerg`, 4 `error`, 8
    /// `debug`.
    pub level: u8,
    /// The level is written.
    pub is_said: bool,
}

/// Where lines of an error log go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ErrorLogTarget {
    /// To standard error.
    Stderr,
    /// Appended to this file.
    File(PathBuf),
    /// To a syslog server, each as severe as it is.
    Syslog(SyslogPlace),
}

/// Levels, from the worst.
const LEVELS: [&[u8]; 8] = [b"emerg", b"alert", b"crit", b"error", b"warn", b"notice", b"info", b"debug"];

/// Parts of `debug` that nginx can be asked for.
const DEBUG_LEVELS: [&[u8]; 7] =
    [b"debug_core", b"debug_alloc", b"debug_mutex", b"debug_event", b"debug_http", b"debug_mail", b"debug_stream"];

/// The number of a level, by its word.
pub(super) fn level_of(word: &[u8]) -> Option<u8> {
    LEVELS.iter().position(|known| *known == word).map(|at| at as u8 + 1)
}

impl ErrorLogTarget {
    /// Whether a syslog server is told: then no file is written to.
    pub const fn is_syslog(&self) -> bool {
        matches!(self, Self::Syslog(_))
    }
}

impl ProcessRules {
    /// `NAME` or `NAME:GROUP`, of `user`.
    #[must_use]
    pub fn user_and_group(&self) -> Option<String> {
        let user = self.user.as_ref()?;
        Some(self.group.as_ref().map_or_else(|| user.clone(), |group| format!("{user}:{group}")))
    }

    pub(super) const fn new() -> Self {
        Self {
            user: None,
            group: None,
            workers: Some(1),
            connections: 512,
            pid: None,
            error_log: Vec::new(),
            affinity: None,
            priority: None,
            daemon: true,
            files: None,
            shutdown: None,
            http: false,
        }
    }
}

impl Compiler<'_> {
    pub(super) fn process_rule(&mut self, rules: &mut ProcessRules, directive: &Directive) -> Step {
        let place = directive.place;
        let text = argument(directive, 0);
        match directive.name.as_slice() {
            b"daemon" => rules.daemon = text.eq_ignore_ascii_case(b"on"),
            b"user" if !self.around.root => {
                let what = "the \"user\" directive makes sense only if the master process runs with \
                            super-user privileges, ignored";
                self.warn(place, what.to_owned());
            }
            b"user" => {
                rules.user = Some(told(text));
                rules.group = directive.arguments.get(1).map(|group| told(group));
            }
            b"pid" => rules.pid = Some(path_of(&self.full_path(text))),
            b"worker_processes" => {
                rules.workers = match (text, number(text)) {
                    (b"auto", _) => None,
                    (_, Ok(count @ 1..)) => Some(u32::try_from(count).unwrap_or(u32::MAX)),
                    (_, Ok(_)) => Some(1),
                    (_, Err(_)) => return Err(self.invalid(directive, "invalid value")),
                };
            }
            b"worker_connections" => match number(text) {
                Ok(count) => rules.connections = u32::try_from(count).unwrap_or(u32::MAX),
                Err(_) => return Err(self.refused(place, format!("invalid number \"{}\"", told(text)))),
            },
            b"worker_cpu_affinity" => rules.affinity = Some(self.affinity(directive)?),
            b"worker_priority" => {
                let (sign, digits) = match text {
                    [b'-', digits @ ..] => (-1, digits),
                    [b'+', digits @ ..] => (1, digits),
                    digits => (1, digits),
                };
                let wrong = || self.refused(place, "\"worker_priority\" directive invalid number".to_owned());
                let value = number(digits).ok().and_then(|value| i32::try_from(value).ok()).ok_or_else(wrong)?;
                // The kernel cuts others to these.
                rules.priority = Some((sign * value).clamp(-20, 19));
            }
            b"worker_rlimit_nofile" => rules.files = number(text).ok(),
            b"worker_shutdown_timeout" => rules.shutdown = time(text, false).ok().map(Duration::from_millis),
            b"error_log" => rules.error_log.push(self.error_log(directive)?),
            b"use" => match text {
                b"epoll" => {}
                b"select" | b"poll" => self.remark("use", place, "sockets are waited for with epoll or io_uring"),
                _ => return Err(self.refused(place, format!("invalid event type \"{}\"", told(text)))),
            },
            _ => {}
        }
        Ok(())
    }

    fn affinity(&self, directive: &Directive) -> Step<AffinityRules> {
        let place = directive.place;
        let masks = match directive.arguments.as_slice() {
            [first, rest @ ..] if first == b"auto" => match rest {
                [] => return Ok(AffinityRules::Auto(None)),
                [mask] => return Ok(AffinityRules::Auto(Some(self.cpu_mask(mask, place)?))),
                _ => {
                    let what = "invalid number of arguments in \"worker_cpu_affinity\" directive";
                    return Err(self.refused(place, what.to_owned()));
                }
            },
            masks => masks,
        };
        let masks: Step<Vec<Vec<u16>>> = masks.iter().map(|mask| self.cpu_mask(mask, place)).collect();
        masks.map(AffinityRules::Masks)
    }

    /// The cores of a mask: the last digit is that of core 0.
    fn cpu_mask(&self, mask: &[u8], place: Place) -> Step<Vec<u16>> {
        /// Cores that a mask may have (CPU_SET(3)).
        const CORES_MAX: usize = 1_024;
        let digits: Vec<u8> = mask.iter().copied().filter(|byte| *byte != b' ').collect();
        if digits.len() > CORES_MAX {
            let what = format!("\"worker_cpu_affinity\" supports up to {CORES_MAX} CPUs only");
            return Err(self.refused(place, what));
        }
        if let Some(wrong) = digits.iter().find(|byte| !matches!(byte, b'0' | b'1')) {
            let what = format!("invalid character \"{}\" in \"worker_cpu_affinity\"", told(&[*wrong]));
            return Err(self.refused(place, what));
        }
        let set = digits.iter().rev().enumerate().filter(|(_, digit)| **digit == b'1');
        Ok(set.map(|(core, _)| core as u16).collect())
    }

    /// Checks an `error_log`, wherever it stands.
    pub(super) fn error_log(&self, directive: &Directive) -> Step<ErrorLog> {
        let place = directive.place;
        let target = match argument(directive, 0) {
            b"stderr" => ErrorLogTarget::Stderr,
            text if text.starts_with(b"syslog:") => {
                let mut resolve = |host: &str| (self.around.resolve)(host).first().copied();
                let server = syslog_place(&text[b"syslog:".len()..], &mut resolve);
                ErrorLogTarget::Syslog(server.map_err(|why| self.refused(place, why))?)
            }
            text if text.starts_with(b"memory:") => {
                let what = format!("\"error_log\" to \"{}\"", told(text));
                return Err(self.unsupported(place, &what));
            }
            text => ErrorLogTarget::File(path_of(&self.full_path(text))),
        };
        let mut level = None;
        let mut is_debug = false;
        for word in &directive.arguments[1..] {
            if let Some(at) = LEVELS.iter().position(|known| known == word) {
                if level.is_some() || is_debug {
                    return Err(self.refused(place, format!("duplicate log level \"{}\"", told(word))));
                }
                level = Some(at as u8 + 1);
            } else if DEBUG_LEVELS.contains(&word.as_slice()) && level.is_none() {
                is_debug = true;
            } else {
                return Err(self.refused(place, format!("invalid log level \"{}\"", told(word))));
            }
        }
        /// `error`
        const USUAL: u8 = 4;
        /// `debug`
        const ALL: u8 = 8;
        let is_said = level.is_some() || is_debug;
        Ok(ErrorLog { target, is_said, level: level.unwrap_or(if is_debug { ALL } else { USUAL }) })
    }
}
