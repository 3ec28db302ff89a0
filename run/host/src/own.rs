//! Addresses that our stack cannot have, because the host has them.

use crate::drivers::LinkSpec;
use crate::plan::HostPlan;
use driver::{Kernel, Role};
use say::Failure;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

/// Refuses addresses that the host has on a link of which its kernel is a
/// part: both would answer, and each reset the other's connections.
///
/// # Errors
/// A sentence for the user, with the way out.
pub fn check(plan: &HostPlan) -> Result<(), Failure> {
    let Some(kernel) = plan.links.first().map(|link| link.driver.kernel()) else { return Ok(()) };
    let may_be_left_out = matches!(kernel, Kernel::Beside(_)) && !plan.opens && plan.links.len() == 1;
    let instead = match may_be_left_out {
        true => "leave --addr out, and what is served are the host's own addresses, or give one that nobody has",
        false => "give one that nobody has",
    };
    refuse(&kernel, plan.addresses.iter().map(|cidr| cidr.address), instead)
}

/// The same of a link and addresses that are a program's, which has addresses of its own.
///
/// # Errors
/// As [`check`]; what is no link is not told of here.
pub fn check_link(link: &str, addresses: impl Iterator<Item = IpAddr>) -> Result<(), Failure> {
    match LinkSpec::parse(link, Role::Server) {
        Ok(link) => refuse(&link.driver.kernel(), addresses, "give one that nobody has"),
        Err(_) => Ok(()),
    }
}

fn refuse(kernel: &Kernel, mut addresses: impl Iterator<Item = IpAddr>, instead: &str) -> Result<(), Failure> {
    if matches!(kernel, Kernel::Apart) {
        return Ok(());
    }
    let Some(ip) = addresses.find(|ip| is_hosts(*ip)) else { return Ok(()) };
    Err(format!("--addr {ip}: the host has this address, and its kernel answers for it on this link too; {instead}")
        .into())
}

/// Whether a socket of the host can have the address, and so the host has it.
fn is_hosts(ip: IpAddr) -> bool {
    !may_bind_any(ip) && may_bind(ip) && !(ip.is_ipv4() && may_bind(RESERVED))
}

fn may_bind(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// What no host has (RFC 1112 section 4). A network namespace without any IPv4
/// address takes all for broadcast addresses, to which sockets may be bound
/// (`__inet_dev_addr_type` in net/ipv4/fib_frontend.c): nothing is told then.
const RESERVED: IpAddr = IpAddr::V4(Ipv4Addr::new(240, 0, 0, 1));

/// Whether the host's sockets may have addresses that are not the host's
/// (ip_nonlocal_bind in the kernel's ip-sysctl.rst): nothing is told then.
fn may_bind_any(ip: IpAddr) -> bool {
    let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
    let setting = Path::new("/proc/sys/net").join(family).join("ip_nonlocal_bind");
    std::fs::read_to_string(setting).is_ok_and(|value| value.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(link: &str, address: &str) -> Option<String> {
        let link = LinkSpec::parse(link, Role::Server).unwrap();
        let plan = HostPlan { addresses: vec![address.parse().unwrap()], ..HostPlan::new(vec![link]) };
        check(&plan).err().map(|why| why.to_string())
    }

    #[test]
    fn the_hosts_own_addresses_are_refused_where_its_kernel_is_on_the_link() {
        // The one address that every host has.
        let of_host = "127.0.0.1/8";
        let xdp = refused("af_xdp:near0", of_host).expect("refused");
        assert!(xdp.contains("leave --addr out") && xdp.contains("127.0.0.1"), "{xdp}");
        let tap = refused("tap:near0", of_host).expect("refused");
        assert!(!tap.contains("leave --addr out"), "{tap}");
        assert_eq!(refused("memif:near0", of_host), None);
        let of_program = |link: &str| check_link(link, ["127.0.0.1".parse().unwrap()].into_iter()).err();
        assert!(of_program("tap:near0").is_some() && of_program("memif:near0").is_none());
        // TEST-NET-3 (RFC 5737).
        assert_eq!(refused("af_xdp:near0", "203.0.113.77/24"), None);
    }

    #[test]
    fn where_there_is_no_address_none_is_the_hosts() {
        let apart = std::thread::spawn(|| {
            // SAFETY: the thread alone has the new network, and ends with it.
            let made = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
            made.map(|()| refused("af_xdp:near0", "203.0.113.77/24"))
        });
        match apart.join().unwrap() {
            Ok(said) => assert_eq!(said, None),
            Err(why) => println!("left out: no network namespace of its own ({why})"),
        }
    }
}
