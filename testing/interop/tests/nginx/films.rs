//! `mp4` and `flv` beside nginx: films of all forms, from random times to random times, and such
//! as are none. Heads and bodies are nginx's, byte by byte, and lines of the error log.

#[path = "../../../../web/mp4/tests/support/film.rs"]
mod film;

use crate::NGINX;
use crate::answer::{Answer, Connection};
use crate::operators::Server;
use film::{Plan, film};
use interop::{Nearside, Running, in_namespace, scratch};
use random::SplitMix64;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

const ADDRESS: &str = "127.0.0.1:80";

/// Each location has the same films.
const CONF: &str = "\
    http { access_log off; error_log error.log; keepalive_requests 100000; types { video/mp4 mp4; video/x-flv flv; }\n\
    server { listen 127.0.0.1:80; root {folder}/www;\n\
    location /mp4/ { mp4; alias {folder}/www/; } location /flv/ { flv; alias {folder}/www/; }\n\
    location /key/ { mp4; mp4_start_key_frame on; alias {folder}/www/; }\n\
    location /small/ { mp4; mp4_buffer_size 600; mp4_max_buffer_size 3000; alias {folder}/www/; }\n\
    location /none/ { mp4; max_ranges 0; gzip on; gzip_types video/mp4; gzip_static on; alias {folder}/www/;\n\
    location /none/in/ { alias {folder}/www/; } }\n\
    location /if/ { mp4; alias {folder}/www/; if ($arg_i) { set $x 1; } limit_except HEAD { allow all; } } } }";

/// Films of a site: small ones that are held in memory, some with heads of more than is cut at
/// once there, and such as are streamed.
const PLANS: [(usize, Plan); 3] = [
    (24, Plan { tracks: 4, samples: 250, sample_bytes: 60 }),
    (3, Plan { tracks: 3, samples: 12_000, sample_bytes: 12 }),
    (3, Plan { tracks: 2, samples: 9_000, sample_bytes: 900 }),
];

/// A request, and how it is sent.
struct Asked {
    method: &'static str,
    target: String,
    fields: String,
}

impl Asked {
    fn of(&self, connection: &mut Connection) -> Answer {
        let Self { method, target, fields } = self;
        connection.ask(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes(), method.as_bytes())
    }
}

/// Writes the films into a folder; their names and lengths in milliseconds.
fn write_films(folder: &Path, seed: u64) -> Vec<(String, u64)> {
    let mut random = SplitMix64::new(seed);
    let mut films = Vec::new();
    for (count, plan) in PLANS {
        for _ in 0..count {
            let (bytes, milliseconds) = film(&mut random, plan);
            let name = format!("{}.mp4", films.len());
            write_old(&folder.join(&name), &bytes);
            films.push((name, milliseconds));
        }
    }
    films
}

/// A file that was written some time ago, and so is not looked at again at once.
fn write_old(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

/// A time as players write it.
fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

/// Any part of a film, any range of it, in any location.
fn any_request(random: &mut SplitMix64, (name, milliseconds): &(String, u64)) -> Asked {
    let most = milliseconds + milliseconds / 10 + 5;
    let (start, end) = (random.up_to(most), random.up_to(most));
    let query = match random.below(8) {
        0 => String::new(),
        1 => format!("?end={}", seconds(end)),
        2..5 => format!("?start={}", seconds(start)),
        _ => format!("?start={}&end={}", seconds(start.min(end)), seconds(start.max(end))),
    };
    let place = ["mp4", "mp4", "mp4", "key", "key", "small", "none", "if"][random.below(8)];
    let fields = match random.below(6) {
        0 => format!("Range: bytes={}-{}\r\n", random.below(5_000), random.below(60_000)),
        1 => format!("Range: bytes={}-\r\n", random.below(3_000_000)),
        2 => {
            ["Range: bytes=-100\r\n", "Range: bytes=0-5,10-15\r\n", "If-None-Match: *\r\n"][random.below(3)].to_owned()
        }
        _ => String::new(),
    };
    let method = if random.below(12) == 0 { "HEAD" } else { "GET" };
    Asked { method, target: format!("/{place}/{name}{query}"), fields }
}

/// What of an answer is compared.
fn seen(answer: &Answer) -> (Option<u16>, Vec<Option<String>>, Vec<u8>) {
    const FIELDS: [&str; 8] = [
        "content-type",
        "content-length",
        "content-range",
        "accept-ranges",
        "last-modified",
        "etag",
        "content-encoding",
        "connection",
    ];
    let fields = FIELDS.iter().map(|name| answer.field(name).map(str::to_owned)).collect();
    (answer.status(), fields, answer.plain_body())
}

/// What of an answer is compared: status, fields, body.
type Seen = (Option<u16>, Vec<Option<String>>, Vec<u8>);

/// The same of both, where what may differ of them is the first's.
fn compared(theirs: &Answer, ours: &Answer) -> [Seen; 2] {
    let (theirs, mut ours) = (seen(theirs), seen(ours));
    if theirs.0.is_some_and(|status| status >= 300) {
        // Pages name who serves.
        ours.2.clone_from(&theirs.2);
    }
    // What is compressed as a whole has a length; of what is compressed, and of pages, it is
    // another.
    if theirs.0.is_some_and(|status| status >= 300) || theirs.1[6].is_some() {
        ours.1[1].clone_from(&theirs.1[1]);
    }
    if theirs.1[0].as_deref().is_some_and(|kind| kind.starts_with("multipart")) && theirs.0 == ours.0 {
        // Boundaries differ.
        ours = theirs.clone();
    }
    [theirs, ours]
}

/// What the error log in a folder says of files, but for when and to whom.
fn told(folder: &Path) -> BTreeSet<String> {
    let line = |line: &str| {
        let (_, rest) = line.split_once(" [")?;
        let (level, rest) = rest.split_once("] ")?;
        let (_, rest) = rest.split_once('*')?;
        let (_, rest) = rest.split_once(' ')?;
        let (what, _) = rest.split_once(", client: ")?;
        Some(format!("[{level}] {}", what.replace(folder.to_str().unwrap(), "")))
    };
    fs::read_to_string(folder.join("error.log")).unwrap_or_default().lines().filter_map(line).collect()
}

/// Who serves: nginx, ours on the kernel's sockets, and ours on its own stack.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Nginx,
    Sockets,
    Stack,
}

/// All of them.
const SIDES: [Side; 3] = [Side::Nginx, Side::Sockets, Side::Stack];

/// The link of the last, and where it is.
const LINK: [&str; 4] = ["--link", "tap:near0,addr=10.9.0.1/24", "--addr", "10.9.0.2/24"];
const STACK: &str = "10.9.0.2:80";

/// One of them, serving in a folder of its own; and where.
fn start(side: Side, name: &str) -> (Server, &'static str) {
    if side != Side::Stack {
        return (Server::start(side == Side::Nginx, name, CONF), ADDRESS);
    }
    let folder = scratch("nginx-operators").join(name).join("stack");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("www")).unwrap();
    let conf = CONF.replace("{folder}", folder.to_str().unwrap()).replace("listen 127.0.0.1:80", "listen 80");
    fs::write(folder.join("nginx.conf"), format!("user root; daemon off; pid pid; events {{}}\n{conf}")).unwrap();
    let mut command = Nearside::command(["nginx", "-e", "default.log"]);
    command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).args(LINK);
    let mut running = Running::start(&mut command);
    running.wait_until_open(STACK);
    (Server { folder, running }, STACK)
}

/// Asks one of them for all; what it answered, and what its log says.
fn ask_all(side: Side, name: &str, files: impl FnOnce(&Path), asked: &[Asked]) -> (Vec<Answer>, BTreeSet<String>) {
    let (server, address) = start(side, name);
    files(&server.folder.join("www"));
    let mut connection = Connection::open(address);
    let mut answers = Vec::new();
    for one in asked {
        let answer = one.of(&mut connection);
        if !answer.lives {
            connection = Connection::open(address);
        }
        answers.push(answer);
    }
    server.running.stop();
    (answers, told(&server.folder))
}

/// Random parts of random films are nginx's, byte by byte.
#[test]
fn films_are_cut_as_nginx_cuts_them() {
    const ASKED: usize = 700;
    in_namespace(&[NGINX], || {
        let mut random = SplitMix64::new(7);
        let folder = scratch("nginx-operators").join("films-of-all");
        fs::create_dir_all(&folder).unwrap();
        let films = write_films(&folder, 11);
        let mut one = || {
            let film = &films[random.below(films.len())];
            any_request(&mut random, film)
        };
        let asked: Vec<Asked> = (0..ASKED).map(|_| one()).collect();
        let [(theirs, their_log), sockets, stack] =
            SIDES.map(|side| ask_all(side, "films", |www| drop(write_films(www, 11)), &asked));
        let mut statuses = [0; 3];
        let all = theirs.iter().chain(&theirs).zip(sockets.0.iter().chain(&stack.0)).zip(asked.iter().chain(&asked));
        for ((theirs, ours), asked) in all {
            let name = format!("{} {} {:?}", asked.method, asked.target, asked.fields);
            let [theirs, ours] = compared(theirs, ours);
            assert_eq!((theirs.0, &theirs.1), (ours.0, &ours.1), "{name}");
            let at = theirs.2.iter().zip(&ours.2).position(|(one, other)| one != other);
            assert!(
                theirs.2 == ours.2,
                "{name}: bodies of {} and {} bytes differ at {at:?}",
                theirs.2.len(),
                ours.2.len()
            );
            statuses[match theirs.0 {
                Some(200) => 0,
                Some(206) => 1,
                _ => 2,
            }] += 1;
        }
        assert!(statuses[0] > ASKED / 3 && statuses.iter().all(|count| *count > 20), "{statuses:?}");
        assert_eq!(their_log, sockets.1);
        assert_eq!(their_log, stack.1);
    });
}

/// Requests that are no film's, and places where nothing is cut.
#[test]
fn what_is_no_film_is_answered_as_by_nginx() {
    in_namespace(&[NGINX], || {
        let files = |www: &Path| {
            let (film, _) = film(&mut SplitMix64::new(3), PLANS[0].1);
            write_old(&www.join("f.mp4"), &film);
            write_old(&www.join("f.mp4.gz"), b"not asked for");
            write_old(&www.join("f.flv"), &[&b"FLV\x01\x05\0\0\0\x09"[..], &film].concat());
            write_old(&www.join("empty.mp4"), b"");
            write_old(&www.join("empty.flv"), b"");
            write_old(&www.join("text.mp4"), b"this is no film at all, whatever its name says");
            fs::create_dir_all(www.join("folder")).unwrap();
            write_old(&www.join("folder/index.html"), b"index");
        };
        let mut asked = Vec::new();
        let mut ask = |method: &'static str, target: &str, fields: &str| {
            let (target, fields) = (target.to_owned(), fields.to_owned());
            asked.push(Asked { method, target, fields });
        };
        for place in ["mp4", "flv", "none", "none/in", "if", "key"] {
            for file in ["f.mp4", "f.flv", "empty.mp4", "empty.flv", "text.mp4", "none.mp4", "folder", "folder/"] {
                for query in ["", "?start=1", "?end=1", "?start=100000", "?start=0", "?start=x", "?i=1&start=1"] {
                    ask("GET", &format!("/{place}/{file}{query}"), "");
                }
            }
            for method in ["HEAD", "POST", "PUT"] {
                for file in ["f.mp4", "none.mp4", "folder", "folder/"] {
                    ask(method, &format!("/{place}/{file}?start=1"), "Content-Length: 0\r\n");
                }
            }
            ask("GET", &format!("/{place}/f.mp4?start=1"), "Accept-Encoding: gzip\r\n");
            ask("GET", &format!("/{place}/f.mp4?start=1"), "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n");
            ask("GET", &format!("/{place}/f.mp4"), "Range: bytes=0-1,4-5\r\n");
        }
        for start in ["1", "13", "100", "00100", "99999999999999999999", "-1", "1.5", ""] {
            ask("GET", &format!("/flv/f.flv?start={start}"), "");
            ask("GET", &format!("/flv/f.flv?START={start}"), "Range: bytes=5-40\r\n");
            ask("GET", &format!("/flv/f.flv?a=start=1&start={start}"), "Range: bytes=-5\r\n");
        }
        let answers = [Side::Nginx, Side::Sockets].map(|side| ask_all(side, "no-films", files, &asked));
        for ((theirs, ours), asked) in answers[0].0.iter().zip(&answers[1].0).zip(&asked) {
            let name = format!("{} {} {:?}", asked.method, asked.target, asked.fields);
            let [theirs, ours] = compared(theirs, ours);
            assert_eq!(theirs, ours, "{name}");
        }
        assert_eq!(answers[0].1, answers[1].1);
    });
}

/// Films with a few bytes that are others: nginx and ours send the same of them, or refuse them
/// with the same words, but for what nginx of today refuses, too.
#[test]
fn broken_films_are_refused_as_by_nginx() {
    const ASKED: u64 = 500;
    /// What the nginx beside it does not know yet, or reads where nothing is.
    const OURS: [&str; 5] =
        ["zero sync sample", "zero chunk", "unordered mp4 stsc chunks", "mp4 file truncated", "too many mp4"];
    let broken = |www: &Path| {
        for seed in 0..ASKED {
            let mut random = SplitMix64::new(seed);
            let (mut bytes, _) = film(&mut random, Plan { tracks: 2, samples: 60, sample_bytes: 9 });
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() - 8);
                match random.below(4) {
                    0 => bytes[at] = random.bits() as u8,
                    1 => bytes[at..at + 4].fill(0),
                    2 => bytes[at..at + 4].copy_from_slice(&(1_u32 << random.below(32)).to_be_bytes()),
                    _ => bytes.truncate(at + 8),
                }
                if bytes.len() < 64 {
                    break;
                }
            }
            write_old(&www.join(format!("{seed}.mp4")), &bytes);
        }
    };
    in_namespace(&[NGINX], move || {
        let mut random = SplitMix64::new(5);
        let mut one = |at: u64| Asked {
            method: "GET",
            target: format!(
                "/{}/{at}.mp4?start={}&end={}",
                ["mp4", "key"][random.below(2)],
                seconds(random.up_to(1500)),
                seconds(random.up_to(4000))
            ),
            fields: String::new(),
        };
        let asked: Vec<Asked> = (0..ASKED).map(&mut one).collect();
        let [(theirs, _), (ours, log)] =
            [Side::Nginx, Side::Sockets].map(|side| ask_all(side, "broken-films", broken, &asked));
        let (mut same, mut apart) = (0, Vec::new());
        for (((theirs, ours), asked), at) in theirs.iter().zip(&ours).zip(&asked).zip(0..) {
            let (theirs, ours) = (seen(theirs), seen(ours));
            let is_alike = theirs.0 == ours.0 && (theirs.0 != Some(200) || theirs.2 == ours.2);
            let is_ours = ours.0 == Some(500)
                && log.iter().any(|line| {
                    line.contains(&format!("/{at}.mp4\"")) && OURS.iter().any(|words| line.contains(words))
                });
            match is_alike {
                true => same += 1,
                false if is_ours => {}
                false => apart.push((asked.target.clone(), theirs.0, ours.0, theirs.2.len(), ours.2.len())),
            }
        }
        assert!(apart.is_empty(), "{apart:#?}");
        assert!(same > ASKED * 9 / 10, "{same} are the same");
    });
}

/// Heads of films have a bound in memory, of which each worker has its part: one that finds no
/// room is answered and logged as that, with the site's error page.
#[test]
fn a_film_whose_head_finds_no_room_is_logged_as_what_it_is() {
    const CONF: &str = "user root; worker_processes 64; daemon off; pid pid; error_log error.log; events {}\n\
        http { log_format l '$status $sent_http_content_length $body_bytes_sent \"$request\" $request_completion';\n\
        access_log a.log l; types { video/mp4 mp4; }\n\
        server { listen 127.0.0.1:80; root www; error_page 503 /full; location / { mp4; }\n\
        location /full { internal; return 503 full; } } }";
    in_namespace(&[], || {
        let folder = scratch("nginx-films").join("full");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("www")).unwrap();
        let (bytes, _) = film(&mut SplitMix64::new(1), Plan { tracks: 4, samples: 900_000, sample_bytes: 1 });
        write_old(&folder.join("www/a.mp4"), &bytes);
        fs::write(folder.join("nginx.conf"), CONF).unwrap();
        let mut command = Nearside::command(["nginx"]);
        command.arg("-p").arg(&folder).args(["-c", "nginx.conf", "-e", "stderr"]);
        let mut running = Running::start(&mut command);
        running.wait_until_open(ADDRESS);
        let answer = Connection::open(ADDRESS).ask(b"GET /a.mp4?start=0.001 HTTP/1.1\r\nHost: a\r\n\r\n", b"GET");
        assert_eq!((answer.status(), answer.body.len()), (Some(503), 4));
        running.stop();
        let log = fs::read_to_string(folder.join("a.log")).unwrap();
        assert_eq!(log, "503 4 4 \"GET /a.mp4?start=0.001 HTTP/1.1\" OK\n");
        let errors = fs::read_to_string(folder.join("error.log")).unwrap();
        assert!(errors.contains("answers from files have all that they may, client: 127.0.0.1"), "{errors}");
    });
}
