//! Questions over connections that are none.

use crate::{
    Ask, AskRules, AskSpec, AskTurn, BodyStream, Finding, GroupSpec, IDLE, Inquiry, InquiryFault, KeptLinks,
    ProgramAnswer, ProgramProtocol, ProgramRules, Protocol, ServerGroups, Servers,
};
use app::{Closed, ConnId, ConnectError};
use core::net::IpAddr;
use core::time::Duration;
use exchange::{Piece, UpstreamAddress, UpstreamEvent, UpstreamId, Upstreams};
use proxy::next::Failure;
use semantics::Method;
use std::sync::Arc;
use upstream::{Balancing, BalancingKey, Group, GroupServer, IdleRules, PeerAddress};
use wire::Time;

/// What was done with connections.
#[derive(Debug, Default)]
struct Links {
    dialled: Vec<UpstreamId>,
    /// By which marks they are known, in that order.
    marks: Vec<u32>,
    sent: Vec<u8>,
    timer: Option<Time>,
    let_go: Vec<UpstreamId>,
    cut: Vec<UpstreamId>,
}

impl Upstreams for Links {
    fn dial(&mut self, _: UpstreamAddress<'_>, _: Option<IpAddr>, mark: u32) -> Result<UpstreamId, ConnectError> {
        let id = UpstreamId::of(ConnId::new(self.dialled.len() as u32, 0));
        self.dialled.push(id);
        self.marks.push(mark);
        Ok(id)
    }

    fn set_upstream_mark(&mut self, id: UpstreamId, mark: u32) {
        self.marks[id.conn().index()] = mark;
    }

    fn send_upstream(&mut self, _: UpstreamId, piece: Piece<'_>) -> bool {
        match piece {
            Piece::Bytes(bytes) => self.sent.extend_from_slice(bytes),
            Piece::Body(body, (start, end)) => {
                self.sent.extend_from_slice(&body.as_slice()[start as usize..end as usize]);
            }
            Piece::File(..) => unreachable!("nothing here sends files"),
        }
        true
    }

    fn set_upstream_timer(&mut self, _: UpstreamId, at: Option<Time>) {
        self.timer = at;
    }

    fn let_go(&mut self, id: UpstreamId, patience: Duration) {
        if patience.is_zero() {
            self.cut.push(id);
        } else {
            self.let_go.push(id);
        }
    }
}

struct Silo {
    links: Links,
    kept: KeptLinks,
    groups: ServerGroups,
    now: Time,
}

const HEAD: &[u8] = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
const MARK: u32 = 7;
const MOST: usize = 16;

impl Silo {
    /// With two servers, to which connections are kept.
    fn new() -> Self {
        let at = |port| PeerAddress::Inet(([192, 0, 2, 1], port).into());
        let server = |port| GroupServer::new(b"a", vec![at(port)]);
        let group = Group::new(b"a", Balancing::RoundRobin, &[server(1), server(2)]).unwrap();
        let spec = GroupSpec { group: Arc::new(group), idle: Some(IdleRules::new(4)), is_named: false };
        let now = Time::from_nanos(1_000_000_000);
        Self { links: Links::default(), kept: KeptLinks::default(), groups: ServerGroups::new([spec]), now }
    }

    fn turn(&mut self) -> AskTurn<'_> {
        AskTurn { io: &mut self.links, kept: &mut self.kept, groups: &self.groups, now: self.now }
    }

    fn inquire(&mut self, protocol: Protocol, rules: AskRules) -> Inquiry {
        let spec = spec(protocol, rules);
        let until = self.now + Duration::from_secs(5);
        let (inquiry, fault) = Inquiry::begin(&mut self.turn(), spec, (MOST, until));
        assert_eq!(fault, None, "somebody is asked");
        inquiry
    }

    fn tell(
        &mut self,
        inquiry: &mut Inquiry,
        event: UpstreamEvent<'_>,
    ) -> (usize, Option<Result<Finding, InquiryFault>>) {
        inquiry.on_event(&mut self.turn(), event)
    }
}

/// A question to one of both servers.
fn spec(protocol: Protocol, rules: AskRules) -> AskSpec<'static> {
    AskSpec {
        mark: MARK,
        rules,
        servers: Servers::Group(0),
        key: BalancingKey::None,
        protocol,
        seeks: None,
        from: None,
        asked: Method::Get,
        unrepeatable: false,
        head_only: false,
        head: HEAD.to_vec(),
        target: (4, 11),
        body: None,
        stream: None,
        memory: Default::default(),
        tries: Vec::new(),
    }
}

/// Servers that are asked by now, and connections that are kept or held.
fn left(silo: &Silo) -> (usize, usize) {
    (silo.groups.asked(), silo.kept.used())
}

fn program(keeps: bool) -> Protocol {
    let rules = ProgramRules {
        protocol: ProgramProtocol::FastCgi,
        head_max: 4_096,
        keeps,
        catches: [b"fatal"[..].into()].into(),
        modifiers: (0, 0),
    };
    Protocol::Program(Box::new(ProgramAnswer::new(rules, false)))
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

/// The same answer by all protocols and in any pieces; and the connection is kept.
#[test]
fn an_answer_is_the_same_whatever_carries_it() {
    let http = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX: y\r\n\r\nwell".to_vec();
    let chunked = b"HTTP/1.1 103 Early\r\nLink: z\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n\
                    2\r\nwe\r\n2\r\nll\r\n0\r\n\r\n"
        .to_vec();
    let told = [record(6, b"Status: 200\nX: y\n\nwe"), record(7, b"oh."), record(6, b"ll"), record(6, b"")];
    let fastcgi = [told.concat(), record(3, &[0; 8])].concat();
    for (name, answer, is_program) in [("length", http, false), ("chunks", chunked, false), ("records", fastcgi, true)]
    {
        for size in 1..=answer.len() {
            let mut silo = Silo::new();
            let protocol = if is_program { program(true) } else { Protocol::Http };
            let mut inquiry = silo.inquire(protocol, AskRules::default());
            assert_eq!(silo.links.marks, [MARK]);
            assert_eq!(silo.tell(&mut inquiry, UpstreamEvent::Opened), (0, None));
            assert!(silo.links.sent.ends_with(HEAD));
            // What is not taken is offered again, with more.
            let (mut from, mut found) = (0, None);
            for piece in answer.chunks(size) {
                let offset = piece.as_ptr() as usize - answer.as_ptr() as usize;
                let (taken, over) = silo.tell(&mut inquiry, UpstreamEvent::Data(&answer[from..offset + piece.len()]));
                from += taken;
                found = found.or(over);
            }
            let found = found.unwrap_or_else(|| panic!("{name} by {size}")).expect("an answer");
            assert_eq!((found.status, found.body.as_slice()), (200, &b"well"[..]), "{name} by {size}");
            assert!(semantics::Fields::new(&found.fields).any(|field| field.is("x") && field.value == b"y"));
            assert_eq!((left(&silo), silo.links.cut.len()), ((0, 1), 0), "{name} by {size}: it is kept");
            assert_eq!(silo.links.marks[0] & IDLE, IDLE);
        }
    }
}

#[test]
fn the_next_question_goes_over_the_connection_that_was_kept() {
    let mut silo = Silo::new();
    // Each server in turn, and then the first again.
    for (round, dialled) in [(0, 1), (1, 2), (2, 2)] {
        let mut inquiry = silo.inquire(Protocol::Http, AskRules::default());
        assert_eq!(silo.links.dialled.len(), dialled, "{round}");
        if dialled > round {
            assert_eq!(silo.tell(&mut inquiry, UpstreamEvent::Opened), (0, None));
        }
        let (_, over) = silo.tell(&mut inquiry, UpstreamEvent::Data(b"HTTP/1.1 204 No\r\n\r\n"));
        assert_eq!(over.map(|found| found.map(|found| found.status)), Some(Ok(204)), "{round}");
    }
    assert_eq!(left(&silo), (0, 2));
    // Others are in the place of these: what is kept is cut.
    silo.kept.replace(&silo.groups);
    silo.kept.cut_all(&mut silo.links);
    assert_eq!((left(&silo), silo.links.cut.len()), ((0, 0), 2));
}

#[test]
fn another_server_is_asked_where_one_fails_and_no_third_time() {
    let mut silo = Silo::new();
    let mut inquiry = silo.inquire(Protocol::Http, AskRules::default());
    assert_eq!(silo.tell(&mut inquiry, UpstreamEvent::Closed(Closed::Refused)), (0, None));
    assert_eq!((silo.links.dialled.len(), silo.groups.asked()), (2, 1), "the other is asked");
    let (_, over) = silo.tell(&mut inquiry, UpstreamEvent::Timer);
    assert_eq!(over, Some(Err(InquiryFault::Failed(Failure::Timeout))));
    let told: Vec<u16> = inquiry.ask().tries().iter().map(|one| one.status).collect();
    assert_eq!((told, left(&silo)), (vec![502, 504], (0, 0)));
    assert_eq!(inquiry.ask().url(true).as_deref(), Some(&b"http://192.0.2.1:2/health"[..]));
}

/// An answer with a status after which another is asked goes to nobody.
#[test]
fn a_head_is_held_back_where_another_server_is_asked_after_it() {
    let mut silo = Silo::new();
    let next = proxy::next::NextOn::of([&b"http_503"[..]]);
    let mut inquiry = silo.inquire(Protocol::Http, AskRules { next, ..AskRules::default() });
    for (dialled, over) in [(2, None), (2, Some(Ok(503)))] {
        assert_eq!(silo.tell(&mut inquiry, UpstreamEvent::Opened), (0, None));
        let busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
        let (taken, found) = silo.tell(&mut inquiry, UpstreamEvent::Data(busy));
        assert_eq!((taken, silo.links.dialled.len()), (busy.len(), dialled));
        assert_eq!(found.map(|found| found.map(|found| found.status)), over);
    }
}

#[test]
fn what_is_no_answer_is_told_from_one() {
    let long = b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n12345678901234567";
    let open = b"HTTP/1.1 200 OK\r\n\r\n12345678901234567";
    let invalid = Failure::InvalidHeader;
    for (answer, why) in [
        (&long[..], InquiryFault::TooLong),
        (open, InquiryFault::TooLong),
        (b"SSH-2.0\r\n\r\n", InquiryFault::Failed(invalid)),
    ] {
        let mut silo = Silo::new();
        let mut inquiry = silo.inquire(Protocol::Http, AskRules { tries: 1, ..AskRules::default() });
        let _ = silo.tell(&mut inquiry, UpstreamEvent::Opened);
        assert_eq!(silo.tell(&mut inquiry, UpstreamEvent::Data(answer)), (answer.len(), Some(Err(why))));
        let held = silo.kept.used() + silo.links.let_go.len() + silo.links.cut.len();
        assert_eq!((silo.groups.asked(), held), (0, 1));
    }
    // One that ends with its connection, one that ends too early, and one that is late.
    for (answer, ends) in
        [(&b"HTTP/1.0 200 OK\r\n\r\nwell"[..], true), (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nwell", false)]
    {
        let mut silo = Silo::new();
        let mut inquiry = silo.inquire(Protocol::Http, AskRules::default());
        let _ = silo.tell(&mut inquiry, UpstreamEvent::Opened);
        let (mut taken, mut over) = silo.tell(&mut inquiry, UpstreamEvent::Data(answer));
        while over.is_none() && taken < answer.len() {
            let (more, found) = silo.tell(&mut inquiry, UpstreamEvent::Data(&answer[taken..]));
            (taken, over) = (taken + more, found);
        }
        assert_eq!(over, None);
        let (_, over) = silo.tell(&mut inquiry, UpstreamEvent::End { held: 0 });
        assert_eq!(over.expect("an end").map(|found| found.body).is_ok(), ends);
        assert_eq!(left(&silo), (0, 0));
    }
    let mut silo = Silo::new();
    let mut inquiry = silo.inquire(Protocol::Http, AskRules::default());
    assert_eq!(inquiry.look(&mut silo.turn()), None);
    silo.now = inquiry.until();
    assert_eq!(inquiry.look(&mut silo.turn()), Some(InquiryFault::Late));
    assert_eq!((left(&silo), silo.links.cut.len()), ((0, 0), 1));
}

/// What a program says of errors is left to be told; some of it makes its answer none.
#[test]
fn complaints_of_a_program_are_told_and_some_are_the_end_of_it() {
    for (said, statuses) in [(&b"all is fatal\n"[..], [502, 0]), (b"a warning.\n", [200, 0])] {
        let mut silo = Silo::new();
        let next = proxy::next::NextOn::of([&b"invalid_header"[..]]);
        let mut inquiry = silo.inquire(program(false), AskRules { next, ..AskRules::default() });
        let _ = silo.tell(&mut inquiry, UpstreamEvent::Opened);
        let answer = [record(7, said), record(6, b"X: y\n\n"), record(6, b""), record(3, &[0; 8])].concat();
        let _ = silo.tell(&mut inquiry, UpstreamEvent::Data(&answer));
        let told: Vec<u16> = inquiry.ask().tries().iter().map(|one| one.status).collect();
        assert_eq!(told, statuses[..told.len()]);
        assert!(inquiry.ask().has_notes());
    }
}

/// Whatever became of the one before it, and whatever that was.
#[test]
fn nothing_is_left_of_a_question_but_its_memory() {
    let silo = Silo::new();
    let (groups, now, later) = (&silo.groups, silo.now, silo.now + Duration::from_secs(1));
    let rules = AskRules { tries: 1, buffering: false, read: Duration::from_secs(1), ..AskRules::default() };
    let stream = BodyStream { length: None, records: true, ended: true, keeps: 5 };
    let mut used = Ask::new(
        AskSpec { stream: Some(stream), head_only: true, unrepeatable: true, ..spec(program(true), rules) },
        groups,
        now,
    );
    used.note(crate::NoteLevel::Info, "what", "doing");
    (used.stage, used.link, used.shakes) = (crate::AskStage::Tunnel, None, true);
    (used.carried, used.opened, used.tries) = (3, 4, vec![crate::AskTry::default()]);
    (used.sending.at, used.sending.done, used.sending.begun) = (1, true, true);
    (used.sending.piece_at, used.sending.kept) = (Some(2), vec![1]);
    let reading = &mut used.reading;
    (reading.fields_at, reading.status, reading.hints, reading.behind) = (1, 2, 3, 4);
    reading.has_x_field = true;
    (reading.reason, reading.whole, reading.length) = (b"r"[..].into(), Some(vec![1]), Some(1));
    (reading.complete, reading.keeps, reading.held, reading.waits) = (true, true, true, true);
    (reading.passes, reading.ended, reading.paced) = (true, true, true);
    (reading.rate, reading.since, reading.due) = (1, later, Some(later));
    let anew = || AskSpec { tries: vec![crate::AskTry::default()], ..spec(Protocol::Http, AskRules::default()) };
    let of_new = format!("{:?}", Ask::new(anew(), groups, later));
    assert_ne!(format!("{used:?}"), of_new);
    let _ = used.into_memory();
    used.renew(anew(), groups, later);
    assert_eq!(format!("{used:?}"), of_new);
}
