//! RFC 9110 section 5.6.7.

use super::*;

#[test]
fn imf_fixdates_are_written() {
    let cases: [(u64, &[u8; 29]); 8] = [
        (0, b"Thu, 01 Jan 1970 00:00:00 GMT"),
        (784_111_777, b"Sun, 06 Nov 1994 08:49:37 GMT"),
        (951_782_400, b"Tue, 29 Feb 2000 00:00:00 GMT"),
        (951_868_799, b"Tue, 29 Feb 2000 23:59:59 GMT"),
        (951_868_800, b"Wed, 01 Mar 2000 00:00:00 GMT"),
        (4_107_542_400, b"Mon, 01 Mar 2100 00:00:00 GMT"),
        (LAST, b"Fri, 31 Dec 9999 23:59:59 GMT"),
        (u64::MAX, b"Fri, 31 Dec 9999 23:59:59 GMT"),
    ];
    for (seconds, text) in cases {
        assert_eq!(HttpDate::from_unix(seconds).as_bytes(), text, "{seconds}");
    }
}

#[test]
fn all_three_formats_are_read() {
    let now = 1_700_000_000;
    for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        assert_eq!(parse(text.as_bytes(), now), Some(784_111_777), "{text}");
    }
    assert_eq!(parse(b"Thu Jan 16 08:49:37 2025", now), Some(1_737_017_377));
}

#[test]
fn two_digit_years_lie_at_most_fifty_years_ahead() {
    let in_2023 = 1_700_000_000;
    let year = |text: &[u8]| civil(parse(text, in_2023).expect("a date") / DAY).0;
    assert_eq!(year(b"Sunday, 06-Nov-73 08:49:37 GMT"), 2073);
    assert_eq!(year(b"Sunday, 06-Nov-74 08:49:37 GMT"), 1974);
    assert_eq!(parse(b"Sunday, 06-Nov-69 08:49:37 GMT", in_2023), Some(3_150_953_377), "2069, not 1969");
    assert_eq!(parse(b"Sunday, 06-Nov-04 08:49:37 GMT", LAST), None, "10004 cannot be written");
    let in_2099 = 4_090_000_000;
    assert_eq!(parse(b"Sunday, 06-Nov-05 08:49:37 GMT", in_2099).map(|seconds| civil(seconds / DAY).0), Some(2105));
}

#[test]
fn what_is_no_date_is_refused() {
    for text in [
        "",
        ",",
        "0",
        "now",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Son, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Wed, 29 Feb 2023 00:00:00 GMT",
        "Mon, 29 Feb 2100 00:00:00 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 00:60:00 GMT",
        "Sun, 06 Nov 1994 00:00:61 GMT",
        "Sun, 06 Nov 1969 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov -994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 UTC",
        "Someday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
    ] {
        assert_eq!(parse(text.as_bytes(), 1_700_000_000), None, "{text}");
    }
}

#[test]
fn every_day_is_read_as_it_was_written() {
    let mut seconds = 0;
    while seconds <= LAST {
        assert_eq!(parse(HttpDate::from_unix(seconds).as_bytes(), 0), Some(seconds));
        // Some eight days and a half: all days of the week and months, and
        // over the years all of each.
        seconds += 734_567;
    }
}

#[test]
fn what_looks_like_a_date_is_one_to_the_lenient() {
    const SECOND: u64 = 1_289_383_810;
    for text in [
        "Wed, 10 Nov 2010 10:10:10 GMT",
        "Wed, 10 Nov 2010 10:10:10",
        "Wed, 10 Nov 2010 10:10:10 +0200",
        "Wed, 10 Nov 2010 10:10:10GMT",
        "Xyz, 10 Nov 2010 10:10:10 and more",
        ",10 Nov 2010 10:10:10",
        "Wed,  10 Nov 2010 10:10:10",
        "Wednesday, 10-Nov-10 10:10:10",
        "Wed, 10-Nov-10 10:10:10 GMT",
        "Wed Nov 10 10:10:10 2010",
        "x Nov 10 10:10:10 2010 x",
    ] {
        assert_eq!(parse_leniently(text.as_bytes(), SECOND), Some(SECOND), "{text}");
    }
    for text in ["Wed Nov  9 10:10:10 2010", "Wed Nov 9 10:10:10 2010"] {
        assert_eq!(parse_leniently(text.as_bytes(), SECOND), Some(SECOND - 86_400), "{text}");
    }
    for text in [
        "",
        ",",
        " ",
        "x",
        "Wed, 1",
        "Wed, 10 Nov 2010",
        "Wed, 10 Nov 2010 10:10:1",
        "Wed, 10 Nov 2010  10:10:10 GMT",
        "Wed, 10 Nov 2010 10:10:60 GMT",
        "Wed, 10 Nov 2010 24:10:10 GMT",
        "Wed, 30 Feb 2010 10:10:10 GMT",
        "Wed, 10-Nov-2010 10:10:10 GMT",
        "Wed, 10 nov 2010 10:10:10 GMT",
        "10 Nov 2010 10:10:10 GMT",
        "Wed Nov 100 10:10:10 2010",
        "Wed Nov  10:10:10 2010",
        "Wed Nov 10 10:10:10 201",
        "Wed Nov 10 10:10:10",
        "Wed, 10-Nov-10 ",
    ] {
        assert_eq!(parse_leniently(text.as_bytes(), SECOND), None, "{text}");
    }
    // Whatever is a date is the same one.
    for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        assert_eq!(parse_leniently(text.as_bytes(), SECOND), parse(text.as_bytes(), SECOND), "{text}");
    }
}
