//! What a test's script has the server do.

use core::time::Duration;

/// What becomes of a connect.
#[derive(Clone, Copy, Debug)]
pub enum Dial {
    Accept(Duration),
    Refuse(Duration),
    Unreachable(Duration),
    Ignore,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Pieces of the response, each with its time after the request.
    pub parts: Vec<(Duration, Vec<u8>)>,
    /// What follows the last piece, at once.
    pub then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    Keep,
    Finish,
    Reset,
    TimeOut,
}

impl Reply {
    pub fn bytes(after: Duration, bytes: impl Into<Vec<u8>>) -> Self {
        Self { parts: vec![(after, bytes.into())], then: Then::Keep }
    }

    /// A 200 with `length` bytes.
    pub fn ok(after: Duration, length: usize) -> Self {
        Self::bytes(after, response("200 OK", length))
    }

    pub fn nothing() -> Self {
        Self { parts: Vec::new(), then: Then::Keep }
    }

    pub fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }
}

pub fn response(status: &str, length: usize) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    bytes.resize(bytes.len() + length, b'x');
    bytes
}
