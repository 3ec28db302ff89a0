//! Random sequences of calls, made by a program on our stack and by one on the kernel's: each call
//! comes to the same. The program is this test's own, which `nearside run` starts; its peer is the
//! kernel at the other end of the link.

use crate::server::library;
use calls::{Call, Chooser, Kernel, Outcome, Recipe, Step, World};
use interop::{Nearside, Running, in_namespace, scratch, wait_for};
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The program's address and the kernel's.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 2), Ipv4Addr::new(10, 9, 0, 1)];

/// Where the program is told what to do.
const ORDERS: &str = "NEARSIDE_CALLS";

const RECIPE: Recipe = Recipe { steps: 50, bytes: 6_000, resets: false, library: true };

/// What the link, and another process, take to deliver what was sent; more where a first look showed
/// a difference.
const PATIENCE: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(12)];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn steps_of(seed: u64) -> Vec<Step> {
    Chooser::new(seed, RECIPE).sequence()
}

/// The program, when it is started as such: makes the calls that it is asked for.
#[test]
fn the_program_that_is_run() {
    let Some(path) = std::env::var_os(ORDERS) else { return };
    calls::raise_limit();
    let mut answers = UnixStream::connect(path).unwrap();
    let mut orders = BufReader::new(answers.try_clone().unwrap());
    let mut line = String::new();
    let (mut steps, mut world, mut polls): (Vec<Step>, Option<Kernel>, bool) = (Vec::new(), None, true);
    loop {
        line.clear();
        if polls {
            let mut entry = libc::pollfd { fd: answers.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: the entry is a local.
            unsafe { libc::poll(&raw mut entry, 1, -1) };
        }
        if orders.read_line(&mut line).unwrap() == 0 {
            return;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["begin", seed, base] => {
                let seed = seed.parse().unwrap();
                steps = steps_of(seed);
                // Most wait for orders by a call that our stack takes part in, and some by read(2).
                polls = seed % 8 != 7;
                // What the last had is closed first.
                drop(world.take());
                world = Some(Kernel::between(ADDRESSES, base.parse().unwrap(), Duration::ZERO));
                answers.write_all(b"begun\n").unwrap();
            }
            ["call", at] => {
                let (side, call) = &steps[at.parse::<usize>().unwrap()];
                let world = world.as_mut().expect("it has begun");
                let outcome = world.call(*side, call);
                if let Call::Listen { handle, .. } = *call {
                    // Who only listens has no stack, and its clients wait (docs/programs.md).
                    let _ = world.call(*side, &Call::Poll { handle, events: libc::POLLIN });
                }
                writeln!(answers, "{outcome:?}").unwrap();
            }
            _ => panic!("{line}"),
        }
    }
}

/// The program, as this test sees it.
struct Puppet {
    orders: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Puppet {
    fn ask(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

/// Makes a sequence in both worlds; the first difference, if there is one.
fn differs(puppet: &mut Puppet, (seed, steps): (u64, &[Step]), number: u32, patience: Duration) -> Option<String> {
    // Both are in one network namespace, and have ports of their own.
    let base = Kernel::base(number + 1_800);
    assert_eq!(puppet.ask(&format!("begin {seed} {base}")), "begun");
    let mut kernel = Kernel::new(number, if patience == PATIENCE[0] { Duration::ZERO } else { patience });
    let mut peer = Kernel::between(ADDRESSES, base, patience);
    for (at, (side, call)) in steps.iter().enumerate() {
        let of_kernel = kernel.call(*side, call);
        kernel.settle();
        let of_kernel_text = format!("{of_kernel:?}");
        let found = if *side == 0 { puppet.ask(&format!("call {at}")) } else { format!("{:?}", peer.call(1, call)) };
        peer.settle();
        if lingers(call, &of_kernel) {
            return None;
        }
        if of_kernel_text != found {
            let before: Vec<String> = steps[..=at].iter().map(|(side, call)| format!("  {side} {call:?}")).collect();
            return Some(format!(
                "seed {seed}, step {at}:\n{}\n  on the kernel {of_kernel_text}\n  on ours       {found}",
                before.join("\n")
            ));
        }
    }
    None
}

/// Whether the kernel refuses a port because of a connection that nobody holds any more, which
/// ours does not (docs/differences.md): from there on the worlds are not the same.
fn lingers(call: &Call, kernel: &Outcome) -> bool {
    matches!(call, Call::Bind { .. } | Call::Listen { .. }) && kernel.errno == libc::EADDRINUSE
}

#[test]
fn a_program_of_random_calls_hears_the_same() {
    in_namespace(&[], || {
        let folder = scratch("run-sequences");
        let path = folder.join("orders");
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let mut keeper = Running::start(&mut program(&path));
        let (orders, _) = listener.accept().unwrap();
        let mut puppet = Puppet { answers: BufReader::new(orders.try_clone().unwrap()), orders };
        calls::raise_limit();
        let seeds = match number("NEARSIDE_SEED") {
            Some(seed) => seed..seed + 1,
            None => 0..number("NEARSIDE_SEQUENCES").unwrap_or(12),
        };
        let mut found = Vec::new();
        for seed in seeds {
            let steps = steps_of(seed);
            let look = |puppet: &mut Puppet, again: u32| {
                let number = (seed as u32 * 2 + again).wrapping_add(std::process::id().wrapping_mul(976));
                differs(puppet, (seed, &steps), number, PATIENCE[again as usize])
            };
            if look(&mut puppet, 0).is_some() {
                found.extend(look(&mut puppet, 1));
            }
        }
        drop(puppet);
        wait_for("the program's end", || keeper.has_ended());
        assert!(found.is_empty(), "{} sequences differ:\n{}", found.len(), found.join("\n"));
    });
}

/// This very program, on our stack.
fn program(orders: &Path) -> Command {
    let mut command = Nearside::command(["run", "--link", "tap:near0,addr=10.9.0.1/24", "--addr", "10.9.0.2/24"]);
    command.arg("--library").arg(library()).arg("--").arg(std::env::current_exe().unwrap());
    command.args(["--exact", "sequences::the_program_that_is_run", "--nocapture", "--test-threads=1"]);
    command.env(ORDERS, orders);
    command
}
