use super::*;
use crate::source::ConfFiles;
use configuration::program::{Alias, ContentRules, Methods};
use configuration::script::{Condition, Instruction, SetTarget};
use configuration::{Block, Location, ServerId};
use core::time::Duration;
use std::io;
use upstream::Balancing;

/// One file that is on no disk.
struct One(Vec<u8>);

impl ConfFiles for One {
    fn read(&mut self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Ok(self.0.clone())
    }

    fn matching(&mut self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

fn around() -> Surroundings<'static> {
    Surroundings { prefix: Path::new("/p"), hostname: "Here", root: false, resolve: |_| Vec::new() }
}

pub(super) fn compiled(http: &str) -> Result<Compiled, String> {
    let text = format!("events {{}}\nhttp {{ access_log off;\n{http}\n}}");
    let configuration = Configuration::read(&mut One(text.into_bytes()), Path::new("/c/nginx.conf"), b"").unwrap();
    compile(&configuration, around()).map_err(|why| why.to_string())
}

/// The block with this label.
fn block<'c>(compiled: &'c Compiled, label: &str) -> &'c Block {
    compiled.program.blocks.iter().find(|block| *block.label == *label.as_bytes()).expect(label)
}

fn added(block: &Block) -> Vec<String> {
    block.fields.added.iter().map(|field| told(&field.name)).collect()
}

#[test]
fn what_a_block_says_replaces_what_it_inherits() {
    let compiled = compiled(
        "add_header A a; index x; keepalive_timeout 7; client_max_body_size 2m; types { a/b c; }
         error_page 404 /404; error_page 500 502 =200 /5xx;
         server { index y z; add_header B b;
           location / { location /in { add_header C c; } client_max_body_size 0; }
           location /own { error_page 403 @x; types { d/e f; } keepalive_timeout 0; }
           location /merge { add_header D d; add_header_inherit merge; }
           location /none { add_header_inherit off; root /r/; } }",
    )
    .unwrap();
    let root = block(&compiled, "/");
    assert_eq!((root.index.len(), root.body_max, added(root)), (2, 0, vec!["B".to_owned()]));
    assert_eq!(root.connection.keepalive, Duration::from_secs(7));
    assert_eq!((root.types.of(b"/x.c"), root.types.of(b"/x.html")), (Some(&b"a/b"[..]), None));
    let statuses = |block: &Block| block.error_pages.iter().map(|page| (page.status, page.told)).collect::<Vec<_>>();
    let told = Some(Some(200));
    assert_eq!(statuses(root), [(404, None), (500, told), (502, told)]);
    assert_eq!((added(block(&compiled, "/in")), block(&compiled, "/in").body_max), (vec!["C".to_owned()], 0));
    let own = block(&compiled, "/own");
    assert_eq!((statuses(own), own.connection.keepalive), (vec![(403, None)], Duration::ZERO));
    assert_eq!((own.types.of(b"/x.c"), own.types.of(b"/x.f")), (None, Some(&b"d/e"[..])));
    assert_eq!(added(block(&compiled, "/merge")), ["D", "B"]);
    let none = block(&compiled, "/none");
    assert_eq!((added(none), none.root.path.constant()), (vec![], Some(&b"/r"[..])));
    assert_eq!(root.root.path.constant(), Some(&b"/p/html"[..]));
}

#[test]
fn what_is_internal_is_so_in_all_of_its_places() {
    let compiled = compiled(
        r"server {
           location /secret/ { internal; if ($arg_a) { expires 1; } limit_except GET { deny all; }
             location ~ \.txt$ { location ~ ^/secret/deep { } } location /secret/index { } }
           location /open/ { location /open/shut { internal; } } }",
    )
    .unwrap();
    let closed = |label: &str| block(&compiled, label).internal;
    let inside = ["/secret/", "if ($arg_a)", "limit_except GET", r"~ \.txt$", "~ ^/secret/deep", "/secret/index"];
    assert_eq!(inside.map(closed), [true; 6]);
    assert_eq!(["/open/", "/open/shut"].map(closed), [false, true]);
}

#[test]
fn scripts_jump_over_what_does_not_hold() {
    let compiled = compiled(
        "server { set $a 1;
           if ($a) { set $b 2; return 403; }
           location / { if ($b = x) { add_header B b; rewrite ^/(.*)$ /y?$1 last; }
             set $args q; try_files $uri/ $uri =404; limit_except GET { deny all; } stub_status; } }",
    )
    .unwrap();
    let server = &compiled.program.servers[0];
    let script = &compiled.program.blocks[server.block.0 as usize].script;
    assert_eq!(script.len(), 4);
    assert!(matches!(&script[1], Instruction::If { otherwise: 4, settings: None, condition: Condition::True(_) }));
    assert!(matches!(&script[3], Instruction::Return { status: 403, text: None }));
    let location = block(&compiled, "/");
    let Instruction::If { otherwise: 2, settings: Some(inside), .. } = &location.script[0] else {
        panic!("{:?}", location.script);
    };
    let Instruction::Rewrite { arguments: Some(_), keeps_query: true, .. } = &location.script[1] else {
        panic!("{:?}", location.script);
    };
    assert!(matches!(&location.script[2], Instruction::Set { target: SetTarget::Arguments, .. }));
    let inside = &compiled.program.blocks[inside.0 as usize];
    // As nginx has it: the content stays, and try_files is gone.
    assert_eq!((inside.content.clone(), inside.try_files.is_none()), (ContentRules::StubStatus, true));
    assert_eq!((added(inside), inside.script.len()), (vec!["B".to_owned()], 0));
    let tried = location.try_files.as_ref().unwrap();
    assert_eq!(tried.tried.iter().map(|(_, folder)| *folder).collect::<Vec<_>>(), [true, false]);
    let (methods, other) = location.limit_except.clone().unwrap();
    assert_eq!(methods, Methods(vec![b"GET"[..].into(), b"HEAD"[..].into()]));
    assert_eq!(compiled.program.blocks[other.0 as usize].access.addresses.len(), 3);
    assert!(location.access.addresses.is_empty());
}

#[test]
fn alias_keeps_what_it_stands_for() {
    let compiled =
        compiled("server { location /a/ { alias /x/; location /a/b/ { } location ~ ^/a/(.+)\\.c { alias /y/$1; } } }")
            .unwrap();
    for (label, alias) in [("/a/", Alias::Start(3)), ("/a/b/", Alias::Start(3)), ("~ ^/a/(.+)\\.c", Alias::Path)] {
        assert_eq!(block(&compiled, label).root.alias, Some(alias), "{label}");
    }
    let locations = &compiled.program.servers[0].locations;
    let place = locations.find(b"/a/b/z", |_| false).unwrap();
    assert_eq!(&*compiled.program.blocks[place as usize].label, b"/a/b/");
    let pattern = configuration::Pattern::Prefix(b"/a/".to_vec());
    let expected = Location { pattern, place, slashless: false, inner: Vec::new() };
    assert_ne!(configuration::Locations::compile(&[expected]).unwrap(), *locations);
}

#[test]
fn servers_share_addresses() {
    let compiled = compiled(
        "server { listen 127.0.0.1:81; listen [::1]:81 ipv6only=off; server_name a; }
         server { listen 127.0.0.1:81 default_server backlog=7; server_name b *.c ~^(?<d>.)x$; }
         server { server_name $hostname; }
         server { listen unix:/s; return 200 $d; }",
    )
    .unwrap();
    let program = &compiled.program;
    let listeners: Vec<String> = program
        .listeners
        .iter()
        .map(|one| one.address.map_or_else(|| told(b"unix"), |address| address.to_string()))
        .collect();
    assert_eq!(listeners, ["127.0.0.1:81", "[::1]:81", "0.0.0.0:8000", "unix"]);
    let first = &program.listeners[0];
    assert_eq!(first.servers, [ServerId(1), ServerId(0)]);
    let find = |name: &str| first.names.find(name.as_bytes(), |_, name| name == b"yx");
    assert_eq!(["a", "b", "q.c", "yx", "none"].map(find), [1, 0, 0, 0, 0]);
    assert_eq!((compiled.sockets[0].backlog, compiled.sockets[1].takes_v4), (Some(7), true));
    assert_eq!(&*program.servers[2].name, b"here");
    assert_eq!(program.variables.slots(), 1);
}

#[test]
fn what_is_not_there_is_refused_and_what_has_no_effect_is_told() {
    for (text, said) in [
        (
            "server { location / { proxy_ssl_certificate data:$a; } }",
            "certificates within the configuration in \"data:$a\"",
        ),
        (
            "server { location / { proxy_ssl_conf_command NumTickets 3; } }",
            "\"NumTickets\" of \"proxy_ssl_conf_command\"",
        ),
        ("upstream a { server 127.0.0.1; least_time header; }", "\"least_time\" directive"),
        ("server { ssl_ocsp on; }", "\"ssl_ocsp\" directive with another value than \"off\""),
        ("server { ssl_certificate data:$a; }", "certificates within the configuration in \"data:$a\""),
    ] {
        let why = compiled(text).unwrap_err();
        assert!(why.starts_with("[emerg] not supported here: ") && why.contains(said), "{why}");
        assert!(why.ends_with(" in /c/nginx.conf:3"), "{why}");
    }
    let compiled = compiled("mirror off; sendfile on; server { ssl_buffer_size 4k; tcp_nodelay on; }").unwrap();
    let names: Vec<&str> = compiled.notes.iter().map(|note| note.name).collect();
    assert_eq!(names, ["sendfile", "ssl_buffer_size", "tcp_nodelay"]);
}

#[test]
fn the_process_is_told_what_to_be() {
    let compile = |text: &str| {
        let configuration =
            Configuration::read(&mut One(text.as_bytes().to_vec()), Path::new("/c/nginx.conf"), b"daemon off;")
                .unwrap();
        compile(&configuration, around()).map_err(|why| why.to_string())
    };
    let compiled = compile(
        "worker_processes auto; user www; pid run/p; error_log logs/e warn; worker_rlimit_nofile 9;
         events { worker_connections 99; use epoll; }",
    )
    .unwrap();
    let process = &compiled.process;
    assert_eq!((process.daemon, process.workers, process.connections, process.files), (false, None, 99, Some(9)));
    assert_eq!(process.pid, Some(PathBuf::from("/p/run/p")));
    assert_eq!(
        process.error_log,
        [ErrorLog { target: ErrorLogTarget::File("/p/logs/e".into()), level: 5, is_said: true }]
    );
    assert!(!process.http && process.user.is_none() && compiled.warnings.len() == 1);
    for (text, said) in [
        ("", "[emerg] no \"events\" section in configuration"),
        ("worker_processes x;", "[emerg] \"worker_processes\" directive invalid value in /c/nginx.conf:1"),
        ("events { use kqueue; }", "[emerg] invalid event type \"kqueue\" in /c/nginx.conf:1"),
        (
            "error_log syslog:server=127.0.0.1:514,severity=loud;",
            "[emerg] unknown syslog severity \"loud\" in /c/nginx.conf:1",
        ),
        ("error_log x loud;", "[emerg] invalid log level \"loud\" in /c/nginx.conf:1"),
        ("error_log x info warn;", "[emerg] duplicate log level \"warn\" in /c/nginx.conf:1"),
    ] {
        assert_eq!(compile(text).unwrap_err(), said, "{text}");
    }
}

/// What the engine does not do is not taken as if it did.
#[test]
fn what_is_not_done_is_refused() {
    for directive in ["userid on;", "perl_modules x;", "proxy_cache x;"] {
        assert!(
            compiled(&format!(
                "{} server {{ {} }}",
                if directive.starts_with("perl") { directive } else { "" },
                if directive.starts_with("perl") { "" } else { directive }
            ))
            .is_err(),
            "{directive}"
        );
    }
    for directive in [
        "disable_symlinks if_not_owner from=$document_root;",
        "gunzip on;",
        "add_trailer a b always;",
        "chunked_transfer_encoding off;",
        "listen 81 proxy_protocol;",
        "real_ip_header proxy_protocol;",
    ] {
        assert!(compiled(&format!("server {{ {directive} }}")).is_ok(), "{directive}");
    }
}

#[test]
fn the_configuration_of_debian_is_taken() {
    let text = "user www-data; worker_processes auto; pid /run/nginx.pid; error_log /var/log/nginx/error.log;
        events { worker_connections 768; }
        http { sendfile on; tcp_nopush on; types_hash_max_size 2048; default_type application/octet-stream;
          ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; ssl_prefer_server_ciphers on;
          access_log /var/log/nginx/access.log;
          server { listen 80 default_server; listen [::]:80 default_server; root /var/www/html;
            index index.html index.htm index.nginx-debian.html; server_name _;
            location / { try_files $uri $uri/ =404; } } }";
    let configuration =
        Configuration::read(&mut One(text.as_bytes().to_vec()), Path::new("/etc/nginx/nginx.conf"), b"").unwrap();
    let compiled = compile(&configuration, Surroundings { root: true, ..around() }).unwrap();
    assert_eq!((compiled.program.listeners.len(), compiled.program.servers.len()), (2, 1));
    assert_eq!(compiled.process.user.as_deref(), Some("www-data"));
}

#[test]
fn upstreams_are_groups_of_addresses() {
    let compiled = compiled(
        "upstream Plain { server 127.0.0.1:81 weight=5 max_fails=2 fail_timeout=1m; server [::1] down;
           server unix:/s backup max_conns=3; keepalive 8; keepalive_requests 9; keepalive_timeout 7; zone z 64k; }
         upstream keyed { server 127.0.0.1; hash $uri$x consistent; } server { set $x 1; }",
    )
    .unwrap();
    let [plain, keyed] = &compiled.program.upstreams[..] else { panic!("two") };
    let addresses: Vec<_> = plain.group.peers().iter().map(|peer| peer.address.to_string()).collect();
    assert_eq!(addresses, ["127.0.0.1:81", "[::1]:80", "unix:/s"]);
    let idle = plain.idle.unwrap();
    assert_eq!((idle.connections, idle.requests, idle.timeout.as_secs(), idle.time.as_secs()), (8, 9, 7, 3_600));
    assert_eq!((plain.group.balancing(), plain.key.is_some()), (Balancing::RoundRobin, false));
    assert_eq!((keyed.group.balancing(), keyed.key.is_some()), (Balancing::ConsistentKey, true));
    assert!(keyed.idle.is_none() && keyed.group.is_single());
    assert_eq!(compiled.notes[0].name, "zone");
}

#[test]
fn requests_within_requests_are_inherited_as_others_are() {
    let text = "mirror /a; mirror /b; auth_request /who; auth_request_set $a $uri; add_after_body /end;
        server { location /x { mirror off; auth_request off; }
            location /y { mirror /c; auth_request_set $b 1; add_after_body \"\"; mirror_request_body off; } }";
    let program = compiled(text).unwrap().program;
    let block = |label: &[u8]| program.blocks.iter().find(|block| *block.label == *label).unwrap();
    let told = |label: &[u8]| {
        let block = block(label);
        let (rules, permission) = (&block.subrequests, &block.access.permission);
        (rules.mirrors.len(), block.mirrors, permission.uri.len(), permission.set.len(), rules.after.is_some())
    };
    assert_eq!(told(b"server"), (2, true, 4, 1, true));
    assert_eq!(told(b"/x"), (0, false, 0, 1, true));
    assert_eq!(told(b"/y"), (1, true, 4, 1, false));
    assert!(block(b"server").reads_bodies() && !block(b"/x").reads_bodies() && !block(b"/y").reads_bodies());
    for (text, said) in [
        ("server { mirror /a; mirror off; }", "\"mirror\" directive is duplicate"),
        ("server { mirror off; mirror /a; }", "\"mirror\" directive is duplicate"),
        ("server { auth_request_set a b; }", "invalid variable name \"a\""),
    ] {
        let why = compiled(text).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn resolvers_are_inherited_and_their_times_apart() {
    let compiled = compiled(
        "resolver 127.0.0.1 [::1]:5353 valid=30s ipv6=off; resolver_timeout 7s;
         upstream named { zone z 64k; server a:81 resolve weight=3; server s service=http resolve;
           server 127.0.0.9:1 resolve backup; }
         upstream own { zone z; resolver 127.0.0.3; resolver_timeout 1s; server a resolve; }
         server { location / { proxy_pass http://$host; } location /in { resolver_timeout 3s; }
           location /own { resolver 127.0.0.2; resolver_timeout 0; } }",
    )
    .unwrap();
    let rules = |label: &str| block(&compiled, label).resolver.clone().expect(label);
    let root = rules("/");
    let servers: Vec<String> = root.servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["127.0.0.1:53", "[::1]:5353"]);
    assert_eq!((root.v4, root.v6, root.valid), (true, false, Some(Duration::from_secs(30))));
    let seconds = ["/", "/in", "/own"].map(|label| rules(label).timeout.as_secs());
    assert_eq!(seconds, [7, 3, 3_600]);
    assert!(compiled.program.summary().resolves);
    let names = |at: usize| compiled.program.upstreams[at].names.clone().expect("names");
    let (named, own) = (names(0), names(1));
    assert_eq!((named.resolver.timeout.as_secs(), own.resolver.timeout.as_secs()), (7, 1));
    let all: Vec<_> = named.servers.named.iter().map(|one| (&*one.host, one.port, one.service.as_deref())).collect();
    assert_eq!(all, [(&b"a"[..], 81, None), (b"s", 80, Some(&b"http"[..]))]);
    // An address is none to be resolved.
    assert_eq!((named.servers.fixed.len(), named.servers.named[0].settings.weight), (1, 3));
}

#[test]
fn what_is_wrong_with_resolvers_is_said_as_nginx_says_it() {
    let resolver = "resolver 127.0.0.1;";
    for (http, said) in [
        ("resolver valid=3s;", "no name servers defined"),
        ("resolver 127.0.0.1 valid=x;", "invalid parameter: valid=x"),
        ("resolver 127.0.0.1 ipv6=maybe;", "invalid parameter: ipv6=maybe"),
        ("resolver 127.0.0.1 ipv4=off ipv6=off;", "\"ipv4\" and \"ipv6\" cannot both be \"off\""),
        ("resolver nowhere;", "host not found in resolver \"nowhere\""),
        ("resolver unix:/a;", "invalid host in resolver \"unix:/a\""),
        ("upstream u { server a resolve; }", "upstream \"u\" in /c/nginx.conf:3 to be in shared memory"),
        ("upstream u { zone z; server a resolve; }", "no resolver defined to resolve names at run time in upstream"),
        ("upstream u { server a service=http; }", "service upstream \"a\" requires \"resolve\" parameter"),
        ("upstream u { server a:1 service=http resolve; }", "service upstream \"a:1\" may not have port"),
        ("upstream u { server 127.0.0.1 service=http resolve; }", "\"127.0.0.1\" requires domain name"),
        ("upstream u { server a service= resolve; }", "service is empty"),
        ("upstream u { zone z; server a resolve backup; }", "no servers in upstream \"u\""),
    ] {
        let with = if said.starts_with("no resolver") || http.starts_with("resolver") { "" } else { resolver };
        let told = compiled(&format!("{http} {with}")).expect_err(http);
        assert!(told.contains(said), "{http}: {told}");
    }
}

/// As distributions have it: a file for each module that is installed.
#[test]
fn modules_are_named_and_none_is_a_reason_to_refuse() {
    let compiled = |text: &str| {
        let configuration = Configuration::read(&mut One(text.as_bytes().to_vec()), Path::new("/c/nginx.conf"), b"");
        let compiled = configuration.map_err(|why| why.to_string());
        let compiled = compiled.and_then(|it| compile(&it, around()).map_err(|why| why.to_string()));
        compiled.map(|it| (it.warnings.iter().map(|said| said.text.clone()).collect::<Vec<_>>(), it.notes))
    };
    let modules = "load_module modules/ngx_http_brotli_filter_module.so;\n\
                   load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;\nload_module own.so;";
    let (warnings, notes) = compiled(&format!("{modules}\nevents {{}}")).unwrap();
    assert!(notes.iter().any(|note| note.name == "load_module" && note.why.contains("built in")), "{notes:?}");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("module \"ngx_http_echo_module\" is not here"), "{warnings:?}");
    assert!(warnings[1].starts_with("nothing is known here of the module in \"own.so\""), "{warnings:?}");
    // In nginx's words.
    for (text, said) in [
        ("events {}\nload_module a.so;", "[emerg] \"load_module\" directive is specified too late in /c/nginx.conf:2"),
        ("http {}\nload_module a.so;", "[emerg] \"load_module\" directive is specified too late in /c/nginx.conf:2"),
        (
            "load_module a.so;\nload_module x/a.so;\nevents {}",
            "[emerg] module \"a\" is already loaded in /c/nginx.conf:2",
        ),
        (
            "load_module ngx_http_echo_module.so;\nevents {}\nhttp { server { location / { echo hi; } } }",
            "[emerg] unknown directive \"echo\" in /c/nginx.conf:3",
        ),
    ] {
        assert_eq!(compiled(text).map(drop), Err(said.to_owned()), "{text}");
    }
}

/// All that is wrong in a whole configuration: texts, with their lines.
fn wrong(text: &str) -> Vec<(String, Option<u32>)> {
    let mut one = One(text.as_bytes().to_vec());
    let configuration = Configuration::read_all(&mut one, Path::new("/c/nginx.conf"), b"");
    let Err(why) = compile(&configuration, around()) else { return Vec::new() };
    why.reasons().map(|one| (one.text.clone(), one.place.as_ref().map(|(_, line)| *line))).collect()
}

#[test]
fn all_that_is_wrong_is_found_in_one_run() {
    let text = "worker_processes x;
events { use kqueue; worker_connections many; }
http {
  access_log off; log_format a;
  more_set_headers 'A: b';
  upstream up { server 127.0.0.1; sticky cookie a; }
  server { listen 81 nonsense; server_name ~(; proxy_cache x;
    location / { more_set_headers 'A: b'; proxy_pass http://up; }
    location /a { memcached_pass x; proxy_store on;
      location /a/b { userid on; } }
  }
  server { listen 81; server { listen 82; } location /c { expires soon; sendfile maybe; } }
  rtmp { server { listen 1935; application live { live on; } } }
}";
    let found = wrong(text);
    let lines: Vec<(u32, &str)> = found.iter().filter_map(|(text, line)| Some(((*line)?, text.as_str()))).collect();
    for (line, part) in [
        (1, "\"worker_processes\""),
        (2, "kqueue"),
        (2, "invalid number \"many\""),
        (4, "\"log_format\""),
        (5, "unknown directive \"more_set_headers\""),
        (6, "\"sticky\""),
        (7, "nonsense"),
        (7, "pcre2_compile() failed"),
        (7, "\"proxy_cache\""),
        (8, "unknown directive \"more_set_headers\""),
        (9, "\"memcached_pass\""),
        (9, "\"proxy_store\""),
        (10, "\"userid\""),
        (12, "\"server\" directive is not allowed here"),
        (12, "\"expires\""),
        (12, "\"sendfile\""),
        (13, "unknown directive \"rtmp\""),
    ] {
        assert!(lines.iter().any(|(at, text)| *at == line && text.contains(part)), "{line} {part}: {found:#?}");
    }
    // What follows from one of them is none of its own.
    assert!(!found.iter().any(|(text, _)| text.contains("host not found") || text.contains("no servers")), "{found:?}");
    // A file that ends in the middle has no more to tell.
    assert_eq!(wrong("events {}\nhttp { nonsense;").len(), 2);
    assert_eq!(wrong("events {}").len(), 0);
    let many = "x; ".repeat(5_000);
    assert_eq!(wrong(&format!("{many} events {{}}")).len(), 1, "one line is told of once");
    let many = "x;\n".repeat(5_000);
    assert!((900..=1_100).contains(&wrong(&format!("{many} events {{}}")).len()));
}

#[test]
fn what_clients_are_offered_is_no_reason_to_refuse() {
    let conf = "http3 on; quic_retry on; quic_gso on; http3_stream_buffer_size 64k; server { listen 443 quic reuseport;
        listen 443; listen [::]:443 quic; http3 off; add_header alt-svc 'h3=\":443\"; ma=86400'; userid off; }";
    let compiled = compiled(conf).unwrap();
    assert_eq!(compiled.program.listeners.len(), 1);
    assert_eq!(compiled.sockets, [SocketRules::default()], "those of QUIC are not TCP's");
    let said: Vec<&str> = compiled.warnings.iter().map(|one| one.text.as_str()).collect();
    for part in ["\"http3\"", "\"quic_retry\"", "\"http3_stream_buffer_size\"", "443 quic", "Alt-Svc"] {
        assert!(said.iter().any(|text| text.contains(part)), "{part}: {said:?}");
    }
    assert_eq!(said.iter().filter(|text| text.contains("\"http3\" directive")).count(), 1, "off is no offer: {said:?}");
}

/// `http2`, `listen ... http2`, and what belongs to them.
#[test]
fn http2_is_spoken_where_a_configuration_says_so() {
    let terms = |conf: &str| {
        let compiled = compiled(conf).unwrap();
        let all = compiled.program.listeners.iter().map(|one| one.http2);
        let all = all.map(|http2| http2.map(|terms| (terms.streams, terms.window, terms.chunk)));
        let said = compiled.warnings.iter().map(|one| one.text.clone()).collect::<Vec<_>>();
        (all.collect::<Vec<_>>(), said)
    };
    let default = Some((128, 65_536, 16_384));
    let deprecated = "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead";
    assert_eq!(terms("server { listen 81; }"), (vec![None], vec![]));
    assert_eq!(
        terms("http2 on; server { listen 81; } server { listen 82; http2 off; }"),
        (vec![default, None], vec![])
    );
    assert_eq!(terms("server { listen 81 http2; listen 82; }"), (vec![default, None], vec![deprecated.to_owned()]));
    let conf = "http2 on; http2_max_concurrent_streams 7; http2_recv_buffer_size 1m;
        server { listen 81; http2_body_preread_size 1m; http2_chunk_size 4k; }";
    assert_eq!(terms(conf), (vec![Some((7, 1 << 20, 4_096))], vec![]));
    for (directive, said) in [
        ("http2_max_requests 9", "use the \"keepalive_requests\" directive instead"),
        ("http2_recv_timeout 9s", "use the \"client_header_timeout\" directive instead"),
        ("http2_idle_timeout 9s", "use the \"keepalive_timeout\" directive instead"),
        ("http2_max_field_size 9k", "use the \"large_client_header_buffers\" directive instead"),
        ("http2_max_header_size 9k", "use the \"large_client_header_buffers\" directive instead"),
        ("http2_max_concurrent_pushes 9", "ignored"),
        ("http2_push_preload on", "ignored"),
        ("http2_push /a", "ignored"),
    ] {
        let (listeners, warnings) = terms(&format!("{directive}; server {{ listen 81; }}"));
        let name = directive.split(' ').next().unwrap();
        assert_eq!((listeners, warnings), (vec![None], vec![format!("the \"{name}\" directive is obsolete, {said}")]));
    }
    for (directive, said) in [
        ("http2_chunk_size 0", "the http2 chunk size cannot be zero"),
        ("http2_body_preread_size 2048m", "\"http2_body_preread_size\" directive invalid value"),
    ] {
        let Err(refused) = compiled(&format!("{directive}; server {{ listen 81; }}")) else { panic!("{directive}") };
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn cores_and_niceness_of_workers_are_read() {
    let process = |text: &str| {
        let text = format!("{text} events {{}}");
        let configuration = Configuration::read(&mut One(text.into_bytes()), Path::new("/c/nginx.conf"), b"").unwrap();
        compile(&configuration, around()).map_err(|why| why.to_string()).map(|all| (all.process, all.warnings.len()))
    };
    let affinity = |text: &str| process(&format!("worker_cpu_affinity {text};")).map(|(process, _)| process.affinity);
    assert_eq!(process("").unwrap().0.affinity, None);
    assert_eq!(affinity("auto").unwrap(), Some(AffinityRules::Auto(None)));
    assert_eq!(affinity("auto 0101").unwrap(), Some(AffinityRules::Auto(Some(vec![0, 2]))));
    assert_eq!(affinity("0001 1010").unwrap(), Some(AffinityRules::Masks(vec![vec![0], vec![1, 3]])));
    assert!(affinity("2").unwrap_err().contains("invalid character \"2\" in \"worker_cpu_affinity\""));
    assert!(affinity("auto 1 1").unwrap_err().contains("invalid number of arguments"));
    assert!(affinity(&"1".repeat(1_025)).unwrap_err().contains("up to 1024 CPUs only"));
    // As nginx warns of too few masks, and of too many.
    assert_eq!(process("worker_processes 4; worker_cpu_affinity 01 10;").unwrap().1, 1);
    assert_eq!(process("worker_processes 4; worker_cpu_affinity 01;").unwrap().1, 0);
    let priority = |text: &str| process(&format!("worker_priority {text};")).map(|(process, _)| process.priority);
    assert_eq!(["-5", "+5", "7", "99"].map(|text| priority(text).unwrap()), [-5, 5, 7, 19].map(Some));
    assert!(priority("high").unwrap_err().contains("\"worker_priority\" directive invalid number"));
}

#[test]
fn the_usual_log_is_told_of_where_somebody_writes_to_it() {
    let unsaid = |http: &str| {
        let text = format!("events {{}} http {{ {http} }}");
        let configuration = Configuration::read(&mut One(text.into_bytes()), Path::new("/c/nginx.conf"), b"").unwrap();
        let compiled = compile(&configuration, around()).unwrap();
        let logs = compiled.program.logs.iter().any(|log| format!("{log:?}").contains(ACCESS_LOG));
        assert_eq!(logs, compiled.unsaid_log, "{http}");
        compiled.unsaid_log
    };
    assert!(unsaid("server { listen 81; }"));
    assert!(unsaid("server { access_log off; } server { listen 81; }"));
    assert!(!unsaid("access_log off; server { listen 81; }"));
    assert!(!unsaid("server { access_log off; }"));
}
