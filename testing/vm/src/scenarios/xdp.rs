//! AF_XDP on a virtio port with several queues, a silo on each.

use super::Scenario;
use crate::Failure;
use crate::guest::{Guest, Running, fetch, in_namespace, nearside, silos_of, write_file};
use crate::machine::{Domain, Machine, Port};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "xdp",
    about: "AF_XDP on two queues of a virtio port: two silos serve its address, the kernel keeps the rest",
    machines: &[Machine {
        name: "one domain, a port with two queues",
        domains: &[Domain { cores: 3, memory: 768 }],
        ports: &[Port::virtio(0, 2), Port::virtio(0, 2)],
    }],
    modules: &["virtio_net"],
    limit: Duration::from_secs(300),
    prove,
};

const SITE: &str = "/tmp/site";
const SIZE: usize = 100_000;
const CONNECTIONS: usize = 20;

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    write_file(Path::new(SITE), SIZE)?;
    guest.join_client(0)?;
    for mode in ["native", "generic"] {
        let link = format!("af_xdp:port0,mode={mode}");
        let mut command = nearside(["serve", "--link", &link, "--silos", "0-1", "--addr", "10.78.0.1/24"]);
        let mut server = Running::start(command.args(["--listen", "80", SITE]))?;
        server.wait_until_said("serving")?;
        load().map_err(|why| server.blame(why))?;
        let requests: Result<Vec<u64>, Failure> = silos_of(&server)?
            .iter()
            .map(|silo| Ok(silo["app.requests"].as_u64().ok_or("no count of requests")?))
            .collect();
        let requests = requests?;
        guest.say(server.said()?)?;
        if requests.len() != 2 || requests.contains(&0) {
            return Err(server.blame(format!("requests of the silos: {requests:?}")));
        }
        guest.say(format!("{mode}: {CONNECTIONS} connections, requests of the silos: {requests:?}"))?;
        server.stop()?;
    }
    Ok(())
}

fn load() -> Result<(), Failure> {
    in_namespace("client0", || {
        let server: SocketAddr = "10.78.0.1:80".parse()?;
        (0..CONNECTIONS).try_for_each(|_| fetch(server, SIZE, 2))
    })
}
