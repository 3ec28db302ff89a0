//! Files of certificates and keys, and what nginx says of those that are not as they
//! are to be: in OpenSSL's words and with its numbers.

use super::arguments::told;
use super::pipes;
use core::fmt;
use handshake::Identity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use x509::{Certificate, LibraryError, Revocation, read_certificates, read_key, read_revocations};
use zeroize::Zeroizing;

/// The longest file: all authorities of the world are a quarter of a MiB.
const FILE_MAX: usize = 16 << 20;

/// How long whoever writes to a named pipe may take for each piece.
const PIPE_WAIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// What is wrong with a file.
#[derive(Debug)]
pub(super) enum FileFault {
    /// It cannot be read.
    Read(std::io::Error, String),
    /// It does not hold what it is to hold, which OpenSSL has this name for.
    Content(LibraryError, &'static str),
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(why, path) => {
                let number = why.raw_os_error().unwrap_or(0);
                let behind = match why.kind() {
                    ErrorKind::NotFound => "error:10000080:BIO routines::no such file",
                    _ => "error:10080002:BIO routines::system lib",
                };
                let text = reason(why);
                write!(f, "error:80{number:06X}:system library::{text}:calling fopen({path}, r) {behind}")
            }
            Self::Content(why, _) if !why.is_of_pem() => write!(f, "{why}"),
            Self::Content(why, "KEY") if why.is_no_start_line() => {
                f.write_str("error:1E08010C:DECODER routines::unsupported:No supported data to decode. Input type: PEM")
            }
            Self::Content(why, expected) if why.is_no_start_line() => {
                write!(f, "error:0480006C:PEM routines::no start line:Expecting: {expected}")
            }
            Self::Content(why, _) => {
                let text = why.to_string();
                let number = match text.as_str() {
                    "bad base64 decode" => 100,
                    "bad decrypt" => 101,
                    "bad end line" => 102,
                    "bad password read" => 104,
                    _ => return f.write_str(&text),
                };
                write!(f, "error:0480{number:04X}:PEM routines::{text}")
            }
        }
    }
}

/// What the system says, without the number that Rust adds.
fn reason(why: &std::io::Error) -> String {
    let text = why.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The bytes of a file, which another process may have opened for us.
fn read(path: &[u8]) -> Result<Zeroizing<Vec<u8>>, std::io::Error> {
    let path = super::path_of(path);
    let _asking = helper::waits::on(&path);
    let file = match helper::opened::of(&path) {
        Some(opened) => File::from(opened),
        None => open(&path)?,
    };
    if file.metadata()?.file_type().is_fifo() {
        return pipes::of(&path, || piped(file));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    let mut room = Zeroizing::new([0; 16 << 10]);
    // By places: whoever opened it may have others read it.
    loop {
        let taken = file.read_at(&mut *room, bytes.len() as u64)?;
        if taken == 0 {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&room[..taken]);
        if bytes.len() > FILE_MAX {
            return Err(std::io::Error::from(ErrorKind::FileTooLarge));
        }
    }
}

/// What is written to a named pipe, until its writers have closed it. nginx waits for them
/// without an end.
fn piped(mut file: File) -> Result<Zeroizing<Vec<u8>>, std::io::Error> {
    let mut bytes = Zeroizing::new(Vec::new());
    let mut room = Zeroizing::new([0; 16 << 10]);
    loop {
        // A pipe that no writer has had open yet is not at its end.
        let mut waits = [PollFd::new(&file, PollFlags::IN)];
        if poll(&mut waits, Some(&PIPE_WAIT))? == 0 {
            return Err(std::io::Error::from(rustix::io::Errno::TIMEDOUT));
        }
        let taken = match file.read(&mut *room) {
            Ok(0) => return Ok(bytes),
            Ok(taken) => taken,
            Err(why) if why.kind() == ErrorKind::WouldBlock => continue,
            Err(why) => return Err(why),
        };
        bytes.extend_from_slice(&room[..taken]);
        if bytes.len() > FILE_MAX {
            return Err(std::io::Error::from(ErrorKind::FileTooLarge));
        }
    }
}

/// A pipe that nobody writes to is not waited for.
fn open(path: &Path) -> Result<File, std::io::Error> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    File::options().read(true).custom_flags(nonblocking).open(path)
}

fn bytes_of(path: &[u8]) -> Result<Zeroizing<Vec<u8>>, FileFault> {
    read(path).map_err(|why| FileFault::Read(why, told(path)))
}

/// A certificate with its chain, and its key.
pub(super) fn identity(certificate: &[u8], key: &[u8], passwords: &[Zeroizing<Vec<u8>>]) -> Result<Identity, String> {
    let cannot = |what: &str, path: &[u8], call: &str, why: &FileFault| {
        let call = if matches!(why, FileFault::Read(..)) { "BIO_new_file" } else { call };
        format!("cannot load {what} \"{}\": {call}() failed (SSL: {why})", told(path))
    };
    let chain = bytes_of(certificate)
        .and_then(|bytes| read_certificates(&bytes).map_err(|why| FileFault::Content(why, "TRUSTED CERTIFICATE")));
    let chain = chain.map_err(|why| cannot("certificate", certificate, "PEM_read_bio_X509_AUX", &why))?;
    let private = bytes_of(key)
        .and_then(|bytes| read_key(&bytes, passwords).map_err(|why| FileFault::Content(why, "KEY")))
        .map_err(|why| cannot("certificate key", key, "PEM_read_bio_PrivateKey", &why))?;
    if let Some(Err(why)) = chain.first().map(|first| first.check_key(&private)) {
        let number = if why.to_string().contains("type") { "05800073" } else { "05800074" };
        let why = format!("error:{number}:x509 certificate routines::{why}");
        return Err(format!("SSL_CTX_use_PrivateKey(\"{}\") failed (SSL: {why})", told(key)));
    }
    Ok(Identity { chain, key: private, stapled: None })
}

/// The bytes of a file that OpenSSL does not read.
fn opened(path: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
    read(path).map_err(|why| {
        format!("open() \"{}\" failed ({}: {})", told(path), why.raw_os_error().unwrap_or(0), reason(&why))
    })
}

/// The passwords of a file: one a line.
pub(super) fn passwords(path: &[u8]) -> Result<Vec<Zeroizing<Vec<u8>>>, String> {
    let bytes = opened(path)?;
    let line = |line: &[u8]| Zeroizing::new(line.strip_suffix(b"\r").unwrap_or(line).to_vec());
    Ok(bytes.split(|byte| *byte == b'\n').map(line).filter(|line| !line.is_empty()).collect())
}

/// A key of tickets.
pub(super) fn ticket_key(path: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
    let bytes = opened(path)?;
    match bytes.len() {
        48 | 80 => Ok(bytes),
        _ => Err(format!("\"{}\" must be 48 or 80 bytes", told(path))),
    }
}

/// Certificates of who is trusted.
pub(super) fn authorities(path: &[u8], call: &str) -> Result<Vec<Certificate>, String> {
    let bytes = bytes_of(path).map_err(|why| failed(call, path, &why))?;
    read_certificates(&bytes).map_err(|why| failed(call, path, &FileFault::Content(why, "TRUSTED CERTIFICATE")))
}

/// Lists of certificates that were taken back.
pub(super) fn revocations(path: &[u8]) -> Result<Vec<Revocation>, String> {
    let call = "X509_LOOKUP_load_file";
    let bytes = bytes_of(path).map_err(|why| failed(call, path, &why))?;
    read_revocations(&bytes).map_err(|_| {
        let why = "error:05800088:x509 certificate routines::no certificate or crl found";
        format!("{call}(\"{}\") failed (SSL: {why})", told(path))
    })
}

/// An OCSP response, DER (RFC 6960 section 4.2): a sequence that fills the file.
pub(super) fn stapled(path: &[u8]) -> Result<Vec<u8>, String> {
    let bytes = read(path).map_err(|why| {
        let why = FileFault::Read(why, told(path));
        format!("BIO_new_file(\"{}\", \"rb\") failed (SSL: {why})", told(path))
    })?;
    if !x509::is_sequence(&bytes) {
        let why = "error:0680008E:asn1 encoding routines::not enough data";
        return Err(format!("d2i_OCSP_RESPONSE_bio(\"{}\") failed (SSL: {why})", told(path)));
    }
    Ok(bytes.to_vec())
}

/// What a file's fault is told as, of a call that has failed.
fn failed(call: &str, path: &[u8], why: &FileFault) -> String {
    format!("{call}(\"{}\") failed (SSL: {why})", told(path))
}
