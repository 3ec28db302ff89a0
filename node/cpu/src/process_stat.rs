//! What the kernel says of a process, or of one of its threads, in one line: `/proc/PID/stat`
//! (proc_pid_stat(5)).

use std::fs;
use std::path::Path;

/// One such line. Its second field is a name in parentheses, which may hold anything, blanks and
/// parentheses too; what stands behind it is read as it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessStat<'t> {
    number: u32,
    name: &'t str,
    /// From the third field on.
    fields: &'t str,
}

impl<'t> ProcessStat<'t> {
    /// Reads a line; nothing if it is none.
    #[must_use]
    pub fn parse(line: &'t str) -> Option<Self> {
        let (from, until) = (line.find('(')?, line.rfind(')')?);
        Some(Self {
            number: line.get(..from)?.trim().parse().ok()?,
            name: line.get(from + 1..until)?,
            fields: line.get(until + 1..)?,
        })
    }

    /// Its own number.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// At most 15 bytes that it chose itself.
    #[must_use]
    pub const fn name(&self) -> &'t str {
        self.name
    }

    /// A letter: `R` runs, `S` sleeps until something comes, `D` sleeps and hears no signal, `T` is
    /// stopped, `t` is held by who traces it, `Z` has ended and was not waited for.
    #[must_use]
    pub fn state(&self) -> Option<char> {
        self.fields.trim_start().chars().next()
    }

    /// Whether it has ended, and its number still stands for it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state(), Some('Z' | 'X'))
    }

    /// Who started it, or has taken it over; 0 of the first process.
    #[must_use]
    pub fn parent(&self) -> Option<u32> {
        self.field(4)
    }

    /// A field by its number in proc_pid_stat(5), which begins with 1; of what stands behind the state.
    #[must_use]
    pub fn field<T: core::str::FromStr>(&self, number: usize) -> Option<T> {
        self.fields.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
    }

    /// Time in user mode and in the kernel, of all its threads: clock ticks (fields 14 and 15).
    #[must_use]
    pub fn ticks(&self) -> Option<(u64, u64)> {
        Some((self.field(14)?, self.field(15)?))
    }

    /// When it began, in clock ticks since the machine did: with its number that names it for good
    /// (field 22).
    #[must_use]
    pub fn began(&self) -> Option<u64> {
        self.field(22)
    }
}

/// The line of process `pid`; nothing if there is none.
#[must_use]
pub fn line_of(pid: u32) -> Option<String> {
    line_at(format!("/proc/{pid}/stat"))
}

/// The line in this file.
fn line_at(path: impl AsRef<Path>) -> Option<String> {
    // The name may be no text.
    fs::read(path).ok().map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// The line of a thread of this process.
#[must_use]
pub fn line_of_own_thread(thread: i32) -> Option<String> {
    line_at(format!("/proc/self/task/{thread}/stat"))
}

/// Who started process `pid`, or has taken it over.
#[must_use]
pub fn parent_of(pid: u32) -> Option<u32> {
    ProcessStat::parse(&line_of(pid)?)?.parent()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let line = "77 (a) S 1 (b) R 5 6 7 34816 9 4194304 11 0 13 0 30 12 0 0 20 0 3 0 100 1 25\n";
        let stat = ProcessStat::parse(line).expect("a line");
        assert_eq!((stat.number(), stat.name(), stat.state()), (77, "a) S 1 (b", Some('R')));
        assert_eq!((stat.parent(), stat.ticks(), stat.began()), (Some(5), Some((30, 12)), Some(100)));
        assert_eq!((stat.field(5), stat.field(7), stat.field(8)), (Some(6), Some(34_816), Some(9)));
        assert_eq!((stat.field::<u64>(20), stat.field::<u64>(24)), (Some(3), Some(25)));
        assert_eq!((stat.field::<u64>(2), stat.field::<u64>(0), stat.field::<u64>(99)), (None, None, None));
    }

    #[test]
    fn what_is_no_such_line_says_nothing() {
        for line in ["", "5", "5 (a", "5 a) R 1", "x (a) R 1", ") 5 (", "5 (a)"] {
            let stat = ProcessStat::parse(line);
            assert!(stat.is_none_or(|stat| stat.state().is_none() && stat.parent().is_none()), "{line}");
        }
    }

    #[test]
    fn our_own_line_is_as_the_system_has_it() {
        assert_eq!(parent_of(std::process::id()), Some(std::os::unix::process::parent_id()));
        let line = line_of(std::process::id()).expect("our own");
        let stat = ProcessStat::parse(&line).expect("a line");
        assert!(!stat.has_ended() && stat.began() > Some(0));
    }
}
