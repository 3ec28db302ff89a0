//! What variables stand for that tell of upstreams.

use super::scope::Scope;
use asking::AskTry;
use configuration::variables::UpstreamValue;
use core::time::Duration;
use formats::written::put_joined;
use semantics::Fields;

impl Scope<'_> {
    /// A variable of the servers that were asked: one part for each.
    pub(super) fn of_upstream(&mut self, value: &UpstreamValue, out: &mut Vec<u8>) -> bool {
        match value {
            UpstreamValue::Field(name) => return self.upstream_field(name, out),
            UpstreamValue::Cookie(name) => return self.upstream_cookie(name, out),
            UpstreamValue::Trailer(name) => {
                let fields = Fields::new(&self.state.sent.upstream_trailers);
                return put_joined(fields.map(|field| (field.name, field.value)), name, b", ", out);
            }
            _ => {}
        }
        let tries = self.state.passed.tries();
        if tries.is_empty() {
            return false;
        }
        let mut before: Option<&AskTry> = None;
        for one in tries {
            if let Some(before) = before {
                // Those of one pass stand apart from those of the next.
                let apart = one.peer.is_none() || before.peer.is_none();
                if one.peer.is_some() {
                    out.extend_from_slice(if apart { b" : " } else { b", " });
                }
            }
            before = Some(one);
            if one.peer.is_some() {
                write_one(value, one, out);
            }
        }
        true
    }

    fn upstream_field(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let fields = Fields::new(&self.state.passed.answered);
        put_joined(fields.map(|field| (field.name, field.value)), name, b", ", out)
    }

    fn upstream_cookie(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        for field in Fields::new(&self.state.passed.answered).filter(|field| field.is("set-cookie")) {
            let Some((known, rest)) = field.value.split_at_checked(name.len()) else { continue };
            if let (true, Some(value)) = (known.eq_ignore_ascii_case(name), rest.strip_prefix(b"=")) {
                let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
                out.extend_from_slice(&value[..end]);
                return true;
            }
        }
        false
    }
}

fn write_one(value: &UpstreamValue, one: &AskTry, out: &mut Vec<u8>) {
    let time = |span: Option<Duration>| match span {
        Some(span) => format!("{}.{:03}", span.as_secs(), span.subsec_millis()),
        None => "-".to_owned(),
    };
    let text = match value {
        UpstreamValue::Address => return out.extend_from_slice(one.peer.as_deref().unwrap_or_default()),
        UpstreamValue::Status if one.status == 0 => "-".to_owned(),
        UpstreamValue::Status => one.status.to_string(),
        UpstreamValue::ConnectTime => time(one.connect),
        UpstreamValue::HeaderTime => time(one.header),
        UpstreamValue::ResponseTime => time(one.response),
        UpstreamValue::ResponseLength => one.length.to_string(),
        UpstreamValue::BytesReceived => one.received.to_string(),
        UpstreamValue::BytesSent => one.sent.to_string(),
        UpstreamValue::Field(_) | UpstreamValue::Cookie(_) | UpstreamValue::Trailer(_) => return,
    };
    out.extend_from_slice(text.as_bytes());
}
