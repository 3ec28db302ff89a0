//! What issuers say of certificates when they are asked (OCSP, RFC 6960): the question, and
//! whether an answer is one to it.

use crate::certificate::Certificate;
use crate::error::LibraryError;
use crate::owned::{der, owner};
use crate::shape::is_sequence;
use crate::store::{OwnedStack, Store};
use aws_lc_sys::{
    ASN1_GENERALIZEDTIME, ASN1_TIME_to_posix, EVP_sha1, OCSP_BASICRESP, OCSP_BASICRESP_free, OCSP_CERTID,
    OCSP_CERTID_dup, OCSP_CERTID_free, OCSP_NOVERIFY, OCSP_REQUEST, OCSP_REQUEST_free, OCSP_REQUEST_new, OCSP_RESPONSE,
    OCSP_RESPONSE_STATUS_SUCCESSFUL, OCSP_RESPONSE_free, OCSP_TRUSTOTHER, OCSP_basic_verify, OCSP_cert_to_id,
    OCSP_request_add0_id, OCSP_resp_find_status, OCSP_response_get1_basic, OCSP_response_status, OPENSSL_STACK,
    OPENSSL_sk_new_null, OPENSSL_sk_num, OPENSSL_sk_push, OPENSSL_sk_value, V_OCSP_CERTSTATUS_GOOD,
    V_OCSP_CERTSTATUS_REVOKED, X509_check_issued, X509_email_free, X509_get1_ocsp, d2i_OCSP_RESPONSE, i2d_OCSP_REQUEST,
};
use core::ffi::{CStr, c_long, c_ulong};
use core::{fmt, ptr};

owner!(OwnedId, OCSP_CERTID, OCSP_CERTID_free);
owner!(OwnedRequest, OCSP_REQUEST, OCSP_REQUEST_free);
owner!(OwnedResponse, OCSP_RESPONSE, OCSP_RESPONSE_free);
owner!(OwnedAnswer, OCSP_BASICRESP, OCSP_BASICRESP_free);

/// Seconds that two clocks may differ by.
const DRIFT: i64 = 300;

/// The longest answer: those with the certificates of their signers have some thousands of bytes.
pub const OCSP_ANSWER_MAX: usize = 64 << 10;

/// What is asked of one certificate.
#[derive(Debug)]
pub struct OcspQuestion {
    id: OwnedId,
    der: Vec<u8>,
}

// SAFETY: after `new` its pointer is only read through.
unsafe impl Send for OcspQuestion {}
// SAFETY: as above.
unsafe impl Sync for OcspQuestion {}

/// Until when an answer says that its certificate is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OcspGood {
    /// The unix second at which there is something newer; none where that can be asked for always.
    pub next_update: Option<i64>,
}

/// Why an answer is not one that a client would take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OcspError {
    /// It is no response (RFC 6960 section 4.2).
    Malformed,
    /// The responder says that it has none, by this number.
    Unsuccessful(i32),
    /// It is not signed by who may.
    Signature(LibraryError),
    /// It is of other certificates.
    Missing,
    /// The certificate is not good.
    Status(&'static str),
    /// It is not valid yet, or not any more.
    Time,
}

impl fmt::Display for OcspError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("d2i_OCSP_RESPONSE() failed"),
            Self::Unsuccessful(number) => {
                let name = match number {
                    1 => "malformedrequest",
                    2 => "internalerror",
                    3 => "trylater",
                    5 => "sigrequired",
                    6 => "unauthorized",
                    _ => "unknown",
                };
                write!(f, "OCSP response not successful ({number}: {name})")
            }
            Self::Signature(why) => write!(f, "OCSP_basic_verify() failed (SSL: {why})"),
            Self::Missing => f.write_str("certificate status not found in the OCSP response"),
            Self::Status(status) => write!(f, "certificate status \"{status}\" in the OCSP response"),
            Self::Time => f.write_str("OCSP_check_validity() failed"),
        }
    }
}

impl std::error::Error for OcspError {}

impl Certificate {
    /// Where its issuer says that it can be asked (RFC 5280 section 4.2.2.1): the first address.
    #[must_use]
    pub fn ocsp_responder(&self) -> Option<Vec<u8>> {
        // SAFETY: the certificate lives; what is returned is ours, or null.
        let list = unsafe { X509_get1_ocsp(self.0.at()) };
        if list.is_null() {
            return None;
        }
        let stack: *const OPENSSL_STACK = list.cast();
        // SAFETY: it is a stack of texts that end by a zero, and lives until it is freed below.
        let first = unsafe {
            let text = if OPENSSL_sk_num(stack) > 0 { OPENSSL_sk_value(stack, 0) } else { ptr::null_mut() };
            (!text.is_null()).then(|| CStr::from_ptr(text.cast()).to_bytes().to_vec())
        };
        // SAFETY: it was made for us, is freed once, and not used any more.
        unsafe { X509_email_free(list) };
        first
    }

    /// Whether it is the certificate of who issued `other`, by their names and the use of its key.
    #[must_use]
    pub fn is_issuer_of(&self, other: &Self) -> bool {
        // SAFETY: both live.
        unsafe { X509_check_issued(self.0.at(), other.0.at()) == 0 }
    }
}

impl OcspQuestion {
    /// The question about `subject`, which `issuer` has issued.
    #[must_use]
    pub fn new(subject: &Certificate, issuer: &Certificate) -> Option<Self> {
        // SAFETY: both live; the digest is there for good, and the result is ours.
        let id = unsafe { OwnedId::of(OCSP_cert_to_id(EVP_sha1(), subject.0.at(), issuer.0.at())) }?;
        // SAFETY: makes a value out of nothing, which is ours.
        let request = unsafe { OwnedRequest::of(OCSP_REQUEST_new()) }?;
        // SAFETY: it lives; the result is ours.
        let copy = unsafe { OwnedId::of(OCSP_CERTID_dup(id.at())) }?;
        // SAFETY: both live; the request owns the other from here on, if it could take it.
        if unsafe { OCSP_request_add0_id(request.at(), copy.at()) }.is_null() {
            return None;
        }
        core::mem::forget(copy);
        // SAFETY: the request lives, and `der` gives room for what it was told.
        let bytes = der(|at| unsafe { i2d_OCSP_REQUEST(request.at(), at) });
        LibraryError::forget();
        (!bytes.is_empty()).then_some(Self { id, der: bytes })
    }

    /// As it is sent (RFC 6960 section 4.1).
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Reads an answer, at the unix second `now`. It is to be signed by one of `signers`, or by whose
    /// certificate is in it; with `trusted` that has to lead there, and to be allowed to say so.
    ///
    /// # Errors
    /// See [`OcspError`]: it is not to be passed on.
    pub fn read(
        &self,
        answer: &[u8],
        signers: &[Certificate],
        trusted: Option<&Store>,
        now: i64,
    ) -> Result<OcspGood, OcspError> {
        LibraryError::forget();
        if answer.len() > OCSP_ANSWER_MAX || !is_sequence(answer) {
            return Err(OcspError::Malformed);
        }
        let mut at = answer.as_ptr();
        let length = c_long::try_from(answer.len()).map_err(|_| OcspError::Malformed)?;
        // SAFETY: so many bytes lie there; `at` is ours, and the result, too.
        let response = unsafe { OwnedResponse::of(d2i_OCSP_RESPONSE(ptr::null_mut(), &raw mut at, length)) };
        let response = response.ok_or(OcspError::Malformed)?;
        // SAFETY: it lives.
        let status = unsafe { OCSP_response_status(response.at()) };
        if status != OCSP_RESPONSE_STATUS_SUCCESSFUL {
            return Err(OcspError::Unsuccessful(status));
        }
        // SAFETY: it lives; the result is ours.
        let basic = unsafe { OwnedAnswer::of(OCSP_response_get1_basic(response.at())) };
        let basic = basic.ok_or(OcspError::Malformed)?;
        verify(&basic, signers, trusted)?;
        self.find(&basic, now)
    }

    /// What it says of this certificate.
    fn find(&self, basic: &OwnedAnswer, now: i64) -> Result<OcspGood, OcspError> {
        let (mut status, mut reason) = (0, 0);
        let (mut this_update, mut next_update) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: both live, and the results are written to places of ours; they belong to the answer.
        let found = unsafe {
            OCSP_resp_find_status(
                basic.at(),
                self.id.at(),
                &raw mut status,
                &raw mut reason,
                ptr::null_mut(),
                &raw mut this_update,
                &raw mut next_update,
            )
        };
        if found != 1 {
            return Err(OcspError::Missing);
        }
        match status {
            V_OCSP_CERTSTATUS_GOOD => {}
            V_OCSP_CERTSTATUS_REVOKED => return Err(OcspError::Status("revoked")),
            _ => return Err(OcspError::Status("unknown")),
        }
        let from = second(this_update).ok_or(OcspError::Time)?;
        let until = if next_update.is_null() { None } else { Some(second(next_update).ok_or(OcspError::Time)?) };
        // Which of them is later, the responder may have mistaken, too.
        let is_now = from <= now + DRIFT && until.is_none_or(|until| until + DRIFT >= now && until >= from);
        if is_now { Ok(OcspGood { next_update: until }) } else { Err(OcspError::Time) }
    }
}

/// The unix second of a time.
fn second(time: *const ASN1_GENERALIZEDTIME) -> Option<i64> {
    if time.is_null() {
        return None;
    }
    let mut second = 0;
    // SAFETY: whoever calls has the answer that it is of; the result is written to a place of ours.
    (unsafe { ASN1_TIME_to_posix(time, &raw mut second) } == 1).then_some(second)
}

/// Whether an answer is signed by who may.
fn verify(basic: &OwnedAnswer, signers: &[Certificate], trusted: Option<&Store>) -> Result<(), OcspError> {
    let refused = || Err(OcspError::Signature(LibraryError::take()));
    // SAFETY: makes a value out of nothing, which is ours: a stack of pointers alone, to free which frees none of them.
    let Some(stack) = (unsafe { OwnedStack::of(OPENSSL_sk_new_null()) }) else { return refused() };
    for one in signers {
        // SAFETY: the certificates live longer than the stack.
        if unsafe { OPENSSL_sk_push(stack.at(), one.0.at().cast()) } == 0 {
            return refused();
        }
    }
    let nobody;
    let (store, flags) = match trusted {
        Some(store) => (store, OCSP_TRUSTOTHER),
        None => {
            let Ok(store) = Store::new([], &[]) else { return refused() };
            nobody = store;
            (&nobody, OCSP_NOVERIFY)
        }
    };
    // SAFETY: all three live longer than the call; nothing of them is kept.
    let is_signed = unsafe { OCSP_basic_verify(basic.at(), stack.at().cast(), store.at(), flags as c_ulong) } == 1;
    if is_signed {
        LibraryError::forget();
        return Ok(());
    }
    refused()
}
