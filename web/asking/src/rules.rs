//! What is asked, of whom, and by which rules.

use crate::answer::StreamAnswer;
use crate::program::ProgramAnswer;
use crate::question::BodyStream;
use crate::tries::AskTry;
use bodies::BodyContent;
use core::net::IpAddr;
use core::time::Duration;
use handshake::Sought;
use proxy::next::NextOn;
use resolver::ResolverRules;
use semantics::Method;
use std::sync::Arc;
use upstream::{Balancer, BalancingKey};

/// Time limits, what is tried again, and how much of an answer is read at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskRules {
    /// How long a connection may take to begin (`proxy_connect_timeout`); 60 s.
    pub connect: Duration,
    /// How long the server may take nothing of what it is sent (`proxy_send_timeout`); 60 s.
    pub send: Duration,
    /// How long it may say nothing (`proxy_read_timeout`); 60 s.
    pub read: Duration,
    /// After which failures another is asked (`proxy_next_upstream`).
    pub next: NextOn,
    /// How many are asked at most (`proxy_next_upstream_tries`); 0, any number.
    pub tries: u32,
    /// For how long others are asked (`proxy_next_upstream_timeout`); none, any time.
    pub tries_for: Option<Duration>,
    /// The most bytes of an answer's head (`proxy_buffer_size`); 4 KiB.
    pub head_max: u32,
    /// Bytes of a body that are read ahead of who takes it (`proxy_buffers`); 32 KiB.
    pub ahead: u32,
    /// More is read than is taken at once (`proxy_buffering`); so it is.
    pub buffering: bool,
    /// Trailers go on (`proxy_pass_trailers`); they do not.
    pub passes_trailers: bool,
    /// Lines of heads may end in LF alone; they may not.
    pub line_feeds: bool,
}

impl Default for AskRules {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            connect: minute,
            send: minute,
            read: minute,
            next: NextOn::default(),
            tries: 0,
            tries_for: None,
            head_max: 4 << 10,
            ahead: 32 << 10,
            buffering: true,
            passes_trailers: false,
            line_feeds: false,
        }
    }
}

/// Whom a question may go to.
#[derive(Debug)]
pub enum Servers {
    /// One of the silo's [`crate::ServerGroups`], by its number.
    Group(u16),
    /// Servers that were found out for this question alone.
    Own(Box<Balancer>),
    /// Those at a host whose addresses are to be found out first.
    Named(Box<NamedHost>),
}

/// A host whose addresses are to be found out.
#[derive(Clone, Debug)]
pub struct NamedHost {
    /// Its name.
    pub host: Box<[u8]>,
    /// The port of its servers.
    pub port: u16,
    /// Who is asked for its addresses.
    pub resolver: Arc<ResolverRules>,
}

/// How servers are asked.
#[derive(Debug)]
pub enum Protocol {
    /// By HTTP/1.1 (RFC 9112).
    Http,
    /// By HTTP/2 (RFC 9113), on connections that others share.
    Http2(Box<StreamAnswer>),
    /// By what programs speak.
    Program(Box<ProgramAnswer>),
}

/// A question.
#[derive(Debug)]
pub struct AskSpec<'k> {
    /// The mark of its connections, by which who asks knows it.
    pub mark: u32,
    /// Times, and what is tried again.
    pub rules: AskRules,
    /// Whom it may go to.
    pub servers: Servers,
    /// What decides of who is asked, where something of the question does.
    pub key: BalancingKey<'k>,
    /// How it is asked.
    pub protocol: Protocol,
    /// How the connection is secured; none, not at all.
    pub seeks: Option<Box<Sought>>,
    /// Our own address towards servers; any, if none.
    pub from: Option<IpAddr>,
    /// The method that is asked with.
    pub asked: Method,
    /// Whether asking twice may do twice what is asked.
    pub unrepeatable: bool,
    /// Whether the answer's head alone counts.
    pub head_only: bool,
    /// The head, as it is sent.
    pub head: Vec<u8>,
    /// Where in it stands what is asked for: for people.
    pub target: (u32, u32),
    /// The body, if it is there.
    pub body: Option<BodyContent>,
    /// Or it goes on as it comes ([`crate::Ask::stream`]).
    pub stream: Option<BodyStream>,
    /// Memory for the answer's head, and for a body that comes with it.
    pub memory: [Vec<u8>; 2],
    /// What became of servers that were asked before, by another question for the same.
    pub tries: Vec<AskTry>,
}

impl AskSpec<'_> {
    /// A question that nobody asks: whose place another one takes.
    #[must_use]
    pub fn none() -> Self {
        Self {
            mark: 0,
            rules: AskRules::default(),
            servers: Servers::Group(0),
            key: BalancingKey::None,
            protocol: Protocol::Http,
            seeks: None,
            from: None,
            asked: Method::Get,
            unrepeatable: false,
            head_only: false,
            head: Vec::new(),
            target: (0, 0),
            body: None,
            stream: None,
            memory: [Vec::new(), Vec::new()],
            tries: Vec::new(),
        }
    }
}
