//! Requests that are written anew and answers that are read, where the plan
//! asks for it: templates, checks, cookies, redirects. Other plans send bytes
//! that were written once, and count those that come.
//!
//! A request that is led on by redirects stays one request: it is sent once,
//! and answered by what does not lead on. Its time is that of the whole way.

mod reading;
mod writing;

use crate::checks::Check;
use crate::cookies::Jar;
use crate::plan::Plan;
use crate::template::{Fill, Filler};
use app::ConnId;
use core::time::Duration;
use pcre::Matcher;
use semantics::Method;

use reading::Content;

/// Buffers for contents that are kept for the next.
const SPARE_LIMIT: usize = 64;

/// The largest of them, in bytes.
const SPARE_SIZE: usize = 64 << 10;

/// What is kept beside the table of connections.
#[derive(Debug)]
pub(crate) struct Dialogue {
    filler: Filler,
    /// Where the data path's clock stood at zero, since 1970.
    epoch: Duration,
    secured: bool,
    cookies: bool,
    follow: u8,
    talks: Vec<Talk>,
    /// Bytes of content that connections hold at present.
    held: usize,
    spare: Vec<Vec<u8>>,
    matcher: Option<Matcher>,
    out: Vec<u8>,
    body: Vec<u8>,
    /// Whether something was wrong with the answer at hand.
    pub wrong: bool,
}

/// What is kept of one connection.
#[derive(Debug, Default)]
struct Talk {
    generation: u32,
    /// Redirects that the request at hand followed.
    hops: u8,
    /// The method of the last of them.
    method: Option<Method>,
    /// What stands in the templates of the request at hand.
    fill: Fill,
    /// The target that was asked for last, where cookies or redirects go by it.
    target: Vec<u8>,
    jar: Jar,
    answer: Answer,
}

/// Of the answer at hand.
#[derive(Debug, Default)]
struct Answer {
    status: u16,
    keep_alive: bool,
    /// Checks of fields that failed, by their places.
    wrong_fields: u32,
    location: Option<Vec<u8>>,
    content: Content,
}

const _: () = assert!(crate::checks::CHECKS_LIMIT <= u32::BITS as usize, "each check has its bit");

impl Dialogue {
    /// What a plan needs of it, if anything.
    pub fn new(plan: &Plan) -> Option<Box<Self>> {
        let scripts = plan.requests.iter().any(|request| request.item.script.is_some());
        let checks: Vec<&[Check]> = plan.requests.iter().map(|request| plan.checks_of(&request.item)).collect();
        let reads = checks.iter().any(|checks| !checks.is_empty());
        if !scripts && !reads && !plan.cookies && plan.follow == 0 {
            return None;
        }
        let matches = checks.iter().any(|checks| checks.iter().any(|check| matches!(check, Check::Matches(_))));
        Some(Box::new(Self {
            filler: Filler::new(plan.source.clone(), plan.seed, plan.lane),
            epoch: plan.source.epoch,
            secured: plan.secured.is_some(),
            cookies: plan.cookies,
            follow: plan.follow,
            talks: Vec::new(),
            held: 0,
            spare: Vec::new(),
            matcher: if matches { Matcher::new() } else { None },
            out: Vec::new(),
            body: Vec::new(),
            wrong: false,
        }))
    }

    /// A connection is gone, and what was kept of it.
    pub fn forget(&mut self, id: ConnId) {
        if self.talks.get(id.index()).is_some_and(|talk| talk.generation == id.generation()) {
            self.release(id);
            self.talks[id.index()] = Talk::default();
        }
    }

    /// What is kept of a connection, which may be new.
    fn talk(&mut self, id: ConnId) -> &mut Talk {
        // Slots are dense, and as many as the plan has connections.
        if id.index() >= self.talks.len() {
            self.talks.resize_with(id.index() + 1, Talk::default);
        }
        if self.talks[id.index()].generation != id.generation() {
            self.release(id);
            self.talks[id.index()] = Talk { generation: id.generation(), ..Talk::default() };
        }
        &mut self.talks[id.index()]
    }

    fn seconds(&self, now: wire::Time) -> i64 {
        let since = self.epoch + Duration::from_nanos(now.as_nanos());
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }
}
