//! The way between a worker and its controller: TLS 1.3 whose keys come from the token of the controller, over a
//! stream that both threads of a side share.
//!
//! The controller's key pair is made of its token: there is no certificate. It shows the bare public key (RFC 7250),
//! and a worker, who knows that key ([`ControllerKey`]), takes no other; then the worker says a token of its own, that
//! comes of the controller's, and that nobody else can read. None of them could be the controller, or another worker. A
//! stranger on the way can end a connection, and neither read, change, repeat nor begin one.
#![forbid(unsafe_code)]

mod keys;

pub use keys::{ControllerKey, Keys};

use core::time::Duration;
use rustls::{ClientConnection, Connection, ServerConnection};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One piece of a handshake is waited for this long.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);

/// Pieces that a handshake comes in, at most.
const HANDSHAKE_PIECES: usize = 16;

/// One connection. One thread receives and opens, others write.
#[derive(Debug)]
pub struct Channel {
    stream: TcpStream,
    tls: Mutex<Connection>,
}

impl Channel {
    /// The worker's end of a connection: the handshake is made, and the controller is the one of that key.
    ///
    /// # Errors
    /// If it is not, or the connection breaks.
    pub fn connect(stream: TcpStream, keys: &impl AsRef<ControllerKey>) -> io::Result<Self> {
        let keys = keys.as_ref();
        let tls = ClientConnection::new(Arc::clone(keys.client()), keys.name()).map_err(io::Error::other)?;
        let made = Self { stream, tls: Mutex::new(tls.into()) };
        made.stream.set_read_timeout(Some(HANDSHAKE_PATIENCE))?;
        made.send(&mut made.tls())?;
        let (mut bytes, mut none) = ([0; 4_096], Vec::new());
        for _ in 0..HANDSHAKE_PIECES {
            let received = made.receive(&mut bytes)?;
            made.open(bytes.get(..received).unwrap_or_default(), &mut none)?;
            if !made.tls().is_handshaking() {
                made.stream.set_read_timeout(None)?;
                return if none.is_empty() { Ok(made) } else { Err(io::ErrorKind::InvalidData.into()) };
            }
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// The controller's end of a connection. Its handshake is made while it is read.
    ///
    /// # Errors
    /// If there can be none.
    pub fn accept(stream: TcpStream, keys: &Keys) -> io::Result<Self> {
        let tls = ServerConnection::new(Arc::clone(keys.server())).map_err(io::Error::other)?;
        Ok(Self { stream, tls: Mutex::new(tls.into()) })
    }

    /// Waits for bytes; none at the end. They are to be opened, one after the other.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&self.stream).read(bytes) {
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Opens bytes that were received: what they say comes behind what is in `opened`.
    ///
    /// # Errors
    /// If they are not the other side's, or were changed on their way: nothing of use follows.
    pub fn open(&self, mut bytes: &[u8], opened: &mut Vec<u8>) -> io::Result<()> {
        let mut tls = self.tls();
        while !bytes.is_empty() {
            if tls.read_tls(&mut bytes)? == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let processed = tls.process_new_packets().map(|state| state.plaintext_bytes_to_read());
            let length = processed.map_err(|why| {
                // The other side may be told why; it may be gone.
                let _ = self.send(&mut tls);
                io::Error::new(io::ErrorKind::InvalidData, why)
            })?;
            let from = opened.len();
            opened.resize(from + length, 0);
            tls.reader().read_exact(opened.get_mut(from..).unwrap_or_default())?;
        }
        self.send(&mut tls)
    }

    /// Seals bytes and sends them, whole: nobody else's come between.
    ///
    /// # Errors
    /// If the connection breaks, or takes nothing for as long as its stream allows: then it is of no more use.
    pub fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut tls = self.tls();
        while !bytes.is_empty() {
            // It takes some, until they are sent; and before the handshake is made, some alone.
            let taken = tls.writer().write(bytes)?;
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = bytes.get(taken..).unwrap_or_default();
            self.send(&mut tls)?;
        }
        Ok(())
    }

    /// Ends the connection: who receives, or is told, at either end sees that.
    pub fn shutdown(&self) {
        // It may have ended by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn send(&self, tls: &mut Connection) -> io::Result<()> {
        while tls.wants_write() {
            if tls.write_tls(&mut &self.stream)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    fn tls(&self) -> MutexGuard<'_, Connection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
