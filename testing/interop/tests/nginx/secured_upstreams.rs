//! Upstreams over TLS beside nginx: the same upstream, the same settings, and the same answers
//! and words in the error log.

use crate::NGINX;
use crate::secured::{CURL, OPENSSL, OURS, SIDES, command, sh, sh_output};
use interop::{Running, scratch, wait_for};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const CERTIFICATES: &str = r#"
set -e
own() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -out $1.pem -days 30 -subj "/CN=$1"; }
of() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -subj "/CN=$2" -out $1.csr
    printf "subjectAltName=DNS:$2\n" > ext
    openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -set_serial $3 -days 30 -extfile ext -out $1.pem
}
own ca; own other; of server up.test 7; of client client 8
printf '[ca]\ndefault_ca=x\n[x]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\ndefault_crl_days=30\n' > conf
: > index; echo 01 > number
openssl ca -config conf -keyfile ca.key -cert ca.pem -gencrl -out none.crl
openssl ca -config conf -keyfile ca.key -cert ca.pem -revoke server.pem
openssl ca -config conf -keyfile ca.key -cert ca.pem -gencrl -out server.crl
mkdir -p big; head -c 1000000 /dev/urandom > big/body
"#;

/// The upstream: at 8443 over TLS, at 8080 in plain text.
fn upstream(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "user root; worker_processes 1; daemon off; pid up.pid; error_log up.log info; events {{}}\n\
         http {{ access_log off; root {folder}; client_max_body_size 10m; client_body_temp_path {folder}/temp;\n\
         server {{ listen 8443 ssl; ssl_certificate server.pem; ssl_certificate_key server.key;\n\
           ssl_protocols TLSv1.2 TLSv1.3; ssl_client_certificate ca.pem; ssl_verify_client optional;\n\
           location / {{ return 200 \"$ssl_protocol|$ssl_server_name|$ssl_session_reused|$ssl_client_verify|$host\\n\"; }}\n\
           location /big {{ }} location /put {{ proxy_pass http://127.0.0.1:8080; }} }}\n\
         server {{ listen 8080; location / {{ return 200 \"$content_length\\n\"; }} }} }}\n"
    )
}

fn front(address: &str) -> String {
    let verified = "proxy_ssl_verify on; proxy_ssl_trusted_certificate ../ca.pem;";
    let to = "proxy_pass https://127.0.0.1:8443;";
    format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log info; events {{}}\n\
         http {{ access_log off; client_max_body_size 10m; proxy_ssl_protocols TLSv1.2 TLSv1.3;\n\
         upstream two {{ server 127.0.0.1:8080; server 127.0.0.1:8443; }}\n\
         upstream kept {{ server 127.0.0.1:8443; keepalive 2; }}\n\
         server {{ listen {address}:80; proxy_ssl_session_reuse off;\n\
         location /plain {{ {to} }} location /put {{ {to} }} location /big {{ {to} }}\n\
         location /again {{ proxy_ssl_session_reuse on; {to} }}\n\
         location /older {{ proxy_ssl_session_reuse on; proxy_ssl_protocols TLSv1.2; {to} }}\n\
         location /named {{ {verified} proxy_ssl_name up.test; proxy_ssl_server_name on; {to} }}\n\
         location /listed {{ {verified} proxy_ssl_name up.test; proxy_ssl_crl ../none.crl; {to} }}\n\
         location /revoked {{ {verified} proxy_ssl_name up.test; proxy_ssl_crl ../server.crl; {to} }}\n\
         location /misnamed {{ {verified} {to} }}\n\
         location /stranger {{ {verified} proxy_ssl_trusted_certificate_; }}\n\
         location /var {{ set $u 127.0.0.1:8443; proxy_ssl_server_name on; proxy_ssl_name $arg_n; proxy_pass https://$u; }}\n\
         location /client {{ proxy_ssl_certificate ../client.pem; proxy_ssl_certificate_key ../client.key; {to} }}\n\
         location /not {{ proxy_pass https://127.0.0.1:8080; }}\n\
         location /next {{ proxy_pass https://two; }}\n\
         location /kept {{ proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_pass https://kept; }}\n\
         location /path {{ proxy_pass https://10.9.0.1:8443; }}\n\
         }} }}\n"
    )
    .replace(
        &format!("{verified} proxy_ssl_trusted_certificate_;"),
        &format!("proxy_ssl_verify on; proxy_ssl_trusted_certificate ../other.pem; proxy_ssl_name up.test; {to}"),
    )
}

const ASKED: &[&str] = &[
    "curl -s $U/plain",
    "curl -s $U/again; curl -s $U/again; curl -s $U/again",
    "curl -s $U/older; curl -s $U/older",
    "curl -s $U/named",
    "curl -s $U/listed",
    "curl -s -o /dev/null -w '%{http_code}' $U/revoked",
    "curl -s -o /dev/null -w '%{http_code}' $U/misnamed",
    "curl -s -o /dev/null -w '%{http_code}' $U/stranger",
    "curl -s $U/var?n=a.test; curl -s $U/var?n=b.test:443; curl -s $U/var?n=127.0.0.1",
    "curl -s $U/client",
    "curl -s -o /dev/null -w '%{http_code}' $U/not",
    "curl -s $U/next; curl -s $U/next; curl -s $U/next",
    "curl -s $U/kept; curl -s $U/kept; curl -s $U/kept",
    "curl -s $U/big/body | sha256sum",
    "curl -s -T big/body -H Expect: $U/put",
    "curl -s -T conf -H Expect: $U/put",
    "curl -s $U/path",
];

/// Words of the error log, each a failure's.
const LOGGED: [&str; 5] = [
    "upstream SSL certificate verify error: (23:certificate revoked) while SSL handshaking to upstream",
    "upstream SSL certificate does not match \"127.0.0.1\" while SSL handshaking to upstream",
    "upstream SSL certificate verify error: (21:unable to verify the first certificate) while SSL handshaking to upstream",
    "wrong version number) while SSL handshaking to upstream",
    "upstream: \"https://127.0.0.1:8080/not\"",
];

#[test]
fn upstreams_over_tls_are_asked_the_same() {
    interop::in_namespace(&[NGINX, CURL, OPENSSL], || {
        let folder = scratch("secured-upstreams");
        fs::create_dir_all(&folder).unwrap();
        sh(&folder, CERTIFICATES, "");
        fs::write(folder.join("up.conf"), upstream(&folder)).unwrap();
        let mut all = vec![Running::start(Command::new("nginx").arg("-p").arg(&folder).args(["-c", "up.conf"]))];
        all[0].wait_until_open("127.0.0.1:8443");
        for (name, address) in SIDES {
            let own = folder.join(name);
            fs::create_dir_all(own.join("logs")).unwrap();
            fs::write(own.join("nginx.conf"), front(address)).unwrap();
            let mut running = Running::start(&mut command(name, &own));
            running.wait_until_open(&format!("{address}:80"));
            all.push(running);
        }
        let mut failures = Vec::new();
        for line in ASKED {
            let said: Vec<String> = SIDES
                .iter()
                .map(|(_, address)| sh_output(&folder, &format!("U=http://{address}\n{line}")).0.replace(address, "A"))
                .collect();
            for at in OURS.into_iter().filter(|at| said[0] != said[*at] || said[0].trim().is_empty()) {
                failures.push(format!("{line}\n--- nginx\n{}--- {}\n{}", said[0], SIDES[at].0, said[at]));
            }
        }
        assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), ASKED.len(), failures.join("\n"));
        for (name, _) in SIDES {
            let path = folder.join(name).join("error.log");
            for words in LOGGED {
                wait_for(&format!("\"{words}\" in {}", path.display()), Duration::from_secs(10), || {
                    fs::read_to_string(&path).unwrap_or_default().lines().any(|line| line.contains(words))
                });
            }
        }
        all.into_iter().for_each(|running| _ = running.stop());
    });
}
