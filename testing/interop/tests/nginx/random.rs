//! Requests that nobody listed: parts of the listed ones, put together and bent.

use crate::requests::{Asked, Parts};
use random::SplitMix64;

/// Fields that any request may have.
const FIELDS: [(&str, &str); 24] = [
    ("Accept-Encoding", "gzip"),
    ("Accept-Encoding", "gzip, deflate, br"),
    ("Accept-Encoding", "gzip;q=0"),
    ("Accept-Encoding", "identity, *;q=0"),
    ("Range", "bytes=0-9"),
    ("Range", "bytes=-5"),
    ("Range", "bytes=100-"),
    ("Range", "bytes=0-0,5-6,-1"),
    ("Range", "bytes=999999999-"),
    ("Range", "bytes=5-2"),
    ("Range", "lines=1-2"),
    ("If-Modified-Since", "Tue, 14 Nov 2023 22:13:20 GMT"),
    ("If-Modified-Since", "Tue, 14 Nov 2023 22:13:21 GMT"),
    ("If-Modified-Since", "yesterday"),
    ("If-Unmodified-Since", "Tue, 14 Nov 2023 22:13:19 GMT"),
    ("If-None-Match", "*"),
    ("If-None-Match", "\"a\", W/\"b\""),
    ("If-Match", "\"nothing\""),
    ("If-Range", "Tue, 14 Nov 2023 22:13:20 GMT"),
    ("Connection", "close"),
    ("User-Agent", "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)"),
    ("Referer", "http://www.example.org/page"),
    ("Cookie", "a=1; session=abc"),
    ("X-Forwarded-For", "192.0.2.7, 10.0.0.1"),
];

const METHODS: [&[u8]; 6] = [b"GET", b"GET", b"GET", b"HEAD", b"POST", b"OPTIONS"];

/// `count` requests, the same for the same list.
pub(crate) fn mixed(list: &[Asked], count: usize) -> Vec<Asked> {
    let parts: Vec<&Parts> = list.iter().filter(|asked| asked.expected.is_none()).filter_map(asked_parts).collect();
    let mut random = SplitMix64::new(list.len() as u64);
    (0..count).map(|at| mix(&mut random, &parts, at)).collect()
}

/// How often the same path is asked for in a row: what is asked for often is answered,
/// and logged, the short way.
const OFTEN: usize = 12;

/// Who asks for it, and from where: each time another.
const AGENTS: [&[u8]; 4] = [b"curl/7.88.1", b"", b"a \"quoted\" \\ agent \xc3\xa4", b"Mozilla/5.0 (X11; Linux x86_64)"];
const REFERERS: [&[u8]; 3] = [b"http://www.example.org/?q=\"", b"", b"/a\tb"];

/// Requests for three of the listed paths, each many times in a row.
pub(crate) fn often(list: &[Asked]) -> Vec<Asked> {
    let plain = |parts: &&Parts| parts.method == b"GET" && parts.version == "1.1" && parts.fields.len() == 1;
    let alike = list.iter().filter(|asked| asked.expected.is_none());
    let paths: Vec<&Parts> = alike.filter_map(asked_parts).filter(plain).take(3).collect();
    let again = paths.iter().flat_map(|parts| (0..OFTEN).map(move |at| (*parts, at)));
    let made = again.map(|(parts, at)| {
        let mut parts = parts.clone();
        let fields = [("User-Agent", AGENTS[at % 4]), ("Referer", REFERERS[at % 3]), ("X-Number", b"1")];
        let taken = fields.iter().enumerate().filter(|(field, _)| at >> field & 1 == 0 || at % 5 == 0);
        parts.fields.extend(taken.map(|(_, (name, value))| (name.as_bytes().to_vec(), value.to_vec())));
        Asked::of(format!("often {at} of {}", String::from_utf8_lossy(&parts.target)), parts, None)
    });
    made.collect()
}

/// Of a request without a body, which another could not be put behind.
fn asked_parts(asked: &Asked) -> Option<&Parts> {
    asked.parts.as_ref().filter(|parts| parts.body.is_empty() && !parts.is_framed())
}

fn mix(random: &mut SplitMix64, parts: &[&Parts], at: usize) -> Asked {
    let one = |random: &mut SplitMix64| parts[random.below(parts.len())];
    let mut made = one(random).clone();
    if random.below(2) == 0 {
        made.method = METHODS[random.below(METHODS.len())].to_vec();
    }
    let host = one(random).fields.iter().find(|(name, _)| name == b"Host");
    if let (Some(host), Some(mine)) = (host, made.fields.iter_mut().find(|(name, _)| name == b"Host")) {
        mine.1.clone_from(&host.1);
    }
    for _ in 0..random.below(3) {
        let other = one(random);
        let listed = (!other.fields.is_empty()).then(|| other.fields[random.below(other.fields.len())].clone());
        let (name, value) = FIELDS[random.below(FIELDS.len())];
        let known = (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let field = if random.below(2) == 0 { listed.unwrap_or(known) } else { known };
        if !made.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(&field.0)) {
            made.fields.push(field);
        }
    }
    if made.method == b"POST" {
        // nginx keeps no connection on which MSIE 6 has posted.
        made.fields.retain(|(name, value)| name != b"User-Agent" || !value.windows(6).any(|six| six == b"MSIE 6"));
    }
    bend(random, &mut made.target);
    let shown = String::from_utf8_lossy(&made.target).into_owned();
    Asked::of(format!("random request {at}: {shown}"), made, None)
}

/// Writes a target in another way, or another one.
fn bend(random: &mut SplitMix64, target: &mut Vec<u8>) {
    let path = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
    let slashes: Vec<usize> = (0..path).filter(|&at| target[at] == b'/').collect();
    let Some(&slash) = slashes.get(random.below(slashes.len())) else { return };
    let put = |target: &mut Vec<u8>, at: usize, text: &[u8]| drop(target.splice(at..at, text.iter().copied()));
    match random.below(14) {
        0 => put(target, slash, b"/"),
        1 => put(target, slash, b"/."),
        2 => put(target, slash, b"/x/.."),
        3 => put(target, slash, b"/%2e%2e"),
        4 => target.extend_from_slice(b"?a=1&b=%20"),
        5 => put(target, path, b"/"),
        6 => put(target, path, b"%20"),
        7 if path > slash + 1 => {
            let hex = format!("%{:02x}", target[slash + 1]);
            target.splice(slash + 1..slash + 2, hex.into_bytes());
        }
        8 => target[..path].make_ascii_uppercase(),
        9 if path > slash + 1 => drop(target.remove(path - 1)),
        10 => put(target, slash + 1, b"%2f"),
        _ => {}
    }
}
