//! The upstream of a quiet server: it speaks HTTP, FastCGI, uwsgi and SCGI on one port, and
//! answers as the path says that is asked for (`…/o/NAME`), at once and with all it has.

use super::cases::{gzipped_length, packed, text, text_length};
use app::{App, Closed, ConnId, Net, Opened};
use core::time::Duration;
use std::collections::HashMap;

/// What it answers.
#[derive(Debug, Default)]
pub struct Origin {
    links: HashMap<ConnId, Link>,
    /// How often it was asked for what.
    pub asked: HashMap<String, usize>,
    /// Bytes that came through the tunnel that was there last.
    swallowed: usize,
    /// Who is to be told how many, once it is over.
    tally: Option<ConnId>,
}

#[derive(Debug, Default)]
struct Link {
    arrived: Vec<u8>,
    /// What comes is sent back, up to so many bytes.
    echoes: Option<usize>,
    /// What comes is taken little at a time, and so much of it was.
    swallows: Option<usize>,
    /// Nothing more is taken.
    deaf: bool,
    /// It says a byte each so often.
    chats: bool,
    /// None of it is taken before its timer has run out; how long that takes.
    pauses: bool,
    pause: Duration,
    /// Once it has taken so much, that takes longer, once.
    naps_at: Option<usize>,
    /// Nothing follows what has come.
    ends: bool,
    /// It is upgraded then.
    upgrades: bool,
    is_over: bool,
}

/// How much is taken at a time, and how often.
const MOUTHFUL: usize = 20_000;
const PAUSE: Duration = Duration::from_millis(1);

/// How long some pause once, and others each time: longer than anybody waits for an upstream
/// that takes nothing and was let go of.
const NAP: Duration = Duration::from_secs(7);

/// That is after so many bytes: of 400,000 in all, what follows is more than fits in between, so
/// that the server has some of it, and little enough that its client is done meanwhile.
const NAPS_AT: usize = 285_000;
const DOZE: Duration = Duration::from_secs(6);

/// How often one that says a byte now and then does.
pub const CHAT: Duration = Duration::from_secs(10);

/// Who asks for this finds that the rest is not taken.
const DEAF: &[u8] = b"/o/deaf";

const UPGRADED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n";

/// A request that is whole.
#[derive(Debug)]
struct Asked {
    speaks: Speaks,
    head: Vec<u8>,
    body: Vec<u8>,
    /// Bytes that it took.
    length: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Speaks {
    Http,
    FastCgi,
    Uwsgi,
    Scgi,
}

/// What a number in decimal digits is.
fn number(bytes: &[u8]) -> Option<usize> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    core::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()
}

fn behind<'a>(bytes: &'a [u8], what: &[u8]) -> Option<&'a [u8]> {
    let at = bytes.windows(what.len()).position(|part| part.eq_ignore_ascii_case(what))?;
    Some(&bytes[at + what.len()..])
}

impl Asked {
    fn read(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? {
            1 => Self::fastcgi(bytes),
            0 => {
                let end = 4 + usize::from(u16::from_le_bytes([*bytes.get(1)?, *bytes.get(2)?]));
                let head = bytes.get(4..end)?.to_vec();
                let length = behind(&head, b"CONTENT_LENGTH").and_then(|rest| number(rest.get(2..)?)).unwrap_or(0);
                Self::with_body(Speaks::Uwsgi, head, bytes, (end, length))
            }
            b'0'..=b'9' => {
                let length = number(bytes)?;
                let start = bytes.iter().position(|byte| *byte == b':')? + 1;
                let head = bytes.get(start..start + length)?.to_vec();
                let body = behind(&head, b"CONTENT_LENGTH\0").and_then(number).unwrap_or(0);
                Self::with_body(Speaks::Scgi, head, bytes, (start + length + 1, body))
            }
            _ => {
                let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
                let head = bytes[..end].to_vec();
                if behind(&head, b"transfer-encoding: chunked").is_some() {
                    let (body, length) = super::cases::unchunk(&bytes[end..])?;
                    return Some(Self { speaks: Speaks::Http, head, body, length: end + length });
                }
                let length = behind(&head, b"content-length: ").and_then(number).unwrap_or(0);
                Self::with_body(Speaks::Http, head, bytes, (end, length))
            }
        }
    }

    fn with_body(speaks: Speaks, head: Vec<u8>, bytes: &[u8], (end, length): (usize, usize)) -> Option<Self> {
        let body = bytes.get(end..end + length)?.to_vec();
        Some(Self { speaks, head, body, length: end + length })
    }

    fn fastcgi(bytes: &[u8]) -> Option<Self> {
        let (mut head, mut body, mut at) = (Vec::new(), Vec::new(), 0);
        loop {
            let record = bytes.get(at..at + 8)?;
            let length = usize::from(u16::from_be_bytes([record[4], record[5]]));
            let content = bytes.get(at + 8..at + 8 + length)?;
            let padding = usize::from(record[6]);
            bytes.get(at + 8 + length + padding.max(1) - 1..)?;
            at += 8 + length + padding;
            match record[1] {
                4 => head.extend_from_slice(content),
                5 if length == 0 => return Some(Self { speaks: Speaks::FastCgi, head, body, length: at }),
                5 => body.extend_from_slice(content),
                _ => {}
            }
        }
    }

    /// What is asked for.
    fn name(&self) -> String {
        let rest = behind(&self.head, b"/o/").unwrap_or_default();
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric();
        rest.iter().copied().take_while(|byte| is_name(byte)).map(char::from).collect()
    }

    fn range(&self) -> Option<(usize, usize)> {
        let rest = behind(&self.head, b"range: bytes=")?;
        let from = number(rest)?;
        let to = number(behind(rest, b"-")?)?;
        Some((from, to + 1))
    }

    /// The answer, and whether the connection ends with it.
    fn answer(&self) -> (Vec<u8>, bool) {
        let name = self.name();
        let body = match name.as_str() {
            "small" | "cut" => text(40),
            "echo" => self.body.clone(),
            _ => text(text_length()),
        };
        if self.speaks != Speaks::Http {
            return self.program_s_answer(&body);
        }
        let whole = |status: &str, fields: &str, body: &[u8]| {
            let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\n{fields}\r\n");
            [head.as_bytes(), body].concat()
        };
        let length = format!("Content-Length: {}\r\n", body.len());
        match name.as_str() {
            "close" => (whole("200 OK", "Connection: close\r\n", &body), true),
            "chunks" => {
                let chunks = body
                    .chunks(10_000)
                    .map(|piece| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
                let mut all = whole("200 OK", "Transfer-Encoding: chunked\r\n", b"");
                all.extend(chunks.flatten());
                all.extend_from_slice(b"0\r\n\r\n");
                (all, false)
            }
            "gz" | "halfgz" => {
                let body = packed(gzipped_length());
                let fields = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", body.len());
                (whole("200 OK", &fields, &body), false)
            }
            // What HEAD is answered with, whatever was asked.
            "head" => (whole("200 OK", "Content-Length: 1000\r\n", b""), false),
            "headchunked" => (whole("200 OK", "Transfer-Encoding: chunked\r\n", b""), false),
            "304" => (whole("304 Not Modified", "Content-Length: 1000\r\n", b""), false),
            "204" => (whole("204 No Content", "", b""), false),
            "empty" => (whole("200 OK", "Content-Length: 0\r\n", b""), false),
            "cut" => (whole("200 OK", "Content-Length: 1000\r\n", &body), true),
            "500" => (whole("500 Internal Server Error", "Content-Length: 3\r\n", b"500"), false),
            _ => match self.range().filter(|(from, _)| *from < body.len()) {
                Some((from, to)) => {
                    let to = to.min(body.len());
                    let fields = format!(
                        "Content-Range: bytes {from}-{}/{}\r\nContent-Length: {}\r\n",
                        to - 1,
                        body.len(),
                        to - from
                    );
                    (whole("206 Partial Content", &fields, &body[from..to]), false)
                }
                None => (whole("200 OK", &length, &body), false),
            },
        }
    }

    /// How much of an answer comes, where the rest never does.
    fn part(&self, whole: usize) -> Option<usize> {
        match self.name().as_str() {
            "start" => Some(10),
            "half" | "halfgz" => Some(whole / 2),
            "lack" => Some(whole - 1),
            _ => None,
        }
    }

    fn program_s_answer(&self, body: &[u8]) -> (Vec<u8>, bool) {
        let all = [&b"Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n"[..], body].concat();
        match self.speaks {
            Speaks::FastCgi => {
                let mut out = Vec::new();
                let mut record = |kind: u8, content: &[u8]| {
                    let length = (content.len() as u16).to_be_bytes();
                    out.extend_from_slice(&[1, kind, 0, 1, length[0], length[1], 0, 0]);
                    out.extend_from_slice(content);
                };
                all.chunks(30_000).for_each(|piece| record(6, piece));
                record(6, b"");
                record(3, &[0; 8]);
                (out, true)
            }
            Speaks::Uwsgi => ([&b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"[..], body].concat(), true),
            Speaks::Scgi | Speaks::Http => (all, true),
        }
    }
}

impl Origin {
    /// How much came through a tunnel is told once it is over.
    fn tell_tally<N: Net>(&mut self, net: &mut N) {
        let is_there = self.links.values().any(|link| link.swallows.is_some());
        let Some(id) = self.tally.take_if(|_| !is_there) else { return };
        let told = self.swallowed.to_string();
        net.send_bytes(id, format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{told}", told.len()).as_bytes());
    }

    fn go_on<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.is_over {
            link.arrived.clear();
            return;
        }
        if let Some(left) = &mut link.echoes {
            let back = core::mem::take(&mut link.arrived);
            net.send_bytes(id, &back);
            *left = left.saturating_sub(back.len());
            if *left == 0 {
                link.is_over = true;
                net.finish(id);
            }
            return;
        }
        while let Some(asked) = Asked::read(&link.arrived) {
            link.arrived.drain(..asked.length);
            *self.asked.entry(asked.name()).or_default() += 1;
            match asked.name().as_str() {
                "never" => return,
                "upgrade" => {
                    net.send_bytes(id, UPGRADED);
                    link.echoes = Some(super::cases::ECHOED);
                    return;
                }
                name @ ("swallow" | "late" | "snail" | "slug") => {
                    link.swallows = Some(0);
                    (link.pauses, link.upgrades) = (true, name == "late");
                    if name != "late" {
                        net.send_bytes(id, UPGRADED);
                    }
                    link.pause = if name == "slug" { DOZE } else { PAUSE };
                    link.naps_at = (name == "snail").then_some(NAPS_AT);
                    net.set_timer(id, Some(net.now() + link.pause));
                    return;
                }
                name @ ("wall" | "flood" | "chat") => {
                    net.send_bytes(id, UPGRADED);
                    (link.deaf, link.chats) = (name != "flood", name == "chat");
                    match name {
                        "flood" => net.send_bytes(id, &text(super::cases::ECHOED)),
                        "chat" => net.set_timer(id, Some(net.now() + CHAT)),
                        _ => {}
                    }
                    link.swallows = (name == "flood").then_some(0);
                    return;
                }
                "tally" => {
                    self.tally = Some(id);
                    return self.tell_tally(net);
                }
                _ => {}
            }
            let (mut answer, ends) = asked.answer();
            if let Some(part) = asked.part(answer.len()) {
                // The rest never comes.
                answer.truncate(part);
                net.send_bytes(id, &answer);
                link.is_over = true;
                return;
            }
            net.send_bytes(id, &answer);
            if ends {
                link.is_over = true;
                return net.finish(id);
            }
        }
    }
}

impl App for Origin {
    fn on_open<N: Net>(&mut self, _net: &mut N, id: ConnId, _how: Opened) {
        self.links.insert(id, Link::default());
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let Some(link) = self.links.get_mut(&id) else { return data.len() };
        link.deaf |= data.windows(DEAF.len()).take(400).any(|some| some == DEAF);
        if link.deaf {
            return 0;
        }
        if let Some(swallowed) = &mut link.swallows {
            let taken = if link.pauses { 0 } else { data.len().min(MOUTHFUL) };
            *swallowed += taken;
            if taken > 0 {
                link.pauses = true;
                let nap = link.naps_at.take_if(|at| *swallowed >= *at).map_or(link.pause, |_| NAP);
                net.set_timer(id, Some(net.now() + nap));
            }
            if link.ends && taken == data.len() {
                net.finish(id);
            }
            return taken;
        }
        link.arrived.extend_from_slice(data);
        self.go_on(net, id);
        data.len()
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        match self.links.get_mut(&id) {
            // It is taken first.
            Some(link) if held > 0 && link.swallows.is_some() => link.ends = true,
            _ => net.finish(id),
        }
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.pauses = false;
        if link.chats {
            net.send_bytes(id, b"x");
            net.set_timer(id, Some(net.now() + CHAT));
        }
        if core::mem::take(&mut link.upgrades) {
            net.send_bytes(id, UPGRADED);
        }
        net.resume(id);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, _why: Closed) {
        let gone = self.links.remove(&id);
        if let Some(swallowed) = gone.and_then(|link| link.swallows) {
            self.swallowed = swallowed;
            self.tell_tally(net);
        }
    }
}
