//! `-v` and `-V`: what this is, in lines that scripts look for in nginx's.

use crate::load::{CONFIGURATION, PID, PREFIX};

/// Modules of nginx whose directives are there, and that nginx has to be built
/// with.
const MODULES: [&str; 11] = [
    "addition",
    "auth_request",
    "gunzip",
    "gzip_static",
    "random_index",
    "realip",
    "secure_link",
    "slice",
    "ssl",
    "stub_status",
    "sub",
];

/// Prints the version; `whole`: and what there is of nginx's modules.
pub fn tell(whole: bool) {
    // Scripts look for a name, a slash and a number, and for what it is that it reads.
    say::eprintln!("nginx version: nginx/{} (nearside/{})", phases::NGINX_VERSION, env!("CARGO_PKG_VERSION"));
    if whole {
        say::eprintln!("built with OpenSSL 3.0.0 (compatible with: rustls and AWS-LC)");
        say::eprintln!("TLS SNI support enabled");
        let modules: Vec<String> = MODULES.iter().map(|module| format!("--with-http_{module}_module")).collect();
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

    #[test]
    fn modules_that_are_named_are_there() {
        for module in MODULES {
            let compiled = rules().values().flatten().filter(|rule| rule.module == module);
            let compiled = compiled.filter(|rule| DirectiveClass::of(rule) == DirectiveClass::Compiled);
            assert!(compiled.count() > 0, "{module}");
        }
    }
}
