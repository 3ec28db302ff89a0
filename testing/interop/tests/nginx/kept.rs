//! Connections over TLS that were there before a reload: other certificates, other hosts that verify their
//! clients.

use crate::NGINX;
use crate::secured::{Both, CURL, OPENSSL, OURS, SIDES};
use interop::{in_namespace, wait_for};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// One client of OpenSSL's, whose connection stays.
struct Kept {
    child: std::process::Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Kept {
    fn open(address: &str) -> Self {
        Self::open_as(address, "one.example", &[])
    }

    /// The server is told this name, and shown what `more` says.
    fn open_as(address: &str, name: &str, more: &[&str]) -> Self {
        let mut client = Command::new("openssl");
        client.args(["s_client", "-quiet", "-servername", name, "-connect", &format!("{address}:443")]).args(more);
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = client.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    fn ask(&mut self) -> String {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(b"GET /told HTTP/1.1\r\nHost: one.example\r\n\r\n").unwrap();
        stdin.flush().unwrap();
        let mut lines = String::new();
        while !lines.ends_with('\n') || !lines.contains("https on|") {
            assert!(self.out.read_line(&mut lines).unwrap() > 0, "{lines}");
        }
        lines
    }
}

impl Kept {
    /// The status of what is answered for this host.
    fn status(&mut self, host: &str) -> u16 {
        let stdin = self.child.stdin.as_mut().unwrap();
        write!(stdin, "GET /told HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        stdin.flush().unwrap();
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "{host}: no answer");
            if line.trim_end().is_empty() {
                break;
            }
            if status == 0 {
                status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
            } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        self.out.read_exact(&mut vec![0; length]).unwrap();
        status
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_new_certificate_loses_no_connection() {
    in_namespace(&[NGINX, CURL, OPENSSL], || {
        let both = Both::start("reloaded");
        for at in OURS {
            let (name, address) = SIDES[at];
            let mut kept = Kept::open(address);
            assert!(kept.ask().contains("200 OK"));
            let before = both.ask("shown one.example")[at].clone();
            let path = both.folder.join(name).join("nginx.conf");
            let text = fs::read_to_string(&path).unwrap();
            // Certificates that are not there change nothing.
            fs::write(&path, text.replace("../one.", "../nowhere.")).unwrap();
            both.running[at].signal(Signal::HUP);
            let log = both.folder.join(name).join("error.log");
            wait_for("what is wrong", || fs::read_to_string(&log).unwrap_or_default().contains("nowhere.pem"));
            assert_eq!(both.ask("shown one.example")[at], before, "{name}");
            fs::write(&path, text.replace("../one.", "../next.")).unwrap();
            both.running[at].signal(Signal::HUP);
            wait_for("the new certificate", || {
                let now = both.ask("shown one.example")[at].clone();
                now != before && now.contains("CN = one.example")
            });
            assert!(kept.ask().contains("200 OK"), "{name}: it was there before");
        }
        for running in both.running {
            running.stop();
        }
    });
}

/// Which hosts verify their clients is another question after a reload, for connections, too, that were
/// there before.
#[test]
fn hosts_that_verify_are_others_after_a_reload() {
    in_namespace(&[NGINX, CURL, OPENSSL], || {
        let both = Both::start("misdirected");
        for at in OURS {
            let (name, address) = SIDES[at];
            let shown = ["client.pem", "client.key"].map(|file| both.folder.join(file).display().to_string());
            let mut plain = Kept::open(address);
            let mut verified = Kept::open_as(address, "clients.example", &["-cert", &shown[0], "-key", &shown[1]]);
            assert_eq!(["one.example", "two.example"].map(|host| plain.status(host)), [200, 200], "{name}");
            assert_eq!(Kept::open(address).status("clients.example"), 421, "{name}");
            assert_eq!(verified.status("clients.example"), 200, "{name}");
            let path = both.folder.join(name).join("nginx.conf");
            let text = fs::read_to_string(&path).unwrap();
            let verifies = "ssl_client_certificate ../ca.pem; ssl_verify_client on;";
            let (own, one) = (format!("{verifies} return"), "server_name one.example;");
            assert!(text.contains(&own) && text.contains(one));
            let next = text.replace(&own, "return").replace(one, &format!("{one} {verifies}"));
            fs::write(&path, next).unwrap();
            both.running[at].signal(Signal::HUP);
            wait_for("the other host to verify", || Kept::open(address).status("one.example") == 400);
            assert_eq!(Kept::open_as(address, "clients.example", &[]).status("clients.example"), 200, "{name}");
            assert_eq!(plain.status("clients.example"), 200, "{name}");
            assert_eq!(plain.status("one.example"), 400, "{name}: it showed nothing");
            // What it showed was for another host.
            assert_eq!(verified.status("clients.example"), 200, "{name}");
            assert_eq!(verified.status("one.example"), 421, "{name}");
        }
        for running in both.running {
            running.stop();
        }
    });
}
