//! Sites that are measured.

use std::fmt::Write as _;

/// A site as many are: three hosts, a location for assets, fields, text compressed
/// for who takes it, a log in JSON. What it says of the process comes first; the
/// host that is asked for stands for `HOST`, and the folder for `FOLDER`.
pub(crate) fn ordinary(process: &str) -> String {
    process.to_owned() + ORDINARY
}

/// A site of many hosts with ten locations each, of which the one in the middle is
/// `HOST`, and the others `h` with a number.
pub(crate) fn hosts(process: &str, listen: &str, count: u32) -> String {
    let mut text = process.to_owned();
    text.push_str("\nevents { worker_connections 16384; }\nhttp { types { text/html html; } access_log off; ");
    text.push_str("keepalive_requests 1000000000;\n");
    for host in 0..count {
        let name = if host == count / 2 { "HOST".to_owned() } else { format!("h{host}.example") };
        // Writing to a string does not fail.
        let _ = writeln!(text, "server {{ listen {listen}; server_name {name}; root FOLDER; add_header X-Host NUMBER;");
        for location in 0..10 {
            let _ = writeln!(text, "location /part{location}/ {{ expires {location}h; }}");
        }
        text.push_str("}\n");
    }
    text.push_str("}\n");
    text
}

/// A server that passes everything on to `upstream`, over connections that are kept.
pub(crate) fn passing(process: &str, upstream: &str) -> String {
    process.to_owned() + &PASSING.replace("UPSTREAM", upstream)
}

const PASSING: &str = r#"
events { worker_connections 16384; }
http {
    access_log off;
    keepalive_requests 1000000000;
    upstream back { server UPSTREAM; keepalive 256; keepalive_requests 1000000000; }
    server {
        listen 80;
        location / {
            proxy_pass http://back;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        }
    }
}
"#;

const ORDINARY: &str = r#"
events { worker_connections 16384; }
http {
    types { text/html html; text/css css; application/javascript js; image/png png; }
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    open_file_cache max=1000;
    open_file_cache_valid 60s;
    gzip on;
    gzip_types text/css application/javascript;
    gzip_vary on;
    log_format json escape=json '{"time":"$time_iso8601","client":"$remote_addr","request":"$request",'
        '"status":$status,"bytes":$body_bytes_sent,"referer":"$http_referer","agent":"$http_user_agent",'
        '"host":"$host","took":$request_time}';
    access_log FOLDER/access.log json;
    server { listen 80 default_server; server_name one.example; return 404; }
    server { listen 80; server_name two.example www.two.example; root /nowhere; }
    server {
        listen 80;
        server_name HOST;
        root FOLDER;
        add_header X-Content-Type-Options nosniff;
        add_header Referrer-Policy no-referrer;
        location / { try_files $uri $uri/ =404; }
        location ~* \.(css|js|png|html)$ {
            expires 7d;
            add_header Cache-Control public;
        }
    }
}
"#;
