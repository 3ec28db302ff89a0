//! PEM files: certificates, keys, lists of revoked certificates (RFC 7468, RFC 1421).

use crate::certificate::{Certificate, OwnedX509};
use crate::error::LibraryError;
use crate::key::{KeyDer, OwnedKey};
use crate::owned::{Input, owner};
use aws_lc_sys::{
    EVP_PKEY2PKCS8, PEM_read_bio_PrivateKey, PEM_read_bio_X509, PEM_read_bio_X509_AUX, PEM_read_bio_X509_CRL,
    PKCS8_PRIV_KEY_INFO, PKCS8_PRIV_KEY_INFO_free, X509_CRL, X509_CRL_free, i2d_PKCS8_PRIV_KEY_INFO,
};
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use zeroize::Zeroizing;

owner!(OwnedPkcs8, PKCS8_PRIV_KEY_INFO, PKCS8_PRIV_KEY_INFO_free);
owner!(OwnedCrl, X509_CRL, X509_CRL_free);

/// Certificates of one file, at most: authorities of the whole world are some 150.
const CERTIFICATES_MAX: usize = 4_096;

/// The longest password that is taken (PEM_BUFSIZE of OpenSSL).
const PASSWORD_MAX: usize = 1_024;

/// A list of certificates that were taken back (RFC 5280 section 5).
#[derive(Debug)]
pub struct Revocation(pub(crate) OwnedCrl);

/// The certificates of a file, in their order; the first is of a server, those behind it of
/// who issued it.
///
/// # Errors
/// The first is none, or none is there ([`LibraryError::is_no_start_line`]), or a later one
/// is broken.
pub fn read_certificates(file: &[u8]) -> Result<Vec<Certificate>, LibraryError> {
    LibraryError::forget();
    let input = Input::new(file).ok_or_else(LibraryError::take)?;
    let mut all = Vec::new();
    while all.len() < CERTIFICATES_MAX {
        let read = if all.is_empty() { PEM_read_bio_X509_AUX } else { PEM_read_bio_X509 };
        // SAFETY: the input lives; certificates are not encrypted, and who asks for a password gets none.
        let made = unsafe { read(input.at(), ptr::null_mut(), Some(password), ptr::null_mut()) };
        // SAFETY: it was made for us.
        match unsafe { OwnedX509::of(made) } {
            Some(owned) => all.push(Certificate(owned)),
            None => {
                let why = LibraryError::take();
                let is_end = why.is_no_start_line() && !all.is_empty();
                return if is_end { Ok(all) } else { Err(why) };
            }
        }
    }
    Ok(all)
}

/// The lists of a file.
///
/// # Errors
/// As [`read_certificates`].
pub fn read_revocations(file: &[u8]) -> Result<Vec<Revocation>, LibraryError> {
    LibraryError::forget();
    let input = Input::new(file).ok_or_else(LibraryError::take)?;
    let mut all = Vec::new();
    while all.len() < CERTIFICATES_MAX {
        // SAFETY: the input lives; who asks for a password gets none.
        let made = unsafe { PEM_read_bio_X509_CRL(input.at(), ptr::null_mut(), Some(password), ptr::null_mut()) };
        // SAFETY: it was made for us.
        match unsafe { OwnedCrl::of(made) } {
            Some(owned) => all.push(Revocation(owned)),
            None => {
                let why = LibraryError::take();
                let is_end = why.is_no_start_line() && !all.is_empty();
                return if is_end { Ok(all) } else { Err(why) };
            }
        }
    }
    Ok(all)
}

/// The first key of a file: PKCS#8, PKCS#1 or SEC 1, in clear or encrypted; of an encrypted
/// one the first of `passwords` that opens it counts.
///
/// # Errors
/// There is none, or no password opens it.
pub fn read_key(file: &[u8], passwords: &[Zeroizing<Vec<u8>>]) -> Result<KeyDer, LibraryError> {
    let none = [Zeroizing::new(Vec::new())];
    let passwords = if passwords.is_empty() { &none[..] } else { passwords };
    let mut why = None;
    for one in passwords {
        LibraryError::forget();
        let input = Input::new(file).ok_or_else(LibraryError::take)?;
        let told: *const Zeroizing<Vec<u8>> = one;
        // SAFETY: the input and the password live during the call; `password` takes the latter for what it is.
        let made =
            unsafe { PEM_read_bio_PrivateKey(input.at(), ptr::null_mut(), Some(password), told.cast_mut().cast()) };
        // SAFETY: it was made for us.
        match unsafe { OwnedKey::of(made) } {
            Some(key) => return pkcs8(&key),
            None => why = Some(LibraryError::take()),
        }
    }
    Err(why.unwrap_or_else(LibraryError::take))
}

fn pkcs8(key: &OwnedKey) -> Result<KeyDer, LibraryError> {
    // SAFETY: the key lives.
    let made = unsafe { EVP_PKEY2PKCS8(key.at()) };
    // SAFETY: it was made for us.
    let info = unsafe { OwnedPkcs8::of(made) }.ok_or_else(LibraryError::take)?;
    // SAFETY: it lives, and there is room for what it tells.
    let bytes = crate::owned::der(|at| unsafe { i2d_PKCS8_PRIV_KEY_INFO(info.at(), at) });
    if bytes.is_empty() { Err(LibraryError::take()) } else { Ok(KeyDer::new(bytes)) }
}

/// Tells the library a password (`pem_password_cb`).
unsafe extern "C" fn password(room: *mut c_char, size: c_int, _writes: c_int, told: *mut c_void) -> c_int {
    let size = usize::try_from(size).unwrap_or(0);
    if told.is_null() || room.is_null() {
        return -1;
    }
    // SAFETY: whoever reads a file tells a password that lives for as long, or null.
    let password = unsafe { &*told.cast::<Zeroizing<Vec<u8>>>() };
    if password.is_empty() || password.len() > size.min(PASSWORD_MAX) {
        return -1;
    }
    // SAFETY: there is so much room, which is the library's and not the password's.
    unsafe { ptr::copy_nonoverlapping(password.as_ptr(), room.cast(), password.len()) };
    password.len() as c_int
}
