//! What could stand in the place of what is refused: by the name of a directive.

/// Names, or their beginnings (`*` behind them), and what to write.
const ROWS: &[(&str, &str)] = &[
    ("more_set_headers", "add_header NAME VALUE always, with proxy_hide_header NAME for one that an upstream sends"),
    ("more_clear_headers", "proxy_hide_header NAME, or server_tokens off for Server"),
    ("more_set_input_headers", "proxy_set_header NAME VALUE"),
    ("more_clear_input_headers", "proxy_set_header NAME \"\""),
    ("fancyindex*", "autoindex on, with autoindex_format html, json or xml"),
    ("geoip_*", "a geo block that includes a file of networks"),
    ("geoip2*", "a geo block that includes a file of networks"),
    ("auth_pam*", "auth_basic with a file of passwords, or auth_request to a program that asks PAM"),
    ("auth_jwt*", "auth_request to a program that looks at the token"),
    ("auth_ldap*", "auth_request to a program that asks the directory"),
    ("subs_filter*", "sub_filter, once or (sub_filter_once off) everywhere, without expressions"),
    ("echo*", "return 200 TEXT with default_type"),
    ("*_by_lua*", "there is no Lua here: map, set and rewrite, or a program behind proxy_pass or auth_request"),
    ("lua_*", "there is no Lua here: map, set and rewrite, or a program behind proxy_pass or auth_request"),
    ("js_*", "map, set and rewrite, or a program behind proxy_pass or auth_request"),
    ("perl*", "a program behind fastcgi_pass or proxy_pass"),
    ("passenger*", "the application's own server behind proxy_pass"),
    ("image_filter*", "pictures that are made beforehand, chosen by try_files, or a program behind proxy_pass"),
    ("xslt_*", "a program behind proxy_pass"),
    ("dav_*", "a program for WebDAV behind proxy_pass"),
    ("upload*", "a program behind proxy_pass, with client_max_body_size"),
    ("fair", "least_conn"),
    ("least_time", "least_conn"),
    ("sticky", "hash $cookie_NAME consistent, or ip_hash"),
    ("proxy_cache", "proxy_cache off: upstreams are asked each time"),
    ("fastcgi_cache", "fastcgi_cache off: programs are asked each time"),
    ("uwsgi_cache", "uwsgi_cache off: programs are asked each time"),
    ("scgi_cache", "scgi_cache off: programs are asked each time"),
    ("*_cache_path", "nothing: without a cache the line goes, with the lines that name its zone"),
    ("*_cache_purge", "nothing: without a cache the line goes"),
    ("*_store", "files that a program writes below root, with try_files before proxy_pass"),
    ("memcached_pass", "a program behind proxy_pass"),
    ("userid", "a cookie by add_header Set-Cookie with $request_id, where $cookie_NAME is empty (map)"),
    ("stream", "nothing here: nginx beside this server, for its other ports"),
    ("mail", "nothing here: nginx beside this server, for its other ports"),
    ("rtmp*", "nothing here: nginx beside this server, for its other ports"),
    ("ssl", "listen ... ssl"),
    ("ssl_engine", "the key in a file"),
    ("post_action", "mirror, which asks beside the request"),
    ("modsecurity*", "nothing here: a firewall in front, or behind proxy_pass"),
    ("vhost_traffic_status*", "--metrics ADDRESS, or stub_status"),
    ("pagespeed*", "gzip or brotli, and files that are made small beforehand"),
    ("opentelemetry*", "access_log in JSON with $request_id, or --metrics ADDRESS"),
    ("otel*", "access_log in JSON with $request_id, or --metrics ADDRESS"),
    ("kernel_network_stack", "nearside import says what becomes of F-Stack's lines"),
];

/// What could stand in the place of a directive that is refused.
pub(crate) fn of_directive(name: &str) -> Option<&'static str> {
    ROWS.iter().find(|(row, _)| fits(row, name)).map(|(_, what)| *what)
}

/// Whether a name is one of a row's.
pub(crate) fn fits(row: &str, name: &str) -> bool {
    match (row.strip_prefix('*'), row.strip_suffix('*')) {
        (None, None) => row == name,
        (None, Some(start)) => name.starts_with(start),
        (Some(end), None) => name.ends_with(end),
        (Some(_), Some(_)) => name.contains(row.trim_matches('*')),
    }
}

/// All names, or their beginnings and ends, with what to write.
pub(crate) fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROWS.iter().copied()
}

/// What could stand in the place of what a message refuses.
pub(crate) fn of_message(text: &str) -> Option<&'static str> {
    const UNKNOWN: &str = "unknown directive \"";
    const UNSUPPORTED: &str = "not supported here: \"";
    let rest = text.strip_prefix(UNKNOWN).or_else(|| text.strip_prefix(UNSUPPORTED));
    if let Some(name) = rest.and_then(|rest| rest.split('"').next()) {
        let known = of_directive(name);
        // What nginx has in a module of its own, and others by their own names.
        return known.or(Some("nothing is known: the line goes, or nginx serves that part, behind proxy_pass"));
    }
    let said = |part: &str| text.contains(part);
    match () {
        () if said("getpwnam(") || said("getgrnam(") => Some("a user and a group that this machine has"),
        () if said("cannot load certificate") => Some("a file in PEM that this process may read"),
        () if said("No such file or directory") => Some("a path that is there"),
        () if said("bind() to ") && said("Permission denied") => Some("a port from 1024 on, or a start as root"),
        () if said("Cannot assign requested address") => Some("an address that this machine has"),
        () if said("Permission denied") => Some("a place that this user may use, or a start as root"),
        () if said("host not found") => Some("an address, or a name that resolves, or resolver with a variable"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_known_by_name_beginning_end_and_middle() {
        let of = |text: &str| of_message(text).unwrap_or("");
        assert!(of("unknown directive \"more_set_headers\"").starts_with("add_header"));
        assert!(of("unknown directive \"content_by_lua_file\"").contains("map"));
        assert!(of("not supported here: \"proxy_cache_path\" directive: no").contains("goes"));
        assert!(of("not supported here: \"proxy_cache\" directive with another value").contains("off"));
        assert!(of("unknown directive \"fancyindex_css_href\"").contains("autoindex"));
        assert!(of("unknown directive \"prozy_pass\"").contains("nothing is known"));
        assert_eq!(of("unexpected \"}\""), "");
    }
}
