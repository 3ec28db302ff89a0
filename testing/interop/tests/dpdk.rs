//! `nearside serve` over virtual devices of the distribution's DPDK, with the
//! kernel's TCP and our own generator as peers.

use interop::{
    ADDRESSES, Nearside, Program, Running, SITE_LARGE, STACK, has_libdpdk, in_namespace, ip, output, sha256, site,
    wait_for,
};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const CURL: Program = Program::new("curl", "curl");
const ETHTOOL: Program = Program::new("ethtool", "ethtool");

/// What the program is built with: the library's headers come with a program
/// of the same package only where DPDK itself has one.
const DPDK: [Program; 2] =
    [Program::new("pkg-config", "pkg-config libdpdk-dev"), Program::new("dpdk-testpmd", "dpdk-dev")];

/// Runs anywhere: without huge pages.
const ORDINARY: &str = "huge=off,memory=192";

/// Whether there is what the program is built with; says so if not.
fn has_library() -> bool {
    let found = has_libdpdk();
    if !found {
        assert!(std::env::var_os("CI").is_none(), "cannot run: apt-get install libdpdk-dev");
        println!("skipped: libdpdk is not installed; run: apt-get install libdpdk-dev");
    }
    found
}

fn serve(link: &str, content: &[&str]) -> Running {
    let link = format!("dpdk:{link},{ORDINARY}");
    let mut command = Nearside::command(["serve", "--listen", "80", "--link", &link]);
    Running::start(command.args(ADDRESSES).args(content))
}

/// Fetches the large file by both families, whole.
fn fetch_large() {
    let (name, size) = SITE_LARGE;
    let expected = sha256(File::open(site().join(name)).unwrap());
    for host in STACK {
        let mut curl = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--globoff", "--max-time", "300"])
            .args(["--write-out", "%{stderr}%{http_code} %{size_download}"])
            .arg(format!("http://{host}/{name}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let got = sha256(curl.stdout.take().unwrap());
        let curl = curl.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&curl.stderr);
        assert!(curl.status.success(), "{}: {said}", curl.status);
        assert_eq!((said.as_ref(), got.as_str()), (format!("200 {size}").as_str(), expected.as_str()));
    }
}

/// Segments that the kernel found wrong.
fn checksum_errors() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "InCsumErrors").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

/// DPDK's af_packet takes frames off one end of a veth; the kernel's TCP is at
/// the other.
#[test]
fn curl_fetches_over_af_packet() {
    in_namespace(&[DPDK[0], DPDK[1], CURL, ETHTOOL], || {
        if !has_library() {
            return;
        }
        ip("link add kernel0 type veth peer name near0");
        ip("addr add 10.9.0.1/24 dev kernel0");
        ip("addr add fd09::1/64 dev kernel0 nodad");
        // The packet socket would be given checksums that nobody finished, and segments that nobody cut.
        for end in ["kernel0", "near0"] {
            let _ = output(Command::new("ethtool").args(["-K", end, "tx", "off", "tso", "off", "gso", "off"]));
        }
        ip("link set kernel0 up");
        ip("link set near0 up");
        let mut server = serve("net_af_packet0,dev.iface=near0", &[site().to_str().unwrap()]);
        server.wait_until_open("10.9.0.2:80");
        fetch_large();
        assert_eq!(checksum_errors(), 0);
        server.stop();
    });
}

/// DPDK's tap has checksums and segmentation: what the kernel gets is as a
/// port's hardware would have made it.
#[test]
fn curl_fetches_what_the_port_cut_and_summed() {
    in_namespace(&[DPDK[0], DPDK[1], CURL], || {
        if !has_library() {
            return;
        }
        let mut server = serve("net_tap0,dev.iface=kernel0", &[site().to_str().unwrap()]);
        wait_for("the interface", exists);
        ip("addr add 10.9.0.1/24 dev kernel0");
        ip("addr add fd09::1/64 dev kernel0 nodad");
        ip("link set kernel0 up");
        server.wait_until_open("10.9.0.2:80");
        fetch_large();
        assert_eq!(checksum_errors(), 0);
        server.stop();
    });
}

/// Whether the interface is in this thread's namespace, whichever one sysfs
/// shows.
fn exists() -> bool {
    let list = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    list.lines().any(|line| line.trim_start().starts_with("kernel0:"))
}

fn socket(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("nearside-dpdk-{}-{name}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// Our generator over our own memif, and the server over DPDK's.
#[test]
fn our_generator_is_served_over_memif() {
    in_namespace(&DPDK, || {
        if !has_library() {
            return;
        }
        for (role, ours, more) in
            [("client", "server", ""), ("client", "server", ",dev.zero-copy=yes"), ("server", "client", "")]
        {
            let path = socket(&format!("{role}{}", more.len()));
            let theirs = format!(
                "net_memif0,dev.role={role},dev.socket={},dev.socket-abstract=no,dev.rsize=9{more}",
                path.display()
            );
            let content = ["--respond", "2649"];
            // Whoever listens is first: DPDK's client tries once.
            let first = (role == "server").then(|| serve(&theirs, &content));
            if first.is_some() {
                wait_for("DPDK to listen", || path.exists());
            }
            let link = format!("memif:{},role={ours}", path.display());
            let mut load = Nearside::command(["load", "http://10.9.0.2/", "--link", &link, "--addr", "10.9.0.1/24"]);
            load.args(["--connections", "64", "--warmup", "100ms", "--requests", "20k", "--json"]);
            let load = load.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            wait_for("the generator to listen, or DPDK", || path.exists());
            let server = first.unwrap_or_else(|| serve(&theirs, &content));
            let report = load.wait_with_output().unwrap();
            let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("a report");
            assert_eq!(report["statuses"]["success"].as_u64(), Some(20_000), "{role}{more}: {report:#}");
            let errors = report["errors"].as_object().expect("a list of errors");
            assert!(errors.values().all(|count| count.as_u64() == Some(0)), "{role}{more}: {report:#}");
            server.stop();
        }
    });
}

/// A device that is not there is refused with those that are; a program
/// without DPDK, where the library is not installed, says how to get it.
#[test]
fn a_link_that_cannot_be_had_says_what_to_do() {
    in_namespace(&DPDK, || {
        let refused = |mut command: Command| {
            let end = command.args(ADDRESSES).args(["--respond", "x"]).output().unwrap();
            assert!(!end.status.success());
            String::from_utf8_lossy(&end.stderr).into_owned()
        };
        if has_library() {
            let absent = refused(Nearside::command(["serve", "--link", "dpdk:ffff:1f:1f.7"]));
            assert!(absent.contains("there is no network device ffff:1f:1f.7"), "{absent}");
            let device = refused(Nearside::command(["serve", "--link", "dpdk:net_nonsense0,huge=off"]));
            assert!(device.contains("does not take the device"), "{device}");
            let alone = format!(
                "dpdk:net_memif0,dev.role=client,dev.socket={},dev.socket-abstract=no,huge=off",
                socket("alone").display()
            );
            let alone = refused(Nearside::command(["serve", "--link", &alone]));
            assert!(alone.contains("start the other side first"), "{alone}");
        } else {
            let without = refused(Nearside::command(["serve", "--link", "dpdk:net_null0"]));
            assert!(without.contains("make build DPDK=1"), "{without}");
        }
    });
}

/// What `nearside links` prints of the machine that the tests run on.
#[test]
fn links_are_listed_for_people_and_programs() {
    in_namespace(&[], || {
        ip("link add kernel0 type veth peer name near0");
        let text = output(&mut Nearside::command(["links"]));
        assert!(text.starts_with("link ") && text.contains("memif:SOCKET"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&output(&mut Nearside::command(["links", "--json"]))).expect("JSON");
        let links: Vec<&str> = json.as_array().unwrap().iter().filter_map(|entry| entry["link"].as_str()).collect();
        assert!(["memif:SOCKET", "tap:NAME", "dpdk:DRIVER"].iter().all(|link| links.contains(link)), "{links:?}");
    });
}
