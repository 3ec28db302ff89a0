//! Addresses that change hands, those that two have, and interfaces that come
//! and go, with Linux as the other one.

use interop::veth::{CLIENT, Far, OWN, OWN_HOSTS, SERVER};
use interop::{Nearside, Program, Running, SITE_SMALL, in_namespace, ip, output, scratch, site, wait_for};
use std::time::Duration;

const CURL: Program = Program::new("curl", "curl");

/// More than an announcement takes on a busy machine, and far less than the 38
/// to 46 s after which Linux looks for a neighbour that is not there any more.
const SOON: Duration = Duration::from_secs(10);

/// The Ethernet address of a box that is gone.
const GONE: &str = "02:00:00:00:00:99";

fn serve(arguments: &[&str]) -> Running {
    let link = format!("af_xdp:{SERVER}");
    let mut command = Nearside::command(["serve", site().to_str().unwrap(), "--link", &link, "--listen", "80"]);
    Running::start(command.args(arguments))
}

fn neighbours(far: &Far) -> String {
    output(far.command("ip").args(["neigh", "show", "dev", CLIENT]))
}

/// RFC 5227 section 2.3, RFC 4861 section 7.2.6: Linux, which has lately had
/// answers from another box, sends to this one as soon as it is announced.
#[test]
fn a_client_with_a_stale_neighbour_is_answered_once_the_address_was_taken_over() {
    in_namespace(&[CURL], || {
        let far = Far::new(1);
        for address in ["10.7.0.5", "fd07::5"] {
            far.ip(&format!("neigh replace {address} lladdr {GONE} dev {CLIENT} nud reachable"));
        }
        let mut server = serve(&OWN);
        wait_for("the new box's Ethernet address", || {
            assert!(!server.has_ended(), "{}", server.said());
            !neighbours(&far).contains(GONE)
        });
        for host in OWN_HOSTS {
            let url = format!("http://{host}/{}", SITE_SMALL.0);
            let limit = SOON.as_secs().to_string();
            let mut curl = far.command("curl");
            curl.args(["--silent", "--show-error", "--fail", "--globoff", "--max-time", &limit, "--output"]);
            let _ = output(curl.args(["/dev/null", &url]));
        }
        server.stop();
    });
}

/// RFC 5227 section 2.1.1, RFC 4862 section 5.4: what Linux has is not used
/// where it is asked for first; otherwise it is said, and defended.
#[test]
fn an_address_that_linux_has_is_told_of() {
    in_namespace(&[CURL], || {
        let far = Far::new(1);
        for (dad, told) in [("wait", "is not used here"), ("announce", "keeps and announces it")] {
            let mut server =
                serve(&["--dad", dad, "--addr", "10.7.0.2/24", "--addr", "fd07::2/64", "--addr", "10.7.0.5/24"]);
            for address in ["10.7.0.2", "fd07::2"] {
                wait_for(&format!("{address} {told}"), || {
                    assert!(!server.has_ended(), "{}", server.said());
                    let said = server.said();
                    let conflict =
                        |line: &&str| line.contains("address conflict:") && line.contains(&format!(" {address};"));
                    said.lines().find(conflict).is_some_and(|line| line.contains(told) && line.contains("Z warning: "))
                });
            }
            // The one that nobody else has is served, to those whose own
            // address is not ours as well.
            if dad == "wait" {
                far.wait_until_served(&mut server, &format!("http://10.7.0.5/{}", SITE_SMALL.0));
            }
            server.stop();
        }
    });
}

/// An interface that is deleted under a server: it is told with the time, and
/// seen in the status; one of the same name is taken up, announced, and served
/// on.
#[test]
fn a_deleted_interface_is_told_of_and_taken_up_when_it_is_back() {
    in_namespace(&[CURL], || {
        let page = scratch("deleted").join("page");
        let far = Far::new(1);
        let url = format!("http://10.7.0.5/{}", SITE_SMALL.0);
        let mut server = serve(&[&OWN[..], &["--status-page", page.to_str().unwrap()]].concat());
        far.wait_until_served(&mut server, &url);
        for round in 1..=2 {
            ip(&format!("link del {SERVER}"));
            wait_for("the loss to be told", || server.said().matches("link lost: af_xdp:near0").count() == round);
            assert!(server.said().contains("Z warning: link lost:"), "{}", server.said());
            wait_for("the loss in the status", || {
                let status = output(Nearside::command(["status", "--json"]).arg(&page));
                status.contains("\"link.lost\"") && !server.has_ended()
            });
            far.make_again();
            wait_for("the return to be told", || server.said().matches("link back:").count() == round);
            far.wait_until_served(&mut server, &url);
        }
        server.stop();
    });
}

/// The same with a TAP, and with the end asked for.
#[test]
fn a_deleted_tap_is_taken_up_or_is_the_end() {
    in_namespace(&[CURL], || {
        let make = || {
            ip("tuntap add dev near0 mode tap vnet_hdr");
            ip("addr add 10.9.0.1/24 dev near0");
            ip("link set near0 up");
        };
        let taps = |arguments: &[&str]| {
            let words = ["serve", "--respond", "it", "--link", "tap:near0", "--addr", "10.9.0.2/24", "--listen", "80"];
            let mut server = Running::start(Nearside::command(words).args(arguments));
            server.wait_until_open("10.9.0.2:80");
            server
        };
        make();
        let mut server = taps(&[]);
        ip("link del near0");
        wait_for("the loss to be told", || server.said().contains("Z warning: link lost: tap:near0"));
        make();
        wait_for("the return to be told", || server.said().contains("Z info: link back: tap:near0"));
        server.wait_until_open("10.9.0.2:80");
        server.stop();

        let mut server = taps(&["--on-link-loss", "end"]);
        ip("link del near0");
        wait_for("the end", || server.has_ended());
        let said = server.said();
        assert!(server.ended_well() == Some(false) && said.contains("--on-link-loss end"), "{said}");
    });
}
