//! What is said of wrong configurations, beside what nginx says of the same.
//! Without nginx on this machine nothing is compared.

use nginx::{Configuration, Disk};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of its own, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("sites")).unwrap();
        Self(path)
    }

    /// What both say of a configuration: the first reason to refuse it.
    fn asked(&self, text: &[u8]) -> Option<(Option<String>, Option<String>)> {
        let path = self.0.join("nginx.conf");
        std::fs::write(&path, text).unwrap();
        let folder = self.0.display();
        let mut nginx = Command::new("/usr/sbin/nginx");
        // What the configuration says itself must not be said twice.
        nginx.args(["-t", "-p", &format!("{folder}/"), "-e", "stderr", "-c"]).arg(&path);
        let told = String::from_utf8_lossy(&nginx.output().ok()?.stderr).into_owned();
        // Behind the time and the level stand the process and its thread.
        let said = |line: &str| Some(format!("[emerg] {}", line.split_once("[emerg] ")?.1.split_once(": ")?.1));
        let theirs = told.lines().find_map(said);
        let ours = Configuration::read(&mut Disk, &path, b"").err().map(|why| why.to_string());
        Some((ours, theirs))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts of reasons that belong to the language.
const OURS: [&str; 9] = [
    "unexpected ",
    "unknown directive",
    "invalid number of arguments",
    "too long parameter",
    "\"include\"",
    "open()",
    "pread()",
    "directive \"",
    "block directives",
];

/// Ends, before the place.
const OUR_ENDS: [&str; 6] = [
    "directive is not allowed here",
    "directive is duplicate",
    "directive invalid value",
    "directive invalid number",
    "it must be \"on\" or \"off\"",
    "value must be between 1 and 9",
];

fn is_ours(said: &str) -> bool {
    let text = said.trim_start_matches("[emerg] ");
    let text = text.rsplit_once(" in ").map_or(text, |(text, _)| text);
    OURS.iter().any(|start| text.starts_with(start)) || OUR_ENDS.iter().any(|end| text.ends_with(end))
}

#[test]
fn wrong_configurations_are_refused_in_the_same_words() {
    let folder = Folder::new("beside-nginx");
    std::fs::write(folder.0.join("sites/a.conf"), "server {\n  listen 127.0.0.1:18080;\n  root\n}\n").unwrap();
    let long = format!("http {{ log_format a \"{}\"; }}", "x".repeat(5000));
    for text in [
        "evnets {}",
        "events { }\nhttp { server { listen 80 } }",
        "events { worker_connections 1; worker_connections 2; }",
        "events {}\nhttp {\n  sendfile maybe;\n}",
        "events {}\nhttp {\n  client_header_timeout 1s1m;\n}",
        "events {}\nhttp {\n  client_header_timeout 1x;\n}",
        "events {}\nhttp {\n  client_max_body_size 1t;\n}",
        "events {}\nhttp {\n  client_max_body_size 1g;\n client_max_body_size 1g; }",
        "events {}\nhttp {\n  large_client_header_buffers 0 1k;\n}",
        "events {}\nhttp {\n  gzip_comp_level 0;\n}",
        "events {}\nhttp {\n  gzip_comp_level x;\n}",
        "events {}\nhttp {\n  keepalive_disable opera;\n}",
        "events {}\nhttp {\n  limit_rate 1x;\n}",
        "events {}\nhttp {\n  dav_access world:rw;\n}",
        "events {}\nhttp {\n  client_body_temp_path /tmp/x 0;\n}",
        "events {}\nhttp {\n  etag on off;\n}",
        "events {}\nhttp { location / {} }",
        "events {}\nhttp { server { location / { server_name x; } } }",
        "events {}\nhttp { server { if ($host) { root /x; } } }",
        "events {}\nhttp { server { location / { if ($host) { alias /x; } } } }",
        "events {}\nhttp { server { location / { limit_except GET { gzip on; } } } }",
        "events {}\nhttp { upstream a { listen 80; } }",
        "events {}\nhttp { types { text/html html; include; } }",
        "events {}\nhttp { map $a $b { x { } } }",
        "events {}\nhttp { include sites/*.conf; }",
        "events {}\nhttp { include gone/*.conf; include gone.conf; }",
        "events {}\nhttp {\n",
        "events {}\n}\n",
        "events {}; http {}",
        "events {} http \"{}\";",
        "events {} pid \"a\"b;",
        "events {} pid \"a",
        "events {} pid 'a;\n\n",
        "# only this",
        "events {}\nhttp {\n  set_real_ip_from;\n}",
        "events {}\nhttp { server { return; } }",
        "events {}\nhttp { server { return 200 ${a b}; } }",
        "daemon on;\ndaemon off;",
        "http",
        &long,
    ] {
        let Some((ours, theirs)) = folder.asked(text.as_bytes()) else {
            eprintln!("left out: there is no nginx here");
            return;
        };
        match (&ours, &theirs) {
            // What directives mean together is not of the language.
            (None, Some(theirs)) => assert!(!is_ours(theirs), "{text}\n{theirs}"),
            _ => assert_eq!(ours, theirs, "{text}"),
        }
    }
}

/// A configuration of everyday, with something taken out, put in or doubled.
#[test]
fn what_is_spoilt_at_random_is_refused_in_the_same_words() {
    const WHOLE: &str = include_str!("everyday.conf");
    const PIECES: [&str; 16] =
        ["{", "}", ";", "\"", "'", "\\", "$", "${", "#", "\n", " ", "on", "x", ")", "1", "server {"];
    let folder = Folder::new("spoilt-nginx");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..200 {
        let mut text = WHOLE.to_owned();
        for _ in 0..=random(2) {
            let at = random(text.len());
            match random(3) {
                0 => text.insert_str(at, PIECES[random(PIECES.len())]),
                1 => _ = text.remove(at),
                _ => {
                    let lines: Vec<&str> = text.lines().collect();
                    let from = random(lines.len());
                    let line = lines[from].to_owned();
                    let to = random(lines.len());
                    let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
                    lines.insert(to, line);
                    text = lines.join("\n");
                }
            }
        }
        let Some((ours, theirs)) = folder.asked(text.as_bytes()) else { return };
        match (&ours, &theirs) {
            (None, None) => taken += 1,
            (Some(ours), Some(theirs)) if is_ours(theirs) => {
                assert_eq!(ours, theirs, "{text}");
                refused += 1;
            }
            // Something that is not of the language came first, or alone.
            (_, Some(theirs)) => assert!(!is_ours(theirs), "{theirs}\n{text}"),
            (Some(ours), None) => panic!("nginx takes it: {ours}\n{text}"),
        }
    }
    assert!(refused > 50 && taken > 10, "{refused} refused, {taken} taken");
}
