//! Certificates (X.509, RFC 5280), their keys and lists of revoked certificates: read
//! from files as nginx reads them, matched, told as text, and verified.
//!
//! The work is AWS-LC's, which comes with rustls anyway: its reader of PEM takes the
//! encrypted and the old forms of keys, and its verification takes what OpenSSL's
//! takes, certificates of version 1 among them, and tells what is wrong by the same
//! numbers and words. webpki refuses those, and names other reasons.
//!
//! What peers send of it, certificates of clients where a server asks for them, is looked
//! over here first: only what has the shape of DER reaches its parser.
//!
//! This crate is where its functions are called, and the only one that holds pointers
//! of it: each is owned by one value, and freed with it.
//!
//! | module | for |
//! | --- | --- |
//! | [`Certificate`] | a certificate, and what is told of it |
//! | [`read_certificates`], [`read_key`], [`read_revocations`] | PEM files |
//! | [`is_sequence`] | the shape of other files |
//! | [`OcspQuestion`] | what issuers say when they are asked |
//! | [`Store`] | who is trusted, and who is not any more |

mod certificate;
mod error;
mod key;
mod ocsp;
mod owned;
mod pem;
mod shape;
mod store;

pub use certificate::{Certificate, NameForm};
pub use error::{LibraryError, VerifyError};
pub use key::KeyDer;
pub use ocsp::{OCSP_ANSWER_MAX, OcspError, OcspGood, OcspQuestion};
pub use pem::{Revocation, read_certificates, read_key, read_revocations};
pub use shape::is_sequence;
pub use store::Store;
