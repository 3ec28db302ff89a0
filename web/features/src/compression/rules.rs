//! Which coding a response gets.

use super::accept::{Accepted, RequestFacts};
use crate::media_types::MediaTypes;
use gzip::Coding;

/// How responses of a place are compressed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompressionRules {
    /// `gzip`, and what belongs to it.
    pub gzip: CodingRules,
    /// `brotli`, and what belongs to it.
    pub brotli: CodingRules,
    /// `zstd`, and what belongs to it.
    pub zstd: CodingRules,
    /// `gzip_http_version` is 1.0.
    pub old_clients: bool,
    /// `gzip_proxied`: what of [`Proxied`] may be compressed.
    pub proxied: u16,
    /// `gzip_vary`.
    pub vary: bool,
    /// `gzip_disable`: expressions on User-Agent, whatever its case.
    pub disabled: Vec<u32>,
    /// `gzip_disable msie6`.
    pub msie6: bool,
    /// `gunzip`.
    pub gunzip: bool,
}

/// How one coding is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodingRules {
    /// Responses are compressed.
    pub on: bool,
    /// At this level.
    pub level: u8,
    /// Those that are at least so long, if it is known.
    pub min_length: u64,
    /// Those of these types.
    pub types: MediaTypes,
    /// Files that were compressed before, beside those that are asked for.
    pub files: Precompressed,
}

/// `gzip_static` and the like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precompressed {
    /// They are not looked for.
    #[default]
    Off,
    /// They are for clients that take them.
    On,
    /// All get them.
    Always,
}

/// Words of `gzip_proxied`, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proxied {
    /// Nothing (`off`).
    Off = 2,
    /// What is stale when it is sent (`expired`).
    Expired = 4,
    /// What no cache gives again without asking (`no-cache`).
    NoCache = 8,
    /// What no cache keeps (`no-store`).
    NoStore = 16,
    /// What no shared cache keeps (`private`).
    Private = 32,
    /// Not what has a Last-Modified (`no_last_modified`).
    NoLastModified = 64,
    /// Not what has an ETag (`no_etag`).
    NoEtag = 128,
    /// What a request with an Authorization got (`auth`).
    Auth = 256,
    /// All (`any`).
    Any = 512,
}

impl CodingRules {
    fn of(coding: Coding) -> Self {
        let (_, level) = coding.levels();
        Self { on: false, level, min_length: 20, types: MediaTypes::default(), files: Precompressed::Off }
    }
}

impl Default for CompressionRules {
    fn default() -> Self {
        Self {
            gzip: CodingRules::of(Coding::Gzip),
            brotli: CodingRules::of(Coding::Brotli),
            zstd: CodingRules::of(Coding::Zstd),
            old_clients: false,
            proxied: Proxied::Off as u16,
            vary: false,
            disabled: Vec::new(),
            msie6: false,
            gunzip: false,
        }
    }
}

/// What of a response decides whether it is compressed.
#[derive(Clone, Copy, Debug)]
pub struct ResponseFacts<'a> {
    /// Its status.
    pub status: u16,
    /// It has a Content-Encoding.
    pub encoded: bool,
    /// How long it is, if that is known.
    pub length: Option<u64>,
    /// Its media type, perhaps with parameters.
    pub media_type: &'a [u8],
    /// Its Expires, in seconds since 1970; a field that is no time is 0 seconds
    /// after all others.
    pub expires: Option<u64>,
    /// Now, in seconds since 1970: its Date.
    pub now: u64,
    /// Its Cache-Control fields.
    pub cache_control: &'a [&'a [u8]],
    /// It has a Last-Modified.
    pub last_modified: bool,
    /// It has an ETag.
    pub etag: bool,
}

/// What becomes of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// It is compressed so; it loses its length and its ranges, and its ETag
    /// becomes weak.
    pub coding: Option<Coding>,
    /// It gets `Vary: Accept-Encoding`: others might get another.
    pub vary: bool,
}

impl CompressionRules {
    /// The rules of a coding.
    #[must_use]
    pub const fn of(&self, coding: Coding) -> &CodingRules {
        match coding {
            Coding::Gzip => &self.gzip,
            Coding::Brotli => &self.brotli,
            Coding::Zstd => &self.zstd,
        }
    }

    /// Whether any file that was compressed before may be sent.
    #[must_use]
    pub fn has_files(&self) -> bool {
        Coding::ALL.iter().any(|coding| self.of(*coding).files != Precompressed::Off)
    }

    /// Whether User-Agent decides.
    #[must_use]
    pub const fn looks_at_agents(&self) -> bool {
        self.msie6 || !self.disabled.is_empty()
    }

    /// Whether any response may be compressed while it is sent.
    #[must_use]
    pub fn is_on(&self) -> bool {
        Coding::ALL.iter().any(|coding| self.of(*coding).on)
    }

    /// Whether any response may be in a coding: its file's, or that it is sent in.
    #[must_use]
    pub fn codes(&self) -> bool {
        self.is_on() || self.gunzip || self.has_files()
    }

    /// What a response to a request that takes `accepted` gets.
    #[must_use]
    pub fn choose(&self, accepted: Accepted, response: &ResponseFacts<'_>) -> Chosen {
        let mut chosen = Chosen { coding: None, vary: false };
        if !matches!(response.status, 200 | 403 | 404) || response.encoded {
            return chosen;
        }
        for coding in Coding::ALL {
            let rules = self.of(coding);
            if rules.on
                && response.length.is_none_or(|length| length >= rules.min_length)
                && rules.has_type(response.media_type)
            {
                chosen.vary |= self.vary;
                if accepted.takes(coding) && self.may_compress(accepted, response) {
                    chosen.coding = Some(coding);
                    return chosen;
                }
            }
        }
        chosen
    }

    /// In which order files that were compressed before are looked for, and
    /// whether `Vary: Accept-Encoding` goes with what is answered where one is
    /// there, be it this one or not.
    pub fn files(&self, accepted: Accepted) -> impl Iterator<Item = (Coding, Chosen)> {
        Coding::ALL.into_iter().filter_map(move |coding| {
            // A response that is a file on its own has no fields yet.
            let takes = accepted.takes(coding) && self.may_compress(accepted, &ResponseFacts::default());
            match self.of(coding).files {
                Precompressed::Off => None,
                Precompressed::Always => Some((coding, Chosen { coding: Some(coding), vary: false })),
                // Asked for that `Vary` alone, as nginx does.
                Precompressed::On if takes || self.vary => {
                    Some((coding, Chosen { coding: takes.then_some(coding), vary: self.vary }))
                }
                Precompressed::On => None,
            }
        })
    }

    /// Whether a response that has `Content-Encoding: gzip` is to be read for a
    /// client: one that does not take it. `Vary` is as for others then.
    #[must_use]
    pub fn unpacks(&self, accepted: Accepted, response: &ResponseFacts<'_>) -> bool {
        self.gunzip && !(accepted.takes(Coding::Gzip) && self.may_compress(accepted, response))
    }

    /// `gzip_proxied`.
    fn may_compress(&self, accepted: Accepted, response: &ResponseFacts<'_>) -> bool {
        let has = |flag: Proxied| self.proxied & flag as u16 != 0;
        if !accepted.via() {
            return true;
        }
        if has(Proxied::Off) {
            return false;
        }
        if has(Proxied::Any) || accepted.authorization() && has(Proxied::Auth) {
            return true;
        }
        if let Some(expires) = response.expires {
            return has(Proxied::Expired) && expires < response.now;
        }
        if !response.cache_control.is_empty() {
            let said = |name: &[u8]| response.cache_control.iter().any(|field| names(field, name));
            return has(Proxied::NoCache) && said(b"no-cache")
                || has(Proxied::NoStore) && said(b"no-store")
                || has(Proxied::Private) && said(b"private");
        }
        !(has(Proxied::NoLastModified) && response.last_modified || has(Proxied::NoEtag) && response.etag)
    }
}

impl CodingRules {
    /// The level that is used by the piece: the highest of Brotli and Zstandard take longer
    /// for a piece than others may wait.
    #[must_use]
    pub fn level_by_piece(&self, coding: Coding) -> u8 {
        match coding {
            Coding::Gzip => self.level,
            Coding::Brotli => self.level.min(6),
            Coding::Zstd => self.level.min(9),
        }
    }

    fn has_type(&self, media_type: &[u8]) -> bool {
        let end = media_type.iter().position(|byte| *byte == b';').unwrap_or(media_type.len());
        self.types.has(media_type[..end].trim_ascii_end())
    }
}

impl Default for ResponseFacts<'_> {
    fn default() -> Self {
        Self {
            status: 200,
            encoded: false,
            length: None,
            media_type: b"text/html",
            expires: None,
            now: 0,
            cache_control: &[],
            last_modified: false,
            etag: false,
        }
    }
}

/// Whether a Cache-Control field has this word, without a value.
fn names(field: &[u8], word: &[u8]) -> bool {
    field.split(|byte| matches!(byte, b',' | b';')).any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
}

impl CompressionRules {
    /// What a request takes; `matches` tells whether an expression matches.
    pub fn accepted(&self, request: &RequestFacts<'_>, matches: &mut dyn FnMut(u32, &[u8]) -> bool) -> Accepted {
        let Some(field) = request.accept_encoding else { return Accepted::default() };
        if request.old && !self.old_clients {
            return Accepted::default();
        }
        let accepted = Accepted::of(field, request.via, request.authorization);
        if accepted == Accepted::default() {
            return accepted;
        }
        if let Some(agent) = request.user_agent
            && (self.msie6 && is_msie6(agent) || self.disabled.iter().any(|number| matches(*number, agent)))
        {
            return Accepted::default();
        }
        accepted
    }
}

/// Whether a User-Agent is a browser that could not read what it asked for.
fn is_msie6(agent: &[u8]) -> bool {
    let Some(at) = agent.windows(5).position(|window| window == b"MSIE ") else { return false };
    match &agent[at..] {
        [_, _, _, _, _, b'4' | b'5', b'.', _, ..] => true,
        [_, _, _, _, _, b'6', b'.', _, rest @ ..] => !rest.windows(3).any(|window| window == b"SV1"),
        _ => false,
    }
}
