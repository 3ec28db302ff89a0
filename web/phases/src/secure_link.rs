//! `secure_link`: links that only who knows a secret can make.

use passwords::base64::decode;
use passwords::md5;

/// What a link says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckedLink<'a> {
    /// `$secure_link`: `1`, or `0` if it is too late; nothing if the hash is
    /// another.
    pub valid: Option<bool>,
    /// `$secure_link_expires`, if a time is told.
    pub expires: Option<&'a [u8]>,
}

/// Checks what `secure_link` stands for, a hash in the letters of URIs and perhaps
/// a comma and a time, against what `secure_link_md5` stands for; `now` is in
/// seconds since 1970.
#[must_use]
pub fn check<'a>(link: &'a [u8], hashed: &[u8], now: u64) -> CheckedLink<'a> {
    let (hash, expires) = match link.iter().position(|byte| *byte == b',') {
        Some(comma) => (&link[..comma], Some(&link[comma + 1..])),
        None => (link, None),
    };
    let until = expires.map(|text| crate::units::number(text).ok().filter(|until| *until > 0));
    if until == Some(None) {
        return CheckedLink { valid: None, expires: None };
    }
    let valid = (hash.len() <= 24)
        .then(|| decode(hash, true))
        .flatten()
        .filter(|hash| same(hash, &md5(&[hashed])))
        .map(|_| until.flatten().is_none_or(|until| until >= now));
    CheckedLink { valid, expires }
}

/// What `$secure_link` stands for with `secure_link_secret`: what follows the hash
/// in `/prefix/hash/link`, as the target of the request has it, if the hash is
/// that of link and secret.
#[must_use]
pub fn check_secret<'a>(target: &'a [u8], secret: &[u8]) -> Option<&'a [u8]> {
    let behind = |text: &'a [u8]| text.iter().position(|byte| *byte == b'/').map(|at| (&text[..at], &text[at + 1..]));
    let (_, rest) = behind(target.get(1..)?)?;
    let (hash, link) = behind(rest)?;
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes: Option<Vec<u8>> =
        hash.as_chunks::<2>().0.iter().map(|two| Some(digit(two[0])? << 4 | digit(two[1])?)).collect();
    (hash.len() == 32 && !link.is_empty() && same(&bytes?, &md5(&[link, secret]))).then_some(link)
}

/// Whether they are the same, in a time that depends on their lengths alone.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| core::hint::black_box(differs | (a ^ b)));
    one.len() == other.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of nginx's manual: `echo -n '2147483647/s/link127.0.0.1 secret'
    /// | openssl md5 -binary | openssl base64 | tr +/ -_ | tr -d =`.
    #[test]
    fn the_example_of_the_manual() {
        let hashed = b"2147483647/s/link127.0.0.1 secret";
        let link = b"_e4Nc3iduzkWRm01TBBNYw,2147483647";
        let valid = |link, now| check(link, hashed, now).valid;
        assert_eq!(check(link, hashed, 5), CheckedLink { valid: Some(true), expires: Some(b"2147483647") });
        assert_eq!(valid(link, 2_147_483_647), Some(true));
        assert_eq!(valid(link, 2_147_483_648), Some(false));
        assert_eq!(valid(b"_e4Nc3iduzkWRm01TBBNYw==", 5), Some(true));
        assert_eq!(check(b"_e4Nc3iduzkWRm01TBBNYx,7", hashed, 5).valid, Some(true), "bits that are too many");
        let wrong = CheckedLink { valid: None, expires: Some(&b"7"[..]) };
        assert_eq!(check(b"-e4Nc3iduzkWRm01TBBNYw,7", hashed, 5), wrong);
        for link in [
            &b""[..],
            b",",
            b",7",
            b"_e4Nc3iduzkWRm01TBBNYw,",
            b"_e4Nc3iduzkWRm01TBBNYw,0",
            b"_e4Nc3iduzkWRm01TBBNYw,x",
        ] {
            assert_eq!(valid(link, 5), None, "{link:?}");
        }
        assert_eq!(valid(b"_e4Nc3iduzkWRm01TBBNYw===", 5), None, "too long");
    }

    /// The same of the older form: `echo -n 'hlssecret' | openssl md5 -hex`.
    #[test]
    fn the_older_form() {
        let check = |target: &'static str| check_secret(target.as_bytes(), b"secret");
        assert_eq!(check("/p/73a5f4f5a0e7b0d6d4a5f3e0c7b1a2d3/hls"), None);
        assert_eq!(check("/p/194c395979ca0533e450993b0356c28c/hls"), Some(&b"hls"[..]));
        assert_eq!(check("/p/194C395979CA0533E450993B0356C28C/hls"), Some(&b"hls"[..]));
        for target in [
            "",
            "/",
            "/p",
            "/p/",
            "/p/194c395979ca0533e450993b0356c28c",
            "/p/194c395979ca0533e450993b0356c28c/",
            "/p/194c395979ca0533e450993b0356c28c0/hls",
            "/p/x94c395979ca0533e450993b0356c28c/hls",
        ] {
            assert_eq!(check(target), None, "{target}");
        }
    }
}
