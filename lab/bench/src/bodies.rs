//! Long bodies of requests and of answers, passed on by an nginx.conf on kernel sockets:
//! time and processor time beside nginx, with the same file. Client and upstream are
//! plain programs on loopback; one request is under way at a time.

use crate::BenchError;
use crate::client::by_turns;
use crate::kernel::{spread, word};
use crate::program::{Program, Scratch, processor_time};
use core::time::Duration;
use cpu::Clock;
use demo::child::Interrupt;
use demo::machine::children;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct Plan {
    /// Measure each this often, by turns
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    /// Megabytes of a body
    #[arg(long, value_name = "MB,…", value_delimiter = ',', default_value = "5,40")]
    pub megabytes: Vec<u64>,
    /// Whose bodies
    #[arg(
        long,
        value_enum,
        value_name = "WHOSE,…",
        value_delimiter = ',',
        default_value = "requests,programs,answers"
    )]
    pub whose: Vec<Whose>,
    /// The nginx beside it
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/sbin/nginx")]
    pub nginx: PathBuf,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    pub nearside: Option<PathBuf>,
}

/// Whose body is long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Whose {
    /// The client's: it goes to a file, and from there to the upstream
    Requests,
    /// The same, to a FastCGI program
    Programs,
    /// The upstream's
    Answers,
}

/// Times nginx's time and processor time, at most.
const TIME: f64 = 1.1;
const PROCESSOR: f64 = 1.0;

/// What a server does behind its answer, as letting go of a file, is done by then; what is
/// not counts for its next request.
const BEHIND: Duration = Duration::from_millis(30);

/// How often a server is tried that comes up.
const LOOK: Duration = Duration::from_millis(20);

/// Time for a server to come up, and for one body.
const PATIENCE: Duration = Duration::from_secs(60);

const NAMED: [&str; 2] = ["nginx", "nearside"];

/// As Debian has it, where it matters here.
const SITE: &str = r#"
user root; worker_processes 1; daemon off; pid FOLDER/pid; error_log FOLDER/error.log;
events { worker_connections 768; }
http {
    sendfile on;
    access_log off;
    client_max_body_size 0;
    client_body_temp_path FOLDER/body;
    proxy_temp_path FOLDER/proxy;
    fastcgi_temp_path FOLDER/fastcgi;
    server {
        listen PORT;
        location / { proxy_pass http://UPSTREAM; }
        location /program/ {
            fastcgi_pass PROGRAM;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_LENGTH $content_length;
        }
    }
}
"#;

/// What one body took, in milliseconds.
struct Sample {
    time: f64,
    processor: f64,
}

/// A server that runs.
struct Server {
    program: Program,
    address: SocketAddr,
}

/// Measures by turns and prints. Returns whether the bounds are kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan, nearside: &Path) -> Result<bool, BenchError> {
    let interrupt = Interrupt::watch()?;
    let folder = Scratch::make()?;
    let upstreams = [begin_upstream(answer)?, begin_upstream(answer_as_program)?];
    let servers = [
        Server::start(&plan.nginx, &[], &folder.path().join("nginx"), upstreams, &interrupt)?,
        Server::start(nearside, &["nginx"], &folder.path().join("nearside"), upstreams, &interrupt)?,
    ];
    let mut kept = true;
    println!("Bodies passed on, {} of each by turns: least, median, most", plan.rounds);
    for whose in &plan.whose {
        for megabytes in &plan.megabytes {
            let samples = by_turns(plan.rounds, servers.len(), |at| {
                let sample = servers[at].measure(*whose, megabytes * 1_000_000, &interrupt)?;
                Ok(Some(sample))
            })?;
            kept &= print(*whose, *megabytes, &samples);
        }
    }
    Ok(kept)
}

/// Prints what was measured of one kind. Returns whether its bounds are kept.
fn print(whose: Whose, megabytes: u64, samples: &[Vec<Sample>]) -> bool {
    println!("  {whose:?} of {megabytes} MB");
    let spreads = |value: fn(&Sample) -> f64| samples.iter().map(move |of| spread(of.iter().map(value).collect()));
    let times: Vec<_> = spreads(|sample| sample.time).collect();
    let processor: Vec<_> = spreads(|sample| sample.processor).collect();
    let mut kept = true;
    for (what, spreads, most) in [("time", times, TIME), ("processor", processor, PROCESSOR)] {
        for (name, (low, median, high)) in NAMED.iter().zip(&spreads) {
            println!("    {what:10} {name:9} {low:>8.2} {median:>8.2} {high:>8.2} ms");
        }
        let ratio = spreads[1].1 / spreads[0].1;
        kept &= ratio <= most;
        println!("    {what:10} {ratio:.2} times nginx's, at most {most}: {}", word(ratio <= most));
    }
    kept
}

impl Server {
    fn start(
        program: &Path,
        words: &[&str],
        folder: &Path,
        [upstream, program_behind]: [SocketAddr; 2],
        interrupt: &Interrupt,
    ) -> Result<Self, BenchError> {
        fs::create_dir(folder)?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let text = SITE.replace("FOLDER", &folder.display().to_string());
        let text = text.replace("PORT", &address.to_string()).replace("UPSTREAM", &upstream.to_string());
        let text = text.replace("PROGRAM", &program_behind.to_string());
        let configuration = folder.join("nginx.conf");
        fs::write(&configuration, text)?;
        let words = words.iter().copied().chain(["-e", "stderr", "-c"]).map(str::to_owned);
        let words: Vec<_> = words.chain([configuration.display().to_string()]).collect();
        let mut program = Program::start(program, "server", &words, folder)?;
        let end = Clock.now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            program.still_runs()?;
            if Clock.now() > end {
                return Err("a server does not come up".into());
            }
            interrupt.sleep(LOOK)?;
        }
        Ok(Self { program, address })
    }

    /// Sends or gets one body.
    fn measure(&self, whose: Whose, bytes: u64, interrupt: &Interrupt) -> Result<Sample, BenchError> {
        let before = family_time(self.program.id())?;
        let begun = Clock.now();
        match whose {
            Whose::Requests => ask(self.address, "/", bytes, 0)?,
            Whose::Programs => ask(self.address, "/program/", bytes, 0)?,
            Whose::Answers => ask(self.address, "/", 0, bytes)?,
        }
        let took = Clock.now().since(begun);
        interrupt.sleep(BEHIND)?;
        let processor = family_time(self.program.id())?.saturating_sub(before);
        Ok(Sample { time: took.as_secs_f64() * 1e3, processor: processor.as_secs_f64() * 1e3 })
    }
}

impl Drop for Server {
    /// It is told to end: the worker of an nginx whose master is killed would stay.
    fn drop(&mut self) {
        if let Some(process) = Pid::from_raw(self.program.id() as i32) {
            let _ = kill_process(process, Signal::TERM);
        }
        let end = Clock.now() + PATIENCE;
        while self.program.still_runs().is_ok() && Clock.now() < end {
            thread::sleep(LOOK);
        }
    }
}

/// Sends a request with so many bytes, for an answer of so many, and checks that both came.
fn ask(to: SocketAddr, place: &str, sent: u64, wanted: u64) -> Result<(), BenchError> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head =
        format!("POST {place}{wanted} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {sent}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    write_bytes(&mut stream, sent)?;
    let (head, rest) = read_head(&mut stream)?.ok_or("the server has left")?;
    let told = field(&head, "x-got").ok_or_else(|| format!("the server says {head:?}"))?;
    let got = rest + std::io::copy(&mut stream, &mut std::io::sink())?;
    match (told, got) == (sent, wanted) {
        true => Ok(()),
        false => Err(format!("{told} bytes came of {sent}, and {got} of {wanted}").into()),
    }
}

/// Answers connections on loopback for as long as this process runs.
fn begin_upstream(answer: fn(TcpStream) -> Result<(), BenchError>) -> Result<SocketAddr, BenchError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                // What goes wrong here is seen by what the client gets.
                let _ = answer(stream);
            });
        }
    });
    Ok(address)
}

/// Answers the requests of a connection: each with how much of its body came, and as many
/// bytes as its target says.
fn answer(mut stream: TcpStream) -> Result<(), BenchError> {
    while let Some((head, mut got)) = read_head(&mut stream)? {
        let length = field(&head, "content-length").unwrap_or(0);
        let mut room = vec![0; 256 << 10];
        while got < length {
            match stream.read(&mut room)? {
                0 => return Err("the proxy has left".into()),
                more => got += more as u64,
            }
        }
        let target = head.split(' ').nth(1).and_then(|target| target.strip_prefix('/'));
        let bytes = target.and_then(|target| target.parse().ok()).ok_or("no length is asked for")?;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nX-Got: {got}\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        write_bytes(&mut stream, bytes)?;
    }
    Ok(())
}

/// Answers one request as a FastCGI program: with how much of its body came.
fn answer_as_program(mut stream: TcpStream) -> Result<(), BenchError> {
    // Types of records (FastCGI specification, section 8).
    const END: u8 = 3;
    const STDIN: u8 = 5;
    const STDOUT: u8 = 6;
    let mut records = BufReader::with_capacity(256 << 10, stream.try_clone()?);
    let (mut room, mut got) = (vec![0; (64 << 10) + 256], 0);
    loop {
        let mut head = [0; 8];
        records.read_exact(&mut head)?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        records.read_exact(&mut room[..length + usize::from(head[6])])?;
        match (head[1], length) {
            (STDIN, 0) => break,
            (STDIN, _) => got += length as u64,
            _ => {}
        }
    }
    let text = format!("Status: 200 OK\r\nContent-Length: 0\r\nX-Got: {got}\r\n\r\n");
    let head = |kind: u8, length: usize| [1, kind, 0, 1, 0, length as u8, 0, 0];
    let all = [&head(STDOUT, text.len()), text.as_bytes(), &head(STDOUT, 0), &head(END, 8), &[0; 8]].concat();
    Ok(stream.write_all(&all)?)
}

fn write_bytes(stream: &mut TcpStream, mut bytes: u64) -> Result<(), BenchError> {
    let piece = [b'x'; 128 << 10];
    while bytes > 0 {
        let some = bytes.min(piece.len() as u64);
        stream.write_all(&piece[..some as usize])?;
        bytes -= some;
    }
    Ok(())
}

/// A head, and how many bytes came behind it; none at the end.
fn read_head(stream: &mut TcpStream) -> Result<Option<(String, u64)>, BenchError> {
    let (mut head, mut room) = (Vec::new(), [0; 4 << 10]);
    loop {
        if let Some(at) = head.windows(4).position(|four: &[u8]| four == b"\r\n\r\n") {
            let rest = head.len() - at - 4;
            head.truncate(at + 4);
            return Ok(Some((String::from_utf8_lossy(&head).into_owned(), rest as u64)));
        }
        match stream.read(&mut room)? {
            0 => return Ok(None),
            more => head.extend_from_slice(&room[..more]),
        }
    }
}

/// The number that a field has.
fn field(head: &str, name: &str) -> Option<u64> {
    let value = head.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        known.eq_ignore_ascii_case(name).then_some(value)
    });
    value?.trim().parse().ok()
}

/// What a process and those that it has started have had of processors.
fn family_time(process: u32) -> Result<Duration, BenchError> {
    let mut all = processor_time(process)?;
    for child in children(process) {
        all += family_time(child)?;
    }
    Ok(all)
}
