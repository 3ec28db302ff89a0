//! curl on the kernel's TCP fetches from `nearside serve` over a TAP.

use interop::{
    Nearside, Program, Running, SITE_LARGE, SITE_SMALL, STACK, TAP, in_namespace, ip, output, scratch, sha256, site,
};
use std::fs::File;
use std::process::{Command, Stdio};

const CURL: Program = Program::new("curl", "curl");
const TSHARK: Program = Program::new("tshark", "tshark");

/// Loss and reordering in both directions.
const HARM: [&str; 6] = ["--loss", "1%", "--reorder", "1%", "--seed", "7"];

/// A counter of the kernel's TCP in this namespace: in `file` a line of
/// names, then a line of values, both of them begun with `group`.
fn kernel_counter(file: &str, group: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|n| n == name).unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

fn fetches_intact(family: usize, harm: &'static [&'static str]) {
    in_namespace(&[CURL], move || {
        let (name, size) = SITE_LARGE;
        let expected = sha256(File::open(site().join(name)).unwrap());
        let server = Nearside::serve([&[site().to_str().unwrap(), "--link", TAP], harm].concat());
        let mut curl = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--globoff", "--max-time", "300"])
            .args(["--write-out", "%{stderr}%{http_code} %{size_download}"])
            .arg(format!("http://{}/{name}", STACK[family]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let got = sha256(curl.stdout.take().unwrap());
        let curl = curl.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&curl.stderr);
        assert!(curl.status.success(), "{}: {said}", curl.status);
        assert_eq!(said, format!("200 {size}"));
        assert_eq!(got, expected);
        assert_eq!(kernel_counter("snmp", "Tcp:", "InCsumErrors"), 0);
        if !harm.is_empty() {
            // A hundredth of some seventy thousand segments, each leaving a gap.
            let late = kernel_counter("netstat", "TcpExt:", "TCPOFOQueue");
            assert!(late > 500, "the harm did not strike: {late} segments out of order");
        }
        server.stop();
    });
}

#[test]
fn a_large_file_arrives_intact_over_ipv4() {
    fetches_intact(0, &[]);
}

#[test]
fn a_large_file_arrives_intact_over_ipv6() {
    fetches_intact(1, &[]);
}

#[test]
fn a_large_file_arrives_intact_over_ipv4_with_loss_and_reordering() {
    fetches_intact(0, &HARM);
}

#[test]
fn a_large_file_arrives_intact_over_ipv6_with_loss_and_reordering() {
    fetches_intact(1, &HARM);
}

/// A client whose address of the network is not settled yet (RFC 4862) asks from its
/// link-local one, which is on every link (RFC 4291 section 2.5.6): with a route of its
/// own or none, and where a gateway has all other routes.
#[test]
fn a_client_with_a_link_local_address_is_served() {
    for gateway in [&[][..], &["--gateway", "fd09::3"]] {
        in_namespace(&[CURL], move || {
            let server = Nearside::serve([&[site().to_str().unwrap(), "--link", TAP], gateway].concat());
            ip("-6 address flush dev near0 scope global");
            ip("-6 route replace fd09::/64 dev near0");
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail", "--globoff", "--max-time", "60", "--retry", "10"]);
            // None of its addresses may be settled at first.
            curl.args(["--retry-all-errors", "--output", "/dev/null", "--write-out", "%{local_ip} %{http_code}"]);
            let said = output(curl.arg(format!("http://{}/{}", STACK[1], SITE_SMALL.0)));
            assert!(said.starts_with("fe80::") && said.ends_with(" 200"), "{said}");
            server.stop();
        });
    }
}

/// What curl asks beside a plain GET, and what it must see.
#[test]
fn curl_understands_every_kind_of_answer() {
    in_namespace(&[CURL], || {
        let server = Nearside::serve([site().to_str().unwrap(), "--link", TAP]);
        let (name, size) = SITE_SMALL;
        let url = &*format!("http://{}/{name}", STACK[0]);
        let curl = |arguments: &[&str]| {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--max-time", "30", "--output", "/dev/null"]);
            output(curl.args(["--write-out", "%{http_code} %{size_download} %{num_connects}\n"]).args(arguments))
        };
        assert_eq!(curl(&[url]), format!("200 {size} 1\n"));
        assert_eq!(curl(&["--head", url]), "200 0 1\n");
        assert_eq!(curl(&["--range", "100-199", url]), "206 100 1\n");
        assert_eq!(curl(&["--range", &format!("{size}-"), url]).split(' ').next(), Some("416"));
        assert_eq!(curl(&["--http1.0", url]), format!("200 {size} 1\n"));
        assert_eq!(curl(&[&format!("{url}.not")]).split(' ').next(), Some("404"));
        assert_eq!(curl(&["--request", "DELETE", url]).split(' ').next(), Some("405"));
        // Two requests on one connection, the second conditional.
        let tag = output(Command::new("curl").args(["--silent", "--head", "--max-time", "30", url]));
        let tag = tag.lines().find_map(|line| line.strip_prefix("ETag: ").or(line.strip_prefix("etag: ")));
        let header = format!("If-None-Match: {}", tag.expect("an entity tag").trim());
        let two = ["--next", "--silent", "--output", "/dev/null", "--write-out", "%{http_code} %{num_connects}\n"];
        let two = [&[url][..], &two, &["--header", &header, url]].concat();
        assert_eq!(curl(&two), format!("200 {size} 1\n304 0\n"));
        server.stop();
    });
}

/// Wireshark's dissectors find nothing wrong with any frame of ours: with
/// the offloads off every length and checksum is our own.
#[test]
fn wireshark_finds_no_fault_in_our_frames() {
    in_namespace(&[CURL, TSHARK], || {
        let capture = scratch("wireshark").join("frames.pcapng");
        let capture_name = capture.to_str().unwrap();
        let link = format!("{TAP},offload=off");
        let server = Nearside::serve([site().to_str().unwrap(), "--link", &link, "--capture", capture_name]);
        for host in STACK {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail", "--globoff", "--max-time", "60", "--output", "/dev/null"]);
            curl.args(["--range", "0-999999"]).arg(format!("http://{host}/{}", SITE_LARGE.0));
            let _ = output(&mut curl);
        }
        server.stop();
        let tshark = |filter: &str| {
            let checks = ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum"];
            let checks = checks.iter().flat_map(|check| ["-o".to_owned(), format!("{check}:TRUE")]);
            output(Command::new("tshark").args(["-r", capture_name, "-Y", filter]).args(checks))
        };
        let ours = "(ip.src == 10.9.0.2 or ipv6.src == fd09::2) and tcp";
        let sent = tshark(ours).lines().count();
        assert!(sent >= 2_000_000 / 1_448, "two million bytes in {sent} segments");
        // Linux sends 0xffff where the sum is 0 (skb_checksum_help, net/core/dev.c),
        // of TCP as well, once in 65,536 frames; Wireshark calls it an error.
        let linux = "(ip.src == 10.9.0.1 or ipv6.src == fd09::1) and tcp.checksum == 0xffff";
        let wrong = "_ws.malformed or ip.checksum.status == \"Bad\" or tcp.checksum.status == \"Bad\" \
                     or icmpv6.checksum.status == \"Bad\" or _ws.expert.severity == \"Error\"";
        assert_eq!(tshark(&format!("({wrong}) and not ({linux})")), "");
        assert!(tshark("tcp.checksum.status == \"Good\"").lines().count() >= sent);
        std::fs::remove_file(capture).unwrap();
    });
}

/// A link that goes away for good ends the service, not the server.
#[test]
fn a_deleted_device_leaves_a_server_that_can_be_stopped() {
    in_namespace(&[CURL], || {
        let server = Nearside::serve([site().to_str().unwrap(), "--link", TAP]);
        let url = format!("http://{}/{}", STACK[0], SITE_LARGE.0);
        let slow = ["--silent", "--limit-rate", "1M", "--output", "/dev/null", &url];
        let curl = Running::start(Command::new("curl").args(slow));
        ip("link del near0");
        drop(curl);
        // What is under way cannot be finished, and is not waited for.
        server.stop_at_once();
    });
}
