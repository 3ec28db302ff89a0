//! Bodies of upstreams' answers that go to their clients by themselves.

use super::Rest;
use exchange::Replies;

/// What is shorter is passed on by way of this process: it takes fewer system calls.
const PASSED_FROM: u64 = if cfg!(test) { 6 << 10 } else { 128 << 10 };

/// The last bytes of such a body are seen here, and with them what an upstream says that
/// nobody asked for: unread, it would be taken for the answer to the next request on the
/// connection.
const SEEN_LAST: u64 = 4 << 10;

impl Rest {
    /// Where nothing looks at the rest of a body, and it is long, it goes to the client by
    /// itself from here on, if the data path can.
    pub(super) fn pass_on(&mut self, replies: &mut dyn Replies, token: u32) {
        let Some(course) = self.courses.get_mut(token as usize).and_then(Option::as_deref_mut) else { return };
        let (Some(relay), Some(filtering)) = (course.relay.as_deref_mut(), course.filtering.as_deref()) else { return };
        let (Some(link), Some(left)) = (relay.link, relay.reader.left()) else { return };
        // What is read at a rate is read here, and what a program sends is not yet what
        // clients read.
        let is_plain = relay.rate == 0 && relay.gateway.is_none();
        let is_next = is_plain && !relay.held && !relay.ended && left >= PASSED_FROM && filtering.passes_as_it_is(left);
        relay.passes = is_next && replies.pass_on(link, course.id, left - SEEN_LAST);
    }

    /// Bytes of a body went to the client by themselves.
    pub(super) fn take_passed(&mut self, replies: &mut dyn Replies, token: u32, bytes: u64) {
        let now = replies.now();
        let Some(course) = self.courses.get_mut(token as usize).and_then(Option::as_deref_mut) else { return };
        let (Some(relay), Some(filtering)) = (course.relay.as_deref_mut(), course.filtering.as_deref_mut()) else {
            return;
        };
        replies.note_passed(course.id, bytes);
        course.sent.body += bytes;
        filtering.told += bytes;
        if let Some(last) = course.tries.last_mut() {
            last.received += bytes;
            last.length += bytes;
        }
        relay.reader.skip(bytes);
        if let Some(link) = relay.link {
            replies.set_upstream_timer(link, Some(now + relay.rules.read));
        }
    }

    /// Whether bytes pass by themselves, and wait for the client: the upstream has its
    /// time anew then.
    pub(super) fn passes_slowly(&mut self, replies: &mut dyn Replies, token: u32) -> bool {
        let now = replies.now();
        let Some(course) = self.courses.get_mut(token as usize).and_then(Option::as_deref_mut) else { return false };
        let Some(relay) = course.relay.as_deref_mut().filter(|relay| relay.passes) else { return false };
        let waits = replies.flow(course.id).unsent > 0;
        if let Some(link) = relay.link.filter(|_| waits) {
            replies.set_upstream_timer(link, Some(now + relay.rules.read));
        }
        waits
    }
}
