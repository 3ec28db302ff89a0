//! What is sent of a question, and how much of it was.

use bodies::BodyContent;

/// What pads records.
pub(crate) const ZEROS: &[u8] = &[0; 8];

/// A body that goes on as it comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyStream {
    /// Bytes of it; if nobody knows, it goes in chunks.
    pub length: Option<u64>,
    /// It goes in records of FastCGI.
    pub records: bool,
    /// All of it was there before the question began.
    pub ended: bool,
    /// So many bytes of it are kept until an answer comes (`client_body_buffer_size`): a server that has not
    /// processed it is no reason to fail. Of what goes by HTTP/2 alone.
    pub keeps: u32,
}

impl BodyStream {
    /// The most bytes that are framed together.
    pub(crate) const fn part_max(self) -> usize {
        if self.records { cgi::fastcgi::STDIN_PIECE } else { usize::MAX }
    }

    /// Writes what stands before so many bytes of it; returns what stands behind them.
    pub(crate) fn frame(self, bytes: usize, out: &mut Vec<u8>) -> &'static [u8] {
        if self.records {
            let padding = cgi::fastcgi::stdin_head(bytes, out);
            return ZEROS.get(..padding).unwrap_or_default();
        }
        if self.length.is_some() {
            return b"";
        }
        out.extend_from_slice(format!("{bytes:x}\r\n").as_bytes());
        b"\r\n"
    }

    /// Writes what stands behind all of it.
    pub(crate) fn end(self, out: &mut Vec<u8>) {
        if self.records {
            cgi::fastcgi::end_stdin(out);
        } else if self.length.is_none() {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// How much of a question was sent.
#[derive(Debug)]
pub(crate) struct Sending {
    pub head: Vec<u8>,
    /// Where in it stands what is asked for.
    target: (u32, u32),
    pub body: Option<BodyContent>,
    pub stream: Option<BodyStream>,
    /// Bytes of the body that were queued, and whether all are.
    pub at: u64,
    pub done: bool,
    /// Where in the body the piece is from that is being read back, for whichever server it
    /// was asked.
    pub piece_at: Option<u64>,
    /// Some of it was sent on this connection.
    pub begun: bool,
    /// What was sent of a body that goes on as it comes, while it may have to be sent again: until an
    /// answer comes, or it is more than so many bytes.
    pub kept: Vec<u8>,
    keeps: usize,
}

impl Sending {
    pub fn new(head: Vec<u8>, target: (u32, u32), body: Option<BodyContent>, stream: Option<BodyStream>) -> Self {
        let (kept, keeps) = (Vec::new(), stream.map_or(0, |stream| stream.keeps as usize));
        Self { head, target, body, stream, at: 0, done: false, piece_at: None, begun: false, kept, keeps }
    }

    /// That of another question, in the place of one that is over.
    #[inline(always)]
    pub fn renew(&mut self, head: Vec<u8>, target: (u32, u32), body: Option<BodyContent>, stream: Option<BodyStream>) {
        let Self {
            head: own_head,
            target: own_target,
            body: own_body,
            stream: own_stream,
            at,
            done,
            piece_at,
            begun,
            kept,
            keeps,
        } = self;
        (*own_head, *own_target, *own_body) = (head, target, body);
        *keeps = stream.map_or(0, |stream| stream.keeps as usize);
        (*own_stream, *at, *done, *piece_at, *begun) = (stream, 0, false, None, false);
        kept.clear();
    }

    /// These bytes follow what was sent of a body that goes on as it comes.
    pub fn keep(&mut self, bytes: &[u8]) {
        if self.kept.len() as u64 == self.at && self.kept.len() + bytes.len() <= self.keeps {
            self.kept.extend_from_slice(bytes);
        } else {
            self.forget_kept();
        }
        self.at += bytes.len() as u64;
    }

    /// Nothing will have to be sent again.
    pub fn forget_kept(&mut self) {
        (self.kept, self.keeps) = (Vec::new(), 0);
    }

    /// Memory that its head does not need is given back.
    pub fn shrink(&mut self) {
        self.head.shrink_to_fit();
    }

    pub fn target(&self) -> Option<&[u8]> {
        self.head.get(self.target.0 as usize..self.target.1 as usize)
    }

    /// It as it is sent.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Nothing follows the head.
    pub fn has_no_body(&self) -> bool {
        let is_none = self.body.as_ref().is_none_or(|body| body.length() == 0);
        is_none && self.stream.is_none_or(|stream| stream.length == Some(0))
    }

    /// The head is sent; with it all of it, if it `ends`.
    pub const fn begin(&mut self, ends: bool) {
        (self.begun, self.done) = (true, ends);
    }

    /// Some of it was sent on this connection.
    pub const fn is_begun(&self) -> bool {
        self.begun
    }

    /// All of it is queued.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Some of it cannot be sent again: it went on as it came.
    pub const fn is_spent(&self) -> bool {
        self.stream.is_some() && self.at > self.kept.len() as u64
    }

    /// Nothing is sent to the server that is asked next.
    pub const fn begin_again(&mut self) {
        (self.at, self.done, self.begun) = (0, false, false);
    }

    /// Lets go of the body; the head's memory.
    pub fn forget(&mut self) -> Vec<u8> {
        self.body = None;
        self.forget_kept();
        core::mem::take(&mut self.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_goes_on_as_it_comes_is_framed_as_its_upstream_reads_it() {
        let framed = |length: Option<u64>, records: bool| {
            let stream = BodyStream { length, records, ended: false, keeps: 0 };
            let (mut line, mut end) = (Vec::new(), Vec::new());
            let behind = stream.frame(13, &mut line);
            stream.end(&mut end);
            (line, behind, end)
        };
        assert_eq!(framed(Some(13), false), (Vec::new(), &b""[..], Vec::new()));
        assert_eq!(framed(None, false), (b"d\r\n".to_vec(), &b"\r\n"[..], b"0\r\n\r\n".to_vec()));
        for length in [None, Some(13)] {
            let end = vec![1, 5, 0, 1, 0, 0, 0, 0];
            assert_eq!(framed(length, true), (vec![1, 5, 0, 1, 0, 13, 3, 0], &[0, 0, 0][..], end));
        }
    }
}
