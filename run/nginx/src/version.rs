//! `-v` and `-V`: what this is, in lines that scripts look for in nginx's.

/// Modules of nginx whose directives are there, and that nginx has to be built
/// with.
const MODULES: [&str; 4] = ["realip", "secure_link", "ssl", "stub_status"];

/// Prints the version; `whole`: and what there is of nginx's modules.
pub fn tell(whole: bool) {
    let version = env!("CARGO_PKG_VERSION");
    say::eprintln!("nginx version: nearside/{version} (reads configurations of nginx/{})", phases::NGINX_VERSION);
    if whole {
        say::eprintln!("built with rustls and AWS-LC (compatible with OpenSSL 3.0)");
        say::eprintln!("TLS SNI support enabled");
        let modules: Vec<String> = MODULES.iter().map(|module| format!("--with-http_{module}_module")).collect();
        say::eprintln!("configure arguments: --with-pcre-jit --with-threads {}", modules.join(" "));
    }
}
