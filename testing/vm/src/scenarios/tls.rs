//! Records that the kernel seals (kTLS), with clients that open them by OpenSSL.

use super::Scenario;
use crate::Failure;
use crate::guest::{Guest, Running, nearside, output, wait_for, write_file};
use crate::machine::{Domain, Machine};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "tls",
    about: "kTLS: long files go sealed by the kernel, whole, with every version and cipher, also to slow clients",
    machines: &[Machine {
        name: "one domain, clients on the machine itself",
        domains: &[Domain { cores: 2, memory: 768 }],
        ports: &[],
    }],
    modules: &["tls", "gcm", "ghash_generic", "chacha20poly1305", "chacha_generic", "poly1305_generic"],
    limit: Duration::from_secs(600),
    prove,
};

const FOLDER: &str = "/tmp/tls";
const LONG: usize = 3_000_000;
/// Too long to be held in memory, and short enough for little room.
const MIDDLE: usize = 1_300_000;
const SMALL: usize = 1_000;
/// Ports of three servers: one as it comes, one that has kTLS ruled out, and one with little
/// room to send.
const KERNEL: u16 = 443;
const USER: u16 = 444;
const NARROW: u16 = 445;

/// As curl is to be told them.
const SUITES: [(&str, [&str; 2]); 6] = [
    ("1.2", ["--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"]),
    ("1.2", ["--ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384"]),
    ("1.2", ["--ciphers", "ECDHE-ECDSA-CHACHA20-POLY1305"]),
    ("1.3", ["--tls13-ciphers", "TLS_AES_128_GCM_SHA256"]),
    ("1.3", ["--tls13-ciphers", "TLS_AES_256_GCM_SHA384"]),
    ("1.3", ["--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256"]),
];

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    prepare()?;
    let mut server = Running::start(nearside(["nginx", "-p", FOLDER, "-c", "nginx.conf"]).args(["-g", "daemon off;"]))?;
    server.wait_until_said("by the kernel (kTLS)")?;
    let mut kernel = 0;
    for (version, suite) in SUITES {
        fetch(KERNEL, version, suite, (LONG, &[])).map_err(|why| server.blame(why))?;
        kernel += 1;
        expect(&server, kernel)?;
        fetch(USER, version, suite, (LONG, &[])).map_err(|why| server.blame(why))?;
        expect(&server, kernel)?;
        guest.say(format!("TLS {version}, {}: whole, sealed by the kernel and by us", suite[1]))?;
        // What the kernel has sealed and not sent is not cut off by the end.
        let slow = ["--limit-rate", "2M", "-H", "Connection: close"];
        fetch(NARROW, version, suite, (MIDDLE, &slow)).map_err(|why| server.blame(why))?;
        // Three files, and each on a connection of its own: two of them are long.
        kernel += 2;
        expect(&server, kernel)?;
        guest.say(format!("TLS {version}, {}: whole, to a slow client over 8 KB, with the end behind it", suite[1]))?;
    }
    for (port, ends) in [(KERNEL, true), (USER, false)] {
        key_update(port, ends).map_err(|why| server.blame(why))?;
    }
    guest.say("a client that updates its keys gets one more answer from the kernel's, and any number from ours")?;
    server.stop()?;
    Ok(())
}

fn prepare() -> Result<(), Failure> {
    // Whom a configuration names is looked up.
    fs::write("/etc/passwd", "root:x:0:0::/:/bin/sh\n")?;
    fs::write("/etc/group", "root:x:0:\n")?;
    let folder = Path::new(FOLDER);
    let site = folder.join("site");
    write_file(&site, LONG)?;
    write_file(&site, MIDDLE)?;
    write_file(&site, SMALL)?;
    let file = |name: &str, text: &str| fs::write(folder.join(name), text);
    file("openssl.cnf", "[req]\ndistinguished_name=name\n[name]\n")?;
    let (config, key, certificate) = (folder.join("openssl.cnf"), folder.join("key"), folder.join("certificate"));
    let made = ["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=vm"];
    output(
        Command::new("openssl")
            .args(made)
            .arg("-config")
            .arg(config)
            .arg("-keyout")
            .arg(key)
            .arg("-out")
            .arg(certificate),
    )?;
    let server = |listen: String, more: &str| {
        format!(
            "server {{ listen 127.0.0.1:{listen}; root {FOLDER}/site; {more}\n\
             ssl_certificate {FOLDER}/certificate; ssl_certificate_key {FOLDER}/key;\n\
             ssl_protocols TLSv1.2 TLSv1.3; }}\n"
        )
    };
    let servers = server(format!("{KERNEL} ssl"), "")
        + &server(format!("{USER} ssl"), "ssl_conf_command Options -KTLS;")
        + &server(format!("{NARROW} ssl sndbuf=8k"), "");
    file(
        "nginx.conf",
        &format!(
            "user root;\nworker_processes 1;\nerror_log stderr;\nevents {{}}\nhttp {{ access_log off; sendfile on;\n{servers}}}\n"
        ),
    )?;
    Ok(())
}

/// Has curl fetch a long file, a small one and a long one, on one connection unless it ends.
fn fetch(port: u16, version: &str, suite: [&str; 2], (long, more): (usize, &[&str])) -> Result<(), Failure> {
    let mut curl = Command::new("curl");
    curl.args(["-sSk", &format!("--tlsv{version}"), "--tls-max", version, "-w", "%{num_connects} "]);
    curl.args(suite).args(more);
    let files = [(long, "a"), (SMALL, "b"), (long, "c")];
    for (size, name) in files {
        curl.args(["-o", &format!("/tmp/{name}"), &format!("https://127.0.0.1:{port}/{size}")]);
    }
    let connects = output(&mut curl)?;
    let expected = if more.is_empty() { "1 0 0 " } else { "1 1 1 " };
    if connects != expected {
        return Err(format!("connections for each file: {connects:?}, not {expected:?}").into());
    }
    for (size, name) in files {
        let got = fs::read(Path::new("/tmp").join(name))?;
        if got != fs::read(Path::new(FOLDER).join("site").join(size.to_string()))? {
            return Err(
                format!("the file of {size} bytes from port {port} is another one, of {} bytes", got.len()).into()
            );
        }
    }
    Ok(())
}

/// So many connections are, or were, sealed by the kernel: it says so, and so do we.
fn expect(server: &Running, count: u64) -> Result<(), Failure> {
    let stat = fs::read_to_string("/proc/net/tls_stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("TlsTxSw")).ok_or("no TlsTxSw")?;
    let kernels: u64 = line.trim().parse()?;
    let pages: serde_json::Value = serde_json::from_str(&output(&mut nearside(["status", "--json"]))?)?;
    let silos = pages.as_array().into_iter().flatten().filter_map(|page| page["silos"].as_array()).flatten();
    let ours: u64 = silos.filter_map(|silo| silo["sockets.kernel_tls"].as_u64()).sum();
    if (kernels, ours) == (count, count) {
        return Ok(());
    }
    Err(server.blame(format!("the kernel seals on {kernels} connections, we say {ours}, and {count} it was to be")))
}

/// A client that has a long file, updates its keys and wants ours updated, then asks again.
fn key_update(port: u16, ends: bool) -> Result<(), Failure> {
    let said = Path::new("/tmp/s_client");
    let out = File::create(said)?;
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-tls1_3"])
        .stdin(Stdio::piped())
        .stdout(out.try_clone()?)
        .stderr(out)
        .spawn()?;
    let outcome = (|| {
        let mut stdin = client.stdin.take().ok_or("no way to tell s_client anything")?;
        let ask = |size: usize| format!("GET /{size} HTTP/1.1\r\nHost: vm\r\n\r\n");
        let heard = |what: &str, ready: &dyn Fn(&[u8]) -> bool| {
            wait_for(what, Duration::from_secs(60), || Ok(ready(&fs::read(said)?).then_some(())))
        };
        let has = |bytes: &[u8], words: &str| bytes.windows(words.len()).any(|some| some == words.as_bytes());
        stdin.write_all(ask(LONG).as_bytes())?;
        heard("a long file", &|said| said.len() > LONG)?;
        stdin.write_all(b"K\n")?;
        heard("an update of keys", &|said| has(said, "KEYUPDATE"))?;
        stdin.write_all(ask(SMALL).as_bytes())?;
        let small = format!("Content-Length: {SMALL}\r\n");
        heard("a small file", &|said| has(said, &small))?;
        let closes = has(&fs::read(said)?, "Connection: close");
        if closes != ends {
            return Err(format!(
                "port {port}: the answer behind an update is {}the last",
                if closes { "" } else { "not " }
            )
            .into());
        }
        if ends {
            wait_for("the end", Duration::from_secs(60), || Ok(client.try_wait()?.map(drop)))?;
        }
        Ok(())
    })();
    let _ = client.kill();
    let _ = client.wait();
    outcome
}
