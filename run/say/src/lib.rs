//! What the program says on standard error, and what becomes of it when nobody
//! reads its output any more.
//!
//! A server's lines carry the time and a level:
//!
//! ```text
//! 2026-10-10T13:55:36.042Z info: serving http://[::]:80/ over kernel sockets: …
//! 2026-10-10T13:55:36.043Z warning: --backlog 4096 is cut to 128: …
//! ```
//!
//! In place of nginx they are as nginx's:
//!
//! ```text
//! 2026/10/10 13:55:36 [notice] 4711#4711: serving http://[::]:80/ over kernel sockets: …
//! ```
//!
//! Where systemd's journal reads them, which has the time itself, they begin with
//! the priority (`<4>` for a warning, sd-daemon(3)).

pub mod manager;

use core::error::Error;
use core::fmt::Display;
use core::time::Duration;
use cpu::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use semantics::date::HttpDate;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What ends a command: a sentence for the user.
pub type Failure = Box<dyn Error>;

/// As the standard library's, which ends in a panic where nobody reads: for
/// every command, as `head` may be the reader of each.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::out(format_args!($($text)*)) };
}

/// As [`print`], with a line's end.
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => { $crate::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// The same on standard error.
#[macro_export]
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::note(format_args!($($text)*)) };
}

/// How much a line of a server's log matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    Info,
    Warning,
    Error,
}

impl Level {
    /// nginx's word.
    const fn of_nginx(self) -> &'static str {
        match self {
            Self::Info => "notice",
            Self::Warning => "warn",
            Self::Error => "error",
        }
    }

    /// nginx's number.
    const fn number(self) -> u8 {
        match self {
            Self::Info => 6,
            Self::Warning => 5,
            Self::Error => 4,
        }
    }

    /// The word, and the priority of syslog(3).
    const fn names(self) -> (&'static str, u8) {
        match self {
            Self::Info => ("info", 6),
            Self::Warning => ("warning", 4),
            Self::Error => ("error", 3),
        }
    }
}

/// A server's log: what happens.
pub fn info(what: impl Display) {
    log(Level::Info, &what.to_string());
}

/// A server's log: what is not as it was asked for, or as one would wish it.
pub fn warning(what: impl Display) {
    log(Level::Warning, &what.to_string());
}

/// A server's log: what ends it, or was to be done and is not.
pub fn error(what: impl Display) {
    log(Level::Error, &what.to_string());
}

/// A word to whoever started a command.
pub fn note(what: impl Display) {
    let _ = io::stderr().write_all(format!("{what}\n").as_bytes());
}

/// Lines are as nginx's from now on, with local times: `offset` tells by how many
/// seconds these are ahead of GMT in a unix second.
pub fn as_nginx(offset: fn(u64) -> i32) {
    // The first one counts.
    let _ = AS_NGINX.set(offset);
}

static AS_NGINX: OnceLock<fn(u64) -> i32> = OnceLock::new();

/// Standard error is told no line that matters less than this, by nginx's numbers (4
/// `error`, 5 `warn`, 6 `notice`), from now on; `None`: all are.
pub fn no_less_than(level: Option<u8>) {
    LEAST.store(level.unwrap_or(u8::MAX), Ordering::Relaxed);
}

static LEAST: AtomicU8 = AtomicU8::new(u8::MAX);

/// Who else is told of each line: how bad it is by nginx's numbers, the local time as if
/// it were that of Greenwich, and the line as nginx's.
type Hearer = Box<dyn FnMut(u8, &HttpDate, &str) + Send>;

static HEARER: Mutex<Option<Hearer>> = Mutex::new(None);

/// Lines are also told to `hear`, in place of whom they were told to before: how bad each
/// is by nginx's numbers, the local time as if it were that of Greenwich, and the line,
/// which is as nginx's. It says nothing itself, and waits for nobody.
pub fn also_to(hear: impl FnMut(u8, &HttpDate, &str) + Send + 'static) {
    *hearer() = Some(Box::new(hear));
}

/// Lines are told to nobody else any more.
pub fn to_nobody_else() {
    *hearer() = None;
}

fn hearer() -> MutexGuard<'static, Option<Hearer>> {
    HEARER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell_hearer(level: Level, text: &str) {
    let mut hearer = hearer();
    let (Some(hear), Some(offset)) = (hearer.as_mut(), AS_NGINX.get()) else { return };
    let time = Clock.unix();
    let offset = offset(time.as_secs());
    let date = HttpDate::from_unix(time.as_secs().saturating_add_signed(offset.into()));
    text.lines().for_each(|line| hear(level.number(), &date, of_nginx(level, line, time, offset).trim_end()));
}

fn log(level: Level, text: &str) {
    static JOURNAL: OnceLock<bool> = OnceLock::new();
    let journal = *JOURNAL.get_or_init(|| is_journal(std::env::var_os("JOURNAL_STREAM").as_deref()));
    let time = (!journal).then(|| Clock.unix());
    tell_hearer(level, text);
    if level.number() > LEAST.load(Ordering::Relaxed) {
        return;
    }
    put(io::stderr(), &lines(level, text, time), |lost| {
        lines(Level::Warning, &format!("{lost} lines are lost: nobody read them in time"), time)
    });
}

/// Writes a text in one piece, so that those of several threads stay apart, if
/// that can be done at once: no silo waits for whoever reads a pipe. What is
/// lost is counted, and told `after` it by the next that is not. Nor does a
/// server end because nobody reads its log any more.
fn put(mut to: impl Write + AsFd, text: &str, after: impl FnOnce(usize) -> String) {
    static LOST_LINES: Mutex<usize> = Mutex::new(0);
    let mut lost = LOST_LINES.lock().unwrap_or_else(PoisonError::into_inner);
    // Room for a page at least, in a pipe: poll(2).
    if poll(&mut [PollFd::new(&to, PollFlags::OUT)], Some(&Timespec::default())) == Ok(0) {
        *lost += text.lines().count();
        return;
    }
    let told = if *lost > 0 { after(core::mem::take(&mut *lost)) } else { String::new() };
    let _ = to.write_all((told + text).as_bytes());
}

/// Each line of a text, at `time`, or with its priority.
fn lines(level: Level, text: &str, time: Option<Duration>) -> String {
    let (word, priority) = level.names();
    let line = |line: &str| match time {
        Some(time) => match AS_NGINX.get() {
            Some(offset) => of_nginx(level, line, time, offset(time.as_secs())),
            None => format!("{} {word}: {line}\n", rfc3339(time)),
        },
        None => format!("<{priority}>{line}\n"),
    };
    text.lines().map(line).collect()
}

/// A line of nginx's error log, whose time is so many seconds ahead of GMT.
fn of_nginx(level: Level, line: &str, time: Duration, offset: i32) -> String {
    let time = Duration::from_secs(time.as_secs().saturating_add_signed(offset.into()));
    let (time, word, pid) = (rfc3339(time), level.of_nginx(), std::process::id());
    let (date, rest) = time.split_once('T').unwrap_or_default();
    format!("{} {} [{word}] {pid}#{pid}: {line}\n", date.replace('-', "/"), rest.get(..8).unwrap_or_default())
}

/// `2026-10-10T13:55:36.042Z` (RFC 3339 section 5.6): a time since 1970.
fn rfc3339(unix: Duration) -> String {
    // From `Sun, 06 Nov 1994 08:49:37 GMT`.
    let date = HttpDate::from_unix(unix.as_secs());
    let date = String::from_utf8_lossy(date.as_bytes());
    let part = |range: core::ops::Range<usize>| date.get(range).unwrap_or_default();
    let month = MONTHS.iter().position(|name| *name == part(8..11)).unwrap_or(0) + 1;
    format!("{}-{month:02}-{}T{}.{:03}Z", part(12..16), part(5..7), part(17..25), unix.subsec_millis())
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Whether standard error is the stream to the journal that systemd names by
/// device and inode (systemd.exec(5)): a child's may lead elsewhere.
fn is_journal(stream: Option<&OsStr>) -> bool {
    let named = || {
        let (device, inode) = stream?.to_str()?.split_once(':')?;
        Some((device.parse::<u64>().ok()?, inode.parse::<u64>().ok()?))
    };
    let (Some(named), Ok(stat)) = (named(), rustix::fs::fstat(io::stderr())) else { return false };
    named == (stat.st_dev, stat.st_ino)
}

/// Writes to standard output. What cannot be written is told at the command's
/// [`end`].
pub fn out(text: core::fmt::Arguments<'_>) {
    if let Err(why) = io::stdout().write_fmt(text) {
        let _ = LOST.set(why);
    }
}

/// Why something could not be written to standard output, if anything.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// How a command ends, which `complain`s of what went wrong, but quietly if
/// that is because whoever read its output has had enough of it, as `head` has.
/// Other programs are ended by SIGPIPE then, which a shell shows as this status;
/// here that signal is ignored, for a connection's end is no reason to go.
pub fn end(outcome: Result<ExitCode, Failure>, complain: impl FnOnce(&str)) -> ExitCode {
    let unread = |why: &(dyn Error + 'static)| is_broken_pipe(why) && is_unread();
    match (outcome, LOST.get()) {
        (Ok(_), Some(why)) if unread(why) => ExitCode::from(READER_GONE),
        (Ok(_), Some(why)) => {
            complain(&format!("cannot write to standard output: {why}"));
            ExitCode::FAILURE
        }
        (Ok(code), None) => code,
        (Err(why), _) if unread(&*why) => ExitCode::from(READER_GONE),
        (Err(why), _) => {
            complain(&why.to_string());
            ExitCode::FAILURE
        }
    }
}

/// 128 and the number of SIGPIPE.
const READER_GONE: u8 = 141;

fn is_broken_pipe(why: &(dyn Error + 'static)) -> bool {
    let is = why.downcast_ref::<io::Error>().is_some_and(|why| why.kind() == ErrorKind::BrokenPipe);
    is || why.source().is_some_and(is_broken_pipe)
}

/// Whether nobody can read standard output any more (poll(2), POLLERR).
fn is_unread() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::OUT)];
    let _ = poll(&mut fds, Some(&Timespec::default()));
    fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_carry_time_and_level_or_the_priority() {
        let time = Duration::from_millis(784_111_777_042);
        assert_eq!(
            lines(Level::Info, "serving\n  worker 0", Some(time)),
            "1994-11-06T08:49:37.042Z info: serving\n1994-11-06T08:49:37.042Z info:   worker 0\n"
        );
        for (level, said) in [(Level::Info, "<6>a"), (Level::Warning, "<4>a"), (Level::Error, "<3>a")] {
            assert_eq!(lines(level, "a", None), format!("{said}\n"));
        }
        let pid = std::process::id();
        let expected = format!("1994/11/06 08:49:37 [warn] {pid}#{pid}: a\n");
        assert_eq!(of_nginx(Level::Warning, "a", time, 0), expected);
        assert_eq!(rfc3339(Duration::ZERO), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Duration::from_millis(1_709_251_199_999)), "2024-02-29T23:59:59.999Z");
    }

    #[test]
    fn nobody_waits_for_a_pipe_that_is_full_and_what_is_lost_is_told() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let told = |lost: usize| format!("{lost} lost\n");
        let line = "x".repeat(1_023) + "\n";
        for _ in 0..1_000 {
            put(&writer, &line, told);
        }
        let mut piped = vec![0; 1 << 20];
        let read = io::Read::read(&mut reader, &mut piped).expect("what the pipe holds");
        put(&writer, "again\n", told);
        let read_again = io::Read::read(&mut reader, &mut piped).expect("the next");
        let text = String::from_utf8_lossy(&piped[..read_again]);
        assert_eq!(text, format!("{} lost\nagain\n", 1_000 - read / 1_024));
        drop(reader);
        put(&writer, "nobody\n", told);
    }

    #[test]
    fn the_journal_is_what_systemd_names() {
        let stat = rustix::fs::fstat(io::stderr()).expect("there is one");
        let is = |stream: &str| is_journal(Some(OsStr::new(stream)));
        assert!(is(&format!("{}:{}", stat.st_dev, stat.st_ino)));
        assert!(!is(&format!("{}:{}", stat.st_dev, stat.st_ino + 1)) && !is("x:1") && !is("") && !is_journal(None));
    }

    #[test]
    fn a_reader_that_has_gone_is_told_from_other_failures() {
        #[derive(Debug)]
        struct Around(io::Error);
        impl core::fmt::Display for Around {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("around")
            }
        }
        impl Error for Around {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        assert!(is_broken_pipe(&io::Error::from(ErrorKind::BrokenPipe)));
        assert!(is_broken_pipe(&Around(ErrorKind::BrokenPipe.into())));
        assert!(!is_broken_pipe(&Around(ErrorKind::StorageFull.into())));
    }
}
