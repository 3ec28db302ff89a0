//! What sockets cost that are not the kernel's: instructions of a program that runs unmodified on our
//! stack (`nearside run`), beside those that our own server's stack takes for the same requests.
//!
//! The program is this one with another command, under callgrind, with the library preloaded; `nearside
//! load` asks it over memif. What is held against the bound is all that is executed for a request but the
//! program's own: the library with its copy of the stack, memif, and what both call of the C library.

mod program;

use crate::BenchError;
use crate::callgrind::{Profile, read_costs};
use crate::cost::{Case, stack_work};
use crate::kernel::word;
use crate::silos::check;
use core::time::Duration;
use cpu::Clock;
use demo::child::{Interrupt, Program, Running, call};
use demo::scratch::Scratch;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Instructions of a request that may be executed more than our own server's stack takes.
pub const BOUND_MORE: f64 = 700.0;

/// The share of segments that is to take the short way.
pub const BOUND_SHORT: f64 = 0.99;

const CONNECTIONS: u64 = 64;

/// Requests before any is counted: connections are made, tables have grown.
const WARM_UP: u64 = 2_000;

/// Requests after those that are counted: at the end of a load fewer are under way at once.
const BEHIND: u64 = 1_000;

const SERVER: &str = "10.79.0.2";
const CLIENT: &str = "10.79.0.1";

/// The longest that all requests may take: under callgrind each takes fifty times as long.
const PATIENCE: Duration = Duration::from_secs(300);

/// What `bench posix` is asked.
#[derive(Debug, clap::Args)]
pub struct PosixArgs {
    /// Requests that are counted
    #[arg(long, value_name = "N", default_value_t = 60_000)]
    requests: u64,
    /// Functions told
    #[arg(long, value_name = "N", default_value_t = 24)]
    functions: usize,
    /// The program that keeps the link and asks [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    pub nearside: Option<PathBuf>,
    /// The library that is preloaded, built with lines [default: libnearside_preload.so beside this program]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

/// What `posix` runs under callgrind.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct PosixProgram {
    warm_up: u64,
    counted: u64,
}

impl PosixProgram {
    /// Answers until it is killed.
    ///
    /// # Errors
    /// The system's, and what it does not understand.
    pub fn run(self) -> Result<(), BenchError> {
        program::run(self.warm_up, self.counted)
    }
}

/// Measures and prints. Returns whether the bounds hold.
///
/// # Errors
/// If something cannot be run or measured.
pub fn run(args: &PosixArgs, nearside: &Path) -> Result<bool, BenchError> {
    let this = std::env::current_exe()?;
    let library = args.library.clone().unwrap_or_else(|| this.with_file_name("libnearside_preload.so"));
    let library = library.canonicalize().map_err(|why| format!("{}: {why}", library.display()))?;
    let stack = stack_work(Case::SmallBurst, args.requests)?;
    let Measured { profile, short } = measure(nearside, &this, &library, args.requests)?;
    let (requests, waits) = (profile.said("requests")?, profile.said("waits")?);
    let per = |instructions: u64| instructions as f64 / requests as f64;
    let own = profile.of(&this.file_name().unwrap_or_default().to_string_lossy());
    let sockets = per(profile.total() - own);
    println!("instructions per request of a program on our stack, keep-alive, {CONNECTIONS} connections");
    println!("{:9.1}  of the program itself", per(own));
    println!(
        "{sockets:9.1}  of its sockets ({requests} requests, {:.1} for each wait)",
        requests as f64 / waits as f64
    );
    for (what, instructions) in profile.by_crate() {
        println!("{:9.1}    {what}", per(instructions));
    }
    println!("     of which in the functions, with what is inlined from libraries");
    for (what, instructions) in profile.by_function().into_iter().take(args.functions) {
        println!("{:9.1}  {what}", per(instructions));
    }
    let more = sockets - stack;
    let (is_cheap, is_short) = (more <= BOUND_MORE, short >= BOUND_SHORT);
    println!("{stack:9.1}  of our own server's stack");
    println!("{more:9.1}  more than that, at most {BOUND_MORE}: {}", word(is_cheap));
    println!(
        "{:8.2}%  of segments came by the short way, at least {:.0} %: {}",
        100.0 * short,
        100.0 * BOUND_SHORT,
        word(is_short)
    );
    Ok(is_cheap && is_short)
}

struct Measured {
    profile: Profile,
    /// The share of segments that came by the short way.
    short: f64,
}

fn measure(nearside: &Path, this: &Path, library: &Path, counted: u64) -> Result<Measured, BenchError> {
    let interrupt = Interrupt::watch()?;
    let scratch = Scratch::private()?;
    let (socket, out) = (scratch.path().join("link"), scratch.path().join("callgrind"));
    let nearside = nearside.display().to_string();
    let mut words = vec![nearside.clone(), "run".into(), format!("--link=memif:{}", socket.display())];
    words.extend([format!("--addr={SERVER}/24"), format!("--library={}", library.display()), "--".into()]);
    let this = this.display().to_string();
    words.extend([this.clone(), "valgrind".into(), "--".into(), "--tool=callgrind".into()]);
    words.extend(["--dump-instr=yes", "--compress-strings=no", "--compress-pos=no"].map(str::to_owned));
    words.push(format!("--callgrind-out-file={}", out.display()));
    // What a worker tells of itself a hundred times a second is next to nothing by request, but not here,
    // where requests take fifty times as long.
    words.extend(["*counted_requests*", "*Column*publish*"].map(|name| format!("--toggle-collect={name}")));
    words.extend([this, "posix-program".into()]);
    words.extend([WARM_UP, counted].map(|count| count.to_string()));
    let mut keeper = Program { name: "nearside run", netns: None, core: None, words }.start(scratch.path())?;
    keeper.wait_until("open its link", PATIENCE, &interrupt, || socket.exists())?;

    let all = WARM_UP + counted + BEHIND;
    let mut words = vec![nearside.clone(), "load".into(), "--json".into(), format!("http://{SERVER}/")];
    words.extend([format!("--connections={CONNECTIONS}"), format!("--requests={all}"), "--warmup=0s".into()]);
    words.extend([format!("--link=memif:{}", socket.display()), format!("--addr={CLIENT}/24")]);
    // Who polls would take the core that the program has.
    words.push("--idle=sleep:20us".into());
    words.push(format!("--status-page={}", scratch.path().join("load.page").display()));
    let mut client = Program { name: "nearside load", netns: None, core: None, words }.start(scratch.path())?;
    let short = short_share(&nearside, &mut client, &keeper, &interrupt)?;
    check(&client.finish(PATIENCE, &interrupt)?)?;
    keeper.still_runs()?;
    // callgrind writes what it counted when the program is killed.
    call(&["kill", "-TERM", &keeper.pid().to_string()])?;
    keeper.ended(PATIENCE, &interrupt)?;
    let costs =
        fs::read_to_string(&out).map_err(|why| format!("callgrind wrote nothing: {why}; {}", keeper.complaint()))?;
    let profile = Profile::of_costs(library, &keeper.output(), read_costs(&costs))?;
    Ok(Measured { profile, short })
}

/// The share of segments that came by the short way, as the program's worker tells while it is asked:
/// neither the beginning of connections is in it nor their end.
fn short_share(
    nearside: &str,
    client: &mut Running,
    keeper: &Running,
    interrupt: &Interrupt,
) -> Result<f64, BenchError> {
    let (mut first, mut last) = (None, None);
    let until = Clock.now() + PATIENCE;
    while Clock.now() < until && client.still_runs().is_ok() {
        let text = call(&[nearside, "status", "--json", &keeper.pid().to_string()])?;
        let page: Value = serde_json::from_str(&text)?;
        let of = |name: &str| page[0]["silos"][0][name].as_u64();
        if let (Some(requests), Some(taken), Some(all)) =
            (of("sockets.exchanges"), of("tcp.fast_path"), of("tcp.segments_in"))
            && requests >= WARM_UP
            && first.is_none_or(|(_, before)| all > before)
        {
            first.get_or_insert((taken, all));
            last = Some((taken, all));
        }
        interrupt.sleep(Duration::from_millis(100))?;
    }
    let (Some((taken, all)), Some((later, more))) = (first, last) else {
        return Err("the program tells nothing of its requests".into());
    };
    if more == all {
        return Err("there are too few requests to see which way segments take".into());
    }
    Ok((later - taken) as f64 / (more - all) as f64)
}
