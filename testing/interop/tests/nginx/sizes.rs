//! Memory that no machine has, in a configuration: what cannot be mapped is refused in
//! nginx's words, by a test that takes little memory itself.

use crate::NGINX;
use interop::{Nearside, in_namespace, scratch};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Of address space, in KiB: a zone beyond it cannot be mapped.
const SPACE: u32 = 2_000_000;

/// What both say of a configuration: whether it is good, and the first complaint.
fn said(program: &[&str], conf: &Path) -> (bool, Option<String>) {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {SPACE}; ulimit -c 0; exec \"$@\""), "sh"]);
    let output = command.args(program).args(["-t", "-c"]).arg(conf).output().expect("sh starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let complaint = text.lines().find(|line| ["[emerg]", "[alert]"].iter().any(|level| line.contains(level)));
    // Where an error log is open already, nginx says it with the time and its number.
    let complaint = complaint.map(|line| {
        let (head, what) = line.split_once("] ").unwrap_or_default();
        let what =
            if line.starts_with("nginx: ") { what } else { what.split_once(": ").map_or(what, |(_, what)| what) };
        format!("{}] {what}", head.rsplit('[').next().unwrap_or_default())
    });
    let verdict = if output.status.success() { "is successful" } else { "test failed" };
    assert!(text.contains(verdict), "{program:?} {:?}: {text}", output.status);
    (output.status.success(), complaint)
}

#[test]
fn what_cannot_be_mapped_is_refused_in_nginxs_words() {
    in_namespace(&[NGINX], || {
        let folder = scratch("nginx-sizes");
        let conf = folder.join("nginx.conf");
        let ours = Nearside::command(["nginx"]);
        let ours = [ours.get_program().to_str().unwrap(), "nginx"];
        for (good, http) in [
            (false, "limit_req_zone $arg_k zone=a:4000000m rate=1r/s; limit_conn_zone $arg_k zone=b:4000000m;"),
            (false, "limit_req_zone $arg_k zone=a:3000m rate=1r/s;"),
            (false, "limit_conn_zone $arg_k zone=b:3000m;"),
            // Each fits alone.
            (false, "limit_conn_zone $arg_k zone=b:1200m; limit_req_zone $arg_k zone=c:1200m rate=1r/s;"),
            (false, "upstream up { zone up 4000000m; server 127.0.0.1:9; }"),
            (false, "ssl_session_cache shared:a:4000000m;"),
            (true, "limit_req_zone $arg_k zone=a:1000m rate=1r/s; limit_conn_zone $arg_k zone=b:200m;"),
            (true, "limit_req_zone $arg_k zone=a:32k rate=9223372036854775807r/s;"),
        ] {
            let place = |name: &str| folder.join(name).display().to_string();
            let text = format!(
                "pid {}; error_log stderr; events {{}}\nhttp {{ access_log off; client_body_temp_path {};\n\
                 {http}\nserver {{ listen 127.0.0.1:18085; }} }}\n",
                place("pid"),
                place("body")
            );
            fs::write(&conf, text).unwrap();
            let (theirs, ours) = (said(&["nginx"], &conf), said(&ours, &conf));
            assert_eq!(ours.0, good, "{http}: {ours:?}");
            // Newer ones, and those built otherwise, know other limits of rates.
            if !good {
                assert_eq!(ours, theirs, "{http}");
            }
        }
        // A site of our own, too.
        let site = folder.join("site.toml");
        fs::write(
            &site,
            "[limits.a]\nrate = \"1r/s\"\nmemory = \"4000000m\"\n[[host]]\nlisten = \"127.0.0.1:18085\"\n",
        )
        .unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {SPACE}; ulimit -c 0; exec \"$@\""), "sh", ours[0]]);
        let output = command.args(["serve", "--check", "--site"]).arg(&site).output().expect("sh starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("mmap(MAP_ANON|MAP_SHARED, 4194304000000) failed"), "{said}");
    });
}
