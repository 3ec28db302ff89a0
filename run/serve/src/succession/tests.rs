use super::*;
use rustix::fd::AsFd;
use std::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(30);
const NOW: Time = Time::ZERO;

fn succession() -> Succession {
    Succession::new("/nonexistent/nearside".into(), LIMIT)
}

fn asked() -> (Succession, Channel) {
    let (ours, theirs) = Channel::pair().unwrap();
    let mut succession = succession();
    succession.on_asked(ours, NOW);
    (succession, theirs)
}

fn hello(channel: &Channel) {
    channel.send(&Message::Hello { version: VERSION, pid: 1, greets: true, metrics: false }, &[]).unwrap();
}

fn failed(outcome: &Outcome, reason: &str) {
    let Outcome::Failed(why) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains(reason), "{why}");
}

#[test]
fn a_successor_gets_every_socket_and_says_when_it_serves() {
    let (mut succession, theirs) = asked();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let offer = Offered { endpoint: "x".into(), managed: false, name: None };
    let sockets = vec![(offer, listener.as_fd()); 2 * BATCH + 1];
    assert!(matches!(succession.step(&sockets, NOW), Outcome::Pending));
    hello(&theirs);
    assert!(matches!(succession.step(&sockets, NOW), Outcome::Pending));
    let mut given = 0;
    loop {
        let received = theirs.receive().unwrap().expect("a batch");
        let Message::Sockets { offered, more } = received.message else { panic!("{:?}", received.message) };
        assert_eq!(offered.len(), received.descriptors.len());
        given += offered.len();
        if !more {
            break;
        }
    }
    assert_eq!(given, sockets.len());
    assert!(matches!(succession.step(&sockets, NOW), Outcome::Pending));
    theirs.send(&Message::Ready, &[]).unwrap();
    let Outcome::Followed(pid) = succession.step(&sockets, NOW) else { panic!("not followed") };
    assert_eq!(pid, std::process::id());
    assert!(theirs.receive().unwrap().is_none(), "not before the places of files are free");
    succession.give_way().unwrap();
    assert!(!succession.is_coming());
    assert_eq!(theirs.receive().unwrap().unwrap().message, Message::Yours);
}

#[test]
fn whoever_only_looks_is_no_successor() {
    let (mut succession, theirs) = asked();
    drop(theirs);
    assert!(matches!(succession.step(&[], NOW), Outcome::Pending));
    assert!(!succession.is_coming(), "the next may ask");
}

#[test]
fn a_successor_that_fails_changes_nothing() {
    let (mut succession, theirs) = asked();
    hello(&theirs);
    succession.step(&[], NOW);
    drop(theirs);
    failed(&succession.step(&[], NOW), "went away");
    let (mut succession, theirs) = asked();
    theirs.send(&Message::Hello { version: VERSION + 1, pid: 1, greets: false, metrics: false }, &[]).unwrap();
    failed(&succession.step(&[], NOW), "no message of this protocol");
    assert!(matches!(theirs.receive(), Err(ChannelError::Refused(why)) if why.contains("version")));
    // To say that it serves, it must have asked, once.
    let (mut succession, theirs) = asked();
    hello(&theirs);
    succession.step(&[], NOW);
    hello(&theirs);
    failed(&succession.step(&[], NOW), "no message of this protocol");
    let (mut succession, theirs) = asked();
    hello(&theirs);
    succession.step(&[], NOW);
    assert!(matches!(succession.step(&[], NOW + LIMIT / 2), Outcome::Pending));
    failed(&succession.step(&[], NOW + LIMIT), "did not serve within 30s");
    assert!(!succession.is_coming());
    assert!(matches!(theirs.send(&Message::Ready, &[]), Err(ChannelError::Gone)));
}

#[test]
fn a_successor_that_is_gone_when_it_is_told_changes_nothing() {
    let (mut succession, theirs) = asked();
    hello(&theirs);
    succession.step(&[], NOW);
    theirs.send(&Message::Ready, &[]).unwrap();
    assert!(matches!(succession.step(&[], NOW), Outcome::Followed(_)));
    drop(theirs);
    assert!(matches!(succession.give_way(), Err(ChannelError::Gone)));
    assert!(!succession.is_coming());
}

#[test]
fn one_takes_over_at_a_time() {
    let (mut succession, _first) = asked();
    let (ours, theirs) = Channel::pair().unwrap();
    succession.on_asked(ours, NOW);
    assert!(matches!(theirs.receive(), Err(ChannelError::Refused(why)) if why.contains("taking over")));
}

#[test]
fn a_program_that_is_not_there_cannot_be_started() {
    let mut succession = succession();
    let why = succession.begin(Path::new("/x"), NOW).unwrap_err();
    assert!(why.contains("cannot start /nonexistent/nearside"), "{why}");
    assert!(!succession.is_coming());
}

/// A program that starts, and is not what it should be.
#[test]
fn a_program_that_ends_is_seen_and_nobody_else_takes_its_place() {
    let mut succession = Succession::new("/bin/false".into(), LIMIT);
    succession.begin(Path::new("/x"), NOW).unwrap();
    // Ours is not the process that was started.
    let (ours, theirs) = Channel::pair().unwrap();
    succession.on_asked(ours, NOW);
    assert!(matches!(theirs.receive(), Err(ChannelError::Refused(why)) if why.contains("being started")));
    let mut outcome = Outcome::Pending;
    while matches!(outcome, Outcome::Pending) {
        rustix::event::poll(&mut succession.poll_fds(), None).unwrap();
        outcome = succession.step(&[], NOW);
    }
    failed(&outcome, "ended before it served: exit status: 1");
    assert!(!succession.is_coming());
}
