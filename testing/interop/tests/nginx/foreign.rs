//! What OpenSSL's and GnuTLS's clients do to a connection that is up: keys anew, handshakes anew. Beside
//! nginx; each step waits for what the one before it is answered by, until a deadline.

use crate::NGINX;
use crate::secured::{OPENSSL, OURS, SIDES, sh, start_sides};
use interop::{Program, in_namespace, scratch, wait_for};
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

const GNUTLS: Program = Program::new("gnutls-cli", "gnutls-bin");

const GET: &str = "GET / HTTP/1.1\r\nHost: one.example\r\n\r\n";
const LAST: &str = "GET / HTTP/1.0\r\n\r\n";

/// A client with a terminal of ours.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Client {
    fn start(line: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {line} 2>&1")]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a client");
        let (stdin, mut stdout) = (child.stdin.take(), child.stdout.take().expect("its output"));
        let said = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&said);
        // It ends with the client, which is killed.
        std::thread::spawn(move || {
            let mut piece = [0; 4_096];
            while let Ok(len @ 1..) = stdout.read(&mut piece) {
                all.lock().unwrap().extend_from_slice(&piece[..len]);
            }
        });
        Self { child, stdin, said }
    }

    fn types(&mut self, text: &str) {
        // One that has ended says so by what it does not answer.
        let _ = self.stdin.as_mut().map(|stdin| stdin.write_all(text.as_bytes()));
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    /// Waits until it has said this so many times.
    #[track_caller]
    fn waits_for(&self, text: &str, times: usize, who: &str) {
        let what = format!("{who}: {text:?}, {times} times");
        wait_for(&what, || self.said().matches(text).count() >= times);
    }

    fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Nothing more is typed: waits for its end.
    #[track_caller]
    fn ends(mut self, who: &str) {
        self.stdin = None;
        wait_for(&format!("{who}: the client's end"), || self.is_over());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CERTIFICATES: &str = r#"
set -e
openssl ecparam -name prime256v1 -genkey -noout -out one.key
openssl req -x509 -new -key one.key -subj "/O=Test/CN=one.example" -days 30 -out one.pem
"#;

fn configuration(address: &str) -> String {
    format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log info; events {{}}\n\
         http {{ access_log off; ssl_protocols TLSv1.2 TLSv1.3;\n\
         ssl_certificate ../one.pem; ssl_certificate_key ../one.key;\n\
         server {{ listen {address}:443 ssl; return 200 \"told $ssl_protocol $ssl_session_reused\\n\"; }} }}\n"
    )
}

/// Each of OpenSSL's words between two requests on one connection.
fn types_to_openssl(name: &str, address: &str) {
    for (words, version) in [("k\n", "-tls1_3"), ("K\n", "-tls1_3")] {
        let mut client = Client::start(&format!("openssl s_client -connect {address}:443 {version}"));
        client.types(GET);
        client.waits_for("told TLSv1.3", 1, name);
        for round in 1..=3 {
            client.types(words);
            client.waits_for("KEYUPDATE", round, name);
            client.types(GET);
            client.waits_for("told TLSv1.3", round + 1, name);
        }
    }
    let mut client = Client::start(&format!("openssl s_client -connect {address}:443 -tls1_2"));
    client.types(GET);
    client.waits_for("told TLSv1.2", 1, name);
    client.types("R\n");
    client.waits_for("RENEGOTIATING", 1, name);
    client.waits_for("no renegotiation", 1, name);
    client.ends(name);
}

fn asks_by_gnutls(name: &str, address: &str) {
    for (version, flags, told) in [
        ("VERS-TLS1.2", "", "told TLSv1.2 ."),
        ("VERS-TLS1.3", "", "told TLSv1.3 ."),
        ("VERS-TLS1.2", "--resume", "told TLSv1.2 r"),
        ("VERS-TLS1.3", "--resume", "told TLSv1.3 r"),
        // Of TLS 1.3 these are keys anew.
        ("VERS-TLS1.3", "--rehandshake", "told TLSv1.3 ."),
    ] {
        let line = format!(
            "gnutls-cli --insecure --priority NORMAL:-VERS-ALL:+{version} --sni-hostname one.example -p 443 {flags} \
             {address}"
        );
        let mut client = Client::start(&line);
        client.waits_for("Simple Client Mode", 1, name);
        client.types(LAST);
        client.waits_for(told, 1, &format!("{name} {version} {flags}"));
        client.ends(name);
    }
}

#[test]
fn foreign_clients_ask_for_keys_and_handshakes_anew() {
    in_namespace(&[NGINX, OPENSSL, GNUTLS], || {
        let folder = scratch("nginx-foreign").join("asked");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        sh(&folder, CERTIFICATES, "");
        let running = start_sides(&folder, configuration, 443);
        types_to_openssl(SIDES[0].0, SIDES[0].1);
        for (name, address) in OURS.map(|at| SIDES[at]) {
            types_to_openssl(name, address);
            asks_by_gnutls(name, address);
        }
        for running in running {
            running.stop();
        }
    });
}
