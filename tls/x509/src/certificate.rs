//! A certificate, and what is told of it.

use crate::error::LibraryError;
use crate::key::KeyDer;
use crate::owned::{der, owner, written};
use crate::shape::is_der;
use aws_lc_sys::{
    ASN1_TIME_print, ASN1_TIME_to_posix, X509, X509_NAME, X509_NAME_oneline, X509_NAME_print_ex, X509_check_host,
    X509_check_ip, X509_check_private_key, X509_free, X509_get_X509_PUBKEY, X509_get_issuer_name,
    X509_get_serialNumber, X509_get_subject_name, X509_get0_notAfter, X509_get0_notBefore, XN_FLAG_RFC2253, d2i_X509,
    i2a_ASN1_INTEGER, i2d_X509, i2d_X509_NAME, i2d_X509_PUBKEY,
};
use core::ffi::{CStr, c_long};
use core::ptr;

owner!(OwnedX509, X509, X509_free);

/// A certificate.
#[derive(Debug)]
pub struct Certificate(pub(crate) OwnedX509);

// SAFETY: after it was read it is only looked at; what the library remembers of it meanwhile
// (its extensions, its name in a canonical form) is behind locks of the library's own.
unsafe impl Send for Certificate {}
// SAFETY: as above.
unsafe impl Sync for Certificate {}

/// How a name is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameForm {
    /// RFC 2253: `CN=name,O=organization`, the last part first.
    Rfc2253,
    /// As OpenSSL did before: `/O=organization/CN=name`.
    Slashes,
}

impl Certificate {
    /// Reads one (DER, RFC 5280 section 4.1).
    ///
    /// # Errors
    /// It is none, or something follows it.
    pub fn from_der(bytes: &[u8]) -> Result<Self, LibraryError> {
        LibraryError::forget();
        if !is_der(bytes) {
            return Err(LibraryError::take());
        }
        let Ok(length) = c_long::try_from(bytes.len()) else { return Err(LibraryError::take()) };
        let mut at = bytes.as_ptr();
        // SAFETY: so many bytes lie there; `at` is ours, and moved behind what was read.
        let made = unsafe { d2i_X509(ptr::null_mut(), &raw mut at, length) };
        // SAFETY: it was made for us.
        let owned = unsafe { OwnedX509::of(made) }.ok_or_else(LibraryError::take)?;
        match at == bytes.as_ptr_range().end {
            true => Ok(Self(owned)),
            false => Err(LibraryError::take()),
        }
    }

    /// As it is sent.
    #[must_use]
    pub fn der(&self) -> Vec<u8> {
        // SAFETY: the certificate lives, and `der` gives room for what it was told.
        der(|at| unsafe { i2d_X509(self.0.at(), at) })
    }

    /// As text, between its two lines (RFC 7468 section 5).
    #[must_use]
    pub fn pem(&self) -> Vec<u8> {
        // SAFETY: both live.
        written(|bio| _ = unsafe { aws_lc_sys::PEM_write_bio_X509(bio, self.0.at()) })
    }

    /// Its public key with its algorithm (`SubjectPublicKeyInfo`).
    #[must_use]
    pub fn public_key(&self) -> Vec<u8> {
        // SAFETY: the certificate lives, and with it what it has.
        der(|at| unsafe { i2d_X509_PUBKEY(X509_get_X509_PUBKEY(self.0.at()), at) })
    }

    /// Whose it is, as DER.
    #[must_use]
    pub fn subject_der(&self) -> Vec<u8> {
        // SAFETY: the certificate lives, and with it what it has.
        der(|at| unsafe { i2d_X509_NAME(X509_get_subject_name(self.0.at()), at) })
    }

    /// Whose it is.
    #[must_use]
    pub fn subject(&self, form: NameForm) -> Vec<u8> {
        // SAFETY: the certificate lives, and with it what it has.
        name(unsafe { X509_get_subject_name(self.0.at()) }, form)
    }

    /// Who issued it.
    #[must_use]
    pub fn issuer(&self, form: NameForm) -> Vec<u8> {
        // SAFETY: the certificate lives, and with it what it has.
        name(unsafe { X509_get_issuer_name(self.0.at()) }, form)
    }

    /// Its number, in hexadecimal digits.
    #[must_use]
    pub fn serial(&self) -> Vec<u8> {
        // SAFETY: both live.
        written(|bio| _ = unsafe { i2a_ASN1_INTEGER(bio, X509_get_serialNumber(self.0.at())) })
    }

    /// From when on it is valid, as nginx tells it: `Nov 23 17:30:06 2026 GMT`.
    #[must_use]
    pub fn valid_from(&self) -> Vec<u8> {
        // SAFETY: both live.
        written(|bio| _ = unsafe { ASN1_TIME_print(bio, X509_get0_notBefore(self.0.at())) })
    }

    /// Until when it is valid.
    #[must_use]
    pub fn valid_to(&self) -> Vec<u8> {
        // SAFETY: both live.
        written(|bio| _ = unsafe { ASN1_TIME_print(bio, X509_get0_notAfter(self.0.at())) })
    }

    /// The unix second that it is valid until; `None` where that is no time.
    #[must_use]
    pub fn valid_to_second(&self) -> Option<i64> {
        let mut second = 0;
        // SAFETY: the certificate lives, and the result is written to a place of ours.
        let is_time = unsafe { ASN1_TIME_to_posix(X509_get0_notAfter(self.0.at()), &raw mut second) } == 1;
        is_time.then_some(second)
    }

    /// Whether it is a server's of this name, by its subject's alternative names, or by its common
    /// name where there are none (RFC 6125 section 6.4).
    #[must_use]
    pub fn is_of_host(&self, name: &[u8]) -> bool {
        if name.is_empty() || name.contains(&0) {
            return false;
        }
        // SAFETY: the certificate lives, and so does the name, which is as long as is told.
        unsafe { X509_check_host(self.0.at(), name.as_ptr().cast(), name.len(), 0, ptr::null_mut()) == 1 }
    }

    /// Whether it is a server's with this IP address, written as text, among its subject's alternative
    /// names (RFC 2818 section 3.1).
    #[must_use]
    pub fn is_of_address(&self, address: &[u8]) -> bool {
        let Some(address) = core::str::from_utf8(address).ok().and_then(|text| text.parse().ok()) else { return false };
        let octets = match address {
            core::net::IpAddr::V4(address) => address.octets().to_vec(),
            core::net::IpAddr::V6(address) => address.octets().to_vec(),
        };
        // SAFETY: the certificate lives, and so do the octets, which are as many as is told.
        unsafe { X509_check_ip(self.0.at(), octets.as_ptr(), octets.len(), 0) == 1 }
    }

    /// Whether `key` is its private key.
    ///
    /// # Errors
    /// It is not, for this reason.
    pub fn check_key(&self, key: &KeyDer) -> Result<(), LibraryError> {
        LibraryError::forget();
        let key = key.parse()?;
        // SAFETY: both live.
        match unsafe { X509_check_private_key(self.0.at(), key.at()) } {
            1 => Ok(()),
            _ => Err(LibraryError::take()),
        }
    }
}

/// A name as text.
fn name(name: *const X509_NAME, form: NameForm) -> Vec<u8> {
    match form {
        // SAFETY: whoever calls has the certificate that it is of; the other is made for it.
        NameForm::Rfc2253 => written(|bio| {
            // SAFETY: as above.
            _ = unsafe { X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253 as core::ffi::c_ulong) };
        }),
        NameForm::Slashes => {
            // SAFETY: whoever calls has the certificate that it is of; without room the library makes some.
            let text = unsafe { X509_NAME_oneline(name, ptr::null_mut(), 0) };
            if text.is_null() {
                return Vec::new();
            }
            // SAFETY: it is not null, and ends by a zero.
            let bytes = unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
            // SAFETY: the library made it for us, and it is not used any more.
            unsafe { aws_lc_sys::OPENSSL_free(text.cast()) };
            bytes
        }
    }
}
