//! What issuers say of certificates (`ssl_stapling`), beside nginx: OpenSSL's responder is asked, and its
//! client told.

use crate::NGINX;
use crate::secured::{OPENSSL, SIDES, command, sh, sh_output};
use interop::{Running, in_namespace, scratch, wait_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A certificate that is good, one that was taken back, one of which the responder knows nothing, one whose
/// responder is not there, one that names none.
const CERTIFICATES: &str = r#"
set -e
openssl ecparam -name prime256v1 -genkey -noout -out ca.key
openssl req -x509 -new -key ca.key -subj "/O=Test/CN=authority" -days 30 -out ca.pem
leaf() {
    openssl ecparam -name prime256v1 -genkey -noout -out $1.key
    openssl req -new -key $1.key -subj "/O=Test/CN=$1.example" -out $1.csr
    printf "$3" > $1.ext
    openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -set_serial $2 -days 30 -extfile $1.ext -out $1.leaf
    cat $1.leaf ca.pem > $1.pem
}
at() { echo "authorityInfoAccess=OCSP;URI:http://$1/"; }
leaf good 5 "$(at 127.0.0.1:2560)"; leaf revoked 6 "$(at 127.0.0.1:2560)"; leaf unknown 7 "$(at 127.0.0.1:2560)"
leaf dead 8 "$(at 127.0.0.1:2561)"; leaf none 9 "basicConstraints=CA:FALSE"
printf 'V\t491231235959Z\t\t05\tunknown\t/O=Test/CN=good.example\n' > index
printf 'R\t491231235959Z\t260101000000Z\t06\tunknown\t/O=Test/CN=revoked.example\n' >> index
"#;

const NAMES: [&str; 5] = ["good", "revoked", "unknown", "dead", "none"];

fn configuration(address: &str) -> String {
    let server = |name: &&str| {
        format!(
            "server {{ listen {address}:443 ssl; server_name {name}.example; return 204;\n\
             ssl_certificate ../{name}.pem; ssl_certificate_key ../{name}.key; }}\n"
        )
    };
    let servers: String = NAMES.iter().map(server).collect();
    format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log; events {{}}\n\
         http {{ access_log off; ssl_protocols TLSv1.2 TLSv1.3;\n\
         ssl_stapling on; ssl_stapling_verify on; ssl_trusted_certificate ../ca.pem;\n{servers}}}\n"
    )
}

fn folder(name: &str) -> PathBuf {
    let folder = scratch("nginx-stapled").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    sh(&folder, CERTIFICATES, "");
    folder
}

/// What OpenSSL's client is told of a certificate.
fn told(folder: &Path, address: &str, name: &str) -> String {
    let ask = format!(
        "timeout 20 openssl s_client -connect {address}:443 -servername {name}.example -status -CAfile ca.pem \
         </dev/null 2>&1 | grep -E '^ *(OCSP [Rr]esponse: no|OCSP Response Status|Cert Status)'"
    );
    sh_output(folder, &ask).0
}

#[test]
fn clients_are_told_what_issuers_say() {
    in_namespace(&[NGINX, OPENSSL], || {
        let folder = folder("told");
        let mut responder = Command::new("openssl");
        responder.args(["ocsp", "-index", "index", "-CA", "ca.pem", "-rsigner", "ca.pem", "-rkey", "ca.key"]);
        responder.args(["-port", "2560", "-nmin", "60"]).current_dir(&folder);
        let responder = Running::start(&mut responder);
        // To connect to it, and say nothing, would keep it from all others.
        wait_for("the responder", || responder.said().contains("waiting for OCSP client"));
        for (name, address) in SIDES {
            let own = folder.join(name);
            fs::create_dir_all(own.join("logs")).unwrap();
            fs::write(own.join("nginx.conf"), configuration(address)).unwrap();
            let mut running = Running::start(&mut command(name, &own));
            running.wait_until_open(&format!("{address}:443"));
            let mut said = String::new();
            wait_for(&format!("what {name} tells of a certificate"), || {
                said = told(&folder, address, "good");
                said.contains("Cert Status")
            });
            assert_eq!(said, "    OCSP Response Status: successful (0x0)\n    Cert Status: good\n", "{name}");
            let log = own.join("error.log");
            for (other, words) in [
                ("revoked", "certificate status \"revoked\" in the OCSP response"),
                ("unknown", "certificate status \"unknown\" in the OCSP response"),
                ("dead", "failed (111: Connection refused)"),
            ] {
                // nginx asks when a client has asked it.
                let begun = cpu::Clock.now();
                assert_eq!(told(&folder, address, other), "OCSP response: no response sent\n", "{name} {other}");
                assert!(cpu::Clock.now().since(begun) < Duration::from_secs(10), "{name}: a responder is waited for");
                wait_for(&format!("{words} in {}", log.display()), || {
                    let text = fs::read_to_string(&log).unwrap_or_default();
                    text.lines().any(|line| {
                        line.contains("[error]")
                            && line.contains(words)
                            && line.contains(
                                "while requesting certificate status, responder: 127.0.0.1, peer: 127.0.0.1:256",
                            )
                    })
                });
                assert_eq!(told(&folder, address, other), "OCSP response: no response sent\n", "{name} {other}");
            }
            assert_eq!(told(&folder, address, "none"), "OCSP response: no response sent\n", "{name}");
            running.stop();
        }
        drop(responder);
    });
}

/// What is not asked is warned of in nginx's words.
#[test]
fn certificates_that_nobody_is_asked_about_are_told() {
    in_namespace(&[NGINX, OPENSSL], || {
        let folder = folder("warned");
        let case = |certificate: &str, more: &str| {
            format!("ssl_certificate {certificate}; ssl_certificate_key good.key; ssl_stapling on; {more}")
        };
        for case in [
            case("good.pem", ""),
            case("good.leaf", ""),
            case("good.leaf", "ssl_trusted_certificate ca.pem; ssl_stapling_verify on;"),
            case("good.pem", "ssl_stapling_responder https://127.0.0.1/;"),
            case("good.pem", "ssl_stapling_responder http://127.0.0.1:x/;"),
            case("good.pem", "ssl_stapling_responder http://127.0.0.1/a/b;"),
            case("none.pem", "").replace("good.key", "none.key"),
        ] {
            let text = format!(
                "pid nginx.pid; error_log error.log; events {{}}\nhttp {{ access_log off;\n\
                 server {{ listen 127.0.0.1:8443 ssl; {case} }} }}\n"
            );
            fs::write(folder.join("nginx.conf"), text).unwrap();
            let said = [SIDES[0], SIDES[1]].map(|(name, _)| {
                let out = command(name, &folder).arg("-t").stdin(Stdio::null()).output().unwrap();
                String::from_utf8_lossy(&out.stderr).into_owned()
            });
            assert_eq!(said[0], said[1], "{case}");
        }
    });
}
