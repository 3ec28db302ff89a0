//! Programs, loaded and attached.

use crate::error::{Cause, Error, Needs, Place, explain};
use crate::insn::Insn;
use crate::{Assembly, Map, Version, btf, kernel};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Room for what the verifier says; it stops there, or keeps the end.
const LOG_SIZE: usize = 1 << 20;

/// How much of the log's end an error holds, in lines: the cause is there.
const LOG_LINES: usize = 24;

/// How often a load that a signal interrupted is tried again.
const MAX_TRIES: usize = 5;

/// `SO_ATTACH_REUSEPORT_EBPF` and `SO_DETACH_REUSEPORT_BPF` (`asm/socket.h`).
const ATTACH_REUSEPORT: i32 = libc::SO_ATTACH_REUSEPORT_EBPF;
const DETACH_REUSEPORT: i32 = 68;

/// What a program is for (`enum bpf_prog_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramType {
    /// Filters the packets of a socket.
    SocketFilter,
    /// Sees frames before the kernel's stack does.
    Xdp,
    /// Chooses the socket of a SO_REUSEPORT group.
    SkReuseport,
}

impl ProgramType {
    const ALL: [Self; 3] = [Self::SocketFilter, Self::Xdp, Self::SkReuseport];

    /// The name in `.type`, as libbpf writes it for sections.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SocketFilter => "socket",
            Self::Xdp => "xdp",
            Self::SkReuseport => "sk_reuseport",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    const fn number(self) -> u32 {
        match self {
            Self::SocketFilter => 1,
            Self::Xdp => 6,
            Self::SkReuseport => 21,
        }
    }

    /// Whether CAP_NET_ADMIN is needed besides CAP_BPF.
    const fn is_network(self) -> bool {
        matches!(self, Self::Xdp)
    }
}

/// Where an XDP program runs (`XDP_FLAGS_*` in `linux/if_link.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpMode {
    /// In the driver, before a socket buffer is made. Not every driver can.
    Native,
    /// After that, for any driver.
    Generic,
}

impl XdpMode {
    const fn flags(self) -> u32 {
        match self {
            Self::Generic => 1 << 1,
            Self::Native => 1 << 2,
        }
    }
}

/// An XDP program at work on an interface, until this is dropped or the
/// process ends, in whatever way.
#[derive(Debug)]
pub struct XdpAttachment {
    fd: OwnedFd,
}

impl XdpAttachment {
    /// The attachment behind a descriptor that another process gave.
    #[must_use]
    pub const fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// The descriptor, for another process.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Puts `program` in the place of the attached one. No frame falls
    /// between the two.
    ///
    /// # Errors
    /// The system's: ENOLINK if the interface has gone.
    pub fn replace(&self, program: &Program) -> Result<(), Error> {
        kernel::link_update(self.fd.as_fd(), program.as_fd())
            .map_err(|errno| Error::new(format!("attaching program {}", program.name), Cause::System(errno)))
    }
}

impl AsFd for XdpAttachment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The name of the loaded program with this number; `None` if it has none, or
/// this process may not know it (CAP_SYS_ADMIN).
#[must_use]
pub fn program_name(id: u32) -> Option<String> {
    let field = kernel::program_name(id).ok()?;
    let name: Vec<u8> = field.into_iter().take_while(|byte| *byte != 0).collect();
    if name.is_empty() { None } else { String::from_utf8(name).ok() }
}

/// A program in the kernel. It stays while this value lives, and where it is
/// attached longer than that.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    name: String,
}

impl Program {
    /// Binds the program's references to `maps` by name, and loads it.
    ///
    /// # Errors
    /// See [`Cause`]; one that the verifier rejects comes with the end of the
    /// verifier's log.
    pub fn load(name: &str, assembly: &Assembly, maps: &[&Map]) -> Result<Self, Error> {
        Self::load_on(name, assembly, maps, None)
    }

    /// The same for an XDP program that is attached to the interface with this
    /// index, in native mode, and nowhere else: it may ask its driver what the
    /// device says of a frame (Documentation/networking/xdp-rx-metadata.rst,
    /// Linux 6.3).
    ///
    /// # Errors
    /// As for [`Program::load`]; EOPNOTSUPP if the driver tells nothing of frames.
    pub fn load_bound(name: &str, assembly: &Assembly, maps: &[&Map], interface: u32) -> Result<Self, Error> {
        Self::load_on(name, assembly, maps, Some(interface))
    }

    fn load_on(name: &str, assembly: &Assembly, maps: &[&Map], interface: Option<u32>) -> Result<Self, Error> {
        let fail = |cause| Error::new(format!("program {name}"), cause);
        let mut code = bind(assembly, maps).map_err(fail)?;
        bind_calls(&mut code, assembly, || std::fs::read(btf::KERNEL)).map_err(fail)?;
        let license = CString::new(assembly.license.as_str()).map_err(|_| fail(Cause::Size))?;
        let load = |log: &mut [u8]| {
            let mut result = Err(Errno::AGAIN);
            for _ in 0..MAX_TRIES {
                result = kernel::prog_load((assembly.kind.number(), interface), &code, &license, name, log);
                if !matches!(result, Err(Errno::AGAIN)) {
                    break;
                }
            }
            result
        };
        let errno = match load(&mut []) {
            Ok(fd) => return Ok(Self { fd, name: name.to_owned() }),
            Err(errno) => errno,
        };
        let needs = Needs { kernel: assembly.kernel, network: assembly.kind.is_network() };
        let cause = explain(errno, needs, Place::here());
        if !matches!(cause, Cause::System(_)) {
            return Err(fail(cause));
        }
        // Once more, to hear why.
        let mut log = vec![0; LOG_SIZE];
        match load(&mut log) {
            Ok(fd) => Ok(Self { fd, name: name.to_owned() }),
            Err(errno) => Err(fail(rejection(errno, &log, assembly))),
        }
    }

    /// Makes this program choose among the sockets of `socket`'s
    /// SO_REUSEPORT group, in place of any other. Linux 4.19.
    ///
    /// # Errors
    /// The system's: EINVAL for a socket without SO_REUSEPORT.
    pub fn attach_reuseport(&self, socket: BorrowedFd<'_>) -> Result<(), Error> {
        kernel::set_socket_option(socket, ATTACH_REUSEPORT, self.fd.as_raw_fd())
            .map_err(|errno| Error::new(format!("attaching program {}", self.name), Cause::System(errno)))
    }

    /// Attaches it to the interface with this index. Linux 5.9.
    ///
    /// # Errors
    /// [`Cause::Attached`] if the interface has a program; otherwise what the
    /// driver says: EOPNOTSUPP if it knows no native mode, ERANGE or EINVAL
    /// mostly for an MTU that is too large for it.
    pub fn attach_xdp(&self, interface: u32, mode: XdpMode) -> Result<XdpAttachment, Error> {
        let needs = Needs { kernel: Version::new(5, 9), network: true };
        kernel::link_create_xdp(self.fd.as_fd(), interface, mode.flags()).map(|fd| XdpAttachment { fd }).map_err(
            |errno| {
                let cause = match errno {
                    // The first for a program in the same mode, the second in another.
                    Errno::BUSY | Errno::EXIST => Cause::Attached,
                    errno => explain(errno, needs, Place::here()),
                };
                Error::new(format!("attaching program {}", self.name), cause)
            },
        )
    }

    /// Runs it once on `packet` and returns its result (BPF_PROG_TEST_RUN,
    /// Linux 4.12), for the types that can.
    ///
    /// # Errors
    /// The system's.
    pub fn run(&self, packet: &[u8]) -> Result<u32, Error> {
        kernel::test_run(self.fd.as_fd(), packet)
            .map_err(|errno| Error::new(format!("running program {}", self.name), Cause::System(errno)))
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Takes any program off `socket`'s SO_REUSEPORT group: the kernel's hash
/// chooses. Linux 5.3. Returns whether there was one.
///
/// # Errors
/// The system's.
pub fn detach_reuseport(socket: BorrowedFd<'_>) -> Result<bool, Error> {
    match kernel::set_socket_option(socket, DETACH_REUSEPORT, 0) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => {
            let needs = Needs { kernel: Version::new(5, 3), network: false };
            Err(Error::new("detaching a program", explain(errno, needs, Place::here())))
        }
    }
}

/// The code with descriptors of maps in place of their names.
fn bind(assembly: &Assembly, maps: &[&Map]) -> Result<Vec<Insn>, Cause> {
    let mut code = assembly.code.clone();
    for reference in &assembly.references {
        let map = maps.iter().find(|map| map.name() == reference.map);
        let map = map.ok_or_else(|| Cause::UnknownMap(reference.map.clone()))?;
        code[reference.at].imm = map.as_fd().as_raw_fd();
    }
    Ok(code)
}

/// The code with numbers of the kernel's functions in place of their names.
fn bind_calls(
    code: &mut [Insn],
    assembly: &Assembly,
    types: impl FnOnce() -> std::io::Result<Vec<u8>>,
) -> Result<(), Cause> {
    if assembly.kernel_calls.is_empty() {
        return Ok(());
    }
    // One that is too old may lack the types as well.
    let (needs, has) = (assembly.kernel, Version::running());
    let old = |cause| if has < needs { Cause::Kernel { needs, has } } else { cause };
    let types = types().map_err(|why| old(Cause::NoTypes(why.to_string())))?;
    for (at, name) in &assembly.kernel_calls {
        code[*at].imm = find(&types, name).map_err(old)?;
    }
    Ok(())
}

fn find(types: &[u8], name: &str) -> Result<i32, Cause> {
    let found = btf::function(types, name).map_err(|why| Cause::NoTypes(why.to_owned()))?;
    found.ok_or_else(|| Cause::UnknownFunction(name.to_owned()))
}

/// Whether programs may call a function of the running kernel that has this name,
/// and no fixed number.
///
/// # Errors
/// Why they may not.
pub fn has_function(name: &str) -> Result<(), Cause> {
    let types = std::fs::read(btf::KERNEL).map_err(|why| Cause::NoTypes(why.to_string()))?;
    find(&types, name).map(drop)
}

/// What the verifier says, with the line of the text that it ends at.
fn rejection(errno: Errno, log: &[u8], assembly: &Assembly) -> Cause {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]);
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return Cause::System(errno);
    }
    let mut said = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
    // The log gives each instruction as `NUMBER: (CODE) …`.
    let numbers = lines.iter().rev().filter_map(|line| line.split_once(": (")?.0.trim().parse::<usize>().ok());
    if let Some(line) = numbers.filter_map(|number| assembly.lines.get(number)).next() {
        said.push_str(&format!("\nthe last instruction is on line {line} of the program's text"));
    }
    Cause::Rejected { errno, log: said }
}

#[cfg(test)]
mod tests;
