//! Who is trusted, and whether a chain leads there.

use crate::certificate::Certificate;
use crate::error::{LibraryError, VerifyError};
use crate::owned::owner;
use crate::pem::Revocation;
use aws_lc_sys::{
    OPENSSL_STACK, OPENSSL_sk_free, OPENSSL_sk_new_null, OPENSSL_sk_push, X509_STORE, X509_STORE_CTX,
    X509_STORE_CTX_free, X509_STORE_CTX_get_error, X509_STORE_CTX_init, X509_STORE_CTX_new, X509_STORE_CTX_set_default,
    X509_STORE_CTX_set_depth, X509_STORE_CTX_set_time_posix, X509_STORE_add_cert, X509_STORE_add_crl, X509_STORE_free,
    X509_STORE_new, X509_STORE_set_flags, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
    X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_FLAG_CRL_CHECK, X509_V_FLAG_CRL_CHECK_ALL, X509_verify_cert,
};
use core::ffi::CStr;

owner!(OwnedStore, X509_STORE, X509_STORE_free);
owner!(OwnedContext, X509_STORE_CTX, X509_STORE_CTX_free);
owner!(OwnedStack, OPENSSL_STACK, OPENSSL_sk_free);

/// Who is trusted to issue certificates of clients, and who was taken that from.
#[derive(Debug)]
pub struct Store(OwnedStore);

// SAFETY: after `new` it is only looked at, which the library does behind a lock of its own.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Store {
    /// It, for a call.
    pub(crate) const fn at(&self) -> *mut X509_STORE {
        self.0.at()
    }

    /// Trusts `authorities`. With `revocations` each certificate of a chain must be spoken of
    /// by a list of its issuer, and not as taken back, as nginx has it.
    ///
    /// # Errors
    /// The library has no memory for it.
    pub fn new<'a>(
        authorities: impl IntoIterator<Item = &'a Certificate>,
        revocations: &[Revocation],
    ) -> Result<Self, LibraryError> {
        LibraryError::forget();
        // SAFETY: makes a value out of nothing, which is ours.
        let store = unsafe { OwnedStore::of(X509_STORE_new()) }.ok_or_else(LibraryError::take)?;
        for authority in authorities {
            // SAFETY: both live; the store keeps a reference of its own.
            if unsafe { X509_STORE_add_cert(store.at(), authority.0.at()) } != 1 {
                return Err(LibraryError::take());
            }
        }
        for list in revocations {
            // SAFETY: both live; the store keeps a reference of its own.
            if unsafe { X509_STORE_add_crl(store.at(), list.0.at()) } != 1 {
                return Err(LibraryError::take());
            }
        }
        if !revocations.is_empty() {
            let flags = (X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) as core::ffi::c_ulong;
            // SAFETY: it lives.
            unsafe { X509_STORE_set_flags(store.at(), flags) };
        }
        Ok(Self(store))
    }

    /// Whether the first of `chain` is a client's that is trusted at the unix second `now`,
    /// by way of the others, and with at most `depth` of them in between.
    ///
    /// # Errors
    /// Why it is not.
    pub fn verify_client(&self, chain: &[Certificate], depth: u32, now: i64) -> Result<(), VerifyError> {
        self.verify(chain, c"ssl_client", (depth, now))
    }

    /// The same, of a server's; whose it is, is not asked ([`Certificate::is_of_host`]).
    ///
    /// # Errors
    /// Why it is not.
    pub fn verify_server(&self, chain: &[Certificate], depth: u32, now: i64) -> Result<(), VerifyError> {
        self.verify(chain, c"ssl_server", (depth, now))
    }

    fn verify(&self, chain: &[Certificate], purpose: &CStr, (depth, now): (u32, i64)) -> Result<(), VerifyError> {
        let Some((leaf, others)) = chain.split_first() else { return Err(VerifyError::UNSPECIFIED) };
        // SAFETY: make values out of nothing, which are ours. The stack is one of pointers alone: to free
        // it frees none of them.
        let (stack, context) =
            unsafe { (OwnedStack::of(OPENSSL_sk_new_null()), OwnedContext::of(X509_STORE_CTX_new())) };
        let (Some(stack), Some(context)) = (stack, context) else { return Err(VerifyError::UNSPECIFIED) };
        for one in others {
            // SAFETY: the certificates live longer than the stack.
            if unsafe { OPENSSL_sk_push(stack.at(), one.0.at().cast()) } == 0 {
                return Err(VerifyError::UNSPECIFIED);
            }
        }
        // SAFETY: all of them live longer than the context, which is declared behind the stack and dropped before it.
        let begun = unsafe { X509_STORE_CTX_init(context.at(), self.0.at(), leaf.0.at(), stack.at().cast()) } == 1;
        // SAFETY: it lives; the name is a text that is only read.
        if !begun || unsafe { X509_STORE_CTX_set_default(context.at(), purpose.as_ptr()) } != 1 {
            LibraryError::forget();
            return Err(VerifyError::UNSPECIFIED);
        }
        let depth = i32::try_from(depth).unwrap_or(i32::MAX);
        // SAFETY: it lives, and these set numbers in it.
        unsafe {
            X509_STORE_CTX_set_depth(context.at(), depth);
            X509_STORE_CTX_set_time_posix(context.at(), 0, now);
        }
        // SAFETY: it was made ready above, and is used for this once.
        let is_trusted = unsafe { X509_verify_cert(context.at()) } == 1;
        // SAFETY: it lives.
        let error = unsafe { X509_STORE_CTX_get_error(context.at()) };
        LibraryError::forget();
        match (is_trusted, error) {
            (true, 0) => Ok(()),
            (false, 0) => Err(VerifyError::UNSPECIFIED),
            // OpenSSL goes on behind this, and says in the end that it could not begin.
            (_, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY) if others.is_empty() => {
                Err(VerifyError(X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE))
            }
            (_, error) => Err(VerifyError(error)),
        }
    }
}
