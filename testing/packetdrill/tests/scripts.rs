//! The scripts, where packetdrill is: in PATH, or where `PACKETDRILL` says.
//! Debian has no package of it, so where it is not, this says so, and the
//! tests of `tests/interface`, which make the same calls and see the same
//! packets, stand alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The address families that packetdrill runs every script in, with the
/// addresses that the library has by default.
const FAMILIES: [&[&str]; 3] = [
    &["--ip_version=ipv4", "--local_ip=192.168.0.1", "--netmask_ip=255.255.0.0", "--remote_ip=192.0.2.1"],
    &["--ip_version=ipv4-mapped-ipv6", "--local_ip=192.168.0.1", "--netmask_ip=255.255.0.0", "--remote_ip=192.0.2.1"],
    &["--ip_version=ipv6", "--local_ip=fd3d:0a0b:17d6::1", "--remote_ip=fd3d:fa7b:d17d::1"],
];

#[test]
fn scripts_pass() {
    let Some(program) = packetdrill() else {
        eprintln!("packetdrill is not in PATH, nor does PACKETDRILL say where: its scripts are left out");
        return;
    };
    let mut scripts: Vec<_> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    let mut failed = Vec::new();
    for script in &scripts {
        for family in FAMILIES {
            if is_of_ipv4(script) && family[0] == "--ip_version=ipv6" {
                continue;
            }
            let Output { status, stdout, stderr } = Command::new(&program)
                .args(family)
                .args(["--so_flags=timestamps=off", "--send_omit_free"])
                .arg(format!("--so_filename={}", library().display()))
                .arg(script)
                // For code blocks: see the library's `preload`.
                .env("LD_PRELOAD", library())
                .output()
                .unwrap();
            if !status.success() {
                let said = [stdout, stderr].concat();
                failed.push(format!("{} {}: {}", script.display(), family[0], String::from_utf8_lossy(&said)));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Scripts whose names say so are not for IPv6: ICMP differs.
fn is_of_ipv4(script: &Path) -> bool {
    script.to_string_lossy().ends_with(".v4.pkt")
}

/// What `PACKETDRILL` says is run or the test fails; it is not passed over.
fn packetdrill() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("PACKETDRILL") {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("packetdrill")).find(|file| file.is_file())
}

/// The shared library, which cargo puts beside the tests.
fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let file = tests.parent().unwrap().join("libpacketdrill_nearside.so");
    assert!(file.is_file(), "there is no {}", file.display());
    file
}
