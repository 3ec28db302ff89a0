//! `-v` and `-V`: what this is, in lines that scripts look for in nginx's.

use crate::load::{CONFIGURATION, PID, PREFIX};
use std::collections::BTreeSet;

/// Modules of nginx whose directives are there, and that nginx has to be built
/// with, but for those that features name.
const MODULES: [&str; 7] = ["addition", "auth_request", "random_index", "realip", "slice", "ssl", "stub_status"];

/// All such modules, in order.
fn modules() -> BTreeSet<&'static str> {
    features::built_with().chain(MODULES).collect()
}

/// Modules that nginx has where nothing is said, and that are not here: named as its `configure` does.
const WITHOUT: [&str; 7] = [
    "-cache",
    "_userid_module",
    "_tunnel_module",
    "_memcached_module",
    "_browser_module",
    "_upstream_least_time_module",
    "_upstream_sticky_module",
];

/// Prints the version; `whole`: and what there is of nginx's modules.
pub fn tell(whole: bool) {
    // Scripts look for a name, a slash and a number, and for what it is that it reads.
    say::eprintln!("nginx version: nginx/{} (nearside/{})", configuration::NGINX_VERSION, env!("CARGO_PKG_VERSION"));
    if whole {
        say::eprintln!("built with OpenSSL 3.0.0 (compatible with: rustls and AWS-LC)");
        say::eprintln!("TLS SNI support enabled");
        let with = modules().into_iter().map(|module| format!("--with-http_{module}_module"));
        let without = WITHOUT.iter().map(|part| format!("--without-http{part}"));
        let modules: Vec<String> = with.chain(without).collect();
        say::eprintln!(
            "configure arguments: --prefix={PREFIX} --conf-path={CONFIGURATION} --http-log-path={} --pid-path={PID} \
             --with-pcre --with-pcre-jit --with-threads {}",
            nginx::ACCESS_LOG,
            modules.join(" ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nginx::{DirectiveClass, rules};

    /// Whether a directive of a module has its meaning.
    fn is_there(module: &str) -> bool {
        let mut rules = rules().values().flatten().filter(|rule| rule.module == module);
        rules.any(|rule| DirectiveClass::of(rule) == DirectiveClass::Compiled)
    }

    #[test]
    fn modules_that_are_named_are_there() {
        for module in modules() {
            assert!(is_there(module), "{module}");
        }
    }

    #[test]
    fn modules_that_are_not_there_are_told_of() {
        // All that nginx's configure leaves out by such an option.
        #[rustfmt::skip]
        const USUAL: [&str; 31] = [
            "charset", "gzip", "ssi", "userid", "access", "auth_basic", "mirror", "autoindex", "geo", "map",
            "split_clients", "referer", "rewrite", "proxy", "fastcgi", "uwsgi", "scgi", "grpc", "tunnel", "memcached",
            "limit_conn", "limit_req", "empty_gif", "browser", "upstream_hash", "upstream_ip_hash",
            "upstream_least_conn", "upstream_least_time", "upstream_random", "upstream_keepalive", "upstream_sticky",
        ];
        for module in USUAL {
            let told = WITHOUT.contains(&format!("_{module}_module").as_str());
            assert_eq!(is_there(module), !told, "{module}");
        }
        let caches = rules().get(&b"proxy_cache_path"[..]).expect("a rule");
        assert!(caches.iter().all(|rule| DirectiveClass::of(rule) != DirectiveClass::Compiled));
        assert!(WITHOUT.contains(&"-cache"));
    }
}
