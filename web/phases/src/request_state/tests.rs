use super::route::{Captures, Rewritten};
use super::wait::Again;
use super::*;
use asking::AskTry;
use configuration::program::{BlockId, Program, ServerId};
use files::Stamp;
use std::cell::Cell;
use std::sync::Arc;
use wire::Time;

fn new() -> RequestState {
    RequestState::new(Rc::new(Loaded::new(Arc::new(Program::default()), None, None, None)), ExchangeId::NOBODY)
}

fn used_route() -> Route {
    Route {
        listener: 1,
        server: ServerId(3),
        place: BlockId(4),
        block: BlockId(5),
        phase: Phase::Content,
        at: 6,
        uri: b"/a".to_vec(),
        args: b"b=c".to_vec(),
        internal: true,
        uri_changed: true,
        whole_path: true,
        rewritten: Rewritten { ever: true, here: true },
        real_root: Some(BlockId(7)),
        changes: 1,
        captures: Captures::default(),
    }
}

/// Another than it is at first, in all that a request may have changed.
fn used() -> RequestState {
    let request = Request::NONE;
    let kept = KeptContent { media_type: Some(b"text/css".to_vec()), charset: Some(b"utf-8".to_vec()) };
    let mut state = RequestState {
        request: Some(request.into()),
        refused: Some(400),
        too_long: true,
        route: used_route(),
        client: Client { fault: Some(497), ..Client::default() },
        values: VariableMemory { slots: vec![Some(Box::from(&b"slot"[..]))], cached: vec![(8, None)] },
        reuse: Reuse {
            class: 2,
            stamps: vec![Stamp::default()],
            expires_after: Some(9),
            is_told: Cell::new(true),
            ..Reuse::default()
        },
        wait: Waiting {
            stage: RequestStage::Over,
            ticket: Some(11),
            inner: Some(12),
            waited: true,
            again: Again { sent: true, ..Again::default() },
            login: true,
            limit: Some(13),
            moved: Some(Time::ZERO),
        },
        passed: PassedOn {
            address: Some(b"http://n".to_vec()),
            tries: vec![AskTry::default()],
            answered: b"C: d\r\n".to_vec(),
            kept,
            url: Some(b"http://e".to_vec()),
            host: b"f".to_vec(),
            port: Some(Arc::from(&b"80"[..])),
            left_behind: Some(LeftBehind { room: 1 }),
            ..PassedOn::default()
        },
        reply: ReplyState {
            override_status: Some(404),
            in_error_page: true,
            kept_fields: b"A: b\r\n".to_vec(),
            limit_rate: Some(10),
            ..ReplyState::default()
        },
        within: Within { ssi: Some(Box::default()), ..Within::default() },
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
        ..new()
    };
    state.reuse.depends.on(Depends::OTHER);
    state
}

/// One request tells nothing of another that had its memory.
#[test]
fn nothing_is_left_of_a_request_but_its_memory() {
    let mut state = used();
    state.route.captures.begin(b"subject");
    state.route.captures.set(0, 0..3);
    state.forget();
    assert_eq!(state.route.captures.get(0), None);
    state.route.captures = Captures::default();
    assert_eq!(format!("{state:?}"), format!("{:?}", new()));
    assert_ne!(format!("{:?}", used()), format!("{:?}", new()), "what is seen so tells them apart");
}
