//! `-v` and `-V`: what this is, in lines that scripts look for in nginx's.

/// Modules of nginx whose directives are there, and that nginx has to be built
/// with.
const MODULES: [&str; 3] = ["realip", "secure_link", "stub_status"];

/// Prints the version; `whole`: and what there is of nginx's modules.
pub fn tell(whole: bool) {
    let version = env!("CARGO_PKG_VERSION");
    say::eprintln!("nginx version: nearside/{version} (reads configurations of nginx/{})", phases::NGINX_VERSION);
    if whole {
        say::eprintln!("built without TLS");
        let modules: Vec<String> = MODULES.iter().map(|module| format!("--with-http_{module}_module")).collect();
        say::eprintln!("configure arguments: --with-pcre-jit --with-threads {}", modules.join(" "));
    }
}
