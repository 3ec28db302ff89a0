//! Requests within requests to upstreams that answer wrongly, in any pieces and at any
//! moment, for clients that leave: no exchange hangs, no answer goes to another, and
//! nothing is left over. No connection is kept: one that a server answers twice on may be
//! taken for the next request before the second answer is there.

use crate::relay::tests::{Client, Outcome, ask_for, engine};
use configuration::access::AccessRules;
use configuration::program::FilterSet;
use configuration::subrequests::{PermissionRules, SubrequestRules};
use std::sync::Arc;

/// Parts of pages for 502 and 504.
const PAGE: &str = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n\
    <hr><center>nearside</center>\r\n</body>\r\n</html>\r\n<title>504 Gateway Time-out</title><h1>504 Gateway Time-out</h1>";

/// What of a text is neither of this client nor a page of ours: parts that are not whole
/// are.
fn of_others(client: &Client) -> Option<String> {
    let text = String::from_utf8_lossy(&client.body).into_owned();
    let own = format!("<{}>", client.tag);
    // What is cut ends somewhere in a part.
    let known = |part: &str| part.is_empty() || own[1..].starts_with(part) || PAGE.contains(&format!("<{part}"));
    text.split('<').find(|part| !known(part)).map(str::to_owned)
}

#[test]
fn a_thousand_faulty_answers_within_others_harm_nobody() {
    let mut engine = engine(false, |block| {
        block.subrequests = Arc::new(SubrequestRules {
            before: Some(b"/before"[..].into()),
            after: Some(b"/after"[..].into()),
            types: features::MediaTypes::All,
            mirrors: vec![b"/copy"[..].into()],
            ..SubrequestRules::default()
        });
        block.mirrors = true;
        block.filters = FilterSet::of(block);
    });
    let (mut whole, mut left, mut longer) = (0, 0, 0);
    ask_for(&mut engine, (0x5ab5_55ed, 1_000), |client| {
        if client.status == 200 {
            assert_eq!(of_others(client), None, "{}", client.tag);
            longer += usize::from(String::from_utf8_lossy(&client.body).contains("<html>"));
            whole += usize::from(client.outcome == Outcome::Whole);
        }
        left += usize::from(client.outcome == Outcome::Left);
    });
    assert!(whole > 200 && left > 20 && longer > 50, "{whole} {left} {longer}");
    assert!(engine.rest.subs.is_idle() && engine.rest.subs.results.is_empty(), "{:?}", engine.rest.subs);
    assert_eq!((engine.rest.subs.alive, engine.rest.subs.mirrors, engine.rest.subs.ids.len()), (0, 0, 0));
}

#[test]
fn a_thousand_faulty_permissions_harm_nobody() {
    let mut engine = engine(false, |block| {
        let permission = PermissionRules { uri: b"/who"[..].into(), set: Vec::new() };
        block.access = Arc::new(AccessRules { permission, ..AccessRules::default() });
    });
    let (mut whole, mut refused, mut left) = (0, 0, 0);
    ask_for(&mut engine, (0x0a57_55ed, 1_000), |client| {
        if client.status == 200 {
            assert_eq!(of_others(client), None, "{}", client.tag);
            whole += usize::from(client.outcome == Outcome::Whole);
        }
        refused += usize::from(client.status == 500);
        left += usize::from(client.outcome == Outcome::Left);
    });
    assert!(whole > 200 && refused > 100 && left > 20, "{whole} {refused} {left}");
    assert!(engine.rest.subs.is_idle() && engine.rest.subs.results.is_empty(), "{:?}", engine.rest.subs);
    assert_eq!(engine.rest.subs.alive, 0);
}
