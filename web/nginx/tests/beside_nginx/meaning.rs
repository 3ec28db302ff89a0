//! What configurations mean together: what is refused of it, beside what nginx
//! says of the same.

use crate::process::Folder;
use nginx::{Configuration, Disk, Surroundings, compile};
use std::net::{IpAddr, ToSocketAddrs};

fn resolve(host: &str) -> Vec<IpAddr> {
    (host, 0).to_socket_addrs().map(|found| found.map(|one| one.ip()).collect()).unwrap_or_default()
}

/// What we say of the configuration that was written last.
fn ours(folder: &Folder) -> Result<Vec<String>, String> {
    let path = folder.configuration();
    let configuration = Configuration::read(&mut Disk, &path, b"").map_err(|why| why.to_string())?;
    let around = Surroundings { prefix: path.parent().unwrap(), hostname: "here", root: true, resolve };
    let compiled = compile(&configuration, around).map_err(|why| why.to_string())?;
    let warnings = configuration.warnings.iter().chain(&compiled.warnings);
    Ok(warnings.map(ToString::to_string).collect())
}

/// Wrong for what is in `http`.
const WRONG: &[&str] = &[
    // Addresses.
    "server { listen 127.0.0.1:0; }",
    "server { listen 127.0.0.1:70000; }",
    "server { listen 127.0.0.1:x; }",
    "server { listen :18081; }",
    "server { listen 127.0.0.1/x; }",
    "server { listen [::1; }",
    "server { listen [::g]:18081; }",
    "server { listen []:18081; }",
    "server { listen [::1]x; }",
    "server { listen unix:; }",
    "server { listen no.such.host.invalid:18081; }",
    "server { listen 127.0.0.1:18090-18080; }",
    "server { listen 127.0.0.1:18081 backlog=0; }",
    "server { listen 127.0.0.1:18081 rcvbuf=x; }",
    "server { listen 127.0.0.1:18081 sndbuf=1t; }",
    "server { listen 127.0.0.1:18081 fastopen=-1; }",
    "server { listen 127.0.0.1:18081 ipv6only=or; }",
    "server { listen 127.0.0.1:18081 ipv6only=yes; }",
    "server { listen 127.0.0.1:18081 so_keepalive=maybe; }",
    "server { listen 127.0.0.1:18081 so_keepalive=::; }",
    "server { listen 127.0.0.1:18081 unknown; }",
    "server { listen 127.0.0.1:18081; listen 127.0.0.1:18081; }",
    "server { listen 127.0.0.1:18081 backlog=9; } server { listen 127.0.0.1:18081 backlog=9; }",
    "server { listen 127.0.0.1:18081 default_server; } server { listen 127.0.0.1:18081 default_server; }",
    // Names.
    "server { listen 127.0.0.1:18081; server_name *; }",
    "server { listen 127.0.0.1:18081; server_name *a.example; }",
    "server { listen 127.0.0.1:18081; server_name .; }",
    "server { listen 127.0.0.1:18081; server_name ~; }",
    "server { listen 127.0.0.1:18081; server_name ~(; }",
    "server { listen 127.0.0.1:18081; } server { listen 127.0.0.1:18081; server_name a.*.example; }",
    "server { listen 127.0.0.1:18081; } server { listen 127.0.0.1:18081; server_name a..example; }",
    "server { listen 127.0.0.1:18081; } server { listen 127.0.0.1:18081; server_name *.a.*; }",
    // Locations.
    "server { listen 127.0.0.1:18081; location /a {} location /a {} }",
    "server { listen 127.0.0.1:18081; location = /a {} location = /a {} }",
    "server { listen 127.0.0.1:18081; location /a {} location ^~ /a {} }",
    "server { listen 127.0.0.1:18081; location /a { location /b {} } }",
    "server { listen 127.0.0.1:18081; location = /a { location /a {} } }",
    "server { listen 127.0.0.1:18081; location @a { location /a {} } }",
    "server { listen 127.0.0.1:18081; location /a { location @a {} } }",
    "server { listen 127.0.0.1:18081; location ~~ /a {} }",
    "server { listen 127.0.0.1:18081; location ~ [b-a] {} }",
    "server { listen 127.0.0.1:18081; location ~ ^/(a {} }",
    // Scripts.
    "server { listen 127.0.0.1:18081; set x 1; }",
    "server { listen 127.0.0.1:18081; set $uri 1; }",
    "server { listen 127.0.0.1:18081; set $http_host 1; }",
    "server { listen 127.0.0.1:18081; set $a $b; }",
    "server { listen 127.0.0.1:18081; set $a \"${b\"; }",
    "server { listen 127.0.0.1:18081; set $a a$; }",
    "server { listen 127.0.0.1:18081; rewrite ^ \"\"; }",
    "server { listen 127.0.0.1:18081; rewrite ( /a; }",
    "server { listen 127.0.0.1:18081; rewrite ^ /a maybe; }",
    "server { listen 127.0.0.1:18081; return x; }",
    "server { listen 127.0.0.1:18081; return 1000; }",
    "server { listen 127.0.0.1:18081; return -1; }",
    "server { listen 127.0.0.1:18081; if $a { } }",
    "server { listen 127.0.0.1:18081; if ($host { } }",
    "server { listen 127.0.0.1:18081; if ($host = ) { } }",
    "server { listen 127.0.0.1:18081; if ($host == a) { } }",
    "server { listen 127.0.0.1:18081; if ($host ~ () { } }",
    "server { listen 127.0.0.1:18081; if (-g /a) { } }",
    "server { listen 127.0.0.1:18081; if (a) { } }",
    "server { listen 127.0.0.1:18081; if ($1) { } }",
    "server { listen 127.0.0.1:18081; if ($no_such_thing) { } }",
    // Files.
    "server { listen 127.0.0.1:18081; location /a { root /a; alias /b; } }",
    "server { listen 127.0.0.1:18081; location /a { alias /a; root /b; } }",
    "server { listen 127.0.0.1:18081; location @a { alias /a; } }",
    "server { listen 127.0.0.1:18081; root $document_root/a; }",
    "server { listen 127.0.0.1:18081; location / { alias ${realpath_root}; } }",
    "server { listen 127.0.0.1:18081; index \"\"; }",
    "server { listen 127.0.0.1:18081; try_files $uri =1000; }",
    "server { listen 127.0.0.1:18081; try_files $uri =x; }",
    "server { listen 127.0.0.1:18081; disable_symlinks maybe; }",
    "server { listen 127.0.0.1:18081; disable_symlinks on off; }",
    // Answers.
    "server { listen 127.0.0.1:18081; error_page 200 /a; }",
    "server { listen 127.0.0.1:18081; error_page 499 /a; }",
    "server { listen 127.0.0.1:18081; error_page x /a; }",
    "server { listen 127.0.0.1:18081; error_page =200 /a; }",
    "server { listen 127.0.0.1:18081; error_page 404 =x /a; }",
    "server { listen 127.0.0.1:18081; expires 1x; }",
    "server { listen 127.0.0.1:18081; expires @25h; }",
    "server { listen 127.0.0.1:18081; expires modified @1h; }",
    "server { listen 127.0.0.1:18081; expires changed 1h; }",
    "server { listen 127.0.0.1:18081; add_header A b never; }",
    "server { listen 127.0.0.1:18081; add_header A $b; }",
    "server { listen 127.0.0.1:18081; keepalive_timeout x; }",
    "server { listen 127.0.0.1:18081; keepalive_timeout 1 x; }",
    // Whom to let in.
    "server { listen 127.0.0.1:18081; location / { limit_except FETCH { deny all; } } }",
    "server { listen 127.0.0.1:18081; allow 1.2.3; }",
    "server { listen 127.0.0.1:18081; deny 10.0.0.0/33; }",
    "server { listen 127.0.0.1:18081; set_real_ip_from no.such.host.invalid; }",
    "server { listen 127.0.0.1:18081; valid_referers \"\"; }",
    "server { listen 127.0.0.1:18081; valid_referers ~; }",
    "server { listen 127.0.0.1:18081; valid_referers none blocked; }",
    "server { listen 127.0.0.1:18081; valid_referers a.*.example; }",
    "server { listen 127.0.0.1:18081; valid_referers a.example A.example; }",
    "server { listen 127.0.0.1:18081; secure_link $arg_a; secure_link_secret b; }",
    // Tables.
    "map $uri x { }",
    "map $uri $uri { }",
    "map $uri $x { a; }",
    "map $uri $x { a b; a c; }",
    "map $uri $x { ~( b; }",
    "map $uri $x { default 1; default 2; }",
    "map $nothing $x { }",
    "geo $x { 10.0.0.0/33 a; }",
    "geo x { }",
    "split_clients $uri $x { 60% a; 60% b; }",
    "split_clients $uri x { }",
    // Upstreams.
    "upstream a { }",
    "upstream a { server 127.0.0.1 backup; }",
    "upstream a { server 127.0.0.1; } upstream A { server 127.0.0.1; }",
    "upstream a { server 127.0.0.1 weight=0; }",
    "upstream a { server 127.0.0.1 weight=x; }",
    "upstream a { server 127.0.0.1 max_conns=-1; }",
    "upstream a { server 127.0.0.1 max_fails=; }",
    "upstream a { server 127.0.0.1 fail_timeout=1ms; }",
    "upstream a { server 127.0.0.1 maybe; }",
    "upstream a { server 127.0.0.1:0; }",
    "upstream a { server 127.0.0.1:x; }",
    "upstream a { server 127.0.0.1/x; }",
    "upstream a { server :80; }",
    "upstream a { server unix:; }",
    "upstream a { server [::1; }",
    "upstream a { server [::g]; }",
    "upstream a { server []; }",
    "upstream a { server [::1]80; }",
    "upstream a { server no.such.host.invalid; }",
    "upstream a { hash $uri maybe; server 127.0.0.1; }",
    "upstream a { hash $nothing; server 127.0.0.1; }",
    "upstream a { hash $uri; server 127.0.0.1; server 127.0.0.2 backup; }",
    "upstream a { ip_hash; server 127.0.0.1; server 127.0.0.2 backup; }",
    "upstream a { random; server 127.0.0.1; server 127.0.0.2 backup; }",
    "upstream a { random three; server 127.0.0.1; }",
    "upstream a { random two most_conn; server 127.0.0.1; }",
    "upstream a { server 127.0.0.1; keepalive x; }",
    "upstream a { server 127.0.0.1; keepalive 1; keepalive 2; }",
    "upstream a { server 127.0.0.1; keepalive_requests x; }",
    "upstream a { server 127.0.0.1; keepalive_timeout x; }",
    "upstream a { server 127.0.0.1; zone \"\" 1m; }",
    "upstream a { server 127.0.0.1; zone a x; }",
    "upstream a { server 127.0.0.1; zone a 1k; }",
    "upstream a { server 127.0.0.1; listen 80; }",
    // Programs.
    "server { listen 127.0.0.1:18081; location / { fastcgi_pass localhost; } }",
    "server { listen 127.0.0.1:18081; location / { fastcgi_pass 127.0.0.1:x; } }",
    "server { listen 127.0.0.1:18081; location / { fastcgi_pass unix:; } }",
    "server { listen 127.0.0.1:18081; location / { fastcgi_pass no.such.host.invalid:9000; } }",
    "server { listen 127.0.0.1:18081; location / { scgi_pass localhost; } }",
    "server { listen 127.0.0.1:18081; location / { uwsgi_pass localhost/a; } }",
    "server { listen 127.0.0.1:18081; fastcgi_param A b always; }",
    "server { listen 127.0.0.1:18081; fastcgi_param A $nothing; }",
    "server { listen 127.0.0.1:18081; fastcgi_split_path_info ^(.*)$; }",
    "server { listen 127.0.0.1:18081; fastcgi_split_path_info (; }",
    "server { listen 127.0.0.1:18081; fastcgi_next_upstream never; }",
    "server { listen 127.0.0.1:18081; uwsgi_modifier1 x; }",
    // Limits, passwords, compression.
    "limit_req_zone $binary_remote_addr zone=a:1m; ",
    "limit_req_zone $uri zone=a:1k rate=1r/s;",
    "limit_req_zone $uri zone=a:1m rate=1r/s; limit_req_zone $args zone=a:1m rate=1r/s;",
    "limit_req_zone $uri zone=a:1m rate=1r/s; limit_conn_zone $args zone=a:1m;",
    "limit_req zone=nothing;",
    "limit_conn nothing 1;",
    "limit_conn_zone $uri zone=a:1m; limit_conn a 0;",
    "limit_conn_zone $uri zone=a:1m; limit_conn a 1; limit_conn a 2;",
    "limit_req_zone $uri zone=a:1m rate=1r/s; limit_req zone=a burst=x;",
    "limit_req_zone $uri zone=a:1m rate=x;",
    "limit_req_status 200;",
    "auth_basic $nothing;",
    "gzip_disable (;",
    "gzip_static maybe;",
    "gzip_min_length x;",
    // Logs.
    "log_format a b; log_format a c;",
    "log_format a escape=xml b;",
    "access_log logs/x nothing;",
    "log_format a $nothing;",
    "log_format a ${uri;",
    "access_log logs/x combined buffer=x;",
    "access_log logs/x combined flush=1s;",
    "access_log logs/x combined gzip=10;",
    "access_log logs/$uri combined buffer=4k;",
    "access_log off combined;",
    "access_log logs/x combined buffer=4k; access_log logs/x combined buffer=8k;",
    "access_log syslog:server=127.0.0.1,facility=x;",
    "open_log_file_cache valid=1m;",
];

#[test]
fn wrong_meanings_are_refused_in_the_same_words() {
    let Some(folder) = Folder::new("meaning") else { return };
    let mut differing = Vec::new();
    for text in WRONG {
        let theirs = folder.refusal_of_servers(text).map(|said| format!("[emerg] {said}"));
        let ours = ours(&folder).err();
        if ours != theirs || theirs.is_none() {
            differing.push(format!("{text}\n  nginx: {theirs:?}\n  here:  {ours:?}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// Taken by both, with the same warnings.
const WARNED: &[&str] = &[
    "upstream a { ip_hash; server 127.0.0.1; least_conn; hash $uri; random two; }",
    "upstream a { server 127.0.0.1:81 weight=2 backup; server unix:/x down; server [::1]:8; server localhost; hash $uri; }",
    "server { listen 127.0.0.1:18082; server_name a; } server { listen 127.0.0.1:18082; server_name a A; }",
    "server { listen 127.0.0.1:18082; server_name a/b; }",
    "server { listen 127.0.0.1:18082; server_name a.*.b c..d e e; }",
    "server { listen 127.0.0.1:18082; secure_link $arg_a; location /a { secure_link_secret b; } }",
    "server { listen 127.0.0.1:18082; secure_link_secret a; location /a { secure_link $arg_b; secure_link_md5 c; } }",
    "server { listen 127.0.0.1:18082; index /a b; }",
    "server { listen 127.0.0.1:18082; allow 10.0.0.1/8; }",
    "server { listen 127.0.0.1:18082; set_real_ip_from 10.0.0.1/8; }",
    "types { a/b c; d/e c; }",
    "server { listen 127.0.0.1:18082; location @a {} location @a {} }",
    "server { listen 127.0.0.1:18082; set $a 1; if ($a) { return 403; } set $limit_rate 1k; set $args a; }",
    "server { listen 127.0.0.1:18082; location / { location ~ ^/x { alias /y/$1; } location = /z { internal; } } }",
    "server { listen 127.0.0.1:18082; server_name ~^(?<who>.+)\\.example$ \"\" *.a b.* .c; root /x/$who; }",
];

#[test]
fn what_is_taken_is_taken_with_the_same_warnings() {
    let Some(folder) = Folder::new("warned") else { return };
    for text in WARNED {
        let (theirs, warnings) = folder.warnings_of_servers(text);
        assert_eq!(theirs, None, "{text}");
        assert_eq!(ours(&folder), Ok(warnings), "{text}");
    }
}
