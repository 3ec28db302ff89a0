//! Answers get their fields, and are sent.

use super::answer::{Answer, AnswerBody};
use super::filtered_body::Making;
use super::put::{Pieces, count_lines, take_line, take_lines};
use super::request_state::Depends;
use super::runner::{Flow, Runner};
use configuration::program::{AddedField, Block};
use exchange::{FieldLines, Part};
use features::expires::{Ages, AnswerAge, Expires, Expiry};
use filters::Filter;
use formats::ranges;
use formats::ranges::Ranged;
use formats::text::{location_value, put_field};
use semantics::date::HttpDate;
use semantics::{Method, date};
use std::rc::Rc;

/// The methods of redirects within the server, by an error page.
pub(super) const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// Where content changes, lines of the upstream go; the site's stay.
pub(super) const ACCEPT_RANGES: &[u8] = b"Accept-Ranges: ";

/// Statuses that fields are added to, unless they are for all.
const ADDED_TO: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

impl Runner<'_> {
    /// What answers a redirect in its place leads where that led.
    fn lead_on(&mut self, answer: &mut Answer) {
        if let Some(location) = self.state.sent.location.take().filter(|_| REDIRECTS.contains(&answer.status)) {
            answer.location.get_or_insert(location);
        }
    }

    /// Sends an answer, but for a request whose body is seen to be none.
    pub(super) fn send(&mut self, answer: Answer) -> Flow {
        if !answer.of_upstream && self.is_body_malformed() {
            return self.refuse_body();
        }
        self.send_on(answer)
    }

    /// Sends an answer: it passes what nginx's filters do, in their order.
    pub(super) fn send_on(&mut self, mut answer: Answer) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.state.route.block) else { return Flow::HangUp };
        if let Some(told) = self.state.reply.override_status {
            answer.status = told;
            // The type is of content that is not sent (`error_page 404 =204 @there`).
            answer.media_type.take_if(|_| told == 204 && answer.of_upstream);
        }
        self.lead_on(&mut answer);
        // `default_type ""`: there is none.
        answer.media_type.take_if(|media_type| media_type.is_empty());
        if let Some(flow) = self.sort_out_slices(&answer) {
            return flow;
        }
        if answer.status == 200
            && !answer.of_upstream
            && let Some(flow) = self.heed_conditions(&mut answer, block)
        {
            return flow;
        }
        self.state.sent.status = answer.status;
        if let Some(series) = loaded.series(self.rest.board.as_ref(), self.state.route.server, self.state.route.place) {
            self.state.settings.series = Some(series);
            self.replies.set(self.state.id, &self.state.settings);
        }
        let mut added = core::mem::take(&mut self.state.reply.kept_fields);
        self.tell_beforehand(&answer, block);
        let of_ranges = if answer.of_upstream { count_lines(&added, ACCEPT_RANGES) } else { 0 };
        if self.state.within.sub.is_none() {
            self.add_fields(&mut answer, block, &mut added);
        }
        let mut making = making_of(&answer);
        if block.filters.any() || self.state.passed.kept.charset.is_some() {
            self.filter(&mut answer, block, &added, &mut making);
        } else if let Some(media_type) = answer.media_type.take() {
            answer.media_type = Some(self.scope().with_charset(media_type, block, answer.status));
        }
        answer.vary |= self.encode(&mut answer, block, &added, &mut making);
        take_lines(&mut added, ACCEPT_RANGES, if answer.is_unranged { of_ranges } else { 0 });
        making.is_open |= matches!(answer.body, AnswerBody::Unknown | AnswerBody::Upstream(None));
        let mut fields = self.first_fields();
        let whole = answer.body.length();
        let Some((length, pieces)) = self.cut(&mut answer, block, &mut fields, &mut making) else {
            self.spare(making);
            self.state.sent.front = fields.into_bytes();
            return self.unsatisfied(added, whole, answer.vary);
        };
        self.state.sent.status = answer.status;
        self.name(&answer, block, &mut fields);
        if let Some(media_type) = answer.media_type.take_if(|_| answer.of_upstream && answer.status == 200) {
            self.rest.spare.give_bytes(media_type);
        }
        self.keep_alive(block, &mut fields);
        let mut fields = fields.into_bytes();
        fields.append(&mut added);
        self.state.reply.kept_fields = added; // Their memory, for others.
        let bodiless = matches!(answer.status, 204 | 304);
        if bodiless || self.is_head_only() {
            let length = (!bodiless && !making.is_open).then_some(length);
            self.spare(making);
            return self.put_head(&answer, length, fields);
        }
        if making.is_needed()
            || matches!(pieces, Pieces::Upstream)
            || block.fields.trailers.iter().any(|field| field.always || is_added_to(answer.status))
        {
            return self.put_made((answer.status, Some(length), fields), pieces, making);
        }
        self.put((answer.status, Some(length), fields), pieces)
    }

    /// An answer's fields begin with those that stand before all others.
    pub(super) fn first_fields(&mut self) -> FieldLines {
        let mut fields = FieldLines::over(core::mem::take(&mut self.state.sent.fields));
        fields.lines(&self.state.sent.front);
        self.state.sent.front.clear();
        fields
    }

    /// There are no such ranges of so many bytes. What was `added` already stays, as with
    /// nginx, but for what names the content; and what the upstream says of itself.
    fn unsatisfied(&mut self, mut added: Vec<u8>, whole: u64, vary: bool) -> Flow {
        [&b"ETag: "[..], b"Last-Modified: ", ACCEPT_RANGES].into_iter().for_each(|start| take_line(&mut added, start));
        let mut lines = FieldLines::of(added);
        lines.content_range_unsatisfied(whole);
        if vary {
            lines.field("Vary", b"Accept-Encoding");
        }
        self.state.reply.kept_fields = lines.into_bytes();
        Flow::Status(416)
    }

    /// Whether its client is told no content.
    fn is_head_only(&self) -> bool {
        self.state.method == Method::Head
            || self.state.within.sub.as_ref().is_some_and(|sub| sub.purpose.is_head_only())
    }

    /// Queues an answer without content.
    fn put_head(&mut self, answer: &Answer, length: Option<u64>, fields: Vec<u8>) -> Flow {
        let flow = self.put((answer.status, length, fields), Pieces::None);
        let asks = self.is_sub() && self.loaded.asks_for_sent;
        if let (204, true, Some(media_type)) = (answer.status, asks, &answer.media_type) {
            // Clients are not told of it, but this is none.
            put_field(b"Content-Type", media_type, &mut self.state.sent.fields);
        }
        flow
    }

    /// Cuts the ranges that are asked for out of an answer. Its length, and how
    /// it is sent; `None` if there are no such ranges.
    fn cut(
        &mut self,
        answer: &mut Answer,
        block: &Block,
        fields: &mut FieldLines,
        making: &mut Making,
    ) -> Option<(u64, Pieces)> {
        let mut length = answer.body.length();
        let mut pieces = match core::mem::replace(&mut answer.body, AnswerBody::None) {
            AnswerBody::None | AnswerBody::Unknown => Pieces::None,
            AnswerBody::Bytes(bytes) => Pieces::Bytes(bytes),
            AnswerBody::Memory(body) => Pieces::Memory(body),
            AnswerBody::File(file) if file.size == 0 => Pieces::None,
            AnswerBody::File(file) => Pieces::File(file, vec![Part::Content(0..file.size)]),
            AnswerBody::Excerpt(file, excerpt) => {
                let all = Part::Content(0..excerpt.length());
                Pieces::Excerpt(file, excerpt, vec![all])
            }
            AnswerBody::Upstream(_) => Pieces::Upstream,
            AnswerBody::Sliced(_, first) => return self.cut_slices(answer, block, fields, (length, first)),
        };
        if answer.status != 200
            || !answer.takes_ranges
            || matches!(pieces, Pieces::Upstream) && making.is_open
            || block.fields.max_ranges == Some(0)
        {
            return Some((length, pieces));
        }
        // Of what an upstream answered one range is given, as by nginx.
        let one_alone = answer.of_upstream || answer.takes_one_range;
        let most = if one_alone { Some(1) } else { block.fields.max_ranges };
        match self.ranges(answer, length, most) {
            Ranged::Whole => _ = fields.field("Accept-Ranges", b"bytes"),
            Ranged::Unsatisfiable => return None,
            Ranged::Parts(parts) => {
                answer.status = 206;
                let whole = length;
                let cut;
                if let (Pieces::Upstream, [range]) = (&pieces, parts.as_slice()) {
                    // It is cut out of what comes.
                    fields.content_range(range, whole);
                    length = range.end - range.start;
                    making.pipeline.push(Filter::Part { before: range.start, left: length });
                    return Some((length, pieces));
                }
                if let [range] = parts.as_slice() {
                    fields.content_range(range, whole);
                    length = range.end - range.start;
                    cut = vec![Part::Content(range.clone())];
                } else {
                    let serial = self.rest.next_serial();
                    (cut, length) = ranges::multipart(&parts, answer.media_type.as_deref(), whole, serial);
                    let media_type = format!("multipart/byteranges; boundary={serial:020}");
                    answer.media_type = Some(media_type.into_bytes());
                }
                pieces = pieces.cut(cut);
            }
        }
        Some((length, pieces))
    }

    /// Writes the fields that say what an answer is.
    pub(super) fn name(&mut self, answer: &Answer, block: &Block, fields: &mut FieldLines) {
        // Without content there is no type, but for what others say.
        if let Some(media_type) = answer.media_type.as_ref().filter(|_| answer.status != 204 || answer.of_upstream) {
            fields.field("Content-Type", media_type);
        }
        // What an upstream or the site says of an answer stands with any status.
        if let Some(text) = &answer.modified_text {
            fields.field("Last-Modified", text);
        } else if let Some(modified) =
            answer.modified.filter(|_| answer.of_upstream || matches!(answer.status, 200 | 206 | 304))
        {
            fields.last_modified(&HttpDate::from_unix(modified));
        }
        if let Some(location) = &answer.location {
            let mut value = Vec::new();
            self.write_location(location, block, &mut value);
            fields.field("Location", &value);
        }
        if let Some(etag) = &answer.etag {
            fields.field("ETag", etag.as_bytes());
        }
        if let Some(coding) = answer.coding.filter(|_| answer.status != 304) {
            fields.field("Content-Encoding", coding.token());
        }
        if answer.vary {
            fields.field("Vary", b"Accept-Encoding");
        }
    }

    /// What is known of an answer's fields before the configuration adds others,
    /// which may be made of them: the charset is not.
    pub(super) fn tell_beforehand(&mut self, answer: &Answer, block: &Block) {
        if !self.loaded.asks_for_sent {
            return;
        }
        self.state.sent.length = Some(answer.body.length());
        let mut fields = FieldLines::over(core::mem::take(&mut self.state.sent.fields));
        if let Some(media_type) = answer.media_type.as_ref().filter(|_| answer.status == 204 && !answer.of_upstream) {
            fields.field("Content-Type", media_type);
        }
        self.name(answer, block, &mut fields);
        self.state.sent.fields = fields.into_bytes();
    }

    /// `expires` and `add_header`.
    #[inline(always)]
    pub(super) fn add_fields(&mut self, answer: &mut Answer, block: &Block, out: &mut Vec<u8>) {
        let safe = is_added_to(answer.status);
        // What an upstream or a challenge says is among what is told.
        let mut told = 0;
        if let Some(expires) = block.features.expires.as_deref().filter(|_| safe) {
            self.expire(answer, expires, out);
        }
        for field in block.fields.added.iter().filter(|field| safe || field.always) {
            if self.loaded.asks_for_sent {
                self.state.sent.fields.extend_from_slice(&out[told..]);
                told = out.len();
            }
            self.add_field(answer, field, out);
        }
    }

    fn add_field(&mut self, answer: &mut Answer, field: &AddedField, out: &mut Vec<u8>) {
        let value = self.scope().get(&field.value);
        let is = |name: &[u8]| field.name.eq_ignore_ascii_case(name);
        // These stand in place of what the answer has, and of such before them: where its
        // content becomes another they change with it.
        let told = if is(b"Last-Modified") {
            (answer.modified, answer.modified_text) = (date::parse_leniently(&value, self.rest.clock.second), None);
            answer.modified_text = Some(value).filter(|value| !value.is_empty());
            (&b"Last-Modified"[..], answer.modified_text.as_deref())
        } else if is(b"ETag") {
            take_line(out, b"ETag: ");
            match String::from_utf8(value) {
                Ok(value) => answer.etag = Some(value).filter(|value| !value.is_empty()),
                Err(value) => {
                    answer.etag = None;
                    put_field(b"ETag", value.as_bytes(), out);
                    return;
                }
            }
            (&b"ETag"[..], answer.etag.as_deref().map(str::as_bytes))
        } else {
            if !value.is_empty() {
                put_field(&field.name, &value, out);
            }
            return;
        };
        if self.loaded.asks_for_sent {
            let (name, value) = told;
            let fields = &mut self.state.sent.fields;
            take_line(fields, &[name, b": "].concat());
            if let Some(value) = value {
                put_field(name, value, fields);
            }
        }
    }

    /// `expires`: what it says stands in place of what an upstream says.
    fn expire(&mut self, answer: &Answer, expires: &Expires, out: &mut Vec<u8>) {
        let age =
            AnswerAge { modified: answer.modified, now: self.rest.clock.second, offset: self.rest.clock.there.offset };
        let Some(Expiry { at, cache_control, ages }) = expires.of(age, &mut self.scope()) else { return };
        match ages {
            Ages::With(after) => self.state.reuse.expires_after = Some(after),
            Ages::EachSecond => self.state.reuse.depends.on(Depends::SECOND),
            Ages::Never => {}
        }
        take_line(out, b"Expires: ");
        take_line(out, b"Cache-Control: ");
        out.extend_from_slice(b"Expires: ");
        out.extend_from_slice(at.as_bytes());
        out.extend_from_slice(b"\r\nCache-Control: ");
        out.extend_from_slice(cache_control.as_bytes());
        out.extend_from_slice(b"\r\n");
    }

    /// Where a redirect leads, with this server's name before it, if it is a path
    /// and settings say so.
    fn write_location(&mut self, location: &[u8], block: &Block, out: &mut Vec<u8>) {
        if location.first() == Some(&b'/') && block.redirects.absolute {
            self.state.reuse.depends.on(Depends::OTHER);
            out.extend_from_slice(self.state.scheme());
            out.extend_from_slice(b"://");
            let before = out.len();
            if block.redirects.server_name {
                if let Some(server) = self.server() {
                    out.extend_from_slice(&server.name);
                }
            } else {
                self.host(out);
            }
            let local = self.state.about.local.inet();
            if out.len() == before
                && let Some(local) = local
            {
                let text = match local.ip().to_canonical() {
                    core::net::IpAddr::V6(address) => format!("[{address}]"),
                    address => address.to_string(),
                };
                out.extend_from_slice(text.as_bytes());
            }
            if let Some(port) = local.map(|local| local.port()).filter(|port| {
                let usual = if self.state.is_secured() { 443 } else { 80 };
                block.redirects.port && *port != usual
            }) {
                out.extend_from_slice(format!(":{port}").as_bytes());
            }
        }
        location_value(location, out);
    }

    /// Whether the connection goes on after this, and for how long.
    fn keep_alive(&mut self, block: &Block, fields: &mut FieldLines) {
        self.set_terms();
        if block.connection.keepalive.is_zero() {
            self.set_last_by_terms();
        } else if let Some(told) = block.connection.keepalive_told.filter(|_| self.state.about.goes_on) {
            fields.field("Keep-Alive", format!("timeout={}", told.as_secs()).as_bytes());
        }
    }
}

/// Whether an answer with this status has fields that are not for all.
pub(super) fn is_added_to(status: u16) -> bool {
    ADDED_TO.contains(&status)
}

/// What an answer is made with at first.
fn making_of(answer: &Answer) -> Making {
    let mut making = Making::new();
    if matches!(answer.body, AnswerBody::Sliced(..)) {
        making.postponed.get_or_insert_default().slices = true;
    }
    making.is_open = matches!(answer.body, AnswerBody::Upstream(None));
    making
}
