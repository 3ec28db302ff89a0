//! What peers and responders send of X.509: certificates, and what issuers say of them.

use crate::Target;
use x509::{Certificate, NameForm, OcspError, OcspQuestion, is_sequence};

pub(crate) const TARGET: Target = Target {
    name: "certificates",
    about: "a certificate that is taken is DER, and answers about one are taken as they were signed",
    run,
    seeds,
    dictionary: &[
        b"\x30\x82\x01\x00",
        b"\x30\x80",
        b"\x06\x03\x55\x1d\x11",
        b"\x06\x08\x2b\x06\x01\x05\x05\x07\x01\x01",
        b"\x06\x08\x2b\x06\x01\x05\x05\x07\x30\x01",
        b"\x17\x0d260101000000Z",
        b"\x18\x0f20260101000000Z",
        b"\xa0\x03\x02\x01\x02",
        b"\x02\x01\x05",
        b"\x0a\x01\x00",
    ],
    test_runs: 3_000,
    max_len: 1_200,
};

const ONE: &[u8] = include_bytes!("certificates/one.der");
const AUTHORITY: &[u8] = include_bytes!("certificates/authority.der");
/// What its authority says of the first, signed by itself.
const ANSWER: &[u8] = include_bytes!("certificates/answer.der");

/// A second at which that is valid.
const NOW: i64 = 1_800_000_000;

fn run(input: &[u8]) {
    if let Ok(certificate) = Certificate::from_der(input) {
        look_at(&certificate, input);
    }
    let (Ok(one), Ok(authority)) = (Certificate::from_der(ONE), Certificate::from_der(AUTHORITY)) else {
        panic!("they are certificates");
    };
    let question = OcspQuestion::new(&one, &authority).expect("a question");
    match question.read(input, &[authority], None, NOW) {
        // What is signed is not all of it: how it is wrapped is nobody's word.
        Ok(good) => assert!(is_sequence(input) && good.next_update.is_some()),
        Err(OcspError::Unsuccessful(number)) => assert!(number != 0 && is_sequence(input)),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

/// What is told of one.
fn look_at(certificate: &Certificate, input: &[u8]) {
    assert_eq!(certificate.der(), input, "it is sent as it came");
    for form in [NameForm::Rfc2253, NameForm::Slashes] {
        let (subject, issuer) = (certificate.subject(form), certificate.issuer(form));
        // What a log's line and a field have of them.
        assert!(subject.iter().chain(&issuer).all(|byte| *byte != b'\n' && *byte != 0), "{subject:?} {issuer:?}");
    }
    let hexadecimal = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
    assert!(certificate.serial().iter().all(hexadecimal));
    let _ = (certificate.valid_from(), certificate.valid_to(), certificate.valid_to_second());
    let _ = (certificate.public_key(), certificate.subject_der(), certificate.is_issuer_of(certificate));
    let _ = certificate.ocsp_responder();
    assert!(!certificate.is_of_host(b""));
    let _ = (certificate.is_of_host(b"one.example"), certificate.is_of_address(b"127.0.0.1"));
    let again = x509::read_certificates(&certificate.pem()).expect("what was written is read");
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].der(), input);
}

fn seeds() -> Vec<Vec<u8>> {
    vec![ONE.to_vec(), AUTHORITY.to_vec(), ANSWER.to_vec(), vec![0x30, 3, 0x0a, 1, 6]]
}
