//! What a server's memory holds of a connection's keys: some while the connection lives, and
//! nothing once it has ended.

use crate::NGINX;
use crate::secured::{OPENSSL, OURS, SIDES, command, sh, sh_output};
use interop::{Running, in_namespace, scratch};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CERTIFICATES: &str = r#"
set -e
openssl ecparam -name prime256v1 -genkey -noout -out one.key
openssl req -x509 -new -key one.key -subj "/O=Test/CN=one.example" -days 30 -out one.pem
"#;

fn configuration(address: &str) -> String {
    format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log; events {{}}\n\
         http {{ access_log off; ssl_certificate ../one.pem; ssl_certificate_key ../one.key;\n\
         server {{ listen {address}:443 ssl; return 200 \"answered\\n\"; }} }}\n"
    )
}

/// A client whose connection stays until it is dropped, and that has told its secrets.
struct Client {
    child: Child,
}

impl Client {
    fn ask(folder: &Path, (name, address): (&str, &str)) -> Self {
        let mut client = Command::new("openssl");
        client.args(["s_client", "-quiet", "-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"]);
        client.args(["-keylogfile", &format!("{name}/secrets"), "-connect", &format!("{address}:443")]);
        client.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = client.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let (mut said, mut piece) = (Vec::new(), [0; 1_024]);
        while !said.ends_with(b"answered\n") {
            let read = child.stdout.as_mut().unwrap().read(&mut piece).unwrap();
            assert!(read > 0, "{name}: {}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&piece[..read]);
        }
        Self { child }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The secrets of both directions, and the keys that they stand for (RFC 8446 section 7.3).
fn pieces(folder: &Path, name: &str) -> Vec<(String, Vec<u8>)> {
    let told = fs::read_to_string(folder.join(name).join("secrets")).unwrap();
    let mut pieces = Vec::new();
    for label in ["CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"] {
        let line = told.lines().rfind(|line| line.starts_with(label)).expect("a secret");
        let secret = line.rsplit(' ').next().unwrap_or_default();
        let derive = format!(
            "openssl kdf -keylen 16 -kdfopt digest:SHA256 -kdfopt mode:EXPAND_ONLY -kdfopt hexkey:{secret} \
             -kdfopt hexinfo:001009746c733133206b657900 -binary HKDF | od -An -v -tx1 | tr -d ' \\n'"
        );
        let (key, _) = sh_output(folder, &derive);
        assert_eq!(key.len(), 32, "{key}");
        pieces.push((label.to_owned(), bytes_of(secret)));
        pieces.push((format!("the key of {label}"), bytes_of(&key)));
    }
    pieces
}

fn bytes_of(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks_exact(2).map(|two| (two[0] << 4 | two[1]) as u8).collect()
}

/// How often each stands in what the processes can write to.
fn count(pids: &[u32], pieces: &[(String, Vec<u8>)]) -> Vec<usize> {
    let mut counts = vec![0; pieces.len()];
    for pid in pids {
        let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { continue };
        let memory = fs::File::open(format!("/proc/{pid}/mem")).expect("root may");
        for line in maps.lines().filter(|line| line.contains(" rw")) {
            let range = line.split(' ').next().and_then(|range| range.split_once('-')).unwrap_or_default();
            let [from, to] = [range.0, range.1].map(|text| u64::from_str_radix(text, 16).unwrap_or(0));
            // What a part of cannot be read is read by pages.
            let mut at = from;
            while at < to {
                let mut bytes = vec![0; (to - at).min(1 << 20) as usize];
                let read = memory.read_at(&mut bytes, at).unwrap_or(0);
                for (count, (_, piece)) in counts.iter_mut().zip(pieces) {
                    *count += memchr::memmem::find_iter(&bytes[..read], piece).count();
                }
                // One on the border is read again with the next.
                at += if read > 64 { read as u64 - 48 } else { 4_096 };
            }
        }
    }
    counts
}

/// A process and those that it has started.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while at < all.len() {
        let threads = fs::read_dir(format!("/proc/{}/task", all[at])).into_iter().flatten().flatten();
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
    }
    all
}

#[test]
fn a_connection_that_has_ended_leaves_no_keys() {
    in_namespace(&[NGINX, OPENSSL], || {
        let folder = scratch("nginx-keys").join("looked");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        sh(&folder, CERTIFICATES, "");
        for (name, address) in OURS.map(|at| SIDES[at]) {
            let own = folder.join(name);
            fs::create_dir_all(own.join("logs")).unwrap();
            fs::write(own.join("nginx.conf"), configuration(address)).unwrap();
            let mut running = Running::start(&mut command(name, &own));
            running.wait_until_open(&format!("{address}:443"));
            let client = Client::ask(&folder, (name, address));
            let (pids, pieces) = (family(running.id()), pieces(&folder, name));
            for (count, (what, _)) in count(&pids, &pieces).iter().zip(&pieces) {
                assert!(*count > 0, "{name}: a live connection has {what}");
            }
            drop(client);
            let mut left = vec![1];
            for _ in 0..20 {
                left = count(&pids, &pieces);
                if left.iter().all(|count| *count == 0) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(500));
            }
            assert_eq!(left, [0; 4], "{name}");
            running.stop();
        }
    });
}
