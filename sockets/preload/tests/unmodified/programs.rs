//! Other programs, each unmodified: whether it works, or why not. `docs/programs.md` has what this
//! test finds.

use crate::server::{library, send};
use interop::{Nearside, Program, Running, in_namespace, scratch, wait_for};
use rustix::process::Signal;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const NEEDED: &[Program] = &[
    Program::new("curl", "curl"),
    Program::new("haproxy", "haproxy"),
    Program::new("iperf3", "iperf3"),
    Program::new("python3", "python3"),
    Program::new("passwd", "passwd"),
];

/// A program, what it does here, and what came of it.
type Row = (&'static str, &'static str, String);

#[test]
fn the_table_of_programs_is_true() {
    in_namespace(NEEDED, || {
        let folder = scratch("run-programs");
        start_kernel_server();
        let mut rows: Vec<Row> = vec![
            ("curl", "fetches from a server on the link", curl()),
            ("haproxy, `nbthread 1`", "passes requests on to a server on the link", haproxy(&folder)),
            ("iperf3, as a client", "sends 4 MB to a server on the link, by `select`", iperf_client()),
            ("iperf3, as a server", "receives 4 MB, by `select`", iperf_server()),
            ("python3, `asyncio`", "echoes 300 kB on each of ten connections", asyncio()),
            ("python3, `http.server` with one thread", "serves a page", page("HTTPServer")),
            ("python3, `http.server` as a module", "serves a page, on a thread for each connection", threads()),
        ];
        if is_there("redis-server") {
            rows.push(("redis-server", "SET and GET of 20 clients, `BGSAVE`, `SHUTDOWN`", redis(&folder)));
        }
        end_kernel_server();
        rows.push(("passwd", "has the set-user-ID bit", refusal("passwd")));
        let text = fs::read_to_string(document()).unwrap();
        let missing = |(program, does, outcome): &Row| {
            let row = format!("| {program} | {does} | {outcome} |");
            (!text.lines().any(|line| line == row)).then_some(row)
        };
        let missing: Vec<String> = rows.iter().filter_map(missing).collect();
        assert!(missing.is_empty(), "docs/programs.md lacks these rows:\n{}", missing.join("\n"));
    });
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/programs.md")
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// The program on our stack.
fn on_our_stack<'a>(words: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Nearside::command(["run", "--link", "tap:near0,addr=10.9.0.1/24", "--addr", "10.9.0.2/24"]);
    command.arg("--library").arg(library()).arg("--").args(words);
    command
}

/// Ends the program, and with it its keeper.
fn end(mut keeper: Running) {
    let id = keeper.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    children.split_ascii_whitespace().for_each(|child| send(child.parse().unwrap(), Signal::TERM));
    wait_for("the program's end", || keeper.has_ended());
}

/// `works`, or what is wrong.
fn verdict(works: bool, otherwise: &str) -> String {
    if works { "works".to_owned() } else { format!("fails: {}", otherwise.trim()) }
}

/// What is said of a program that is not started.
fn refusal(program: &str) -> String {
    let refused = on_our_stack([program]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    let why = said.trim().split_once("cannot run on our stack: ").map(|(_, why)| why.to_owned());
    match why {
        Some(why) if !refused.status.success() => format!("refused: {why}"),
        _ => format!("fails: {said}"),
    }
}

/// A server of the kernel's that answers each request the same, until there is an empty one.
fn start_kernel_server() {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\nfrom upstream";
    let listener = TcpListener::bind("0.0.0.0:8001").unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = [0; 4096];
            if stream.read(&mut request).unwrap_or(0) == 0 {
                return;
            }
            stream.write_all(ANSWER).unwrap();
        }
    });
}

fn end_kernel_server() {
    drop(TcpStream::connect("127.0.0.1:8001").unwrap());
}

fn curl() -> String {
    let fetched = on_our_stack(["curl", "-sS", "--max-time", "60", "http://10.9.0.1:8001/"]).output().unwrap();
    verdict(fetched.stdout == b"from upstream", &String::from_utf8_lossy(&fetched.stderr))
}

/// What a client gets of an address on our stack.
fn get(address: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn haproxy(folder: &Path) -> String {
    let file = folder.join("haproxy.cfg");
    let text = "global\n nbthread 1\ndefaults\n mode http\n timeout connect 60s\n timeout client 60s\n timeout server 60s\n\
                frontend f\n bind 10.9.0.2:80\n default_backend b\nbackend b\n server s 10.9.0.1:8001\n";
    fs::write(&file, text).unwrap();
    let mut keeper = Running::start(&mut on_our_stack(["haproxy", "-f", file.to_str().unwrap()]));
    keeper.wait_until_open("10.9.0.2:80");
    let answers: Vec<_> = (0..5).map(|_| get("10.9.0.2:80")).collect();
    end(keeper);
    let is_right = |answer: &io::Result<String>| answer.as_ref().is_ok_and(|text| text.ends_with("from upstream"));
    verdict(answers.iter().all(is_right), &format!("{answers:?}"))
}

fn iperf_client() -> String {
    let server = Running::start(Command::new("iperf3").args(["-s", "-1", "--forceflush"]));
    // Who connects to see whether it listens has its one test.
    wait_for("iperf3's listener", || server.said().contains("listening on 5201"));
    let mut client = Running::start(&mut on_our_stack(["iperf3", "-c", "10.9.0.1", "-n", "4M"]));
    wait_for("the client's end", || client.has_ended());
    verdict(client.ended_well() == Some(true), &client.said())
}

fn iperf_server() -> String {
    let mut server = Running::start(&mut on_our_stack(["iperf3", "-1", "-s", "--forceflush"]));
    wait_for("iperf3's listener", || server.said().contains("listening on 5201"));
    let mut client = Running::start(Command::new("iperf3").args(["-c", "10.9.0.2", "-n", "4M"]));
    wait_for("the client's end", || client.has_ended());
    wait_for("the server's end", || server.has_ended());
    verdict(client.ended_well() == Some(true), &client.said())
}

const ECHO: &str = "
import asyncio
async def echo(reader, writer):
    while data := await reader.read(4096):
        writer.write(data)
        await writer.drain()
    writer.close()
async def main():
    async with await asyncio.start_server(echo, '10.9.0.2', 7000) as server:
        await server.serve_forever()
asyncio.run(main())
";

fn asyncio() -> String {
    let mut keeper = Running::start(&mut on_our_stack(["python3", "-c", ECHO]));
    keeper.wait_until_open("10.9.0.2:7000");
    let echoed = |number: u8| -> io::Result<bool> {
        let mut stream = TcpStream::connect("10.9.0.2:7000")?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let sent: Vec<u8> = (0..300_000).map(|at| (at * 7 / 3) as u8 ^ number).collect();
        let mut writing = stream.try_clone()?;
        let copy = sent.clone();
        let writer = std::thread::spawn(move || writing.write_all(&copy));
        let mut got = vec![0; sent.len()];
        stream.read_exact(&mut got)?;
        writer.join().expect("it writes")?;
        Ok(got == sent)
    };
    let all: Vec<_> = (0..10).map(|number| std::thread::spawn(move || echoed(number))).collect();
    let all: Vec<io::Result<bool>> = all.into_iter().map(|one| one.join().unwrap()).collect();
    end(keeper);
    verdict(all.iter().all(|one| matches!(one, Ok(true))), &format!("{all:?}"))
}

/// A server of Python's of this class.
fn python_server(class: &str) -> Running {
    let script = format!(
        "from http.server import *\n\
         class Page(BaseHTTPRequestHandler):\n\
         \u{20}def do_GET(self):\n\
         \u{20}\u{20}self.send_response(200)\n\
         \u{20}\u{20}self.end_headers()\n\
         \u{20}\u{20}self.wfile.write(b'a page')\n\
         {class}(('10.9.0.2', 8000), Page).serve_forever()"
    );
    let mut keeper = Running::start(&mut on_our_stack(["python3", "-c", &script]));
    keeper.wait_until_open("10.9.0.2:8000");
    keeper
}

fn page(class: &str) -> String {
    let keeper = python_server(class);
    let answer = get("10.9.0.2:8000");
    end(keeper);
    verdict(answer.as_ref().is_ok_and(|text| text.ends_with("a page")), &format!("{answer:?}"))
}

/// Connections are one thread's: another's calls fail, and the operator hears why.
fn threads() -> String {
    const WHY: &str = "connections on our stack are one thread's";
    let keeper = python_server("ThreadingHTTPServer");
    let mut stream = TcpStream::connect("10.9.0.2:8000").unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    wait_for("its word", || keeper.said().contains("EOPNOTSUPP"));
    let outcome = if keeper.said().contains(WHY) { format!("refused: {WHY}") } else { keeper.said() };
    end(keeper);
    outcome
}

fn redis(folder: &Path) -> String {
    // An earlier run's.
    let _ = fs::remove_file(folder.join("dump.rdb"));
    let options = ["--port", "6379", "--save", "", "--protected-mode", "no", "--dir", folder.to_str().unwrap()];
    let words = ["redis-server", "--bind", "10.9.0.2"].into_iter().chain(options);
    let mut keeper = Running::start(&mut on_our_stack(words));
    keeper.wait_until_open("10.9.0.2:6379");
    let client = |number: usize| -> io::Result<bool> {
        let mut stream = TcpStream::connect("10.9.0.2:6379")?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        for round in 0..20 {
            write!(stream, "SET key{number} {round:05}\r\nGET key{number}\r\n")?;
            let expected = format!("+OK\r\n$5\r\n{round:05}\r\n");
            let mut got = vec![0; expected.len()];
            stream.read_exact(&mut got)?;
            if got != expected.as_bytes() {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let all: Vec<_> = (0..20).map(|number| std::thread::spawn(move || client(number))).collect();
    let all: Vec<io::Result<bool>> = all.into_iter().map(|one| one.join().unwrap()).collect();
    let mut stream = TcpStream::connect("10.9.0.2:6379").unwrap();
    stream.write_all(b"BGSAVE\r\n").unwrap();
    wait_for("the file that a child writes", || folder.join("dump.rdb").exists());
    stream.write_all(b"SHUTDOWN NOSAVE\r\n").unwrap();
    wait_for("its end", || keeper.has_ended());
    verdict(all.iter().all(|one| matches!(one, Ok(true))), &format!("{all:?}"))
}
