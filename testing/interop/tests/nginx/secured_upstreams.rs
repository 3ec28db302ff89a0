//! Upstreams over TLS beside nginx: the same upstream, the same settings, and the same answers
//! and words in the error log.

use crate::NGINX;
use crate::secured::{CURL, OPENSSL, OURS, SIDES, command, sh, sh_output};
use interop::{Running, scratch, wait_for};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

pub(crate) const CERTIFICATES: &str = r#"
set -e
own() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -out $1.pem -days 30 -subj "/CN=$1"; }
of() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -subj "/CN=$2" -out $1.csr
    printf "subjectAltName=DNS:$2\n" > ext
    openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -set_serial $3 -days 30 -extfile ext -out $1.pem
}
own ca; own other; of server up.test 7; of client client 8; of guest guest 11
printf '[ca]\ndefault_ca=x\n[x]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\ndefault_crl_days=30\nserial=serial\n' > conf
: > index; echo 01 > number; echo 09 > serial
openssl ca -config conf -keyfile ca.key -cert ca.pem -gencrl -out none.crl
openssl ca -config conf -keyfile ca.key -cert ca.pem -revoke server.pem
openssl ca -config conf -keyfile ca.key -cert ca.pem -gencrl -out server.crl
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout late.key -subj "/CN=up.test" -out late.csr
printf '[any]\ncommonName=supplied\n' >> conf
openssl ca -batch -config conf -policy any -outdir . -keyfile ca.key -cert ca.pem -rand_serial \
    -startdate 20200101000000Z -enddate 20210101000000Z -in late.csr -notext -out late.pem
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
           location / {{ return 200 \"$ssl_protocol|$ssl_server_name|$ssl_session_reused|$ssl_client_verify|$ssl_client_s_dn|$host\\n\"; }}\n\
           location /big {{ }} location /put {{ proxy_pass http://127.0.0.1:8080; }}\n\
           location /switch {{ proxy_pass http://127.0.0.1:9000; proxy_http_version 1.1;\n\
             proxy_set_header Connection upgrade; proxy_set_header Upgrade echo; }}\n\
           location /close-huge {{ proxy_pass http://127.0.0.1:9000; }} }}\n\
         server {{ listen 8444 ssl; ssl_certificate late.pem; ssl_certificate_key late.key; return 204; }}\n\
         server {{ listen 8080; location / {{ return 200 \"$content_length\\n\"; }} }} }}\n"
    )
}

fn front(address: &str, cached: &str) -> String {
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
         location /shown {{ proxy_ssl_certificate ../$arg_n.pem; proxy_ssl_certificate_key ../$arg_n.key; {to} }}\n\
         location /mixed {{ proxy_ssl_certificate ../$arg_n.pem; proxy_ssl_certificate_key ../client.key; {to} }}\n\
         location /maybe {{ proxy_ssl_certificate $arg_c; proxy_ssl_certificate_key $arg_k; {to} }}\n\
         location /mine {{ proxy_ssl_certificate ../$arg_n.pem; proxy_ssl_certificate_key ../$arg_n.key; {cached}\n\
           proxy_ssl_session_reuse on; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_pass https://kept; }}\n\
         location /expired {{ {verified} proxy_ssl_name up.test; proxy_pass https://127.0.0.1:8444; }}\n\
         location /switch {{ {to} proxy_http_version 1.1; proxy_set_header Connection upgrade;\n\
           proxy_set_header Upgrade echo; }}\n\
         location /close-huge {{ {to} }}\n\
         location /broken/ {{ proxy_pass https://{BREAKER}/; }}\n\
         location /gateway {{ include /etc/nginx/uwsgi_params; uwsgi_pass suwsgi://{GATEWAY}; }}\n\
         location /known {{ include /etc/nginx/uwsgi_params; uwsgi_ssl_certificate ../$arg_n.pem;\n\
           uwsgi_ssl_certificate_key ../$arg_n.key; uwsgi_ssl_session_reuse off; uwsgi_pass suwsgi://{KNOWING_GATEWAY}; }}\n\
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
    "curl -s $U/shown?n=client; curl -s $U/shown?n=guest; curl -s $U/shown?n=client",
    "curl -s $U/maybe; curl -s $U/mixed?n=client",
    "curl -s -o /dev/null -w '%{http_code}' $U/mixed?n=guest",
    "curl -s -o /dev/null -w '%{http_code}' $U/shown?n=none",
    "curl -s -o /dev/null -w '%{http_code}' $U/shown?n=up",
    "curl -s -o /dev/null -w '%{http_code}' $U/not",
    "curl -s $U/next; curl -s $U/next; curl -s $U/next",
    "curl -s $U/kept; curl -s $U/kept; curl -s $U/kept",
    "curl -s $U/big/body | sha256sum",
    "curl -s -T big/body -H Expect: $U/put",
    "curl -s -T conf -H Expect: $U/put",
    "curl -s $U/path",
    "curl -s -o /dev/null -w '%{http_code}' $U/expired",
    "bash -c 'exec 3<>/dev/tcp/${U#http://}/80; printf \"GET /switch HTTP/1.1\\r\\nHost: a\\r\\nConnection: upgrade\\r\\n\
     Upgrade: echo\\r\\n\\r\\nhello\" >&3; timeout 20 cat <&3 | grep -aE \"^HTTP|^Upgrade|hello\"'",
    "curl -s $U/close-huge | sha256sum",
    // A byte is changed on the way: with a length, and without.
    "curl -s -o /dev/null -w '%{http_code} ' $U/broken/big/body; echo $?",
    "curl -s -o /dev/null -w '%{http_code} ' $U/broken/close-huge; echo $?",
    "curl -s $U/gateway",
    "curl -s $U/known?n=client; curl -s $U/known?n=guest",
    // The gateway refuses the first, and there is no second.
    "curl -s -o /dev/null -w '%{http_code}' $U/known?n=other",
    "curl -s -o /dev/null -w '%{http_code}' $U/known?n=none",
];

/// Words of the error log, each a failure's.
const LOGGED: [&str; 9] = [
    "upstream SSL certificate verify error: (10:certificate has expired) while SSL handshaking to upstream",
    "upstream SSL certificate verify error: (23:certificate revoked) while SSL handshaking to upstream",
    "upstream SSL certificate does not match \"127.0.0.1\" while SSL handshaking to upstream",
    "upstream SSL certificate verify error: (21:unable to verify the first certificate) while SSL handshaking to upstream",
    "error:10000080:BIO routines::no such file) while connecting to upstream",
    "error:05800074:x509 certificate routines::key values mismatch) while connecting to upstream",
    "up.pem\": PEM_read_bio_X509_AUX() failed",
    "wrong version number) while SSL handshaking to upstream",
    "upstream: \"https://127.0.0.1:8080/not\"",
];

/// Where a byte is changed on its way to who asked, and where a gateway is.
const BREAKER: &str = "127.0.0.1:8446";
const GATEWAY: &str = "127.0.0.1:8445";
/// One that speaks to those of its authority alone.
const KNOWING_GATEWAY: &str = "127.0.0.1:8447";

/// Passes on to the upstream, and changes a byte of what comes back, behind the handshake.
fn start_breaker() {
    const AT: usize = 300_000;
    let listener = TcpListener::bind(BREAKER).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let upstream = TcpStream::connect("127.0.0.1:8443").unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            std::thread::spawn(move || _ = std::io::copy(&mut from, &mut to));
            let (mut from, mut to) = (upstream, client);
            std::thread::spawn(move || {
                let (mut piece, mut passed) = ([0; 16_384], 0);
                while let Ok(length @ 1..) = from.read(&mut piece) {
                    if (passed..passed + length).contains(&AT) {
                        piece[AT - passed] ^= 1;
                    }
                    passed += length;
                    if to.write_all(&piece[..length]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
        }
    });
}

fn start_gateway(folder: &Path) -> Running {
    fs::write(
        folder.join("app.py"),
        "def application(e, r):\n    r('200 OK', [])\n    return [e['PATH_INFO'].encode()]\n",
    )
    .unwrap();
    let mut program = Command::new("uwsgi");
    program.args(["--plugin", "python3", "--wsgi-file", "app.py", "--die-on-term", "--suwsgi-socket"]);
    program.arg(format!("{GATEWAY},server.pem,server.key")).arg("--suwsgi-socket");
    program.arg(format!("{KNOWING_GATEWAY},server.pem,server.key,HIGH,!ca.pem"));
    let mut running = Running::start(program.current_dir(folder));
    running.wait_until_open(GATEWAY);
    running.wait_until_open(KNOWING_GATEWAY);
    running
}

/// Neither by a connection that was kept nor by a session: nginx goes on with either. And no variable leads
/// out of a folder.
fn who_was_known_by_one_certificate_is_not_by_another(folder: &Path) {
    for at in OURS {
        let (name, address) = SIDES[at];
        let asked = |path: &str| sh_output(folder, &format!("curl -s 'http://{address}/{path}'")).0;
        for who in ["client", "guest", "guest", "client", "guest"] {
            let said = asked(&format!("mine?n={who}"));
            assert!(said.contains(&format!("|SUCCESS|CN={who}|")), "{name}, {who}: {said}");
        }
        let said = asked("shown?n=big/../client");
        assert!(said.contains("500 Internal Server Error"), "{name}: {said}");
        let words = "big/../client.pem\": a variable leads to a parent folder while connecting to upstream";
        let path = folder.join(name).join("error.log");
        wait_for(&format!("\"{words}\" in {}", path.display()), || {
            fs::read_to_string(&path).unwrap_or_default().lines().any(|line| line.contains(words))
        });
    }
}

#[test]
fn upstreams_over_tls_are_asked_the_same() {
    interop::in_namespace(&[NGINX, CURL, OPENSSL], || {
        let folder = scratch("secured-upstreams");
        fs::create_dir_all(&folder).unwrap();
        sh(&folder, CERTIFICATES, "");
        fs::write(folder.join("up.pem"), "junk").unwrap();
        fs::write(folder.join("up.conf"), upstream(&folder)).unwrap();
        let mut all = vec![Running::start(Command::new("nginx").arg("-p").arg(&folder).args(["-c", "up.conf"]))];
        all[0].wait_until_open("127.0.0.1:8443");
        crate::upstream::start();
        start_breaker();
        let gateway = start_gateway(&folder);
        for (name, address) in SIDES {
            let own = folder.join(name);
            fs::create_dir_all(own.join("logs")).unwrap();
            let cached = if name == "nginx" { "" } else { "proxy_ssl_certificate_cache max=8 valid=1s;" };
            fs::write(own.join("nginx.conf"), front(address, cached)).unwrap();
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
        who_was_known_by_one_certificate_is_not_by_another(&folder);
        for (name, _) in SIDES {
            let path = folder.join(name).join("error.log");
            for words in LOGGED {
                wait_for(&format!("\"{words}\" in {}", path.display()), || {
                    fs::read_to_string(&path).unwrap_or_default().lines().any(|line| line.contains(words))
                });
            }
        }
        drop(gateway);
        all.into_iter().for_each(|running| _ = running.stop());
    });
}
