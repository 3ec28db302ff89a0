//! What a quiet server is asked for: each filter, handler and gateway, with what must come.

use super::asker::Asked;
use core::time::Duration;
use gzip::{member, members};
use std::sync::OnceLock;

/// Which cases are walked through: all that there are, and longer contents, where it is set.
const WHOLE: &str = "NEARSIDE_QUIET_WHOLE";

fn is_whole() -> bool {
    static IS_WHOLE: OnceLock<bool> = OnceLock::new();
    *IS_WHOLE.get_or_init(|| std::env::var_os(WHOLE).is_some())
}

/// Bytes of most contents: several times what is queued for a client.
#[must_use]
pub fn text_length() -> usize {
    if is_whole() { 1_400_000 } else { 500_000 }
}

/// Bytes of content that comes compressed.
#[must_use]
pub fn gzipped_length() -> usize {
    if is_whole() { 4_000_000 } else { 1_500_000 }
}

/// Bytes of requests' bodies.
const SENT: usize = 300_000;

/// Bytes that go both ways once protocols are changed.
pub const ECHOED: usize = 400_000;

/// What a page of a tree has beside those within it.
const LEAF: usize = 100;

/// What a client takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Takes {
    /// All that comes.
    #[default]
    All,
    /// So many bytes each millisecond.
    Little(usize),
    /// The first so many bytes, and nothing of the rest.
    First(usize),
}

/// What must come.
#[derive(Clone, Debug)]
pub enum Expect {
    /// This content.
    Content(Vec<u8>),
    /// The same in gzip.
    Gzip(Vec<u8>),
    /// Several parts, of so many bytes at least.
    Parts(usize),
    /// This status, and nothing else of interest.
    Status(u16),
    /// A head that tells of more content than comes, and an end.
    Lacks,
}

/// One thing to ask for.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it is, for people.
    pub name: String,
    /// What is sent, and once a head came.
    pub request: Vec<u8>,
    /// What is sent then.
    pub then: Option<Vec<u8>>,
    /// It sends no more from then on.
    pub ends: bool,
    /// How it is taken.
    pub takes: Takes,
    /// A byte is said each so often behind what is sent `then`.
    pub chats: Option<Duration>,
    /// What must come.
    pub expect: Expect,
    /// Clocks of its own let it go on.
    pub is_paced: bool,
}

impl Case {
    pub(super) fn get(path: &str, expect: Expect) -> Self {
        let request = format!("GET {path} HTTP/1.1\r\nHost: quiet\r\nConnection: close\r\n\r\n").into_bytes();
        Self {
            name: path.to_owned(),
            request,
            then: None,
            ends: false,
            takes: Takes::All,
            chats: None,
            expect,
            is_paced: false,
        }
    }

    pub(super) fn with(mut self, fields: &str) -> Self {
        let at = self.request.len() - 2;
        self.request.splice(at..at, format!("{fields}\r\n").into_bytes());
        self.name = format!("{} ({fields})", self.name);
        self
    }

    fn paced(mut self) -> Self {
        self.is_paced = true;
        self
    }

    fn slowly(&self) -> Self {
        Self { name: format!("{}, slowly", self.name), takes: Takes::Little(50_000), ..self.clone() }
    }

    pub(super) fn post(path: &str, is_chunked: bool) -> Self {
        Self::post_of(path, &text(SENT), is_chunked)
    }

    pub(super) fn post_of(path: &str, body: &[u8], is_chunked: bool) -> Self {
        let framing = match is_chunked {
            true => "Transfer-Encoding: chunked".to_owned(),
            false => format!("Content-Length: {}", body.len()),
        };
        let head = format!("POST {path} HTTP/1.1\r\nHost: quiet\r\nConnection: close\r\n{framing}\r\n\r\n");
        let mut request = head.into_bytes();
        if is_chunked {
            for piece in body.chunks(7_000) {
                request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                request.extend_from_slice(piece);
                request.extend_from_slice(b"\r\n");
            }
            request.extend_from_slice(b"0\r\n\r\n");
        } else {
            request.extend_from_slice(body);
        }
        let name = format!("POST {path}, {}", if is_chunked { "in chunks" } else { "with a length" });
        Self { request, name, ..Self::get(path, Expect::Content(body.to_vec())) }
    }

    /// What is wrong with what came.
    #[must_use]
    pub fn objection(&self, asked: &Asked) -> Option<String> {
        let told = |what: &str| Some(format!("{what}; it begins {:?}", lossy(&asked.arrived)));
        let mut rest = &asked.arrived[..];
        let (head, body) = loop {
            let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") else { return told("no head") };
            let (head, body) = rest.split_at(end + 4);
            if !head.starts_with(b"HTTP/1.1 100") {
                break (String::from_utf8_lossy(head).to_lowercase(), body);
            }
            rest = body;
        };
        let status = head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.and_then(|length| length.parse::<usize>().ok());
        let whole = match length {
            Some(length) if length != body.len() => {
                return match self.expect {
                    Expect::Lacks if body.len() < length => None,
                    _ => told(&format!("{} bytes of {length}", body.len())),
                };
            }
            None if head.contains("transfer-encoding: chunked") => match unchunk(body) {
                Some((content, _)) => content,
                None => return told("no last chunk"),
            },
            _ => body.to_vec(),
        };
        let is_right = match &self.expect {
            Expect::Content(content) => whole == *content,
            Expect::Gzip(content) => members(&whole, content.len() + 1).is_ok_and(|read| read == *content),
            Expect::Parts(least) => status == Some(206) && whole.len() >= *least,
            Expect::Status(expected) => status == Some(*expected),
            Expect::Lacks => false,
        };
        if is_right { None } else { told(&format!("other content: {} bytes", whole.len())) }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}

/// The content of chunks that are all there, and how many bytes they take.
pub(super) fn unchunk(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let rest = &bytes[at..];
        let line = rest.windows(2).take(40).position(|two| two == b"\r\n")?;
        let length = usize::from_str_radix(core::str::from_utf8(&rest[..line]).ok()?, 16).ok()?;
        let piece = rest.get(line + 2..line + 2 + length)?;
        rest.get(line + 2 + length..line + 4 + length)?;
        at += line + 2 + length + 2;
        if length == 0 {
            return Some((content, at));
        }
        content.extend_from_slice(piece);
    }
}

/// A text of so many bytes, in lines.
#[must_use]
pub fn text(length: usize) -> Vec<u8> {
    let line = b"a line that says hello to the world, and is one of many\n";
    line.iter().copied().cycle().take(length).collect()
}

/// A text in gzip.
#[must_use]
pub fn packed(length: usize) -> Vec<u8> {
    static PACKED: OnceLock<Vec<u8>> = OnceLock::new();
    assert_eq!(length, gzipped_length(), "there is one");
    PACKED.get_or_init(|| member(&text(gzipped_length()), 1)).clone()
}

/// The same with each "hello" in large letters, as `sub_filter` is told.
fn substituted(length: usize) -> Vec<u8> {
    String::from_utf8_lossy(&text(length)).replace("hello", "HELLO!").into_bytes()
}

/// A page of a tree: it has the next smaller one within it, twice.
#[must_use]
pub fn tree(depth: usize) -> Vec<u8> {
    let within = match depth {
        0 => String::new(),
        depth => format!("<!--#include virtual=\"/fssi/t{}.shtml\" -->", depth - 1).repeat(2),
    };
    [within.as_bytes(), &b"x".repeat(LEAF)].concat()
}

/// Bytes that such a page comes to: nodes of a tree.
#[must_use]
pub const fn grown(depth: usize) -> usize {
    LEAF * ((1 << (depth + 1)) - 1)
}

/// A page of such a tree, asked for by one who is innocent.
#[must_use]
pub fn of_tree(depth: usize) -> Case {
    Case::get(&format!("/fssi/t{depth}.shtml"), Expect::Content(b"x".repeat(grown(depth))))
}

impl Case {
    /// A page whose first parts never come, and whose last has another within it.
    #[must_use]
    pub fn waiting() -> Self {
        Self::get("/fssi/waits.shtml", Expect::Status(200))
    }
}

/// Answers of upstreams, and what becomes of them.
fn of_upstreams() -> Vec<Case> {
    let whole = || Expect::Content(text(text_length()));
    let mut cases = Vec::new();
    let gzip = "Accept-Encoding: gzip";
    for name in ["len", "chunks", "close"] {
        for place in ["plain", "unbuf", "old"] {
            cases.push(Case::get(&format!("/{place}/o/{name}"), whole()));
        }
        cases.push(Case::get(&format!("/sub/o/{name}"), Expect::Content(substituted(text_length()))));
        cases.push(Case::get(&format!("/gzip/o/{name}"), Expect::Gzip(text(text_length()))).with(gzip));
        for place in ["ssi", "charset", "auth", "mirror"] {
            cases.push(Case::get(&format!("/{place}/o/{name}"), whole()));
        }
        let around = [text(40), text(text_length()), text(40)].concat();
        cases.push(Case::get(&format!("/add/o/{name}"), Expect::Content(around)));
    }
    cases.push(Case::get("/gunzip/o/gz", Expect::Content(text(gzipped_length()))));
    cases.push(Case::get("/gunsub/o/gz", Expect::Content(substituted(gzipped_length()))));
    for place in ["fcgi", "uwsgi", "scgi"] {
        cases.push(Case::get(&format!("/{place}/o/len"), whole()));
        cases.push(Case::get(&format!("/{place}u/o/len"), whole()));
        cases.push(Case::get(&format!("/{place}z/o/len"), Expect::Gzip(text(text_length()))).with(gzip));
    }
    cases.push(Case::get("/slice/o/len", whole()));
    cases.push(Case::get("/slice/o/len", Expect::Parts(350_000)).with("Range: bytes=100000-449999"));
    cases.push(Case::get("/name/o/len", whole()));
    cases.push(Case::get("/noname/o/len", Expect::Status(502)));
    cases.push(Case::get("/err/o/500", whole()));
    cases.push(Case::get("/named/o/500", whole()));
    cases
}

/// Heads alone, where content is waited for or not.
fn of_heads() -> Vec<Case> {
    let nothing = || Expect::Content(Vec::new());
    let mut cases = vec![
        Case::get("/head/o/head", Expect::Lacks),
        Case::get("/head/o/headchunked", nothing()),
        Case::get("/head/o/empty", nothing()),
        Case::get("/headgz/o/head", Expect::Gzip(Vec::new())).with("Accept-Encoding: gzip"),
        Case::get("/headsub/o/head", nothing()),
        Case::get("/fssi/head.shtml", Expect::Content(b"[]".to_vec())),
        Case::get("/plain/o/304", Expect::Status(304)),
        Case::get("/plain/o/204", Expect::Status(204)),
        Case::get("/plain/o/empty", nothing()),
        Case::get("/gzip/o/empty", Expect::Status(200)).with("Accept-Encoding: gzip"),
        Case::get("/plain/o/500", Expect::Status(500)),
    ];
    for path in ["/plain/o/head", "/gzip/o/head", "/f/big.txt", "/fssi/t3.shtml", "/add/o/head", "/slice/o/head"] {
        let mut case = Case::get(path, Expect::Status(200));
        case.request.splice(..3, *b"HEAD");
        // No content, whatever length is told.
        case.expect = match path {
            "/fssi/t3.shtml" | "/add/o/head" => Expect::Status(200),
            _ => Expect::Lacks,
        };
        case.name = format!("HEAD {path}");
        cases.push(case);
    }
    cases
}

/// Files, and what becomes of them.
fn of_files() -> Vec<Case> {
    let gzip = "Accept-Encoding: gzip";
    let big = || Expect::Content(text(text_length()));
    let mut cases = vec![
        Case::get("/f/big.txt", big()),
        Case::get("/f/small.txt", Expect::Content(text(40))),
        Case::get("/f/big.txt", Expect::Parts(350_000)).with("Range: bytes=100000-449999"),
        Case::get("/f/big.txt", Expect::Parts(400_000)).with("Range: bytes=0-199999,250000-449999"),
        Case::get("/fgz/big.txt", Expect::Gzip(text(text_length()))).with(gzip),
        Case::get("/fsub/big.txt", Expect::Content(substituted(text_length()))),
        Case::get("/fgun/packed", Expect::Content(text(gzipped_length()))),
        Case::get("/fadd/big.txt", Expect::Content([text(40), text(text_length()), text(text_length())].concat())),
        Case::get("/dir/", Expect::Status(200)),
        Case::get("/f/none", Expect::Status(404)),
        Case::get("/page/none", Expect::Content(text(text_length()))),
        Case::get("/pw/small.txt", Expect::Content(text(40))).with("Authorization: Basic dTpw"),
        Case::get("/fssi/many.shtml", Expect::Content([text(40).repeat(200), b"end".to_vec()].concat())),
        Case::get("/fssi/far.shtml", Expect::Content([text(text_length()), text(40), text(text_length())].concat())),
        Case::get("/fssi/set.shtml", Expect::Content([b"[", &text(40)[..], b"]"].concat())),
    ];
    cases.extend([0, 3, 8, 10, 11].map(of_tree));
    cases
}

/// Bodies of requests, and connections that become others.
fn of_bodies() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in ["plain", "unbuf", "small", "mirror", "auth", "fcgi", "fcgiu", "uwsgi", "uwsgiu", "scgi", "scgiu"] {
        cases.push(Case::post(&format!("/{place}/o/echo"), false));
        cases.push(Case::post(&format!("/{place}/o/echo"), true));
    }
    let body = text(ECHOED);
    let fields = "Upgrade: echo";
    let mut upgraded = Case::get("/up/o/upgrade", Expect::Content(body.clone())).with(fields);
    upgraded.then = Some(body);
    cases.push(upgraded);
    cases
}

/// Tunnels whose clients send so many bytes and end, while their upstream takes little at a time:
/// what came of it is asked for behind each.
#[must_use]
pub fn of_tunnels(bytes: usize, names: &[&str]) -> Vec<Case> {
    let sent = text(bytes);
    let tally = Case::get("/plain/o/tally", Expect::Content(bytes.to_string().into_bytes())).paced();
    let mut cases = Vec::new();
    for name in names {
        let path = format!("/up/o/{name}");
        let mut case = Case::get(&path, Expect::Content(Vec::new())).with("Upgrade: echo");
        (case.then, case.ends) = (Some(sent.clone()), true);
        let mut early = case.clone();
        early.name = format!("{path}, sent with the request");
        early.request.extend_from_slice(&sent);
        early.then = None;
        cases.extend([case.paced(), tally.clone(), early.paced(), tally.clone()]);
    }
    cases
}

/// Those that are asked for by way of TLS.
#[must_use]
pub fn secured() -> Vec<Case> {
    const NAMES: [&str; 16] = [
        "/plain/o/len",
        "/unbuf/o/chunks",
        "/sub/o/close",
        "/gzip/o/len",
        "/gunzip/o/gz",
        "/ssi/o/chunks",
        "/slice/o/len",
        "/fcgiz/o/len",
        "/f/big.txt",
        "/f/small.txt",
        "/fgz/big.txt",
        "/fgun/packed",
        "/fssi/t8.shtml",
        "/fadd/big.txt",
        "POST /plain/",
        "POST /unbuf/",
    ];
    all().into_iter().filter(|case| NAMES.iter().any(|name| case.name.starts_with(name))).collect()
}

/// Those that helpers work for: on passwords, on what is compressed, on files of bodies, on names.
#[must_use]
pub fn of_helpers() -> Vec<Case> {
    let is_one = |case: &Case| {
        ["/pw/", "/fgz/", "POST /small/", "/name/", "/noname/"].iter().any(|part| case.name.starts_with(part))
    };
    all().into_iter().filter(is_one).collect()
}

/// What is sent at a rate.
fn of_rates() -> Vec<Case> {
    let big = || Expect::Content(text(text_length()));
    let mut cases: Vec<Case> =
        ["/limit/o/len", "/paced/o/len", "/pacedf/o/len", "/flimit/big.txt", "/fsublimit/big.txt"]
            .map(|path| match path {
                "/fsublimit/big.txt" => Case::get(path, Expect::Content(substituted(text_length()))).paced(),
                _ => Case::get(path, big()).paced(),
            })
            .into();
    // The end of what is cut comes along with it, and what stands before it later. That it was cut a reset says,
    // which leaves time to read what came.
    let mut cut = Case::get("/add/o/cut", Expect::Content(text(40).repeat(2))).paced();
    cut.request = b"GET /add/o/cut HTTP/1.0\r\nHost: quiet\r\n\r\n".to_vec();
    cases.push(cut);
    cases
}

/// All of them, and those that are long for a client that takes little at a time, too.
#[must_use]
pub fn all() -> Vec<Case> {
    let mut cases = [of_upstreams(), of_heads(), of_files(), of_bodies(), of_rates()].concat();
    let is_long = |case: &&Case| match &case.expect {
        Expect::Content(content) => (100_000..=text_length() * 2 + 100).contains(&content.len()) && !case.is_paced,
        Expect::Parts(_) => true,
        _ => false,
    };
    // How an upstream tells its end makes no other case of it.
    // Nor is a tree that waits for places in more ways than its client waits.
    let of_one = ["/chunks", "/close", "/t11.", "in chunks"];
    let is_one = |case: &&Case| is_whole() || !of_one.iter().any(|part| case.name.contains(part));
    let slow: Vec<Case> = cases.iter().filter(is_long).filter(is_one).map(Case::slowly).collect();
    cases.extend(slow);
    cases
}
