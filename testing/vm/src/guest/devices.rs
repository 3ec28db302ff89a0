//! Ports, their interrupts, and clients at the far end of their cables.

use super::{Guest, ip, ip_in};
use crate::Failure;
use std::fs;

impl Guest {
    /// Puts the far end of cable `number` into a namespace `client<number>`
    /// as 10.78.number.2/24, and brings both ends up.
    ///
    /// # Errors
    /// If the machine has no such cable.
    pub fn join_client(&self, number: usize) -> Result<(), Failure> {
        let (near, far) = (2 * number, 2 * number + 1);
        if far >= self.machine.ports.len() {
            return Err(format!("the machine has no cable {number}").into());
        }
        let client = format!("client{number}");
        ip(&format!("netns add {client}"))?;
        ip(&format!("link set port{far} netns {client}"))?;
        ip_in(&client, &format!("addr add 10.78.{number}.2/24 dev port{far}"))?;
        ip_in(&client, &format!("link set port{far} up"))?;
        ip(&format!("link set port{near} up"))?;
        Ok(())
    }
}

/// Lets the receive interrupts of a port arrive at `core`.
///
/// # Errors
/// If it has none, or the kernel refuses.
pub fn steer_interrupts(port: usize, core: u32) -> Result<(), Failure> {
    let device = fs::read_link(format!("/sys/class/net/port{port}/device"))?;
    let device = device.file_name().and_then(|name| name.to_str()).ok_or("a port without a device")?.to_owned();
    let table = fs::read_to_string("/proc/interrupts")?;
    let mut found = false;
    for (number, name) in table.lines().filter_map(interrupt) {
        if name.starts_with(&format!("{device}-input.")) {
            fs::write(format!("/proc/irq/{number}/smp_affinity_list"), core.to_string())?;
            found = true;
        }
    }
    if !found {
        return Err(format!("port {port} ({device}) has no interrupts").into());
    }
    Ok(())
}

/// Bytes that a port has sent.
///
/// # Errors
/// If it does not count them.
pub fn transmitted(port: usize) -> Result<u64, Failure> {
    Ok(fs::read_to_string(format!("/sys/class/net/port{port}/statistics/tx_bytes"))?.trim().parse()?)
}

/// Number and name of an interrupt, from its line in `/proc/interrupts`.
fn interrupt(line: &str) -> Option<(u32, &str)> {
    let (number, rest) = line.split_once(':')?;
    Some((number.trim().parse().ok()?, rest.split_whitespace().next_back()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_have_a_number_and_a_name() {
        let line = " 28:       0      41   PCI-MSIX-0000:21:00.0   1-edge      virtio0-input.0";
        assert_eq!(interrupt(line), Some((28, "virtio0-input.0")));
        assert_eq!(interrupt("LOC:  12  13  Local timer interrupts"), None);
        assert_eq!(interrupt("           CPU0       CPU1"), None);
    }
}
