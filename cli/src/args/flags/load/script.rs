//! Requests that are filled in, and answers that are looked at, as typed.

use clap::{Args, ValueEnum, ValueHint};
use load::{CHECKS_LIMIT, Check, FEED_LIMIT, FOLLOW_LIMIT, Feed, FeedOrder, Pattern, Plan, Source};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What differs from request to request.
#[derive(Args)]
#[command(next_help_heading = "Templates and sessions")]
pub(super) struct ScriptArgs {
    /// Fill words in double braces in: in paths, headers and bodies
    ///
    /// {{counter}}, {{counter:100}} (no two of a run have the same),
    /// {{random:1..1000}}, {{choice:red|green}}, {{uuid}}, {{csv:COLUMN}},
    /// {{time}} (seconds since 1970), {{time:ms}}, {{time:us}}, {{time:ns}};
    /// {{{{ is {{. Counter, row and time are the same all over one request.
    #[arg(long)]
    template: bool,

    /// With --template, which it implies: rows for {{csv:COLUMN}}, of a file with names in its first line (CSV)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    feed: Option<PathBuf>,

    /// Which row a request takes
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = OrderArg::InTurn, requires = "feed")]
    feed_order: OrderArg,

    /// Keep cookies, for each connection its own, and send them back
    #[arg(long)]
    cookies: bool,

    /// Follow so many redirects of a request, to the same server: its time is that of the whole way
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=i64::from(FOLLOW_LIMIT)))]
    follow: u8,
}

/// What answers are to be like, beside status and length.
#[derive(Args)]
#[command(next_help_heading = "Answers")]
pub(super) struct AnswerArgs {
    /// Count responses of another status as wrong
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(100..=999))]
    pub(super) want_status: Option<u16>,

    /// Count responses whose content has another length as wrong
    #[arg(long, value_name = "BYTES")]
    pub(super) want_length: Option<u64>,

    /// Count responses without this header as wrong; repeat for more
    #[arg(long = "want-header", value_name = "NAME[: VALUE]", value_parser = header)]
    want_headers: Vec<Check>,

    /// Count responses whose content does not hold this text as wrong
    #[arg(long, value_name = "TEXT")]
    want_body: Option<String>,

    /// Count responses whose content does not match this expression (PCRE) as wrong
    #[arg(long, value_name = "REGEX", value_parser = pattern)]
    want_regex: Option<Arc<Pattern>>,

    /// Count responses whose content has another SHA-256 as wrong
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    want_sha256: Option<Check>,

    /// Show the figures of each request of --urls, or of a range of paths, for at most N of them
    /// [default: no; 20 if N is left out]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    per_url: Option<u16>,
}

/// Which row a request takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum OrderArg {
    /// The next one, and behind the last the first again
    InTurn,
    /// Any
    Random,
}

fn header(text: &str) -> Result<Check, String> {
    Check::header(text).ok_or_else(|| "write NAME, or NAME: VALUE".to_owned())
}

fn pattern(text: &str) -> Result<Arc<Pattern>, String> {
    Pattern::new(text).map(Arc::new).map_err(|why| why.to_string())
}

fn sha256(text: &str) -> Result<Check, String> {
    Check::sha256(text).ok_or_else(|| "a SHA-256 has 64 hexadecimal digits".to_owned())
}

impl ScriptArgs {
    /// Puts what was asked for into a plan whose requests are there.
    pub(super) fn shape(&self, plan: &mut Plan) -> Result<(), String> {
        plan.cookies = self.cookies;
        plan.follow = self.follow;
        if !self.template && self.feed.is_none() {
            return Ok(());
        }
        let feed = match &self.feed {
            None => None,
            Some(file) => {
                let order = match self.feed_order {
                    OrderArg::InTurn => FeedOrder::InTurn,
                    OrderArg::Random => FeedOrder::Random,
                };
                let named = |why: &dyn core::fmt::Display| format!("--feed {}: {why}", file.display());
                let bytes = read_at_most(file, FEED_LIMIT).map_err(|why| named(&why))?;
                Some(Arc::new(Feed::read(&bytes, order).map_err(|why| named(&why))?))
            }
        };
        let mut any = false;
        for request in &mut plan.requests {
            any |= request.item.fill(feed.as_deref()).map_err(|why| format!("--template: {why}"))?;
        }
        if !any {
            return Err("--template: no request has a word in double braces".to_owned());
        }
        plan.source = Source { feed, ..plan.source.clone() };
        Ok(())
    }
}

impl AnswerArgs {
    pub(super) fn shape(&self, plan: &mut Plan) -> Result<(), String> {
        let mut checks = self.want_headers.clone();
        checks.extend(self.want_body.as_ref().map(|text| Check::Contains(text.as_bytes().into())));
        checks.extend(self.want_regex.clone().map(Check::Matches));
        checks.extend(self.want_sha256.clone());
        if checks.len() > CHECKS_LIMIT {
            return Err(format!("--want-header: there may be {CHECKS_LIMIT} checks"));
        }
        plan.checks = checks.into();
        plan.url_rows = self.per_url.map(usize::from);
        Ok(())
    }
}

/// The content of a file that is no longer than so many bytes.
pub(super) fn read_at_most(file: &Path, limit: usize) -> Result<Vec<u8>, String> {
    let cannot = |why: std::io::Error| format!("cannot be read: {why}");
    let mut bytes = Vec::new();
    // One more shows that it is longer: a file of gigabytes is not read to its end.
    let read = File::open(file).and_then(|file| file.take(limit as u64 + 1).read_to_end(&mut bytes));
    read.map_err(cannot)?;
    if bytes.len() > limit { Err(format!("it is longer than {} MiB", limit >> 20)) } else { Ok(bytes) }
}
