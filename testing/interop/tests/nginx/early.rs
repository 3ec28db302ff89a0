//! Requests that come before their handshake is over (`ssl_early_data`), by OpenSSL's client, beside nginx.

use crate::NGINX;
use crate::secured::{OPENSSL, OURS, SIDES, sh, sh_output, start_sides};
use interop::{Nearside, in_namespace, scratch};
use std::fs;
use std::path::Path;
use std::process::Stdio;

const CERTIFICATES: &str = r#"
set -e
openssl ecparam -name prime256v1 -genkey -noout -out one.key
openssl req -x509 -new -key one.key -subj "/O=Test/CN=one.example" -days 30 -out one.pem
printf 'GET /told HTTP/1.0\r\n\r\n' > get
printf 'GET /passed HTTP/1.0\r\n\r\n' > passed
printf 'POST /told HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi' > post
"#;

fn configuration(address: &str) -> String {
    format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log info; events {{}}\n\
         http {{ access_log off; ssl_protocols TLSv1.2 TLSv1.3; ssl_early_data on;\n\
         ssl_certificate ../one.pem; ssl_certificate_key ../one.key;\n\
         server {{ listen {address}:80; location / {{ return 200 \"asked early=$http_early_data\\n\"; }} }}\n\
         server {{ listen {address}:443 ssl;\n\
           location /told {{ return 200 \"$request_method early=$ssl_early_data $ssl_session_reused\\n\"; }}\n\
           location /late {{ return 425; }}\n\
           location /passed {{ proxy_pass http://127.0.0.2:80; proxy_set_header Early-Data $ssl_early_data; }} }}\n\
         server {{ listen {address}:8443 ssl; ssl_early_data off; return 200 \"off\\n\"; }}\n\
         }}\n"
    )
}

/// A session is begun, and then gone on with by what is in a file. Who is not answered waits for so
/// many seconds.
const WORDS: &str = r#"
client() { timeout ${LIMIT:-20} openssl s_client -ign_eof -connect $A:${PORT:-443} "$@" 2>&1; }
told() { grep -aoE '^(New|Reused), TLSv1..|^Early data was [a-z ]*|^[A-Z]+ early=.*|^asked early=.*|^off$'; }
begin() { client -sess_out $T/session "$@" < get | told; }
early() { file=$1; shift; client -sess_in $T/session -early_data $file "$@" < /dev/null | told; }
"#;

fn ask(folder: &Path, (name, address): (&str, &str), line: &str) -> String {
    let script = format!("A={address}\nT={name}\n{WORDS}\n{line}\n");
    sh_output(folder, &script).0
}

#[test]
fn requests_come_before_their_handshake_is_over() {
    in_namespace(&[NGINX, OPENSSL], || {
        let folder = scratch("nginx-early").join("asked");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        sh(&folder, CERTIFICATES, "");
        let running = start_sides(&folder, configuration, 443);
        for side in SIDES {
            is_asked_early(&folder, side, ("get", "GET early=1 r", "GET early= r"));
        }
        for side in OURS.map(|at| SIDES[at]) {
            let name = side.0;
            is_asked_early(&folder, side, ("passed", "asked early=1", "asked early="));
            is_asked_early(&folder, side, ("get", "GET early=1 r", "GET early= r"));
            // Who sends it again is not believed, and asked for a whole handshake.
            let again = ask(&folder, side, "LIMIT=5 early get");
            assert!(again.contains("New, TLSv1.3") && again.contains("Early data was rejected"), "{name}: {again}");
            assert!(!again.contains("GET early"), "{name}: {again}");
            // What changes something waits until the handshake is over.
            let posted = ask(&folder, side, "begin -tls1_3 > /dev/null; early post");
            assert!(posted.contains("accepted") && posted.contains("POST early= r"), "{name}: {posted}");
            let of_older = ask(&folder, side, "begin -tls1_2; client -tls1_2 -sess_in $T/session < get | told");
            assert!(of_older.contains("Reused, TLSv1.2"), "{name}: {of_older}");
            let off = ask(&folder, side, "PORT=8443 begin -tls1_3; LIMIT=5 PORT=8443 early get");
            assert!(!off.contains("accepted"), "{name}: {off}");
        }
        for (name, address) in SIDES {
            load_is_made_early(name, address);
        }
        for running in running {
            running.stop();
        }
    });
}

/// How often a request is sent before its handshake's end until it is asked before it.
const ATTEMPTS: usize = 50;

/// A request of a session that was begun is accepted, and is asked while the handshake goes on: on a
/// busy machine the client's last message of it may have come before the server looks, and then the
/// request is one as any other.
fn is_asked_early(folder: &Path, side: (&str, &str), (file, early, late): (&str, &str, &str)) {
    let begun = "New, TLSv1.3\nEarly data was not sent\nGET early= .\n";
    let answered = |answer: &str| format!("Reused, TLSv1.3\nEarly data was accepted\n{answer}\n");
    for _ in 0..ATTEMPTS {
        assert_eq!(ask(folder, side, "begin -tls1_3"), begun, "{}", side.0);
        let told = ask(folder, side, &format!("early {file}"));
        if sorted(&told) == sorted(&answered(early)) {
            return;
        }
        assert_eq!(sorted(&told), sorted(&answered(late)), "{}", side.0);
    }
    panic!("{}: no request of {ATTEMPTS} was asked before its handshake's end", side.0);
}

/// `nearside load` sends requests so, and tells what came of them.
fn load_is_made_early(name: &str, address: &str) {
    let load = |at: &str| {
        let mut command = Nearside::command(["load", &format!("https://{address}:{at}"), "--json"]);
        let flags = "--insecure --sni one.example --close --resume --early-data -c 4 -n 60 -d 20s --warmup 0s \
                     --threads 1 --cores none --progress none";
        let ran = command.args(flags.split_whitespace()).stdin(Stdio::null()).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
        let errors = json["errors"].as_object().is_some_and(|all| all.values().any(|count| *count != 0));
        assert!(!errors, "{name}: {json} {}", String::from_utf8_lossy(&ran.stderr));
        let of = |pointer: &str| json.pointer(pointer).and_then(serde_json::Value::as_u64).unwrap_or(u64::MAX);
        let early = ["accepted", "rejected", "too_early"].map(|what| of(&format!("/secured/early/{what}")));
        (early, of("/statuses/success"), of("/statuses/client_error"))
    };
    let ([accepted, rejected, too_early], success, refused) = load("443/told");
    assert!(accepted >= 20 && rejected == 0 && too_early == 0, "{name}: {accepted}, {rejected}, {too_early}");
    assert!(success >= 60 && refused == 0, "{name}: {success}, {refused}");
    // Those before the window are among them.
    let ([accepted, _, too_early], success, refused) = load("443/late");
    assert!(accepted >= 20 && too_early >= refused && refused >= 60 && success == 0, "{name}: {too_early}, {refused}");
    // Where there is none, it is a session as any other.
    assert_eq!(load("8443/").0, [0; 3], "{name}");
}

/// The client tells of its session and prints answers in the order in which they come.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}
