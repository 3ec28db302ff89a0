//! Files whose every byte is known, and a client of the kernel's TCP that
//! compares them.

use crate::Failure;
use random::SplitMix64;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Longer than any retransmission that these links can make necessary.
const PATIENCE: Duration = Duration::from_secs(120);

/// Writes a file of `size` bytes: SplitMix64, seeded with the size, so that
/// neither compression nor repetition can hide an error.
///
/// # Errors
/// If there is no room.
pub fn write_file(folder: &Path, size: usize) -> Result<(), Failure> {
    fs::create_dir_all(folder)?;
    Ok(fs::write(folder.join(size.to_string()), contents(size))?)
}

/// The bytes of that file.
fn contents(size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + 8);
    let mut random = SplitMix64::new(size as u64);
    while bytes.len() < size {
        bytes.extend_from_slice(&random.bits().to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// Fetches the file of `size` bytes `times` over, on one connection.
///
/// # Errors
/// If a response is not exactly the file.
pub fn fetch(server: SocketAddr, size: usize, times: usize) -> Result<(), Failure> {
    let mut left = times;
    fetch_while(server, size, || {
        left = left.saturating_sub(1);
        left > 0
    })
}

/// Fetches the file of `size` bytes on one connection until `go_on`, asked
/// after each time, says no.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_while(server: SocketAddr, size: usize, mut go_on: impl FnMut() -> bool) -> Result<(), Failure> {
    let mut stream = connect(server)?;
    let want = contents(size);
    let mut number = 0;
    loop {
        fetch_on(&mut stream, &want).map_err(|why| format!("fetch {number} of {size} bytes from {server}: {why}"))?;
        number += 1;
        if !go_on() {
            return Ok(());
        }
    }
}

/// A connection that gives up in the end.
fn connect(server: SocketAddr) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect_timeout(&server, PATIENCE).map_err(|why| format!("{server}: {why}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Fetches the file with these contents on an open connection.
///
/// # Errors
/// As [`fetch`].
fn fetch_on(stream: &mut TcpStream, want: &[u8]) -> Result<(), Failure> {
    write!(stream, "GET /{} HTTP/1.1\r\nHost: vm\r\n\r\n", want.len())?;
    let mut got = Vec::with_capacity(want.len() + 1024);
    let mut chunk = [0; 65536];
    let mut head = None;
    loop {
        if head.is_none() {
            head = got.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        }
        if head.is_some_and(|head| got.len() >= head + want.len()) {
            break;
        }
        match stream.read(&mut chunk)? {
            0 => return Err(format!("the connection ended after {} bytes", got.len()).into()),
            count => got.extend_from_slice(&chunk[..count]),
        }
    }
    let head = head.unwrap_or_default();
    if !got.starts_with(b"HTTP/1.1 200 ") {
        let first = String::from_utf8_lossy(&got[..head]).lines().next().unwrap_or_default().to_owned();
        return Err(format!("the answer is {first}").into());
    }
    if got[head..] != *want {
        let at = got[head..].iter().zip(want).position(|(got, want)| got != want);
        return Err(format!("wrong bytes, the first at {}", at.unwrap_or(want.len())).into());
    }
    Ok(())
}
