//! TLS beside nginx: the same certificates, the same clients (curl and OpenSSL's), and the
//! same answers, refusals and words in the error log.

use crate::NGINX;
use interop::{Nearside, Program, Running, TAP, in_namespace, scratch, wait_for};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) const CURL: Program = Program::new("curl", "curl");
pub(crate) const OPENSSL: Program = Program::new("openssl", "openssl");

/// Of each: a name, and its address. Both data paths of ours are held against nginx: kernel
/// sockets, and our own stack behind a TAP, whose other end is the kernel's.
pub(crate) const SIDES: [(&str, &str); 3] = [("nginx", "127.0.0.2"), ("sockets", "127.0.0.3"), ("stack", "10.9.0.2")];

/// Ours.
pub(crate) const OURS: [usize; 2] = [1, 2];

/// Certificates as people make them: by Debian's configuration version 3 with CA:TRUE, and of
/// version 1, as `openssl x509 -req` makes them.
const CERTIFICATES: &str = r#"
set -e
ec() { openssl ecparam -name prime256v1 -genkey -noout -out $1.key; }
own() { openssl req -x509 -new -key $1.key -subj "/O=Test/CN=$2" -days 30 -out $1.pem; }
of() {
    openssl req -new -key $1.key -subj "/O=Test/CN=$2" -out $1.csr
    openssl x509 -req -in $1.csr -CA $3.pem -CAkey $3.key -set_serial $4 -days ${5:-30} -out $1.pem
}
for one in one two next ca other client stranger late; do ec $one; done
openssl genrsa -out rsa.key 2048
own one one.example; own rsa one.example; own two two.example; own next one.example
own ca authority; own other "other authority"
of client "a client" ca 0x1234567890; of stranger stranger other 7; of late late ca 9
openssl pkcs8 -topk8 -in two.key -passout pass:secret -out two.enc.key
printf 'wrong\nsecret\n' > passwords
head -c 48 /dev/zero > ticket.48; head -c 80 /dev/zero > ticket.80
printf '[ca]\ndefault_ca=x\n[x]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\ndefault_crl_days=30\n' > conf
: > index; echo 01 > number
openssl ca -config conf -keyfile ca.key -cert ca.pem -revoke late.pem
openssl ca -config conf -keyfile ca.key -cert ca.pem -gencrl -out ca.crl
mkdir by
for one in one two; do cp $one.pem by/$one.example.pem; cp $one.key by/$one.example.key; done
cp one.pem by/wrong.example.pem; cp two.key by/wrong.example.key; echo junk > by/junk.example.pem
head -3 one.pem > cut.pem; echo junk > junk.pem; : > empty.pem; sed s/M/!/ one.pem > letters.pem
"#;

fn configuration(address: &str) -> String {
    let told = "\"$scheme $https|$ssl_protocol $ssl_cipher $ssl_session_reused $ssl_server_name\
                |$ssl_client_verify|$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_s_dn_legacy|$ssl_client_serial\
                |$ssl_client_fingerprint|$ssl_client_v_remain|$ssl_client_v_end|$server_name|$ssl_client_escaped_cert\\n\"";
    format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log info;\n\
         events {{}}\n\
         http {{\n\
         access_log off; default_type text/plain; root ../www; client_header_timeout 5s; ssl_protocols TLSv1.2 TLSv1.3;\n\
         map $ssl_server_name $of {{ default $ssl_server_name; }}\n\
         ssl_certificate ../one.pem; ssl_certificate_key ../one.key;\n\
         ssl_certificate ../rsa.pem; ssl_certificate_key ../rsa.key;\n\
         server {{ listen {address}:443 ssl; server_name one.example;\n\
           location /told {{ return 200 {told}; }}\n\
           location /moved {{ return 301 /elsewhere; }} }}\n\
         server {{ listen {address}:443 ssl; server_name two.example *.two.example;\n\
           ssl_certificate ../two.pem; ssl_certificate_key ../two.enc.key; ssl_password_file ../passwords;\n\
           ssl_protocols TLSv1.2; ssl_ciphers ECDHE+AES256:!CHACHA20; ssl_session_tickets off;\n\
           ssl_session_cache shared:two:1m; return 200 {told}; }}\n\
         server {{ listen {address}:443 ssl; server_name clients.example;\n\
           ssl_client_certificate ../ca.pem; ssl_verify_client on; return 200 {told}; }}\n\
         server {{ listen {address}:443 ssl; server_name optional.example;\n\
           ssl_client_certificate ../ca.pem; ssl_verify_client optional; ssl_crl ../ca.crl; return 200 {told}; }}\n\
         server {{ listen {address}:443 ssl; server_name any.example;\n\
           ssl_verify_client optional_no_ca; return 200 {told}; }}\n\
         server {{ listen {address}:443 ssl; server_name none.example; ssl_reject_handshake on; }}\n\
         server {{ listen {address}:8443 ssl; server_name plain.example; error_page 497 =200 /told;\n\
           location /told {{ return 200 \"$scheme $host $request_uri $status\\n\"; }} }}\n\
         server {{ listen {address}:8444 ssl; ssl_certificate ../by/$ssl_server_name.pem;\n\
           ssl_certificate_key ../by/$of.key; return 200 \"$ssl_server_name\\n\"; }}\n\
         server {{ listen {address}:80; location /told {{ return 200 {told}; }} }}\n\
         }}\n"
    )
}

/// What is asked for, by sh; `$A` is the address of one of them.
const ASKED: &[&str] = &[
    // Versions and suites.
    "get one /told --tlsv1.3",
    "get one /told --tls-max 1.2",
    "get one /told --tls13-ciphers TLS_AES_128_GCM_SHA256",
    "get one /told --tls13-ciphers TLS_CHACHA20_POLY1305_SHA256",
    "get one /told --tls-max 1.2 --ciphers ECDHE-RSA-AES128-GCM-SHA256",
    "get one /told --tls-max 1.2 --ciphers ECDHE-RSA-AES256-GCM-SHA384",
    "get one /told --tls-max 1.2 --ciphers ECDHE-RSA-CHACHA20-POLY1305",
    "get one /told --tls-max 1.2 --ciphers ECDHE-ECDSA-AES128-GCM-SHA256",
    "get one /told --tls-max 1.2 --ciphers ECDHE-ECDSA-AES256-GCM-SHA384",
    "get one /told --tls-max 1.2 --ciphers ECDHE-ECDSA-CHACHA20-POLY1305",
    "get two / --tls-max 1.2",
    "get two / --ciphers ECDHE-ECDSA-AES128-GCM-SHA256 --tls-max 1.2; echo $?",
    // Which certificate, by name.
    "shown one.example",
    "shown One.Example",
    "shown two.example",
    "shown a.two.example",
    "shown unknown.example",
    "shown one.example -sigalgs RSA-PSS+SHA256",
    "shown one.example -sigalgs ECDSA+SHA256",
    "get none /; echo $?",
    "get a.two / --tls-max 1.2",
    "curl -sk --max-time 120 https://$A/told",
    // Groups.
    "group X25519",
    "group P-256",
    "group P-384",
    // Certificates by variables.
    "named one",
    "named two",
    "named unknown",
    "named junk",
    "named wrong",
    // Clients.
    "get clients /",
    "get clients / --cert client.pem --key client.key",
    "get clients / --cert client.pem --key client.key --tls-max 1.2",
    "get clients / --cert stranger.pem --key stranger.key",
    "get clients / --cert other.pem --key other.key",
    "get optional /",
    "get optional / --cert client.pem --key client.key",
    "get optional / --cert late.pem --key late.key",
    "get any / --cert stranger.pem --key stranger.key",
    "get any / --cert other.pem --key other.key",
    "get any /",
    // Another host than was agreed on.
    "get one /told -H 'Host: two.example'",
    "get one /told -H 'Host: unknown.example'",
    "get one /told -H 'Host: clients.example'",
    "get clients / -H 'Host: optional.example' --cert client.pem --key client.key",
    // Plain text.
    "curl -si --max-time 120 http://$A:443/",
    "curl -si --max-time 120 http://$A:8443/asked?x",
    "curl -si --max-time 120 http://$A/told",
    // Redirects, protocols above.
    "get one /moved",
    "get one /folder",
    "body one /large | sha256sum",
    "body one /large --tls-max 1.2 | sha256sum",
    "body one /large --tls-max 1.2 -r 1000-200000 | sha256sum",
    "alpn http/1.1",
    "alpn h2,http/1.1",
    "alpn h2",
    "resumed -tls1_2 one.example",
    "resumed -tls1_3 one.example",
];

/// What nginx does otherwise: its protocols and sessions are those of an address, ours of a
/// server.
const OF_OURS: [(&str, &str); 8] = [
    ("get two / --tlsv1.3; echo $?", "35\n"),
    // Who was asked for a certificate for one host asks no other, whether that verifies clients or not.
    // No name leads out of a folder: there is no such certificate.
    ("named ../one", "SSL alert number 80\n"),
    ("named ..", "SSL alert number 80\n"),
    ("code optional one.example", "421\n"),
    ("code any optional.example", "421\n"),
    ("resumed -tls1_2 two.example", "New, TLSv1.2\nHTTP/1.1 200\nReused, TLSv1.2\nHTTP/1.1 200\n"),
    ("crossed one.example two.example -tls1_2", "New, TLSv1.2\nHTTP/1.1 200\nNew, TLSv1.2\nHTTP/1.1 200\n"),
    ("crossed one.example clients.example -tls1_3", "New, TLSv1.3\nHTTP/1.1 200\nNew, TLSv1.3\nHTTP/1.1 400\n"),
];

/// What the lines above are made of.
const WORDS: &str = r#"
get() {
    name=$1.example; path=$2; shift 2
    curl -sik --max-time 120 --connect-to $name:443:$A:443 "$@" https://$name$path
}
body() {
    name=$1.example; path=$2; shift 2
    curl -sk --max-time 120 --connect-to $name:443:$A:443 "$@" https://$name$path
}
code() { body $1 / -H "Host: $2" -o /dev/null -w '%{http_code}\n'; }
named() { echo | timeout 120 openssl s_client -tls1_2 -connect $A:8444 -servername $1.example 2>&1 | grep -oE '^subject=.*|SSL alert number .*'; }
client() { echo | timeout 120 openssl s_client -connect $A:443 "$@" 2>&1; }
shown() { name=$1; shift; client -servername $name "$@" | openssl x509 -noout -subject -serial; }
group() { client -servername one.example -groups $1 | grep -E '^(Server Temp Key|Cipher is|New)'; }
alpn() { client -servername one.example -alpn $1 | grep -oE '^ALPN protocol: .*|^No ALPN.*|alert no application protocol'; }
ask() { printf 'GET /told HTTP/1.0\r\n\r\n' | timeout 120 openssl s_client -ign_eof -connect $A:443 "$@" 2>&1 | grep -oE '^(New|Reused), TLSv1..|HTTP/1.1 [0-9]*'; }
resumed() {
    ask $1 -servername $2 -sess_out $T/session
    ask $1 -servername $2 -sess_in $T/session
}
crossed() {
    ask $3 -servername $1 -sess_out $T/session
    ask $3 -servername $2 -sess_in $T/session
}
"#;

pub(crate) struct Both {
    pub(crate) folder: PathBuf,
    pub(crate) running: Vec<Running>,
}

impl Both {
    pub(crate) fn start(name: &str) -> Self {
        let folder = scratch("nginx-secured").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("www/folder")).unwrap();
        let line = "Lorem ipsum dolor sit amet, consectetur adipisici elit\n";
        fs::write(folder.join("www/large"), line.repeat(40_000)).unwrap();
        sh(&folder, CERTIFICATES, "");
        let running = start_sides(&folder, configuration, 443);
        Self { folder, running }
    }

    /// What each says, with its address taken out.
    pub(crate) fn ask(&self, line: &str) -> Vec<String> {
        let one = |(name, address): &(&str, &str)| {
            let script = format!("A={address}\nT={name}\n{WORDS}\n{line}\n");
            let (out, _) = sh_output(&self.folder, &script);
            plain(&out, address)
        };
        SIDES.iter().map(one).collect()
    }
}

pub(crate) fn command(name: &str, folder: &Path) -> Command {
    let mut command = match name {
        "nginx" => Command::new("nginx"),
        "stack" => Nearside::command(["nginx", "--link", TAP, "--addr", "10.9.0.2/24"]),
        _ => Nearside::command(["nginx"]),
    };
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    command.arg("-e").arg(folder.join("error.log"));
    command
}

/// Starts each in a folder of its own, and waits for its port.
pub(crate) fn start_sides(folder: &Path, configuration: impl Fn(&str) -> String, port: u16) -> Vec<Running> {
    let start = |(name, address)| {
        let own = folder.join(name);
        fs::create_dir_all(own.join("logs")).unwrap();
        fs::write(own.join("nginx.conf"), configuration(address)).unwrap();
        let mut running = Running::start(&mut command(name, &own));
        running.wait_until_open(&format!("{address}:{port}"));
        running
    };
    SIDES.map(start).into()
}

pub(crate) fn sh_output(folder: &Path, script: &str) -> (String, bool) {
    let ran = Command::new("sh").arg("-c").arg(script).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let out = [ran.stdout, ran.stderr].concat();
    (String::from_utf8_lossy(&out).into_owned(), ran.status.success())
}

pub(crate) fn sh(folder: &Path, script: &str, line: &str) {
    let (out, well) = sh_output(folder, &format!("{script}\n{line}"));
    assert!(well, "{out}");
}

/// Without what is each one's own: names, times, lengths of pages with a name in them, and
/// the order of fields.
fn plain(out: &str, address: &str) -> String {
    let out = out.replace(address, "ADDRESS").replace("nginx/1.22.1", "nginx").replace("nginx", "nearside");
    let own = ["Server:", "Date:", "ETag:", "Last-Modified:", "Connection: keep-alive", "Content-Length:"];
    let mut lines: Vec<&str> = out.lines().map(str::trim_end).collect();
    lines.retain(|line| !own.iter().any(|own| line.starts_with(own)));
    if lines.first().is_some_and(|line| line.starts_with("HTTP/"))
        && let Some(end) = lines.iter().position(|line| line.is_empty())
    {
        lines[1..end].sort_unstable();
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn clients_get_the_same_answers() {
    in_namespace(&[NGINX, CURL, OPENSSL], || {
        let both = Both::start("answers");
        let mut failures = Vec::new();
        for line in ASKED {
            let said = both.ask(line);
            for at in OURS.into_iter().filter(|at| said[0] != said[*at] || said[0].trim().is_empty()) {
                failures.push(format!("{line}\n--- nginx\n{}--- {}\n{}", said[0], SIDES[at].0, said[at]));
            }
        }
        for (line, expected) in OF_OURS {
            let said = both.ask(line);
            for at in OURS.into_iter().filter(|at| said[*at] != expected) {
                failures.push(format!("{line}\n--- {}\n{}", SIDES[at].0, said[at]));
            }
        }
        for running in both.running {
            running.stop();
        }
        assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), ASKED.len(), failures.join("\n"));
    });
}

/// Words of nginx's error log about handshakes and what follows them.
const LOGGED: [&str; 6] = [
    "client sent plain HTTP request to HTTPS port while reading client request headers",
    "client sent no required SSL certificate while reading client request headers",
    "client SSL certificate verify error: (18:self-signed certificate) while reading client request headers",
    "client SSL certificate verify error: (23:certificate revoked) while reading client request headers",
    "different from the one that was negotiated while reading client request headers",
    "alert unknown ca:SSL alert number 48) while SSL handshaking",
];

/// The same about certificates by variables.
const NOT_FOUND: [&str; 3] = [
    "by/unknown.example.pem, r) error:10000080:BIO routines::no such file) while SSL handshaking, client: ",
    "by/junk.example.pem\": PEM_read_bio_X509_AUX() failed (SSL: error:0480006C:PEM routines::no start line",
    "key values mismatch) while SSL handshaking, client: ",
];

#[test]
fn the_error_log_has_the_same_words() {
    in_namespace(&[NGINX, CURL, OPENSSL], || {
        let both = Both::start("logged");
        for line in [
            "curl -s http://$A:443/",
            "get clients /",
            "get clients / --cert other.pem --key other.key",
            "get optional / --cert late.pem --key late.key",
            "get one /told -H 'Host: clients.example'",
            "named unknown",
            "named junk",
            "named wrong",
            "curl -s --cacert other.pem --connect-to one.example:443:$A:443 https://one.example/",
        ] {
            both.ask(line);
        }
        for (name, _) in SIDES {
            let path = both.folder.join(name).join("error.log");
            for words in LOGGED {
                wait_for(&format!("\"{words}\" in {}", path.display()), || {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    text.lines().any(|line| line.contains("[info]") && line.contains(words))
                });
            }
            for words in NOT_FOUND {
                wait_for(&format!("\"{words}\" in {}", path.display()), || {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    text.lines().any(|line| line.contains("[error]") && line.contains(words))
                });
            }
        }
        for running in both.running {
            running.stop();
        }
    });
}

/// What is wrong with certificates and settings is told in nginx's words.
#[test]
fn wrong_certificates_are_told() {
    const PAIR: &str = "ssl_certificate one.pem; ssl_certificate_key one.key;";
    let cases = [
        String::new(),
        "ssl_certificate one.pem;".to_owned(),
        "ssl_reject_handshake on;".to_owned(),
        "ssl_certificate none.pem; ssl_certificate_key one.key;".to_owned(),
        "ssl_certificate junk.pem; ssl_certificate_key one.key;".to_owned(),
        "ssl_certificate empty.pem; ssl_certificate_key one.key;".to_owned(),
        "ssl_certificate cut.pem; ssl_certificate_key one.key;".to_owned(),
        "ssl_certificate letters.pem; ssl_certificate_key one.key;".to_owned(),
        "ssl_certificate one.key; ssl_certificate_key one.pem;".to_owned(),
        "ssl_certificate one.pem; ssl_certificate_key none.key;".to_owned(),
        "ssl_certificate one.pem; ssl_certificate_key junk.pem;".to_owned(),
        "ssl_certificate one.pem; ssl_certificate_key two.key;".to_owned(),
        "ssl_certificate two.pem; ssl_certificate_key two.enc.key; ssl_password_file passwords;".to_owned(),
        format!("{PAIR} ssl_password_file none;"),
        format!("{PAIR} ssl_ciphers NOTHING;"),
        format!("{PAIR} ssl_ecdh_curve nothing;"),
        format!("{PAIR} ssl_session_ticket_key junk.pem;"),
        format!("{PAIR} ssl_session_ticket_key ticket.48; ssl_session_ticket_key ticket.80;"),
        format!("{PAIR} ssl_crl junk.pem;"),
        format!("{PAIR} ssl_stapling on; ssl_stapling_file junk.pem;"),
        format!("{PAIR} ssl_conf_command Nothing x;"),
        format!("{PAIR} ssl_session_cache nothing;"),
        format!("{PAIR} ssl_session_cache shared:a;"),
        format!("{PAIR} ssl_session_cache shared:a:1k;"),
        format!("{PAIR} ssl_protocols TLSv1.4;"),
        format!("{PAIR} ssl_verify_client perhaps;"),
        format!("{PAIR} ssl_session_timeout 1x;"),
    ];
    in_namespace(&[NGINX, OPENSSL], move || {
        let folder = scratch("nginx-secured").join("wrong");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        sh(&folder, CERTIFICATES, "");
        let mut failures = Vec::new();
        for case in &cases {
            let text = format!(
                "pid nginx.pid; error_log error.log; events {{}}\nhttp {{ access_log off;\n\
                 server {{ listen 127.0.0.1:8443 ssl; {case} }} }}\n"
            );
            fs::write(folder.join("nginx.conf"), text).unwrap();
            let said = [SIDES[0], SIDES[1]].map(|(name, _)| {
                let out = command(name, &folder).arg("-t").stdin(Stdio::null()).output().unwrap();
                // Ours says beside it what could stand in its place.
                let said = String::from_utf8_lossy(&out.stderr).into_owned();
                let lines = said.split_inclusive('\n').filter(|line| !line.starts_with("nginx:   in its place: "));
                lines.collect::<String>()
            });
            if said[0] != said[1] {
                failures.push(format!("{case}\n--- nginx\n{}--- nearside\n{}", said[0], said[1]));
            }
        }
        assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), cases.len(), failures.join("\n"));
    });
}

/// What OpenSSL has and the library has not is warned of where one that is here stays.
#[test]
fn names_that_are_not_here_are_warned_of() {
    const CASES: [(&str, &str); 9] = [
        ("ssl_ecdh_curve X25519:secp256k1;", "\"secp256k1\" of"),
        ("ssl_ecdh_curve X25519:secp224r1;", "\"secp224r1\" of"),
        ("ssl_ecdh_curve prime192v1:X25519;", "\"prime192v1\" of"),
        ("ssl_ecdh_curve sect571r1:X25519;", "\"sect571r1\" of"),
        ("ssl_ecdh_curve X25519:brainpoolP384r1;", "\"brainpoolP384r1\" of"),
        (
            "ssl_conf_command Ciphersuites TLS_AES_128_CCM_SHA256:TLS_AES_128_GCM_SHA256;",
            "\"TLS_AES_128_CCM_SHA256\" of",
        ),
        ("ssl_conf_command CipherString DEFAULT@SECLEVEL=1;", "\"@SECLEVEL\" of"),
        ("ssl_ciphers HIGH:@SECLEVEL=0;", "\"@SECLEVEL\" of"),
        ("ssl_conf_command Options PrioritizeChaCha;", "\"PrioritizeChaCha\" of"),
    ];
    in_namespace(&[NGINX, OPENSSL], || {
        let folder = scratch("nginx-secured").join("warned");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        sh(&folder, CERTIFICATES, "");
        for (case, warned) in CASES {
            let text = format!(
                "pid nginx.pid; error_log error.log; events {{}}\nhttp {{ access_log off;\n\
                 server {{ listen 127.0.0.1:8443 ssl; ssl_certificate one.pem; ssl_certificate_key one.key; {case} }} }}\n"
            );
            fs::write(folder.join("nginx.conf"), text).unwrap();
            let [theirs, ours] = [SIDES[0], SIDES[1]].map(|(name, _)| {
                let out = command(name, &folder).arg("-t").stdin(Stdio::null()).output().unwrap();
                (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
            });
            assert!(theirs.0, "{case}: {}", theirs.1);
            assert!(ours.0 && ours.1.contains("[warn]") && ours.1.contains(warned), "{case}: {}", ours.1);
        }
    });
}

/// Whoever sends what is no handshake, or none that ends, leaves the others alone.
#[test]
fn bad_handshakes_leave_others_alone() {
    in_namespace(&[NGINX, CURL, OPENSSL], || {
        let both = Both::start("bad");
        for at in OURS {
            bad_handshakes(&both, at);
        }
        for running in both.running {
            running.stop();
        }
    });
}

fn bad_handshakes(both: &Both, at: usize) {
    let (name, address) = SIDES[at];
    let open = || {
        let stream = TcpStream::connect(format!("{address}:443")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    // One that says that it is too long, and is on its way.
    let long = [&[22, 3, 1, 0x40, 0, 1, 0, 0xf0, 0][..], &vec![0; 0x4000]].concat();
    for bytes in [
        &b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00"[..],
        b"\x80\x2e\x01\x03\x01",
        b"\x16\x02\x00\x00\x05hello",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff",
        &long,
    ] {
        let mut stream = open();
        stream.write_all(bytes).unwrap();
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got);
        assert!(got.starts_with(&[21, 3, 3, 0, 2, 2]), "{name}, {bytes:02x?}: {got:02x?}");
    }
    // Some that never end wait, and one who ends at once is no fault.
    let part = b"\x16\x03\x01\x20\x00\x01\x00\x1f\xfc\x03\x03";
    let waiting: Vec<TcpStream> = (0..64)
        .map(|at| {
            let mut stream = open();
            stream.write_all(&[&part[..at % 12], &vec![0; if at % 12 == 11 { 4_000 } else { 0 }]].concat()).unwrap();
            stream
        })
        .collect();
    drop(open());
    let said = both.ask("get one /told --tlsv1.3");
    assert!(said[at].contains("https on|TLSv1.3"), "{name}: {}", said[at]);
    // They are waited for as long as for a head, and then told so in the log.
    let path = both.folder.join(name).join("error.log");
    wait_for("the end of those that wait", || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        text.lines().filter(|line| line.contains("timed out") && line.contains("while SSL handshaking")).count() >= 64
    });
    for mut stream in waiting {
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)), "{name}: nothing is said");
    }
}

/// `nearside load` over HTTPS: of nginx and of ours, over the kernel's sockets.
#[test]
fn load_is_made_over_tls() {
    in_namespace(&[NGINX, CURL, OPENSSL], || {
        let both = Both::start("loaded");
        let load = |address: &str, port: u16, flags: &str| {
            let mut command = Nearside::command(["load", &format!("https://{address}:{port}/told"), "--json"]);
            let usual = "-c 4 -n 60 -d 20s --warmup 0s --threads 1 --cores none --progress none";
            command.args(usual.split_whitespace()).args(flags.split_whitespace()).current_dir(&both.folder);
            let ran = command.stdin(Stdio::null()).output().unwrap();
            let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
            (ran.status.code(), json, String::from_utf8_lossy(&ran.stderr).into_owned())
        };
        for (name, address) in SIDES {
            for (flags, version, suite, resumes) in [
                ("--cacert one.pem --sni one.example", "TLSv1.3", "TLS_AES_256_GCM_SHA384", false),
                (
                    "--insecure --sni one.example --tls 1.2 --ciphers ECDHE-RSA-AES128-GCM-SHA256",
                    "TLSv1.2",
                    "ECDHE-RSA-AES128-GCM-SHA256",
                    false,
                ),
                ("--insecure --close --resume", "TLSv1.3", "TLS_AES_256_GCM_SHA384", true),
                ("--insecure --close --resume --tls 1.2", "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384", true),
                (
                    "--insecure --close --closer client --ciphers TLS_CHACHA20_POLY1305_SHA256",
                    "TLSv1.3",
                    "TLS_CHACHA20_POLY1305_SHA256",
                    false,
                ),
            ] {
                let (code, json, said) = load(address, 443, flags);
                let secured = &json["secured"];
                let agreed = secured["agreed"].as_array().map(Vec::as_slice).unwrap_or_default();
                let [one] = agreed else { panic!("{name} {flags}: {said}{json}") };
                let handshakes = one["handshakes"].as_u64().unwrap_or(0);
                assert_eq!(
                    (code, &one["version"], &one["suite"]),
                    (Some(0), &version.into(), &suite.into()),
                    "{name} {flags}: {json}"
                );
                assert_eq!(secured["handshake"]["samples"].as_u64(), Some(handshakes), "{name} {flags}");
                assert_eq!(secured["resumed"].as_u64() > Some(handshakes / 2), resumes, "{name} {flags}: {json}");
                assert!(resumes || secured["resumed"] == 0, "{name} {flags}: {json}");
                assert!(json["statuses"]["success"].as_u64() > Some(4), "{name} {flags}: {json}");
                let errors = json["errors"].as_object().unwrap().values().filter(|count| **count != 0).count();
                assert_eq!(errors, 0, "{name} {flags}: {}", json["errors"]);
            }
            for (flags, told) in [
                ("--cacert other.pem --sni one.example", "the server's certificate is not trusted"),
                ("--cacert one.pem --sni two.example", "the server's certificate is not"),
                ("--cacert one.pem", "the server's certificate is not"),
                ("--insecure --sni none.example", "alert"),
            ] {
                let (code, _, said) = load(address, 443, flags);
                assert!(code == Some(1) && said.contains(told), "{name} {flags}: {code:?} {said}");
            }
            // Of another host than the one that asks for certificates it would be 421.
            let flags = "--insecure --sni clients.example --header=Host:clients.example --cert client.pem \
                         --key client.key --want-status 200";
            let (code, json, said) = load(address, 443, flags);
            assert!(code == Some(0) && json["errors"]["wrong_status"] == 0, "{name}: {said}{json}");
        }
        for running in both.running {
            running.stop();
        }
    });
}
