//! Field sections of answers: heads, interim and final, and what follows a body (RFC 9113 section 8.1).

use super::{Memory, UpstreamConnection, UpstreamFault, UpstreamTold};
use crate::error::ErrorCode;
use crate::flood::Flood;
use core::ops::ControlFlow;
use hpack::HeaderField;
use semantics::scan::is_lower_token;
use std::borrow::Cow;

/// What is known of a section as its fields come.
struct SectionReader<'a> {
    lines: &'a mut Vec<u8>,
    status: Option<u16>,
    length: Option<u64>,
    fields: u16,
    limits: (u32, u16),
    is_trailers: bool,
    fault: Option<Cow<'static, str>>,
}

impl SectionReader<'_> {
    fn field(&mut self, field: HeaderField<'_>) -> ControlFlow<()> {
        self.fault = self.take(field.name, field.value).err();
        if self.fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), Cow<'static, str>> {
        if name.first() == Some(&b':') {
            return self.pseudo(name, value);
        }
        self.fields += 1;
        let bytes = self.lines.len() + name.len() + value.len() + 4;
        if bytes > self.limits.0 as usize || self.fields > self.limits.1 {
            return Err(if self.is_trailers {
                "upstream sent too big trailers"
            } else {
                "upstream sent too big header"
            }
            .into());
        }
        if !is_lower_token(name) || value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
            return Err(shown("upstream sent invalid header: ", name, value));
        }
        if name == b"content-length" && !self.is_trailers {
            let length = number(value).filter(|length| self.length.is_none_or(|known| known == *length));
            if length.is_none() {
                return Err(shown("upstream sent invalid \"Content-Length\" header: ", name, value));
            }
            self.length = length;
        }
        [name, b": ", value, b"\r\n"].iter().for_each(|part| self.lines.extend_from_slice(part));
        Ok(())
    }

    /// One, before all others, of three digits (RFC 9113 sections 8.3 and 8.3.2), and of a class that there is
    /// (RFC 9110 section 15).
    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), Cow<'static, str>> {
        if self.is_trailers {
            return Err(shown("upstream sent invalid trailer ", name, value));
        }
        if name != b":status" || self.fields > 0 {
            return Err(shown("upstream sent invalid header ", name, value));
        }
        if self.status.is_some() {
            return Err("upstream sent duplicate :status header".into());
        }
        let code = number(value).filter(|_| value.len() == 3).and_then(|code| u16::try_from(code).ok());
        let text = String::from_utf8_lossy(value);
        match code {
            Some(code @ (100 | 102..=599)) => self.status = Some(code),
            Some(101) => return Err(format!("upstream sent unexpected :status \"{text}\"").into()),
            _ => return Err(format!("upstream sent invalid :status \"{text}\"").into()),
        }
        Ok(())
    }
}

/// A field in words.
fn shown(before: &str, name: &[u8], value: &[u8]) -> Cow<'static, str> {
    let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
    format!("{before}\"{name}: {value}\"").into()
}

/// Digits alone.
fn number(digits: &[u8]) -> Option<u64> {
    semantics::number::parse(digits)
}

impl<T: Copy> UpstreamConnection<T> {
    /// A section is complete. The table has to follow, whoever wants its fields.
    pub(super) fn on_block<'a>(
        &mut self,
        number: u32,
        block: &[u8],
        ends: bool,
        memory: Memory<'a>,
        out: &mut Vec<u8>,
    ) -> Result<UpstreamTold<'a, T>, UpstreamFault> {
        if block.first().is_some_and(|first| first & 0xe0 == 0x20) {
            self.budgets.spend(Flood::Table)?;
        }
        let asked = self.streams.get(&number);
        let (is_trailers, head_max) = asked.map_or((false, 0), |asked| (asked.status >= 200, asked.head_max));
        let lines = &mut memory.parts.lines;
        lines.clear();
        let limits = (head_max, self.settings.fields);
        let mut reader =
            SectionReader { lines, status: None, length: None, fields: 0, limits, is_trailers, fault: None };
        let wanted = asked.is_some();
        let decoded = self.decoder.decode(block, &mut memory.scratch, |field| match wanted {
            true => reader.field(field),
            false => ControlFlow::Break(()),
        });
        let SectionReader { status, length, fault, .. } = reader;
        decoded.map_err(|why| UpstreamFault::new(ErrorCode::COMPRESSION_ERROR, undecodable(why)))?;
        let Some(stream) = self.streams.get_mut(&number) else {
            self.budgets.spend(Flood::Empty)?;
            return Ok(UpstreamTold::Nothing);
        };
        let fault = match (fault, status) {
            (None, None) if !is_trailers => Some("upstream sent no :status header".into()),
            (None, _) if is_trailers && !ends => Some("upstream sent trailer without end stream flag".into()),
            (None, _) if stream.remote_ended => Some(format!("upstream sent frame for closed stream {number}").into()),
            (None, Some(..200)) if ends => Some("upstream prematurely closed stream".into()),
            (fault, _) => fault,
        };
        if let Some(told) = fault {
            return self.fail(number, ErrorCode::PROTOCOL_ERROR, told, out);
        }
        let data = stream.data;
        if is_trailers {
            if stream.left.is_some_and(|left| left > 0) {
                return self.fail(number, ErrorCode::PROTOCOL_ERROR, "upstream prematurely closed stream".into(), out);
            }
            self.end_remote(number);
            return Ok(UpstreamTold::Trailers { data, lines: &memory.parts.lines });
        }
        let status = status.unwrap_or_default();
        if status < 200 {
            // Their fields have no other bound.
            self.budgets.spend(Flood::Interim)?;
            let lines = &memory.parts.lines;
            return Ok(UpstreamTold::Head { data, stream: number, status, lines, length: None, ends: false });
        }
        // Such answers have the length that another would have (RFC 9110 section 8.6).
        let is_bodiless = stream.is_head || status == 204 || status == 304;
        let left = if is_bodiless { Some(0) } else { length };
        if ends && left.is_some_and(|left| left > 0) {
            return self.fail(number, ErrorCode::PROTOCOL_ERROR, "upstream prematurely closed stream".into(), out);
        }
        (stream.status, stream.left) = (status, left);
        self.budgets.earn();
        if ends {
            self.end_remote(number);
        }
        let lines = &memory.parts.lines;
        Ok(UpstreamTold::Head { data, stream: number, status, lines, length: left, ends })
    }
}

/// What is wrong with a block, in nginx's words.
fn undecodable(why: hpack::Error) -> &'static str {
    match why {
        hpack::Error::IndexZero | hpack::Error::IndexBeyondTable => "upstream sent invalid http2 table index",
        hpack::Error::UpdateTooLarge | hpack::Error::UpdateMisplaced | hpack::Error::UpdateMissing => {
            "upstream sent invalid http2 dynamic table size update"
        }
        hpack::Error::Truncated => "upstream sent truncated http2 header",
        _ => "upstream sent invalid encoded header",
    }
}
