//! `secure_link`: links that only who knows a secret can make.

use crate::row::{DirectiveRow, Refusal, VariableRow, Words};
use crate::rule::ValueForm;
use crate::units::number;
use crate::value::Value;
use crate::view::RequestView;
use crate::{Feature, FeatureSettings, Reach};
use passwords::base64::decode;
use passwords::md5;
use std::sync::Arc;

/// See the module.
pub(crate) const FEATURE: Feature = Feature {
    directives: &[
        DirectiveRow::new("secure_link", "secure_link", ValueForm::Value, |settings, words| {
            not_mixed(words, &["secure_link_secret"])?;
            let link = words.value(0)?;
            // What the block outside has of the other kind does not count here.
            let rules = rules(settings);
            (rules.secret, rules.link) = (None, Some(link));
            Ok(())
        })
        .shown(
            "is $arg_m
             is $arg_n
             with secure_link_md5 \"secret\";
             ask GET text.txt?m=Xr4ilOzQ4PCOq3aQ0qbuaQ
             ask GET text.txt?n=Xr4ilOzQ4PCOq3aQ0qbuaQ
             seen log",
        ),
        DirectiveRow::new("secure_link", "secure_link_md5", ValueForm::Value, |settings, words| {
            not_mixed(words, &["secure_link_secret"])?;
            let md5 = words.value(0)?;
            let rules = rules(settings);
            (rules.secret, rules.md5) = (None, Some(md5));
            Ok(())
        })
        .shown(
            "is secret
             is \"$uri\"
             with secure_link $arg_m;
             ask GET text.txt?m=Xr4ilOzQ4PCOq3aQ0qbuaQ
             seen log",
        ),
        DirectiveRow::new("secure_link", "secure_link_secret", ValueForm::Text, |settings, words| {
            not_mixed(words, &["secure_link", "secure_link_md5"])?;
            *rules(settings) = SecureLink { secret: Some(words.word(0).into()), ..SecureLink::default() };
            Ok(())
        })
        .shown(
            "is one
             is two
             ask GET bf94d1b1f0f2c8a3c6b6f1e5e5b5a0c4/text.txt
             seen nothing",
        ),
    ],
    variables: &[
        VariableRow { name: "secure_link", reach: Reach::Request, lasts: true, write: write_link },
        VariableRow { name: "secure_link_expires", reach: Reach::Request, lasts: false, write: write_expires },
    ],
    built_with: &["secure_link"],
    ..Feature::NONE
};

/// What a place says of links.
#[derive(Clone, Debug, Default)]
pub struct SecureLink {
    /// `secure_link`: a hash, perhaps with a comma and a time behind it.
    pub link: Option<Value>,
    /// `secure_link_md5`: what is hashed.
    pub md5: Option<Value>,
    /// `secure_link_secret`: the older form.
    pub secret: Option<Box<[u8]>>,
}

/// What is known of a request's link.
#[derive(Debug, Default)]
pub struct FoundLink {
    /// The time that it says, once it was looked at.
    expires: Option<Vec<u8>>,
}

/// The rules of a block, made its own.
fn rules(settings: &mut FeatureSettings) -> &mut SecureLink {
    Arc::make_mut(settings.secure_link.get_or_insert_default())
}

/// The older form has no place beside the other.
fn not_mixed(words: &mut Words<'_>, others: &[&'static str]) -> Result<(), Refusal> {
    if others.iter().any(|other| words.compiling.has(other)) {
        let text = "\"secure_link_secret\" cannot be mixed with \"secure_link\" and \"secure_link_md5\"";
        return Err(Refusal::Text(text.to_owned()));
    }
    words.is_first();
    Ok(())
}

/// `$secure_link`
fn write_link(settings: &FeatureSettings, request: &mut dyn RequestView, out: &mut Vec<u8>) -> bool {
    let Some(rules) = &settings.secure_link else { return false };
    if let Some(secret) = &rules.secret {
        let link = check_secret(request.target(), secret);
        out.extend_from_slice(link.unwrap_or_default());
        return link.is_some();
    }
    let (Some(link), Some(md5)) = (&rules.link, &rules.md5) else { return false };
    let link = request.value(link);
    // A link ends at a time.
    let now = request.second();
    request.parts().secure_link.expires = check(&link, b"", now).expires.map(Vec::from);
    let md5 = request.value(md5);
    let told = check(&link, &md5, now).valid.map(|valid| if valid { &b"1"[..] } else { b"0" });
    out.extend_from_slice(told.unwrap_or_default());
    told.is_some()
}

/// `$secure_link_expires`: what `$secure_link` found in the link.
fn write_expires(_: &FeatureSettings, request: &mut dyn RequestView, out: &mut Vec<u8>) -> bool {
    let Some(told) = &request.parts().secure_link.expires else { return false };
    out.extend_from_slice(told);
    true
}

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
    let until = expires.map(|text| number(text).ok().filter(|until| *until > 0));
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
