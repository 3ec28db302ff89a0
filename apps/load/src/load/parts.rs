//! The parts of a request's time, where the plan asks for them: connecting,
//! the wait for the first byte, and the whole.

use app::ConnId;
use wire::Time;

/// Heads that are looked at for the server's name: the first may come in
/// pieces.
const LOOKS: u8 = 16;

/// The most bytes of a name that are kept.
const NAME_LIMIT: usize = 64;

/// What is kept of each connection.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    /// When its connect was started, in nanoseconds, until its first request
    /// has ended.
    began: Option<u64>,
    /// The oldest request's response has begun.
    heard: bool,
}

/// The parts of the requests under way, and who answers them.
#[derive(Debug, Default)]
pub(super) struct Parts {
    kept: Vec<Kept>,
    looks: u8,
    server: Option<String>,
}

impl Parts {
    /// A connection is there whose connect was started at `began`.
    pub fn on_open(&mut self, id: ConnId, began: u64) {
        // Slots are dense, and as many as the plan has connections.
        if id.index() >= self.kept.len() {
            self.kept.resize(id.index() + 1, Kept::default());
        }
        self.kept[id.index()] = Kept { began: Some(began), heard: false };
    }

    /// Bytes came on a connection whose oldest request was sent at `sent`.
    /// Answers the time that it waited for them, if they are the first.
    pub fn on_bytes(&mut self, id: ConnId, bytes: &[u8], sent: u64, now: Time) -> Option<u64> {
        let kept = self.kept.get_mut(id.index())?;
        if bytes.is_empty() || core::mem::replace(&mut kept.heard, true) {
            return None;
        }
        if self.server.is_none() && self.looks < LOOKS {
            self.looks += 1;
            self.server = server_of(bytes);
        }
        Some(now.as_nanos().saturating_sub(sent))
    }

    /// The oldest request, sent at `sent`, is answered. Answers the whole of
    /// its time: with its connect, if it is the first on its connection.
    pub fn on_response(&mut self, id: ConnId, sent: u64, now: Time) -> Option<u64> {
        let kept = self.kept.get_mut(id.index())?;
        kept.heard = false;
        let from = kept.began.take().unwrap_or(sent);
        Some(now.as_nanos().saturating_sub(from))
    }

    /// The name that the server gives itself.
    pub fn into_server(self) -> Option<String> {
        self.server
    }
}

/// The Server field (RFC 9110 section 10.2.4) of the head that `bytes` begin
/// with. A peer chose it, and it goes to a terminal: all but printable ASCII
/// ends it.
fn server_of(bytes: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"server:";
    let mut lines = bytes.split(|&byte| byte == b'\n').take_while(|line| !matches!(**line, [b'\r'] | []));
    let line = lines.find(|line| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)))?;
    let value = line.get(NAME.len()..)?.trim_ascii();
    let shown = value.iter().take(NAME_LIMIT).take_while(|byte| matches!(byte, b' '..=b'~'));
    Some(shown.map(|&byte| char::from(byte)).collect())
}

#[cfg(test)]
mod tests {
    use super::server_of;

    #[test]
    fn a_name_is_what_may_be_shown() {
        let head =
            |field: &str| format!("HTTP/1.1 200 OK\r\nA: b\r\n{field}\r\nServer: second\r\n\r\nServer: body\r\n");
        let of = |text: String| server_of(text.as_bytes());
        assert_eq!(of(head("Server: nginx/1.22.1")).as_deref(), Some("nginx/1.22.1"));
        assert_eq!(of(head("SERVER:x (y)  ")).as_deref(), Some("x (y)"));
        assert_eq!(of(head("Server: a\x1b[2Jb")).as_deref(), Some("a"));
        assert_eq!(of(head(&format!("Server: {}", "n".repeat(900)))).map(|name| name.len()), Some(64));
        assert_eq!(of("HTTP/1.1 200 OK\r\nA: b\r\n\r\nServer: body\r\n".to_owned()), None);
        assert_eq!(of(String::new()), None);
    }
}
