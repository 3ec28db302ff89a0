//! Requests on a connection that stays open.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Asks for `path`, and returns the body of the response.
///
/// # Panics
/// If there is none of the length that it states.
pub fn ask(stream: &mut TcpStream, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4_096];
    loop {
        let len = stream.read(&mut piece).unwrap();
        assert!(len > 0, "the connection ended: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..len]);
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            return body.to_owned();
        }
    }
}
