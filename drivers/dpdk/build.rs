//! Compiles the C shim against the distribution's DPDK, where that is asked for.

use std::process::Command;

/// The libraries whose functions the shim calls. Drivers are not among them:
/// DPDK loads them from its own folder when it starts.
const LIBRARIES: [&str; 6] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_net", "rte_eal"];

/// Debian 12's. DPDK keeps its interfaces for a year, so what is older was
/// never tried.
const OLDEST: &str = "22.11";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-changed=src/stamps.c");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG");
    if std::env::var_os("CARGO_FEATURE_LIBDPDK").is_none() {
        return;
    }
    let _ = pkg_config(&format!("--atleast-version={OLDEST}"));
    let mut shim = cc::Build::new();
    shim.files(["src/shim.c", "src/stamps.c"]).warnings(true).flag("-std=gnu11").opt_level(3);
    // Its headers warn of themselves.
    shim.flag("-Wno-unused-parameter").flag("-Wno-deprecated-declarations");
    for flag in pkg_config("--cflags").split_whitespace() {
        // Taken as a system's headers, whose warnings are not ours to mend.
        match flag.strip_prefix("-I") {
            Some(folder) => shim.flag("-isystem").flag(folder),
            None => shim.flag(flag),
        };
    }
    shim.compile("nearside_dpdk_shim");
    for folder in pkg_config("--libs-only-L").split_whitespace() {
        println!("cargo:rustc-link-search=native={}", folder.trim_start_matches("-L"));
    }
    for library in LIBRARIES {
        println!("cargo:rustc-link-lib={library}");
    }
}

/// What pkg-config says of libdpdk.
fn pkg_config(question: &str) -> String {
    let program = std::env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let advice =
        format!("DPDK {OLDEST} or later is needed: on Debian, apt-get install libdpdk-dev dpdk-dev pkg-config");
    let output = Command::new(program).args([question, "libdpdk"]).output();
    let output = output.unwrap_or_else(|why| panic!("pkg-config does not start: {why}. {advice}"));
    assert!(output.status.success(), "{}{advice}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
