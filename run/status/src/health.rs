//! `nearside status --health`: whether a server is well, by its own `/healthz`, in
//! an exit status, as a container's health check wants it.

use core::net::SocketAddr;
use core::time::Duration;
use say::{Failure, println};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A server that is well answers within milliseconds: a thread of its own does.
const PATIENCE: Duration = Duration::from_secs(2);

/// More is no answer of ours.
const ANSWER_MAX: u64 = 4 << 10;

/// Says what the server that tells metrics at `address` says of itself.
///
/// # Errors
/// It is not well, or does not answer.
pub fn health(address: SocketAddr) -> Result<(), Failure> {
    let answer = asked(address).map_err(|why| format!("{address} does not answer: {why}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let said = body.trim_end();
    match head.split(' ').nth(1) {
        Some("200") => {
            println!("{said}");
            Ok(())
        }
        Some("503") => Err(said.to_owned().into()),
        _ => Err(format!("{address} is no server of metrics: {:?}", head.lines().next().unwrap_or_default()).into()),
    }
}

fn asked(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // In one write: who is no server of ours may close behind the first segment, and a
    // reset for the rest would take its answer away.
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What is said of a server that answers so.
    fn told(answer: &'static str) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut asked = [0; 1_024];
            let read = stream.read(&mut asked).expect("a request");
            assert!(asked[..read].starts_with(b"GET /healthz HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).expect("it takes it");
        });
        let told = health(address).map_err(|why| why.to_string());
        server.join().expect("it served");
        told
    }

    #[test]
    fn health_is_what_the_server_says_of_itself() {
        assert_eq!(told("HTTP/1.1 200 OK\r\n\r\nalive\n"), Ok(()));
        let ill = told("HTTP/1.1 503 Service Unavailable\r\n\r\nworker 1 has not looked up for 12 s\n");
        assert_eq!(ill, Err("worker 1 has not looked up for 12 s".to_owned()));
        for other in ["SSH-2.0-x\r\n", "HTTP/1.1 404 Not Found\r\n\r\n", ""] {
            assert!(told(other).is_err_and(|why| why.contains("is no server of metrics")), "{other}");
        }
        let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        assert!(health(closed).is_err_and(|why| why.to_string().contains("does not answer")));
    }
}
