//! Sizes and numbers that no machine has: a test of a configuration takes little memory,
//! and ends with a verdict, whatever a directive says.

use nginx::{Compiled, ConfFiles, Configuration, Context, Surroundings, ValueForm, compile, rules};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

/// The system's allocator; counts what each thread holds, and the most of it.
struct Counting;

#[global_allocator]
static ALLOC: Counting = Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    HELD.set(HELD.get() + bytes);
    MOST.set(MOST.get().max(HELD.get()));
}

// SAFETY: everything is passed on unchanged to an allocator that keeps the contract.
// Counting neither allocates nor panics: the counters need no start-up and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(start, layout) }
    }
}

/// What a test of a configuration may take beyond what it takes with an ordinary value.
const BOUND: isize = 16 << 20;

/// A file that is on no disk.
struct One(Vec<u8>);

impl ConfFiles for One {
    fn read(&mut self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Ok(self.0.clone())
    }

    fn matching(&mut self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// Numbers as large as a reader may take.
const NUMBERS: [&str; 4] = ["65536", "2147483647", "4294967296", "9223372036854775807"];
const SIZES: [&str; 5] = ["1000000000", "4000000m", "17179869184", "8589934591g", "9223372036854775807"];
const BUFFERS: [&str; 4] =
    ["1000000 1000000", "2 4000000m", "2147483647 4000000m", "9223372036854775807 9223372036854775807"];

/// Directives with rules of their own that take sizes, numbers and times: `#` stands for
/// a number, `@` for a size.
const OWN: &[(&str, &str)] = &[
    ("access_log", "/l combined buffer=@ flush=#s"),
    ("brotli_min_length", "#"),
    ("brotli_window", "@"),
    ("directio", "@"),
    ("expires", "#d"),
    ("fastcgi_cache_path", "/c levels=2:2 keys_zone=a:@ max_size=@ min_free=@ manager_files=#"),
    ("fastcgi_cache_valid", "200 #d"),
    ("http2_max_concurrent_pushes", "#"),
    ("http2_max_field_size", "@"),
    ("http2_max_header_size", "@"),
    ("http2_max_requests", "#"),
    ("image_filter_jpeg_quality", "#"),
    ("keepalive", "#"),
    ("keepalive_timeout", "#s #s"),
    ("limit_conn", "none #"),
    ("limit_conn_zone", "$arg_a zone=a:@"),
    ("limit_req", "zone=none burst=# delay=#"),
    ("limit_req_zone", "$arg_a zone=a:@ rate=#r/s"),
    ("listen", "127.0.0.1:80 backlog=# rcvbuf=@ sndbuf=@ fastopen=#"),
    ("listen", "127.0.0.1:1-65535"),
    ("open_file_cache", "max=# inactive=#d"),
    ("open_log_file_cache", "max=# inactive=#d min_uses=# valid=#d"),
    ("proxy_cache_path", "/c levels=2:2 keys_zone=a:@ max_size=@ min_free=@ loader_files=#"),
    ("proxy_cache_valid", "200 #d"),
    ("proxy_ssl_certificate_cache", "max=# inactive=#d valid=#d"),
    ("random", "two least_conn"),
    ("resolver", "127.0.0.1 valid=#s"),
    ("return", "#"),
    ("server", "127.0.0.1:1 weight=# max_conns=# max_fails=# fail_timeout=#s"),
    ("split_clients", "$arg_a $b { 0.01% a; * b; }"),
    ("ssl_certificate_cache", "max=# inactive=#d valid=#d"),
    ("ssl_ocsp_cache", "shared:a:@"),
    ("ssl_session_cache", "shared:a:@"),
    ("ssl_session_cache", "builtin:#"),
    ("sticky", "learn create=$a lookup=$b zone=c:@ timeout=#s"),
    ("thread_pool", "a threads=# max_queue=#"),
    ("userid_expires", "#d"),
    ("worker_connections", "#"),
    ("worker_cpu_affinity", "auto #"),
    ("worker_priority", "#"),
    ("worker_processes", "#"),
    ("zone", "a @"),
    ("zstd_comp_level", "#"),
    ("zstd_min_length", "#"),
];

/// What a directive of this form may be given.
fn values(form: &ValueForm) -> Vec<String> {
    let all = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    match form {
        ValueForm::Number(_) | ValueForm::Seconds | ValueForm::Time => all(&NUMBERS),
        ValueForm::Size | ValueForm::Offset | ValueForm::SizeValue => all(&SIZES),
        ValueForm::Buffers => all(&BUFFERS),
        ValueForm::Path => all(&["/c 3 3 3"]),
        _ => Vec::new(),
    }
}

/// A configuration with `directive` in one of its contexts; `None` where it has no other.
fn with(contexts: Context, directive: &str) -> String {
    let here = |context| if contexts.contains(context) { directive } else { "" };
    let mut places =
        [Context::MAIN, Context::EVENTS, Context::UPSTREAM, Context::HTTP, Context::SERVER, Context::LOCATION]
            .map(here);
    // Once, where it stands first.
    if let Some(first) = places.iter().position(|text| !text.is_empty()) {
        places[first + 1..].fill("");
    }
    let [main, events, upstream, http, server, location] = places;
    format!(
        "{main}\nevents {{ {events} }}\nhttp {{ access_log off; {http}\n\
         upstream up {{ server 127.0.0.1:9; {upstream} }}\n\
         server {{ listen 127.0.0.1:18081; {server}\nlocation / {{ proxy_pass http://up; {location} }} }} }}"
    )
}

/// The most memory that reading and compiling it takes, and what comes of it.
fn compiled(text: &str) -> (isize, Result<Compiled, String>) {
    let before = HELD.get();
    MOST.set(before);
    let around = Surroundings { prefix: Path::new("/p"), hostname: "here", root: false, resolve: |_| Vec::new() };
    let compiled = Configuration::read(&mut One(text.as_bytes().to_vec()), Path::new("/c/nginx.conf"), b"")
        .map_err(|why| why.to_string())
        .and_then(|configuration| compile(&configuration, around).map_err(|why| why.to_string()));
    (MOST.get() - before, compiled)
}

#[test]
fn whatever_size_a_directive_has_little_memory_is_taken() {
    let (usual, good) = compiled(&with(Context::HTTP, ""));
    assert!(good.is_ok() && usual > 0, "{:?}", good.err());
    let (mut cases, mut taken) = (0, 0);
    for rule in rules().values().flatten().filter(|rule| !rule.block || rule.name == "split_clients") {
        let own = OWN.iter().filter(|(name, _)| *name == rule.name);
        let own = own.flat_map(|(_, text)| {
            NUMBERS.iter().zip(&SIZES).map(|(number, size)| text.replace('#', number).replace('@', size))
        });
        for value in values(&rule.form).into_iter().chain(own) {
            let end = if rule.block { "" } else { ";" };
            let text = with(rule.contexts, &format!("{} {value}{end}", rule.name));
            let (most, outcome) = compiled(&text);
            assert!(most < usual + BOUND, "{most} bytes are taken by {} {value}", rule.name);
            cases += 1;
            taken += usize::from(outcome.is_ok());
        }
    }
    // The walk is of the whole table, and values are taken where they can be.
    assert!(cases > 700 && taken > 300, "{cases} cases, {taken} taken");
}

/// All that silos share is known, so that whoever starts finds out whether it is there.
#[test]
fn what_silos_share_is_told() {
    let text = "events {}\nhttp { limit_req_zone $arg_a zone=a:4000000m rate=1r/s; limit_conn_zone $arg_a zone=b:32k;\n\
                upstream u { zone c 64k; server 127.0.0.1:9; }\n\
                server { listen 127.0.0.1:18081; ssl_session_cache shared:d:1m; } }";
    let shared = compiled(text).1.expect("it is good").program.shared_memory;
    let told: Vec<(&[u8], u64)> = shared.iter().map(|(name, bytes)| (&name[..], *bytes)).collect();
    let expected: [(&[u8], u64); 3] = [(b"a", 4_000_000 << 20), (b"b", 32 << 10), (b"c", 64 << 10)];
    assert!(told.starts_with(&expected), "{told:?}");
}
