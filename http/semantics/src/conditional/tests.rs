//! RFC 9110 sections 8.8.3 and 13.

use super::*;

const MODIFIED: u64 = 784_111_777;
const AT: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &[u8] = b"Sun, 06 Nov 1994 08:49:38 GMT";
const NOW: u64 = MODIFIED + 1000;
const VALIDATORS: Validators<'static> = Validators { etag: Some(b"\"a,b\""), last_modified: Some(MODIFIED) };

fn judge(method: Method, preconditions: &Preconditions<'_>) -> Verdict {
    evaluate(method, preconditions, &VALIDATORS, NOW)
}

fn tags(list: &[u8]) -> Option<Values<'_>> {
    Some(Values::one(list))
}

/// Section 8.8.3.2, the table.
#[test]
fn entity_tags_compare_strongly_and_weakly() {
    let cases: [(&[u8], &[u8], bool, bool); 4] = [
        (b"W/\"1\"", b"W/\"1\"", false, true),
        (b"W/\"1\"", b"W/\"2\"", false, false),
        (b"W/\"1\"", b"\"1\"", false, true),
        (b"\"1\"", b"\"1\"", true, true),
    ];
    for (a, b, strong, weak) in cases {
        assert_eq!((strong_match(a, b), weak_match(a, b)), (strong, weak));
        assert_eq!((strong_match(b, a), weak_match(b, a)), (strong, weak));
    }
}

/// Section 13.1.2.
#[test]
fn if_none_match() {
    let cases: [(&[u8], bool); 10] = [
        (b"\"a,b\"", true),
        (b"W/\"a,b\"", true),
        (b"\"x\", \"a,b\"", true),
        (b"\"x\",W/\"y\" ,\t\"a,b\"", true),
        (b"*", true),
        (b"\"x\"", false),
        (b"\"a\", \"b\"", false),
        (b"a,b", false),
        (b"\"a,b", false),
        (b"", false),
    ];
    for (list, matches) in cases {
        let preconditions = Preconditions { if_none_match: tags(list), ..Preconditions::default() };
        let expected = |hit| if matches { hit } else { Verdict::Proceed };
        assert_eq!(judge(Method::Get, &preconditions), expected(Verdict::NotModified), "{list:?}");
        assert_eq!(judge(Method::Head, &preconditions), expected(Verdict::NotModified));
        assert_eq!(judge(Method::Put, &preconditions), expected(Verdict::PreconditionFailed));
    }
}

/// Section 13.1.1: strong comparison.
#[test]
fn if_match() {
    let cases: [(&[u8], bool); 5] =
        [(b"\"a,b\"", true), (b"W/\"a,b\"", false), (b"*", true), (b"\"x\"", false), (b"\"x\", \"a,b\"", true)];
    for (list, matches) in cases {
        let preconditions = Preconditions { if_match: tags(list), ..Preconditions::default() };
        let expected = if matches { Verdict::Proceed } else { Verdict::PreconditionFailed };
        assert_eq!(judge(Method::Get, &preconditions), expected, "{list:?}");
    }
}

/// Sections 13.1.3 and 13.1.4.
#[test]
fn dates() {
    let since = |text| Preconditions { if_modified_since: Some(text), ..Preconditions::default() };
    assert_eq!(judge(Method::Get, &since(AT)), Verdict::NotModified);
    assert_eq!(judge(Method::Get, &since(AFTER)), Verdict::NotModified);
    assert_eq!(judge(Method::Get, &since(BEFORE)), Verdict::Proceed);
    assert_eq!(judge(Method::Get, &since(b"whenever")), Verdict::Proceed, "an invalid date is ignored");
    assert_eq!(judge(Method::Post, &since(AT)), Verdict::Proceed, "ignored unless GET or HEAD");

    let unless = |text| Preconditions { if_unmodified_since: Some(text), ..Preconditions::default() };
    assert_eq!(judge(Method::Get, &unless(AT)), Verdict::Proceed);
    assert_eq!(judge(Method::Get, &unless(BEFORE)), Verdict::PreconditionFailed);
    assert_eq!(judge(Method::Get, &unless(b"whenever")), Verdict::Proceed);

    let none = Validators { etag: None, last_modified: None };
    assert_eq!(evaluate(Method::Get, &since(AT), &none, NOW), Verdict::Proceed);
    assert_eq!(evaluate(Method::Get, &unless(BEFORE), &none, NOW), Verdict::Proceed);
}

/// Section 13.2.2.
#[test]
fn tags_take_precedence_over_dates() {
    let preconditions =
        Preconditions { if_none_match: tags(b"\"x\""), if_modified_since: Some(AT), ..Preconditions::default() };
    assert_eq!(judge(Method::Get, &preconditions), Verdict::Proceed);
    let preconditions =
        Preconditions { if_match: tags(b"*"), if_unmodified_since: Some(BEFORE), ..Preconditions::default() };
    assert_eq!(judge(Method::Get, &preconditions), Verdict::Proceed);
    let preconditions =
        Preconditions { if_match: tags(b"\"x\""), if_none_match: tags(b"\"a,b\""), ..Preconditions::default() };
    assert_eq!(judge(Method::Get, &preconditions), Verdict::PreconditionFailed, "If-Match comes first");
}

/// Section 13.1.5.
#[test]
fn if_range() {
    let cases: [(&[u8], Verdict); 7] = [
        (b"\"a,b\"", Verdict::Proceed),
        (b"W/\"a,b\"", Verdict::ProceedWhole),
        (b"\"x\"", Verdict::ProceedWhole),
        (AT, Verdict::Proceed),
        (AFTER, Verdict::ProceedWhole),
        (BEFORE, Verdict::ProceedWhole),
        (b"", Verdict::ProceedWhole),
    ];
    for (condition, expected) in cases {
        let preconditions = Preconditions { if_range: Some(condition), ..Preconditions::default() };
        assert_eq!(judge(Method::Get, &preconditions), expected, "{condition:?}");
    }
    let just_now = Preconditions { if_range: Some(AT), ..Preconditions::default() };
    assert_eq!(evaluate(Method::Get, &just_now, &VALIDATORS, MODIFIED), Verdict::ProceedWhole, "a weak date");
    let weak = Validators { etag: Some(b"W/\"1\""), last_modified: None };
    let preconditions = Preconditions { if_range: Some(b"W/\"1\""), ..Preconditions::default() };
    assert_eq!(evaluate(Method::Get, &preconditions, &weak, NOW), Verdict::ProceedWhole);
}
