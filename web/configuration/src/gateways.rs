//! What is done where requests are passed on to programs by FastCGI, uwsgi and SCGI.

use crate::ids::UpstreamGroupId;
use crate::proxying::ProxyRules;
pub use asking::ProgramProtocol as GatewayProtocol;
use features::Value;
use std::sync::Arc;

/// `fastcgi_pass`, `uwsgi_pass`, `scgi_pass`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayPass {
    /// How they are asked.
    pub protocol: GatewayProtocol,
    /// Who is.
    pub to: GatewayTarget,
    /// Over TLS (`suwsgi://`); a value says so itself.
    pub secured: bool,
    /// Bytes of the path that the location stands for.
    pub location: Option<usize>,
}

impl GatewayPass {
    /// The directive that says so.
    #[must_use]
    pub const fn directive(&self) -> &'static str {
        match self.protocol {
            GatewayProtocol::FastCgi => "fastcgi_pass",
            GatewayProtocol::Uwsgi => "uwsgi_pass",
            GatewayProtocol::Scgi => "scgi_pass",
        }
    }

    /// Whether connections to them may be secured.
    #[must_use]
    pub const fn may_be_secured(&self) -> bool {
        let computed = matches!(self.to, GatewayTarget::Computed(_));
        matches!(self.protocol, GatewayProtocol::Uwsgi) && (self.secured || computed)
    }
}

/// Which programs are asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GatewayTarget {
    /// Those of this group.
    Group(UpstreamGroupId),
    /// Whom a value names, when it is asked.
    Computed(Value),
}

/// What a program is told of a request (`fastcgi_param`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayParam {
    /// Its name.
    pub name: Box<[u8]>,
    /// Its value.
    pub value: Value,
    /// It is not told where it is empty.
    pub if_not_empty: bool,
}

/// The settings of a place for one protocol.
#[derive(Clone, Debug, Default)]
pub struct GatewayRules {
    /// Time limits, buffers, what is hidden: those that HTTP has, too.
    pub relay: Arc<ProxyRules>,
    /// What programs are told.
    pub params: Arc<[GatewayParam]>,
    /// `fastcgi_index`
    pub index: Box<[u8]>,
    /// `fastcgi_split_path_info`: an expression with two groups.
    pub split: Option<u32>,
    /// `fastcgi_keep_conn`
    pub keeps: bool,
    /// `fastcgi_catch_stderr`: what makes an answer one that is none.
    pub catches: Arc<[Box<[u8]>]>,
    /// `uwsgi_modifier1`, `uwsgi_modifier2`
    pub modifiers: (u8, u8),
}

/// The settings of a place for all three.
#[derive(Clone, Debug, Default)]
pub struct Gateways {
    /// `fastcgi_…`
    pub fastcgi: GatewayRules,
    /// `uwsgi_…`
    pub uwsgi: GatewayRules,
    /// `scgi_…`
    pub scgi: GatewayRules,
}

impl Gateways {
    /// Those of one.
    #[must_use]
    pub const fn of(&self, protocol: GatewayProtocol) -> &GatewayRules {
        match protocol {
            GatewayProtocol::FastCgi => &self.fastcgi,
            GatewayProtocol::Uwsgi => &self.uwsgi,
            GatewayProtocol::Scgi => &self.scgi,
        }
    }

    /// Those of one, to be changed.
    pub const fn of_mut(&mut self, protocol: GatewayProtocol) -> &mut GatewayRules {
        match protocol {
            GatewayProtocol::FastCgi => &mut self.fastcgi,
            GatewayProtocol::Uwsgi => &mut self.uwsgi,
            GatewayProtocol::Scgi => &mut self.scgi,
        }
    }
}

/// What of a program's answer does not go on unless it is asked for.
const HIDDEN: [&[u8]; 6] = [
    b"Status",
    b"X-Accel-Expires",
    b"X-Accel-Redirect",
    b"X-Accel-Limit-Rate",
    b"X-Accel-Buffering",
    b"X-Accel-Charset",
];

impl GatewayRules {
    /// Makes what follows of the settings, now that all of a block are known.
    pub fn prepare(&mut self, protocol: GatewayProtocol) {
        let relay = Arc::make_mut(&mut self.relay);
        let mut hides: proxy::fields::NameSet = HIDDEN.into_iter().collect();
        if protocol == GatewayProtocol::Uwsgi {
            hides.remove(b"Status");
        }
        relay.passed.iter().for_each(|name| hides.remove(name));
        relay.hidden.iter().for_each(|name| hides.insert(name));
        relay.hides = Arc::new(hides);
    }
}
