//! `nearside nginx` beside nginx: sites as people have them, each served by both
//! from the same files, and the same requests sent to both. Status, header fields and
//! bodies are equal, and lines of the access log; what is not stands in `differences.rs`.
//!
//! With `NEARSIDE_NGINX=PROGRAM` another nginx than Debian's is in its place; rows of
//! `differences.rs` say from which version on they hold, or up to which.
//!
//! With `NEARSIDE_TWIN=nginx` nginx is compared with itself: what differs then does so
//! by chance.

mod accepting;
mod af_xdp;
mod against;
mod answer;
mod around;
mod back_pressure;
mod broken_off;
mod compressed;
mod confined;
mod dates;
mod debian;
mod details;
mod differences;
mod disks;
mod dns;
mod early;
mod faults;
mod films;
mod foreign;
mod grpc;
mod half_requests;
mod hosts;
mod http2;
mod http2_faults;
mod http2_moving;
mod kept;
mod keys;
mod line_feeds;
mod meanings;
mod moving;
mod nesting;
mod operators;
mod passed_again;
mod programs;
mod proxied;
mod random;
mod ranged;
mod rates;
mod reach;
mod refused;
mod reloads;
mod requests;
mod resolved;
mod secured;
mod secured_upstreams;
mod sent;
mod sizes;
mod slow_readers;
mod stapled;
mod streams;
mod theirs;
mod tree;
mod twins;
mod upstream;
mod waits;

use interop::{Program, in_namespace};
use programs::Programs;
use requests::Asked;
use twins::Twins;

const NGINX: Program = Program::new("nginx", "nginx");

/// Requests that are put together of parts of the listed ones, for each site.
const RANDOM: usize = 150;

/// How many failures are shown of a site.
const SHOWN: usize = 12;

/// What clients leave before it is theirs, by site: it is logged all the same.
const LEFT: &[(&str, &str)] = &[("content", "/slow/long.txt"), ("content", "/slow/long.txt?again")];

/// What is asked once, by site: it takes long.
const ONCE: &[(&str, &str)] = &[
    ("content", "GET /huge.txt | Accept-Encoding: gzip"),
    ("proxied-application", "GET /limited/big"),
    ("proxied-application", "GET /impatient/late"),
    ("proxied-application", "GET /impatient/late-body | ~part"),
    ("within", "GET /asked/late"),
    ("within", "GET /pages/late.html"),
    ("within", "GET /copied/up/late"),
];

/// Serves the site `name` twice and compares all answers.
fn compare(name: &'static str) {
    let needed = [vec![NGINX], programs::needed(name)].concat();
    in_namespace(&needed, move || {
        if name.starts_with("proxied") || name == "within" {
            upstream::start();
        }
        let programs = Programs::of_site(name);
        let mut twins = Twins::start(name);
        let list = requests::of_site(name, twins.prefix());
        let mut mixed = random::mixed(&list, RANDOM);
        mixed.extend(random::often(&list));
        let (alike, apart): (Vec<&Asked>, Vec<&Asked>) = list.iter().partition(|asked| asked.expected.is_none());
        let mut failures = Vec::new();
        for asked in &alike {
            failures.extend(twins.differ_on_new_connections(asked));
        }
        for asked in alike.into_iter().chain(&mixed) {
            failures.extend(twins.differ_on_kept_connections(asked));
        }
        for (_, line) in ONCE.iter().filter(|(site, _)| *site == name) {
            failures.extend(twins.differ_on_new_connections(&requests::one(line, &list, twins.prefix())));
        }
        for (_, target) in LEFT.iter().filter(|(site, _)| *site == name) {
            twins.leave(target);
        }
        failures.extend(twins.logs_differ());
        // Lines about these differ, too: they come last.
        for asked in apart {
            failures.extend(twins.differ_on_new_connections(asked));
        }
        twins.stop();
        drop(programs);
        assert!(failures.is_empty(), "{}", told(name, &failures, list.len() + mixed.len()));
    });
}

fn told(name: &str, failures: &[String], requests: usize) -> String {
    let shown: Vec<&str> = failures.iter().take(SHOWN).map(String::as_str).collect();
    format!("{name}: {} differences in {requests} requests, the first:\n\n{}", failures.len(), shown.join("\n"))
}

#[test]
fn a_default_site() {
    compare("default");
}

#[test]
fn a_bare_site() {
    compare("bare");
}

#[test]
fn a_documentation_site() {
    compare("documentation");
}

#[test]
fn a_single_page_application() {
    compare("application");
}

#[test]
fn a_package_mirror() {
    compare("mirror");
}

#[test]
fn an_edge_of_a_delivery_network() {
    compare("edge");
}

#[test]
fn a_hardened_site() {
    compare("hardened");
}

#[test]
fn a_blog_of_files() {
    compare("blog");
}

#[test]
fn many_hosts() {
    compare("hosts");
}

#[test]
fn a_guarded_site() {
    compare("guarded");
}

#[test]
fn a_site_in_toml() {
    compare("toml");
}

#[test]
fn a_site_that_changes_what_it_serves() {
    compare("content");
}

#[test]
fn a_site_of_requests_within_requests() {
    compare("within");
}

#[test]
fn a_site_of_experiments() {
    compare("experiments");
}

#[test]
fn an_application_behind_a_proxy() {
    compare("proxied-application");
}

#[test]
fn long_answers_by_slices() {
    compare("proxied-slices");
}

#[test]
fn programs_behind_gateways() {
    compare("proxied-programs");
}

#[test]
fn programs_of_a_blog() {
    compare("wordpress");
}

#[test]
fn programs_of_a_file_share() {
    compare("nextcloud");
}

#[test]
fn programs_of_an_application() {
    compare("django");
}

#[test]
fn an_application_of_rails_behind_a_proxy() {
    compare("proxied-rails");
}

#[test]
fn a_forge_behind_a_proxy() {
    compare("proxied-gitlab");
}
