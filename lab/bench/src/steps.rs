//! This program step by step: the processor stops behind each instruction
//! (ptrace(2), `PTRACE_SINGLESTEP`), so that those are counted, too, that no
//! emulator knows.
//!
//! A step takes some microseconds: as many requests as a case needs to be even,
//! and no more. What a `rep` repeats is a step each time.

use crate::BenchError;
use crate::callgrind::{Cost, Profile};
use core::ffi::c_long;
use core::mem::offset_of;
use core::ops::Range;
use libc::{c_void, pid_t, user_regs_struct};
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What stops the processor where it is written (INT3).
const TRAP: c_long = 0xcc;

/// Runs this program with `arguments` and counts the instructions of the
/// functions whose names hold `name`, with all that they call.
pub(crate) fn profile(arguments: &[String], name: &str) -> Result<Profile, BenchError> {
    let this = std::env::current_exe()?;
    let functions = functions(&this, name)?;
    let mut command = Command::new(&this);
    command.args(arguments).stdout(Stdio::piped());
    // SAFETY: between fork and exec this thread makes one system call, which takes numbers only.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let child = command.spawn().map_err(|why| format!("cannot trace this program: {why}"))?;
    let mut traced = Traced { pid: child.id().cast_signed(), child };
    let mut steps = Steps::default();
    let code = traced.run(&this, &functions, &mut steps)?;
    let mut said = String::new();
    if let Some(out) = &mut traced.child.stdout {
        out.read_to_string(&mut said)?;
    }
    if code != 0 {
        return Err(format!("the traced program ended with {code}").into());
    }
    Profile::of_costs(&this, &said, steps.costs(&this))
}

/// Where in the file the functions begin whose names hold this one.
fn functions(program: &Path, name: &str) -> Result<Vec<u64>, BenchError> {
    let output = Command::new("nm")
        .arg("--defined-only")
        .arg(program)
        .output()
        .map_err(|why| format!("cannot run nm: {why}"))?;
    let found: Vec<u64> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| named(line, name)).collect();
    if found.is_empty() {
        return Err(format!("no function of {} is named {name}: it is built without symbols", program.display()).into());
    }
    Ok(found)
}

/// The address in a line of nm, if it is such a function's.
fn named(line: &str, name: &str) -> Option<u64> {
    let mut words = line.split(' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
    (is_code && words.next()?.contains(name)).then_some(address)
}

/// A program that stops when this one says so. It ends with this one's thread.
struct Traced {
    pid: pid_t,
    child: Child,
}

impl Drop for Traced {
    fn drop(&mut self) {
        // Ended already, nearly always.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Traced {
    /// Runs it to its end, and steps through each call of a function. Returns its exit status.
    fn run(&mut self, program: &Path, functions: &[u64], steps: &mut Steps) -> Result<i32, BenchError> {
        let Stopped::By(_) = self.wait()? else { return Err("it ended before it began".into()) };
        self.ask(libc::PTRACE_SETOPTIONS, 0, libc::PTRACE_O_EXITKILL.into())?;
        let base = self.base(program)?;
        steps.begin(program, base, &self.maps()?);
        let mut kept = HashMap::new();
        for function in functions {
            let at = base + function;
            kept.insert(at, self.set_trap(at)?);
        }
        let mut signal = 0;
        loop {
            self.ask(libc::PTRACE_CONT, 0, signal)?;
            let by = match self.wait()? {
                Stopped::Ended(code) => return Ok(code),
                Stopped::By(by) => by,
            };
            let mut registers = self.registers()?;
            let at = registers.rip.wrapping_sub(1);
            signal = match kept.get(&at) {
                Some(&word) if by == libc::SIGTRAP => {
                    self.write(at, word)?;
                    registers.rip = at;
                    self.set_registers(&registers)?;
                    self.step_through(&registers, steps)?;
                    self.set_trap(at)?;
                    0
                }
                _ => c_long::from(by),
            };
        }
    }

    /// Steps through a call that begins here, until it has returned.
    fn step_through(&mut self, begin: &user_regs_struct, steps: &mut Steps) -> Result<(), BenchError> {
        let back = self.read(begin.rsp)?.cast_unsigned();
        let mut at = begin.rip;
        // A library's instructions are those of whoever calls it: so a copy is the cipher's
        // where the cipher makes it.
        let mut whose = at;
        loop {
            if steps.own.contains(&at) {
                whose = at;
            }
            *steps.counts.entry(whose).or_default() += 1;
            self.ask(libc::PTRACE_SINGLESTEP, 0, 0)?;
            match self.wait()? {
                Stopped::By(libc::SIGTRAP) => {}
                Stopped::By(other) => return Err(format!("it got signal {other} on the way").into()),
                Stopped::Ended(code) => return Err(format!("it ended with {code} on the way").into()),
            }
            at = self.register(offset_of!(user_regs_struct, rip))?;
            if at == back && self.register(offset_of!(user_regs_struct, rsp))? > begin.rsp {
                return Ok(());
            }
        }
    }

    fn wait(&self) -> Result<Stopped, BenchError> {
        let mut status = 0;
        // SAFETY: `status` lives until the call returns.
        if unsafe { libc::waitpid(self.pid, &raw mut status, 0) } != self.pid {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(match status {
            status if libc::WIFSTOPPED(status) => Stopped::By(libc::WSTOPSIG(status)),
            status if libc::WIFEXITED(status) => Stopped::Ended(libc::WEXITSTATUS(status)),
            status => Stopped::Ended(128 + libc::WTERMSIG(status)),
        })
    }

    /// A request that moves nothing but numbers.
    fn ask(&self, request: libc::c_uint, address: u64, data: c_long) -> Result<c_long, BenchError> {
        // SAFETY: none of the requests asked here reads or writes memory of this process.
        match unsafe { libc::ptrace(request, self.pid, address, data) } {
            -1 => Err(std::io::Error::last_os_error().into()),
            answer => Ok(answer),
        }
    }

    /// Memory of the program. The call tells an error by errno alone, as -1 is a word like any.
    fn read(&self, address: u64) -> Result<c_long, BenchError> {
        self.peek(libc::PTRACE_PEEKDATA, address)
    }

    fn register(&self, offset: usize) -> Result<u64, BenchError> {
        // The registers are what stands first in the area that is read (sys/user.h).
        Ok(self.peek(libc::PTRACE_PEEKUSER, offset as u64)?.cast_unsigned())
    }

    fn peek(&self, request: libc::c_uint, address: u64) -> Result<c_long, BenchError> {
        // SAFETY: errno is this thread's own; the wrapper of the call returns the word that it read.
        let (word, error) = unsafe {
            *libc::__errno_location() = 0;
            let word = libc::ptrace(request, self.pid, address, 0);
            (word, *libc::__errno_location())
        };
        if error == 0 { Ok(word) } else { Err(std::io::Error::from_raw_os_error(error).into()) }
    }

    fn write(&self, address: u64, word: c_long) -> Result<(), BenchError> {
        self.ask(libc::PTRACE_POKEDATA, address, word).map(drop)
    }

    /// Stops the program here from now on. Returns what stood there.
    fn set_trap(&self, address: u64) -> Result<c_long, BenchError> {
        let word = self.read(address)?;
        self.write(address, (word & !0xff) | TRAP)?;
        Ok(word)
    }

    fn registers(&self) -> Result<user_regs_struct, BenchError> {
        let mut registers = core::mem::MaybeUninit::<user_regs_struct>::uninit();
        let into = registers.as_mut_ptr().cast::<c_void>();
        // SAFETY: the kernel writes just such a structure there, or fails.
        match unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid, 0, into) } {
            -1 => Err(std::io::Error::last_os_error().into()),
            // SAFETY: the kernel has written all of it.
            _ => Ok(unsafe { registers.assume_init() }),
        }
    }

    fn set_registers(&self, registers: &user_regs_struct) -> Result<(), BenchError> {
        // SAFETY: the kernel reads just such a structure there.
        match unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.pid, 0, core::ptr::from_ref(registers)) } {
            -1 => Err(std::io::Error::last_os_error().into()),
            _ => Ok(()),
        }
    }

    /// What is mapped where.
    fn maps(&self) -> Result<Vec<Mapping>, BenchError> {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", self.pid))?;
        Ok(text.lines().filter_map(Mapping::read).collect())
    }

    /// What is added to addresses in the file, where it may lie anywhere.
    fn base(&self, program: &Path) -> Result<u64, BenchError> {
        /// `e_type` of elf.h, and that of a file whose addresses are final.
        const TYPE: usize = 16;
        const FINAL: u8 = 2;
        let mut head = [0; TYPE + 1];
        std::fs::File::open(program)?.read_exact(&mut head)?;
        if head[TYPE] == FINAL {
            return Ok(0);
        }
        let maps = self.maps()?;
        let first = maps.iter().find(|mapping| mapping.file == program && mapping.offset == 0);
        first.map(|mapping| mapping.begin).ok_or_else(|| "it is not where it was to be".into())
    }
}

/// Why a traced program runs no more.
enum Stopped {
    /// By this signal.
    By(i32),
    /// With this exit status.
    Ended(i32),
}

/// A line of /proc/PID/maps.
#[derive(PartialEq, Eq, Debug)]
struct Mapping {
    begin: u64,
    end: u64,
    offset: u64,
    file: PathBuf,
}

impl Mapping {
    fn read(line: &str) -> Option<Self> {
        let number = |text| u64::from_str_radix(text, 16).ok();
        let mut words = line.split_ascii_whitespace();
        let (begin, end) = words.next()?.split_once('-')?;
        let offset = number(words.nth(1)?)?;
        let file = words.nth(2)?.into();
        Some(Self { begin: number(begin)?, end: number(end)?, offset, file })
    }
}

/// Instructions by address.
#[derive(Default)]
struct Steps {
    counts: HashMap<u64, u64>,
    /// Where the program lies, without its libraries.
    own: Range<u64>,
    base: u64,
}

impl Steps {
    fn begin(&mut self, program: &Path, base: u64, maps: &[Mapping]) {
        let own = || maps.iter().filter(|mapping| mapping.file == program);
        let begin = own().map(|mapping| mapping.begin).min().unwrap_or(0);
        self.own = begin..own().map(|mapping| mapping.end).max().unwrap_or(0);
        self.base = base;
    }

    /// The same by address within the program.
    fn costs(&self, program: &Path) -> Vec<Cost> {
        let place = |(&address, &count): (&u64, &u64)| Cost {
            object: program.to_owned(),
            function: String::new(),
            address: address - self.base,
            count,
        };
        self.counts.iter().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_names() {
        let line = "000000000012f0a0 t _ZN5bench3rig12counted_turn17h0123456789abcdefE";
        assert_eq!(named(line, "counted_turn"), Some(0x12_f0a0));
        assert_eq!(named(line, "server_turn"), None);
        assert_eq!(named(&line.replace(" t ", " d "), "counted_turn"), None);
        assert_eq!(named("                 U write", "write"), None);
    }

    #[test]
    fn steps_are_told_by_where_they_lie_in_the_program() {
        let lines = [
            "5500-5600 r--p 00000000 fe:00 12  /bin/a",
            "5600-5700 r-xp 00000100 fe:00 12  /bin/a",
            "7f00-7f80 r-xp 00002000 fe:00 13  /lib/c",
            "7fff-8000 rw-p 00000000 00:00 0",
        ];
        let maps: Vec<Mapping> = lines.iter().filter_map(|line| Mapping::read(line)).collect();
        assert_eq!(maps.len(), 3);
        let mut steps = Steps { counts: HashMap::from([(0x5610, 2)]), ..Steps::default() };
        steps.begin(Path::new("/bin/a"), 0x5500, &maps);
        assert_eq!(steps.own, 0x5500..0x5700);
        let costs = steps.costs(Path::new("/bin/a"));
        assert_eq!(costs.iter().map(|cost| (cost.address, cost.count)).collect::<Vec<_>>(), [(0x110, 2)]);
    }
}
