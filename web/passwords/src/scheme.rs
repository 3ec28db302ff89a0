//! Hashes of passwords, as nginx takes them.

use crate::base64::{decode, encode};
use crate::crypt::crypt;
use md5::{Digest, Md5};
use sha1::Sha1;
use std::ffi::CString;

/// A hash in a file is of no method that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unusable;

/// crypt(3) takes no longer ones.
const PASSWORD_MAX: usize = 511;

/// Whether a password is the one that `hash` is of: `{PLAIN}`, `{SHA}`,
/// `{SSHA}`, `$apr1$`, or a method of crypt(3), as yescrypt, bcrypt, SHA-512.
/// What follows a zero in a password does not count, as in nginx. How long it
/// takes tells nothing of where they differ.
///
/// # Errors
/// The hash is of no method that is known here.
pub fn verify(password: &[u8], hash: &[u8]) -> Result<bool, Unusable> {
    let password = password.split(|byte| *byte == 0).next().unwrap_or_default();
    let computed = if hash.starts_with(APR1) {
        apr1(password, hash)
    } else if let Some(plain) = hash.strip_prefix(b"{PLAIN}") {
        return Ok(same(password, plain));
    } else if let Some(text) = hash.strip_prefix(b"{SSHA}") {
        let salt = decode(text, false).and_then(|bytes| Some(bytes.get(20..)?.to_vec())).unwrap_or_default();
        let digest = Sha1::new().chain_update(password).chain_update(&salt).finalize();
        [b"{SSHA}".to_vec(), encode(&[&digest[..], &salt].concat())].concat()
    } else if hash.starts_with(b"{SHA}") {
        [b"{SHA}".to_vec(), encode(&Sha1::digest(password))].concat()
    } else if password.len() > PASSWORD_MAX {
        return Ok(false);
    } else {
        // Neither has a zero: a file's line may, which is no hash then.
        let (Ok(phrase), Ok(setting)) = (CString::new(password), CString::new(hash)) else { return Err(Unusable) };
        crypt(&phrase, &setting).ok_or(Unusable)?
    };
    Ok(same(&computed, hash))
}

/// MD5 of texts, one behind the other (RFC 1321): for what was agreed on with
/// others, not for secrets.
#[must_use]
pub fn md5(texts: &[&[u8]]) -> [u8; 16] {
    texts.iter().fold(Md5::new(), |hash, text| hash.chain_update(text)).finalize().into()
}

/// SHA-1 of a text (FIPS 180-4): for what was agreed on with others, not for secrets.
#[must_use]
pub fn sha1(text: &[u8]) -> [u8; 20] {
    Sha1::digest(text).into()
}

/// Whether they are the same, in a time that depends on their lengths alone.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| core::hint::black_box(differs | (a ^ b)));
    one.len() == other.len() && differs == 0
}

const APR1: &[u8] = b"$apr1$";

/// Poul-Henning Kamp's MD5 crypt, with Apache's magic: the whole text of the
/// hash, by the salt of `hash`.
fn apr1(password: &[u8], hash: &[u8]) -> Vec<u8> {
    let salt = &hash[APR1.len()..];
    let salt = salt.split(|byte| *byte == b'$').next().unwrap_or_default();
    let salt = &salt[..salt.len().min(8)];
    let mut last = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut first = Md5::new().chain_update(password).chain_update(APR1).chain_update(salt);
    for at in (0..password.len()).step_by(16) {
        first.update(&last[..(password.len() - at).min(16)]);
    }
    let mut length = password.len();
    while length > 0 {
        // The first byte of nothing, or of the password.
        first.update(if length & 1 == 1 { &[0][..] } else { &password[..1] });
        length >>= 1;
    }
    last = first.finalize();
    for round in 0..1_000 {
        let mut next = Md5::new();
        let (one, other) = if round & 1 == 1 { (password, &last[..]) } else { (&last[..], password) };
        next.update(one);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(other);
        last = next.finalize();
    }
    let mut out = [APR1, salt, b"$"].concat();
    let three = |a: usize, b: usize, c: usize| u32::from_be_bytes([0, last[a], last[b], last[c]]);
    for (word, letters) in [
        (three(0, 6, 12), 4),
        (three(1, 7, 13), 4),
        (three(2, 8, 14), 4),
        (three(3, 9, 15), 4),
        (three(4, 10, 5), 4),
        (u32::from(last[11]), 2),
    ] {
        const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        out.extend((0..letters).map(|at| LETTERS[(word >> (6 * at)) as usize & 63]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of "secret", by `openssl passwd` and crypt(3).
    const HASHES: &[&str] = &[
        "{PLAIN}secret",
        "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
        APR1_HASH,
        MD5_HASH,
        SHA256_HASH,
        SHA512_HASH,
        BCRYPT_HASH,
        YESCRYPT_HASH,
    ];
    const APR1_HASH: &str = "$apr1$s4ltsalt$3WaXk.g7CvB5u8wR2fs1L1";
    const MD5_HASH: &str = "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1";
    const SHA256_HASH: &str = "$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.";
    const SHA512_HASH: &str =
        "$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/1GM/O6IND4WQhG.";
    const BCRYPT_HASH: &str = "$2y$04$KBCwKxOzLha2MUDgW0PjXe/hE/UCO9qF89dOydoHjSwxcHev5LRn.";
    const YESCRYPT_HASH: &str = "$y$j75$k2XAnEHBqQ1Ct2aMXFKNaR4Odd4$Nm1HRpDGDG5PHOkGK3UIY4ow09GeL70FApOU7n7ISc5";

    #[test]
    fn each_method_knows_its_password() {
        for hash in HASHES {
            assert_eq!(verify(b"secret", hash.as_bytes()), Ok(true), "{hash}");
            assert_eq!(verify(b"secret\0more", hash.as_bytes()), Ok(true), "{hash}");
            for other in ["", "Secret", "secre", "secret "] {
                assert_eq!(verify(other.as_bytes(), hash.as_bytes()), Ok(false), "{hash}");
            }
            assert_eq!(verify(&[b'x'; 2_000], hash.as_bytes()), Ok(false), "{hash}");
        }
        // {SSHA}: salted "salt".
        let digest = Sha1::digest(b"secretsalt");
        let hash = [b"{SSHA}".to_vec(), encode(&[&digest[..], b"salt"].concat())].concat();
        assert_eq!(verify(b"secret", &hash), Ok(true));
        assert_eq!(verify(b"other", &hash), Ok(false));
    }

    #[test]
    fn long_passwords_have_apr1_hashes() {
        for (password, hash) in [
            ("", "$apr1$s4ltsalt$LJ9Y9avPalyi2YS7mgd2k/"),
            ("a password of more than sixteen letters", "$apr1$s4ltsalt$tmYXkjdzd/qbus0Alb7Fh0"),
        ] {
            assert_eq!(verify(password.as_bytes(), hash.as_bytes()), Ok(true), "{password}");
        }
    }

    #[test]
    fn what_is_no_hash_is_told() {
        for hash in ["", "x", "*", "!", "$9$x", "{OTHER}x", "$2y$05$short", "a\0b"] {
            assert_eq!(verify(b"secret", hash.as_bytes()), Err(Unusable), "{hash:?}");
        }
        // No salt that anything was made with, but a method.
        for hash in ["{SHA}", "{SSHA}", "{SSHA}x", "{PLAIN}", "$apr1$", "$apr1$$"] {
            assert_eq!(verify(b"secret", hash.as_bytes()), Ok(false), "{hash:?}");
        }
    }
}
