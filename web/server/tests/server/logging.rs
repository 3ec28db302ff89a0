//! The access log.

use crate::support::{Site, World, directory};
use core::time::Duration;
use server::{AccessLog, LineFormat};

/// Waits for the writer thread to have written `lines` lines.
pub fn lines(path: &std::path::Path, lines: usize) -> Vec<String> {
    for _ in 0..10_000 {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= lines && text.ends_with('\n') {
            return text.lines().map(str::to_string).collect();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the log never has {lines} lines");
}

fn world(site: &Site, name: &str) -> (World, std::path::PathBuf) {
    let path = site.outside().join(name);
    let mut config = site.config();
    directory(&mut config).cache_file_bytes = 10_000;
    config.access_log = AccessLog::File(path.clone());
    (World::new(config), path)
}

#[test]
fn requests_are_logged_in_the_combined_format() {
    let site = Site::new();
    site.write("a.txt", "0123456789");
    site.write("large", vec![b'x'; 1 << 20]);
    let (mut world, path) = world(&site, "log");
    world.get("/a.txt");
    world.get("/a.txt?q=%20");
    world.get_with("/a.txt", "Referer: http://b/\"x\\\r\nUser-Agent: tést/1.0\r\n");
    world.get_with("/a.txt", "Range: bytes=0-2\r\n");
    world.fetch("HEAD /a.txt HTTP/1.0\r\n\r\n");
    world.get("/large");
    let id = world.open();
    world.send(id, "BAD REQUEST\r\n\r\n");
    world.advance(Duration::from_millis(101));
    let time = "[21/Oct/2015:07:28:00 +0000]";
    let page = 72;
    let expected = [
        format!("192.0.2.7 - - {time} \"GET /a.txt HTTP/1.1\" 200 10 \"-\" \"-\""),
        format!("192.0.2.7 - - {time} \"GET /a.txt?q=%20 HTTP/1.1\" 200 10 \"-\" \"-\""),
        format!("192.0.2.7 - - {time} \"GET /a.txt HTTP/1.1\" 200 10 \"http://b/\\x22x\\x5C\" \"t\\xC3\\xA9st/1.0\""),
        format!("192.0.2.7 - - {time} \"GET /a.txt HTTP/1.1\" 206 3 \"-\" \"-\""),
        format!("192.0.2.7 - - {time} \"HEAD /a.txt HTTP/1.0\" 200 0 \"-\" \"-\""),
        format!("192.0.2.7 - - {time} \"GET /large HTTP/1.1\" 200 1048576 \"-\" \"-\""),
        format!("192.0.2.7 - - {time} \"BAD REQUEST\" 400 {page} \"-\" \"-\""),
    ];
    assert_eq!(lines(&path, 7), expected);
}

#[test]
fn a_stream_cut_short_is_logged_with_what_was_sent() {
    let site = Site::new();
    site.write("large", vec![b'x'; 8 << 20]);
    let (mut world, path) = world(&site, "log");
    let id = world.open();
    world.conn(id).acks = false;
    world.send(id, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    world.ack(id, 1 << 20);
    world.close(id, app::Closed::Reset);
    world.advance(Duration::from_millis(101));
    let line = lines(&path, 1).remove(0);
    let sent: u64 = line.split(' ').nth(9).and_then(|it| it.parse().ok()).expect("bytes sent");
    // What was queued beyond it was not; the head is no content.
    assert!(sent > (1 << 20) - 1_000 && sent < 1 << 20, "{line}");
}

/// As with nginx: when a request was done, not when it came.
#[test]
fn the_time_of_a_line_is_that_of_its_end() {
    for (format, before, after) in [
        (LineFormat::Combined, "[21/Oct/2015:07:28:07 +0000] \"GET /large", "192.0.2.7 - - "),
        (LineFormat::Json, "\"2015-10-21T07:28:07+00:00\",\"remote_addr\"", "{\"time\":"),
    ] {
        let site = Site::new();
        site.write("large", vec![b'x'; 8 << 20]);
        let path = site.outside().join("log");
        let mut config = site.config();
        directory(&mut config).cache_file_bytes = 10_000;
        (config.access_log, config.log_format) = (AccessLog::File(path.clone()), format);
        let mut world = World::new(config);
        let id = world.open();
        world.conn(id).acks = false;
        world.send(id, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        world.advance(Duration::from_secs(7));
        world.conn(id).acks = true;
        world.settle();
        world.advance(Duration::from_millis(101));
        let line = lines(&path, 1).remove(0);
        assert!(line.starts_with(after) && line.contains(before) && line.contains("8388608"), "{line}");
    }
}

#[test]
fn the_log_can_be_rotated() {
    let site = Site::new();
    let (mut world, path) = world(&site, "log");
    world.get("/one");
    world.advance(Duration::from_millis(101));
    lines(&path, 1);
    let rotated = site.outside().join("log.1");
    std::fs::rename(&path, &rotated).expect("renamed");
    world.server.reopen_log();
    for _ in 0..10_000 {
        if path.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    world.get("/two");
    world.advance(Duration::from_millis(101));
    assert!(lines(&path, 1)[0].contains("/two"));
    assert_eq!(lines(&rotated, 1).len(), 1);
}

#[test]
fn what_is_logged_last_is_written_at_the_end() {
    let site = Site::new();
    let (mut world, path) = world(&site, "log");
    for at in 0..1000 {
        world.get(&format!("/{at}"));
    }
    let drops = world.counter("log_drops");
    drop(world);
    let text = std::fs::read_to_string(&path).expect("the log");
    assert_eq!(text.lines().count() as u64 + drops, 1000);
}

/// `/dev/full` takes nothing: every line is a counted drop, and no request
/// waits for it.
#[test]
fn a_log_that_cannot_be_written_drops_and_counts() {
    let site = Site::new();
    let mut config = site.config();
    config.access_log = AccessLog::File("/dev/full".into());
    let mut world = World::new(config);
    for _ in 0..100 {
        assert_eq!(world.get("/none").status, 404);
    }
    world.advance(Duration::from_millis(101));
    for _ in 0..10_000 {
        if world.counter("log_drops") == 100 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{} drops", world.counter("log_drops"));
}

/// A pipe that nobody reads: the writer blocks, the server does not.
#[test]
fn a_log_that_blocks_drops_and_counts() {
    let site = Site::new();
    let path = site.outside().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).expect("a pipe");
    // Both ends, so that opening does not wait; and nobody reads.
    let pipe = std::fs::File::options().read(true).write(true).open(&path).expect("the pipe");
    let mut config = site.config();
    config.access_log = AccessLog::File(path);
    config.limits.log_bytes = 64 << 10;
    let mut world = World::new(config);
    let id = world.open();
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: {}\r\n\r\n", "x".repeat(1000));
    for _ in 0..1000 {
        world.send(id, &request);
    }
    assert_eq!(world.counter("requests"), 1000);
    let drops = world.counter("log_drops");
    assert!(drops > 500 && drops < 1000, "{drops}");
    // Let the writer end.
    let drain = std::thread::spawn(move || {
        use std::io::Read;
        let mut pipe = pipe;
        let mut total = 0;
        let mut buffer = [0; 65_536];
        while total < 1000 - drops as usize {
            total += pipe.read(&mut buffer).map_or(0, |read| buffer[..read].iter().filter(|&&it| it == b'\n').count());
        }
    });
    drop(world);
    drain.join().expect("every line that was not dropped comes");
}

/// What tracers see is for them to say; that nobody else sees a difference is for this.
#[test]
fn requests_are_answered_alike_while_they_are_traced() {
    let site = Site::new();
    site.write("a.txt", "0123456789");
    site.write("large", vec![b'x'; 1 << 20]);
    let asked = [
        "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n",
        "HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /none HTTP/1.0\r\n\r\n",
        "GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
        "BAD REQUEST\r\n\r\n",
    ];
    let answers = |traced: bool| {
        let mut world = World::new(site.config());
        probes::trace_requests(traced);
        world.advance(Duration::from_secs(2));
        let answers: Vec<_> = asked.iter().map(|asked| [world.fetch(asked), world.fetch(asked)]).collect();
        // One leaves while it is answered, one while another waits.
        for asked in ["GET /large HTTP/1.1\r\nHost: a\r\n\r\n", "GET /other HTTP/1.1\r\nHost: a\r\n\r\n"] {
            let id = world.open();
            world.send(id, asked);
            world.close(id, app::Closed::Reset);
        }
        (answers, world.server.snapshot())
    };
    let plain = answers(false);
    let traced = answers(true);
    probes::trace_requests(false);
    assert!(plain.0 == traced.0, "traced, something else is answered");
    let counts =
        |counters: server::Counters| counters.iter().filter(|(name, _)| !name.contains("cache")).collect::<Vec<_>>();
    assert_eq!(counts(plain.1), counts(traced.1));
}
