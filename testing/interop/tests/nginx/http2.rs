//! HTTP/2 beside nginx: the same clients (curl, nghttp, h2load, OpenSSL's), with prior knowledge and
//! over TLS, and the same answers and lines in the log.

use crate::NGINX;
use crate::secured::{CURL, OPENSSL, OURS, SIDES, sh, sh_output, start_sides};
use interop::{Program, Running, in_namespace, scratch};
use std::fs;
use std::path::PathBuf;

const NGHTTP: Program = Program::new("nghttp", "nghttp2-client");

fn configuration(address: &str) -> String {
    let told = "\"$request|$http_host|$http_cookie|$http2|$server_protocol|$connection_requests|$request_method|$scheme\
                |$content_length|$http_a\\n\"";
    // Debian's nginx knows the older form alone; ours speaks by either.
    format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log info;\n\
         events {{}}\n\
         http {{\n\
         log_format told '$request|$status|$http2'; access_log access.log told;\n\
         default_type text/plain; root ../www; ssl_certificate ../one.pem; ssl_certificate_key ../one.key;\n\
         http2_max_concurrent_streams 50;\n\
         server {{ listen {address}:80 http2; listen {address}:443 ssl http2; server_name one.example;\n\
           client_max_body_size 8m;\n\
           location /told {{ return 200 {told}; }}\n\
           location /small {{ client_max_body_size 1k; proxy_pass http://{address}:81; }}\n\
           location /passed {{ proxy_pass http://{address}:81; }}\n\
           location /unbuffered {{ proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://{address}:81; }}\n\
           location /dropped {{ return 444; }}\n\
           location /trails {{ add_trailer x-end \"$request_uri\"; alias ../www/; }}\n\
           location /zipped {{ gzip on; alias ../www/; }}\n\
           location /slow {{ limit_rate 2m; alias ../www/; }} }}\n\
         server {{ listen {address}:81; client_max_body_size 8m;\n\
           location / {{ client_body_in_file_only clean; proxy_set_header x-bytes $content_length; \n\
             proxy_pass http://{address}:82; }} }}\n\
         server {{ listen {address}:82; client_max_body_size 8m; return 200 \"$http_x_bytes|$request_method\\n\"; }}\n\
         server {{ listen {address}:8443 ssl; server_name plain.example; location / {{ return 200 {told}; }} }}\n\
         }}\n"
    )
}

/// What is asked for, by sh; `$A` is the address of one of them. `over` asks twice: with prior
/// knowledge, and over TLS.
const ASKED: &[&str] = &[
    "over get /told",
    "over get /told -H 'a: b' -b c=d -H 'Cookie: e=f'",
    "over get /told -X OPTIONS",
    "over get /told?q=a%20b -H 'Host: other.example'",
    "over get /told -I",
    "over get /missing",
    "over get /folder",
    "over get / -X CONNECT --request-target other.example:443",
    "over get /index.txt",
    "over get /index.txt -I",
    "over get /index.txt -r 2-4",
    "over get /index.txt -r 2-4,6-7 -o /dev/null -w '%{http_code}'",
    "over get /index.txt -H 'If-None-Match: *'",
    "over get /zipped/large --compressed -o /dev/null -w '%{http_code} %{size_header}' | cut -c1-4",
    "over body /large | sha256sum",
    "over body /large -r 1000-900000 | sha256sum",
    "over body /slow/large | sha256sum",
    "over body '/large?[1-5]' | sha256sum",
    "over get /passed --data-binary @www/large",
    "over get /unbuffered --data-binary @www/large",
    "over get /passed -T www/large",
    "over get /passed -d ''",
    "over get /dropped; echo $?",
    "over get /told -H 'Connection: close' -H 'Upgrade: x'",
    "over body /told -H 'TE: trailers'",
    "nghttp -v http://$A/trails/index.txt | grep -c 'x-end: /trails/index.txt'",
    "nghttp -v http://$A/index.txt | grep -oE 'SETTINGS_MAX_CONCURRENT_STREAMS.*'",
    "nghttp -n -s http://$A/index.txt http://$A/large http://$A/told http://$A/missing | grep -oE ' (200|404) +.*' | cut -c1-4 | sort",
    "h2load -n 500 -c 5 -m 40 http://$A/index.txt | grep -E '^(requests|status codes)'",
    "h2load -n 200 -c 5 -m 40 https://$A/middle | grep -E '^(requests|status codes)'",
    "h2load -n 200 -c 2 -m 20 -d www/index.txt http://$A/passed | grep -E '^(requests|status codes)'",
    "alpn 443 h2,http/1.1",
    "alpn 443 http/1.1",
    "alpn 443 h2",
    "alpn 8443 h2,http/1.1",
    "curl -sk --http2 --connect-to plain.example:8443:$A:8443 https://plain.example:8443/",
    "curl -sk --http1.1 --connect-to one.example:443:$A:443 https://one.example/told",
];

/// What the lines above are made of.
const WORDS: &str = r#"
get() { path=$1; shift; curl -sik --max-time 60 $HOW "$@" "$SCHEME://one.example$path"; }
body() { path=$1; shift; curl -sk --max-time 60 $HOW "$@" "$SCHEME://one.example$path"; }
over() {
    SCHEME=http HOW="--http2-prior-knowledge --connect-to one.example:80:$A:80"; "$@"
    echo
    SCHEME=https HOW="--http2 --connect-to one.example:443:$A:443"; "$@"
}
alpn() {
    echo | timeout 20 openssl s_client -connect $A:$1 -servername one.example -alpn $2 2>&1 |
        grep -aoE '^ALPN protocol: .*|^No ALPN.*|alert no application protocol'
}
"#;

struct Both {
    folder: PathBuf,
    running: Vec<Running>,
}

impl Both {
    fn start() -> Self {
        let folder = scratch("nginx-http2");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("www/folder")).unwrap();
        let line = "Lorem ipsum dolor sit amet, consectetur adipisici elit\n";
        fs::write(folder.join("www/large"), line.repeat(40_000)).unwrap();
        // More than a stream's first window has (RFC 9113 6.9.2), for many streams at once.
        fs::write(folder.join("www/middle"), line.repeat(4_000)).unwrap();
        fs::write(folder.join("www/index.txt"), "a short text\n").unwrap();
        let certificate = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
                           -subj /CN=one.example -days 30 -keyout one.key -out one.pem 2> /dev/null";
        sh(&folder, certificate, "");
        let running = start_sides(&folder, configuration, 443);
        Self { folder, running }
    }

    /// What each says, without what is each one's own; nothing of whom it cannot be asked: the stack
    /// has no way to an address of its own.
    fn ask(&self, line: &str) -> Vec<Option<String>> {
        let passes = ["/passed", "/unbuffered"].iter().any(|path| line.contains(path));
        let one = |(name, address): &(&str, &str)| {
            if passes && *name == "stack" {
                return None;
            }
            let (out, _) = sh_output(&self.folder, &format!("A={address}\nT={name}\n{WORDS}\n{line}\n"));
            Some(plain(&out, address))
        };
        SIDES.iter().map(one).collect()
    }
}

/// Without names, times, lengths of pages with a name in them, and the order of fields.
fn plain(out: &str, address: &str) -> String {
    let out = out.replace(address, "ADDRESS").replace("nginx/1.22.1", "nginx").replace("nginx", "nearside");
    let own = ["server:", "date:", "etag:", "last-modified:", "content-length:"];
    let mut lines: Vec<&str> = out.lines().map(str::trim_end).collect();
    lines.retain(|line| !own.iter().any(|own| line.starts_with(own)));
    let mut start = 0;
    while let Some(at) = lines[start..].iter().position(|line| line.starts_with("HTTP/2 ")) {
        let from = start + at + 1;
        let end = lines[from..].iter().position(|line| line.is_empty()).map_or(lines.len(), |end| from + end);
        lines[from..end].sort_unstable();
        start = end;
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn clients_get_the_same_answers() {
    in_namespace(&[NGINX, CURL, OPENSSL, NGHTTP], || {
        let both = Both::start();
        let mut failures = Vec::new();
        for line in ASKED {
            let said = both.ask(line);
            let theirs = said[0].as_deref().unwrap_or_default();
            for (at, ours) in OURS.into_iter().filter_map(|at| Some((at, said[at].as_deref()?))) {
                if theirs != ours || theirs.trim().is_empty() {
                    failures.push(format!("{line}\n--- nginx\n{theirs}--- {}\n{ours}", SIDES[at].0));
                }
            }
        }
        let folder = both.folder.clone();
        for running in both.running {
            running.stop();
        }
        // A line of the log for each.
        let log = |name: &str| {
            let text = fs::read_to_string(folder.join(name).join("access.log")).unwrap();
            let of_http2 = text.lines().filter(|line| line.contains("HTTP/2.0") && !line.contains("/passed"));
            let mut lines: Vec<String> = of_http2.map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        let (theirs, ours) = (log("nginx"), log("sockets"));
        assert!(theirs.len() > 700);
        if let Some(differs) = theirs.iter().zip(&ours).find(|(one, other)| one != other) {
            failures.push(format!("log: {differs:?}"));
        }
        assert_eq!(theirs.len(), ours.len());
        assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), ASKED.len(), failures.join("\n"));
    });
}
