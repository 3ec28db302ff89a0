use super::*;
use crate::program::Program;

fn new() -> Course {
    Course::new(Rc::new(Loaded::new(Arc::new(Program::default()), None, None, None)), ExchangeId::NOBODY)
}

/// Another than it is at first, in all that a request may have changed.
fn used() -> Course {
    let request = Request::NONE;
    Course {
        request: Some(request.into()),
        listener: 1,
        class: 2,
        server: ServerId(3),
        place: BlockId(4),
        block: BlockId(5),
        phase: Phase::Content,
        at: 6,
        uri: b"/a".to_vec(),
        args: b"b=c".to_vec(),
        changes: 1,
        internal: true,
        uri_changed: true,
        whole_path: true,
        waited: true,
        real_root: Some(BlockId(7)),
        again: Again { sent: true, ..Again::default() },
        refused: Some(400),
        secured: SecuredCourse { fault: Some(497), ..SecuredCourse::default() },
        too_long: true,
        told: Some(404),
        in_error_page: true,
        slots: vec![Some(Box::from(&b"slot"[..]))],
        cached: vec![(8, None)],
        depends: Depends(Depends::OTHER),
        stamps: vec![Stamp::default()],
        expires_after: Some(9),
        limit_rate: Some(10),
        kept_fields: b"A: b\r\n".to_vec(),
        ticket: Some(11),
        is_told: Cell::new(true),
        tries: vec![AskTry::default()],
        answered: b"C: d\r\n".to_vec(),
        kept: KeptContent { media_type: Some(b"text/css".to_vec()), charset: Some(b"utf-8".to_vec()) },
        passed_to: Some(b"http://e".to_vec()),
        address: Some(b"http://n".to_vec()),
        proxy_host: b"f".to_vec(),
        proxy_port: Some(Arc::from(&b"80"[..])),
        rewritten: Rewritten { ever: true, here: true },
        ssi: Some(Box::default()),
        inner: Some(12),
        state: CourseState::Over,
        sent: Sent {
            reason: Some((200, Box::from(&b"o"[..]))),
            status: 200,
            hints: 1,
            head: 2,
            body: 3,
            fields: b"G: h\r\n".to_vec(),
            front: b"Date: i\r\n".to_vec(),
            trailers: b"J: k\r\n".to_vec(),
            upstream_trailers: b"L: m\r\n".to_vec(),
            location: Some(b"/n".to_vec()),
            length: Some(4),
            complete: true,
            is_text: true,
        },
        series: 13,
        ..new()
    }
}

/// One request tells nothing of another that had its memory.
#[test]
fn nothing_is_left_of_a_request_but_its_memory() {
    let mut course = used();
    course.captures.begin(b"subject");
    course.captures.set(0, 0..3);
    course.forget();
    assert_eq!(course.captures.get(0), None);
    course.captures = Captures::default();
    assert_eq!(format!("{course:?}"), format!("{:?}", new()));
    assert_ne!(format!("{:?}", used()), format!("{:?}", new()), "what is seen so tells them apart");
}
