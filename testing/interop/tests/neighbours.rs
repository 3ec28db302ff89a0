//! Addresses that change hands, and those that two have, with Linux as the
//! other one.

use interop::veth::{CLIENT, Far, OWN, OWN_HOSTS, SERVER};
use interop::{Nearside, Program, Running, SITE_SMALL, in_namespace, output, site, wait_for};
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
        wait_for("the new box's Ethernet address", SOON, || {
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
                wait_for(&format!("{address} {told}"), Duration::from_secs(30), || {
                    assert!(!server.has_ended(), "{}", server.said());
                    let said = server.said();
                    let conflict =
                        |line: &&str| line.contains("address conflict:") && line.contains(&format!(" {address};"));
                    said.lines().find(conflict).is_some_and(|line| line.contains(told) && line.contains(" GMT: "))
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
