//! The targets, in the order in which a packet meets what they test.

pub mod certificates;
pub mod cgi_answer;
pub mod checksum;
pub mod dns_answer;
pub mod excerpts;
pub mod frame;
pub mod h2_server;
pub mod hpack;
pub mod http_client;
pub mod http_server;
pub mod http_values;
pub mod lacp;
pub mod mp4_cut;
pub mod nginx_compile;
pub mod nginx_conf;
pub mod proxy_header;
pub mod request_fields;
pub mod results;
pub mod site_toml;
pub mod ssi;
pub mod stack;
pub mod tcp_options;
pub mod tls_hello;
pub mod tls_records;

use crate::corpus::digest;
use crate::mutate::Random;

/// Up to eight places at which an input is cut, ascending: decided by the
/// input itself, so that it alone stands for the run.
pub(crate) fn cuts(input: &[u8]) -> Vec<usize> {
    let mut random = Random::new(digest(input));
    let mut cuts: Vec<_> = (0..random.below(9)).map(|_| random.below(input.len() + 1)).collect();
    cuts.sort_unstable();
    cuts
}
