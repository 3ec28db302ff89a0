//! What the library says is wrong.

use aws_lc_sys::{
    ERR_GET_LIB, ERR_GET_REASON, ERR_clear_error, ERR_peek_error, ERR_reason_error_string, X509_V_ERR_CERT_HAS_EXPIRED,
    X509_V_ERR_CERT_REVOKED, X509_V_ERR_CERT_UNTRUSTED, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
    X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
    X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
    X509_verify_cert_error_string,
};
use core::ffi::{CStr, c_char};
use core::fmt;

/// Why something could not be read: the first error that the library noted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryError {
    /// Which part of the library it is of, by its number.
    pub part: i32,
    /// What is wrong, by its number there.
    pub number: i32,
    /// And in words: `NO_START_LINE`.
    pub reason: String,
}

impl LibraryError {
    /// The first error that is noted for this thread; forgets all of them.
    pub(crate) fn take() -> Self {
        // SAFETY: these look at a list of the calling thread's own, and change nothing else.
        let error = unsafe { ERR_peek_error() };
        let (part, number) = (ERR_GET_LIB(error), ERR_GET_REASON(error));
        // SAFETY: takes a number, and returns a text that is there for good, or null.
        let reason = text(unsafe { ERR_reason_error_string(error) }).unwrap_or_else(|| "unknown error".to_owned());
        Self::forget();
        Self { part, number, reason }
    }

    /// Forgets what was noted.
    pub(crate) fn forget() {
        // SAFETY: empties a list of the calling thread's own.
        unsafe { ERR_clear_error() };
    }

    /// Whether it is of the lines that a file has, not of what stands in them.
    #[must_use]
    pub const fn is_of_pem(&self) -> bool {
        self.part == aws_lc_sys::ERR_LIB_PEM
    }

    /// Whether there was nothing of the kind that was looked for.
    #[must_use]
    pub fn is_no_start_line(&self) -> bool {
        self.part == aws_lc_sys::ERR_LIB_PEM && self.number == aws_lc_sys::PEM_R_NO_START_LINE
    }
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason.to_ascii_lowercase().replace('_', " "))
    }
}

impl std::error::Error for LibraryError {}

/// Why a chain of certificates is not trusted, by the number that OpenSSL has for it
/// (openssl-verification-options(1)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VerifyError(pub(crate) i32);

impl VerifyError {
    /// Nothing was said of why.
    pub const UNSPECIFIED: Self = Self(1);
    /// It is past its time.
    pub const EXPIRED: Self = Self(X509_V_ERR_CERT_HAS_EXPIRED);
    /// Its issuer took it back.
    pub const REVOKED: Self = Self(X509_V_ERR_CERT_REVOKED);

    /// OpenSSL's number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Whether it says no more than that nobody who is trusted has issued it: what
    /// `optional_no_ca` of nginx lets pass.
    #[must_use]
    pub const fn is_of_trust_alone(self) -> bool {
        matches!(
            self.0,
            X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
                | X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN
                | X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT
                | X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
                | X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE
                | X509_V_ERR_CERT_UNTRUSTED
        )
    }
}

impl fmt::Display for VerifyError {
    /// In OpenSSL's words, of version 3.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // The library's words are those of version 1.1 there.
            X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT => f.write_str("self-signed certificate"),
            X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN => f.write_str("self-signed certificate in certificate chain"),
            // SAFETY: takes a number, and returns a text that is there for good.
            number => match text(unsafe { X509_verify_cert_error_string(number.into()) }) {
                Some(text) => f.write_str(&text),
                None => write!(f, "error {number}"),
            },
        }
    }
}

impl std::error::Error for VerifyError {}

/// A text of the library's.
fn text(at: *const c_char) -> Option<String> {
    if at.is_null() {
        return None;
    }
    // SAFETY: it is not null, and the library's texts of errors end by a zero and never change.
    Some(unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}
