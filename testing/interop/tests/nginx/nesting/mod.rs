//! What a location has of the places around it, and what an `if`, a `limit_except` and a
//! named location in it have, beside nginx: each directive by its probe
//! (`web/nginx/src/probes.txt`), in servers that are put together by chance.
//!
//! `NEARSIDE_NESTING=SEEDS` takes so many seeds, `NEARSIDE_NESTING_SEED=SEED` that one.

mod places;
mod probes;
mod seen;

use crate::requests::{self, Asked};
use crate::secured::sh;
use crate::secured_upstreams::CERTIFICATES;
use crate::twins::{SIDES, Twins, filled};
use crate::{NGINX, programs, tree, upstream};
use cpu::Clock;
use interop::{Program, Running, in_namespace, scratch};
use places::Made;
use probes::Probe;
use random::SplitMix64;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const PORT: u16 = 8080;

const OPENSSL: Program = Program::new("openssl", "openssl");

/// How many seeds are taken in a test.
const SEEDS: u64 = 1;

/// Servers of several directives for a seed, and how many requests are sent to each.
const MIXED: usize = 40;
const REQUESTS: usize = 16;

/// How many directives stand in `http`.
const OUTERMOST: usize = 6;

/// What would close everything to everybody, or answer for all, stands in servers.
const SHUT: &[&str] = &["deny", "allow", "auth_request", "auth_basic", "limit_req", "limit_conn", "error_log", "root"];

/// How often logs are looked at, which are long.
const LOOKS: usize = 30;

/// How many failures are shown.
const SHOWN: usize = 12;

/// Files of each folder.
const FILES: &str = "index.html written index of {folder}\\n
other.html written other of {folder}\\n
page.html page 3000
text.txt written text of {folder}: the text, which is longer than what it is compressed to, to, to, to, to, to, to\\n
style.css written css of {folder}: www www www www www www www www www www www www\\n
data.bin written data\\n
koi.txt written \\xc1\\xc2\\n
packed.css page 900
packed.css.gz gzip
link.txt -> text.txt
part.html written <p>[<!--#echo var=\"uri\" -->]</p>\\n
part.css written [<!--#echo var=\"uri\" -->]\\n
wrong.html written [<!--#nothing a=\"b\" -->]\\n
long.html written [<!--#set var=\"a\" value=\"0123456789012345678901234567890123456789\" --><!--#echo var=\"a\" -->]\\n
list/one.txt written one\\n
list/two.txt page 3000
one/alone.txt written alone\\n
";

const FOLDERS: [&str; 7] = ["", "a/", "b/", "a/a/", "a/b/", "b/a/", "b/b/"];

const LOG: &str = "log_format told '$status \"$request\" $host$uri $document_root $remote_addr $remote_user \
    $told_here rate=$limit_rate up=$upstream_status conn=$limit_conn_status req=$limit_req_status \
    x.a=$http_x_a slice=$slice_range';\n log_format short '$status $request_uri';";

/// The parts of `http` that all servers need, and the name of a directive that one is there
/// for; what stands in its place is left out.
const OUTER: &[(&str, &str)] = &[
    (
        "proxy_read_timeout",
        "proxy_read_timeout 3s; fastcgi_read_timeout 3s; scgi_read_timeout 3s; uwsgi_read_timeout 3s;",
    ),
    ("types", "types { text/html html; text/plain txt; text/css css; }"),
    ("access_log", "access_log {side}/logs/access.log told;"),
    ("default_type", "default_type application/octet-stream;"),
    ("root", "root {prefix}/www;"),
    ("client_body_temp_path", "client_body_temp_path {side}/bodies;"),
    ("proxy_ssl_session_reuse", "proxy_ssl_session_reuse off;"),
    ("proxy_ssl_protocols", "proxy_ssl_protocols TLSv1.2;"),
    (
        "fastcgi_param",
        "fastcgi_param REQUEST_URI $request_uri; fastcgi_param CONTENT_LENGTH $content_length; \
      fastcgi_param SCRIPT $fastcgi_script_name; fastcgi_param MORE $fastcgi_path_info;",
    ),
    ("scgi_param", "scgi_param REQUEST_URI $request_uri; scgi_param SCGI 1;"),
    ("uwsgi_param", "uwsgi_param REQUEST_URI $request_uri; uwsgi_param CONTENT_LENGTH $content_length;"),
];

/// Variables that are kept for a request, for logs: `{kept}` is [`KEPT`], but where requests are
/// copied ([`COPIED`]).
const MAPS: &str = "map $host $told_here { volatile; ~copied ''; default '{kept}'; }
 map $request_body $kept_in { '' none; default memory; }
 map $request_body_file $in_folder { '' none; ~/(?<of_body>[a-z0-9]+)/[0-9/]+$ $of_body; default other; }
 map $arg_charset $of_charset { '' utf-8; default $arg_charset; }
 map $arg_rate $of_rate { '' 700k; default $arg_rate; }
 charset_map koi8-r utf-8 { C1 D0B0; C2 D0B1; }
 limit_req_zone $host$uri zone=one:1m rate=1r/m;
 limit_req_zone $host zone=two:1m rate=1r/m;
 limit_conn_zone $server_port zone=held:1m;
 upstream backed-proxy { server 172.31.77.1:9999 max_fails=0; server 172.31.77.1:9000 backup; }
 upstream backed-fastcgi { server 172.31.77.1:9999 max_fails=0; server 172.31.77.1:9001 backup; }
 upstream backed-scgi { server 172.31.77.1:9999 max_fails=0; server 172.31.77.1:9002 backup; }
 upstream backed-uwsgi { server 172.31.77.1:9999 max_fails=0; server 172.31.77.1:9003 backup; }";

/// Variables that are kept for a request.
const KEPT: &str = "ref=$invalid_referer link=$secure_link kept=$kept_in in=$in_folder set=$told_set \
    auth=$told_auth,$told_more";

/// In the names of servers that copy requests (`mirror`): with nginx the copies have the
/// variables of the request, and it is logged behind them (docs/differences.md).
const COPIED: &str = "copied.";

/// The first server: who asks for no other is told so, and connections are kept no longer than
/// with it (docs/differences.md). The next one counts a connection for as long as its client takes its answer.
const HELD: &str = "server { listen {address}:8080 default_server; server_name none; keepalive_requests 1000;
 keepalive_time 1h; return 418; }
 server { listen {address}:8080; server_name held; access_log off; mirror off; limit_rate 40; limit_conn held 1000;
 limit_conn_dry_run off; set $told_set ''; set $told_auth ''; set $told_more ''; location /big.bin { } }";

const UPSTREAM: &str = "user root; worker_processes 1; daemon off; pid up.pid; error_log up.log; events {}
 http { access_log off; server { listen 172.31.77.1:8443 ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
 ssl_protocols TLSv1.2 TLSv1.3; ssl_client_certificate ca.pem; ssl_verify_client optional;
 location / { return 200 '$ssl_protocol $ssl_cipher $ssl_server_name $ssl_client_verify $ssl_client_s_dn $request_uri'; } } }";

/// A configuration, and what is asked.
struct Site {
    name: String,
    http: String,
    servers: Vec<(String, Made)>,
}

/// Makes what is served, and the programs that it is passed on to.
fn prepare(site: &Site) -> PathBuf {
    let prefix = scratch("nginx").join(&site.name);
    let _ = fs::remove_dir_all(&prefix);
    fs::create_dir_all(&prefix).unwrap();
    let mut list = String::new();
    for root in ["www", "alt"] {
        for folder in FOLDERS {
            for line in FILES.lines() {
                let _ = writeln!(list, "{root}/{folder}{}", line.replace("{folder}", &format!("{root}/{folder}")));
            }
        }
    }
    list.push_str("www/big.bin bytes 1000000\nalt/big.bin bytes 1000000\n");
    tree::make(&prefix, &list);
    sh(&prefix, CERTIFICATES, "");
    let at = prefix.to_string_lossy().into_owned();
    for side in SIDES {
        let folder = prefix.join(side.name);
        fs::create_dir_all(&folder).unwrap();
        for name in ["ca.pem", "other.pem", "none.crl", "server.crl", "client.pem", "client.key"] {
            fs::copy(prefix.join(name), folder.join(name)).unwrap();
        }
        fs::write(folder.join("users"), "plain:{PLAIN}secret\n").unwrap();
        fs::write(folder.join("others"), "plain:{PLAIN}other\n").unwrap();
        let servers: String = site.servers.iter().map(|(_, made)| &*made.text).collect();
        let maps = MAPS.replace("{kept}", if site.http.contains("mirror /") { "" } else { KEPT });
        let text = format!(
            "{{process}}\nevents {{ worker_connections 1024; }}\nhttp {{\n{LOG}\n{maps}\n{}\n{HELD}\n{servers}}}\n",
            site.http
        );
        fs::write(folder.join("nginx.conf"), filled(&text, side).replace("{prefix}", &at)).unwrap();
    }
    prefix
}

/// An upstream over TLS.
fn secured(prefix: &Path) -> Running {
    fs::write(prefix.join("up.conf"), UPSTREAM).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(prefix).arg("-c").arg(prefix.join("up.conf")).args(["-e", "stderr"]);
    Running::start(&mut command)
}

/// Connections whose answers take long.
fn held() -> Vec<TcpStream> {
    let hold = |address: &str| {
        let mut stream = TcpStream::connect(format!("{address}:{PORT}")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(b"GET /big.bin HTTP/1.1\r\nHost: held\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 1]).unwrap();
        stream
    };
    SIDES.iter().map(|side| hold(side.address)).collect()
}

/// Serves `site` three times and compares all answers, and what is logged; `also` sees those
/// of nginx. What differs while the machine stood still is asked again: time limits of 50 ms and answers after
/// 400 are among it, and who of both slept through both is chance.
fn compare(site: Site, also: impl Fn(&mut Twins, &[(String, Made)]) -> Vec<String> + Send + 'static) {
    in_namespace(&[NGINX, OPENSSL], move || {
        upstream::start();
        programs::serve();
        for left in (0..TRIES).rev() {
            let still = Stillness::begin();
            let (count, failures) = compare_once(&site, &also);
            let longest = still.end();
            if failures.is_empty() {
                println!("{}: {count} requests to {} servers", site.name, site.servers.len());
                return;
            }
            let shown: Vec<&str> = failures.iter().take(SHOWN).map(String::as_str).collect();
            let said = format!("{count} requests, {} servers differ:\n\n{}", failures.len(), shown.join("\n"));
            assert!(left > 0 && longest >= STILL, "{said}");
            println!("{}: the machine stood still for {longest:?}: asked again; {said}", site.name);
        }
    });
}

/// How often a site is asked at most, on a machine that stands still.
const TRIES: u32 = 3;

/// So long one thread that only sleeps was late: then others may have slept through a time limit.
const STILL: Duration = Duration::from_millis(25);

/// How long the machine stood still at most.
struct Stillness(Arc<AtomicBool>, JoinHandle<Duration>);

impl Stillness {
    fn begin() -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let watch = move || {
            let (mut longest, mut before) = (Duration::ZERO, Clock.now());
            while !told.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
                let now = Clock.now();
                (longest, before) = (longest.max(now.since(before)), now);
            }
            longest
        };
        Self(ends, thread::spawn(watch))
    }

    fn end(self) -> Duration {
        self.0.store(true, Ordering::Relaxed);
        self.1.join().unwrap()
    }
}

/// How many requests there were, and what differs.
fn compare_once(site: &Site, also: &impl Fn(&mut Twins, &[(String, Made)]) -> Vec<String>) -> (usize, Vec<String>) {
    let prefix = prepare(site);
    let mut twins = Twins::serve(prefix.clone(), PORT);
    let mut up = secured(&prefix);
    up.wait_until_open("172.31.77.1:8443");
    let held = held();
    let mut failures = Vec::new();
    let mut count = 0;
    for (host, made) in &site.servers {
        // Which of several files it is that answers, each of both decides by chance.
        let by_chance = |line: &&String| made.text.contains("random_index on") && line.contains("list/");
        let differing = made.lines.iter().filter(|line| !by_chance(line)).filter_map(|line| {
            count += 1;
            let asked = read(line, host, &prefix);
            twins.differ_on_kept_connections(&asked)
        });
        let differing: Vec<String> = differing.collect();
        if let [first, ..] = &*differing {
            failures.push(format!("{}, {host}: {} of\n{}\n{first}", site.name, differing.len(), made.text));
        }
    }
    failures.extend(twins.logs_differ_after(LOOKS));
    failures.extend(also(&mut twins, &site.servers));
    drop(held);
    twins.stop();
    up.stop();
    (count, failures)
}

fn read(line: &str, host: &str, prefix: &Path) -> Asked {
    requests::read(line, host, prefix)
}

/// The directives of `http`, some of which have a value.
fn http(random: &mut SplitMix64, probes: &[Probe]) -> String {
    let opens = |one: &&Probe| {
        !SHUT.contains(&&*one.name)
            && !one.name.starts_with("proxy_ssl_")
            && !["_buffer_size", "_request_body"].iter().any(|end| one.name.ends_with(end))
    };
    let may: Vec<&Probe> = probes.iter().filter(|one| one.stands_in('h') && !one.is_alone).filter(opens).collect();
    let mut chosen: Vec<&Probe> = Vec::new();
    for _ in 0..OUTERMOST {
        let one = may[random.below(may.len())];
        if chosen.iter().all(|other| other.name != one.name) {
            chosen.push(one);
        }
    }
    let mut out = String::new();
    for (name, text) in OUTER {
        if chosen.iter().all(|one| one.name != *name) {
            let _ = writeln!(out, "{text}");
        }
    }
    for one in chosen {
        let _ = writeln!(out, "{}", one.values[random.below(one.values.len())]);
    }
    out
}

/// What is in the name of a server with these directives.
fn copied(probes: &[&Probe]) -> &'static str {
    let copies = probes.iter().any(|probe| probe.names().any(|name| name == "mirror"));
    if copies { COPIED } else { "" }
}

/// Servers for each directive alone, and for some together.
fn by_chance(seed: u64) -> Site {
    let probes = probes::all();
    let mut random = SplitMix64::new(seed);
    let http = http(&mut random, &probes);
    let mut servers = Vec::new();
    for (number, probe) in probes.iter().enumerate() {
        let host = format!("s{number}.{}test", copied(&[probe]));
        let made = places::server(&mut random, &host, &[probe], REQUESTS);
        servers.push((host, made));
    }
    for number in 0..MIXED {
        let mut some: Vec<&Probe> = Vec::new();
        for _ in 0..5 {
            let one = &probes[random.below(probes.len())];
            let apart = |other: &&Probe| !one.names().any(|name| other.names().any(|known| known == name));
            if some.iter().all(apart) && some.len() < 3 && !one.is_alone {
                some.push(one);
            }
        }
        let host = format!("m{number}.{}test", copied(&some));
        let made = places::server(&mut random, &host, &some, REQUESTS);
        servers.push((host, made));
    }
    Site { name: format!("nesting-{seed}"), http, servers }
}

/// What was found to differ once: whole servers, and what is asked of them.
const FOUND: &[(&str, &str, &[&str])] = &[
    (
        "internal.test",
        "location /a/ { internal; location ~ \\.txt$ { } location /a/b/ { location /a/b/a/ { } }
           if ($arg_i) { expires 1; } limit_except GET { deny all; } }
         location /b/ { rewrite ^/b/(.*)$ /a/b/$1 last; }",
        &["GET /a/text.txt", "GET /a/b/index.html", "GET /a/b/a/", "GET /a/?i=1", "POST /a/text.txt", "GET /b/"],
    ),
    (
        "named.test",
        "location / { try_files /none @closed; } location @closed { limit_except POST { deny all; }
           return 200 in; }
         location /a/ { error_page 405 @open; location ~ css$ { } }
         location @open { limit_except GET { deny all; } }",
        &["GET /text.txt", "POST /text.txt", "HEAD /text.txt", "POST /a/text.txt", "POST /a/style.css", "GET /a/"],
    ),
    (
        "ranges.test",
        "fastcgi_force_ranges on; fastcgi_pass_header X-Accel-Expires; proxy_force_ranges on; proxy_pass_header Date;
         proxy_pass_header Server; location / { fastcgi_pass 172.31.77.1:9001; } location /a/ { proxy_pass http://172.31.77.1:9000; }",
        &[
            "GET /length | Range: bytes=1-2",
            "GET /length | Range: bytes=0-0,2-3",
            "GET /length | Range: bytes=9-",
            "GET /a/fields | Range: bytes=0-1",
            "GET /a/fields",
        ],
    ),
    (
        "words.test",
        "charset koi8-r; override_charset on; default_type \"\"; limit_rate $of_rate;
         location / { } location /a/ { proxy_pass http://172.31.77.1:9000; } location /one/ { random_index on; }
         location /b/ { keepalive_requests 1; try_files /none @on; } location @on { }",
        &[
            "GET /data.bin",
            "GET /a/fields",
            "GET /text.txt?rate=900k",
            "POST /one/",
            "GET /one/",
            "GET /b/text.txt",
        ],
    ),
    // A body is measured where its path finds a location, at first and once it is rewritten; a
    // named location has no say.
    (
        "measured.test",
        "client_max_body_size 1m; rewrite ^/up/(.*)$ /big/$1; rewrite ^/down/(.*)$ /small/$1;
         if ($arg_i) { return 410; }
         location /up/ { client_max_body_size 10; }
         location /down/ { proxy_pass http://172.31.77.1:9000; }
         location /small/ { client_max_body_size 10; rewrite ^/small/on/(.*)$ /big/$1 last;
           proxy_pass http://172.31.77.1:9000; }
         location /big/ { proxy_pass http://172.31.77.1:9000; }
         location /then/ { rewrite ^/then/(.*)$ /small/$1 last; }
         location /named/ { try_files /none @small; }
         location /error/ { error_page 418 = @small; return 418; }
         location @small { client_max_body_size 10; proxy_pass http://172.31.77.1:9000; }
         location /page/ { client_max_body_size 10; error_page 413 = @small; }
         location /path/ { client_max_body_size 10; error_page 413 /big/echo; }",
        &[
            "POST /up/echo | <*2000",
            "POST /down/echo | <*2000",
            "POST /big/echo | <*2000",
            "POST /small/on/echo | <*2000",
            "POST /small/echo?i=1 | <*2000",
            "POST /then/echo | <*2000",
            "POST /named/echo | <*2000",
            "POST /error/echo | <*2000",
            "POST /page/echo | <*2000",
            "POST /path/echo | <*2000",
            "POST /small/echo | <*10",
            "GET /small/echo | <*11",
            "GET /big/echo",
        ],
    ),
    // A cookie that comes with X-Accel-Redirect has what it would have gone with.
    (
        "cookies.test",
        "proxy_cookie_flags in secure httponly samesite=lax; proxy_cookie_domain old.org new.org;
         proxy_cookie_path / /below/; location / { proxy_pass http://172.31.77.1:9000; }
         location /plain/ { proxy_cookie_flags off; proxy_cookie_path off; proxy_pass http://172.31.77.1:9000; }
         location /program/ { fastcgi_pass 172.31.77.1:9001; } location /kept/page.html { return 200 kept; }",
        &["GET /inside", "GET /plain/inside", "GET /program/inside", "GET /fields", "HEAD /inside"],
    ),
    // `expires` stands in place of what the upstream says.
    (
        "expires.test",
        "expires 1h; location / { proxy_pass http://172.31.77.1:9000; }
         location /off/ { expires off; proxy_pass http://172.31.77.1:9000; }
         location /epoch/ { expires epoch; add_header Cache-Control public; proxy_pass http://172.31.77.1:9000; }
         location /value/ { expires $arg_e; proxy_pass http://172.31.77.1:9000; }
         location /hidden/ { proxy_hide_header Cache-Control; proxy_pass http://172.31.77.1:9000; }
         location /program/ { fastcgi_pass 172.31.77.1:9001; } location /scgi/ { scgi_pass 172.31.77.1:9002; }
         location /uwsgi/ { uwsgi_pass 172.31.77.1:9003; }",
        &[
            "GET /fields",
            "GET /dated",
            "GET /off/dated",
            "GET /epoch/dated",
            "GET /value/dated",
            "GET /value/dated?e=max",
            "GET /hidden/dated",
            "GET /program/fields",
            "GET /scgi/fields",
            "GET /uwsgi/fields",
        ],
    ),
    // What a place that is left says of the connection holds; that of a server in which no
    // place was found does not.
    (
        "left.test",
        "keepalive_timeout 0; rewrite ^/start/(.*)$ /kept/$1; if ($arg_i) { return 200 told; }
         location / { } location /b/ { keepalive_timeout 75; rewrite ^/b/(.*)$ /$1 last; }
         location /a/ { keepalive_timeout 75; location /a/a/ { keepalive_timeout 0; rewrite ^/a/(.*)$ /kept/$1 last; }
           location /a/b/ { keepalive_requests 1; rewrite ^/a/b/(.*)$ /$1 break; } }
         location /kept/ { keepalive_timeout 75; return 200 kept; }
         location /once/ { keepalive_timeout 75; keepalive_requests 1; rewrite ^/once/(.*)$ /kept/$1 last; }
         location /wrong/ { keepalive_timeout 75; return 402; }",
        &[
            "GET /text.txt?i=1",
            "GET /kept/",
            "GET /start/",
            "GET /a/a/text.txt",
            "GET /a/b/text.txt",
            "GET /b/text.txt",
            "GET /once/text.txt",
            "GET /once/text.txt",
            "GET /wrong/text.txt",
            "GET /a/text.txt",
        ],
    ),
    // What logs are told of slices that were none, and of the pace of what is part of another.
    (
        "logged.test",
        "log_subrequest on; slice 100; proxy_set_header Range $slice_range; limit_rate 700k;
         location / { proxy_pass http://172.31.77.1:9000; } location /none/ { proxy_pass http://172.31.77.1:9999; }
         location /page/ { error_page 502 /kept/; proxy_pass http://172.31.77.1:9999; }
         location = /kept/ { return 200 kept; }
         location = /head { return 204; } location /copied/ { auth_request /head; }
         location /copied/set/ { auth_request /set; } location = /set { set $limit_rate 5k; return 204; }
         location /copied/more/ { addition_types *; add_after_body /text.txt; alias {prefix}/www/; }
         location = /text.txt { }",
        &[
            "GET /ranged",
            "GET /echo",
            "GET /huge-head",
            "GET /none/echo",
            "GET /page/echo",
            "GET /copied/text.txt",
            "GET /copied/set/text.txt",
            "GET /copied/more/style.css",
        ],
    ),
    // A path that the server rewrote for good is passed on whole.
    (
        "whole.test",
        "rewrite ^(.*)/text\\.txt$ $1/index.html break; location / { proxy_pass http://172.31.77.1:9000/up/; }
         location /a/ { proxy_pass http://172.31.77.1:9000/up/; } location /b/ { rewrite ^/b/(.*)$ /a/$1 last; }
         location /c/ { error_page 404 /a/; return 404; }",
        &["GET /a/text.txt", "GET /a/echo", "GET /b/text.txt", "GET /b/echo", "GET /c/text.txt", "GET /text.txt"],
    ),
    // Where one of several may let in, each refusal with 403 is told as one by a rule.
    (
        "any.test",
        "satisfy any; auth_basic a;
         location /a/ { auth_basic_user_file none; }
         location /b/ { auth_basic_user_file none; deny all; }
         location /c/ { satisfy all; auth_basic_user_file none; }
         location /d/ { auth_basic_user_file users; deny all; }
         location /e/ { auth_basic_user_file none; allow all; }",
        &[
            "GET /a/text.txt | Authorization: Basic cGxhaW46c2VjcmV0",
            "GET /b/text.txt | Authorization: Basic cGxhaW46c2VjcmV0",
            "GET /c/text.txt | Authorization: Basic cGxhaW46c2VjcmV0",
            "GET /d/text.txt | Authorization: Basic cGxhaW46b3RoZXI=",
            "GET /e/text.txt | Authorization: Basic cGxhaW46c2VjcmV0",
            "GET /b/text.txt",
        ],
    ),
    // What follows a picture.
    (
        "picture.test",
        "add_after_body /text.txt; addition_types *; location /a/ { empty_gif; } location = /text.txt { }",
        &["GET /a/text.txt", "GET /a/b"],
    ),
];

#[test]
fn what_differed_once_differs_no_more() {
    let probes = probes::all();
    assert!(probes.len() > 150, "{}", probes.len());
    let server = |(host, text, lines): &(&str, &str, &[&str])| {
        let text = format!("server {{\n listen {{address}}:8080; server_name {host};\n {text}\n}}\n");
        ((*host).to_owned(), Made { text, lines: lines.iter().map(|line| (*line).to_owned()).collect() })
    };
    let mut servers: Vec<_> = FOUND.iter().map(server).collect();
    for (number, probe) in probes.iter().enumerate() {
        for value in 0..probe.values.len() {
            let host = format!("v{value}-{number}.test");
            let made = places::plain(&host, probe, value);
            servers.push((host, made));
        }
    }
    let http = OUTER.iter().map(|(_, text)| *text).collect::<Vec<_>>().join("\n");
    compare(Site { name: "probed".to_owned(), http, servers }, move |twins, servers| {
        let prefix = twins.prefix().to_owned();
        let dull = probes.iter().enumerate().filter_map(|(number, probe)| {
            let of_value = |value: usize| {
                let host = format!("v{value}-{number}.test");
                let (_, made) = servers.iter().find(|(known, _)| *known == host).expect("made above");
                let answers = made.lines.iter().map(|line| twins.ask_nginx(&read(line, &host, &prefix)));
                let seen: Vec<String> = answers.map(|answer| seen::in_answer(&answer, &probe.seen)).collect();
                let logged = seen::in_logs(&prefix.join("nginx"), &host, &probe.seen);
                format!("{seen:?} {logged}").replace(&host, "")
            };
            let all: Vec<String> = (0..probe.values.len()).map(of_value).collect();
            let is_dull = probe.seen != "nothing" && all.iter().all(|one| *one == all[0]);
            is_dull.then(|| format!("{}: no {} differs by its value: {}", probe.name, probe.seen, all[0]))
        });
        dull.collect()
    });
}

#[test]
fn places_within_places_have_what_they_have_with_nginx() {
    let told = std::env::var("NEARSIDE_NESTING").ok().and_then(|seeds| seeds.parse().ok());
    // One alone, or the first ones.
    let only = std::env::var("NEARSIDE_NESTING_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    for seed in only.map_or(0..told.unwrap_or(SEEDS), |only| only..only + 1) {
        compare(by_chance(seed), |_, _| Vec::new());
    }
}
