use super::*;
use nginx::ConfFiles;

fn around() -> Surroundings<'static> {
    Surroundings { prefix: Path::new("/p"), hostname: "here", root: true, resolve: |_| Vec::new() }
}

fn compiled(text: &str) -> Result<CompiledSite, String> {
    compile_site(text, Path::new("site.toml"), around()).map_err(|why| why.to_string())
}

struct One(String);

impl ConfFiles for One {
    fn read(&mut self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Ok(self.0.clone().into_bytes())
    }

    fn matching(&mut self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

fn by_nginx_conf(text: &str) -> Compiled {
    let read = Configuration::read(&mut One(text.to_owned()), Path::new("/p/nginx.conf"), b"daemon off;").unwrap();
    compile(&read, around()).unwrap()
}

/// All that a program has, but for types, which one lists and the other need not.
fn told(compiled: &Compiled) -> String {
    let program = &compiled.program;
    let servers = program.servers.iter().map(|server| (&server.name, &server.locations, server.head));
    let blocks = program.blocks.iter().map(|block| {
        let mut block = block.clone();
        block.types = std::sync::Arc::default();
        block
    });
    format!(
        "{:#?}",
        (
            &program.listeners,
            servers.collect::<Vec<_>>(),
            blocks.collect::<Vec<_>>(),
            &program.logs,
            &program.formats,
            program.declared.zones.iter().map(|zone| (&zone.name, &zone.key)).collect::<Vec<_>>(),
            &compiled.process,
        )
    )
}

const SITE: &str = r#"
workers = 2
connections = 99
body-max = "2m"
headers = { X-Content-Type-Options = "nosniff" }
log = { to = "/l/a.log", format = "$remote_addr $status", buffer = "32k", when = "$http_a" }
limits = { each = { rate = "5r/s" }, open = { key = "$host", memory = "1m" } }

[[host]]
names = ["a.example", "*.a.example"]
listen = ["81", "unix:/s"]
default = true
root = "/r"
index = ["index.html", "index.htm"]
error-pages = { "404" = "/404.html", "500 502" = { page = "/5xx", status = 200 } }
rewrite = [{ from = '^/old/(.*)\.x$', to = "/new/$1", then = "permanent" }]
client-address = { proxies = "10.0.0.0/8", recursive = true }
compression = { gzip = true, level = 5, types = "text/css" }

[[host.location]]
path = "/"
try = ["$uri", "$uri/", "=404"]

[[host.location]]
match = '\.(css|js)$'
expires = "30d"
headers = { Cache-Control = { value = "public", always = true } }

[[host.location]]
path = "/private/"
firm = true
allow = ["10.0.0.0/8"]
deny = ["10.1.0.0/16"]
password = { realm = "who", file = "users" }
limit = [{ by = "each", burst = 9, delay = "none" }]
connection-limit = [{ by = "open", most = 3 }]

[[host.location]]
exact = "/hello"
respond = { text = "say \"hi\" \\ {};\n", type = "text/plain" }

[[host.location]]
path = "/moved"
redirect = { to = "https://b.example$request_uri", status = 308 }

[[host.location]]
named = "other"
listing = "json"
"#;

const NGINX: &str = r#"
worker_processes 2;
events { worker_connections 99; }
http {
    default_type application/octet-stream;
    client_max_body_size 2m;
    add_header X-Content-Type-Options nosniff;
    log_format site_0 '$remote_addr $status';
    access_log /l/a.log site_0 buffer=32k if=$http_a;
    limit_req_zone $binary_remote_addr zone=each:10m rate=5r/s;
    limit_conn_zone $host zone=open:1m;
    server {
        listen 81 reuseport default_server;
        listen unix:/s default_server;
        server_name a.example *.a.example;
        root /r;
        index index.html index.htm;
        error_page 404 /404.html;
        error_page 500 502 =200 /5xx;
        rewrite ^/old/(.*)\.x$ /new/$1 permanent;
        set_real_ip_from 10.0.0.0/8;
        real_ip_header X-Forwarded-For;
        real_ip_recursive on;
        gzip on;
        gzip_vary on;
        gzip_comp_level 5;
        gzip_types text/css;
        location / { try_files $uri $uri/ =404; }
        location ~ \.(css|js)$ {
            expires 30d;
            add_header Cache-Control public always;
            add_header X-Content-Type-Options nosniff;
        }
        location ^~ /private/ {
            deny 10.1.0.0/16;
            allow 10.0.0.0/8;
            deny all;
            auth_basic who;
            auth_basic_user_file users;
            limit_req zone=each burst=9 nodelay;
            limit_conn open 3;
        }
        location = /hello { default_type text/plain; return 200 "say \"hi\" \\ {};\n"; }
        location /moved { return 308 https://b.example$request_uri; }
        location @other { autoindex on; autoindex_format json; }
    }
}
"#;

#[test]
fn a_site_and_an_nginx_conf_of_the_same_meaning_are_one_program() {
    let site = compiled(SITE).unwrap();
    let (ours, theirs) = (told(&site.compiled), told(&by_nginx_conf(NGINX)));
    let apart = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
    assert_eq!(apart, None);
    assert_eq!(ours.lines().count(), theirs.lines().count());
    // What it comes to may be served by nginx itself.
    let conf = as_nginx_conf(SITE, Path::new("site.toml")).unwrap();
    assert_eq!(told(&by_nginx_conf(&conf)), ours);
}

#[test]
fn places_are_those_of_the_file() {
    let site = compiled(SITE).unwrap();
    let explained = nginx::explain(&site.configuration, &site.compiled);
    let place =
        explained.servers[0].places.iter().find(|place| place.label == "/private/" || place.label == "^~ /private/");
    let at = place.and_then(|place| place.at.clone()).expect("it is there");
    assert_eq!(at.file.as_deref(), Some(Path::new("site.toml")));
    let line = SITE.lines().nth(at.line as usize - 1).unwrap();
    assert_eq!(line, "path = \"/private/\"");
}

#[test]
fn what_is_wrong_is_told_with_line_and_column() {
    let host = "[[host]]\nroot = \"/r\"\n";
    for (text, said) in [
        ("", "site.toml:1:1: there is no [[host]]: nothing would be served"),
        ("workers = = 1", "site.toml:1:11: "),
        ("[[host]]\nrot = \"/r\"", "site.toml:2:1: there is no key \"rot\" here: \"root\" is meant?"),
        ("[[host]]\nheader = {}", "site.toml:2:1: there is no key \"header\" here: \"headers\" is meant?"),
        ("path = \"/\"\n[[host]]", "site.toml:1:1: the key \"path\" cannot stand here"),
        ("zebras = 1\n[[host]]", "site.toml:1:1: there is no key \"zebras\" here, but workers, "),
        ("workers = 0\n[[host]]", "site.toml:1:11: workers is a number from 1 to 512"),
        ("workers = \"many\"\n[[host]]", "site.toml:1:11: workers is a number from 1 to 512, or \"auto\""),
        ("[[host]]\n  root = true", "site.toml:2:10: root is text; this is of type boolean"),
        ("[[host]]\n[[host.location]]\nexpires = \"1d\"", "site.toml:2:1: a location has one of path, exact, "),
        ("[[host]]\n[[host.location]]\npath = \"a\"", "site.toml:3:8: path is a path, and begins with a slash"),
        ("[[host]]\nlimit = [{ burst = 1 }]", "site.toml:2:10: limit needs by"),
        ("[[host]]\nlimit = [{ by = \"x\" }]", "site.toml:2:17: limit: \"x\" is not in limits"),
        ("[[host]]\nheaders = { \"a b\" = \"c\" }", "site.toml:2:13: \"a b\" is no field's name"),
        ("[[host]]\nerror-pages = { all = \"/x\" }", "site.toml:2:17: \"all\" is no status"),
        ("[[host]]\nroot = \"/\\u0000\"", "site.toml:2:8: root has a control character in it"),
    ] {
        let error = compiled(text).expect_err(text);
        assert!(error.starts_with(said), "{text:?}: {error}");
    }
    let wrong = |rule: &str| compiled(&format!("{host}{rule}")).expect_err(rule);
    for (rule, said) in [
        ("expires = \"soon\"", "site.toml:3:11: host.expires: "),
        ("keep-alive = \"x\"", "site.toml:3:14: host.keep-alive: "),
        ("rewrite = [{ from = '(', to = '/' }]", "site.toml:3:12: host.rewrite: "),
        ("redirect = \"$nobody\"", "site.toml: unknown \"nobody\" variable"),
    ] {
        let error = wrong(rule);
        assert!(error.starts_with(said), "{rule:?}: {error}");
    }
}

#[test]
fn words_stay_one_word_whatever_is_in_them() {
    for text in ["; } evil on; {", "\"", "\\", "a\\\"b", "#x", "'", "a b\n\tc", "}", "{", "", "\\n", "é ü", "${host}"]
    {
        let quoted = toml_text(text);
        let site = format!("[[host]]\n[[host.location]]\nexact = \"/x\"\nrespond = {{ text = {quoted} }}");
        let site = compiled(&site).unwrap_or_else(|why| panic!("{text:?}: {why}"));
        assert_eq!(site.compiled.program.servers.len(), 1, "{text:?}");
        let block = site.compiled.program.blocks.iter().find(|block| *block.label == *b"= /x").expect("it is there");
        let script = format!("{:?}", block.script);
        let expected = if text.contains('$') { "Variable" } else { "Return" };
        assert!(script.contains(expected), "{text:?}: {script}");
        if !text.contains('$') && !text.is_empty() {
            let bytes = format!("{:?}", text.as_bytes());
            assert!(script.contains(&bytes), "{text:?}: {script}");
        }
    }
}

/// A text in TOML's quotes.
fn toml_text(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            other => out.push(other),
        }
    }
    out + "\""
}

#[test]
fn headers_of_a_table_stay_in_those_within_it() {
    let site = compiled(
        "headers = { A = \"1\", B = \"1\" }\n[[host]]\nheaders = { b = \"2\" }\n[[host.location]]\npath = \"/c\"\n\
         headers = { A = \"\", C = \"3\" }\n[[host.location]]\npath = \"/none\"\nheaders = { A = \"\", B = \"\" }",
    )
    .unwrap();
    let added = |label: &str| -> Vec<String> {
        let block = site.compiled.program.blocks.iter().find(|block| *block.label == *label.as_bytes()).expect(label);
        let named = |field: &configuration::program::AddedField| format!("{}", String::from_utf8_lossy(&field.name));
        block.fields.added.iter().map(named).collect()
    };
    assert_eq!(added("server"), ["A", "b"]);
    assert_eq!(added("/c"), ["b", "C"]);
    assert_eq!(added("/none"), ["X-None"]);
}

/// A file of the documentation; with `NEARSIDE_BLESS` it is written anew by the keys.
fn is_in(path: &str, made: &str, whole: bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let expected = match text.split_once("## Keys\n") {
        Some((before, _)) if !whole => format!("{before}## Keys\n\n{made}"),
        _ => made.to_owned(),
    };
    if std::env::var_os("NEARSIDE_BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(text == expected, "{} is another: NEARSIDE_BLESS=1 cargo test -p site-toml", path.display());
}

#[test]
fn the_documentation_has_the_keys_that_there_are() {
    is_in("site.md", &table(), false);
    is_in("site.schema.json", &format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap()), true);
}

#[test]
fn the_example_of_the_documentation_is_a_site() {
    let text = include_str!("../../../docs/site.md");
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let site = compiled(example).unwrap();
    assert_eq!((site.compiled.program.servers.len(), site.compiled.program.listeners.len()), (2, 2));
    let kept: Vec<_> = nginx::explain(&site.configuration, &site.compiled).servers[0]
        .places
        .iter()
        .filter(|place| !place.ready)
        .map(|place| place.label.clone())
        .collect();
    assert_eq!(kept, ["/staff/"]);
}
