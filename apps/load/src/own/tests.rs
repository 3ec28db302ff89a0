use super::*;
use crate::plan::{Reuse, Weighted};
use std::collections::BTreeSet;

fn plan(heads: Heads, path: &str) -> Plan {
    let mut plan = Plan::new(([10, 0, 0, 2], 80).into(), Request::get("10.0.0.2", path));
    plan.heads = heads;
    plan
}

/// What a connection would send.
fn sent(own: &mut Own, id: ConnId, front: &[u8]) -> Vec<u8> {
    let (body, range) = own.request(id, front);
    body.as_slice()[range.start as usize..range.end as usize].to_vec()
}

fn own(plan: &Plan) -> (Own, Front) {
    let front = Front::new(plan, plan.first_request());
    (Own::new(plan, core::iter::once(&front)).unwrap(), front)
}

/// The fields of a head that a strict server takes.
fn fields(head: &[u8]) -> Vec<(String, String)> {
    let h1::server::RequestEvent::Request { request, consumed, .. } =
        h1::server::RequestReader::new().on_bytes(head, &h1::server::RequestLimits::default())
    else {
        panic!("no request: {}", String::from_utf8_lossy(head));
    };
    assert_eq!(consumed, head.len());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    request.fields().map(|field| (text(field.name), text(field.value))).collect()
}

#[test]
fn heads_have_the_lengths_of_their_class() {
    for (heads, shortest, longest, most_fields) in [(Heads::Short, 40, 150, 4), (Heads::Browser, 550, 650, 12)] {
        let (mut own, front) = own(&plan(heads, "/f/042"));
        let mut lengths = BTreeSet::new();
        for slot in 0..500 {
            let head = sent(&mut own, ConnId::new(slot, 1), front.lines(false));
            let fields = fields(&head);
            assert!((shortest - 1..=longest).contains(&head.len()), "{}", String::from_utf8_lossy(&head));
            assert!(fields.len() <= most_fields, "{fields:?}");
            assert!(heads == Heads::Short || fields.len() == most_fields, "{fields:?}");
            lengths.insert(head.len());
        }
        assert!(lengths.len() >= 4, "{lengths:?}");
        assert!(
            heads == Heads::Browser || (lengths.first() <= Some(&40) && lengths.last() >= Some(&120)),
            "{lengths:?}"
        );
    }
}

#[test]
fn each_connection_has_fields_of_its_own_and_keeps_them() {
    for heads in [Heads::Short, Heads::Browser] {
        let (mut own, front) = own(&plan(heads, "/"));
        let value =
            |head: &[u8], name: &str| fields(head).into_iter().find(|(found, _)| found == name).map(|(_, value)| value);
        let (mut agents, mut cookies) = (Vec::new(), Vec::new());
        for slot in 0..1_000 {
            let head = sent(&mut own, ConnId::new(slot, 1), front.lines(false));
            assert_eq!(head, sent(&mut own, ConnId::new(slot, 1), front.lines(false)));
            agents.extend(value(&head, "User-Agent"));
            cookies.extend(value(&head, "Cookie"));
            // The next connection in the same place is another client.
            let next = sent(&mut own, ConnId::new(slot, 2), front.lines(false));
            cookies.extend(value(&next, "Cookie"));
        }
        let different = |all: &[String]| all.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(different(&cookies), cookies.len(), "each has its own");
        assert!(different(&agents) * 4 > agents.len(), "{} of {}", different(&agents), agents.len());
        assert!(cookies.len() >= 1_400 && agents.len() >= 700, "{} {}", cookies.len(), agents.len());
    }
}

#[test]
fn a_request_that_is_still_on_its_way_is_not_written_over() {
    let (mut own, _) = own(&plan(Heads::Short, "/first"));
    let id = ConnId::new(7, 1);
    let (held, range) = own.request(id, b"GET /1 HTTP/1.1\r\nHost: h\r\n");
    let (held, range) = (held.clone(), range);
    let before = held.as_slice().to_vec();
    let other = sent(&mut own, id, b"GET /2 HTTP/1.1\r\nHost: h\r\n");
    assert_eq!(held.as_slice(), before);
    let same = |head: &[u8]| head[head.iter().position(|&b| b == b'\n').unwrap()..].to_vec();
    assert_eq!(same(&other), same(&held.as_slice()[range.start as usize..]), "but for the path it is the same client");
}

#[test]
fn the_users_own_headers_take_the_place_of_theirs() {
    let mut plan = plan(Heads::Browser, "/");
    plan.requests[0].item.headers = vec![("user-agent".into(), "mine".into()), ("X".into(), "y".into())];
    plan.reuse = Reuse::ServerClosesAfter(2);
    let (mut own, front) = own(&plan);
    for last in [false, true] {
        let all = fields(&sent(&mut own, ConnId::new(1, 1), front.lines(last)));
        let of = |name: &str| -> Vec<String> {
            all.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone()).collect()
        };
        assert_eq!((of("User-Agent"), of("X")), (vec!["mine".to_owned()], vec!["y".to_owned()]));
        assert_eq!(of("Connection"), [if last { "close" } else { "keep-alive" }]);
        assert_eq!((of("Cookie").len(), of("Host").len()), (1, 1));
    }
}

#[test]
fn what_cannot_differ_is_refused() {
    let mut with_content = plan(Heads::Short, "/");
    with_content.requests[0].item.body = b"x".to_vec();
    assert!(with_content.check().unwrap_err().to_string().contains("content"));
    let long = plan(Heads::Short, &format!("/{}", "x".repeat(FRONT_LIMIT)));
    assert!(crate::Load::new(long.clone()).unwrap_err().to_string().contains("8 KiB"));
    let mut equal = long;
    equal.heads = Heads::Equal;
    assert!(crate::Load::new(equal).is_ok());
}

#[test]
fn several_requests_share_a_connections_fields() {
    let mut plan = plan(Heads::Short, "/a");
    plan.requests.push(Weighted { weight: 1, item: Request::get("10.0.0.2", "/a/longer/path") });
    let fronts: Vec<Front> = plan.requests.iter().map(|request| Front::new(&plan, &request.item)).collect();
    let mut own = Own::new(&plan, fronts.iter()).unwrap();
    let id = ConnId::new(3, 9);
    let heads: Vec<Vec<u8>> = fronts.iter().map(|front| sent(&mut own, id, front.lines(false))).collect();
    assert!(heads[0].starts_with(b"GET /a HTTP/1.1\r\nHost: 10.0.0.2\r\n"));
    assert!(heads[1].starts_with(b"GET /a/longer/path HTTP/1.1\r\nHost: 10.0.0.2\r\n"));
    assert_eq!(fields(&heads[0]), fields(&heads[1]));
}
