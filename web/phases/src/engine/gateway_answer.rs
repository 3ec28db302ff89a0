//! A program's answer on its way: what it says, as an answer of HTTP.

use crate::gateways::{GatewayProtocol, GatewayRules};
use cgi::answer::{AnswerReader, AnswerRules, CgiProtocol, StderrLine};
use std::sync::Arc;

/// A program's answer on its way.
#[derive(Debug)]
pub(crate) struct GatewayAnswer {
    protocol: GatewayProtocol,
    rules: AnswerRules,
    pub reader: AnswerReader,
    /// The answer as one of HTTP/1.1, as far as it was not taken.
    pub made: Vec<u8>,
    /// `fastcgi_keep_conn`
    keeps: bool,
    /// `fastcgi_catch_stderr`
    catches: Arc<[Box<[u8]>]>,
    /// The program sends no more than what waits at the data path.
    pub ended: bool,
    /// That it says too much was told.
    pub surplus_told: bool,
}

impl GatewayAnswer {
    pub fn new(protocol: GatewayProtocol, rules: AnswerRules, settings: &GatewayRules) -> Self {
        Self {
            protocol,
            rules,
            reader: AnswerReader::new(rules),
            made: Vec::new(),
            keeps: settings.keeps,
            catches: Arc::clone(&settings.catches),
            ended: false,
            surplus_told: false,
        }
    }

    /// Forgets what one program said before another is asked.
    pub fn begin_again(&mut self) {
        self.reader = AnswerReader::new(self.rules);
        self.made.clear();
        (self.ended, self.surplus_told) = (false, false);
    }

    /// How the program is asked, for people.
    pub const fn scheme(&self) -> &'static [u8] {
        match self.protocol {
            GatewayProtocol::FastCgi => b"fastcgi://",
            GatewayProtocol::Uwsgi => b"uwsgi://",
            GatewayProtocol::Scgi => b"scgi://",
        }
    }

    /// Whether a complaint makes the answer one that is none.
    pub fn catches(&self, line: &StderrLine) -> bool {
        let has = |part: &[u8]| part.is_empty() || line.text.windows(part.len()).any(|text| text == part);
        line.in_head && self.catches.iter().any(|part| has(part))
    }

    /// How many bytes came, and how many of them behind the head, as nginx counts them.
    pub fn counted(&self) -> (u64, u64) {
        let body = if self.rules.bodyless { None } else { self.reader.body_bytes() };
        (self.reader.bytes(), body.unwrap_or(0))
    }

    /// Whether the request's body is sent in records.
    pub const fn frames(&self) -> bool {
        matches!(self.rules.protocol, CgiProtocol::FastCgi)
    }

    /// Whether the connection may carry another request.
    pub fn may_be_kept(&self) -> bool {
        self.keeps && self.reader.may_be_kept()
    }
}
