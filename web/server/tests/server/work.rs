//! Requests that cost work before they are answered.

use crate::support::{Response, Site, World};
use app::{App, Closed, ConnId};
use core::cell::Cell;
use core::time::Duration;
use server::{Config, RequestWork, Respond};

thread_local! {
    /// What was burnt by this test.
    static BURNT: Cell<(u32, Duration)> = const { Cell::new((0, Duration::ZERO)) };
}

const SPAN: Duration = Duration::from_micros(1_800);

/// Keeps count; nothing is to wait for it here.
fn burn(span: Duration) {
    let (times, all) = BURNT.get();
    BURNT.set((times + 1, all + span));
}

fn burnt() -> u32 {
    let (times, all) = BURNT.take();
    assert_eq!(all, SPAN * times, "each as much as was said");
    times
}

fn works(mut config: Config) -> World {
    config.work = Some(RequestWork { span: SPAN, burn });
    BURNT.set((0, Duration::ZERO));
    World::new(config)
}

fn responds() -> World {
    works(Config::respond(Respond::Text("done".into())))
}

/// Of those who wait, and of some who left.
fn places(world: &mut World) -> usize {
    let server::SiteHandler::Worked(handler) = world.server.handler() else { panic!("one that works") };
    handler.places()
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

/// The texts of all that a peer got.
fn texts(world: &mut World, id: ConnId) -> Vec<String> {
    let got = world.got(id);
    let (mut rest, mut texts) = (got.as_slice(), Vec::new());
    while !rest.is_empty() {
        let (response, more) = Response::parse(rest, false);
        assert_eq!(response.status, 200);
        texts.push(response.text().to_owned());
        rest = more;
    }
    texts
}

#[test]
fn each_request_costs_its_work_once_whatever_it_asks_for() {
    let site = Site::new();
    site.write("a", "content");
    site.write("large", vec![b'x'; 3 << 20]);
    for (mut world, text) in [(responds(), "done"), (works(site.config()), "content")] {
        // Content that is ready the second time, more at once, and what has no short way.
        for times in [1, 1, 3] {
            let id = world.open();
            world.send(id, GET.repeat(times));
            assert_eq!(texts(&mut world, id), vec![text; times]);
            assert_eq!(burnt(), times as u32);
            world.close(id, Closed::Reset);
        }
        assert_eq!(world.get_with("/a", "Connection: close\r\n").text(), text);
        assert_eq!(world.fetch("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
        world.fetch("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        assert!((2..=3).contains(&burnt()), "a refused method costs nothing");
        assert_eq!(world.fetch("NONSENSE\r\n\r\n").status, 400);
        assert_eq!(burnt(), 0, "it is no request");
    }
    let mut world = works(site.config());
    assert_eq!(world.get("/none").status, 404);
    assert_eq!(world.get("/large").body.len(), 3 << 20);
    assert_eq!(burnt(), 2);
}

/// So that the data path has its turn between two of them, and an answer goes out before
/// the next request's work begins.
#[test]
fn a_turn_has_one_requests_work_and_the_next_its_answer() {
    let mut world = responds();
    let ids: Vec<ConnId> = (0..3).map(|_| world.open()).collect();
    ids.iter().for_each(|id| world.arrive(*id, GET));
    let mut came = Vec::new();
    for _ in 0..3 {
        assert!(world.turn(), "there is more to do");
        assert_eq!((burnt(), ids.iter().flat_map(|id| texts(&mut world, *id)).count()), (1, 0));
        world.turn();
        assert_eq!(burnt(), 0);
        came.extend(ids.iter().copied().filter(|id| !texts(&mut world, *id).is_empty()));
    }
    assert_eq!(came, ids, "in the order in which they came");
    world.settle();
    assert_eq!(burnt(), 0);
}

#[test]
fn who_leaves_before_costs_nothing_and_who_leaves_meanwhile_is_no_ones_answer() {
    let mut world = responds();
    let ids: Vec<ConnId> = (0..5).map(|_| world.open()).collect();
    ids.iter().for_each(|id| world.arrive(*id, GET));
    world.close(ids[2], Closed::Reset);
    world.turn();
    // Its work is done, and its answer has nobody.
    world.close(ids[0], Closed::Reset);
    world.close(ids[4], Closed::Reset);
    world.settle();
    assert_eq!(burnt(), 3);
    assert_eq!((texts(&mut world, ids[1]), texts(&mut world, ids[3])), (vec!["done".to_owned()], vec!["done".into()]));
    assert_eq!(world.get("/").text(), "done");
}

/// Clients that come and go behind one that stays are not remembered for long, and
/// the marks of those who stay are still theirs.
#[test]
fn those_who_come_and_go_take_no_room() {
    let mut world = responds();
    let first = world.open();
    world.arrive(first, GET);
    world.turn();
    let (mut stay, mut most) = (Vec::new(), 0);
    for at in 0..6_000 {
        let id = world.open_within_a_turn();
        world.arrive(id, GET);
        if at % 1_000 == 0 {
            stay.push(id)
        } else {
            world.close(id, Closed::Reset)
        }
        most = most.max(places(&mut world));
        // Between the end of one's work and its answer none moves up.
        if at % 100 == 0 {
            world.turn();
        }
    }
    assert!(most < 2_000, "{most} places");
    world.close(stay[2], Closed::Reset);
    world.settle();
    for (at, id) in stay.iter().enumerate().filter(|(at, _)| *at != 2) {
        assert_eq!(texts(&mut world, *id), ["done"], "{at}");
    }
    assert_eq!(places(&mut world), 0);
}

#[test]
fn who_waits_for_longer_than_clients_do_is_told() {
    let mut world = responds();
    let (first, second) = (world.open(), world.open());
    world.arrive(first, GET);
    world.arrive(second, GET);
    // No turn for a minute; then the first one's time is over.
    world.net.now = world.net.now + Duration::from_secs(61);
    world.server.on_timer(&mut world.net, first);
    world.settle();
    let (response, _) = Response::parse(&world.got(first), false);
    assert_eq!(response.status, 503);
    assert_eq!((texts(&mut world, second), burnt()), (vec!["done".to_owned()], 1));
}
