//! Many starts over AF_XDP in four domains: the kernel pins the memory of
//! frames while it also moves pages for reasons of its own, and a start is to
//! bear that.

use super::Scenario;
use crate::Failure;
use crate::guest::{Guest, Running, nearside, write_file};
use crate::machine::{Domain, Machine, Port};
use std::path::Path;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "start",
    about: "AF_XDP on a port of each of four domains, started again and again: every start comes to serve",
    machines: &[Machine {
        name: "four domains with a port and a silo each",
        domains: &[Domain { cores: 1, memory: 512 }; 4],
        ports: &[
            Port::virtio(0, 1),
            Port::virtio(0, 1),
            Port::virtio(1, 1),
            Port::virtio(1, 1),
            Port::virtio(2, 1),
            Port::virtio(2, 1),
            Port::virtio(3, 1),
            Port::virtio(3, 1),
        ],
    }],
    modules: &["virtio_net"],
    limit: Duration::from_secs(1_200),
    prove,
};

const SITE: &str = "/tmp/site";
const STARTS: usize = 25;
/// What the server says of a try that it repeats.
const AGAIN: &str = "trying again";

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    write_file(Path::new(SITE), 1_000)?;
    let domains = guest.machine.domains.len();
    (0..domains).try_for_each(|domain| guest.join_client(domain))?;
    let mut again = 0;
    for start in 1..=STARTS {
        let mut command = nearside(["serve", "--listen", "80", "--silos", "0-3"]);
        for domain in 0..domains {
            command.args(["--link", &format!("af_xdp:port{}", 2 * domain), "--addr", &format!("10.78.{domain}.1/24")]);
        }
        let mut server = Running::start(command.arg(SITE))?;
        let serves = server.wait_until_said("serving");
        serves.map_err(|why| format!("start {start} of {STARTS}: {why}"))?;
        again += server.stop()?.matches(AGAIN).count();
    }
    guest.say(format!("{STARTS} starts of {domains} silos came to serve; {again} times the kernel was asked again"))
}
