//! A server of names (RFC 1035) on this machine's loopback, for whoever resolves them: a name says
//! its address (`a-10-0-0-2.quiet`), and others there are not.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::JoinHandle;

/// It ends with its owner.
#[derive(Debug)]
pub(super) struct NameServer {
    at: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// The name of an address of IPv4.
pub(super) fn name_of(address: IpAddr) -> String {
    format!("a-{}.quiet", address.to_string().replace('.', "-"))
}

/// The answer to a question, which names one host.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    let length = usize::from(*question.get(12)?);
    let label = core::str::from_utf8(question.get(13..13 + length)?).ok()?;
    // Both labels, the root, the type and the class.
    let end = 13 + length + 1 + "quiet".len() + 1 + 4;
    let asked = question.get(12..end)?;
    let found = label.strip_prefix("a-").and_then(|digits| digits.replace('-', ".").parse::<Ipv4Addr>().ok());
    let (code, count) = if found.is_some() { (0, 1) } else { (3, 0) };
    let mut message = [question.get(..2)?, &[0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0], asked].concat();
    if let Some(address) = found {
        // The name of the question, an address, for a minute.
        message.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        message.extend_from_slice(&address.octets());
    }
    Some(message)
}

impl NameServer {
    /// Starts it on a free port.
    ///
    /// # Errors
    /// The system's.
    pub fn start() -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let at = socket.local_addr()?;
        let serve = move || {
            let mut question = [0; 600];
            // Nothing is what its owner says last.
            while let Ok((length @ 1.., from)) = socket.recv_from(&mut question) {
                if let Some(answer) = answer(&question[..length]) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        };
        let thread = std::thread::Builder::new().name("names".to_owned()).spawn(serve)?;
        Ok(Self { at, thread: Some(thread) })
    }

    /// Where it is.
    pub const fn at(&self) -> SocketAddr {
        self.at
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let told = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.send_to(&[], self.at));
        if let (Ok(_), Some(thread)) = (told, self.thread.take()) {
            let _ = thread.join();
        }
    }
}
