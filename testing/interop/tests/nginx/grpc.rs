//! `grpc_pass` beside nginx's: the same requests of both, by HTTP/2 and HTTP/1.1, passed on to the same
//! nginx, which speaks HTTP/2: answers, lines of the access log and words of the error log are the same.

use crate::NGINX;
use crate::secured::{CURL, OPENSSL, OURS, SIDES, sh, sh_output, start_sides};
use interop::{Running, in_namespace, scratch};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Who is asked.
const UPSTREAM: &str = "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log; events {}\n\
    http { access_log off; root ../www; default_type application/grpc; client_max_body_size 0;\n\
    ssl_certificate ../one.pem; ssl_certificate_key ../one.key;\n\
    server { listen 127.0.0.5:80 http2; listen 127.0.0.5:443 ssl http2; listen unix:grpc.sock http2;\n\
      location /told { return 200 \"$request_method $request_uri $scheme $http_host te=$http_te a=$http_a \
        k=$http_keep_alive x=$http_x_one l=$content_length t=$http_grpc_timeout\\n\"; }\n\
      location /fields { add_header X-One 1; add_header X-Two 2; add_header Set-Cookie a=b; return 200 fields; }\n\
      location /trails { add_trailer grpc-status 0; add_trailer grpc-message fine; alias ../www/; }\n\
      location /alone { add_header grpc-status 5; return 204; }\n\
      location /accel { add_header X-Accel-Redirect /local; return 200 accel; }\n\
      location /not { return 503 \"not now\\n\"; }\n\
      location /dropped { return 444; }\n\
      location /read { proxy_set_header X-Seen \"$request_method $scheme $http_host te=$http_te l=$content_length\";\n\
        proxy_pass http://127.0.0.5:81; }\n\
      location /body { client_body_in_file_only clean; proxy_pass http://127.0.0.5:81; }\n\
      location / { root ../www; } }\n\
    server { listen 127.0.0.5:81; client_max_body_size 0; return 200 \"$content_length $http_x_seen\\n\"; } }\n";

fn configuration(address: &str) -> String {
    format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log info; events {{}}\n\
         http {{\n\
         log_format told '$request|$status|$upstream_status|$upstream_addr'; access_log access.log told;\n\
         client_max_body_size 0; grpc_read_timeout 5s;\n\
         upstream kept {{ server 127.0.0.5:80; keepalive 2; }}\n\
         upstream two {{ server 127.0.0.5:9 max_fails=0; server 127.0.0.5:80 max_fails=0; }}\n\
         server {{ listen {address}:80 http2; listen {address}:81;\n\
           location / {{ grpc_pass grpc://127.0.0.5:80; }}\n\
           location /kept/ {{ rewrite ^/kept(/.*) $1 break; grpc_pass kept; }}\n\
           location /by/ {{ set $to 127.0.0.5:80; rewrite ^/by(/.*) $1 break; grpc_pass grpc://$to; }}\n\
           location /tls/ {{ rewrite ^/tls(/.*) $1 break; grpc_pass grpcs://127.0.0.5:443; }}\n\
           location /unix/ {{ rewrite ^/unix(/.*) $1 break; grpc_pass grpc://unix:../upstream/grpc.sock; }}\n\
           location /set/ {{ rewrite ^/set(/.*) $1 break; grpc_set_header X-One one; grpc_set_header TE '';\n\
             grpc_pass kept; }}\n\
           location /hides/ {{ rewrite ^/hides(/.*) $1 break; grpc_hide_header X-One; grpc_pass kept; }}\n\
           location /ignores/ {{ rewrite ^/ignores(/.*) $1 break; grpc_ignore_headers X-Accel-Redirect;\n\
             grpc_pass kept; }}\n\
           location /takes/ {{ rewrite ^/takes(/.*) $1 break; grpc_intercept_errors on;\n\
             error_page 503 = @grpc; grpc_pass kept; }}\n\
           location @grpc {{ default_type application/grpc; add_header grpc-status 14; return 204; }}\n\
           location = /local {{ return 200 local; }}\n\
           location /two/ {{ rewrite ^/two(/.*) $1 break; grpc_pass two; }}\n\
           location /none {{ grpc_pass 127.0.0.5:9; }}\n\
           location /small {{ grpc_buffer_size 100; grpc_pass 127.0.0.5:80; }}\n\
           location /wrong {{ grpc_pass 127.0.0.5:81; }}\n\
         }} }}\n"
    )
}

/// What is asked for, by sh: `over` asks by HTTP/2 and by HTTP/1.1. Bodies go to where they are read: an
/// answer that does not wait for one is followed by RST_STREAM(NO_ERROR) where the rest comes late, and
/// curl 7.88 takes that for a failure.
const ASKED: [&str; 27] = [
    "over get /told",
    "over get /told?q=a%20b -H 'A: b' -H 'TE: trailers' -H 'grpc-timeout: 5S'",
    "over get /told -H 'Keep-Alive: 5' -H 'TE: gzip'",
    "over get /told -I",
    "over get /told -X DELETE",
    "over get /read -d hi",
    "over get /kept/read -d ''",
    "over get /by/told",
    "over get /tls/told",
    "over get /unix/told",
    "over get /set/told -H 'TE: trailers' -H 'X-One: two'",
    "over get /fields",
    "over get /hides/fields",
    "over get /accel",
    "over get /ignores/accel",
    "over get /trails/small",
    "over get /trails/small -H 'TE: trailers'",
    "over get /alone",
    "over get /not",
    "over get /takes/not",
    "over get /missing",
    "over get /none",
    "over get /dropped",
    "over get /wrong",
    "over get /kept/large -o /dev/null -w '%{size_download}'",
    "over get /kept/body --data-binary @www/large",
    "over get /two/told",
];

const WORDS: &str = "get() { curl -sS -i --max-time 20 $HOW http://$A:$P\"$@\" 2>&1; echo; }\n\
    over() { HOW=--http2-prior-knowledge P=80; \"$@\"; HOW= P=81; \"$@\"; }\n";

/// What one of them says, without what is each one's own.
fn ask(folder: &Path, address: &str, line: &str) -> String {
    let (out, _) = sh_output(folder, &format!("A={address}\n{WORDS}\n{line}\n"));
    let own = ["server:", "date:", "etag:", "last-modified:", "connection:", "content-length:", "transfer-encoding:"];
    // The phrase of a status is each one's own.
    let out = out.replace("Temporarily ", "");
    let out = out.replace(address, "ADDRESS").replace("nginx/1.22.1", "nginx").replace("nginx", "nearside");
    let mut lines: Vec<&str> = out.lines().map(str::trim_end).collect();
    lines.retain(|line| !own.iter().any(|own| line.to_ascii_lowercase().starts_with(own)));
    // In which order fields stand is nobody's.
    let mut sorted = Vec::new();
    for part in lines.split_inclusive(|line| line.is_empty()) {
        let mut part = part.to_vec();
        if part.first().is_some_and(|line| line.starts_with("HTTP/")) {
            part[1..].sort_unstable();
        }
        sorted.extend(part);
    }
    sorted.iter().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

/// Words of the error log, as often as they stand there for nginx.
const LOGGED: [&str; 3] = [
    "connect() failed (111: Connection refused) while connecting to upstream",
    "upstream: \"grpc://127.0.0.5:9\"",
    "upstream: \"grpc://127.0.0.5:80\"",
];

#[test]
fn requests_are_passed_on_by_grpc_as_by_nginx() {
    in_namespace(&[NGINX, CURL, OPENSSL], || {
        let folder = scratch("nginx-grpc").join("asked");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("www")).unwrap();
        fs::write(folder.join("www/small"), "small\n").unwrap();
        fs::write(folder.join("www/large"), vec![b'l'; 700_000]).unwrap();
        sh(&folder, "openssl ecparam -name prime256v1 -genkey -noout -out one.key", "");
        sh(&folder, "openssl req -x509 -new -key one.key -subj /CN=one -days 30 -out one.pem", "");
        let own = folder.join("upstream");
        fs::create_dir_all(own.join("logs")).unwrap();
        fs::write(own.join("nginx.conf"), UPSTREAM).unwrap();
        let mut upstream = Command::new("nginx");
        upstream.arg("-p").arg(&own).arg("-c").arg(own.join("nginx.conf")).arg("-e").arg(own.join("error.log"));
        let mut upstream = Running::start(&mut upstream);
        upstream.wait_until_open("127.0.0.5:80");
        let running = start_sides(&folder, configuration, 80);
        let mut failures = Vec::new();
        for line in ASKED {
            let said = SIDES.map(|(_, address)| ask(&folder, address, line));
            for at in OURS.into_iter().filter(|at| said[0] != said[*at] || said[0].trim().is_empty()) {
                failures.push(format!("{line}\n--- nginx\n{}--- {}\n{}", said[0], SIDES[at].0, said[at]));
            }
        }
        for one in running {
            one.stop();
        }
        upstream.stop();
        let read = |name: &str, file: &str| fs::read_to_string(folder.join(name).join(file)).unwrap();
        let lines = |name: &str| {
            let mut lines: Vec<String> = read(name, "access.log").lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        let count = |name: &str, words: &str| read(name, "error.log").matches(words).count();
        for at in OURS {
            let (theirs, ours) = (lines("nginx"), lines(SIDES[at].0));
            let differs: Vec<_> = ours.iter().filter(|line| !theirs.contains(line)).collect();
            if !differs.is_empty() || theirs.len() != ours.len() {
                failures.push(format!("access log of {}: {differs:#?} {} {}", SIDES[at].0, theirs.len(), ours.len()));
            }
            for words in LOGGED {
                let (theirs, ours) = (count("nginx", words), count(SIDES[at].0, words));
                if theirs == 0 || theirs != ours {
                    failures.push(format!("{words}: {theirs} and {ours}"));
                }
            }
        }
        assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
    });
}
