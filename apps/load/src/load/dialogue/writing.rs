//! Requests, written anew.

use super::{Dialogue, Talk};
use crate::cookies::Asked;
use crate::load::Load;
use crate::plan::Request;
use crate::template::is_of_content;
use app::{ConnId, Net};
use h1::client::RequestHead;
use semantics::Method;
use wire::Time;

/// How a request that was led on differs from the first.
struct Led<'a> {
    target: Vec<u8>,
    method: &'a str,
}

impl Load {
    /// Sends request `number` of the plan on a connection, as the `last` on it or not. Answers its
    /// length.
    #[inline]
    pub(in crate::load) fn send<N: Net>(&mut self, net: &mut N, id: ConnId, number: u16, last: bool) -> u32 {
        let Some(dialogue) = &mut self.dialogue else { return self.mix.send(net, id, number, last) };
        let request = &self.plan.requests[usize::from(number)].item;
        if !dialogue.begin(request, id, net.now()) {
            return self.mix.send(net, id, number, last);
        }
        let close = self.plan.reuse.server_closes() && (last || self.plan.reuse.per_connection() == Some(1));
        dialogue.write(request, id, None, close, net.now());
        net.send_bytes(id, &dialogue.out);
        // A request is bounded.
        dialogue.out.len() as u32
    }

    /// Sends the oldest request of a connection on to `target`.
    pub(super) fn send_on<N: Net>(&mut self, net: &mut N, id: ConnId, target: Vec<u8>, status: u16) {
        let number = self.table.oldest_kind(id);
        let Some(dialogue) = &mut self.dialogue else { return };
        let request = &self.plan.requests[usize::from(number)].item;
        self.counts.traffic.sent_bytes += dialogue.send_on(net, id, request, (target, status)) as u64;
    }
}

/// RFC 9110 section 15.4: 303 has the answer fetched; behind 301 and 302 clients do so where they had sent
/// content.
fn led_method(method: &str, status: u16) -> &str {
    match (status, method) {
        (_, "HEAD") => "HEAD",
        (303, _) | (301 | 302, "POST") => "GET",
        _ => method,
    }
}

impl Dialogue {
    /// Sends a request on to where the answer at hand, of this status, leads. How many bytes that were.
    pub(crate) fn send_on<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        request: &Request,
        (target, status): (Vec<u8>, u16),
    ) -> usize {
        let method = led_method(&request.method, status);
        let talk = self.talk(id);
        talk.hops += 1;
        talk.method = Some(Method::from_name(method.as_bytes()));
        self.write(request, id, Some(Led { target, method }), false, net.now());
        net.send_bytes(id, &self.out);
        self.out.len()
    }

    /// A request is to be sent. Answers whether it has to be written: it has words to fill in, or
    /// carries cookies.
    pub(crate) fn begin(&mut self, request: &Request, id: ConnId, now: Time) -> bool {
        let keeps = self.cookies || self.follow > 0;
        let fill = request.script.as_ref().map(|_| self.filler.begin(now));
        let talk = self.talk(id);
        (talk.hops, talk.method) = (0, None);
        if let Some(fill) = fill {
            talk.fill = fill;
        } else if keeps {
            talk.target.clear();
            talk.target.extend_from_slice(request.path.as_bytes());
        }
        fill.is_some() || !talk.jar.is_empty()
    }

    /// Writes a request, or where it was led on to, for a connection.
    fn write(&mut self, request: &Request, id: ConnId, led: Option<Led<'_>>, close: bool, now: Time) {
        let now = self.seconds(now);
        let keeps = self.cookies || self.follow > 0;
        let Self { filler, talks, out, body, .. } = self;
        let Some(Talk { fill, target, jar, .. }) = talks.get_mut(id.index()) else { return };
        out.clear();
        body.clear();
        let method = led.as_ref().map_or(&*request.method, |led| led.method);
        // What was fetched by another method has no content.
        let carries = method == request.method;
        match (led, &request.script) {
            (Some(led), _) => *target = led.target,
            (None, Some(script)) => {
                target.clear();
                filler.path(script, fill, target);
            }
            // It stands there already.
            (None, None) if keeps => {}
            (None, None) => {
                target.clear();
                target.extend_from_slice(request.path.as_bytes());
            }
        }
        let head = RequestHead::new(out, method, target, request.host.as_bytes());
        if let Some(script) = &request.script {
            filler.fields(script, fill, carries, out);
            if carries {
                filler.body(script, fill, body);
            }
        } else {
            let kept = |name: &str| carries || !is_of_content(name);
            let fields = request.headers.iter().filter(|(name, _)| kept(name));
            // Cookies, and how long it is, stand behind.
            let _ = fields.fold(head, |head, (name, value)| head.field(name, value.as_bytes()));
            if carries {
                body.extend_from_slice(&request.body);
            }
        }
        if !jar.is_empty() {
            put_cookies(jar, &Asked { host: &request.host, path: target, secured: self.secured, now }, out);
        }
        if close {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        if !body.is_empty() {
            // Writing to memory does not fail.
            let _ = std::io::Write::write_fmt(out, format_args!("Content-Length: {}\r\n", body.len()));
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
    }
}

/// A Cookie field, if any cookie is for this request.
fn put_cookies(jar: &crate::cookies::Jar, asked: &Asked<'_>, out: &mut Vec<u8>) {
    const NAME: &[u8] = b"Cookie: ";
    let start = out.len();
    out.extend_from_slice(NAME);
    jar.write(asked, out);
    if out.len() == start + NAME.len() {
        out.truncate(start);
    } else {
        out.extend_from_slice(b"\r\n");
    }
}
