//! A node's side: its audit is made, and said to who asked for it until that is kept.

use super::listen::{AUDIT_LIMIT, FromNode, NodeHello};
use crate::args::AuditNodeArgs;
use crate::local::read_at_most;
use channel::{Channel, ControllerKey};
use core::time::Duration;
use cpu::Clock;
use messages::{CONTROLLER_FILE, KEY_FILE, Lines, ORDER_LIMIT, TOKEN_FILE, ToWorker, Token};
use say::Failure;
use serde_json::Value;
use std::ffi::OsStr;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

/// One try to connect, and what takes nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is not kept by then is said again: whoever heard it may be followed by another.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Between one try and the next.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest word in a file of the audit's Secret.
const FILE_LIMIT: usize = 1_024;

/// What is shown of what the audit says on standard error, in bytes.
const WORDS_LIMIT: usize = 1_000;

/// Audits this node, and says what that came to.
///
/// # Errors
/// If nobody kept it in time.
pub fn audit_node(asked: &AuditNodeArgs) -> Result<ExitCode, Failure> {
    let until = Clock.now() + asked.patience;
    let line = FromNode::Said(audited(asked.role.as_str(), asked.root.as_deref())).line();
    loop {
        let why = match tell(&asked.controller_folder, &asked.node, &line) {
            Ok(()) => return Ok(ExitCode::SUCCESS),
            Err(why) => why,
        };
        if Clock.now() + PAUSE >= until {
            return Err(format!("what was found is not kept: {why}").into());
        }
        thread::sleep(PAUSE);
    }
}

/// What `nearside node audit --json` says of a machine, in one line; or why it says nothing.
pub fn audited(role: &str, root: Option<&Path>) -> Result<String, String> {
    let program = programs::tools().map_err(|why| why.to_string())?;
    let mut command = Command::new(program);
    command.args(["node", "audit", "--json", "--role", role]).stdin(Stdio::null());
    if let Some(root) = root {
        command.args([OsStr::new("--root"), root.as_os_str()]);
    }
    let output = command.output().map_err(|why| why.to_string())?;
    // Its exit code tells the worst verdict: what it printed tells whether it was made.
    let Ok(audit) = serde_json::from_slice::<Value>(&output.stdout) else {
        let mut words = messages::shown(&String::from_utf8_lossy(&output.stderr));
        words.truncate(words.floor_char_boundary(WORDS_LIMIT));
        return Err(format!("nearside node audit: {}: {words}", output.status));
    };
    let text = audit.to_string();
    if text.len() > AUDIT_LIMIT {
        return Err(format!("its audit has {} KiB, and may have {}", text.len() >> 10, AUDIT_LIMIT >> 10));
    }
    Ok(text)
}

/// Says it to whoever listens now, until that is kept.
fn tell(folder: &Path, node: &str, line: &[u8]) -> Result<(), String> {
    // Read each time: what the kubelet writes there may come late.
    let read = |name: &str| {
        let bytes = read_at_most(&folder.join(name), FILE_LIMIT).map_err(|why| format!("{name}: {why}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    let (place, text, key) = (read(CONTROLLER_FILE)?, read(TOKEN_FILE)?, read(KEY_FILE)?);
    let token = Token::read(&text).ok_or_else(|| format!("{TOKEN_FILE} holds no token"))?;
    let key = ControllerKey::read(&key).map_err(|why| format!("{KEY_FILE}: {why}"))?;
    let shown = |why: io::Error| format!("the controller at {place}: {why}");
    let (stream, again) = connect(&place).map_err(shown)?;
    let channel = Channel::connect(stream, &key).map_err(shown)?;
    again.set_read_timeout(Some(SAY_EVERY)).map_err(shown)?;
    let hello = NodeHello { node: node.to_owned(), token, version: messages::version() };
    channel.write(&FromNode::Hello(hello).line()).map_err(shown)?;
    channel.write(line).map_err(shown)?;
    let (mut lines, mut bytes, mut opened) = (Lines::new(ORDER_LIMIT), [0; 4_096], Vec::new());
    loop {
        let received = channel.receive(&mut bytes).map_err(shown)?;
        if received == 0 {
            return Err(shown(io::ErrorKind::UnexpectedEof.into()));
        }
        opened.clear();
        channel.open(bytes.get(..received).unwrap_or_default(), &mut opened).map_err(shown)?;
        lines.push(&opened);
        while let Some(line) = lines.next().map_err(|why| format!("the controller at {place}: {why}"))? {
            if ToWorker::read(line) == Ok(ToWorker::Kept) {
                return Ok(());
            }
        }
    }
}

/// A connection, twice: what is set of one is set of both.
fn connect(place: &str) -> io::Result<(TcpStream, TcpStream)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    // A name may have another address each time.
    for address in place.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                let again = stream.try_clone()?;
                return Ok((stream, again));
            }
            Err(why) => last = why,
        }
    }
    Err(last)
}
